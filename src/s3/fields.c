/* Parsers of single header fields and parameters. Pure; input is hostile. Numbers saturate instead
 * of wrapping, lists are counted before they are allocated, and nothing recurses. */
#include "s3/fields.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

struct slice s3_trim(struct slice s) {
    while (s.size > 0 && strchr(" \t\r\n", s.data[0]) != NULL && s.data[0] != 0) {
        s = slice_skip(s, 1);
    }
    while (s.size > 0 && strchr(" \t\r\n", s.data[s.size - 1]) != NULL && s.data[s.size - 1] != 0) {
        s.size--;
    }
    return s;
}

/* ---- Range ---- */

/* Decimal digits only, at least one; values beyond 64 bits become UINT64_MAX, which no object
 * reaches. */
static bool parse_saturating(struct slice text, uint64_t *ret) {
    uint64_t value = 0;
    if (text.size == 0) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c < '0' || c > '9') {
            return false;
        }
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value)) {
            value = UINT64_MAX; /* stays there: the next product overflows too */
        }
    }
    *ret = value;
    return true;
}

static bool skip_unit(struct slice *field) {
    struct slice unit = SLICE_LITERAL("bytes=");
    if (field->size < unit.size || !slice_equal_nocase(slice_take(*field, unit.size), unit)) {
        return false;
    }
    *field = s3_trim(slice_skip(*field, unit.size));
    return true;
}

enum s3_range_kind s3_parse_range(struct slice field, uint64_t object_size, uint64_t *ret_off,
                                  uint64_t *ret_size) {
    field = s3_trim(field);
    if (!skip_unit(&field) || slice_find(field, ',', 0) != field.size) {
        return S3_RANGE_NONE;
    }
    size_t dash = slice_find(field, '-', 0);
    if (dash == field.size) {
        return S3_RANGE_NONE;
    }
    struct slice left = s3_trim(slice_take(field, dash));
    struct slice right = s3_trim(slice_skip(field, dash + 1));
    uint64_t first = 0, last = UINT64_MAX, suffix = 0;
    if (left.size == 0) {
        if (!parse_saturating(right, &suffix)) {
            return S3_RANGE_NONE;
        }
        if (suffix == 0 || object_size == 0) {
            return S3_RANGE_UNSATISFIABLE;
        }
        *ret_size = MIN(suffix, object_size);
        *ret_off = object_size - *ret_size;
        return S3_RANGE_OK;
    }
    if (!parse_saturating(left, &first) || (right.size > 0 && !parse_saturating(right, &last)) ||
        last < first) {
        return S3_RANGE_NONE;
    }
    if (first >= object_size) {
        return S3_RANGE_UNSATISFIABLE;
    }
    *ret_off = first;
    *ret_size = MIN(last, object_size - 1) - first + 1;
    return S3_RANGE_OK;
}

bool s3_parse_copy_range(struct slice field, uint64_t *ret_first, uint64_t *ret_last) {
    struct slice unit = SLICE_LITERAL("bytes=");
    if (!slice_starts_with(field, unit)) {
        return false;
    }
    field = slice_skip(field, unit.size);
    size_t dash = slice_find(field, '-', 0);
    uint64_t first, last;
    if (dash == field.size || !parse_u64(slice_take(field, dash), INT64_MAX, &first) ||
        !parse_u64(slice_skip(field, dash + 1), INT64_MAX, &last) || last < first) {
        return false;
    }
    *ret_first = first;
    *ret_last = last;
    return true;
}

/* ---- conditions ---- */

/* Takes the next entity tag off the list: a quoted string (which may hold commas) or a bare word up
 * to the next comma. False at the end. */
static bool next_etag(struct slice *list, struct slice *ret_tag) {
    while (list->size > 0 &&
           (list->data[0] == ',' || list->data[0] == ' ' || list->data[0] == '\t')) {
        *list = slice_skip(*list, 1);
    }
    if (list->size == 0) {
        return false;
    }
    if (slice_starts_with(*list, SLICE_LITERAL("W/\""))) {
        *list = slice_skip(*list, 2);
    }
    size_t end;
    if (list->data[0] == '"' && (end = slice_find(*list, '"', 1)) < list->size) {
        *ret_tag = slice_of(list->data + 1, end - 1);
        end = slice_find(*list, ',', end);
    } else {
        end = slice_find(*list, ',', 0);
        *ret_tag = s3_trim(slice_take(*list, end));
        if (ret_tag->size > 0 && ret_tag->data[0] == '"') {
            *ret_tag = slice_skip(*ret_tag, 1);
        }
    }
    *list = slice_skip(*list, end);
    return true;
}

int s3_parse_etags(struct slice field, struct pool *pool, struct object_etags *ret) {
    field = s3_trim(field);
    *ret = (struct object_etags){0};
    if (field.size == 0) {
        return 0;
    }
    if (slice_equal_str(field, "*") || slice_equal_str(field, "\"*\"")) {
        ret->given = ret->any = true;
        return 0;
    }
    uint32_t count = 0;
    struct slice rest = field, tag;
    while (next_etag(&rest, &tag)) {
        count++;
    }
    if (count == 0) {
        return -HL_ERR_INVALID;
    }
    struct slice *tags = pool_alloc(pool, count * sizeof(*tags));
    if (tags == NULL) {
        return -HL_ERR_NOMEM;
    }
    rest = field;
    for (uint32_t i = 0; i < count; i++) {
        (void)next_etag(&rest, &tags[i]);
    }
    ret->given = true;
    ret->tags = tags;
    ret->tag_count = count;
    return 0;
}

bool s3_parse_time(struct slice field, int64_t *ret_ms) {
    field = s3_trim(field);
    return time_parse_http(field, ret_ms) || time_parse_iso8601(field, ret_ms);
}

/* ---- paging tokens ---- */

/* version, flags, CRC32C of what follows (so that a made-up token is told from a real one), key */
enum { TOKEN_VERSION = 1, TOKEN_HEAD = 6, TOKEN_TEXT_MAX = 4096 };

static uint32_t token_crc(uint8_t flags, struct slice key) {
    return crc32c(crc32c(0, &flags, 1), key.data, key.size);
}

struct slice s3_token_encode(struct pool *pool, bool is_prefix, struct slice key) {
    size_t size = TOKEN_HEAD + key.size;
    uint8_t *raw = pool_alloc(pool, size);
    char *text = pool_alloc(pool, BASE64_SIZE(size) + 1);
    if (raw == NULL || text == NULL) {
        return SLICE_EMPTY;
    }
    uint32_t crc = token_crc(is_prefix, key);
    raw[0] = TOKEN_VERSION;
    raw[1] = is_prefix;
    put_be32(raw + 2, crc);
    if (key.size > 0) {
        memcpy(raw + TOKEN_HEAD, key.data, key.size);
    }
    base64_encode(raw, size, text);
    size_t length = 0;
    for (; text[length] != 0 && text[length] != '='; length++) {
        if (text[length] == '+') {
            text[length] = '-';
        } else if (text[length] == '/') {
            text[length] = '_';
        }
    }
    return slice_of(text, length);
}

bool s3_token_decode(struct pool *pool, struct slice token, bool *ret_is_prefix,
                     struct slice *ret_key) {
    if (token.size == 0 || token.size > TOKEN_TEXT_MAX) {
        return false;
    }
    size_t padded = (token.size + 3) / 4 * 4;
    uint8_t *text = pool_alloc(pool, padded);
    uint8_t *raw = pool_alloc(pool, padded);
    if (text == NULL || raw == NULL) {
        return false;
    }
    for (size_t i = 0; i < padded; i++) {
        uint8_t c = i < token.size ? token.data[i] : '=';
        if (i < token.size && (c == '+' || c == '/' || c == '=')) {
            return false;
        }
        text[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    size_t size;
    if (!base64_decode(slice_of(text, padded), raw, padded, &size) || size < TOKEN_HEAD ||
        raw[0] != TOKEN_VERSION || raw[1] > 1) {
        return false;
    }
    struct slice key = slice_of(raw + TOKEN_HEAD, size - TOKEN_HEAD);
    uint32_t crc = get_be32(raw + 2);
    if (crc != token_crc(raw[1], key)) {
        return false;
    }
    *ret_is_prefix = raw[1] == 1;
    *ret_key = key;
    return true;
}

struct slice s3_strip_aws_chunked(struct pool *pool, struct slice field) {
    uint8_t *out = pool_alloc(pool, field.size * 2 + 1);
    if (out == NULL) {
        return field;
    }
    size_t size = 0;
    bool removed = false;
    struct slice rest = field;
    while (rest.size > 0) {
        size_t end = slice_find(rest, ',', 0);
        struct slice piece = slice_take(rest, end);
        struct slice token = s3_trim(piece);
        rest = slice_skip(rest, MIN(end + 1, rest.size));
        if (slice_equal_nocase(token, SLICE_LITERAL("aws-chunked"))) {
            removed = true;
            continue;
        }
        if (token.size == 0) {
            continue;
        }
        if (size > 0) {
            /* With the blanks that were sent before it: what is kept is kept byte for byte. */
            out[size++] = ',';
            token.size += (size_t)(token.data - piece.data);
            token.data = piece.data;
        }
        memcpy(out + size, token.data, token.size);
        size += token.size;
    }
    if (!removed) {
        return field; /* byte for byte */
    }
    return size == 0 ? SLICE_EMPTY : slice_of(out, size);
}
