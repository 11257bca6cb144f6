from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "<stdbool.h>":
    ctypedef bint bool_t "bool"


cdef extern from "graphzero/status.h":
    ctypedef enum gz_code:
        GZ_OK
        GZ_E_OS
        GZ_E_FORMAT
        GZ_E_NOMEM
    ctypedef struct gz_error:
        gz_code code
        int saved_errno
        uint64_t offset
        char message[224]


cdef extern from "graphzero/checksum.h" nogil:
    uint32_t gz_crc32(const unsigned char *bytes, size_t length)


cdef extern from "graphzero/format.h" nogil:
    enum:
        GZ_PAGE_BYTES
        GZ_MAX_SECTIONS
        GZ_NAME_BYTES
    ctypedef enum gz_kind:
        GZ_KIND_GRAPH
        GZ_KIND_FEATURES
    ctypedef struct gz_section:
        char name[17]
        uint32_t dtype
        uint64_t offset
        uint64_t count
        uint64_t length
        uint32_t crc
    ctypedef struct gz_header:
        gz_kind kind
        uint32_t flags
        uint64_t file_bytes
        uint64_t num_nodes
        uint64_t width
        uint64_t num_input_edges
        uint64_t num_neighbors
        uint32_t num_sections
        gz_section sections[62]
    uint32_t gz_dtype_size(uint32_t dtype)
    gz_code gz_header_decode(const unsigned char *page, uint64_t file_bytes, gz_kind kind,
                             gz_header *out, gz_error *err)
    void gz_header_encode(const gz_header *header, unsigned char *page)


cdef extern from "graphzero/mapping.h" nogil:
    ctypedef struct gz_mapping:
        unsigned char *base
        uint64_t size
        int fd
    ctypedef enum gz_advice:
        GZ_ADVICE_NORMAL
        GZ_ADVICE_RANDOM
        GZ_ADVICE_SEQUENTIAL
        GZ_ADVICE_WILLNEED
        GZ_ADVICE_POPULATE
        GZ_ADVICE_RELEASE
        GZ_ADVICE_HUGE
    gz_code gz_mapping_open(const char *path, gz_mapping *out, gz_error *err)
    void gz_mapping_close(gz_mapping *mapping)
    gz_code gz_mapping_check_size(const gz_mapping *mapping, gz_error *err)
    gz_code gz_mapping_read(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                            unsigned char *out, gz_error *err)
    gz_code gz_mapping_advise(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                              gz_advice advice, gz_error *err)
    gz_code gz_mapping_resident(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                                uint64_t *pages, gz_error *err)
    uint64_t gz_system_page_bytes()


cdef extern from "graphzero/residency.h" nogil:
    ctypedef enum gz_residency_source:
        GZ_RESIDENCY_FASTEST
        GZ_RESIDENCY_MINCORE
        GZ_RESIDENCY_CACHESTAT
    gz_code gz_residency(const gz_mapping *mapping, gz_residency_source source,
                         uint64_t num_parts, uint64_t *pages, gz_error *err)


cdef extern from "graphzero/csr.h" nogil:
    ctypedef struct gz_ids:
        const void *data
        bool_t wide
    ctypedef struct gz_csr:
        uint64_t num_nodes
        uint64_t num_neighbors
        uint64_t num_edges
        gz_ids indptr
        gz_ids indices
        gz_ids edge_ids
        gz_ids node_ids
        gz_ids node_rank
        const double *cum_weights
        const int64_t *times
        gz_ids time_order
        bool_t incoming
        bool_t bipartite
        bool_t typed
    uint64_t gz_id(const gz_ids *ids, uint64_t i)
    gz_code gz_csr_from_header(const gz_header *header, const gz_mapping *mapping, gz_csr *out,
                               gz_error *err)
    uint64_t gz_csr_read_neighbors(const gz_csr *csr, const int64_t *positions, int64_t begin,
                                   int64_t end, int64_t *out)
    uint64_t gz_csr_degrees(const gz_csr *csr, const int64_t *nodes, int64_t begin, int64_t end,
                            int64_t *out)


cdef extern from "graphzero/rng.h" nogil:
    ctypedef enum gz_purpose:
        GZ_PURPOSE_SAMPLE
        GZ_PURPOSE_WALK
        GZ_PURPOSE_SHUFFLE
        GZ_PURPOSE_NEGATIVE
    uint64_t gz_key(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch)
    uint64_t gz_stream(uint64_t key, uint64_t item)
    uint64_t gz_draw(uint64_t stream, uint64_t i)
    void gz_draw_bounded(uint64_t stream, uint64_t bound, int64_t *out, int64_t count)
    void gz_shuffle(uint64_t key, int64_t *ids, int64_t count)


cdef extern from "graphzero/texts.h" nogil:
    ctypedef struct gz_texts:
        const uint8_t *bytes
        const uint64_t *ends
        uint64_t count
        uint64_t size
        const int64_t *by_id
    uint64_t gz_find_texts(const gz_texts *table, const gz_texts *wanted, int64_t begin,
                           int64_t end, int64_t *found)


cdef extern from "graphzero/bounds.h" nogil:
    bool_t gz_running_sums(int64_t *sums, int64_t begin, int64_t end)
    bool_t gz_fits_memory(int64_t count, uint64_t bytes_each)
    uint64_t gz_machine_bytes()


cdef extern from "graphzero/pool.h" nogil:
    ctypedef struct gz_block:
        void *memory
        uint64_t bytes
    ctypedef struct gz_pool:
        int num_idle
        uint64_t idle_bytes
        uint64_t blocks_out
    void gz_pool_init(gz_pool *pool, uint64_t most_idle_bytes)
    uint64_t gz_pool_block_bytes(uint64_t bytes_)
    gz_code gz_pool_take(gz_pool *pool, uint64_t bytes, gz_block *out, gz_error *err)
    void gz_pool_give(gz_pool *pool, gz_block block)
    void gz_pool_trim(gz_pool *pool)


cdef extern from "graphzero/draws.h" nogil:
    ctypedef struct gz_draws:
        pass
    gz_draws gz_draws_of(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch,
                         uint64_t dependency)
    gz_draws gz_draws_below(const gz_draws *draws, uint64_t part)


cdef extern from "graphzero/kinds.h" nogil:
    ctypedef enum gz_time_rule:
        GZ_TIME_ANY
        GZ_TIME_UNIFORM
        GZ_TIME_LAST
    ctypedef struct gz_draw_kind:
        bool_t needs_weights
    ctypedef struct gz_rule:
        const gz_draw_kind *kind
        bool_t replace
        bool_t by_seed
        gz_time_rule time
        bool_t strictly
    ctypedef struct gz_hop:
        int64_t fanout
        gz_rule rule
        gz_draws draws
    ctypedef struct gz_list:
        uint64_t first
        uint64_t degree
    const gz_draw_kind *gz_draw_kind_named(const char *name)


cdef extern from "graphzero/sampling.h" nogil:
    enum:
        GZ_MOST_HOPS
    ctypedef struct gz_frontier:
        const int64_t *nodes
        const int64_t *trees
        const int64_t *until
    uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                           int64_t begin, int64_t end, gz_list *lists, int64_t *counts)
    uint64_t gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                              const gz_list *lists, const int64_t *offsets, int64_t begin,
                              int64_t end, int64_t *positions)


cdef extern from "graphzero/willneed.h" nogil:
    ctypedef struct gz_run:
        uint64_t offset
        uint64_t length
    ctypedef enum gz_willneed_mode:
        GZ_WILLNEED_ALL
        GZ_WILLNEED_MISSING
        GZ_WILLNEED_ONLY_COUNT
    ctypedef struct gz_willneed_counts:
        uint64_t pages
        uint64_t missing
        uint64_t calls
    int64_t gz_page_runs(const int64_t *rows, int64_t count, uint64_t origin, uint64_t row_bytes,
                         uint64_t gap_pages, uint64_t file_bytes, gz_run *runs)
    gz_code gz_willneed(const gz_mapping *mapping, const gz_run *runs, int64_t count,
                        gz_willneed_mode mode, gz_willneed_counts *counts, gz_error *err)


cdef extern from "graphzero/hop_readahead.h" nogil:
    ctypedef struct gz_hop_readahead:
        const gz_mapping *mapping
        gz_willneed_mode mode
        int64_t resident_nodes


cdef extern from "graphzero/node_space.h" nogil:
    ctypedef struct gz_node_space:
        int64_t count
        int64_t *trees
        int64_t hop_nodes[65]
    const int64_t *gz_nodes_ids(const gz_node_space *space)


cdef extern from "graphzero/edge_list.h" nogil:
    ctypedef struct gz_edge_list:
        int64_t *sources
        int64_t *targets
        int64_t *positions
        int64_t *ids
        bool_t has_ids
        int64_t count
        uint64_t corrupt
        int64_t hop_edges[64]


cdef extern from "graphzero/batch_state.h" nogil:
    ctypedef struct gz_edge_type:
        const gz_csr *csr
        int owner
        int neighbor
        const int64_t *fanouts
        gz_rule rule
        const gz_hop_readahead *readahead
    ctypedef struct gz_plan:
        const gz_edge_type *edge_types
        int num_edge_types
        const int64_t *num_nodes
        int num_node_types
        int num_hops
        bool_t disjoint
        bool_t induced
        gz_draws draws
        const int64_t *until
        int num_sizes
        const int64_t *node_sizes
        const int64_t *edge_sizes
    ctypedef struct gz_seeds:
        const int64_t *ids
        int64_t count
    ctypedef struct gz_batch:
        gz_node_space *spaces
        gz_edge_list *edges
        gz_willneed_counts willneed
        int size
    void gz_batch_init(gz_batch *batch)
    void gz_batch_free(gz_batch *batch)
    void gz_batch_rest(gz_batch *batch)


cdef extern from "graphzero/team.h" nogil:
    ctypedef struct gz_team:
        pass
    gz_code gz_team_open(int threads, gz_team **out, gz_error *err)
    void gz_team_close(gz_team *team)


cdef extern from "graphzero/walk.h" nogil:
    ctypedef struct gz_walk:
        uint64_t key
        double p
        double q
        double restart
        bool_t weighted
    ctypedef struct gz_walker_state:
        pass
    ctypedef struct gz_walks:
        const int64_t *start
        int64_t *out
        int64_t length
        const gz_pick *picks
        # `from` is a keyword
        int64_t first_step "from"
        int64_t end_step "to"
        gz_walker_state *states
        int64_t first_state
    void gz_repeat_last(int64_t *walks, int64_t begin, int64_t end, int64_t length)


cdef extern from "graphzero/page_ahead.h" nogil:
    enum:
        GZ_AHEAD_BLOCK
        GZ_AHEAD_FIRST
        GZ_AHEAD_PAGES
        GZ_LOOKS
    ctypedef struct gz_page_ahead:
        const gz_mapping *mapping
        gz_willneed_mode mode
        gz_pick *pages
        gz_pick *scratch
        int64_t count
        int64_t block
    int gz_missing_looks(const gz_mapping *mapping, const void *array, uint64_t bytes_,
                         bool_t trust_mincore)
    uint64_t gz_translate_ahead(gz_page_ahead *ahead, const gz_ids *table, uint64_t limit,
                                const gz_pick *picks, int64_t count, int64_t *out,
                                int64_t stride)


cdef extern from "graphzero/walk_ahead.h" nogil:
    uint64_t gz_walk_steps(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                           int64_t begin, int64_t end)
    uint64_t gz_walk_ahead(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                           const gz_walks *walks, bool_t to_user, gz_pick *picks,
                           gz_pick *scratch, int64_t begin, int64_t end)


cdef extern from "graphzero/negatives.h" nogil:
    uint64_t gz_negative_counts(const gz_csr *csr, const int64_t *nodes,
                                const int64_t *others, int64_t begin, int64_t end,
                                int64_t *out)
    uint64_t gz_negative_destinations(const gz_csr *csr, uint64_t key, const int64_t *sources,
                                      const int64_t *positives, int64_t amount, int64_t begin,
                                      int64_t end, int64_t *out)
    uint64_t gz_negative_pairs(const gz_csr *csr, uint64_t key, const int64_t *offsets,
                               int64_t begin, int64_t end, int64_t *sources,
                               int64_t *destinations)


cdef extern from "graphzero/past_cache.h" nogil:
    bint gz_goes_past_cache(uint64_t row_bytes, uint64_t result_bytes)


cdef extern from "graphzero/convert.h" nogil:
    ctypedef void gz_convert(const unsigned char *from_, uint64_t count, unsigned char *to)

    ctypedef struct gz_cast:
        gz_convert *convert
        bint past_cache
    gz_cast gz_cast_of(uint32_t dtype)
    uint64_t gz_cast_bytes(const gz_cast *cast, uint64_t bytes_)


cdef extern from "graphzero/gather.h" nogil:
    void gz_gather_rows(const unsigned char *rows, uint64_t row_bytes, const gz_cast *cast,
                        const int64_t *ids, int64_t begin, int64_t end,
                        const uint8_t *chosen, unsigned char *out)
    uint64_t gz_translate(const gz_ids *table, uint64_t limit, const int64_t *ids, int64_t begin,
                          int64_t end, int64_t *out)
    int64_t gz_first_outside(const int64_t *ids, int64_t begin, int64_t end, int64_t limit)


cdef extern from "graphzero/block_sums.h" nogil:
    ctypedef enum gz_reduce:
        GZ_SUM
        GZ_MAX
        GZ_MIN
        GZ_ATTENTION
    ctypedef struct gz_block_sums:
        const gz_csr *csr
        uint64_t first_node
        uint64_t *cursors
        const int64_t *places
        float *sums
        double *wide_sums
        const float *weights
        uint64_t first_weight
        gz_reduce reduce
        bool_t skips_loops
        uint64_t width
        uint64_t heads
        float negative_slope
        const float *scores
    uint64_t gz_block_add(const gz_block_sums *block, const float *rows, uint64_t first,
                          uint64_t last, int64_t begin, int64_t end)
    uint64_t gz_mark_sources(const gz_csr *csr, uint64_t begin, uint64_t end, uint64_t group,
                             uint8_t *marks)


cdef extern from "graphzero/reads.h" nogil:
    ctypedef struct gz_pick:
        uint64_t row
        uint64_t place
    ctypedef struct gz_reads:
        const gz_pick *picks
        int64_t count
        uint64_t origin
        uint64_t row_bytes
        uint64_t gap_pages
        uint64_t most_bytes
        uint64_t page_bytes
        uint64_t pages_wanted
        uint64_t pages_read
        uint64_t reads
    void gz_picks_sort(gz_pick *picks, gz_pick *scratch, int64_t count)
    void gz_picks_in_turn(gz_pick *picks, int64_t count, gz_pick *later)
    void gz_picks_divide(const gz_pick *picks, int64_t count, const int64_t *ends, int64_t parts,
                         gz_pick *out, int64_t *begins)


cdef extern from "graphzero/page_map.h" nogil:
    ctypedef struct gz_page_map:
        const uint8_t *pages
        uint64_t count
        uint64_t origin
        uint64_t row_bytes
    gz_code gz_page_map_read(const gz_mapping *mapping, uint64_t first, uint64_t count,
                             bint trust_mincore, uint8_t *pages, gz_error *err)
    int64_t gz_picks_beyond(const int64_t *rows, int64_t count, const gz_page_map *map,
                            gz_pick *picks, uint8_t *in_memory)


cdef extern from "graphzero/buffers.h" nogil:
    enum:
        GZ_BUFFER_BYTES
    ctypedef struct gz_buffers:
        unsigned char *memory
    gz_code gz_buffers_open(unsigned count, gz_buffers *out, gz_error *err)
    void gz_buffers_close(gz_buffers *buffers)


cdef extern from "graphzero/direct.h" nogil:
    ctypedef struct gz_direct:
        int fd
        bool_t is_direct
        uint64_t size
    ctypedef struct gz_fetch:
        const gz_direct *file
        gz_reads reads
        unsigned char *out
    gz_code gz_direct_open(const gz_mapping *mapping, gz_direct *out, gz_error *err)
    void gz_direct_close(gz_direct *file)
    gz_code gz_direct_check(const gz_direct *file, gz_error *err)


cdef extern from "graphzero/preads.h" nogil:
    gz_code gz_preads_fetch(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err)


cdef extern from "graphzero/uring.h" nogil:
    ctypedef struct gz_uring:
        pass
    bool_t gz_uring_is_built()
    gz_code gz_uring_probe(gz_error *err)
    gz_code gz_uring_open(const gz_buffers *buffers, gz_uring **out, gz_error *err)
    void gz_uring_close(gz_uring *ring)
    gz_code gz_uring_fetch(gz_uring *ring, gz_fetch *fetch, gz_error *err)


cdef extern from "graphzero/group.h" nogil:
    ctypedef struct gz_moment:
        pass
    ctypedef struct gz_spent:
        uint64_t wall
        uint64_t disk
    gz_moment gz_now()
    gz_spent gz_spent_since(const gz_moment *begin, bool_t has_read)
    ctypedef struct gz_group_batch:
        gz_batch *batch
        gz_plan plan
        const gz_seeds *seeds
        gz_code code
        bool_t is_sampled
        gz_error err
        gz_spent spent
    ctypedef struct gz_stop:
        pass
    void gz_stop_init(gz_stop *stop)
    void gz_stop_set(gz_stop *stop)
    bool_t gz_is_stopped(gz_stop *stop)
    void gz_group_sample(gz_team *team, gz_group_batch *batches, int64_t count, gz_stop *stop)
    ctypedef enum gz_fill_kind:
        GZ_FILL_COPY
        GZ_FILL_TRANSLATE
        GZ_FILL_ROWS
        GZ_FILL_PICKS
        GZ_FILL_REPEAT
    ctypedef struct gz_fill:
        gz_fill_kind kind
        const unsigned char *from_ "from"
        const int64_t *ids
        const gz_pick *picks
        const uint8_t *chosen
        gz_ids table
        uint64_t limit
        uint64_t row_bytes
        gz_cast cast
        int64_t begin
        int64_t end
        unsigned char *out
        uint64_t corrupt
    ctypedef struct gz_fill_part:
        int64_t first
        int64_t end
        gz_spent spent
    void gz_group_fill(gz_team *team, gz_fill *fills, gz_fill_part *parts, int64_t count,
                       gz_stop *stop)


cdef extern from "graphzero/group_hops.h" nogil:
    ctypedef struct gz_topology_reader:
        const gz_mapping *mapping
        const gz_direct *file
        const gz_buffers *buffers
        gz_uring *ring
        uint64_t gap_pages
        gz_page_map indptr
        gz_page_map indices
        gz_page_map edge_ids
        uint64_t id_limit
    gz_code gz_group_sample_hops(gz_team *team, gz_group_batch *batches, int64_t count,
                                 gz_stop *stop, const gz_topology_reader *readers, int *edge_type,
                                 gz_error *err)


cdef extern from "graphzero/fork.h" nogil:
    void gz_fork_guard()
    bool_t gz_may_use_threads()
