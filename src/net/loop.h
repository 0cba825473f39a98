/* Event loops: one thread each, epoll underneath, nothing blocks inside. A loop is also an
 * executor: tasks posted from any thread run on it (one eventfd wake for many). A turn: timers,
 * descriptors (with a budget each), posted tasks, then the before-sleep hooks. */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/task.h"
#include "os/clock.h"

struct loop;

int loop_new(struct os_clock *clock, struct loop **ret);
void loop_free(struct loop *loop);
void loop_run(struct loop *loop);  /* until loop_stop; on the calling thread */
void loop_stop(struct loop *loop); /* from any thread */
/* One turn that sleeps at most wait_ms (-1: until something happens): for tests, which own the
 * thread and move a simulated clock between turns. */
void loop_turn(struct loop *loop, int wait_ms);
struct executor *loop_executor(struct loop *loop);
uint64_t loop_now_us(struct loop *loop); /* monotonic, read once a turn */

/* A watched descriptor; embedded in its owner. */
struct loop_fd {
    int fd;
    uint32_t events; /* EPOLLIN | EPOLLOUT as watched now */
    void (*ready)(struct loop_fd *watch, uint32_t events);
};
/* Add may be called from any thread; set and remove only on the loop's. Events may hold EPOLLET. */
int loop_fd_add(struct loop *loop, struct loop_fd *watch, uint32_t events);
int loop_fd_set(struct loop *loop, struct loop_fd *watch, uint32_t events);
void loop_fd_remove(struct loop *loop, struct loop_fd *watch); /* also drops events of this turn */

/* A timer (wheel of 10 ms slots); embedded. */
struct loop_timer {
    struct loop_timer *next, **link;
    uint64_t due_us;
    void (*fire)(struct loop_timer *timer);
};
void loop_timer_set(struct loop *loop, struct loop_timer *timer,
                    uint64_t delay_us);                             /* again: moves it */
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); /* harmless when not set */

/* Runs at the end of each turn, before the loop sleeps; embedded, stays until removed. */
struct loop_hook {
    struct loop_hook *next;
    void (*run)(struct loop_hook *hook);
};
void loop_hook_add(struct loop *loop, struct loop_hook *hook);    /* before the loop runs */
void loop_hook_remove(struct loop *loop, struct loop_hook *hook); /* after it has stopped */

#endif
