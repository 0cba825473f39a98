/* Values of the rows in KV_META as structs, and their encoding: a version byte, then fields as
 * (tag varint, length-prefixed or varint value), so that a newer version adds fields without
 * changing the format. Unknown tags below 128 are an error (they change the meaning), from 128 on
 * they are kept and written back. Decoded slices point into the input. Encoders append to a buf.
 * Golden files: test/unit/meta/golden/. */
#ifndef META_RECORDS_H
#define META_RECORDS_H

#include "base/buf.h"
#include "base/pool.h"
#include "volume/volume.h"

/* ---- checksums of S3 ---- */

enum checksum_algorithm {
    CHECKSUM_NONE = 0,
    CHECKSUM_CRC32 = 1,
    CHECKSUM_CRC32C = 2,
    CHECKSUM_CRC64NVME = 3,
    CHECKSUM_SHA1 = 4,
    CHECKSUM_SHA256 = 5,
};
enum checksum_type { CHECKSUM_FULL_OBJECT = 0, CHECKSUM_COMPOSITE = 1 };
#define CHECKSUM_SIZE_MAX 32

struct checksum {
    uint8_t algorithm;                /* enum checksum_algorithm */
    uint8_t type;                     /* enum checksum_type */
    uint8_t size;                     /* bytes of value: 4, 4, 8, 20, 32; 0 when none */
    uint8_t value[CHECKSUM_SIZE_MAX]; /* big-endian for CRCs, as on the wire before base64 */
};

/* ---- objects ---- */

struct etag {
    uint8_t md5[16];
    uint32_t parts; /* 0: plain md5; else the "-N" of a multipart object */
};

/* A run of blocks: part of a large body. */
struct body_run {
    struct body_id first;
    uint32_t block_bytes; /* every block but the last has this size */
    uint32_t block_count;
    uint64_t size; /* bytes of the run */
    uint64_t skip; /* bytes to skip at its start (UploadPartCopy by reference); 0 usually */
};

struct object_part {
    uint16_t number; /* 1..10000; 0 for a large object that was not uploaded in parts */
    uint64_t size;
    uint8_t md5[16];
    struct checksum checksum;
    struct body_run run; /* block_count 0: the part's bytes are the inline body below */
    struct body_id
        inline_id; /* head record whose body is the part (small part), else BODY_ID_NONE */
};

struct header_pair { /* user metadata: name in lower case without "x-amz-meta-", value byte for byte
                      */
    struct slice name;
    struct slice value;
};

/* Standard headers that round-trip. */
struct object_headers {
    struct slice content_type; /* data NULL: was not given */
    struct slice cache_control;
    struct slice content_disposition;
    struct slice content_encoding;
    struct slice content_language;
    struct slice expires;
    struct slice website_redirect;
    struct slice storage_class;
    const struct header_pair *metadata;
    uint32_t metadata_count;
};

struct object_record {
    uint64_t sequence; /* order of commits: greater is newer; from meta_sequence() */
    int64_t modified_ms;
    uint64_t size;
    struct etag etag;
    struct body_id head; /* the head record: it also holds the body when part_count is 0 */
    struct checksum checksum;
    struct object_headers headers;
    const struct object_part *parts; /* large or multipart; NULL when inline */
    uint32_t part_count;
    bool multipart;          /* created by CompleteMultipartUpload: parts are visible to clients */
    struct slice owner;      /* access key id or canonical id of the writer; may be empty */
    struct slice tags;       /* reserved: encoded tag set */
    struct slice acl;        /* reserved */
    struct slice lock;       /* reserved: retention and legal hold */
    struct slice encryption; /* reserved */
    struct slice version_id; /* reserved: empty is the null version */
    struct slice unknown;    /* fields of newer versions, as found; written back */
};

/* The row of an object ends with the id of its head record. The head record itself holds the row as
 * its origin without that field, because the record's own id says it: split takes it off (value
 * unchanged when it does not end so), append puts it back, e.g. in a rebuild. */
#define OBJECT_HEAD_FIELD_SIZE 18
void object_record_append_head(struct buf *out, struct body_id head);
struct slice object_record_split_head(struct slice value, struct body_id head);

void object_record_encode(struct buf *out, const struct object_record *record);
/* Arrays come from pool. CORRUPT when malformed. */
int object_record_decode(struct slice value, struct pool *pool, struct object_record *ret);
/* Only sequence, modified_ms, size, etag, checksum, storage class and owner: no pool, for listings.
 */
int object_record_peek(struct slice value, struct object_record *ret);

struct upload_record {
    int64_t created_ms;
    struct object_headers headers;
    uint8_t checksum_algorithm;
    uint8_t checksum_type;
    bool checksum_given; /* the client named an algorithm at creation */
    struct slice owner;  /* access key id of the initiator */
    struct slice owner_name;
    struct slice tags, acl, lock, encryption; /* reserved */
    struct slice unknown;
};
void upload_record_encode(struct buf *out, const struct upload_record *record);
int upload_record_decode(struct slice value, struct pool *pool, struct upload_record *ret);

struct part_record {
    struct object_part part;
    int64_t modified_ms;
    struct slice unknown;
};
void part_record_encode(struct buf *out, const struct part_record *record);
int part_record_decode(struct slice value, struct part_record *ret);

/* The value of a 'd' row. */
struct completed_record {
    uint64_t bucket;
    struct slice key;
    struct etag etag;
    uint64_t sequence; /* of the object that it made */
    int64_t completed_ms;
    uint8_t parts_sha256[32]; /* of the part list sent, to tell a retry from another request */
};
void completed_record_encode(struct buf *out, const struct completed_record *record);
int completed_record_decode(struct slice value, struct completed_record *ret);

/* ---- buckets and keys ---- */

struct bucket_record {
    uint64_t id;
    int64_t created_ms;
    struct slice name;     /* the alias it was created under: for messages and rebuild */
    struct slice owner;    /* access key id that created it; empty: the operator */
    struct slice location; /* LocationConstraint as given; empty: none */
    uint64_t quota_bytes;  /* 0: none */
    uint64_t quota_objects;
    uint32_t group;     /* consensus group of its rows (0 on a single node) */
    uint8_t versioning; /* reserved: 0 never, 1 enabled, 2 suspended */
    struct slice unknown;
};
void bucket_record_encode(struct buf *out, const struct bucket_record *record);
int bucket_record_decode(struct slice value, struct bucket_record *ret);

enum access_key_flags { ACCESS_KEY_CREATE_BUCKET = 1, ACCESS_KEY_DISABLED = 2 };
struct access_key_record {
    struct slice id; /* GK + 24 hex digits, or an imported AWS-shaped id */
    struct slice secret;
    struct slice name;
    int64_t created_ms;
    int64_t expires_ms; /* 0: never */
    uint32_t flags;
    struct slice unknown;
};
void access_key_record_encode(struct buf *out, const struct access_key_record *record);
int access_key_record_decode(struct slice value, struct access_key_record *ret);

enum permission_flags { PERMISSION_READ = 1, PERMISSION_WRITE = 2, PERMISSION_OWNER = 4 };
/* A permission row's value is one byte of flags. */

#endif
