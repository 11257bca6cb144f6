#include "check.h"

#include "graphzero/rng.h"

/* First outputs of SplitMix64, as its authors' reference prints them. */
TEST(draws_are_splitmix64)
{
    CHECK(gz_draw(0, 0) == UINT64_C(0xE220A8397B1DCDAF));
    CHECK(gz_draw(0, 1) == UINT64_C(0x6E789E6AA1B965F4));
    CHECK(gz_draw(1234567, 0) == UINT64_C(6457827717110365317));
    CHECK(gz_draw(1234567, 1) == UINT64_C(3203168211198807973));
}

TEST(bounded_is_the_high_word)
{
    CHECK_EQ(gz_bounded(0, 10), 0);
    CHECK_EQ(gz_bounded(UINT64_MAX, 10), 9);
    CHECK_EQ(gz_bounded(UINT64_MAX, 1), 0);
    CHECK_EQ(gz_bounded(UINT64_C(1) << 63, 7), 3);
    CHECK(gz_bounded(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    CHECK(gz_bounded(UINT64_C(0x123456789ABCDEF0), UINT64_C(1) << 32) == 0x12345678);
}

TEST(unit_is_half_open)
{
    CHECK(gz_unit(0) == 0.0);
    CHECK(gz_unit(UINT64_C(1) << 63) == 0.5);
    CHECK(gz_unit(UINT64_MAX) < 1.0);
    CHECK(gz_unit(UINT64_MAX) > 0.9999999999999998);
}
