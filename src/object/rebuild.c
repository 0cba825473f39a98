/* Rebuild: the namespace from the volumes alone. Each object's head record holds its row, each
 * bucket and alias left a configuration record; access keys and permissions come from the old kv,
 * if that can be read; unfinished uploads are gone. Old metadata is moved aside, never deleted
 * (rebuild_old.c).
 *
 * A file marks a rebuild that has begun: until it is finished no server opens the store, and the
 * next rebuild starts from the beginning. If the old metadata can be opened at all, that is done
 * first, so that what only the log or the index knew reaches the volumes.
 *
 * One thread, nothing else runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/text.h"
#include "object/object_int.h"
#include "object/rebuild_old.h"
#include "volume/volume_format.h"
#include "volume/volume_record.h"

#define NAMED_MISSING 100 /* objects with missing data that are named in the log */

struct rebuild {
    struct os_env *env;
    const struct object_options *options;
    uint8_t cluster_id[16];
    struct kv *kv;
    struct kv_batch *batch;
    struct data *data;
    struct object_old old;
    uint64_t sequence_max, bucket_max;
    struct object_rebuild_result result;
    /* The bucket whose objects are being counted. */
    uint64_t bucket;
    int64_t objects, bytes;
    uint64_t named_missing;
};

/* ---- files ---- */

static int exists(struct os_env *env, const char *path, bool *ret) {
    uint64_t size;
    bool is_dir;
    int err = os_stat(env->fs, path, &size, &is_dir);
    *ret = err == 0;
    return err == -HL_ERR_NOT_FOUND ? 0 : err;
}

static int file_exists(struct rebuild *r, const char *name, bool *ret) {
    CLEANUP_FREE char *path = object_path(r->options->metadata_dir, name);
    return path == NULL ? -HL_ERR_NOMEM : exists(r->env, path, ret);
}

/* The cluster's id from a data directory, when metadata_dir is gone. */
static int identity_from_marker(struct rebuild *r) {
    if (r->options->data.volumes.dir_count == 0) {
        return -HL_ERR_INVALID;
    }
    const char *dir = r->options->data.volumes.dirs[0].path;
    CLEANUP_FREE char *path = object_path(dir, VOLUME_MARKER_NAME);
    CLEANUP_FREE char *to = object_path(r->options->metadata_dir, OBJECT_CLUSTER_FILE);
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size;
    uint8_t uuid[16];
    int err = path == NULL || to == NULL ? -HL_ERR_NOMEM
                                         : os_file_load(r->env->fs, path, 4096, &bytes, &size);
    if (err == 0) {
        err = volume_marker_decode(slice_of(bytes, size), r->cluster_id, uuid);
    }
    if (err < 0) {
        LOG_ERROR("object", "%s has no usable marker (%s): is it the right data_dir, and mounted?",
                  dir, error_text(err));
        return err;
    }
    LOG_INFO("object", "took the cluster's id from %s", path);
    return os_file_replace(r->env->fs, to, r->cluster_id, sizeof(r->cluster_id));
}

static int load_identity(struct rebuild *r) {
    CLEANUP_FREE char *path = object_path(r->options->metadata_dir, OBJECT_CLUSTER_FILE);
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size;
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_load(r->env->fs, path, 4096, &bytes, &size);
    if (err == -HL_ERR_NOT_FOUND || (err == 0 && size != sizeof(r->cluster_id))) {
        return identity_from_marker(r);
    }
    if (err == 0) {
        memcpy(r->cluster_id, bytes, sizeof(r->cluster_id));
    }
    return err;
}

static int take_mark_off(struct rebuild *r) {
    CLEANUP_FREE char *path = object_path(r->options->metadata_dir, OBJECT_REBUILD_FILE);
    int err = path == NULL ? -HL_ERR_NOMEM : os_unlink(r->env->fs, path);
    return err < 0 ? err : os_dir_sync(r->env->fs, r->options->metadata_dir);
}

/* The new kv begins with what the old one alone knew. The twin has no directory to move: it is
 * emptied in the same batch. */
static int begin_kv(struct rebuild *r) {
    static const uint8_t first[1] = {0}, end[2] = {0xff, 0xff};
    bool is_twin = r->options->kv_mem != NULL;
    int err = is_twin ? object_old_read_kv(&r->old, r->kv) : object_old_read(&r->old);
    if (err < 0) {
        return err;
    }
    kv_batch_clear(r->batch);
    if (is_twin) {
        kv_batch_delete_range(r->batch, KV_META, slice_of(first, 1), slice_of(end, 2));
        kv_batch_delete_range(r->batch, KV_LOCAL, slice_of(first, 1), slice_of(end, 2));
    }
    object_old_put(&r->old, r->batch);
    return kv_batch_count(r->batch) == 0 ? 0 : kv_write(r->kv, r->batch);
}

/* Lets a store that still opens write down everything that only its metadata knows. */
static void settle_old(struct os_env *env, const struct object_options *options) {
    CLEANUP_FREE char *identity = object_path(options->metadata_dir, OBJECT_CLUSTER_FILE);
    struct object_options quiet = *options;
    struct object_store *store;
    bool there = false;
    if (identity == NULL || exists(env, identity, &there) < 0 || !there) {
        return;
    }
    quiet.threads = false;
    quiet.meta.fatal = NULL;
    int err = object_store_open(env, &quiet, &store);
    if (err < 0) {
        LOG_WARN("object", "the old metadata cannot be used (%s): only the volumes count",
                 error_text(err));
        return;
    }
    object_store_close(store);
}

/* ---- rows from records ---- */

static int put_row(struct rebuild *r, struct slice key, struct slice value) {
    kv_batch_clear(r->batch);
    kv_batch_put(r->batch, KV_META, key, value);
    return kv_write(r->kv, r->batch);
}

/* Of several versions the newest counts. */
static int take_object(struct rebuild *r, const struct data_rebuild_head *head) {
    CLEANUP_BUF struct buf row = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    struct object_record record, known;
    uint64_t bucket;
    struct slice key;
    buf_append_slice(&row, head->row_value);
    object_record_append_head(&row, head->id);
    if (row.failed) {
        return -HL_ERR_NOMEM;
    }
    if (object_record_peek(buf_slice(&row), &record) < 0 ||
        !keys_parse_object(head->row_key, &bucket, &key)) {
        LOG_WARN("object", "a head record does not hold an object's row; it is left out");
        r->result.skipped++;
        return 0;
    }
    r->sequence_max = MAX(r->sequence_max, record.sequence);
    int err = kv_get(r->kv, KV_META, head->row_key, &value);
    if (err == 0 && object_record_peek(value.data, &known) == 0 &&
        known.sequence >= record.sequence) {
        r->result.skipped++;
        return 0;
    }
    if (err < 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    r->result.skipped += err == 0;
    return put_row(r, head->row_key, buf_slice(&row));
}

static int take_config(struct rebuild *r, const struct data_rebuild_head *head) {
    r->sequence_max = MAX(r->sequence_max, head->id.low);
    if (head->row_value.size == 0) {
        return 0; /* deleted; only its place in the order counts */
    }
    uint8_t table = head->row_key.size > 0 ? head->row_key.data[0] : 0;
    if (table == KEYS_BUCKET && head->row_key.size == 9) {
        r->bucket_max = MAX(r->bucket_max, get_be64(head->row_key.data + 1));
        r->result.buckets++;
    } else if (table != KEYS_ALIAS && table != KEYS_LOCAL_ALIAS) {
        r->result.skipped++;
        return 0;
    }
    return put_row(r, head->row_key, head->row_value);
}

static int take(void *arg, const struct data_rebuild_head *head) {
    struct rebuild *r = arg;
    FAILPOINT("object.rebuild.row");
    if (head->kind == VOLUME_CONFIG) {
        return take_config(r, head);
    }
    if (head->row_key.size > 0 && head->row_key.data[0] == KEYS_OBJECT) {
        return take_object(r, head);
    }
    return 0; /* a small part: kept when an object names it */
}

/* ---- what follows from the rows ---- */

/* A bucket whose own record was lost gets a name by its number. */
static int ensure_bucket(struct rebuild *r, uint64_t bucket) {
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_BUF struct buf value = {0};
    CLEANUP_BUF struct buf alias = {0};
    CLEANUP_KV_VALUE struct kv_value known = {0};
    char name[40];
    uint8_t id[8];
    keys_bucket(&key, bucket);
    int err = key.failed ? -HL_ERR_NOMEM : kv_get(r->kv, KV_META, buf_slice(&key), &known);
    if (err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    snprintf(name, sizeof(name), "recovered-%" PRIu64, bucket);
    LOG_WARN("object", "bucket %" PRIu64 " has lost its name: it is now called %s", bucket, name);
    bucket_record_encode(&value, &(struct bucket_record){.id = bucket,
                                                         .created_ms = os_wall_ms(r->env->clock),
                                                         .name = slice_str(name)});
    keys_alias(&alias, slice_str(name));
    put_be64(id, bucket);
    if (value.failed || alias.failed) {
        return -HL_ERR_NOMEM;
    }
    r->bucket_max = MAX(r->bucket_max, bucket);
    r->result.buckets++;
    err = put_row(r, buf_slice(&alias), slice_of(id, sizeof(id)));
    return err < 0 ? err : put_row(r, buf_slice(&key), buf_slice(&value));
}

static int add_counter(struct rebuild *r, enum keys_counter counter, int64_t value) {
    CLEANUP_BUF struct buf key = {0};
    keys_counter(&key, r->bucket, counter);
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_batch_clear(r->batch);
    kv_batch_add(r->batch, KV_META, buf_slice(&key), value);
    return kv_write(r->kv, r->batch);
}

/* The numbers of the bucket that was walked through. */
static int end_bucket(struct rebuild *r) {
    if (r->objects == 0) {
        return 0;
    }
    int err = ensure_bucket(r, r->bucket);
    if (err == 0) {
        err = add_counter(r, KEYS_COUNT_OBJECTS, r->objects);
    }
    if (err == 0) {
        err = add_counter(r, KEYS_COUNT_BYTES, r->bytes);
    }
    r->objects = 0;
    r->bytes = 0;
    return err;
}

/* Every name of a unit adds one; the first is taken off again at the end. */
static int name_units(struct rebuild *r, const struct object_units *units) {
    kv_batch_clear(r->batch);
    for (uint32_t i = 0; i < units->count; i++) {
        CLEANUP_BUF struct buf key = {0};
        keys_references(&key, units->items[i].id);
        if (key.failed) {
            return -HL_ERR_NOMEM;
        }
        kv_batch_add(r->batch, KV_META, buf_slice(&key), 1);
        int err = data_rebuild_name(r->data, units->items[i].id, units->items[i].count);
        if (err < 0) {
            return err;
        }
    }
    return units->count == 0 ? 0 : kv_write(r->kv, r->batch);
}

typedef int (*each_fn)(struct rebuild *r, uint64_t bucket, struct slice key,
                       const struct object_record *record, struct pool *pool);

static int each_object(struct rebuild *r, each_fn fn) {
    static const uint8_t first = KEYS_OBJECT, end = KEYS_OBJECT + 1;
    CLEANUP_POOL struct pool *pool = pool_new(0);
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(r->kv, KV_META, slice_of(&first, 1), slice_of(&end, 1));
    if (pool == NULL || iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    pool_set_limit(pool, OBJECT_POOL_BYTES_MAX);
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        struct object_record record;
        uint64_t bucket;
        struct slice key;
        pool_reset(pool);
        int err = object_record_decode(kv_iter_value(iter), pool, &record);
        if (err < 0 || !keys_parse_object(kv_iter_key(iter), &bucket, &key)) {
            return err < 0 ? err : -HL_ERR_CORRUPT;
        }
        err = fn(r, bucket, key, &record, pool);
        if (err < 0) {
            return err;
        }
    }
    return kv_iter_error(iter);
}

static int count_object(struct rebuild *r, uint64_t bucket, struct slice key,
                        const struct object_record *record, struct pool *pool) {
    int err = bucket != r->bucket ? end_bucket(r) : 0;
    if (err < 0) {
        return err;
    }
    struct object_units units = {0};
    r->bucket = bucket;
    r->objects++;
    r->bytes += (int64_t)record->size;
    r->result.objects++;
    err = object_units_add_record(&units, pool, record);
    if (err == 0) {
        err = name_units(r, &units);
    }
    return err < 0 ? err : data_rebuild_name(r->data, record->head, 1);
}

/* From names to names beyond the first. */
static int settle_references(struct rebuild *r) {
    static const uint8_t first = KEYS_REFERENCES, end = KEYS_REFERENCES + 1;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(r->kv, KV_META, slice_of(&first, 1), slice_of(&end, 1));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        struct slice value = kv_iter_value(iter);
        kv_batch_clear(r->batch);
        if (value.size != 8 || get_le64(value.data) <= 1) {
            kv_batch_delete(r->batch, KV_META, kv_iter_key(iter));
        } else {
            kv_batch_add(r->batch, KV_META, kv_iter_key(iter), -1);
        }
        int err = kv_write(r->kv, r->batch);
        if (err < 0) {
            return err;
        }
    }
    return kv_iter_error(iter);
}

static int put_system(struct rebuild *r) {
    CLEANUP_BUF struct buf key = {0};
    uint8_t next[8];
    kv_batch_clear(r->batch);
    int err = object_old_settle(&r->old, r->kv, r->batch, &r->bucket_max);
    if (err < 0) {
        return err;
    }
    put_be64(next, r->bucket_max + 1);
    keys_system(&key, "bucket_next");
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_batch_put(r->batch, KV_META, buf_slice(&key), slice_of(next, sizeof(next)));
    meta_sequence_restore(r->batch, r->sequence_max);
    return kv_write(r->kv, r->batch);
}

/* ---- missing data ---- */

static bool body_missing(struct rebuild *r, struct body_id id) {
    struct data_body body;
    int err = data_body_open(r->data, id, &body);
    if (err == 0) {
        data_body_done(&body);
    }
    return err < 0;
}

static int name_missing(struct rebuild *r, uint64_t bucket, struct slice key,
                        const struct object_record *record, struct pool *pool) {
    struct object_units units = {0};
    int err = object_units_add_record(&units, pool, record);
    bool missing = false;
    for (uint32_t i = 0; err == 0 && i < units.count && !missing; i++) {
        for (uint32_t n = 0; n < units.items[i].count && !missing; n++) {
            missing = body_missing(r, body_id_nth(units.items[i].id, n));
        }
    }
    if (missing && r->named_missing++ < NAMED_MISSING) {
        LOG_ERROR("object", "bucket %" PRIu64 ", key \"%.*s\": some of its data is missing", bucket,
                  SLICE_PRINT(key));
    }
    return err;
}

/* ---- the whole ---- */

static int run(struct rebuild *r,
               void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total), void *arg) {
    int err = data_rebuild(r->data, take, r, progress, arg);
    FAILPOINT("object.rebuild.rows");
    if (err == 0) {
        err = each_object(r, count_object);
    }
    if (err == 0) {
        err = end_bucket(r);
    }
    if (err == 0) {
        err = settle_references(r);
    }
    FAILPOINT("object.rebuild.counted");
    if (err == 0) {
        err = put_system(r);
    }
    if (err == 0) {
        err = data_rebuild_finish(r->data, &r->result.missing_bodies);
    }
    if (err == 0 && r->result.missing_bodies > 0) {
        err = each_object(r, name_missing);
    }
    return err < 0 ? err : kv_flush(r->kv);
}

static int open_parts(struct rebuild *r) {
    struct data_options data_options = r->options->data;
    data_options.first_start = false;
    data_options.block_bytes =
        data_options.block_bytes != 0 ? data_options.block_bytes : OBJECT_BLOCK_BYTES_DEFAULT;
    data_options.volumes.cluster_id = r->cluster_id;
    int err = object_kv_open(r->env, r->options, true, &r->kv);
    if (err < 0) {
        return err;
    }
    r->batch = kv_batch_new(r->kv);
    err = r->batch == NULL ? -HL_ERR_NOMEM : 0;
    if (err == 0) {
        err = begin_kv(r);
    }
    return err < 0 ? err : data_open(r->env, r->kv, &data_options, &r->data);
}

/* Under the lock. */
static int rebuild_locked(struct rebuild *r,
                          void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total),
                          void *arg) {
    int err = load_identity(r);
    if (err == 0) {
        err = object_old_begin(&r->old);
    }
    FAILPOINT("object.rebuild.begun");
    if (err == 0) {
        err = object_old_move(&r->old);
    }
    FAILPOINT("object.rebuild.moved");
    if (err == 0) {
        err = open_parts(r);
    }
    if (err == 0) {
        err = run(r, progress, arg);
    }
    data_close(r->data);
    kv_batch_free(r->batch);
    kv_close(r->kv);
    FAILPOINT("object.rebuild.written");
    return err < 0 ? err : take_mark_off(r);
}

static void report(const struct object_rebuild_result *result) {
    LOG_INFO("object", "rebuilt %" PRIu64 " objects in %" PRIu64 " buckets", result->objects,
             result->buckets);
    if (result->keys_known) {
        LOG_INFO("object",
                 "%" PRIu64 " access keys and %" PRIu64 " permissions were taken over from the old "
                 "metadata; unfinished uploads are gone",
                 result->keys, result->permissions);
    } else {
        LOG_WARN("object", "access keys, permissions and unfinished uploads were not in the "
                           "volumes: create keys and allow them anew");
    }
}

int object_rebuild(struct os_env *env, const struct object_options *options,
                   void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total),
                   void *arg, struct object_rebuild_result *ret) {
    struct rebuild r = {.env = env, .options = options, .old = {.env = env, .options = options}};
    struct os_file *lock;
    bool begun = false;
    int err = object_old_check(env, options);
    if (err == 0) {
        err = file_exists(&r, OBJECT_REBUILD_FILE, &begun);
    }
    if (err < 0) {
        return err;
    }
    if (!begun) {
        settle_old(env, options);
    }
    err = object_store_lock(env, options->metadata_dir, &lock);
    if (err < 0) {
        return err;
    }
    err = rebuild_locked(&r, progress, arg);
    os_file_close(lock);
    object_old_done(&r.old);
    if (err < 0) {
        LOG_ERROR("object", "rebuild stopped: %s; run it again", error_text(err));
        return err;
    }
    r.result.keys_known = r.old.known;
    r.result.keys = r.old.keys;
    r.result.permissions = r.old.permissions;
    report(&r.result);
    *ret = r.result;
    return 0;
}
