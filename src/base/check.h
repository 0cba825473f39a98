/* CHECK(): invariants that stay on in production. A failure prints the condition and the place,
 * then aborts. For programmer errors and for memory that no longer makes sense, never for input
 * from outside. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            check_failed(#condition, __FILE__, __LINE__);                                          \
        }                                                                                          \
    } while (0)

/* Marks a place that no execution reaches. */
#define UNREACHABLE() check_failed("unreachable", __FILE__, __LINE__)

#endif
