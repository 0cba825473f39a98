/* Incremental decoder of the chunked coding (RFC 9112 7.1), strict. Pure: bytes in, bytes out. */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CHUNK_LINE_MAX    256  /* size and extensions */
#define HTTP_TRAILER_BYTES_MAX 8192 /* all trailer lines */

struct http_chunked {
    int state;
    uint64_t left;       /* of the chunk's data */
    uint32_t digits;     /* of the size so far */
    uint32_t line_bytes; /* of the size line so far */
    uint8_t *trailers;   /* HTTP_TRAILER_BYTES_MAX for the raw trailer lines; NULL: not kept */
    size_t trailer_size;
    size_t trailer_line; /* offset of the line being read */
};

void http_chunked_init(struct http_chunked *c);
/* Decodes in place: of size bytes *ret_consumed were taken and *ret_produced bytes of content now
 * lie at data. Takes everything, unless the end is reached. Returns 0 (more is needed), 1 (the end;
 * later bytes belong to the next request) or SYNTAX (produced content is valid, no more follows).
 */
int http_chunked_decode(struct http_chunked *c, uint8_t *data, size_t size, size_t *ret_consumed,
                        size_t *ret_produced);
/* Bytes that surely belong to this body and are content. */
uint64_t http_chunked_left(const struct http_chunked *c);

#endif
