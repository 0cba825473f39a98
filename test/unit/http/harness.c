/* The test server and a client that shares its thread. Answers are sent by these handlers:
 *   /echo     the whole body comes back          /count   the body is read piece by piece
 *   /early    403 without reading the body       /hold    nothing; h->held keeps the request
 *   /lend/N   as /stream/N from a lent buffer
 *   /size/N   N bytes in one answer              /stream/N  N bytes, announced, in pieces
 *   /chunks/N N bytes in chunked pieces          /status/N  that status, body "x"
 *   /object/N respond_head with N as its length  /trailer the value of the trailer x-t
 *   /short    announces 10, writes 5, ends       /cut     announces 10, writes 5, cuts */
#include "harness.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"

struct job {
    struct http_request *req;
    struct harness *h;
    uint64_t size, left;
    uint8_t *buffer;
};

static void stream_more(void *arg, int err) {
    struct job *job = arg;
    if (err < 0 || job->left == 0) {
        job->h->body_err = err;
        http_response_end(job->req);
        return;
    }
    size_t n = (size_t)MIN(job->left, (uint64_t)1000 + job->left / 3);
    n = MIN(n, http_buffer_bytes(job->h->server));
    for (size_t i = 0; i < n; i++) {
        job->buffer[i] = (uint8_t)('a' + (job->size - job->left + i) % 26);
    }
    job->left -= n;
    http_response_write(job->req, job->buffer, n, stream_more, job);
}

static void stream_begin(void *arg, uint8_t *buffer) {
    struct job *job = arg;
    if (buffer == NULL) {
        job->h->body_err = -HL_ERR_CLOSED;
        http_response_cut(job->req);
        return;
    }
    job->buffer = buffer;
    stream_more(job, 0);
}

/* The same, but the buffer is lent while the client is waited for. */
static void lend_begin(void *arg, uint8_t *buffer);

static void lend_more(void *arg, int err) {
    struct job *job = arg;
    if (err == -HL_ERR_AGAIN) {
        job->left += http_response_unsent(job->req);
        job->h->taken++;
        http_buffer_get(job->req, lend_begin, job);
        return;
    }
    if (err < 0 || job->left == 0) {
        job->h->body_err = err;
        http_response_end(job->req);
        return;
    }
    assert_true(http_buffer_lend(job->req, false));
    size_t n = (size_t)MIN(job->left, (uint64_t)http_buffer_bytes(job->h->server));
    for (size_t i = 0; i < n; i++) {
        job->buffer[i] = (uint8_t)('a' + (job->size - job->left + i) % 26);
    }
    job->left -= n;
    http_buffer_lend(job->req, true);
    http_response_write(job->req, job->buffer, n, lend_more, job);
}

static void lend_begin(void *arg, uint8_t *buffer) {
    struct job *job = arg;
    if (buffer == NULL) {
        http_response_cut(job->req);
        return;
    }
    job->buffer = buffer;
    lend_more(job, 0);
}

static void answer_number(struct job *job, int err) {
    char text[40];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)job->size);
    http_respond(job->req, err < 0 ? error_http_status(err) : 200, slice_of(text, (size_t)n));
}

static void counted(void *arg, int err, const uint8_t *data, size_t size) {
    struct job *job = arg;
    job->size += size;
    job->h->body_bytes += size;
    job->h->pieces++;
    job->h->body_err = err;
    if (err == 0 && size > 0) {
        http_body_next(job->req, counted, job);
        return;
    }
    answer_number(job, err);
}

static void echoed(void *arg, int err, const uint8_t *data, size_t size) {
    struct job *job = arg;
    job->h->body_err = err;
    http_respond(job->req, err < 0 ? error_http_status(err) : 200, slice_of(data, size));
}

static void trailer_read(void *arg, int err, const uint8_t *data, size_t size) {
    struct job *job = arg;
    http_respond(job->req, err < 0 ? error_http_status(err) : 200, http_trailer(job->req, "X-T"));
}

static void half_written(void *arg, int err) {
    struct job *job = arg;
    if (slice_equal_str(http_head(job->req)->path, "/cut")) {
        http_response_cut(job->req);
    } else {
        http_response_end(job->req);
    }
}

static bool path_number(struct slice path, const char *prefix, uint64_t *ret) {
    struct slice p = slice_str(prefix);
    return slice_starts_with(path, p) && parse_u64(slice_skip(path, p.size), UINT64_MAX, ret);
}

static void sized_answer(struct job *job) {
    uint8_t *data = pool_alloc(http_pool(job->req), (size_t)job->size + 1);
    assert_non_null(data);
    for (uint64_t i = 0; i < job->size; i++) {
        data[i] = (uint8_t)('a' + i % 26);
    }
    http_respond(job->req, 200, slice_of(data, (size_t)job->size));
}

static void harness_request(void *ctx, struct http_request *req) {
    struct harness *h = ctx;
    struct slice path = http_head(req)->path;
    struct job *job = POOL_NEW(http_pool(req), struct job);
    *job = (struct job){.req = req, .h = h};
    h->requests++;
    if (slice_equal_str(path, "/echo")) {
        http_body_all(req, 1u << 20, echoed, job);
    } else if (slice_equal_str(path, "/count")) {
        http_body_next(req, counted, job);
    } else if (slice_equal_str(path, "/trailer")) {
        http_body_all(req, 1u << 20, trailer_read, job);
    } else if (slice_equal_str(path, "/early")) {
        http_respond(req, 403, SLICE_LITERAL("no"));
    } else if (slice_equal_str(path, "/hold")) {
        h->held = req;
    } else if (slice_equal_str(path, "/cut") || slice_equal_str(path, "/short")) {
        http_response_begin(req, 200, 10);
        http_response_write(req, "12345", 5, half_written, job);
    } else if (path_number(path, "/size/", &job->size)) {
        sized_answer(job);
    } else if (path_number(path, "/status/", &job->size)) {
        http_response_header(req, "X-Evil", SLICE_LITERAL("a\r\nInjected: b"));
        http_respond(req, (int)job->size, SLICE_LITERAL("x"));
    } else if (path_number(path, "/object/", &job->size)) {
        http_respond_head(req, 200, (int64_t)job->size);
    } else if (path_number(path, "/stream/", &job->size)) {
        job->left = job->size;
        http_response_begin(req, 200, job->size);
        http_buffer_get(req, stream_begin, job);
    } else if (path_number(path, "/lend/", &job->size)) {
        job->left = job->size;
        http_response_begin(req, 200, job->size);
        http_buffer_get(req, lend_begin, job);
    } else if (path_number(path, "/chunks/", &job->size)) {
        job->left = job->size;
        http_response_begin(req, 200, UINT64_MAX);
        http_buffer_get(req, stream_begin, job);
    } else {
        http_respond(req, 404, SLICE_LITERAL("none"));
    }
}

static void harness_error_body(void *ctx, int status, const char *request_id, struct buf *body,
                               const char **content_type) {
    *content_type = "application/xml";
    buf_printf(body, "<Error><Code>%d</Code><RequestId>%s</RequestId></Error>", status, request_id);
}

void harness_listen(struct harness *h, const struct http_tls_files *tls, uint16_t *ret_port) {
    struct http_handler handler = {harness_request, harness_error_body, h};
    assert_int_equal(http_server_listen(h->server, "127.0.0.1:0", &handler, tls, ret_port), 0);
}

/* limits are those set before, where not zero. */
void harness_start(struct harness *h, const struct http_tls_files *tls) {
    if (h->limits.head_bytes_max == 0) {
        http_limits_default(&h->limits);
    }
    os_clock_sim_init(&h->sim, 1790000000000);
    h->sim.mono_us = 5000000;
    assert_int_equal(loop_new(&h->sim.clock, &h->loop), 0);
    assert_int_equal(
        http_server_new(&h->loop, 1, &h->limits, &h->sim.clock, os_random_real(), &h->server), 0);
    harness_listen(h, tls, &h->port);
}

void harness_stop(struct harness *h) {
    http_server_free(h->server);
    loop_free(h->loop);
}

void harness_turn(struct harness *h) {
    for (int i = 0; i < 6; i++) {
        loop_turn(h->loop, 0);
    }
}

void harness_advance(struct harness *h, uint64_t us) {
    h->sim.mono_us += us;
    harness_turn(h);
}

int client_open(struct harness *h) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(h->port)};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1; /* real time does not pass in tests: nothing may wait for an acknowledgement */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    return fd;
}

bool client_send(struct harness *h, int fd, const void *data, size_t size) {
    const uint8_t *p = data;
    for (int stuck = 0; size > 0 && stuck < 1000;) {
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) {
            return false;
        }
        stuck = n > 0 ? 0 : stuck + 1;
        p += MAX(n, 0);
        size -= (size_t)MAX(n, 0);
        harness_turn(h);
    }
    return size == 0;
}

bool client_receive(struct harness *h, int fd, struct buf *out) {
    uint8_t piece[65536];
    for (int idle = 0; idle < 5;) {
        harness_turn(h);
        ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            return true;
        }
        idle = n > 0 ? 0 : idle + 1;
        buf_append(out, piece, (size_t)MAX(n, 0));
    }
    return false;
}

void client_exchange(struct harness *h, const void *data, size_t size, size_t step,
                     struct buf *out) {
    int fd = client_open(h);
    const uint8_t *p = data;
    bool ended = false;
    for (size_t at = 0; at < size; at += step) {
        client_send(h, fd, p + at, MIN(step, size - at));
        if (step > 100) {
            ended = client_receive(h, fd, out);
        }
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 50 && !ended; i++) {
        ended = client_receive(h, fd, out);
    }
    assert_true(ended);
    close(fd);
    harness_turn(h);
}

void statuses(const struct buf *stream, char ret[256]) {
    size_t out = 0;
    ret[0] = '\0';
    for (size_t i = 0; i + 12 <= stream->size && out < 250; i++) {
        if (memcmp(stream->data + i, "HTTP/1.1 ", 9) == 0) {
            out += (size_t)snprintf(ret + out, 256 - out, "%s%.3s", out > 0 ? " " : "",
                                    (const char *)stream->data + i + 9);
        }
    }
}

int count_of(const struct buf *stream, const char *text) {
    int count = 0;
    size_t size = strlen(text);
    for (size_t i = 0; i + size <= stream->size; i++) {
        count += memcmp(stream->data + i, text, size) == 0;
    }
    return count;
}

bool contains(const struct buf *stream, const char *text) {
    return count_of(stream, text) > 0;
}
