/* The built-in engine's insides, shared by its three files: engine_local.c (queue, turn, threads),
 * apply.c (entries become batches) and checkpoint.c (recovery, checkpoints). */
#ifndef META_ENGINE_INT_H
#define META_ENGINE_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "meta/engine.h"
#include "meta/entry_format.h"

#define ENGINE_WATCHER_MAX     8
#define ENGINE_TURN_RECORDS    512
#define ENGINE_QUEUE_BYTES_MAX (64u << 20) /* more is refused with BUSY */
#define ENGINE_STALL_MS_MAX    (120u * 1000)
#define ENGINE_STALL_WAIT_MS   50 /* the first wait; doubled up to a second */

struct engine_watcher {
    const char *tables;
    void (*fn)(void *arg, struct slice key, struct slice value);
    void *arg;
};

struct engine_local {
    struct meta_engine engine;
    struct os_env *env;
    struct kv *kv;
    struct meta_sink sink;
    struct meta_options options;
    struct log *log;
    struct kv_batch *batch; /* of the turn */

    /* The queue of proposals, guarded by mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct meta_proposal *first, **last;
    uint64_t queued_bytes;
    bool stopping;
    bool started;
    pthread_t commit_thread;

    /* Held for the length of a turn and of a local job: what "on the apply thread" means.
     * local_waiting lets a job in between two turns, because a mutex alone is not fair. */
    pthread_mutex_t turn_mutex;
    pthread_cond_t turn_free;
    uint32_t local_waiting; /* guarded by mutex */

    /* The checkpoint thread. */
    pthread_mutex_t checkpoint_mutex; /* one checkpoint at a time */
    pthread_cond_t checkpoint_wake;   /* with mutex */
    pthread_t checkpoint_thread;
    bool checkpoint_wanted;     /* guarded by mutex */
    bool checkpoint_warned;     /* the last one failed; the checkpoint thread's */
    _Atomic uint64_t append_us; /* time of the last append, for the idle checkpoint */
    _Atomic bool dirty;         /* something is in the log that no checkpoint covers */

    struct engine_watcher watchers[ENGINE_WATCHER_MAX];
    uint32_t watcher_count;

    struct log_position last_turn; /* where the last entries are; under the turn mutex */
    uint64_t term;
    _Atomic uint64_t index;    /* last applied */
    _Atomic uint64_t sequence; /* last given */
    uint64_t sequence_applied; /* highest seen in applied entries; the row holds it */
    _Atomic bool failed;
    _Atomic bool stalled; /* what the log holds waits for room to be applied */
    _Atomic uint64_t turns, proposals, checkpoints;
    _Atomic int64_t checkpoint_last_ms;
};

/* apply.c */
int engine_apply_entry(struct engine_local *e, struct slice entry, bool replay);
int engine_verify_entry(struct engine_local *e, struct slice entry);
/* sink.turn_end, the applied-index and sequence rows, kv_write, sink.turn_applied. */
int engine_apply_end(struct engine_local *e, uint64_t index);
/* A full disk is waited for: true after a wait when err is NO_SPACE and the call is to be made
 * again, false when err is another one (or none), the time is over or the engine stops. One stall
 * counts all waits of a turn. Under the turn mutex. */
struct engine_stall {
    uint64_t waited_ms, wait_ms;
};
bool engine_stall_retry(struct engine_local *e, struct engine_stall *stall, int err);
int engine_turn_end(struct engine_local *e, struct engine_stall *stall);
int engine_kv_write(struct engine_local *e, struct engine_stall *stall);
void engine_notify(struct engine_local *e, struct slice entry);
int engine_applied_load(struct engine_local *e);

/* checkpoint.c */
int engine_recover(struct meta_engine *engine);
int engine_checkpoint(struct meta_engine *engine);
void *engine_checkpoint_main(void *arg);

/* engine_local.c: an error after which nothing may be acknowledged. Returns -HL_ERR_CRASHED. */
int engine_fatal(struct engine_local *e, int err);
void engine_want_checkpoint(struct engine_local *e);
int engine_run_local(struct meta_engine *engine, int (*fn)(void *arg, struct kv_batch *batch),
                     void *arg);

#endif
