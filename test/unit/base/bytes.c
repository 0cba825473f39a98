/* Fixed-width integers, varints, the bounded cursor, and slices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/prng.h"

static void test_orders(void **state) {
    uint8_t p[8];
    put_le64(p, 0x0102030405060708u);
    assert_memory_equal(p, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    assert_true(get_le64(p) == 0x0102030405060708u);
    assert_true(get_be64(p) == 0x0807060504030201u);
    put_be64(p, 0x0102030405060708u);
    assert_memory_equal(p, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
    put_le32(p, 0xfedcba98u);
    assert_memory_equal(p, "\x98\xba\xdc\xfe", 4);
    assert_int_equal(get_be32(p), 0x98badcfeu);
    put_be16(p, 0xff01);
    assert_int_equal(get_le16(p), 0x01ff);
}

static void check_varint(uint64_t v, size_t size_expected) {
    uint8_t p[VARINT_MAX];
    size_t size = put_varint(p, v);
    assert_int_equal(size, size_expected);
    struct reader r = reader_of(slice_of(p, size));
    assert_true(reader_varint(&r) == v);
    assert_false(r.failed);
    assert_int_equal(reader_left(&r), 0);
    for (size_t cut = 0; cut < size; cut++) { /* every truncation fails and yields 0 */
        r = reader_of(slice_of(p, cut));
        assert_true(reader_varint(&r) == 0);
        assert_true(r.failed);
    }
}

static void test_varint_bounds(void **state) {
    check_varint(0, 1);
    for (unsigned bits = 1; bits <= 64; bits++) {
        uint64_t largest = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
        check_varint(largest, (bits + 6) / 7);
        check_varint(largest / 2 + 1, (bits + 6) / 7); /* the smallest of that many bits */
    }
}

static bool varint_refused(const char *bytes, size_t size) {
    struct reader r = reader_of(slice_of(bytes, size));
    uint64_t v = reader_varint(&r);
    return r.failed && v == 0;
}

static void test_varint_malformed(void **state) {
    assert_true(varint_refused("\x80\x00", 2)); /* longer than needed */
    assert_true(varint_refused("\xff\x80\x00", 3));
    assert_true(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10)); /* 65 bits */
    assert_true(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11));
    assert_true(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
    assert_false(varint_refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10));
}

static void test_reader_sticks(void **state) {
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct reader r = reader_of(slice_of(bytes, sizeof(bytes)));
    assert_int_equal(reader_u8(&r), 1);
    assert_int_equal(reader_le16(&r), 0x0302);
    assert_int_equal(reader_le32(&r), 0x07060504);
    assert_true(reader_le64(&r) == 0); /* two are left */
    assert_true(r.failed);
    assert_int_equal(reader_u8(&r), 0); /* stays failed although bytes are left */
    assert_int_equal(reader_bytes(&r, 0).size, 0);
    assert_true(r.failed);
}

static void test_blob_limits(void **state) {
    static const uint8_t good[] = {3, 'a', 'b', 'c', 'd'};
    struct reader r = reader_of(slice_of(good, sizeof(good)));
    assert_true(slice_equal_str(reader_blob(&r), "abc"));
    assert_int_equal(reader_left(&r), 1);
    r = reader_of(slice_of(good, 3)); /* says three, has two */
    assert_int_equal(reader_blob(&r).size, 0);
    assert_true(r.failed);
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'};
    r = reader_of(slice_of(huge, sizeof(huge)));
    assert_int_equal(reader_blob(&r).size, 0);
    assert_true(r.failed);
}

/* Random sequences of values written with buf_* and read back in the same order. */
static void test_round_trip(void **state) {
    struct prng prng;
    prng_init(&prng, 3);
    for (int round = 0; round < 200; round++) {
        CLEANUP_BUF struct buf b = {0};
        struct prng again = prng;
        for (int i = 0; i < 50; i++) {
            uint64_t v = prng_u64(&prng) >> prng_below(&prng, 64);
            buf_append_varint(&b, v);
            buf_append_be64(&b, v);
            buf_append_le64(&b, v);
            buf_append_le32(&b, (uint32_t)v);
            buf_append_u8(&b, (uint8_t)v);
            buf_append_blob(&b, slice_of(&v, v % 9));
        }
        struct reader r = reader_of(buf_slice(&b));
        for (int i = 0; i < 50; i++) {
            uint64_t v = prng_u64(&again) >> prng_below(&again, 64);
            assert_true(reader_varint(&r) == v);
            assert_true(reader_be64(&r) == v);
            assert_true(reader_le64(&r) == v);
            assert_int_equal(reader_le32(&r), (uint32_t)v);
            assert_int_equal(reader_u8(&r), (uint8_t)v);
            assert_true(slice_equal(reader_blob(&r), slice_of(&v, v % 9)));
        }
        assert_false(r.failed || b.failed);
        assert_int_equal(reader_left(&r), 0);
    }
}

static void test_slices(void **state) {
    assert_true(slice_compare(slice_str("a"), slice_str("a/")) < 0);
    assert_true(slice_compare(slice_str("a/"), slice_str("a")) > 0);
    assert_true(slice_compare(slice_str("\xff"), slice_str("a")) > 0); /* unsigned */
    assert_int_equal(slice_compare(SLICE_EMPTY, SLICE_EMPTY), 0);
    assert_true(slice_starts_with(slice_str("abc"), SLICE_EMPTY));
    assert_false(slice_starts_with(slice_str("ab"), slice_str("abc")));
    assert_true(slice_equal_nocase(slice_str("X-Amz-DATE"), slice_str("x-amz-date")));
    assert_false(slice_equal_nocase(slice_str("@"), slice_str("`"))); /* 0x40 and 0x60 */
    assert_int_equal(slice_find(slice_str("a=b=c"), '=', 2), 3);
    assert_int_equal(slice_find(slice_str("abc"), '=', 0), 3);
    assert_int_equal(slice_find(slice_str("abc"), 'a', 9), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),           cmocka_unit_test(test_varint_bounds),
        cmocka_unit_test(test_varint_malformed), cmocka_unit_test(test_reader_sticks),
        cmocka_unit_test(test_blob_limits),      cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
