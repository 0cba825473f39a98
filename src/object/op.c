/* The frame of asynchronous operations: one transaction under latches, tried again when it finds,
 * while it reads, that it needs more latches than it took (shared bodies are known only after the
 * row was read) or that its work is too much for a loop. An attempt that is given up changes
 * nothing. Memory is the request's pool, which lives until done. */
#include "object/object_int.h"

#define AGAIN_MAX 32

void object_op_init(struct object_op *op, struct object_store *store, struct pool *pool,
                    struct executor *home, object_done_fn done, void *arg) {
    *op = (struct object_op){
        .store = store, .pool = pool, .home = home, .done = done, .arg = arg, .fn = NULL};
}

/* ---- latches ---- */

static struct meta_latch *find_latch(const struct object_op *op, struct slice key) {
    for (uint32_t i = 0; i < op->latch_count; i++) {
        if (slice_equal(op->latches[i].key, key)) {
            return &op->latches[i];
        }
    }
    return NULL;
}

static bool latch_room(struct object_op *op) {
    if (op->latch_count < op->latch_capacity) {
        return true;
    }
    uint32_t capacity = MAX(8u, op->latch_capacity * 2);
    struct meta_latch *latches = pool_alloc(op->pool, capacity * sizeof(*latches));
    if (latches == NULL) {
        return false;
    }
    if (op->latch_count > 0) {
        memcpy(latches, op->latches, op->latch_count * sizeof(*latches));
    }
    op->latches = latches;
    op->latch_capacity = capacity;
    return true;
}

void object_op_latch(struct object_op *op, struct slice key, enum meta_latch_mode mode) {
    /* Duplicates are allowed by meta_run; looking for them pays only while there are few. */
    struct meta_latch *held = op->latch_count <= 16 ? find_latch(op, key) : NULL;
    if (held != NULL) {
        held->mode = MAX(held->mode, mode);
        return;
    }
    struct slice copy = pool_copy(op->pool, key);
    if (copy.data == NULL || !latch_room(op)) {
        op->unknown_latch = true;
        return;
    }
    op->latches[op->latch_count++] = (struct meta_latch){copy, mode};
}

/* Callers ask in the order in which they added latches before: the search starts behind the last
 * hit. */
bool object_op_holds(struct object_op *op, struct slice key, enum meta_latch_mode mode) {
    for (uint32_t i = 0; i < op->latch_count; i++) {
        uint32_t at = (op->latch_hint + i) % op->latch_count;
        if (op->latches[at].mode >= mode && slice_equal(op->latches[at].key, key)) {
            op->latch_hint = at + 1;
            return true;
        }
    }
    return false;
}

static void latch_buf(struct object_op *op, struct buf *key, enum meta_latch_mode mode) {
    if (key->failed) {
        op->unknown_latch = true;
        return;
    }
    object_op_latch(op, buf_slice(key), mode);
}

/* Writers of a bucket share it; with a quota they take turns, so that the quota is exact. */
void object_op_latch_bucket(struct object_op *op, uint64_t bucket, bool may_grow) {
    CLEANUP_BUF struct buf key = {0};
    keys_bucket(&key, bucket);
    struct bucket_record record;
    bool quota = may_grow && directory_bucket_by_id(op->store, bucket, op->pool, &record) == 0 &&
                 (record.quota_bytes > 0 || record.quota_objects > 0);
    latch_buf(op, &key, quota ? META_EXCLUSIVE : META_SHARED);
}

void object_op_latch_object(struct object_op *op, uint64_t bucket, struct slice key,
                            enum meta_latch_mode mode) {
    CLEANUP_BUF struct buf row = {0};
    keys_object(&row, bucket, key);
    latch_buf(op, &row, mode);
}

void object_op_latch_upload(struct object_op *op, uint64_t bucket, struct slice key,
                            const uint8_t upload_id[16], enum meta_latch_mode mode) {
    CLEANUP_BUF struct buf row = {0};
    keys_upload(&row, bucket, key, upload_id);
    latch_buf(op, &row, mode);
}

/* ---- running ---- */

static int txn_fn(struct meta_txn *txn, void *arg) {
    struct object_op *op = arg;
    op->again = false;
    pool_set_limit(meta_txn_pool(txn), OBJECT_POOL_BYTES_MAX);
    int err = op->fn(op, txn);
    return err == 0 && op->unknown_latch ? -HL_ERR_NOMEM : err;
}

static void txn_done(void *arg, int err) {
    struct object_op *op = arg;
    if (op->again && err == -HL_ERR_AGAIN && !op->unknown_latch) {
        if (op->again_count++ < AGAIN_MAX) {
            object_op_run(op);
            return;
        }
        err = -HL_ERR_CONDITIONAL_CONFLICT;
    }
    if (op->finished != NULL) {
        op->finished(op, err);
    } else {
        object_op_end(op, err);
    }
}

static void run_txn(struct object_op *op) {
    if (op->unknown_latch) {
        txn_done(op, -HL_ERR_NOMEM);
        return;
    }
    meta_run(op->store->meta,
             &(struct meta_request){.latches = op->latches,
                                    .latch_count = op->latch_count,
                                    .fn = txn_fn,
                                    .done = txn_done,
                                    .arg = op,
                                    .home = op->on_worker ? op->store->workers : op->home});
}

static void run_task(struct task *task) {
    run_txn(CONTAINER_OF(task, struct object_op, task));
}

void object_op_run(struct object_op *op) {
    if (op->on_worker) {
        object_op_post(op, run_task);
    } else {
        run_txn(op);
    }
}

void object_op_post(struct object_op *op, void (*fn)(struct task *task)) {
    op->task.run = fn;
    executor_post(op->on_worker ? op->store->workers : op->home, &op->task);
}

int object_op_again(struct object_op *op) {
    op->again = true;
    return -HL_ERR_AGAIN;
}

static void call_done(struct task *task) {
    struct object_op *op = CONTAINER_OF(task, struct object_op, task);
    op->done(op->arg, op->err, op->err == 0 && op->has_result ? &op->result : NULL);
}

void object_op_end(struct object_op *op, int err) {
    op->err = err;
    op->task.run = call_done;
    executor_post(op->home, &op->task);
}
