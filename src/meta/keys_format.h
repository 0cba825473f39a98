/* Keys of the rows in KV_META. Every row starts with a table byte; numbers are big-endian so that
 * byte order is numeric order.
 *
 *   's' name                         system row ("schema", "sequence", "bucket_next", "cluster")
 *   'b' bucket:8                     bucket record
 *   'n' name                         global alias -> bucket:8
 *   'l' key_id 00 name               alias local to an access key -> bucket:8
 *   'k' key_id                       access key record
 *   'p' bucket:8 key_id              permission flags of a key on a bucket
 *   'o' bucket:8 key                 current object: object record (key is raw: the row ends with
 * it) 'v' bucket:8 esc(key) ~version:8 older versions, newest first (reserved: versioning) 'u'
 * bucket:8 esc(key) upload:16  multipart upload: upload record 'm' upload:16 part:2 part record 'c'
 * bucket:8 counter:1           counters (kv_batch_add): 'o' objects, 'y' bytes, 'u' uploads, 'z'
 * bytes in uploads 'r' body:16                      extra references of a run of bodies, by its
 * first id (counter row; absent = none) 'd' upload:16                    completed upload: (bucket,
 * key, etag) for an idempotent second Complete; swept 'f' ...                          file systems
 * (reserved)
 *
 * esc(): 00 becomes 00 FF, the end is 00 01, so that esc(a) < esc(b) exactly when a < b. */
#ifndef META_KEYS_FORMAT_H
#define META_KEYS_FORMAT_H

#include "base/buf.h"
#include "volume/volume.h"

enum keys_table {
    KEYS_SYSTEM = 's',
    KEYS_BUCKET = 'b',
    KEYS_ALIAS = 'n',
    KEYS_LOCAL_ALIAS = 'l',
    KEYS_ACCESS_KEY = 'k',
    KEYS_PERMISSION = 'p',
    KEYS_OBJECT = 'o',
    KEYS_VERSION = 'v',
    KEYS_UPLOAD = 'u',
    KEYS_PART = 'm',
    KEYS_COUNTER = 'c',
    KEYS_REFERENCES = 'r',
    KEYS_COMPLETED = 'd',
};

enum keys_counter {
    KEYS_COUNT_OBJECTS = 'o',
    KEYS_COUNT_BYTES = 'y',
    KEYS_COUNT_UPLOADS = 'u',
    KEYS_COUNT_UPLOAD_BYTES = 'z',
};

#define KEYS_OBJECT_KEY_MAX 1024 /* S3's limit on a key */
#define KEYS_OBJECT_PREFIX  9    /* 'o' bucket:8 */

/* Each appends to out (usually cleared before). */
void keys_system(struct buf *out, const char *name);
void keys_bucket(struct buf *out, uint64_t bucket);
void keys_alias(struct buf *out, struct slice name);
void keys_local_alias(struct buf *out, struct slice key_id, struct slice name);
void keys_access_key(struct buf *out, struct slice key_id);
void keys_permission(struct buf *out, uint64_t bucket, struct slice key_id);
void keys_object(struct buf *out, uint64_t bucket, struct slice key);
/* Without upload (NULL): the prefix of all uploads of that very key. */
void keys_upload(struct buf *out, uint64_t bucket, struct slice key, const uint8_t *upload_id);
void keys_upload_bucket(struct buf *out, uint64_t bucket); /* prefix of all uploads of a bucket */
void keys_part(struct buf *out, const uint8_t *upload_id, uint16_t part);
void keys_counter(struct buf *out, uint64_t bucket, enum keys_counter counter);
void keys_references(struct buf *out, struct body_id first);
void keys_completed(struct buf *out, const uint8_t *upload_id);
/* The smallest string above every string that starts with prefix; empty when there is none. */
void keys_prefix_end(struct buf *out, struct slice prefix);

/* Takes an upload row's key apart. The object key is appended to out unescaped. False when
 * malformed. */
bool keys_parse_upload(struct slice row_key, uint64_t *ret_bucket, struct buf *out_key,
                       const uint8_t **ret_upload_id);
bool keys_parse_object(struct slice row_key, uint64_t *ret_bucket, struct slice *ret_key);

#endif
