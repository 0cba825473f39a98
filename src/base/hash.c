/* Hashes and HMAC. OpenSSL looks algorithms up by name at each use unless they are fetched; here
 * that happens once a process. Contexts are kept in a small per-thread stack, because allocating
 * one costs more than hashing 64 bytes. */
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/macros.h"

#define CACHE_DEPTH 8
#define BLOCK_BYTES 64 /* of all three */

struct hash {
    EVP_MD_CTX *ctx;
    enum hash_kind kind;
};

static EVP_MD *algorithms[3];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_key;

struct hash_cache {
    struct hash *hashes[3][CACHE_DEPTH];
    int count[3];
};

static void cache_free(void *p) {
    struct hash_cache *cache = p;
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < cache->count[kind]; i++) {
            EVP_MD_CTX_free(cache->hashes[kind][i]->ctx);
            free(cache->hashes[kind][i]);
        }
    }
    free(cache);
}

static void fetch_once(void) {
    static const char *const names[] = {"MD5", "SHA1", "SHA256"};
    for (int i = 0; i < 3; i++) {
        algorithms[i] = EVP_MD_fetch(NULL, names[i], NULL);
        CHECK(algorithms[i] != NULL);
    }
    CHECK(pthread_key_create(&cache_key, cache_free) == 0);
}

static struct hash_cache *cache_get(void) {
    pthread_once(&once, fetch_once);
    struct hash_cache *cache = pthread_getspecific(cache_key);
    if (cache == NULL) {
        cache = calloc(1, sizeof(*cache));
        pthread_setspecific(cache_key, cache);
    }
    return cache;
}

size_t hash_size(enum hash_kind kind) {
    static const size_t sizes[] = {16, 20, 32};
    return sizes[kind];
}

struct hash *hash_new(enum hash_kind kind) {
    struct hash_cache *cache = cache_get();
    if (cache != NULL && cache->count[kind] > 0) {
        return cache->hashes[kind][--cache->count[kind]];
    }
    struct hash *hash = malloc(sizeof(*hash));
    if (hash == NULL) {
        return NULL;
    }
    hash->kind = kind;
    hash->ctx = EVP_MD_CTX_new();
    if (hash->ctx == NULL || EVP_DigestInit_ex2(hash->ctx, algorithms[kind], NULL) != 1) {
        EVP_MD_CTX_free(hash->ctx);
        free(hash);
        return NULL;
    }
    return hash;
}

void hash_free(struct hash *hash) {
    if (hash == NULL) {
        return;
    }
    struct hash_cache *cache = cache_get();
    if (cache != NULL && cache->count[hash->kind] < CACHE_DEPTH &&
        EVP_DigestInit_ex2(hash->ctx, NULL, NULL) == 1) {
        cache->hashes[hash->kind][cache->count[hash->kind]++] = hash;
        return;
    }
    EVP_MD_CTX_free(hash->ctx);
    free(hash);
}

void hash_update(struct hash *hash, const void *data, size_t size) {
    CHECK(EVP_DigestUpdate(hash->ctx, data, size) == 1);
}

void hash_final(struct hash *hash, uint8_t *ret_digest) {
    CHECK(EVP_DigestFinal_ex(hash->ctx, ret_digest, NULL) == 1);
    CHECK(EVP_DigestInit_ex2(hash->ctx, NULL, NULL) == 1);
}

void hash_sum(enum hash_kind kind, struct slice data, uint8_t *ret_digest) {
    struct hash *hash = hash_new(kind);
    CHECK(hash != NULL);
    hash_update(hash, data.data, data.size);
    hash_final(hash, ret_digest);
    hash_free(hash);
}

/* RFC 2104 over a kept context: two passes, no allocation. */
static void hmac(enum hash_kind kind, struct slice key, struct slice data, uint8_t *ret_mac) {
    uint8_t block[BLOCK_BYTES] = {0}, pad[BLOCK_BYTES];
    size_t size = hash_size(kind);
    if (key.size > BLOCK_BYTES) {
        hash_sum(kind, key, block);
    } else if (key.size > 0) {
        memcpy(block, key.data, key.size);
    }
    struct hash *hash = hash_new(kind);
    CHECK(hash != NULL);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        pad[i] = block[i] ^ 0x36;
    }
    hash_update(hash, pad, sizeof(pad));
    hash_update(hash, data.data, data.size);
    hash_final(hash, ret_mac);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        pad[i] = block[i] ^ 0x5c;
    }
    hash_update(hash, pad, sizeof(pad));
    hash_update(hash, ret_mac, size);
    hash_final(hash, ret_mac);
    hash_free(hash);
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
