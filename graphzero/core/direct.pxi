# Feature rows of a file, read past the page cache.

BUFFER_BYTES = GZ_BUFFER_BYTES
URING_DEPTH = 128
HAVE_URING = bool(gz_uring_is_built())


def uring_refusal():
    """Why this process cannot use io_uring now; None if it can."""
    cdef gz_error err
    cdef gz_code code
    with nogil:
        code = gz_uring_probe(&err)
    return None if code == GZ_OK else (<bytes> err.message).decode("utf-8", "replace")


_PICK = np.dtype([("row", np.uint64), ("place", np.uint64)])
PICK_BYTES = _PICK.itemsize

cdef enum:
    MOST_IN_FLIGHT = 4096


cdef unsigned _in_flight(str name, int value) except? 0:
    if not 1 <= value <= MOST_IN_FLIGHT:
        raise ValueError(f"{name} must be 1 to {MOST_IN_FLIGHT}, not {value}")
    return value


cdef uint64_t _gap(uint64_t pages) noexcept nogil:
    """A gap longer than a buffer makes no difference, and must not overflow when it is in bytes."""
    return min(pages, GZ_BUFFER_BYTES // gz_system_page_bytes())


cdef class Fetched:
    """The rows of a batch: those that `DirectReader.fetch` has read, and those in the mapping.

    Attributes
    ----------
    counts : (int, int, int)
        Pages that hold the rows to read, pages read (with gaps), reads made.
    """
    cdef readonly Mapping mapping
    cdef readonly tuple counts
    cdef const int64_t[::1] rows
    cdef uint64_t origin, row_bytes
    cdef int64_t count
    cdef const uint8_t[::1] in_memory  # of each row: whether it is copied from the mapping
    cdef gz_pick[::1] picks  # maps read order to places
    cdef unsigned char[::1] stored

    @property
    def num_rows(self):
        return self.rows.shape[0]

    @property
    def num_bytes(self):
        """Memory of the rows that were read."""
        return self.count * (self.row_bytes + PICK_BYTES)

    def split(self, counts):
        """The rows of each mini-batch of a group, of so many rows, in order.

        Returns
        -------
        list of Fetched
            Their `counts` are parts of these, in proportion to the rows that were read for them.
        """
        cdef int64_t parts = len(counts), i, first = 0
        cdef int64_t[::1] ends = np.cumsum(counts), begins = np.zeros(parts + 1, np.int64)
        cdef gz_pick[::1] picks
        cdef Fetched part
        if ends[parts - 1] != self.rows.shape[0]:
            raise ValueError("the mini-batches have other rows than those that were fetched")
        if self.count > 0:
            picks = empty(self.count, _PICK)
            with nogil:
                gz_picks_divide(&self.picks[0], self.count, &ends[0], parts, &picks[0], &begins[0])
        result = []
        for i in range(parts):
            part = Fetched.__new__(Fetched)
            part.mapping, part.origin, part.row_bytes = self.mapping, self.origin, self.row_bytes
            part.rows, part.count = self.rows[first:ends[i]], begins[i + 1] - begins[i]
            if self.in_memory is not None:
                part.in_memory = self.in_memory[first:ends[i]]
            if part.count > 0:
                part.picks, part.stored = picks[begins[i]:begins[i + 1]], self.stored
            part.counts = tuple(_shares(self.counts, begins, self.count, i))
            result.append(part)
            first = ends[i]
        return result


def _shares(counts, const int64_t[::1] begins, int64_t total, int64_t part):
    """Of each count the share of one part; they add up to the count."""
    return [count * begins[part + 1] // max(total, 1) - count * begins[part] // max(total, 1)
            for count in counts]


cdef class DirectReader:
    """Reads rows of a mapped file past the page cache, each to its place in an array.

    Methods may be called from any thread; a lock serialises them. A forked child that uses the
    reader of its parent gets its own ring and buffers at its first call.

    Parameters
    ----------
    mapping : Mapping
    origin, row_bytes, num_rows : int
        First byte of row 0, bytes of a row, number of rows.
    engine : {"uring", "pread"}
        io_uring from the calling thread, or several threads with one read each. Both give the
        same bytes.
    depth : int
        Reads in flight at a time, with "uring".
    threads : int
        Likewise, with "pread". The threads live for one call.

    Attributes
    ----------
    is_direct : bool
        False if the file system does not support direct reads (tmpfs, some overlays): reads then
        go through the page cache, with the same results.

    Raises
    ------
    OSError
        If `engine` is "uring" and `uring_refusal` has a reason; or if the file cannot be opened
        again.
    FormatError
        If the rows reach beyond the end of the file.
    """
    cdef readonly Mapping mapping
    cdef readonly str engine
    cdef readonly uint64_t origin, row_bytes, num_rows
    cdef gz_direct file
    cdef gz_buffers buffers
    cdef gz_uring *ring
    cdef unsigned count
    cdef bint is_open
    cdef object lock
    cdef pid_t owner

    def __cinit__(self, Mapping mapping, uint64_t origin, uint64_t row_bytes, uint64_t num_rows,
                  *, str engine="uring", int depth=URING_DEPTH, int threads=16):
        cdef gz_error err
        self.ring = NULL
        self.buffers.memory = NULL
        self.file.fd = -1
        self.is_open = False
        if engine not in ("uring", "pread"):
            raise ValueError(f"engine must be 'uring' or 'pread', not {engine!r}")
        self.count = _in_flight("depth", depth) if engine == "uring" else (
            _in_flight("threads", threads))
        self.mapping, self.engine = mapping, engine
        self.origin, self.row_bytes, self.num_rows = origin, row_bytes, num_rows
        self.lock, self.owner = threading.Lock(), getpid()
        mapping.acquire()
        try:
            _require_rows(mapping, origin, row_bytes, num_rows)
            with nogil:
                code = gz_direct_open(&mapping.c, &self.file, &err)
        finally:
            mapping.release()
        if code != GZ_OK:
            _raise(&err, mapping.path)
        self._open_engine()
        self.is_open = True

    def __dealloc__(self):
        self._close_engine()
        gz_direct_close(&self.file)

    cdef int _open_engine(self) except -1:
        cdef gz_error err
        cdef gz_code code = gz_buffers_open(self.count, &self.buffers, &err)
        if code == GZ_OK and self.engine == "uring":
            code = gz_uring_open(&self.buffers, &self.ring, &err)
        if code != GZ_OK:
            self._close_engine()
            _raise(&err, self.mapping.path)
        return 0

    cdef int _require_engine(self) except -1:
        if not self.is_open:
            raise ValueError(f"the reader of {self.mapping.path} is closed")
        if self.buffers.memory == NULL:
            self._open_engine()
        return 0

    cdef void _close_engine(self) noexcept:
        gz_uring_close(self.ring)
        self.ring = NULL
        gz_buffers_close(&self.buffers)

    cdef int _leave_to_parent(self) except -1:
        """In a forked child, drops the parent's ring and lock; a thread may have held the lock."""
        cdef pid_t here = getpid()
        if self.owner != here:
            lock = threading.Lock()
            if self.owner != here:  # checked again: another thread may have been here first
                self.lock, self.owner = lock, here
                self._close_engine()
        return 0

    @property
    def is_direct(self):
        return self.file.is_direct

    def fetch(self, const int64_t[::1] rows, const uint8_t[::1] page_map=None,
              uint64_t gap_pages=0):
        """Reads the rows of a batch that are not in memory; each page is read once.

        Parameters
        ----------
        rows : (n,) int64
            Row numbers in any order, with repeats. Must not change before they are placed.
        page_map : (num_pages,) uint8, optional
            Which pages are in memory (`Mapping.page_map`), from the one on that holds byte
            `origin`. Rows in them are not read: `Fills` copies them from the mapping.
        gap_pages : int
            Unwanted pages that a read may include to merge two reads.

        Returns
        -------
        Fetched

        Raises
        ------
        FormatError
            If the file was truncated after it was opened.
        OSError
            If reading fails.
        IndexError
            If a row is out of range.
        ValueError
            If the reader is closed.
        """
        cdef int64_t n = rows.shape[0], count
        cdef gz_error err
        cdef gz_code code = GZ_OK
        cdef gz_fetch fetch
        cdef gz_pick[::1] picks
        cdef uint8_t[::1] in_memory
        cdef gz_page_map known
        cdef Fetched fetched = Fetched.__new__(Fetched)
        if n > 0 and gz_first_outside(&rows[0], 0, n, self.num_rows) < n:
            raise IndexError(f"{self.mapping.path}: rows must be in [0, {self.num_rows})")
        fetched.mapping, fetched.rows = self.mapping, rows
        fetched.origin, fetched.row_bytes, fetched.count = self.origin, self.row_bytes, 0
        fetched.counts = 0, 0, 0
        if n == 0 or self.row_bytes == 0:
            return fetched
        picks = empty(2 * n, _PICK)
        in_memory = np.empty(n, np.uint8)
        known.pages, known.count = NULL, 0
        known.origin, known.row_bytes = self.origin, self.row_bytes
        if page_map is not None and page_map.shape[0] > 0:
            known.pages, known.count = &page_map[0], page_map.shape[0]
        with nogil:
            count = gz_picks_beyond(&rows[0], n, &known, &picks[0], &in_memory[0])
        fetched.in_memory = in_memory
        if count == 0:
            return fetched
        fetched.count = count
        fetched.picks, fetched.stored = empty(count, _PICK), empty(count * self.row_bytes, np.uint8)
        memset(&fetch, 0, sizeof(fetch))
        fetch.out = &fetched.stored[0]
        fetch.reads.picks, fetch.reads.count = &picks[0], count
        fetch.reads.gap_pages = _gap(gap_pages)
        self._leave_to_parent()
        with self.lock:
            self._require_engine()
            with nogil:
                gz_picks_sort(&picks[0], &picks[n], count)
                gz_picks_in_turn(&picks[0], count, &fetched.picks[0])
                code = self._read(&fetch, &err)
            if code != GZ_OK:
                self._close_engine()
                _raise(&err, self.mapping.path)
        fetched.counts = fetch.reads.pages_wanted, fetch.reads.pages_read, fetch.reads.reads
        return fetched

    cdef gz_code _read(self, gz_fetch *fetch, gz_error *err) noexcept nogil:
        cdef gz_code code = gz_direct_check(&self.file, err)
        if code != GZ_OK:
            return code
        fetch.file = &self.file
        fetch.reads.origin, fetch.reads.row_bytes = self.origin, self.row_bytes
        fetch.reads.most_bytes = GZ_BUFFER_BYTES
        fetch.reads.page_bytes = gz_system_page_bytes()
        if self.ring != NULL:
            return gz_uring_fetch(self.ring, fetch, err)
        return gz_preads_fetch(&self.buffers, fetch, err)

    def close(self):
        """Closes the reader, after a running call has ended; the mapping stays open."""
        self._leave_to_parent()
        with self.lock:
            self.is_open = False
            self._close_engine()
            gz_direct_close(&self.file)
