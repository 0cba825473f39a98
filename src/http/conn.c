/* A connection: bytes in, requests through a handler, bytes out.
 *
 * One function, http_conn_run, does what can be done in the present state until nothing more can;
 * calls of the handler's API only change the state and call it again, nested calls return at once.
 * Thus nothing recurses, whatever handlers do inside callbacks. Events are edge-triggered and
 * registered once; `readable` and `writable` remember what may be tried.
 *
 * Invariants: transitions follow the table below; a request is freed only after its handler has
 * finished it; the connection outlives its request. Memory of an idle connection is this struct.
 * One thread: the loop's. */
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "http/http_int.h"

#define REQUEST_POOL_BYTES 8192
#define REQUEST_SPARES_MAX 32

#define TO(state) (1u << HTTP_##state)
static const uint16_t transitions[HTTP_STATE_COUNT] = {
    [HTTP_IDLE] = TO(HEAD) | TO(HANDLER) | TO(CLOSED),
    [HTTP_HEAD] = TO(HANDLER) | TO(CLOSED),
    [HTTP_HANDLER] = TO(BODY) | TO(ANSWER) | TO(CLOSED),
    [HTTP_BODY] = TO(HANDLER) | TO(ANSWER) | TO(CLOSED),
    [HTTP_ANSWER] = TO(IDLE) | TO(DRAIN) | TO(LINGER) | TO(CLOSED),
    [HTTP_DRAIN] = TO(IDLE) | TO(CLOSED),
    [HTTP_LINGER] = TO(CLOSED),
    [HTTP_CLOSED] = 0,
};

/* ---- idle connections, oldest first ---- */

static void idle_add(struct http_conn *conn) {
    struct http_loop *home = conn->home;
    conn->idle_prev = home->idle_last;
    conn->idle_next = NULL;
    *(home->idle_last != NULL ? &home->idle_last->idle_next : &home->idle_first) = conn;
    home->idle_last = conn;
}

static void idle_remove(struct http_conn *conn) {
    struct http_loop *home = conn->home;
    *(conn->idle_prev != NULL ? &conn->idle_prev->idle_next : &home->idle_first) = conn->idle_next;
    *(conn->idle_next != NULL ? &conn->idle_next->idle_prev : &home->idle_last) = conn->idle_prev;
}

void http_conn_close_oldest_idle(struct http_loop *home) {
    struct http_conn *conn = home->idle_first;
    if (conn != NULL) {
        http_conn_fail(conn, false);
        http_conn_run(conn);
    }
}

void http_conn_drain_all(struct http_loop *home) {
    while (home->idle_first != NULL) {
        http_conn_close_oldest_idle(home);
    }
}

/* ---- states and deadlines ---- */

void http_conn_set_state(struct http_conn *conn, enum http_conn_state state) {
    const struct http_limits *limits = &conn->home->server->limits;
    if (conn->state == state) {
        return;
    }
    CHECK((transitions[conn->state] & (1u << state)) != 0);
    if (conn->state == HTTP_IDLE) {
        idle_remove(conn);
    }
    conn->state = state;
    uint64_t now = http_conn_now(conn);
    switch (state) {
    case HTTP_IDLE:
        idle_add(conn);
        conn->deadline_us = now + limits->idle_timeout_us;
        break;
    case HTTP_HEAD:
        conn->deadline_us = now + limits->head_timeout_us;
        break;
    case HTTP_DRAIN:
        conn->deadline_us = now + HTTP_DRAIN_US;
        break;
    case HTTP_LINGER:
        conn->deadline_us = now + HTTP_LINGER_US;
        break;
    default:
        conn->deadline_us = UINT64_MAX;
        break;
    }
}

/* The timer is moved only to be earlier; firing early it looks at the deadline again. So a
 * keep-alive connection touches the wheel about once in its idle time, not once a request. */
static void conn_arm(struct http_conn *conn) {
    struct loop *loop = conn->home->loop;
    if (conn->state == HTTP_BODY || conn->state == HTTP_ANSWER) {
        conn->deadline_us =
            conn->progress.waiting ? http_progress_deadline(&conn->progress) : UINT64_MAX;
    }
    if (conn->deadline_us == UINT64_MAX ||
        (conn->timer.link != NULL && conn->timer.due_us <= conn->deadline_us)) {
        return;
    }
    uint64_t now = loop_now_us(loop);
    loop_timer_set(loop, &conn->timer, conn->deadline_us > now ? conn->deadline_us - now : 0);
}

void http_conn_fail(struct http_conn *conn, bool abort) {
    if (conn->state == HTTP_CLOSED) {
        return;
    }
    loop_fd_remove(conn->home->loop, &conn->watch);
    loop_timer_clear(conn->home->loop, &conn->timer);
    stream_close(&conn->stream, abort);
    http_conn_set_state(conn, HTTP_CLOSED);
}

void http_conn_next_turn(struct http_conn *conn) {
    if (!conn->turn_posted) {
        conn->turn_posted = true;
        executor_post(loop_executor(conn->home->loop), &conn->turn_task);
    }
}

/* ---- input ---- */

int http_conn_read(struct http_conn *conn, void *data, size_t size, size_t *ret_size) {
    size_t n;
    int err = stream_read(&conn->stream, data, size, &n);
    if (err < 0) {
        conn->readable = false;
        return err;
    }
    /* A short read empties a plain socket: the next byte makes a new edge (epoll(7)). Not the end
     * of the stream, which may have been announced together with these bytes. */
    bool drained = conn->stream.tls == NULL ? !conn->peer_ended : conn->stream.drained;
    if (n < size && drained) {
        conn->readable = false;
    }
    conn->turn_read += (uint32_t)MIN(n, (size_t)HTTP_READ_BUDGET);
    metric_add(&http_metric_received, (int64_t)n);
    http_progress_moved(&conn->progress, n, http_conn_now(conn));
    *ret_size = n;
    return 0;
}

static void in_free(struct http_conn *conn) {
    if (!conn->in_pooled) {
        free(conn->in);
    }
    conn->in = NULL;
    conn->in_pooled = false;
    conn->in_pos = conn->in_size = conn->in_capacity = 0;
    conn->scan_pos = 0;
}

void http_conn_in_release(struct http_conn *conn) {
    if (conn->in != NULL && conn->in_pos == conn->in_size) {
        in_free(conn);
    }
}

bool http_conn_in_append(struct http_conn *conn, const uint8_t *data, size_t size) {
    http_conn_in_release(conn);
    size_t have = conn->in_size - conn->in_pos;
    if (conn->in_capacity - conn->in_size < size || conn->in_pooled) {
        size_t capacity = ALIGN_UP(have + size, (size_t)1024);
        uint8_t *bigger = malloc(capacity);
        if (bigger == NULL) {
            return false;
        }
        if (have > 0) {
            memcpy(bigger, conn->in + conn->in_pos, have);
        }
        size_t scan_pos = conn->scan_pos;
        in_free(conn);
        conn->in = bigger;
        conn->in_capacity = capacity;
        conn->in_size = have;
        conn->scan_pos = scan_pos;
    }
    memcpy(conn->in + conn->in_size, data, size);
    conn->in_size += size;
    return true;
}

/* ---- requests ---- */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static struct http_request *request_new(struct http_conn *conn) {
    struct http_loop *home = conn->home;
    struct http_request *req = home->spare_requests;
    struct pool *pool;
    if (req != NULL) {
        home->spare_requests = req->next;
        home->spare_count--;
        pool = req->pool;
    } else {
        req = malloc(sizeof(*req));
        pool = pool_new(REQUEST_POOL_BYTES);
        if (req == NULL || pool == NULL) {
            free(req);
            pool_free(pool);
            return NULL;
        }
    }
    *req = (struct http_request){
        .conn = conn, .pool = pool, .started_us = os_mono_us(home->server->clock)};
    uint8_t id[8];
    uint64_t value = mix(home->id_next += 0x9e3779b97f4a7c15ull);
    memcpy(id, &value, sizeof(id));
    hex_encode(id, sizeof(id), req->id);
    conn->req = req;
    conn->keep = true;
    conn->progress = (struct http_progress){0};
    return req;
}

static void request_free(struct http_request *req) {
    struct http_loop *home = req->conn->home;
    http_buffers_put(home->server->buffers, &req->buffer);
    req->conn->req = NULL;
    if (home->spare_count >= REQUEST_SPARES_MAX) {
        pool_free(req->pool);
        free(req);
        return;
    }
    pool_reset(req->pool);
    req->next = home->spare_requests;
    home->spare_requests = req;
    home->spare_count++;
}

/* The request is over: what remains of its body is dropped, then as conn->keep says. */
void http_conn_finish_request(struct http_conn *conn) {
    struct http_request *req = conn->req;
    uint64_t left = req->body_ended ? 0 : req->body_left;
    size_t buffered = (size_t)MIN(left, (uint64_t)(conn->in_size - conn->in_pos));
    http_log_request(req);
    conn->in_pos += buffered;
    left -= buffered;
    if (conn->in_pooled || conn->in_pos == conn->in_size || !conn->keep) {
        CHECK(!conn->in_pooled || !conn->keep || conn->in_pos == conn->in_size);
        in_free(conn);
    }
    request_free(req);
    if (conn->state == HTTP_CLOSED) {
        return;
    }
    if (conn->keep) {
        conn->drain_left = left;
        http_conn_set_state(conn, left > 0 ? HTTP_DRAIN : HTTP_IDLE);
    } else {
        stream_finish(&conn->stream);
        conn->drain_left = HTTP_LINGER_BYTES;
        http_conn_set_state(conn, HTTP_LINGER);
    }
}

static uint32_t count_lines(const uint8_t *data, size_t size) {
    uint32_t lines = 0;
    for (const uint8_t *p = data, *end = data + size; p < end; lines++) {
        p = (const uint8_t *)memchr(p, '\n', (size_t)(end - p)) + 1;
    }
    return lines;
}

/* The bytes of a head become a request; 0 or a status. The bytes are copied, so that slices live as
 * long as the request. */
static int request_parse(struct http_request *req, const uint8_t *data, size_t size) {
    const struct http_limits *limits = &req->conn->home->server->limits;
    uint32_t header_max = MIN(count_lines(data, size), limits->header_count_max);
    struct http_header *headers = pool_alloc(req->pool, header_max * sizeof(*headers));
    struct slice copy = pool_copy(req->pool, slice_of(data, size));
    if (headers == NULL || copy.data == NULL) {
        return 503;
    }
    return http_parse_head(copy.data, copy.size, headers, header_max, &req->head);
}

/* Bytes behind the head, when it was parsed outside of `in`. A body that is complete lies in the
 * request's pool, everything else in memory that goes as soon as it is consumed. */
static bool keep_rest(struct http_conn *conn, const uint8_t *rest, size_t size) {
    struct http_request *req = conn->req;
    if (size == 0) {
        return true;
    }
    if (req->head.has_length && size == req->head.length) {
        struct slice copy = pool_copy(req->pool, slice_of(rest, size));
        conn->in = (uint8_t *)(uintptr_t)copy.data;
        conn->in_pooled = true;
        conn->in_size = conn->in_capacity = size;
        return copy.data != NULL;
    }
    return http_conn_in_append(conn, rest, size);
}

/* data: head_size bytes of a head and what was read behind it; it lies in `in` or elsewhere. */
static bool request_begin(struct http_conn *conn, const uint8_t *data, size_t head_size,
                          size_t size) {
    struct http_request *req = request_new(conn);
    if (req == NULL) {
        http_conn_fail(conn, true);
        return true;
    }
    metric_add(&http_metric_requests, 1);
    conn->turn_requests++;
    int status = request_parse(req, data, head_size);
    if (conn->in != NULL) {
        conn->in_pos += head_size;
        conn->scan_pos = 0;
    } else if (status == 0 && !keep_rest(conn, data + head_size, size - head_size)) {
        status = 503;
        in_free(conn);
    }
    http_conn_set_state(conn, HTTP_HANDLER);
    if (status != 0) {
        http_answer_error(req, status);
        return true;
    }
    http_body_begin(req);
    conn->listener->handler.request(conn->listener->handler.ctx, req);
    return true;
}

/* A head that will never be one. */
static bool request_refuse(struct http_conn *conn, int status) {
    struct http_request *req = request_new(conn);
    if (req == NULL) {
        http_conn_fail(conn, true);
        return true;
    }
    http_conn_set_state(conn, HTTP_HANDLER);
    http_answer_error(req, status);
    return true;
}

/* Looks at bytes of a head; true when they became a request or a refusal. */
static bool head_scan(struct http_conn *conn, const uint8_t *data, size_t size) {
    size_t end = 0, max = conn->home->server->limits.head_bytes_max;
    switch (http_scan_head(data, size, max, &conn->scan_pos, &end)) {
    case HTTP_SCAN_COMPLETE:
        return request_begin(conn, data, end, size);
    case HTTP_SCAN_BAD:
        return request_refuse(conn, 400);
    case HTTP_SCAN_TOO_LONG:
        /* A target that fills the buffer has its own status. */
        return request_refuse(conn, memchr(data, '\n', max) == NULL ? 414 : 431);
    case HTTP_SCAN_MORE:
        break;
    }
    return false;
}

/* ---- steps ---- */

static bool step_head(struct http_conn *conn) {
    struct http_loop *home = conn->home;
    size_t n;
    if (conn->turn_requests >= HTTP_REQUEST_BUDGET || conn->turn_read >= HTTP_READ_BUDGET) {
        http_conn_next_turn(conn);
        return false;
    }
    size_t have = conn->in_size - conn->in_pos;
    if (have > conn->scan_pos && head_scan(conn, conn->in + conn->in_pos, have)) {
        return true;
    }
    http_conn_in_release(conn);
    if (have > 0 && conn->state == HTTP_IDLE) {
        http_conn_set_state(conn, HTTP_HEAD);
    }
    if (!conn->readable) {
        return false;
    }
    int err = http_conn_read(conn, home->scratch, HTTP_HEAD_READ, &n);
    if (err == -HL_ERR_AGAIN) {
        return false;
    }
    if (err < 0 || n == 0) {
        http_conn_fail(conn, false);
        return true;
    }
    if (have == 0 && head_scan(conn, home->scratch, n)) {
        return true;
    }
    if (!http_conn_in_append(conn, home->scratch, n)) {
        http_conn_fail(conn, true);
    }
    return true;
}

static bool step_drain(struct http_conn *conn) {
    size_t n;
    if (conn->drain_left == 0) {
        http_conn_set_state(conn, HTTP_IDLE);
        return true;
    }
    if (!conn->readable) {
        return false;
    }
    int err = http_conn_read(conn, conn->home->scratch,
                             (size_t)MIN(conn->drain_left, (uint64_t)HTTP_SCRATCH_BYTES), &n);
    if (err == -HL_ERR_AGAIN) {
        return false;
    }
    if (err < 0 || n == 0) {
        http_conn_fail(conn, false);
        return true;
    }
    conn->drain_left -= n;
    return true;
}

/* RFC 9112 9.6: reads on for a while, so that no reset overtakes the answer. */
static bool step_linger(struct http_conn *conn) {
    size_t n = 0;
    if (!conn->readable) {
        return false;
    }
    int err = stream_discard(&conn->stream, conn->home->scratch, HTTP_SCRATCH_BYTES, &n);
    if (err == -HL_ERR_AGAIN) {
        conn->readable = false;
        return false;
    }
    if (err < 0 || n == 0 || n >= conn->drain_left) {
        http_conn_fail(conn, false);
        return true;
    }
    conn->drain_left -= n;
    return true;
}

static bool step_closed(struct http_conn *conn) {
    struct http_request *req = conn->req;
    if (req == NULL) {
        return false;
    }
    if (http_body_closed(req)) {
        return true;
    }
    if (req->write_fn != NULL) {
        http_write_fn fn = req->write_fn;
        req->write_fn = NULL;
        fn(req->write_arg, -HL_ERR_CLOSED);
        return true;
    }
    if (req->ended && !req->waiting) {
        http_conn_finish_request(conn);
    }
    return false;
}

static bool conn_step(struct http_conn *conn) {
    switch (conn->state) {
    case HTTP_IDLE:
    case HTTP_HEAD:
        return step_head(conn);
    case HTTP_BODY:
        return http_body_step(conn);
    case HTTP_ANSWER:
        return http_answer_step(conn);
    case HTTP_DRAIN:
        return step_drain(conn);
    case HTTP_LINGER:
        return step_linger(conn);
    case HTTP_CLOSED:
        return step_closed(conn);
    case HTTP_HANDLER:
        http_body_ahead(conn);
        break;
    case HTTP_STATE_COUNT:
        break;
    }
    return conn->state == HTTP_CLOSED;
}

void http_conn_run(struct http_conn *conn) {
    if (conn->running) {
        return;
    }
    conn->running = true;
    while (conn_step(conn)) {
    }
    conn->running = false;
    if (conn->state != HTTP_CLOSED) {
        if (conn->home->draining && conn->state == HTTP_IDLE) {
            http_conn_fail(conn, false);
        } else {
            conn_arm(conn);
            return;
        }
    }
    if (conn->req == NULL && !conn->turn_posted) {
        http_conn_destroy(conn);
    }
}

/* ---- events ---- */

static void conn_ready(struct loop_fd *watch, uint32_t events) {
    struct http_conn *conn = CONTAINER_OF(watch, struct http_conn, watch);
    bool any = conn->stream.tls != NULL; /* either direction may need either event */
    bool gone = (events & (EPOLLHUP | EPOLLERR)) != 0;
    conn->peer_ended |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    conn->readable |= any || (events & EPOLLIN) != 0 || conn->peer_ended;
    conn->writable |= any || (events & EPOLLOUT) != 0;
    conn->turn_read = conn->turn_written = conn->turn_requests = 0;
    if (gone && (conn->state == HTTP_HANDLER || conn->state == HTTP_ANSWER)) {
        http_conn_fail(conn, false);
    }
    http_conn_run(conn);
}

static void conn_turn(struct task *task) {
    struct http_conn *conn = CONTAINER_OF(task, struct http_conn, turn_task);
    conn->turn_posted = false;
    conn->turn_read = conn->turn_written = conn->turn_requests = 0;
    http_conn_run(conn);
}

static void conn_late(struct http_conn *conn) {
    uint64_t rate = conn->home->server->limits.progress_bytes_per_s;
    uint64_t now = http_conn_now(conn);
    switch (conn->state) {
    case HTTP_HEAD:
        if (conn->in_size > conn->in_pos) {
            request_refuse(conn, 408);
        } else {
            http_conn_fail(conn, false);
        }
        break;
    case HTTP_BODY:
        if (http_progress_late(&conn->progress, rate, now)) {
            conn->req->body_err = -HL_ERR_TIMEOUT;
        }
        break;
    case HTTP_ANSWER:
        if (http_progress_late(&conn->progress, rate, now)) {
            http_conn_fail(conn, true);
        }
        break;
    default:
        http_conn_fail(conn, false);
        break;
    }
}

static void conn_timer(struct loop_timer *timer) {
    struct http_conn *conn = CONTAINER_OF(timer, struct http_conn, timer);
    conn->turn_read = conn->turn_written = conn->turn_requests = 0;
    if (http_conn_now(conn) >= conn->deadline_us) {
        conn->running = true; /* a refusal must not run, and perhaps free, the connection yet */
        conn_late(conn);
        conn->running = false;
    }
    http_conn_run(conn); /* sets the timer again where the state has a deadline */
}

/* ---- birth and death ---- */

void http_conn_new(struct http_loop *home, struct http_listener *listener, int fd,
                   struct ssl_st *tls, const struct sockaddr *peer, socklen_t peer_size) {
    struct stream stream;
    struct http_conn *conn = NULL;
    if (stream_init(&stream, fd, tls) == 0 && (conn = calloc(1, sizeof(*conn))) == NULL) {
        stream_close(&stream, true);
    }
    if (conn == NULL) {
        http_server_conn_gone(home);
        return;
    }
    conn->home = home;
    conn->listener = listener;
    conn->stream = stream;
    conn->watch = (struct loop_fd){.fd = fd, .ready = conn_ready};
    conn->timer.fire = conn_timer;
    conn->turn_task.run = conn_turn;
    listener_format_peer(peer, peer_size, conn->peer);
    /* A TLS handshake counts as part of the first head. */
    conn->state = tls != NULL ? HTTP_HEAD : HTTP_IDLE;
    if (tls == NULL) {
        idle_add(conn);
    }
    conn->deadline_us =
        loop_now_us(home->loop) +
        (tls != NULL ? home->server->limits.head_timeout_us : home->server->limits.idle_timeout_us);
    conn->link = &home->first;
    conn->next = home->first;
    if (conn->next != NULL) {
        conn->next->link = &conn->next;
    }
    home->first = conn;
    home->conn_count++;
    metric_add(&http_metric_connections, 1);
    if (loop_fd_add(home->loop, &conn->watch, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
        http_conn_fail(conn, true);
        http_conn_run(conn);
        return;
    }
    conn_arm(conn);
}

void http_conn_destroy(struct http_conn *conn) {
    struct http_loop *home = conn->home;
    http_conn_fail(conn, false);
    if (conn->req != NULL) {
        http_buffers_put(home->server->buffers, &conn->req->wait.granted);
        request_free(conn->req);
    }
    in_free(conn);
    *conn->link = conn->next;
    if (conn->next != NULL) {
        conn->next->link = conn->link;
    }
    home->conn_count--;
    metric_add(&http_metric_connections, -1);
    free(conn);
    http_server_conn_gone(home);
}
