#define _GNU_SOURCE /* unlink under -std=c11 */
#define _DARWIN_C_SOURCE

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/csr.h"
#include "support.h"

static gz_header header;
static gz_mapping mapping;
static gz_error err;
static gz_csr csr;

/* Writes a small file, maps it, and reads the header given here instead of the file's own. */
static gz_code open_with(const gz_header *changed, const unsigned char *file)
{
    char path[PATH_BYTES];
    write_file(path, "graph.gl", file, SMALL_FILE_BYTES);
    gz_code code = gz_mapping_open(path, &mapping, &err);
    unlink(path);
    if (code == GZ_OK)
        code = gz_csr_from_header(changed, &mapping, &csr, &err);
    return code;
}

static void start(unsigned char file[SMALL_FILE_BYTES])
{
    small_header(&header);
    small_file(&header, file);
}

static void expect_refusal(const unsigned char *file, const char *message)
{
    CHECK_EQ(open_with(&header, file), GZ_E_FORMAT);
    if (!CHECK(strstr(err.message, message) != NULL))
        printf("  '%s' is not in '%s'\n", message, err.message);
    gz_mapping_close(&mapping);
}

static void views_the_sections(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    uint64_t first, corrupt = 0;
    start(file);
    if (!CHECK_EQ(open_with(&header, file), GZ_OK))
        return;
    CHECK_EQ(csr.num_nodes, 3);
    CHECK_EQ(csr.num_neighbors, 3);
    CHECK(!csr.typed);
    CHECK_EQ(csr.num_edges, 4);
    CHECK(!csr.indices.wide);
    CHECK(csr.cum_weights == NULL && csr.times == NULL && csr.edge_ids.data == NULL &&
          csr.time_order.data == NULL);
    CHECK_EQ(gz_csr_list(&csr, 0, &first, &corrupt), 2);
    CHECK_EQ(first, 0);
    CHECK_EQ(gz_csr_list(&csr, 2, &first, &corrupt), 1);
    CHECK_EQ(first, 3);
    CHECK_EQ(gz_csr_neighbor(&csr, 1, &corrupt), 2);
    CHECK_EQ(corrupt, 0);
    gz_mapping_close(&mapping);
}

/* The same file with an indptr of 32 bits, which end where other bytes begin. */
static void start_narrow(unsigned char file[SMALL_FILE_BYTES])
{
    const uint32_t indptr[] = {0, 2, 3, 4, 0xFFFFFFFF};
    start(file);
    header.sections[0].dtype = GZ_UINT32;
    header.sections[0].length = 16;
    memcpy(file + GZ_PAGE_BYTES, indptr, sizeof indptr);
}

static void indptr_may_have_32_bits(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    uint64_t first, corrupt = 0;
    start_narrow(file);
    if (!CHECK_EQ(open_with(&header, file), GZ_OK))
        return;
    const uint64_t firsts[] = {0, 2, 3}, degrees[] = {2, 1, 1};
    for (uint64_t v = 0; v < 3; v++) {
        CHECK_EQ(gz_csr_list(&csr, v, &first, &corrupt), degrees[v]);
        CHECK_EQ(first, firsts[v]);
    }
    CHECK_EQ(corrupt, 0);
    gz_mapping_close(&mapping);
    file[GZ_PAGE_BYTES + 12] = 3;
    expect_refusal(file, "start at 0 and end at 4");
    start_narrow(file);
    file[GZ_PAGE_BYTES] = 1;
    expect_refusal(file, "start at 0 and end at 4");
}

static void optional_sections_are_found(void)
{
    const struct {
        const char *name;
        uint32_t dtype;
        uint64_t count;
    } some[] = {{"weights", GZ_FLOAT32, 4},  {"cum_weights", GZ_FLOAT64, 4},
                {"times", GZ_INT64, 4},      {"edge_ids", GZ_UINT64, 4},
                {"node_ids", GZ_UINT32, 3},  {"node_rank", GZ_UINT32, 3},
                {"time_order", GZ_UINT32, 4}};
    unsigned char file[SMALL_FILE_BYTES];
    start(file);
    for (unsigned i = 0; i < 7; i++) { /* all over the same bytes: only the addresses are checked */
        gz_section *section = &header.sections[header.num_sections++];
        *section = (gz_section){"", some[i].dtype, GZ_PAGE_BYTES, some[i].count, 0, 0};
        memcpy(section->name, some[i].name, strlen(some[i].name));
    }
    if (!CHECK_EQ(open_with(&header, file), GZ_OK))
        return;
    CHECK((const void *)csr.cum_weights == mapping.base + GZ_PAGE_BYTES);
    CHECK((const void *)csr.times == mapping.base + GZ_PAGE_BYTES);
    CHECK(csr.edge_ids.data == mapping.base + GZ_PAGE_BYTES && csr.edge_ids.wide);
    CHECK(csr.time_order.data == mapping.base + GZ_PAGE_BYTES && !csr.time_order.wide);
    CHECK(csr.node_ids.data == mapping.base + GZ_PAGE_BYTES && !csr.node_ids.wide);
    CHECK(csr.node_rank.data == mapping.base + GZ_PAGE_BYTES && !csr.node_rank.wide);
    gz_mapping_close(&mapping);
}

static void sections_must_fit_the_counts(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    start(file);
    header.sections[0].dtype = GZ_INT64;
    expect_refusal(file, "wrong dtype");
    start(file);
    header.sections[1].dtype = GZ_FLOAT32;
    expect_refusal(file, "wrong dtype");
    start(file);
    header.sections[0].count = 3;
    expect_refusal(file, "'indptr' has 3 elements, but the header implies 4");
    start(file);
    header.sections[1].count = 5;
    expect_refusal(file, "'indices' has 5 elements");
    start(file);
    header.num_sections = 1;
    expect_refusal(file, "lacks");
    start(file);
    header.num_sections = 0;
    expect_refusal(file, "lacks");
    start(file);
    header.sections[header.num_sections++] =
        (gz_section){"node_ids", GZ_UINT32, GZ_PAGE_BYTES, 3, 12, 0};
    expect_refusal(file, "without the other");
    start(file);
    header.sections[header.num_sections++] =
        (gz_section){"cum_weights", GZ_FLOAT32, GZ_PAGE_BYTES, 4, 16, 0};
    expect_refusal(file, "'cum_weights' has a wrong dtype");
    start(file);
    header.sections[header.num_sections++] =
        (gz_section){"cum_weights", GZ_FLOAT64, GZ_PAGE_BYTES, 3, 24, 0};
    expect_refusal(file, "'cum_weights' has 3 elements");
    start(file); /* nothing in C reads the weights themselves, but they are checked */
    header.sections[header.num_sections++] =
        (gz_section){"weights", GZ_FLOAT64, GZ_PAGE_BYTES, 4, 32, 0};
    expect_refusal(file, "'weights' has a wrong dtype");
    start(file);
    header.sections[header.num_sections++] =
        (gz_section){"weights", GZ_FLOAT32, GZ_PAGE_BYTES, 3, 12, 0};
    expect_refusal(file, "'weights' has 3 elements");
}

static void order_of_times_must_fit_the_times(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    const gz_section times = {"times", GZ_INT64, GZ_PAGE_BYTES, 4, 32, 0};
    const gz_section order = {"time_order", GZ_UINT32, GZ_PAGE_BYTES, 4, 16, 0};
    start(file);
    header.sections[header.num_sections++] = order;
    expect_refusal(file, "has 'time_order' without 'times'");
    start(file);
    header.sections[header.num_sections++] = times;
    CHECK_EQ(open_with(&header, file), GZ_OK);
    CHECK(csr.times != NULL && csr.time_order.data == NULL);
    gz_mapping_close(&mapping);
    header.sections[header.num_sections++] = order;
    header.sections[3].dtype = GZ_INT32;
    expect_refusal(file, "'time_order' has a wrong dtype");
    header.sections[3] = order;
    header.sections[3].count = 3;
    expect_refusal(file, "'time_order' has 3 elements, but the header implies 4");
}

/* The bounds of its neighbours are the other set's, above or below the number of lists. */
static void an_edge_type_has_neighbors_of_another_set(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    uint64_t corrupt = 0;
    for (uint64_t neighbors = 2; neighbors <= 4; neighbors++) {
        start(file);
        header.flags |= GZ_FLAG_TYPED;
        header.num_neighbors = neighbors;
        poke(file, 2 * GZ_PAGE_BYTES, 4, 3); /* the first of 1 2 0 1 */
        if (!CHECK_EQ(open_with(&header, file), GZ_OK))
            return;
        CHECK(csr.typed && csr.num_nodes == 3 && csr.num_neighbors == neighbors);
        int64_t got[4];
        const int64_t positions[] = {0, 1, 2, 3};
        corrupt = gz_csr_read_neighbors(&csr, positions, 0, 4, got);
        CHECK_EQ(corrupt, neighbors == 2 ? 2 : neighbors == 3 ? 1 : 0);
        CHECK_EQ(got[0], neighbors == 4 ? 3 : 0);
        gz_mapping_close(&mapping);
    }
    header.num_neighbors = (uint64_t)INT64_MAX + 1;
    expect_refusal(file, "63 bits");
}

static void an_edge_type_has_no_order_of_its_own(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    start(file);
    header.flags |= GZ_FLAG_TYPED;
    header.num_neighbors = 3;
    header.num_sections = 4;
    header.sections[2] = (gz_section){"node_ids", GZ_UINT32, 2 * GZ_PAGE_BYTES, 3, 12, 0};
    header.sections[3] = (gz_section){"node_rank", GZ_UINT32, 2 * GZ_PAGE_BYTES, 3, 12, 0};
    expect_refusal(file, "'node_ids', which the file of an edge type cannot have");
}

/* num_nodes + 1 must not wrap to an indptr length that a file can have. */
static void counts_near_the_limit_do_not_overflow(void)
{
    const uint64_t counts[] = {UINT64_MAX, UINT64_MAX - 1, INT64_MAX, UINT64_C(1) << 63};
    unsigned char file[SMALL_FILE_BYTES];
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        start(file);
        header.num_nodes = counts[i];
        header.sections[0].count = counts[i] + 1;
        expect_refusal(file, "63 bits");
    }
    start(file);
    header.width = UINT64_MAX;
    expect_refusal(file, "63 bits");
    start(file);
    header.num_nodes = INT64_MAX - 1;
    expect_refusal(file, "'indptr' has 4 elements");
}

static void indptr_must_span_the_edges(void)
{
    unsigned char file[SMALL_FILE_BYTES];
    start(file);
    file[GZ_PAGE_BYTES] = 1;
    expect_refusal(file, "start at 0 and end at 4");
    start(file);
    file[GZ_PAGE_BYTES + 24] = 3;
    expect_refusal(file, "start at 0 and end at 4");
}

static void corrupt_lists_are_empty_and_counted(void)
{
    const int degrees[] = {2, 3, 1, 0};
    const int64_t nodes[] = {0, 1, 2, 3};
    int64_t got[] = {9, 9, 9, 9};
    graph g;
    graph_with_degrees(&g, degrees, 4);
    CHECK_EQ(gz_csr_degrees(&g.csr, nodes, 0, 4, got), 0);
    for (int v = 0; v < 4; v++)
        CHECK_EQ(got[v], degrees[v]);
    g.indptr[1] = 6; /* list 1 ends before it begins */
    CHECK_EQ(gz_csr_degrees(&g.csr, nodes, 0, 4, got), 1);
    CHECK_EQ(got[0], 6);
    CHECK_EQ(got[1], 0);
    g.indptr[1] = UINT64_MAX; /* lists 0 and 1 */
    CHECK_EQ(gz_csr_degrees(&g.csr, nodes, 0, 4, got), 2);
    CHECK_EQ(got[0], 0);
    CHECK_EQ(got[1], 0);
    CHECK_EQ(got[2], 1);
}

static void degrees_stay_in_their_range(void)
{
    const int degrees[] = {2, 3, 1, 0};
    const int64_t nodes[] = {1, 1, 2, 3};
    int64_t got[] = {9, 9, 9, 9};
    graph g;
    graph_with_degrees(&g, degrees, 4);
    CHECK_EQ(gz_csr_degrees(&g.csr, nodes, 1, 3, got), 0);
    CHECK(got[0] == 9 && got[1] == 3 && got[2] == 1 && got[3] == 9);
}

static void neighbors_out_of_range_become_0(void)
{
    const int degrees[] = {2, 3, 3, 2};
    const int64_t positions[] = {9, 3, 0};
    int64_t got[3];
    graph g;
    graph_with_degrees(&g, degrees, 4);
    for (int wide = 0; wide < 2; wide++) {
        if (wide)
            g.csr.indices = (gz_ids){g.wide, true};
        CHECK_EQ(gz_csr_read_neighbors(&g.csr, positions, 0, 3, got), 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(got[i], g.indices[positions[i]]);
    }
    g.wide[3] = 4;
    g.wide[0] = UINT64_MAX;
    CHECK_EQ(gz_csr_read_neighbors(&g.csr, positions, 0, 3, got), 2);
    CHECK_EQ(got[1], 0);
    CHECK_EQ(got[2], 0);
}

void test_csr(void)
{
    RUN(views_the_sections);
    RUN(indptr_may_have_32_bits);
    RUN(optional_sections_are_found);
    RUN(sections_must_fit_the_counts);
    RUN(order_of_times_must_fit_the_times);
    RUN(an_edge_type_has_neighbors_of_another_set);
    RUN(an_edge_type_has_no_order_of_its_own);
    RUN(counts_near_the_limit_do_not_overflow);
    RUN(indptr_must_span_the_edges);
    RUN(corrupt_lists_are_empty_and_counted);
    RUN(degrees_stay_in_their_range);
    RUN(neighbors_out_of_range_become_0);
}
