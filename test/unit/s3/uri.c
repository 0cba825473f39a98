/* Names out of targets: what is split, what is decoded, what is refused. Expected values are
 * written out by hand from the RFC and from reports about other stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "head.h"
#include "s3/uri.h"

static int parse(struct pool *pool, const char *host, const char *root, const char *target,
                 struct s3_uri *ret) {
    struct test_head head;
    test_head_init(&head, "GET", target);
    test_head_header(&head, "hOST", host);
    return s3_uri_parse(&head.head, root, pool, ret);
}

static void path_style(void **state) {
    static const struct {
        const char *target, *bucket, *key;
        size_t key_size;
    } cases[] = {
        {"/", NULL, "", 0},
        {"//", NULL, "", 0},
        {"/b", "b", "", 0},
        {"/b/", "b", "", 0},
        {"/b?list-type=2", "b", "", 0},
        {"/b/k", "b", "k", 1},
        {"/b/k/", "b", "k/", 2},
        {"/b//x/y", "b", "/x/y", 4},
        {"/b/a/../b/./c", "b", "a/../b/./c", 10},
        {"/b/..", "b", "..", 2},
        {"/b/a%2Fb", "b", "a/b", 3},
        {"/b/a%252Fb", "b", "a%2Fb", 5},
        {"/b/a+b%20c%2B", "b", "a+b c+", 6},
        {"/b/%C3%A9", "b", "\xc3\xa9", 2},
        {"/b/\xc3\xa9", "b", "\xc3\xa9", 2},
        {"/b%2Fk", "b/k", "", 0},
        {"/b/%3FversionId", "b", "?versionId", 10},
        {"http://h/b/k", "b", "k", 1},
        {"https://h", NULL, "", 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct s3_uri uri;
        assert_int_equal(parse(pool, "127.0.0.1:3900", ".s3.local", cases[i].target, &uri), 0);
        assert_false(uri.virtual_host);
        if (cases[i].bucket == NULL) {
            assert_null(uri.bucket.data);
        } else {
            assert_true(slice_equal_str(uri.bucket, cases[i].bucket));
        }
        assert_true(slice_equal(uri.key, slice_of(cases[i].key, cases[i].key_size)));
    }
}

static void refused_targets(void **state) {
    static const char *const targets[] = {
        "",       "*",      "b/k",    "/b/%",         "/b/%4",     "/b/%zz",
        "/b/%00", "/b/%ff", "/b/%c3", "/b/%ed%a0%80", "/b/%c0%af", "/b/\xff",
        "/%ff/k", "//k",    "/b?x=%", "/b?x=%00",     "/b?%ff=1",  "/b?prefix=%ff"};
    for (size_t i = 0; i < ARRAY_COUNT(targets); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct s3_uri uri;
        if (parse(pool, "h", NULL, targets[i], &uri) != -HL_ERR_URI) {
            print_error("accepted: %s\n", targets[i]);
            fail();
        }
    }
}

static void host_style(void **state) {
    static const struct {
        const char *host, *root, *bucket;
    } cases[] = {
        {"b.s3.local", ".s3.local", "b"},        {"B.S3.Local:3900", ".s3.local", "b"},
        {"a.b.s3.local:80", ".s3.local", "a.b"}, {"b.s3.local", "s3.local", "b"},
        {"s3.local", ".s3.local", NULL},         {".s3.local", ".s3.local", NULL},
        {"bs3.local", "s3.local", NULL},         {"b.s3.localx", ".s3.local", NULL},
        {"b.localhost:3900", ".s3.local", NULL}, {"b.localhost:3900", NULL, "b"},
        {"a.b.localhost", NULL, "a.b"},          {"localhost:3900", NULL, NULL},
        {"b.s3.example.org", NULL, "b"},         {"b.s3.eu-central-1.amazonaws.com", "", "b"},
        {"s3.example.org", NULL, NULL},          {"store.example.org", NULL, NULL},
        {"127.0.0.1:3900", NULL, NULL},          {"1.2.3.4.s3.local", ".s3.local", "1.2.3.4"},
        {"[::1]:9000", ".s3.local", NULL},       {"", ".s3.local", NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct s3_uri uri;
        assert_int_equal(parse(pool, cases[i].host, cases[i].root, "/x/y", &uri), 0);
        assert_int_equal(uri.virtual_host, cases[i].bucket != NULL);
        if (cases[i].bucket != NULL) {
            assert_true(slice_equal_str(uri.bucket, cases[i].bucket));
            assert_true(slice_equal_str(uri.key, "x/y"));
        } else {
            assert_true(slice_equal_str(uri.bucket, "x"));
            assert_true(slice_equal_str(uri.key, "y"));
        }
    }
}

static void queries(void **state) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    struct s3_query query;
    assert_int_equal(
        s3_query_parse(slice_str("uploads&prefix=a+b%2Bc=d&&x=&%61cl&prefix=2"), pool, &query), 0);
    assert_int_equal(query.count, 5);
    assert_true(s3_query_has(&query, "uploads"));
    assert_false(s3_query_find(&query, "uploads")->has_value);
    assert_true(slice_equal_str(s3_query_value(&query, "prefix"), "a b+c=d"));
    assert_true(s3_query_find(&query, "x")->has_value);
    assert_non_null(s3_query_value(&query, "x").data);
    assert_int_equal(s3_query_value(&query, "x").size, 0);
    assert_true(s3_query_has(&query, "acl"));
    assert_false(s3_query_has(&query, "Acl"));
    assert_null(s3_query_value(&query, "none").data);
    assert_int_equal(s3_query_parse(SLICE_EMPTY, pool, &query), 0);
    assert_int_equal(query.count, 0);
}

static void query_limit(void **state) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    char text[2 * S3_QUERY_PARAMS_MAX + 2];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = i % 2 == 0 ? 'a' : '&';
    }
    struct s3_query query;
    assert_int_equal(s3_query_parse(slice_of(text, 2 * S3_QUERY_PARAMS_MAX - 1), pool, &query), 0);
    assert_int_equal(query.count, S3_QUERY_PARAMS_MAX);
    assert_int_equal(s3_query_parse(slice_of(text, 2 * S3_QUERY_PARAMS_MAX + 1), pool, &query),
                     -HL_ERR_URI);
}

static void copy_sources(void **state) {
    static const struct {
        const char *header, *bucket, *key, *version;
    } cases[] = {
        {"/b/k", "b", "k", NULL},
        {"b/k", "b", "k", NULL},
        {"b%2Fk", "b", "k", NULL},
        {"%2Fb%2Fk", "b", "k", NULL},
        {"b/a%20b%2Bc", "b", "a b+c", NULL},
        {"b2/a%20b%2Bc%3F%C3%A9?versionId=v", "b2", "a b+c?\xc3\xa9", "v"},
        {"/b/a b", "b", "a b", NULL},
        {"/b/a+b?versionId=null", "b", "a+b", "null"},
        {"b/a%3FversionId=x", "b", "a?versionId=x", NULL},
        {"b/a%3FversionId=x?versionId=y", "b", "a?versionId=x", "y"},
        {"b/foo%25.txt", "b", "foo%.txt", NULL},
        {"b/foo%2525.txt", "b", "foo%25.txt", NULL},
        {"b//x", "b", "/x", NULL},
        {"/b/../c", "b", "../c", NULL},
        {"b/a?versionId=", "b", "a", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct s3_copy_source source;
        assert_int_equal(s3_copy_source_parse(slice_str(cases[i].header), pool, &source), 0);
        assert_true(slice_equal_str(source.bucket, cases[i].bucket));
        assert_true(slice_equal_str(source.key, cases[i].key));
        assert_int_equal(source.version_id.data != NULL, cases[i].version != NULL);
        assert_true(slice_equal_str(source.version_id, cases[i].version));
    }
    static const char *const bad[] = {"",
                                      "/",
                                      "b",
                                      "/b",
                                      "b/",
                                      "//k",
                                      "b/%zz",
                                      "b/%00",
                                      "b/%ff",
                                      "?versionId=v",
                                      "b?versionId=v",
                                      "b/k?versionId=%zz"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct s3_copy_source source;
        assert_int_equal(s3_copy_source_parse(slice_str(bad[i]), pool, &source), -HL_ERR_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_style),  cmocka_unit_test(refused_targets),
        cmocka_unit_test(host_style),  cmocka_unit_test(queries),
        cmocka_unit_test(query_limit), cmocka_unit_test(copy_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
