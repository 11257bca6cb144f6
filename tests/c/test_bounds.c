#include "check.h"

#include "graphzero/bounds.h"
#include "graphzero/gather.h"

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
