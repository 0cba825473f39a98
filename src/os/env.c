/* The real environment. */
#include "os/env.h"

#include <pthread.h>

static struct os_env real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_real(void) {
    real = (struct os_env){os_fs_real(), os_clock_real(), os_random_real()};
}

struct os_env *os_env_real(void) {
    pthread_once(&once, make_real);
    return &real;
}
