# The C functions that measure a disk; `_core.pxd` has those of reading and sampling.

from libc.stdint cimport uint64_t

from graphzero._core cimport bool_t, gz_code, gz_direct, gz_error


cdef extern from "graphzero/disk_probe.h" nogil:
    enum:
        GZ_PROBE_ALIGNMENT
        GZ_PROBE_MOST_DEPTH
        GZ_PROBE_MOST_THREADS
        GZ_PROBE_MOST_MEMORY
    ctypedef struct gz_probe_plan:
        uint64_t block_bytes
        unsigned depth
        bool_t is_sequential
        bool_t by_threads
        uint64_t seed
    ctypedef struct gz_probe_counts:
        uint64_t reads
        uint64_t bytes
        double seconds
        unsigned depth
        uint64_t p50_ns
        uint64_t p99_ns
    ctypedef struct gz_disk_probe:
        pass
    gz_code gz_disk_probe_open(const gz_direct *file, const gz_probe_plan *plan,
                               gz_disk_probe **out, gz_error *err)
    gz_code gz_disk_probe_run(gz_disk_probe *probe, double seconds, gz_error *err)
    void gz_disk_probe_stop(gz_disk_probe *probe, gz_probe_counts *out)
    void gz_disk_probe_close(gz_disk_probe *probe)
