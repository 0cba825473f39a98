/* The real environment. */
#include "os/env.h"

struct os_env *os_env_real(void) {
    static struct os_env real;
    real = (struct os_env){os_fs_real(), os_clock_real(), os_random_real()};
    return &real;
}
