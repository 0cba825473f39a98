/* Inside of src/log: the codec, the segment files and the log's state. */
#ifndef LOG_LOG_INT_H
#define LOG_LOG_INT_H

#include <pthread.h>
#include <stdbool.h>

#include "base/metrics.h"
#include "base/slice.h"
#include "log/log.h"
#include "log/log_format.h"

#define LOG_SEGMENT_BYTES_DEFAULT (4u << 20)
#define LOG_SEGMENT_BYTES_MIN     (16u << 10)
#define LOG_SPARE_DEFAULT         1u
#define LOG_SEGMENTS_MAX_DEFAULT  64u
#define LOG_NAME_SIZE             20 /* 16 hex digits and ".log" */

/* log_codec.c: pure functions between bytes and these. */
struct log_segment_info {
    uint64_t number;
    uint64_t segment_bytes;
    uint8_t cluster_id[LOG_CLUSTER_ID_SIZE];
    uint32_t crc; /* the start of the records' chain */
};

struct log_record_info {
    uint32_t header_crc;
    uint32_t payload_crc;
    uint32_t chain;
    uint32_t length;
    uint32_t kind;
    uint32_t flags;
    uint32_t group;
    uint32_t left;
    uint64_t term;
    uint64_t index;
    uint64_t batch;
};

/* Fills info->crc too. */
void log_segment_encode(struct log_segment_info *info, struct log_segment_header *ret);
/* CORRUPT: not a whole header. BAD_FORMAT: a header of another version. */
int log_segment_decode(struct slice data, struct log_segment_info *ret);

/* The bytes that a record takes: header, payload, padding. */
static inline uint64_t log_record_size(uint32_t length) {
    return ((uint64_t)LOG_RECORD_HEADER_SIZE + length + LOG_RECORD_ALIGN - 1) / LOG_RECORD_ALIGN *
           LOG_RECORD_ALIGN;
}
/* Sets info->header_crc for a record at off of segment number. */
void log_record_encode(const uint8_t *cluster_id, uint64_t number, uint64_t off,
                       struct log_record_info *info, struct log_record_header *ret);
/* Checks magic, header checksum and that the record fits in rest, the bytes of the segment from off
 * on. */
bool log_record_decode_header(const uint8_t *cluster_id, uint64_t number, uint64_t off,
                              struct slice rest, struct log_record_info *ret);
/* The same and the payload with its checksum; *ret_payload points into rest. */
bool log_record_decode(const uint8_t *cluster_id, uint64_t number, uint64_t off, struct slice rest,
                       struct log_record_info *ret, struct slice *ret_payload);

/* log_segment.c: one file. */
struct log_segment {
    uint64_t number;
    struct os_file *file;
    uint64_t size; /* of the file */
    uint64_t used; /* end of its last record; the appending thread's, read by others when sealed */
    uint32_t crc;  /* of its header */
    int header_error; /* found at open: 0 or CORRUPT */
};

struct log {
    struct os_env *env;
    char *path;
    struct log_options options;
    uint8_t cluster_id[LOG_CLUSTER_ID_SIZE];

    /* Serialises whoever creates, renames or removes files. Taken before lock, held over I/O. */
    pthread_mutex_t files_lock;

    /* Guards what follows, never held over I/O. */
    pthread_mutex_t lock;
    /* In order of number. The first held_count hold records or are being written; the others are
     * spares, pre-written and named, in the order in which they will be used. */
    struct log_segment **segments;
    size_t count;
    size_t capacity;
    size_t held_count;
    struct log_segment *active; /* where the tail is */
    uint64_t tail_off;
    struct log_position released; /* nothing before it is needed */
    int refuse;                   /* why appends are refused, 0 when they are not */
    uint64_t syncs;
    uint64_t records;

    /* Only the appending thread. */
    uint32_t chain;
    uint64_t batch; /* of the last record */
    uint32_t left;  /* of the last record */
    struct log_writer *writer;
};

void log_lock(struct log *log);
void log_unlock(struct log *log);
/* Stops the log for good: CRASHED is answered from then on. Returns err, or IO for NO_SPACE and
 * BUSY, which mean that the log is intact. */
int log_fail(struct log *log, int err, const char *what);
/* 0, or the error with which every call is refused. */
int log_refused(struct log *log);

/* Paths are heap memory; NULL when out of memory. */
char *log_segment_path(const struct log *log, uint64_t number, const char *suffix);
/* Opens an existing segment file and reads its header (header_error tells of damage).
 * WRONG_CLUSTER, BAD_FORMAT: refused. */
int log_segment_open(struct log *log, uint64_t number, struct log_segment **ret);
/* Writes a new file of zeros with a header under its number, durably. Under files_lock. */
int log_segment_create(struct log *log, uint64_t number, struct log_segment **ret);
/* Gives the file of a released segment a new number, durably; takes segment over. *ret is NULL when
 * the disk was too full for that and the file is gone. On failure the file is gone or will be
 * removed by the next open, and segment is freed. Under files_lock. */
int log_segment_recycle(struct log *log, struct log_segment *segment, uint64_t number,
                        struct log_segment **ret);
/* Unlinks and frees; the directory is not synced. Under files_lock. */
int log_segment_remove(struct log *log, struct log_segment *segment);
void log_segment_free(struct log_segment *segment); /* closes; NULL is fine */

/* Adds at the end of log->segments. */
int log_segments_push(struct log *log, struct log_segment *segment);
/* Creates spares until there are count (which are created durably one by one). Takes files_lock. */
int log_make_spares(struct log *log, size_t count);

/* log_append.c. */
struct log_writer *log_writer_new(void);
void log_writer_free(struct log_writer *writer);
/* Appends a batch; flags go on every record. resume: the single LOG_KIND_RESUME record of a
 * recovery, with the given batch number. */
int log_append_batch(struct log *log, const struct log_record *records, int count, uint64_t batch,
                     uint32_t flags);

extern struct metric log_metric_syncs;
extern struct metric log_metric_bytes;
extern struct metric log_metric_records;
extern struct metric log_metric_sync_us;
extern struct metric log_metric_segments_made;

#endif
