/* Uploads in parts, except their completion (complete.c): creating, finding, aborting, listing
 * parts, clearing up old ones. An upload is a row; its parts are rows under its id. Whoever writes
 * a part shares the upload row's latch; Complete and Abort have it alone, so one of them wins
 * wholly. */
#include "base/bytes.h"
#include "object/object_int.h"

/* ---- finding ---- */

int object_upload_get(struct object_store *store, uint64_t bucket, struct slice key,
                      const uint8_t upload_id[16], struct pool *pool, struct upload_record *ret) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    keys_upload(&row_key, bucket, key, upload_id);
    int err = row_key.failed ? -HL_ERR_NOMEM : meta_get(store->meta, buf_slice(&row_key), &value);
    if (err < 0) {
        return err == -HL_ERR_NOT_FOUND ? -HL_ERR_NO_SUCH_UPLOAD : err;
    }
    struct slice copy = pool_copy(pool, value.data);
    return copy.data == NULL ? -HL_ERR_NOMEM : upload_record_decode(copy, pool, ret);
}

/* ---- creating ---- */

struct upload_op {
    struct object_op op;
    uint64_t bucket;
    struct slice key;
    struct upload_record record;
    uint8_t upload_id[16];
};

/* Uploads of one key are listed in the order of their creation: the id starts with the time. */
static void make_upload_id(struct object_store *store, int64_t now_ms, uint8_t ret[16]) {
    uint8_t time[8];
    put_be64(time, (uint64_t)now_ms << 16);
    memcpy(ret, time, 6);
    os_random_bytes(store->env->random, ret + 6, 10);
}

static int create_txn(struct object_op *op, struct meta_txn *txn) {
    struct upload_op *u = CONTAINER_OF(op, struct upload_op, op);
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_BUF struct buf value = {0};
    struct object_delta delta = {.uploads = 1};
    int err = object_bucket_check(op, u->bucket, &delta);
    if (err < 0) {
        return err;
    }
    keys_upload(&row_key, u->bucket, u->key, u->upload_id);
    upload_record_encode(&value, &u->record);
    if (row_key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put(txn, buf_slice(&row_key), buf_slice(&value));
    object_count(txn, u->bucket, &delta);
    return 0;
}

void object_upload_create(struct object_store *store, const struct object_upload_args *args,
                          uint8_t ret_upload_id[16], struct pool *pool, struct executor *home,
                          object_done_fn done, void *arg) {
    struct upload_op *u = POOL_NEW(pool, struct upload_op);
    CHECK(u != NULL); /* without it no refusal could be delivered either */
    object_op_init(&u->op, store, pool, home, done, arg);
    u->bucket = args->bucket;
    u->key = args->key;
    u->record = args->record;
    u->record.created_ms = os_wall_ms(store->env->clock);
    u->op.fn = create_txn;
    make_upload_id(store, u->record.created_ms, u->upload_id);
    memcpy(ret_upload_id, u->upload_id, sizeof(u->upload_id));
    if (args->key.size == 0 || args->key.size > KEYS_OBJECT_KEY_MAX) {
        object_op_end(&u->op, args->key.size == 0 ? -HL_ERR_INVALID : -HL_ERR_KEY_TOO_LONG);
        return;
    }
    int err = object_admit(store, 0);
    if (err < 0) {
        object_op_end(&u->op, err);
        return;
    }
    object_op_latch_bucket(&u->op, args->bucket, false);
    object_op_run(&u->op);
}

/* ---- parts ---- */

static struct kv_iter *part_iter(struct object_store *store, const uint8_t upload_id[16],
                                 uint16_t first) {
    CLEANUP_BUF struct buf lower = {0};
    CLEANUP_BUF struct buf upper = {0};
    keys_part(&lower, upload_id, first);
    keys_part(&upper, upload_id, UINT16_MAX);
    if (lower.failed || upper.failed) {
        return NULL;
    }
    return kv_iter_new(store->kv, KV_META, buf_slice(&lower), buf_slice(&upper));
}

int object_parts_load(struct object_store *store, const uint8_t upload_id[16], struct pool *pool,
                      struct object_part **ret, uint32_t *ret_count) {
    CLEANUP_KV_ITER struct kv_iter *iter = part_iter(store, upload_id, 0);
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct object_part *parts = NULL;
    uint32_t count = 0, capacity = 0;
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        if (count == capacity) {
            capacity = MAX(16u, capacity * 2);
            struct object_part *more = pool_alloc(pool, capacity * sizeof(*more));
            if (more == NULL) {
                return -HL_ERR_NOMEM;
            }
            if (count > 0) {
                memcpy(more, parts, count * sizeof(*more));
            }
            parts = more;
        }
        struct part_record record;
        int err = part_record_decode(kv_iter_value(iter), &record);
        if (err < 0) {
            return err;
        }
        parts[count++] = record.part;
    }
    int err = kv_iter_error(iter);
    if (err < 0) {
        return err;
    }
    *ret = parts;
    *ret_count = count;
    return 0;
}

int object_part_list(struct object_store *store, const uint8_t upload_id[16], uint16_t after,
                     uint32_t count_max, struct pool *pool, struct object_part_list *ret) {
    struct object_part_list list = {0};
    if (count_max == 0 || after == UINT16_MAX) {
        *ret = list;
        return 0;
    }
    CLEANUP_KV_ITER struct kv_iter *iter = part_iter(store, upload_id, (uint16_t)(after + 1));
    list.parts = pool_alloc(pool, count_max * sizeof(*list.parts));
    if (iter == NULL || list.parts == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        if (list.count == count_max) {
            list.truncated = true;
            break;
        }
        int err = part_record_decode(kv_iter_value(iter), &list.parts[list.count]);
        if (err < 0) {
            return err;
        }
        list.parts[list.count++].unknown = SLICE_EMPTY; /* points into the iterator */
    }
    int err = kv_iter_error(iter);
    if (err < 0) {
        return err;
    }
    *ret = list;
    return 0;
}

/* ---- aborting ---- */

int object_upload_drop(struct meta_txn *txn, uint64_t bucket, struct slice key,
                       const uint8_t upload_id[16]) {
    CLEANUP_BUF struct buf upload = {0};
    CLEANUP_BUF struct buf first = {0};
    CLEANUP_BUF struct buf end = {0};
    keys_upload(&upload, bucket, key, upload_id);
    keys_part(&first, upload_id, 0);
    keys_part(&end, upload_id, UINT16_MAX);
    if (upload.failed || first.failed || end.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_delete(txn, buf_slice(&upload));
    meta_txn_delete_range(txn, buf_slice(&first), buf_slice(&end));
    return 0;
}

static int abort_txn(struct object_op *op, struct meta_txn *txn) {
    struct upload_op *u = CONTAINER_OF(op, struct upload_op, op);
    struct pool *pool = meta_txn_pool(txn);
    struct object_units units = {0};
    struct object_delta delta = {.uploads = -1};
    struct object_part *parts = NULL;
    uint32_t count = 0;
    int err = object_upload_get(op->store, u->bucket, u->key, u->upload_id, pool, &u->record);
    if (err == 0) {
        err = object_parts_load(op->store, u->upload_id, pool, &parts, &count);
    }
    for (uint32_t i = 0; i < count && err == 0; i++) {
        delta.upload_bytes -= (int64_t)parts[i].size;
        err = object_units_add_part(&units, pool, &parts[i]);
    }
    if (err == 0) {
        err = object_units_release(op, txn, &units);
    }
    if (err == 0) {
        err = object_upload_drop(txn, u->bucket, u->key, u->upload_id);
    }
    if (err < 0) {
        return err;
    }
    object_count(txn, u->bucket, &delta);
    FAILPOINT("object.commit.abort");
    return 0;
}

void object_upload_abort(struct object_store *store, uint64_t bucket, struct slice key,
                         const uint8_t upload_id[16], struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg) {
    struct upload_op *u = POOL_NEW(pool, struct upload_op);
    CHECK(u != NULL); /* without it no refusal could be delivered either */
    object_op_init(&u->op, store, pool, home, done, arg);
    u->bucket = bucket;
    u->key = key;
    memcpy(u->upload_id, upload_id, sizeof(u->upload_id));
    u->op.fn = abort_txn;
    u->op.on_worker = true;
    object_op_latch_bucket(&u->op, bucket, false);
    object_op_latch_upload(&u->op, bucket, key, upload_id, META_EXCLUSIVE);
    object_op_run(&u->op);
}

/* ---- clearing up ---- */

static int abort_and_wait(struct object_store *store, uint64_t bucket, struct slice key,
                          const uint8_t upload_id[16], struct pool *pool) {
    struct object_wait *wait = object_wait_new(store);
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    object_upload_abort(store, bucket, key, upload_id, pool, object_wait_executor(wait),
                        object_wait_done, wait);
    return object_wait(wait, NULL);
}

int object_upload_cleanup(struct object_store *store, uint64_t bucket, int64_t created_before_ms,
                          uint32_t *ret_count) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    CLEANUP_BUF struct buf lower = {0};
    CLEANUP_BUF struct buf upper = {0};
    keys_upload_bucket(&lower, bucket);
    keys_prefix_end(&upper, buf_slice(&lower));
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(store->kv, KV_META, buf_slice(&lower), buf_slice(&upper));
    if (pool == NULL || iter == NULL || upper.failed) {
        return -HL_ERR_NOMEM;
    }
    uint32_t count = 0;
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        CLEANUP_BUF struct buf key = {0};
        struct upload_record record;
        const uint8_t *upload_id;
        uint64_t row_bucket;
        pool_reset(pool);
        int err = upload_record_decode(kv_iter_value(iter), pool, &record);
        if (err < 0 || !keys_parse_upload(kv_iter_key(iter), &row_bucket, &key, &upload_id)) {
            return err < 0 ? err : -HL_ERR_CORRUPT;
        }
        if (record.created_ms >= created_before_ms) {
            continue;
        }
        err = abort_and_wait(store, bucket, buf_slice(&key), upload_id, pool);
        if (err < 0 && err != -HL_ERR_NO_SUCH_UPLOAD) {
            return err;
        }
        count += err == 0;
    }
    *ret_count = count;
    return kv_iter_error(iter);
}
