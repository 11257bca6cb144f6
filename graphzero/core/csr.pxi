# The topology: degrees, one hop of sampling, walks, negatives, and translation of ids.

cdef enum:
    WALKED_AHEAD_FROM = 65536  # walkers: fewer do not keep the disk busy between two steps
    WALKED_AT_ONCE = 1 << 20   # of them: each takes up to 64 bytes meanwhile,
    BYTES_OF_A_WALKER = 512    # of the file: memory without room for it has little for them
    WAITING_WALKERS = 64       # threads
    LEAST_WALKERS = 8          # of each thread


cdef uint64_t _walk_lane(const gz_mapping *mapping, const gz_csr *csr, const gz_walk *walk,
                         const gz_walks *walks, bint to_user, bint trust_mincore, gz_pick *pages,
                         gz_pick *picks, gz_pick *scratch, int64_t begin,
                         int64_t end) noexcept nogil:
    cdef gz_page_ahead ahead = _ahead_of(mapping, trust_mincore, pages)
    return gz_walk_ahead(&ahead, csr, walk, walks, to_user, picks, scratch, begin, end)


cdef class CSR:
    """Adjacency of one mapped ``.gl`` file; every id here is a *stored* id."""
    cdef gz_csr c
    cdef readonly Mapping mapping
    cdef readonly dict header

    def __cinit__(self, Mapping mapping):
        cdef gz_header header
        cdef gz_error err
        self.mapping = mapping
        mapping.acquire()
        try:
            _read_header(mapping, GZ_KIND_GRAPH, &header)
            if gz_csr_from_header(&header, &mapping.c, &self.c, &err) != GZ_OK:
                _raise(&err, mapping.path)
            self.header = _header_to_dict(&header)
        finally:
            mapping.release()

    @property
    def num_nodes(self):
        return self.c.num_nodes

    @property
    def num_edges(self):
        return self.c.num_edges

    @property
    def num_neighbors(self):
        """Nodes that neighbours may be: `num_nodes`, but for an edge type."""
        return self.c.num_neighbors

    @property
    def is_typed(self):
        """Whether neighbours are ids of another set of nodes: an edge type of a typed graph."""
        return self.c.typed

    cdef int _refuse_typed(self) except -1:
        """What takes neighbours for nodes would read beyond the lists of an edge type."""
        if self.c.typed:
            raise ValueError(
                f"{self.mapping.path} is an edge type of a typed graph: its neighbours are ids of "
                f"another set of nodes, so walks, negatives and untyped batches have no meaning")
        return 0

    def require_weights(self):
        """Raises `ValueError` where the file has no sums of weights to draw by."""
        if self.c.cum_weights == NULL:
            raise ValueError(
                f"{self.mapping.path} has no weights to draw by: build it with a weight column, "
                f"or draw without weights")

    def require_time_order(self):
        """Raises `ValueError` where the file has no order of times to sample by."""
        if self.c.times == NULL:
            raise ValueError(
                f"{self.mapping.path} has no timestamps to sample by: build it with a timestamp "
                f"column, or sample without times")
        if self.c.time_order.data == NULL:
            raise ValueError(
                f"{self.mapping.path} has timestamps but was built without their order: build it "
                f"again, or sample without times")

    def degrees(self, const int64_t[::1] nodes, int num_threads):
        """Stored degrees, (n,) int64."""
        cdef int64_t n = nodes.shape[0], i
        cdef uint64_t corrupt = 0
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.acquire_whole(n)
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                corrupt += gz_csr_degrees(&self.c, &nodes[0], i * ITEMS_PER_RANGE, _end(i, n),
                                          &view[0])
        finally:
            self.mapping.release()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def sample_hop(self, const int64_t[::1] nodes, int64_t fanout, object sampling, Draws draws,
                   int num_threads, bint by_seed=False):
        """One hop of sampling.

        Parameters
        ----------
        nodes : (n,) int64
        fanout : int
            Neighbours per node; -1 for all.
        sampling : Sampling
            Only its kind and replace are used.
        draws : Draws
            Draws of the hop.
        num_threads : int
        by_seed : bool
            Repeated nodes draw independently of each other.

        Returns
        -------
        offsets : (n + 1,) int64
            The edges of nodes[i] are [offsets[i], offsets[i + 1]).
        positions : (num_edges,) int64
            Stored positions of the drawn edges.
        neighbors : (num_edges,) int64
            Stored ids at these positions.
        """
        cdef gz_hop hop
        cdef int64_t n = nodes.shape[0], num_edges, i
        cdef uint64_t corrupt = 0
        cdef int threads = _threads(num_threads, n)
        cdef gz_frontier frontier
        frontier.nodes = &nodes[0]
        frontier.trees = NULL
        hop.fanout = fanout
        hop.rule = _rule_of(sampling, False, by_seed)
        hop.draws = draws.c
        if hop.rule.kind != NULL and hop.rule.kind.needs_weights:
            self.require_weights()
        offsets = np.zeros(n + 1, dtype=np.int64)
        cdef unsigned char[::1] memory = empty((n + 1) * sizeof(gz_list), np.uint8)
        cdef gz_list *lists = <gz_list *> &memory[0]
        cdef int64_t[::1] offsets_view = offsets, positions_view, neighbors_view
        self.mapping.acquire_whole(n)
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=threads):
                corrupt += gz_hop_counts(&self.c, &hop, &frontier, i * ITEMS_PER_RANGE, _end(i, n),
                                         lists, &offsets_view[1])
            _refuse_corrupt(corrupt, self.mapping.path)
            if not gz_running_sums(&offsets_view[0], 0, n):
                raise MemoryError("more than 2^63 edges")
            num_edges = offsets_view[n]
            # positions, stored neighbours and the user's ids of these
            require_memory(num_edges, 3 * sizeof(int64_t), "edges")
            positions, neighbors = empty(num_edges, np.int64), empty(num_edges, np.int64)
            positions_view, neighbors_view = positions, neighbors
            for i in prange(_ranges(n), nogil=True, num_threads=threads):
                corrupt += gz_hop_positions(&self.c, &hop, &frontier, lists, &offsets_view[0],
                                            i * ITEMS_PER_RANGE, _end(i, n), &positions_view[0])
                corrupt += gz_csr_read_neighbors(
                    &self.c, &positions_view[0], offsets_view[i * ITEMS_PER_RANGE],
                    offsets_view[_end(i, n)], &neighbors_view[0])
        finally:
            self.mapping.release()
        _refuse_corrupt(corrupt, self.mapping.path)
        return offsets, positions, neighbors

    def walk(self, const int64_t[::1] start, int64_t length, double p, double q, uint64_t key,
             int num_threads, bint weighted=False, double restart=0.0, bint to_user=False,
             bint repeat=False, int64_t ahead_from=8192, bint trust_mincore=True):
        """Random walks from stored ids, (n, length + 1) int64: of the user's ids with `to_user`.

        After a dead end follows -1, or with `repeat` the last node. Calls of `ahead_from` steps or
        more (0: none) look whether the file is in memory. If it is not, many walkers step together,
        and their pages are read ahead; few are walked by many threads, each with as many as the
        others, whose page faults wait for the disk together.
        """
        cdef int64_t n = start.shape[0], i, begin, end, each
        cdef int64_t at_once = max(WALKED_AHEAD_FROM // 4, min(
            WALKED_AT_ONCE, <int64_t> self.mapping.c.size // BYTES_OF_A_WALKER))
        cdef uint64_t corrupt = 0
        cdef int missing = 0
        cdef int threads = num_threads if gz_may_use_threads() else 1
        cdef gz_walk walk
        cdef gz_walks walks
        walk.key, walk.p, walk.q, walk.restart, walk.weighted = key, p, q, restart, weighted
        self._refuse_typed()
        if weighted:
            self.require_weights()
        require_memory(max(n, 1) * (<object> length + 1), sizeof(int64_t), "steps")
        to_user = to_user and self.c.node_ids.data != NULL
        out = empty((n, length + 1), np.int64)
        cdef int64_t[::1] view = out.reshape(-1)
        walks.start, walks.out, walks.length, walks.picks = &start[0], &view[0], length, NULL
        walks.first_step, walks.end_step, walks.states = 0, length, NULL
        before = self.mapping.advice
        self.mapping.acquire_whole(n)
        try:
            if 0 < ahead_from <= n * length:
                missing = self._missing_looks(trust_mincore)
            if missing > 0 and before != "random":
                # page faults that read around their page would drop what is needed
                self.mapping.advise("random")
            if n >= WALKED_AHEAD_FROM and missing >= GZ_LOOKS // 4:
                for begin in range(0, n, at_once):
                    end = min(begin + at_once, n)
                    corrupt += self._walk_ahead(&walk, &walks, begin, end, threads, to_user,
                                                trust_mincore)
                to_user, n = False, 0
            elif missing > 0 and gz_may_use_threads():
                threads = max(threads, WAITING_WALKERS)
            each = min(max(n // threads + 1, LEAST_WALKERS), ITEMS_PER_RANGE)
            threads = min(threads, max(n // each, 1))
            for i in prange((n + each - 1) // each, nogil=True, num_threads=threads):
                begin, end = i * each, (i + 1) * each if (i + 1) * each < n else n
                corrupt += gz_walk_steps(&self.c, &walk, &walks, begin, end)
                if to_user:
                    corrupt += gz_translate(&self.c.node_ids, self.c.num_nodes, &view[0],
                                            begin * (length + 1), end * (length + 1), &view[0])
            if repeat:
                with nogil:
                    gz_repeat_last(&view[0], 0, start.shape[0], length)
        finally:
            self.mapping.release()
            if self.mapping.advice != before:
                self.mapping.advise(before)
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    cdef int _missing_looks(self, bint trust_mincore):
        """How many pages, of GZ_LOOKS of the lists and of their table, are not in memory."""
        cdef gz_ids table = self.c.indptr, lists = self.c.indices
        return max(
            gz_missing_looks(&self.mapping.c, lists.data,
                             self.c.num_edges * (8 if lists.wide else 4), trust_mincore),
            gz_missing_looks(&self.mapping.c, table.data,
                             self.c.num_nodes * (8 if table.wide else 4), trust_mincore))

    cdef uint64_t _walk_ahead(self, const gz_walk *walk, gz_walks *walks, int64_t begin,
                              int64_t end, int num_threads, bint to_user,
                              bint trust_mincore) except? -1:
        """Walks [begin, end) with page read-ahead: each thread takes as many as the others.

        Second-order steps have pages that are not known before; their threads wait for these.
        """
        cdef bint second_order = walk.p != 1.0 or walk.q != 1.0
        cdef int lanes = max(num_threads, 4) if second_order else num_threads, lane
        cdef uint64_t corrupt = 0
        cdef int64_t n = end - begin
        lanes = max(1, min(lanes, n // GZ_AHEAD_BLOCK)) if gz_may_use_threads() else 1
        cdef unsigned char[::1] picks = _picks(n), scratch = _picks(n)
        cdef unsigned char[::1] pages = _picks(2 * lanes * GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES)
        cdef unsigned char[::1] states = empty(
            n * sizeof(gz_walker_state) if second_order else 1, np.uint8)
        if second_order:
            walks.states, walks.first_state = <gz_walker_state *> &states[0], begin
        for lane in prange(lanes, nogil=True, num_threads=lanes, schedule="static"):
            corrupt += _walk_lane(&self.mapping.c, &self.c, walk, walks, to_user, trust_mincore,
                                  <gz_pick *> &pages[0]
                                  + 2 * lane * GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES,
                                  <gz_pick *> &picks[0] + n * lane // lanes,
                                  <gz_pick *> &scratch[0] + n * lane // lanes,
                                  begin + n * lane // lanes, begin + n * (lane + 1) // lanes)
        return corrupt

    def negative_counts(self, const int64_t[::1] nodes, const int64_t[::1] others,
                        int num_threads, bint bipartite=False):
        """How many nodes are not the node, its neighbour or the other, (n,) int64.

        With `bipartite`, neighbours are of another node type, and only they are not counted.
        """
        cdef gz_csr csr = self.c
        if not bipartite and csr.num_nodes != csr.num_neighbors:
            self._refuse_typed()
        csr.bipartite = bipartite
        cdef int64_t n = nodes.shape[0], i
        cdef uint64_t corrupt = 0
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.acquire_whole()
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                corrupt += gz_negative_counts(&csr, &nodes[0], &others[0],
                                              i * ITEMS_PER_RANGE, _end(i, n), &view[0])
        finally:
            self.mapping.release()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def negative_destinations(self, const int64_t[::1] sources, const int64_t[::1] positives,
                              int64_t amount, uint64_t key, bint bipartite=False):
        """Destinations to which their source has no edge, (n * amount,) int64; -1 if none."""
        cdef gz_csr csr = self.c
        if not bipartite and csr.num_nodes != csr.num_neighbors:
            self._refuse_typed()
        csr.bipartite = bipartite
        cdef uint64_t corrupt
        require_memory(sources.shape[0] * <object> amount, 2 * sizeof(int64_t), "negatives")
        cdef int64_t n = sources.shape[0] * amount
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.acquire_whole()
        try:
            with nogil:
                corrupt = gz_negative_destinations(&csr, key, &sources[0], &positives[0],
                                                   amount, 0, n, &view[0])
        finally:
            self.mapping.release()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def negative_pairs(self, int64_t count, const int64_t[::1] offsets, uint64_t key,
                       bint bipartite=False):
        """Pairs that are no edges, (2, count) int64; offsets may be empty (see negatives.h)."""
        cdef gz_csr csr = self.c
        if not bipartite and csr.num_nodes != csr.num_neighbors:
            self._refuse_typed()
        csr.bipartite = bipartite
        cdef uint64_t corrupt
        cdef const int64_t *bounds = NULL
        require_memory(count, 4 * sizeof(int64_t), "negatives")
        if offsets.shape[0] > 0:
            bounds = &offsets[0]
        out = np.empty((2, count), dtype=np.int64)
        cdef int64_t[:, ::1] view = out
        self.mapping.acquire_whole()
        try:
            with nogil:
                corrupt = gz_negative_pairs(&csr, key, bounds, 0, count, &view[0, 0],
                                            &view[1, 0])
        finally:
            self.mapping.release()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def to_stored(self, ids, int num_threads=1):
        """Stored ids of the user's ids; the same array if the file keeps the user's order."""
        if self.c.node_rank.data == NULL:
            return ids
        return _translate(self.mapping, &self.c.node_rank, self.c.num_nodes, ids, num_threads)

    def user_table(self):
        """Table of the user's ids by stored id; None if the file keeps the user's order."""
        if self.c.node_ids.data == NULL:
            return None
        return _table_of(self.mapping, &self.c.node_ids, self.c.num_nodes)

    def edge_table(self):
        """Table of positions in the user's edge list by stored position; None if not stored."""
        if self.c.edge_ids.data == NULL:
            return None
        return _table_of(self.mapping, &self.c.edge_ids, self.header["num_input_edges"])

    def to_user(self, ids, int num_threads=1):
        """The user's ids of stored ids; -1 stays -1."""
        table = self.user_table()
        return ids if table is None else table.translate(ids, num_threads)

    def edge_ids(self, positions, int num_threads=1):
        """Positions in the user's edge list of edges at stored positions; None if not stored."""
        table = self.edge_table()
        return None if table is None else table.translate(positions, num_threads)
