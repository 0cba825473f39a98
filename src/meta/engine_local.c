/* The built-in engine: one voter, the node's log and its ordered store.
 *
 * A turn gathers everything proposed since the last one, appends it to the log with one write and
 * one sync, applies it, and only then completes the proposals, in order (design.md section 5). With
 * one client that is one sync a write, with fifty one sync for many. An error after the append is
 * fatal: what is durable is unknown, so nothing is acknowledged and the process stops. A full disk
 * is not: before the append it refuses what brings new bodies, after it the turn waits for room
 * (apply.c) for a stated time.
 *
 * Threads: propose from any; the turn on the commit thread (or by hand in simulation); see
 * engine_int.h for the locks. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/metrics.h"
#include "meta/engine_int.h"

static METRIC_DEFINE_COUNTER(metric_turns, "hayloft_commit_turns_total", NULL,
                             "Group commits: log appends with one sync each.");
static METRIC_DEFINE_COUNTER(metric_entries, "hayloft_commit_entries_total", NULL,
                             "Entries committed and applied.");
METRIC_DEFINE_HISTOGRAM(metric_turn_us, "hayloft_commit_turn_seconds", NULL,
                        "Time of a group commit, from gathering to completion.");

static struct engine_local *local(struct meta_engine *engine) {
    return CONTAINER_OF(engine, struct engine_local, engine);
}

int engine_fatal(struct engine_local *e, int err) {
    if (!atomic_exchange(&e->failed, true)) {
        if (err != -HL_ERR_CRASHED) {
            LOG_ERROR("meta",
                      "cannot make a commit durable: %s; stopping, nothing of it was "
                      "acknowledged",
                      error_text(err));
        }
        if (e->options.fatal != NULL) {
            e->options.fatal(e->options.fatal_ctx, err);
        }
    }
    return -HL_ERR_CRASHED;
}

/* ---- proposing ---- */

static void engine_propose(struct meta_engine *engine, struct meta_proposal *proposal) {
    struct engine_local *e = local(engine);
    int err = 0;
    pthread_mutex_lock(&e->mutex);
    if (atomic_load(&e->failed)) {
        err = -HL_ERR_CRASHED;
    } else if (e->stopping) {
        err = -HL_ERR_CANCELED;
    } else if (e->queued_bytes + proposal->entry.size > ENGINE_QUEUE_BYTES_MAX) {
        err = -HL_ERR_SLOW_DOWN;
    } else {
        proposal->next = NULL;
        bool was_empty = e->first == NULL;
        *e->last = proposal;
        e->last = &proposal->next;
        e->queued_bytes += proposal->entry.size;
        if (was_empty) {
            pthread_cond_signal(&e->wake);
        }
    }
    pthread_mutex_unlock(&e->mutex);
    if (err < 0) {
        proposal->done(proposal, err);
    }
}

static uint64_t engine_sequence(struct meta_engine *engine) {
    return atomic_fetch_add(&local(engine)->sequence, 1) + 1;
}

/* Takes as many proposals as one turn may hold, in order. */
static struct meta_proposal *take_turn(struct engine_local *e, uint32_t *ret_count) {
    pthread_mutex_lock(&e->mutex);
    struct meta_proposal *first = e->first;
    struct meta_proposal **link = &e->first;
    uint64_t bytes = 0;
    uint32_t count = 0;
    while (*link != NULL && count < ENGINE_TURN_RECORDS &&
           (count == 0 || bytes + (*link)->entry.size <= e->options.turn_bytes_max)) {
        bytes += (*link)->entry.size;
        count++;
        link = &(*link)->next;
    }
    struct meta_proposal *rest = *link;
    *link = NULL;
    e->first = rest;
    if (rest == NULL) {
        e->last = &e->first;
    }
    e->queued_bytes -= bytes;
    pthread_mutex_unlock(&e->mutex);
    *ret_count = count;
    return count == 0 ? NULL : first;
}

static void complete_all(struct meta_proposal *list, int err) {
    while (list != NULL) {
        struct meta_proposal *next = list->next;
        list->done(list, err);
        list = next;
    }
}

/* ---- a turn ---- */

static int append_turn(struct engine_local *e, struct meta_proposal *list, uint32_t count) {
    struct log_record records[ENGINE_TURN_RECORDS];
    struct iovec parts[ENGINE_TURN_RECORDS];
    uint64_t index = atomic_load(&e->index);
    uint32_t i = 0;
    for (struct meta_proposal *p = list; p != NULL; p = p->next, i++) {
        parts[i] = (struct iovec){(void *)(uintptr_t)p->entry.data, p->entry.size};
        records[i] = (struct log_record){.group = p->group,
                                         .kind = LOG_ENTRY,
                                         .term = e->term,
                                         .index = index + 1 + i,
                                         .parts = &parts[i],
                                         .part_count = 1};
    }
    CHECK(i == count);
    struct log_position position = log_tail(e->log);
    int err = log_append(e->log, records, (int)count);
    if (err == 0) {
        e->last_turn = position;
        atomic_store(&e->append_us, os_mono_us(e->env->clock));
        atomic_store(&e->dirty, true);
    }
    return err;
}

static int apply_turn(struct engine_local *e, struct meta_proposal *list, uint32_t count) {
    for (struct meta_proposal *p = list; p != NULL; p = p->next) {
        int err = engine_apply_entry(e, p->entry, false);
        if (err < 0) {
            return err;
        }
    }
    int err = engine_apply_end(e, atomic_load(&e->index) + count);
    if (err < 0) {
        return err;
    }
    for (struct meta_proposal *p = list; p != NULL; p = p->next) {
        engine_notify(e, p->entry);
    }
    return 0;
}

void engine_want_checkpoint(struct engine_local *e) {
    pthread_mutex_lock(&e->mutex);
    e->checkpoint_wanted = true;
    pthread_cond_signal(&e->checkpoint_wake);
    pthread_mutex_unlock(&e->mutex);
}

static void checkpoint_when_large(struct engine_local *e) {
    struct log_stats stats;
    log_stats(e->log, &stats);
    if (stats.held_bytes >= e->options.checkpoint_log_bytes) {
        engine_want_checkpoint(e);
    }
}

/* The proposals of a turn: those that go on, and those that a full disk refuses. */
struct turn {
    struct meta_proposal *list;
    uint32_t count;
    struct meta_proposal *refused;
    int refused_err;
};

/* Takes out what brings new bodies: all of it, or (err NO_SPACE of the sink) what has no room. */
static void refuse_bodies(struct engine_local *e, struct turn *turn, int err, bool all) {
    struct meta_proposal *list = turn->list, **keep = &turn->list, **refused = &turn->refused;
    uint64_t bytes = 0;
    while (*refused != NULL) {
        refused = &(*refused)->next;
    }
    for (struct meta_proposal *p = list; p != NULL; p = p->next) {
        bool goes = p->refusable && (all || e->sink.room(e->sink.ctx, bytes + p->head_bytes) < 0);
        if (goes) {
            turn->count--;
            turn->refused_err = err;
            *refused = p;
            refused = &p->next;
        } else {
            bytes += p->refusable ? p->head_bytes : 0;
            *keep = p;
            keep = &p->next;
        }
    }
    *keep = NULL;
    *refused = NULL;
}

/* The log's last spare segment is for what makes room: without another one nothing else goes in. */
static int keep_spare(struct engine_local *e) {
    struct log_stats stats;
    log_stats(e->log, &stats);
    return stats.spare_count > 0 ? 0 : log_prepare(e->log);
}

/* Once they are in the log they must be applied, so they are refused before. Deletes, aborts and
 * completions are small, make room, and may use the reserve. */
static int refuse_without_room(struct engine_local *e, struct turn *turn) {
    uint64_t bytes = 0;
    for (const struct meta_proposal *p = turn->list; p != NULL; p = p->next) {
        bytes += p->refusable ? p->head_bytes : 0;
    }
    if (bytes > 0 && e->sink.room != NULL && e->sink.room(e->sink.ctx, bytes) < 0) {
        refuse_bodies(e, turn, -HL_ERR_NO_SPACE, false);
    }
    int err = bytes > 0 ? keep_spare(e) : 0;
    if (err != -HL_ERR_NO_SPACE) {
        return err;
    }
    refuse_bodies(e, turn, -HL_ERR_NO_SPACE, true);
    if (atomic_load(&e->dirty)) {
        engine_want_checkpoint(e);
    }
    return 0;
}

/* NO_SPACE and BUSY: nothing was appended, the log is intact. A checkpoint is asked for at once,
 * since it is what gives segments back; what brings no bodies may still fit into the last one. */
static int append_or_refuse(struct engine_local *e, struct turn *turn) {
    int err = append_turn(e, turn->list, turn->count);
    if (err != -HL_ERR_NO_SPACE && err != -HL_ERR_BUSY) {
        return err;
    }
    if (atomic_load(&e->dirty)) {
        engine_want_checkpoint(e);
    }
    uint32_t count = turn->count;
    refuse_bodies(e, turn, err, true);
    return turn->count == 0 || turn->count == count ? err : append_turn(e, turn->list, turn->count);
}

/* Under the turn mutex. */
static int commit_list(struct engine_local *e, struct turn *turn) {
    if (atomic_load(&e->failed)) {
        return -HL_ERR_CRASHED;
    }
    int err = refuse_without_room(e, turn);
    if (err == 0 && turn->count == 0) {
        return 0;
    }
    err = err < 0 ? err : append_or_refuse(e, turn);
    if (err == -HL_ERR_NO_SPACE || err == -HL_ERR_BUSY) {
        return err; /* these writes are refused, the store goes on */
    }
    if (err < 0) {
        return engine_fatal(e, err);
    }
    FAILPOINT("meta.turn.appended");
    err = apply_turn(e, turn->list, turn->count);
    if (err < 0) {
        return engine_fatal(e, err);
    }
    return 0;
}

static void enter_turn(struct engine_local *e) {
    pthread_mutex_lock(&e->mutex);
    while (e->local_waiting > 0) {
        pthread_cond_wait(&e->turn_free, &e->mutex);
    }
    pthread_mutex_unlock(&e->mutex);
    pthread_mutex_lock(&e->turn_mutex);
}

/* Nothing was proposed: gives the sink a chance to reclaim what readers held. */
static int idle_turn(struct engine_local *e) {
    if (atomic_load(&e->failed)) {
        return -HL_ERR_CRASHED;
    }
    struct engine_stall stall = {0};
    int err = engine_turn_end(e, &stall);
    if (err == 0 && kv_batch_count(e->batch) > 0) {
        err = engine_kv_write(e, &stall);
    }
    kv_batch_clear(e->batch);
    if (err < 0) {
        return engine_fatal(e, err);
    }
    e->sink.turn_applied(e->sink.ctx);
    return 0;
}

static int engine_turn(struct meta_engine *engine, bool *ret_busy) {
    struct engine_local *e = local(engine);
    uint64_t start_us = os_mono_us(e->env->clock);
    struct turn turn = {0};
    enter_turn(e);
    turn.list = take_turn(e, &turn.count);
    *ret_busy = turn.list != NULL;
    int err = turn.list == NULL ? idle_turn(e) : commit_list(e, &turn);
    pthread_mutex_unlock(&e->turn_mutex);
    if (!*ret_busy) {
        return err;
    }
    FAILPOINT("meta.turn.before_reply");
    complete_all(turn.list, err);
    complete_all(turn.refused, turn.refused_err);
    atomic_fetch_add(&e->turns, 1);
    atomic_fetch_add(&e->proposals, turn.count);
    metric_add(&metric_turns, 1);
    metric_add(&metric_entries, turn.count);
    metric_observe_us(&metric_turn_us, os_mono_us(e->env->clock) - start_us);
    checkpoint_when_large(e);
    return err;
}

int engine_run_local(struct meta_engine *engine, int (*fn)(void *arg, struct kv_batch *batch),
                     void *arg) {
    struct engine_local *e = local(engine);
    pthread_mutex_lock(&e->mutex);
    e->local_waiting++;
    pthread_mutex_unlock(&e->mutex);
    pthread_mutex_lock(&e->turn_mutex);
    struct engine_stall stall = {0};
    int err = atomic_load(&e->failed) ? -HL_ERR_CRASHED : fn(arg, e->batch);
    if (err == 0 && kv_batch_count(e->batch) > 0) {
        err = engine_kv_write(e, &stall);
        if (err < 0) {
            err = engine_fatal(e, err);
        }
    }
    kv_batch_clear(e->batch);
    pthread_mutex_unlock(&e->turn_mutex);
    pthread_mutex_lock(&e->mutex);
    e->local_waiting--;
    pthread_cond_broadcast(&e->turn_free);
    pthread_mutex_unlock(&e->mutex);
    return err;
}

/* ---- threads ---- */

static void *commit_main(void *arg) {
    struct engine_local *e = arg;
    for (;;) {
        pthread_mutex_lock(&e->mutex);
        if (e->first == NULL && !e->stopping) {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += 1;
            pthread_cond_timedwait(&e->wake, &e->mutex, &until);
        }
        bool stop = e->stopping;
        pthread_mutex_unlock(&e->mutex);
        if (stop) {
            return NULL;
        }
        bool busy;
        if (engine_turn(&e->engine, &busy) == -HL_ERR_CRASHED && !busy) {
            /* Failed and nothing to refuse: wait for the stop without spinning. */
            struct timespec pause = {0, 10 * 1000 * 1000};
            nanosleep(&pause, NULL);
        }
    }
}

static int engine_start(struct meta_engine *engine) {
    struct engine_local *e = local(engine);
    if (pthread_create(&e->commit_thread, NULL, commit_main, e) != 0) {
        return -HL_ERR_NOMEM;
    }
    if (pthread_create(&e->checkpoint_thread, NULL, engine_checkpoint_main, e) != 0) {
        pthread_mutex_lock(&e->mutex);
        e->stopping = true;
        pthread_cond_signal(&e->wake);
        pthread_mutex_unlock(&e->mutex);
        pthread_join(e->commit_thread, NULL);
        return -HL_ERR_NOMEM;
    }
    e->started = true;
    return 0;
}

static void engine_stop(struct meta_engine *engine) {
    struct engine_local *e = local(engine);
    pthread_mutex_lock(&e->mutex);
    e->stopping = true;
    pthread_cond_signal(&e->wake);
    pthread_cond_signal(&e->checkpoint_wake);
    pthread_mutex_unlock(&e->mutex);
    if (e->started) {
        pthread_join(e->commit_thread, NULL);
        pthread_join(e->checkpoint_thread, NULL);
        e->started = false;
    }
    struct meta_proposal *list = e->first;
    e->first = NULL;
    e->last = &e->first;
    complete_all(list, -HL_ERR_CANCELED);
}

/* ---- the rest of the interface ---- */

static bool engine_failed(const struct meta_engine *engine) {
    return atomic_load(&CONTAINER_OF(engine, struct engine_local, engine)->failed);
}

static bool engine_stalled(const struct meta_engine *engine) {
    return atomic_load(&CONTAINER_OF(engine, struct engine_local, engine)->stalled);
}

static void engine_watch(struct meta_engine *engine, const char *tables,
                         void (*fn)(void *arg, struct slice key, struct slice value), void *arg) {
    struct engine_local *e = local(engine);
    CHECK(e->watcher_count < ENGINE_WATCHER_MAX);
    e->watchers[e->watcher_count++] = (struct engine_watcher){tables, fn, arg};
}

static void engine_stats(struct meta_engine *engine, struct meta_stats *ret) {
    struct engine_local *e = local(engine);
    log_stats(e->log, &ret->log);
    ret->applied_index = atomic_load(&e->index);
    ret->sequence = atomic_load(&e->sequence);
    ret->turns = atomic_load(&e->turns);
    ret->proposals = atomic_load(&e->proposals);
    ret->checkpoints = atomic_load(&e->checkpoints);
    ret->checkpoint_last_ms = atomic_load(&e->checkpoint_last_ms);
}

static void engine_free(struct meta_engine *engine) {
    struct engine_local *e = local(engine);
    log_close(e->log);
    kv_batch_free(e->batch);
    pthread_mutex_destroy(&e->mutex);
    pthread_mutex_destroy(&e->turn_mutex);
    pthread_mutex_destroy(&e->checkpoint_mutex);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->turn_free);
    pthread_cond_destroy(&e->checkpoint_wake);
    free(e);
}

static const struct meta_engine_ops engine_local_ops = {
    .propose = engine_propose,
    .recover = engine_recover,
    .start = engine_start,
    .stop = engine_stop,
    .turn = engine_turn,
    .run_local = engine_run_local,
    .checkpoint = engine_checkpoint,
    .failed = engine_failed,
    .stalled = engine_stalled,
    .sequence = engine_sequence,
    .watch = engine_watch,
    .stats = engine_stats,
    .free = engine_free,
};

static void init_locks(struct engine_local *e) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->mutex, NULL);
    pthread_mutex_init(&e->turn_mutex, NULL);
    pthread_mutex_init(&e->checkpoint_mutex, NULL);
    pthread_cond_init(&e->wake, &monotonic);
    pthread_cond_init(&e->turn_free, &monotonic);
    pthread_cond_init(&e->checkpoint_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void default_u64(uint64_t *value, uint64_t otherwise) {
    if (*value == 0) {
        *value = otherwise;
    }
}

int engine_local_new(struct os_env *env, struct kv *kv, const struct meta_sink *sink,
                     const struct meta_options *options, struct meta_engine **ret) {
    struct engine_local *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return -HL_ERR_NOMEM;
    }
    e->engine.ops = &engine_local_ops;
    e->env = env;
    e->kv = kv;
    e->sink = *sink;
    e->options = *options;
    e->term = 1;
    e->last = &e->first;
    default_u64(&e->options.log.segment_bytes, 4u << 20);
    default_u64(&e->options.checkpoint_log_bytes, 32u << 20);
    default_u64(&e->options.checkpoint_idle_ms, 10 * 1000);
    default_u64(&e->options.turn_bytes_max, 1u << 20);
    default_u64(&e->options.stall_ms_max, ENGINE_STALL_MS_MAX);
    init_locks(e);
    e->batch = kv_batch_new(kv);
    int err = e->batch == NULL ? -HL_ERR_NOMEM
                               : log_open(env, options->log_path, &e->options.log, &e->log);
    if (err < 0) {
        engine_free(&e->engine);
        return err;
    }
    metric_register(&metric_turns);
    metric_register(&metric_entries);
    metric_register(&metric_turn_us);
    *ret = &e->engine;
    return 0;
}
