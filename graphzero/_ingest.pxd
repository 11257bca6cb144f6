# The C functions of the build; `_core.pxd` has those of reading and sampling.

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "graphzero/parse_records.h" nogil:
    enum:
        GZ_PARSE_PADDING
    ctypedef enum gz_cell_kind:
        GZ_CELL_SKIP
        GZ_CELL_UINT32
        GZ_CELL_INT32
        GZ_CELL_INT64
        GZ_CELL_FLOAT32
        GZ_CELL_FLOAT64
    ctypedef struct gz_cell_column:
        gz_cell_kind kind
        void *out
    ctypedef struct gz_record_format:
        unsigned char delimiter
        bint blanks
        int width
        const gz_cell_column *columns
    ctypedef struct gz_parsed:
        int64_t records
        int64_t stop
    int64_t gz_count_lines(const unsigned char *text, int64_t begin, int64_t end)
    gz_parsed gz_parse_records(const gz_record_format *format, const unsigned char *text,
                               int64_t begin, int64_t end, int64_t first)


cdef extern from "graphzero/edge_keys.h" nogil:
    ctypedef struct gz_ranks:
        const uint32_t *ranks
        uint64_t count
    int64_t gz_edge_keys(const uint32_t *owners, const uint32_t *neighbors, gz_ranks owner_ranks,
                         gz_ranks neighbor_ranks, int64_t begin, int64_t end, uint64_t *keys)
    int64_t gz_count_ids(const uint32_t *ids, int64_t begin, int64_t end, uint64_t *counts,
                         uint64_t num_counts)
    int64_t gz_key_neighbors(const uint64_t *keys, int64_t begin, int64_t end, uint64_t before,
                             bint is_mirrored, uint32_t *neighbors)
    void gz_list_starts(const uint64_t *keys, int64_t count, int64_t base, int64_t first,
                        int64_t last, int64_t *starts)


cdef extern from "graphzero/sort_keys.h" nogil:
    ctypedef struct gz_digit:
        unsigned shift
        unsigned bits
    uint64_t gz_differing_bits(const uint64_t *keys, int64_t begin, int64_t end, uint64_t first)
    gz_digit gz_bucket_digit(uint64_t differing, int64_t count)
    void gz_count_buckets(const uint64_t *keys, int64_t begin, int64_t end, gz_digit digit,
                          int64_t *counts)
    void gz_bucket_places(int64_t *counts, int64_t ranges, gz_digit digit)
    void gz_deal_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                      gz_digit digit, int64_t *places, uint64_t *keys_out, uint32_t *order_out)
    void gz_copy_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                      uint64_t *keys_out, uint32_t *order_out)
    void gz_sort_keys(uint64_t *keys, uint32_t *order, int64_t begin, int64_t end,
                      uint64_t *spare_keys, uint32_t *spare_order)
