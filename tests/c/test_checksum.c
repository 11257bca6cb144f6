#include "check.h"
#include "graphzero/checksum.h"

/* The check values of CRC-32/ISO-HDLC and of zlib.crc32. */
static void known_values(void)
{
    CHECK_EQ(gz_crc32((const unsigned char *)"123456789", 9), 0xCBF43926);
    CHECK_EQ(gz_crc32((const unsigned char *)"a", 1), 0xE8B7BE43);
    CHECK_EQ(gz_crc32((const unsigned char *)"", 0), 0);
}

static void every_bit_counts(void)
{
    unsigned char bytes[64] = {0};
    uint32_t crc = gz_crc32(bytes, sizeof bytes);
    for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (unsigned char)(1u << bit % 8);
        CHECK(gz_crc32(bytes, sizeof bytes) != crc);
        bytes[bit / 8] = 0;
    }
}

void test_checksum(void)
{
    RUN(known_values);
    RUN(every_bit_counts);
}
