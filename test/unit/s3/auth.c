/* Signatures against AWS's published examples (Amazon S3 API Reference, "Examples: Signature
 * Calculations" and "Authenticating Requests: Using Query Parameters"), and the edges of what is
 * accepted: syntax, dates, unsigned headers, mechanisms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "head.h"
#include "s3/auth.h"

#define DAY_2013     INT64_C(1369353600000) /* 2013-05-24T00:00:00Z */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CREDENTIAL   "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"

struct run {
    struct test_head head;
    struct s3_auth_env env;
    struct pool *pool;
    struct s3_auth auth;
    const char *message;
    struct s3_auth_detail detail;
    int secret_err;
    const char *secret;
};

static int secret_of(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size) {
    struct run *r = ctx;
    if (r->secret_err != 0) {
        return r->secret_err;
    }
    if (!slice_equal_str(access_key, TEST_KEY)) {
        return -HL_ERR_NO_SUCH_ACCESS_KEY;
    }
    memcpy(ret, r->secret, strlen(r->secret));
    *ret_size = strlen(r->secret);
    return 0;
}

static int set_up(void **state) {
    struct run *r = calloc(1, sizeof(*r));
    r->pool = pool_new(0);
    r->secret = TEST_SECRET;
    r->env = (struct s3_auth_env){.now_ms = DAY_2013, .region = "us-east-1", .secret = secret_of};
    r->env.ctx = r;
    *state = r;
    return r->pool == NULL;
}

static int tear_down(void **state) {
    struct run *r = *state;
    pool_free(r->pool);
    free(r);
    return 0;
}

static int verify(struct run *r) {
    r->message = NULL;
    memset(&r->detail, 0, sizeof(r->detail));
    return s3_auth_verify(&r->head.head, &r->env, r->pool, &r->auth, &r->message, &r->detail);
}

static void get_object(struct run *r, const char *authorization) {
    test_head_init(&r->head, "GET", "/test.txt");
    test_head_header(&r->head, "Host", "examplebucket.s3.amazonaws.com");
    test_head_header(&r->head, "Range", "bytes=0-9");
    test_head_header(&r->head, "x-amz-content-sha256", EMPTY_SHA256);
    test_head_header(&r->head, "x-amz-date", "20130524T000000Z");
    if (authorization != NULL) {
        test_head_header(&r->head, "Authorization", authorization);
    }
}

#define GET_SIGNATURE     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
#define GET_SIGNED        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date"
#define GET_AUTHORIZATION "AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED ",Signature=" GET_SIGNATURE

static void published_get_object(void **state) {
    struct run *r = *state;
    get_object(r, GET_AUTHORIZATION);
    assert_int_equal(verify(r), 0);
    assert_false(r->auth.anonymous);
    assert_false(r->auth.presigned);
    assert_true(slice_equal_str(r->auth.access_key, TEST_KEY));
    assert_int_equal(r->auth.payload, S3_PAYLOAD_SIGNED);
    assert_int_equal(r->auth.payload_sha256[0], 0xe3);
    assert_true(slice_equal_str(r->auth.scope, "20130524/us-east-1/s3/aws4_request"));
    assert_true(slice_equal_str(r->auth.amz_date, "20130524T000000Z"));
    assert_memory_equal(r->auth.seed_signature, GET_SIGNATURE, 64);
}

static void published_put_object(void **state) {
    struct run *r = *state;
    test_head_init(&r->head, "PUT", "/test$file.text");
    test_head_header(&r->head, "Date", "Fri, 24 May 2013 00:00:00 GMT");
    test_head_header(&r->head, "Host", "examplebucket.s3.amazonaws.com");
    test_head_header(&r->head, "x-amz-content-sha256",
                     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    test_head_header(&r->head, "x-amz-date", "20130524T000000Z");
    test_head_header(&r->head, "x-amz-storage-class", "REDUCED_REDUNDANCY");
    test_head_header(&r->head, "Authorization",
                     "AWS4-HMAC-SHA256 " CREDENTIAL
                     ",SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"
                     "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    assert_int_equal(verify(r), 0);
}

static void published_queries(void **state) {
    static const struct {
        const char *target, *signature;
    } cases[] = {
        {"/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"/?max-keys=2&prefix=J",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
        {"/?prefix=J&max-keys=2",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        test_head_init(&r->head, "GET", cases[i].target);
        test_head_header(&r->head, "Host", "examplebucket.s3.amazonaws.com");
        test_head_header(&r->head, "x-amz-content-sha256", EMPTY_SHA256);
        test_head_header(&r->head, "x-amz-date", "20130524T000000Z");
        test_head_header(&r->head, "Authorization",
                         pool_printf(r->pool,
                                     "AWS4-HMAC-SHA256 " CREDENTIAL
                                     ", SignedHeaders=host;x-amz-content-sha256;x-amz-date , "
                                     "Signature=%s",
                                     cases[i].signature));
        assert_int_equal(verify(r), 0);
    }
}

#define PRESIGNED                                                                                  \
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524"  \
    "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"             \
    "&X-Amz-SignedHeaders=host"
#define PRESIGNED_SIGNATURE                                                                        \
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"

static void presigned(struct run *r, const char *target) {
    test_head_init(&r->head, "GET", target);
    test_head_header(&r->head, "Host", "examplebucket.s3.amazonaws.com");
}

static void published_presigned(void **state) {
    struct run *r = *state;
    presigned(r, PRESIGNED PRESIGNED_SIGNATURE);
    assert_int_equal(verify(r), 0);
    assert_true(r->auth.presigned);
    assert_int_equal(r->auth.payload, S3_PAYLOAD_UNSIGNED);
    r->env.now_ms = DAY_2013 + INT64_C(86400000);
    assert_int_equal(verify(r), 0);
    r->env.now_ms += 1000;
    assert_int_equal(verify(r), -HL_ERR_EXPIRED);
    r->env.now_ms = DAY_2013 - 16 * 60000;
    assert_int_equal(verify(r), -HL_ERR_ACCESS_DENIED);
}

/* Each case changes one thing of the published GET. */
static const struct {
    const char *authorization;
    int err;
} authorization_cases[] = {
    {"AWS4-HMAC-SHA256 " CREDENTIAL ", " GET_SIGNED ", Signature=" GET_SIGNATURE, 0},
    {"AWS4-HMAC-SHA256   " CREDENTIAL " ,\t" GET_SIGNED "  ,Signature= " GET_SIGNATURE, 0},
    {"AWS4-HMAC-SHA256 Signature=" GET_SIGNATURE "," GET_SIGNED "," CREDENTIAL, 0},
    {"AWS4-HMAC-SHA256" CREDENTIAL "," GET_SIGNED ",Signature=" GET_SIGNATURE, HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED, HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED ",Signature=", HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED ",Signature=" GET_SIGNATURE ",",
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," CREDENTIAL "," GET_SIGNED ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED ",Signature=" GET_SIGNATURE ",More=1",
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL
     ",SignedHeaders=host;;x-amz-content-sha256;x-amz-date,Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL
     ",SignedHeaders=host;x-amz-content-sha256;x-amz-date;,Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL ",SignedHeaders=,Signature=" GET_SIGNATURE, HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/s3/aws4_request," GET_SIGNED
     ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 Credential=/20130524/us-east-1/s3/aws4_request," GET_SIGNED
     ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/iam/"
     "aws4_request," GET_SIGNED ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
     "aws4_requesT," GET_SIGNED ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130525/us-east-1/s3/"
     "aws4_request," GET_SIGNED ",Signature=" GET_SIGNATURE,
     HL_ERR_AUTH_HEADER},
    {"AWS4-HMAC-SHA256 " CREDENTIAL ",SignedHeaders=range;x-amz-content-sha256;x-amz-date,"
     "Signature=" GET_SIGNATURE,
     HL_ERR_UNSIGNED_HEADERS},
    {"AWS4-HMAC-SHA256 " CREDENTIAL ",SignedHeaders=host;range;x-amz-date,"
     "Signature=" GET_SIGNATURE,
     HL_ERR_UNSIGNED_HEADERS},
    {"AWS4-HMAC-SHA256 " CREDENTIAL ",SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
     "Signature=" GET_SIGNATURE,
     HL_ERR_SIGNATURE},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED
     ",Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb40",
     HL_ERR_SIGNATURE},
    {"AWS4-HMAC-SHA256 " CREDENTIAL "," GET_SIGNED
     ",Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb4",
     HL_ERR_SIGNATURE},
    {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPL3/20130524/us-east-1/s3/"
     "aws4_request," GET_SIGNED ",Signature=" GET_SIGNATURE,
     HL_ERR_NO_SUCH_ACCESS_KEY},
    {"AWS4-ECDSA-P256-SHA256 " CREDENTIAL, HL_ERR_INVALID_REQUEST},
    {"AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", HL_ERR_INVALID_REQUEST},
    {"AWSAKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", HL_ERR_INVALID},
    {"Bearer abc", HL_ERR_INVALID},
};

static void authorization_syntax(void **state) {
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(authorization_cases); i++) {
        get_object(r, authorization_cases[i].authorization);
        int err = verify(r);
        if (err != -authorization_cases[i].err) {
            print_error("%s: %s, not %s\n", authorization_cases[i].authorization, error_name(err),
                        error_name(-authorization_cases[i].err));
        }
        assert_int_equal(err, -authorization_cases[i].err);
    }
}

static void mismatch_shows_its_work(void **state) {
    struct run *r = *state;
    r->secret = "another";
    get_object(r, GET_AUTHORIZATION);
    assert_int_equal(verify(r), -HL_ERR_SIGNATURE);
    assert_true(slice_equal_str(r->detail.canonical_request,
                                "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\n"
                                "range:bytes=0-9\nx-amz-content-sha256:" EMPTY_SHA256 "\n"
                                "x-amz-date:20130524T000000Z\n\n"
                                "host;range;x-amz-content-sha256;x-amz-date\n" EMPTY_SHA256));
    assert_true(
        slice_equal_str(r->detail.string_to_sign,
                        "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"
                        "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972"));
    assert_true(slice_equal_str(r->detail.signature_provided, GET_SIGNATURE));
    /* The cache of signing keys must not hold on to the old secret. */
    r->secret = TEST_SECRET;
    assert_int_equal(verify(r), 0);
    r->secret = "another";
    assert_int_equal(verify(r), -HL_ERR_SIGNATURE);
}

static void secrets_that_open_nothing(void **state) {
    struct run *r = *state;
    get_object(r, GET_AUTHORIZATION);
    r->secret = "";
    assert_int_equal(verify(r), -HL_ERR_NO_SUCH_ACCESS_KEY);
    r->secret = TEST_SECRET;
    r->secret_err = -HL_ERR_EXPIRED;
    assert_int_equal(verify(r), -HL_ERR_EXPIRED);
    assert_non_null(r->message);
    r->secret_err = -HL_ERR_IO;
    assert_int_equal(verify(r), -HL_ERR_IO);
}

static void clock_skew(void **state) {
    struct run *r = *state;
    get_object(r, GET_AUTHORIZATION);
    r->env.now_ms = DAY_2013 + 15 * 60000;
    assert_int_equal(verify(r), 0);
    r->env.now_ms = DAY_2013 + 15 * 60000 + 1;
    assert_int_equal(verify(r), -HL_ERR_SKEWED);
    assert_non_null(strstr(r->message, "2013-05-24T00:00:00.000Z"));
    assert_non_null(strstr(r->message, "2013-05-24T00:15:00.001Z"));
    r->env.now_ms = DAY_2013 - 15 * 60000 - 1;
    assert_int_equal(verify(r), -HL_ERR_SKEWED);
}

static void dates(void **state) {
    static const char *const bad[] = {"", "20130524", "yesterday", "Tue, 07 Jul 1950 21:53:04 GMT"};
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        get_object(r, GET_AUTHORIZATION);
        r->head.headers[3].value = slice_str(bad[i]);
        assert_int_equal(verify(r), -HL_ERR_ACCESS_DENIED);
    }
    get_object(r, GET_AUTHORIZATION);
    r->head.headers[3].name = slice_str("x-other");
    assert_int_equal(verify(r), -HL_ERR_ACCESS_DENIED);
    /* An RFC 1123 date is the same instant in the string to sign (but another header value). */
    get_object(r, GET_AUTHORIZATION);
    r->head.headers[3].value = slice_str("Fri, 24 May 2013 00:00:00 -0000");
    assert_int_equal(verify(r), -HL_ERR_SIGNATURE);
    assert_true(slice_starts_with(r->detail.string_to_sign,
                                  slice_str("AWS4-HMAC-SHA256\n20130524T000000Z\n")));
}

static void unsigned_headers(void **state) {
    struct run *r = *state;
    get_object(r, GET_AUTHORIZATION);
    test_head_header(&r->head, "X-Amz-Acl", "public-read");
    assert_int_equal(verify(r), -HL_ERR_UNSIGNED_HEADERS);
    assert_non_null(strstr(r->message, "X-Amz-Acl"));
    get_object(r, GET_AUTHORIZATION);
    test_head_header(&r->head, "Content-Type", "text/plain");
    test_head_header(&r->head, "X-Amzn-Trace-Id", "1");
    assert_int_equal(verify(r), 0);
    /* The holder of a URL may add integrity, not meaning. */
    presigned(r, PRESIGNED PRESIGNED_SIGNATURE);
    test_head_header(&r->head, "x-amz-checksum-crc32", "AAAAAA==");
    assert_int_equal(verify(r), 0);
    presigned(r, PRESIGNED PRESIGNED_SIGNATURE);
    test_head_header(&r->head, "x-amz-copy-source", "/b/k");
    assert_int_equal(verify(r), -HL_ERR_UNSIGNED_HEADERS);
    presigned(r, PRESIGNED "&X-Amz-Content-Sha256=" EMPTY_SHA256 PRESIGNED_SIGNATURE);
    test_head_header(&r->head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    assert_int_equal(verify(r), -HL_ERR_UNSIGNED_HEADERS);
}

static void query_syntax(void **state) {
    static const struct {
        const char *target;
        int err;
    } cases[] = {
        {PRESIGNED, HL_ERR_AUTH_QUERY},
        {PRESIGNED PRESIGNED_SIGNATURE PRESIGNED_SIGNATURE, HL_ERR_AUTH_QUERY},
        {PRESIGNED "&X-Amz-Signature=", HL_ERR_AUTH_QUERY},
        {PRESIGNED "&X-Amz-Signature=aeee", HL_ERR_SIGNATURE},
        {PRESIGNED PRESIGNED_SIGNATURE "&acl", HL_ERR_SIGNATURE},
        {PRESIGNED PRESIGNED_SIGNATURE "&x=%zz", HL_ERR_URI},
        {"/test%zz.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256", HL_ERR_AUTH_QUERY},
        {PRESIGNED PRESIGNED_SIGNATURE "&Signature=a", HL_ERR_INVALID},
        {"/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1", HL_ERR_ACCESS_DENIED},
        {"/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=x&Signature=a", HL_ERR_ACCESS_DENIED},
        {"/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1&Signature=a", HL_ERR_EXPIRED},
        {"/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=2000000000&Signature=a", HL_ERR_SIGNATURE},
        {"/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPL3&Expires=2000000000&Signature=a",
         HL_ERR_NO_SUCH_ACCESS_KEY},
    };
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        presigned(r, cases[i].target);
        int err = verify(r);
        if (err != -cases[i].err) {
            print_error("%s: %s, not %s\n", cases[i].target, error_name(err),
                        error_name(-cases[i].err));
        }
        assert_int_equal(err, -cases[i].err);
    }
}

static void expires_range(void **state) {
    static const struct {
        const char *seconds;
        int err;
    } cases[] = {{"0", HL_ERR_ACCESS_DENIED},      {"-1", HL_ERR_ACCESS_DENIED},
                 {"604801", HL_ERR_ACCESS_DENIED}, {"604800", HL_ERR_SIGNATURE},
                 {"1", HL_ERR_SIGNATURE},          {"", HL_ERR_AUTH_QUERY},
                 {"1e3", HL_ERR_AUTH_QUERY}};
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        presigned(r, pool_printf(r->pool,
                                 "/test.txt?X-Amz-Signature=00&X-Amz-Expires=%s&X-Amz-SignedHeaders"
                                 "=host&X-Amz-Date=20130524T000000Z&X-Amz-Credential="
                                 "AKIAIOSFODNN7EXAMPLE/20130524/x/s3/aws4_request&X-Amz-Algorithm="
                                 "AWS4-HMAC-SHA256",
                                 cases[i].seconds));
        assert_int_equal(verify(r), -cases[i].err);
    }
}

static void one_mechanism(void **state) {
    struct run *r = *state;
    presigned(r, PRESIGNED PRESIGNED_SIGNATURE);
    test_head_header(&r->head, "Authorization", GET_AUTHORIZATION);
    assert_int_equal(verify(r), -HL_ERR_INVALID);
    get_object(r, GET_AUTHORIZATION);
    test_head_header(&r->head, "Authorization", GET_AUTHORIZATION);
    assert_int_equal(verify(r), -HL_ERR_AUTH_HEADER);
}

static void regions(void **state) {
    struct run *r = *state;
    r->env.region = "garage";
    get_object(r, GET_AUTHORIZATION);
    assert_int_equal(verify(r), 0);
    r->env.region_strict = true;
    assert_int_equal(verify(r), -HL_ERR_AUTH_HEADER);
    assert_non_null(strstr(r->message, "expecting 'garage'"));
    presigned(r, PRESIGNED PRESIGNED_SIGNATURE);
    assert_int_equal(verify(r), -HL_ERR_AUTH_QUERY);
}

static void payload_hashes(void **state) {
    static const struct {
        const char *value;
        int err;
        enum s3_payload_mode mode;
    } cases[] = {
        {"UNSIGNED-PAYLOAD", 0, S3_PAYLOAD_UNSIGNED},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", 0, S3_PAYLOAD_STREAM_UNSIGNED_TRAILER},
        {EMPTY_SHA256, 0, S3_PAYLOAD_SIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", HL_ERR_INVALID_REQUEST, 0},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", HL_ERR_INVALID_REQUEST, 0},
        {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", HL_ERR_INVALID, 0},
        {"unsigned-payload", HL_ERR_INVALID, 0},
        {"e3b0", HL_ERR_INVALID, 0},
        {"", HL_ERR_INVALID, 0},
    };
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        test_head_init(&r->head, "PUT", "/b/k");
        test_head_header(&r->head, "Host", "h");
        test_head_header(&r->head, "x-amz-content-sha256", cases[i].value);
        assert_int_equal(verify(r), -cases[i].err);
        if (cases[i].err == 0) {
            assert_true(r->auth.anonymous);
            assert_int_equal(r->auth.payload, cases[i].mode);
        }
    }
    get_object(r, GET_AUTHORIZATION);
    r->head.headers[2].name = slice_str("x-other");
    assert_int_equal(verify(r), -HL_ERR_INVALID_REQUEST);
    assert_non_null(strstr(r->message, "x-amz-content-sha256"));
}

static void no_credentials(void **state) {
    struct run *r = *state;
    get_object(r, NULL);
    assert_int_equal(verify(r), 0);
    assert_true(r->auth.anonymous);
    assert_int_equal(r->auth.access_key.size, 0);
    get_object(r, "");
    assert_int_equal(verify(r), 0);
    assert_true(r->auth.anonymous);
}

/* Signs as a client would, by the formula of the documentation: for heads that no published example
 * has. */
static const char *sign(struct run *r, const char *canonical) {
    uint8_t digest[32], key[32], mac[32];
    char hex[65];
    hash_sum(HASH_SHA256, slice_str(canonical), digest);
    hex_encode(digest, 32, hex);
    char *text = pool_printf(
        r->pool, "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n%s", hex);
    hmac_sha256(slice_str("AWS4" TEST_SECRET), slice_str("20130524"), key);
    hmac_sha256(slice_of(key, 32), slice_str("us-east-1"), mac);
    hmac_sha256(slice_of(mac, 32), slice_str("s3"), key);
    hmac_sha256(slice_of(key, 32), slice_str("aws4_request"), mac);
    hmac_sha256(slice_of(mac, 32), slice_str(text), digest);
    hex_encode(digest, 32, hex);
    return pool_printf(r->pool, "%s", hex);
}

/* The Go SDK signs accept-encoding, and proxies rewrite it (B30 of the client reference). */
static void rewritten_accept_encoding(void **state) {
    struct run *r = *state;
    const char *signature =
        sign(r, "GET\n/b/a%2Fb\n\naccept-encoding:identity\nhost:h\nx-amz-content-sha256:"
                "UNSIGNED-PAYLOAD\nx-amz-date:20130524T000000Z\n\n"
                "accept-encoding;host;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD");
    static const char *const sent[] = {"identity", "gzip", "", NULL};
    for (size_t i = 0; i < ARRAY_COUNT(sent); i++) {
        test_head_init(&r->head, "GET", "/b/a%2fb");
        test_head_header(&r->head, "Host", "H:443");
        test_head_header(&r->head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        test_head_header(&r->head, "x-amz-date", "20130524T000000Z");
        if (sent[i] != NULL) {
            test_head_header(&r->head, "Accept-Encoding", sent[i]);
        }
        test_head_header(&r->head, "Authorization",
                         pool_printf(r->pool,
                                     "AWS4-HMAC-SHA256 " CREDENTIAL
                                     ",SignedHeaders=accept-encoding;host;"
                                     "x-amz-content-sha256;x-amz-date,Signature=%s",
                                     signature));
        assert_int_equal(verify(r), 0);
        r->head.headers[0].value = slice_str("i");
        assert_int_equal(verify(r), -HL_ERR_SIGNATURE);
    }
}

/* An escaped slash may have been signed either way; other paths never match. */
static void escaped_slash(void **state) {
    struct run *r = *state;
    const char *signature =
        sign(r, "GET\n/b/a/b\n\nhost:h\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n"
                "x-amz-date:20130524T000000Z\n\nhost;x-amz-content-sha256;x-amz-date\n"
                "UNSIGNED-PAYLOAD");
    static const struct {
        const char *target;
        int err;
    } cases[] = {{"/b/a/b", 0},
                 {"/b/a%2Fb", 0},
                 {"/b/%61/b", 0},
                 {"/b/a//b", HL_ERR_SIGNATURE},
                 {"/b/./a/b", HL_ERR_SIGNATURE},
                 {"/b/a%252Fb", HL_ERR_SIGNATURE},
                 {"/b/a/b/", HL_ERR_SIGNATURE},
                 {"/b/a/b?x", HL_ERR_SIGNATURE},
                 {"/b/a/%zz", HL_ERR_URI}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        test_head_init(&r->head, "GET", cases[i].target);
        test_head_header(&r->head, "Host", "h");
        test_head_header(&r->head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        test_head_header(&r->head, "x-amz-date", "20130524T000000Z");
        test_head_header(&r->head, "Authorization",
                         pool_printf(r->pool,
                                     "AWS4-HMAC-SHA256 " CREDENTIAL ",SignedHeaders=host;"
                                     "x-amz-content-sha256;x-amz-date,Signature=%s",
                                     signature));
        assert_int_equal(verify(r), -cases[i].err);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(published_get_object),
        TEST(published_put_object),
        TEST(published_queries),
        TEST(published_presigned),
        TEST(authorization_syntax),
        TEST(mismatch_shows_its_work),
        TEST(secrets_that_open_nothing),
        TEST(clock_skew),
        TEST(dates),
        TEST(unsigned_headers),
        TEST(query_syntax),
        TEST(expires_range),
        TEST(one_mechanism),
        TEST(regions),
        TEST(payload_hashes),
        TEST(no_credentials),
        TEST(rewritten_accept_encoding),
        TEST(escaped_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
