/* The ordered store: byte strings to byte strings, in several spaces, with atomic batches,
 * snapshots in iterators, counters by merging, and a flush that makes everything durable together.
 *
 * Two implementations of one header: RocksDB (kv_rocks.c), its own write-ahead log off, and an
 * ordered map in memory (kv_mem.c) for simulation and as oracle. Durability contract of both: after
 * a crash the store is the state after some prefix of the kv_write calls, across all spaces, which
 * includes everything before the last kv_flush that returned 0. It may be newer than that flush.
 *
 * Thread-safe. Reads may block on disk. Keys are at most KV_KEY_MAX bytes, ordered as unsigned
 * bytes. */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/macros.h"
#include "base/slice.h"
#include "os/env.h"

#define KV_KEY_MAX 4096

enum kv_space {
    KV_META,  /* names: rows of meta/keys_format.h, the same on every replica */
    KV_LOCAL, /* this node's own: locations of bodies, volumes, free queue, applied index */
    KV_SPACE_COUNT
};

struct kv;
struct kv_batch;
struct kv_iter;

struct kv_options {
    uint64_t cache_bytes;        /* block cache (default 4 MiB) */
    uint64_t write_buffer_bytes; /* memtables together (default 4 MiB) */
    bool create;
};

/* RocksDB in directory path. CORRUPT or BAD_FORMAT with a logged explanation when it cannot be
 * opened. */
int kv_open_rocks(const char *path, const struct kv_options *options, struct kv **ret);

/* The twin. A kv_mem_disk outlives the stores opened on it; closing without a flush is a crash: the
 * next open sees a prefix drawn from random (NULL: exactly the last flush). */
struct kv_mem_disk;
struct kv_mem_disk *kv_mem_disk_new(void);
void kv_mem_disk_free(struct kv_mem_disk *disk);
int kv_open_mem(struct kv_mem_disk *disk, struct os_random *random, struct kv **ret);

void kv_close(struct kv *kv); /* NULL is fine; flushes nothing */

/* A value that was read; valid until kv_value_done. Zero-initialised is valid and empty. */
struct kv_value {
    struct slice data;
    void *handle;
};
void kv_value_done(struct kv_value *value);
#define CLEANUP_KV_VALUE CLEANUP(kv_value_done)

/* NOT_FOUND when absent. A counter row (written by kv_batch_add) reads as 8 bytes, little-endian.
 */
int kv_get(struct kv *kv, enum kv_space space, struct slice key, struct kv_value *ret);
/* The same from memory only: AGAIN when a disk read would be needed. */
int kv_get_nowait(struct kv *kv, enum kv_space space, struct slice key, struct kv_value *ret);
/* 0 when absent. */
int kv_get_counter(struct kv *kv, enum kv_space space, struct slice key, int64_t *ret);

/* Batches. Later operations on a key win over earlier ones in the batch. A batch belongs to one
 * thread. Out of memory sets a flag that kv_write reports. */
struct kv_batch *kv_batch_new(struct kv *kv);
void kv_batch_free(struct kv_batch *batch);
void kv_batch_clear(struct kv_batch *batch);
uint32_t kv_batch_count(const struct kv_batch *batch);
void kv_batch_put(struct kv_batch *batch, enum kv_space space, struct slice key,
                  struct slice value);
void kv_batch_delete(struct kv_batch *batch, enum kv_space space, struct slice key);
/* Deletes [first, end). */
void kv_batch_delete_range(struct kv_batch *batch, enum kv_space space, struct slice first,
                           struct slice end);
/* Adds delta to a 64-bit counter; an absent one counts as 0. Never mix with put on one key. */
void kv_batch_add(struct kv_batch *batch, enum kv_space space, struct slice key, int64_t delta);
/* Atomic; not durable until kv_flush. NO_SPACE: a flush in the background met a full disk; nothing
 * was written, and the same batch may be written again some seconds after there is room. */
int kv_write(struct kv *kv, struct kv_batch *batch);

/* Everything written before the call is durable when it returns 0. Any thread; blocks. NO_SPACE
 * loses nothing, but from then on kv_write answers it too, until the store has noticed (within some
 * seconds) that there is room again. */
int kv_flush(struct kv *kv);
/* A consistent copy (hard links where possible) in a new directory. UNSUPPORTED on the twin. */
int kv_checkpoint(struct kv *kv, const char *path);

/* Iterators see the state at their creation. Bounds: [lower, upper), an empty upper means no end.
 * The bounds are copied. Keys and values are valid until the next move. */
struct kv_iter *kv_iter_new(struct kv *kv, enum kv_space space, struct slice lower,
                            struct slice upper);
void kv_iter_free(struct kv_iter *iter);
#define CLEANUP_KV_ITER CLEANUP(cleanup_kv_iter)
static inline void cleanup_kv_iter(struct kv_iter **p) {
    kv_iter_free(*p);
}
void kv_iter_seek(struct kv_iter *iter, struct slice key); /* first key >= key */
void kv_iter_seek_first(struct kv_iter *iter);
void kv_iter_seek_last(struct kv_iter *iter);
void kv_iter_next(struct kv_iter *iter);
void kv_iter_prev(struct kv_iter *iter);
bool kv_iter_valid(const struct kv_iter *iter); /* false at the end and after an error */
int kv_iter_error(const struct kv_iter *iter);  /* 0 unless a read failed */
struct slice kv_iter_key(const struct kv_iter *iter);
struct slice kv_iter_value(const struct kv_iter *iter);

struct kv_stats {
    uint64_t disk_bytes;
    uint64_t memory_bytes;                  /* memtables and cache */
    uint64_t unflushed_bytes;               /* memory of what the next flush writes; 0: unknown */
    uint64_t keys_estimate[KV_SPACE_COUNT]; /* rough: RocksDB's total, shared by size on disk */
};
void kv_stats(struct kv *kv, struct kv_stats *ret);

#endif
