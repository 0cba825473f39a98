/* Verifies the head that the input spells: "METHOD target", then header lines, each ended by a line
 * feed. The fuzzer does not know the secret, so whatever the bytes are, no request may be accepted
 * as anybody's. */
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "s3/auth.h"

#define HEADERS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice next_line(struct slice *text) {
    size_t end = slice_find(*text, '\n', 0);
    struct slice line = slice_take(*text, end);
    *text = slice_skip(*text, end < text->size ? end + 1 : end);
    return line;
}

static int secret_of(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size) {
    if (access_key.size == 0 || access_key.data[0] != 'A') {
        return -HL_ERR_NO_SUCH_ACCESS_KEY;
    }
    for (size_t i = 0; i < 32; i++) {
        ret[i] = (uint8_t)(i * 37 + 11);
    }
    *ret_size = 32;
    return 0;
}

static void read_head(struct slice text, struct http_head *head, struct http_header *headers) {
    struct slice line = next_line(&text);
    size_t space = slice_find(line, ' ', 0);
    head->method = slice_take(line, space);
    head->target = slice_skip(line, space < line.size ? space + 1 : space);
    size_t question = slice_find(head->target, '?', 0);
    head->path = slice_take(head->target, question);
    if (question < head->target.size) {
        head->query = slice_skip(head->target, question + 1);
    }
    head->headers = headers;
    while (text.size > 0 && head->header_count < HEADERS_MAX) {
        line = next_line(&text);
        size_t colon = slice_find(line, ':', 0);
        headers[head->header_count++] = (struct http_header){
            slice_take(line, colon), slice_skip(line, colon < line.size ? colon + 1 : colon)};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct http_header headers[HEADERS_MAX];
    struct http_head head = {.http_1_0 = false};
    if (size > 16384) {
        return 0; /* the server refuses longer heads */
    }
    read_head(slice_of(data, size), &head, headers);
    struct pool *pool = pool_new(0);
    struct s3_auth_env env = {.now_ms = INT64_C(1796120430000),
                              .region = "us-east-1",
                              .root_domain = ".s3.local",
                              .secret = secret_of};
    struct s3_auth auth;
    struct s3_auth_detail detail;
    const char *message = NULL;
    int err = s3_auth_verify(&head, &env, pool, &auth, &message, &detail);
    CHECK(err <= 0 && err > -HL_ERR_COUNT);
    CHECK(err != 0 || auth.anonymous);
    pool_free(pool);
    return 0;
}
