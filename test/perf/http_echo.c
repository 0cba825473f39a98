/* A tiny program on the HTTP server for measuring it: GET answers with the number of bytes that the
 * path's first part names ("/4096", "/4096/anything"), PUT and POST read the body and answer with
 * its length; "/echo" sends the body back. Usage: http_echo ADDRESS LOOPS [CERTIFICATE KEY]. Not a
 * test. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "http/server.h"

#define ANSWER_BYTES_MAX (1u << 20)
#define LOOPS_MAX        16

static uint8_t answer_bytes[ANSWER_BYTES_MAX];

struct transfer {
    struct http_request *req;
    uint64_t size;
    uint64_t left;
};

static void send_more(void *arg, int err) {
    struct transfer *t = arg;
    if (err < 0 || t->left == 0) {
        http_response_end(t->req);
        return;
    }
    size_t n = (size_t)MIN(t->left, (uint64_t)ANSWER_BYTES_MAX);
    t->left -= n;
    http_response_write(t->req, answer_bytes, n, send_more, t);
}

static void received(void *arg, int err, const uint8_t *data, size_t size) {
    struct transfer *t = arg;
    if (err < 0) {
        http_respond(t->req, error_http_status(err), slice_str(error_text(err)));
        return;
    }
    t->size += size;
    if (size > 0) {
        http_body_next(t->req, received, t);
        return;
    }
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)t->size);
    http_respond(t->req, 200, slice_of(text, (size_t)n));
}

static void echoed(void *arg, int err, const uint8_t *data, size_t size) {
    struct transfer *t = arg;
    http_respond(t->req, err < 0 ? error_http_status(err) : 200, slice_of(data, size));
}

static void request(void *ctx, struct http_request *req) {
    const struct http_head *head = http_head(req);
    struct transfer *t = POOL_NEW(http_pool(req), struct transfer);
    CHECK(t != NULL);
    t->req = req;
    if (slice_equal_str(head->path, "/echo")) {
        http_body_all(req, 4u << 20, echoed, t);
        return;
    }
    if (slice_equal_str(head->method, "PUT") || slice_equal_str(head->method, "POST")) {
        http_body_next(req, received, t);
        return;
    }
    struct slice number = slice_skip(head->path, 1);
    const uint8_t *slash = memchr(number.data, '/', number.size);
    if (slash != NULL) {
        number.size = (size_t)(slash - number.data);
    }
    if (!parse_u64(number, UINT64_MAX, &t->left)) {
        http_respond(req, 404, SLICE_LITERAL("a number, please\n"));
    } else if (t->left <= ANSWER_BYTES_MAX) {
        http_respond(req, 200, slice_of(answer_bytes, (size_t)t->left));
    } else {
        http_response_begin(req, 200, t->left);
        send_more(t, 0);
    }
}

static struct loop *loops[LOOPS_MAX];
static uint32_t loop_count;

static void *run(void *arg) {
    loop_run(arg);
    return NULL;
}

static void drained(void *arg) {
    for (uint32_t i = 0; i < loop_count; i++) {
        loop_stop(loops[i]);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: http_echo ADDRESS LOOPS [CERTIFICATE KEY]\n");
        return 2;
    }
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    uint64_t count;
    if (!parse_u64(slice_str(argv[2]), LOOPS_MAX, &count) || count == 0) {
        fprintf(stderr, "http_echo: LOOPS is 1 to %d\n", LOOPS_MAX);
        return 2;
    }
    loop_count = (uint32_t)count;
    struct http_limits limits;
    http_limits_default(&limits);
    for (uint32_t i = 0; i < loop_count; i++) {
        CHECK(loop_new(os_clock_real(), &loops[i]) == 0);
    }
    struct http_server *server;
    CHECK(http_server_new(loops, loop_count, &limits, os_clock_real(), os_random_real(), &server) ==
          0);
    struct http_handler handler = {.request = request};
    struct http_tls_files files = {argc > 4 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL};
    if (http_server_listen(server, argv[1], &handler, argc > 4 ? &files : NULL, NULL) < 0) {
        return 1;
    }
    if (getenv("HTTP_ECHO_LOG") != NULL) {
        http_server_set_access_log(server, 2);
    }
    pthread_t threads[LOOPS_MAX];
    for (uint32_t i = 0; i < loop_count; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, loops[i]) == 0);
    }
    int signal_number;
    sigwait(&stop, &signal_number);
    http_server_drain(server, 5000000, drained, NULL);
    for (uint32_t i = 0; i < loop_count; i++) {
        pthread_join(threads[i], NULL);
    }
    http_server_free(server);
    for (uint32_t i = 0; i < loop_count; i++) {
        loop_free(loops[i]);
    }
    return 0;
}
