/* CRC-32 (the polynomial of zlib and gzip, reflected 0xEDB88320), for the one page of a header.
 * Sections are gigabytes long and are checked with zlib from Python instead. */
#ifndef GRAPHZERO_CHECKSUM_H
#define GRAPHZERO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t gz_crc32(const unsigned char *bytes, size_t length);

#endif
