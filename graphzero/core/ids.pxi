# Ids: bounds, and translation tables of a file.

def first_outside(const int64_t[::1] ids, int64_t limit):
    """Index of the first id outside [0, limit), or -1."""
    cdef int64_t n = ids.shape[0], at
    with nogil:
        at = gz_first_outside(&ids[0], 0, n, limit)
    return -1 if at == n else at


cdef gz_texts _texts(const uint8_t[::1] data, const uint64_t[::1] ends) noexcept nogil:
    cdef gz_texts texts
    texts.bytes = &data[0]
    texts.ends = &ends[0]
    texts.count = <uint64_t> ends.shape[0]
    texts.size = <uint64_t> data.shape[0]
    texts.by_id = NULL
    return texts


def find_texts(const uint8_t[::1] data, const uint64_t[::1] ends,
               const uint8_t[::1] wanted, const uint64_t[::1] wanted_ends, int num_threads=1,
               const int64_t[::1] by_id=None):
    """Position of each wanted text in a table, or -1 - the number of texts that are before it.

    Text i has the bytes from end i - 1 to end i. Texts ascend, or ``by_id`` has their positions so.
    Also returns how many ends and positions are corrupt.
    """
    cdef gz_texts table = _texts(data, ends), texts = _texts(wanted, wanted_ends)
    if by_id is not None:
        if by_id.shape[0] != ends.shape[0]:
            raise ValueError("by_id must have a position for each text")
        table.by_id = &by_id[0]
    out = np.empty(wanted_ends.shape[0], np.int64)
    cdef int64_t[::1] view = out
    cdef int64_t n = wanted_ends.shape[0], i
    cdef uint64_t corrupt = 0
    cdef int threads = _threads(num_threads, n)
    for i in prange(_ranges(n), nogil=True, num_threads=threads):
        corrupt += gz_find_texts(&table, &texts, i * ITEMS_PER_RANGE, _end(i, n), &view[0])
    return out, corrupt


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
