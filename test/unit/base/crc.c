/* The CRCs against their published check values, against a bitwise reference that follows the
 * definitions, and against themselves in pieces and combined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/prng.h"

#define BYTES_MAX 2000

/* One bit a step, as the catalogue of parametrised CRCs defines a reflected CRC with all-ones start
 * and final inversion. */
static uint64_t reference(uint64_t poly, uint64_t mask, const uint8_t *data, size_t size) {
    uint64_t value = mask;
    for (size_t i = 0; i < size; i++) {
        value ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            value = (value & 1) != 0 ? value >> 1 ^ poly : value >> 1;
        }
    }
    return value ^ mask;
}

#define REFERENCE_CRC32(d, n)     reference(0xEDB88320u, UINT32_MAX, d, n)
#define REFERENCE_CRC32C(d, n)    reference(0x82F63B78u, UINT32_MAX, d, n)
#define REFERENCE_CRC64NVME(d, n) reference(0x9A6C9329AC4BC9B5u, UINT64_MAX, d, n)

static void test_check_values(void **state) {
    assert_int_equal(crc32(0, "123456789", 9), 0xCBF43926u);
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283u);
    assert_true(crc64nvme(0, "123456789", 9) == 0xAE8B14860A799888u);
    assert_int_equal(crc32(0, NULL, 0), 0);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    assert_true(crc64nvme(0, NULL, 0) == 0);
}

/* RFC 3720 appendix B.4; NVM Command Set 1.0 figure 121 for 4 KiB. */
static void test_published_blocks(void **state) {
    uint8_t block[4096];
    memset(block, 0, sizeof(block));
    assert_int_equal(crc32c(0, block, 32), 0x8A9136AAu);
    assert_true(crc64nvme(0, block, 4096) == 0x6482D367EB22B64Eu);
    memset(block, 0xff, sizeof(block));
    assert_int_equal(crc32c(0, block, 32), 0x62A8AB43u);
    assert_true(crc64nvme(0, block, 4096) == 0xC0DDBA7302ECA3ACu);
    for (int i = 0; i < 32; i++) {
        block[i] = (uint8_t)i;
    }
    assert_int_equal(crc32c(0, block, 32), 0x46DD794Eu);
}

static void test_all_lengths(void **state) {
    uint8_t data[BYTES_MAX + 8];
    struct prng prng;
    prng_init(&prng, 1);
    prng_bytes(&prng, data, sizeof(data));
    for (size_t size = 0; size <= BYTES_MAX; size++) {
        const uint8_t *from = data + size % 8; /* alignment must not matter */
        assert_true(crc32(0, from, size) == REFERENCE_CRC32(from, size));
        assert_true(crc32c(0, from, size) == REFERENCE_CRC32C(from, size));
        assert_true(crc64nvme(0, from, size) == REFERENCE_CRC64NVME(from, size));
    }
}

static void test_random_splits_and_combines(void **state) {
    uint8_t data[BYTES_MAX];
    struct prng prng;
    prng_init(&prng, 2);
    for (int round = 0; round < 500; round++) {
        size_t size = prng_below(&prng, BYTES_MAX + 1);
        size_t split = prng_below(&prng, size + 1);
        prng_bytes(&prng, data, size);
        const uint8_t *b = data + split;
        size_t size_b = size - split;
        uint64_t whole32 = REFERENCE_CRC32(data, size);
        uint64_t whole32c = REFERENCE_CRC32C(data, size);
        uint64_t whole64 = REFERENCE_CRC64NVME(data, size);
        uint32_t a32 = crc32(0, data, split), a32c = crc32c(0, data, split);
        uint64_t a64 = crc64nvme(0, data, split);
        assert_true(crc32(a32, b, size_b) == whole32);
        assert_true(crc32c(a32c, b, size_b) == whole32c);
        assert_true(crc64nvme(a64, b, size_b) == whole64);
        assert_true(crc32_combine(a32, crc32(0, b, size_b), size_b) == whole32);
        assert_true(crc32c_combine(a32c, crc32c(0, b, size_b), size_b) == whole32c);
        assert_true(crc64nvme_combine(a64, crc64nvme(0, b, size_b), size_b) == whole64);
    }
}

/* Sizes that no test can hash directly: 5 TiB of zeros, by doubling with combine, must agree with
 * one combine over the whole size. */
static void test_combine_of_large_sizes(void **state) {
    uint8_t zero = 0;
    uint64_t size = 1;
    uint32_t value32 = crc32(0, &zero, 1), value32c = crc32c(0, &zero, 1);
    uint64_t value64 = crc64nvme(0, &zero, 1);
    for (int i = 0; i < 42; i++) {
        value32 = crc32_combine(value32, value32, size);
        value32c = crc32c_combine(value32c, value32c, size);
        value64 = crc64nvme_combine(value64, value64, size);
        size *= 2;
    }
    uint32_t first32 = crc32(0, "abc", 3);
    /* (A Z1) Z2 = A (Z1 Z2) for Z1, Z2 of 2^42 zeros. */
    assert_int_equal(crc32_combine(crc32_combine(first32, value32, size), value32, size),
                     crc32_combine(first32, crc32_combine(value32, value32, size), 2 * size));
    uint32_t first32c = crc32c(0, "abc", 3);
    assert_int_equal(crc32c_combine(crc32c_combine(first32c, value32c, size), value32c, size),
                     crc32c_combine(first32c, crc32c_combine(value32c, value32c, size), 2 * size));
    uint64_t first64 = crc64nvme(0, "abc", 3);
    assert_true(crc64nvme_combine(crc64nvme_combine(first64, value64, size), value64, size) ==
                crc64nvme_combine(first64, crc64nvme_combine(value64, value64, size), 2 * size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_values),
        cmocka_unit_test(test_published_blocks),
        cmocka_unit_test(test_all_lengths),
        cmocka_unit_test(test_random_splits_and_combines),
        cmocka_unit_test(test_combine_of_large_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
