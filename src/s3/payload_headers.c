/* Reads what a request's head promises about its body: length, framing, Content-MD5, checksum
 * headers and the checksum trailer announced. Syntax and contradictions only; nothing is computed.
 * Any thread. */
#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/payload_int.h"
#include "s3/uri.h"

static bool is_framed(enum s3_payload_mode mode) {
    return mode == S3_PAYLOAD_STREAM_SIGNED || mode == S3_PAYLOAD_STREAM_SIGNED_TRAILER ||
           mode == S3_PAYLOAD_STREAM_UNSIGNED_TRAILER;
}

static int read_md5(struct s3_payload *payload, const struct http_head *head) {
    struct slice text = s3_head_header(head, "content-md5");
    if (text.data == NULL) {
        return 0;
    }
    size_t size = 0;
    if (!base64_decode(text, payload->expect.md5, sizeof(payload->expect.md5), &size) ||
        size != sizeof(payload->expect.md5)) {
        return -HL_ERR_INVALID_DIGEST;
    }
    payload->expect.md5_given = true;
    return 0;
}

/* ---- checksums ---- */

/* x-amz-checksum-algorithm, -type and -mode are not values. */
static bool is_checksum_value(struct slice name) {
    const struct slice prefix = SLICE_LITERAL("x-amz-checksum-");
    if (!slice_equal_nocase(slice_take(name, prefix.size), prefix)) {
        return false;
    }
    struct slice rest = slice_skip(name, prefix.size);
    return !slice_equal_nocase(rest, SLICE_LITERAL("algorithm")) &&
           !slice_equal_nocase(rest, SLICE_LITERAL("type")) &&
           !slice_equal_nocase(rest, SLICE_LITERAL("mode"));
}

static int multiple_checksums(struct s3_payload *payload) {
    payload->message =
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
    return -HL_ERR_INVALID_REQUEST;
}

static int read_checksum_header(struct s3_payload *payload, const struct http_header *header) {
    int algorithm = checksum_header_algorithm(header->name);
    if (algorithm == CHECKSUM_NONE) {
        payload->message = pool_printf(payload->pool, "The checksum header %.*s is not supported.",
                                       SLICE_PRINT(header->name));
        return -HL_ERR_INVALID_REQUEST;
    }
    if (payload->expect.checksum.size != 0) {
        return multiple_checksums(payload);
    }
    if (checksum_parse(algorithm, header->value, &payload->expect.checksum) != 0) {
        payload->message = pool_printf(payload->pool, "Value for %s header is invalid.",
                                       checksum_header_name(algorithm));
        return -HL_ERR_BAD_CHECKSUM; /* the code that s3-tests expects; AWS: InvalidRequest */
    }
    payload->expect.checksum_algorithm = (uint8_t)algorithm;
    return 0;
}

static int read_trailer_header(struct s3_payload *payload, const struct http_head *head) {
    struct slice names = s3_head_header(head, "x-amz-trailer");
    if (names.data == NULL) {
        return 0;
    }
    int algorithm = checksum_header_algorithm(names);
    if (algorithm == CHECKSUM_NONE) {
        payload->message = "The value specified in the x-amz-trailer header is not supported; one "
                           "x-amz-checksum-* name is.";
        return -HL_ERR_INVALID_REQUEST;
    }
    if (payload->expect.checksum.size != 0) {
        return multiple_checksums(payload);
    }
    payload->trailer_names = (uint8_t)algorithm;
    payload->expect.checksum_algorithm = (uint8_t)algorithm;
    payload->expect.checksum_in_trailer = true;
    return 0;
}

/* The algorithm that an SDK names beside the value; in a presigned URL it stands in the query, and
 * there it asks for a checksum without promising its value (a value in the query is the checksum of
 * nothing, as the SDK did not have the body yet). */
static int read_sdk_algorithm(struct s3_payload *payload, const struct http_head *head) {
    struct s3_query query = {NULL, 0};
    struct slice name = s3_head_header(head, "x-amz-sdk-checksum-algorithm");
    bool in_query = name.data == NULL;
    if (in_query) {
        int err = s3_query_parse(head->query, payload->pool, &query);
        if (err != 0) {
            return err;
        }
        name = s3_query_value(&query, "x-amz-sdk-checksum-algorithm");
    }
    if (name.data == NULL) {
        return 0;
    }
    int algorithm = checksum_algorithm_parse(name);
    if (algorithm == CHECKSUM_NONE) {
        payload->message =
            pool_printf(payload->pool,
                        "The checksum algorithm \"%.*s\" is not supported; use CRC32, CRC32C, "
                        "CRC64NVME, SHA1 or SHA256.",
                        SLICE_PRINT(name));
        return -HL_ERR_INVALID_REQUEST;
    }
    uint8_t promised = payload->expect.checksum_algorithm;
    if (promised == CHECKSUM_NONE && !in_query) {
        payload->message = "x-amz-sdk-checksum-algorithm specified, but no corresponding "
                           "x-amz-checksum-* or x-amz-trailer headers were found.";
        return -HL_ERR_INVALID_REQUEST;
    }
    if (promised != CHECKSUM_NONE && promised != algorithm) {
        if (in_query) {
            return 0; /* what the uploader really sends decides */
        }
        payload->message = "Value for x-amz-sdk-checksum-algorithm header is invalid.";
        return -HL_ERR_INVALID_REQUEST;
    }
    payload->expect.checksum_algorithm = (uint8_t)algorithm;
    return 0;
}

static int read_checksums(struct s3_payload *payload, const struct http_head *head) {
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (is_checksum_value(head->headers[i].name)) {
            int err = read_checksum_header(payload, &head->headers[i]);
            if (err != 0) {
                return err;
            }
        }
    }
    int err = read_trailer_header(payload, head);
    return err != 0 ? err : read_sdk_algorithm(payload, head);
}

/* ---- length ---- */

/* Of a framed body the decoded length counts; it may be missing when the wire has no length either
 * (SDK streams of unknown size; AWS refuses them, accepting is a superset). */
static int read_framed_length(struct s3_payload *payload, const struct http_head *head) {
    struct slice text = s3_head_header(head, "x-amz-decoded-content-length");
    if (text.data == NULL && head->chunked) {
        return 0;
    }
    if (text.data == NULL || !parse_u64(text, UINT64_MAX - 1, &payload->expect.size)) {
        payload->message = "An aws-chunked body needs the header x-amz-decoded-content-length.";
        return -HL_ERR_MISSING_LENGTH;
    }
    return 0;
}

static int read_length(struct s3_payload *payload, const struct http_head *head,
                       bool streaming_allowed) {
    payload->expect.size = UINT64_MAX;
    if (payload->framed) {
        int err = read_framed_length(payload, head);
        if (err != 0) {
            return err;
        }
    } else if (head->has_length) {
        payload->expect.size = head->length;
    } else if (!head->chunked) {
        if (streaming_allowed) {
            return -HL_ERR_MISSING_LENGTH;
        }
        payload->expect.size = 0;
    }
    bool known = payload->expect.size != UINT64_MAX;
    return streaming_allowed && known && payload->expect.size > PAYLOAD_SIZE_MAX ? -HL_ERR_TOO_LARGE
                                                                                 : 0;
}

int payload_read_head(struct s3_payload *payload, const struct http_head *head,
                      bool streaming_allowed) {
    payload->framed = is_framed(payload->auth->payload);
    payload->size_limited = streaming_allowed;
    if (payload->framed && !streaming_allowed) {
        payload->message = "The value of x-amz-content-sha256 is not allowed for this operation: "
                           "only PutObject and UploadPart take an aws-chunked body.";
        return -HL_ERR_INVALID_REQUEST;
    }
    int err = read_length(payload, head, streaming_allowed);
    if (err == 0) {
        err = read_md5(payload, head);
    }
    return err != 0 ? err : read_checksums(payload, head);
}
