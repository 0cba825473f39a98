/* Memory by lifetime: a pool hands out memory that is freed all at once. One pool a connection, one
 * a request. Not thread-safe: a pool belongs to whoever runs its request at the moment. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/macros.h"
#include "base/slice.h"

struct pool;

/* chunk_bytes: the unit in which memory is taken from the heap (0: 4 KiB). NULL when out of memory.
 */
struct pool *pool_new(size_t chunk_bytes);
void pool_free(struct pool *pool); /* NULL is fine */
void pool_reset(
    struct pool *pool); /* frees all but the first chunk; every pointer handed out dies */

/* Aligned to 16 bytes; NULL when out of memory or beyond the limit. pool_calloc zeroes. */
void *pool_alloc(struct pool *pool, size_t size);
void *pool_calloc(struct pool *pool, size_t size);
/* Copies with a NUL appended (not counted). On no memory: NULL data. */
struct slice pool_copy(struct pool *pool, struct slice s);
char *pool_printf(struct pool *pool, const char *format, ...) PRINTF_LIKE(2, 3);
size_t pool_bytes(const struct pool *pool); /* taken from the heap */
/* Beyond this many bytes pool_alloc returns NULL (default 16 MiB). */
void pool_set_limit(struct pool *pool, size_t bytes_max);

#define POOL_NEW(pool, type) ((type *)pool_calloc((pool), sizeof(type)))

static inline void cleanup_pool(struct pool **p) {
    pool_free(*p);
}
#define CLEANUP_POOL CLEANUP(cleanup_pool)

#endif
