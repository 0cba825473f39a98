/* The S3 API: an http_handler over an object store. Routing, authorisation, operations, XML. */
#ifndef S3_S3_H
#define S3_S3_H

#include "http/server.h"
#include "object/directory.h"

struct s3;
struct s3_options {
    const char
        *region; /* default "us-east-1"... announced by GetBucketLocation and x-amz-bucket-region */
    bool region_strict;
    const char
        *root_domain; /* ".s3.local": virtual-host style besides path style; NULL: path style, and
                         any Host whose first label is a bucket of "s3." or "localhost" hosts */
    struct executor *workers;
};
int s3_new(struct object_store *store, const struct s3_options *options, struct s3 **ret);
void s3_free(struct s3 *s3);
const struct http_handler *s3_handler(struct s3 *s3);

#endif
