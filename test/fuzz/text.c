/* Fuzz target of the text codecs and of the varint. The first byte chooses the decoder; what a
 * decoder accepts must come back from the encoder as it was, or parse to the same value again. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_base64(struct slice text) {
    CLEANUP_FREE uint8_t *bytes = malloc(text.size + 1);
    CLEANUP_FREE char *again = malloc(BASE64_SIZE(text.size) + 1);
    size_t size;
    if (base64_decode(text, bytes, text.size, &size)) {
        CHECK(BASE64_SIZE(size) == text.size);
        base64_encode(bytes, size, again);
        CHECK(slice_equal_str(text, again));
        CHECK(size == 0 || !base64_decode(text, bytes, size - 1, &size));
    }
}

static void fuzz_hex(struct slice text) {
    CLEANUP_FREE uint8_t *bytes = malloc(text.size + 1);
    CLEANUP_FREE char *again = malloc(text.size + 2);
    if (hex_decode(text, bytes, text.size / 2)) {
        CHECK(text.size % 2 == 0);
        hex_encode(bytes, text.size / 2, again);
        CHECK(slice_equal_nocase(text, slice_str(again)));
    }
    CHECK(!hex_decode(text, bytes, text.size / 2 + 1));
}

static void fuzz_percent(struct slice text) {
    CLEANUP_BUF struct buf bytes = {0}, again = {0}, back = {0};
    bool good = percent_decode(&bytes, text);
    CHECK(bytes.size <= text.size);
    percent_encode(&again, buf_slice(&bytes), (text.size & 1) != 0);
    CHECK(percent_decode(&back, buf_slice(&again)));
    CHECK(slice_equal(buf_slice(&bytes), buf_slice(&back)));
    CHECK(slice_find(text, '%', 0) < text.size || (good && slice_equal(text, buf_slice(&bytes))));
    if (utf8_valid(text)) { /* a well-formed text stays so when cut before an ASCII character */
        for (size_t i = 0; i < text.size; i++) {
            CHECK(text.data[i] >= 0x80 || utf8_valid(slice_take(text, i)));
        }
    }
}

typedef bool (*parse_time)(struct slice text, int64_t *ret_ms);
typedef void (*format_time)(int64_t ms, char ret[TIME_TEXT_SIZE]);

static void fuzz_time(struct slice text, parse_time parse, format_time format) {
    int64_t ms = -7, again;
    char formatted[TIME_TEXT_SIZE];
    if (!parse(text, &ms)) {
        CHECK(ms == -7);
        return;
    }
    format(ms, formatted);
    CHECK(parse(slice_str(formatted), &again));
    /* A zone can lead out of the years 1 to 9999, where formats clamp. */
    CHECK(again == ms || ms < INT64_C(-62135596800000) || ms >= INT64_C(253402300800000));
}

static void fuzz_number(struct slice text) {
    uint64_t v, seconds;
    char people[32];
    if (parse_u64(text, UINT64_MAX, &v)) {
        CHECK(v == 0 || !parse_u64(text, v - 1, &v));
        CHECK(!parse_duration(text, &seconds)); /* a duration needs its unit */
    }
    if (parse_bytes(text, &v)) {
        CHECK(v <= INT64_MAX && text.data[0] >= '0' && text.data[0] <= '9');
        format_bytes(v, people);
        CHECK(parse_bytes(slice_str(people), &v) || people[strlen(people) - 3] == 'E');
    }
}

static void fuzz_reader(struct slice text) {
    struct reader r = reader_of(text);
    while (reader_left(&r) > 0 && !r.failed) {
        const uint8_t *from = r.pos;
        uint8_t again[VARINT_MAX];
        uint64_t v = reader_varint(&r);
        if (!r.failed) {
            CHECK(put_varint(again, v) == (size_t)(r.pos - from)); /* the only encoding */
            CHECK(memcmp(again, from, (size_t)(r.pos - from)) == 0);
        } else {
            CHECK(v == 0);
        }
        struct slice blob = reader_blob(&r);
        CHECK(blob.size == 0 || (blob.data >= text.data && blob.data + blob.size <= r.end));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct slice text = slice_of(data + 1, size - 1);
    switch (data[0]) {
    case 'b':
        fuzz_base64(text);
        break;
    case 'x':
        fuzz_hex(text);
        break;
    case 'p':
        fuzz_percent(text);
        break;
    case 'i':
        fuzz_time(text, time_parse_iso8601, time_format_iso8601);
        break;
    case 't':
        fuzz_time(text, time_parse_http, time_format_http);
        break;
    case 'a':
        fuzz_time(text, time_parse_amz, time_format_amz);
        break;
    case 'n':
        fuzz_number(text);
        break;
    case 'v':
        fuzz_reader(text);
        break;
    default:
        break;
    }
    return 0;
}
