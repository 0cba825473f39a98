/* Hexadecimal, base64, percent-encoding, UTF-8 and numbers. Strict decoders: what has two spellings
 * is refused. Pure. */
#include "base/text.h"

#include <stdio.h>

/* ---- hexadecimal ---- */

void hex_encode(const void *data, size_t size, char *ret) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        ret[2 * i] = digits[p[i] >> 4];
        ret[2 * i + 1] = digits[p[i] & 15];
    }
    ret[2 * size] = 0;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(struct slice text, uint8_t *ret, size_t size) {
    if (text.size != 2 * size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ---- base64 ---- */

void base64_encode(const void *data, size_t size, char *ret) {
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;
    for (; size >= 3; size -= 3, p += 3) {
        *ret++ = alphabet[p[0] >> 2];
        *ret++ = alphabet[(p[0] & 3) << 4 | p[1] >> 4];
        *ret++ = alphabet[(p[1] & 15) << 2 | p[2] >> 6];
        *ret++ = alphabet[p[2] & 63];
    }
    if (size > 0) {
        uint8_t second = size == 2 ? p[1] : 0;
        *ret++ = alphabet[p[0] >> 2];
        *ret++ = alphabet[(p[0] & 3) << 4 | second >> 4];
        *ret++ = size == 2 ? alphabet[(second & 15) << 2] : '=';
        *ret++ = '=';
    }
    *ret = 0;
}

static int base64_digit(uint8_t c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters to at most three bytes; returns their count or 0 when malformed. */
static size_t base64_quad(const uint8_t *p, bool last, uint8_t ret[3]) {
    size_t padding = last ? (size_t)(p[3] == '=') + (size_t)(p[3] == '=' && p[2] == '=') : 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i >= 4 - padding ? 0 : base64_digit(p[i]);
        if (digit < 0) {
            return 0;
        }
        bits = bits << 6 | (uint32_t)digit;
    }
    if ((padding == 1 && (bits & 0xff) != 0) || (padding == 2 && (bits & 0xffff) != 0)) {
        return 0; /* unused bits must be zero */
    }
    ret[0] = (uint8_t)(bits >> 16);
    ret[1] = (uint8_t)(bits >> 8);
    ret[2] = (uint8_t)bits;
    return 3 - padding;
}

bool base64_decode(struct slice text, uint8_t *ret, size_t ret_max, size_t *ret_size) {
    size_t size = 0;
    if (text.size % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < text.size; i += 4) {
        uint8_t bytes[3];
        size_t n = base64_quad(text.data + i, i + 4 == text.size, bytes);
        if (n == 0 || n > ret_max - size) {
            return false;
        }
        memcpy(ret + size, bytes, n);
        size += n;
    }
    *ret_size = size;
    return true;
}

/* ---- percent-encoding and UTF-8 ---- */

static bool unreserved(uint8_t c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void percent_encode(struct buf *out, struct slice s, bool keep_slash) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.size; i++) {
        uint8_t c = s.data[i];
        if (unreserved(c) || (c == '/' && keep_slash)) {
            buf_append_u8(out, c);
        } else {
            char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
            buf_append(out, escaped, sizeof(escaped));
        }
    }
}

bool percent_decode(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.size; i++) {
        uint8_t c = s.data[i];
        if (c == '%') {
            if (s.size - i < 3 || !hex_decode(slice_of(s.data + i + 1, 2), &c, 1)) {
                return false;
            }
            i += 2;
        }
        buf_append_u8(out, c);
    }
    return true;
}

/* RFC 3629: shortest form, no surrogates, at most U+10FFFF. */
static size_t utf8_sequence(const uint8_t *p, size_t left) {
    if (p[0] < 0x80) {
        return 1;
    }
    size_t size = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < size) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
               (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return bad ? 0 : size;
}

bool utf8_valid(struct slice s) {
    for (size_t i = 0; i < s.size;) {
        size_t n = utf8_sequence(s.data + i, s.size - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

/* ---- numbers ---- */

bool parse_u64(struct slice text, uint64_t max, uint64_t *ret) {
    uint64_t v = 0;
    if (text.size == 0 || text.size > 20) {
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

/* The unit's factor, or 0. "" and "B" are 1; K, KB are 1000, KiB 1024, and so on. */
static uint64_t unit_factor(struct slice unit) {
    static const char letters[] = "KMGTP";
    if (unit.size > 0 && (unit.data[unit.size - 1] | 0x20) == 'b') {
        unit.size--;
    }
    if (unit.size == 0) {
        return 1;
    }
    bool binary = unit.size == 2 && (unit.data[1] | 0x20) == 'i';
    const char *letter = strchr(letters, unit.data[0] & ~0x20);
    if (letter == NULL || *letter == 0 || unit.size != (binary ? 2u : 1u)) {
        return 0;
    }
    uint64_t factor = 1;
    for (const char *p = letters; p <= letter; p++) {
        factor *= binary ? 1024 : 1000;
    }
    return factor;
}

/* A fraction has at most three digits: "1.5 GiB". */
static bool parse_thousandths(struct slice text, uint64_t *ret) {
    size_t dot = slice_find(text, '.', 0);
    uint64_t whole, part = 0;
    if (!parse_u64(slice_take(text, dot), UINT64_MAX / 1000 - 1, &whole)) {
        return false;
    }
    if (dot < text.size) {
        struct slice digits = slice_skip(text, dot + 1);
        if (digits.size > 3 || !parse_u64(digits, 999, &part)) {
            return false;
        }
        for (size_t i = digits.size; i < 3; i++) {
            part *= 10;
        }
    }
    *ret = whole * 1000 + part;
    return true;
}

bool parse_bytes(struct slice text, uint64_t *ret) {
    size_t digits = 0;
    while (digits < text.size &&
           ((text.data[digits] >= '0' && text.data[digits] <= '9') || text.data[digits] == '.')) {
        digits++;
    }
    struct slice unit = slice_skip(text, digits);
    while (unit.size > 0 && unit.data[0] == ' ') {
        unit = slice_skip(unit, 1);
    }
    uint64_t thousandths, factor = unit_factor(unit);
    unsigned __int128 value;
    if (factor == 0 || !parse_thousandths(slice_take(text, digits), &thousandths)) {
        return false;
    }
    value = (unsigned __int128)thousandths * factor / 1000;
    if (value > INT64_MAX) {
        return false;
    }
    *ret = (uint64_t)value;
    return true;
}

bool parse_duration(struct slice text, uint64_t *ret_seconds) {
    static const struct {
        char unit;
        uint32_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    uint64_t n;
    if (text.size < 2 || !parse_u64(slice_take(text, text.size - 1), UINT32_MAX, &n)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        if (text.data[text.size - 1] == units[i].unit) {
            *ret_seconds = n * units[i].seconds;
            return true;
        }
    }
    return false;
}

void format_bytes(uint64_t bytes, char ret[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < ARRAY_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(ret, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
