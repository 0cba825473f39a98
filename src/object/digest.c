/* Hashing of bodies: MD5 for the ETag and one of S3's checksums, and what a multipart object's ETag
 * and checksum are made of. Pure computation on the caller's thread. */
#include "base/bytes.h"
#include "base/crc.h"
#include "object/object_int.h"

void object_digest_init(struct object_digest *digest, uint8_t algorithm) {
    *digest = (struct object_digest){.md5 = hash_new(HASH_MD5), .algorithm = algorithm};
    if (algorithm == CHECKSUM_SHA1 || algorithm == CHECKSUM_SHA256) {
        digest->hash = hash_new(algorithm == CHECKSUM_SHA1 ? HASH_SHA1 : HASH_SHA256);
    }
}

void object_digest_update(struct object_digest *digest, const void *data, size_t size) {
    if (!digest->md5_apart) {
        hash_update(digest->md5, data, size);
    }
    switch (digest->algorithm) {
    case CHECKSUM_CRC32:
        digest->crc = crc32((uint32_t)digest->crc, data, size);
        break;
    case CHECKSUM_CRC32C:
        digest->crc = crc32c((uint32_t)digest->crc, data, size);
        break;
    case CHECKSUM_CRC64NVME:
        digest->crc = crc64nvme(digest->crc, data, size);
        break;
    case CHECKSUM_SHA1:
    case CHECKSUM_SHA256:
        hash_update(digest->hash, data, size);
        break;
    default:
        break;
    }
}

static void put_crc(struct checksum *checksum, uint64_t crc) {
    if (checksum->algorithm == CHECKSUM_CRC64NVME) {
        put_be64(checksum->value, crc);
        checksum->size = 8;
    } else {
        put_be32(checksum->value, (uint32_t)crc);
        checksum->size = 4;
    }
}

void object_digest_final(struct object_digest *digest, uint8_t ret_md5[16], struct checksum *ret) {
    hash_final(digest->md5, ret_md5);
    *ret = (struct checksum){.algorithm = digest->algorithm, .type = CHECKSUM_FULL_OBJECT};
    switch (digest->algorithm) {
    case CHECKSUM_SHA1:
        hash_final(digest->hash, ret->value);
        ret->size = 20;
        break;
    case CHECKSUM_SHA256:
        hash_final(digest->hash, ret->value);
        ret->size = 32;
        break;
    case CHECKSUM_CRC32:
    case CHECKSUM_CRC32C:
    case CHECKSUM_CRC64NVME:
        put_crc(ret, digest->crc);
        break;
    default:
        break;
    }
}

void object_digest_done(struct object_digest *digest) {
    hash_free(TAKE_PTR(digest->md5));
    hash_free(TAKE_PTR(digest->hash));
}

static uint64_t get_crc(const struct checksum *checksum) {
    return checksum->size == 8 ? get_be64(checksum->value) : get_be32(checksum->value);
}

static uint64_t combine_crc(uint8_t algorithm, uint64_t a, uint64_t b, uint64_t size_b) {
    switch (algorithm) {
    case CHECKSUM_CRC32:
        return crc32_combine((uint32_t)a, (uint32_t)b, size_b);
    case CHECKSUM_CRC32C:
        return crc32c_combine((uint32_t)a, (uint32_t)b, size_b);
    default:
        return crc64nvme_combine(a, b, size_b);
    }
}

/* COMPOSITE: the digest of the concatenated values of the parts. */
static void combine_composite(const struct object_part *parts, uint32_t count, uint8_t algorithm,
                              struct checksum *ret) {
    struct object_digest digest;
    uint8_t md5[16];
    object_digest_init(&digest, algorithm);
    for (uint32_t i = 0; i < count; i++) {
        object_digest_update(&digest, parts[i].checksum.value, parts[i].checksum.size);
    }
    object_digest_final(&digest, md5, ret);
    object_digest_done(&digest);
    ret->type = CHECKSUM_COMPOSITE;
}

bool object_checksum_combine(const struct object_part *parts, uint32_t count, uint8_t algorithm,
                             uint8_t type, struct checksum *ret) {
    bool is_crc = algorithm >= CHECKSUM_CRC32 && algorithm <= CHECKSUM_CRC64NVME;
    if (algorithm == CHECKSUM_NONE || (type == CHECKSUM_FULL_OBJECT && !is_crc)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].checksum.size == 0 || parts[i].checksum.algorithm != algorithm) {
            return false;
        }
    }
    if (type == CHECKSUM_COMPOSITE) {
        combine_composite(parts, count, algorithm, ret);
        return true;
    }
    uint64_t crc = 0; /* of no bytes at all */
    for (uint32_t i = 0; i < count; i++) {
        crc = combine_crc(algorithm, crc, get_crc(&parts[i].checksum), parts[i].size);
    }
    *ret = (struct checksum){.algorithm = algorithm, .type = CHECKSUM_FULL_OBJECT};
    put_crc(ret, crc);
    return true;
}

struct etag object_parts_etag(const struct object_part *parts, uint32_t count) {
    struct etag etag = {.parts = count};
    struct hash *md5 = hash_new(HASH_MD5);
    for (uint32_t i = 0; i < count; i++) {
        hash_update(md5, parts[i].md5, sizeof(parts[i].md5));
    }
    hash_final(md5, etag.md5);
    hash_free(md5);
    return etag;
}
