/* AWS Signature Version 4, the arithmetic: canonical request, string to sign, signing key,
 * signature. No parsing of credentials, no verdicts. Source: "Signature Calculations for the
 * Authorization Header" and "Using Query Parameters", Amazon S3 API Reference. */
#ifndef S3_SIGV4_H
#define S3_SIGV4_H

#include "base/buf.h"
#include "base/pool.h"
#include "s3/uri.h"

#define SIGV4_SIGNATURE_SIZE 64 /* hex digits */

struct sigv4_request {
    const struct http_head *head;
    const struct s3_query *query;
    struct slice signed_headers; /* "host;x-amz-date", as sent */
    struct slice payload_hash;   /* last line of the canonical request */
};

/* What the client may have signed when something between it and us rewrote the head. Zero: the
 * request as received. */
enum sigv4_path {
    SIGV4_PATH_CANONICAL, /* each segment decoded and encoded again */
    SIGV4_PATH_SLASHES,   /* the same, but "%2F" counts as "/" */
    SIGV4_PATH_RAW,       /* byte for byte as sent */
    SIGV4_PATH_COUNT,
};
struct sigv4_variant {
    struct slice host;    /* data NULL: as received */
    bool accept_identity; /* accept-encoding counts as "identity" */
    enum sigv4_path path;
};

/* Appends the canonical request. URI when the path has a malformed escape, NOMEM. */
int sigv4_canonical_request(const struct sigv4_request *request,
                            const struct sigv4_variant *variant, struct buf *out);
/* algorithm "AWS4-HMAC-SHA256"; scope "date/region/service/aws4_request". */
void sigv4_string_to_sign(struct slice amz_date, struct slice scope, struct slice canonical,
                          struct buf *out);

/* From a cache of this thread (bounded; it holds derived keys, never secrets) or computed. */
void sigv4_signing_key(struct slice access_key, struct slice secret, struct slice date,
                       struct slice region, struct slice service, uint8_t ret[32]);
void sigv4_sign(const uint8_t signing_key[32], struct slice string_to_sign,
                char ret[SIGV4_SIGNATURE_SIZE + 1]);

/* Appends value without surrounding white space, inner runs of it folded to one space. */
void sigv4_append_folded(struct buf *out, struct slice value);
/* The first name of a list "a;b;c" and the rest; false at the end. */
bool sigv4_next_name(struct slice *list, struct slice *ret_name);
bool sigv4_names_contain(struct slice list, struct slice name); /* any letter case */

#endif
