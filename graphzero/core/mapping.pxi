# A mapped file: open, close, views of it, and requests to the kernel about its pages.

_ADVICE = {"normal": GZ_ADVICE_NORMAL, "random": GZ_ADVICE_RANDOM,
           "sequential": GZ_ADVICE_SEQUENTIAL, "willneed": GZ_ADVICE_WILLNEED,
           "populate": GZ_ADVICE_POPULATE, "release": GZ_ADVICE_RELEASE, "huge": GZ_ADVICE_HUGE}
_SOURCES = {"fastest": GZ_RESIDENCY_FASTEST, "mincore": GZ_RESIDENCY_MINCORE,
            "cachestat": GZ_RESIDENCY_CACHESTAT}

cdef enum:
    CHECKED_FROM = 256  # items: from there on, the system call takes less than 1 % of the work

cdef int64_t _open_mappings = 0


def open_mappings():
    """Number of `Mapping` objects that hold a file mapped (a leak counter for tests)."""
    return _open_mappings


cdef class Mapping:
    """A whole file, mapped read-only and shared.

    Exports a read-only buffer. NumPy arrays over it keep the mapping alive, and are counted:
    `close` refuses while one of them, or a running call, still uses the pages.

    Parameters
    ----------
    path : str or os.PathLike
        A regular file.
    held_at : str, optional
        Where to open it instead: see the property.

    Attributes
    ----------
    path : str
    advice : str
        How pages around a page fault are read: the last advice for the whole file.

    Raises
    ------
    OSError
        If the file cannot be opened or mapped; with errno and path.
    """
    cdef gz_mapping c
    cdef bint is_open
    cdef Py_ssize_t users
    cdef readonly str path
    cdef readonly str advice

    def __cinit__(self, path, held_at=None):
        cdef gz_error err
        cdef bytes encoded
        cdef const char *c_path
        cdef gz_code code
        global _open_mappings
        self.is_open = False
        self.advice = "normal"
        self.path = os.path.abspath(os.fsdecode(path))
        encoded = os.fsencode(self.path if held_at is None else held_at)
        c_path = encoded
        with nogil:
            code = gz_mapping_open(c_path, &self.c, &err)
        if code != GZ_OK:
            _raise(&err, self.path)
        self.is_open = True
        _open_mappings += 1

    def __dealloc__(self):
        self._unmap()

    cdef void _unmap(self) noexcept:
        global _open_mappings
        if self.is_open:
            self.is_open = False
            _open_mappings -= 1
            gz_mapping_close(&self.c)

    cdef int acquire(self) except -1:
        """Keeps the file mapped while a C function runs without the GIL."""
        if not self.is_open:
            raise ValueError(f"{self.path} is closed")
        self.users += 1
        return 0

    cdef int acquire_whole(self, int64_t items=CHECKED_FROM) except -1:
        """`acquire` before that many items are read; see `check_size`."""
        cdef gz_error err
        self.acquire()
        if items >= CHECKED_FROM and gz_mapping_check_size(&self.c, &err) != GZ_OK:
            self.release()
            _raise(&err, self.path)
        return 0

    def check_size(self):
        """Raises an error where the file has become shorter since it was opened.

        Touching a page beyond the end would raise SIGBUS, which ends the process. Nothing protects
        against a file that is truncated while its pages are read.

        Raises
        ------
        FormatError
            With both sizes.
        """
        self.acquire_whole()
        self.release()

    cdef void release(self) noexcept:
        self.users -= 1

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if flags & PyBUF_WRITABLE:
            raise BufferError("a mapped file is read-only")
        self.acquire_whole()
        try:
            PyBuffer_FillInfo(buffer, self, self.c.base, self.c.size, 1, flags)
        except BaseException:
            self.release()
            raise

    def __releasebuffer__(self, Py_buffer *buffer):
        self.release()

    def close(self):
        """Unmaps the file.

        Raises
        ------
        BufferError
            While arrays over the mapping exist; delete them first.
        """
        if self.is_open and self.users > 0:
            raise BufferError(
                f"{self.path}: {self.users} arrays or calls still use the mapping; "
                f"delete the views (or copy them) before closing")
        self._unmap()

    @property
    def held_at(self):
        """Where Linux has this very file while it is open here, also if another one replaces it."""
        return f"/proc/{os.getpid()}/fd/{self.c.fd}"

    @property
    def size(self):
        """Bytes of the file when it was opened."""
        return self.c.size

    def read(self, uint64_t offset, uint64_t length):
        """Bytes of the file by ``pread``: an error where a mapped page would be a SIGBUS."""
        cdef gz_error err
        cdef gz_code code
        cdef bytes out = bytes(length)
        cdef unsigned char *data = <unsigned char *> <char *> out
        self.acquire()
        try:
            with nogil:
                code = gz_mapping_read(&self.c, offset, length, data, &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        return out

    def advise(self, str advice, uint64_t offset=0, length=None):
        """``madvise`` over a byte range (default: from offset to the end of the file).

        "populate" reads the pages and maps them; "release" unmaps them, and drops them from the
        page cache unless another process has them mapped; "huge" has later page faults read pages
        of 2 MiB.
        """
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t bytes_ = self.c.size - offset if length is None else length
        cdef gz_advice value = _ADVICE[advice]
        self.acquire()
        try:
            with nogil:
                code = gz_mapping_advise(&self.c, offset, bytes_, value, &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        if length is None and offset == 0 and value <= GZ_ADVICE_SEQUENTIAL:
            self.advice = advice

    def resident_pages(self, uint64_t offset=0, length=None):
        """Pages of a byte range in the page cache, as ``mincore`` tells."""
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t pages, bytes_ = self.c.size - offset if length is None else length
        self.acquire()
        try:
            with nogil:
                code = gz_mapping_resident(&self.c, offset, bytes_, &pages, &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        return pages

    def residency(self, uint64_t parts, str source="fastest"):
        """Pages of each part of the file in the page cache.

        Parameters
        ----------
        parts : int
            Number of parts, at least 1. Their sizes differ by one page at most, the longer ones
            first; parts beyond the number of pages are empty.
        source : {"fastest", "mincore", "cachestat"}
            Of these system calls, ``mincore`` visits every page of the file, ``cachestat`` (Linux
            6.5) only those in memory. "fastest": ``cachestat`` of large parts where it works.

        Returns
        -------
        (parts,) uint64

        Raises
        ------
        OSError
            If parts is 0, or the system does not tell.
        """
        cdef gz_error err
        cdef gz_code code
        cdef gz_residency_source value = _SOURCES[source]
        pages = np.zeros(parts if parts > 0 else 1, dtype=np.uint64)
        cdef uint64_t[::1] view = pages
        self.acquire()
        try:
            with nogil:
                code = gz_residency(&self.c, value, parts, &view[0], &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        return pages

    def page_map(self, uint64_t first, uint64_t count, bint trust_mincore=True, out=None):
        """Which pages of the file are in memory.

        Parameters
        ----------
        first, count : int
            Number of the first page, and how many.
        trust_mincore : bool
            True: pages in the page cache. False, where ``mincore`` is known to lie: pages that
            this process has mapped.
        out : (count,) uint8, optional

        Returns
        -------
        (count,) uint8
            1 for each page that is in memory, else 0.

        Raises
        ------
        OSError
            If the range reaches beyond the file, or the system does not tell.
        """
        cdef gz_error err
        cdef gz_code code = GZ_OK
        pages = np.empty(count, dtype=np.uint8) if out is None else out
        cdef uint8_t[::1] view = pages
        if <uint64_t> view.shape[0] != count:
            raise ValueError("out has the wrong size")
        self.acquire()
        try:
            if count > 0:
                with nogil:
                    code = gz_page_map_read(&self.c, first, count, trust_mincore, &view[0], &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        return pages

    def willneed(self, const int64_t[::1] rows, uint64_t origin, uint64_t row_bytes,
                 uint64_t gap_pages=0, bint trust_mincore=True, bint only_count=False):
        """Page read-ahead: asks the kernel to read the pages of ascending rows (``madvise``).

        Parameters
        ----------
        rows : (n,) int64
            Ascending row numbers; row r starts at byte ``origin + r * row_bytes``.
        gap_pages : int
            Unwanted pages that a run may include to merge two runs.
        trust_mincore : bool
            False where ``mincore`` is known to lie: then every run is requested, and the pages that
            the kernel reads count as missing (all of them where it does not say how many).
        only_count : bool
            Only count the missing pages.

        Returns
        -------
        (int, int, int)
            Pages covered, pages that were missing, madvise calls made.
        """
        cdef gz_error err
        cdef gz_code code
        cdef gz_willneed_counts counts
        cdef gz_willneed_mode mode = GZ_WILLNEED_MISSING
        cdef int64_t count = rows.shape[0], num_runs
        if only_count:
            mode = GZ_WILLNEED_ONLY_COUNT
        elif not trust_mincore:
            mode = GZ_WILLNEED_ALL
        if count == 0:
            return 0, 0, 0
        if rows[0] < 0 or origin + (<uint64_t> rows[count - 1] + 1) * row_bytes > self.c.size:
            raise IndexError(f"{self.path}: rows beyond the end of the file")
        cdef unsigned char[::1] memory = np.empty(count * sizeof(gz_run), dtype=np.uint8)
        cdef gz_run *runs = <gz_run *> &memory[0]
        self.acquire()
        try:
            with nogil:
                num_runs = gz_page_runs(&rows[0], count, origin, row_bytes, gap_pages, self.c.size,
                                        runs)
                code = gz_willneed(&self.c, runs, num_runs, mode, &counts, &err)
        finally:
            self.release()
        if code != GZ_OK:
            _raise(&err, self.path)
        return counts.pages, counts.missing, counts.calls
