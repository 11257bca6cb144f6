# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: embedsignature=True
"""The compiled core: coerces buffers, runs the C kernels without the GIL, checks, returns.

Nothing here decides anything: ranges are cut for ``prange``, codes become exceptions. Ids are
int64 arrays that the caller has validated (`graphzero.ids`), unless a method says that it checks.
"""
import math
import os
import threading

import numpy as np

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from cython.parallel cimport prange
from libc.errno cimport EIO
from libc.string cimport memcpy, memset
from posix.unistd cimport getpid, pid_t

from graphzero.errors import FormatError

gz_fork_guard()

PAGE_BYTES = int(gz_system_page_bytes())
ADVICE = {"normal": GZ_ADVICE_NORMAL, "random": GZ_ADVICE_RANDOM,
          "sequential": GZ_ADVICE_SEQUENTIAL, "willneed": GZ_ADVICE_WILLNEED}
MOST_HOPS = GZ_MOST_HOPS
BUFFER_BYTES = GZ_BUFFER_BYTES
URING_DEPTH = 128
KINDS = {"graph": GZ_KIND_GRAPH, "features": GZ_KIND_FEATURES}

cdef enum:
    ITEMS_A_RANGE = 1024  # small enough to balance two threads over one hop of one mini-batch

cdef int64_t _open_mappings = 0


def open_mappings():
    """Number of `Mapping` objects that hold a file mapped (a leak counter for tests)."""
    return _open_mappings


cdef int _raise(const gz_error *err, object path) except -1:
    """The one place where a C code becomes an exception."""
    cdef str message = (<bytes> err.message).decode("utf-8", "replace")
    if err.code == GZ_E_OS:
        code = err.saved_errno or EIO
        raise OSError(code, f"{message}: {os.strerror(code)}", path)
    if err.code == GZ_E_NOMEM:
        raise MemoryError(message)
    raise FormatError(f"{path} {message}")


cdef int _refuse_corrupt(uint64_t corrupt, object path) except -1:
    if corrupt != 0:
        raise FormatError(
            f"{path} is corrupt: {corrupt} entries read in this call are out of range; "
            f"check it with 'graphzero verify' and build it again")
    return 0


cdef inline int64_t _ranges(int64_t items) noexcept nogil:
    return (items + ITEMS_A_RANGE - 1) // ITEMS_A_RANGE


cdef inline int64_t _end(int64_t index, int64_t items) noexcept nogil:
    cdef int64_t end = (index + 1) * ITEMS_A_RANGE
    return end if end < items else items


cdef inline int _threads(int asked, int64_t items) noexcept nogil:
    """As many as there are ranges to work on; one where a fork has taken the pool away."""
    cdef int64_t ranges = _ranges(items)
    if not gz_may_use_threads() or ranges <= 1:
        return 1
    return asked if asked < ranges else <int> ranges


# ---------------------------------------------------------------------------- files and mapping

cdef dict _header_to_dict(const gz_header *header):
    sections = []
    cdef uint32_t i
    for i in range(header.num_sections):
        sections.append((
            (<bytes> header.sections[i].name).decode("latin-1"), header.sections[i].dtype,
            header.sections[i].offset, header.sections[i].count, header.sections[i].length,
            header.sections[i].crc))
    return {"flags": header.flags, "file_bytes": header.file_bytes,
            "num_nodes": header.num_nodes, "width": header.width,
            "num_input_edges": header.num_input_edges, "sections": sections}


def header_decode(const unsigned char[::1] page, uint64_t file_bytes, str kind, object path="file"):
    """Header page as a dict; the C twin of `graphzero.format.decode_header`."""
    cdef gz_header header
    cdef gz_error err
    if page.shape[0] < GZ_PAGE_BYTES:
        raise FormatError(f"{path} is truncated: it has no whole header page")
    if gz_header_decode(&page[0], file_bytes, KINDS[kind], &header, &err) != GZ_OK:
        _raise(&err, path)
    return _header_to_dict(&header)


def header_encode(dict fields, str kind):
    """Header page of 4096 bytes; the C twin of `graphzero.format.encode_header`."""
    cdef gz_header header
    cdef bytes name, page
    memset(&header, 0, sizeof(header))
    header.kind = KINDS[kind]
    header.flags = fields["flags"]
    header.file_bytes = fields["file_bytes"]
    header.num_nodes = fields["num_nodes"]
    header.width = fields["width"]
    header.num_input_edges = fields["num_input_edges"]
    sections = fields["sections"]
    if len(sections) > GZ_MAX_SECTIONS:
        raise ValueError(f"at most {GZ_MAX_SECTIONS} sections")
    header.num_sections = len(sections)
    for i, (text, dtype, offset, count, length, crc) in enumerate(sections):
        name = text.encode("latin-1")
        if not 0 < len(name) <= GZ_NAME_BYTES:
            raise ValueError(f"section name {text!r} is not 1 to {GZ_NAME_BYTES} bytes long")
        memcpy(header.sections[i].name, <const char *> name, len(name))
        header.sections[i].dtype = dtype
        header.sections[i].offset = offset
        header.sections[i].count = count
        header.sections[i].length = length
        header.sections[i].crc = crc
    page = bytes(GZ_PAGE_BYTES)
    gz_header_encode(&header, <unsigned char *> <char *> page)
    return page


def crc32(const unsigned char[::1] data):
    """CRC-32 as `zlib.crc32` computes it."""
    return gz_crc32(&data[0], data.shape[0])


cdef class Mapping:
    """A whole file, mapped read-only and shared.

    Exports a read-only buffer. NumPy arrays over it keep the mapping alive, and are counted:
    `close` refuses while one of them, or a running kernel, still needs the pages.

    Parameters
    ----------
    path : str or os.PathLike
        A regular file.

    Raises
    ------
    OSError
        If the file cannot be opened or mapped; with errno and path.
    """
    cdef gz_mapping c
    cdef bint is_open
    cdef Py_ssize_t users
    cdef readonly str path

    def __cinit__(self, path):
        cdef gz_error err
        cdef bytes encoded
        cdef const char *c_path
        cdef gz_code code
        global _open_mappings
        self.is_open = False
        self.path = os.path.abspath(os.fsdecode(path))
        encoded = os.fsencode(self.path)
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

    cdef int pin(self) except -1:
        """Keeps the pages while a kernel runs without the GIL."""
        if not self.is_open:
            raise ValueError(f"{self.path} is closed")
        self.users += 1
        return 0

    cdef void unpin(self) noexcept:
        self.users -= 1

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if flags & PyBUF_WRITABLE:
            raise BufferError("a mapped file is read-only")
        self.pin()
        try:
            PyBuffer_FillInfo(buffer, self, self.c.base, self.c.size, 1, flags)
        except BaseException:
            self.unpin()
            raise

    def __releasebuffer__(self, Py_buffer *buffer):
        self.unpin()

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
    def closed(self):
        return not self.is_open

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
        self.pin()
        try:
            with nogil:
                code = gz_mapping_read(&self.c, offset, length, data, &err)
        finally:
            self.unpin()
        if code != GZ_OK:
            _raise(&err, self.path)
        return out

    def advise(self, str advice, uint64_t offset=0, length=None):
        """``madvise`` over a byte range (default: from offset to the end of the file)."""
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t bytes_ = self.c.size - offset if length is None else length
        cdef gz_advice value = ADVICE[advice]
        self.pin()
        try:
            with nogil:
                code = gz_mapping_advise(&self.c, offset, bytes_, value, &err)
        finally:
            self.unpin()
        if code != GZ_OK:
            _raise(&err, self.path)

    def resident_pages(self, uint64_t offset=0, length=None):
        """Pages of a byte range in the page cache, as ``mincore`` tells."""
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t pages, bytes_ = self.c.size - offset if length is None else length
        self.pin()
        try:
            with nogil:
                code = gz_mapping_resident(&self.c, offset, bytes_, &pages, &err)
        finally:
            self.unpin()
        if code != GZ_OK:
            _raise(&err, self.path)
        return pages

    def lock(self, uint64_t offset, uint64_t length):
        """Reads the pages of a byte range and keeps them in memory (``mlock``).

        Raises
        ------
        OSError
            ENOMEM or EPERM where the process may not lock so much (``ulimit -l``).
        """
        cdef gz_error err
        cdef gz_code code
        self.pin()
        try:
            with nogil:
                code = gz_mapping_lock(&self.c, offset, length, &err)
        finally:
            self.unpin()
        if code != GZ_OK:
            _raise(&err, self.path)

    def unlock(self, uint64_t offset, uint64_t length):
        """Lets the kernel drop the pages of a byte range again."""
        self.pin()
        try:
            with nogil:
                gz_mapping_unlock(&self.c, offset, length)
        finally:
            self.unpin()

    def read_ahead(self, const int64_t[::1] rows, uint64_t origin, uint64_t row_bytes,
                   uint64_t gap=0, bint trust_mincore=True, bint only_look=False):
        """Asks the kernel for the pages of ascending rows.

        Parameters
        ----------
        rows : (n,) int64
            Ascending row numbers; row r starts at byte ``origin + r * row_bytes``.
        gap : int
            Pages that a run may skip over.
        trust_mincore : bool
            False where ``mincore`` is known to lie: then every run is asked for.
        only_look : bool
            Count what is missing, and ask for nothing.

        Returns
        -------
        (int, int, int)
            Pages covered, pages that were missing, madvise calls made.
        """
        cdef gz_error err
        cdef gz_code code
        cdef gz_readahead done
        cdef gz_readahead_mode mode = GZ_READAHEAD_MISSING
        cdef int64_t count = rows.shape[0], num_runs
        if only_look:
            mode = GZ_READAHEAD_LOOK
        elif not trust_mincore:
            mode = GZ_READAHEAD_ALL
        if count == 0:
            return 0, 0, 0
        if rows[0] < 0 or origin + (<uint64_t> rows[count - 1] + 1) * row_bytes > self.c.size:
            raise IndexError(f"{self.path}: rows beyond the end of the file")
        cdef unsigned char[::1] room = np.empty(count * sizeof(gz_run), dtype=np.uint8)
        cdef gz_run *runs = <gz_run *> &room[0]
        self.pin()
        try:
            with nogil:
                num_runs = gz_page_runs(&rows[0], count, origin, row_bytes, gap, self.c.size, runs)
                code = gz_read_ahead(&self.c, runs, num_runs, mode, &done, &err)
        finally:
            self.unpin()
        if code != GZ_OK:
            _raise(&err, self.path)
        return done.pages, done.missing, done.calls


cdef int _read_header(Mapping mapping, gz_kind kind, gz_header *header) except -1:
    cdef gz_error err
    if mapping.c.size < GZ_PAGE_BYTES:
        what = "is empty" if mapping.c.size == 0 else "is truncated or foreign"
        raise FormatError(
            f"{mapping.path} {what}: {mapping.c.size} bytes are no graphzero file; "
            f"copy or build it again")
    cdef bytes page = mapping.read(0, GZ_PAGE_BYTES)
    if gz_header_decode(<const unsigned char *> <const char *> page, mapping.c.size, kind, header,
                        &err) != GZ_OK:
        _raise(&err, mapping.path)
    return 0


# ---------------------------------------------------------------------------- memory

cdef enum:
    LEAST_POOLED_BYTES = 1 << 18  # below, malloc has it in its own cache
    MOST_IDLE_BYTES = 1 << 28

cdef gz_pool _pool
gz_pool_init(&_pool, MOST_IDLE_BYTES)


cdef class _Block:
    """Owns a block of the pool; gives it back when the last array over it is gone."""
    cdef gz_block c

    def __cinit__(self, uint64_t num_bytes):
        cdef gz_error err
        if gz_pool_take(&_pool, num_bytes, &self.c, &err) != GZ_OK:
            self.c.memory = NULL
            _raise(&err, "")

    def __dealloc__(self):
        if self.c.memory != NULL:
            gz_pool_give(&_pool, self.c)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.c.memory, self.c.bytes, 0, flags)


def empty(shape, dtype):
    """``numpy.empty``, over memory that earlier mini-batches have given back."""
    dtype = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    if count * dtype.itemsize < LEAST_POOLED_BYTES:
        return np.empty(shape, dtype)
    return np.frombuffer(_Block(count * dtype.itemsize), dtype, count).reshape(shape)


def pool_state():
    """Blocks in use, and bytes of the idle ones."""
    return _pool.blocks_out, _pool.idle_bytes


def trim_pool():
    """Returns the idle blocks to the system."""
    gz_pool_trim(&_pool)


cdef object _copy(const int64_t *data, int64_t count):
    out = empty(count, np.int64)
    cdef int64_t[::1] view = out
    if count > 0:
        with nogil:
            memcpy(&view[0], data, count * sizeof(int64_t))
    return out


# ---------------------------------------------------------------------------- ids

def first_outside(const int64_t[::1] ids, int64_t limit):
    """Index of the first id outside [0, limit), or -1."""
    cdef int64_t n = ids.shape[0], at
    with nogil:
        at = gz_first_outside(&ids[0], 0, n, limit)
    return -1 if at == n else at


def key(str purpose, uint64_t seed, uint64_t epoch, uint64_t batch):
    """Key of all draws for one purpose ("sample", "walk", ...) in one batch."""
    purposes = {"sample": GZ_PURPOSE_SAMPLE, "walk": GZ_PURPOSE_WALK,
                "shuffle": GZ_PURPOSE_SHUFFLE, "negative": GZ_PURPOSE_NEGATIVE}
    return gz_key(purposes[purpose], seed, epoch, batch)


def stream(uint64_t key, uint64_t item):
    """Stream of one item (a hop, a node, a walker) below a key."""
    return gz_stream(key, item)


cdef class Draws:
    """What the draws of one batch, or of one hop of it, are a function of.

    Parameters
    ----------
    seed, epoch, batch : int
    dependency : int
        Consecutive batches that a node keeps its draws for.
    """
    cdef gz_draws c

    def __cinit__(self, uint64_t seed, uint64_t epoch, uint64_t batch, uint64_t dependency=1):
        self.c = gz_draws_of(GZ_PURPOSE_SAMPLE, seed, epoch, batch, dependency)

    def hop(self, uint64_t number):
        """Those of one hop."""
        cdef Draws below = Draws.__new__(Draws, 0, 0, 0)
        below.c = gz_draws_below(&self.c, number)
        return below


cdef gz_rule _rule_of(object sampling, bint timed, bint by_seed):
    """The C struct of a `graphzero.sampling.Sampling`."""
    cdef gz_rule rule
    rule.replace = sampling.replace
    rule.weighted = sampling.weighted
    rule.labor = sampling.labor
    rule.by_seed = by_seed
    rule.time = GZ_TIME_ANY
    if timed:
        rule.time = GZ_TIME_LAST if sampling.temporal_strategy == "last" else GZ_TIME_UNIFORM
    rule.strictly = sampling.strictly_before
    return rule


def draws(uint64_t stream, int64_t count):
    """The first `count` draws of a stream, (count,) uint64: what the generator is tested on."""
    cdef uint64_t[::1] out = np.empty(count, dtype=np.uint64)
    cdef int64_t i
    for i in range(count):
        out[i] = gz_draw(stream, i)
    return np.asarray(out)


def permutation(int64_t count, uint64_t key):
    """Uniform permutation of range(count), (count,) int64, a function of the key alone."""
    ids = np.arange(count, dtype=np.int64)
    cdef int64_t[::1] view = ids
    with nogil:
        gz_shuffle(key, &view[0], count)
    return ids


cdef class IdMap:
    """Numbers ids in the order of their first appearance; reused from batch to batch.

    Not for two threads at once: one map a sampling thread.
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
        """Forgets all ids, then numbers the seeds; wide if ids may be 2^32 or more."""
        cdef int64_t n = seeds.shape[0]
        gz_idmap_clear(&self.c, wide)
        self.reserve(n)
        with nogil:
            gz_idmap_seed(&self.c, &seeds[0], n)

    def relabel(self, const int64_t[::1] ids):
        """Local numbers of ids, (n,) int64, new ones counting on from those given out."""
        cdef int64_t n = ids.shape[0]
        local = empty(n, np.int64)
        cdef int64_t[::1] view = local
        self.reserve(n)
        with nogil:
            gz_idmap_relabel(&self.c, &ids[0], 0, n, &view[0])
        return local

    def nodes(self, int64_t begin=0):
        """The ids that have numbers from begin on, in their order, (m,) int64; a copy."""
        return _copy(self.c.nodes + begin, self.c.count - begin)


# ---------------------------------------------------------------------------- topology

cdef class CSR:
    """Adjacency of one mapped ``.gl`` file; every id here is a *stored* id."""
    cdef gz_csr c
    cdef gz_ahead ahead
    cdef bint asks_ahead
    cdef readonly Mapping mapping
    cdef readonly dict header

    def __cinit__(self, Mapping mapping):
        cdef gz_header header
        cdef gz_error err
        self.mapping = mapping
        self.asks_ahead = False
        mapping.pin()
        try:
            _read_header(mapping, GZ_KIND_GRAPH, &header)
            if gz_csr_from_header(&header, &mapping.c, &self.c, &err) != GZ_OK:
                _raise(&err, mapping.path)
            self.header = _header_to_dict(&header)
        finally:
            mapping.unpin()

    @property
    def num_nodes(self):
        return self.c.num_nodes

    @property
    def num_edges(self):
        return self.c.num_edges

    @property
    def is_wide(self):
        """Whether ids may be 2^32 or more."""
        return bool(self.c.indices.wide)

    def ask_ahead(self, kept_nodes, bint trust_mincore=True):
        """Whether a `Batch` asks for the topology of each hop before it reads it, from now on.

        Parameters
        ----------
        kept_nodes : int or None
            Rows and lists of the nodes below are in memory, and not asked for. None: of all.
        trust_mincore : bool
            False where ``mincore`` is known to lie: then pages in memory are asked for as well.
        """
        self.asks_ahead = kept_nodes is not None
        if kept_nodes is not None:
            self.ahead.mapping = &self.mapping.c
            self.ahead.mode = GZ_READAHEAD_MISSING if trust_mincore else GZ_READAHEAD_ALL
            self.ahead.kept_nodes = kept_nodes

    def require_weights(self):
        """Raises `ValueError` where the file has no sums of weights to draw by."""
        if self.c.cum_weights == NULL:
            raise ValueError(
                f"{self.mapping.path} has no weights to draw by: build it with a weight column, "
                f"or pass weighted=False")

    def require_time_order(self):
        """Raises `ValueError` where the file has no order of times to sample by."""
        if self.c.times == NULL:
            raise ValueError(
                f"{self.mapping.path} has no timestamps to sample by: build it with a timestamp "
                f"column, or sample without times")
        if self.c.time_order.data == NULL:
            raise ValueError(
                f"{self.mapping.path} has timestamps but was built without their order: build it "
                f"again, or sample without times")

    def degrees(self, const int64_t[::1] nodes, int num_threads):
        """Stored degrees, (n,) int64."""
        cdef int64_t n = nodes.shape[0], i
        cdef uint64_t corrupt = 0
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.pin()
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                corrupt += gz_csr_degrees(&self.c, &nodes[0], i * ITEMS_A_RANGE, _end(i, n),
                                          &view[0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def row(self, int64_t node):
        """First and last + 1 stored position of one node's neighbours."""
        cdef int64_t[::1] one = np.array([node], dtype=np.int64)
        degree = int(self.degrees(one, 1)[0])
        first = int(self.c.indptr[node])
        return first, first + degree

    def sample_hop(self, const int64_t[::1] nodes, int64_t fanout, object sampling, Draws draws,
                   int num_threads, bint by_seed=False):
        """One hop of sampling.

        Parameters
        ----------
        nodes : (n,) int64
        fanout : int
            Neighbours a node, -1 for all.
        sampling : Sampling
            What concerns a single hop: replace, weighted, labor.
        draws : Draws
            Those of the hop.
        num_threads : int
        by_seed : bool
            Let repeats of a node draw independently of each other.

        Returns
        -------
        offsets : (n + 1,) int64
            The edges of nodes[i] are [offsets[i], offsets[i + 1]).
        positions : (num_edges,) int64
            Stored positions of the drawn edges.
        neighbors : (num_edges,) int64
            Stored ids at these positions.
        """
        cdef gz_hop hop
        cdef int64_t n = nodes.shape[0], num_edges, i
        cdef uint64_t corrupt = 0
        cdef int threads = _threads(num_threads, n)
        cdef gz_frontier frontier
        frontier.nodes = &nodes[0]
        frontier.trees = NULL
        hop.fanout = fanout
        hop.rule = _rule_of(sampling, False, by_seed)
        hop.draws = draws.c
        if hop.rule.weighted:
            self.require_weights()
        offsets = np.zeros(n + 1, dtype=np.int64)
        cdef unsigned char[::1] room = empty((n + 1) * sizeof(gz_row), np.uint8)
        cdef gz_row *rows = <gz_row *> &room[0]
        cdef int64_t[::1] offsets_view = offsets, positions_view, neighbors_view
        self.mapping.pin()
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=threads):
                corrupt += gz_hop_counts(&self.c, &hop, &frontier, i * ITEMS_A_RANGE, _end(i, n),
                                         rows, &offsets_view[1])
            _refuse_corrupt(corrupt, self.mapping.path)
            np.cumsum(offsets, out=offsets)
            num_edges = offsets[n]
            positions, neighbors = empty(num_edges, np.int64), empty(num_edges, np.int64)
            positions_view, neighbors_view = positions, neighbors
            for i in prange(_ranges(n), nogil=True, num_threads=threads):
                corrupt += gz_hop_positions(&self.c, &hop, &frontier, rows, &offsets_view[0],
                                            i * ITEMS_A_RANGE, _end(i, n), &positions_view[0])
                corrupt += gz_csr_read_neighbors(
                    &self.c, &positions_view[0], offsets_view[i * ITEMS_A_RANGE],
                    offsets_view[_end(i, n)], &neighbors_view[0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return offsets, positions, neighbors

    def walk(self, const int64_t[::1] start, int64_t length, double p, double q, uint64_t key,
             int num_threads, bint weighted=False, double restart=0.0):
        """Random walks of stored ids, (n, length + 1) int64, -1 after a dead end."""
        cdef int64_t n = start.shape[0], i
        cdef uint64_t corrupt = 0
        cdef int threads = _threads(num_threads, n)
        cdef bint first_order = p == 1.0 and q == 1.0
        cdef bint uniform = first_order and not weighted and restart == 0.0
        cdef gz_walk walk
        walk.key, walk.p, walk.q, walk.restart, walk.weighted = key, p, q, restart, weighted
        if weighted:
            self.require_weights()
        out = empty((n, length + 1), np.int64)
        cdef int64_t[::1] view = out.reshape(-1)
        self.mapping.pin()
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=threads):
                if uniform:
                    corrupt += gz_walk_uniform(&self.c, key, &start[0], i * ITEMS_A_RANGE,
                                               _end(i, n), length, &view[0])
                elif first_order:
                    corrupt += gz_walk_first_order(&self.c, &walk, &start[0], i * ITEMS_A_RANGE,
                                                   _end(i, n), length, &view[0])
                else:
                    corrupt += gz_walk_node2vec(&self.c, &walk, &start[0], i * ITEMS_A_RANGE,
                                                _end(i, n), length, &view[0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def negative_counts(self, const int64_t[::1] sources, const int64_t[::1] positives,
                        int num_threads):
        """Nodes that are neither a source, nor its neighbours, nor its positive, (n,) int64."""
        cdef int64_t n = sources.shape[0], i
        cdef uint64_t corrupt = 0
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.pin()
        try:
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                corrupt += gz_negative_counts(&self.c, &sources[0], &positives[0],
                                              i * ITEMS_A_RANGE, _end(i, n), &view[0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def negative_destinations(self, const int64_t[::1] sources, const int64_t[::1] positives,
                              int64_t amount, uint64_t key):
        """Destinations that make no edge with their source, (n * amount,) int64, or -1."""
        cdef int64_t n = sources.shape[0] * amount
        cdef uint64_t corrupt
        out = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] view = out
        self.mapping.pin()
        try:
            with nogil:
                corrupt = gz_negative_destinations(&self.c, key, &sources[0], &positives[0],
                                                   amount, 0, n, &view[0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def negative_pairs(self, int64_t count, const int64_t[::1] offsets, uint64_t key):
        """Pairs that are no edges, (2, count) int64; offsets may be empty (see negatives.h)."""
        cdef uint64_t corrupt
        cdef const int64_t *bounds = NULL
        if offsets.shape[0] > 0:
            bounds = &offsets[0]
        out = np.empty((2, count), dtype=np.int64)
        cdef int64_t[:, ::1] view = out
        self.mapping.pin()
        try:
            with nogil:
                corrupt = gz_negative_pairs(&self.c, key, bounds, 0, count, &view[0, 0],
                                            &view[1, 0])
        finally:
            self.mapping.unpin()
        _refuse_corrupt(corrupt, self.mapping.path)
        return out

    def to_stored(self, ids, int num_threads=1):
        """Stored ids of the user's ids: the same array where the file keeps the user's order."""
        if self.c.node_rank.data == NULL:
            return ids
        return _translate(self.mapping, &self.c.node_rank, self.c.num_nodes, ids, num_threads)

    def to_user(self, ids, int num_threads=1):
        """The user's ids of stored ids; -1 stays -1."""
        if self.c.node_ids.data == NULL:
            return ids
        return _translate(self.mapping, &self.c.node_ids, self.c.num_nodes, ids, num_threads)

    def edge_ids(self, positions, int num_threads=1):
        """Rows of the user's edge list at stored positions, or None if they were not kept."""
        if self.c.edge_ids.data == NULL:
            return None
        return _translate(self.mapping, &self.c.edge_ids, self.header["num_input_edges"],
                          positions, num_threads)


cdef object _translate(Mapping mapping, const gz_ids *table, uint64_t limit, object ids,
                       int num_threads):
    cdef const int64_t[::1] flat = ids.reshape(-1)
    out = empty(ids.shape, np.int64)
    cdef int64_t[::1] view = out.reshape(-1)
    cdef int64_t n = flat.shape[0], i
    cdef uint64_t corrupt = 0
    mapping.pin()
    try:
        for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
            corrupt += gz_translate(table, limit, &flat[0], i * ITEMS_A_RANGE, _end(i, n),
                                    &view[0])
    finally:
        mapping.unpin()
    _refuse_corrupt(corrupt, mapping.path)
    return out


cdef class Batch:
    """Samples whole mini-batches, one thread each; owns the memory that they are made in.

    Not for two threads at once: one object a sampling thread.
    """
    cdef gz_batch c

    def __cinit__(self):
        gz_batch_init(&self.c)

    def __dealloc__(self):
        gz_batch_free(&self.c)

    def sample(self, CSR csr, const int64_t[::1] seeds, const int64_t[::1] fanouts,
               object sampling, Draws draws, const int64_t[::1] until=None):
        """All hops of one mini-batch, relabelled.

        Parameters
        ----------
        seeds : (n,) int64
        fanouts : (num_hops,) int64
        sampling : Sampling
        draws : Draws
            Those of the batch.
        until : (n,) int64, optional
            Time of each seed; trees are disjoint then.

        Returns
        -------
        nodes : (num_nodes,) int64
            Stored ids, seeds first.
        edge_index : (2, num_edges) int64
            Local ids of neighbours and targets.
        positions : (num_edges,) int64
            Stored positions of the edges.
        trees : (num_nodes,) int64 or None
            The tree of each node, where they are disjoint.
        num_sampled_nodes, num_sampled_edges : list of int
        pages_missed : int
            Pages of topology that were asked for, see `CSR.ask_ahead`.
        """
        cdef gz_plan plan
        cdef gz_ahead ahead = csr.ahead
        cdef gz_error err
        cdef gz_code code
        cdef uint64_t corrupt
        cdef int64_t n = seeds.shape[0], h
        plan.fanouts = &fanouts[0]
        plan.num_hops = fanouts.shape[0]
        plan.rule = _rule_of(sampling, until is not None, False)
        plan.disjoint = sampling.disjoint or until is not None
        plan.induced = sampling.subgraph_type == "induced"
        plan.draws = draws.c
        plan.until = NULL
        plan.ahead = &ahead if csr.asks_ahead else NULL
        if until is not None:
            if until.shape[0] != n:
                raise ValueError("until must have a time for each seed")
            plan.until = &until[0]
            csr.require_time_order()
        if plan.rule.weighted:
            csr.require_weights()
        csr.mapping.pin()
        try:
            with nogil:
                code = gz_batch_sample(&self.c, &csr.c, &plan, &seeds[0], n, &corrupt, &err)
        finally:
            csr.mapping.unpin()
        if code != GZ_OK:
            _raise(&err, csr.mapping.path)
        _refuse_corrupt(corrupt, csr.mapping.path)
        edge_index = empty((2, self.c.num_edges), np.int64)
        cdef int64_t[:, ::1] view = edge_index
        if self.c.num_edges > 0:
            with nogil:
                memcpy(&view[0, 0], self.c.sources, self.c.num_edges * sizeof(int64_t))
                memcpy(&view[1, 0], self.c.targets, self.c.num_edges * sizeof(int64_t))
        return (_copy(self.c.nodes, self.c.num_nodes), edge_index,
                _copy(self.c.positions, self.c.num_edges),
                _copy(self.c.trees, self.c.num_nodes) if plan.disjoint else None,
                [self.c.hop_nodes[h] for h in range(plan.num_hops + 1)],
                [self.c.hop_edges[h] for h in range(plan.num_hops)],
                self.c.asked.missing)


# ---------------------------------------------------------------------------- rows

def feature_header(Mapping mapping):
    """Header of a mapped ``.gd`` file as a dict."""
    cdef gz_header header
    _read_header(mapping, GZ_KIND_FEATURES, &header)
    return _header_to_dict(&header)


cdef int _require_rows(Mapping mapping, uint64_t origin, uint64_t row_bytes,
                       uint64_t num_rows) except -1:
    if origin > mapping.c.size or (
            row_bytes > 0 and num_rows > (mapping.c.size - origin) // row_bytes):
        raise FormatError(f"{mapping.path} is truncated: its rows reach beyond its end")
    return 0


cdef int _cast_rows(uint32_t from_dtype, uint64_t row_bytes, gz_cast *cast) except -1:
    """How rows of a dtype become float32; for 0, as they are."""
    cdef uint32_t size = gz_dtype_size(from_dtype)
    if from_dtype != 0 and (size == 0 or row_bytes % size != 0):
        raise ValueError(f"rows of {row_bytes} bytes do not have numbers of dtype {from_dtype}")
    cast[0] = gz_cast_of(from_dtype)
    return 0


cdef class Rows:
    """Rows of fixed size somewhere in a mapped file: those of a ``.gd`` or an ``.npy``.

    Parameters
    ----------
    mapping : Mapping
    origin, row_bytes, num_rows : int
        First byte of row 0, bytes of a row, number of rows.
    rank : tuple of (int, bool), optional
        Byte offset of the user-id-to-row table, and whether its ids are 64 bits wide.
    """
    cdef readonly Mapping mapping
    cdef readonly uint64_t origin, row_bytes, num_rows
    cdef gz_ids rank

    def __cinit__(self, Mapping mapping, uint64_t origin, uint64_t row_bytes, uint64_t num_rows,
                  rank=None):
        self.mapping = mapping
        self.origin, self.row_bytes, self.num_rows = origin, row_bytes, num_rows
        _require_rows(mapping, origin, row_bytes, num_rows)
        self.rank.data = NULL
        if rank is not None:
            offset, self.rank.wide = rank
            self.rank.data = mapping.c.base + <uint64_t> offset

    def to_stored(self, ids, int num_threads=1):
        """Row numbers of the user's ids: the same array where rows are in the user's order."""
        if self.rank.data == NULL:
            return ids
        return _translate(self.mapping, &self.rank, self.num_rows, ids, num_threads)

    def gather(self, const int64_t[::1] rows, unsigned char[::1] out, int num_threads,
               uint32_t from_dtype=0):
        """Copies whole rows, by row number, into the bytes of out.

        With `from_dtype`, the code of what is stored, float32 numbers are made of them.
        """
        cdef int64_t n = rows.shape[0], i
        cdef const unsigned char *data
        cdef gz_cast cast
        _cast_rows(from_dtype, self.row_bytes, &cast)
        if <uint64_t> out.shape[0] != n * gz_cast_bytes(&cast, self.row_bytes):
            raise ValueError("out has the wrong size")
        self.mapping.pin()
        try:
            data = self.mapping.c.base + self.origin
            for i in prange(_ranges(n), nogil=True, num_threads=_threads(num_threads, n)):
                gz_gather_rows(data, self.row_bytes, &cast, &rows[0], i * ITEMS_A_RANGE,
                               _end(i, n), &out[0])
        finally:
            self.mapping.unpin()


# ---------------------------------------------------------------------------- direct reads

HAVE_URING = bool(gz_uring_is_built())


def uring_refusal():
    """Why this process cannot use io_uring now, or None where it can."""
    cdef gz_error err
    cdef gz_code code
    with nogil:
        code = gz_uring_probe(&err)
    return None if code == GZ_OK else (<bytes> err.message).decode("utf-8", "replace")


_PICK = np.dtype([("row", np.uint64), ("place", np.uint64)])

cdef enum:
    MOST_AT_A_TIME = 4096


cdef unsigned _at_a_time(str name, int value) except? 0:
    if not 1 <= value <= MOST_AT_A_TIME:
        raise ValueError(f"{name} must be 1 to {MOST_AT_A_TIME}, not {value}")
    return value


cdef class DirectReader:
    """Reads rows of a mapped file past the page cache, each to its place in an array.

    Its methods may be called from any thread; they take turns. A forked child that uses the
    reader of its parent gets a ring and buffers of its own at its first call.

    Parameters
    ----------
    mapping : Mapping
    origin, row_bytes, num_rows : int
        First byte of row 0, bytes of a row, number of rows.
    engine : {"uring", "pread"}
        io_uring from the calling thread, or threads that wait for one read each. Both give the
        same bytes.
    depth : int
        Reads under way at a time, "uring".
    threads : int
        Likewise, "pread"; they live for one call.

    Attributes
    ----------
    is_direct : bool
        False where the file system has no direct reads (tmpfs, some overlays): these go through
        the page cache, with the same results.
    buffer_bytes : int
        Most memory that the reads under way take.

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
        self.count = _at_a_time("depth", depth) if engine == "uring" else (
            _at_a_time("threads", threads))
        self.mapping, self.engine = mapping, engine
        self.origin, self.row_bytes, self.num_rows = origin, row_bytes, num_rows
        self.lock, self.owner = threading.Lock(), getpid()
        mapping.pin()
        try:
            _require_rows(mapping, origin, row_bytes, num_rows)
            with nogil:
                code = gz_direct_open(&mapping.c, &self.file, &err)
        finally:
            mapping.unpin()
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

    cdef void _close_engine(self) noexcept:
        gz_uring_close(self.ring)
        self.ring = NULL
        gz_buffers_close(&self.buffers)

    cdef int _leave_to_parent(self) except -1:
        """In a forked child: its parent's ring, and its parent's lock, which a thread may hold."""
        cdef pid_t here = getpid()
        if self.owner != here:
            lock = threading.Lock()
            if self.owner != here:  # no other thread came first: from here on none can
                self.lock, self.owner = lock, here
                self._close_engine()
        return 0

    @property
    def is_direct(self):
        return self.file.is_direct

    @property
    def buffer_bytes(self):
        return <uint64_t> self.count * GZ_BUFFER_BYTES

    def gather(self, const int64_t[::1] rows, unsigned char[::1] out, int64_t first_direct_row=0,
               uint64_t gap=0, uint32_t from_dtype=0):
        """Brings rows to an array; each page is read once.

        Parameters
        ----------
        rows : (n,) int64
            Row numbers in any order, with repeats.
        out : (n * row_bytes,) uint8
            With `from_dtype`, four bytes for each number.
        first_direct_row : int
            Rows below it are copied from the mapping, which should have them in memory.
        gap : int
            Pages that are not wanted and that a read may run over.
        from_dtype : int
            Code of the stored numbers, to have float32 made of them; 0 for bytes as they are.

        Returns
        -------
        (int, int, int)
            Pages that hold wanted rows, pages read (with gaps), reads made.

        Raises
        ------
        FormatError
            If the file has been cut since it was opened. `out` is in part written then.
        OSError
            If reading fails.
        IndexError
            If a row is out of range.
        ValueError
            If the reader is closed, out has another size, or rows have no such numbers.
        """
        cdef int64_t n = rows.shape[0]
        cdef gz_error err
        cdef gz_code code
        cdef gz_fetch fetch
        cdef gz_pick[::1] picks
        cdef gz_cast cast
        cdef unsigned char[::1] stored
        _cast_rows(from_dtype, self.row_bytes, &cast)
        if <uint64_t> out.shape[0] != n * gz_cast_bytes(&cast, self.row_bytes):
            raise ValueError("out has the wrong size")
        if n > 0 and gz_first_outside(&rows[0], 0, n, self.num_rows) < n:
            raise IndexError(f"{self.mapping.path}: rows must be in [0, {self.num_rows})")
        if n == 0 or self.row_bytes == 0:
            return 0, 0, 0
        if self.origin % (1 << cast.shift) != 0:  # two reads may have a part of a number each
            stored = empty(n * self.row_bytes, np.uint8)
            counts = self.gather(rows, stored, first_direct_row, gap)
            with nogil:
                gz_cast_copy(&cast, &stored[0], n * self.row_bytes, &out[0])
            return counts
        picks = empty(2 * n, _PICK)
        self._leave_to_parent()
        with self.lock:
            if not self.is_open:
                raise ValueError(f"the reader of {self.mapping.path} is closed")
            if self.buffers.memory == NULL:
                self._open_engine()
            self.mapping.pin()
            try:
                with nogil:
                    memset(&fetch, 0, sizeof(fetch))
                    fetch.reads.cast, fetch.out = cast, &out[0]
                    code = self._fetch(&fetch, &rows[0], n, first_direct_row, gap, &picks[0], &err)
            finally:
                self.mapping.unpin()
            if code != GZ_OK:
                self._close_engine()
                _raise(&err, self.mapping.path)
        return fetch.reads.pages_wanted, fetch.reads.pages_read, fetch.reads.reads

    cdef gz_code _fetch(self, gz_fetch *fetch, const int64_t *rows, int64_t n,
                        int64_t first_direct_row, uint64_t gap, gz_pick *picks,
                        gz_error *err) noexcept nogil:
        cdef gz_code code = gz_direct_check(&self.file, err)
        if code != GZ_OK:
            return code
        fetch.file = &self.file
        fetch.reads.count = gz_picks_split(rows, n, first_direct_row, picks)
        gz_picks_sort(picks, picks + n, fetch.reads.count)
        fetch.reads.picks = picks
        fetch.reads.origin, fetch.reads.row_bytes = self.origin, self.row_bytes
        fetch.reads.gap = min(gap, <uint64_t> GZ_BUFFER_BYTES)
        fetch.reads.most_bytes = GZ_BUFFER_BYTES
        fetch.reads.page_bytes = gz_system_page_bytes()
        fetch.resident = picks + fetch.reads.count
        fetch.num_resident = n - fetch.reads.count
        fetch.mapped = self.mapping.c.base + self.origin
        if self.ring != NULL:
            return gz_uring_fetch(self.ring, fetch, err)
        return gz_preads_fetch(&self.buffers, fetch, err)

    def close(self):
        """Ends the reader after a call that is under way; the mapping stays open."""
        self._leave_to_parent()
        with self.lock:
            self.is_open = False
            self._close_engine()
            gz_direct_close(&self.file)
