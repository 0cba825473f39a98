/* Hexadecimal, base64 and percent codecs and the UTF-8 check. Pure functions over borrowed bytes,
 * any thread. Decoders are strict: each value has exactly one accepted spelling (case of
 * hexadecimal digits aside), because signatures and checksums are compared after decoding. Times
 * live in text_time.c, numbers in text_number.c. */
#include "base/text.h"

static const char hex_lower[] = "0123456789abcdef";
static const char hex_upper[] = "0123456789ABCDEF";

/* The value of a hexadecimal digit of either case, or -1. */
static int hex_value(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void hex_encode(const void *data, size_t size, char *ret) {
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        *ret++ = hex_lower[p[i] >> 4];
        *ret++ = hex_lower[p[i] & 15];
    }
    *ret = 0;
}

bool hex_decode(struct slice text, uint8_t *ret, size_t size) {
    if (text.size / 2 != size || text.size % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        int high = hex_value(text.data[2 * i]);
        int low = hex_value(text.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ---- base64 ---- */

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t size, char *ret) {
    const uint8_t *p = data;
    for (; size >= 3; size -= 3, p += 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        *ret++ = base64_alphabet[v >> 18];
        *ret++ = base64_alphabet[v >> 12 & 63];
        *ret++ = base64_alphabet[v >> 6 & 63];
        *ret++ = base64_alphabet[v & 63];
    }
    if (size > 0) {
        uint32_t v = (uint32_t)p[0] << 16 | (size == 2 ? (uint32_t)p[1] << 8 : 0);
        *ret++ = base64_alphabet[v >> 18];
        *ret++ = base64_alphabet[v >> 12 & 63];
        *ret++ = size == 2 ? base64_alphabet[v >> 6 & 63] : '=';
        *ret++ = '=';
    }
    *ret = 0;
}

static int base64_value(uint8_t c) {
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

/* Four characters of which the first `count` carry data; false on a foreign character or on unused
 * bits that are set. */
static bool base64_group(const uint8_t *text, int count, uint32_t *ret) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int value = i < count ? base64_value(text[i]) : 0;
        if (value < 0) {
            return false;
        }
        v = v << 6 | (uint32_t)value;
    }
    *ret = v;
    return count == 4 || (v & (count == 3 ? 0xffu : 0xffffu)) == 0;
}

bool base64_decode(struct slice text, uint8_t *ret, size_t ret_max, size_t *ret_size) {
    if (text.size % 4 != 0) {
        return false;
    }
    size_t padding = 0;
    if (text.size > 0 && text.data[text.size - 1] == '=') {
        padding = text.data[text.size - 2] == '=' ? 2 : 1;
    }
    size_t size = text.size / 4 * 3 - padding;
    if (size > ret_max) {
        return false;
    }
    size_t done = 0;
    for (size_t i = 0; i < text.size; i += 4) {
        int count = i + 4 == text.size ? 4 - (int)padding : 4;
        uint32_t v;
        if (!base64_group(text.data + i, count, &v)) {
            return false;
        }
        for (int shift = 16; shift >= 0 && done < size; shift -= 8) {
            ret[done++] = (uint8_t)(v >> shift);
        }
    }
    *ret_size = size;
    return true;
}

/* ---- percent-encoding ---- */

/* RFC 3986 section 2.3. */
static bool is_unreserved(uint8_t c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void percent_encode(struct buf *out, struct slice s, bool keep_slash) {
    size_t from = 0;
    for (size_t i = 0; i < s.size; i++) {
        uint8_t c = s.data[i];
        if (is_unreserved(c) || (keep_slash && c == '/')) {
            continue;
        }
        buf_append(out, s.data + from, i - from);
        char escape[3] = {'%', hex_upper[c >> 4], hex_upper[c & 15]};
        buf_append(out, escape, sizeof(escape));
        from = i + 1;
    }
    if (from < s.size) { /* an empty slice may have no address to add to */
        buf_append(out, s.data + from, s.size - from);
    }
}

bool percent_decode(struct buf *out, struct slice s) {
    size_t from = 0;
    for (size_t i = slice_find(s, '%', 0); i < s.size; i = slice_find(s, '%', from)) {
        buf_append(out, s.data + from, i - from);
        if (s.size - i < 3) {
            return false;
        }
        int high = hex_value(s.data[i + 1]);
        int low = hex_value(s.data[i + 2]);
        if (high < 0 || low < 0) {
            return false;
        }
        buf_append_u8(out, (uint8_t)(high << 4 | low));
        from = i + 3;
    }
    if (from < s.size) { /* an empty slice may have no address to add to */
        buf_append(out, s.data + from, s.size - from);
    }
    return true;
}

/* ---- UTF-8 ---- */

/* The length of the well-formed sequence at p, or 0 (Unicode 15, table 3-7: no overlong forms, no
 * surrogates, nothing above U+10FFFF). */
static size_t utf8_sequence(const uint8_t *p, size_t left) {
    uint8_t first = p[0];
    if (first < 0x80) {
        return 1;
    }
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < size) {
        return 0;
    }
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

bool utf8_valid(struct slice s) {
    size_t i = 0;
    while (i < s.size) {
        size_t n = utf8_sequence(s.data + i, s.size - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}
