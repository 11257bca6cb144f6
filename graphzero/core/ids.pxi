# Ids: bounds, and translation tables of a file.

def first_outside(const int64_t[::1] ids, int64_t limit):
    """Index of the first id outside [0, limit), or -1."""
    cdef int64_t n = ids.shape[0], at
    with nogil:
        at = gz_first_outside(&ids[0], 0, n, limit)
    return -1 if at == n else at


cdef object _translate(Mapping mapping, const gz_ids *table, uint64_t limit, object ids,
                       int num_threads):
    cdef const int64_t[::1] flat = ids.reshape(-1)
    out = empty(ids.shape, np.int64)
    cdef int64_t[::1] view = out.reshape(-1)
    cdef int64_t n = flat.shape[0], i
    cdef uint64_t corrupt = 0
    mapping.acquire_whole(n)
    try:
        for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
            corrupt += gz_translate(table, limit, &flat[0], i * ITEMS_PER_RANGE, _end(i, n),
                                    &view[0])
    finally:
        mapping.release()
    _refuse_corrupt(corrupt, mapping.path)
    return out
