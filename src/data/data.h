/* Bodies on this node: the location index, staging of large bodies until they are named, reclaiming
 * of bodies that nobody names, compaction, scrub. In a cluster this is also where copies go to
 * other nodes; the callers do not notice.
 *
 * Life of a body.  Small (at most inline_max): travels in the log entry; data_apply_head() copies
 * it to a volume. Large: cut into blocks, each data_block_*() then staged (durable after data_sync,
 * known in memory only) until the entry that names it is applied and data_apply_commit() writes the
 * location row. A body that is freed while a reader may need it goes through the free queue (rows
 * in KV_LOCAL) and is reclaimed when all readers that started before are done.
 *
 * Recovery.  data_open(); data_recover_scan() reads the ends of the volumes and rebuilds the staged
 * set; the log is replayed through the data_apply functions with replay = true (an entry whose
 * effects the kv already has only re-verifies its heads); data_recover_done() turns what stayed
 * staged into garbage. See docs/durability.md.
 *
 * Threads: data_apply_* and data_turn_end, data_checkpoint_*: the apply thread only. Others: any.
 */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include "base/buf.h"
#include "base/task.h"
#include "kv/kv.h"
#include "volume/volume.h"

struct data;

struct data_options {
    struct volume_options volumes;
    /* The order of a head's row among all commits (0: it has none); rows are opaque here. NULL:
     * leftovers are not compared, see data_leftover_sequence. */
    uint64_t (*row_sequence)(struct slice row_key, struct slice row_value);
    bool first_start;
    uint32_t block_bytes;       /* default 4 MiB, at most 16 MiB */
    uint32_t compact_percent;   /* garbage that starts a compaction (default 30) */
    uint64_t scrub_interval_s;  /* default 30 days */
    uint64_t scrub_bytes_per_s; /* default 8 MiB/s when scheduled; 0 is unlimited */
};

int data_open(struct os_env *env, struct kv *kv, const struct data_options *options,
              struct data **ret);
void data_close(struct data *data);

/* ---- ids ---- */

/* count consecutive ids; the caller uses id.low .. id.low + count - 1. */
struct body_id data_allocate(struct data *data, uint64_t count);
static inline struct body_id body_id_nth(struct body_id first, uint64_t n) {
    return (struct body_id){first.high, first.low + n};
}

/* ---- writing large bodies ---- */

/* Room for a write of this size? NO_SPACE when it would eat into the reserve. Called before
 * anything is accepted. */
int data_admit(struct data *data, uint64_t bytes);
/* Leaves free bytes of a file system (os_space's device) to log and kv, see volume_space_keep. */
void data_keep(struct data *data, uint64_t device, uint64_t bytes);

struct data_block; /* one block being written; one thread at a time */
int data_block_open(struct data *data, struct body_id id, uint32_t bytes_max,
                    struct data_block **ret);
int data_block_write(struct data_block *block, const void *bytes, size_t size);
/* Completes the record and stages the body. origin_key names the object for messages and rebuild.
 * Frees the block in any case. */
int data_block_finish(struct data_block *block, struct slice origin_key, uint64_t position);
void data_block_abort(struct data_block *block);
/* Makes the staged bodies first .. first + count - 1 durable (shared syncs). */
int data_sync(struct data *data, struct body_id first, uint64_t count);
/* Drops staged bodies that will never be named. */
void data_discard(struct data *data, struct body_id first, uint64_t count);

/* ---- reading ---- */

/* A reader's pin: bodies that a row named after the pin was taken stay readable until data_unpin.
 * Take it before reading the row. */
struct data_pin {
    uint64_t epoch;
    struct data_pin *prev, *next;
};
void data_pin(struct data *data, struct data_pin *pin);
void data_unpin(struct data *data, struct data_pin *pin);

/* An open body: stays readable until data_body_done, whatever happens to its row. */
struct data_body {
    struct volume_file *file;
    struct volume_location location;
    struct body_id id;
};
/* NOT_FOUND when there is no location row (freed meanwhile, or lost: the caller re-reads the row
 * that named it). */
int data_body_open(struct data *data, struct body_id id, struct data_body *ret);
void data_body_done(struct data_body *body);
/* Verified bytes. CORRUPT queues the volume's neighbourhood for scrub and is counted. */
int data_body_read(struct data *data, const struct data_body *body, uint64_t off, void *bytes,
                   size_t size, bool nowait);

/* ---- apply (called by meta through its sink, in log order) ---- */

/* An entry names a head: write its record to a volume in this turn and its location into the batch.
 * row_key and row_value become the origin. The slices must live until data_turn_end returns. */
int data_apply_head(struct data *data, struct kv_batch *batch, struct body_id id,
                    struct slice row_key, struct slice row_value, struct slice body, bool replay);
/* Staged bodies become live (first .. first + count - 1). Unknown ids are skipped: they live
 * elsewhere. */
int data_apply_commit(struct data *data, struct kv_batch *batch, struct body_id first,
                      uint64_t count);
/* Bodies are no longer named. */
int data_apply_free(struct data *data, struct kv_batch *batch, struct body_id first, uint64_t count,
                    bool head);
/* A configuration row to be kept in volumes too, so that buckets come back in a rebuild. Each call
 * writes a record; the newest of a key wins. An empty value: it is gone. */
int data_apply_config(struct data *data, struct kv_batch *batch, struct slice row_key,
                      struct slice row_value, uint64_t sequence);
/* The end of a turn, before kv_write(batch): appends the gathered heads with few writes, and
 * reclaims a bounded piece of the free queue. */
int data_turn_end(struct data *data, struct kv_batch *batch);
/* After kv_write succeeded. */
void data_turn_applied(struct data *data);
/* Replay of an entry the kv already contains: re-verify that the head's record is intact and write
 * it again if a crash tore it. */
int data_replay_head(struct data *data, struct kv_batch *batch, struct body_id id,
                     struct slice row_key, struct slice row_value, struct slice body);

/* ---- recovery and checkpoint ---- */

int data_recover_scan(struct data *data);
/* Between the replay and data_recover_done: the highest sequence of heads that no row names and of
 * configuration records. A commit is in the log before it is in a volume, so one that is above what
 * the replay ended at says that the metadata is older than the volumes. */
uint64_t data_leftover_sequence(struct data *data);
int data_recover_done(struct data *data);
/* On the apply thread at a turn's boundary: writes tombstones gathered since the last one and the
 * scan-from rows into the batch. Then, on any thread, data_checkpoint_sync makes the volumes
 * durable. After kv_flush, data_checkpoint_done removes volumes that compaction emptied before the
 * flush. */
int data_checkpoint_begin(struct data *data, struct kv_batch *batch);
int data_checkpoint_sync(struct data *data);
int data_checkpoint_done(struct data *data);

/* ---- maintenance: driven by object/maintain.c on its thread, or by the simulator step by step
 * ---- */

/* A piece of work that must run on the apply thread at a turn's boundary (index switches of
 * compaction). The store sets how to run it: fn is called with a batch that is then written. */
typedef int (*data_local_fn)(void *arg, struct kv_batch *batch);
void data_set_local_runner(struct data *data, int (*run)(void *ctx, data_local_fn fn, void *arg),
                           void *ctx);

/* Does at most about bytes_max of compaction (picks the volume with most garbage above the
 * threshold, or above 5 % when space is short); *ret_busy says whether more is to do. */
int data_compact_step(struct data *data, uint64_t bytes_max, bool *ret_busy);
/* Emptied volumes wait for a checkpoint: only that removes them, and a quiet store makes none by
 * itself. */
bool data_checkpoint_wanted(struct data *data);
/* Same for scrub. Starts by itself when scrub_interval has passed; state persists in KV_LOCAL. */
int data_scrub_step(struct data *data, uint64_t bytes_max, bool *ret_busy);
enum data_scrub_command {
    DATA_SCRUB_START,
    DATA_SCRUB_PAUSE,
    DATA_SCRUB_RESUME,
    DATA_SCRUB_CANCEL
};
int data_scrub_command(struct data *data, enum data_scrub_command command);

struct data_damage { /* a record that failed its check */
    uint32_t volume;
    uint64_t off;
    struct body_id id;
    struct slice origin_key; /* may be empty; valid during the callback */
    int err;
    int64_t found_ms;
};
int data_damage_each(struct data *data, int (*fn)(void *arg, const struct data_damage *damage),
                     void *arg);

struct data_stats {
    struct volume_space space;
    uint64_t live_bytes;       /* records that are named */
    uint64_t staged_bytes;     /* written, not named yet */
    uint64_t free_queue_bytes; /* waiting for readers */
    uint64_t garbage_bytes;    /* used less live less staged */
    uint64_t compacted_bytes;  /* copied since start */
    bool compacting;
    bool scrubbing, scrub_paused;
    uint64_t scrub_bytes_done, scrub_bytes_total;
    int64_t scrub_last_ms; /* a whole one ended; 0: never */
    int64_t scrub_next_ms;
    uint64_t damaged_records;
};
void data_stats(struct data *data, struct data_stats *ret);

/* ---- rebuild ---- */

/* Drops all location rows and rebuilds them from the volumes, given a predicate that knows which
 * heads are named (NULL: every head that no tombstone names, newest sequence of a row key wins).
 * progress may be NULL. */
struct data_rebuild_head {
    struct body_id id;
    struct slice row_key, row_value; /* valid during the callback */
    uint32_t kind;                   /* VOLUME_HEAD or VOLUME_CONFIG (value empty: row is gone) */
};
/* Reads every volume and reports each head and configuration row that is not tombstoned, in no
 * order (a row key may come several times), after having rebuilt locations of everything found. The
 * callers (object/rebuild.c) write rows and afterwards free the losers with data_rebuild_drop and
 * what no row names with data_rebuild_finish. */
int data_rebuild(struct data *data, int (*fn)(void *arg, const struct data_rebuild_head *head),
                 void *arg, void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total),
                 void *progress_arg);
/* named(first, count) is called by the caller for all bodies that rows name; the rest becomes
 * garbage. */
int data_rebuild_name(struct data *data, struct body_id first, uint64_t count);
int data_rebuild_finish(struct data *data, uint64_t *ret_missing);

#endif
