/* The bounded set of buffers against its promises: never above the limit, first come first served,
 * nothing lost, nothing kept after a burst. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/macros.h"
#include "base/prng.h"
#include "http/buffers.h"

#define ONE   262144
#define LIMIT (4 * ONE)

/* An executor that only remembers the order. */
static struct task *posted[1000];
static int posted_count;
static void remember(struct executor *executor, struct task *task) {
    posted[posted_count++] = task;
}
static struct executor home = {remember};

static struct http_buffers *b;

static int set_up(void **state) {
    posted_count = 0;
    return http_buffers_new(LIMIT, ONE, &b);
}

static int tear_down(void **state) {
    http_buffers_free(b);
    return 0;
}

static int take(size_t size, struct http_buffer_wait *wait, struct http_buffer *ret) {
    *wait = (struct http_buffer_wait){.home = &home};
    return http_buffers_take(b, size, wait, ret);
}

static void first_come_first_served(void **state) {
    struct http_buffer held[4];
    struct http_buffer_wait waits[5], none;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(take(ONE, &none, &held[i]), 0);
        assert_int_equal(held[i].size, ONE);
    }
    for (int i = 0; i < 5; i++) { /* a small one in the middle must not overtake */
        assert_int_equal(take(i == 2 ? 100 : ONE, &waits[i], &held[0]), -HL_ERR_AGAIN);
    }
    assert_true(http_buffers_cancel(b, &waits[1]));
    assert_false(http_buffers_cancel(b, &waits[1]));
    http_buffers_put(b, &held[0]);
    assert_int_equal(posted_count, 1);
    assert_ptr_equal(posted[0], &waits[0].task);
    assert_int_equal(waits[0].granted.size, ONE);
    http_buffers_put(b, &held[1]); /* the small one, and the next does not fit beside it */
    assert_int_equal(posted_count, 2);
    assert_ptr_equal(posted[1], &waits[2].task);
    assert_int_equal(waits[2].granted.size, 100);
    assert_true(http_buffers_used(b) <= LIMIT);
    http_buffers_put(b, &held[2]);
    assert_int_equal(posted_count, 3);
    assert_ptr_equal(posted[2], &waits[3].task);
    assert_true(http_buffers_cancel(b, &waits[4]));
    for (int i = 0; i < 4; i++) {
        http_buffers_put(b, &waits[i].granted);
    }
    http_buffers_put(b, &held[3]);
    assert_int_equal(http_buffers_used(b), 0);
}

/* Cancelling the head of the queue lets those behind pass that fit. */
static void cancelling_frees_the_way(void **state) {
    struct http_buffer held[4];
    struct http_buffer_wait big, small, none;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(ONE, &none, &held[i]), 0);
    }
    assert_int_equal(take(1000, &none, &held[3]), 0);
    assert_int_equal(take(ONE, &big, &held[0]), -HL_ERR_AGAIN);
    assert_int_equal(take(1000, &small, &held[0]), -HL_ERR_AGAIN);
    assert_true(http_buffers_cancel(b, &big));
    assert_int_equal(posted_count, 1);
    assert_ptr_equal(posted[0], &small.task);
    http_buffers_put(b, &small.granted);
    for (int i = 0; i < 4; i++) {
        http_buffers_put(b, &held[i]);
    }
    assert_int_equal(http_buffers_used(b), 0);
}

static void random_use_stays_within_the_limit(void **state) {
    struct http_buffer held[64] = {0};
    struct prng prng;
    prng_init(&prng, 11);
    for (int i = 0; i < 20000; i++) {
        size_t slot = (size_t)prng_below(&prng, ARRAY_COUNT(held));
        struct http_buffer_wait wait;
        if (held[slot].data != NULL) {
            http_buffers_put(b, &held[slot]);
            continue;
        }
        size_t size = (size_t)prng_below(&prng, ONE) + 1;
        uint64_t before = http_buffers_used(b);
        if (take(size, &wait, &held[slot]) == 0) {
            assert_true(held[slot].size >= size);
            held[slot].data[0] = held[slot].data[size - 1] = 1;
            assert_int_equal(http_buffers_used(b), before + held[slot].size);
        } else {
            assert_true(before + size > LIMIT || before + ONE > LIMIT);
            assert_true(http_buffers_cancel(b, &wait));
        }
        assert_true(http_buffers_used(b) <= LIMIT);
    }
    for (size_t i = 0; i < ARRAY_COUNT(held); i++) {
        http_buffers_put(b, &held[i]);
    }
    assert_int_equal(http_buffers_used(b), 0);
}

static size_t mapped_kib(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu", &pages), 1);
    fclose(f);
    return pages * 4;
}

static void a_burst_leaves_little_behind(void **state) {
    struct http_buffers *many;
    static struct http_buffer held[100];
    struct http_buffer_wait wait = {.home = &home};
    assert_int_equal(http_buffers_new((uint64_t)ONE * 100, ONE, &many), 0);
    size_t before = mapped_kib();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(http_buffers_take(many, ONE, &wait, &held[i]), 0);
    }
    assert_true(mapped_kib() - before >= 100 * ONE / 1024);
    for (int i = 0; i < 100; i++) {
        http_buffers_put(many, &held[i]);
    }
    assert_true(mapped_kib() <= before + 4 * ONE / 1024);
    http_buffers_free(many);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(first_come_first_served),
        TEST(cancelling_frees_the_way),
        TEST(random_use_stays_within_the_limit),
        TEST(a_burst_leaves_little_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
