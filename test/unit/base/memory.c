/* Pools and buffers: alignment, limits, sticking failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/pool.h"
#include "base/prng.h"

/* Random sizes, each filled with its own pattern; nothing may overlap. */
static void test_pool_blocks_are_disjoint(void **state) {
    enum { COUNT = 300 };
    CLEANUP_POOL struct pool *pool = pool_new(1000);
    struct prng prng;
    uint8_t *blocks[COUNT];
    size_t sizes[COUNT];
    prng_init(&prng, 4);
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = prng_below(&prng, i % 10 == 0 ? 5000 : 200);
        blocks[i] = pool_alloc(pool, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], i & 0xff, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(blocks[i][k], i & 0xff);
        }
    }
}

static void test_pool_large_request_keeps_chunk(void **state) {
    CLEANUP_POOL struct pool *pool = pool_new(4096);
    pool_alloc(pool, 16);
    size_t before = pool_bytes(pool);
    assert_non_null(pool_alloc(pool, 100000));
    assert_int_equal(pool_bytes(pool), before + 100000);
    for (int i = 0; i < 200; i++) { /* the rest of the first chunk is still used */
        assert_non_null(pool_alloc(pool, 16));
    }
    assert_int_equal(pool_bytes(pool), before + 100000);
}

static void test_pool_limit_and_reset(void **state) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    assert_int_equal(pool_bytes(pool), 4096);
    pool_set_limit(pool, 16384);
    int count = 0;
    while (pool_alloc(pool, 1024) != NULL) {
        count++;
    }
    assert_int_equal(count, 16);
    assert_int_equal(pool_bytes(pool), 16384);
    assert_null(pool_alloc(pool, SIZE_MAX));
    assert_null(pool_alloc(pool, SIZE_MAX - 15));
    assert_null(pool_copy(pool, slice_of("x", SIZE_MAX)).data);
    pool_reset(pool);
    assert_int_equal(pool_bytes(pool), 4096);
    assert_non_null(pool_alloc(pool, 4096));
    assert_non_null(pool_alloc(pool, 8192)); /* large; a reset frees these too */
    pool_reset(pool);
    assert_int_equal(pool_bytes(pool), 4096);
}

static void test_pool_text(void **state) {
    CLEANUP_POOL struct pool *pool = pool_new(64);
    uint8_t *zeroed = pool_calloc(pool, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(zeroed[i], 0);
    }
    struct slice copy = pool_copy(pool, slice_str("key"));
    assert_string_equal((const char *)copy.data, "key");
    assert_int_equal(copy.size, 3);
    assert_non_null(pool_copy(pool, SLICE_EMPTY).data); /* empty is not out of memory */
    char *text =
        pool_printf(pool, "%d-%s", 42, "a long text that does not fit a chunk of 64 bytes");
    assert_string_equal(text, "42-a long text that does not fit a chunk of 64 bytes");
    pool_free(NULL);
}

static void test_buf_limit_sticks(void **state) {
    CLEANUP_BUF struct buf b = {.size_max = 10};
    buf_append_str(&b, "12345678");
    assert_false(b.failed);
    buf_append_str(&b, "901"); /* one too many: nothing of it is kept */
    assert_true(b.failed);
    assert_int_equal(b.size, 8);
    buf_append_u8(&b, 'x'); /* would fit, but the failure sticks */
    assert_int_equal(b.size, 8);
    buf_clear(&b);
    buf_append_str(&b, "1234567890");
    assert_false(b.failed);
    assert_memory_equal(b.data, "1234567890", 10);
}

static void test_buf_overflow_and_default(void **state) {
    CLEANUP_BUF struct buf b = {0};
    buf_append_u8(&b, 1);
    assert_false(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_clear(&b);
    assert_false(buf_reserve(&b, BUF_LIMIT_DEFAULT + 1u));
    buf_clear(&b);
    buf_append(&b, NULL, 0);
    assert_false(b.failed);
    assert_int_equal(b.size, 0);
}

static void test_buf_grows(void **state) {
    CLEANUP_BUF struct buf b = {0};
    for (int i = 0; i < 10000; i++) {
        buf_printf(&b, "%d,", i);
    }
    assert_false(b.failed);
    assert_int_equal(b.size, 48890); /* 10 + 90 * 2 + 900 * 3 + 9000 * 4 digits and 10000 commas */
    assert_memory_equal(b.data + b.size - 10, "9998,9999,", 10);
    buf_done(&b);
    assert_null(b.data);
    buf_append_str(&b, "again");
    assert_int_equal(b.size, 5);
}

/* A printf whose text fits exactly must not be refused for the NUL that is not kept. */
static void test_buf_printf_at_limit(void **state) {
    CLEANUP_BUF struct buf b = {.size_max = 4};
    buf_printf(&b, "%s", "1234");
    assert_false(b.failed);
    assert_int_equal(b.size, 4);
    buf_printf(&b, "%s", "5");
    assert_true(b.failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_blocks_are_disjoint),
        cmocka_unit_test(test_pool_large_request_keeps_chunk),
        cmocka_unit_test(test_pool_limit_and_reset),
        cmocka_unit_test(test_pool_text),
        cmocka_unit_test(test_buf_limit_sticks),
        cmocka_unit_test(test_buf_overflow_and_default),
        cmocka_unit_test(test_buf_grows),
        cmocka_unit_test(test_buf_printf_at_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
