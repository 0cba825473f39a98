/* The node's write-ahead log: records of all groups, appended in batches, one write and one sync a
 * batch, into recycled, pre-written segments (log_format.h). Knows nothing of what records mean.
 *
 * Threads: log_append by one committing thread at a time; log_release, log_prepare, log_trim,
 * log_tail and log_stats from any thread while appends go on (the log locks inside, never during
 * the sync of an append). */
#ifndef LOG_LOG_H
#define LOG_LOG_H

#include "base/slice.h"
#include "os/env.h"

struct log;

enum log_kind {
    LOG_ENTRY = 1,      /* an entry of a group: bytes of meta/entry_format.h */
    LOG_HARD_STATE = 2, /* term and vote of a group (consensus) */
    LOG_CHECKPOINT = 3, /* everything up to index was, or is about to be, durable in the kv */
};

struct log_record {
    uint32_t group;
    uint32_t kind; /* enum log_kind */
    uint64_t term;
    uint64_t index;
    const struct iovec *parts; /* the payload; borrowed until log_append returns */
    int part_count;
};

/* A place in the log, ordered: segment number and offset within. */
struct log_position {
    uint64_t segment;
    uint64_t off;
};

struct log_options {
    uint64_t segment_bytes; /* default 4 MiB; a record must fit: LOG_RECORD_MAX(segment_bytes) */
    uint32_t
        spare_segments; /* pre-written segments kept when idle beside the active one (default 1) */
    uint32_t segments_max;     /* more than this many unreleased segments: log_append answers BUSY
                                  (default 64) */
    const uint8_t *cluster_id; /* 16 bytes, bound into every segment; a foreign one is refused */
};
#define LOG_RECORD_MAX(segment_bytes) ((segment_bytes) / 2)

/* Opens or creates the log in directory path (which exists). Reads segment headers only. */
int log_open(struct os_env *env, const char *path, const struct log_options *options,
             struct log **ret);
void log_close(struct log *log);

/* Calls fn for every record that is still held, in order, before the first log_append. A torn tail
 * (the last batch, never acknowledged) ends it quietly and is overwritten by later appends; damage
 * to anything that was acknowledged answers CORRUPT after logging file and offset, and the log
 * refuses appends. Payload is valid during the call. */
int log_recover(struct log *log,
                int (*fn)(void *arg, const struct log_record *record, struct slice payload,
                          struct log_position position),
                void *arg);

/* Appends count records in order with as few writes as segments touched, then syncs: all are
 * durable when it returns 0. NO_SPACE and BUSY: nothing was appended and the log is intact. Any
 * other error is fatal: the state of the disk is unknown, every later call answers CRASHED, and the
 * process must stop. */
int log_append(struct log *log, const struct log_record *records, int count);

/* Where the next record will go. */
struct log_position log_tail(struct log *log);

/* Everything before position is no longer needed: whole segments before it become spares (at most
 * half of segments_max; log_trim deletes what is too much) or are deleted. An error is fatal, as in
 * log_append. */
int log_release(struct log *log, struct log_position position);
/* Writes spares ahead of need until there are options.spare_segments. Called by the maintenance
 * thread so that log_append seldom has to do it itself. NO_SPACE: nothing changed. */
int log_prepare(struct log *log);
/* Deletes spares beyond options.spare_segments (called when idle). */
int log_trim(struct log *log);

struct log_stats {
    uint64_t segment_count; /* files */
    uint64_t spare_count;   /* of them, without a record yet */
    uint64_t disk_bytes;
    uint64_t held_bytes; /* from the oldest unreleased record to the tail */
    uint64_t syncs;
    uint64_t records;
};
void log_stats(struct log *log, struct log_stats *ret);

#endif
