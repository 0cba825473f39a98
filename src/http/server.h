/* The strict HTTP/1.1 server (RFC 9110, 9112): bytes become requests. One per process with several
 * loops; listeners for S3 and admin share it with different handlers. TLS is inside.
 *
 * Life of a request, all on its loop's thread:
 *   1. the head is complete and valid -> handler.request(req). Limits and smuggling were dealt with
 * before (4xx, close).
 *   2. the handler looks at the head and then either
 *        - asks for the body piece by piece: http_body_next(req, fn). The first call sends 100
 * Continue if the client waits for it. fn gets a piece (valid until the next http_body_next or the
 * end of the request; it may be used on a worker meanwhile) or the end, or an error
 * (INCOMPLETE_BODY, TIMEOUT, SYNTAX of chunking);
 *        - or answers without reading it (then the rest is drained within limits or the connection
 * closes).
 *   3. answers: http_respond() for a whole small answer, or http_response_begin(),
 * http_response_write()..., http_response_end(). A response that cannot be completed:
 * http_response_cut() closes the connection at once, so that the client notices.
 *   4. after the answer is complete the request and its pool are freed. Nothing may touch it then.
 * If the connection dies meanwhile, body and write callbacks get CLOSED; the handler still must
 * finish the request (respond or cut; both do nothing then). The request lives until it does, so
 * workers may hold it. Only one of {body_next, response_write} may be pending at a time. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/buf.h"
#include "base/pool.h"
#include "base/slice.h"
#include "base/task.h"
#include "net/loop.h"
#include "os/random.h"

struct http_server;
struct http_request;

struct http_header {
    struct slice name;  /* as sent */
    struct slice value; /* without surrounding white space */
};

struct http_head {
    struct slice method; /* "GET" */
    struct slice target; /* raw request target, byte for byte */
    struct slice path;   /* of the target, raw (before '?') */
    struct slice query;  /* after '?', raw; empty data when there is none */
    const struct http_header *headers;
    uint32_t header_count;
    struct slice host; /* of an absolute-form target, else the Host header; empty when neither */
    bool http_1_0;
    bool has_length; /* Content-Length was given */
    uint64_t length;
    bool chunked; /* Transfer-Encoding: chunked */
    bool expect_continue;
    bool close; /* Connection: close, or HTTP/1.0 */
};
const struct http_head *http_head(const struct http_request *req);
/* The first header of that name (case-insensitive), or data NULL. */
struct slice http_header(const struct http_request *req, const char *name);
struct pool *http_pool(struct http_request *req);
struct executor *http_home(struct http_request *req); /* posts to the request's loop */
const char *
http_request_id(const struct http_request *req);        /* 16 hex digits, unique enough for logs */
struct slice http_peer(const struct http_request *req); /* "192.0.2.1:4711" */
bool http_is_tls(const struct http_request *req);
void http_set_context(struct http_request *req, void *context); /* for the handler; NULL at first */
void *http_context(const struct http_request *req);
/* For the access log: what was done, by whom (copied into the pool). */
void http_set_log(struct http_request *req, struct slice operation, struct slice access_key);

/* ---- the body ---- */

/* fn may be called before http_body_next returns. err 0 and size > 0: a piece. err 0 and size 0:
 * the end (with chunked: trailers were read; http_trailer finds them). Negative: no more will come.
 */
typedef void (*http_body_fn)(void *arg, int err, const uint8_t *data, size_t size);
void http_body_next(struct http_request *req, http_body_fn fn, void *arg);
struct slice http_trailer(const struct http_request *req, const char *name);
/* Reads all of it into the pool, at most size_max (else LIMIT); then fn once with the whole. */
void http_body_all(struct http_request *req, size_t size_max, http_body_fn fn, void *arg);

/* ---- the answer ---- */

/* Headers are collected first; values must not hold CR, LF or NUL (such bytes are replaced by
 * spaces). Date, Server, Connection, x-amz-request-id, Content-Length and Transfer-Encoding are set
 * by the server. */
void http_response_header(struct http_request *req, const char *name, struct slice value);
void http_response_header_str(struct http_request *req, const char *name, const char *value);
/* A whole answer; body is copied or lies in the request's pool. HEAD: body is not sent but its
 * length is; content_length
 * >= 0 overrides the length announced (HEAD of an object). For 204 and 304 no length is sent. */
void http_respond(struct http_request *req, int status, struct slice body);
void http_respond_head(struct http_request *req, int status, int64_t content_length);
/* Streaming. length UINT64_MAX: chunked (HTTP/1.0: close at the end). */
void http_response_begin(struct http_request *req, int status, uint64_t length);
/* Queues data (borrowed until fn) and calls fn when it was handed to the kernel, perhaps before
 * this returns: err 0 or CLOSED (also when the client reads too slowly). */
typedef void (*http_write_fn)(void *arg, int err);
void http_response_write(struct http_request *req, const void *data, size_t size, http_write_fn fn,
                         void *arg);
void http_response_end(struct http_request *req);
void http_response_cut(struct http_request *req);

/* A buffer of http_buffer_bytes() from the server's bounded set, for streaming an answer. When all
 * are in use fn is called (on the loop) as soon as one is free, in the order asked; with NULL when
 * the connection died meanwhile. One a request: asking again gives the same. Asking gives up the
 * last piece of the body. Returned at the end of the request by itself. */
typedef void (*http_buffer_fn)(void *arg, uint8_t *buffer);
void http_buffer_get(struct http_request *req, http_buffer_fn fn,
                     void *arg); /* may call fn at once */
size_t http_buffer_bytes(const struct http_server *server);
/* Readers that do not read must not keep all buffers. A handler that can produce its bytes again
 * lends the buffer just before or during a write from it: when the socket takes nothing and buffers
 * are scarce, the server takes the buffer back, with what was not sent. Once the client reads again
 * the write's fn gets AGAIN; then the last http_response_unsent() bytes of the write, and what else
 * the buffer held, are to be produced again, after http_buffer_get. Before the handler touches a
 * lent buffer it ends the loan (lend false): the answer is false when the buffer is already gone
 * and the AGAIN to come. Not for chunked answers. */
bool http_buffer_lend(struct http_request *req, bool lend);
uint64_t http_response_unsent(const struct http_request *req);
struct http_server *http_server_of(struct http_request *req);

/* ---- the server ---- */

struct http_handler {
    void (*request)(void *ctx, struct http_request *req);
    /* The answer to a request that never reached a handler (400, 408, 413, 431, 503...): fills body
     * with its own format (S3: XML); may be NULL (plain text). content_type static. */
    void (*error_body)(void *ctx, int status, const char *request_id, struct buf *body,
                       const char **content_type);
    void *ctx;
};

struct http_limits {
    uint32_t head_bytes_max;   /* 16 KiB: 431 */
    uint32_t header_count_max; /* 128 */
    uint32_t connections_max;  /* 12,000; beyond: oldest idle is closed, else 503 and close */
    uint64_t head_timeout_us;  /* 10 s */
    uint64_t idle_timeout_us;  /* 60 s between requests */
    uint64_t
        progress_bytes_per_s;   /* 1 KiB/s averaged over 30 s while a body or answer is in flight */
    uint64_t buffers_bytes_max; /* pooled body buffers together (default 48 MiB) */
    uint32_t buffer_bytes;      /* one buffer (default 256 KiB) */
};
void http_limits_default(struct http_limits *limits);

struct http_tls_files {
    const char *certificate; /* PEM chain */
    const char *key;
};

int http_server_new(struct loop *const *loops, uint32_t loop_count,
                    const struct http_limits *limits, struct os_clock *clock,
                    struct os_random *random, struct http_server **ret);
/* Listens on "[::]:3900", "127.0.0.1:3903", ":3900", "host:port" or "unix:/path". tls NULL: plain.
 * ret_port: the port bound (for port 0), may be NULL. Port in use: EXISTS-like error is logged with
 * the address and what to do; returns BUSY. */
int http_server_listen(struct http_server *server, const char *address,
                       const struct http_handler *handler, const struct http_tls_files *tls,
                       uint16_t *ret_port);
/* Reads certificate files again; on failure the old ones stay and the error is logged. */
int http_server_reload_tls(struct http_server *server);
/* Stops accepting, closes idle connections, lets accepted requests finish; done runs (once, on loop
 * 0) when all are gone or after timeout_us. */
void http_server_drain(struct http_server *server, uint64_t timeout_us, void (*done)(void *arg),
                       void *arg);
void http_server_free(struct http_server *server); /* after the loops have stopped */
/* One line a request to fd: "time id peer method target status bytes us operation key"; -1 is off.
 */
void http_server_set_access_log(struct http_server *server, int fd);

#endif
