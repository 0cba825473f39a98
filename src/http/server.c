/* The server: listeners, what loops share, draining, reload of certificates; and the small
 * accessors of requests.
 *
 * Invariants: listeners are only added; each loop touches only its own http_loop. A drained loop
 * accepts nothing and keeps no connection after its answer. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "http/http_int.h"

METRIC_DEFINE_COUNTER(http_metric_requests, "hayloft_http_requests_total", NULL,
                      "HTTP requests whose head was received.");
METRIC_DEFINE_GAUGE(http_metric_connections, "hayloft_http_connections", NULL,
                    "Open HTTP connections.");
METRIC_DEFINE_COUNTER(http_metric_received, "hayloft_http_received_bytes_total", NULL,
                      "Bytes received over HTTP.");
METRIC_DEFINE_COUNTER(http_metric_sent, "hayloft_http_sent_bytes_total", NULL,
                      "Bytes sent over HTTP.");
METRIC_DEFINE_COUNTER(http_metric_refused, "hayloft_http_refused_total", NULL,
                      "HTTP requests answered with an error before any handler saw them.");
METRIC_DEFINE_HISTOGRAM(http_metric_latency, "hayloft_http_request_seconds", NULL,
                        "Time from the head of a request to the end of its answer.");

static const char busy_text[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                "Connection: close\r\nContent-Length: 0\r\n\r\n";

/* ---- accepting ---- */

static void refuse(struct http_listener *listener, int fd) {
    metric_add(&http_metric_refused, 1);
    if (listener->tls == NULL) {
        ssize_t n = send(fd, busy_text, sizeof(busy_text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)n;
    }
    close(fd);
}

static void accepted(void *arg, uint32_t index, int fd, const struct sockaddr *peer,
                     socklen_t peer_size, bool exhausted) {
    struct http_listener *listener = arg;
    struct http_server *server = listener->server;
    struct http_loop *home = &server->loops[index];
    uint32_t count = atomic_fetch_add(&server->conn_count, 1);
    if (exhausted || count >= server->limits.connections_max) {
        http_conn_close_oldest_idle(home);
        count = atomic_load(&server->conn_count) - 1;
    }
    if (exhausted || count >= server->limits.connections_max) {
        refuse(listener, fd);
        atomic_fetch_sub(&server->conn_count, 1);
        return;
    }
    struct ssl_st *tls = NULL;
    if (listener->tls != NULL && (tls = tls_server_session(listener->tls)) == NULL) {
        refuse(listener, fd);
        atomic_fetch_sub(&server->conn_count, 1);
        return;
    }
    http_conn_new(home, listener, fd, tls, peer, peer_size);
}

/* ---- draining ---- */

static void drain_finish(struct http_server *server) {
    if (server->drain_done != NULL) {
        void (*done)(void *arg) = server->drain_done;
        server->drain_done = NULL;
        loop_timer_clear(server->loops[0].loop, &server->drain_timer);
        done(server->drain_arg);
    }
}

static void drain_done_run(struct task *task) {
    drain_finish(CONTAINER_OF(task, struct http_server, drain_done_task));
}

static void drain_late(struct loop_timer *timer) {
    struct http_server *server = CONTAINER_OF(timer, struct http_server, drain_timer);
    LOG_WARN("http", "stopping though some requests have not finished in time");
    drain_finish(server);
}

static void loop_maybe_drained(struct http_loop *home) {
    struct http_server *server = home->server;
    if (!home->draining || home->drained || home->conn_count > 0) {
        return;
    }
    home->drained = true;
    if (atomic_fetch_sub(&server->loops_left, 1) == 1) {
        executor_post(loop_executor(server->loops[0].loop), &server->drain_done_task);
    }
}

void http_server_conn_gone(struct http_loop *home) {
    atomic_fetch_sub(&home->server->conn_count, 1);
    loop_maybe_drained(home);
}

static void drain_loop(struct task *task) {
    struct http_loop *home = CONTAINER_OF(task, struct http_loop, drain_task);
    struct http_server *server = home->server;
    uint32_t index = (uint32_t)(home - server->loops);
    if (home->draining) {
        return;
    }
    home->draining = true;
    pthread_mutex_lock(&server->mutex);
    for (struct http_listener *l = server->listeners; l != NULL; l = l->next) {
        listener_stop(l->group, index);
    }
    pthread_mutex_unlock(&server->mutex);
    if (index == 0) {
        loop_timer_set(home->loop, &server->drain_timer, server->drain_timeout_us);
    }
    http_conn_drain_all(home);
    loop_maybe_drained(home);
}

void http_server_drain(struct http_server *server, uint64_t timeout_us, void (*done)(void *arg),
                       void *arg) {
    server->drain_timeout_us = timeout_us;
    server->drain_done = done;
    server->drain_arg = arg;
    atomic_store(&server->loops_left, server->loop_count);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        executor_post(loop_executor(server->loops[i].loop), &server->loops[i].drain_task);
    }
}

/* ---- life of the server ---- */

static int loop_init(struct http_server *server, uint32_t index, struct loop *loop,
                     struct os_random *random) {
    struct http_loop *home = &server->loops[index];
    home->loop = loop;
    home->server = server;
    home->id_next = os_random_u64(random);
    home->drain_task.run = drain_loop;
    home->hook.run = http_log_flush;
    home->scratch = malloc(HTTP_SCRATCH_BYTES);
    if (home->scratch == NULL) {
        return -HL_ERR_NOMEM;
    }
    loop_hook_add(loop, &home->hook);
    return 0;
}

int http_server_new(struct loop *const *loops, uint32_t loop_count,
                    const struct http_limits *limits, struct os_clock *clock,
                    struct os_random *random, struct http_server **ret) {
    CHECK(loop_count > 0);
    struct http_server *server = calloc(1, sizeof(*server) + loop_count * sizeof(server->loops[0]));
    if (server == NULL) {
        return -HL_ERR_NOMEM;
    }
    pthread_mutex_init(&server->mutex, NULL);
    server->limits = *limits;
    server->clock = clock;
    server->loop_count = loop_count;
    server->drain_timer.fire = drain_late;
    server->drain_done_task.run = drain_done_run;
    atomic_store(&server->log_fd, -1);
    struct metric *metrics[] = {&http_metric_requests, &http_metric_connections,
                                &http_metric_received, &http_metric_sent,
                                &http_metric_refused,  &http_metric_latency};
    for (size_t i = 0; i < ARRAY_COUNT(metrics); i++) {
        metric_register(metrics[i]);
    }
    /* OpenSSL writes to sockets without MSG_NOSIGNAL. */
    signal(SIGPIPE, SIG_IGN);
    int err = http_buffers_new(limits->buffers_bytes_max, limits->buffer_bytes, &server->buffers);
    for (uint32_t i = 0; i < loop_count && err == 0; i++) {
        err = loop_init(server, i, loops[i], random);
    }
    if (err < 0) {
        http_server_free(server);
        return err;
    }
    *ret = server;
    return 0;
}

static void loop_done(struct http_loop *home) {
    while (home->first != NULL) {
        http_conn_destroy(home->first);
    }
    while (home->spare_requests != NULL) {
        struct http_request *req = home->spare_requests;
        home->spare_requests = req->next;
        pool_free(req->pool);
        free(req);
    }
    if (home->loop != NULL) {
        loop_hook_remove(home->loop, &home->hook);
    }
    free(home->scratch);
    free(home->log);
}

void http_server_free(struct http_server *server) {
    if (server == NULL) {
        return;
    }
    if (server->loops[0].loop != NULL) {
        loop_timer_clear(server->loops[0].loop, &server->drain_timer);
    }
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_done(&server->loops[i]);
    }
    while (server->listeners != NULL) {
        struct http_listener *l = server->listeners;
        server->listeners = l->next;
        listener_free(l->group);
        tls_server_free(l->tls);
        free(l);
    }
    http_buffers_free(server->buffers);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

int http_server_listen(struct http_server *server, const char *address,
                       const struct http_handler *handler, const struct http_tls_files *tls,
                       uint16_t *ret_port) {
    struct loop **loops = NULL;
    int err = 0;
    struct http_listener *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return -HL_ERR_NOMEM;
    }
    l->server = server;
    l->handler = *handler;
    loops = calloc(server->loop_count, sizeof(struct loop *));
    if (loops == NULL) {
        err = -HL_ERR_NOMEM;
        goto free_listener;
    }
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loops[i] = server->loops[i].loop;
    }
    if (tls != NULL) {
        err = tls_server_new(tls->certificate, tls->key, &l->tls);
        if (err < 0) {
            goto free_listener;
        }
    }
    err = listener_open(address, loops, server->loop_count, accepted, l, &l->group, ret_port);
    if (err < 0) {
        goto free_listener;
    }
    free(loops);
    pthread_mutex_lock(&server->mutex);
    l->next = server->listeners;
    server->listeners = l;
    pthread_mutex_unlock(&server->mutex);
    return 0;

free_listener:
    tls_server_free(l->tls);
    free(loops);
    free(l);
    return err;
}

int http_server_reload_tls(struct http_server *server) {
    int first_err = 0;
    pthread_mutex_lock(&server->mutex);
    for (struct http_listener *l = server->listeners; l != NULL; l = l->next) {
        int err = l->tls == NULL ? 0 : tls_server_reload(l->tls);
        first_err = first_err == 0 ? err : first_err;
    }
    pthread_mutex_unlock(&server->mutex);
    return first_err;
}

/* ---- accessors ---- */

const struct http_head *http_head(const struct http_request *req) {
    return &req->head;
}

struct slice http_header(const struct http_request *req, const char *name) {
    return http_find_header(req->head.headers, req->head.header_count, slice_str(name));
}

struct pool *http_pool(struct http_request *req) {
    return req->pool;
}

struct executor *http_home(struct http_request *req) {
    return loop_executor(req->conn->home->loop);
}

const char *http_request_id(const struct http_request *req) {
    return req->id;
}

struct slice http_peer(const struct http_request *req) {
    return slice_str(req->conn->peer);
}

bool http_is_tls(const struct http_request *req) {
    return req->conn->listener->tls != NULL;
}

void http_set_context(struct http_request *req, void *context) {
    req->context = context;
}

void *http_context(const struct http_request *req) {
    return req->context;
}

void http_set_log(struct http_request *req, struct slice operation, struct slice access_key) {
    req->operation = pool_copy(req->pool, operation);
    req->access_key = pool_copy(req->pool, access_key);
}

struct http_server *http_server_of(struct http_request *req) {
    return req->conn->home->server;
}
