# Mini-batches, sampled together: all hops, relabelled.

MOST_HOPS = GZ_MOST_HOPS


cdef class _EdgeType:
    """One edge type of a plan, and what its C struct points to."""
    cdef gz_edge_type c
    cdef CSR csr
    cdef const int64_t[::1] fanouts

    def __cinit__(self, CSR csr, int owner, int neighbor, const int64_t[::1] fanouts,
                  object sampling, bint timed):
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


cdef class SamplingPlan:
    """How mini-batches are sampled: the same for all of an iteration, and for any thread.

    There are T node types and E edge types, one of each in a graph without types. The type that has
    the lists of an edge type is its owner: the lists hold ids of the other one.

    Parameters
    ----------
    csrs : sequence of E CSR
    ends : (E, 2) int64
        Numbers of the owner's and the neighbours' node type.
    num_nodes : (T,) int64
        Nodes of each type.
    fanouts : (E, num_hops) int64
        -1 for all neighbours, 0 for none in this hop.
    samplings : sequence of E Sampling
        `replace` and the kind count for each edge type, `disjoint` for all if one has it, and the
        induced subgraph if the first has it, which must be the only one.
    timed : sequence of E bool, optional
        Whether the edges of this type must not be later than the time of the seed. Then seeds have
        times, and disjoint trees.

    Raises
    ------
    ValueError
        If numbers of types or nodes do not fit each other.
    """
    cdef list edge_types
    cdef const int64_t[::1] num_nodes
    cdef int num_hops
    cdef readonly bint disjoint, induced, has_times

    def __cinit__(self, csrs, const int64_t[:, ::1] ends, const int64_t[::1] num_nodes,
                  const int64_t[:, ::1] fanouts, samplings, timed=None):
        cdef int64_t i
        self.has_times = timed is not None
        if timed is None:
            timed = [False] * len(csrs)
        _check_types(csrs, ends, num_nodes, fanouts, samplings, timed)
        self.num_nodes, self.num_hops = num_nodes, fanouts.shape[1]
        self.induced = samplings[0].subgraph_type == "induced"
        if self.induced and (len(csrs) > 1 or (<CSR> csrs[0]).c.typed):
            raise ValueError("a typed graph has no induced subgraph")
        self.disjoint = self.has_times or any(sampling.disjoint for sampling in samplings)
        self.edge_types = [
            _EdgeType(csrs[i], ends[i, 0], ends[i, 1], fanouts[i], samplings[i], timed[i])
            for i in range(len(csrs))]


cdef int _check_types(csrs, const int64_t[:, ::1] ends, const int64_t[::1] num_nodes,
                      const int64_t[:, ::1] fanouts, samplings, timed) except -1:
    """Raises where the arguments of a plan do not fit each other."""
    cdef int64_t num_node_types = num_nodes.shape[0], count = len(csrs), i, owner, neighbor
    cdef CSR csr
    if not (count > 0 and num_node_types > 0 and ends.shape[1] == 2
            and ends.shape[0] == fanouts.shape[0] == len(samplings) == len(timed) == count):
        raise ValueError("every edge type needs its own file, ends, fanouts and sampling")
    if not 1 <= fanouts.shape[1] <= GZ_MOST_HOPS:
        raise ValueError(f"there must be 1 to {GZ_MOST_HOPS} hops, not {fanouts.shape[1]}")
    for i in range(count):
        csr, owner, neighbor = csrs[i], ends[i, 0], ends[i, 1]
        if not (0 <= owner < num_node_types and 0 <= neighbor < num_node_types):
            raise ValueError(f"edge type {i} has ends that are none of {num_node_types} node types")
        if csr.num_nodes != num_nodes[owner] or csr.num_neighbors != num_nodes[neighbor]:
            raise ValueError(
                f"{csr.mapping.path} has {csr.num_nodes:,} lists of {csr.num_neighbors:,} nodes, "
                f"not {num_nodes[owner]:,} of {num_nodes[neighbor]:,}")
    return 0


cdef class Seeds:
    """The seeds of one mini-batch, and what determines its draws.

    Parameters
    ----------
    plan : SamplingPlan
    ids : sequence of T (n,) int64 arrays
        Stored ids.
    draws : Draws
        Draws of the batch.
    until : (num_seeds,) int64, optional
        Time of each seed, of all types in order, where the plan has times.

    Raises
    ------
    IndexError
        If a seed is out of range.
    ValueError
        If there are not seeds for each node type, or not a time for each seed.
    """
    cdef SamplingPlan plan
    cdef list ids
    cdef unsigned char[::1] memory  # of the C structs
    cdef Draws draws
    cdef const int64_t[::1] until
    cdef int64_t count

    def __cinit__(self, SamplingPlan plan, ids, Draws draws, const int64_t[::1] until=None):
        cdef int64_t num_types = plan.num_nodes.shape[0], i, at
        cdef const int64_t[::1] of_type
        cdef gz_seeds *each
        if len(ids) != num_types:
            raise ValueError("every node type needs its own seeds, of which there may be none")
        self.plan, self.ids, self.draws, self.until = plan, list(ids), draws, until
        self.memory = np.empty(num_types * sizeof(gz_seeds), np.uint8)
        each = <gz_seeds *> &self.memory[0]
        self.count = 0
        for i in range(num_types):
            at = first_outside(ids[i], plan.num_nodes[i])
            if at >= 0:
                raise IndexError(
                    f"seed {ids[i][at]} of node type {i} is not below {plan.num_nodes[i]:,}")
            of_type = ids[i]
            each[i].ids, each[i].count = &of_type[0], of_type.shape[0]
            self.count += of_type.shape[0]
        if plan.has_times != (until is not None) or (
                until is not None and until.shape[0] != self.count):
            raise ValueError("there must be a time for each seed where the plan has times")


cdef class Sampled:
    """A sampled mini-batch, in arrays.

    Attributes
    ----------
    nodes : list of T (n,) int64 arrays
        Stored ids, seeds first.
    user_ids : list of T (n,) int64 arrays
        The user's ids of the same nodes.
    edge_index : list of E (2, n) int64 arrays
        Local ids of neighbours and owners.
    positions : list of E (n,) int64 arrays
        Stored positions of the edges.
    edge_ids : list of E ((n,) int64 array or None)
        Positions in the user's edge list, where the file has them.
    trees : list of T (n,) int64 arrays, or None
        The tree of each node: trees are numbered as the seeds of all types in order.
    num_sampled_nodes, num_sampled_edges : lists of T and E lists of int
        By hop; seeds come first.
    size : int
        Number of the size to which its edges and local ids are filled up; all other arrays and
        counts are without added nodes and edges. -1 for none.
    pages_missed : int
        Pages of topology that hop read-ahead found missing.
    seconds, disk_seconds : float
        That a thread has worked on it, and waited for the disk.
    """
    cdef readonly list nodes, user_ids, edge_index, positions, edge_ids, trees
    cdef readonly list num_sampled_nodes, num_sampled_edges
    cdef readonly int64_t pages_missed
    cdef readonly int size
    cdef readonly double seconds, disk_seconds


cdef class _Workspace:
    """Working memory of one mini-batch."""
    cdef gz_batch c

    def __cinit__(self):
        gz_batch_init(&self.c)

    def __dealloc__(self):
        gz_batch_free(&self.c)


# Those that no sampler has, for the next one: fresh memory costs a page fault for every 4 KiB.
cdef list _idle_workspaces = []
cdef enum:
    MOST_IDLE_WORKSPACES = 64


cdef class DirectHops:
    """How the hops of a group read a graph file past the page cache.

    Parameters
    ----------
    reader : DirectReader
        Of the file.
    indptr, indices, edge_ids : (num_pages,) uint8
        Which pages of these sections are in memory, from the first one on; they are not read. Must
        not change any more.
    gap_pages : int
        Unwanted pages that a read may include to merge two reads.
    """
    cdef gz_topology_reader c
    cdef readonly DirectReader reader
    cdef tuple pages

    def __cinit__(self, DirectReader reader, const uint8_t[::1] indptr,
                  const uint8_t[::1] indices, const uint8_t[::1] edge_ids, uint64_t gap_pages=0):
        self.reader, self.pages = reader, (indptr, indices, edge_ids)
        memset(&self.c, 0, sizeof(self.c))
        self.c.mapping, self.c.file = &reader.mapping.c, &reader.file
        self.c.buffers, self.c.gap_pages = &reader.buffers, _gap(gap_pages)
        self.c.indptr.pages, self.c.indptr.count = &indptr[0], indptr.shape[0]
        self.c.indices.pages, self.c.indices.count = &indices[0], indices.shape[0]
        self.c.edge_ids.pages, self.c.edge_ids.count = &edge_ids[0], edge_ids.shape[0]

    cdef bint suits(self, _EdgeType edge_type) except -1:
        """Whether the hops of an edge type can be read so."""
        if self.reader.mapping is not edge_type.csr.mapping:
            raise ValueError(f"a reader of {self.reader.mapping.path}, "
                             f"not of {edge_type.csr.mapping.path}")
        return edge_type.c.rule.kind == NULL and edge_type.c.rule.time == GZ_TIME_ANY


cdef class GroupSampler:
    """Samples groups of mini-batches; owns their working memory. One call at a time.

    Parameters
    ----------
    plan : SamplingPlan
    node_tables : sequence of T (IdTable or None)
        The user's ids of the nodes of each type; None where they are the stored ones.
    edge_tables : sequence of E (IdTable or None)
        Positions in the user's edge list.
    node_sizes : (S, T, num_hops + 1) int64, optional
        Nodes to which hops are filled up, in S sizes, of which a mini-batch takes the first that
        it fits.
    edge_sizes : (S, E, num_hops) int64, optional
        Edges likewise.

    Raises
    ------
    ValueError
        If sizes do not fit the plan.
    """
    cdef SamplingPlan plan
    cdef list node_tables, edge_tables, workspaces
    cdef const int64_t[:, :, ::1] node_sizes, edge_sizes

    def __cinit__(self, SamplingPlan plan, node_tables, edge_tables, node_sizes=None,
                  edge_sizes=None):
        self.plan, self.workspaces = plan, []
        self.node_tables, self.edge_tables = list(node_tables), list(edge_tables)
        self.node_sizes, self.edge_sizes = node_sizes, edge_sizes
        if node_sizes is not None:
            shape = len(node_sizes), plan.num_nodes.shape[0], plan.num_hops + 1
            edge_shape = len(node_sizes), len(plan.edge_types), plan.num_hops
            if (plan.disjoint or plan.induced or node_sizes.shape != shape
                    or edge_sizes.shape != edge_shape):
                raise ValueError("sizes do not fit the plan")

    def sample(self, list seeds, Team team, Stop stop, readaheads=None):
        """All hops of some mini-batches, each in one thread.

        Parameters
        ----------
        seeds : list of Seeds
        team : Team
        stop : Stop
            Once it is set, no further mini-batch is begun.
        readaheads : sequence of E HopReadAhead, optional
            With a reader of its own, an edge type that draws uniformly is sampled hop by hop for
            all mini-batches.

        Returns
        -------
        list of (Sampled or Exception)
            For each mini-batch; none if it was stopped. The error of one whose file is corrupt, or
            for which there is no memory.

        Raises
        ------
        FormatError
            If a file was truncated.
        OSError
            If reading past the page cache fails.
        """
        cdef int64_t n = len(seeds), i
        cdef int num_edge_types = len(self.plan.edge_types), acquired = 0
        cdef unsigned char[::1] memory = np.zeros(
            n * sizeof(gz_group_batch) + num_edge_types * (
                sizeof(gz_edge_type) + sizeof(gz_hop_readahead)), np.uint8)
        cdef gz_group_batch *batches = <gz_group_batch *> &memory[0]
        cdef gz_edge_type *edge_types = <gz_edge_type *> (batches + n)
        cdef gz_hop_readahead *aheads = <gz_hop_readahead *> (edge_types + num_edge_types)
        cdef _EdgeType edge_type
        cdef Fills fills = Fills(n)
        hops = {}
        for i in range(num_edge_types):
            edge_type = self.plan.edge_types[i]
            edge_types[i] = edge_type.c
            if readaheads is not None and readaheads[i] is not None:
                aheads[i].mapping = &edge_type.csr.mapping.c
                aheads[i].mode = (
                    GZ_WILLNEED_MISSING if readaheads[i].trust_mincore else GZ_WILLNEED_ALL)
                aheads[i].resident_nodes = readaheads[i].resident_nodes
                edge_types[i].readahead = &aheads[i]
                direct = None if self.plan.induced else readaheads[i].direct
                if direct is not None and (<DirectHops> direct).suits(edge_type):
                    hops[i] = direct
        while len(self.workspaces) < n:
            self.workspaces.append(
                _idle_workspaces.pop() if _idle_workspaces else _Workspace())
        for i in range(n):
            if (<Seeds?> seeds[i]).plan is not self.plan:
                raise ValueError("seeds of another plan")
            self._prepare(&batches[i], self.workspaces[i], seeds[i], edge_types, num_edge_types)
        try:
            for edge_type in self.plan.edge_types:
                edge_type.csr.mapping.acquire_whole()
                acquired += 1
            if hops:
                self._sample_hops(batches, n, team, stop, hops)
            else:
                with nogil:
                    gz_group_sample(team.c, batches, n, &stop.c)
        finally:
            for edge_type in self.plan.edge_types[:acquired]:
                edge_type.csr.mapping.release()
        for i in range(n):
            if not batches[i].is_sampled:
                return []
        cold = self._cold_tables(batches, n)
        results = []
        for i in range(n):
            try:
                results.append(self._result(&batches[i], cold, fills, i))
            except (FormatError, MemoryError, OSError) as error:
                results.append(error)
        spent = fills.run(team, stop)
        for i in range(n):
            if isinstance(results[i], Sampled):
                (<Sampled> results[i]).seconds += spent[i, 0]
                (<Sampled> results[i]).disk_seconds += spent[i, 1]
                self._translate(results[i], cold)
        return [] if stop else results

    cdef int _sample_hops(self, gz_group_batch *batches, int64_t count, Team team, Stop stop,
                          dict hops) except -1:
        """Hop by hop, where some edge types, by number, have `DirectHops`."""
        cdef unsigned char[::1] memory = np.zeros(
            len(self.plan.edge_types) * sizeof(gz_topology_reader), np.uint8)
        cdef gz_topology_reader *readers = <gz_topology_reader *> &memory[0]
        cdef gz_error err
        cdef gz_code code = GZ_OK
        cdef int i = 0
        cdef DirectHops direct
        with ExitStack() as locks:
            for i, direct in hops.items():
                direct.reader._leave_to_parent()
                locks.enter_context(direct.reader.lock)
                direct.reader._require_engine()
                readers[i], readers[i].ring = direct.c, direct.reader.ring
                readers[i].id_limit = (
                    <_EdgeType> self.plan.edge_types[i]).csr.header["num_input_edges"]
            with nogil:
                code = gz_group_sample_hops(team.c, batches, count, &stop.c, readers, &i, &err)
            if code != GZ_OK:
                for direct in hops.values():
                    direct.reader._close_engine()
                _raise(&err, (<_EdgeType> self.plan.edge_types[i]).csr.mapping.path)
        return 0

    def release(self):
        """Gives the working memory back until the next call."""
        cdef _Workspace workspace
        for workspace in self.workspaces:
            gz_batch_rest(&workspace.c)
        _idle_workspaces.extend(self.workspaces)
        del _idle_workspaces[MOST_IDLE_WORKSPACES:]
        self.workspaces = []

    cdef set _cold_tables(self, const gz_group_batch *batches, int64_t count):
        """Those that are not in memory: they are read ahead, in their own order, by one thread."""
        cdef int64_t ids = 0, i, j
        for i in range(count):
            for j in range(self.plan.num_nodes.shape[0]):
                ids += batches[i].batch.spaces[j].count
        if ids < TRANSLATED_AHEAD_FROM:
            return set()
        return {table for table in (*self.node_tables, *self.edge_tables)
                if table is not None and (<IdTable> table).is_cold()}

    cdef int _translate(self, Sampled sampled, set cold) except -1:
        """Ids of tables that are not in memory."""
        cdef int64_t i
        for i, table in enumerate(self.node_tables if cold else ()):
            if table in cold:
                sampled.user_ids[i] = table.translate(sampled.nodes[i])
        for i, table in enumerate(self.edge_tables if cold else ()):
            if table in cold and sampled.edge_ids[i] is None:
                sampled.edge_ids[i] = table.translate(sampled.positions[i])
        return 0

    cdef int _prepare(self, gz_group_batch *batch, _Workspace workspace, Seeds seeds,
                      const gz_edge_type *edge_types, int num_edge_types) except -1:
        batch.batch, batch.seeds = &workspace.c, <const gz_seeds *> &seeds.memory[0]
        batch.plan.edge_types, batch.plan.num_edge_types = edge_types, num_edge_types
        batch.plan.num_nodes = &self.plan.num_nodes[0]
        batch.plan.num_node_types = self.plan.num_nodes.shape[0]
        batch.plan.num_hops = self.plan.num_hops
        batch.plan.disjoint, batch.plan.induced = self.plan.disjoint, self.plan.induced
        batch.plan.draws = seeds.draws.c
        batch.plan.num_sizes = 0
        if self.node_sizes is not None and self.node_sizes.size > 0:
            batch.plan.num_sizes = self.node_sizes.shape[0]
            batch.plan.node_sizes = &self.node_sizes[0, 0, 0]
            batch.plan.edge_sizes = &self.edge_sizes[0, 0, 0]
        batch.plan.until = NULL
        if seeds.until is not None:
            batch.plan.until = &seeds.until[0]
        return 0

    cdef Sampled _result(self, gz_group_batch *batch, set cold, Fills fills, int64_t number):
        """The arrays of a mini-batch, to be filled."""
        cdef Sampled sampled = Sampled.__new__(Sampled)
        cdef _EdgeType edge_type
        cdef int64_t i
        if batch.code != GZ_OK:
            _raise(&batch.err, (<_EdgeType> self.plan.edge_types[0]).csr.mapping.path)
        sampled.nodes, sampled.user_ids, sampled.num_sampled_nodes = [], [], []
        sampled.edge_index, sampled.positions, sampled.edge_ids = [], [], []
        sampled.num_sampled_edges = []
        sampled.trees = [] if self.plan.disjoint else None
        for i, edge_type in enumerate(self.plan.edge_types):
            _refuse_corrupt(batch.batch.edges[i].corrupt, edge_type.csr.mapping.path)
            self._add_edges(
                sampled, &batch.batch.edges[i], i, batch.batch.size, cold, fills, number)
        for i in range(self.plan.num_nodes.shape[0]):
            self._add_nodes(sampled, &batch.batch.spaces[i], i, cold, fills, number)
        sampled.pages_missed, sampled.size = batch.batch.willneed.missing, batch.batch.size
        sampled.seconds = (batch.spent.wall - batch.spent.disk) * 1e-9
        sampled.disk_seconds = batch.spent.disk * 1e-9
        return sampled

    cdef int _add_nodes(self, Sampled sampled, const gz_node_space *space, int64_t number, set cold,
                        Fills fills, int64_t batch) except -1:
        cdef const int64_t *ids = gz_nodes_ids(space)
        cdef int h
        nodes, table = empty(space.count, np.int64), self.node_tables[number]
        fills.copy(batch, ids, space.count * 8, nodes)
        sampled.nodes.append(nodes)
        sampled.user_ids.append(
            nodes if table is None else _translated(table, ids, space.count, cold, fills, batch))
        if sampled.trees is not None:
            trees = empty(space.count, np.int64)
            fills.copy(batch, space.trees, space.count * 8, trees)
            sampled.trees.append(trees)
        num_counts = self.plan.num_hops + 1
        sampled.num_sampled_nodes.append([space.hop_nodes[h] for h in range(num_counts)])
        return 0

    cdef int _add_edges(self, Sampled sampled, const gz_edge_list *edges, int64_t number, int size,
                        set cold, Fills fills, int64_t batch) except -1:
        cdef int h
        cdef int64_t total = edges.count
        if size >= 0:
            total = sum(self.edge_sizes[size, number])
        edge_index, positions = empty((2, total), np.int64), empty(edges.count, np.int64)
        table = self.edge_tables[number]
        fills.copy(batch, edges.sources, total * 8, edge_index[0])
        fills.copy(batch, edges.targets, total * 8, edge_index[1])
        fills.copy(batch, edges.positions, edges.count * 8, positions)
        sampled.edge_index.append(edge_index)
        sampled.positions.append(positions)
        if table is not None and edges.has_ids:
            edge_ids = empty(edges.count, np.int64)
            fills.copy(batch, edges.ids, edges.count * 8, edge_ids)
        elif table is not None:
            edge_ids = _translated(table, edges.positions, edges.count, cold, fills, batch)
        else:
            edge_ids = None
        sampled.edge_ids.append(edge_ids)
        sampled.num_sampled_edges.append([edges.hop_edges[h] for h in range(self.plan.num_hops)])
        return 0


cdef object _translated(IdTable table, const int64_t *ids, int64_t count, set cold, Fills fills,
                        int64_t batch):
    """An array that will have the ids of a table; None where they are read afterwards."""
    if table in cold:
        return None
    out = empty(count, np.int64)
    fills.translate(batch, table.mapping, &table.ids, table.limit, ids, count, out)
    return out
