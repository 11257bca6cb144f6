# Random draws: keys, streams, and the sampling rule of a hop.

def key(str purpose, uint64_t seed, uint64_t epoch, uint64_t batch):
    """Key of all draws for one purpose ("sample", "walk", ...) in one batch."""
    purposes = {"sample": GZ_PURPOSE_SAMPLE, "walk": GZ_PURPOSE_WALK,
                "shuffle": GZ_PURPOSE_SHUFFLE, "negative": GZ_PURPOSE_NEGATIVE}
    return gz_key(purposes[purpose], seed, epoch, batch)


def stream(uint64_t key, uint64_t item):
    """Stream of one item (a hop, a node, a walker) below a key."""
    return gz_stream(key, item)


cdef class Draws:
    """What determines the random draws of one batch, or of one of its hops.

    Parameters
    ----------
    seed, epoch, batch : int
    dependency : int
        Number of consecutive batches for which a node keeps its draws.
    """
    cdef gz_draws c

    def __cinit__(self, uint64_t seed, uint64_t epoch, uint64_t batch, uint64_t dependency=1):
        self.c = gz_draws_of(GZ_PURPOSE_SAMPLE, seed, epoch, batch, dependency)

    def hop(self, uint64_t number):
        """Draws of one hop."""
        cdef Draws below = Draws.__new__(Draws, 0, 0, 0)
        below.c = gz_draws_below(&self.c, number)
        return below


cdef gz_rule _rule_of(object sampling, bint timed, bint by_seed) except *:
    """The C struct of a `graphzero.graph.sampling_options.Sampling`."""
    cdef gz_rule rule
    rule.replace = sampling.replace
    rule.kind = NULL
    if sampling.kind is not None:
        rule.kind = gz_draw_kind_named(sampling.kind.encode())
        if rule.kind == NULL:
            raise ValueError(f"the core has no kind of sampling named {sampling.kind!r}")
    rule.by_seed = by_seed
    rule.time = GZ_TIME_ANY
    if timed:
        rule.time = GZ_TIME_LAST if sampling.temporal_strategy == "last" else GZ_TIME_UNIFORM
    rule.strictly = sampling.strictly_before
    return rule


def draws(uint64_t stream, int64_t count):
    """The first `count` draws of a stream, (count,) uint64; for tests of the generator."""
    cdef uint64_t[::1] out = np.empty(count, dtype=np.uint64)
    cdef int64_t i
    for i in range(count):
        out[i] = gz_draw(stream, i)
    return np.asarray(out)


def draws_below(uint64_t stream, int64_t bound, int64_t rows, int64_t columns):
    """Draws of a stream, uniform below a bound that is above 0, (rows, columns) int64."""
    out = empty((rows, columns), np.int64)
    cdef int64_t[:, ::1] view = out
    if rows * columns:
        with nogil:
            gz_draw_bounded(stream, bound, &view[0, 0], rows * columns)
    return out


def permutation(int64_t count, uint64_t key):
    """Uniform permutation of range(count), (count,) int64; depends on the key alone."""
    ids = np.arange(count, dtype=np.int64)
    cdef int64_t[::1] view = ids
    with nogil:
        gz_shuffle(key, &view[0], count)
    return ids
