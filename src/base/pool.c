/* Pools: a list of chunks of which the newest serves requests; the one that the pool began with is
 * last and outlives a reset. A request too large for a chunk gets its own, in a second list, so
 * that the rest of the current chunk stays in use. Not thread-safe by design: a pool belongs to
 * whoever runs its request. */
#include "base/pool.h"

#include <stdarg.h>
#include <stdio.h>

#define POOL_CHUNK_DEFAULT 4096
#define POOL_LIMIT_DEFAULT (16u << 20)
#define POOL_ALIGNMENT     16

struct pool_chunk {
    struct pool_chunk *next;
    size_t size; /* of data */
    size_t used;
    _Alignas(POOL_ALIGNMENT) uint8_t data[];
};

struct pool {
    struct pool_chunk *chunk; /* the current one; the oldest is the list's last */
    struct pool_chunk *large; /* one request each */
    size_t chunk_bytes;
    size_t bytes;
    size_t bytes_max;
};

static struct pool_chunk *chunk_new(size_t size) {
    struct pool_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->size = size;
        chunk->used = 0;
    }
    return chunk;
}

struct pool *pool_new(size_t chunk_bytes) {
    size_t size = chunk_bytes == 0 ? POOL_CHUNK_DEFAULT : ALIGN_UP(chunk_bytes, POOL_ALIGNMENT);
    struct pool *pool = malloc(sizeof(*pool));
    struct pool_chunk *chunk = chunk_new(size);
    if (pool == NULL || chunk == NULL) {
        free(pool);
        free(chunk);
        return NULL;
    }
    *pool = (struct pool){
        .chunk = chunk, .chunk_bytes = size, .bytes = size, .bytes_max = POOL_LIMIT_DEFAULT};
    return pool;
}

/* Frees the list but its last `keep` (0 or 1) chunks; what is left. */
static struct pool_chunk *chunks_free(struct pool_chunk *chunk, int keep) {
    while (chunk != NULL && (keep == 0 || chunk->next != NULL)) {
        struct pool_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    return chunk;
}

void pool_reset(struct pool *pool) {
    pool->large = chunks_free(pool->large, 0);
    pool->chunk = chunks_free(pool->chunk, 1);
    pool->chunk->used = 0;
    pool->bytes = pool->chunk->size;
}

void pool_free(struct pool *pool) {
    if (pool == NULL) {
        return;
    }
    pool_reset(pool);
    free(pool->chunk);
    free(pool);
}

/* A chunk with room for size bytes, linked into the list; NULL beyond the limit. */
static struct pool_chunk *chunk_add(struct pool *pool, size_t size) {
    size_t chunk_size = MAX(pool->chunk_bytes, size);
    size_t total;
    if (__builtin_add_overflow(pool->bytes, chunk_size, &total) || total > pool->bytes_max) {
        return NULL;
    }
    struct pool_chunk *fresh = chunk_new(chunk_size);
    if (fresh == NULL) {
        return NULL;
    }
    pool->bytes = total;
    struct pool_chunk **list = size >= pool->chunk_bytes ? &pool->large : &pool->chunk;
    fresh->next = *list;
    *list = fresh;
    return fresh;
}

void *pool_alloc(struct pool *pool, size_t size) {
    size_t rounded;
    if (__builtin_add_overflow(size, POOL_ALIGNMENT - 1, &rounded)) {
        return NULL;
    }
    rounded &= ~(size_t)(POOL_ALIGNMENT - 1);
    struct pool_chunk *chunk = pool->chunk;
    if (chunk->size - chunk->used < rounded) {
        chunk = chunk_add(pool, rounded);
        if (chunk == NULL) {
            return NULL;
        }
    }
    void *p = chunk->data + chunk->used;
    chunk->used += rounded;
    return p;
}

void *pool_calloc(struct pool *pool, size_t size) {
    void *p = pool_alloc(pool, size);
    if (p != NULL) {
        memset(p, 0, size);
    }
    return p;
}

struct slice pool_copy(struct pool *pool, struct slice s) {
    size_t size;
    if (__builtin_add_overflow(s.size, 1, &size)) {
        return SLICE_EMPTY;
    }
    uint8_t *p = pool_alloc(pool, size);
    if (p == NULL) {
        return SLICE_EMPTY;
    }
    if (s.size > 0) {
        memcpy(p, s.data, s.size);
    }
    p[s.size] = 0;
    return slice_of(p, s.size);
}

char *pool_printf(struct pool *pool, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = size < 0 ? NULL : pool_alloc(pool, (size_t)size + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)size + 1, format, again);
    }
    va_end(again);
    return text;
}

size_t pool_bytes(const struct pool *pool) {
    return pool->bytes;
}

void pool_set_limit(struct pool *pool, size_t bytes_max) {
    pool->bytes_max = bytes_max;
}
