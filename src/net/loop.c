/* The event loop: epoll, one eventfd for tasks from other threads, a wheel of timers.
 *
 * Invariants: everything but loop_executor's post, loop_stop and loop_fd_add runs on the loop's
 * own thread. A descriptor that was removed gets no event any more, also none that epoll reported
 * before the removal. A poster wakes the loop only when it is asleep or about to sleep: `sleeping`
 * is raised before the queue is looked at for the last time, so no task is missed and many posts
 * cost one wake. Knows nothing of sockets or protocols. */
#include "net/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"

#define LOOP_EVENTS_MAX 128
#define WHEEL_SLOTS     1024
#define WHEEL_SLOT_US   10000

struct loop {
    struct executor executor;
    struct os_clock *clock;
    int epoll_fd;
    int wake_fd;
    uint64_t now_us;

    _Atomic(struct task *) posted; /* newest first */
    atomic_bool sleeping;
    atomic_bool stopping;

    struct epoll_event events[LOOP_EVENTS_MAX]; /* of this turn */
    int event_count;
    int event_pos; /* the next to handle */

    struct loop_timer *wheel[WHEEL_SLOTS]; /* by due_us / WHEEL_SLOT_US modulo */
    uint64_t wheel_tick;                   /* slots before this one have been emptied */
    uint64_t earliest_us;                  /* no timer is due before; may be too early */
    uint32_t timer_count;

    struct loop_hook *hooks;
};

static void loop_wake(struct loop *loop) {
    uint64_t one = 1;
    ssize_t n = write(loop->wake_fd, &one, sizeof(one));
    (void)n; /* EAGAIN means that a wake is pending already */
}

static void loop_post(struct executor *executor, struct task *task) {
    struct loop *loop = CONTAINER_OF(executor, struct loop, executor);
    struct task *old = atomic_load_explicit(&loop->posted, memory_order_relaxed);
    do {
        task->next = old;
    } while (!atomic_compare_exchange_weak(&loop->posted, &old, task));
    if (atomic_load(&loop->sleeping) && atomic_exchange(&loop->sleeping, false)) {
        loop_wake(loop);
    }
}

int loop_new(struct os_clock *clock, struct loop **ret) {
    int err;
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL) {
        return -HL_ERR_NOMEM;
    }
    loop->executor.post = loop_post;
    loop->clock = clock;
    loop->now_us = os_mono_us(clock);
    loop->wheel_tick = loop->now_us / WHEEL_SLOT_US;
    loop->earliest_us = UINT64_MAX;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        err = error_from_errno(errno);
        goto free_loop;
    }
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0) {
        err = error_from_errno(errno);
        goto close_epoll;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        err = error_from_errno(errno);
        goto close_wake;
    }
    *ret = loop;
    return 0;

close_wake:
    close(loop->wake_fd);
close_epoll:
    close(loop->epoll_fd);
free_loop:
    free(loop);
    return err;
}

void loop_free(struct loop *loop) {
    if (loop == NULL) {
        return;
    }
    close(loop->wake_fd);
    close(loop->epoll_fd);
    free(loop);
}

struct executor *loop_executor(struct loop *loop) {
    return &loop->executor;
}

uint64_t loop_now_us(struct loop *loop) {
    return loop->now_us;
}

/* ---- descriptors ---- */

static int loop_control(struct loop *loop, int operation, struct loop_fd *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    /* Before the kernel knows: after an add from another thread the first event may come at once.
     */
    watch->events = events;
    return epoll_ctl(loop->epoll_fd, operation, watch->fd, &event) == 0 ? 0
                                                                        : error_from_errno(errno);
}

int loop_fd_add(struct loop *loop, struct loop_fd *watch, uint32_t events) {
    return loop_control(loop, EPOLL_CTL_ADD, watch, events);
}

int loop_fd_set(struct loop *loop, struct loop_fd *watch, uint32_t events) {
    if (watch->events == events) {
        return 0;
    }
    return loop_control(loop, EPOLL_CTL_MOD, watch, events);
}

void loop_fd_remove(struct loop *loop, struct loop_fd *watch) {
    struct epoll_event event = {0};
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, &event);
    watch->events = 0;
    for (int i = loop->event_pos; i < loop->event_count; i++) {
        if (loop->events[i].data.ptr == watch) {
            loop->events[i].data.ptr = NULL;
        }
    }
}

static void loop_run_events(struct loop *loop) {
    while (loop->event_pos < loop->event_count) {
        struct epoll_event *event = &loop->events[loop->event_pos++];
        if (event->data.ptr == NULL) {
            continue;
        }
        if (event->data.ptr == loop) {
            uint64_t count;
            ssize_t n = read(loop->wake_fd, &count, sizeof(count));
            (void)n;
            continue;
        }
        struct loop_fd *watch = event->data.ptr;
        watch->ready(watch, event->events);
    }
}

/* ---- timers ---- */

static void timer_link(struct loop_timer **head, struct loop_timer *timer) {
    timer->next = *head;
    timer->link = head;
    if (timer->next != NULL) {
        timer->next->link = &timer->next;
    }
    *head = timer;
}

static void timer_unlink(struct loop_timer *timer) {
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    }
    timer->next = NULL;
    timer->link = NULL;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_us) {
    loop_timer_clear(loop, timer);
    if (__builtin_add_overflow(loop->now_us, delay_us, &timer->due_us)) {
        timer->due_us = UINT64_MAX - 1;
    }
    uint64_t tick = timer->due_us / WHEEL_SLOT_US;
    timer_link(&loop->wheel[tick % WHEEL_SLOTS], timer);
    loop->timer_count++;
    loop->earliest_us = MIN(loop->earliest_us, timer->due_us);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer) {
    if (timer->link == NULL) {
        return;
    }
    timer_unlink(timer);
    loop->timer_count--;
}

/* The first slot with a timer of this round decides; a wheel that holds only later rounds is
 * looked at again after one round. */
static uint64_t wheel_earliest(const struct loop *loop) {
    if (loop->timer_count == 0) {
        return UINT64_MAX;
    }
    for (uint64_t tick = loop->wheel_tick; tick < loop->wheel_tick + WHEEL_SLOTS; tick++) {
        uint64_t least = UINT64_MAX;
        for (struct loop_timer *t = loop->wheel[tick % WHEEL_SLOTS]; t != NULL; t = t->next) {
            if (t->due_us / WHEEL_SLOT_US <= tick) {
                least = MIN(least, t->due_us);
            }
        }
        if (least != UINT64_MAX) {
            return least;
        }
    }
    return (loop->wheel_tick + WHEEL_SLOTS) * WHEEL_SLOT_US;
}

static void loop_run_timers(struct loop *loop) {
    if (loop->now_us < loop->earliest_us) {
        return;
    }
    /* Expired timers are moved to a list first, so that what they set or clear is safe. */
    struct loop_timer *expired = NULL;
    uint64_t now_tick = loop->now_us / WHEEL_SLOT_US;
    uint64_t last = MIN(now_tick, loop->wheel_tick + WHEEL_SLOTS - 1);
    for (uint64_t tick = loop->wheel_tick; tick <= last; tick++) {
        struct loop_timer *next;
        for (struct loop_timer *t = loop->wheel[tick % WHEEL_SLOTS]; t != NULL; t = next) {
            next = t->next;
            if (t->due_us <= loop->now_us) {
                timer_unlink(t);
                timer_link(&expired, t);
            }
        }
    }
    loop->wheel_tick = MAX(now_tick, loop->wheel_tick);
    while (expired != NULL) {
        struct loop_timer *t = expired;
        loop_timer_clear(loop, t);
        t->fire(t);
    }
    loop->earliest_us = wheel_earliest(loop);
}

/* ---- tasks, hooks, turns ---- */

static void loop_run_tasks(struct loop *loop) {
    if (atomic_load_explicit(&loop->posted, memory_order_relaxed) == NULL) {
        return;
    }
    struct task *newest = atomic_exchange(&loop->posted, NULL);
    struct task *oldest = NULL;
    while (newest != NULL) {
        struct task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct task *next = oldest->next; /* the task may be gone after its run */
        oldest->run(oldest);
        oldest = next;
    }
}

void loop_hook_add(struct loop *loop, struct loop_hook *hook) {
    hook->next = loop->hooks;
    loop->hooks = hook;
}

void loop_hook_remove(struct loop *loop, struct loop_hook *hook) {
    for (struct loop_hook **link = &loop->hooks; *link != NULL; link = &(*link)->next) {
        if (*link == hook) {
            *link = hook->next;
            return;
        }
    }
}

static int loop_wait_ms(struct loop *loop, int wait_ms) {
    if (loop->earliest_us == UINT64_MAX) {
        return wait_ms;
    }
    uint64_t now = os_mono_us(loop->clock);
    if (now >= loop->earliest_us) {
        return 0;
    }
    uint64_t ms = (loop->earliest_us - now + 999) / 1000;
    if (wait_ms >= 0 && (uint64_t)wait_ms < ms) {
        return wait_ms;
    }
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

void loop_turn(struct loop *loop, int wait_ms) {
    int timeout = loop_wait_ms(loop, wait_ms);
    atomic_store(&loop->sleeping, true);
    if (atomic_load(&loop->posted) != NULL || atomic_load(&loop->stopping)) {
        timeout = 0;
    }
    int count = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENTS_MAX, timeout);
    atomic_store(&loop->sleeping, false);
    CHECK(count >= 0 || errno == EINTR);
    loop->event_count = MAX(count, 0);
    loop->event_pos = 0;
    loop->now_us = os_mono_us(loop->clock);
    loop_run_timers(loop);
    loop_run_events(loop);
    loop_run_tasks(loop);
    for (struct loop_hook *hook = loop->hooks; hook != NULL; hook = hook->next) {
        hook->run(hook);
    }
}

void loop_run(struct loop *loop) {
    while (!atomic_load(&loop->stopping)) {
        loop_turn(loop, -1);
    }
    atomic_store(&loop->stopping, false);
}

void loop_stop(struct loop *loop) {
    atomic_store(&loop->stopping, true);
    loop_wake(loop);
}
