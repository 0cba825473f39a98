/* Chunked bodies: the decoder against a plain one that sees the whole input at once, and the same
 * result for every split. The first byte chooses the split. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"
#include "http/chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int status;
    size_t consumed, produced;
    uint8_t *content;
    size_t trailer_size;
    uint8_t trailers[HTTP_TRAILER_BYTES_MAX];
};

static void decode(const uint8_t *data, size_t size, size_t step, struct outcome *ret) {
    struct http_chunked c;
    http_chunked_init(&c);
    c.trailers = ret->trailers;
    ret->content = malloc(size + 1);
    ret->status = 0;
    ret->consumed = ret->produced = 0;
    CHECK(ret->content != NULL);
    for (size_t at = 0; at < size && ret->status == 0; at += step) {
        size_t n = MIN(step, size - at), consumed, produced;
        uint8_t *piece = malloc(n);
        CHECK(piece != NULL);
        memcpy(piece, data + at, n);
        ret->status = http_chunked_decode(&c, piece, n, &consumed, &produced);
        CHECK(consumed <= n && produced <= consumed);
        CHECK(ret->status != 0 || consumed == n);
        memcpy(ret->content + ret->produced, piece, produced);
        ret->produced += produced;
        ret->consumed += consumed;
        free(piece);
    }
    ret->trailer_size = c.trailer_size;
}

/* The content of an accepted body, read again the simple way: sizes with strtoull, CR LF taken for
 * granted since the decoder accepted them. */
static void check_content(const uint8_t *data, size_t size, const struct outcome *got) {
    size_t at = 0, out = 0;
    for (;;) {
        char line[HTTP_CHUNK_LINE_MAX + 1];
        const uint8_t *lf = memchr(data + at, '\n', size - at);
        CHECK(lf != NULL);
        size_t n = (size_t)(lf - data) - at;
        CHECK(n > 0 && n <= HTTP_CHUNK_LINE_MAX);
        memcpy(line, data + at, n);
        line[n] = '\0';
        unsigned long long chunk = strtoull(line, NULL, 16);
        at += n + 1;
        if (chunk == 0) {
            break;
        }
        CHECK(chunk <= size - at && memcmp(got->content + out, data + at, chunk) == 0);
        CHECK(memcmp(data + at + chunk, "\r\n", 2) == 0);
        out += chunk;
        at += chunk + 2;
    }
    CHECK(out == got->produced);
    CHECK(got->consumed == at + got->trailer_size + 2);
    CHECK(memcmp(got->trailers, data + at, got->trailer_size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct outcome whole, split;
    if (size < 2) {
        return 0;
    }
    size_t step = (size_t)data[0] % 64 + 1;
    data++;
    size--;
    decode(data, size, size, &whole);
    decode(data, size, step, &split);
    CHECK(whole.status == split.status);
    if (whole.status >= 0) {
        CHECK(whole.consumed == split.consumed && whole.produced == split.produced);
        CHECK(memcmp(whole.content, split.content, whole.produced) == 0);
    }
    if (whole.status == 1) {
        check_content(data, size, &whole);
    }
    free(whole.content);
    free(split.content);
    return 0;
}
