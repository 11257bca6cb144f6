#include "check.h"
#include "graphzero/bounds.h"

static void sums_run_from_what_is_given(void)
{
    int64_t sums[] = {7, 1, 0, 4, 9};
    CHECK(gz_running_sums(sums, 0, 3));
    CHECK_EQ(sums[0], 7);
    CHECK_EQ(sums[1], 8);
    CHECK_EQ(sums[2], 8);
    CHECK_EQ(sums[3], 12);
    CHECK_EQ(sums[4], 9);
    CHECK(gz_running_sums(sums, 3, 4));
    CHECK_EQ(sums[4], 21);
}

static void sums_beyond_63_bits_are_refused(void)
{
    int64_t fits[] = {0, INT64_C(1) << 62, (INT64_C(1) << 62) - 1};
    int64_t one_more[] = {1, INT64_C(1) << 62, (INT64_C(1) << 62) - 1};
    int64_t wraps_to_zero[] = {0, INT64_C(1) << 62, INT64_C(1) << 62, INT64_C(1) << 62,
                               INT64_C(1) << 62};
    CHECK(gz_running_sums(fits, 0, 2));
    CHECK_EQ(fits[2], INT64_MAX);
    CHECK(!gz_running_sums(one_more, 0, 2));
    CHECK(!gz_running_sums(wraps_to_zero, 0, 4));
}

static void products_beyond_the_machine_are_refused(void)
{
    int64_t of_machine = (int64_t)(gz_machine_bytes() / 8);
    CHECK(gz_fits_memory(0, 8));
    CHECK(gz_fits_memory(1000, 8));
    CHECK(gz_fits_memory(INT64_MAX, 0));
    CHECK(gz_fits_memory(of_machine, 8));
    CHECK(!gz_fits_memory(of_machine + 1, 8));
    CHECK(!gz_fits_memory(INT64_MAX, 8));
    CHECK(!gz_fits_memory(INT64_C(1) << 61, 8));
    CHECK(!gz_fits_memory((INT64_C(1) << 61) + 1, 8));
}

void test_bounds(void)
{
    RUN(sums_run_from_what_is_given);
    RUN(sums_beyond_63_bits_are_refused);
    RUN(products_beyond_the_machine_are_refused);
}
