/* Inside of src/object: the store's state, the frame of asynchronous operations, and the helpers
 * that several operations share. */
#ifndef OBJECT_OBJECT_INT_H
#define OBJECT_OBJECT_INT_H

#include <pthread.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/logger.h"
#include "object/directory.h"
#include "object/object.h"

#define OBJECT_INLINE_MAX_DEFAULT           (32u << 10)
#define OBJECT_BLOCK_BYTES_DEFAULT          (4u << 20)
#define OBJECT_CHECKPOINT_LOG_BYTES_DEFAULT (32u << 20)
#define OBJECT_SEGMENT_BYTES_DEFAULT        (4u << 20)
#define OBJECT_SEGMENTS_MAX_DEFAULT         64u
/* S3's limits: on one PUT, part or copy; on an object; on every part but the last. */
#define OBJECT_WRITE_BYTES_MAX              (5ull << 30)
#define OBJECT_BYTES_MAX                    (50ull << 40)
#define OBJECT_PART_BYTES_MIN               (5ull << 20)
#define OBJECT_PART_NUMBER_MAX              10000
/* How long a Complete may be repeated. */
#define OBJECT_COMPLETED_KEEP_MS            (7ll * 24 * 3600 * 1000)
/* Decoding one row of 10,000 parts takes about 3 MiB. */
#define OBJECT_POOL_BYTES_MAX               (64u << 20)
/* A row above this is taken apart on a worker, not on a loop. */
#define OBJECT_HEAVY_ROW_BYTES              4096u

struct directory;
struct maintenance;

struct object_store {
    struct os_env *env;
    char *metadata_dir;
    uint8_t cluster_id[16];
    struct os_file *lock;
    struct kv *kv;
    struct data *data;
    struct meta *meta;
    struct directory *directory;
    struct maintenance *maintenance; /* NULL without threads */
    struct executor *workers;
    uint32_t inline_max;
    uint32_t block_bytes;
    uint64_t checkpoint_log_bytes;
    uint64_t log_bytes_max; /* all files of the log */
    struct {
        pthread_mutex_t mutex;
        uint64_t asked_us;
        uint64_t admitted_bytes;
        uint32_t admits;
        bool asked;
        bool is_short;
    } space; /* space.c: of metadata_dir */
    bool threads;
    bool (*step_workers)(void);
    uint32_t idle_steps; /* object_step: since the last busy turn */
    void (*fatal)(void *ctx, int err);
    void *fatal_ctx;
};

/* ---- op.c: an asynchronous operation is one transaction that may be tried again ---- */

struct object_op;
/* Inside the transaction. */
typedef int (*object_op_fn)(struct object_op *op, struct meta_txn *txn);

struct object_op {
    struct object_store *store;
    struct pool *pool; /* the request's */
    struct executor *home;
    object_done_fn done;
    void *arg;

    object_op_fn fn;
    /* After the transaction, on its executor; ends with object_op_end. NULL: just that. */
    void (*finished)(struct object_op *op, int err);
    bool on_worker; /* the transaction runs on workers */

    struct meta_latch *latches;
    uint32_t latch_count, latch_capacity;
    uint32_t latch_hint;
    bool again; /* fn found that it needs more latches or a worker */
    uint32_t again_count;
    bool unknown_latch; /* out of memory while a latch was added */

    int err;
    bool has_result;
    struct object_result result;
    struct task task;
};

/* Fills in what every operation has. */
void object_op_init(struct object_op *op, struct object_store *store, struct pool *pool,
                    struct executor *home, object_done_fn done, void *arg);
/* key is copied into the pool. Held already: the stronger mode wins. */
void object_op_latch(struct object_op *op, struct slice key, enum meta_latch_mode mode);
bool object_op_holds(struct object_op *op, struct slice key, enum meta_latch_mode mode);
void object_op_latch_bucket(struct object_op *op, uint64_t bucket, bool may_grow);
void object_op_latch_object(struct object_op *op, uint64_t bucket, struct slice key,
                            enum meta_latch_mode mode);
void object_op_latch_upload(struct object_op *op, uint64_t bucket, struct slice key,
                            const uint8_t upload_id[16], enum meta_latch_mode mode);
/* Runs the transaction (op->fn under op->latches); on home, or from anywhere with on_worker. */
void object_op_run(struct object_op *op);
/* Runs fn on a worker, or on home. */
void object_op_post(struct object_op *op, void (*fn)(struct task *task));
/* Calls done on home and is the last thing that happens to op. Any thread. */
void object_op_end(struct object_op *op, int err);
/* Inside fn: give up this attempt and come again with the latches added meanwhile. */
int object_op_again(struct object_op *op);

/* ---- rows.c: what transactions read and count ---- */

/* An object's current row inside a transaction or a read. Absent: found false, 0. */
struct object_current {
    bool found;
    struct object_record record;
};
/* Decoded into pool. A large row makes an op that is not on a worker come again on one. */
int object_current_load(struct object_op *op, struct pool *pool, uint64_t bucket, struct slice key,
                        struct object_current *ret);
/* For messages: the bucket's name, or its number when it has none any more. */
#define OBJECT_BUCKET_TEXT 80
void object_bucket_text(struct object_store *store, uint64_t bucket, char ret[OBJECT_BUCKET_TEXT]);
int object_row_load(struct object_store *store, struct slice row_key, struct pool *pool,
                    struct object_record *ret);

/* What a transaction does to a bucket's numbers. */
struct object_delta {
    int64_t objects, bytes, uploads, upload_bytes;
};
void object_count(struct meta_txn *txn, uint64_t bucket, const struct object_delta *delta);
/* The bucket exists, and its quota (exact: then the bucket's latch is exclusive) allows delta. */
int object_bucket_check(struct object_op *op, uint64_t bucket, const struct object_delta *delta);

/* Bodies that a row names apart from its head record: runs of blocks and heads of small parts.
 * Several rows may name one unit; its 'r' row counts the names beyond the first. */
struct object_unit {
    struct body_id id;
    uint32_t count; /* of bodies */
    bool head;
};
struct object_units {
    struct object_unit *items;
    uint32_t count, capacity;
};
int object_units_add_part(struct object_units *units, struct pool *pool,
                          const struct object_part *part);
int object_units_add_record(struct object_units *units, struct pool *pool,
                            const struct object_record *record);
/* Drops one name for each item. Bodies without names are freed. May come again for latches. */
int object_units_release(struct object_op *op, struct meta_txn *txn, struct object_units *units);
/* One more name for each item. The caller's latches keep a row that names them alive. */
void object_units_share(struct meta_txn *txn, const struct object_units *units);
/* A version that is replaced or deleted: its head and its units. */
int object_record_release(struct object_op *op, struct meta_txn *txn,
                          const struct object_record *record);

/* Encodes record and puts it as the row of (bucket, key) with its head record. */
int object_record_put(struct meta_txn *txn, uint64_t bucket, struct slice key,
                      const struct object_record *record, struct slice body);

/* ---- digest.c ---- */

struct object_digest { /* MD5 and one S3 checksum over a stream */
    struct hash *md5;
    struct hash *hash; /* SHA-1 or SHA-256 */
    uint8_t algorithm;
    bool md5_apart; /* somebody else feeds md5 */
    uint64_t crc;
};
void object_digest_init(struct object_digest *digest, uint8_t algorithm);
void object_digest_update(struct object_digest *digest, const void *data, size_t size);
void object_digest_final(struct object_digest *digest, uint8_t ret_md5[16], struct checksum *ret);
void object_digest_done(struct object_digest *digest); /* zeroed is fine */
/* The checksum of all parts' content from the parts' own: FULL_OBJECT by combining CRCs (false for
 * SHA), COMPOSITE by hashing their values. False also when a part lacks it. */
bool object_checksum_combine(const struct object_part *parts, uint32_t count, uint8_t algorithm,
                             uint8_t type, struct checksum *ret);
/* MD5 of the parts' MD5s. */
struct etag object_parts_etag(const struct object_part *parts, uint32_t count);

/* ---- commit.c: parts of uploads ---- */

struct object_part_place {
    uint64_t bucket;
    struct slice key;
    const uint8_t *upload_id;
    uint16_t number;
};
void object_part_latch(struct object_op *op, const struct object_part_place *place);
/* Inside the transaction: the upload exists; what the part replaces is freed; bytes are counted.
 * The caller puts the row. */
int object_part_replace(struct object_op *op, struct meta_txn *txn,
                        const struct object_part_place *place, uint64_t size);
/* All parts of an upload, in order, into pool. */
int object_parts_load(struct object_store *store, const uint8_t upload_id[16], struct pool *pool,
                      struct object_part **ret, uint32_t *ret_count);
/* Deletes the rows of an upload and of its parts. */
int object_upload_drop(struct meta_txn *txn, uint64_t bucket, struct slice key,
                       const uint8_t upload_id[16]);

/* ---- others ---- */

/* Reads the whole object (or its chosen range) through the digest. On a worker. body, if given, has
 * room for all of it. */
int object_read_digest(struct object_read *read, struct object_digest *digest, uint8_t *body);

/* space.c: room for a write that brings bytes (PUT, part, copy, create). NO_SPACE when a directory
 * for data or the file system of metadata_dir would lose its reserve. What makes room does not ask.
 */
int object_admit(struct object_store *store, uint64_t bytes);
/* Looks at metadata_dir's file system, at most once a second. True: promise nothing new. */
bool object_space_short(struct object_store *store);
/* NO_SPACE when a flush of the kv may not fit now. */
int object_space_for_flush(struct object_store *store);
/* How large the log may grow, less than asked for on a small disk. */
void object_space_limit_log(struct object_store *store, struct meta_options *options);
void object_space_init(struct object_store *store);
void object_space_done(struct object_store *store);

int directory_new(struct object_store *store); /* sets store->directory and watches */
int directory_load(struct object_store *store);
void directory_free(struct directory *directory);
void directory_totals(struct object_store *store, struct directory_usage *ret);

int maintenance_start(struct object_store *store);
void maintenance_stop(struct object_store *store);

/* store.c, for rebuild.c */
int object_store_lock(struct os_env *env, const char *metadata_dir, struct os_file **ret);
char *object_path(const char *dir, const char *name); /* heap */
int object_kv_open(struct os_env *env, const struct object_options *options, bool create,
                   struct kv **ret);

#define OBJECT_CLUSTER_FILE "cluster.id"
#define OBJECT_NODE_FILE    "node.key"
#define OBJECT_LOCK_FILE    "LOCK"
#define OBJECT_START_FILE   "first-start"   /* there until the first start was complete */
#define OBJECT_REBUILD_FILE "rebuild-begun" /* there while a rebuild is incomplete */

#endif
