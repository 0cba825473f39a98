/* Numbers, sizes and durations as people write them in configuration and on command lines. Pure
 * functions; what is too large is refused, nothing wraps. */
#include <stdio.h>

#include "base/text.h"

bool parse_u64(struct slice text, uint64_t max, uint64_t *ret) {
    uint64_t v = 0;
    if (text.size == 0) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(c - '0'), &v)) {
            return false;
        }
    }
    if (v > max) {
        return false;
    }
    *ret = v;
    return true;
}

static size_t count_digits(struct slice text) {
    size_t n = 0;
    while (n < text.size && text.data[n] >= '0' && text.data[n] <= '9') {
        n++;
    }
    return n;
}

/* "", "B", "K", "KB", "Ki", "KiB" and so on, either case, after any spaces. */
static bool parse_byte_unit(struct slice text, uint64_t *ret) {
    static const char letters[] = "KMGTP";
    while (text.size > 0 && text.data[0] == ' ') {
        text = slice_skip(text, 1);
    }
    uint64_t unit = 1;
    const char *letter =
        text.size == 0 ? NULL : memchr(letters, text.data[0] & ~0x20, sizeof(letters) - 1);
    if (letter != NULL) {
        text = slice_skip(text, 1);
        bool binary = text.size > 0 && (text.data[0] | 0x20) == 'i';
        text = slice_skip(text, binary);
        for (int i = 0; i <= letter - letters; i++) {
            unit *= binary ? 1024 : 1000;
        }
    }
    if (text.size > 0 && (text.data[0] | 0x20) == 'b') {
        text = slice_skip(text, 1);
    }
    *ret = unit;
    return text.size == 0;
}

/* At most 9 digits after the point: with them the product below stays within 128 bits. */
#define FRACTION_DIGITS_MAX 9

bool parse_bytes(struct slice text, uint64_t *ret) {
    size_t digits = count_digits(text);
    uint64_t whole, fraction = 0, scale = 1, unit;
    if (!parse_u64(slice_take(text, digits), UINT64_MAX, &whole)) {
        return false;
    }
    text = slice_skip(text, digits);
    if (text.size > 0 && text.data[0] == '.') {
        text = slice_skip(text, 1);
        digits = count_digits(text);
        if (digits > FRACTION_DIGITS_MAX ||
            !parse_u64(slice_take(text, digits), UINT64_MAX, &fraction)) {
            return false;
        }
        text = slice_skip(text, digits);
        for (size_t i = 0; i < digits; i++) {
            scale *= 10;
        }
    }
    if (!parse_byte_unit(text, &unit) || (scale > 1 && unit == 1)) {
        return false; /* there is no half byte */
    }
    uint64_t bytes;
    uint64_t part = (uint64_t)((unsigned __int128)fraction * unit / scale);
    if (__builtin_mul_overflow(whole, unit, &bytes) ||
        __builtin_add_overflow(bytes, part, &bytes) || bytes > INT64_MAX) {
        return false; /* beyond INT64_MAX no file offset goes */
    }
    *ret = bytes;
    return true;
}

bool parse_duration(struct slice text, uint64_t *ret_seconds) {
    static const struct {
        char letter;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    uint64_t count;
    if (text.size < 2 || !parse_u64(slice_take(text, text.size - 1), UINT32_MAX, &count)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        if (text.data[text.size - 1] == (uint8_t)units[i].letter) {
            *ret_seconds = count * units[i].seconds;
            return true;
        }
    }
    return false;
}

void format_bytes(uint64_t bytes, char ret[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned power = 0;
    uint64_t unit = 1;
    while (power + 1 < ARRAY_COUNT(units) && bytes / unit >= 1024) {
        unit *= 1024;
        power++;
    }
    if (power == 0) {
        snprintf(ret, 32, "%llu B", (unsigned long long)bytes);
        return;
    }
    /* Rounded to tenths in integers, so that the result does not depend on floating point. */
    uint64_t whole = bytes / unit, rest = bytes % unit;
    uint64_t tenths = whole * 10 + (uint64_t)(((unsigned __int128)rest * 10 + unit / 2) / unit);
    if (tenths >= 10240 && power + 1 < ARRAY_COUNT(units)) {
        tenths = 10;
        power++;
    }
    snprintf(ret, 32, "%llu.%llu %s", (unsigned long long)(tenths / 10),
             (unsigned long long)(tenths % 10), units[power]);
}
