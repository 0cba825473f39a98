/* Records round-trip, refuse damage, keep what newer versions wrote, and match the golden files
 * byte for byte: a change of an encoding is a change of format and must show here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"
#include "meta/records.h"

static struct object_record sample_object(void) {
    static const struct header_pair metadata[] = {
        {{(const uint8_t *)"mtime", 5}, {(const uint8_t *)"1764547200.5", 12}},
        {{(const uint8_t *)"empty", 5}, {(const uint8_t *)"", 0}},
    };
    static struct object_part parts[2];
    parts[0] = (struct object_part){
        .number = 1,
        .size = 6u << 20,
        .checksum = {.algorithm = CHECKSUM_CRC32, .size = 4, .value = {1, 2, 3, 4}},
        .run = {.first = {7, 100}, .block_bytes = 4u << 20, .block_count = 2, .size = 6u << 20}};
    parts[1] = (struct object_part){.number = 3, .size = 5, .inline_id = {7, 102}};
    memset(parts[0].md5, 0xaa, 16);
    memset(parts[1].md5, 0xbb, 16);
    struct object_record record = {
        .sequence = 42,
        .modified_ms = 1764547200123,
        .size = (6u << 20) + 5,
        .etag = {.parts = 2},
        .head = {7, 103},
        .checksum = {.algorithm = CHECKSUM_SHA256, .type = CHECKSUM_COMPOSITE, .size = 32},
        .headers = {.content_type = SLICE_LITERAL("image/png"),
                    .content_encoding = SLICE_LITERAL("gzip"),
                    .metadata = metadata,
                    .metadata_count = 2},
        .parts = parts,
        .part_count = 2,
        .multipart = true,
        .owner = SLICE_LITERAL("GK0123"),
    };
    memset(record.etag.md5, 0xcc, 16);
    memset(record.checksum.value, 0xdd, 32);
    return record;
}

static void assert_slice(struct slice a, struct slice b) {
    assert_true(slice_equal(a, b));
}

static void test_object_round_trip(void **state) {
    struct object_record in = sample_object(), out;
    struct buf encoded = {0};
    struct pool *pool = pool_new(0);
    object_record_encode(&encoded, &in);
    assert_false(encoded.failed);
    assert_int_equal(object_record_decode(buf_slice(&encoded), pool, &out), 0);
    assert_int_equal(out.sequence, 42);
    assert_int_equal(out.modified_ms, in.modified_ms);
    assert_int_equal(out.size, in.size);
    assert_int_equal(out.etag.parts, 2);
    assert_memory_equal(out.etag.md5, in.etag.md5, 16);
    assert_true(body_id_equal(out.head, in.head));
    assert_memory_equal(&out.checksum, &in.checksum, sizeof(out.checksum));
    assert_slice(out.headers.content_type, in.headers.content_type);
    assert_slice(out.headers.content_encoding, in.headers.content_encoding);
    assert_null(out.headers.cache_control.data);
    assert_int_equal(out.headers.metadata_count, 2);
    assert_slice(out.headers.metadata[0].value, in.headers.metadata[0].value);
    assert_int_equal(out.headers.metadata[1].value.size, 0);
    assert_int_equal(out.part_count, 2);
    assert_int_equal(out.parts[0].run.first.low, 100);
    assert_int_equal(out.parts[0].run.block_count, 2);
    assert_int_equal(out.parts[0].checksum.size, 4);
    assert_int_equal(out.parts[1].number, 3);
    assert_int_equal(out.parts[1].inline_id.low, 102);
    assert_true(out.multipart);
    assert_slice(out.owner, in.owner);
    struct object_record peeked;
    assert_int_equal(object_record_peek(buf_slice(&encoded), &peeked), 0);
    assert_int_equal(peeked.size, in.size);
    assert_int_equal(peeked.etag.parts, 2);
    pool_free(pool);
    buf_done(&encoded);
}

/* Every truncation is refused or, where it ends between two fields, decodes to something
 * consistent; and no single flipped byte makes the decoder read outside (the sanitizer build
 * watches). */
static void test_object_damage(void **state) {
    struct object_record in = sample_object(), out;
    struct buf encoded = {0};
    object_record_encode(&encoded, &in);
    for (size_t size = 0; size < encoded.size; size++) {
        struct pool *pool = pool_new(0);
        int err = object_record_decode(slice_of(encoded.data, size), pool, &out);
        assert_true(err == 0 || err == -HL_ERR_CORRUPT);
        pool_free(pool);
    }
    for (size_t i = 0; i < encoded.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct pool *pool = pool_new(0);
            encoded.data[i] ^= (uint8_t)(1u << bit);
            int err = object_record_decode(buf_slice(&encoded), pool, &out);
            assert_true(err == 0 || err == -HL_ERR_CORRUPT);
            encoded.data[i] ^= (uint8_t)(1u << bit);
            pool_free(pool);
        }
    }
    buf_done(&encoded);
}

static void test_unknown_fields(void **state) {
    struct object_record in = sample_object(), out;
    struct buf encoded = {0}, again = {0};
    struct pool *pool = pool_new(0);
    object_record_encode(&encoded, &in);
    size_t plain = encoded.size;
    buf_append_varint(&encoded, 200u << 1 | 1); /* an optional field of a later version */
    buf_append_blob(&encoded, SLICE_LITERAL("later"));
    assert_int_equal(object_record_decode(buf_slice(&encoded), pool, &out), 0);
    object_record_encode(&again, &out);
    assert_int_equal(again.size, encoded.size);
    assert_int_equal(object_record_decode(buf_slice(&again), pool, &out), 0);
    assert_int_equal(out.unknown.size, encoded.size - plain);
    buf_append_varint(&encoded, 90u << 1); /* one that must not be ignored */
    buf_append_varint(&encoded, 1);
    assert_int_equal(object_record_decode(buf_slice(&encoded), pool, &out), -HL_ERR_CORRUPT);
    pool_free(pool);
    buf_done(&encoded);
    buf_done(&again);
}

static void test_split_head(void **state) {
    struct object_record in = sample_object();
    struct buf encoded = {0}, restored = {0};
    object_record_encode(&encoded, &in);
    struct slice origin = object_record_split_head(buf_slice(&encoded), in.head);
    assert_int_equal(origin.size, encoded.size - OBJECT_HEAD_FIELD_SIZE);
    buf_append_slice(&restored, origin);
    object_record_append_head(&restored, in.head);
    assert_slice(buf_slice(&restored), buf_slice(&encoded));
    struct body_id other = {7, 104};
    assert_int_equal(object_record_split_head(buf_slice(&encoded), other).size, encoded.size);
    buf_done(&encoded);
    buf_done(&restored);
}

static void test_other_records(void **state) {
    struct pool *pool = pool_new(0);
    struct buf b = {0};
    struct upload_record upload = {.created_ms = 5,
                                   .headers = {.content_type = SLICE_LITERAL("text/plain")},
                                   .checksum_algorithm = CHECKSUM_CRC64NVME,
                                   .checksum_given = true,
                                   .owner = SLICE_LITERAL("GK1")};
    struct upload_record upload_out;
    upload_record_encode(&b, &upload);
    assert_int_equal(upload_record_decode(buf_slice(&b), pool, &upload_out), 0);
    assert_slice(upload_out.headers.content_type, upload.headers.content_type);
    assert_int_equal(upload_out.checksum_algorithm, CHECKSUM_CRC64NVME);
    assert_true(upload_out.checksum_given);

    struct bucket_record bucket = {.id = 9,
                                   .created_ms = 7,
                                   .name = SLICE_LITERAL("photos"),
                                   .quota_bytes = 1000,
                                   .quota_objects = 10};
    struct bucket_record bucket_out;
    buf_clear(&b);
    bucket_record_encode(&b, &bucket);
    assert_int_equal(bucket_record_decode(buf_slice(&b), &bucket_out), 0);
    assert_int_equal(bucket_out.id, 9);
    assert_slice(bucket_out.name, bucket.name);
    assert_int_equal(bucket_out.quota_objects, 10);

    struct access_key_record key = {.id = SLICE_LITERAL("GK1"),
                                    .secret = SLICE_LITERAL("s"),
                                    .name = SLICE_LITERAL("n"),
                                    .expires_ms = 99,
                                    .flags = ACCESS_KEY_CREATE_BUCKET};
    struct access_key_record key_out;
    buf_clear(&b);
    access_key_record_encode(&b, &key);
    assert_int_equal(access_key_record_decode(buf_slice(&b), &key_out), 0);
    assert_slice(key_out.secret, key.secret);
    assert_int_equal(key_out.flags, ACCESS_KEY_CREATE_BUCKET);
    assert_int_equal(key_out.expires_ms, 99);

    struct part_record part = {.part = {.number = 10000, .size = 3, .inline_id = {1, 2}},
                               .modified_ms = 4};
    struct part_record part_out;
    buf_clear(&b);
    part_record_encode(&b, &part);
    assert_int_equal(part_record_decode(buf_slice(&b), &part_out), 0);
    assert_int_equal(part_out.part.number, 10000);
    assert_int_equal(part_out.modified_ms, 4);

    struct completed_record done = {.bucket = 1,
                                    .key = SLICE_LITERAL("k"),
                                    .etag = {.parts = 2},
                                    .sequence = 8,
                                    .completed_ms = 6};
    struct completed_record done_out;
    buf_clear(&b);
    completed_record_encode(&b, &done);
    assert_int_equal(completed_record_decode(buf_slice(&b), &done_out), 0);
    assert_int_equal(done_out.etag.parts, 2);
    assert_slice(done_out.key, done.key);
    buf_done(&b);
    pool_free(pool);
}

/* A run may not claim more bytes than its blocks hold: such a record would read past the end. */
static void test_run_too_large(void **state) {
    struct part_record part = {
        .part = {
            .number = 1,
            .size = 9u << 20,
            .run = {.first = {1, 1}, .block_bytes = 4u << 20, .block_count = 2, .size = 9u << 20}}};
    struct part_record out;
    struct buf b = {0};
    part_record_encode(&b, &part);
    assert_int_equal(part_record_decode(buf_slice(&b), &out), -HL_ERR_CORRUPT);
    buf_done(&b);
}

static void test_golden(void **state) {
    uint8_t expected[1024];
    FILE *f = fopen(META_GOLDEN_DIR "/object-v1.bin", "rb");
    assert_non_null(f);
    size_t size = fread(expected, 1, sizeof(expected), f);
    fclose(f);
    struct object_record in = sample_object(), out;
    struct buf encoded = {0};
    struct pool *pool = pool_new(0);
    object_record_encode(&encoded, &in);
    assert_int_equal(encoded.size, size);
    assert_memory_equal(encoded.data, expected, size);
    assert_int_equal(object_record_decode(slice_of(expected, size), pool, &out), 0);
    assert_int_equal(out.part_count, 2);
    pool_free(pool);
    buf_done(&encoded);
}

int main(int argc, char **argv) {
    if (argc == 2) { /* records PATH writes the golden file of a new version */
        struct object_record in = sample_object();
        struct buf encoded = {0};
        object_record_encode(&encoded, &in);
        FILE *f = fopen(argv[1], "wb");
        if (f == NULL || fwrite(encoded.data, 1, encoded.size, f) != encoded.size) {
            return 1;
        }
        fclose(f);
        buf_done(&encoded);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object_round_trip),
        cmocka_unit_test(test_object_damage),
        cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_split_head),
        cmocka_unit_test(test_other_records),
        cmocka_unit_test(test_run_too_large),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
