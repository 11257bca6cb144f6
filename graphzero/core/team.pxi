# Threads of an iteration, and the flag that ends their calls.

cdef class Team:
    """Threads that share the items of one call, with the thread that makes it.

    One call at a time. In a forked child, calls are made by their caller alone.

    Parameters
    ----------
    num_threads : int
        The caller's included.
    """
    cdef gz_team *c
    cdef readonly int num_threads

    def __cinit__(self, int num_threads):
        cdef gz_error err
        self.c, self.num_threads = NULL, num_threads
        if num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, not {num_threads}")
        if gz_team_open(num_threads, &self.c, &err) != GZ_OK:
            _raise(&err, "")

    def __dealloc__(self):
        gz_team_close(self.c)


cdef class Stop:
    """A flag. Once it is set, calls that have it end after the items that they are at."""
    cdef gz_stop c

    def __cinit__(self):
        gz_stop_init(&self.c)

    def set(self):
        gz_stop_set(&self.c)

    def __bool__(self):
        return gz_is_stopped(&self.c)


cdef class Clock:
    """What the calling thread spends from now on."""
    cdef gz_moment begun

    def __cinit__(self):
        self.begun = gz_now()

    def spent(self, *, bint has_read):
        """Seconds that the thread has worked since, and seconds that it waited for the disk.

        A thread that is blocked does not compute. What it waits for, the system does not say; if it
        has read from the disk meanwhile (`has_read`, or page faults), that is taken to be the disk.
        """
        cdef gz_spent spent = gz_spent_since(&self.begun, has_read)
        return (spent.wall - spent.disk) * 1e-9, spent.disk * 1e-9
