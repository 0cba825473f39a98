/* Named failpoints, compiled into test builds only (-Dfailpoints=true). FAILPOINT("area.step") is a
 * place where a crash or an error may be asked for, by name and by the count of the hit:
 *   HAYLOFT_FAILPOINTS="log.append.synced=crash@3,volume.sync=error@1"
 * crash calls the crash handler (default: kill -9 of the process; the simulator installs its own).
 * FAILPOINT_ERROR yields true when an error was asked for. Without the option both cost nothing.
 * Names are unique in the tree; tools/failpoints lists them and the crash suite must hit each. */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef HAYLOFT_FAILPOINTS
bool failpoint_hit(const char *name); /* true: fail with an error */
#define FAILPOINT(name)       ((void)failpoint_hit(name))
#define FAILPOINT_ERROR(name) failpoint_hit(name)
#else
#define FAILPOINT(name)       ((void)0)
#define FAILPOINT_ERROR(name) false
#endif

/* Test builds: action "crash" or "error" at the hit-th time from now (0: every time). False when
 * the build has no failpoints. */
bool failpoint_set(const char *name, const char *action, uint64_t hit);
void failpoint_clear(void);
uint64_t failpoint_count(const char *name); /* hits so far, of a name seen */
void failpoint_set_crash_handler(void (*handler)(const char *name));
/* Calls fn for each name that was hit at least once. */
void failpoint_each(void (*fn)(const char *name, uint64_t hits, void *arg), void *arg);

#endif
