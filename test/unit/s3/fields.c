/* Ranges, entity-tag lists, paging tokens and Content-Encoding lists. The ranges are compared with
 * a model that marks bytes of a small object one by one (RFC 9110 14.1.2), over all small cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "s3/fields.h"

#include <stdio.h>

/* ---- ranges ---- */

struct range_case {
    const char *field;
    uint64_t object_size;
    enum s3_range_kind kind;
    uint64_t off, size;
};

static void test_range_cases(void **state) {
    static const struct range_case cases[] = {
        {"bytes=0-4", 10, S3_RANGE_OK, 0, 5},
        {"bytes=4-4", 10, S3_RANGE_OK, 4, 1},
        {"bytes=4-", 10, S3_RANGE_OK, 4, 6},
        {"bytes=-3", 10, S3_RANGE_OK, 7, 3},
        {"bytes=-10", 10, S3_RANGE_OK, 0, 10},
        {"bytes=-11", 10, S3_RANGE_OK, 0, 10},
        {"bytes=0-99", 10, S3_RANGE_OK, 0, 10},
        {"bytes= 1-2", 10, S3_RANGE_OK, 1, 2},
        {"Bytes=1-2", 10, S3_RANGE_OK, 1, 2},
        {"bytes=-18446744073709551615", 10, S3_RANGE_OK, 0, 10},
        {"bytes=-99999999999999999999999", 10, S3_RANGE_OK, 0, 10},
        {"bytes=3-99999999999999999999999", 10, S3_RANGE_OK, 3, 7},
        {"bytes=10-", 10, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=10-20", 10, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=99999999999999999999999-", 10, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=-0", 10, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=0-0", 0, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=0-", 0, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=-5", 0, S3_RANGE_UNSATISFIABLE, 0, 0},
        {"bytes=5-2", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=0-1,3-4", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=-", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=a-b", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=1", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=1--2", 10, S3_RANGE_NONE, 0, 0},
        {"bytes=+1-2", 10, S3_RANGE_NONE, 0, 0},
        {"items=0-4", 10, S3_RANGE_NONE, 0, 0},
        {"0-4", 10, S3_RANGE_NONE, 0, 0},
        {"", 10, S3_RANGE_NONE, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint64_t off = 0, size = 0;
        enum s3_range_kind kind =
            s3_parse_range(slice_str(cases[i].field), cases[i].object_size, &off, &size);
        assert_int_equal(kind, cases[i].kind);
        if (kind == S3_RANGE_OK) {
            assert_int_equal(off, cases[i].off);
            assert_int_equal(size, cases[i].size);
        }
    }
}

/* Which bytes does "first-last" or "-suffix" select? Said byte by byte. */
static uint64_t model_mask(int first, int last, int suffix, int object_size) {
    uint64_t mask = 0;
    for (int i = 0; i < object_size; i++) {
        bool in = suffix >= 0 ? i >= object_size - suffix : i >= first && (last < 0 || i <= last);
        mask |= (uint64_t)in << i;
    }
    return mask;
}

static void check_range(const char *field, uint64_t mask, int object_size) {
    uint64_t off = 0, size = 0;
    enum s3_range_kind kind = s3_parse_range(slice_str(field), (uint64_t)object_size, &off, &size);
    if (mask == 0) {
        assert_int_equal(kind, S3_RANGE_UNSATISFIABLE);
        return;
    }
    assert_int_equal(kind, S3_RANGE_OK);
    uint64_t got = 0;
    for (uint64_t i = off; i < off + size; i++) {
        got |= (uint64_t)1 << i;
    }
    assert_int_equal(got, mask);
}

static void test_range_model(void **state) {
    char field[64];
    for (int object_size = 0; object_size < 9; object_size++) {
        for (int a = 0; a < 11; a++) {
            (void)snprintf(field, sizeof(field), "bytes=-%d", a);
            check_range(field, model_mask(0, 0, a, object_size), object_size);
            (void)snprintf(field, sizeof(field), "bytes=%d-", a);
            check_range(field, model_mask(a, -1, -1, object_size), object_size);
            for (int b = a; b < 12; b++) {
                (void)snprintf(field, sizeof(field), "bytes=%d-%d", a, b);
                check_range(field, model_mask(a, b, -1, object_size), object_size);
            }
        }
    }
}

static void test_copy_range(void **state) {
    uint64_t first, last;
    assert_true(s3_parse_copy_range(slice_str("bytes=0-21"), &first, &last));
    assert_int_equal(first, 0);
    assert_int_equal(last, 21);
    static const char *const bad[] = {"",
                                      "0-2",
                                      "bytes=0",
                                      "bytes=hello-world",
                                      "bytes=0-bar",
                                      "bytes=hello-",
                                      "bytes=0-2,3-5",
                                      "bytes=0-",
                                      "bytes=-5",
                                      "bytes=3-2",
                                      "bytes= 0-2"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(s3_parse_copy_range(slice_str(bad[i]), &first, &last));
    }
}

/* ---- entity tags ---- */

static void check_tags(const char *field, bool any, const char *joined) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct object_etags tags;
    assert_int_equal(s3_parse_etags(slice_str(field), pool, &tags), 0);
    assert_int_equal(tags.any, any);
    char got[256] = "";
    for (uint32_t i = 0; i < tags.tag_count; i++) {
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof(got) - used, "%s%.*s", i > 0 ? "|" : "",
                       SLICE_PRINT(tags.tags[i]));
    }
    assert_string_equal(got, joined);
    assert_int_equal(tags.given, any || joined[0] != 0);
}

static void test_etags(void **state) {
    check_tags("", false, "");
    check_tags("*", true, "");
    check_tags("\"*\"", true, "");
    check_tags("\"abc\"", false, "abc");
    check_tags("abc", false, "abc");
    check_tags("\"abc\", \"def-2\"", false, "abc|def-2");
    check_tags("abc,def", false, "abc|def");
    check_tags("W/\"abc\"", false, "abc");
    check_tags("\"a,b\",\"c\"", false, "a,b|c");
    check_tags("  \"abc\"  ", false, "abc");
    check_tags("\"open", false, "open");
}

/* ---- tokens ---- */

static void test_tokens(void **state) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    uint8_t key[1024];
    for (size_t size = 0; size <= sizeof(key); size = size * 2 + 1) {
        for (size_t i = 0; i < size; i++) {
            key[i] = (uint8_t)(i * 37 + size);
        }
        for (int prefix = 0; prefix < 2; prefix++) {
            struct slice token = s3_token_encode(pool, prefix, slice_of(key, size));
            assert_non_null(token.data);
            for (size_t i = 0; i < token.size; i++) { /* safe in any URL and any signer (B38) */
                assert_non_null(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-_",
                                       token.data[i]));
            }
            bool is_prefix;
            struct slice back;
            assert_true(s3_token_decode(pool, token, &is_prefix, &back));
            assert_int_equal(is_prefix, prefix);
            assert_true(slice_equal(back, slice_of(key, size)));
            /* Any changed character is noticed. */
            uint8_t *copy = pool_alloc(pool, token.size);
            memcpy(copy, token.data, token.size);
            copy[token.size / 2] = copy[token.size / 2] == 'A' ? 'B' : 'A';
            assert_false(s3_token_decode(pool, slice_of(copy, token.size), &is_prefix, &back));
        }
    }
    bool is_prefix;
    struct slice back;
    static const char *const bad[] = {"", "garbage", "AQAA", "1", "====", "a/b+c=", "AQ AA"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(s3_token_decode(pool, slice_str(bad[i]), &is_prefix, &back));
    }
}

/* ---- Content-Encoding ---- */

static void check_strip(const char *field, const char *expected) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct slice got = s3_strip_aws_chunked(pool, slice_str(field));
    assert_int_equal(got.size, strlen(expected));
    assert_true(slice_equal_str(got, expected));
}

static void test_strip(void **state) {
    check_strip("gzip", "gzip");
    check_strip("aws-chunked", "");
    check_strip("aws-chunked,gzip", "gzip");
    check_strip("gzip, aws-chunked", "gzip");
    check_strip("aws-chunked, gzip, AWS-Chunked, br", "gzip, br");
    check_strip("deflate, gzip,aws-chunked", "deflate, gzip");
    check_strip("gzip,  br", "gzip,  br"); /* untouched: byte for byte */
    check_strip("", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_cases), cmocka_unit_test(test_range_model),
        cmocka_unit_test(test_copy_range),  cmocka_unit_test(test_etags),
        cmocka_unit_test(test_tokens),      cmocka_unit_test(test_strip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
