#include "check.h"

#include <string.h>

#include "graphzero/pool.h"
#include "support.h"

static const uint64_t MIB = UINT64_C(1) << 20;

static gz_block take(gz_pool *pool, uint64_t bytes)
{
    gz_block block = {NULL, 0};
    if (CHECK_EQ(gz_pool_take(pool, bytes, &block, &err), GZ_OK)) {
        CHECK(block.bytes >= bytes);
        memset(block.memory, 0x5a, (size_t)block.bytes); /* all of it is there */
    }
    return block;
}

TEST(the_closest_size_is_taken)
{
    gz_pool pool;
    gz_pool_init(&pool, 200 * MIB);
    gz_block large = take(&pool, 40 * MIB), small = take(&pool, 12 * MIB);
    void *memory = small.memory;
    gz_pool_give(&pool, small);
    gz_pool_give(&pool, large);
    small = take(&pool, 10 * MIB);
    CHECK(small.memory == memory);
    gz_block tiny = take(&pool, 4 * MIB); /* a 40 MiB block would be far too large */
    CHECK(tiny.bytes < 8 * MIB);
    gz_pool_give(&pool, small);
    gz_pool_give(&pool, tiny);
    gz_pool_trim(&pool);
}

/* Slightly varying sizes must not leave one idle block each. */
TEST(varying_sizes_do_not_pile_up)
{
    gz_pool pool;
    gz_pool_init(&pool, 1000 * MIB);
    for (uint64_t i = 0; i < 100; i++) {
        gz_block one = take(&pool, 20 * MIB + i * 37 % 16 * MIB);
        gz_block two = take(&pool, 20 * MIB + i * 11 % 16 * MIB);
        gz_pool_give(&pool, one);
        gz_pool_give(&pool, two);
        CHECK(pool.num_idle <= 2);
    }
    gz_pool_trim(&pool);
}

TEST(idle_memory_is_bounded)
{
    gz_pool pool;
    gz_block blocks[GZ_POOL_SLOTS + 8];
    gz_pool_init(&pool, 20 * MIB);
    for (int i = 0; i < 4; i++)
        blocks[i] = take(&pool, 8 * MIB);
    for (int i = 0; i < 4; i++)
        gz_pool_give(&pool, blocks[i]);
    CHECK_EQ(pool.num_idle, 2);
    CHECK(pool.idle_bytes <= 20 * MIB);
    gz_pool_trim(&pool);

    gz_pool_init(&pool, 1000 * MIB);
    for (int i = 0; i < GZ_POOL_SLOTS + 8; i++)
        blocks[i] = take(&pool, MIB);
    for (int i = 0; i < GZ_POOL_SLOTS + 8; i++)
        gz_pool_give(&pool, blocks[i]);
    CHECK_EQ(pool.num_idle, GZ_POOL_SLOTS);
    gz_pool_trim(&pool);
}

TEST(sizes_waste_at_most_an_eighth)
{
    gz_pool pool;
    gz_pool_init(&pool, 0);
    for (uint64_t bytes = 16 * MIB; bytes < 100 * MIB; bytes += 3 * MIB + 7) {
        gz_block block = take(&pool, bytes);
        CHECK(block.bytes - bytes <= bytes / 8);
        CHECK_EQ((uintptr_t)block.memory % (2 * MIB), 0);
        gz_pool_give(&pool, block);
        CHECK_EQ(pool.num_idle, 0);
    }
}
