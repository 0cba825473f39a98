/* Deleting objects: up to 1000 keys, each with its own condition and result; what was not there
 * counts as deleted. All go in one transaction unless their bodies are so many that an entry cannot
 * hold them: then in several, which S3 allows, because every key is on its own. */
#include "object/object_int.h"

#define DELETE_MAX     1000
#define DELETE_ON_LOOP 16    /* more keys than this are worked on by a worker */
#define UNITS_MAX      50000 /* of one transaction: an entry holds no more anyway */

struct delete_op {
    struct object_op op;
    uint64_t bucket;
    struct object_delete_item *items;
    uint32_t count;
    uint32_t from, window; /* the items of this transaction */
};

/* Not the first of its key in the request: the transaction's reads do not see its own writes. */
static bool repeated(const struct delete_op *d, uint32_t index, const uint32_t *order,
                     const uint32_t *rank) {
    uint32_t at = rank[index];
    return at > 0 && slice_equal(d->items[order[at - 1]].key, d->items[index].key);
}

static int compare_keys(const void *a, const void *b, void *arg) {
    const struct object_delete_item *items = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int c = slice_compare(items[x].key, items[y].key);
    return c != 0 ? c : x < y ? -1 : x > y;
}

/* order: items by key; rank: the place of each item in it. */
static int sort_items(const struct delete_op *d, struct pool *pool, uint32_t **ret_order,
                      uint32_t **ret_rank) {
    uint32_t *order = pool_alloc(pool, d->count * sizeof(*order));
    uint32_t *rank = pool_alloc(pool, d->count * sizeof(*rank));
    if (order == NULL || rank == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        order[i] = i;
    }
    qsort_r(order, d->count, sizeof(*order), compare_keys, d->items);
    for (uint32_t i = 0; i < d->count; i++) {
        rank[order[i]] = i;
    }
    *ret_order = order;
    *ret_rank = rank;
    return 0;
}

static int delete_one(struct delete_op *d, struct meta_txn *txn, struct object_delete_item *item,
                      struct pool *scratch, struct object_units *units,
                      struct object_delta *delta) {
    struct object_current current;
    pool_reset(scratch);
    int err = object_current_load(&d->op, scratch, d->bucket, item->key, &current);
    if (err < 0 || !current.found) {
        return err;
    }
    item->err = object_conditions_write(item->conditions, &current.record);
    if (item->err < 0) {
        return 0;
    }
    CLEANUP_BUF struct buf row_key = {0};
    keys_object(&row_key, d->bucket, item->key);
    err = row_key.failed ? -HL_ERR_NOMEM
                         : object_units_add_record(units, meta_txn_pool(txn), &current.record);
    if (err == 0 && units->count > UNITS_MAX) {
        err = -HL_ERR_LIMIT;
    }
    if (err < 0) {
        return err;
    }
    item->existed = true;
    meta_txn_delete(txn, buf_slice(&row_key));
    meta_txn_free_head(txn, current.record.head);
    delta->objects--;
    delta->bytes -= (int64_t)current.record.size;
    return 0;
}

static int delete_txn(struct object_op *op, struct meta_txn *txn) {
    struct delete_op *d = CONTAINER_OF(op, struct delete_op, op);
    struct object_units units = {0};
    struct object_delta delta = {0};
    uint32_t *order, *rank;
    CLEANUP_POOL struct pool *scratch = pool_new(0);
    int err = scratch == NULL ? -HL_ERR_NOMEM : object_bucket_check(op, d->bucket, &delta);
    if (err == 0) {
        err = sort_items(d, meta_txn_pool(txn), &order, &rank);
    }
    uint32_t end = MIN(d->count, d->from + d->window);
    for (uint32_t i = d->from; i < end && err == 0; i++) {
        d->items[i].err = 0;
        d->items[i].existed = false;
        if (!repeated(d, i, order, rank)) {
            err = delete_one(d, txn, &d->items[i], scratch, &units, &delta);
        }
    }
    if (err == 0) {
        err = object_units_release(op, txn, &units);
    }
    if (err < 0) {
        return err;
    }
    object_count(txn, d->bucket, &delta);
    FAILPOINT("object.commit.delete");
    return 0;
}

/* Goes on with the next items, or again with fewer when an entry could not hold them. */
static void delete_finished(struct object_op *op, int err) {
    struct delete_op *d = CONTAINER_OF(op, struct delete_op, op);
    if (err == -HL_ERR_LIMIT && d->window > 1) {
        d->window /= 2;
        object_op_run(op);
        return;
    }
    if (err == 0 && d->window < d->count - d->from) {
        d->from += d->window;
        object_op_run(op);
        return;
    }
    object_op_end(op, err);
}

void object_delete(struct object_store *store, uint64_t bucket, struct object_delete_item *items,
                   uint32_t count, struct pool *pool, struct executor *home, object_done_fn done,
                   void *arg) {
    CHECK(count >= 1 && count <= DELETE_MAX);
    struct delete_op *d = POOL_NEW(pool, struct delete_op);
    CHECK(d != NULL); /* a few hundred bytes: without them no refusal could be delivered either */
    object_op_init(&d->op, store, pool, home, done, arg);
    d->bucket = bucket;
    d->items = items;
    d->count = count;
    d->window = count;
    d->op.fn = delete_txn;
    d->op.finished = delete_finished;
    d->op.on_worker = count > DELETE_ON_LOOP;
    object_op_latch_bucket(&d->op, bucket, false);
    for (uint32_t i = 0; i < count; i++) {
        object_op_latch_object(&d->op, bucket, items[i].key, META_EXCLUSIVE);
    }
    object_op_run(&d->op);
}
