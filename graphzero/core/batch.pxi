# Whole mini-batches: all hops, relabelled.

MOST_HOPS = GZ_MOST_HOPS


cdef class Batch:
    """Samples whole mini-batches in one thread; owns their working memory.

    Not thread-safe: every sampling thread needs its own.
    """
    cdef gz_batch c

    def __cinit__(self):
        gz_batch_init(&self.c)

    def __dealloc__(self):
        gz_batch_free(&self.c)

    def sample(self, CSR csr, const int64_t[::1] seeds, const int64_t[::1] fanouts,
               object sampling, Draws draws, const int64_t[::1] until=None,
               object readahead=None):
        """All hops of one mini-batch, relabelled.

        Parameters
        ----------
        seeds : (n,) int64
        fanouts : (num_hops,) int64
        sampling : Sampling
        draws : Draws
            Draws of the batch.
        until : (n,) int64, optional
            Time of each seed; implies disjoint trees.
        readahead : HopReadAhead, optional
            Requests the topology of each hop before it is read.

        Returns
        -------
        nodes : (num_nodes,) int64
            Stored ids, seeds first.
        edge_index : (2, num_edges) int64
            Local ids of neighbours and targets.
        positions : (num_edges,) int64
            Stored positions of the edges.
        trees : (num_nodes,) int64 or None
            The tree of each node; None without disjoint trees.
        num_sampled_nodes, num_sampled_edges : list of int
        pages_missed : int
            Pages of topology that were missing and requested by `readahead`.
        """
        cdef gz_plan plan
        cdef gz_hop_readahead ahead
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t corrupt
        cdef int64_t n = seeds.shape[0], h
        plan.fanouts = &fanouts[0]
        plan.num_hops = fanouts.shape[0]
        plan.rule = _rule_of(sampling, until is not None, False)
        plan.disjoint = sampling.disjoint or until is not None
        plan.induced = sampling.subgraph_type == "induced"
        plan.draws = draws.c
        plan.until = NULL
        plan.readahead = NULL
        if readahead is not None:
            ahead.mapping = &csr.mapping.c
            ahead.mode = GZ_WILLNEED_MISSING if readahead.trust_mincore else GZ_WILLNEED_ALL
            ahead.resident_nodes = readahead.resident_nodes
            plan.readahead = &ahead
        if until is not None:
            if until.shape[0] != n:
                raise ValueError("until must have a time for each seed")
            plan.until = &until[0]
            csr.require_time_order()
        if plan.rule.kind != NULL and plan.rule.kind.needs_weights:
            csr.require_weights()
        csr.mapping.acquire_whole()
        try:
            with nogil:
                code = gz_batch_sample(&self.c, &csr.c, &plan, &seeds[0], n, &corrupt, &err)
        finally:
            csr.mapping.release()
        if code != GZ_OK:
            _raise(&err, csr.mapping.path)
        _refuse_corrupt(corrupt, csr.mapping.path)
        edge_index = empty((2, self.c.num_edges), np.int64)
        cdef int64_t[:, ::1] view = edge_index
        if self.c.num_edges > 0:
            with nogil:
                memcpy(&view[0, 0], self.c.sources, self.c.num_edges * sizeof(int64_t))
                memcpy(&view[1, 0], self.c.targets, self.c.num_edges * sizeof(int64_t))
        return (_copy(self.c.nodes, self.c.num_nodes), edge_index,
                _copy(self.c.positions, self.c.num_edges),
                _copy(self.c.trees, self.c.num_nodes) if plan.disjoint else None,
                [self.c.hop_nodes[h] for h in range(plan.num_hops + 1)],
                [self.c.hop_edges[h] for h in range(plan.num_hops)],
                self.c.willneed.missing)
