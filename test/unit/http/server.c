/* The server over real sockets: framing, order, refusals, bodies, early answers, time limits,
 * draining. The clock is simulated; client and server share a thread. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/metrics.h"
#include "base/text.h"
#include "harness.h"

static struct harness h;

static int set_up(void **state) {
    memset(&h, 0, sizeof(h));
    harness_start(&h, NULL);
    return 0;
}

static int tear_down(void **state) {
    harness_stop(&h);
    return 0;
}

/* ---- what a connection answers, whatever the split ---- */

struct row {
    const char *bytes;
    const char *statuses;
    const char *holds; /* must appear in the answers; NULL: nothing special */
};
#define HOST "Host: h\r\n"

static const struct row rows[] = {
    {"GET /size/3 HTTP/1.1\r\n" HOST "\r\n", "200", "\r\n\r\nabc"},
    {"GET /size/3 HTTP/1.0\r\n\r\n", "200", "Connection: close\r\n"},
    {"GET /size/3 HTTP/1.1\r\n" HOST "\r\nGET /none HTTP/1.1\r\n" HOST "\r\n", "200 404", NULL},
    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhelloGET /size/1 HTTP/1.1\r\n" HOST
     "\r\n",
     "200 200", "\r\n\r\nhello"},
    {"POST /echo HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n"
     "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n",
     "200 200", "\r\n\r\nabcdefg"},
    {"PUT /trailer HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-s: 1\r\nx-t: "
     "value\r\n\r\n",
     "200", "\r\n\r\nvalue"},
    {"PUT /trailer HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
     "400", NULL},
    {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
     "400", "Connection: close\r\n"},
    {"POST /count HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\nGET /size/1 HTTP/1.1\r\n" HOST
     "\r\n",
     "200 200", "\r\n\r\n0"},
    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nshort", "400", NULL},
    /* an unread short body is skipped */
    {"PUT /early HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhelloGET /size/1 HTTP/1.1\r\n" HOST
     "\r\n",
     "403 200", NULL},
    /* an unread chunked one is not */
    {"PUT /early HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /size/1 "
     "HTTP/1.1\r\n" HOST "\r\n",
     "403", "Connection: close\r\n"},
    {"GET /size/1 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\nGET /size/1 HTTP/1.1\r\n" HOST
     "\r\n",
     "200", "Connection: close\r\n"},
    /* framing of answers without a body */
    {"HEAD /size/5 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "200 200",
     "Content-Length: 5\r\n\r\nHTTP/1.1"},
    {"HEAD /object/123456789012 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n",
     "200 200", "Content-Length: 123456789012\r\n\r\nHTTP/1.1"},
    {"HEAD /stream/5000 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "200 200",
     "Content-Length: 5000\r\n\r\nHTTP/1.1"},
    {"HEAD /chunks/5000 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "200 200",
     "\r\n\r\nHTTP/1.1"},
    {"GET /status/204 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "204 200",
     "\r\n\r\nHTTP/1.1"},
    {"GET /status/304 HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "304 200",
     "\r\n\r\nHTTP/1.1"},
    {"GET /status/201 HTTP/1.1\r\n" HOST "\r\n", "201", "X-Evil: a  Injected: b\r\n"},
    {"GET /chunks/3 HTTP/1.1\r\n" HOST "\r\n", "200", "\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
    {"GET /chunks/3 HTTP/1.0\r\n\r\n", "200", "Connection: close\r\n\r\nabc"},
    {"GET /stream/3 HTTP/1.1\r\n" HOST "\r\n", "200", "Content-Length: 3\r\n\r\nabc"},
    /* refusals: their own body, then close; nothing behind them is read as a request */
    {"GET / HTTP/1.1\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n", "400",
     "<Error><Code>400</Code>"},
    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
     "0\r\n\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n",
     "400", "Connection: close\r\n"},
    {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501",
     "<Code>501</Code>"},
    {"GET /size/1 HTTP/1.1\r\n" HOST "\r\nGET / HTTP/3.0\r\n" HOST "\r\n", "200 505", NULL},
    {"HEAD / HTTP/1.1\r\n\r\n", "400", "Connection: close\r\n\r\n"},
    {"\x16\x03\x01\x02", "400", NULL},
    {"GET /size/1 HTT", "", NULL},
    {"", "", NULL},
};

static void every_exchange_for_every_split(void **state) {
    static const size_t steps[] = {1, 2, 3, 7, 1000};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (size_t s = 0; s < ARRAY_COUNT(steps); s++) {
            CLEANUP_BUF struct buf got = {0};
            char seen[256];
            client_exchange(&h, rows[i].bytes, strlen(rows[i].bytes), steps[s], &got);
            statuses(&got, seen);
            if (strcmp(seen, rows[i].statuses) != 0 ||
                (rows[i].holds != NULL && !contains(&got, rows[i].holds))) {
                fail_msg("row %zu, %zu bytes a write: expected %s with %s, got %.*s", i, steps[s],
                         rows[i].statuses, rows[i].holds == NULL ? "" : rows[i].holds,
                         SLICE_PRINT(buf_slice(&got)));
            }
        }
    }
}

static void no_length_with_204_and_304(void **state) {
    CLEANUP_BUF struct buf got = {0};
    static const char both[] = "GET /status/204 HTTP/1.1\r\n" HOST "\r\n"
                               "GET /status/304 HTTP/1.1\r\n" HOST "\r\n";
    client_exchange(&h, both, sizeof(both) - 1, 1000, &got);
    assert_false(contains(&got, "Content-Length"));
    assert_false(contains(&got, "Transfer-Encoding"));
    assert_int_equal(count_of(&got, "x-amz-request-id: "), 2);
    assert_int_equal(count_of(&got, "Date: Mon, 21 Sep 2026 "), 2);
}

static void head_limits(void **state) {
    static char big[20000];
    CLEANUP_BUF struct buf a = {0}, b = {0};
    int n = snprintf(big, sizeof(big), "GET / HTTP/1.1\r\n" HOST "X: ");
    memset(big + n, 'x', sizeof(big) - (size_t)n);
    client_exchange(&h, big, sizeof(big), 5000, &a);
    assert_true(contains(&a, "HTTP/1.1 431 "));
    memset(big, 'x', sizeof(big));
    memcpy(big, "GET /", 5);
    client_exchange(&h, big, sizeof(big), 5000, &b);
    assert_true(contains(&b, "HTTP/1.1 414 "));
    assert_int_equal(h.requests, 0);
}

/* ---- order and size ---- */

static void a_thousand_pipelined_requests_in_order(void **state) {
    CLEANUP_BUF struct buf in = {0}, got = {0};
    for (int i = 0; i < 1000; i++) {
        buf_printf(&in, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n%04d", i);
    }
    client_exchange(&h, in.data, in.size, in.size, &got);
    assert_int_equal(h.requests, 1000);
    size_t at = 0;
    for (int i = 0; i < 1000; i++) {
        char expected[16];
        snprintf(expected, sizeof(expected), "\r\n\r\n%04d", i);
        const uint8_t *hit = memmem(got.data + at, got.size - at, expected, 8);
        assert_non_null(hit);
        at = (size_t)(hit - got.data) + 8;
    }
    assert_int_equal(at, got.size);
}

static void large_bodies_both_ways(void **state) {
    static const uint64_t sizes[] = {65536, 65537, 300000, 1048576};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (int chunked = 0; chunked < 2; chunked++) {
            CLEANUP_BUF struct buf in = {0}, got = {0};
            buf_printf(&in,
                       chunked ? "PUT /echo HTTP/1.1\r\n" HOST
                                 "Transfer-Encoding: chunked\r\n\r\n%llx\r\n"
                               : "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: %llu\r\n\r\n",
                       (unsigned long long)sizes[i]);
            size_t start = in.size;
            for (uint64_t k = 0; k < sizes[i]; k++) {
                buf_append_u8(&in, (uint8_t)(k * 2654435761u >> 13));
            }
            if (chunked) {
                buf_append_str(&in, "\r\n0\r\n\r\n");
            }
            client_exchange(&h, in.data, in.size, in.size, &got);
            assert_true(got.size > sizes[i]);
            assert_memory_equal(got.data + got.size - sizes[i], in.data + start, sizes[i]);
        }
    }
    CLEANUP_BUF struct buf got = {0};
    static const char get[] = "GET /stream/5000000 HTTP/1.1\r\n" HOST "\r\n";
    client_exchange(&h, get, sizeof(get) - 1, 1000, &got);
    assert_true(got.size > 5000000);
    for (size_t k = 0; k < 5000000; k++) {
        assert_int_equal(got.data[got.size - 5000000 + k], 'a' + k % 26);
    }
}

static void short_answers_close(void **state) {
    static const char *const targets[] = {"/cut", "/short"};
    for (int i = 0; i < 2; i++) {
        CLEANUP_BUF struct buf in = {0}, got = {0};
        buf_printf(&in, "GET %s HTTP/1.1\r\n" HOST "\r\nGET /size/1 HTTP/1.1\r\n" HOST "\r\n",
                   targets[i]);
        client_exchange(&h, in.data, in.size, in.size, &got);
        assert_int_equal(count_of(&got, "HTTP/1.1 "), got.size > 0 ? 1 : 0);
        assert_false(contains(&got, "12345678"));
    }
}

/* ---- 100-continue ---- */

static void continue_is_sent_when_the_body_is_asked_for(void **state) {
    static const char head[] =
        "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, head, sizeof(head) - 1);
    assert_false(client_receive(&h, fd, &got));
    assert_int_equal(got.size, strlen("HTTP/1.1 100 Continue\r\n\r\n"));
    client_send(&h, fd, "abc", 3);
    assert_false(client_receive(&h, fd, &got));
    assert_int_equal(count_of(&got, "HTTP/1.1 100"), 1);
    assert_true(contains(&got, "HTTP/1.1 200 OK\r\n"));
    /* on the same connection, with the body at once: no 100 is due */
    buf_clear(&got);
    static const char whole[] =
        "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
    client_send(&h, fd, whole, sizeof(whole) - 1);
    assert_false(client_receive(&h, fd, &got));
    assert_int_equal(count_of(&got, "HTTP/1.1 "), 1);
    close(fd);
}

static void no_continue_before_a_refusal(void **state) {
    static const char head[] =
        "PUT /early HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, head, sizeof(head) - 1);
    assert_true(client_receive(&h, fd, &got)); /* and closed: a body may or may not follow */
    assert_memory_equal(got.data, "HTTP/1.1 403 ", 13);
    assert_true(contains(&got, "Connection: close\r\n"));
    close(fd);
}

static void other_expectations_are_ignored(void **state) {
    static const char head[] =
        "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 200-ok\r\n\r\nabc"
        "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect:\r\n\r\nabc";
    CLEANUP_BUF struct buf got = {0};
    char seen[256];
    client_exchange(&h, head, sizeof(head) - 1, 1, &got);
    statuses(&got, seen);
    assert_string_equal(seen, "200 200");
}

/* ---- early answers: the client reads them though it is still sending ---- */

static void early_answer_with_unread_body(void **state) {
    static uint8_t megabyte[1 << 20];
    CLEANUP_BUF struct buf got = {0};
    char head[100];
    int n =
        snprintf(head, sizeof(head), "PUT /early HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                 sizeof(megabyte));
    int fd = client_open(&h);
    client_send(&h, fd, head, (size_t)n);
    /* A client that sends everything before it reads anything. */
    assert_true(client_send(&h, fd, megabyte, sizeof(megabyte) - 1000));
    assert_true(client_receive(&h, fd, &got));
    assert_memory_equal(got.data, "HTTP/1.1 403 ", 13);
    assert_true(contains(&got, "\r\n\r\nno"));
    close(fd);
}

static int open_connections(void) {
    CLEANUP_BUF struct buf metrics = {0};
    static const char name[] = "\nhayloft_http_connections ";
    metrics_format(&metrics);
    buf_append_u8(&metrics, 0);
    const char *line = strstr((const char *)metrics.data, name);
    assert_non_null(line);
    uint64_t count = UINT64_MAX;
    struct slice value = slice_str(line + sizeof(name) - 1);
    assert_true(parse_u64(slice_take(value, slice_find(value, '\n', 0)), 1000000, &count));
    return (int)count;
}

static void lingering_ends(void **state) {
    static uint8_t megabyte[1 << 20];
    int by_bytes = client_open(&h), by_time = client_open(&h);
    static const char head[] = "PUT /early HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n";
    client_send(&h, by_bytes, head, sizeof(head) - 1);
    client_send(&h, by_time, head, sizeof(head) - 1);
    bool sent = true;
    for (int i = 0; i < 20 && sent; i++) {
        sent = client_send(&h, by_bytes, megabyte, sizeof(megabyte));
    }
    assert_false(sent); /* cut after 1 MiB and what the kernel holds */
    harness_advance(&h, 1900000);
    assert_int_equal(open_connections(), 1);
    harness_advance(&h, 200000);
    assert_int_equal(open_connections(), 0);
    close(by_bytes);
    close(by_time);
}

/* ---- time ---- */

static void a_slow_head_is_answered_408(void **state) {
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, "GET / HT", 8);
    for (int i = 0; i < 9; i++) {
        harness_advance(&h, 1000000); /* bytes that trickle do not help */
        client_send(&h, fd, "T", 1);
        assert_false(client_receive(&h, fd, &got));
    }
    assert_int_equal(got.size, 0);
    harness_advance(&h, 1100000);
    assert_true(client_receive(&h, fd, &got));
    assert_memory_equal(got.data, "HTTP/1.1 408 ", 13);
    close(fd);
}

static void idle_connections_are_closed(void **state) {
    CLEANUP_BUF struct buf got = {0};
    int fresh = client_open(&h), used = client_open(&h);
    harness_turn(&h);
    harness_advance(&h, 30000000);
    static const char get[] = "GET /size/1 HTTP/1.1\r\n" HOST "\r\n";
    client_send(&h, used, get, sizeof(get) - 1);
    harness_advance(&h, 31000000);
    assert_true(client_receive(&h, fresh, &got));
    assert_int_equal(got.size, 0);
    assert_false(client_receive(&h, used, &got)); /* its time began with its answer */
    harness_advance(&h, 30000000);
    assert_true(client_receive(&h, used, &got));
    assert_int_equal(count_of(&got, "HTTP/1.1 "), 1);
    close(fresh);
    close(used);
}

/* 1 KiB/s over 30 s while the server waits for the peer. */
static void slow_bodies_time_out_and_steady_ones_do_not(void **state) {
    static uint8_t bytes[4096];
    static const char head[] = "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n";
    CLEANUP_BUF struct buf a = {0}, b = {0};
    int slow = client_open(&h), steady = client_open(&h);
    client_send(&h, slow, head, sizeof(head) - 1);
    client_send(&h, steady, head, sizeof(head) - 1);
    for (int i = 0; i < 31; i++) {
        client_send(&h, slow, bytes, 500);
        client_send(&h, steady, bytes, 2000);
        harness_advance(&h, 1000000);
    }
    assert_true(client_receive(&h, slow, &a));
    assert_true(contains(&a, "HTTP/1.1 400 ")); /* RequestTimeout's status in error.def */
    for (int i = 0; i < 60; i++) {
        client_send(&h, steady, bytes, 2000);
        harness_advance(&h, 1000000);
    }
    assert_false(client_receive(&h, steady, &b));
    assert_int_equal(b.size, 0);
    close(slow);
    close(steady);
}

static void slow_readers_are_cut(void **state) {
    static const char get[] = "GET /stream/100000000 HTTP/1.1\r\n" HOST "\r\n";
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, get, sizeof(get) - 1);
    harness_advance(&h, 31000000);
    harness_advance(&h, 31000000); /* the first window still holds what the kernel took */
    assert_int_equal(h.body_err, -HL_ERR_CLOSED);
    assert_true(client_receive(&h, fd, &got));
    close(fd);
}

/* ---- a handler that takes its time ---- */

static void the_request_outlives_its_client(void **state) {
    static const char get[] = "GET /hold HTTP/1.1\r\n" HOST "\r\n";
    for (int way = 0; way < 3; way++) {
        int fd = client_open(&h);
        client_send(&h, fd, get, sizeof(get) - 1);
        assert_non_null(h.held);
        struct linger reset = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        harness_advance(&h, 200000000);
        assert_true(slice_equal_str(http_head(h.held)->path, "/hold"));
        if (way == 0) {
            http_respond(h.held, 200, SLICE_LITERAL("too late"));
        } else if (way == 1) {
            http_response_cut(h.held);
        } else {
            http_response_begin(h.held, 200, UINT64_MAX);
            http_response_end(h.held);
        }
        h.held = NULL;
        harness_turn(&h);
    }
    assert_int_equal(h.requests, 3);
}

static void a_half_closed_client_still_gets_its_answer(void **state) {
    static const char get[] = "GET /hold HTTP/1.1\r\n" HOST "\r\n";
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, get, sizeof(get) - 1);
    shutdown(fd, SHUT_WR);
    harness_turn(&h);
    http_respond(h.held, 200, SLICE_LITERAL("here"));
    assert_true(client_receive(&h, fd, &got));
    assert_true(contains(&got, "\r\n\r\nhere"));
    close(fd);
}

static void premature_close_at_every_byte(void **state) {
    static const char put[] = "PUT /count HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                              "5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n";
    for (size_t cut = 0; cut < sizeof(put) - 1; cut++) {
        int fd = client_open(&h);
        client_send(&h, fd, put, cut);
        h.body_err = 0;
        close(fd);
        harness_turn(&h);
        if (h.requests > 0 &&
            cut > strlen("PUT /count HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n")) {
            assert_true(h.body_err < 0);
        }
    }
}

/* ---- bounded buffers ---- */

static int set_up_tight(void **state) {
    memset(&h, 0, sizeof(h));
    http_limits_default(&h.limits);
    h.limits.buffer_bytes = 65536;
    h.limits.buffers_bytes_max = 2 * 65536;
    h.limits.connections_max = 20;
    harness_start(&h, NULL);
    return 0;
}

/* Two buffers, three streaming answers that nobody reads: the third waits and is served when one of
 * the others goes. A waiting client that leaves loses its place. */
static void requests_wait_for_buffers(void **state) {
    static const char get[] = "GET /stream/50000000 HTTP/1.1\r\n" HOST "\r\n";
    CLEANUP_BUF struct buf got = {0};
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = client_open(&h);
        client_send(&h, fds[i], get, sizeof(get) - 1);
    }
    assert_int_equal(h.requests, 4);
    assert_false(client_receive(&h, fds[2], &got));
    assert_int_equal(got.size, 0);
    struct linger reset = {1, 0};
    setsockopt(fds[2], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fds[2]);
    harness_turn(&h);
    close(fds[0]);
    for (int i = 0; i < 200 && got.size < 50000000; i++) {
        client_receive(&h, fds[3], &got);
    }
    assert_true(got.size > 50000000);
    close(fds[1]);
    close(fds[3]);
    harness_turn(&h);
}

/* The whole answer with the bytes that belong there. */
static void assert_stream(const struct buf *got, size_t size) {
    assert_true(got->size > size && got->size < size + 1000);
    const uint8_t *body = got->data + got->size - size;
    for (size_t i = 0; i < size; i++) {
        if (body[i] != 'a' + i % 26) {
            fail_msg("byte %zu is %d", i, body[i]);
        }
    }
}

/* As before, but the buffers are lent: readers that do not read keep none when others want some,
 * and get every byte when they read at last. */
static void lent_buffers_leave_slow_readers(void **state) {
    static const char get[] = "GET /lend/20000000 HTTP/1.1\r\n" HOST "\r\n";
    struct buf got[5] = {{0}};
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = client_open(&h);
        client_send(&h, fds[i], get, sizeof(get) - 1);
    }
    for (int i = 4; i >= 0; i--) {
        for (int k = 0; k < 2000 && got[i].size < 20000000; k++) {
            client_receive(&h, fds[i], &got[i]);
        }
        assert_stream(&got[i], 20000000);
    }
    assert_true(h.taken >= 4);
    for (int i = 0; i < 5; i++) {
        buf_done(&got[i]);
        close(fds[i]);
    }
    harness_turn(&h);
}

static void uploads_share_buffers(void **state) {
    static uint8_t bytes[200000];
    static const char head[] = "PUT /count HTTP/1.1\r\n" HOST "Content-Length: 400000\r\n\r\n";
    int fds[10];
    for (int i = 0; i < 10; i++) {
        fds[i] = client_open(&h);
        client_send(&h, fds[i], head, sizeof(head) - 1);
    }
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 10; i++) {
            assert_true(client_send(&h, fds[i], bytes, sizeof(bytes)));
        }
    }
    for (int i = 0; i < 10; i++) {
        CLEANUP_BUF struct buf got = {0};
        assert_false(client_receive(&h, fds[i], &got));
        assert_true(contains(&got, "\r\n\r\n400000"));
        close(fds[i]);
    }
    assert_int_equal(h.body_bytes, 4000000);
}

static void too_many_connections(void **state) {
    static const char get[] = "GET /hold HTTP/1.1\r\n" HOST "\r\n";
    int fds[22];
    for (int i = 0; i < 21; i++) { /* the oldest idle one makes room */
        fds[i] = client_open(&h);
        harness_turn(&h);
    }
    CLEANUP_BUF struct buf first = {0}, last = {0};
    assert_true(client_receive(&h, fds[0], &first));
    assert_int_equal(first.size, 0);
    struct http_request *held[22] = {0};
    for (int i = 1; i < 21; i++) { /* nobody is idle */
        client_send(&h, fds[i], get, sizeof(get) - 1);
        held[i] = h.held;
    }
    fds[21] = client_open(&h);
    assert_true(client_receive(&h, fds[21], &last));
    assert_true(contains(&last, "HTTP/1.1 503 "));
    for (int i = 1; i < 21; i++) {
        http_respond(held[i], 200, SLICE_EMPTY);
    }
    for (int i = 0; i < 22; i++) {
        close(fds[i]);
    }
}

/* ---- draining ---- */

static void drained(void *arg) {
    ((struct harness *)arg)->drained = true;
}

static void drain_finishes_what_was_accepted(void **state) {
    CLEANUP_BUF struct buf a = {0}, b = {0};
    static const char get[] = "GET /hold HTTP/1.1\r\n" HOST "\r\n";
    int idle = client_open(&h), busy = client_open(&h);
    client_send(&h, busy, get, sizeof(get) - 1);
    http_server_drain(h.server, 10000000, drained, &h);
    assert_true(client_receive(&h, idle, &a));
    assert_false(h.drained);
    http_respond(h.held, 200, SLICE_LITERAL("done"));
    assert_true(client_receive(&h, busy, &b));
    assert_true(contains(&b, "Connection: close\r\n") && contains(&b, "done"));
    close(busy);
    harness_turn(&h);
    assert_true(h.drained);
    close(idle);
}

static void drain_does_not_wait_for_ever(void **state) {
    static const char get[] = "GET /hold HTTP/1.1\r\n" HOST "\r\n";
    int busy = client_open(&h);
    client_send(&h, busy, get, sizeof(get) - 1);
    http_server_drain(h.server, 10000000, drained, &h);
    harness_turn(&h);
    harness_advance(&h, 9000000);
    assert_false(h.drained);
    harness_advance(&h, 1100000);
    assert_true(h.drained);
    close(busy);
}

/* ---- the access log ---- */

static void access_log_hides_secrets(void **state) {
    char path[] = "/tmp/hayloft-access-XXXXXX", line[2000] = "";
    int log = mkstemp(path);
    unlink(path);
    http_server_set_access_log(h.server, log);
    static const char get[] =
        "GET /none?X-Amz-Credential=AKID%2F20261201%2Fr%2Fs3%2Faws4_request&X-Amz-Date=D&X-Amz-"
        "Signature=deadbeef&x-amz-sig%6Eature=cafe&Signature=c2ln&X-Amz-Security-Token=tok&a=b "
        "HTTP/1.1\r\n" HOST "\r\n";
    CLEANUP_BUF struct buf got = {0};
    client_exchange(&h, get, sizeof(get) - 1, 1000, &got);
    assert_true(pread(log, line, sizeof(line) - 1, 0) > 0);
    assert_non_null(strstr(line,
                           " GET /none?X-Amz-Credential=AKID/...&X-Amz-Date=D&X-Amz-Signature="
                           "REDACTED&x-amz-sig%6Eature=REDACTED&Signature=REDACTED&"
                           "X-Amz-Security-Token=REDACTED&a=b 404 "));
    assert_non_null(strstr(line, " - -\n"));
    assert_non_null(strstr(line, " 127.0.0.1:"));
    close(log);
}

int main(void) {
#define TEST(name)  cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TIGHT(name) cmocka_unit_test_setup_teardown(name, set_up_tight, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_exchange_for_every_split),
        TEST(no_length_with_204_and_304),
        TEST(head_limits),
        TEST(a_thousand_pipelined_requests_in_order),
        TEST(large_bodies_both_ways),
        TEST(short_answers_close),
        TEST(continue_is_sent_when_the_body_is_asked_for),
        TEST(no_continue_before_a_refusal),
        TEST(other_expectations_are_ignored),
        TEST(early_answer_with_unread_body),
        TEST(lingering_ends),
        TEST(a_slow_head_is_answered_408),
        TEST(idle_connections_are_closed),
        TEST(slow_bodies_time_out_and_steady_ones_do_not),
        TEST(slow_readers_are_cut),
        TEST(the_request_outlives_its_client),
        TEST(a_half_closed_client_still_gets_its_answer),
        TEST(premature_close_at_every_byte),
        TIGHT(requests_wait_for_buffers),
        TIGHT(lent_buffers_leave_slow_readers),
        TIGHT(uploads_share_buffers),
        TIGHT(too_many_connections),
        TEST(drain_finishes_what_was_accepted),
        TEST(drain_does_not_wait_for_ever),
        TEST(access_log_hides_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
