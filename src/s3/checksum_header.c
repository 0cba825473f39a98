/* Spelling of the S3 checksums: one table, and the base64 codec around it. Knows nothing of
 * requests or of how checksums are computed. Any thread. */
#include "s3/checksum_header.h"

#include <stdio.h>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#define PARTS_MAX 10000

static const struct {
    const char *header;
    const char *name;
    const char *element;
    uint8_t size;
} algorithms[] = {
    [CHECKSUM_CRC32] = {"x-amz-checksum-crc32", "CRC32", "ChecksumCRC32", 4},
    [CHECKSUM_CRC32C] = {"x-amz-checksum-crc32c", "CRC32C", "ChecksumCRC32C", 4},
    [CHECKSUM_CRC64NVME] = {"x-amz-checksum-crc64nvme", "CRC64NVME", "ChecksumCRC64NVME", 8},
    [CHECKSUM_SHA1] = {"x-amz-checksum-sha1", "SHA1", "ChecksumSHA1", 20},
    [CHECKSUM_SHA256] = {"x-amz-checksum-sha256", "SHA256", "ChecksumSHA256", 32},
};

static bool is_known(int algorithm) {
    return algorithm > CHECKSUM_NONE && algorithm < (int)ARRAY_COUNT(algorithms);
}

uint8_t checksum_algorithm_size(int algorithm) {
    return is_known(algorithm) ? algorithms[algorithm].size : 0;
}

const char *checksum_header_name(int algorithm) {
    return is_known(algorithm) ? algorithms[algorithm].header : NULL;
}

const char *checksum_algorithm_name(int algorithm) {
    return is_known(algorithm) ? algorithms[algorithm].name : NULL;
}

const char *checksum_element_name(int algorithm) {
    return is_known(algorithm) ? algorithms[algorithm].element : NULL;
}

const char *checksum_type_name(int type) {
    return type == CHECKSUM_COMPOSITE ? "COMPOSITE" : "FULL_OBJECT";
}

int checksum_algorithm_parse(struct slice name) {
    for (int i = CHECKSUM_NONE + 1; i < (int)ARRAY_COUNT(algorithms); i++) {
        if (slice_equal_nocase(name, slice_str(algorithms[i].name))) {
            return i;
        }
    }
    return CHECKSUM_NONE;
}

int checksum_header_algorithm(struct slice header_name) {
    for (int i = CHECKSUM_NONE + 1; i < (int)ARRAY_COUNT(algorithms); i++) {
        if (slice_equal_nocase(header_name, slice_str(algorithms[i].header))) {
            return i;
        }
    }
    return CHECKSUM_NONE;
}

bool checksum_type_parse(struct slice name, uint8_t *ret_type) {
    if (slice_equal_nocase(name, SLICE_LITERAL("FULL_OBJECT"))) {
        *ret_type = CHECKSUM_FULL_OBJECT;
        return true;
    }
    if (slice_equal_nocase(name, SLICE_LITERAL("COMPOSITE"))) {
        *ret_type = CHECKSUM_COMPOSITE;
        return true;
    }
    return false;
}

int checksum_parse(int algorithm, struct slice text, struct checksum *ret) {
    struct checksum parsed = {.algorithm = (uint8_t)algorithm, .type = CHECKSUM_FULL_OBJECT};
    size_t size = 0;
    if (!is_known(algorithm) || !base64_decode(text, parsed.value, sizeof(parsed.value), &size) ||
        size != algorithms[algorithm].size) {
        return -HL_ERR_INVALID_REQUEST;
    }
    parsed.size = (uint8_t)size;
    *ret = parsed;
    return 0;
}

int checksum_parse_parts(int algorithm, struct slice text, struct checksum *ret,
                         uint32_t *ret_parts) {
    size_t dash = slice_find(text, '-', 0); /* not in the alphabet of base64 */
    uint64_t parts = 0;
    if (dash < text.size &&
        (!parse_u64(slice_skip(text, dash + 1), PARTS_MAX, &parts) || parts == 0)) {
        return -HL_ERR_INVALID_REQUEST;
    }
    struct checksum parsed;
    int err = checksum_parse(algorithm, slice_take(text, dash), &parsed);
    if (err != 0) {
        return err;
    }
    parsed.type = parts != 0 ? CHECKSUM_COMPOSITE : CHECKSUM_FULL_OBJECT;
    *ret = parsed;
    *ret_parts = (uint32_t)parts;
    return 0;
}

void checksum_format(const struct checksum *checksum, uint32_t parts,
                     char ret[CHECKSUM_TEXT_SIZE]) {
    ret[0] = '\0';
    if (checksum->algorithm == CHECKSUM_NONE || checksum->size == 0) {
        return;
    }
    CHECK(checksum->size <= CHECKSUM_SIZE_MAX);
    base64_encode(checksum->value, checksum->size, ret);
    if (parts != 0) {
        size_t size = strlen(ret);
        snprintf(ret + size, CHECKSUM_TEXT_SIZE - size, "-%u", parts);
    }
}
