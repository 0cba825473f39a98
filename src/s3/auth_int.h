/* Between the files of auth: the state of one verification and its steps. */
#ifndef S3_AUTH_INT_H
#define S3_AUTH_INT_H

#include "s3/auth.h"
#include "s3/uri.h"

#define AUTH_SECRET_MAX 128
#define AUTH_KEY_ID_MAX 128

struct auth_run {
    const struct http_head *head;
    const struct s3_auth_env *env;
    struct pool *pool;
    struct s3_query query;
    const char *message;          /* replaces the default text of the code returned */
    struct s3_auth_detail detail; /* for SIGNATURE */
};

/* What a SigV4 request says of itself. Slices borrow the head or the pool. */
struct auth_claim {
    bool presigned;
    struct slice access_key;
    struct slice date, region, service;
    struct slice scope; /* "date/region/service/aws4_request" */
    struct slice signed_headers;
    struct slice signature;
    uint64_t expires_s; /* presigned */
};

/* auth_parse.c: syntax only. AUTH_HEADER or AUTH_QUERY with a message. */
int auth_parse_header(struct auth_run *run, struct slice authorization, struct auth_claim *ret);
int auth_parse_query(struct auth_run *run, struct auth_claim *ret);
bool auth_has_v4_query(const struct s3_query *query);
bool auth_has_v2_query(const struct s3_query *query);
/* x-amz-content-sha256; INVALID with a message when it is none of the forms. */
int auth_parse_payload(struct auth_run *run, struct slice value, struct s3_auth *auth);

/* auth.c. The secret of a key, or a dummy of the same kind and the code to answer with afterwards
 * in *ret_verdict, so that the work does not tell which. Returns only failures of the store. */
int auth_secret(struct auth_run *run, struct slice access_key, uint8_t ret[AUTH_SECRET_MAX],
                size_t *ret_size, int *ret_verdict);

/* auth_v2.c: a presigned request of Signature Version 2. */
int auth_v2_verify(struct auth_run *run, struct s3_auth *auth);

#endif
