/* From body bytes on the wire to payload bytes: takes aws-chunked framing off, verifies chunk
 * signatures, the payload hash, trailers, declared lengths and checksums. One decoder serves
 * PutObject, UploadPart and XML bodies; nothing bypasses it. Pure state machine; gives the same
 * result for every split of the input. Runs on whatever thread has the request. */
#ifndef S3_PAYLOAD_H
#define S3_PAYLOAD_H

#include "meta/records.h"
#include "s3/auth.h"

struct s3_payload;

struct s3_payload_expect { /* what headers promised; filled by s3_payload_open, read by the handler
                            */
    uint64_t size;         /* decoded size or UINT64_MAX */
    bool md5_given;
    uint8_t md5[16];
    uint8_t checksum_algorithm; /* named by a header value, a trailer name or
                                   x-amz-sdk-checksum-algorithm; or NONE */
    bool checksum_in_trailer;
    struct checksum checksum; /* size 0 until known (a trailer's is known at the end) */
};

/* Reads Content-MD5, x-amz-checksum-*, x-amz-trailer, x-amz-decoded-content-length,
 * x-amz-sdk-checksum-algorithm and length headers of the head. Codes: INVALID_DIGEST,
 * INVALID_REQUEST, MISSING_LENGTH, TRAILER, ...; *ret_message as in s3_auth_verify.
 * streaming_allowed: PutObject and UploadPart; they need a length (or a chunked wire) and take at
 * most 5 GiB. *auth must outlive the payload. */
int s3_payload_open(const struct http_head *head, const struct s3_auth *auth,
                    bool streaming_allowed, struct pool *pool, struct s3_payload **ret,
                    const char **ret_message);
const struct s3_payload_expect *s3_payload_expect(const struct s3_payload *payload);

/* Feeds wire bytes; sink gets payload bytes (pieces of the input, not copied). The first error is
 * final; s3_payload_finish then returns it again, with its message. */
typedef int (*s3_payload_sink)(void *arg, const uint8_t *data, size_t size);
int s3_payload_feed(struct s3_payload *payload, const uint8_t *data, size_t size,
                    s3_payload_sink sink, void *arg);
/* After the last byte: checks the end of framing, sizes, the payload hash and trailers (HTTP
 * trailers through trailer(), may be NULL). Then expect()->checksum is final. The caller compares
 * md5 and checksum with what the write pipeline computed by s3_payload_check. */
int s3_payload_finish(struct s3_payload *payload,
                      struct slice (*trailer)(void *arg, const char *name), void *arg,
                      const char **ret_message);
/* BAD_DIGEST or BAD_CHECKSUM when something promised does not match; computed may have algorithm
 * NONE when none was promised. */
int s3_payload_check(const struct s3_payload *payload, const uint8_t md5[16],
                     const struct checksum *computed, const char **ret_message);
void s3_payload_done(struct s3_payload *payload); /* frees hash contexts; NULL is fine */

#endif
