/* The multiplication of rng.h for compilers without 128-bit integers, on one that has them. */
#include "check.h"

#undef __SIZEOF_INT128__
#include "graphzero/rng.h"

TEST(portable_product_has_the_same_high_word)
{
    CHECK(gz_bounded(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    CHECK(gz_bounded(UINT64_C(0xFFFFFFFF00000001), UINT64_C(0xFFFFFFFF)) == UINT64_C(0xFFFFFFFE));
    /* floor(a * b / 2^64), worked out with big integers */
    CHECK(gz_bounded(UINT64_C(0x9E3779B97F4A7C15), UINT64_C(0xD1342543DE82EF95)) ==
          UINT64_C(0x814B84AD213B5D2C));
    CHECK(gz_bounded(UINT64_C(0x00000001FFFFFFFF), UINT64_C(0xFFFFFFFFFFFFFFFF)) ==
          UINT64_C(0x00000001FFFFFFFE));
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(gz_bounded(gz_draw(3, i), 10) == gz_draw(3, i) / (UINT64_MAX / 10 + 1));
}
