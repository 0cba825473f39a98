/* A whole store on a simulated disk, driven by hand from one thread: what the tests of src/object
 * share. Operations are called and waited for; a crash throws away what was not synced and opens
 * the store again. */
#ifndef TEST_OBJECT_HARNESS_H
#define TEST_OBJECT_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/logger.h"
#include "base/text.h"
#include "object/directory.h"
#include "os/sim_fs.h"

#define H_BLOCK  4096u
#define H_INLINE 1024u

struct harness {
    struct os_env env;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct sim_fs *disk;
    struct kv_mem_disk *kv_disk;
    struct volume_dir dir;
    struct object_options options;
    struct object_store *store;
    struct pool *pool; /* of the test; reset at will */
    uint64_t bucket;
};

static inline void h_fatal(void *ctx, int err) {
}

static inline int h_open(struct harness *h) {
    return object_store_open(&h->env, &h->options, &h->store);
}

static inline void h_init(struct harness *h, uint64_t seed) {
    memset(h, 0, sizeof(*h));
    os_clock_sim_init(&h->clock, 1800000000000);
    os_random_sim_init(&h->random, seed);
    h->disk = sim_fs_new(&(struct sim_fs_options){.seed = seed});
    h->kv_disk = kv_mem_disk_new();
    h->env = (struct os_env){sim_fs_fs(h->disk), &h->clock.clock, &h->random.random};
    h->dir = (struct volume_dir){.path = "/data"};
    h->options = (struct object_options){
        .metadata_dir = "/meta",
        .data = {.volumes = {.dirs = &h->dir,
                             .dir_count = 1,
                             .volume_bytes_max = 256 << 10,
                             .reserve_bytes = 1},
                 .block_bytes = H_BLOCK},
        .meta = {.log = {.segment_bytes = 256 << 10, .segments_max = 16},
                 .checkpoint_log_bytes = 512 << 10,
                 .fatal = h_fatal},
        .inline_max = H_INLINE,
        .kv_mem = h->kv_disk,
    };
    assert_int_equal(os_mkdir_all(h->env.fs, "/data"), 0);
    h->pool = pool_new(0);
    pool_set_limit(h->pool, 256u << 20);
}

static inline void h_done(struct harness *h) {
    object_store_close(h->store);
    kv_mem_disk_free(h->kv_disk);
    sim_fs_free(h->disk);
    pool_free(h->pool);
}

/* ---- operations, waited for ---- */

static inline struct object_wait *h_wait(struct harness *h) {
    struct object_wait *wait = object_wait_new(h->store);
    assert_non_null(wait);
    return wait;
}

static inline uint64_t h_bucket(struct harness *h, const char *name) {
    struct bucket_record record;
    struct object_wait *wait = h_wait(h);
    directory_bucket_create(h->store, slice_str(name), SLICE_EMPTY, SLICE_EMPTY, SLICE_EMPTY,
                            h->pool, object_wait_executor(wait), object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    assert_int_equal(directory_bucket(h->store, slice_str(name), SLICE_EMPTY, h->pool, &record), 0);
    return record.id;
}

static inline void h_start(struct harness *h, uint64_t seed) {
    h_init(h, seed);
    assert_int_equal(h_open(h), 0);
    h->bucket = h_bucket(h, "bucket");
}

/* Feeds the body in pieces of odd sizes. */
static inline int h_feed(struct object_write *write, struct slice body) {
    size_t off = 0, piece = 1;
    while (off < body.size) {
        size_t size = MIN(piece, body.size - off);
        int err = object_write_data(write, body.data + off, size);
        if (err < 0) {
            return err;
        }
        off += size;
        piece = piece * 3 + 1;
    }
    return object_write_finish(write);
}

static inline int h_write(struct harness *h, const struct object_write_args *args,
                          struct slice body, const struct object_commit_args *commit,
                          struct object_result *ret) {
    struct object_write *write;
    int err = object_write_open(h->store, args, h->pool, &write);
    if (err < 0) {
        return err;
    }
    err = h_feed(write, body);
    if (err < 0) {
        object_write_abort(write);
        return err;
    }
    struct object_wait *wait = h_wait(h);
    object_write_commit(write, commit, object_wait_executor(wait), object_wait_done, wait);
    return object_wait(wait, ret);
}

static inline int h_put(struct harness *h, uint64_t bucket, const char *key, struct slice body,
                        const struct object_conditions *conditions, struct object_result *ret) {
    struct object_write_args args = {.kind = OBJECT_WRITE_PUT,
                                     .bucket = bucket,
                                     .key = slice_str(key),
                                     .size = body.size % 2 == 0 ? body.size : UINT64_MAX};
    struct object_commit_args commit = {.conditions = conditions};
    return h_write(h, &args, body, &commit, ret);
}

static inline int h_delete(struct harness *h, uint64_t bucket, const char *key,
                           const struct object_conditions *conditions, bool *ret_existed) {
    struct object_delete_item item = {.key = slice_str(key), .conditions = conditions};
    struct object_wait *wait = h_wait(h);
    object_delete(h->store, bucket, &item, 1, h->pool, object_wait_executor(wait), object_wait_done,
                  wait);
    int err = object_wait(wait, NULL);
    if (err == 0 && ret_existed != NULL) {
        *ret_existed = item.existed;
    }
    return err < 0 ? err : item.err;
}

/* The whole object, in the pool. */
static inline int h_get(struct harness *h, uint64_t bucket, const char *key, struct slice *ret,
                        struct object_record *ret_record) {
    struct object_read *read;
    int err = object_read_open(h->store, bucket, slice_str(key), h->pool, &read);
    if (err < 0) {
        return err;
    }
    struct object_record record = *object_read_record(read);
    uint8_t *data = pool_alloc(h->pool, record.size + 1);
    size_t filled = 0, got = 1;
    assert_non_null(data);
    while (err == 0 && got > 0) {
        err = object_read_next(read, data + filled, 5000, false, &got);
        filled += err == 0 ? got : 0;
    }
    object_read_done(read);
    if (err < 0) {
        return err;
    }
    assert_int_equal(filled, record.size);
    *ret = slice_of(data, filled);
    if (ret_record != NULL) {
        *ret_record = record;
    }
    return 0;
}

static inline int h_copy(struct harness *h, const struct object_copy_args *args,
                         struct object_result *ret) {
    struct object_wait *wait = h_wait(h);
    object_copy(h->store, args, h->pool, object_wait_executor(wait), object_wait_done, wait);
    return object_wait(wait, ret);
}

static inline int h_copy_keys(struct harness *h, const char *from, const char *to,
                              struct object_result *ret) {
    struct object_copy_args args = {.source_bucket = h->bucket,
                                    .bucket = h->bucket,
                                    .source_key = slice_str(from),
                                    .key = slice_str(to),
                                    .replace_metadata = strcmp(from, to) == 0};
    return h_copy(h, &args, ret);
}

static inline int h_upload(struct harness *h, const char *key, const struct upload_record *record,
                           uint8_t ret_id[16]) {
    struct object_upload_args args = {.bucket = h->bucket, .key = slice_str(key)};
    if (record != NULL) {
        args.record = *record;
    }
    struct object_wait *wait = h_wait(h);
    object_upload_create(h->store, &args, ret_id, h->pool, object_wait_executor(wait),
                         object_wait_done, wait);
    return object_wait(wait, NULL);
}

static inline int h_part(struct harness *h, const char *key, const uint8_t id[16], uint16_t number,
                         struct slice body, struct object_result *ret) {
    struct object_write_args args = {.kind = OBJECT_WRITE_PART,
                                     .bucket = h->bucket,
                                     .key = slice_str(key),
                                     .part_number = number,
                                     .size = body.size};
    memcpy(args.upload_id, id, 16);
    return h_write(h, &args, body, &(struct object_commit_args){0}, ret);
}

static inline int h_complete(struct harness *h, const struct object_complete_args *args,
                             struct object_result *ret) {
    struct object_wait *wait = h_wait(h);
    object_upload_complete(h->store, args, h->pool, object_wait_executor(wait), object_wait_done,
                           wait);
    return object_wait(wait, ret);
}

static inline int h_abort(struct harness *h, const char *key, const uint8_t id[16]) {
    struct object_wait *wait = h_wait(h);
    object_upload_abort(h->store, h->bucket, slice_str(key), id, h->pool,
                        object_wait_executor(wait), object_wait_done, wait);
    return object_wait(wait, NULL);
}

/* Lets everything that is due happen: the free queue drains, checkpoints are made. */
static inline void h_settle(struct harness *h) {
    for (int i = 0; i < 200; i++) {
        bool busy;
        assert_int_equal(object_step(h->store, &busy), 0);
    }
}

static inline uint64_t h_live_bytes(struct harness *h) {
    struct object_stats stats;
    object_stats(h->store, &stats);
    return stats.data.live_bytes;
}

/* Bytes that say whose they are. */
static inline struct slice h_body(struct harness *h, uint64_t seed, size_t size) {
    struct prng prng;
    uint8_t *data = pool_alloc(h->pool, size + 1);
    assert_non_null(data);
    prng_init(&prng, seed);
    prng_bytes(&prng, data, size);
    return slice_of(data, size);
}

#endif
