/* Differential: a body gets the same verdict and the same payload bytes whole, byte by byte, and in
 * pieces that the input chooses. First byte: mode and whether a trailer is announced; second: size
 * of the pieces; then the wire. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "s3/payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int err;
    struct buf bytes;
    struct checksum checksum;
};

static int append_sink(void *arg, const uint8_t *data, size_t size) {
    CHECK(size > 0);
    buf_append(arg, data, size);
    return 0;
}

static void decode(const struct http_head *head, const struct s3_auth *auth, struct slice wire,
                   size_t piece, struct result *ret) {
    struct pool *pool = pool_new(0);
    struct s3_payload *payload = NULL;
    const char *message = NULL;
    ret->err = s3_payload_open(head, auth, true, pool, &payload, &message);
    if (ret->err == 0) {
        int err = 0;
        for (size_t pos = 0; err == 0 && pos < wire.size; pos += piece) {
            struct slice rest = slice_skip(wire, pos);
            err = s3_payload_feed(payload, rest.data, MIN(piece, rest.size), append_sink,
                                  &ret->bytes);
        }
        ret->err = s3_payload_finish(payload, NULL, NULL, &message);
        CHECK(err == 0 || ret->err == err);
        ret->checksum = s3_payload_expect(payload)->checksum;
        s3_payload_done(payload);
    }
    pool_free(pool);
}

static void check_same(const struct result *a, const struct result *b) {
    CHECK(a->err == b->err);
    /* After an error more or less may have gone to the sink before it was noticed. */
    CHECK(a->err != 0 || slice_equal(buf_slice(&a->bytes), buf_slice(&b->bytes)));
    CHECK(a->err != 0 || memcmp(&a->checksum, &b->checksum, sizeof(a->checksum)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    static const struct http_header headers[] = {
        {SLICE_LITERAL("x-amz-trailer"), SLICE_LITERAL("x-amz-checksum-crc32c")},
        {SLICE_LITERAL("x-amz-decoded-content-length"), SLICE_LITERAL("12")},
    };
    struct http_head head = {.method = SLICE_LITERAL("PUT"), .chunked = true, .headers = headers};
    head.header_count = data[0] >> 4 & 1;
    head.header_count = (data[0] >> 5 & 1) != 0 ? 2 : head.header_count;
    struct s3_auth auth = {.payload = (enum s3_payload_mode)((data[0] & 15) % 5),
                           .scope = SLICE_LITERAL("20130524/us-east-1/s3/aws4_request"),
                           .amz_date = SLICE_LITERAL("20130524T000000Z")};
    memset(auth.seed_signature, 'a', sizeof(auth.seed_signature));
    memset(auth.signing_key, 7, sizeof(auth.signing_key));
    struct slice wire = slice_of(data + 2, size - 2);
    struct result whole = {0}, bytes = {0}, pieces = {0};
    decode(&head, &auth, wire, SIZE_MAX, &whole);
    decode(&head, &auth, wire, 1, &bytes);
    decode(&head, &auth, wire, 1 + (size_t)data[1], &pieces);
    check_same(&whole, &bytes);
    check_same(&whole, &pieces);
    buf_done(&whole.bytes);
    buf_done(&bytes.bytes);
    buf_done(&pieces.bytes);
    return 0;
}
