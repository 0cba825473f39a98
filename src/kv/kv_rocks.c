/* kv.h over RocksDB's C API (7.8).
 *
 * Both spaces live in one column family, told apart by the first byte of the key. That makes the
 * durability contract hold by itself: without a write-ahead log a crash loses whole memtables, and
 * a batch lies wholly in one. With a column family a space it would not: the C API can flush only
 * one family at a time, and atomic_flush does not widen a flush asked for by hand
 * (docs/decisions/0020-rocksdb.md has the probe).
 *
 * Memory is bounded by write_buffer_bytes (two memtables of half each) and cache_bytes (blocks,
 * indexes and filters). Any thread; writes are serialised by RocksDB. Its messages are logged here,
 * once, because the callers see only a code. */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/logger.h"
#include "base/macros.h"
#include "kv/kv_format.h"
#include "kv/kv_int.h"

#define CACHE_BYTES_DEFAULT        (4u << 20)
#define WRITE_BUFFER_BYTES_DEFAULT (4u << 20)
#define WRITE_BUFFER_BYTES_MIN     (256u << 10)
#define ARENA_BLOCK_BYTES          (64u << 10)
#define OPEN_FILES_MAX             256
#define INFO_LOG_BYTES_MAX         (1u << 20)
/* Its LOG file gets the options at each opening and nothing later: a library built with assertions
 * aborts at the second line for which the disk has no room. Errors reach us as statuses anyway. */
#define INFO_LOG_LEVEL_HEADER      5
#define MANIFEST_BYTES_MAX         (4u << 20)
#define BLOOM_BITS_PER_KEY         10
#define TABLE_BLOCK_BYTES          (4u << 10)
#define TABLE_FORMAT_VERSION       5
/* So many additions to one counter in a memtable are folded into one, so that reading a busy
 * counter stays cheap; each addition walks over those before it, so not many either. */
#define SUCCESSIVE_MERGES_MAX      8
/* Share of a memtable that goes to its filter: most looks into it are for rows that it lacks. */
#define MEMTABLE_FILTER_RATIO      0.05

static const char space_byte[KV_SPACE_COUNT] = {
    [KV_META] = KV_FORMAT_SPACE_META, [KV_LOCAL] = KV_FORMAT_SPACE_LOCAL};

struct kv_rocks {
    struct kv kv;
    char *path;
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *read;
    rocksdb_readoptions_t *read_nowait;
    rocksdb_writeoptions_t *write;
    rocksdb_flushoptions_t *flush;
};

struct rocks_batch {
    struct kv_batch batch;
    rocksdb_writebatch_t *writes;
};

struct rocks_iter {
    struct kv_iter iter;
    const struct kv_rocks *rocks;
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *options;
    char space;
    size_t lower_size;
    size_t upper_size;
    uint8_t bounds[]; /* lower, upper; RocksDB borrows them */
};

/* A key with its space in front. */
struct rocks_key {
    char data[KV_KEY_MAX + 1];
    size_t size;
};

static const struct kv_ops rocks_ops;

/* RocksDB counts every comparison of keys in a thread-local of its library, which costs more than
 * the comparison; nobody reads the counts. The level is one a thread. */
static void count_nothing(void) {
    static _Thread_local bool done;
    if (!done) {
        rocksdb_set_perf_level(rocksdb_disable);
        done = true;
    }
}

static void key_set(struct rocks_key *ret, char space, struct slice key) {
    CHECK(key.size <= KV_KEY_MAX);
    ret->data[0] = space;
    if (key.size > 0) {
        memcpy(ret->data + 1, key.data, key.size);
    }
    ret->size = key.size + 1;
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* RocksDB gives its status as text only: "Corruption: ...", "IO error: ...". */
static int error_of(const char *text) {
    if (strstr(text, "No space left") != NULL || strstr(text, "quota exceeded") != NULL) {
        return -HL_ERR_NO_SPACE;
    }
    if (starts_with(text, "Corruption")) {
        return -HL_ERR_CORRUPT;
    }
    if (starts_with(text, "Result incomplete") || starts_with(text, "Resource busy")) {
        return -HL_ERR_AGAIN;
    }
    if (starts_with(text, "IO error") && strstr(text, "lock") != NULL) {
        return -HL_ERR_LOCKED;
    }
    if (starts_with(text, "Invalid argument") || starts_with(text, "Not implemented")) {
        return strstr(text, "does not exist") != NULL ? -HL_ERR_NOT_FOUND : -HL_ERR_BAD_FORMAT;
    }
    return -HL_ERR_IO;
}

/* Frees the message; 0 when there is none. Being told to come back is not worth a line. */
static int take_error(const struct kv_rocks *rocks, char *text, const char *what) {
    if (text == NULL) {
        return 0;
    }
    int err = error_of(text);
    if (err != -HL_ERR_AGAIN) {
        LOG_ERROR("kv", "%s %s: %s", what, rocks->path, text);
    }
    rocksdb_free(text);
    return err;
}

/* Counters: 8 bytes, little-endian, added modulo 2^64. Anything else fails the merge, which reads
 * report as corruption, instead of counting as zero. */
static char *merge_sum(uint64_t sum, const char *const *operands, const size_t *sizes, int count,
                       unsigned char *success, size_t *ret_size) {
    *success = 0;
    *ret_size = 0;
    for (int i = 0; i < count; i++) {
        if (sizes[i] != 8) {
            return NULL;
        }
        sum += get_le64((const uint8_t *)operands[i]);
    }
    uint8_t *result = malloc(8);
    if (result == NULL) {
        return NULL;
    }
    put_le64(result, sum);
    *success = 1;
    *ret_size = 8;
    return (char *)result;
}

static char *merge_full(void *state, const char *key, size_t key_size, const char *existing,
                        size_t existing_size, const char *const *operands, const size_t *sizes,
                        int count, unsigned char *success, size_t *ret_size) {
    if (existing != NULL && existing_size != 8) {
        *success = 0;
        *ret_size = 0;
        return NULL;
    }
    uint64_t sum = existing == NULL ? 0 : get_le64((const uint8_t *)existing);
    return merge_sum(sum, operands, sizes, count, success, ret_size);
}

static char *merge_partial(void *state, const char *key, size_t key_size,
                           const char *const *operands, const size_t *sizes, int count,
                           unsigned char *success, size_t *ret_size) {
    return merge_sum(0, operands, sizes, count, success, ret_size);
}

static void merge_delete_value(void *state, const char *value, size_t size) {
    free((void *)(uintptr_t)value);
}

static const char *merge_name(void *state) {
    return KV_FORMAT_COUNTER_NAME;
}

static void merge_destroy(void *state) {
}

static void set_table_options(struct kv_rocks *rocks) {
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, rocks->cache);
    rocksdb_block_based_options_set_block_size(table, TABLE_BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, TABLE_FORMAT_VERSION);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY));
    rocksdb_options_set_block_based_table_factory(rocks->options, table);
    rocksdb_block_based_options_destroy(table);
}

static void set_options(struct kv_rocks *rocks, const struct kv_options *options) {
    rocksdb_options_t *o = rocks->options;
    uint64_t write_buffer =
        options->write_buffer_bytes != 0 ? options->write_buffer_bytes : WRITE_BUFFER_BYTES_DEFAULT;
    write_buffer = MAX(write_buffer, (uint64_t)WRITE_BUFFER_BYTES_MIN);
    rocksdb_options_set_create_if_missing(o, options->create);
    rocksdb_options_set_merge_operator(
        o, rocksdb_mergeoperator_create(NULL, merge_destroy, merge_full, merge_partial,
                                        merge_delete_value, merge_name));
    /* Memory. Two memtables: one fills while the other is flushed. */
    rocksdb_options_set_write_buffer_size(o, (size_t)(write_buffer / 2));
    rocksdb_options_set_max_write_buffer_number(o, 2);
    rocksdb_options_set_db_write_buffer_size(o, (size_t)write_buffer);
    rocksdb_options_set_arena_block_size(o, ARENA_BLOCK_BYTES);
    rocksdb_options_set_allow_concurrent_memtable_write(o, 0); /* an arena a core otherwise */
    rocksdb_options_set_max_successive_merges(o, SUCCESSIVE_MERGES_MAX);
    rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, MEMTABLE_FILTER_RATIO);
    rocksdb_options_set_memtable_whole_key_filtering(o, 1);
    rocksdb_options_set_max_open_files(o, OPEN_FILES_MAX);
    rocksdb_options_set_max_file_opening_threads(o, 1);
    rocksdb_options_set_table_cache_numshardbits(o, 2);
    /* Work in the background. */
    rocksdb_options_set_max_background_jobs(o, 2);
    rocksdb_options_set_max_subcompactions(o, 1);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    rocksdb_options_set_skip_stats_update_on_db_open(o, 1);
    /* Files. */
    rocksdb_options_set_compression(o, rocksdb_lz4_compression);
    rocksdb_options_set_target_file_size_base(o, 16u << 20);
    rocksdb_options_set_max_bytes_for_level_base(o, 32u << 20);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
    rocksdb_options_set_bytes_per_sync(o, 1u << 20);
    rocksdb_options_set_keep_log_file_num(o, 2);
    rocksdb_options_set_max_log_file_size(o, INFO_LOG_BYTES_MAX);
    rocksdb_options_set_info_log_level(o, INFO_LOG_LEVEL_HEADER);
    rocksdb_options_set_max_manifest_file_size(o, MANIFEST_BYTES_MAX);
    rocksdb_options_set_manifest_preallocation_size(o, 64u << 10);
    set_table_options(rocks);
}

static void rocks_close(struct kv *kv) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    if (rocks->db != NULL) {
        rocksdb_close(rocks->db);
    }
    if (rocks->read != NULL) {
        rocksdb_readoptions_destroy(rocks->read);
        rocksdb_readoptions_destroy(rocks->read_nowait);
        rocksdb_writeoptions_destroy(rocks->write);
        rocksdb_flushoptions_destroy(rocks->flush);
        rocksdb_options_destroy(rocks->options);
        rocksdb_cache_destroy(rocks->cache);
    }
    free(rocks->path);
    free(rocks);
}

static rocksdb_cache_t *cache_new(size_t bytes) {
    rocksdb_lru_cache_options_t *options = rocksdb_lru_cache_options_create();
    rocksdb_lru_cache_options_set_capacity(options, bytes);
    rocksdb_lru_cache_options_set_num_shard_bits(options, 2);
    rocksdb_cache_t *cache = rocksdb_cache_create_lru_opts(options);
    rocksdb_lru_cache_options_destroy(options);
    return cache;
}

static int rocks_open(struct kv_rocks *rocks, const struct kv_options *options) {
    rocks->cache =
        cache_new((size_t)(options->cache_bytes != 0 ? options->cache_bytes : CACHE_BYTES_DEFAULT));
    rocks->options = rocksdb_options_create();
    rocks->read = rocksdb_readoptions_create();
    rocks->read_nowait = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(rocks->read_nowait, 1); /* kBlockCacheTier */
    rocks->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(rocks->write, 1);
    rocks->flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(rocks->flush, 1);

    /* This one has no setter in the C API: closing must not flush. */
    char *text = NULL;
    rocksdb_options_t *base = rocksdb_options_create();
    rocksdb_get_options_from_string(base, "avoid_flush_during_shutdown=true", rocks->options,
                                    &text);
    rocksdb_options_destroy(base);
    if (text != NULL) {
        return take_error(rocks, text, "cannot set options of");
    }
    set_options(rocks, options);
    rocks->db = rocksdb_open(rocks->options, rocks->path, &text);
    return take_error(rocks, text, "cannot open");
}

int kv_open_rocks(const char *path, const struct kv_options *options, struct kv **ret) {
    struct kv_rocks *rocks = calloc(1, sizeof(*rocks));
    if (rocks == NULL) {
        return -HL_ERR_NOMEM;
    }
    rocks->kv.ops = &rocks_ops;
    rocks->path = strdup(path);
    int err = rocks->path == NULL ? -HL_ERR_NOMEM : 0;
    if (err == 0 && options->create) {
        /* RocksDB syncs what is in its directory, not the directory's own name. */
        err = os_mkdir_all(os_fs_real(), path);
        if (err != 0) {
            LOG_ERROR("kv", "cannot create %s: %s", path, error_text(err));
        }
    }
    if (err == 0) {
        err = rocks_open(rocks, options);
    }
    if (err != 0) {
        rocks_close(&rocks->kv);
        return err;
    }
    *ret = &rocks->kv;
    return 0;
}

static int rocks_get(struct kv *kv, enum kv_space space, struct slice key, bool nowait,
                     struct kv_value *ret) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    struct rocks_key full;
    count_nothing();
    key_set(&full, space_byte[space], key);
    char *text = NULL;
    rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned(
        rocks->db, nowait ? rocks->read_nowait : rocks->read, full.data, full.size, &text);
    if (text != NULL) {
        return take_error(rocks, text, "cannot read");
    }
    if (pinned == NULL) {
        return -HL_ERR_NOT_FOUND;
    }
    CHECK(((uintptr_t)pinned & KV_VALUE_MEM) == 0);
    size_t size = 0;
    const char *data = rocksdb_pinnableslice_value(pinned, &size);
    *ret = (struct kv_value){slice_of(data, size), pinned};
    return 0;
}

void kv_rocks_value_done(void *handle) {
    rocksdb_pinnableslice_destroy(handle);
}

static int rocks_write(struct kv *kv, struct kv_batch *batch) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    char *text = NULL;
    count_nothing();
    rocksdb_write(rocks->db, rocks->write, CONTAINER_OF(batch, struct rocks_batch, batch)->writes,
                  &text);
    return take_error(rocks, text, "cannot write");
}

static int rocks_flush(struct kv *kv) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    char *text = NULL;
    rocksdb_flush(rocks->db, rocks->flush, &text);
    return take_error(rocks, text, "cannot flush");
}

static int rocks_checkpoint(struct kv *kv, const char *path) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    char *text = NULL;
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(rocks->db, &text);
    if (text == NULL) {
        rocksdb_checkpoint_create(checkpoint, path, 0, &text); /* 0: flushes first */
        rocksdb_checkpoint_object_destroy(checkpoint);
    }
    return take_error(rocks, text, "cannot make a checkpoint of");
}

static uint64_t property(const struct kv_rocks *rocks, const char *name) {
    uint64_t value = 0;
    return rocksdb_property_int(rocks->db, name, &value) == 0 ? value : 0;
}

/* RocksDB estimates the count of keys for the whole store; the spaces share it by their sizes on
 * disk. */
static void estimate_keys(const struct kv_rocks *rocks, struct kv_stats *ret) {
    char starts[KV_SPACE_COUNT];
    char limits[KV_SPACE_COUNT];
    const char *start_keys[KV_SPACE_COUNT];
    const char *limit_keys[KV_SPACE_COUNT];
    size_t key_sizes[KV_SPACE_COUNT];
    uint64_t sizes[KV_SPACE_COUNT] = {0};
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        starts[i] = space_byte[i];
        limits[i] = (char)(space_byte[i] + 1);
        start_keys[i] = &starts[i];
        limit_keys[i] = &limits[i];
        key_sizes[i] = 1;
    }
    char *text = NULL;
    rocksdb_approximate_sizes(rocks->db, KV_SPACE_COUNT, start_keys, key_sizes, limit_keys,
                              key_sizes, sizes, &text);
    if (take_error(rocks, text, "cannot measure") != 0) {
        return;
    }
    uint64_t total = 0;
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        total += sizes[i];
    }
    double keys = (double)property(rocks, "rocksdb.estimate-num-keys");
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        double share = total == 0 ? 1.0 / KV_SPACE_COUNT : (double)sizes[i] / (double)total;
        ret->keys_estimate[i] = (uint64_t)(keys * share);
    }
}

static void rocks_stats(struct kv *kv, struct kv_stats *ret) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    ret->disk_bytes = property(rocks, "rocksdb.total-sst-files-size");
    ret->unflushed_bytes = property(rocks, "rocksdb.cur-size-all-mem-tables");
    ret->memory_bytes = ret->unflushed_bytes +
                        property(rocks, "rocksdb.estimate-table-readers-mem") +
                        rocksdb_cache_get_usage(rocks->cache);
    estimate_keys(rocks, ret);
}

static struct kv_batch *rocks_batch_new(struct kv *kv) {
    struct rocks_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return NULL;
    }
    batch->batch.ops = &rocks_ops;
    batch->writes = rocksdb_writebatch_create();
    return &batch->batch;
}

static void rocks_batch_free(struct kv_batch *batch_) {
    struct rocks_batch *batch = CONTAINER_OF(batch_, struct rocks_batch, batch);
    rocksdb_writebatch_destroy(batch->writes);
    free(batch);
}

static rocksdb_writebatch_t *writes_of(struct kv_batch *batch) {
    return CONTAINER_OF(batch, struct rocks_batch, batch)->writes;
}

static void rocks_batch_clear(struct kv_batch *batch) {
    rocksdb_writebatch_clear(writes_of(batch));
}

/* The key's two pieces, as RocksDB's gathering calls take them. */
#define KEY_PIECES 2
struct pieces {
    const char *data[KEY_PIECES];
    size_t size[KEY_PIECES];
};

static struct pieces pieces_of(enum kv_space space, struct slice key) {
    return (struct pieces){{&space_byte[space], (const char *)key.data}, {1, key.size}};
}

static void rocks_batch_put(struct kv_batch *batch, enum kv_space space, struct slice key,
                            struct slice value) {
    struct pieces k = pieces_of(space, key);
    const char *data = (const char *)value.data;
    rocksdb_writebatch_putv(writes_of(batch), KEY_PIECES, k.data, k.size, 1, &data, &value.size);
}

static void rocks_batch_delete(struct kv_batch *batch, enum kv_space space, struct slice key) {
    struct pieces k = pieces_of(space, key);
    rocksdb_writebatch_deletev(writes_of(batch), KEY_PIECES, k.data, k.size);
}

static void rocks_batch_delete_range(struct kv_batch *batch, enum kv_space space,
                                     struct slice first, struct slice end) {
    struct rocks_key from;
    struct rocks_key to;
    key_set(&from, space_byte[space], first);
    key_set(&to, space_byte[space], end);
    rocksdb_writebatch_delete_range(writes_of(batch), from.data, from.size, to.data, to.size);
}

static void rocks_batch_add(struct kv_batch *batch, enum kv_space space, struct slice key,
                            const uint8_t delta[8]) {
    struct pieces k = pieces_of(space, key);
    const char *data = (const char *)delta;
    size_t size = 8;
    rocksdb_writebatch_mergev(writes_of(batch), KEY_PIECES, k.data, k.size, 1, &data, &size);
}

static struct kv_iter *rocks_iter_new(struct kv *kv, enum kv_space space, struct slice lower,
                                      struct slice upper) {
    struct kv_rocks *rocks = CONTAINER_OF(kv, struct kv_rocks, kv);
    struct rocks_iter *iter = calloc(1, sizeof(*iter) + lower.size + upper.size + 2);
    if (iter == NULL) {
        return NULL;
    }
    iter->iter.ops = &rocks_ops;
    iter->rocks = rocks;
    iter->space = space_byte[space];
    iter->lower_size = 1 + lower.size;
    iter->upper_size = 1 + upper.size;
    uint8_t *lower_key = iter->bounds;
    uint8_t *upper_key = iter->bounds + iter->lower_size;
    lower_key[0] = (uint8_t)iter->space;
    upper_key[0] = (uint8_t)(iter->space + (upper.size == 0 ? 1 : 0));
    if (lower.size > 0) {
        memcpy(lower_key + 1, lower.data, lower.size);
    }
    if (upper.size > 0) {
        memcpy(upper_key + 1, upper.data, upper.size);
    }
    count_nothing();
    iter->options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_lower_bound(iter->options, (const char *)lower_key,
                                                iter->lower_size);
    rocksdb_readoptions_set_iterate_upper_bound(iter->options, (const char *)upper_key,
                                                iter->upper_size);
    rocksdb_readoptions_set_total_order_seek(iter->options, 1);
    iter->it = rocksdb_create_iterator(rocks->db, iter->options);
    return &iter->iter;
}

static struct rocks_iter *rocks_iter_of(const struct kv_iter *iter) {
    return CONTAINER_OF((struct kv_iter *)(uintptr_t)iter, struct rocks_iter, iter);
}

static void rocks_iter_free(struct kv_iter *iter_) {
    struct rocks_iter *iter = rocks_iter_of(iter_);
    rocksdb_iter_destroy(iter->it);
    rocksdb_readoptions_destroy(iter->options);
    free(iter);
}

static void rocks_iter_seek(struct kv_iter *iter_, struct slice key) {
    struct rocks_iter *iter = rocks_iter_of(iter_);
    struct rocks_key full;
    key_set(&full, iter->space, slice_take(key, KV_KEY_MAX));
    rocksdb_iter_seek(iter->it, full.data, full.size);
    /* A key cut to the longest that exists lies before the one that was asked for. */
    if (key.size > KV_KEY_MAX && rocksdb_iter_valid(iter->it) &&
        slice_compare(iter_->ops->iter_key(iter_), key) < 0) {
        rocksdb_iter_next(iter->it);
    }
}

static void rocks_iter_seek_first(struct kv_iter *iter) {
    rocksdb_iter_seek_to_first(rocks_iter_of(iter)->it);
}

static void rocks_iter_seek_last(struct kv_iter *iter) {
    rocksdb_iter_seek_to_last(rocks_iter_of(iter)->it);
}

static void rocks_iter_next(struct kv_iter *iter) {
    rocksdb_iter_next(rocks_iter_of(iter)->it);
}

static void rocks_iter_prev(struct kv_iter *iter) {
    rocksdb_iter_prev(rocks_iter_of(iter)->it);
}

static bool rocks_iter_valid(const struct kv_iter *iter) {
    return rocksdb_iter_valid(rocks_iter_of(iter)->it) != 0;
}

static int rocks_iter_error(const struct kv_iter *iter) {
    char *text = NULL;
    rocksdb_iter_get_error(rocks_iter_of(iter)->it, &text);
    return take_error(rocks_iter_of(iter)->rocks, text, "cannot iterate over");
}

static struct slice rocks_iter_key(const struct kv_iter *iter) {
    size_t size = 0;
    const char *data = rocksdb_iter_key(rocks_iter_of(iter)->it, &size);
    CHECK(size >= 1);
    return slice_of(data + 1, size - 1);
}

static struct slice rocks_iter_value(const struct kv_iter *iter) {
    size_t size = 0;
    const char *data = rocksdb_iter_value(rocks_iter_of(iter)->it, &size);
    return slice_of(data, size);
}

static const struct kv_ops rocks_ops = {
    .close = rocks_close,
    .get = rocks_get,
    .write = rocks_write,
    .flush = rocks_flush,
    .checkpoint = rocks_checkpoint,
    .stats = rocks_stats,
    .batch_new = rocks_batch_new,
    .batch_free = rocks_batch_free,
    .batch_clear = rocks_batch_clear,
    .batch_put = rocks_batch_put,
    .batch_delete = rocks_batch_delete,
    .batch_delete_range = rocks_batch_delete_range,
    .batch_add = rocks_batch_add,
    .iter_new = rocks_iter_new,
    .iter_free = rocks_iter_free,
    .iter_seek = rocks_iter_seek,
    .iter_seek_first = rocks_iter_seek_first,
    .iter_seek_last = rocks_iter_seek_last,
    .iter_next = rocks_iter_next,
    .iter_prev = rocks_iter_prev,
    .iter_valid = rocks_iter_valid,
    .iter_error = rocks_iter_error,
    .iter_key = rocks_iter_key,
    .iter_value = rocks_iter_value,
};
