# Rows of sources, streamed in the order of their file, added to the destinations of their edges.

_REDUCES = {"sum": GZ_SUM, "mean": GZ_SUM, "max": GZ_MAX, "min": GZ_MIN, "attention": GZ_ATTENTION}
_BEGINS = {"max": -np.inf, "min": np.inf}


def mark_sources(CSR csr, uint64_t begin, uint64_t end, uint64_t group):
    """Which groups of sources have an edge to nodes [begin, end), bool.

    Parameters
    ----------
    csr : CSR
        Of incoming edges.
    begin, end : int
    group : int
        Sources in a group.
    """
    if begin > end or end > csr.c.num_nodes or group < 1:
        raise ValueError("no such nodes, or no group")
    marks = np.zeros((csr.c.num_neighbors + group - 1) // group + 1, np.uint8)
    cdef uint8_t[::1] view = marks
    cdef uint64_t corrupt
    csr.mapping.acquire_whole()
    try:
        with nogil:
            corrupt = gz_mark_sources(&csr.c, begin, end, group, &view[0])
    finally:
        csr.mapping.release()
    _refuse_corrupt(corrupt, csr.mapping.path)
    return marks.view(np.bool_)


cdef class BlockSums:
    """What is added to the destinations [begin, end) of a graph with lists of incoming edges.

    Parameters
    ----------
    csr : CSR
    begin, end : int
    reduce : str
        "sum", "mean" (the sum, to be divided), "max", "min" or "attention".
    width : int
        Numbers of a source that are added.
    wide_from : int
        Edges from which a destination has sums in float64.
    skips_loops : bool
    weights : (edges of the block,) float32, optional
    scores : (end - begin, heads) float32, optional
        Of destinations, for attention.
    negative_slope : float

    Attributes
    ----------
    sums, wide_sums : (n, width + 2 * heads) float32 and float64
        Of the destinations that have edges, in their order: with few edges, and with many.
    degrees : (end - begin,) int64
    is_narrow, is_wide : (end - begin,) bool
        Which destinations these are.
    places : (end - begin,) int64
        Their rows; -1, -2, ... are rows 0, 1, ... of the wide ones.
    """
    cdef gz_block_sums c
    cdef CSR csr
    cdef readonly int64_t begin
    cdef readonly object sums, wide_sums, degrees, is_narrow, is_wide, places
    cdef object arrays

    def __cinit__(self, CSR csr, int64_t begin, int64_t end, str reduce, int64_t width, *,
                  int64_t wide_from, bint skips_loops=False, weights=None, scores=None,
                  float negative_slope=0.0):
        cdef uint64_t[::1] cursors
        cdef int64_t[::1] places
        cdef float[:, ::1] sums
        cdef double[:, ::1] wide
        cdef const float[:, ::1] score
        cdef const float[::1] weight
        cdef int64_t count = end - begin, heads = 0 if scores is None else scores.shape[1], i
        if begin < 0 or count < 1 or <uint64_t> end > csr.c.num_nodes or width < 1:
            raise ValueError("no such destinations, or no numbers to add")
        self.csr = csr
        csr.mapping.acquire_whole()
        try:
            indptr = np.empty(count + 1, np.uint64)
            cursors = indptr
            for i in range(count + 1):
                cursors[i] = gz_id(&csr.c.indptr, begin + i)
        finally:
            csr.mapping.release()
        self.degrees = np.diff(indptr.astype(np.int64))
        if indptr[count] > csr.c.num_edges or self.degrees.min() < 0:
            raise FormatError(f"{csr.mapping.path} is corrupt: build it again")
        self.is_wide = self.degrees >= wide_from
        self.is_narrow = (self.degrees > 0) & ~self.is_wide
        numbers = np.cumsum(self.is_narrow) - 1
        numbers[self.is_wide] = -np.arange(1, 1 + np.count_nonzero(self.is_wide))
        numbers[self.degrees == 0] = 0
        first = np.zeros(width + 2 * heads)
        first[:width] = _BEGINS.get(reduce, 0.0)
        first[width + heads:] = -np.inf
        self.sums = np.empty((max(1, np.count_nonzero(self.is_narrow)), len(first)), np.float32)
        self.wide_sums = np.empty((max(1, np.count_nonzero(self.is_wide)), len(first)))
        self.sums[:], self.wide_sums[:] = first, first
        if weights is not None and len(weights) != indptr[count] - indptr[0]:
            raise ValueError("every edge of the block has a weight")
        if heads and (scores.shape[0] != count or width % heads):
            raise ValueError("every destination has a score for each head, and a head its numbers")
        if heads == 0 and reduce == "attention":
            raise ValueError("attention has scores of destinations")
        places, sums, wide = numbers, self.sums, self.wide_sums
        self.c.first_weight = indptr[0]
        self.c.csr, self.c.first_node = &csr.c, begin
        self.c.cursors, self.c.places = &cursors[0], &places[0]
        self.c.sums, self.c.wide_sums = &sums[0, 0], &wide[0, 0]
        self.c.reduce, self.c.skips_loops = _REDUCES[reduce], skips_loops
        self.c.width, self.c.heads, self.c.negative_slope = width, heads, negative_slope
        self.c.weights, self.c.scores = NULL, NULL
        if weights is not None and len(weights):
            weight = weights
            self.c.weights = &weight[0]
        if heads:
            score = scores
            self.c.scores = &score[0, 0]
        self.begin, self.places = begin, numbers
        self.arrays = indptr, weights, scores

    def add(self, const float[:, ::1] rows, uint64_t first, int64_t begin, int64_t end):
        """Adds the rows of sources from `first` on to destinations [begin, end) of the block.

        Calls for other destinations may run at the same time. Sources have to come in ascending
        order.

        Raises
        ------
        FormatError
            If an entry of the lists is out of range.
        """
        cdef uint64_t corrupt, last = first + rows.shape[0]
        if begin < 0 or end > len(self.degrees) or last > self.csr.c.num_neighbors or (
                <uint64_t> rows.shape[1] != self.c.width + self.c.heads):
            raise ValueError("no such destinations, or rows that do not fit")
        if begin >= end or rows.shape[0] == 0:
            return
        self.csr.mapping.acquire_whole()
        try:
            with nogil:
                corrupt = gz_block_add(&self.c, &rows[0, 0], first, last, begin, end)
        finally:
            self.csr.mapping.release()
        _refuse_corrupt(corrupt, self.csr.mapping.path)

    def check_complete(self):
        """Raises FormatError unless every edge was added: lists have to ascend."""
        cursors = self.arrays[0]
        ends = int(self.c.first_weight) + np.cumsum(self.degrees)
        has_edges = self.degrees > 0
        if (cursors[:len(ends)].astype(np.int64) != ends)[has_edges].any():
            raise FormatError(f"{self.csr.mapping.path} has lists that do not ascend, or ids out "
                              f"of range: build it again")
