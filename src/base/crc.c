/* CRC32 and CRC32C from ISA-L, CRC64-NVME of our own (the packaged ISA-L lacks the polynomial), and
 * combination by multiplication of polynomials modulo the generator over GF(2).
 *
 * All three are reflected with all-ones start and final inversion. ISA-L's two functions differ:
 * crc32_gzip_refl inverts inside, crc32_iscsi does not. Pure functions; the tables are made once.
 */
#include "base/crc.h"

#include <isa-l.h>
#include <pthread.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/bytes.h"
#include "base/macros.h"

#define POLY_CRC32     0xEDB88320u         /* reflected 0x04C11DB7 */
#define POLY_CRC32C    0x82F63B78u         /* reflected 0x1EDC6F41 */
#define POLY_CRC64NVME 0x9A6C9329AC4BC9B5u /* reflected 0xAD93D23594C93659 */

/* ISA-L takes lengths as 64 bits in one and as int in the other. */
#define ISAL_BYTES_MAX (1u << 30)

/* ISA-L 2.30 returns from its vector code with the upper halves of the registers in use. Until they
 * are cleared all SSE code of the thread runs slower: crc64nvme at half its speed (measured). */
#ifdef __x86_64__
__attribute__((target("avx"))) static void zero_upper(void) {
    _mm256_zeroupper();
}
static void clean_up_after_isal(void) {
    if (__builtin_cpu_supports("avx")) {
        zero_upper();
    }
}
#else
static void clean_up_after_isal(void) {
}
#endif

uint32_t crc32(uint32_t crc, const void *data, size_t size) {
    uint32_t value = crc32_gzip_refl(crc, data, size);
    clean_up_after_isal();
    return value;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    const unsigned char *p = data;
    uint32_t value = ~crc;
    while (size > 0) {
        size_t n = MIN(size, (size_t)ISAL_BYTES_MAX);
        value = crc32_iscsi((unsigned char *)(uintptr_t)p, (int)n, value);
        p += n;
        size -= n;
    }
    clean_up_after_isal();
    return ~value;
}

/* ---- CRC64-NVME ---- */

#define SLICES 16
static uint64_t crc64_table[SLICES][256];
static pthread_once_t crc64_once = PTHREAD_ONCE_INIT;

static void crc64_make_table(void) {
    for (unsigned i = 0; i < 256; i++) {
        uint64_t v = i;
        for (int bit = 0; bit < 8; bit++) {
            v = v >> 1 ^ ((v & 1) != 0 ? POLY_CRC64NVME : 0);
        }
        crc64_table[0][i] = v;
    }
    for (unsigned i = 0; i < 256; i++) {
        for (int s = 1; s < SLICES; s++) {
            uint64_t v = crc64_table[s - 1][i];
            crc64_table[s][i] = crc64_table[0][v & 0xff] ^ v >> 8;
        }
    }
}

/* Slicing by 16: sixteen bytes a step through sixteen tables. value is not inverted here. */
static uint64_t crc64_sliced(uint64_t value, const uint8_t *p, size_t size) {
    while (size >= SLICES) {
        uint64_t a = get_le64(p) ^ value, b = get_le64(p + 8);
        value = 0;
        for (int i = 0; i < 8; i++) {
            value ^= crc64_table[15 - i][a >> (8 * i) & 0xff];
            value ^= crc64_table[7 - i][b >> (8 * i) & 0xff];
        }
        p += SLICES;
        size -= SLICES;
    }
    while (size-- > 0) {
        value = crc64_table[0][(value ^ *p++) & 0xff] ^ value >> 8;
    }
    return value;
}

#ifdef __x86_64__

/* x^n modulo the polynomial, in reflected order (bit 63 is x^0). */
static uint64_t crc64_power(unsigned n) {
    uint64_t v = 1ull << 63;
    while (n-- > 0) {
        v = v >> 1 ^ ((v & 1) != 0 ? POLY_CRC64NVME : 0);
    }
    return v;
}

struct crc64_constants {
    uint64_t by_512[2], by_128[2];
};
static struct crc64_constants crc64_fold;

static void crc64_make_constants(void) {
    crc64_make_table();
    /* A carry-less product of reflected values comes out one bit low, hence one x less. */
    crc64_fold = (struct crc64_constants){{crc64_power(575), crc64_power(511)},
                                          {crc64_power(191), crc64_power(127)}};
}

static inline __m128i load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i acc, __m128i by,
                                                                    __m128i next) {
    __m128i low = _mm_clmulepi64_si128(acc, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(acc, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Folding ("Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009):
 * four lanes of 128 bits advance by 512, then collapse into one that advances by 128; its 16 bytes
 * go through the table. size >= 64. */
__attribute__((target("pclmul,sse4.1"))) static uint64_t
crc64_folded(uint64_t value, const uint8_t *p, size_t size) {
    const __m128i by_512 = _mm_loadu_si128((const __m128i *)crc64_fold.by_512);
    const __m128i by_128 = _mm_loadu_si128((const __m128i *)crc64_fold.by_128);
    /* Four variables, not an array: GCC 12 at -O2 keeps an array in memory, at a fifth of the
     * speed. */
    __m128i a = _mm_xor_si128(load(p), _mm_set_epi64x(0, (long long)value));
    __m128i b = load(p + 16), c = load(p + 32), d = load(p + 48);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = fold(a, by_512, load(p));
        b = fold(b, by_512, load(p + 16));
        c = fold(c, by_512, load(p + 32));
        d = fold(d, by_512, load(p + 48));
    }
    __m128i acc = fold(fold(fold(a, by_128, b), by_128, c), by_128, d);
    while (size >= 16) {
        acc = fold(acc, by_128, load(p));
        p += 16;
        size -= 16;
    }
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, acc);
    value = crc64_sliced(0, rest, sizeof(rest));
    return crc64_sliced(value, p, size);
}

static uint64_t crc64_update(uint64_t value, const uint8_t *p, size_t size) {
    if (size >= 128 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        return crc64_folded(value, p, size);
    }
    return crc64_sliced(value, p, size);
}

#else

static void crc64_make_constants(void) {
    crc64_make_table();
}

static uint64_t crc64_update(uint64_t value, const uint8_t *p, size_t size) {
    return crc64_sliced(value, p, size);
}

#endif

uint64_t crc64nvme(uint64_t crc, const void *data, size_t size) {
    pthread_once(&crc64_once, crc64_make_constants);
    return ~crc64_update(~crc, data, size);
}

/* ---- combination ---- */

/* a * b modulo poly; width bits, reflected (the top bit is x^0). */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t poly, int width) {
    uint64_t product = 0;
    for (uint64_t bit = 1ull << (width - 1); bit != 0; bit >>= 1) {
        if ((a & bit) != 0) {
            product ^= b;
        }
        b = b >> 1 ^ ((b & 1) != 0 ? poly : 0);
    }
    return product;
}

/* crc(A B) = crc(A) * x^(8 |B|) + crc(B): the inversions at start and end cancel. */
static uint64_t combine(uint64_t crc_a, uint64_t crc_b, uint64_t size_b, uint64_t poly, int width) {
    uint64_t power = 1ull << (width - 1);      /* x^0 */
    uint64_t square = 1ull << (width - 1 - 8); /* x^8 */
    for (; size_b != 0; size_b >>= 1) {
        if ((size_b & 1) != 0) {
            power = multiply(power, square, poly, width);
        }
        square = multiply(square, square, poly, width);
    }
    return multiply(crc_a, power, poly, width) ^ crc_b;
}

uint32_t crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
    return (uint32_t)combine(crc_a, crc_b, size_b, POLY_CRC32, 32);
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
    return (uint32_t)combine(crc_a, crc_b, size_b, POLY_CRC32C, 32);
}

uint64_t crc64nvme_combine(uint64_t crc_a, uint64_t crc_b, uint64_t size_b) {
    return combine(crc_a, crc_b, size_b, POLY_CRC64NVME, 64);
}
