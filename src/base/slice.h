/* A borrowed run of bytes. Whoever holds a slice does not own it; the comment beside each use says
 * how long the bytes live. Slices are not NUL-terminated. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data;
    size_t size;
};

#define SLICE_EMPTY      ((struct slice){NULL, 0})
#define SLICE_LITERAL(s) ((struct slice){(const uint8_t *)(s), sizeof(s) - 1})
/* For printf: printf("%.*s", SLICE_PRINT(s)). */
#define SLICE_PRINT(s)   (int)(s).size, (const char *)(s).data

static inline struct slice slice_of(const void *data, size_t size) {
    return (struct slice){(const uint8_t *)data, size};
}

static inline struct slice slice_str(const char *s) {
    return slice_of(s, s == NULL ? 0 : strlen(s));
}

static inline bool slice_equal(struct slice a, struct slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_equal_str(struct slice a, const char *s) {
    return slice_equal(a, slice_str(s));
}

/* Order of bytes, the shorter first when one is a prefix of the other (the order of S3 keys). */
static inline int slice_compare(struct slice a, struct slice b) {
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
    if (c != 0) {
        return c;
    }
    return a.size < b.size ? -1 : a.size > b.size ? 1 : 0;
}

static inline bool slice_starts_with(struct slice s, struct slice prefix) {
    return s.size >= prefix.size &&
           (prefix.size == 0 || memcmp(s.data, prefix.data, prefix.size) == 0);
}

static inline struct slice slice_skip(struct slice s, size_t count) {
    return slice_of(s.data + count, s.size - count);
}

static inline struct slice slice_take(struct slice s, size_t count) {
    return slice_of(s.data, count < s.size ? count : s.size);
}

/* ASCII case-insensitive equality, for HTTP header names. */
bool slice_equal_nocase(struct slice a, struct slice b);

/* Offset of the first occurrence of byte c at or after from, or s.size. */
size_t slice_find(struct slice s, uint8_t c, size_t from);

#endif
