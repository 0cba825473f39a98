/* Every codec of meta/: records of all tables, row keys and entries. Beside not crashing, what
 * decodes must survive an encode and a second decode with the same result (objects), because rows
 * are read, changed and written back. */
#include <stdint.h>

#include "base/check.h"
#include "meta/entry_format.h"
#include "meta/keys_format.h"
#include "meta/records.h"

static void object_again(struct slice value) {
    struct pool *pool = pool_new(0);
    struct object_record first, second;
    struct buf encoded = {0}, again = {0};
    if (object_record_decode(value, pool, &first) == 0) {
        object_record_encode(&encoded, &first);
        CHECK(object_record_decode(buf_slice(&encoded), pool, &second) == 0);
        object_record_encode(&again, &second);
        CHECK(slice_equal(buf_slice(&encoded), buf_slice(&again)));
        CHECK(object_record_peek(value, &second) == 0);
    }
    buf_done(&encoded);
    buf_done(&again);
    pool_free(pool);
}

static void others(struct slice value) {
    struct pool *pool = pool_new(0);
    struct upload_record upload;
    struct part_record part;
    struct completed_record completed;
    struct bucket_record bucket;
    struct access_key_record key;
    (void)upload_record_decode(value, pool, &upload);
    (void)part_record_decode(value, &part);
    (void)completed_record_decode(value, &completed);
    (void)bucket_record_decode(value, &bucket);
    (void)access_key_record_decode(value, &key);
    pool_free(pool);
}

static void keys_and_entries(struct slice input) {
    struct buf key = {0};
    uint64_t number;
    const uint8_t *upload;
    struct slice rest;
    (void)keys_parse_upload(input, &number, &key, &upload);
    (void)keys_parse_object(input, &number, &rest);
    buf_done(&key);
    struct reader r = entry_open(input, &number);
    struct entry_op op;
    while (entry_next(&r, &op)) {
        CHECK(op.kind >= ENTRY_PUT && op.kind <= ENTRY_CONFIG);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice input = slice_of(data, size);
    object_again(input);
    others(input);
    keys_and_entries(input);
    return 0;
}
