/* Headers to stored metadata and the refusal of what is not built: a request context around a head
 * built by hand; no store, no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "head.h"
#include "s3/metadata.h"

struct fixture {
    struct test_head head;
    struct s3_request r;
};

static struct fixture *fixture_new(const char *method) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    test_head_init(&f->head, method, "/b/k");
    f->r.head = &f->head.head;
    f->r.pool = pool_new(0);
    return f;
}

static void fixture_free(struct fixture *f) {
    pool_free(f->r.pool);
    free(f);
}

static void add(struct fixture *f, const char *name, const char *value) {
    test_head_header(&f->head, name, value);
}

static void test_round_trip(void **state) {
    struct fixture *f = fixture_new("PUT");
    add(f, "Content-Type", "text/plain; charset=utf-8");
    add(f, "Cache-Control", "no-cache");
    add(f, "Content-Encoding", "aws-chunked,gzip");
    add(f, "Expires", "not a date, kept");
    add(f, "x-amz-meta-Mixed-Case", "V\xc3\xa4lue  with  blanks");
    add(f, "x-amz-meta-empty", "");
    add(f, "X-Amz-Meta-Twice", "one");
    add(f, "x-amz-meta-twice", "two");
    add(f, "x-amz-meta-", "no name");
    add(f, "x-amz-storage-class", "STANDARD");
    struct object_headers h;
    assert_int_equal(s3_metadata_read(&f->r, &h), 0);
    assert_true(slice_equal_str(h.content_type, "text/plain; charset=utf-8"));
    assert_true(slice_equal_str(h.cache_control, "no-cache"));
    assert_true(slice_equal_str(h.content_encoding, "gzip"));
    assert_true(slice_equal_str(h.expires, "not a date, kept"));
    assert_null(h.content_language.data);
    assert_int_equal(h.storage_class.size, 0);
    assert_int_equal(h.metadata_count, 3);
    assert_true(slice_equal_str(h.metadata[0].name, "mixed-case"));
    assert_true(slice_equal_str(h.metadata[0].value, "V\xc3\xa4lue  with  blanks"));
    assert_true(slice_equal_str(h.metadata[1].name, "empty"));
    assert_int_equal(h.metadata[1].value.size, 0);
    assert_true(slice_equal_str(h.metadata[2].name, "twice"));
    assert_true(slice_equal_str(h.metadata[2].value, "one,two"));
    fixture_free(f);
}

/* AWS counts names without the prefix and values: 2,048 bytes pass, one more does not. */
static void test_limit(void **state) {
    char value[2049];
    memset(value, 'v', sizeof(value));
    for (int over = 0; over < 2; over++) {
        struct fixture *f = fixture_new("PUT");
        value[2048 - 4 + over] = 0;
        add(f, "x-amz-meta-name", value);
        value[2048 - 4 + over] = 'v';
        struct object_headers h;
        assert_int_equal(s3_metadata_read(&f->r, &h), over ? -HL_ERR_METADATA_TOO_LARGE : 0);
        fixture_free(f);
    }
}

static void test_unbuilt(void **state) {
    static const struct {
        const char *name, *value;
        int err;
    } cases[] = {
        {"x-amz-acl", "private", 0},
        {"x-amz-acl", "bucket-owner-full-control", 0},
        {"x-amz-acl", "", 0},
        {"x-amz-acl", "public-read", -HL_ERR_NOT_IMPLEMENTED},
        {"x-amz-acl", "authenticated-read", -HL_ERR_NOT_IMPLEMENTED},
        {"x-amz-acl", "public-ready", -HL_ERR_INVALID},
        {"x-amz-grant-read", "id=1", -HL_ERR_UNSUPPORTED},
        {"x-amz-tagging", "", 0},
        {"x-amz-tagging", "a=b", -HL_ERR_UNSUPPORTED},
        {"x-amz-tagging-directive", "COPY", 0},
        {"x-amz-server-side-encryption", "AES256", -HL_ERR_UNSUPPORTED},
        {"X-Amz-Server-Side-Encryption-Customer-Algorithm", "AES256", -HL_ERR_UNSUPPORTED},
        {"x-amz-object-lock-mode", "COMPLIANCE", -HL_ERR_INVALID_REQUEST},
        {"x-amz-storage-class", "STANDARD", 0},
        {"x-amz-storage-class", "REDUCED_REDUNDANCY", 0},
        {"x-amz-storage-class", "", 0},
        {"x-amz-storage-class", "GLACIER", -HL_ERR_STORAGE_CLASS},
        {"x-amz-request-payer", "requester", 0},
        {"x-amz-meta-x-amz-tagging", "a", 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fixture *f = fixture_new("PUT");
        add(f, cases[i].name, cases[i].value);
        assert_int_equal(s3_metadata_check(&f->r), cases[i].err);
        fixture_free(f);
    }
}

static void test_conditions(void **state) {
    struct fixture *f = fixture_new("GET");
    add(f, "If-Match", "\"abc\"");
    add(f, "If-None-Match", "");
    add(f, "If-Modified-Since", "Tue, 01 Dec 2026 10:00:00 GMT");
    add(f, "If-Unmodified-Since", "soon");
    struct object_conditions c;
    assert_int_equal(s3_conditions_read(&f->r, &c), 0);
    assert_true(c.match.given);
    assert_int_equal(c.match.tag_count, 1);
    assert_false(c.none_match.given); /* an empty field is no condition */
    assert_true(c.modified_since_given);
    assert_int_equal(c.modified_since_ms, 1796119200000LL); /* date -d '2026-12-01 10:00 UTC' +%s */
    assert_false(c.unmodified_since_given);
    assert_int_equal(s3_conditions_write(&f->r, &c), 0);
    assert_false(c.modified_since_given); /* dates do not bind writes */
    fixture_free(f);
}

/* SDKs move x-amz-* headers into the query of a presigned URL: they count, and are refused, as
 * headers. Without a signature over the query they count for nothing. */
static void test_presigned(void **state) {
    static const struct s3_query_param params[] = {
        {SLICE_LITERAL("X-Amz-Signature"), SLICE_LITERAL("abc"), true},
        {SLICE_LITERAL("x-amz-meta-a"), SLICE_LITERAL("1"), true},
        {SLICE_LITERAL("x-amz-tagging"), SLICE_LITERAL("k=v"), true},
    };
    struct fixture *f = fixture_new("PUT");
    struct object_headers h;
    f->r.query = (struct s3_query){params, ARRAY_COUNT(params)};
    assert_int_equal(s3_metadata_read(&f->r, &h), 0);
    assert_int_equal(h.metadata_count, 0);
    assert_int_equal(s3_metadata_check(&f->r), 0);
    f->r.auth.presigned = true;
    assert_int_equal(s3_metadata_read(&f->r, &h), 0);
    assert_int_equal(h.metadata_count, 1);
    assert_true(slice_equal_str(h.metadata[0].value, "1"));
    assert_int_equal(s3_metadata_check(&f->r), -HL_ERR_UNSUPPORTED);
    assert_null(s3_header(&f->r, "x-amz-signature").data);
    fixture_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_limit),
        cmocka_unit_test(test_unbuilt),    cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_presigned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
