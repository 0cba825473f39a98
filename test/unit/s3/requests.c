/* Real clients as the independent truth: each case of vectors/requests.txt (written by
 * generate_vectors.py with botocore and curl) gets the verdict written there, and its body, where
 * it has one, decodes to the bytes that the client was given, for several splits of the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "head.h"
#include "s3/auth.h"
#include "s3/payload.h"
#include "s3/uri.h"

struct vector {
    struct test_head head;
    char method[16];
    struct slice name, expect, target;
    int64_t now_ms;
    struct slice body, decoded; /* hexadecimal */
};

static int secret_of(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size) {
    if (!slice_equal_str(access_key, TEST_KEY)) {
        return -HL_ERR_NO_SUCH_ACCESS_KEY;
    }
    memcpy(ret, TEST_SECRET, sizeof(TEST_SECRET) - 1);
    *ret_size = sizeof(TEST_SECRET) - 1;
    return 0;
}

static struct slice unhex(struct pool *pool, struct slice hex) {
    uint8_t *bytes = pool_alloc(pool, hex.size / 2 + 1);
    assert_non_null(bytes);
    assert_true(hex_decode(hex, bytes, hex.size / 2));
    return slice_of(bytes, hex.size / 2);
}

static int append_sink(void *arg, const uint8_t *data, size_t size) {
    buf_append(arg, data, size);
    return 0;
}

static void check_body(const struct vector *v, const struct s3_auth *auth, struct pool *pool,
                       size_t piece) {
    struct slice wire = unhex(pool, v->body), want = unhex(pool, v->decoded);
    struct s3_payload *payload = NULL;
    const char *message = NULL;
    struct buf got CLEANUP_BUF = {0};
    assert_int_equal(s3_payload_open(&v->head.head, auth, true, pool, &payload, &message), 0);
    for (size_t pos = 0; pos < wire.size; pos += piece) {
        size_t size = MIN(piece, wire.size - pos);
        assert_int_equal(s3_payload_feed(payload, wire.data + pos, size, append_sink, &got), 0);
    }
    assert_int_equal(s3_payload_finish(payload, NULL, NULL, &message), 0);
    assert_int_equal(got.size, want.size);
    assert_true(want.size == 0 || memcmp(got.data, want.data, want.size) == 0);
    assert_int_not_equal(s3_payload_expect(payload)->checksum.size, 0);
    s3_payload_done(payload);
}

static void check_vector(const struct vector *v) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    struct s3_auth_env env = {.now_ms = v->now_ms,
                              .region = "us-east-1",
                              .root_domain = ".s3.local",
                              .secret = secret_of};
    struct s3_auth auth;
    const char *message = NULL;
    struct s3_auth_detail detail = {.string_to_sign = SLICE_EMPTY};
    int err = s3_auth_verify(&v->head.head, &env, pool, &auth, &message, &detail);
    const char *got = err == 0 ? "OK" : error_name(err);
    if (!slice_equal_str(v->expect, got)) {
        print_error("%.*s: %s, not %.*s (%s)\n%.*s\n", SLICE_PRINT(v->name), got,
                    SLICE_PRINT(v->expect), message == NULL ? "" : message,
                    SLICE_PRINT(detail.canonical_request));
        fail();
    }
    if (err == 0) {
        struct s3_uri uri;
        assert_int_equal(s3_uri_parse(&v->head.head, ".s3.local", pool, &uri), 0);
        assert_false(auth.anonymous);
        assert_true(slice_equal_str(auth.access_key, TEST_KEY));
        if (v->body.data != NULL) {
            check_body(v, &auth, pool, 1);
            check_body(v, &auth, pool, 7);
            check_body(v, &auth, pool, 1 << 20);
        }
    }
}

/* Takes "word rest" of the next line. False at the end. */
static bool next_line(struct slice *text, struct slice *word, struct slice *rest) {
    if (text->size == 0) {
        return false;
    }
    size_t end = slice_find(*text, '\n', 0);
    struct slice line = slice_take(*text, end);
    *text = slice_skip(*text, MIN(end + 1, text->size));
    size_t space = slice_find(line, ' ', 0);
    *word = slice_take(line, space);
    *rest = slice_skip(line, MIN(space + 1, line.size));
    return true;
}

static void take_header(struct vector *v, struct slice rest) {
    size_t colon = slice_find(rest, ':', 0);
    test_head_add(&v->head, slice_take(rest, colon), slice_skip(rest, colon + 1));
}

static void take_line(struct vector *v, struct slice word, struct slice rest) {
    if (slice_equal_str(word, "case")) {
        memset(v, 0, sizeof(*v));
        v->name = rest;
    } else if (slice_equal_str(word, "now")) {
        uint64_t now = 0;
        assert_true(parse_u64(rest, INT64_MAX, &now));
        v->now_ms = (int64_t)now;
    } else if (slice_equal_str(word, "method")) {
        snprintf(v->method, sizeof(v->method), "%.*s", SLICE_PRINT(rest));
    } else if (slice_equal_str(word, "target")) {
        test_head_init(&v->head, v->method, "");
        v->head.head.target = rest;
        size_t question = slice_find(rest, '?', 0);
        v->head.head.path = slice_take(rest, question);
        if (question < rest.size) {
            v->head.head.query = slice_skip(rest, question + 1);
        }
    } else if (slice_equal_str(word, "header")) {
        take_header(v, rest);
    } else if (slice_equal_str(word, "expect")) {
        v->expect = rest;
    } else if (slice_equal_str(word, "body")) {
        v->body = rest;
    } else if (slice_equal_str(word, "decoded")) {
        v->decoded = rest;
    } else {
        assert_true(slice_equal_str(word, "end"));
        check_vector(v);
    }
}

static void real_clients(void **state) {
    FILE *file = fopen(TEST_S3_VECTORS, "rb");
    assert_non_null(file);
    struct buf text CLEANUP_BUF = {0};
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        buf_append(&text, chunk, n);
    }
    fclose(file);
    struct slice rest = buf_slice(&text), word, value;
    struct vector *v = calloc(1, sizeof(*v));
    size_t cases = 0;
    while (next_line(&rest, &word, &value)) {
        take_line(v, word, value);
        cases += slice_equal_str(word, "end");
    }
    free(v);
    print_message("%zu requests of real clients\n", cases);
    assert_true(cases > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_clients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
