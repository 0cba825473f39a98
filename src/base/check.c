/* What happens when an invariant does not hold: say where, then stop. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "hayloft: check failed: %s at %s:%d\n", condition, file, line);
    abort();
}
