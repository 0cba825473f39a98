/* What transactions share: reading the current row, counters and quotas, and the names of bodies.
 *
 * Names of bodies. A unit (a run of blocks, or the head record of a small part) is named by at
 * least one row; the 'r' row of its first id counts the names beyond the first. A copy adds a name
 * under a shared latch of the source's row; a row is dropped under its exclusive latch. So whoever
 * drops a row and finds no 'r' row knows that it holds the only name: nobody else could add one.
 * When there are more names, two rows could be dropped at once; then the 'r' row's latch is needed,
 * and the operation comes again with it. Runs in transactions, on their executor. */
#include <stdio.h>

#include "base/bytes.h"
#include "object/object_int.h"

/* ---- rows ---- */

void object_bucket_text(struct object_store *store, uint64_t bucket, char ret[OBJECT_BUCKET_TEXT]) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct bucket_record record;
    if (pool != NULL && directory_bucket_by_id(store, bucket, pool, &record) == 0) {
        snprintf(ret, OBJECT_BUCKET_TEXT, "%.*s", SLICE_PRINT(record.name));
    } else {
        snprintf(ret, OBJECT_BUCKET_TEXT, "number %llu", (unsigned long long)bucket);
    }
}

int object_row_load(struct object_store *store, struct slice row_key, struct pool *pool,
                    struct object_record *ret) {
    CLEANUP_KV_VALUE struct kv_value value = {0};
    int err = meta_get(store->meta, row_key, &value);
    if (err < 0) {
        return err;
    }
    struct slice copy = pool_copy(pool, value.data);
    return copy.data == NULL ? -HL_ERR_NOMEM : object_record_decode(copy, pool, ret);
}

int object_current_load(struct object_op *op, struct pool *pool, uint64_t bucket, struct slice key,
                        struct object_current *ret) {
    CLEANUP_BUF struct buf row_key = {0};
    keys_object(&row_key, bucket, key);
    CLEANUP_KV_VALUE struct kv_value value = {0};
    int err =
        row_key.failed ? -HL_ERR_NOMEM : meta_get(op->store->meta, buf_slice(&row_key), &value);
    if (err == -HL_ERR_NOT_FOUND) {
        *ret = (struct object_current){.found = false};
        return 0;
    }
    if (err < 0) {
        return err;
    }
    if (value.data.size > OBJECT_HEAVY_ROW_BYTES && !op->on_worker) {
        op->on_worker = true;
        return object_op_again(op);
    }
    struct slice copy = pool_copy(pool, value.data);
    if (copy.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct object_current current = {.found = true};
    err = object_record_decode(copy, pool, &current.record);
    if (err < 0) {
        char name[OBJECT_BUCKET_TEXT];
        object_bucket_text(op->store, bucket, name);
        LOG_ERROR("object", "the row of bucket %s, key \"%.*s\" is damaged: %s", name,
                  SLICE_PRINT(key), error_text(err));
        return err;
    }
    *ret = current;
    return 0;
}

int object_record_put(struct meta_txn *txn, uint64_t bucket, struct slice key,
                      const struct object_record *record, struct slice body) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_BUF struct buf value = {0};
    keys_object(&row_key, bucket, key);
    object_record_encode(&value, record);
    if (row_key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put_head(txn, buf_slice(&row_key), buf_slice(&value), record->head, body);
    return 0;
}

/* ---- counters and quotas ---- */

static void count_one(struct meta_txn *txn, uint64_t bucket, enum keys_counter counter,
                      int64_t delta) {
    if (delta == 0) {
        return;
    }
    CLEANUP_BUF struct buf key = {0};
    keys_counter(&key, bucket, counter);
    CHECK(!key.failed); /* ten bytes */
    meta_txn_add(txn, buf_slice(&key), delta);
}

void object_count(struct meta_txn *txn, uint64_t bucket, const struct object_delta *delta) {
    count_one(txn, bucket, KEYS_COUNT_OBJECTS, delta->objects);
    count_one(txn, bucket, KEYS_COUNT_BYTES, delta->bytes);
    count_one(txn, bucket, KEYS_COUNT_UPLOADS, delta->uploads);
    count_one(txn, bucket, KEYS_COUNT_UPLOAD_BYTES, delta->upload_bytes);
}

static bool exceeds(uint64_t quota, int64_t used, int64_t delta) {
    return quota > 0 && delta > 0 && used + delta > (int64_t)MIN(quota, (uint64_t)INT64_MAX);
}

int object_bucket_check(struct object_op *op, uint64_t bucket, const struct object_delta *delta) {
    struct bucket_record record;
    int err = directory_bucket_by_id(op->store, bucket, op->pool, &record);
    if (err < 0) {
        return err;
    }
    bool grows = delta->objects > 0 || delta->bytes > 0;
    if (!grows || (record.quota_bytes == 0 && record.quota_objects == 0)) {
        return 0;
    }
    CLEANUP_BUF struct buf key = {0};
    keys_bucket(&key, bucket);
    if (!object_op_holds(op, buf_slice(&key), META_EXCLUSIVE)) {
        object_op_latch(op, buf_slice(&key), META_EXCLUSIVE);
        return object_op_again(op); /* the quota came after the latches were chosen */
    }
    struct directory_usage usage;
    err = directory_usage(op->store, bucket, &usage);
    if (err < 0) {
        return err;
    }
    if (exceeds(record.quota_objects, usage.objects, delta->objects) ||
        exceeds(record.quota_bytes, usage.bytes, delta->bytes)) {
        return -HL_ERR_QUOTA;
    }
    return 0;
}

/* ---- names of bodies ---- */

int object_units_add_part(struct object_units *units, struct pool *pool,
                          const struct object_part *part) {
    bool head = part->run.block_count == 0;
    if (head && body_id_is_none(part->inline_id)) {
        return 0;
    }
    if (units->count == units->capacity) {
        uint32_t capacity = MAX(8u, units->capacity * 2);
        struct object_unit *items = pool_alloc(pool, capacity * sizeof(*items));
        if (items == NULL) {
            return -HL_ERR_NOMEM;
        }
        if (units->count > 0) {
            memcpy(items, units->items, units->count * sizeof(*items));
        }
        units->items = items;
        units->capacity = capacity;
    }
    units->items[units->count++] =
        head ? (struct object_unit){part->inline_id, 1, true}
             : (struct object_unit){part->run.first, part->run.block_count, false};
    return 0;
}

int object_units_add_record(struct object_units *units, struct pool *pool,
                            const struct object_record *record) {
    for (uint32_t i = 0; i < record->part_count; i++) {
        int err = object_units_add_part(units, pool, &record->parts[i]);
        if (err < 0) {
            return err;
        }
    }
    return 0;
}

static int compare_units(const void *a, const void *b) {
    const struct object_unit *x = a, *y = b;
    if (x->id.high != y->id.high) {
        return x->id.high < y->id.high ? -1 : 1;
    }
    return x->id.low < y->id.low ? -1 : x->id.low > y->id.low;
}

/* Drops names of the same unit: `names` of them. */
static int release_unit(struct object_op *op, struct meta_txn *txn, const struct object_unit *unit,
                        int64_t names) {
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    keys_references(&key, unit->id);
    int err = key.failed ? -HL_ERR_NOMEM : meta_get(op->store->meta, buf_slice(&key), &value);
    if (err < 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    bool row = err == 0;
    int64_t extra = row && value.data.size == 8 ? (int64_t)get_le64(value.data.data) : 0;
    if (extra > 0 && !object_op_holds(op, buf_slice(&key), META_EXCLUSIVE)) {
        object_op_latch(op, buf_slice(&key), META_EXCLUSIVE);
        return object_op_again(op);
    }
    if (names <= extra) {
        meta_txn_add(txn, buf_slice(&key), -names);
        return 0;
    }
    if (row) {
        meta_txn_delete(txn, buf_slice(&key));
    }
    if (unit->head) {
        meta_txn_free_head(txn, unit->id);
    } else {
        meta_txn_free_bodies(txn, unit->id, unit->count);
    }
    return 0;
}

int object_units_release(struct object_op *op, struct meta_txn *txn, struct object_units *units) {
    bool again = false;
    if (units->count > 1) {
        qsort(units->items, units->count, sizeof(*units->items), compare_units);
    }
    for (uint32_t i = 0, end; i < units->count; i = end) {
        for (end = i + 1;
             end < units->count && compare_units(&units->items[i], &units->items[end]) == 0;
             end++) {
        }
        int err = release_unit(op, txn, &units->items[i], end - i);
        if (err < 0 && !(err == -HL_ERR_AGAIN && op->again)) {
            return err;
        }
        again |= err < 0;
    }
    return again ? object_op_again(op) : 0; /* after all missing latches were noted */
}

void object_units_share(struct meta_txn *txn, const struct object_units *units) {
    for (uint32_t i = 0; i < units->count; i++) {
        CLEANUP_BUF struct buf key = {0};
        keys_references(&key, units->items[i].id);
        CHECK(!key.failed);
        meta_txn_add(txn, buf_slice(&key), 1);
    }
}

int object_record_release(struct object_op *op, struct meta_txn *txn,
                          const struct object_record *record) {
    struct object_units units = {0};
    int err = object_units_add_record(&units, meta_txn_pool(txn), record);
    if (err == 0) {
        err = object_units_release(op, txn, &units);
    }
    if (err < 0) {
        return err;
    }
    meta_txn_free_head(txn, record->head);
    return 0;
}
