/* Cyclic redundancy checks. Each takes the value so far (0 to start) and returns the value over the
 * concatenation, in the usual finished form: crc32("123456789") = 0xCBF43926 (ISO-HDLC),
 * crc32c = 0xE3069283 (Castagnoli, RFC 3720), crc64nvme = 0xAE8B14860A799888 (NVM Express
 * Base 2.0). */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32(uint32_t crc, const void *data, size_t size);
uint32_t crc32c(uint32_t crc, const void *data, size_t size);
uint64_t crc64nvme(uint64_t crc, const void *data, size_t size);

/* The value of A followed by B from the values of A and of B and the size of B in bytes. */
uint32_t crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);
uint64_t crc64nvme_combine(uint64_t crc_a, uint64_t crc_b, uint64_t size_b);

#endif
