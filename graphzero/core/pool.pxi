# Arrays over memory that comes from a pool.

cdef enum:
    LEAST_POOLED_BYTES = 1 << 17  # malloc maps larger arrays anew, and reuses smaller ones
    MOST_IDLE_BYTES = 1 << 28

cdef gz_pool _pool
gz_pool_init(&_pool, MOST_IDLE_BYTES)


cdef class _Block:
    """Owns a block of the pool; returns it when the last array over it is freed."""
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


def require_memory(count, uint64_t bytes_each, str what):
    """Raises `MemoryError` where so many elements exceed the memory of the machine.

    Parameters
    ----------
    count : int
        Of any size.
    bytes_each : int
        Of all arrays that the work holds at the same time.
    what : str
        What the elements are, in the plural.
    """
    if count > INT64_MAX or not gz_fits_memory(count, bytes_each):
        raise MemoryError(
            f"no memory for {count:,} {what}: they take {count * bytes_each:,} bytes, and this "
            f"machine has {gz_machine_bytes():,}")


def empty(shape, dtype):
    """``numpy.empty``, over memory that earlier mini-batches have returned to the pool."""
    dtype = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    require_memory(count, dtype.itemsize, "numbers")
    if count * dtype.itemsize < LEAST_POOLED_BYTES:
        return np.empty(shape, dtype)
    return np.frombuffer(_Block(count * dtype.itemsize), dtype, count).reshape(shape)


def block_bytes(uint64_t num_bytes):
    """Bytes of memory that `empty` takes for an array of so many bytes."""
    return num_bytes if num_bytes < LEAST_POOLED_BYTES else gz_pool_block_bytes(num_bytes)


def pool_state():
    """Number of blocks in use, and bytes of idle blocks."""
    return _pool.blocks_out, _pool.idle_bytes


def trim_pool():
    """Returns the idle blocks to the system."""
    gz_pool_trim(&_pool)


# A child that reused them would copy what the process that forked it has there.
os.register_at_fork(after_in_child=trim_pool)
