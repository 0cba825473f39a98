/* Targets, hosts and copy sources of any bytes. What is accepted is UTF-8 without NUL, and encoding
 * a decoded key again gives a target that means the same. Input: host, line feed, target. */
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "s3/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_text(struct slice s) {
    return utf8_valid(s) && slice_find(s, '\0', 0) == s.size;
}

static int parse(struct slice host, struct slice target, const char *root, struct pool *pool,
                 struct s3_uri *ret) {
    struct http_header header = {SLICE_LITERAL("Host"), host};
    size_t question = slice_find(target, '?', 0);
    struct http_head head = {.method = SLICE_LITERAL("GET"),
                             .target = target,
                             .path = slice_take(target, question),
                             .headers = &header,
                             .header_count = 1};
    if (question < target.size) {
        head.query = slice_skip(target, question + 1);
    }
    return s3_uri_parse(&head, root, pool, ret);
}

static void check_again(const struct s3_uri *uri, struct pool *pool) {
    struct buf target = {0};
    struct s3_uri again;
    buf_append_str(&target, "/");
    percent_encode(&target, uri->bucket, false);
    buf_append_str(&target, "/");
    percent_encode(&target, uri->key, true);
    if (uri->bucket.size > 0) {
        CHECK(parse(SLICE_LITERAL("127.0.0.1"), buf_slice(&target), NULL, pool, &again) == 0);
        CHECK(slice_equal(uri->bucket, again.bucket));
        CHECK(slice_equal(uri->key, again.key));
    }
    buf_done(&target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pool *pool = pool_new(0);
    struct slice text = slice_of(data, size);
    size_t end = slice_find(text, '\n', 0);
    struct slice host = slice_take(text, end);
    struct slice target = slice_skip(text, end < size ? end + 1 : end);
    struct s3_uri uri;
    static const char *const roots[] = {NULL, ".s3.local"};
    for (int i = 0; i < 2; i++) {
        int err = parse(host, target, roots[i], pool, &uri);
        CHECK(err == 0 || err == -HL_ERR_URI || err == -HL_ERR_NOMEM);
        if (err == 0) {
            CHECK(is_text(uri.bucket) && is_text(uri.key));
            for (uint32_t k = 0; k < uri.query.count; k++) {
                CHECK(is_text(uri.query.params[k].name) && is_text(uri.query.params[k].value));
            }
            check_again(&uri, pool);
        }
    }
    struct s3_copy_source source;
    int err = s3_copy_source_parse(target, pool, &source);
    CHECK(err == 0 || err == -HL_ERR_INVALID);
    CHECK(err != 0 || (source.bucket.size > 0 && source.key.size > 0 && is_text(source.key) &&
                       slice_find(source.bucket, '/', 0) == source.bucket.size));
    pool_free(pool);
    return 0;
}
