/* The aws-chunked decoder: a state machine over bytes in pieces of any size.
 *
 *   size-in-hex [";chunk-signature=" 64 hex] CRLF  data CRLF      ... repeated, the last size is 0
 *   trailers:   name ":" value (CRLF | LF | end of the body)  ["x-amz-trailer-signature:" 64 hex]
 *
 * Chunk data goes on to the sink as it arrives; the verdict on a signed chunk falls at its end, and
 * nothing is visible to anybody before finish() said yes. Framing is strict (CRLF, no extensions);
 * trailers are read as clients really end them (B10 in the reference). Source: "Signature
 * calculations: transferring a payload in multiple chunks" and "...Including trailing headers",
 * Amazon S3 API Reference. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/payload_int.h"

#define SIGNATURE_SIZE 64
#define EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static int framing_error(struct s3_payload *payload) {
    payload->message = "The request body terminated unexpectedly or its aws-chunked framing is "
                       "broken.";
    return -HL_ERR_INCOMPLETE_BODY;
}

int payload_chunk_open(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    enum s3_payload_mode mode = payload->auth->payload;
    chunk->is_signed = mode == S3_PAYLOAD_STREAM_SIGNED || mode == S3_PAYLOAD_STREAM_SIGNED_TRAILER;
    chunk->has_trailers =
        mode == S3_PAYLOAD_STREAM_SIGNED_TRAILER || mode == S3_PAYLOAD_STREAM_UNSIGNED_TRAILER;
    chunk->line = pool_alloc(payload->pool, PAYLOAD_LINE_MAX);
    if (chunk->line == NULL) {
        return -HL_ERR_NOMEM;
    }
    if (chunk->is_signed) {
        memcpy(chunk->previous, payload->auth->seed_signature, SIGNATURE_SIZE);
        chunk->hash = hash_new(HASH_SHA256);
        if (chunk->hash == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    return 0;
}

/* ---- signatures ---- */

/* kind "AWS4-HMAC-SHA256-PAYLOAD" or "...-TRAILER"; hashes: the last lines of the string to sign.
 */
static int check_chain(struct s3_payload *payload, const char *kind, const char *hashes,
                       const char *provided) {
    struct chunk_decoder *chunk = &payload->chunk;
    const struct s3_auth *auth = payload->auth;
    struct buf text CLEANUP_BUF = {0};
    buf_printf(&text, "%s\n%.*s\n%.*s\n%s\n%s", kind, SLICE_PRINT(auth->amz_date),
               SLICE_PRINT(auth->scope), chunk->previous, hashes);
    if (text.failed) {
        return -HL_ERR_NOMEM;
    }
    uint8_t mac[32];
    char expected[SIGNATURE_SIZE + 1];
    hmac_sha256(slice_of(auth->signing_key, sizeof(auth->signing_key)), buf_slice(&text), mac);
    hex_encode(mac, sizeof(mac), expected);
    if (!equal_constant_time(expected, provided, SIGNATURE_SIZE)) {
        payload->message = "The signature of a chunk or trailer of the body does not match.";
        return -HL_ERR_SIGNATURE;
    }
    memcpy(chunk->previous, expected, sizeof(chunk->previous));
    return 0;
}

static int check_chunk_signature(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    uint8_t digest[32];
    char hashes[2 * SIGNATURE_SIZE + 2] = EMPTY_SHA256 "\n";
    hash_final(chunk->hash, digest);
    hex_encode(digest, sizeof(digest), hashes + SIGNATURE_SIZE + 1);
    return check_chain(payload, "AWS4-HMAC-SHA256-PAYLOAD", hashes, chunk->announced);
}

/* The signed text is always "name:value" and a line feed, whatever ended the line on the wire. */
static int check_trailer_signature(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (!chunk->trailer_signature_seen) {
        payload->message = "The trailer x-amz-trailer-signature is missing.";
        return -HL_ERR_TRAILER;
    }
    struct buf text CLEANUP_BUF = {0};
    if (chunk->trailer_value.data != NULL) {
        buf_printf(&text, "%s:%.*s\n", checksum_header_name(payload->trailer_names),
                   SLICE_PRINT(chunk->trailer_value));
    }
    if (text.failed) {
        return -HL_ERR_NOMEM;
    }
    uint8_t digest[32];
    char hex[SIGNATURE_SIZE + 1];
    hash_sum(HASH_SHA256, buf_slice(&text), digest);
    hex_encode(digest, sizeof(digest), hex);
    return check_chain(payload, "AWS4-HMAC-SHA256-TRAILER", hex, chunk->trailer_signature);
}

/* ---- chunk headers ---- */

static bool parse_hex_size(struct slice text, uint64_t *ret) {
    uint64_t value = 0;
    if (text.size == 0 || text.size > 16) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        uint8_t lower = c | 0x20;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value << 4 | (uint64_t)(lower - 'a' + 10);
        } else {
            return false;
        }
    }
    *ret = value;
    return true;
}

static bool split_header(const struct chunk_decoder *chunk, struct slice line, uint64_t *ret_size,
                         struct slice *ret_signature) {
    const struct slice mark = SLICE_LITERAL(";chunk-signature=");
    size_t semicolon = slice_find(line, ';', 0);
    struct slice rest = slice_skip(line, semicolon);
    if (!parse_hex_size(slice_take(line, semicolon), ret_size)) {
        return false;
    }
    if (!chunk->is_signed) {
        return rest.size == 0;
    }
    if (!slice_starts_with(rest, mark) || rest.size != mark.size + SIGNATURE_SIZE) {
        return false;
    }
    *ret_signature = slice_skip(rest, mark.size);
    return true;
}

static int begin_last_chunk(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    chunk->state = chunk->has_trailers ? CHUNK_TRAILER : CHUNK_LAST_END;
    chunk->end_bytes = 0;
    return chunk->is_signed ? check_chunk_signature(payload) : 0;
}

/* line: without its CRLF. */
static int begin_chunk(struct s3_payload *payload, struct slice line) {
    struct chunk_decoder *chunk = &payload->chunk;
    uint64_t size = 0;
    struct slice signature = SLICE_EMPTY;
    if (!split_header(chunk, line, &size, &signature)) {
        return framing_error(payload);
    }
    if (chunk->is_signed) {
        memcpy(chunk->announced, signature.data, SIGNATURE_SIZE);
    }
    if (size == 0) {
        return begin_last_chunk(payload);
    }
    if (chunk->short_chunk) {
        return -HL_ERR_CHUNK_SIZE;
    }
    if (payload->expect.size != UINT64_MAX && size > payload->expect.size - payload->size) {
        return framing_error(payload); /* more than x-amz-decoded-content-length promised */
    }
    if (size > PAYLOAD_SIZE_MAX) {
        return -HL_ERR_TOO_LARGE;
    }
    chunk->short_chunk = size < CHUNK_SIZE_MIN;
    chunk->chunk_left = size;
    chunk->state = CHUNK_DATA;
    return 0;
}

/* ---- trailers ---- */

static struct slice trim(struct slice s) {
    while (s.size > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s = slice_skip(s, 1);
    }
    while (s.size > 0 && (s.data[s.size - 1] == ' ' || s.data[s.size - 1] == '\t')) {
        s.size--;
    }
    return s;
}

static int take_trailer_signature(struct s3_payload *payload, struct slice value) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (!chunk->is_signed || chunk->trailer_signature_seen || value.size != SIGNATURE_SIZE) {
        return -HL_ERR_TRAILER;
    }
    memcpy(chunk->trailer_signature, value.data, SIGNATURE_SIZE);
    chunk->trailer_signature_seen = true;
    return 0;
}

/* line: without its end. Blank lines separate nothing and are skipped. */
static int take_trailer_line(struct s3_payload *payload, struct slice line) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (line.size > 0 && line.data[line.size - 1] == '\r') {
        line.size--;
    }
    if (line.size == 0) {
        return 0;
    }
    size_t colon = slice_find(line, ':', 0);
    struct slice name = slice_take(line, colon);
    if (colon == line.size || chunk->trailer_signature_seen) {
        return -HL_ERR_TRAILER;
    }
    struct slice value = trim(slice_skip(line, colon + 1));
    if (slice_equal_nocase(name, SLICE_LITERAL("x-amz-trailer-signature"))) {
        return take_trailer_signature(payload, value);
    }
    int algorithm = checksum_header_algorithm(name);
    if (algorithm == CHECKSUM_NONE || algorithm != payload->trailer_names ||
        chunk->trailer_value.data != NULL) {
        return -HL_ERR_TRAILER;
    }
    chunk->trailer_value = pool_copy(payload->pool, value);
    return chunk->trailer_value.data != NULL ? 0 : -HL_ERR_NOMEM;
}

/* ---- the machine ---- */

/* Collects bytes up to and with a line feed. *ret_line is set when one is complete. */
static int collect_line(struct s3_payload *payload, const uint8_t **pos, const uint8_t *end,
                        struct slice *ret_line) {
    struct chunk_decoder *chunk = &payload->chunk;
    size_t left = (size_t)(end - *pos);
    const uint8_t *feed = memchr(*pos, '\n', left);
    size_t take = feed != NULL ? (size_t)(feed - *pos) + 1 : left;
    if (take > PAYLOAD_LINE_MAX - chunk->line_size) {
        return chunk->state == CHUNK_TRAILER ? -HL_ERR_TRAILER : framing_error(payload);
    }
    memcpy(chunk->line + chunk->line_size, *pos, take);
    chunk->line_size += (uint32_t)take;
    *pos += take;
    if (feed != NULL) {
        *ret_line = slice_of(chunk->line, chunk->line_size - 1);
        chunk->line_size = 0;
    }
    return 0;
}

static int step_header(struct s3_payload *payload, const uint8_t **pos, const uint8_t *end) {
    struct slice line = SLICE_EMPTY;
    int err = collect_line(payload, pos, end, &line);
    if (err != 0 || line.data == NULL) {
        return err;
    }
    if (line.size == 0 || line.data[line.size - 1] != '\r') {
        return framing_error(payload);
    }
    return begin_chunk(payload, slice_take(line, line.size - 1));
}

static int step_data(struct s3_payload *payload, const uint8_t **pos, const uint8_t *end) {
    struct chunk_decoder *chunk = &payload->chunk;
    size_t take = (size_t)MIN(chunk->chunk_left, (uint64_t)(end - *pos));
    if (chunk->is_signed) {
        hash_update(chunk->hash, *pos, take);
    }
    int err = payload_deliver(payload, *pos, take);
    if (err != 0) {
        return err;
    }
    *pos += take;
    chunk->chunk_left -= take;
    if (chunk->chunk_left > 0) {
        return 0;
    }
    chunk->state = CHUNK_DATA_END;
    chunk->end_bytes = 0;
    return chunk->is_signed ? check_chunk_signature(payload) : 0;
}

/* CRLF, byte by byte, then the state next. */
static int step_end(struct s3_payload *payload, const uint8_t **pos, enum chunk_state next) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (**pos != "\r\n"[chunk->end_bytes]) {
        return framing_error(payload);
    }
    (*pos)++;
    chunk->end_bytes++;
    if (chunk->end_bytes == 2) {
        chunk->state = next;
    }
    return 0;
}

static int step_trailer(struct s3_payload *payload, const uint8_t **pos, const uint8_t *end) {
    struct chunk_decoder *chunk = &payload->chunk;
    const uint8_t *start = *pos;
    struct slice line = SLICE_EMPTY;
    int err = collect_line(payload, pos, end, &line);
    if (err != 0) {
        return err;
    }
    chunk->trailer_bytes += (uint32_t)(*pos - start); /* a step takes at most a line's limit */
    if (chunk->trailer_bytes > PAYLOAD_TRAILER_MAX) {
        return -HL_ERR_TRAILER;
    }
    return line.data != NULL ? take_trailer_line(payload, line) : 0;
}

int payload_chunk_feed(struct s3_payload *payload, const uint8_t *data, size_t size) {
    const uint8_t *pos = data, *end = data + size;
    int err = 0;
    while (err == 0 && pos < end) {
        switch (payload->chunk.state) {
        case CHUNK_HEADER:
            err = step_header(payload, &pos, end);
            break;
        case CHUNK_DATA:
            err = step_data(payload, &pos, end);
            break;
        case CHUNK_DATA_END:
            err = step_end(payload, &pos, CHUNK_HEADER);
            break;
        case CHUNK_LAST_END:
            err = step_end(payload, &pos, CHUNK_DONE);
            break;
        case CHUNK_TRAILER:
            err = step_trailer(payload, &pos, end);
            break;
        case CHUNK_DONE:
            err = framing_error(payload); /* bytes after the end */
            break;
        }
    }
    return err;
}

static int missing_trailer(struct s3_payload *payload) {
    payload->message = "The trailer that x-amz-trailer names is missing from the body.";
    return -HL_ERR_TRAILER;
}

/* What is left in line is a last trailer without its line end. */
static int finish_trailers(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (chunk->trailer_bytes == 0) {
        return framing_error(payload); /* not even the empty line after the last chunk */
    }
    int err = take_trailer_line(payload, slice_of(chunk->line, chunk->line_size));
    if (err != 0) {
        return err;
    }
    if (payload->trailer_names != CHECKSUM_NONE && chunk->trailer_value.data == NULL) {
        return missing_trailer(payload);
    }
    if (chunk->is_signed) {
        err = check_trailer_signature(payload);
        if (err != 0) {
            return err;
        }
    }
    return chunk->trailer_value.data != NULL ? payload_take_trailer(payload, chunk->trailer_value)
                                             : 0;
}

int payload_chunk_finish(struct s3_payload *payload) {
    struct chunk_decoder *chunk = &payload->chunk;
    if (chunk->state != CHUNK_DONE && chunk->state != CHUNK_TRAILER) {
        return framing_error(payload);
    }
    if (payload->expect.size != UINT64_MAX && payload->size != payload->expect.size) {
        return framing_error(payload);
    }
    if (chunk->state == CHUNK_TRAILER) {
        return finish_trailers(payload);
    }
    return payload->trailer_names != CHECKSUM_NONE ? missing_trailer(payload) : 0;
}
