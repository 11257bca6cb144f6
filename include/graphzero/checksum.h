/* CRC-32 (the polynomial of zlib and gzip, reflected 0xEDB88320) for the header page. Sections can
 * be gigabytes long; Python checks them with zlib. */
#ifndef GRAPHZERO_CHECKSUM_H
#define GRAPHZERO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t gz_crc32(const unsigned char *bytes, size_t length);

#endif
