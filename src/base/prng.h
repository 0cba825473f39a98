/* A seeded pseudo-random generator (xoshiro256**, Blackman and Vigna 2018) for simulation and
 * tests. Never for secrets: those come from os/random.h. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t s[4];
};

void prng_init(struct prng *prng, uint64_t seed);
uint64_t prng_u64(struct prng *prng);
uint64_t prng_below(struct prng *prng, uint64_t bound); /* uniform in [0, bound), bound > 0 */
void prng_bytes(struct prng *prng, void *data, size_t size);

#endif
