/* Text codecs: hexadecimal, base64 (RFC 4648), percent-encoding (RFC 3986) and the time formats of
 * HTTP, S3 and SigV4. Pure functions. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"
#include "base/slice.h"

/* Lower case, with NUL: ret needs 2 * size + 1 bytes. */
void hex_encode(const void *data, size_t size, char *ret);
/* Exactly 2 * size digits of either case, else false. */
bool hex_decode(struct slice text, uint8_t *ret, size_t size);

#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4)
/* Standard alphabet with padding and NUL: ret needs BASE64_SIZE(size) + 1 bytes. */
void base64_encode(const void *data, size_t size, char *ret);
/* Strict: padding required, no white space, unused bits zero. Returns false when malformed or when
 * the result would exceed ret_max; *ret_size is the count of bytes. */
bool base64_decode(struct slice text, uint8_t *ret, size_t ret_max, size_t *ret_size);

/* Appends s with every byte but A-Z a-z 0-9 - . _ ~ (and '/' when keep_slash) as %XX in capitals.
 */
void percent_encode(struct buf *out, struct slice s, bool keep_slash);
/* Appends the decoded bytes; '+' stays '+'. False on a bad escape (nothing is rolled back). */
bool percent_decode(struct buf *out, struct slice s);
bool utf8_valid(struct slice s);

/* Times are milliseconds since 1970-01-01 UTC. */
#define TIME_TEXT_SIZE 40
void time_format_iso8601(int64_t ms, char ret[TIME_TEXT_SIZE]); /* 2026-12-01T10:00:00.000Z */
void time_format_http(int64_t ms, char ret[TIME_TEXT_SIZE]);    /* Tue, 01 Dec 2026 10:00:00 GMT */
void time_format_amz(int64_t ms, char ret[TIME_TEXT_SIZE]);     /* 20261201T100000Z */
bool time_parse_iso8601(struct slice text,
                        int64_t *ret_ms); /* with or without fraction, Z or +hh:mm */
bool time_parse_http(
    struct slice text,
    int64_t *ret_ms); /* the three forms of RFC 9110 5.6.7, and -0000/+0000 zones */
bool time_parse_amz(struct slice text, int64_t *ret_ms); /* 20261201T100000Z, strict */

/* Unsigned decimal without sign or space; false when empty, malformed or above max. */
bool parse_u64(struct slice text, uint64_t max, uint64_t *ret);
/* "64", "10G", "1TiB", "500MB", "1.5 GiB": K M G T P, i for powers of 1024, decimal otherwise. */
bool parse_bytes(struct slice text, uint64_t *ret);
/* "30s", "15m", "1h", "7d", "2w" to seconds. */
bool parse_duration(struct slice text, uint64_t *ret_seconds);
/* "1.5 MiB"-style, for people. */
void format_bytes(uint64_t bytes, char ret[32]);

#endif
