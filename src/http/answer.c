/* Answers: head and body leave with one send where the kernel takes them; what it does not take at
 * once waits for the socket. Borrowed data is sent from where it lies.
 *
 * Invariants: no more is written than was announced, and an answer that stays short closes the
 * connection so that the client notices; at most one write is pending. Runs on the request's loop.
 */
#include <stdio.h>

#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "http/http_int.h"

static void out_add(struct http_request *req, const void *data, size_t size) {
    if (size > 0) {
        CHECK(req->out_count < ARRAY_COUNT(req->out));
        req->out[req->out_count++] = (struct iovec){(void *)(uintptr_t)data, size};
    }
}

static void out_advance(struct http_request *req, size_t size) {
    while (size > 0) {
        struct iovec *iov = &req->out[req->out_pos];
        size_t n = MIN(size, iov->iov_len);
        iov->iov_base = (char *)iov->iov_base + n;
        iov->iov_len -= n;
        size -= n;
        req->out_pos += iov->iov_len == 0;
    }
    if (req->out_pos == req->out_count) {
        req->out_pos = 0;
        req->out_count = 0;
    }
}

/* Sends what the kernel and the budget take; calls nobody. */
static void answer_flush(struct http_conn *conn) {
    struct http_request *req = conn->req;
    while (req->out_count > 0 && conn->writable && conn->turn_written < HTTP_WRITE_BUDGET) {
        size_t n = 0;
        int err = stream_writev(&conn->stream, req->out + req->out_pos,
                                (int)(req->out_count - req->out_pos), &n);
        if (err == -HL_ERR_AGAIN) {
            conn->writable = false;
            return;
        }
        if (err < 0) {
            http_conn_fail(conn, false);
            return;
        }
        http_progress_moved(&conn->progress, n, http_conn_now(conn));
        conn->turn_written += (uint32_t)MIN(n, (size_t)HTTP_WRITE_BUDGET);
        req->bytes_sent += n;
        metric_add(&http_metric_sent, (int64_t)n);
        out_advance(req, n);
    }
}

/* ---- slow readers ---- */

static bool lies_in(const struct http_buffer *buffer, const struct iovec *iov) {
    const uint8_t *base = iov->iov_base;
    return buffer->data != NULL && base >= buffer->data && base < buffer->data + buffer->size;
}

/* The client does not read and others need buffers: what lies in the lent one is forgotten. */
static void take_buffer(struct http_request *req) {
    uint32_t kept = 0;
    req->unsent = 0;
    for (uint32_t i = req->out_pos; i < req->out_count; i++) {
        if (lies_in(&req->buffer, &req->out[i])) {
            req->unsent += req->out[i].iov_len;
        } else {
            req->out[kept++] = req->out[i];
        }
    }
    req->out_pos = 0;
    req->out_count = kept;
    req->answer_left += req->unsent;
    req->lent = false;
    req->taken = true;
    http_buffers_put(req->conn->home->server->buffers, &req->buffer);
}

static void wait_for_reader(struct http_conn *conn) {
    struct http_request *req = conn->req;
    http_progress_wait(&conn->progress, http_conn_now(conn));
    if (req->lent && req->write_fn != NULL && !req->answer_chunked && req->buffer.data != NULL &&
        http_buffers_scarce(conn->home->server->buffers)) {
        take_buffer(req);
    }
}

bool http_buffer_lend(struct http_request *req, bool lend) {
    if (req->taken) {
        return false;
    }
    req->lent = lend;
    if (lend) {
        http_conn_run(req->conn); /* the socket may be full already */
    }
    return true;
}

uint64_t http_response_unsent(const struct http_request *req) {
    return req->unsent;
}

/* ---- steps ---- */

bool http_answer_step(struct http_conn *conn) {
    struct http_request *req = conn->req;
    if (req->write_fn == NULL && !req->ended) {
        return false; /* a head alone waits for the first write */
    }
    if (req->out_count > 0) {
        if (!conn->writable) {
            wait_for_reader(conn);
            return false;
        }
        if (conn->turn_written >= HTTP_WRITE_BUDGET) {
            http_conn_next_turn(conn);
            return false;
        }
        answer_flush(conn);
        return true;
    }
    if (req->write_fn != NULL) {
        if (req->taken && !conn->writable) {
            http_progress_wait(&conn->progress, http_conn_now(conn));
            return false;
        }
        http_write_fn fn = req->write_fn;
        int err = req->taken ? -HL_ERR_AGAIN : 0;
        req->write_fn = NULL;
        req->lent = req->taken = false;
        http_progress_moved(&conn->progress, 0, http_conn_now(conn));
        fn(req->write_arg, err);
        return true;
    }
    if (http_body_cancel_wait(req)) {
        http_conn_finish_request(conn);
        return true;
    }
    return false;
}

/* ---- the head ---- */

/* May the connection serve another request? Not when the client may still send, or not, a body that
 * nobody asked for, and not when that body is long. */
static bool may_keep(const struct http_request *req) {
    const struct http_conn *conn = req->conn;
    if (!conn->keep || req->head.close || conn->home->draining || req->body_err < 0) {
        return false;
    }
    if (req->body_ended) {
        return !req->continue_due;
    }
    return !req->head.chunked && !req->continue_due && req->body_left <= HTTP_KEEP_DRAIN_MAX;
}

static void answer_begin(struct http_request *req, int status, uint64_t length) {
    struct http_conn *conn = req->conn;
    CHECK(!req->begun && req->write_fn == NULL);
    req->begun = true;
    req->status = status;
    req->body_fn = NULL; /* an answer while the body is asked for withdraws the question */
    if (conn->state == HTTP_CLOSED) {
        return;
    }
    bool no_length = http_status_bodyless(status);
    req->answer_bodyless = no_length || slice_equal_str(req->head.method, "HEAD");
    req->answer_chunked = length == UINT64_MAX && !req->answer_bodyless && !req->head.http_1_0;
    req->answer_left = length;
    conn->keep =
        may_keep(req) && (length != UINT64_MAX || req->answer_chunked || req->answer_bodyless);
    struct slice head =
        http_response_head(req, status, !no_length && length != UINT64_MAX, length, !conn->keep);
    http_conn_set_state(conn, HTTP_ANSWER);
    if (head.size == 0 || req->lines.failed) {
        LOG_ERROR("http", "%s: out of memory for the headers of an answer", req->id);
        http_conn_fail(conn, true);
        return;
    }
    out_add(req, head.data, head.size);
}

/* What the kernel did not take at once of a body that is the caller's must be copied. */
static void keep_body(struct http_request *req, struct slice body) {
    struct http_conn *conn = req->conn;
    for (uint32_t i = req->out_pos; i < req->out_count; i++) {
        struct iovec *iov = &req->out[i];
        const uint8_t *base = iov->iov_base;
        if (base < body.data || base >= body.data + body.size) {
            continue;
        }
        struct slice copy = pool_copy(req->pool, slice_of(base, iov->iov_len));
        if (copy.data == NULL) {
            http_conn_fail(conn, true);
            return;
        }
        iov->iov_base = (void *)(uintptr_t)copy.data;
    }
}

void http_respond(struct http_request *req, int status, struct slice body) {
    struct http_conn *conn = req->conn;
    answer_begin(req, status, body.size);
    req->ended = true;
    if (conn->state != HTTP_CLOSED) {
        if (!req->answer_bodyless) {
            out_add(req, body.data, body.size);
        }
        req->answer_left = 0;
        answer_flush(conn);
        if (conn->state != HTTP_CLOSED) {
            keep_body(req, body);
        }
    }
    http_conn_run(conn);
}

void http_respond_head(struct http_request *req, int status, int64_t content_length) {
    answer_begin(req, status, content_length < 0 ? 0 : (uint64_t)content_length);
    /* A length without a body is only right where no body may follow. */
    if (!req->answer_bodyless && content_length > 0 && req->conn->state != HTTP_CLOSED) {
        http_conn_fail(req->conn, true);
    }
    req->answer_left = 0;
    req->ended = true;
    http_conn_run(req->conn);
}

/* ---- streaming ---- */

void http_response_begin(struct http_request *req, int status, uint64_t length) {
    answer_begin(req, status, length);
}

void http_response_write(struct http_request *req, const void *data, size_t size, http_write_fn fn,
                         void *arg) {
    struct http_conn *conn = req->conn;
    CHECK(req->begun && !req->ended && req->write_fn == NULL);
    req->write_fn = fn;
    req->write_arg = arg;
    if (conn->state != HTTP_CLOSED && !req->answer_bodyless && size > 0) {
        if (req->answer_chunked) {
            int n = snprintf(req->chunk_line, sizeof(req->chunk_line), "%zx\r\n", size);
            out_add(req, req->chunk_line, (size_t)n);
        }
        CHECK(size <= req->answer_left);
        req->answer_left -= req->answer_left == UINT64_MAX ? 0 : size;
        out_add(req, data, size);
        if (req->answer_chunked) {
            out_add(req, "\r\n", 2);
        }
    }
    http_conn_run(conn);
}

void http_response_end(struct http_request *req) {
    struct http_conn *conn = req->conn;
    CHECK(req->begun && !req->ended);
    req->ended = true;
    if (conn->state != HTTP_CLOSED) {
        if (req->answer_chunked) {
            out_add(req, "0\r\n\r\n", 5);
        } else if (!req->answer_bodyless && req->answer_left > 0 &&
                   req->answer_left != UINT64_MAX) {
            http_conn_fail(conn, true);
        }
    }
    http_conn_run(conn);
}

void http_response_cut(struct http_request *req) {
    struct http_conn *conn = req->conn;
    http_conn_fail(conn, true);
    req->body_fn = NULL;
    req->ended = true;
    http_conn_run(conn);
}

/* ---- requests that reach no handler ---- */

void http_answer_error(struct http_request *req, int status) {
    struct http_conn *conn = req->conn;
    const struct http_handler *handler = &conn->listener->handler;
    const char *type = "text/plain";
    CLEANUP_BUF struct buf body = {0};
    conn->keep = false;
    req->body_ended = true; /* whatever follows is thrown away */
    metric_add(&http_metric_refused, 1);
    if (handler->error_body != NULL) {
        handler->error_body(handler->ctx, status, req->id, &body, &type);
    } else {
        buf_printf(&body, "%d %s\n", status, http_reason(status));
    }
    http_response_header_str(req, "Content-Type", type);
    http_respond(req, status, buf_slice(&body));
}
