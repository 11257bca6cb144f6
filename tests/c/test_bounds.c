#include "check.h"

#include "graphzero/bounds.h"
#include "graphzero/gather.h"

TEST(sums_run_from_what_is_given)
{
    int64_t sums[] = {7, 1, 0, 4, 9};
    const int64_t wanted[] = {7, 8, 8, 12, 9};
    CHECK(gz_running_sums(sums, 0, 3));
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sums[i], wanted[i]);
    CHECK(gz_running_sums(sums, 3, 4));
    CHECK_EQ(sums[4], 21);
}

TEST(sums_beyond_63_bits_are_refused)
{
    const int64_t half = INT64_C(1) << 62;
    int64_t fits[] = {0, half, half - 1}, one_more[] = {1, half, half - 1};
    int64_t wraps_to_zero[] = {0, half, half, half, half};
    CHECK(gz_running_sums(fits, 0, 2));
    CHECK_EQ(fits[2], INT64_MAX);
    CHECK(!gz_running_sums(one_more, 0, 2));
    CHECK(!gz_running_sums(wraps_to_zero, 0, 4));
}

TEST(products_beyond_the_machine_are_refused)
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

TEST(the_first_id_outside_is_found)
{
    const int64_t bad[] = {-1, INT64_MIN, INT64_MAX, 10};
    int64_t ids[200];
    for (int i = 0; i < 200; i++)
        ids[i] = i % 10;
    CHECK_EQ(gz_first_outside(ids, 0, 200, 10), 200);
    CHECK_EQ(gz_first_outside(ids, 10, 200, 9), 19);
    CHECK_EQ(gz_first_outside(ids, 0, 0, 0), 0);
    CHECK_EQ(gz_first_outside(ids, 0, 200, 0), 0);
    for (int i = 0; i < 4; i++) {
        ids[150] = bad[i];
        CHECK_EQ(gz_first_outside(ids, 0, 200, 10), 150);
        CHECK_EQ(gz_first_outside(ids, 0, 150, 10), 150);
        CHECK_EQ(gz_first_outside(ids, 151, 200, 10), 200);
    }
}
