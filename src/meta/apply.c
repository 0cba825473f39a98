/* Applying entries: operations become rows in the turn's batch, bodies go to the sink.
 * Deterministic: nothing but the entry and the order of entries decides what is written. Runs under
 * the turn mutex. */
#include <time.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "meta/engine_int.h"

/* KV_LOCAL 'A' group:4 -> index:8 sequence:8 little-endian: what of a group's entries the kv
 * contains. */
static struct slice applied_key(void) {
    static const uint8_t key[5] = {'A', 0, 0, 0, 0};
    return slice_of(key, sizeof(key));
}

int engine_applied_load(struct engine_local *e) {
    CLEANUP_KV_VALUE struct kv_value value = {0};
    int err = kv_get(e->kv, KV_LOCAL, applied_key(), &value);
    if (err == -HL_ERR_NOT_FOUND) {
        return 0;
    }
    if (err < 0) {
        return err;
    }
    if (value.data.size != 16) {
        return -HL_ERR_CORRUPT;
    }
    atomic_store(&e->index, get_le64(value.data.data));
    e->sequence_applied = get_le64(value.data.data + 8);
    return 0;
}

void meta_sequence_restore(struct kv_batch *batch, uint64_t sequence) {
    uint8_t applied[16];
    put_le64(applied, 0);
    put_le64(applied + 8, sequence);
    kv_batch_put(batch, KV_LOCAL, applied_key(), slice_of(applied, sizeof(applied)));
}

static int apply_head(struct engine_local *e, const struct entry_op *op, bool replay) {
    if (op->kind == ENTRY_HEAD) {
        CLEANUP_BUF struct buf row = {0};
        buf_append_slice(&row, op->value);
        object_record_append_head(&row, op->id);
        if (row.failed) {
            return -HL_ERR_NOMEM;
        }
        kv_batch_put(e->batch, KV_META, op->key, buf_slice(&row));
    }
    return e->sink.head(e->sink.ctx, e->batch, op->id, op->key, op->value, op->body, replay);
}

static int apply_config(struct engine_local *e, const struct entry_op *op) {
    if (op->value.size == 0) {
        kv_batch_delete(e->batch, KV_META, op->key);
    } else {
        kv_batch_put(e->batch, KV_META, op->key, op->value);
    }
    return e->sink.config(e->sink.ctx, e->batch, op->key, op->value, op->sequence);
}

static int apply_op(struct engine_local *e, const struct entry_op *op, bool replay) {
    switch (op->kind) {
    case ENTRY_PUT:
        kv_batch_put(e->batch, KV_META, op->key, op->value);
        return 0;
    case ENTRY_DELETE:
        kv_batch_delete(e->batch, KV_META, op->key);
        return 0;
    case ENTRY_DELETE_RANGE:
        kv_batch_delete_range(e->batch, KV_META, op->key, op->value);
        return 0;
    case ENTRY_ADD:
        kv_batch_add(e->batch, KV_META, op->key, op->delta);
        return 0;
    case ENTRY_HEAD:
    case ENTRY_HEAD_ONLY:
        return apply_head(e, op, replay);
    case ENTRY_COMMIT:
        return e->sink.commit(e->sink.ctx, e->batch, op->id, op->count);
    case ENTRY_FREE:
        return e->sink.release(e->sink.ctx, e->batch, op->id, op->count, false);
    case ENTRY_FREE_HEAD:
        return e->sink.release(e->sink.ctx, e->batch, op->id, 1, true);
    case ENTRY_CONFIG:
        return apply_config(e, op);
    }
    return -HL_ERR_CORRUPT;
}

int engine_apply_entry(struct engine_local *e, struct slice entry, bool replay) {
    uint64_t sequence;
    struct reader r = entry_open(entry, &sequence);
    struct entry_op op;
    while (entry_next(&r, &op)) {
        int err = apply_op(e, &op, replay);
        if (err < 0) {
            return err;
        }
    }
    if (r.failed) {
        return -HL_ERR_CORRUPT;
    }
    if (sequence > e->sequence_applied) {
        e->sequence_applied = sequence;
    }
    return 0;
}

/* An entry whose rows the kv already has: RocksDB may have flushed them before the volumes were
 * synced, so the records of its heads may be torn. They are checked and, where needed, written
 * again. Configuration rows are simply written again: a second copy does no harm. */
int engine_verify_entry(struct engine_local *e, struct slice entry) {
    uint64_t sequence;
    struct reader r = entry_open(entry, &sequence);
    struct entry_op op;
    while (entry_next(&r, &op)) {
        int err = 0;
        if (op.kind == ENTRY_HEAD || op.kind == ENTRY_HEAD_ONLY) {
            err = e->sink.replay_head(e->sink.ctx, e->batch, op.id, op.key, op.value, op.body);
        } else if (op.kind == ENTRY_CONFIG) {
            err = e->sink.config(e->sink.ctx, e->batch, op.key, op.value, op.sequence);
        }
        if (err < 0) {
            return err;
        }
    }
    return r.failed ? -HL_ERR_CORRUPT : 0;
}

/* ---- a full disk under what is durable already ---- */

static bool is_stopping(struct engine_local *e) {
    pthread_mutex_lock(&e->mutex);
    bool stopping = e->stopping;
    pthread_mutex_unlock(&e->mutex);
    return stopping;
}

static void end_stall(struct engine_local *e, const struct engine_stall *stall, int err) {
    if (!atomic_exchange(&e->stalled, false)) {
        return;
    }
    if (err == 0) {
        LOG_INFO("meta", "there is room again: commits go on after %llu ms",
                 (unsigned long long)stall->waited_ms);
    } else {
        LOG_ERROR("meta",
                  "still no room after %llu ms: what is in the log is applied by the next start; "
                  "make room first",
                  (unsigned long long)stall->waited_ms);
    }
}

bool engine_stall_retry(struct engine_local *e, struct engine_stall *stall, int err) {
    bool retry =
        err == -HL_ERR_NO_SPACE && stall->waited_ms < e->options.stall_ms_max && !is_stopping(e);
    if (!retry) {
        end_stall(e, stall, err);
        return false;
    }
    if (!atomic_exchange(&e->stalled, true)) {
        LOG_WARN("meta",
                 "the disk is full: writes that are durable in the log wait up to %llu s for room "
                 "to be applied; reads go on",
                 (unsigned long long)(e->options.stall_ms_max / 1000));
    }
    stall->wait_ms = stall->wait_ms == 0 ? ENGINE_STALL_WAIT_MS : MIN(stall->wait_ms * 2, 1000u);
    stall->waited_ms += stall->wait_ms;
    if (e->env->clock == os_clock_real()) { /* simulated time passes by being counted */
        struct timespec pause = {(time_t)(stall->wait_ms / 1000),
                                 (long)(stall->wait_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
    }
    return true;
}

int engine_turn_end(struct engine_local *e, struct engine_stall *stall) {
    int err;
    do {
        err = e->sink.turn_end(e->sink.ctx, e->batch);
    } while (engine_stall_retry(e, stall, err));
    return err;
}

/* The store refuses the same batch for some seconds after its disk was full, see kv.h. */
int engine_kv_write(struct engine_local *e, struct engine_stall *stall) {
    int err;
    do {
        err = kv_write(e->kv, e->batch);
    } while (engine_stall_retry(e, stall, err));
    return err;
}

int engine_apply_end(struct engine_local *e, uint64_t index) {
    struct engine_stall stall = {0};
    int err = engine_turn_end(e, &stall);
    if (err < 0) {
        return err;
    }
    uint8_t applied[16];
    put_le64(applied, index);
    put_le64(applied + 8, e->sequence_applied);
    kv_batch_put(e->batch, KV_LOCAL, applied_key(), slice_of(applied, sizeof(applied)));
    FAILPOINT("meta.apply.before_write");
    err = engine_kv_write(e, &stall);
    kv_batch_clear(e->batch);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.apply.written");
    e->sink.turn_applied(e->sink.ctx);
    atomic_store(&e->index, index);
    return 0;
}

static void notify_op(struct engine_local *e, struct slice key, struct slice value) {
    for (uint32_t i = 0; i < e->watcher_count; i++) {
        const struct engine_watcher *w = &e->watchers[i];
        if (key.size > 0 && key.data[0] != 0 && strchr(w->tables, key.data[0]) != NULL) {
            w->fn(w->arg, key, value);
        }
    }
}

void engine_notify(struct engine_local *e, struct slice entry) {
    if (e->watcher_count == 0) {
        return;
    }
    uint64_t sequence;
    struct reader r = entry_open(entry, &sequence);
    struct entry_op op;
    while (entry_next(&r, &op)) {
        if (op.kind == ENTRY_PUT || op.kind == ENTRY_CONFIG) {
            notify_op(e, op.key, op.value);
        } else if (op.kind == ENTRY_DELETE) {
            notify_op(e, op.key, SLICE_EMPTY);
        }
    }
}
