/* Transactions: latches, the entry under construction, completion. Which engine commits is not
 * known here.
 *
 * Life of a transaction (states below): its latches are acquired one after another in ascending
 * order; then fn runs on the home executor; then its entry is proposed; when the engine is done
 * with it the latches are released and done runs on home. All steps but fn and done may be on any
 * thread, one at a time. */
#include "meta/meta.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "meta/engine.h"
#include "meta/entry_format.h"
#include "meta/latch.h"

#define HOLDS_INSIDE  4
#define TXN_MAGIC     0x74786e31u
#define HEAD_OVERHEAD 128

struct meta {
    struct meta_engine *engine;
    struct latch_table *latches;
    struct kv *kv;
    uint64_t entry_bytes_max;
    _Atomic uint64_t live; /* transactions whose done has not returned */
};

struct meta_txn {
    uint32_t magic;
    struct meta *meta;
    struct meta_request request;
    struct task task; /* for the home executor */
    struct meta_proposal proposal;
    struct buf ops; /* the entry: room for its head, then operations */
    struct pool *pool;
    int err;
    struct latch_hold *holds; /* sorted by hash, distinct */
    uint32_t hold_count;
    uint32_t hold_next; /* acquired so far */
    struct latch_hold holds_inside[HOLDS_INSIDE];
};

/* The entry's version byte and sequence are written in front of the operations at the end; this is
 * their room. */
#define ENTRY_HEAD_ROOM (1 + VARINT_MAX)

static void acquire_and_run(struct meta_txn *txn);

/* ---- opening ---- */

static void txn_woken(struct latch_hold *hold);

int meta_open(struct os_env *env, struct kv *kv, const struct meta_sink *sink,
              const struct meta_options *options, struct meta **ret) {
    struct meta *meta = calloc(1, sizeof(*meta));
    if (meta == NULL) {
        return -HL_ERR_NOMEM;
    }
    meta->kv = kv;
    uint64_t segment = options->log.segment_bytes == 0 ? 4u << 20 : options->log.segment_bytes;
    meta->entry_bytes_max = LOG_RECORD_MAX(segment) - 4096;
    meta->latches = latch_table_new(os_random_u64(env->random), txn_woken);
    int err = meta->latches == NULL ? -HL_ERR_NOMEM
                                    : engine_local_new(env, kv, sink, options, &meta->engine);
    if (err < 0) {
        latch_table_free(meta->latches);
        free(meta);
        return err;
    }
    *ret = meta;
    return 0;
}

void meta_stop(struct meta *meta) {
    meta->engine->ops->stop(meta->engine);
}

void meta_close(struct meta *meta) {
    if (meta == NULL) {
        return;
    }
    meta_stop(meta);
    uint64_t live = atomic_load(&meta->live);
    if (live > 0) {
        LOG_WARN("meta", "closing with %llu transactions unfinished", (unsigned long long)live);
        return;
    }
    meta->engine->ops->free(meta->engine);
    latch_table_free(meta->latches);
    free(meta);
}

int meta_recover(struct meta *meta) {
    return meta->engine->ops->recover(meta->engine);
}

int meta_start(struct meta *meta) {
    return meta->engine->ops->start(meta->engine);
}

int meta_commit_turn(struct meta *meta, bool *ret_busy) {
    return meta->engine->ops->turn(meta->engine, ret_busy);
}

int meta_checkpoint(struct meta *meta) {
    return meta->engine->ops->checkpoint(meta->engine);
}

bool meta_failed(const struct meta *meta) {
    return meta->engine->ops->failed(meta->engine);
}

bool meta_stalled(const struct meta *meta) {
    return meta->engine->ops->stalled(meta->engine);
}

struct kv *meta_kv(struct meta *meta) {
    return meta->kv;
}

void meta_watch(struct meta *meta, const char *tables,
                void (*fn)(void *arg, struct slice key, struct slice value), void *arg) {
    meta->engine->ops->watch(meta->engine, tables, fn, arg);
}

int meta_run_local(struct meta *meta, int (*fn)(void *arg, struct kv_batch *batch), void *arg) {
    return meta->engine->ops->run_local(meta->engine, fn, arg);
}

void meta_stats(struct meta *meta, struct meta_stats *ret) {
    *ret = (struct meta_stats){0};
    meta->engine->ops->stats(meta->engine, ret);
}

/* ---- ending ---- */

static void txn_free(struct meta_txn *txn) {
    buf_done(&txn->ops);
    pool_free(txn->pool);
    if (txn->holds != txn->holds_inside) {
        free(txn->holds);
    }
    txn->magic = 0;
    free(txn);
}

static void run_done(struct task *task) {
    struct meta_txn *txn = CONTAINER_OF(task, struct meta_txn, task);
    CHECK(txn->magic == TXN_MAGIC);
    struct meta *meta = txn->meta;
    txn->request.done(txn->request.arg, txn->err);
    txn_free(txn);
    atomic_fetch_sub(&meta->live, 1);
}

/* Releases the latches and lets done run on the home executor. Any thread. */
static void finish(struct meta_txn *txn, int err) {
    for (uint32_t i = 0; i < txn->hold_next; i++) {
        latch_release(txn->meta->latches, &txn->holds[i]);
    }
    txn->hold_next = 0;
    txn->err = err;
    txn->task.run = run_done;
    executor_post(txn->request.home, &txn->task);
}

static void proposal_done(struct meta_proposal *proposal, int err) {
    finish(CONTAINER_OF(proposal, struct meta_txn, proposal), err);
}

/* ---- running ---- */

/* Writes version and sequence in front of the operations; the entry is what lies behind *ret. */
static struct slice seal_entry(struct meta_txn *txn) {
    uint8_t head[ENTRY_HEAD_ROOM] = {ENTRY_VERSION};
    size_t size = 1 + put_varint(head + 1, txn->proposal.sequence);
    size_t off = ENTRY_HEAD_ROOM - size;
    memcpy(txn->ops.data + off, head, size);
    return slice_skip(buf_slice(&txn->ops), off);
}

static void run_fn(struct meta_txn *txn) {
    int err = txn->request.fn(txn, txn->request.arg);
    if (err == 0 && txn->ops.failed) {
        err = -HL_ERR_NOMEM;
    }
    if (err == 0 && txn->ops.size > txn->meta->entry_bytes_max) {
        err = -HL_ERR_LIMIT;
    }
    if (err < 0 || txn->ops.size == 0) {
        finish(txn, err);
        return;
    }
    txn->proposal.entry = seal_entry(txn);
    txn->proposal.done = proposal_done;
    txn->meta->engine->ops->propose(txn->meta->engine, &txn->proposal);
}

static void resume(struct task *task) {
    struct meta_txn *txn = CONTAINER_OF(task, struct meta_txn, task);
    CHECK(txn->magic == TXN_MAGIC);
    acquire_and_run(txn);
}

/* A latch that was waited for is ours now. */
static void txn_woken(struct latch_hold *hold) {
    struct meta_txn *txn = hold->owner;
    txn->hold_next++;
    txn->task.run = resume;
    executor_post(txn->request.home, &txn->task);
}

static void acquire_and_run(struct meta_txn *txn) {
    while (txn->hold_next < txn->hold_count) {
        /* After a refusal the transaction may already run on another thread: touch nothing. */
        if (!latch_acquire(txn->meta->latches, &txn->holds[txn->hold_next])) {
            return;
        }
        txn->hold_next++;
    }
    run_fn(txn);
}

static int compare_holds(const void *a, const void *b) {
    const struct latch_hold *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return (int)y->mode - (int)x->mode; /* exclusive first, so that it survives */
}

static int prepare_holds(struct meta_txn *txn, const struct meta_request *request) {
    txn->holds = txn->holds_inside;
    if (request->latch_count > HOLDS_INSIDE) {
        txn->holds = calloc(request->latch_count, sizeof(*txn->holds));
        if (txn->holds == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    for (uint32_t i = 0; i < request->latch_count; i++) {
        txn->holds[i] = (struct latch_hold){
            .hash = latch_hash(txn->meta->latches, request->latches[i].key),
            .mode = request->latches[i].mode,
            .owner = txn,
        };
    }
    qsort(txn->holds, request->latch_count, sizeof(*txn->holds), compare_holds);
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->latch_count; i++) {
        if (count == 0 || txn->holds[count - 1].hash != txn->holds[i].hash) {
            txn->holds[count++] = txn->holds[i];
        }
    }
    txn->hold_count = count;
    return 0;
}

void meta_run(struct meta *meta, const struct meta_request *request) {
    struct meta_txn *txn = calloc(1, sizeof(*txn));
    CHECK(txn != NULL); /* 400 bytes: without them no refusal could be delivered either */
    atomic_fetch_add(&meta->live, 1);
    txn->magic = TXN_MAGIC;
    txn->meta = meta;
    txn->request = *request;
    int err = prepare_holds(txn, request);
    if (err < 0) {
        txn->holds = txn->holds_inside;
        finish(txn, err);
        return;
    }
    acquire_and_run(txn);
}

/* ---- building the entry ---- */

static void add_op(struct meta_txn *txn, const struct entry_op *op) {
    static const uint8_t room[ENTRY_HEAD_ROOM];
    if (txn->ops.size == 0) {
        buf_append(&txn->ops, room, sizeof(room));
    }
    entry_op_encode(&txn->ops, op);
}

void meta_txn_put(struct meta_txn *txn, struct slice key, struct slice value) {
    add_op(txn, &(struct entry_op){.kind = ENTRY_PUT, .key = key, .value = value});
}

void meta_txn_delete(struct meta_txn *txn, struct slice key) {
    add_op(txn, &(struct entry_op){.kind = ENTRY_DELETE, .key = key});
}

void meta_txn_delete_range(struct meta_txn *txn, struct slice first, struct slice end) {
    add_op(txn, &(struct entry_op){.kind = ENTRY_DELETE_RANGE, .key = first, .value = end});
}

void meta_txn_add(struct meta_txn *txn, struct slice key, int64_t delta) {
    if (delta != 0) {
        add_op(txn, &(struct entry_op){.kind = ENTRY_ADD, .key = key, .delta = delta});
    }
}

/* What the record takes of a volume, about: header and tables are less than HEAD_OVERHEAD. */
static void count_head(struct meta_txn *txn, struct slice key, struct slice value,
                       struct slice body) {
    txn->proposal.head_bytes += key.size + value.size + body.size + HEAD_OVERHEAD;
    txn->proposal.refusable |= body.size > 0;
}

void meta_txn_put_head(struct meta_txn *txn, struct slice key, struct slice value,
                       struct body_id id, struct slice body) {
    count_head(txn, key, value, body);
    add_op(txn, &(struct entry_op){.kind = ENTRY_HEAD,
                                   .key = key,
                                   .value = object_record_split_head(value, id),
                                   .id = id,
                                   .body = body});
}

void meta_txn_head_only(struct meta_txn *txn, struct slice origin_key, struct slice origin_value,
                        struct body_id id, struct slice body) {
    count_head(txn, origin_key, origin_value, body);
    add_op(txn, &(struct entry_op){.kind = ENTRY_HEAD_ONLY,
                                   .key = origin_key,
                                   .value = origin_value,
                                   .id = id,
                                   .body = body});
}

void meta_txn_commit_bodies(struct meta_txn *txn, struct body_id first, uint64_t count) {
    if (count > 0) {
        add_op(txn, &(struct entry_op){.kind = ENTRY_COMMIT, .id = first, .count = count});
    }
}

void meta_txn_free_bodies(struct meta_txn *txn, struct body_id first, uint64_t count) {
    if (count > 0) {
        add_op(txn, &(struct entry_op){.kind = ENTRY_FREE, .id = first, .count = count});
    }
}

void meta_txn_free_head(struct meta_txn *txn, struct body_id id) {
    if (!body_id_is_none(id)) {
        add_op(txn, &(struct entry_op){.kind = ENTRY_FREE_HEAD, .id = id});
    }
}

void meta_txn_put_config(struct meta_txn *txn, struct slice key, struct slice value) {
    add_op(txn, &(struct entry_op){.kind = ENTRY_CONFIG,
                                   .key = key,
                                   .value = value,
                                   .sequence = meta_txn_sequence(txn)});
}

uint64_t meta_txn_sequence(struct meta_txn *txn) {
    txn->proposal.sequence = txn->meta->engine->ops->sequence(txn->meta->engine);
    return txn->proposal.sequence;
}

struct pool *meta_txn_pool(struct meta_txn *txn) {
    if (txn->pool == NULL) {
        txn->pool = pool_new(0);
        CHECK(txn->pool != NULL);
    }
    return txn->pool;
}

struct meta *meta_txn_meta(struct meta_txn *txn) {
    return txn->meta;
}
