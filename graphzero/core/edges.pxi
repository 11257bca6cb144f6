# Edge lists of a build: keys, their sort, and the lists that they become.

cdef extern from "graphzero/edge_keys.h" nogil:
    int64_t gz_count_mutual(const int64_t *indptr, const uint32_t *indices, int64_t num_nodes,
                            int64_t begin, int64_t end, int64_t *places)
    int64_t gz_entry_places(const gz_ids *indptr, uint64_t num_nodes, const gz_ids *indices,
                            uint64_t width, const uint32_t *owners, const uint32_t *neighbors,
                            int64_t begin, int64_t end, int64_t *places)


cdef enum:
    LEAST_RANGE_KEYS = 1 << 14


cdef inline int _key_threads(int requested, int64_t count) noexcept nogil:
    """At most one thread for each range of keys."""
    if not gz_may_use_threads() or count <= LEAST_RANGE_KEYS:
        return 1
    return <int> min(requested, count // LEAST_RANGE_KEYS)


cdef gz_ranks _ranks(object table):
    """The entries of an array that outlives the call."""
    cdef gz_ranks found
    cdef const uint32_t[::1] view
    found.ranks, found.count = NULL, 0
    if table is not None and len(table) > 0:
        view = table
        found.ranks, found.count = &view[0], view.shape[0]
    return found


cdef int _refuse_outside(int64_t outside) except -1:
    if outside:
        raise FormatError(f"{outside} ids of edges are out of range: the input is corrupt, or has "
                          f"changed while it was read")
    return 0


def edge_keys(const uint32_t[::1] owners, const uint32_t[::1] neighbors, owner_rank, neighbor_rank,
              int num_threads):
    """Keys owner << 32 | neighbour of edges, in stored ids.

    Parameters
    ----------
    owners, neighbors : (n,) uint32
        User's ids.
    owner_rank, neighbor_rank : (N,) uint32 or None
        Stored ids by the user's ids; None where they are the same.
    num_threads : int

    Returns
    -------
    (n,) uint64

    Raises
    ------
    FormatError
        If an id is in no table.
    """
    cdef int64_t count = owners.shape[0], i
    if neighbors.shape[0] != count:
        raise ValueError("every edge has two ends")
    keys = np.empty(count, np.uint64)
    if count == 0:
        return keys
    cdef uint64_t[::1] view = keys
    cdef gz_ranks owner_ranks = _ranks(owner_rank), neighbor_ranks = _ranks(neighbor_rank)
    cdef int64_t outside = 0
    cdef int threads = _key_threads(num_threads, count)
    for i in prange(threads, nogil=True, num_threads=threads):
        outside += gz_edge_keys(&owners[0], &neighbors[0], owner_ranks, neighbor_ranks,
                                count * i // threads, count * (i + 1) // threads, &view[0])
    _refuse_outside(outside)
    return keys


def count_ids(const uint32_t[::1] ids, uint64_t[::1] counts):
    """Adds how often ids occur to their counts."""
    cdef int64_t count = ids.shape[0], outside
    if count and counts.shape[0]:
        with nogil:
            outside = gz_count_ids(&ids[0], 0, count, &counts[0], counts.shape[0])
        _refuse_outside(outside)


def sort_keys(uint64_t[::1] keys, order, int num_threads):
    """Sorts keys in place, stably.

    Parameters
    ----------
    keys : (n,) uint64
    order : (n,) uint32 or None
        Moved like the keys.
    num_threads : int
    """
    cdef int64_t count = keys.shape[0], i
    cdef uint32_t[::1] order_view
    cdef uint32_t *with_order = NULL
    cdef uint32_t *spare_order = NULL
    cdef uint32_t[::1] spare_order_view
    if order is not None and len(order) != count:
        raise ValueError("the order has another length than the keys")
    if count < 2:
        return
    cdef uint64_t[::1] spare = np.empty(count, np.uint64)
    if order is not None:
        order_view = order
        spare_order_view = np.empty(count, np.uint32)
        with_order, spare_order = &order_view[0], &spare_order_view[0]
    cdef int threads = _key_threads(num_threads, count)
    cdef uint64_t differing = 0
    for i in prange(threads, nogil=True, num_threads=threads):
        differing |= gz_differing_bits(&keys[0], count * i // threads, count * (i + 1) // threads,
                                       keys[0])
    cdef gz_digit digit = gz_bucket_digit(differing, count)
    cdef int64_t buckets = 1 << digit.bits
    if digit.bits == 0:
        with nogil:
            gz_sort_keys(&keys[0], with_order, 0, count, &spare[0], spare_order)
        return
    cdef int64_t[::1] places = np.zeros(threads * buckets, np.int64)
    for i in prange(threads, nogil=True, num_threads=threads):
        gz_count_buckets(&keys[0], count * i // threads, count * (i + 1) // threads, digit,
                         &places[i * buckets])
    gz_bucket_places(&places[0], threads, digit)
    cdef int64_t[::1] begins = np.append(np.asarray(places[:buckets]), count)
    for i in prange(threads, nogil=True, num_threads=threads):
        gz_deal_keys(&keys[0], with_order, count * i // threads, count * (i + 1) // threads, digit,
                     &places[i * buckets], &spare[0], spare_order)
    for i in prange(buckets, nogil=True, num_threads=threads, schedule="dynamic"):
        gz_sort_keys(&spare[0], spare_order, begins[i], begins[i + 1], &keys[0], with_order)
        gz_copy_keys(&spare[0], spare_order, begins[i], begins[i + 1], &keys[0], with_order)


def key_neighbors(const uint64_t[::1] keys, uint64_t before, bint is_mirrored):
    """The lower halves of sorted keys, (n,) uint32, and how many edges repeat the one before.

    `before` is the key before the first. Of mirrored edges, one of the two directions is counted;
    self-loops never are.
    """
    cdef int64_t count = keys.shape[0], repeats = 0
    neighbors = np.empty(count, np.uint32)
    cdef uint32_t[::1] view = neighbors
    if count:
        with nogil:
            repeats = gz_key_neighbors(&keys[0], 0, count, before, is_mirrored, &view[0])
    return neighbors, repeats


def count_mutual(const uint64_t[::1] keys, int64_t num_nodes):
    """How many pairs of nodes have an edge in either direction, among sorted keys, at least one."""
    cdef int64_t mutual
    cdef const int64_t[::1] starts = list_starts(keys, 0, 0, num_nodes + 1)
    cdef const uint32_t[::1] neighbors = key_neighbors(keys, 0, False)[0]
    cdef int64_t[::1] places = np.array(starts)
    with nogil:
        mutual = gz_count_mutual(&starts[0], &neighbors[0], num_nodes, 0, num_nodes, &places[0])
    return mutual


def list_starts(const uint64_t[::1] keys, int64_t base, int64_t first, int64_t last):
    """Where the lists of nodes [first, last) begin among sorted keys, (last - first,) int64.

    The first key has number `base`.
    """
    starts = np.empty(last - first, np.int64)
    cdef int64_t[::1] view = starts
    if last > first:
        with nogil:
            gz_list_starts(&keys[0] if keys.shape[0] else NULL, keys.shape[0], base, first, last,
                           &view[0])
    return starts


def entry_places(indptr, indices, const uint32_t[::1] owners, const uint32_t[::1] neighbors,
                 int num_threads):
    """How many entries of lists stand before new ones: equal ones do.

    Parameters
    ----------
    indptr : (num_nodes + 1,) uint32 or uint64
    indices : (width,) uint32 or uint64
        Lists that ascend.
    owners, neighbors : (n,) uint32
        Of the new entries. Owners may be beyond the nodes.
    num_threads : int

    Returns
    -------
    (n,) int64

    Raises
    ------
    FormatError
        If a list is not within the entries.
    """
    cdef int64_t count = owners.shape[0], i, outside = 0
    cdef int64_t num_nodes = len(indptr) - 1, width = len(indices)
    cdef gz_ids starts, entries
    _as_ids(indptr, &starts)
    _as_ids(indices, &entries)
    if neighbors.shape[0] != count or num_nodes < 0:
        raise ValueError("every entry has two ends, and lists have an end")
    places = np.empty(count, np.int64)
    if count == 0:
        return places
    cdef int64_t[::1] view = places
    cdef int threads = _key_threads(num_threads, count)
    for i in prange(threads, nogil=True, num_threads=threads):
        outside += gz_entry_places(&starts, num_nodes, &entries, width, &owners[0], &neighbors[0],
                                   count * i // threads, count * (i + 1) // threads, &view[0])
    if outside:
        raise FormatError(f"{outside} lists are not within the entries: the file is corrupt")
    return places
