/* The test harness: RUN counts a test as failed if one of its CHECKs fails. */
#ifndef GRAPHZERO_TESTS_CHECK_H
#define GRAPHZERO_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

bool check_that(bool holds, const char *file, int line, const char *text);
bool check_equal(int64_t got, int64_t wanted, const char *file, int line, const char *text);
void run_test(void (*test)(void), const char *name);

/* Both return true if the check passes, for `if (!CHECK(...)) return;`. */
#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(got, wanted)                                                                      \
    check_equal((int64_t)(got), (int64_t)(wanted), __FILE__, __LINE__, #got " == " #wanted)
#define RUN(test) run_test(test, #test)

/* What the naive twins in Python cannot reach: hostile files, limits, failures of the system. */
void test_batch(void);
void test_batch_state(void);
void test_buffers(void);
void test_bounds(void);
void test_check_lists(void);
void test_checksum(void);
void test_csr(void);
void test_direct(void);
void test_disk_probe(void);
void test_edge_list(void);
void test_fork(void);
void test_format(void);
void test_gather(void);
void test_hop_readahead(void);
void test_idmap(void);
void test_io_ring(void);
void test_latencies(void);
void test_mapping(void);
void test_negatives(void);
void test_node2vec(void);
void test_node_space(void);
void test_parse_number(void);
void test_pool(void);
void test_preads(void);
void test_reads(void);
void test_residency(void);
void test_rng(void);
void test_rng_portable(void);
void test_sampling(void);
void test_status(void);
void test_uring(void);
void test_weighted(void);
void test_willneed(void);
void test_page_map(void);
void test_window(void);

#endif
