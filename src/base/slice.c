/* The slice functions that are too long for the header. Any thread. */
#include "base/slice.h"

static uint8_t lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

bool slice_equal_nocase(struct slice a, struct slice b) {
    if (a.size != b.size) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

size_t slice_find(struct slice s, uint8_t c, size_t from) {
    if (from >= s.size) {
        return s.size;
    }
    const uint8_t *p = memchr(s.data + from, c, s.size - from);
    return p == NULL ? s.size : (size_t)(p - s.data);
}
