/* The record's format: overhead, header checks, and a golden volume file, which was written by
 * golden/generate.py, an independent writer with a CRC-32C of its own. */
#include "testvolume.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "volume/volume_record.h"

/* The budget of design.md section 4 for what is not body or origin. */
static void overhead_is_small(void **state) {
    assert_true(volume_record_size(4096, 0, 0) - 4096 <= 72);
    assert_int_equal(volume_record_size(4096, 0, 0), 4096 + 56);
    for (uint32_t key = 0; key < 64; key++) {
        uint32_t overhead = volume_record_size(4096, key, 60) - 4096 - key - 60;
        assert_true(overhead <= 63);
    }
    assert_int_equal(volume_record_size(0, 0, 0), 56);
    assert_int_equal(volume_record_size(65537, 3, 0), ALIGN_UP(52 + 65537 + 8 + 3, 8));
}

static void bound_checksums_agree(void **state) {
    uint8_t bytes[1000];
    struct body_id id = {5, 6};
    fill_body(id, bytes, sizeof(bytes));
    uint32_t plain = crc32c(0, bytes, sizeof(bytes));
    uint32_t bound = volume_span_crc(id, 3, bytes, sizeof(bytes));
    assert_int_equal(volume_span_crc_bind(id, 3, plain, sizeof(bytes)), bound);
    assert_int_not_equal(volume_span_crc(id, 4, bytes, sizeof(bytes)), bound);
    assert_int_not_equal(volume_span_crc((struct body_id){5, 7}, 3, bytes, sizeof(bytes)), bound);
}

static void header_is_bound_to_its_place(void **state) {
    uint8_t uuid[16] = "aaaaaaaaaaaaaaa", other[16] = "aaaaaaaaaaaaaab", bytes[52];
    struct volume_header in = {.kind = VOLUME_HEAD,
                               .volume = 3,
                               .off = 1024,
                               .id = {1, 2},
                               .body_bytes = 10,
                               .key_bytes = 5,
                               .value_bytes = 7};
    struct volume_header out;
    volume_header_encode(&in, uuid, bytes);
    assert_true(volume_header_decode(bytes, uuid, 3, 1024, &out));
    assert_int_equal(out.body_bytes, 10);
    assert_false(volume_header_decode(bytes, other, 3, 1024, &out));
    assert_false(volume_header_decode(bytes, uuid, 4, 1024, &out));
    assert_false(volume_header_decode(bytes, uuid, 3, 1032, &out));
    for (unsigned bit = 0; bit < 52 * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(volume_header_decode(bytes, uuid, 3, 1024, &out));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static const char *golden_path(char path[512]) {
    const char *root = getenv("HAYLOFT_SOURCE_ROOT");
    (void)snprintf(path, 512, "%s/test/unit/volume/golden/000001.vol",
                   root != NULL ? root : SOURCE_ROOT);
    return path;
}

static int count_golden(void *arg, const struct volume_scan_item *item) {
    int *count = arg;
    assert_non_null(item->record);
    assert_int_equal(item->err, 0);
    ++*count;
    return 0;
}

/* A volume that version 1 wrote stays readable, byte for byte. */
static void golden_volume(void **state) {
    struct node node;
    node_init(&node, 1, 0, 1);
    char path[512];
    uint8_t *bytes;
    size_t size;
    assert_int_equal(os_file_load(os_fs_real(), golden_path(path), 1 << 20, &bytes, &size), 0);
    assert_int_equal(node_open(&node, true), 0);
    node_close(&node);
    assert_int_equal(os_file_replace(node.env.fs, "/a/volumes/000001.vol", bytes, size), 0);
    assert_int_equal(node_open(&node, false), 0);
    int count = 0;
    assert_int_equal(volume_scan(node.set, 1, 0, true, count_golden, &count), 0);
    assert_int_equal(count, 3);
    struct volume_file *file = volume_pin(node.set, 1);
    struct volume_location location = {1, 1024, 80, 5};
    uint8_t body[5];
    assert_int_equal(
        volume_read(file, &location, (struct body_id){0x1122334455667788, 1}, 0, body, 5, false),
        0);
    assert_memory_equal(body, "hello", 5);
    struct volume_record record;
    struct buf origin = {0};
    assert_int_equal(volume_read_origin(file, &location, &record, &origin), 0);
    assert_true(slice_equal_str(record.origin_key, "key-one"));
    assert_true(slice_equal_str(record.origin_value, "value-one"));
    assert_int_equal(record.kind, VOLUME_HEAD);
    buf_done(&origin);
    volume_unpin(file);
    free(bytes);
    node_done(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overhead_is_small), cmocka_unit_test(bound_checksums_agree),
        cmocka_unit_test(header_is_bound_to_its_place), cmocka_unit_test(golden_volume)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
