/* Between HTTP headers and what is stored with an object: standard headers, user metadata,
 * conditions, and the headers that ask for what is not built. */
#ifndef S3_METADATA_H
#define S3_METADATA_H

#include "s3/request.h"

#define S3_METADATA_BYTES_MAX 2048 /* AWS: names and values of user metadata together */

/* The headers of a write (PutObject, CreateMultipartUpload, CopyObject with REPLACE) into pool.
 * METADATA_TOO_LARGE, INVALID (storage class, redirect location), NOMEM. */
int s3_metadata_read(struct s3_request *r, struct object_headers *ret);
/* The headers of a read. Overrides (response-*) are applied when the request has them. */
void s3_metadata_write(struct s3_request *r, const struct object_headers *headers);

/* Refuses headers that ask for features that are not built: ACLs other than private, tags, locks,
 * server-side encryption, storage classes. */
int s3_metadata_check(struct s3_request *r);
/* A header that names the owner which the caller expects (x-amz-expected-bucket-owner and its twin
 * for copy sources): ACCESS_DENIED when it is another. */
int s3_check_expected_owner(struct s3_request *r, const char *header,
                            const struct bucket_record *bucket);

/* If-Match and If-None-Match, and with reads the two dates. *ret stays zero when none was sent. */
int s3_conditions_read(struct s3_request *r, struct object_conditions *ret);
int s3_conditions_write(struct s3_request *r, struct object_conditions *ret);
int s3_conditions_delete(struct s3_request *r, struct object_conditions *ret);
int s3_conditions_copy_source(struct s3_request *r, struct object_conditions *ret);

/* x-amz-checksum-algorithm (header): *ret NONE when absent, INVALID_REQUEST when unknown. */
int s3_checksum_algorithm_header(struct s3_request *r, uint8_t *ret);

#endif
