/* Small language helpers: clean-up of locals, hand-over, container_of, array length. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <stddef.h>
#include <stdlib.h>

#define ARRAY_COUNT(a)                  (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define MIN(a, b)                       ((a) < (b) ? (a) : (b))
#define MAX(a, b)                       ((a) > (b) ? (a) : (b))
#define ALIGN_UP(value, alignment)      (((value) + (alignment)-1) / (alignment) * (alignment))

/* Runs fn(&variable) when the variable leaves its scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Hands a pointer over: the expression's value is the pointer, the variable becomes NULL. */
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) _p_ = (p);                                                                   \
        (p) = NULL;                                                                                \
        _p_;                                                                                       \
    })

#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))

static inline void cleanup_free(void *p) {
    free(*(void **)p);
}
#define CLEANUP_FREE CLEANUP(cleanup_free)

#endif
