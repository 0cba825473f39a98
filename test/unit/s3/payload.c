/* Bodies: AWS's published examples of signed chunks and trailers (Amazon S3 API Reference), the
 * same verdict for every split of the wire, every flipped byte refused, and the rules about
 * lengths, trailers and checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "head.h"
#include "s3/auth.h"
#include "s3/payload.h"

#define DAY_2013       INT64_C(1369353600000)
#define TRAILER_CRC32C "x-amz-checksum-crc32c"
#define EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct run {
    struct test_head head;
    struct s3_auth auth;
    struct pool *pool;
    struct buf wire;
    struct buf got;
    const char *message;
    struct checksum checksum; /* as it stood after finish */
};

static int set_up(void **state) {
    struct run *r = calloc(1, sizeof(*r));
    r->pool = pool_new(0);
    pool_set_limit(r->pool, 1u << 30);
    test_head_init(&r->head, "PUT", "/b/k");
    r->head.head.chunked = true;
    *state = r;
    return r->pool == NULL;
}

static int tear_down(void **state) {
    struct run *r = *state;
    buf_done(&r->wire);
    buf_done(&r->got);
    pool_free(r->pool);
    free(r);
    return 0;
}

static int append_sink(void *arg, const uint8_t *data, size_t size) {
    buf_append(arg, data, size);
    return 0;
}

/* Decodes the wire in pieces of that size; the first piece may have another. */
static int decode(struct run *r, size_t first, size_t piece) {
    struct s3_payload *payload = NULL;
    r->message = NULL;
    buf_clear(&r->got);
    int err = s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message);
    if (err != 0) {
        return err;
    }
    size_t pos = 0, size = first;
    while (err == 0 && pos < r->wire.size) {
        size = MIN(size, r->wire.size - pos);
        err = s3_payload_feed(payload, r->wire.data + pos, size, append_sink, &r->got);
        pos += size;
        size = piece;
    }
    int end = s3_payload_finish(payload, NULL, NULL, &r->message);
    assert_true(err == 0 || end == err); /* the first error is final */
    r->checksum = s3_payload_expect(payload)->checksum;
    s3_payload_done(payload);
    return end;
}

static int decode_whole(struct run *r) {
    return decode(r, SIZE_MAX, SIZE_MAX);
}

static void set_wire(struct run *r, const char *text) {
    buf_clear(&r->wire);
    buf_append_str(&r->wire, text);
}

static void append_fill(struct buf *buf, char c, size_t size) {
    for (size_t i = 0; i < size; i++) {
        buf_append_u8(buf, (uint8_t)c);
    }
}

/* ---- published examples ---- */

static int secret_of(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size) {
    memcpy(ret, TEST_SECRET, sizeof(TEST_SECRET) - 1);
    *ret_size = sizeof(TEST_SECRET) - 1;
    return 0;
}

/* The head of the example is verified too, so the seed and the key come from s3_auth_verify. */
static void published_head(struct run *r, bool trailer) {
    struct test_head *t = &r->head;
    test_head_init(t, "PUT", "/examplebucket/chunkObject.txt");
    test_head_header(t, "Host", "s3.amazonaws.com");
    test_head_header(t, "x-amz-date", "20130524T000000Z");
    test_head_header(t, "x-amz-storage-class", "REDUCED_REDUNDANCY");
    test_head_header(t, "Content-Encoding", "aws-chunked");
    test_head_header(t, "x-amz-decoded-content-length", "66560");
    if (trailer) {
        test_head_header(t, "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER");
        test_head_header(t, "x-amz-trailer", TRAILER_CRC32C);
        test_head_header(
            t, "Authorization",
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;"
            "x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer,"
            "Signature=106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
    } else {
        test_head_header(t, "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
        test_head_header(t, "Content-Length", "66824");
        test_head_header(
            t, "Authorization",
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
            "x-amz-decoded-content-length;x-amz-storage-class,"
            "Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    }
    struct s3_auth_env env = {.now_ms = DAY_2013, .region = "us-east-1", .secret = secret_of};
    assert_int_equal(s3_auth_verify(&t->head, &env, r->pool, &r->auth, NULL, NULL), 0);
}

static void published_body(struct run *r, bool trailer) {
    static const char *const plain[] = {
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"};
    static const char *const trailed[] = {
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"};
    const char *const *signatures = trailer ? trailed : plain;
    buf_clear(&r->wire);
    buf_printf(&r->wire, "10000;chunk-signature=%s\r\n", signatures[0]);
    append_fill(&r->wire, 'a', 65536);
    buf_printf(&r->wire, "\r\n400;chunk-signature=%s\r\n", signatures[1]);
    append_fill(&r->wire, 'a', 1024);
    buf_printf(&r->wire, "\r\n0;chunk-signature=%s\r\n", signatures[2]);
    if (trailer) {
        buf_append_str(&r->wire, TRAILER_CRC32C
                       ":sOO8/Q==\r\nx-amz-trailer-signature:"
                       "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n");
    }
    buf_append_str(&r->wire, "\r\n");
}

static bool got_fill(const struct run *r, size_t size) {
    for (size_t i = 0; i < r->got.size; i++) {
        if (r->got.data[i] != 'a') {
            return false;
        }
    }
    return r->got.size == size;
}

static void published_chunks(void **state) {
    struct run *r = *state;
    published_head(r, false);
    published_body(r, false);
    assert_int_equal(r->wire.size, 66824); /* the Content-Length of the example */
    assert_int_equal(decode_whole(r), 0);
    assert_true(got_fill(r, 66560));
}

static void published_trailer(void **state) {
    static const uint8_t crc32c[] = {0xb0, 0xe3, 0xbc, 0xfd};
    struct run *r = *state;
    published_head(r, true);
    published_body(r, true);
    assert_int_equal(decode_whole(r), 0);
    assert_true(got_fill(r, 66560));
    assert_int_equal(r->checksum.algorithm, CHECKSUM_CRC32C);
    assert_memory_equal(r->checksum.value, crc32c, sizeof(crc32c));
}

/* ---- signed bodies of our own, small enough to try everything ---- */

struct signer {
    uint8_t key[32];
    char previous[65];
};

static void sign_next(struct signer *s, struct run *r, const char *kind, const char *hashes) {
    uint8_t mac[32];
    char *text = pool_printf(r->pool, "%s\n%.*s\n%.*s\n%s\n%s", kind, SLICE_PRINT(r->auth.amz_date),
                             SLICE_PRINT(r->auth.scope), s->previous, hashes);
    hmac_sha256(slice_of(s->key, 32), slice_str(text), mac);
    hex_encode(mac, 32, s->previous);
}

static void append_signed_chunk(struct signer *s, struct run *r, struct slice data) {
    uint8_t digest[32];
    char hex[65];
    hash_sum(HASH_SHA256, data, digest);
    hex_encode(digest, 32, hex);
    sign_next(s, r, "AWS4-HMAC-SHA256-PAYLOAD", pool_printf(r->pool, "%s\n%s", EMPTY_SHA256, hex));
    buf_printf(&r->wire, "%zx;chunk-signature=%s\r\n", data.size, s->previous);
    buf_append_slice(&r->wire, data);
    if (data.size > 0) {
        buf_append_str(&r->wire, "\r\n");
    }
}

static struct signer signed_auth(struct run *r, enum s3_payload_mode mode) {
    struct signer s;
    r->auth = (struct s3_auth){.payload = mode,
                               .scope = slice_str("20130524/us-east-1/s3/aws4_request"),
                               .amz_date = slice_str("20130524T000000Z")};
    memset(r->auth.signing_key, 7, 32);
    memset(r->auth.seed_signature, 'a', 64);
    memset(s.key, 7, 32);
    memset(s.previous, 'a', 64);
    s.previous[64] = '\0';
    return s;
}

/* One chunk of "Hello, world" and the CRC32C trailer "value", as line_end has it. */
static void small_signed_body(struct run *r, const char *name, const char *line_end,
                              const char *last_end) {
    struct signer s = signed_auth(r, S3_PAYLOAD_STREAM_SIGNED_TRAILER);
    buf_clear(&r->wire);
    append_signed_chunk(&s, r, slice_str("Hello, world"));
    append_signed_chunk(&s, r, slice_str(""));
    uint8_t digest[32];
    char hex[65];
    hash_sum(HASH_SHA256, slice_str(TRAILER_CRC32C ":sOO8/Q==\n"), digest);
    hex_encode(digest, 32, hex);
    sign_next(&s, r, "AWS4-HMAC-SHA256-TRAILER", hex);
    buf_printf(&r->wire, "%s:sOO8/Q==%sx-amz-trailer-signature:%s%s", name, line_end, s.previous,
               last_end);
}

static void every_split(void **state) {
    struct run *r = *state;
    test_head_header(&r->head, "x-amz-trailer", TRAILER_CRC32C);
    test_head_header(&r->head, "x-amz-decoded-content-length", "12");
    small_signed_body(r, TRAILER_CRC32C, "\r\n", "\r\n\r\n");
    for (size_t first = 1; first <= r->wire.size; first++) {
        assert_int_equal(decode(r, first, SIZE_MAX), 0);
        assert_true(slice_equal_str(buf_slice(&r->got), "Hello, world"));
        assert_int_equal(decode(r, first, 1 + first % 13), 0);
        assert_true(slice_equal_str(buf_slice(&r->got), "Hello, world"));
        assert_int_equal(r->checksum.size, 4);
    }
}

/* Every cut is refused, but for the line end of the last trailer, which clients leave out. */
static void every_truncation(void **state) {
    struct run *r = *state;
    test_head_header(&r->head, "x-amz-trailer", TRAILER_CRC32C);
    small_signed_body(r, TRAILER_CRC32C, "\r\n", "\r\n\r\n");
    size_t whole = r->wire.size;
    for (size_t size = 0; size < whole; size++) {
        r->wire.size = size;
        int err = decode_whole(r);
        assert_true(size >= whole - 4 ? err == 0 : err != 0);
    }
    r->wire.size = whole;
    /* In the form without trailers not even the last line end is optional. */
    struct signer s = signed_auth(r, S3_PAYLOAD_STREAM_SIGNED);
    r->head.head.header_count = 0;
    buf_clear(&r->wire);
    append_signed_chunk(&s, r, slice_str("Hello, world"));
    append_signed_chunk(&s, r, slice_str(""));
    buf_append_str(&r->wire, "\r\n");
    assert_int_equal(decode_whole(r), 0);
    for (r->wire.size--; r->wire.size > 0; r->wire.size--) {
        assert_int_equal(decode_whole(r), -HL_ERR_INCOMPLETE_BODY);
    }
}

/* Flips of case in the hexadecimal size and in trailer names mean the same body; so does a CR that
 * became a tab, which is trimmed like any blank. Nothing else gets through. */
static void every_flip(void **state) {
    struct run *r = *state;
    test_head_header(&r->head, "x-amz-trailer", TRAILER_CRC32C);
    test_head_header(&r->head, "x-amz-decoded-content-length", "12");
    small_signed_body(r, TRAILER_CRC32C, "\r\n", "\r\n\r\n");
    size_t accepted = 0;
    for (size_t i = 0; i < r->wire.size; i++) {
        uint8_t was = r->wire.data[i];
        for (int bit = 0; bit < 8; bit++) {
            r->wire.data[i] = was ^ (uint8_t)(1 << bit);
            if (decode_whole(r) == 0) {
                bool letter = (was | 0x20) >= 'a' && (was | 0x20) <= 'z';
                bool blank = was == '\r' && r->wire.data[i] == '\t';
                assert_true((letter && bit == 5) || blank);
                assert_true(slice_equal_str(buf_slice(&r->got), "Hello, world"));
                accepted++;
            }
        }
        r->wire.data[i] = was;
    }
    /* "c" of the size, the letters of both trailer names, the CR of both trailer lines. */
    assert_int_equal(accepted, 1 + 16 + 20 + 2);
    assert_int_equal(decode_whole(r), 0);
}

/* Chunks may not be dropped, repeated, swapped or taken from another upload. */
static void chunk_order(void **state) {
    struct run *r = *state;
    char *big[2] = {pool_alloc(r->pool, 8192), pool_alloc(r->pool, 8192)};
    memset(big[0], 'x', 8192);
    memset(big[1], 'y', 8192);
    struct signer s = signed_auth(r, S3_PAYLOAD_STREAM_SIGNED);
    append_signed_chunk(&s, r, slice_of(big[0], 8192));
    size_t one = r->wire.size;
    append_signed_chunk(&s, r, slice_of(big[1], 8192));
    size_t two = r->wire.size - one;
    append_signed_chunk(&s, r, slice_str(""));
    buf_append_str(&r->wire, "\r\n");
    assert_int_equal(decode_whole(r), 0);
    assert_int_equal(r->got.size, 16384);

    struct slice all = pool_copy(r->pool, buf_slice(&r->wire));
    struct slice first = slice_take(all, one), second = slice_of(all.data + one, two);
    struct slice last = slice_skip(all, one + two);
    const struct slice orders[][4] = {
        {second, first, last, SLICE_EMPTY},
        {first, last, SLICE_EMPTY, SLICE_EMPTY},
        {first, first, second, last},
        {second, last, SLICE_EMPTY, SLICE_EMPTY},
        {last, SLICE_EMPTY, SLICE_EMPTY, SLICE_EMPTY},
    };
    for (size_t i = 0; i < ARRAY_COUNT(orders); i++) {
        buf_clear(&r->wire);
        for (size_t k = 0; k < 4; k++) {
            buf_append_slice(&r->wire, orders[i][k]);
        }
        assert_int_equal(decode_whole(r), -HL_ERR_SIGNATURE);
    }
    buf_clear(&r->wire);
    buf_append_slice(&r->wire, all);
    r->auth.seed_signature[0] = 'b';
    assert_int_equal(decode_whole(r), -HL_ERR_SIGNATURE);
}

static void trailer_line_ends(void **state) {
    static const struct {
        const char *name, *line_end, *last_end;
        int err;
    } cases[] = {
        {TRAILER_CRC32C, "\r\n", "\r\n\r\n", 0},
        {TRAILER_CRC32C, "\r\n", "\r\n", 0},
        {TRAILER_CRC32C, "\n", "\n", 0},
        {TRAILER_CRC32C, "\n\r\n", "\r\n\r\n", 0},
        {TRAILER_CRC32C, "\r\n", "", 0},
        {"X-Amz-Checksum-Crc32C", "\r\n", "\r\n\r\n", 0},
        {TRAILER_CRC32C " ", "\r\n", "\r\n\r\n", HL_ERR_TRAILER},
        {"x-amz-checksum-crc32", "\r\n", "\r\n\r\n", HL_ERR_TRAILER},
        {TRAILER_CRC32C, "", "\r\n\r\n", HL_ERR_TRAILER},
        {TRAILER_CRC32C, "x\r\n", "\r\n\r\n", HL_ERR_SIGNATURE},
        {TRAILER_CRC32C, "\r\n", "\r\nx-amz-checksum-sha1:AA\r\n", HL_ERR_TRAILER},
    };
    struct run *r = *state;
    test_head_header(&r->head, "x-amz-trailer", "X-Amz-Checksum-CRC32C");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        small_signed_body(r, cases[i].name, cases[i].line_end, cases[i].last_end);
        assert_int_equal(decode_whole(r), -cases[i].err);
    }
}

/* ---- unsigned bodies ---- */

static void unsigned_trailers(void **state) {
    static const struct {
        const char *trailer; /* the header, or NULL */
        const char *length;
        const char *wire;
        int err;
    } cases[] = {
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
         0},
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32: NhCmhg==\n", 0},
        {"x-amz-checksum-crc32", NULL, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==", 0},
        {"x-amz-checksum-crc32", "5",
         "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n\r\n", 0},
        {"x-amz-checksum-crc32", "0", "0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", 0},
        {NULL, "5", "5\r\nhello\r\n0\r\n\r\n", 0},
        {NULL, "5", "5\r\nhello\r\n0\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "5\r\nhello\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "5\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "5\r\nhello\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "5\r\nhello0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "4\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "6\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "5;chunk-signature=00\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "-5\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "0x5\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "\r\n5\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "00000000000000005\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, NULL, "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", HL_ERR_TOO_LARGE},
        {NULL, "6", "5\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "4", "5\r\nhello\r\n0\r\n\r\n", HL_ERR_INCOMPLETE_BODY},
        {NULL, "5", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", HL_ERR_CHUNK_SIZE},
        {NULL, "x", "5\r\nhello\r\n0\r\n\r\n", HL_ERR_MISSING_LENGTH},
        {NULL, "5368709121", "", HL_ERR_TOO_LARGE},
        {NULL, "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", HL_ERR_TRAILER},
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\n\r\n", HL_ERR_TRAILER},
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\nnonsense\r\n\r\n", HL_ERR_TRAILER},
        {"x-amz-checksum-crc32", "5",
         "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\nx-amz-checksum-crc32:NhCmhg==\r\n",
         HL_ERR_TRAILER},
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCm\r\n\r\n",
         HL_ERR_INVALID_REQUEST},
        {"x-amz-checksum-crc32", "5", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:\r\n\r\n",
         HL_ERR_INVALID_REQUEST},
        {"x-amz-checksum-md5", "5", "", HL_ERR_INVALID_REQUEST},
        {"x-amz-meta-a", "5", "", HL_ERR_INVALID_REQUEST},
        {"x-amz-checksum-crc32,x-amz-checksum-sha1", "5", "", HL_ERR_INVALID_REQUEST},
    };
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        r->auth = (struct s3_auth){.payload = S3_PAYLOAD_STREAM_UNSIGNED_TRAILER};
        r->head.head.header_count = 0;
        if (cases[i].trailer != NULL) {
            test_head_header(&r->head, "x-amz-trailer", cases[i].trailer);
        }
        if (cases[i].length != NULL) {
            test_head_header(&r->head, "x-amz-decoded-content-length", cases[i].length);
        }
        set_wire(r, cases[i].wire);
        for (size_t piece = 1; piece < 8; piece++) {
            int err = decode(r, piece, piece);
            if (err != -cases[i].err) {
                print_error("%zu %s: %s\n", i, cases[i].wire, error_name(err));
            }
            assert_int_equal(err, -cases[i].err);
        }
    }
}

/* 8192 is the least size of a chunk that is not the last. */
static void chunk_size_limit(void **state) {
    struct run *r = *state;
    for (int less = 0; less < 2; less++) {
        r->auth = (struct s3_auth){.payload = S3_PAYLOAD_STREAM_UNSIGNED_TRAILER};
        buf_clear(&r->wire);
        buf_printf(&r->wire, "%x\r\n", 8192 - less);
        append_fill(&r->wire, 'a', 8192 - (size_t)less);
        buf_append_str(&r->wire, "\r\n1\r\na\r\n0\r\n\r\n");
        assert_int_equal(decode_whole(r), less == 1 ? -HL_ERR_CHUNK_SIZE : 0);
    }
}

/* A line without an end does not grow without a bound. */
static void endless_lines(void **state) {
    struct run *r = *state;
    r->auth = (struct s3_auth){.payload = S3_PAYLOAD_STREAM_UNSIGNED_TRAILER};
    append_fill(&r->wire, '0', 100000);
    assert_int_equal(decode(r, 1, 999), -HL_ERR_INCOMPLETE_BODY);
    set_wire(r, "0\r\n");
    append_fill(&r->wire, 'a', 100000);
    assert_int_equal(decode(r, 1, 999), -HL_ERR_TRAILER);
    set_wire(r, "0\r\n");
    append_fill(&r->wire, '\n', 100000);
    assert_int_equal(decode(r, 1, 999), -HL_ERR_TRAILER);
}

/* ---- plain bodies ---- */

static void plain(struct run *r, enum s3_payload_mode mode, uint64_t length, const char *wire) {
    r->auth = (struct s3_auth){.payload = mode};
    r->head.head.header_count = 0;
    r->head.head.chunked = length == UINT64_MAX;
    r->head.head.has_length = length != UINT64_MAX;
    r->head.head.length = length;
    set_wire(r, wire);
}

static void payload_hash(void **state) {
    struct run *r = *state;
    plain(r, S3_PAYLOAD_SIGNED, 5, "hello");
    assert_true(
        hex_decode(slice_str("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
                   r->auth.payload_sha256, 32));
    assert_int_equal(decode(r, 1, 2), 0);
    r->wire.data[4] = 'O';
    assert_int_equal(decode(r, 1, 2), -HL_ERR_CONTENT_SHA256);
    assert_int_equal(r->got.size, 5);
}

static void lengths(void **state) {
    struct run *r = *state;
    plain(r, S3_PAYLOAD_UNSIGNED, 5, "hello");
    assert_int_equal(decode_whole(r), 0);
    plain(r, S3_PAYLOAD_UNSIGNED, 6, "hello");
    assert_int_equal(decode_whole(r), -HL_ERR_INCOMPLETE_BODY);
    plain(r, S3_PAYLOAD_UNSIGNED, 4, "hello");
    assert_int_equal(decode_whole(r), -HL_ERR_INCOMPLETE_BODY);
    plain(r, S3_PAYLOAD_UNSIGNED, UINT64_MAX, "hello");
    assert_int_equal(decode_whole(r), 0);
    r->head.head.chunked = false;
    assert_int_equal(decode_whole(r), -HL_ERR_MISSING_LENGTH);
    plain(r, S3_PAYLOAD_UNSIGNED, (UINT64_C(5) << 30) + 1, "");
    assert_int_equal(decode_whole(r), -HL_ERR_TOO_LARGE);
    plain(r, S3_PAYLOAD_STREAM_UNSIGNED_TRAILER, 100, "");
    assert_int_equal(decode_whole(r), -HL_ERR_MISSING_LENGTH);
    /* Without a STREAMING hash nothing is de-framed, whatever Content-Encoding says. */
    plain(r, S3_PAYLOAD_UNSIGNED, 20, "5\r\nhello\r\n0\r\n\r\n12345");
    test_head_header(&r->head, "Content-Encoding", "aws-chunked");
    assert_int_equal(decode_whole(r), 0);
    assert_int_equal(r->got.size, 20);
}

static void framing_only_for_uploads(void **state) {
    struct run *r = *state;
    struct s3_payload *payload = NULL;
    plain(r, S3_PAYLOAD_STREAM_UNSIGNED_TRAILER, UINT64_MAX, "");
    assert_int_equal(
        s3_payload_open(&r->head.head, &r->auth, false, r->pool, &payload, &r->message),
        -HL_ERR_INVALID_REQUEST);
    plain(r, S3_PAYLOAD_UNSIGNED, 0, "");
    r->head.head.has_length = false;
    assert_int_equal(
        s3_payload_open(&r->head.head, &r->auth, false, r->pool, &payload, &r->message), 0);
    assert_int_equal(s3_payload_finish(payload, NULL, NULL, NULL), 0);
    s3_payload_done(payload);
}

static void promised_digests(void **state) {
    static const struct {
        const char *name[2], *value[2];
        int err;
        uint8_t algorithm;
    } cases[] = {
        {{"Content-MD5"}, {"XUFAKrxLKna5cZ2REBfFkg=="}, 0, CHECKSUM_NONE},
        {{"Content-MD5"}, {""}, HL_ERR_INVALID_DIGEST, 0},
        {{"Content-MD5"}, {"XUFAKrxLKna5cZ2REBfF"}, HL_ERR_INVALID_DIGEST, 0},
        {{"Content-MD5"}, {"YWJyYWNhZGFicmE="}, HL_ERR_INVALID_DIGEST, 0},
        {{"X-Amz-Checksum-CRC32"}, {"NhCmhg=="}, 0, CHECKSUM_CRC32},
        {{"x-amz-checksum-crc64nvme"}, {"rosUhgp5mIg="}, 0, CHECKSUM_CRC64NVME},
        {{"x-amz-checksum-crc32"}, {"bad"}, HL_ERR_BAD_CHECKSUM, 0},
        {{"x-amz-checksum-sha256"}, {"NhCmhg=="}, HL_ERR_BAD_CHECKSUM, 0},
        {{"x-amz-checksum-sha512"}, {"NhCmhg=="}, HL_ERR_INVALID_REQUEST, 0},
        {{"x-amz-checksum-crc32", "x-amz-checksum-crc32c"},
         {"NhCmhg==", "NhCmhg=="},
         HL_ERR_INVALID_REQUEST,
         0},
        {{"x-amz-checksum-crc32", "Content-MD5"},
         {"NhCmhg==", "XUFAKrxLKna5cZ2REBfFkg=="},
         0,
         CHECKSUM_CRC32},
        {{"x-amz-checksum-crc32", "x-amz-trailer"},
         {"NhCmhg==", "x-amz-checksum-crc32"},
         HL_ERR_INVALID_REQUEST,
         0},
        {{"x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"},
         {"NhCmhg==", "crc32"},
         0,
         CHECKSUM_CRC32},
        {{"x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"},
         {"NhCmhg==", "SHA1"},
         HL_ERR_INVALID_REQUEST,
         0},
        {{"x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"},
         {"NhCmhg==", "XXHASH64"},
         HL_ERR_INVALID_REQUEST,
         0},
        {{"x-amz-sdk-checksum-algorithm"}, {"CRC32"}, HL_ERR_INVALID_REQUEST, 0},
        {{"x-amz-checksum-algorithm", "x-amz-checksum-type"},
         {"CRC32", "FULL_OBJECT"},
         0,
         CHECKSUM_NONE},
    };
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct s3_payload *payload = NULL;
        plain(r, S3_PAYLOAD_UNSIGNED, 5, "hello");
        for (int k = 0; k < 2 && cases[i].name[k] != NULL; k++) {
            test_head_header(&r->head, cases[i].name[k], cases[i].value[k]);
        }
        int err = s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message);
        if (err != -cases[i].err) {
            print_error("%zu: %s\n", i, error_name(err));
        }
        assert_int_equal(err, -cases[i].err);
        if (err == 0) {
            assert_int_equal(s3_payload_expect(payload)->checksum_algorithm, cases[i].algorithm);
            s3_payload_done(payload);
        }
    }
}

/* A presigned URL of the JavaScript SDK holds the checksum of nothing: the algorithm counts, the
 * value does not (B20 of the client reference). */
static void checksum_in_query(void **state) {
    struct run *r = *state;
    struct s3_payload *payload = NULL;
    test_head_init(&r->head, "PUT",
                   "/b/k?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32");
    plain(r, S3_PAYLOAD_UNSIGNED, 5, "hello");
    assert_int_equal(s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message),
                     0);
    assert_int_equal(s3_payload_expect(payload)->checksum_algorithm, CHECKSUM_CRC32);
    assert_int_equal(s3_payload_expect(payload)->checksum.size, 0);
    s3_payload_done(payload);
}

static struct slice crc_trailer(void *arg, const char *name) {
    return strcmp(name, "x-amz-checksum-crc32") == 0 ? slice_str(arg) : SLICE_EMPTY;
}

static void http_trailers(void **state) {
    static const struct {
        const char *value;
        int err;
    } cases[] = {{"NhCmhg==", 0}, {"x", HL_ERR_INVALID_REQUEST}, {NULL, HL_ERR_TRAILER}};
    struct run *r = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct s3_payload *payload = NULL;
        plain(r, S3_PAYLOAD_UNSIGNED, UINT64_MAX, "hello");
        test_head_header(&r->head, "x-amz-trailer", "x-amz-checksum-crc32");
        assert_int_equal(
            s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message), 0);
        assert_int_equal(s3_payload_feed(payload, r->wire.data, r->wire.size, append_sink, &r->got),
                         0);
        assert_int_equal(
            s3_payload_finish(payload, crc_trailer, (void *)cases[i].value, &r->message),
            -cases[i].err);
        s3_payload_done(payload);
    }
}

static void comparison(void **state) {
    struct run *r = *state;
    struct s3_payload *payload = NULL;
    plain(r, S3_PAYLOAD_UNSIGNED, 5, "hello");
    test_head_header(&r->head, "Content-MD5", "XUFAKrxLKna5cZ2REBfFkg==");
    test_head_header(&r->head, "x-amz-checksum-crc32", "NhCmhg==");
    assert_int_equal(s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message),
                     0);
    uint8_t md5[16];
    hash_sum(HASH_MD5, slice_str("hello"), md5);
    struct checksum crc = {
        .algorithm = CHECKSUM_CRC32, .size = 4, .value = {0x36, 0x10, 0xa6, 0x86}};
    assert_int_equal(s3_payload_check(payload, md5, &crc, &r->message), 0);
    crc.value[3] ^= 1;
    assert_int_equal(s3_payload_check(payload, md5, &crc, &r->message), -HL_ERR_BAD_CHECKSUM);
    assert_string_equal(r->message,
                        "The CRC32 you specified did not match the calculated checksum.");
    md5[0] ^= 1;
    assert_int_equal(s3_payload_check(payload, md5, &crc, &r->message), -HL_ERR_BAD_DIGEST);
    s3_payload_done(payload);
}

static int failing_sink(void *arg, const uint8_t *data, size_t size) {
    return -HL_ERR_NO_SPACE;
}

static void sink_errors_are_final(void **state) {
    struct run *r = *state;
    struct s3_payload *payload = NULL;
    plain(r, S3_PAYLOAD_UNSIGNED, 5, "hello");
    assert_int_equal(s3_payload_open(&r->head.head, &r->auth, true, r->pool, &payload, &r->message),
                     0);
    assert_int_equal(s3_payload_feed(payload, r->wire.data, 2, failing_sink, NULL),
                     -HL_ERR_NO_SPACE);
    assert_int_equal(s3_payload_feed(payload, r->wire.data + 2, 3, append_sink, &r->got),
                     -HL_ERR_NO_SPACE);
    assert_int_equal(s3_payload_finish(payload, NULL, NULL, NULL), -HL_ERR_NO_SPACE);
    assert_int_equal(r->got.size, 0);
    s3_payload_done(payload);
    s3_payload_done(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(published_chunks),
        TEST(published_trailer),
        TEST(every_split),
        TEST(every_truncation),
        TEST(every_flip),
        TEST(chunk_order),
        TEST(trailer_line_ends),
        TEST(unsigned_trailers),
        TEST(chunk_size_limit),
        TEST(endless_lines),
        TEST(payload_hash),
        TEST(lengths),
        TEST(promised_digests),
        TEST(checksum_in_query),
        TEST(http_trailers),
        TEST(comparison),
        TEST(sink_errors_are_final),
        TEST(framing_only_for_uploads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
