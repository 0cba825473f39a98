/* Real and simulated clocks. */
#include "os/clock.h"

#include <time.h>

static uint64_t real_mono_us(struct os_clock *clock) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static int64_t real_wall_ms(struct os_clock *clock) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct os_clock *os_clock_real(void) {
    static struct os_clock real = {real_mono_us, real_wall_ms};
    return &real;
}

static uint64_t sim_mono_us(struct os_clock *clock) {
    return ((struct os_clock_sim *)clock)->mono_us;
}

static int64_t sim_wall_ms(struct os_clock *clock) {
    return ((struct os_clock_sim *)clock)->wall_ms;
}

void os_clock_sim_init(struct os_clock_sim *sim, int64_t wall_ms) {
    *sim = (struct os_clock_sim){{sim_mono_us, sim_wall_ms}, 1000000, wall_ms};
}
