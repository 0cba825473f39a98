/* Randomness: getrandom(2) in production, a seeded generator in simulation. */
#ifndef OS_RANDOM_H
#define OS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

struct os_random {
    void (*bytes)(struct os_random *random, void *data, size_t size);
};

struct os_random *os_random_real(void);

struct os_random_sim {
    struct os_random random;
    struct prng prng;
};
void os_random_sim_init(struct os_random_sim *sim, uint64_t seed);

static inline void os_random_bytes(struct os_random *random, void *data, size_t size) {
    random->bytes(random, data, size);
}
uint64_t os_random_u64(struct os_random *random);

#endif
