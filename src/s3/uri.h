/* Names out of a request: bucket, key and query parameters of the raw target, and the copy source.
 * Every part is percent-decoded exactly once, here, into the pool; authorisation and storage use
 * the same decoded bytes (never a path that was joined or cleaned: ".", "..", "//" are key bytes).
 * Pure. */
#ifndef S3_URI_H
#define S3_URI_H

#include "base/pool.h"
#include "http/server.h"

struct s3_query_param {
    struct slice name;  /* decoded, UTF-8, no NUL */
    struct slice value; /* decoded ('+' is a space); size 0 without '=' */
    bool has_value;     /* an '=' was there */
};

struct s3_query {
    const struct s3_query_param *params; /* in the order sent */
    uint32_t count;
};

#define S3_QUERY_PARAMS_MAX 128

/* URI when an escape is malformed, a name or value is not UTF-8 or holds NUL, or with more than
 * S3_QUERY_PARAMS_MAX parameters. */
int s3_query_parse(struct slice raw, struct pool *pool, struct s3_query *ret);
/* The first parameter of that name (exact case), or NULL. */
const struct s3_query_param *s3_query_find(const struct s3_query *query, const char *name);
bool s3_query_has(const struct s3_query *query, const char *name);
/* Its value; data NULL when the parameter is absent, never NULL when it is there. */
struct slice s3_query_value(const struct s3_query *query, const char *name);

struct s3_uri {
    struct slice bucket; /* data NULL: none (the service itself). Not yet checked as a name */
    struct slice key;    /* size 0: none. Not yet checked for length */
    bool virtual_host;   /* the bucket came from the Host header */
    struct s3_query query;
};

/* Path style, or virtual-host style by s3_uri_host_bucket. "/" and "//" name the service, "/b" and
 * "/b/" the bucket, "/b//x" the key "/x". URI when an escape is malformed or a part is not UTF-8 or
 * holds NUL. */
int s3_uri_parse(const struct http_head *head, const char *root_domain, struct pool *pool,
                 struct s3_uri *ret);

/* The bucket that a Host header names, borrowed from host; data NULL for path style. root_domain
 * ".s3.local": Host "b.s3.local[:port]" in any case, b with dots too. root_domain NULL: hosts
 * "b.localhost" and "b.s3.anything". Addresses are never buckets. */
struct slice s3_uri_host_bucket(struct slice host, const char *root_domain);

/* The path of the target, raw; an absolute-form target loses its scheme and authority. */
struct slice s3_uri_raw_path(const struct http_head *head);

/* Percent-decodes into the pool; plus: '+' becomes a space. False on a malformed escape or when out
 * of memory. */
bool s3_uri_decode(struct slice raw, bool plus, struct pool *pool, struct slice *ret);

/* The first header of that name (any case) in a head, or data NULL. */
struct slice s3_head_header(const struct http_head *head, const char *name);

struct s3_copy_source {
    struct slice bucket;
    struct slice key;
    struct slice version_id; /* data NULL: none */
};

/* x-amz-copy-source: "/b/k", "b/k", "b%2Fk", each perhaps with "?versionId=v" (split off at that
 * literal in the raw header; a '?' of a key is escaped). A '+' stays a plus. INVALID when it does
 * not name both, or is not UTF-8. */
int s3_copy_source_parse(struct slice header, struct pool *pool, struct s3_copy_source *ret);

#endif
