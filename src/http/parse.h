/* The strict parser of request heads (RFC 9112): pure functions over a contiguous buffer. The
 * result depends on the bytes only, never on how they were split into reads. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include "http/server.h"

enum http_scan {
    HTTP_SCAN_MORE,     /* the head has not ended yet */
    HTTP_SCAN_COMPLETE, /* *ret_end bytes are the head, its empty line included */
    HTTP_SCAN_BAD,      /* not a request whatever follows: 400 */
    HTTP_SCAN_TOO_LONG, /* beyond head_bytes_max without an end */
};
/* Looks for the end of the head. *pos is the resume point of this head (0 at first). */
enum http_scan http_scan_head(const uint8_t *data, size_t size, size_t head_bytes_max, size_t *pos,
                              size_t *ret_end);

/* Parses a complete head (data of http_scan_head, *ret_end bytes). headers has room for header_max.
 * Returns 0, or the status of the answer (400, 431, 501, 505); then only ret->method is valid, and
 * only when it is not empty. All slices of ret point into data or to static text. */
int http_parse_head(const uint8_t *data, size_t size, struct http_header *headers,
                    uint32_t header_max, struct http_head *ret);

/* The first header of that name, or data NULL. */
struct slice http_find_header(const struct http_header *headers, uint32_t count, struct slice name);
bool http_is_token(struct slice s);
/* Parses "name: value" (no line end) strictly; false when malformed. For heads and trailers. */
bool http_parse_field(struct slice line, struct http_header *ret);

#endif
