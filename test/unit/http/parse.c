/* The head parser: what is refused, what is accepted, and that the split into reads never matters.
 * The expectations are written from RFC 9110 and 9112, case by case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "http/parse.h"

#define MORE        -1
#define HEAD_MAX    600
#define HOST        "Host: h\r\n"
#define GET(fields) "GET / HTTP/1.1\r\n" HOST fields "\r\n"
#define LINE(line)  line "\r\n" HOST "\r\n"

struct row {
    const char *name;
    const char *bytes;
    size_t size; /* 0: strlen */
    int status;  /* 0: accepted, MORE: incomplete */
};
#define ROW(name, bytes, status)                                                                   \
    { name, bytes, sizeof(bytes) - 1, status }

static const struct row rows[] = {
    ROW("simple", GET(""), 0),
    ROW("1.0 without host", "GET / HTTP/1.0\r\n\r\n", 0),
    ROW("one empty line before", "\r\n" GET(""), 0),
    ROW("two empty lines before", "\r\n\r\n" GET(""), 400),
    ROW("incomplete", "GET / HTTP/1.1\r\nHost: h\r\n", MORE),
    ROW("nothing", "", MORE),
    ROW("a lone CR", "\r", MORE),
    /* line ends: RFC 9112 2.2 */
    ROW("bare LF after request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
    ROW("bare LF after field", "GET / HTTP/1.1\r\nHost: h\n\r\n", 400),
    ROW("bare LF as end", "GET / HTTP/1.1\r\nHost: h\r\n\n", 400),
    ROW("bare CR in value", GET("X: a\rb\r\n"), 400),
    ROW("bare CR in target", LINE("GET /\r HTTP/1.1"), 400),
    ROW("CR CR LF", "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", 400),
    ROW("TLS hello", "\x16\x03\x01\x02\x00", 400),
    ROW("space first", " GET / HTTP/1.1\r\n", 400),
    /* request line: RFC 9112 3 */
    ROW("method with slash", LINE("G/T / HTTP/1.1"), 400),
    ROW("method of 32", LINE("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1"), 0),
    ROW("method of 33", LINE("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1"), 400),
    ROW("unknown method", LINE("BREW / HTTP/1.1"), 0),
    ROW("no method", LINE("/ HTTP/1.1"), 400),
    ROW("0.9", LINE("GET /"), 400),
    ROW("two spaces", LINE("GET  / HTTP/1.1"), 400),
    ROW("two spaces before version", LINE("GET /  HTTP/1.1"), 400),
    ROW("tab for space", LINE("GET\t/ HTTP/1.1"), 400),
    ROW("trailing space", LINE("GET / HTTP/1.1 "), 400),
    ROW("lower-case version", LINE("GET / http/1.1"), 400),
    ROW("version 2.0", LINE("GET / HTTP/2.0"), 505),
    ROW("version 1.2", LINE("GET / HTTP/1.2"), 505),
    ROW("version 1.10", LINE("GET / HTTP/1.10"), 400),
    ROW("version 1,1", LINE("GET / HTTP/1,1"), 400),
    ROW("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    /* targets: RFC 9112 3.2 */
    ROW("space in target", LINE("GET /a b HTTP/1.1"), 400),
    ROW("non-ASCII target", LINE("GET /\xc3\xa4 HTTP/1.1"), 400),
    ROW("NUL in target", LINE("GET /a\0b HTTP/1.1"), 400),
    ROW("DEL in target", LINE("GET /a\x7f HTTP/1.1"), 400),
    ROW("fragment", LINE("GET /a#b HTTP/1.1"), 400),
    ROW("odd but visible", LINE("GET /%2F//..{}|^`\"<>\\?a?b=/ HTTP/1.1"), 0),
    ROW("relative", LINE("GET a/b HTTP/1.1"), 400),
    ROW("absolute", LINE("GET http://x/y HTTP/1.1"), 0),
    ROW("absolute https", LINE("GET HTTPS://x:1/y HTTP/1.1"), 0),
    ROW("absolute without authority", LINE("GET http:///y HTTP/1.1"), 400),
    ROW("absolute with user", LINE("GET http://u@x/y HTTP/1.1"), 400),
    ROW("other scheme", LINE("GET ftp://x/y HTTP/1.1"), 400),
    ROW("authority form", LINE("CONNECT h:80 HTTP/1.1"), 400),
    ROW("asterisk", LINE("OPTIONS * HTTP/1.1"), 0),
    ROW("asterisk with GET", LINE("GET * HTTP/1.1"), 400),
    /* host: RFC 9112 3.2 */
    ROW("no host", "GET / HTTP/1.1\r\n\r\n", 400),
    ROW("two hosts", GET("host: h\r\n"), 400),
    ROW("two hosts in 1.0", "GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400),
    ROW("empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 0),
    ROW("host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ROW("host with user", "GET / HTTP/1.1\r\nHost: u@b\r\n\r\n", 400),
    ROW("host with space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ROW("host IPv6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0),
    /* fields: RFC 9112 5 */
    ROW("space before colon", GET("X : a\r\n"), 400),
    ROW("length with space before colon", GET("Content-Length : 3\r\n"), 400),
    ROW("tab before colon", GET("X\t: a\r\n"), 400),
    ROW("folded", GET("X: a\r\n b\r\n"), 400),
    ROW("folded by tab", GET("X: a\r\n\tb\r\n"), 400),
    ROW("folded first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400),
    ROW("no colon", GET("X\r\n"), 400),
    ROW("empty name", GET(": a\r\n"), 400),
    ROW("name with slash", GET("X/Y: a\r\n"), 400),
    ROW("name with NUL", GET("X\0: a\r\n"), 400),
    ROW("non-ASCII name", GET("\xc3\xa4: a\r\n"), 400),
    ROW("NUL in value", GET("X: a\0b\r\n"), 400),
    ROW("BEL in value", GET("X: \x07\r\n"), 400),
    ROW("DEL in value", GET("X: \x7f\r\n"), 400),
    ROW("tab in value", GET("X: a\tb\r\n"), 0),
    ROW("UTF-8 value", GET("X: \xc3\xa4\r\n"), 0),
    ROW("empty value", GET("X:\r\n"), 0),
    ROW("token punctuation in name", GET("!#$%&'*+-.^_`|~0a: 1\r\n"), 0),
    /* lengths: RFC 9112 6 */
    ROW("length", GET("Content-Length: 12\r\n"), 0),
    ROW("length of zeros", GET("Content-Length: 0000\r\n"), 0),
    ROW("two lengths", GET("Content-Length: 3\r\ncontent-length: 4\r\n"), 400),
    ROW("the same length twice", GET("Content-Length: 3\r\nContent-Length: 3\r\n"), 400),
    ROW("a list of lengths", GET("Content-Length: 3, 3\r\n"), 400),
    ROW("plus", GET("Content-Length: +5\r\n"), 400),
    ROW("minus", GET("Content-Length: -5\r\n"), 400),
    ROW("hex", GET("Content-Length: 0x5\r\n"), 400),
    ROW("fraction", GET("Content-Length: 5.0\r\n"), 400),
    ROW("inner space", GET("Content-Length: 5 5\r\n"), 400),
    ROW("empty length", GET("Content-Length:\r\n"), 400),
    ROW("largest", GET("Content-Length: 9223372036854775807\r\n"), 0),
    ROW("2^63", GET("Content-Length: 9223372036854775808\r\n"), 400),
    ROW("20 digits", GET("Content-Length: 00000000000000000005\r\n"), 400),
    ROW("length with vertical tab",
        GET("Content-Length: \x0b"
            "5\r\n"),
        400),
    ROW("chunked", GET("Transfer-Encoding: chunked\r\n"), 0),
    ROW("Chunked", GET("transfer-encoding:\tCHUNKED \r\n"), 0),
    ROW("chunked and length", GET("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400),
    ROW("length and chunked", GET("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400),
    ROW("gzip and length", GET("Content-Length: 3\r\nTransfer-Encoding: gzip\r\n"), 400),
    ROW("gzip, chunked", GET("Transfer-Encoding: gzip, chunked\r\n"), 501),
    ROW("gzip", GET("Transfer-Encoding: gzip\r\n"), 501),
    ROW("identity", GET("Transfer-Encoding: identity\r\n"), 501),
    ROW("xchunked", GET("Transfer-Encoding: xchunked\r\n"), 501),
    ROW("chunked, chunked", GET("Transfer-Encoding: chunked, chunked\r\n"), 501),
    ROW("empty coding", GET("Transfer-Encoding:\r\n"), 501),
    ROW("two codings", GET("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400),
    ROW("chunked twice", GET("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400),
    ROW("coding with vertical tab",
        GET("Transfer-Encoding: \x0b"
            "chunked\r\n"),
        400),
    ROW("coding with quotes", GET("Transfer-Encoding: \"chunked\"\r\n"), 501),
    ROW("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ROW("space before colon of coding", GET("Transfer-Encoding : chunked\r\n"), 400),
    /* others */
    ROW("expect nonsense", GET("Expect: 200-ok\r\n"), 0),
    ROW("expect empty", GET("Expect:\r\n"), 0),
};

/* Feeds one byte more at a time, as the slowest client; returns as soon as the scan decides. */
static int parse_split(const uint8_t *bytes, size_t size, size_t step, struct http_header *headers,
                       struct http_head *head) {
    size_t pos = 0, end = 0;
    for (size_t have = MIN(step, size);; have = MIN(have + step, size)) {
        switch (http_scan_head(bytes, have, HEAD_MAX, &pos, &end)) {
        case HTTP_SCAN_COMPLETE:
            return http_parse_head(bytes, end, headers, 8, head);
        case HTTP_SCAN_BAD:
            return 400;
        case HTTP_SCAN_TOO_LONG:
            return 431;
        case HTTP_SCAN_MORE:
            break;
        }
        if (have == size) {
            return MORE;
        }
    }
}

static void every_case_has_its_status(void **state) {
    struct http_header headers[8];
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        for (size_t step = 1; step <= r->size + 1; step++) {
            struct http_head head = {0};
            int status = parse_split((const uint8_t *)r->bytes, r->size, step, headers, &head);
            if (status != r->status) {
                fail_msg("%s, %zu bytes a read: %d, expected %d", r->name, step, status, r->status);
            }
        }
    }
}

static void fields_are_slices_of_the_input(void **state) {
    static const char bytes[] = "PUT /b/%41?x=1&y HTTP/1.1\r\nhOsT:  b.example:3900 \r\n"
                                "X-Amz-Meta-A:\t a  b \r\nEXPECT: 100-Continue\r\n"
                                "Content-Length: 42\r\nconnection: Keep-Alive , CLOSE\r\n\r\nrest";
    struct http_header headers[8];
    struct http_head head = {0};
    assert_int_equal(parse_split((const uint8_t *)bytes, sizeof(bytes) - 1, 7, headers, &head), 0);
    assert_true(slice_equal_str(head.method, "PUT"));
    assert_true(slice_equal_str(head.target, "/b/%41?x=1&y"));
    assert_true(slice_equal_str(head.path, "/b/%41"));
    assert_true(slice_equal_str(head.query, "x=1&y"));
    assert_true(slice_equal_str(head.host, "b.example:3900"));
    assert_int_equal(head.header_count, 5);
    assert_true(slice_equal_str(head.headers[0].name, "hOsT"));
    assert_true(slice_equal_str(
        http_find_header(head.headers, head.header_count, SLICE_LITERAL("x-amz-META-a")), "a  b"));
    assert_null(http_find_header(head.headers, head.header_count, SLICE_LITERAL("x")).data);
    assert_true(head.has_length && head.length == 42 && !head.chunked);
    assert_true(head.expect_continue && head.close && !head.http_1_0);
}

static void parse_line(const char *line, struct http_head *head) {
    static struct http_header headers[8];
    static char bytes[300];
    int size = snprintf(bytes, sizeof(bytes), "%s\r\nHost: field\r\n\r\n", line);
    assert_int_equal(parse_split((uint8_t *)bytes, (size_t)size, 300, headers, head), 0);
}

static void absolute_targets_are_normalised(void **state) {
    struct http_head head;
    parse_line("GET http://target:80/p/q?r HTTP/1.1", &head);
    assert_true(slice_equal_str(head.host, "target:80")); /* wins over the field: RFC 9112 3.2.2 */
    assert_true(slice_equal_str(head.path, "/p/q"));
    assert_true(slice_equal_str(head.query, "r"));
    assert_true(slice_equal_str(head.target, "http://target:80/p/q?r"));
    parse_line("GET http://target HTTP/1.1", &head);
    assert_true(slice_equal_str(head.path, "/"));
    assert_int_equal(head.query.size, 0);
    parse_line("GET http://target?q HTTP/1.1", &head);
    assert_true(slice_equal_str(head.path, "/"));
    assert_true(slice_equal_str(head.query, "q"));
    parse_line("GET /? HTTP/1.1", &head);
    assert_true(slice_equal_str(head.host, "field"));
    assert_int_equal(head.query.size, 0);
}

static void limits_hold(void **state) {
    struct http_header headers[8];
    struct http_head head;
    static char bytes[2000];
    /* nine fields, room for eight */
    static const char eight[] =
        "A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\nHost: h\r\n";
    size_t size = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\n%s\r\n", eight);
    assert_int_equal(parse_split((uint8_t *)bytes, size, 1, headers, &head), 0);
    size = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\n%sA: 9\r\n\r\n", eight);
    assert_int_equal(parse_split((uint8_t *)bytes, size, 1, headers, &head), 431);
    /* a head of exactly HEAD_MAX bytes, and of one more */
    for (int extra = 0; extra < 2; extra++) {
        size = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: h\r\nX: ");
        memset(bytes + size, 'x', HEAD_MAX - size - 4 + (size_t)extra);
        memcpy(bytes + HEAD_MAX - 4 + extra, "\r\n\r\n", 4);
        for (size_t step = 1; step < 700; step += 3) {
            assert_int_equal(
                parse_split((uint8_t *)bytes, HEAD_MAX + (size_t)extra, step, headers, &head),
                extra == 0 ? 0 : 431);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_has_its_status),
        cmocka_unit_test(fields_are_slices_of_the_input),
        cmocka_unit_test(absolute_targets_are_normalised),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
