/* Heads of requests: no read outside of the input, the same result for every split, and what is
 * accepted obeys the rules that matter against smuggling. The first byte chooses the split. */
#include <stdlib.h>

#include "base/check.h"
#include "base/macros.h"
#include "http/parse.h"

#define HEADER_MAX 16
#define HEAD_MAX   2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int status; /* -1: incomplete */
    size_t end;
    struct http_head head;
};

static void parse(const uint8_t *data, size_t size, size_t step, struct http_header *headers,
                  struct outcome *ret) {
    size_t pos = 0;
    *ret = (struct outcome){.status = -1};
    for (size_t have = 0; ret->status == -1 && have < size;) {
        have = MIN(have + step, size);
        /* Memory of exactly that size, so that the sanitizer sees one byte too far. */
        uint8_t *copy = malloc(have);
        CHECK(copy != NULL);
        memcpy(copy, data, have);
        switch (http_scan_head(copy, have, HEAD_MAX, &pos, &ret->end)) {
        case HTTP_SCAN_MORE:
            break;
        case HTTP_SCAN_BAD:
            ret->status = 400;
            break;
        case HTTP_SCAN_TOO_LONG:
            ret->status = 431;
            break;
        case HTTP_SCAN_COMPLETE:
            ret->status = http_parse_head(data, ret->end, headers, HEADER_MAX, &ret->head);
            break;
        }
        free(copy);
    }
}

static void check_accepted(const struct http_head *head, const uint8_t *data, size_t end) {
    uint32_t lengths = 0, codings = 0, hosts = 0;
    CHECK(head->method.size > 0 && head->target.size > 0 && head->path.size > 0);
    for (uint32_t i = 0; i < head->header_count; i++) {
        struct slice name = head->headers[i].name, value = head->headers[i].value;
        CHECK(name.data > data && name.data + name.size < value.data);
        CHECK(value.data + value.size <= data + end);
        CHECK(memchr(value.data, '\r', value.size) == NULL);
        CHECK(memchr(value.data, '\n', value.size) == NULL);
        CHECK(memchr(value.data, '\0', value.size) == NULL);
        lengths += slice_equal_nocase(name, SLICE_LITERAL("content-length"));
        codings += slice_equal_nocase(name, SLICE_LITERAL("transfer-encoding"));
        hosts += slice_equal_nocase(name, SLICE_LITERAL("host"));
    }
    CHECK(lengths + codings <= 1 && hosts <= 1);
    CHECK(head->chunked == (codings == 1) && head->has_length == (lengths == 1));
    CHECK(hosts == 1 || head->http_1_0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct http_header a[HEADER_MAX], b[HEADER_MAX];
    struct outcome whole, split;
    if (size < 2) {
        return 0;
    }
    size_t step = (size_t)data[0] % 64 + 1;
    data++;
    size--;
    parse(data, size, size, a, &whole);
    parse(data, size, step, b, &split);
    CHECK(whole.status == split.status && whole.end == split.end);
    if (whole.status == 0) {
        CHECK(whole.head.header_count == split.head.header_count);
        CHECK(whole.head.length == split.head.length);
        check_accepted(&whole.head, data, whole.end);
    }
    return 0;
}
