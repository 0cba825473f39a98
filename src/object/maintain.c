/* Maintenance: compaction, scrub, forgetting completed uploads, and the numbers of the whole store.
 * With threads one thread does it, a bounded piece at a time, and sleeps when nothing is to do;
 * without, object_step does a piece when the store is otherwise idle. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "object/object_int.h"

#define COMPACT_STEP_BYTES (4u << 20)
#define SCRUB_STEP_BYTES   (1u << 20)
#define SIM_STEP_BYTES     (256u << 10)
#define SLEEP_MS           1000
#define BUSY_SLEEP_MS      2 /* between two pieces: others want the disk as well */
#define RETRY_SLEEP_MS     10000
#define SWEEP_INTERVAL_US  (3600ull * 1000 * 1000)
#define SWEEP_KEYS         1000
#define IDLE_STEPS_MAX     64 /* object_step: idle turns after which a checkpoint is made */

struct maintenance {
    struct object_store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stopping; /* guarded by mutex */
};

/* ---- completed uploads ---- */

struct sweep_op {
    struct object_op op;
    struct slice keys[SWEEP_KEYS];
    uint32_t count;
};

static int sweep_txn(struct object_op *op, struct meta_txn *txn) {
    struct sweep_op *s = CONTAINER_OF(op, struct sweep_op, op);
    for (uint32_t i = 0; i < s->count; i++) {
        meta_txn_delete(txn, s->keys[i]);
    }
    return 0;
}

static int collect_expired(struct object_store *store, struct sweep_op *s, struct pool *pool) {
    static const uint8_t first = KEYS_COMPLETED, end = KEYS_COMPLETED + 1;
    int64_t before_ms = os_wall_ms(store->env->clock) - OBJECT_COMPLETED_KEEP_MS;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(store->kv, KV_META, slice_of(&first, 1), slice_of(&end, 1));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter) && s->count < SWEEP_KEYS;
         kv_iter_next(iter)) {
        struct completed_record record;
        int err = completed_record_decode(kv_iter_value(iter), &record);
        if (err < 0) {
            return err;
        }
        if (record.completed_ms < before_ms) {
            struct slice key = pool_copy(pool, kv_iter_key(iter));
            if (key.data == NULL) {
                return -HL_ERR_NOMEM;
            }
            s->keys[s->count++] = key;
        }
    }
    return kv_iter_error(iter);
}

/* Forgets one batch of completed uploads that nobody repeats any more. Blocks. */
static int sweep_completed(struct object_store *store) {
    CLEANUP_POOL struct pool *pool = pool_new(64u << 10);
    struct sweep_op *s = pool == NULL ? NULL : POOL_NEW(pool, struct sweep_op);
    if (s == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = collect_expired(store, s, pool);
    if (err < 0 || s->count == 0) {
        return err;
    }
    struct object_wait *wait = object_wait_new(store);
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    object_op_init(&s->op, store, pool, object_wait_executor(wait), object_wait_done, wait);
    s->op.fn = sweep_txn;
    object_op_run(&s->op);
    return object_wait(wait, NULL);
}

/* ---- the thread ---- */

/* False when stopping. */
static bool rest(struct maintenance *m, uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&m->mutex);
    while (!m->stopping && pthread_cond_timedwait(&m->wake, &m->mutex, &until) != ETIMEDOUT) {
    }
    bool stopping = m->stopping;
    pthread_mutex_unlock(&m->mutex);
    return !stopping;
}

/* One piece of each kind of work. */
static int work(struct object_store *store, uint64_t compact_bytes, uint64_t scrub_bytes,
                bool *ret_busy) {
    bool compacting = false, scrubbing = false;
    (void)object_space_short(store); /* also tells the volumes what to leave to log and kv */
    int err = data_compact_step(store->data, compact_bytes, &compacting);
    if ((!compacting || err == -HL_ERR_NO_SPACE) && data_checkpoint_wanted(store->data)) {
        int checkpoint_err = meta_checkpoint(store->meta); /* removes what was emptied */
        err = err < 0 ? err : checkpoint_err;
    }
    int scrub_err = data_scrub_step(store->data, scrub_bytes, &scrubbing);
    *ret_busy = compacting || scrubbing;
    return err < 0 ? err : scrub_err;
}

static void *maintenance_main(void *arg) {
    struct maintenance *m = arg;
    uint64_t swept_us = os_mono_us(m->store->env->clock);
    uint32_t sleep_ms = SLEEP_MS;
    while (rest(m, sleep_ms)) {
        bool busy = false;
        int err = work(m->store, COMPACT_STEP_BYTES, SCRUB_STEP_BYTES, &busy);
        uint64_t now_us = os_mono_us(m->store->env->clock);
        if (err == 0 && now_us - swept_us >= SWEEP_INTERVAL_US) {
            err = sweep_completed(m->store);
            swept_us = now_us;
        }
        if (err < 0 && err != -HL_ERR_CANCELED) {
            LOG_WARN("object", "maintenance: %s; it will be tried again", error_text(err));
        }
        sleep_ms = err < 0 ? RETRY_SLEEP_MS : busy ? BUSY_SLEEP_MS : SLEEP_MS;
    }
    return NULL;
}

int maintenance_start(struct object_store *store) {
    struct maintenance *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return -HL_ERR_NOMEM;
    }
    m->store = store;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&m->thread, NULL, maintenance_main, m) != 0) {
        pthread_mutex_destroy(&m->mutex);
        pthread_cond_destroy(&m->wake);
        free(m);
        return -HL_ERR_NOMEM;
    }
    store->maintenance = m;
    return 0;
}

void maintenance_stop(struct object_store *store) {
    struct maintenance *m = store->maintenance;
    if (m == NULL) {
        return;
    }
    pthread_mutex_lock(&m->mutex);
    m->stopping = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->mutex);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->mutex);
    pthread_cond_destroy(&m->wake);
    free(TAKE_PTR(store->maintenance));
}

/* ---- without threads ---- */

static bool checkpoint_due(struct object_store *store) {
    struct meta_stats stats;
    meta_stats(store->meta, &stats);
    return stats.log.held_bytes >= store->checkpoint_log_bytes ||
           (store->idle_steps == IDLE_STEPS_MAX && stats.log.held_bytes > 0);
}

int object_step(struct object_store *store, bool *ret_busy) {
    bool busy = false, maintaining = false;
    if (store->step_workers != NULL && store->step_workers()) {
        *ret_busy = true;
        return 0;
    }
    int err = meta_commit_turn(store->meta, &busy);
    if (err < 0) {
        *ret_busy = busy;
        return err;
    }
    store->idle_steps = busy ? 0 : store->idle_steps + 1;
    if (!busy) {
        err = work(store, SIM_STEP_BYTES, SIM_STEP_BYTES, &maintaining);
    }
    if (err == 0 && checkpoint_due(store)) {
        err = meta_checkpoint(store->meta);
        maintaining = true;
    }
    *ret_busy = busy || maintaining;
    return err;
}

/* ---- numbers ---- */

void object_stats(struct object_store *store, struct object_stats *ret) {
    struct directory_usage usage;
    *ret = (struct object_stats){0};
    meta_stats(store->meta, &ret->meta);
    data_stats(store->data, &ret->data);
    kv_stats(store->kv, &ret->kv);
    directory_totals(store, &usage);
    ret->objects = (uint64_t)MAX(usage.objects, 0);
    ret->object_bytes = (uint64_t)MAX(usage.bytes, 0);
    ret->uploads = (uint64_t)MAX(usage.uploads, 0);
    ret->upload_bytes = (uint64_t)MAX(usage.upload_bytes, 0);
}
