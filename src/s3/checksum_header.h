/* The five S3 checksums as clients name and spell them: header names, algorithm names, XML elements
 * and base64 values, with the "-N" of a composite. Pure. Source: "Checking object integrity",
 * Amazon S3 User Guide. */
#ifndef S3_CHECKSUM_HEADER_H
#define S3_CHECKSUM_HEADER_H

#include "meta/records.h"

/* Bytes of the value: 4, 4, 8, 20, 32; 0 for CHECKSUM_NONE. */
uint8_t checksum_algorithm_size(int algorithm);

/* "x-amz-checksum-crc32", "CRC32", "ChecksumCRC32"; NULL for CHECKSUM_NONE. */
const char *checksum_header_name(int algorithm);
const char *checksum_algorithm_name(int algorithm);
const char *checksum_element_name(int algorithm);
/* "FULL_OBJECT" or "COMPOSITE". */
const char *checksum_type_name(int type);

/* Any letter case; CHECKSUM_NONE when unknown (the caller answers). */
int checksum_algorithm_parse(struct slice name);
/* The algorithm of a header or trailer name "x-amz-checksum-crc32"; CHECKSUM_NONE for others. */
int checksum_header_algorithm(struct slice header_name);
/* True for "FULL_OBJECT" and "COMPOSITE" in any letter case. */
bool checksum_type_parse(struct slice name, uint8_t *ret_type);

/* The base64 text of one value, type FULL_OBJECT. INVALID_REQUEST when it is not base64 of the
 * algorithm's size (s3-tests wants BAD_CHECKSUM for a malformed header value: the caller's choice).
 */
int checksum_parse(int algorithm, struct slice text, struct checksum *ret);
/* Also takes "value-N" (1 to 10000 parts): type COMPOSITE and *ret_parts N, else *ret_parts 0. */
int checksum_parse_parts(int algorithm, struct slice text, struct checksum *ret,
                         uint32_t *ret_parts);
/* base64, with "-N" when parts is not 0; empty text for CHECKSUM_NONE. */
#define CHECKSUM_TEXT_SIZE 64
void checksum_format(const struct checksum *checksum, uint32_t parts, char ret[CHECKSUM_TEXT_SIZE]);

#endif
