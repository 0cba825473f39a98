/* Time. Real (os_clock_real) or simulated (a struct that the simulator moves). Wall-clock time is
 * only ever shown to people and compared with signatures; it orders nothing. */
#ifndef OS_CLOCK_H
#define OS_CLOCK_H

#include <stdint.h>

struct os_clock {
    uint64_t (*mono_us)(struct os_clock *clock); /* never goes back */
    int64_t (*wall_ms)(struct os_clock *clock);  /* since 1970 UTC; may jump */
};

struct os_clock *os_clock_real(void);

struct os_clock_sim {
    struct os_clock clock;
    uint64_t mono_us;
    int64_t wall_ms;
};
void os_clock_sim_init(struct os_clock_sim *sim, int64_t wall_ms);

static inline uint64_t os_mono_us(struct os_clock *clock) {
    return clock->mono_us(clock);
}
static inline int64_t os_wall_ms(struct os_clock *clock) {
    return clock->wall_ms(clock);
}

#endif
