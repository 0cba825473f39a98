/* Header fields with hostile bytes: ranges stay inside the object, copy ranges are ordered, tag
 * lists and tokens point into their input or the pool. The first byte chooses the object's size. */
#include "base/check.h"
#include "s3/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    uint64_t object_size = data[0] < 128 ? data[0] : (uint64_t)1 << (data[0] & 63);
    struct slice field = slice_of(data + 1, size - 1);
    struct pool *pool = pool_new(0);
    uint64_t off, count, first, last;
    if (s3_parse_range(field, object_size, &off, &count) == S3_RANGE_OK) {
        CHECK(count > 0 && off < object_size && count <= object_size - off);
    }
    if (s3_parse_copy_range(field, &first, &last)) {
        CHECK(first <= last);
    }
    struct object_etags tags;
    if (s3_parse_etags(field, pool, &tags) == 0) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < tags.tag_count; i++) {
            bytes += tags.tags[i].size;
        }
        CHECK(bytes <= field.size);
    }
    bool is_prefix;
    struct slice key;
    if (s3_token_decode(pool, field, &is_prefix, &key)) {
        struct slice again = s3_token_encode(pool, is_prefix, key);
        CHECK(slice_equal(again, field));
    }
    (void)s3_strip_aws_chunked(pool, field);
    pool_free(pool);
    return 0;
}
