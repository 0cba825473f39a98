/* Recovery and checkpoints of the built-in engine.
 *
 * A checkpoint makes everything applied up to a position of the log durable elsewhere (volumes
 * synced, kv flushed) and then releases the log before it. Recovery replays what the log still
 * holds: entries that the kv lacks are applied, entries that it has are verified, because the kv
 * may have been flushed by itself before the volumes were. Both may be cut by a crash anywhere and
 * are simply done again. */
#include <time.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "meta/engine_int.h"

/* ---- recovery ---- */

struct replay {
    struct engine_local *e;
    uint64_t next; /* index expected; 0 before the first record */
    uint64_t applied_count;
    uint64_t seen; /* the highest index that the log tells of */
};

/* The log's own witness of how far the kv must be: entries before it may be released, so their rows
 * cannot come back from the log. A kv that is behind was lost or replaced by an old copy; going on
 * would take everything that it does not name for garbage. */
static int replay_checkpoint(struct engine_local *e, uint64_t index) {
    uint64_t applied = atomic_load(&e->index);
    if (index <= applied) {
        return 0;
    }
    LOG_ERROR("meta",
              "the names (kv) end at entry %llu, the log was checkpointed at %llu: kv was lost or "
              "is an old copy; "
              "put the right one back, or run: hayloft rebuild",
              (unsigned long long)applied, (unsigned long long)index);
    return -HL_ERR_CORRUPT;
}

static int replay_record(void *arg, const struct log_record *record, struct slice payload,
                         struct log_position position) {
    struct replay *replay = arg;
    struct engine_local *e = replay->e;
    replay->seen = MAX(replay->seen, record->index);
    if (record->kind == LOG_CHECKPOINT) {
        return replay_checkpoint(e, record->index);
    }
    if (record->kind != LOG_ENTRY) {
        return 0; /* hard state: a single voter has none to restore */
    }
    uint64_t applied = atomic_load(&e->index);
    bool gap = replay->next == 0 ? record->index > applied + 1 : record->index != replay->next;
    if (gap) {
        LOG_ERROR("meta",
                  "the log continues at entry %llu where %llu was expected (segment %llu, "
                  "offset %llu)",
                  (unsigned long long)record->index,
                  (unsigned long long)(replay->next == 0 ? applied + 1 : replay->next),
                  (unsigned long long)position.segment, (unsigned long long)position.off);
        return -HL_ERR_CORRUPT;
    }
    replay->next = record->index + 1;
    e->last_turn = position;
    bool known = record->index <= applied;
    int err = known ? engine_verify_entry(e, payload) : engine_apply_entry(e, payload, true);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.recover.entry");
    replay->applied_count += !known;
    return engine_apply_end(e, known ? applied : record->index);
}

/* An entry is applied only after it is durable in the log, and the log always keeps its last entry
 * or a checkpoint's witness. A kv that is ahead means that log files are gone, and with them what
 * was acknowledged and not yet flushed. */
static int check_log_reaches(struct engine_local *e, uint64_t seen, uint64_t applied_before) {
    if (seen >= applied_before) {
        return 0;
    }
    LOG_ERROR("meta",
              "the log ends at entry %llu, the names (kv) at %llu: files of the log were lost or "
              "are an old copy; put them "
              "back, or run: hayloft rebuild",
              (unsigned long long)seen, (unsigned long long)applied_before);
    return -HL_ERR_CORRUPT;
}

int engine_recover(struct meta_engine *engine) {
    struct engine_local *e = CONTAINER_OF(engine, struct engine_local, engine);
    int err = engine_applied_load(e);
    if (err < 0) {
        return err;
    }
    uint64_t applied_before = atomic_load(&e->index);
    struct replay replay = {.e = e};
    err = log_recover(e->log, replay_record, &replay);
    if (err == 0) {
        err = check_log_reaches(e, replay.seen, applied_before);
    }
    if (err < 0) {
        LOG_ERROR("meta", "recovery stopped: %s", error_text(err));
        return err;
    }
    atomic_store(&e->sequence, e->sequence_applied);
    atomic_store(&e->append_us, os_mono_us(e->env->clock));
    atomic_store(&e->dirty, replay.next != 0);
    if (replay.next != 0) {
        LOG_INFO("meta", "replayed the log: %llu entries applied, at entry %llu",
                 (unsigned long long)replay.applied_count,
                 (unsigned long long)atomic_load(&e->index));
    }
    return 0;
}

/* ---- checkpoints ---- */

struct checkpoint {
    struct engine_local *e;
    struct log_position position;
};

static int checkpoint_begin(void *arg, struct kv_batch *batch) {
    struct checkpoint *checkpoint = arg;
    struct engine_local *e = checkpoint->e;
    checkpoint->position = log_tail(e->log);
    struct log_record record = {
        .kind = LOG_CHECKPOINT, .term = e->term, .index = atomic_load(&e->index)};
    int err = log_append(e->log, &record, 1);
    if (err == -HL_ERR_NO_SPACE || err == -HL_ERR_BUSY) {
        /* A full log needs this checkpoint more than its witness; the last turn stays as one. */
        checkpoint->position = e->last_turn;
    } else if (err < 0) {
        return err;
    }
    FAILPOINT("meta.checkpoint.witnessed");
    atomic_store(&e->dirty, false);
    return e->sink.checkpoint_begin(e->sink.ctx, batch);
}

static int run_checkpoint(struct engine_local *e) {
    struct checkpoint checkpoint = {.e = e};
    int err = engine_run_local(&e->engine, checkpoint_begin, &checkpoint);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.checkpoint.begun");
    err = e->sink.checkpoint_sync(e->sink.ctx);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.checkpoint.synced");
    err = kv_flush(e->kv);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.checkpoint.flushed");
    err = log_release(e->log, checkpoint.position);
    if (err < 0) {
        return err;
    }
    FAILPOINT("meta.checkpoint.released");
    return e->sink.checkpoint_done(e->sink.ctx);
}

int engine_checkpoint(struct meta_engine *engine) {
    struct engine_local *e = CONTAINER_OF(engine, struct engine_local, engine);
    pthread_mutex_lock(&e->checkpoint_mutex);
    int err = atomic_load(&e->failed) ? -HL_ERR_CRASHED : run_checkpoint(e);
    if (err == 0) {
        atomic_fetch_add(&e->checkpoints, 1);
        atomic_store(&e->checkpoint_last_ms, os_wall_ms(e->env->clock));
    } else {
        atomic_store(&e->dirty, true);
    }
    pthread_mutex_unlock(&e->checkpoint_mutex);
    if (err == -HL_ERR_IO || err == -HL_ERR_CRASHED) {
        return engine_fatal(e, err);
    }
    return err;
}

static bool idle_for_checkpoint(struct engine_local *e) {
    uint64_t quiet_us = os_mono_us(e->env->clock) - atomic_load(&e->append_us);
    return atomic_load(&e->dirty) && quiet_us >= e->options.checkpoint_idle_ms * 1000;
}

/* Waits until a checkpoint is due; false when stopping. */
static bool wait_for_checkpoint(struct engine_local *e, bool *ret_idle) {
    bool due = false;
    pthread_mutex_lock(&e->mutex);
    while (!e->stopping && !due) {
        *ret_idle = idle_for_checkpoint(e);
        due = e->checkpoint_wanted || *ret_idle;
        if (!due) {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += 1;
            pthread_cond_timedwait(&e->checkpoint_wake, &e->mutex, &until);
        }
    }
    e->checkpoint_wanted = false;
    bool stopping = e->stopping;
    pthread_mutex_unlock(&e->mutex);
    return !stopping;
}

/* One that fails loses nothing: what it was to make durable elsewhere stays in the log. */
static void checkpoint_failed(struct engine_local *e, int err) {
    if (!e->checkpoint_warned) {
        LOG_WARN("meta", "checkpoint failed: %s; it is tried again each second", error_text(err));
    }
    e->checkpoint_warned = true;
    struct timespec pause = {1, 0};
    nanosleep(&pause, NULL);
    engine_want_checkpoint(e);
}

void *engine_checkpoint_main(void *arg) {
    struct engine_local *e = arg;
    bool idle;
    while (wait_for_checkpoint(e, &idle)) {
        int err = engine_checkpoint(&e->engine);
        if (err == 0 && idle) {
            err = log_trim(e->log);
        }
        if (err == 0) {
            /* Without room there is none ahead of need, which is no failure of the checkpoint. */
            err = log_prepare(e->log);
            err = err == -HL_ERR_NO_SPACE ? 0 : err;
        }
        if (err < 0) {
            checkpoint_failed(e, err);
            continue;
        }
        if (e->checkpoint_warned) {
            LOG_INFO("meta", "checkpoints succeed again");
        }
        e->checkpoint_warned = false;
    }
    return NULL;
}
