/* Spelling of checksums. Values from the catalogue of CRCs (check value of "123456789") and from
 * sha1sum and sha256sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/macros.h"
#include "s3/checksum_header.h"

static const struct {
    int algorithm;
    const char *name, *header, *element, *text;
    uint8_t first[4];
} known[] = {
    {CHECKSUM_CRC32,
     "CRC32",
     "x-amz-checksum-crc32",
     "ChecksumCRC32",
     "y/Q5Jg==",
     {0xcb, 0xf4, 0x39, 0x26}},
    {CHECKSUM_CRC32C,
     "CRC32C",
     "x-amz-checksum-crc32c",
     "ChecksumCRC32C",
     "4waSgw==",
     {0xe3, 0x06, 0x92, 0x83}},
    {CHECKSUM_CRC64NVME,
     "CRC64NVME",
     "x-amz-checksum-crc64nvme",
     "ChecksumCRC64NVME",
     "rosUhgp5mIg=",
     {0xae, 0x8b, 0x14, 0x86}},
    {CHECKSUM_SHA1,
     "SHA1",
     "x-amz-checksum-sha1",
     "ChecksumSHA1",
     "98O8HYCOBHMq30eZZczDTKeuNEE=",
     {0xf7, 0xc3, 0xbc, 0x1d}},
    {CHECKSUM_SHA256,
     "SHA256",
     "x-amz-checksum-sha256",
     "ChecksumSHA256",
     "FeKw0wmJFuBvpZzJFYovjFY4gTfMWj+XlpIvG5bQ0iU=",
     {0x15, 0xe2, 0xb0, 0xd3}},
};

static void names(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        int a = known[i].algorithm;
        assert_string_equal(checksum_algorithm_name(a), known[i].name);
        assert_string_equal(checksum_header_name(a), known[i].header);
        assert_string_equal(checksum_element_name(a), known[i].element);
        assert_int_equal(checksum_algorithm_parse(slice_str(known[i].name)), a);
        assert_int_equal(checksum_header_algorithm(slice_str(known[i].header)), a);
    }
    assert_int_equal(checksum_algorithm_parse(slice_str("crc32c")), CHECKSUM_CRC32C);
    assert_int_equal(checksum_algorithm_parse(slice_str("SHA512")), CHECKSUM_NONE);
    assert_int_equal(checksum_algorithm_parse(slice_str("")), CHECKSUM_NONE);
    assert_int_equal(checksum_header_algorithm(slice_str("X-Amz-Checksum-SHA1")), CHECKSUM_SHA1);
    assert_int_equal(checksum_header_algorithm(slice_str("x-amz-checksum-type")), CHECKSUM_NONE);
    assert_null(checksum_header_name(CHECKSUM_NONE));
    assert_null(checksum_header_name(99));
    assert_int_equal(checksum_algorithm_size(-1), 0);
}

static void values(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        struct checksum checksum;
        char text[CHECKSUM_TEXT_SIZE];
        assert_int_equal(checksum_parse(known[i].algorithm, slice_str(known[i].text), &checksum),
                         0);
        assert_int_equal(checksum.algorithm, known[i].algorithm);
        assert_int_equal(checksum.size, checksum_algorithm_size(known[i].algorithm));
        assert_memory_equal(checksum.value, known[i].first, 4);
        checksum_format(&checksum, 0, text);
        assert_string_equal(text, known[i].text);
        for (size_t k = 0; k < ARRAY_COUNT(known); k++) {
            bool same_size = checksum_algorithm_size(known[k].algorithm) == checksum.size;
            assert_int_equal(
                checksum_parse(known[k].algorithm, slice_str(known[i].text), &checksum) == 0,
                same_size);
            checksum.size = checksum_algorithm_size(known[i].algorithm);
        }
    }
    struct checksum checksum;
    assert_int_equal(checksum_parse(CHECKSUM_NONE, slice_str("y/Q5Jg=="), &checksum),
                     -HL_ERR_INVALID_REQUEST);
    assert_int_equal(checksum_parse(CHECKSUM_CRC32, slice_str("bad"), &checksum),
                     -HL_ERR_INVALID_REQUEST);
    checksum = (struct checksum){.algorithm = CHECKSUM_NONE};
    char text[CHECKSUM_TEXT_SIZE] = "x";
    checksum_format(&checksum, 3, text);
    assert_string_equal(text, "");
}

static void composites(void **state) {
    struct checksum checksum;
    uint32_t parts = 9;
    char text[CHECKSUM_TEXT_SIZE];
    assert_int_equal(
        checksum_parse_parts(CHECKSUM_CRC32, slice_str("y/Q5Jg==-10000"), &checksum, &parts), 0);
    assert_int_equal(parts, 10000);
    assert_int_equal(checksum.type, CHECKSUM_COMPOSITE);
    checksum_format(&checksum, parts, text);
    assert_string_equal(text, "y/Q5Jg==-10000");
    assert_int_equal(checksum_parse_parts(CHECKSUM_CRC32, slice_str("y/Q5Jg=="), &checksum, &parts),
                     0);
    assert_int_equal(parts, 0);
    assert_int_equal(checksum.type, CHECKSUM_FULL_OBJECT);
    static const char *const bad[] = {"y/Q5Jg==-",  "y/Q5Jg==-0", "y/Q5Jg==-10001",
                                      "y/Q5Jg==-x", "-3",         "y/Q5Jg==-1-1"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(checksum_parse_parts(CHECKSUM_CRC32, slice_str(bad[i]), &checksum, &parts),
                         -HL_ERR_INVALID_REQUEST);
    }
    uint8_t type = 9;
    assert_true(checksum_type_parse(slice_str("composite"), &type));
    assert_int_equal(type, CHECKSUM_COMPOSITE);
    assert_false(checksum_type_parse(slice_str("FULL"), &type));
    assert_string_equal(checksum_type_name(CHECKSUM_FULL_OBJECT), "FULL_OBJECT");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(values),
                                       cmocka_unit_test(composites)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
