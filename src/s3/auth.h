/* Who sends this request, and is it signed by them? AWS Signature Version 4 (header, presigned URL)
 * and presigned Signature Version 2, over the raw bytes of the head; default deny. Pure: no clock,
 * no socket, no store inside; secrets come through a callback and never leave. Source:
 * "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API Reference. */
#ifndef S3_AUTH_H
#define S3_AUTH_H

#include "base/pool.h"
#include "http/server.h"

enum s3_payload_mode {
    S3_PAYLOAD_UNSIGNED,                /* UNSIGNED-PAYLOAD, or presigned */
    S3_PAYLOAD_SIGNED,                  /* hex SHA-256 of the body */
    S3_PAYLOAD_STREAM_SIGNED,           /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
    S3_PAYLOAD_STREAM_SIGNED_TRAILER,   /* ...-TRAILER */
    S3_PAYLOAD_STREAM_UNSIGNED_TRAILER, /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
};

struct s3_auth {
    bool anonymous; /* no credentials at all */
    bool presigned;
    struct slice access_key; /* id; in pool */
    enum s3_payload_mode payload;
    uint8_t payload_sha256[32]; /* S3_PAYLOAD_SIGNED */
    /* For streaming signatures: */
    uint8_t signing_key[32];
    uint8_t seed_signature[64]; /* hex */
    struct slice scope;         /* date/region/service/aws4_request */
    struct slice amz_date;
};

struct s3_auth_env {
    int64_t now_ms;
    const char *region;      /* announced region */
    bool region_strict;      /* refuse other regions */
    const char *root_domain; /* as for s3_uri_parse: SigV2 signs the bucket of the Host header */
    /* The secret of a key id into ret (size at most 128), or -HL_ERR_NO_SUCH_ACCESS_KEY; EXPIRED
     * when the key has. */
    int (*secret)(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size);
    void *ctx;
};

/* 0 and *ret (anonymous or verified), or the code to answer with; *ret_message (in pool, may stay
 * NULL) replaces the default text, e.g. both times of a skewed clock. *ret_detail gets the
 * canonical request and string to sign for a SignatureDoesNotMatch answer. Unknown key ids cost the
 * same work as wrong secrets. */
struct s3_auth_detail {
    struct slice canonical_request, string_to_sign, signature_provided;
};
int s3_auth_verify(const struct http_head *head, const struct s3_auth_env *env, struct pool *pool,
                   struct s3_auth *ret, const char **ret_message,
                   struct s3_auth_detail *ret_detail);

#endif
