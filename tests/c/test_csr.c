#include "check.h"

#include <string.h>

#include "support.h"

static unsigned char file[SMALL_FILE_BYTES];
static gz_header header;
static gz_mapping mapping;
static gz_csr csr;

static void start(void)
{
    small_header(&header);
    small_file(&header, file);
}

/* Maps the file, and reads the header given here instead of the file's own. */
static gz_code open_changed(void)
{
    return map_file(&mapping, file, sizeof file) ? gz_csr_from_header(&header, &mapping, &csr, &err)
                                                 : err.code;
}

static void expect_refusal(const char *message)
{
    CHECK_EQ(open_changed(), GZ_E_FORMAT);
    check_message(message);
    gz_mapping_close(&mapping);
}

/* Replaces the section of this name, or adds one over the bytes of 'indptr'. */
static void set_section(const char *name, uint32_t dtype, uint64_t count)
{
    uint32_t i = 0;
    while (i < header.num_sections && strcmp(header.sections[i].name, name) != 0)
        i++;
    header.num_sections += i == header.num_sections;
    uint64_t offset = i == 1 ? 2 * GZ_PAGE_BYTES : GZ_PAGE_BYTES;
    header.sections[i] = (gz_section){"", dtype, offset, count, 0, 0};
    memcpy(header.sections[i].name, name, strlen(name));
}

static void check_small_lists(void)
{
    const uint64_t firsts[] = {0, 2, 3}, degrees[] = {2, 1, 1};
    uint64_t first, corrupt = 0;
    for (uint64_t v = 0; v < 3; v++) {
        CHECK_EQ(gz_csr_list(&csr, v, &first, &corrupt), degrees[v]);
        CHECK_EQ(first, firsts[v]);
    }
    CHECK_EQ(gz_csr_neighbor(&csr, 1, &corrupt), 2);
    CHECK_EQ(corrupt, 0);
}

/* The first or the last entry of indptr is wrong; of 32 bits, they end where other bytes begin. */
TEST(indptr_must_span_the_edges)
{
    const uint32_t narrow[] = {0, 2, 3, 4, 0xFFFFFFFF};
    for (unsigned i = 0; i < 2; i++) {
        start();
        file[GZ_PAGE_BYTES + 24 * i] = 1;
        expect_refusal("start at 0 and end at 4");
        start();
        set_section("indptr", GZ_UINT32, 4);
        memcpy(file + GZ_PAGE_BYTES, narrow, sizeof narrow);
        CHECK_EQ(open_changed(), GZ_OK);
        check_small_lists();
        gz_mapping_close(&mapping);
        file[GZ_PAGE_BYTES + 12 * i] = 1;
        expect_refusal("start at 0 and end at 4");
    }
}

TEST(sections_must_fit_the_counts)
{
    const struct {
        const char *name;
        uint32_t dtype;
        uint64_t count;
        const char *message;
    } cases[] = {
        {"indptr", GZ_INT64, 4, "'indptr' has a wrong dtype"},
        {"indptr", GZ_UINT64, 3, "'indptr' has 3 elements, but the header implies 4"},
        {"indices", GZ_FLOAT32, 4, "'indices' has a wrong dtype"},
        {"indices", GZ_UINT32, 5, "'indices' has 5 elements"},
        {"node_ids", GZ_UINT32, 3, "without the other"},
        {"cum_weights", GZ_FLOAT32, 4, "'cum_weights' has a wrong dtype"},
        {"cum_weights", GZ_FLOAT64, 3, "'cum_weights' has 3 elements"},
        {"weights", GZ_FLOAT64, 4, "'weights' has a wrong dtype"}, /* which Python reads */
        {"weights", GZ_FLOAT32, 3, "'weights' has 3 elements"},
        {"time_order", GZ_INT32, 4, "'time_order' has a wrong dtype"},
        {"time_order", GZ_UINT32, 3, "'time_order' has 3 elements"},
        {"time_order", GZ_UINT32, 4, "has 'time_order' without 'times'"},
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        start();
        set_section(cases[i].name, cases[i].dtype, cases[i].count);
        expect_refusal(cases[i].message);
    }
    for (header.num_sections = 0; header.num_sections < 2; header.num_sections++)
        expect_refusal("lacks");
}

/* The bounds of its neighbours are the other set's, above or below the number of lists. */
TEST(an_edge_type_has_neighbors_of_another_set)
{
    const int64_t positions[] = {0, 1, 2, 3};
    int64_t got[4];
    for (uint64_t neighbors = 2; neighbors <= 4; neighbors++) {
        start();
        header.flags |= GZ_FLAG_TYPED;
        header.num_neighbors = neighbors;
        file[2 * GZ_PAGE_BYTES] = 3; /* the first of 1 2 0 1 */
        if (!CHECK_EQ(open_changed(), GZ_OK))
            return;
        CHECK(csr.typed && csr.num_nodes == 3 && csr.num_neighbors == neighbors);
        CHECK_EQ(gz_csr_read_neighbors(&csr, positions, 0, 4, got), 4 - neighbors);
        CHECK_EQ(got[0], neighbors == 4 ? 3 : 0);
        gz_mapping_close(&mapping);
    }
    set_section("node_ids", GZ_UINT32, 3);
    set_section("node_rank", GZ_UINT32, 3);
    expect_refusal("'node_ids', which the file of an edge type cannot have");
    header.num_neighbors = 0;
    expect_refusal("no nodes that they could lead to");
    header.num_neighbors = (uint64_t)INT64_MAX + 1;
    expect_refusal("63 bits");
}

/* num_nodes + 1 must not wrap to an indptr length that a file can have. */
TEST(counts_near_the_limit_do_not_overflow)
{
    const uint64_t counts[] = {UINT64_MAX, UINT64_MAX - 1, INT64_MAX, UINT64_C(1) << 63};
    for (unsigned i = 0; i < COUNT(counts); i++) {
        start();
        header.num_nodes = counts[i];
        header.sections[0].count = counts[i] + 1;
        expect_refusal("63 bits");
    }
    start();
    header.width = UINT64_MAX;
    expect_refusal("63 bits");
    start();
    header.num_nodes = INT64_MAX - 1;
    expect_refusal("'indptr' has 4 elements");
}
