/* Hashes and HMAC. OpenSSL's own functions for each hash are used, not EVP: they are the same code
 * (with SHA instructions where the processor has them), but a context is a struct without an
 * allocation and a finished digest costs no dispatch. A signed request takes six short digests, for
 * which EVP cost more than the hashing. They are deprecated because they bypass providers (FIPS),
 * which nothing here promises. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/macros.h"

#define BLOCK_BYTES 64 /* of all three */

struct hash {
    enum hash_kind kind;
    union {
        MD5_CTX md5;
        SHA_CTX sha1;
        SHA256_CTX sha256;
    };
};

size_t hash_size(enum hash_kind kind) {
    static const size_t sizes[] = {16, 20, 32};
    return sizes[kind];
}

static void hash_begin(struct hash *hash, enum hash_kind kind) {
    hash->kind = kind;
    switch (kind) {
    case HASH_MD5:
        MD5_Init(&hash->md5);
        break;
    case HASH_SHA1:
        SHA1_Init(&hash->sha1);
        break;
    case HASH_SHA256:
        SHA256_Init(&hash->sha256);
        break;
    }
}

struct hash *hash_new(enum hash_kind kind) {
    struct hash *hash = malloc(sizeof(*hash));
    if (hash != NULL) {
        hash_begin(hash, kind);
    }
    return hash;
}

void hash_free(struct hash *hash) {
    free(hash);
}

void hash_update(struct hash *hash, const void *data, size_t size) {
    switch (hash->kind) {
    case HASH_MD5:
        MD5_Update(&hash->md5, data, size);
        break;
    case HASH_SHA1:
        SHA1_Update(&hash->sha1, data, size);
        break;
    case HASH_SHA256:
        SHA256_Update(&hash->sha256, data, size);
        break;
    }
}

/* Leaves the context spent. */
static void hash_end(struct hash *hash, uint8_t *ret_digest) {
    switch (hash->kind) {
    case HASH_MD5:
        MD5_Final(ret_digest, &hash->md5);
        break;
    case HASH_SHA1:
        SHA1_Final(ret_digest, &hash->sha1);
        break;
    case HASH_SHA256:
        SHA256_Final(ret_digest, &hash->sha256);
        break;
    }
}

void hash_final(struct hash *hash, uint8_t *ret_digest) {
    hash_end(hash, ret_digest);
    hash_begin(hash, hash->kind);
}

void hash_sum(enum hash_kind kind, struct slice data, uint8_t *ret_digest) {
    struct hash hash;
    hash_begin(&hash, kind);
    hash_update(&hash, data.data, data.size);
    hash_end(&hash, ret_digest);
}

/* RFC 2104: two passes, no allocation. */
static void hmac(enum hash_kind kind, struct slice key, struct slice data, uint8_t *ret_mac) {
    uint8_t block[BLOCK_BYTES] = {0}, pad[BLOCK_BYTES];
    if (key.size > BLOCK_BYTES) {
        hash_sum(kind, key, block);
    } else if (key.size > 0) {
        memcpy(block, key.data, key.size);
    }
    struct hash hash;
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        pad[i] = block[i] ^ 0x36;
    }
    hash_begin(&hash, kind);
    hash_update(&hash, pad, sizeof(pad));
    hash_update(&hash, data.data, data.size);
    hash_end(&hash, ret_mac);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        pad[i] = block[i] ^ 0x5c;
    }
    hash_begin(&hash, kind);
    hash_update(&hash, pad, sizeof(pad));
    hash_update(&hash, ret_mac, hash_size(kind));
    hash_end(&hash, ret_mac);
    wipe(block, sizeof(block));
    wipe(pad, sizeof(pad));
}

void hmac_sha256(struct slice key, struct slice data, uint8_t ret_mac[32]) {
    hmac(HASH_SHA256, key, data, ret_mac);
}

void hmac_sha1(struct slice key, struct slice data, uint8_t ret_mac[20]) {
    hmac(HASH_SHA1, key, data, ret_mac);
}

bool equal_constant_time(const void *a, const void *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}

void wipe(void *data, size_t size) {
    OPENSSL_cleanse(data, size);
}
