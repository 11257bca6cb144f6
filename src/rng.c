#include "graphzero/rng.h"

uint64_t gz_key(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch)
{
    return gz_stream(gz_stream(gz_stream(gz_stream(0, (uint64_t)purpose), seed), epoch), batch);
}

void gz_draw_bounded(uint64_t stream, uint64_t bound, int64_t *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (int64_t)gz_bounded(gz_draw(stream, (uint64_t)i), bound);
}

void gz_shuffle(uint64_t key, int64_t *ids, int64_t count)
{
    for (int64_t last = count - 1; last > 0; last--) {
        uint64_t other = gz_bounded(gz_draw(key, (uint64_t)last), (uint64_t)last + 1);
        int64_t id = ids[last];
        ids[last] = ids[other];
        ids[other] = id;
    }
}
