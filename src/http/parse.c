/* Strict parsing of request heads. What is refused here is what proxies and servers disagree about
 * (request smuggling): bare LF or CR, folded lines, space before the colon, control characters,
 * repeated Content-Length or Host, any Transfer-Encoding but a single "chunked", both lengths at
 * once. Only byte classes and slices: no memory, no clock, no socket. */
#include "http/parse.h"

#include <string.h>

#define METHOD_BYTES_MAX  32
#define LENGTH_DIGITS_MAX 19

/* Byte classes. */
enum { TOKEN = 1, TARGET = 2, VALUE = 4, HOST = 8 };
static const uint8_t byte_class[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = TOKEN | TARGET | VALUE | HOST,
    ['"'] = TARGET | VALUE,
    ['#'] = TOKEN | VALUE, /* a fragment is not part of a target */
    ['$'] = TOKEN | TARGET | VALUE | HOST,
    ['%'] = TOKEN | TARGET | VALUE | HOST,
    ['&'] = TOKEN | TARGET | VALUE | HOST,
    ['\''] = TOKEN | TARGET | VALUE | HOST,
    ['('] = TARGET | VALUE | HOST,
    [')'] = TARGET | VALUE | HOST,
    ['*'] = TOKEN | TARGET | VALUE | HOST,
    ['+'] = TOKEN | TARGET | VALUE | HOST,
    [','] = TARGET | VALUE | HOST,
    ['-'] = TOKEN | TARGET | VALUE | HOST,
    ['.'] = TOKEN | TARGET | VALUE | HOST,
    ['/'] = TARGET | VALUE,
    ['0' ... '9'] = TOKEN | TARGET | VALUE | HOST,
    [':'] = TARGET | VALUE | HOST,
    [';'] = TARGET | VALUE | HOST,
    ['<'] = TARGET | VALUE,
    ['='] = TARGET | VALUE | HOST,
    ['>' ... '@'] = TARGET | VALUE,
    ['A' ... 'Z'] = TOKEN | TARGET | VALUE | HOST,
    ['['] = TARGET | VALUE | HOST,
    ['\\'] = TARGET | VALUE,
    [']'] = TARGET | VALUE | HOST,
    ['^'] = TOKEN | TARGET | VALUE,
    ['_'] = TOKEN | TARGET | VALUE | HOST,
    ['`'] = TOKEN | TARGET | VALUE,
    ['a' ... 'z'] = TOKEN | TARGET | VALUE | HOST,
    ['{'] = TARGET | VALUE,
    ['|'] = TOKEN | TARGET | VALUE,
    ['}'] = TARGET | VALUE,
    ['~'] = TOKEN | TARGET | VALUE | HOST,
    [0x80 ... 0xff] = VALUE,
};

static bool all_of(struct slice s, uint8_t class) {
    uint8_t common = class;
    for (size_t i = 0; i < s.size; i++) {
        common &= byte_class[s.data[i]];
    }
    return common != 0;
}

bool http_is_token(struct slice s) {
    return s.size > 0 && all_of(s, TOKEN);
}

static bool equal_nocase(struct slice s, const char *text) {
    return slice_equal_nocase(s, slice_str(text));
}

/* ---- the end of the head ---- */

/* RFC 9112 2.2: one empty line before the request line is ignored. */
static size_t skip_empty_line(const uint8_t *data, size_t size) {
    return size >= 2 && data[0] == '\r' && data[1] == '\n' ? 2 : 0;
}

enum http_scan http_scan_head(const uint8_t *data, size_t size, size_t head_bytes_max, size_t *pos,
                              size_t *ret_end) {
    size_t limit = size < head_bytes_max ? size : head_bytes_max;
    size_t start = skip_empty_line(data, limit);
    if (start == 0 && limit == 1 && data[0] == '\r') {
        return HTTP_SCAN_MORE;
    }
    if (limit > start && (byte_class[data[start]] & TOKEN) == 0) {
        return HTTP_SCAN_BAD;
    }
    size_t at = *pos > start ? *pos : start;
    while (at < limit) {
        const uint8_t *lf = memchr(data + at, '\n', limit - at);
        if (lf == NULL) {
            break;
        }
        size_t i = (size_t)(lf - data);
        if (i == start || data[i - 1] != '\r') {
            return HTTP_SCAN_BAD;
        }
        if (i >= start + 3 && data[i - 2] == '\n') {
            *ret_end = i + 1;
            return HTTP_SCAN_COMPLETE;
        }
        at = i + 1;
    }
    *pos = limit;
    return limit < head_bytes_max ? HTTP_SCAN_MORE : HTTP_SCAN_TOO_LONG;
}

/* ---- the request line ---- */

/* "HTTP/1.1", "HTTP/1.0"; other versions of the same form are 505. */
static int parse_version(struct slice s, struct http_head *head) {
    if (slice_equal_str(s, "HTTP/1.1")) {
        return 0;
    }
    if (slice_equal_str(s, "HTTP/1.0")) {
        head->http_1_0 = true;
        return 0;
    }
    bool is_version = s.size == 8 && slice_starts_with(s, SLICE_LITERAL("HTTP/")) &&
                      s.data[5] >= '0' && s.data[5] <= '9' && s.data[6] == '.' &&
                      s.data[7] >= '0' && s.data[7] <= '9';
    return is_version ? 505 : 400;
}

static bool valid_host(struct slice host) {
    return host.size == 0 || all_of(host, HOST);
}

/* "http://host:port/path?query" (RFC 9112 3.2.2). rest gets what follows the authority. */
static bool parse_absolute(struct slice target, struct http_head *head, struct slice *rest) {
    size_t scheme = 0;
    if (target.size > 7 && equal_nocase(slice_take(target, 7), "http://")) {
        scheme = 7;
    } else if (target.size > 8 && equal_nocase(slice_take(target, 8), "https://")) {
        scheme = 8;
    } else {
        return false;
    }
    size_t end = scheme;
    while (end < target.size && target.data[end] != '/' && target.data[end] != '?') {
        end++;
    }
    head->host = slice_of(target.data + scheme, end - scheme);
    *rest = slice_skip(target, end);
    return head->host.size > 0 && valid_host(head->host);
}

static int parse_target(struct slice target, struct http_head *head) {
    if (target.size == 0 || !all_of(target, TARGET)) {
        return 400;
    }
    head->target = target;
    struct slice rest = target;
    if (slice_equal_str(target, "*")) {
        head->path = target;
        return slice_equal_str(head->method, "OPTIONS") ? 0 : 400;
    }
    if (target.data[0] != '/' && !parse_absolute(target, head, &rest)) {
        return 400;
    }
    size_t mark = slice_find(rest, '?', 0);
    head->path = mark == 0 ? SLICE_LITERAL("/") : slice_take(rest, mark);
    head->query = mark < rest.size ? slice_skip(rest, mark + 1) : SLICE_EMPTY;
    return 0;
}

static int parse_request_line(struct slice line, struct http_head *head) {
    size_t first = slice_find(line, ' ', 0);
    struct slice method = slice_take(line, first);
    if (first == line.size || first > METHOD_BYTES_MAX || !http_is_token(method)) {
        return 400;
    }
    head->method = method;
    size_t second = slice_find(line, ' ', first + 1);
    if (second == line.size) {
        return 400; /* also HTTP/0.9 */
    }
    int status = parse_version(slice_skip(line, second + 1), head);
    if (status != 0) {
        return status;
    }
    return parse_target(slice_of(line.data + first + 1, second - first - 1), head);
}

/* ---- fields ---- */

bool http_parse_field(struct slice line, struct http_header *ret) {
    size_t colon = slice_find(line, ':', 0);
    if (colon == line.size || !http_is_token(slice_take(line, colon))) {
        return false; /* also a folded line: it begins with white space */
    }
    struct slice value = slice_skip(line, colon + 1);
    while (value.size > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) {
        value = slice_skip(value, 1);
    }
    while (value.size > 0 &&
           (value.data[value.size - 1] == ' ' || value.data[value.size - 1] == '\t')) {
        value.size--;
    }
    if (!all_of(value, VALUE)) {
        return false;
    }
    ret->name = slice_take(line, colon);
    ret->value = value;
    return true;
}

struct slice http_find_header(const struct http_header *headers, uint32_t count,
                              struct slice name) {
    for (uint32_t i = 0; i < count; i++) {
        if (headers[i].name.size == name.size && slice_equal_nocase(headers[i].name, name)) {
            return headers[i].value;
        }
    }
    return SLICE_EMPTY;
}

static int parse_length(struct slice value, struct http_head *head) {
    if (head->has_length || value.size == 0 || value.size > LENGTH_DIGITS_MAX) {
        return 400;
    }
    uint64_t length = 0; /* 19 digits fit in 64 bits */
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            return 400;
        }
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    head->has_length = true;
    head->length = length;
    return length <= INT64_MAX ? 0 : 400;
}

/* A list of tokens: is "close" among them? */
static bool has_close(struct slice value) {
    while (value.size > 0) {
        size_t comma = slice_find(value, ',', 0);
        struct slice item = slice_take(value, comma);
        while (item.size > 0 && (item.data[0] == ' ' || item.data[0] == '\t')) {
            item = slice_skip(item, 1);
        }
        while (item.size > 0 &&
               (item.data[item.size - 1] == ' ' || item.data[item.size - 1] == '\t')) {
            item.size--;
        }
        if (equal_nocase(item, "close")) {
            return true;
        }
        value = comma < value.size ? slice_skip(value, comma + 1) : SLICE_EMPTY;
    }
    return false;
}

struct field_marks {
    uint32_t hosts;
    uint32_t encodings;
    struct slice host;
    bool other_encoding;
};

/* The fields that framing depends on. Told apart by length first: most headers are none of them. */
static int parse_framing(const struct http_header *h, struct http_head *head,
                         struct field_marks *marks) {
    switch (h->name.size) {
    case 4:
        if (equal_nocase(h->name, "host")) {
            marks->hosts++;
            marks->host = h->value;
        }
        return 0;
    case 6:
        if (equal_nocase(h->name, "expect") && equal_nocase(h->value, "100-continue")) {
            head->expect_continue = true;
        }
        return 0;
    case 10:
        if (equal_nocase(h->name, "connection") && has_close(h->value)) {
            head->close = true;
        }
        return 0;
    case 14:
        return equal_nocase(h->name, "content-length") ? parse_length(h->value, head) : 0;
    case 17:
        if (equal_nocase(h->name, "transfer-encoding")) {
            marks->encodings++;
            marks->other_encoding |= !equal_nocase(h->value, "chunked");
        }
        return 0;
    default:
        return 0;
    }
}

/* RFC 9112 6.1, 6.3 and 3.2, the strict side of every choice. */
static int check_framing(const struct field_marks *marks, struct http_head *head) {
    if (marks->encodings > 1 || (marks->encodings == 1 && (head->has_length || head->http_1_0))) {
        return 400;
    }
    if (marks->other_encoding) {
        return 501;
    }
    head->chunked = marks->encodings == 1;
    if (marks->hosts > 1 || (marks->hosts == 0 && !head->http_1_0) || !valid_host(marks->host)) {
        return 400;
    }
    if (head->host.size == 0) {
        head->host = marks->host;
    }
    if (head->http_1_0) {
        head->expect_continue = false;
        head->close = true;
    }
    return 0;
}

int http_parse_head(const uint8_t *data, size_t size, struct http_header *headers,
                    uint32_t header_max, struct http_head *ret) {
    struct http_head head = {.headers = headers};
    struct field_marks marks = {0};
    size_t start = skip_empty_line(data, size);
    struct slice rest = slice_of(data + start, size - start);
    int status = 0;
    for (bool first = true; status == 0; first = false) {
        /* http_scan_head saw that every line ends with CR LF. */
        size_t end = slice_find(rest, '\n', 0);
        if (end == rest.size || end == 0 || rest.data[end - 1] != '\r') {
            return 400;
        }
        struct slice line = slice_take(rest, end - 1);
        rest = slice_skip(rest, end + 1);
        if (first) {
            status = parse_request_line(line, &head);
            ret->method = head.method;
        } else if (line.size == 0) {
            status = check_framing(&marks, &head);
            break;
        } else if (head.header_count == header_max) {
            return 431;
        } else if (!http_parse_field(line, &headers[head.header_count])) {
            return 400;
        } else {
            status = parse_framing(&headers[head.header_count++], &head, &marks);
        }
    }
    if (status == 0) {
        *ret = head;
    }
    return status;
}
