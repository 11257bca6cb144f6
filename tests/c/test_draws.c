#include "check.h"
#include "graphzero/draws.h"

enum { ITEMS = 2000, BATCHES = 24 };

static uint64_t key_in(uint64_t batch, uint64_t dependency, uint64_t item)
{
    gz_draws draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 5, 6, batch, dependency);
    return gz_draws_key(&draws, item);
}

static void without_dependency_the_key_is_the_batchs(void)
{
    for (uint64_t batch = 0; batch < BATCHES; batch++)
        CHECK(key_in(batch, 1, batch * 7) == gz_key(GZ_PURPOSE_SAMPLE, 5, 6, batch));
}

/* Every item changes its key once in n batches, at all places of a group alike. */
static void items_keep_their_key_for_n_batches(void)
{
    for (uint64_t n = 2; n <= 5; n++) {
        int changes[BATCHES] = {0};
        for (uint64_t item = 0; item < ITEMS; item++) {
            uint64_t last = 0;
            for (uint64_t batch = 1; batch < BATCHES; batch++)
                if (key_in(batch, n, item) != key_in(batch - 1, n, item)) {
                    CHECK(last == 0 || batch - last == n);
                    last = batch;
                    changes[batch]++;
                }
            CHECK(last + n >= BATCHES);
        }
        for (int batch = 1; batch < BATCHES; batch++) {
            double expected = (double)ITEMS / (double)n;
            CHECK(changes[batch] > 0.8 * expected && changes[batch] < 1.2 * expected);
        }
    }
}

static void parts_have_keys_of_their_own(void)
{
    gz_draws draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 5, 6, 7, 3);
    gz_draws first = gz_draws_below(&draws, 0), second = gz_draws_below(&draws, 1);
    int same = 0, moves_together = 0;
    for (uint64_t item = 0; item < ITEMS; item++) {
        uint64_t a = gz_draws_key(&first, item), b = gz_draws_key(&second, item);
        same += a == b;
        moves_together += (a == first.next) == (b == second.next);
    }
    CHECK_EQ(same, 0);
    CHECK(moves_together > ITEMS / 3 && moves_together < 2 * ITEMS / 3);
}

void test_draws(void)
{
    RUN(without_dependency_the_key_is_the_batchs);
    RUN(items_keep_their_key_for_n_batches);
    RUN(parts_have_keys_of_their_own);
}
