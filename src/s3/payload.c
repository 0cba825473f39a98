/* The body of a request, from wire bytes to payload bytes, with everything that its head promised
 * about it checked. One object a request; every operation that takes a body reads it through here,
 * so no path skips a check. Pure state machine; runs on whatever thread has the request. Does not
 * know what the bytes are for, and computes no MD5 or checksum itself: the write pipeline does. */
#include "s3/payload.h"

#include "base/error.h"
#include "s3/checksum_header.h"
#include "s3/payload_int.h"

static int open_hashes(struct s3_payload *payload) {
    if (payload->framed) {
        return payload_chunk_open(payload);
    }
    if (payload->auth->payload == S3_PAYLOAD_SIGNED) {
        payload->sha256 = hash_new(HASH_SHA256);
        return payload->sha256 != NULL ? 0 : -HL_ERR_NOMEM;
    }
    return 0;
}

int s3_payload_open(const struct http_head *head, const struct s3_auth *auth,
                    bool streaming_allowed, struct pool *pool, struct s3_payload **ret,
                    const char **ret_message) {
    struct s3_payload *payload = POOL_NEW(pool, struct s3_payload);
    if (payload == NULL) {
        return -HL_ERR_NOMEM;
    }
    payload->auth = auth;
    payload->pool = pool;
    int err = payload_read_head(payload, head, streaming_allowed);
    if (err == 0) {
        err = open_hashes(payload);
    }
    if (err != 0) {
        if (ret_message != NULL && payload->message != NULL) {
            *ret_message = payload->message;
        }
        s3_payload_done(payload);
        return err;
    }
    *ret = payload;
    return 0;
}

const struct s3_payload_expect *s3_payload_expect(const struct s3_payload *payload) {
    return &payload->expect;
}

int payload_deliver(struct s3_payload *payload, const uint8_t *data, size_t size) {
    uint64_t total;
    if (__builtin_add_overflow(payload->size, size, &total)) {
        return -HL_ERR_TOO_LARGE;
    }
    if (payload->expect.size != UINT64_MAX && total > payload->expect.size) {
        return -HL_ERR_INCOMPLETE_BODY;
    }
    if (payload->size_limited && total > PAYLOAD_SIZE_MAX) {
        return -HL_ERR_TOO_LARGE;
    }
    payload->size = total;
    return size > 0 ? payload->sink(payload->sink_arg, data, size) : 0;
}

int s3_payload_feed(struct s3_payload *payload, const uint8_t *data, size_t size,
                    s3_payload_sink sink, void *arg) {
    if (payload->err != 0) {
        return payload->err;
    }
    payload->sink = sink;
    payload->sink_arg = arg;
    if (payload->framed) {
        payload->err = payload_chunk_feed(payload, data, size);
    } else {
        if (payload->sha256 != NULL) {
            hash_update(payload->sha256, data, size);
        }
        payload->err = payload_deliver(payload, data, size);
    }
    return payload->err;
}

int payload_take_trailer(struct s3_payload *payload, struct slice value) {
    if (checksum_parse(payload->trailer_names, value, &payload->expect.checksum) != 0) {
        payload->message = pool_printf(payload->pool, "Value for %s trailing header is invalid.",
                                       checksum_header_name(payload->trailer_names));
        return -HL_ERR_INVALID_REQUEST;
    }
    return 0;
}

/* A body that is not aws-chunked may announce a trailer too; then it is one of HTTP's. */
static int finish_plain(struct s3_payload *payload,
                        struct slice (*trailer)(void *arg, const char *name), void *arg) {
    if (payload->expect.size != UINT64_MAX && payload->size != payload->expect.size) {
        return -HL_ERR_INCOMPLETE_BODY;
    }
    if (payload->sha256 != NULL) {
        uint8_t digest[32];
        hash_final(payload->sha256, digest);
        if (!equal_constant_time(digest, payload->auth->payload_sha256, sizeof(digest))) {
            return -HL_ERR_CONTENT_SHA256;
        }
    }
    if (payload->trailer_names == CHECKSUM_NONE) {
        return 0;
    }
    struct slice value =
        trailer != NULL ? trailer(arg, checksum_header_name(payload->trailer_names)) : SLICE_EMPTY;
    if (value.data == NULL) {
        payload->message = "The trailer that x-amz-trailer names is missing from the body.";
        return -HL_ERR_TRAILER;
    }
    return payload_take_trailer(payload, value);
}

int s3_payload_finish(struct s3_payload *payload,
                      struct slice (*trailer)(void *arg, const char *name), void *arg,
                      const char **ret_message) {
    if (payload->err == 0) {
        payload->err =
            payload->framed ? payload_chunk_finish(payload) : finish_plain(payload, trailer, arg);
    }
    if (payload->err != 0 && payload->message != NULL && ret_message != NULL) {
        *ret_message = payload->message;
    }
    return payload->err;
}

int s3_payload_check(const struct s3_payload *payload, const uint8_t md5[16],
                     const struct checksum *computed, const char **ret_message) {
    const struct s3_payload_expect *expect = &payload->expect;
    if (expect->md5_given && memcmp(expect->md5, md5, sizeof(expect->md5)) != 0) {
        return -HL_ERR_BAD_DIGEST;
    }
    if (expect->checksum.size == 0) {
        return 0;
    }
    if (computed->algorithm != expect->checksum.algorithm ||
        computed->size != expect->checksum.size ||
        memcmp(computed->value, expect->checksum.value, computed->size) != 0) {
        if (ret_message != NULL) {
            *ret_message = pool_printf(
                payload->pool, "The %s you specified did not match the calculated checksum.",
                checksum_algorithm_name(expect->checksum.algorithm));
        }
        return -HL_ERR_BAD_CHECKSUM;
    }
    return 0;
}

void s3_payload_done(struct s3_payload *payload) {
    if (payload == NULL) {
        return;
    }
    hash_free(TAKE_PTR(payload->sha256));
    hash_free(TAKE_PTR(payload->chunk.hash));
}
