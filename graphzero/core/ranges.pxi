# How items are divided into ranges for ``prange``, and how many threads share them.

cdef enum:
    ITEMS_PER_RANGE = 1024  # small enough to balance two threads over one hop of one mini-batch


cdef inline int64_t _ranges(int64_t items) noexcept nogil:
    return (items + ITEMS_PER_RANGE - 1) // ITEMS_PER_RANGE


cdef inline int64_t _end(int64_t index, int64_t items) noexcept nogil:
    cdef int64_t end = (index + 1) * ITEMS_PER_RANGE
    return end if end < items else items


cdef inline int _threads(int requested, int64_t items) noexcept nogil:
    """At most one thread per range; one thread where a fork has left no thread pool."""
    cdef int64_t ranges = _ranges(items)
    if not gz_may_use_threads() or ranges <= 1:
        return 1
    return requested if requested < ranges else <int> ranges
