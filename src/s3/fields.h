/* Parsers of single header fields and parameters: ranges, entity-tag lists, paging tokens. Pure
 * functions of bytes from outside. */
#ifndef S3_FIELDS_H
#define S3_FIELDS_H

#include "base/pool.h"
#include "object/object.h"

/* ---- Range (RFC 9110 14.2) ---- */

enum s3_range_kind {
    S3_RANGE_NONE,          /* absent, not understood, or several ranges: answer the whole */
    S3_RANGE_OK,            /* [off, off + size) */
    S3_RANGE_UNSATISFIABLE, /* 416 */
};
/* object_size: of the object. A suffix longer than the object is the whole object. */
enum s3_range_kind s3_parse_range(struct slice field, uint64_t object_size, uint64_t *ret_off,
                                  uint64_t *ret_size);
/* x-amz-copy-source-range: exactly "bytes=first-last", first <= last. Both inclusive. */
bool s3_parse_copy_range(struct slice field, uint64_t *ret_first, uint64_t *ret_last);

/* ---- conditions ---- */

/* If-Match or If-None-Match: "*", or a list of tags with or without quotes, weak marks ignored. An
 * empty field counts as absent. 0 or INVALID (out of memory: NOMEM). */
int s3_parse_etags(struct slice field, struct pool *pool, struct object_etags *ret);
/* An HTTP date or an ISO 8601 time. */
bool s3_parse_time(struct slice field, int64_t *ret_ms);

/* ---- opaque paging tokens: A-Z a-z 0-9 - _ ---- */

/* In pool; data NULL when out of memory. */
struct slice s3_token_encode(struct pool *pool, bool is_prefix, struct slice key);
bool s3_token_decode(struct pool *pool, struct slice token, bool *ret_is_prefix,
                     struct slice *ret_key);

/* Removes every "aws-chunked" from a Content-Encoding list; data NULL when nothing is left. */
struct slice s3_strip_aws_chunked(struct pool *pool, struct slice field);

struct slice s3_trim(struct slice s); /* blanks, tabs, CR, LF */

#endif
