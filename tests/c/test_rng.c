#include "check.h"
#include "graphzero/rng.h"

/* First outputs of SplitMix64, as its authors' reference prints them. */
static void draws_are_splitmix64(void)
{
    CHECK(gz_draw(0, 0) == UINT64_C(0xE220A8397B1DCDAF));
    CHECK(gz_draw(0, 1) == UINT64_C(0x6E789E6AA1B965F4));
    CHECK(gz_draw(1234567, 0) == UINT64_C(6457827717110365317));
    CHECK(gz_draw(1234567, 1) == UINT64_C(3203168211198807973));
}

static void bounded_is_the_high_word(void)
{
    CHECK_EQ(gz_bounded(0, 10), 0);
    CHECK_EQ(gz_bounded(UINT64_MAX, 10), 9);
    CHECK_EQ(gz_bounded(UINT64_MAX, 1), 0);
    CHECK_EQ(gz_bounded(UINT64_C(1) << 63, 7), 3);
    CHECK(gz_bounded(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
    CHECK(gz_bounded(UINT64_C(0x123456789ABCDEF0), UINT64_C(1) << 32) == 0x12345678);
}

static void unit_is_half_open(void)
{
    CHECK(gz_unit(0) == 0.0);
    CHECK(gz_unit(UINT64_C(1) << 63) == 0.5);
    CHECK(gz_unit(UINT64_MAX) < 1.0);
    CHECK(gz_unit(UINT64_MAX) > 0.9999999999999998);
}

static void keys_tell_all_parts_apart(void)
{
    const uint64_t keys[] = {
        gz_key(GZ_PURPOSE_SAMPLE, 0, 0, 0),  gz_key(GZ_PURPOSE_WALK, 0, 0, 0),
        gz_key(GZ_PURPOSE_SHUFFLE, 0, 0, 0), gz_key(GZ_PURPOSE_SAMPLE, 1, 0, 0),
        gz_key(GZ_PURPOSE_SAMPLE, 0, 1, 0),  gz_key(GZ_PURPOSE_SAMPLE, 0, 0, 1),
        gz_key(GZ_PURPOSE_SAMPLE, 2, 1, 0),  gz_key(GZ_PURPOSE_SAMPLE, 1, 2, 0),
        gz_key(GZ_PURPOSE_SAMPLE, 0, 1, 2),  gz_key(GZ_PURPOSE_SAMPLE, 0, 2, 1),
    };
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (unsigned j = 0; j < i; j++)
            CHECK(keys[i] != keys[j]);
    /* the same seed gives the same batches on any day: a new value here breaks that */
    CHECK(gz_key(GZ_PURPOSE_WALK, 3, 4, 5) == UINT64_C(0xECD51DB4C027ADAC));
}

static void shuffle_permutes(void)
{
    enum { COUNT = 1000 };
    int64_t ids[COUNT], again[COUNT], other[COUNT], moved = 0, differ = 0;
    bool seen[COUNT] = {false};
    for (int i = 0; i < COUNT; i++)
        ids[i] = again[i] = other[i] = i;
    gz_shuffle(7, ids, COUNT);
    gz_shuffle(7, again, COUNT);
    gz_shuffle(8, other, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK(!seen[ids[i]]);
        seen[ids[i]] = true;
        CHECK_EQ(ids[i], again[i]);
        moved += ids[i] != i;
        differ += ids[i] != other[i];
    }
    CHECK(moved > COUNT / 2);
    CHECK(differ > COUNT / 2);
}

static void shuffle_of_few(void)
{
    int64_t one[] = {5};
    gz_shuffle(1, one, 0);
    gz_shuffle(1, one, 1);
    CHECK_EQ(one[0], 5);
}

/* Chi-square over the 6 orders of 3 things, 5 degrees of freedom: 20.5 is the 0.1 % point. */
static void shuffle_is_uniform(void)
{
    int counts[27] = {0};
    double chi2 = 0;
    for (uint64_t key = 0; key < 6000; key++) {
        int64_t ids[] = {0, 1, 2};
        gz_shuffle(gz_key(GZ_PURPOSE_SHUFFLE, 1, 0, key), ids, 3);
        counts[ids[0] * 9 + ids[1] * 3 + ids[2]]++;
    }
    const int orders[] = {5, 7, 11, 15, 19, 21}; /* 012 021 102 120 201 210 in base 3 */
    for (int i = 0; i < 6; i++)
        chi2 += (counts[orders[i]] - 1000.0) * (counts[orders[i]] - 1000.0) / 1000.0;
    CHECK(chi2 < 20.5);
}

void test_rng(void)
{
    RUN(draws_are_splitmix64);
    RUN(bounded_is_the_high_word);
    RUN(unit_is_half_open);
    RUN(keys_tell_all_parts_apart);
    RUN(shuffle_permutes);
    RUN(shuffle_of_few);
    RUN(shuffle_is_uniform);
}
