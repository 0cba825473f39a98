/* Between the files of payload: the state of one body. */
#ifndef S3_PAYLOAD_INT_H
#define S3_PAYLOAD_INT_H

#include "base/hash.h"
#include "s3/payload.h"

#define PAYLOAD_SIZE_MAX    (5ULL << 30) /* one PUT or part */
#define PAYLOAD_LINE_MAX    4096         /* a chunk header or trailer line */
#define PAYLOAD_TRAILER_MAX 8192         /* all trailer lines together */
#define CHUNK_SIZE_MIN      8192         /* of every chunk but the last */

/* Legal ways: HEADER -> DATA -> DATA_END -> HEADER, and from the header of the empty chunk to
 * LAST_END (no trailers) or TRAILER. */
enum chunk_state {
    CHUNK_HEADER,   /* reading "size[;chunk-signature=...]" CRLF */
    CHUNK_DATA,     /* chunk_left bytes to go */
    CHUNK_DATA_END, /* the CRLF after the data */
    CHUNK_LAST_END, /* the CRLF that ends a body without trailers */
    CHUNK_TRAILER,  /* lines up to the end of the body */
    CHUNK_DONE,
};

struct chunk_decoder {
    enum chunk_state state;
    bool is_signed;
    bool has_trailers; /* the mode's name ends in TRAILER */
    uint64_t chunk_left;
    bool short_chunk; /* a chunk below CHUNK_SIZE_MIN was seen: only the empty one may follow */
    uint8_t *line;    /* PAYLOAD_LINE_MAX bytes, in the pool */
    uint32_t line_size;
    uint32_t trailer_bytes;
    uint32_t end_bytes;         /* of a CRLF already read */
    struct hash *hash;          /* of the current chunk, when signed */
    char previous[65];          /* signature of the chunk before; at first the seed */
    char announced[65];         /* signature in the current chunk's header */
    struct slice trailer_value; /* of the expected checksum trailer, in the pool; data NULL */
    char trailer_signature[65];
    bool trailer_signature_seen;
};

struct s3_payload {
    struct s3_payload_expect expect;
    const struct s3_auth *auth; /* lives as long as the request, in its pool */
    struct pool *pool;
    bool framed;           /* aws-chunked */
    bool size_limited;     /* PutObject, UploadPart: PAYLOAD_SIZE_MAX holds */
    uint64_t size;         /* payload bytes so far */
    struct hash *sha256;   /* S3_PAYLOAD_SIGNED */
    uint8_t trailer_names; /* algorithm named in x-amz-trailer, or CHECKSUM_NONE */
    int err;               /* the first error, final */
    const char *message;
    s3_payload_sink sink; /* during a feed */
    void *sink_arg;
    struct chunk_decoder chunk;
};

/* payload_headers.c: what the head promises about the body. */
int payload_read_head(struct s3_payload *payload, const struct http_head *head,
                      bool streaming_allowed);

/* payload_chunk.c: aws-chunked. */
int payload_chunk_open(struct s3_payload *payload);
int payload_chunk_feed(struct s3_payload *payload, const uint8_t *data, size_t size);
int payload_chunk_finish(struct s3_payload *payload);

/* payload.c: payload bytes on their way to the sink; counts and limits them. */
int payload_deliver(struct s3_payload *payload, const uint8_t *data, size_t size);
/* Parses the value of the checksum trailer into expect. */
int payload_take_trailer(struct s3_payload *payload, struct slice value);

#endif
