# What reads past the page cache the disk below a file gives.

PROBE_ALIGNMENT = GZ_PROBE_ALIGNMENT
PROBE_MOST_DEPTH = GZ_PROBE_MOST_DEPTH
PROBE_MOST_THREADS = GZ_PROBE_MOST_THREADS
PROBE_MOST_MEMORY = GZ_PROBE_MOST_MEMORY

cdef double PROBE_TURN = 0.05  # seconds of a C call: a signal is noticed after it
cdef enum:
    LEAST_PROBE_BLOCKS = 4


def _check_probe(path, size, block_bytes, depth, seconds, engine):
    if engine not in ("uring", "pread"):
        raise ValueError(f"engine must be 'uring' or 'pread', not {engine!r}")
    most = PROBE_MOST_DEPTH if engine == "uring" else PROBE_MOST_THREADS
    if not 1 <= depth <= most:
        raise ValueError(f"depth must be 1 to {most} with engine {engine!r}, not {depth}")
    if block_bytes < 1 or block_bytes % PROBE_ALIGNMENT != 0:
        raise ValueError(f"block_bytes must be a multiple of {PROBE_ALIGNMENT}, not {block_bytes}")
    if block_bytes * depth > PROBE_MOST_MEMORY:
        raise ValueError(f"{depth} blocks of {block_bytes} bytes are more than the "
                         f"{PROBE_MOST_MEMORY} bytes that may be read at a time")
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be positive and finite, not {seconds}")
    if size < LEAST_PROBE_BLOCKS * block_bytes:
        raise ValueError(f"{path} is too small to measure the disk with: it has {size} bytes, less "
                         f"than {LEAST_PROBE_BLOCKS} blocks of {block_bytes}")


def probe_disk(path, *, block_bytes=4096, depth=128, double seconds=1.0, bint sequential=False,
               str engine="uring", uint64_t seed=0):
    """Reads blocks of a file for some time, past the page cache, and counts what comes.

    Ctrl-C ends it within about a tenth of a second, and as soon as the reads under way have ended.

    Parameters
    ----------
    path : path-like
        A regular file.
    block_bytes : int
        A multiple of `PROBE_ALIGNMENT`.
    depth : int
        Reads under way at a time.
    seconds : float
    sequential : bool
        Read one block after the other, from a drawn one on, instead of drawn ones.
    engine : {"uring", "pread"}
        io_uring from the calling thread, or `depth` threads with one read each.
    seed : int
        Which blocks are read is a function of it.

    Returns
    -------
    dict or None
        ``reads``, ``bytes``, ``seconds``; ``depth``, which is smaller than asked for where threads
        could not be started; ``p50`` and ``p99``, seconds of one read; ``file_bytes``. None where
        the file system has no reads past the page cache.

    Raises
    ------
    OSError
        If the file cannot be opened or read, or `uring_refusal` has a reason against "uring".
    FormatError
        If the file is truncated meanwhile.
    ValueError
        If an argument is out of range, or the file has fewer than four blocks.
    """
    cdef Mapping mapping = Mapping(path)
    cdef gz_error err
    cdef gz_direct file
    cdef gz_probe_plan plan
    cdef gz_disk_probe *probe = NULL
    _check_probe(mapping.path, mapping.size, block_bytes, depth, seconds, engine)
    plan.block_bytes, plan.depth = block_bytes, depth
    plan.is_sequential, plan.by_threads, plan.seed = sequential, engine == "pread", seed
    with nogil:
        code = gz_direct_open(&mapping.c, &file, &err)
    if code != GZ_OK:
        _raise(&err, mapping.path)
    try:
        if not file.is_direct:
            return None
        with nogil:
            code = gz_disk_probe_open(&file, &plan, &probe, &err)
        if code != GZ_OK:
            _raise(&err, mapping.path)
        return _run_probe(probe, seconds, mapping)
    finally:
        with nogil:
            gz_disk_probe_close(probe)
            gz_direct_close(&file)
        mapping.close()


cdef _run_probe(gz_disk_probe *probe, double seconds, Mapping mapping):
    cdef gz_error err
    cdef gz_code code = GZ_OK
    cdef gz_probe_counts counts
    cdef double until = time.monotonic() + seconds, rest = seconds
    while rest > 0:
        with nogil:
            code = gz_disk_probe_run(probe, min(rest, PROBE_TURN), &err)
        if code != GZ_OK:
            _raise(&err, mapping.path)
        PyErr_CheckSignals()
        rest = until - time.monotonic()
    with nogil:
        gz_disk_probe_stop(probe, &counts)
    return {"reads": counts.reads, "bytes": counts.bytes, "seconds": counts.seconds,
            "depth": counts.depth, "p50": counts.p50_ns / 1e9, "p99": counts.p99_ns / 1e9,
            "file_bytes": mapping.size}
