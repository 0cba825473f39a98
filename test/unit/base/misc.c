/* The small services of base: errors, failpoints, metrics, the log, progress, the generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "base/progress.h"
#include "base/slice.h"

/* ---- errors ---- */

static void test_errors(void **state) {
    assert_string_equal(error_name(-HL_ERR_NO_SPACE), "NO_SPACE");
    assert_int_equal(error_http_status(-HL_ERR_NO_SPACE), 507);
    assert_string_equal(error_s3_code(-HL_ERR_NO_SUCH_BUCKET), "NoSuchBucket");
    assert_int_equal(error_errno(-HL_ERR_NOT_FOUND), ENOENT);
    assert_int_equal(error_http_status(-99999), 500); /* unknown: as INTERNAL */
    assert_int_equal(error_http_status(99999), 500);
    assert_int_equal(error_from_errno(ENOSPC), -HL_ERR_NO_SPACE);
    assert_int_equal(error_from_errno(EDQUOT), -HL_ERR_NO_SPACE);
    assert_int_equal(error_from_errno(EACCES), -HL_ERR_IO);
    assert_int_equal(error_from_errno(0), 0);
    for (int code = 1; code < HL_ERR_COUNT; code++) {
        assert_true(strlen(error_name(-code)) > 0 && strlen(error_text(-code)) > 0);
        assert_true(error_http_status(-code) >= 300 && error_http_status(-code) < 600);
        assert_true(error_errno(-code) > 0);
    }
}

/* ---- failpoints ---- */

#ifdef HAYLOFT_FAILPOINTS

static const char *crashed_at;
static void note_crash(const char *name) {
    crashed_at = name;
}

static void count_name(const char *name, uint64_t hits, void *arg) {
    if (strcmp(name, "test.step") == 0) {
        *(uint64_t *)arg = hits;
    }
}

/* main() has set HAYLOFT_FAILPOINTS, which is read at the first hit of the process. */
static void test_failpoints_of_environment(void **state) {
    assert_false(FAILPOINT_ERROR("test.env"));
    assert_true(FAILPOINT_ERROR("test.env"));
    assert_false(FAILPOINT_ERROR("test.env"));
    assert_true(FAILPOINT_ERROR("test.env.always"));
    assert_true(FAILPOINT_ERROR("test.env.always"));
    failpoint_clear();
}

static void test_failpoints(void **state) {
    failpoint_set_crash_handler(note_crash);
    assert_false(FAILPOINT_ERROR("test.step"));
    assert_int_equal(failpoint_count("test.step"), 1);
    assert_true(failpoint_set("test.step", "error", 2)); /* the second from now, once */
    assert_false(FAILPOINT_ERROR("test.step"));
    assert_true(FAILPOINT_ERROR("test.step"));
    assert_false(FAILPOINT_ERROR("test.step"));
    assert_true(failpoint_set("test.step", "error", 0)); /* every time */
    assert_true(FAILPOINT_ERROR("test.step"));
    assert_true(FAILPOINT_ERROR("test.step"));
    failpoint_clear();
    assert_false(FAILPOINT_ERROR("test.step"));
    assert_true(failpoint_set("test.other", "crash", 1)); /* before it was ever hit */
    assert_null(crashed_at);
    FAILPOINT("test.other");
    assert_string_equal(crashed_at, "test.other");
    assert_false(failpoint_set("test.step", "explode", 1));
    uint64_t hits = 0;
    failpoint_each(count_name, &hits);
    assert_int_equal(hits, 7);
    failpoint_set_crash_handler(NULL);
}

/* The default crash handler, in a child. */
static void test_failpoint_kills(void **state) {
    pid_t child = fork();
    if (child == 0) {
        failpoint_set_crash_handler(NULL);
        failpoint_set("test.kill", "crash", 2);
        FAILPOINT("test.kill");
        FAILPOINT("test.kill");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == 9);
}

#else

static void test_failpoints_of_environment(void **state) {
    assert_false(FAILPOINT_ERROR("test.env.always"));
}

static void test_failpoints(void **state) {
    assert_false(failpoint_set("test.step", "error", 1));
    assert_false(FAILPOINT_ERROR("test.step"));
    assert_int_equal(failpoint_count("test.step"), 0);
}

static void test_failpoint_kills(void **state) {
    skip(); /* this build has no failpoints */
}

#endif

/* ---- metrics ---- */

METRIC_DEFINE_COUNTER(counter_a, "hayloft_test_total", "kind=\"a\"", "Things.");
METRIC_DEFINE_GAUGE(gauge, "hayloft_test_level", NULL, "A level.");
METRIC_DEFINE_COUNTER(counter_b, "hayloft_test_total", "kind=\"b\"", "Things.");
METRIC_DEFINE_HISTOGRAM(latency, "hayloft_test_seconds", NULL, "A latency.");

static bool has(const struct buf *b, const char *text) {
    return memmem(b->data, b->size, text, strlen(text)) != NULL;
}

static void test_metrics(void **state) {
    metric_register(&counter_a);
    metric_register(&gauge);
    metric_register(&counter_b);
    metric_register(&latency);
    metric_register(&counter_a); /* harmless */
    metric_add(&counter_a, 3);
    metric_add(&counter_b, 4);
    metric_set(&gauge, -5);
    metric_observe_us(&latency, 0);
    metric_observe_us(&latency, 31);
    metric_observe_us(&latency, 32);
    metric_observe_us(&latency, 1000);
    metric_observe_us(&latency, UINT64_C(1) << 40); /* twelve days */
    CLEANUP_BUF struct buf b = {0};
    metrics_format(&b);
    /* One family under one head although another lies between its members. */
    assert_true(has(&b, "# HELP hayloft_test_total Things.\n# TYPE hayloft_test_total counter\n"
                        "hayloft_test_total{kind=\"a\"} 3\nhayloft_test_total{kind=\"b\"} 4\n"));
    assert_true(has(&b, "# TYPE hayloft_test_level gauge\nhayloft_test_level -5\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"0.000032\"} 2\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"0.000064\"} 3\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"0.000512\"} 3\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"0.001024\"} 4\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"268.435456\"} 4\n"));
    assert_true(has(&b, "hayloft_test_seconds_bucket{le=\"+Inf\"} 5\n"));
    assert_true(has(&b, "hayloft_test_seconds_count 5\n"));
    assert_true(has(&b, "hayloft_test_seconds_sum 1099511.628839\n")); /* (2^40 + 1063) us */
}

/* ---- the log ---- */

static void read_log(int fd, char *text, size_t size) {
    ssize_t n = read(fd, text, size - 1);
    assert_true(n >= 0);
    text[n] = 0;
}

static void test_logger(void **state) {
    int ends[2];
    char text[4096];
    assert_int_equal(pipe(ends), 0);
    logger_set_fd(ends[1]);
    LOG_INFO("test", "name %s has %d", "a\nb\x1b[31m", 3); /* no line or escape gets through */
    LOG_DEBUG("test", "not at this level");
    read_log(ends[0], text, sizeof(text));
    assert_non_null(strstr(text, "Z info test: name a b [31m has 3\n"));
    assert_null(strstr(text, "not at"));
    assert_int_equal(strlen(text),
                     strlen("2026-12-01T10:00:00.000Z info test: name a b [31m has 3\n"));
    logger_set_level(LOGGER_DEBUG);
    LOG_DEBUG("test", "%s", "now");
    read_log(ends[0], text, sizeof(text));
    assert_non_null(strstr(text, " debug test: now\n"));
    char *lengthy = calloc(1, 10001);
    memset(lengthy, 'x', 10000);
    LOG_ERROR("test", "%s", lengthy); /* cut, and still one line */
    free(lengthy);
    read_log(ends[0], text, sizeof(text));
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(strlen(text), 2047);
    logger_set_level(LOGGER_INFO);
    logger_set_fd(2);
    close(ends[0]);
    close(ends[1]);
}

/* ---- progress ---- */

static void test_progress_line(void **state) {
    char line[256];
    struct progress p = {
        .label = "copying", .unit = PROGRESS_BYTES, .total = 4 << 20, .done = 1 << 20};
    progress_format(&p, 1 << 20, 100, line, sizeof(line));
    assert_string_equal(line, "copying  25%  1.0 MiB of 4.0 MiB  1.0 MiB/s  0:03 left");
    p.terminal = true;
    progress_format(&p, 1 << 20, 70, line, sizeof(line));
    assert_string_equal(line,
                        "copying [###..........]  25%  1.0 MiB of 4.0 MiB  1.0 MiB/s  0:03 left");
    assert_int_equal(strlen(line), 70);
    p = (struct progress){.label = "keys", .unit = PROGRESS_ITEMS, .done = 12345};
    progress_format(&p, 99.9, 100, line, sizeof(line));
    assert_string_equal(line, "keys 12345  99/s"); /* no total: no share, no bar */
    p.total = 100; /* more done than expected: never above the whole */
    progress_format(&p, 1, 100, line, sizeof(line));
    assert_string_equal(line, "keys 100%  12345 of 100  1/s  0:00 left");
    p.done = 50;
    progress_format(&p, 0, 100, line, sizeof(line));
    assert_string_equal(line, "keys  50%  50 of 100  0/s  "); /* no rate: no time left */
    progress_format(&p, 0, 10, line, sizeof(line));
    assert_int_equal(strlen(line), 10);
}

static void test_progress_is_silent(void **state) {
    struct progress p;
    progress_init(&p, "x", PROGRESS_ITEMS, 10, true);
    progress_update(&p, 5);
    progress_done(&p);
    assert_int_equal(p.done, 5);
    assert_false(p.drawn);
}

/* ---- the generator ---- */

static void test_prng_reference(void **state) {
    /* From an independent implementation of the paper, state {1, 2, 3, 4}. */
    static const uint64_t expected[] = {UINT64_C(11520),
                                        0,
                                        UINT64_C(1509978240),
                                        UINT64_C(1215971899390074240),
                                        UINT64_C(1216172134540287360),
                                        UINT64_C(607988272756665600)};
    struct prng prng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(prng_u64(&prng) == expected[i]);
    }
    prng_init(&prng, 1234567); /* splitmix64's published first outputs for this seed */
    assert_true(prng.s[0] == UINT64_C(6457827717110365317));
    assert_true(prng.s[1] == UINT64_C(3203168211198807973));
}

static void test_prng_below(void **state) {
    struct prng prng;
    int seen[6] = {0};
    prng_init(&prng, 6);
    for (int i = 0; i < 60000; i++) {
        uint64_t v = prng_below(&prng, 6);
        assert_true(v < 6);
        seen[v]++;
    }
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 9500, 10500); /* over five standard deviations */
    }
    assert_int_equal(prng_below(&prng, 1), 0);
    uint8_t a[37], b[37];
    struct prng other;
    prng_init(&prng, 8);
    prng_init(&other, 8);
    prng_bytes(&prng, a, sizeof(a));
    prng_bytes(&other, b, sizeof(b));
    assert_memory_equal(a, b, sizeof(a));
}

int main(void) {
    setenv("HAYLOFT_FAILPOINTS", "test.env=error@2,test.env.always=error", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_failpoints_of_environment),
        cmocka_unit_test(test_failpoints),     cmocka_unit_test(test_failpoint_kills),
        cmocka_unit_test(test_metrics),        cmocka_unit_test(test_logger),
        cmocka_unit_test(test_progress_line),  cmocka_unit_test(test_progress_is_silent),
        cmocka_unit_test(test_prng_reference), cmocka_unit_test(test_prng_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
