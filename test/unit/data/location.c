/* Rows of the location index: the bytes of docs/formats/location.md, written out by hand, and
 * decoders that refuse what is malformed. */
#include "testdata.h"

static void keys_have_these_bytes(void **state) {
    struct body_id id = {0x0102030405060708, 0x1112131415161718};
    struct data_key key = data_key_id(DATA_ROW_LOCATION, id);
    assert_true(slice_equal(data_key_slice(&key),
                            SLICE_LITERAL("L\1\2\3\4\5\6\7\10\21\22\23\24\25\26\27\30")));
    key = data_key_volume(DATA_ROW_LIVE, 0x01020304);
    assert_true(slice_equal(data_key_slice(&key), SLICE_LITERAL("V\1\2\3\4")));
    key = data_key_free(258);
    assert_true(slice_equal(data_key_slice(&key), SLICE_LITERAL("F\0\0\0\0\0\0\1\2")));
    key = data_key_alias(id, 9);
    assert_true(slice_equal(data_key_slice(&key),
                            SLICE_LITERAL("P\1\2\3\4\5\6\7\10\21\22\23\24\25\26\27\30\0\0\0\11")));
    key = data_key_damage(1, 1024);
    assert_true(slice_equal(data_key_slice(&key), SLICE_LITERAL("D\0\0\0\1\0\0\0\0\0\0\4\0")));
    key = data_key_named(id, 3);
    struct body_id first;
    uint64_t count;
    assert_int_equal(key.size, 25);
    assert_true(data_key_parse_named(data_key_slice(&key), &first, &count));
    assert_true(body_id_equal(first, id) && count == 3);
    assert_false(data_key_parse_id(data_key_slice(&key), &first));
}

/* Volume 1, offset 1024 (128 eighths), record of 4,232 bytes (529 eighths, kind 1), body of 4,096:
 * 01, 80 01, 529 << 2 = 2116 = c4 10, 4096 = 80 20. */
static void place_has_these_bytes(void **state) {
    struct data_place place = {{1, 1024, 4232, 4096}, VOLUME_HEAD}, back;
    uint8_t bytes[DATA_PLACE_BYTES_MAX];
    size_t size = data_place_encode(&place, bytes);
    assert_int_equal(size, 7);
    assert_memory_equal(bytes, "\x01\x80\x01\xc4\x10\x80\x20", 7);
    struct reader r = reader_of(slice_of(bytes, size));
    assert_true(data_place_decode(&r, &back));
    assert_memory_equal(&back.location, &place.location, sizeof(place.location));
    assert_int_equal(back.kind, place.kind);
    for (size_t n = 0; n < size; n++) {
        r = reader_of(slice_of(bytes, n));
        assert_false(data_place_decode(&r, &back));
    }
    r = reader_of(SLICE_LITERAL("\x00\x80\x01\xc4\x10\x80\x20")); /* there is no volume 0 */
    assert_false(data_place_decode(&r, &back));
    r = reader_of(SLICE_LITERAL("\x01\x80\x01\xff\xff\xff\xff\x7f\x80\x20"));
    assert_false(data_place_decode(&r, &back));
}

/* Part of the budget of 245 bytes for a 4 KiB object. */
static void a_small_object_costs_little(void **state) {
    struct data_place place = {{1000, 900u << 20, 4232, 4096}, VOLUME_HEAD};
    uint8_t bytes[DATA_PLACE_BYTES_MAX];
    size_t row = 17 + data_place_encode(&place, bytes);
    assert_true(row <= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_have_these_bytes),
                                       cmocka_unit_test(place_has_these_bytes),
                                       cmocka_unit_test(a_small_object_costs_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
