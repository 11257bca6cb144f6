# How many items are cut into ranges for ``prange``, and shared among threads.

cdef enum:
    ITEMS_A_RANGE = 1024  # small enough to balance two threads over one hop of one mini-batch


cdef inline int64_t _ranges(int64_t items) noexcept nogil:
    return (items + ITEMS_A_RANGE - 1) // ITEMS_A_RANGE


cdef inline int64_t _end(int64_t index, int64_t items) noexcept nogil:
    cdef int64_t end = (index + 1) * ITEMS_A_RANGE
    return end if end < items else items


cdef inline int _threads(int requested, int64_t items) noexcept nogil:
    """As many as there are ranges to work on; one where a fork has taken the pool away."""
    cdef int64_t ranges = _ranges(items)
    if not gz_may_use_threads() or ranges <= 1:
        return 1
    return requested if requested < ranges else <int> ranges
