/* Heads built by hand, for tests: a request line and header lines as text. */
#ifndef TEST_S3_HEAD_H
#define TEST_S3_HEAD_H

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/server.h"

#define TEST_HEADERS_MAX 64
#define TEST_KEY         "AKIAIOSFODNN7EXAMPLE"
#define TEST_SECRET      "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

struct test_head {
    struct http_head head;
    struct http_header headers[TEST_HEADERS_MAX];
    bool bad_length;
};

/* All text is borrowed. */
static inline void test_head_init(struct test_head *t, const char *method, const char *target) {
    memset(t, 0, sizeof(*t));
    t->head.method = slice_str(method);
    t->head.target = slice_str(target);
    size_t question = slice_find(t->head.target, '?', 0);
    t->head.path = slice_take(t->head.target, question);
    if (question < t->head.target.size) {
        t->head.query = slice_skip(t->head.target, question + 1);
    }
    t->head.headers = t->headers;
}

/* Trims the value as the HTTP server does, and reads the framing headers. */
static inline void test_head_add(struct test_head *t, struct slice name, struct slice value) {
    while (value.size > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) {
        value = slice_skip(value, 1);
    }
    while (value.size > 0 &&
           (value.data[value.size - 1] == ' ' || value.data[value.size - 1] == '\t')) {
        value.size--;
    }
    if (t->head.header_count < TEST_HEADERS_MAX) {
        t->headers[t->head.header_count++] = (struct http_header){name, value};
    }
    if (slice_equal_nocase(name, slice_str("content-length"))) {
        t->head.has_length = parse_u64(value, UINT64_MAX, &t->head.length);
    }
    if (slice_equal_nocase(name, slice_str("transfer-encoding"))) {
        t->head.chunked = true;
    }
}

static inline void test_head_header(struct test_head *t, const char *name, const char *value) {
    test_head_add(t, slice_str(name), slice_str(value));
}

#endif
