# Arrays of mini-batches, filled together by a team: copied, translated, gathered.

cdef enum:
    PART_BYTES = 1 << 17  # small fills of a batch are one item of work up to this size
    FILLED_IDS = 1 << 14  # of a range

cdef class Fills:
    """What is to be written to the arrays of some mini-batches, and by `run` is.

    Parameters
    ----------
    num_batches : int
    """
    cdef gz_fill *fills
    cdef gz_fill_part *parts
    cdef int64_t num_fills, num_parts, room, part_bytes
    cdef int64_t num_batches, batch
    cdef list batches   # of each part
    cdef list mappings  # of each fill; None for memory
    cdef list arrays    # that the fills refer to

    def __cinit__(self, int64_t num_batches):
        self.fills, self.parts = NULL, NULL
        self.num_fills = self.num_parts = self.room = 0
        self.num_batches, self.batch, self.part_bytes = num_batches, -1, 0
        self.batches, self.mappings, self.arrays = [], [], []

    def __dealloc__(self):
        free(self.fills)
        free(self.parts)

    cdef int _reserve(self) except -1:
        """Room for one more fill, and a part for it."""
        cdef int64_t room
        cdef void *memory
        if self.num_fills < self.room:
            return 0
        room = max(64, 2 * self.room)
        memory = realloc(self.fills, room * sizeof(gz_fill))
        if memory == NULL:
            raise MemoryError()
        self.fills = <gz_fill *> memory
        memory = realloc(self.parts, room * sizeof(gz_fill_part))
        if memory == NULL:
            raise MemoryError()
        self.parts, self.room = <gz_fill_part *> memory, room
        return 0

    cdef int _add(self, int64_t batch, const gz_fill *whole, int64_t count, int64_t step,
                  uint64_t bytes_each, Mapping mapping) except -1:
        """Adds elements 0 to count - 1, in ranges of `step`."""
        cdef int64_t begin
        cdef uint64_t num_bytes
        for begin in range(0, count, step):
            self._reserve()
            self.fills[self.num_fills] = whole[0]
            self.fills[self.num_fills].begin = begin
            self.fills[self.num_fills].end = min(begin + step, count)
            num_bytes = min(step, count - begin) * bytes_each
            if batch != self.batch or self.part_bytes + num_bytes > PART_BYTES:
                self.parts[self.num_parts].first = self.num_fills
                self.num_parts += 1
                self.batches.append(batch)
                self.batch, self.part_bytes = batch, 0
            self.num_fills += 1
            self.part_bytes += num_bytes
            self.parts[self.num_parts - 1].end = self.num_fills
            self.mappings.append(mapping)
        return 0

    cdef int copy(self, int64_t batch, const void *data, int64_t num_bytes, out) except -1:
        """Bytes of memory that stays as it is until `run`."""
        cdef gz_fill fill
        cdef unsigned char[::1] view
        if num_bytes == 0:
            return 0
        view = out.reshape(-1).view(np.uint8)
        memset(&fill, 0, sizeof(fill))
        fill.kind, fill.out, fill.from_ = GZ_FILL_COPY, &view[0], <const unsigned char *> data
        self.arrays.append(out)
        return self._add(batch, &fill, num_bytes, PART_BYTES, 1, None)

    cdef int translate(self, int64_t batch, Mapping mapping, const gz_ids *table, uint64_t limit,
                       const int64_t *ids, int64_t count, out) except -1:
        """Entries of a table of a file."""
        cdef gz_fill fill
        cdef int64_t[::1] view
        if count == 0:
            return 0
        view = out
        memset(&fill, 0, sizeof(fill))
        fill.kind, fill.out = GZ_FILL_TRANSLATE, <unsigned char *> &view[0]
        fill.table, fill.limit, fill.ids = table[0], limit, ids
        self.arrays.append(out)
        return self._add(batch, &fill, count, FILLED_IDS, 8, mapping)

    def repeat(self, int64_t batch, const unsigned char[::1] row, unsigned char[::1] out):
        """A row of at least one byte, as often as it fits in the bytes of an array."""
        cdef gz_fill fill
        if out.shape[0] == 0:
            return
        memset(&fill, 0, sizeof(fill))
        fill.kind, fill.from_, fill.row_bytes = GZ_FILL_REPEAT, &row[0], row.shape[0]
        fill.out = &out[0]
        self.arrays.append((row, out))
        self._add(batch, &fill, out.shape[0] // row.shape[0], ITEMS_PER_RANGE, fill.row_bytes, None)

    def add_copy(self, int64_t batch, array, out):
        """A contiguous array, to one of the same size and dtype."""
        cdef const unsigned char[::1] source
        if array.dtype != out.dtype or array.size != out.size:
            raise ValueError("out has another dtype or size")
        if array.size > 0:
            flat = array.reshape(-1).view(np.uint8)
            source = flat
            self.arrays.append(flat)
            self.copy(batch, &source[0], source.shape[0], out)

    def add_rows(self, int64_t batch, Rows rows, const int64_t[::1] ids, unsigned char[::1] out,
                 uint32_t from_dtype=0):
        """Rows of a file, by number, to the bytes of a mini-batch's array; see `Rows.gather`.

        Raises
        ------
        ValueError
            If out has the wrong size.
        """
        cdef gz_fill fill
        cdef int64_t n = ids.shape[0]
        memset(&fill, 0, sizeof(fill))
        _cast_rows(from_dtype, rows.row_bytes, n, out, &fill.cast)
        if out.shape[0] == 0:
            return
        fill.kind, fill.out, fill.ids = GZ_FILL_ROWS, &out[0], &ids[0]
        fill.from_, fill.row_bytes = rows.mapping.c.base + rows.origin, rows.row_bytes
        self.arrays.append((ids, out))
        self._add(batch, &fill, n, ITEMS_PER_RANGE, rows.row_bytes, rows.mapping)

    def add_fetched(self, int64_t batch, Fetched fetched, unsigned char[::1] out,
                    uint32_t from_dtype=0):
        """Rows that were read past the page cache, and the others; see `DirectReader.fetch`.

        Raises
        ------
        ValueError
            If out has the wrong size.
        """
        cdef gz_fill fill
        cdef int64_t n = fetched.rows.shape[0]
        memset(&fill, 0, sizeof(fill))
        _cast_rows(from_dtype, fetched.row_bytes, n, out, &fill.cast)
        if out.shape[0] == 0:
            return
        fill.out, fill.row_bytes = &out[0], fetched.row_bytes
        self.arrays.append((fetched, out))
        if fetched.count < n:
            fill.kind, fill.ids, fill.chosen = GZ_FILL_ROWS, &fetched.rows[0], &fetched.in_memory[0]
            fill.from_ = fetched.mapping.c.base + fetched.origin
            self._add(batch, &fill, n, ITEMS_PER_RANGE, fetched.row_bytes, fetched.mapping)
        if fetched.count > 0:
            fill.kind, fill.picks = GZ_FILL_PICKS, &fetched.picks[0]
            fill.from_ = &fetched.stored[0]
            self._add(batch, &fill, fetched.count, ITEMS_PER_RANGE, fetched.row_bytes, None)

    def run(self, Team team, Stop stop):
        """Writes everything; where `stop` is set meanwhile, not all of it.

        Returns
        -------
        (num_batches, 2) float64
            Seconds that threads have worked for each mini-batch, and waited for the disk.

        Raises
        ------
        FormatError
            If a file was truncated, or its ids are out of range.
        """
        cdef int64_t i, batch, acquired = 0
        cdef Mapping mapping
        spent = np.zeros((self.num_batches, 2))
        cdef double[:, ::1] view = spent
        files = list(set(self.mappings) - {None})
        try:
            for mapping in files:
                mapping.acquire_whole()
                acquired += 1
            with nogil:
                gz_group_fill(team.c, self.fills, self.parts, self.num_parts, &stop.c)
        finally:
            for mapping in files[:acquired]:
                mapping.release()
        for i in range(self.num_fills):
            if self.fills[i].corrupt:
                mapping = self.mappings[i]
                _refuse_corrupt(self.fills[i].corrupt, mapping.path)
        for i in range(self.num_parts):
            batch = self.batches[i]
            view[batch, 0] += (self.parts[i].spent.wall - self.parts[i].spent.disk) * 1e-9
            view[batch, 1] += self.parts[i].spent.disk * 1e-9
        return spent
