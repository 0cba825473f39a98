/* xoshiro256** seeded by splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2018). */
#include "base/prng.h"

#include <string.h>

#include "base/check.h"

void prng_init(struct prng *prng, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        prng->s[i] = z ^ z >> 31;
    }
}

static uint64_t rotate(uint64_t v, int k) {
    return v << k | v >> (64 - k);
}

uint64_t prng_u64(struct prng *prng) {
    uint64_t *s = prng->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t prng_below(struct prng *prng, uint64_t bound) {
    CHECK(bound > 0);
    /* Rejects the few values that would favour small results. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t v;
    do {
        v = prng_u64(prng);
    } while (v >= limit);
    return v % bound;
}

void prng_bytes(struct prng *prng, void *data, size_t size) {
    uint8_t *p = data;
    while (size > 0) {
        uint64_t v = prng_u64(prng);
        size_t n = size < sizeof(v) ? size : sizeof(v);
        memcpy(p, &v, n);
        p += n;
        size -= n;
    }
}
