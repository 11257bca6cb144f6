#include "check.h"

#include <inttypes.h>
#include <stdio.h>

static int passed, failed;
static bool this_one_failed;

bool check_that(bool holds, const char *file, int line, const char *text)
{
    if (!holds) {
        this_one_failed = true;
        printf("%s:%d: does not hold: %s\n", file, line, text);
    }
    return holds;
}

bool check_equal(int64_t got, int64_t wanted, const char *file, int line, const char *text)
{
    if (got != wanted) {
        this_one_failed = true;
        printf("%s:%d: does not hold: %s (%" PRId64 ", %" PRId64 ")\n", file, line, text, got,
               wanted);
    }
    return got == wanted;
}

void run_test(void (*test)(void), const char *name)
{
    this_one_failed = false;
    test();
    if (this_one_failed)
        printf("FAILED %s\n", name);
    *(this_one_failed ? &failed : &passed) += 1;
}

int main(void)
{
    test_status();
    test_bounds();
    test_hop_readahead();
    test_node_space();
    test_edge_list();
    test_batch_state();
    test_batch();
    test_check_lists();
    test_checksum();
    test_rng();
    test_rng_portable();
    test_format();
    test_mapping();
    test_csr();
    test_idmap();
    test_sampling();
    test_window();
    test_node2vec();
    test_negatives();
    test_weighted();
    test_gather();
    test_pool();
    test_willneed();
    test_page_map();
    test_residency();
    test_reads();
    test_buffers();
    test_direct();
    test_preads();
    test_io_ring();
    test_uring();
    test_latencies();
    test_disk_probe();
    test_parse_number();
    test_fork();
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
