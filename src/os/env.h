/* The outside world of a node in one struct: what every module that touches disk, time or chance is
 * given. */
#ifndef OS_ENV_H
#define OS_ENV_H

#include "os/clock.h"
#include "os/file.h"
#include "os/random.h"

struct os_env {
    struct os_fs *fs;
    struct os_clock *clock;
    struct os_random *random;
};

/* Real disk, clock and randomness. */
struct os_env *os_env_real(void);

#endif
