/* Real and simulated randomness. */
#include "os/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/check.h"

static void real_bytes(struct os_random *random, void *data, size_t size) {
    uint8_t *p = data;
    while (size > 0) {
        ssize_t n = getrandom(p, size, 0);
        if (n < 0) {
            CHECK(errno == EINTR); /* the kernel's generator does not fail otherwise */
            continue;
        }
        p += n;
        size -= (size_t)n;
    }
}

struct os_random *os_random_real(void) {
    static struct os_random real = {real_bytes};
    return &real;
}

static void sim_bytes(struct os_random *random, void *data, size_t size) {
    prng_bytes(&((struct os_random_sim *)random)->prng, data, size);
}

void os_random_sim_init(struct os_random_sim *sim, uint64_t seed) {
    sim->random.bytes = sim_bytes;
    prng_init(&sim->prng, seed);
}

uint64_t os_random_u64(struct os_random *random) {
    uint64_t v;
    os_random_bytes(random, &v, sizeof(v));
    return v;
}
