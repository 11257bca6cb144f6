# Whole mini-batches: all hops, relabelled.

MOST_HOPS = GZ_MOST_HOPS


cdef class _EdgeType:
    """One edge type of a plan, and what its C struct points to."""
    cdef gz_edge_type c
    cdef gz_hop_readahead ahead
    cdef CSR csr
    cdef const int64_t[::1] fanouts

    def __cinit__(self, CSR csr, int owner, int neighbor, const int64_t[::1] fanouts,
                  object sampling, bint timed, object readahead):
        self.csr, self.fanouts = csr, fanouts
        self.c.csr = &csr.c
        self.c.owner, self.c.neighbor = owner, neighbor
        self.c.fanouts = &fanouts[0]
        self.c.rule = _rule_of(sampling, timed, False)
        self.c.readahead = NULL
        if timed:
            csr.require_time_order()
        if self.c.rule.kind != NULL and self.c.rule.kind.needs_weights:
            csr.require_weights()
        if readahead is not None:
            self.ahead.mapping = &csr.mapping.c
            self.ahead.mode = (
                GZ_WILLNEED_MISSING if readahead.trust_mincore else GZ_WILLNEED_ALL)
            self.ahead.resident_nodes = readahead.resident_nodes
            self.c.readahead = &self.ahead


cdef class Batch:
    """Samples whole mini-batches in one thread; owns their working memory.

    Not thread-safe: every sampling thread needs its own.
    """
    cdef gz_batch c

    def __cinit__(self):
        gz_batch_init(&self.c)

    def __dealloc__(self):
        gz_batch_free(&self.c)

    def sample(self, csrs, const int64_t[:, ::1] ends, const int64_t[::1] num_nodes, seeds,
               const int64_t[:, ::1] fanouts, samplings, timed, Draws draws,
               const int64_t[::1] until=None, readaheads=None):
        """All hops of one mini-batch; every node type has its own local ids.

        There are T node types and E edge types, one of each in a graph without types. The type that
        has the lists of an edge type is its owner: the lists hold ids of the other one.

        Parameters
        ----------
        csrs : sequence of E CSR
        ends : (E, 2) int64
            Numbers of the owner's and the neighbours' node type.
        num_nodes : (T,) int64
            Nodes of each type.
        seeds : sequence of T (n,) int64 arrays
            Stored ids.
        fanouts : (E, num_hops) int64
            -1 for all neighbours, 0 for none in this hop.
        samplings : sequence of E Sampling
            `replace` and the kind count for each edge type, `disjoint` for all if one has it, and
            the induced subgraph if the first has it, which must be the only one.
        timed : sequence of E bool
            Whether the edges of this type must not be later than `until`.
        draws : Draws
            Draws of the batch.
        until : (num_seeds,) int64, optional
            Time of each seed, of all types in order; implies disjoint trees.
        readaheads : sequence of E (HopReadAhead or None), optional

        Returns
        -------
        nodes : list of T (n,) int64 arrays
            Stored ids, seeds first.
        edge_index : list of E (2, n) int64 arrays
            Local ids of neighbours and owners.
        positions : list of E (n,) int64 arrays
            Stored positions of the edges.
        trees : list of T (n,) int64 arrays, or None
            The tree of each node: trees are numbered as the seeds of all types in order.
        num_sampled_nodes : list of T lists of int
        num_sampled_edges : list of E lists of int
        pages_missed : int

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If numbers of types, nodes or times do not fit each other.
        """
        cdef gz_plan plan
        cdef int num_edge_types = len(csrs), num_node_types = num_nodes.shape[0], i
        _check_arguments(csrs, ends, num_nodes, seeds, fanouts, samplings, timed, readaheads)
        cdef unsigned char[::1] memory = np.empty(num_node_types * sizeof(gz_seeds), np.uint8)
        cdef gz_seeds *all_seeds = <gz_seeds *> &memory[0]
        cdef const int64_t[::1] ids
        for i in range(num_node_types):
            ids = seeds[i]
            all_seeds[i].ids, all_seeds[i].count = &ids[0], ids.shape[0]
        plan.num_nodes, plan.num_node_types = &num_nodes[0], num_node_types
        plan.induced = samplings[0].subgraph_type == "induced"
        if plan.induced and (num_edge_types > 1 or (<CSR> csrs[0]).c.typed):
            raise ValueError("a typed graph has no induced subgraph")
        plan.disjoint = until is not None or any(sampling.disjoint for sampling in samplings)
        edge_types = [
            _EdgeType(csrs[i], ends[i, 0], ends[i, 1], fanouts[i], samplings[i],
                      timed[i] and until is not None,
                      None if readaheads is None else readaheads[i])
            for i in range(num_edge_types)
        ]
        self._run(&plan, all_seeds, edge_types, draws, until)
        nodes = [self._nodes(i, &plan) for i in range(num_node_types)]
        edges = [self._edges(i, &plan) for i in range(num_edge_types)]
        return ([of_type[0] for of_type in nodes],
                [of_type[0] for of_type in edges],
                [of_type[1] for of_type in edges],
                [of_type[1] for of_type in nodes] if plan.disjoint else None,
                [of_type[2] for of_type in nodes],
                [of_type[2] for of_type in edges],
                self.c.willneed.missing)

    cdef int _run(self, gz_plan *plan, const gz_seeds *seeds, list edge_types, Draws draws,
                  const int64_t[::1] until) except -1:
        """Completes the plan, and samples while all files are held open."""
        cdef gz_error err
        cdef gz_code code
        cdef _EdgeType edge_type
        cdef int i, count = len(edge_types), acquired = 0
        cdef int64_t num_seeds = 0
        cdef unsigned char[::1] memory = np.empty(count * sizeof(gz_edge_type), np.uint8)
        cdef gz_edge_type *each = <gz_edge_type *> &memory[0]
        for i in range(plan.num_node_types):
            num_seeds += seeds[i].count
        if until is not None and until.shape[0] != num_seeds:
            raise ValueError("until must have a time for each seed")
        for i in range(count):
            edge_type = edge_types[i]
            each[i] = edge_type.c
        plan.edge_types, plan.num_edge_types = each, count
        plan.num_hops = edge_type.fanouts.shape[0]
        plan.draws = draws.c
        plan.until = NULL
        if until is not None:
            plan.until = &until[0]
        try:
            for edge_type in edge_types:
                edge_type.csr.mapping.acquire_whole()
                acquired += 1
            with nogil:
                code = gz_batch_sample(&self.c, plan, seeds, &err)
        finally:
            for edge_type in edge_types[:acquired]:
                edge_type.csr.mapping.release()
        if code != GZ_OK:
            _raise(&err, edge_type.csr.mapping.path)
        for i in range(count):
            edge_type = edge_types[i]
            _refuse_corrupt(self.c.edges[i].corrupt, edge_type.csr.mapping.path)
        return 0

    cdef tuple _nodes(self, int number, const gz_plan *plan):
        """Stored ids, trees and counts of a node type."""
        cdef const gz_node_space *space = &self.c.spaces[number]
        cdef int h
        return (_copy(gz_nodes_ids(space), space.count),
                _copy(space.trees, space.count) if plan.disjoint else None,
                [space.hop_nodes[h] for h in range(plan.num_hops + 1)])

    cdef tuple _edges(self, int number, const gz_plan *plan):
        """Local ids, positions and counts of an edge type."""
        cdef const gz_edge_list *edges = &self.c.edges[number]
        cdef int h
        edge_index = empty((2, edges.count), np.int64)
        cdef int64_t[:, ::1] view = edge_index
        if edges.count > 0:
            with nogil:
                memcpy(&view[0, 0], edges.sources, edges.count * sizeof(int64_t))
                memcpy(&view[1, 0], edges.targets, edges.count * sizeof(int64_t))
        return (edge_index, _copy(edges.positions, edges.count),
                [edges.hop_edges[h] for h in range(plan.num_hops)])


cdef int _check_arguments(csrs, const int64_t[:, ::1] ends, const int64_t[::1] num_nodes, seeds,
                          const int64_t[:, ::1] fanouts, samplings, timed, readaheads) except -1:
    """Raises where the arguments of `Batch.sample` do not fit each other."""
    cdef int64_t num_node_types = num_nodes.shape[0], count = len(csrs), i, owner, neighbor
    cdef CSR csr
    if not (count > 0 and num_node_types > 0 and ends.shape[1] == 2
            and ends.shape[0] == fanouts.shape[0] == len(samplings) == len(timed) == count
            and (readaheads is None or len(readaheads) == count)):
        raise ValueError("every edge type needs its own file, ends, fanouts and sampling")
    if not 1 <= fanouts.shape[1] <= GZ_MOST_HOPS:
        raise ValueError(f"there must be 1 to {GZ_MOST_HOPS} hops, not {fanouts.shape[1]}")
    if len(seeds) != num_node_types:
        raise ValueError("every node type needs its own seeds, of which there may be none")
    for i in range(count):
        csr, owner, neighbor = csrs[i], ends[i, 0], ends[i, 1]
        if not (0 <= owner < num_node_types and 0 <= neighbor < num_node_types):
            raise ValueError(f"edge type {i} has ends that are none of {num_node_types} node types")
        if csr.num_nodes != num_nodes[owner] or csr.num_neighbors != num_nodes[neighbor]:
            raise ValueError(
                f"{csr.mapping.path} has {csr.num_nodes:,} lists of {csr.num_neighbors:,} nodes, "
                f"not {num_nodes[owner]:,} of {num_nodes[neighbor]:,}")
    for i in range(num_node_types):
        at = first_outside(seeds[i], num_nodes[i])
        if at >= 0:
            raise IndexError(f"seed {seeds[i][at]} of node type {i} is not below {num_nodes[i]:,}")
    return 0
