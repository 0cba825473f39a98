/* The directory: buckets, aliases, access keys and permissions. Small and read on every request, so
 * all of it is held in memory (hash maps under a read-write lock, kept current by meta_watch) and
 * lookups never touch the disk. Rows are the truth; everything here is rebuilt from them at start.
 *
 * Lookups: any thread, loops included; results are copied into the caller's pool. Changes:
 * asynchronous transactions as in object.h (done's result is NULL); admin code that may block uses
 * object_wait (below). */
#ifndef OBJECT_DIRECTORY_H
#define OBJECT_DIRECTORY_H

#include "object/object.h"

/* ---- lookups ---- */

/* NO_SUCH_ACCESS_KEY; EXPIRED is the caller's business (expires_ms). */
int directory_access_key(struct object_store *store, struct slice id, struct pool *pool,
                         struct access_key_record *ret);
/* By S3 name: an alias local to key_id first, then a global one. NO_SUCH_BUCKET. */
int directory_bucket(struct object_store *store, struct slice name, struct slice key_id,
                     struct pool *pool, struct bucket_record *ret);
int directory_bucket_by_id(struct object_store *store, uint64_t bucket, struct pool *pool,
                           struct bucket_record *ret);
uint32_t directory_permission(struct object_store *store, uint64_t bucket,
                              struct slice key_id); /* flags */

struct directory_alias {
    struct slice name;
    struct slice key_id; /* empty: global */
};
struct directory_grant {
    uint64_t bucket;
    struct slice key_id;
    uint32_t flags;
};
/* Arrays in pool, sorted by name or id. */
int directory_aliases(struct object_store *store, uint64_t bucket, struct pool *pool,
                      struct directory_alias **ret, uint32_t *ret_count);
int directory_grants(struct object_store *store, uint64_t bucket, struct pool *pool,
                     struct directory_grant **ret, uint32_t *ret_count); /* of a bucket */
int directory_key_grants(struct object_store *store, struct slice key_id, struct pool *pool,
                         struct directory_grant **ret, uint32_t *ret_count);
int directory_buckets(struct object_store *store, struct pool *pool, struct bucket_record **ret,
                      uint32_t *ret_count);
int directory_access_keys(struct object_store *store, struct pool *pool,
                          struct access_key_record **ret, uint32_t *ret_count);
/* S3's ListBuckets: the names under which key_id sees buckets it has any permission on, in name
 * order. */
struct directory_listed {
    struct slice name;
    uint64_t bucket;
    int64_t created_ms;
};
int directory_list(struct object_store *store, struct slice key_id, struct slice prefix,
                   struct slice after, uint32_t count_max, struct pool *pool,
                   struct directory_listed **ret, uint32_t *ret_count, bool *ret_truncated);
/* Which object a record of the volumes belongs to (struct data_damage); false: to none. ret_key
 * points into origin_key. */
bool directory_origin(struct slice origin_key, uint64_t *ret_bucket, struct slice *ret_key);
struct directory_usage {
    int64_t objects, bytes, uploads, upload_bytes;
};
int directory_usage(struct object_store *store, uint64_t bucket, struct directory_usage *ret);

/* 3-63 bytes of a-z 0-9 . - with AWS's rules (s3-conformance.md 2.2). */
bool directory_bucket_name_valid(struct slice name);

/* ---- changes ---- */

/* Creates the bucket with one alias (local_to empty: global). owner: the key that gets read, write
 * and owner (empty: none). BUCKET_NAME, BUCKET_EXISTS (other owner), BUCKET_OWNED (same owner: the
 * caller decides what to answer). */
void directory_bucket_create(struct object_store *store, struct slice name, struct slice local_to,
                             struct slice owner, struct slice location, struct pool *pool,
                             struct executor *home, object_done_fn done, void *arg);
/* BUCKET_NOT_EMPTY while objects or unfinished uploads are there. Removes aliases and permissions.
 */
void directory_bucket_delete(struct object_store *store, uint64_t bucket, struct pool *pool,
                             struct executor *home, object_done_fn done, void *arg);
void directory_alias_add(struct object_store *store, uint64_t bucket, struct slice name,
                         struct slice local_to, struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg);
/* INVALID_REQUEST when it is the last alias. */
void directory_alias_remove(struct object_store *store, uint64_t bucket, struct slice name,
                            struct slice local_to, struct pool *pool, struct executor *home,
                            object_done_fn done, void *arg);
void directory_quota_set(struct object_store *store, uint64_t bucket, uint64_t bytes_max,
                         uint64_t objects_max, struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg);
/* flags = (flags & ~clear) | set. */
void directory_permission_set(struct object_store *store, uint64_t bucket, struct slice key_id,
                              uint32_t set, uint32_t clear, struct pool *pool,
                              struct executor *home, object_done_fn done, void *arg);
/* Creates (EXISTS when the id is taken) or, with replace, overwrites. */
void directory_access_key_put(struct object_store *store, const struct access_key_record *record,
                              bool replace, struct pool *pool, struct executor *home,
                              object_done_fn done, void *arg);
/* Also removes its permissions and local aliases. */
void directory_access_key_delete(struct object_store *store, struct slice id, struct pool *pool,
                                 struct executor *home, object_done_fn done, void *arg);
/* New random pair in Garage's shape: "GK" + 24 hex digits, secret 64 hex digits; in pool. */
void directory_access_key_generate(struct object_store *store, struct pool *pool,
                                   struct slice *ret_id, struct slice *ret_secret);

/* ---- blocking use (admin, tests) ---- */

/* A home executor and a done callback for code that may block: pass &wait.executor,
 * object_wait_done, &wait, then object_wait(&wait) returns done's err. Not on loops, not in
 * simulation with threads = false (there object_wait steps the store). */
struct object_wait;
struct object_wait *object_wait_new(struct object_store *store);
struct executor *object_wait_executor(struct object_wait *wait);
void object_wait_done(void *arg, int err,
                      const struct object_result *result); /* arg: the object_wait */
int object_wait(struct object_wait *wait,
                struct object_result *ret_result); /* ret_result may be NULL; frees wait */

#endif
