#include "check.h"

#include <string.h>

#include "graphzero/latencies.h"

static gz_latencies found;

static uint64_t alone(uint64_t nanoseconds)
{
    memset(&found, 0, sizeof found);
    gz_latencies_add(&found, nanoseconds);
    return gz_latencies_quantile(&found, 0.5);
}

TEST(durations_are_known_to_one_part_in_32)
{
    uint64_t before = 0;
    for (unsigned power = 0; power < 64; power++)
        for (uint64_t part = 0; part < 64; part++) {
            uint64_t one = UINT64_C(1) << power;
            uint64_t wanted = one + (power < 6 ? part % one : part * (one >> 6));
            uint64_t got = alone(wanted), off = got > wanted ? got - wanted : wanted - got;
            if (!CHECK(off <= wanted / 32) || !CHECK(power < 6 || got >= before))
                return;
            before = got;
        }
    CHECK_EQ(alone(0), 0);
    CHECK_EQ(alone(63), 63);
    CHECK(alone(UINT64_MAX) > UINT64_MAX / 64 * 63);
}

TEST(quantiles_are_those_of_a_sorted_list)
{
    const double shares[] = {0.0, 0.5, 0.9, 1.0};
    const uint64_t wanted[] = {1, 30, 54, 60};
    memset(&found, 0, sizeof found);
    CHECK_EQ(gz_latencies_quantile(&found, 0.5), 0);
    for (uint64_t i = 60; i > 0; i--) /* exact below 64 */
        gz_latencies_add(&found, i);
    CHECK_EQ(found.total, 60);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(gz_latencies_quantile(&found, shares[i]), wanted[i]);
}
