# Ids: bounds, local ids of a mini-batch, and translation tables of a file.

def first_outside(const int64_t[::1] ids, int64_t limit):
    """Index of the first id outside [0, limit), or -1."""
    cdef int64_t n = ids.shape[0], at
    with nogil:
        at = gz_first_outside(&ids[0], 0, n, limit)
    return -1 if at == n else at


cdef class IdMap:
    """Numbers ids in the order of their first appearance; reused from batch to batch.

    Not thread-safe: every sampling thread needs its own.
    """
    cdef gz_idmap c

    def __cinit__(self):
        gz_idmap_init(&self.c)

    def __dealloc__(self):
        gz_idmap_free(&self.c)

    cdef int reserve(self, int64_t more) except -1:
        cdef gz_error err
        cdef gz_code code
        with nogil:
            code = gz_idmap_reserve(&self.c, self.c.count + more, &err)
        if code != GZ_OK:
            _raise(&err, "")
        return 0

    def start(self, const int64_t[::1] seeds, bint wide):
        """Forgets all ids, then numbers the seeds; `wide` if ids may be 2^32 or more."""
        cdef int64_t n = seeds.shape[0]
        gz_idmap_clear(&self.c, wide)
        self.reserve(n)
        with nogil:
            gz_idmap_seed(&self.c, &seeds[0], n)

    def relabel(self, const int64_t[::1] ids):
        """Local ids, (n,) int64; new ids get the next numbers."""
        cdef int64_t n = ids.shape[0]
        local = empty(n, np.int64)
        cdef int64_t[::1] view = local
        self.reserve(n)
        with nogil:
            gz_idmap_relabel(&self.c, &ids[0], 0, n, &view[0])
        return local

    def nodes(self, int64_t begin=0):
        """The ids with numbers from `begin` on, in order, (m,) int64; a copy."""
        return _copy(self.c.nodes + begin, self.c.count - begin)


cdef object _translate(Mapping mapping, const gz_ids *table, uint64_t limit, object ids,
                       int num_threads):
    cdef const int64_t[::1] flat = ids.reshape(-1)
    out = empty(ids.shape, np.int64)
    cdef int64_t[::1] view = out.reshape(-1)
    cdef int64_t n = flat.shape[0], i
    cdef uint64_t corrupt = 0
    mapping.acquire()
    try:
        for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
            corrupt += gz_translate(table, limit, &flat[0], i * ITEMS_PER_RANGE, _end(i, n),
                                    &view[0])
    finally:
        mapping.release()
    _refuse_corrupt(corrupt, mapping.path)
    return out
