# Checks of sections for ``graphzero verify``: the first faulty entry of a range, or -1 if none is.

cdef extern from "graphzero/check_lists.h" nogil:
    ctypedef struct gz_edge_lists:
        gz_ids indptr
        uint64_t num_lists
        uint64_t num_neighbors
        gz_ids indices
        const float *weights
        const double *cum_weights
        const int64_t *times
        gz_ids time_order
        gz_ids edge_ids
    int64_t gz_first_descent(const gz_ids *ids, uint64_t most, int64_t begin, int64_t end)
    int64_t gz_first_beyond(const gz_ids *ids, uint64_t limit, int64_t begin, int64_t end)
    int64_t gz_first_not_inverse(const gz_ids *ids, const gz_ids *ranks, uint64_t count,
                                 int64_t begin, int64_t end)
    int64_t gz_first_bad_weight(const float *weights, int64_t begin, int64_t end)
    int64_t gz_first_unsorted(const gz_edge_lists *lists, int64_t begin, int64_t end)
    int64_t gz_first_bad_sum(const gz_edge_lists *lists, int64_t begin, int64_t end)
    int64_t gz_first_untimely(const gz_edge_lists *lists, int64_t begin, int64_t end)


cdef int _as_ids(object array, gz_ids *out) except -1:
    """Points at an array of ids; the caller keeps the array."""
    cdef const unsigned char[::1] data
    if array.dtype.str not in ("<u4", "<u8") or array.ndim != 1:
        raise TypeError(f"ids are uint32 or uint64 vectors, not {array.dtype}")
    data = array.view(np.uint8)
    out.data = &data[0] if array.shape[0] > 0 else NULL
    out.wide = array.dtype.itemsize == 8
    return 0


cdef int _require_range(int64_t begin, int64_t end, int64_t count) except -1:
    if not 0 <= begin <= end <= count:
        raise IndexError(f"[{begin}, {end}) is not a range of {count} entries")
    return 0


def first_descent(ids, uint64_t most, int64_t begin, int64_t end):
    """First entry that is below the previous one, or above `most`."""
    cdef gz_ids c
    cdef int64_t at
    _as_ids(ids, &c)
    _require_range(begin, end, len(ids))
    with nogil:
        at = gz_first_descent(&c, most, begin, end)
    return -1 if at == end else at


def first_beyond(ids, uint64_t limit, int64_t begin, int64_t end):
    """First entry that is not below `limit`."""
    cdef gz_ids c
    cdef int64_t at
    _as_ids(ids, &c)
    _require_range(begin, end, len(ids))
    with nogil:
        at = gz_first_beyond(&c, limit, begin, end)
    return -1 if at == end else at


def first_not_inverse(ids, ranks, int64_t begin, int64_t end):
    """First entry i with ``ranks[ids[i]] != i``; the tables have equally many entries."""
    cdef gz_ids c, c_ranks
    cdef int64_t at
    cdef uint64_t count = len(ids)
    _as_ids(ids, &c)
    _as_ids(ranks, &c_ranks)
    _require_range(begin, end, len(ids))
    if len(ranks) != len(ids):
        raise ValueError(f"{len(ids)} ids have {len(ranks)} ranks")
    with nogil:
        at = gz_first_not_inverse(&c, &c_ranks, count, begin, end)
    return -1 if at == end else at


def first_bad_weight(const float[::1] weights, int64_t begin, int64_t end):
    """First weight that is negative or not finite."""
    cdef int64_t at
    _require_range(begin, end, weights.shape[0])
    with nogil:
        at = gz_first_bad_weight(&weights[0], begin, end)
    return -1 if at == end else at


cdef class EdgeLists:
    """The sections of a ``.gl`` by stored edge.

    Parameters
    ----------
    num_neighbors : int
    sections : mapping of str to array
        "indptr" and "indices", and those of "weights", "cum_weights", "times", "time_order" and
        "edge_ids" that are to be checked. `first_descent` has found no fault in "indptr".
    """
    cdef gz_edge_lists c
    cdef dict arrays  # keeps the memory
    cdef int64_t num_edges

    def __cinit__(self, uint64_t num_neighbors, sections):
        cdef const float[::1] weights
        cdef const double[::1] sums
        cdef const int64_t[::1] times
        memset(&self.c, 0, sizeof(self.c))
        self.arrays = dict(sections)
        indptr = self.arrays["indptr"]
        self.num_edges = len(self.arrays["indices"])
        if len(indptr) < 1 or indptr[0] != 0 or indptr[len(indptr) - 1] != self.num_edges:
            raise ValueError(f"indptr does not go from 0 to {self.num_edges}")
        if any(len(array) != self.num_edges for name, array in sections.items()
               if name != "indptr"):
            raise ValueError("sections have different numbers of edges")
        self.c.num_lists, self.c.num_neighbors = len(indptr) - 1, num_neighbors
        _as_ids(indptr, &self.c.indptr)
        _as_ids(self.arrays["indices"], &self.c.indices)
        if "time_order" in self.arrays:
            _as_ids(self.arrays["time_order"], &self.c.time_order)
        if "edge_ids" in self.arrays:
            _as_ids(self.arrays["edge_ids"], &self.c.edge_ids)
        if "weights" in self.arrays and self.num_edges > 0:
            weights = self.arrays["weights"]
            self.c.weights = &weights[0]
        if "cum_weights" in self.arrays and self.num_edges > 0:
            sums = self.arrays["cum_weights"]
            self.c.cum_weights = &sums[0]
        if "times" in self.arrays and self.num_edges > 0:
            times = self.arrays["times"]
            self.c.times = &times[0]

    def first_unsorted(self, int64_t begin, int64_t end):
        """First neighbour out of range, or below the previous one of its list."""
        cdef int64_t at
        _require_range(begin, end, self.num_edges)
        with nogil:
            at = gz_first_unsorted(&self.c, begin, end)
        return -1 if at == end else at

    def first_bad_sum(self, int64_t begin, int64_t end):
        """First entry of "cum_weights" that does not follow from the one before and "weights"."""
        cdef int64_t at
        self._require("weights", "cum_weights")
        _require_range(begin, end, self.num_edges)
        with nogil:
            at = gz_first_bad_sum(&self.c, begin, end)
        return -1 if at == end else at

    def first_untimely(self, int64_t begin, int64_t end):
        """First entry of "time_order" out of range, or not after the one before."""
        cdef int64_t at
        self._require("times", "time_order")
        _require_range(begin, end, self.num_edges)
        with nogil:
            at = gz_first_untimely(&self.c, begin, end)
        return -1 if at == end else at

    def _require(self, *names):
        missing = [name for name in names if name not in self.arrays]
        if missing:
            raise ValueError(f"the lists lack {missing[0]!r}")
