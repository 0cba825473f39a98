/* Operations on objects: the only place that orders "bytes durable" before "name committed".
 * Clients of this header are s3/ (and later fs/). It knows nothing of HTTP, signatures or XML;
 * errors are codes of base/error.def.
 *
 * Asynchronous calls take a home executor and a done callback that runs there exactly once.
 * Synchronous calls may read from disk: call them on a worker unless the header says otherwise. One
 * write or read session belongs to one thread at a time. Keys and metadata are opaque bytes, used
 * exactly as given. */
#ifndef OBJECT_OBJECT_H
#define OBJECT_OBJECT_H

#include "base/pool.h"
#include "base/task.h"
#include "data/data.h"
#include "meta/meta.h"

struct object_store;

struct object_options {
    const char *metadata_dir;
    struct data_options data;
    struct kv_options kv;
    struct meta_options meta;   /* log_path and fatal may be left empty: filled in */
    uint32_t inline_max;        /* default 32 KiB */
    struct kv_mem_disk *kv_mem; /* simulation: use the in-memory twin */
    bool threads;               /* false: the simulator drives object_step */
    bool (*step_workers)(void); /* without threads: runs one task of workers, false if none */
    struct executor *workers;   /* where blocking work goes; in simulation the run queue */
};

/* Locks metadata_dir (LOCK file), reads or creates cluster.id and node.key, opens kv, data, meta,
 * replays, loads the directory (object/directory.h). Each failure is logged with the path and what
 * to do. */
int object_store_open(struct os_env *env, const struct object_options *options,
                      struct object_store **ret);
/* Checkpoints unless failed, then closes everything. */
void object_store_close(struct object_store *store);
/* Simulation: one bounded step of everything (commit turn, checkpoint, compaction...). */
int object_step(struct object_store *store, bool *ret_busy);
struct meta *object_meta(struct object_store *store);
struct data *object_data(struct object_store *store);
struct os_env *object_env(struct object_store *store);
const uint8_t *object_cluster_id(struct object_store *store); /* 16 bytes */

/* ---- conditions ---- */

/* An entity-tag list of If-Match or If-None-Match, parsed: either any ("*") or tags. */
struct object_etags {
    bool given;
    bool any;
    const struct slice *tags; /* without quotes, as sent */
    uint32_t tag_count;
};
struct object_conditions {
    struct object_etags match, none_match;
    bool modified_since_given, unmodified_since_given;
    int64_t modified_since_ms, unmodified_since_ms; /* whole seconds */
    bool size_given;                                /* x-amz-if-match-size */
    uint64_t size;
    bool last_modified_given; /* x-amz-if-match-last-modified-time */
    int64_t last_modified_ms;
};
/* For reads (RFC 9110 13.2.2 order): 0, PRECONDITION or NOT_MODIFIED. */
int object_conditions_read(const struct object_conditions *c, const struct object_record *record);
/* For writes; record NULL when there is none. If-Match on a missing key: NO_SUCH_KEY. */
int object_conditions_write(const struct object_conditions *c, const struct object_record *record);
/* "md5hex" or "md5hex-N" with NUL. */
#define OBJECT_ETAG_SIZE 48
void object_etag_text(const struct etag *etag, char ret[OBJECT_ETAG_SIZE]);

/* ---- reading ---- */

/* An object that was found: its record and a pin on its bodies until object_read_done. */
struct object_read;
/* NO_SUCH_KEY when absent. May run on a loop: one point read. */
int object_read_open(struct object_store *store, uint64_t bucket, struct slice key,
                     struct pool *pool, struct object_read **ret);
const struct object_record *object_read_record(const struct object_read *read);
/* Chooses [off, off + size) of the object for the calls that follow. Default: all. */
void object_read_range(struct object_read *read, uint64_t off, uint64_t size);
/* The next bytes, at most size_max; *ret_size 0 at the end of the range. nowait: AGAIN when the
 * disk is needed (call again on a worker). CORRUPT or IO: the object is named in the log, the
 * response must be cut. */
int object_read_next(struct object_read *read, void *data, size_t size_max, bool nowait,
                     size_t *ret_size);
void object_read_done(struct object_read *read); /* NULL is fine */

/* ---- writing ---- */

enum object_write_kind { OBJECT_WRITE_PUT, OBJECT_WRITE_PART };
struct object_write_args {
    enum object_write_kind kind;
    uint64_t bucket;
    struct slice key;      /* lives as long as the session */
    uint8_t upload_id[16]; /* PART */
    uint16_t part_number;  /* PART, 1..10000 */
    uint64_t size;         /* decoded size, or UINT64_MAX when unknown */
    uint8_t
        checksum_algorithm; /* to compute; NONE: CRC64NVME for PUT; for PART what the upload asks */
};
struct object_write;
/* Checks that bucket (and upload) exist and that there is room. May run on a loop. */
int object_write_open(struct object_store *store, const struct object_write_args *args,
                      struct pool *pool, struct object_write **ret);
/* True when object_write_data only copies and hashes little: it may then run on the loop (small
 * body of known size). */
bool object_write_is_inline(const struct object_write *write);
/* The next bytes: hashed (MD5, checksum), cut into blocks, written. Otherwise on a worker. LIMIT
 * above 5 GiB. */
int object_write_data(struct object_write *write, const void *data, size_t size);
/* Before the first byte: MD5, half of the work on a large body, is left to object_write_md5_data,
 * which another thread may call while object_write_data has the same bytes. Every byte must be
 * given to both, in order, and both must have returned before the next call of anything else. */
void object_write_md5_apart(struct object_write *write);
void object_write_md5_data(struct object_write *write, const void *data, size_t size);
/* After the last byte: ends hashing and makes large bodies durable. On a worker unless inline. Then
 * the results: */
int object_write_finish(struct object_write *write);
const uint8_t *object_write_md5(const struct object_write *write); /* 16 bytes */
const struct checksum *object_write_checksum(const struct object_write *write);
uint64_t object_write_size(const struct object_write *write);
/* Throws the session away; nothing is visible, space becomes garbage. NULL is fine. */
void object_write_abort(struct object_write *write);

struct object_commit_args {
    struct object_headers headers;
    const struct object_conditions *conditions; /* NULL: none */
    struct slice owner;
};
struct object_result { /* what a commit made; valid in done and as long as the request's pool */
    struct etag etag;
    uint64_t size;
    uint64_t sequence;
    int64_t modified_ms;
    struct checksum checksum;
};
typedef void (*object_done_fn)(void *arg, int err, const struct object_result *result);
/* Names what was written (PutObject or UploadPart). Consumes the session in any case; pool must
 * live until done. */
void object_write_commit(struct object_write *write, const struct object_commit_args *args,
                         struct executor *home, object_done_fn done, void *arg);

/* ---- deleting ---- */

struct object_delete_item {
    struct slice key;
    const struct object_conditions *conditions; /* NULL: none */
    int err; /* out: 0 also when there was nothing; PRECONDITION, ... */
    bool existed;
};
/* 1 to 1000 keys, in one transaction if an entry can hold it; done's result is NULL. err is about
 * the whole (NO_SUCH_BUCKET, CRASHED); each item has its own. Large ones run on workers by
 * themselves. */
void object_delete(struct object_store *store, uint64_t bucket, struct object_delete_item *items,
                   uint32_t count, struct pool *pool, struct executor *home, object_done_fn done,
                   void *arg);

/* ---- copying ---- */

struct object_copy_args {
    uint64_t source_bucket, bucket;
    struct slice source_key, key;
    const struct object_conditions
        *source_conditions; /* read conditions: mismatch of either kind is PRECONDITION */
    const struct object_conditions *conditions;
    bool replace_metadata; /* headers below replace; else the source's are kept */
    struct object_headers headers;
    uint8_t checksum_algorithm; /* NONE: the source's */
    struct slice owner;
};
/* By reference where possible (bodies are shared, reference-counted); small bodies are copied. */
void object_copy(struct object_store *store, const struct object_copy_args *args, struct pool *pool,
                 struct executor *home, object_done_fn done, void *arg);

/* ---- multipart ---- */

struct object_upload_args {
    uint64_t bucket;
    struct slice key;
    struct upload_record record; /* created_ms is filled in */
};
/* ret_upload_id is written before done. */
void object_upload_create(struct object_store *store, const struct object_upload_args *args,
                          uint8_t ret_upload_id[16], struct pool *pool, struct executor *home,
                          object_done_fn done, void *arg);
/* NO_SUCH_UPLOAD unless it exists for that very bucket and key. */
int object_upload_get(struct object_store *store, uint64_t bucket, struct slice key,
                      const uint8_t upload_id[16], struct pool *pool, struct upload_record *ret);
struct object_part_copy_args {
    uint64_t source_bucket, bucket;
    struct slice source_key, key;
    const struct object_conditions *source_conditions;
    uint8_t upload_id[16];
    uint16_t part_number;
    bool range_given;
    uint64_t range_first, range_last; /* inclusive */
};
void object_part_copy(struct object_store *store, const struct object_part_copy_args *args,
                      struct pool *pool, struct executor *home, object_done_fn done, void *arg);
struct object_complete_part {
    uint16_t number;
    struct slice etag;        /* without quotes, may be empty (not sent) */
    struct checksum checksum; /* size 0: not sent */
};
struct object_complete_args {
    uint64_t bucket;
    struct slice key;
    uint8_t upload_id[16];
    const struct object_complete_part *parts; /* as sent, in order sent */
    uint32_t part_count;
    struct checksum checksum; /* expected of the object; size 0: not sent */
    bool type_given;
    uint8_t type; /* x-amz-checksum-type */
    bool size_given;
    uint64_t size; /* x-amz-mp-object-size */
    const struct object_conditions *conditions;
    struct slice owner;
};
/* Codes: XML (empty list), PART_ORDER, INVALID_PART, TOO_SMALL, NO_SUCH_UPLOAD, BAD_CHECKSUM,
 * INVALID_REQUEST, PRECONDITION. A second identical call after success gives the same result. */
void object_upload_complete(struct object_store *store, const struct object_complete_args *args,
                            struct pool *pool, struct executor *home, object_done_fn done,
                            void *arg);
void object_upload_abort(struct object_store *store, uint64_t bucket, struct slice key,
                         const uint8_t upload_id[16], struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg);

/* ---- listing (synchronous; on a worker) ---- */

struct object_list_args {
    uint64_t bucket;
    struct slice prefix, delimiter;
    struct slice
        after; /* resume strictly after this key (or common prefix); empty: from the start */
    bool after_is_prefix; /* after was a common prefix: skip everything that starts with it */
    uint32_t count_max;   /* keys and prefixes together, 0..1000 */
};
struct object_list_item {
    bool is_prefix;
    struct slice key;            /* or the common prefix */
    struct object_record record; /* peeked; undefined for prefixes */
};
struct object_list {
    struct object_list_item *items;
    uint32_t count;
    bool truncated;
    struct slice next; /* pass as after; */
    bool next_is_prefix;
};
int object_list(struct object_store *store, const struct object_list_args *args, struct pool *pool,
                struct object_list *ret);

struct object_upload_list_args {
    uint64_t bucket;
    struct slice prefix, delimiter, key_marker;
    const uint8_t *upload_id_marker; /* NULL: none */
    uint32_t count_max;
};
struct object_upload_item {
    bool is_prefix;
    struct slice key;
    uint8_t upload_id[16];
    struct upload_record record;
};
struct object_upload_list {
    struct object_upload_item *items;
    uint32_t count;
    bool truncated;
    struct slice next_key;
    uint8_t next_upload_id[16];
};
int object_upload_list(struct object_store *store, const struct object_upload_list_args *args,
                       struct pool *pool, struct object_upload_list *ret);
struct object_part_list {
    struct part_record *parts;
    uint32_t count;
    bool truncated;
};
int object_part_list(struct object_store *store, const uint8_t upload_id[16], uint16_t after,
                     uint32_t count_max, struct pool *pool, struct object_part_list *ret);

/* Aborts uploads of a bucket created before a time; *ret_count how many. Blocks; on a worker or the
 * admin thread. */
int object_upload_cleanup(struct object_store *store, uint64_t bucket, int64_t created_before_ms,
                          uint32_t *ret_count);

/* ---- whole store ---- */

struct object_stats {
    struct meta_stats meta;
    struct data_stats data;
    struct kv_stats kv;
    uint64_t objects, object_bytes, uploads, upload_bytes; /* over all buckets */
};
void object_stats(struct object_store *store, struct object_stats *ret);

/* hayloft rebuild: with the store stopped, drops kv and log and writes the namespace again from the
 * volumes; access keys and permissions are taken over from the old kv when it can be read. progress
 * may be NULL. */
struct object_rebuild_result {
    uint64_t objects, buckets, skipped, missing_bodies;
    bool keys_known; /* the old metadata could be read */
    uint64_t keys, permissions;
};
int object_rebuild(struct os_env *env, const struct object_options *options,
                   void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total),
                   void *arg, struct object_rebuild_result *ret);

#endif
