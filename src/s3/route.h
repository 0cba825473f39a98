/* The one table of everything that the S3 surface answers: (method, scope, sub-resource, header) to
 * a name, the permission that it needs and the handler. Tests generate the authorisation matrix
 * from it. */
#ifndef S3_ROUTE_H
#define S3_ROUTE_H

#include "s3/request.h"

/* What a caller must hold. A mask of enum permission_flags: any one of them is enough. */
#define S3_NEED_SIGNED 0x100u /* any valid access key */
#define S3_NEED_CREATE                                                                             \
    0x200u /* decided in CreateBucket: the key's flag or a right on the bucket                     \
            */
#define S3_NEED_READ  PERMISSION_READ
#define S3_NEED_WRITE PERMISSION_WRITE
#define S3_NEED_OWNER PERMISSION_OWNER

struct s3_route {
    enum s3_method method;
    enum s3_scope scope;
    const char *query;  /* the sub-resource, or NULL */
    const char *header; /* a header that must be there, or NULL */
    const char *name;   /* AWS's name of the operation */
    uint32_t need;
    void (*handler)(struct s3_request *r);
    int err; /* handler NULL: the answer is this error */
};

/* The table, for tests and metrics. */
const struct s3_route *s3_routes(uint32_t *ret_count);

/* Chooses the row of r (method, scope, query, headers). NOT_IMPLEMENTED for sub-resources that no
 * row knows (they never reach the plain operation), METHOD for a plain request whose method has no
 * row, INVALID when two sub-resources are named. */
int s3_route_find(struct s3_request *r, const struct s3_route **ret);
/* The core of it: has_header(arg, name) tells whether a header is present. */
int s3_route_choose(enum s3_method method, enum s3_scope scope, const struct s3_query *query,
                    bool (*has_header)(void *arg, const char *name), void *arg,
                    const struct s3_route **ret);

/* ACCESS_DENIED unless flags (of the caller on the bucket) satisfy the row. */
int s3_route_authorise(const struct s3_route *route, bool anonymous, uint32_t flags);

#endif
