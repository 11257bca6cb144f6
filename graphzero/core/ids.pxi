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


cdef enum:
    TRANSLATED_AHEAD_FROM = 4096  # ids: fewer do not pay for the look whether a table is in memory


cdef unsigned char[::1] _picks(int64_t count):
    """Memory for so many picks."""
    return empty(max(count, 1) * sizeof(gz_pick), np.uint8)


cdef gz_page_ahead _ahead_of(const gz_mapping *mapping, bint trust_mincore,
                             gz_pick *pages) noexcept nogil:
    """`pages` has room for 2 * GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES."""
    cdef gz_page_ahead ahead
    ahead.mapping = mapping
    ahead.mode = GZ_WILLNEED_MISSING if trust_mincore else GZ_WILLNEED_ALL
    ahead.pages, ahead.scratch = pages, pages + GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES
    ahead.count, ahead.block = 0, GZ_AHEAD_FIRST
    return ahead


cdef object _translate(Mapping mapping, const gz_ids *table, uint64_t limit, object ids,
                       int num_threads):
    cdef const int64_t[::1] flat = ids.reshape(-1)
    out = empty(ids.shape, np.int64)
    cdef int64_t[::1] view = out.reshape(-1)
    cdef int64_t n = flat.shape[0], i
    cdef uint64_t corrupt = 0
    mapping.acquire_whole(n)
    try:
        if n >= TRANSLATED_AHEAD_FROM and gz_missing_looks(
                &mapping.c, table.data, limit * (8 if table.wide else 4), True) > 0:
            corrupt = _translate_ahead(mapping, table, limit, flat, view)
            num_threads, n = 1, 0
        for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
            corrupt += gz_translate(table, limit, &flat[0], i * ITEMS_PER_RANGE, _end(i, n),
                                    &view[0])
    finally:
        mapping.release()
    _refuse_corrupt(corrupt, mapping.path)
    return out


cdef uint64_t _translate_ahead(Mapping mapping, const gz_ids *table, uint64_t limit,
                               const int64_t[::1] ids, int64_t[::1] out) except? -1:
    """The same in the order of the table, whose pages are read ahead."""
    cdef int64_t n = ids.shape[0], i, count = 0
    cdef uint64_t corrupt
    cdef unsigned char[::1] memory = _picks(n), scratch = _picks(n)
    cdef unsigned char[::1] pages = _picks(2 * GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES)
    cdef gz_pick *picks = <gz_pick *> &memory[0]
    cdef gz_page_ahead ahead = _ahead_of(&mapping.c, True, <gz_pick *> &pages[0])
    with nogil:
        for i in range(n):
            out[i] = ids[i]  # -1 stays
            if ids[i] >= 0:
                picks[count].row, picks[count].place = ids[i], i
                count += 1
        gz_picks_sort(picks, <gz_pick *> &scratch[0], count)
        corrupt = gz_translate_ahead(&ahead, table, limit, picks, count, &out[0], 1)
    return corrupt


cdef class IdTable:
    """A table of ids in a file: of the user's ids of nodes, or of positions in the edge list."""
    cdef Mapping mapping
    cdef gz_ids ids
    cdef uint64_t limit

    cdef bint is_cold(self) except -1:
        """Whether some of it is not in memory."""
        self.mapping.acquire_whole()
        try:
            return gz_missing_looks(&self.mapping.c, self.ids.data,
                                    self.limit * (8 if self.ids.wide else 4), True) > 0
        finally:
            self.mapping.release()

    def translate(self, places, int num_threads=1):
        """The ids at some places; -1 stays -1."""
        return _translate(self.mapping, &self.ids, self.limit, places, num_threads)


cdef IdTable _table_of(Mapping mapping, const gz_ids *ids, uint64_t limit):
    cdef IdTable table = IdTable.__new__(IdTable)
    table.mapping, table.ids, table.limit = mapping, ids[0], limit
    return table
