/* Request bodies: pieces on demand. Bytes that came with the head are handed out where they lie;
 * others are read from the socket into a buffer of the bounded set, which is held only while a
 * piece is in use or being read, never while waiting for the peer.
 *
 * A whole buffer is used in two halves: while the handler works on one (on a worker, say) the other
 * is filled, so receiving a large body overlaps with hashing and writing it.
 *
 * Invariants: the socket is read only while the handler has asked or works on a piece, and then no
 * further than the other half; a piece stays valid until the next is asked for. Runs on the
 * request's loop. Knows nothing of what bodies mean. */
#include "base/check.h"
#include "base/error.h"
#include "http/http_int.h"

#define CHUNKED_READ_BYTES 32768 /* while it is not known how much belongs to this body */

static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void body_granted(struct task *task) {
    struct http_request *req =
        CONTAINER_OF(CONTAINER_OF(task, struct http_buffer_wait, task), struct http_request, wait);
    struct http_conn *conn = req->conn;
    req->waiting = false;
    req->buffer = req->wait.granted;
    req->wait.granted = (struct http_buffer){0};
    if (req->buffer.data == NULL) {
        http_conn_fail(conn, true); /* out of memory */
    }
    if (req->buffer_fn != NULL && conn->state != HTTP_CLOSED) {
        http_buffer_fn fn = req->buffer_fn;
        req->buffer_fn = NULL;
        fn(req->buffer_arg, req->buffer.data);
        return; /* the connection may be gone */
    }
    http_conn_run(conn);
}

void http_body_begin(struct http_request *req) {
    req->wait.task.run = body_granted;
    req->wait.home = loop_executor(req->conn->home->loop);
    if (req->head.chunked) {
        http_chunked_init(&req->chunked);
        req->chunked.trailers = pool_alloc(req->pool, HTTP_TRAILER_BYTES_MAX);
        req->body_err = req->chunked.trailers == NULL ? -HL_ERR_NOMEM : 0;
    } else {
        req->body_left = req->head.has_length ? req->head.length : 0;
        req->body_ended = req->body_left == 0;
    }
    /* Also for an empty body: SDKs that ask do wait, and a final answer without the interim one
     * leaves their pooled connection stuck for a minute. */
    req->continue_due = req->head.expect_continue;
}

bool http_body_cancel_wait(struct http_request *req) {
    if (req->waiting && http_buffers_cancel(req->conn->home->server->buffers, &req->wait)) {
        req->waiting = false;
    }
    return !req->waiting;
}

static void buffer_put(struct http_request *req) {
    http_buffers_put(req->conn->home->server->buffers, &req->buffer);
}

/* 0, AGAIN (waiting) or NOMEM. */
static int buffer_acquire(struct http_request *req, size_t size) {
    if (req->buffer.data != NULL && req->buffer.size >= size) {
        return 0;
    }
    buffer_put(req);
    int err = http_buffers_take(req->conn->home->server->buffers, size, &req->wait, &req->buffer);
    req->waiting = err == -HL_ERR_AGAIN;
    return err;
}

static bool deliver(struct http_request *req, int err, const uint8_t *data, size_t size) {
    http_body_fn fn = req->body_fn;
    req->body_fn = NULL;
    http_conn_set_state(req->conn, HTTP_HANDLER);
    fn(req->body_arg, err, data, size);
    return true;
}

/* ---- decoding ---- */

static bool trailers_valid(const struct http_chunked *c) {
    struct slice rest = slice_of(c->trailers, c->trailer_size);
    while (rest.size > 0) {
        size_t end = slice_find(rest, '\n', 0);
        struct http_header h;
        if (!http_parse_field(slice_take(rest, end - 1), &h)) {
            return false;
        }
        rest = slice_skip(rest, end + 1);
    }
    return true;
}

/* Takes size bytes of the body's encoding at data and leaves content there. */
static void decode(struct http_request *req, uint8_t *data, size_t size, size_t *ret_consumed,
                   size_t *ret_produced) {
    if (!req->head.chunked) {
        size_t n = (size_t)MIN((uint64_t)size, req->body_left);
        req->body_left -= n;
        req->body_ended = req->body_left == 0;
        *ret_consumed = n;
        *ret_produced = n;
        return;
    }
    int result = http_chunked_decode(&req->chunked, data, size, ret_consumed, ret_produced);
    if (result < 0) {
        req->body_err = result;
    } else if (result == 1 && !trailers_valid(&req->chunked)) {
        req->body_err = -HL_ERR_SYNTAX;
    } else {
        req->body_ended = result == 1;
    }
}

/* ---- the two sources of bytes ---- */

static bool body_from_in(struct http_conn *conn) {
    struct http_request *req = conn->req;
    uint8_t *data = conn->in + conn->in_pos;
    size_t consumed, produced;
    req->continue_due = false; /* the client did not wait */
    decode(req, data, conn->in_size - conn->in_pos, &consumed, &produced);
    conn->in_pos += consumed;
    return produced > 0 ? deliver(req, 0, data, produced) : true;
}

static size_t body_read_size(const struct http_request *req) {
    size_t max = http_buffers_bytes(req->conn->home->server->buffers);
    uint64_t want = req->body_left;
    if (req->head.chunked) {
        /* Never far beyond what surely belongs to this body. */
        want = MAX(http_chunked_left(&req->chunked), (uint64_t)CHUNKED_READ_BYTES);
    }
    return (size_t)MIN(want, (uint64_t)max);
}

/* Where the next read goes: a half of a whole buffer, all of a small one. */
static struct http_buffer read_area(const struct http_request *req) {
    if (req->buffer.size < http_buffers_bytes(req->conn->home->server->buffers)) {
        return req->buffer;
    }
    size_t half = req->buffer.size / 2;
    return (struct http_buffer){req->buffer.data + req->half * half, half};
}

/* One read into the area at *filled; false when there is nothing more now. */
static bool body_read(struct http_conn *conn, struct http_buffer area, size_t *filled) {
    struct http_request *req = conn->req;
    size_t n, consumed, produced;
    size_t limit = MIN(body_read_size(req), area.size - *filled);
    int err = http_conn_read(conn, area.data + *filled, limit, &n);
    if (err == -HL_ERR_AGAIN) {
        return false;
    }
    if (err < 0) {
        http_conn_fail(conn, false);
        return false;
    }
    if (n == 0) {
        req->body_err = -HL_ERR_INCOMPLETE_BODY;
        return false;
    }
    decode(req, area.data + *filled, n, &consumed, &produced);
    if (consumed < n && req->body_err == 0 &&
        !http_conn_in_append(conn, area.data + *filled + consumed, n - consumed)) {
        req->body_err = -HL_ERR_NOMEM;
    }
    *filled += produced;
    return true;
}

/* Reads what there is, at most the area, into ahead_bytes. */
static void fill_area(struct http_conn *conn, enum http_conn_state state) {
    struct http_request *req = conn->req;
    struct http_buffer area = read_area(req);
    size_t filled = req->ahead_bytes;
    while (filled < area.size && conn->readable && req->body_err == 0 && !req->body_ended &&
           conn->turn_read < HTTP_READ_BUDGET && body_read(conn, area, &filled) &&
           conn->state == state) {
    }
    req->ahead_bytes = (uint32_t)filled;
}

/* Hands out what was read; the next read goes to the other half. */
static bool deliver_area(struct http_request *req) {
    struct http_buffer area = read_area(req);
    size_t size = req->ahead_bytes;
    req->ahead_bytes = 0;
    req->half ^= 1;
    req->piece_out = area.size < req->buffer.size;
    return deliver(req, 0, area.data, size);
}

void http_body_ahead(struct http_conn *conn) {
    struct http_request *req = conn->req;
    if (!req->piece_out || req->body_ended || req->body_err < 0 || !conn->readable ||
        req->ahead_bytes == read_area(req).size) {
        return;
    }
    if (conn->turn_read >= HTTP_READ_BUDGET) {
        http_conn_next_turn(conn);
        return;
    }
    fill_area(conn, HTTP_HANDLER);
}

static bool body_from_socket(struct http_conn *conn) {
    struct http_request *req = conn->req;
    if (!conn->readable) {
        buffer_put(req);
        http_progress_wait(&conn->progress, http_conn_now(conn));
        return false;
    }
    if (conn->turn_read >= HTTP_READ_BUDGET) {
        http_conn_next_turn(conn);
        return false;
    }
    int err = buffer_acquire(req, body_read_size(req));
    if (err < 0) {
        http_progress_moved(&conn->progress, 0, http_conn_now(conn)); /* not the peer's fault */
        req->body_err = err == -HL_ERR_AGAIN ? 0 : err;
        return err != -HL_ERR_AGAIN;
    }
    fill_area(conn, HTTP_BODY);
    if (req->ahead_bytes > 0 && conn->state == HTTP_BODY) {
        return deliver_area(req);
    }
    return true;
}

static bool send_continue(struct http_conn *conn) {
    struct http_request *req = conn->req;
    while (req->continue_due) {
        if (!conn->writable) {
            http_progress_wait(&conn->progress, http_conn_now(conn));
            return false;
        }
        struct iovec iov = {(char *)(uintptr_t)continue_text + req->continue_pos,
                            sizeof(continue_text) - 1 - req->continue_pos};
        size_t n = 0;
        int err = stream_writev(&conn->stream, &iov, 1, &n);
        if (err == -HL_ERR_AGAIN) {
            conn->writable = false;
            continue;
        }
        if (err < 0) {
            http_conn_fail(conn, false);
            return false;
        }
        req->continue_pos += (uint8_t)n;
        req->continue_due = req->continue_pos < sizeof(continue_text) - 1;
    }
    return true;
}

bool http_body_step(struct http_conn *conn) {
    struct http_request *req = conn->req;
    if (req->waiting) {
        return false;
    }
    if (req->ahead_bytes > 0) {
        return deliver_area(req);
    }
    if (conn->in_pos < conn->in_size && req->body_err == 0 && !req->body_ended) {
        return body_from_in(conn);
    }
    if (req->body_err < 0) {
        return deliver(req, req->body_err, NULL, 0);
    }
    if (req->body_ended && !req->continue_due) {
        return deliver(req, 0, NULL, 0);
    }
    if (!req->body_ended) {
        http_conn_in_release(conn);
    }
    if (!send_continue(conn)) {
        return conn->state == HTTP_CLOSED;
    }
    if (req->body_ended) {
        return deliver(req, 0, NULL, 0);
    }
    return body_from_socket(conn);
}

bool http_body_closed(struct http_request *req) {
    if (!http_body_cancel_wait(req)) {
        return false;
    }
    if (req->buffer_fn != NULL) {
        http_buffer_fn fn = req->buffer_fn;
        req->buffer_fn = NULL;
        fn(req->buffer_arg, NULL);
        return true;
    }
    if (req->body_fn != NULL) {
        http_body_fn fn = req->body_fn;
        req->body_fn = NULL;
        fn(req->body_arg, -HL_ERR_CLOSED, NULL, 0);
        return true;
    }
    return false;
}

/* ---- what handlers call ---- */

void http_body_next(struct http_request *req, http_body_fn fn, void *arg) {
    CHECK(req->body_fn == NULL && req->write_fn == NULL && req->buffer_fn == NULL && !req->begun);
    req->piece_out = false;
    req->body_fn = fn;
    req->body_arg = arg;
    if (req->conn->state != HTTP_CLOSED) {
        http_conn_set_state(req->conn, HTTP_BODY);
    }
    http_conn_run(req->conn);
}

struct slice http_trailer(const struct http_request *req, const char *name) {
    if (!req->head.chunked || !req->body_ended) {
        return SLICE_EMPTY;
    }
    struct slice rest = slice_of(req->chunked.trailers, req->chunked.trailer_size);
    while (rest.size > 0) {
        size_t end = slice_find(rest, '\n', 0);
        struct http_header h;
        if (http_parse_field(slice_take(rest, end - 1), &h) &&
            slice_equal_nocase(h.name, slice_str(name))) {
            return h.value;
        }
        rest = slice_skip(rest, end + 1);
    }
    return SLICE_EMPTY;
}

struct body_all {
    struct http_request *req;
    http_body_fn fn;
    void *arg;
    size_t size_max;
    uint8_t *data;
    size_t size, capacity;
};

/* Grows as bytes arrive, so that an announced length alone costs nothing. */
static bool all_append(struct body_all *all, const uint8_t *data, size_t size) {
    if (all->capacity - all->size < size) {
        size_t need = all->size + size;
        size_t capacity = MIN(MAX(need, all->capacity * 2), all->size_max);
        if (all->req->head.has_length && all->req->head.length <= HTTP_KEEP_DRAIN_MAX) {
            capacity = (size_t)all->req->head.length;
        }
        uint8_t *bigger = pool_alloc(all->req->pool, capacity);
        if (bigger == NULL) {
            return false;
        }
        if (all->size > 0) {
            memcpy(bigger, all->data, all->size);
        }
        all->data = bigger;
        all->capacity = capacity;
    }
    memcpy(all->data + all->size, data, size);
    all->size += size;
    return true;
}

static void all_piece(void *arg, int err, const uint8_t *data, size_t size) {
    struct body_all *all = arg;
    struct http_request *req = all->req;
    if (err < 0 || size == 0) {
        all->fn(all->arg, err, err < 0 ? NULL : all->data, err < 0 ? 0 : all->size);
        return;
    }
    if (size > all->size_max - all->size) {
        all->fn(all->arg, -HL_ERR_LIMIT, NULL, 0);
        return;
    }
    /* The whole body came with the head and stays where it is. */
    bool in_buffer = data >= req->buffer.data && data < req->buffer.data + req->buffer.size;
    if (all->size == 0 && req->body_ended && !in_buffer) {
        all->fn(all->arg, 0, data, size);
        return;
    }
    if (!all_append(all, data, size)) {
        all->fn(all->arg, -HL_ERR_NOMEM, NULL, 0);
        return;
    }
    http_body_next(req, all_piece, all);
}

void http_body_all(struct http_request *req, size_t size_max, http_body_fn fn, void *arg) {
    struct body_all *all = POOL_NEW(req->pool, struct body_all);
    if (all == NULL || (req->head.has_length && req->head.length > size_max)) {
        fn(arg, all == NULL ? -HL_ERR_NOMEM : -HL_ERR_LIMIT, NULL, 0);
        return;
    }
    *all = (struct body_all){.req = req, .fn = fn, .arg = arg, .size_max = size_max};
    http_body_next(req, all_piece, all);
}

void http_buffer_get(struct http_request *req, http_buffer_fn fn, void *arg) {
    CHECK(req->body_fn == NULL && req->buffer_fn == NULL);
    if (req->conn->state == HTTP_CLOSED) {
        fn(arg, NULL);
        return;
    }
    req->piece_out = false;
    req->ahead_bytes = 0; /* an answer that begins before the body's end never reads it */
    int err = buffer_acquire(req, http_buffers_bytes(req->conn->home->server->buffers));
    if (err == -HL_ERR_AGAIN) {
        req->buffer_fn = fn;
        req->buffer_arg = arg;
        return;
    }
    if (err < 0) {
        http_conn_fail(req->conn, true);
    }
    fn(arg, err < 0 ? NULL : req->buffer.data);
}

size_t http_buffer_bytes(const struct http_server *server) {
    return http_buffers_bytes(server->buffers);
}
