/* The chunked decoder: strict grammar, and the same result for every split of the input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/macros.h"
#include "http/chunked.h"

struct row {
    const char *in;
    const char *content; /* NULL: refused */
    const char *trailers;
    const char *rest;
};

static const struct row rows[] = {
    {"0\r\n\r\n", "", "", ""},
    {"5\r\nhello\r\n0\r\n\r\nGET /", "hello", "", "GET /"},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", "", ""},
    {"a\r\n0123456789\r\nB\r\n0123456789a\r\n00\r\n\r\n", "01234567890123456789a", "", ""},
    {"0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", "", ""},
    {"3;chunk-signature=ab\r\nabc\r\n0;chunk-signature=cd\r\n\r\n", "abc", "", ""},
    {"3;a=\"b c\"\r\nabc\r\n0\r\n\r\n", "abc", "", ""},
    {"0\r\nx-a: 1\r\nx-b:2\r\n\r\nZ", "", "x-a: 1\r\nx-b:2\r\n", "Z"},
    {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", "", ""},
    /* refused */
    {"\r\n", NULL, "", ""},
    {"5\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"5\r\nhello\n0\r\n\r\n", NULL, "", ""},
    {"5\r\nhelloX\r\n0\r\n\r\n", NULL, "", ""},
    {"5\r\nhell\r\n0\r\n\r\n", NULL, "", ""},
    {"0x5\r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"+5\r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"-5\r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {" 5\r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"5 \r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"5 ;a\r\nhello\r\n0\r\n\r\n", NULL, "", ""},
    {"g\r\n", NULL, "", ""},
    {"00000000000000003\r\nabc\r\n0\r\n\r\n", NULL, "", ""},
    {"ffffffffffffffff\r\n", NULL, "", ""},
    {"8000000000000000\r\n", NULL, "", ""},
    {"3\r\r\nabc", NULL, "", ""},
    {"3;\x01\r\nabc\r\n0\r\n\r\n", NULL, "", ""},
    {"3;a\nabc\r\n0\r\n\r\n", NULL, "", ""},
    {"0\r\n\n", NULL, "", ""},
    {"0\r\nx: 1\n\r\n", NULL, "", ""},
    {"0\r\n x: 1\r\n\r\n", NULL, "", ""},
    {"0\r\nx: 1\r\n folded\r\n\r\n", NULL, "", ""},
    {"0\r\nx: \x01\r\n\r\n", NULL, "", ""},
};

struct result {
    int status; /* 0 more, 1 end, negative */
    char content[256];
    size_t content_size;
    size_t consumed;
    uint8_t trailers[HTTP_TRAILER_BYTES_MAX];
    size_t trailer_size;
};

/* Decodes in pieces that end at a, at b and at the end. */
static void decode(const char *in, size_t size, size_t a, size_t b, size_t step,
                   struct result *ret) {
    struct http_chunked c;
    uint8_t piece[256];
    http_chunked_init(&c);
    c.trailers = ret->trailers;
    ret->status = 0;
    ret->content_size = ret->consumed = 0;
    for (size_t at = 0; at < size && ret->status == 0;) {
        size_t end = step > 0 ? at + step : at < a ? a : at < b ? b : size;
        size_t n = MIN(end, size) - at, consumed, produced;
        memcpy(piece, in + at, n);
        ret->status = http_chunked_decode(&c, piece, n, &consumed, &produced);
        memcpy(ret->content + ret->content_size, piece, produced);
        ret->content_size += produced;
        ret->consumed += consumed;
        at += n;
        if (ret->status == 0) {
            assert_int_equal(consumed, n);
        }
    }
    ret->trailer_size = c.trailer_size;
}

static void check(const struct row *r, const struct result *got) {
    size_t size = strlen(r->in);
    if (r->content == NULL) {
        if (got->status != -HL_ERR_SYNTAX) {
            fail_msg("accepted (%d): %s", got->status, r->in);
        }
        return;
    }
    if (got->status != 1) {
        fail_msg("status %d: %s", got->status, r->in);
    }
    assert_int_equal(got->content_size, strlen(r->content));
    assert_memory_equal(got->content, r->content, got->content_size);
    assert_int_equal(got->trailer_size, strlen(r->trailers));
    assert_memory_equal(got->trailers, r->trailers, got->trailer_size);
    assert_int_equal(got->consumed, size - strlen(r->rest));
}

static void every_split_gives_the_same(void **state) {
    static struct result got;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t size = strlen(rows[i].in);
        for (size_t a = 0; a <= size; a++) {
            for (size_t b = a; b <= size; b++) {
                decode(rows[i].in, size, a, b, 0, &got);
                check(&rows[i], &got);
            }
        }
        decode(rows[i].in, size, 0, 0, 1, &got);
        check(&rows[i], &got);
    }
}

static void every_cut_is_incomplete(void **state) {
    static struct result got;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].content == NULL) {
            continue;
        }
        size_t whole = strlen(rows[i].in) - strlen(rows[i].rest);
        for (size_t cut = 0; cut < whole; cut++) {
            decode(rows[i].in, cut, 0, 0, 1, &got);
            assert_int_equal(got.status, 0);
        }
    }
}

/* Lines and trailers are bounded: never-ending ones are refused. */
static int feed_forever(const char *start, const char *repeat, size_t times) {
    struct http_chunked c;
    uint8_t piece[64];
    size_t consumed, produced;
    static uint8_t trailers[HTTP_TRAILER_BYTES_MAX];
    http_chunked_init(&c);
    c.trailers = trailers;
    memcpy(piece, start, strlen(start));
    int status = http_chunked_decode(&c, piece, strlen(start), &consumed, &produced);
    for (size_t i = 0; i < times && status == 0; i++) {
        memcpy(piece, repeat, strlen(repeat));
        status = http_chunked_decode(&c, piece, strlen(repeat), &consumed, &produced);
    }
    return status;
}

static void lines_are_bounded(void **state) {
    assert_int_equal(feed_forever("5;", "x", HTTP_CHUNK_LINE_MAX - 2), 0);
    assert_int_equal(feed_forever("5;", "x", HTTP_CHUNK_LINE_MAX - 1), -HL_ERR_SYNTAX);
    assert_int_equal(feed_forever("0\r\nx:", "y", HTTP_TRAILER_BYTES_MAX - 2), 0);
    assert_int_equal(feed_forever("0\r\nx:", "y", HTTP_TRAILER_BYTES_MAX), -HL_ERR_SYNTAX);
    assert_int_equal(feed_forever("0\r\n", "a: b\r\n", 100000), -HL_ERR_SYNTAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same),
        cmocka_unit_test(every_cut_is_incomplete),
        cmocka_unit_test(lines_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
