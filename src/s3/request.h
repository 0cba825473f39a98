/* One S3 request while it is being served: what was asked (method, bucket, key, parameters), who
 * asks, and how it is answered. Lives in the request's pool and dies with it: after s3_respond_*,
 * s3_fail* or http_response_end/cut nothing of it may be touched. Everything runs on the request's
 * loop except what s3_on_worker sends elsewhere; at most one task of a request is in flight. */
#ifndef S3_REQUEST_H
#define S3_REQUEST_H

#include "s3/auth.h"
#include "s3/s3.h"
#include "s3/uri.h"

struct s3 {
    struct object_store *store;
    struct executor *workers;
    struct os_clock *clock;
    struct http_handler handler;
    char region[64];
    bool region_strict;
    char root_domain[256]; /* with its leading dot; "" when not configured */
};

enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE, S3_OPTIONS, S3_METHOD_OTHER };
enum s3_scope { S3_SERVICE, S3_BUCKET, S3_OBJECT };

#define S3_KEY_BYTES_MAX    1024
#define S3_OBJECT_BYTES_MAX (5ull << 30) /* one PutObject or part; AWS: 5 GiB */

struct s3_document;
struct s3_route;
struct s3_request;
typedef int (*s3_work_fn)(struct s3_request *r);
typedef void (*s3_then_fn)(struct s3_request *r, int err);

#define S3_DETAILS_MAX 6
struct s3_request {
    struct s3 *s3;
    struct http_request *http;
    const struct http_head *head;
    struct pool *pool;
    struct executor *home;
    uint64_t start_us;

    enum s3_method method;
    enum s3_scope scope;
    bool virtual_host;
    struct slice bucket_name; /* decoded */
    struct slice key;         /* decoded, opaque bytes */
    struct s3_query query;
    const struct s3_route *route; /* NULL until found */

    struct s3_auth auth;
    struct access_key_record access_key; /* undefined while auth.anonymous */
    struct bucket_record bucket;         /* scope BUCKET and OBJECT, except CreateBucket */
    uint32_t permissions;                /* enum permission_flags on bucket */

    struct buf out;      /* the XML answer being built; freed by whatever ends the request */
    const char *message; /* replaces the error's default text; in pool or static */
    struct s3_detail {   /* further elements of an error document */
        const char *name;
        struct slice value;
    } details[S3_DETAILS_MAX];
    uint32_t detail_count;

    struct slice owner_id, owner_name; /* the last owner shown: listings repeat it */

    struct task task;
    s3_work_fn work;
    s3_then_fn then;
    int work_err;
    struct s3_document *document; /* a body being read by s3_read_document */
    void *op;                     /* the handler's own state, in pool */
};

/* ---- what was asked ---- */

/* Method, host, path and query of the head into r. URI, KEY_TOO_LONG, INVALID. */
int s3_request_parse(struct s3_request *r);
/* The first parameter of that name; data NULL when absent. */
struct slice s3_param(const struct s3_request *r, const char *name);
bool s3_has_param(const struct s3_request *r, const char *name);
/* A header; of a presigned request also an x-amz-* parameter, for SDKs move such headers into the
 * signed query. data NULL when absent. */
struct slice s3_header(const struct s3_request *r, const char *name);
/* All of them one by one: the headers, then the parameters that count as headers. False for an
 * index that holds none (go on until s3_field_count). */
uint32_t s3_field_count(const struct s3_request *r);
bool s3_field(const struct s3_request *r, uint32_t index, struct slice *ret_name,
              struct slice *ret_value);
/* A count parameter (max-keys and its kin): absent or empty gives fallback; above max gives max;
 * not a number, negative or above 2^31-1: INVALID with a message. */
int s3_param_count(struct s3_request *r, const char *name, uint32_t fallback, uint32_t max,
                   uint32_t *ret);
/* encoding-type: absent or "url", else INVALID. */
int s3_param_encoding(struct s3_request *r, bool *ret_url);
/* versionId: absent or "null" is the current version, else NO_SUCH_VERSION, or INVALID when it
 * could never be one. */
int s3_check_version(struct s3_request *r);
/* uploadId: 32 hexadecimal digits, else NO_SUCH_UPLOAD. */
int s3_param_upload_id(struct s3_request *r, uint8_t ret[16]);
/* partNumber, 1 to 10000, else INVALID. */
int s3_param_part_number(struct s3_request *r, uint16_t *ret);

/* ---- running elsewhere ---- */

/* work on a worker, then `then` on the request's loop with what work returned. */
void s3_on_worker(struct s3_request *r, s3_work_fn work, s3_then_fn then);

/* ---- a body that is a document ---- */

/* Reads, verifies (payload hash, Content-MD5, checksum headers) and hands over the whole body of at
 * most size_max bytes; document lives in the pool. */
typedef void (*s3_document_fn)(struct s3_request *r, struct slice document);
/* about_object: x-amz-checksum-* headers speak of the object, not of the body
 * (CompleteMultipartUpload). Failures are answered here. */
void s3_read_document(struct s3_request *r, size_t size_max, bool about_object, s3_document_fn fn);

/* ---- answers ---- */

void s3_respond_empty(struct s3_request *r, int status);
/* r->out as application/xml. An overflown or failed buffer becomes 500. */
void s3_respond_xml(struct s3_request *r, int status);
void s3_fail(struct s3_request *r, int err); /* err negative; r->message and details are used */
void s3_fail_message(struct s3_request *r, int err, const char *message);
/* Sets r->message and returns err: `return s3_err(r, -HL_ERR_INVALID, "...")`. */
int s3_err(struct s3_request *r, int err, const char *message);
void s3_add_detail(struct s3_request *r, const char *name, struct slice value);
/* Counts and logs the request; everything that ends one calls it once, before the answer's last
 * step. */
void s3_account(struct s3_request *r, int status);
/* http_handler.error_body. */
void s3_error_body(void *ctx, int status, const char *request_id, struct buf *body,
                   const char **content_type);

/* Headers of answers; values may be short-lived. */
void s3_set_header(struct s3_request *r, const char *name, struct slice value);
void s3_set_header_str(struct s3_request *r, const char *name, const char *value);
void s3_set_header_u64(struct s3_request *r, const char *name, uint64_t value);
void s3_set_etag(struct s3_request *r, const struct etag *etag); /* quoted */
/* x-amz-checksum-<name> and, with_type, x-amz-checksum-type; nothing when size is 0. parts: "-N" of
 * composite ones. */
void s3_set_checksum(struct s3_request *r, const struct checksum *checksum, uint32_t parts,
                     bool with_type);

/* Pieces of XML answers. */
void s3_xml_etag(struct buf *out, const struct etag *etag, bool quoted);
void s3_xml_checksum(struct buf *out, const struct checksum *checksum, uint32_t parts,
                     bool with_type);
void s3_xml_time(struct buf *out, const char *name, int64_t ms);
/* <name><ID/><DisplayName/></name>: the id is the access key's, the display name the key's name. */
void s3_xml_owner(struct s3_request *r, const char *name, struct slice key_id);
void s3_xml_owner_fields(struct s3_request *r, struct slice key_id); /* the two elements alone */
/* A key, prefix or marker: percent-encoded (but '/') when url. */
void s3_xml_key(struct buf *out, const char *name, struct slice key, bool url);

#endif
