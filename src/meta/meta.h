/* Names: transactions over the ordered store, made durable by the log.
 *
 * A transaction takes latches on the keys concerned (shared or exclusive, in one order, so never a
 * deadlock), reads, builds an entry (puts, deletes, adds, bodies), proposes it, and is done when
 * the entry is durable and applied; then its latches are released. Conditions are decided inside,
 * so they are linearizable.
 *
 * The engine behind it (meta/engine.h) is an interface: the built-in one is log + kv with one
 * voter; a consensus group implements the same propose-and-apply later, and nothing above this
 * header changes.
 *
 * Threads: meta_run from any thread. Callbacks run on the transaction's home executor.
 * meta_commit_turn and recovery: the commit thread (meta_start runs one), or the simulator by hand.
 */
#ifndef META_META_H
#define META_META_H

#include "base/buf.h"
#include "base/pool.h"
#include "base/task.h"
#include "kv/kv.h"
#include "log/log.h"
#include "meta/keys_format.h"
#include "meta/records.h"

struct meta;

/* Where entries' bodies go: implemented by data/, wired by object/ (see data/data.h for the meaning
 * of each). */
struct meta_sink {
    void *ctx;
    int (*head)(void *ctx, struct kv_batch *batch, struct body_id id, struct slice row_key,
                struct slice row_value, struct slice body, bool replay);
    int (*commit)(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count);
    int (*release)(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count,
                   bool head);
    int (*config)(void *ctx, struct kv_batch *batch, struct slice row_key, struct slice row_value,
                  uint64_t sequence);
    /* May so many bytes of new bodies be promised? NO_SPACE refuses them before they are in the
     * log. NULL: always. */
    int (*room)(void *ctx, uint64_t bytes);
    /* NO_SPACE: nothing is lost, the same call is made again. */
    int (*turn_end)(void *ctx, struct kv_batch *batch);
    void (*turn_applied)(void *ctx);
    int (*replay_head)(void *ctx, struct kv_batch *batch, struct body_id id, struct slice row_key,
                       struct slice row_value, struct slice body);
    int (*checkpoint_begin)(void *ctx, struct kv_batch *batch);
    int (*checkpoint_sync)(void *ctx);
    int (*checkpoint_done)(void *ctx);
};

struct meta_options {
    const char *log_path;
    struct log_options log;
    uint64_t checkpoint_log_bytes; /* held log that starts a checkpoint (default 32 MiB) */
    uint64_t
        checkpoint_idle_ms;  /* quiet time after which the tail is checkpointed (default 10 s) */
    uint64_t turn_bytes_max; /* log bytes of one turn (default 1 MiB, at most half a segment) */
    /* How long what is durable in the log may wait for room to be applied (default 2 minutes):
     * reads go on meanwhile, writers wait. Then it is fatal; the next start applies it. */
    uint64_t stall_ms_max;
    void (*fatal)(void *ctx,
                  int err); /* fail-stop: a write's durability is unknown. Must not return in
                               production; the simulator's does and the store answers CRASHED */
    void *fatal_ctx;
};

/* Opens the log; does not replay. kv and sink outlive it. */
int meta_open(struct os_env *env, struct kv *kv, const struct meta_sink *sink,
              const struct meta_options *options, struct meta **ret);
/* Replays the log into kv and sink. To be called once, before the first transaction. */
int meta_recover(struct meta *meta);
/* Stops the threads; what was proposed and not committed ends with CANCELED, and so does everything
 * that is run from now on. Their done callbacks still need their home executors to run. */
void meta_stop(struct meta *meta);
/* Stops, if that was not done, and frees. The home executors must have run every done callback
 * before; if not, the memory is left alone and a warning is logged, because the callbacks would
 * touch it. */
void meta_close(struct meta *meta);

/* Starts the commit thread and the checkpoint thread. Without, the owner calls meta_commit_turn. */
int meta_start(struct meta *meta);
/* Gathers what is proposed, commits, applies, completes. *ret_busy: something was done. */
int meta_commit_turn(struct meta *meta, bool *ret_busy);
/* Flush and release the log. Blocks; runs on the caller's thread. */
int meta_checkpoint(struct meta *meta);
bool meta_failed(const struct meta *meta); /* after a fatal error */
/* A commit waits for room on a full disk: promise nothing new. */
bool meta_stalled(const struct meta *meta);

/* ---- reading (any thread; sees every acknowledged write) ---- */

struct kv *meta_kv(struct meta *meta);
static inline int meta_get(struct meta *meta, struct slice key, struct kv_value *ret) {
    return kv_get(meta_kv(meta), KV_META, key, ret);
}

/* ---- transactions ---- */

enum meta_latch_mode { META_SHARED, META_EXCLUSIVE };
struct meta_latch {
    struct slice key; /* a row key of keys_format.h; lives until done */
    enum meta_latch_mode mode;
};

struct meta_txn;
/* Runs once all latches are held, on the home executor (at once if none had to be waited for).
 * Reads rows, fills the entry with the meta_txn_ functions. 0: propose it (an empty one completes
 * at once); negative: give up, done gets this code. */
typedef int (*meta_txn_fn)(struct meta_txn *txn, void *arg);
/* Runs on the home executor after the entry is durable and applied (0), or not (negative: nothing
 * happened, except CRASHED: unknown). The txn is freed after it returns. */
typedef void (*meta_done_fn)(void *arg, int err);

struct meta_request {
    const struct meta_latch
        *latches; /* in any order, duplicates allowed (the stronger mode wins); copied */
    uint32_t latch_count;
    meta_txn_fn fn;
    meta_done_fn done;
    void *arg;
    struct executor *home;
};
/* Always ends in exactly one call of done; a refused one (overload: BUSY) also through done. */
void meta_run(struct meta *meta, const struct meta_request *request);

/* Inside fn. Slices are copied into the entry, except bodies, which must live until done. Failures
 * are remembered and turn into the transaction's result. */
void meta_txn_put(struct meta_txn *txn, struct slice key, struct slice value);
void meta_txn_delete(struct meta_txn *txn, struct slice key);
void meta_txn_delete_range(struct meta_txn *txn, struct slice first, struct slice end);
void meta_txn_add(struct meta_txn *txn, struct slice key, int64_t delta);
/* Puts the row and writes its head record (with the body bytes, possibly none). */
void meta_txn_put_head(struct meta_txn *txn, struct slice key, struct slice value,
                       struct body_id id, struct slice body);
/* Writes a head record without a row of its own (small part of an upload): origin as given. */
void meta_txn_head_only(struct meta_txn *txn, struct slice origin_key, struct slice origin_value,
                        struct body_id id, struct slice body);
void meta_txn_commit_bodies(struct meta_txn *txn, struct body_id first, uint64_t count);
void meta_txn_free_bodies(struct meta_txn *txn, struct body_id first, uint64_t count);
void meta_txn_free_head(struct meta_txn *txn, struct body_id id);
/* Puts (or with an empty value deletes) the row and keeps a copy in the volumes for rebuild. */
void meta_txn_put_config(struct meta_txn *txn, struct slice key, struct slice value);
/* A number greater than every one given before, on any restart: orders versions of a key. */
uint64_t meta_txn_sequence(struct meta_txn *txn);
struct pool *meta_txn_pool(struct meta_txn *txn); /* for decoding inside fn; dies with the txn */
struct meta *meta_txn_meta(struct meta_txn *txn);

/* ---- watching: a cache above is told of rows before their writers are acknowledged ---- */

/* fn is called on the commit thread for each put (value non-empty) or delete (value empty) of a row
 * whose key starts with one of the table bytes, after the rows are readable. At most 8 watchers;
 * set before meta_recover, which reports nothing: read the tables after it. */
void meta_watch(struct meta *meta, const char *tables,
                void (*fn)(void *arg, struct slice key, struct slice value), void *arg);

/* Runs fn on the commit thread at a turn's boundary with a batch that is then written; blocks until
 * done. For data_set_local_runner. Called from the commit thread itself or without a started thread
 * it runs at once. */
int meta_run_local(struct meta *meta, int (*fn)(void *arg, struct kv_batch *batch), void *arg);

/* For a rebuild, into the rows of a store whose log is new: sequences go on after this one. */
void meta_sequence_restore(struct kv_batch *batch, uint64_t sequence);

struct meta_stats {
    struct log_stats log;
    uint64_t applied_index;
    uint64_t sequence; /* the last one given; after meta_recover: the highest of applied entries */
    uint64_t turns, proposals;
    uint64_t checkpoints;
    int64_t checkpoint_last_ms;
};
void meta_stats(struct meta *meta, struct meta_stats *ret);

#endif
