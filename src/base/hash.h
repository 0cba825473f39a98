/* Cryptographic hashes and HMAC over OpenSSL. A context belongs to one thread at a time. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/slice.h"

enum hash_kind { HASH_MD5, HASH_SHA1, HASH_SHA256 };
#define HASH_SIZE_MAX 32
size_t hash_size(enum hash_kind kind); /* 16, 20, 32 */

struct hash; /* a heap object of some hundred bytes */
struct hash *hash_new(enum hash_kind kind);
void hash_free(struct hash *hash);
void hash_update(struct hash *hash, const void *data, size_t size);
/* Writes hash_size bytes; afterwards the context is reset and may be used again. */
void hash_final(struct hash *hash, uint8_t *ret_digest);

/* One shot. */
void hash_sum(enum hash_kind kind, struct slice data, uint8_t *ret_digest);

void hmac_sha256(struct slice key, struct slice data, uint8_t ret_mac[32]);
void hmac_sha1(struct slice key, struct slice data, uint8_t ret_mac[20]);

/* Compares in time that depends on the size alone. */
bool equal_constant_time(const void *a, const void *b, size_t size);
/* Wipes memory in a way that the compiler may not remove. */
void wipe(void *data, size_t size);

#endif
