/* The loop: timers with a simulated clock, tasks from many threads, removal of descriptors whose
 * events are pending. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/prng.h"
#include "net/loop.h"

struct fixture {
    struct os_clock_sim sim;
    struct loop *loop;
};

static int set_up(void **state) {
    static struct fixture f;
    os_clock_sim_init(&f.sim, 0);
    f.sim.mono_us = 123456789;
    assert_int_equal(loop_new(&f.sim.clock, &f.loop), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    loop_free(f->loop);
    return 0;
}

/* ---- timers ---- */

struct probe {
    struct loop_timer timer;
    struct fixture *f;
    uint64_t due_us;   /* as asked; 0: not set */
    uint64_t fired_us; /* 0: not yet */
    struct probe *clears;
    bool again;
};

static void probe_fire(struct loop_timer *timer) {
    struct probe *p = CONTAINER_OF(timer, struct probe, timer);
    assert_int_equal(p->fired_us, 0);
    p->fired_us = loop_now_us(p->f->loop);
    if (p->clears != NULL) {
        loop_timer_clear(p->f->loop, &p->clears->timer);
    }
    if (p->again) {
        p->again = false;
        p->fired_us = 0;
        p->due_us += 50000;
        loop_timer_set(p->f->loop, &p->timer, 50000);
    }
}

/* Independent truth: at every step exactly the timers that are due have fired. */
static void timers_fire_when_due(void **state) {
    struct fixture *f = *state;
    static struct probe probes[300];
    struct prng prng;
    prng_init(&prng, 7);
    memset(probes, 0, sizeof(probes));
    for (size_t i = 0; i < ARRAY_COUNT(probes); i++) {
        struct probe *p = &probes[i];
        uint64_t delay = prng_u64(&prng) % (i % 3 == 0 ? 100000u : 60000000u);
        p->timer.fire = probe_fire;
        p->f = f;
        p->due_us = f->sim.mono_us + delay;
        loop_timer_set(f->loop, &p->timer, prng_u64(&prng) % 1000000);
        loop_timer_set(f->loop, &p->timer, delay); /* moves it */
        if (i % 10 == 9) {
            loop_timer_clear(f->loop, &p->timer);
            loop_timer_clear(f->loop, &p->timer);
            p->due_us = UINT64_MAX;
        }
    }
    for (int step = 0; step < 2000; step++) {
        f->sim.mono_us += prng_u64(&prng) % 50000 + (step % 100 == 0 ? 3000000 : 0);
        loop_turn(f->loop, 0);
        for (size_t i = 0; i < ARRAY_COUNT(probes); i++) {
            assert_int_equal(probes[i].fired_us != 0, probes[i].due_us <= f->sim.mono_us);
        }
    }
    assert_true(f->sim.mono_us > probes[0].due_us + 60000000);
}

static void timers_clear_and_set_inside_callbacks(void **state) {
    struct fixture *f = *state;
    struct probe a = {.timer = {.fire = probe_fire}, .f = f};
    struct probe b = {.timer = {.fire = probe_fire}, .f = f};
    a.clears = &b;
    b.clears = &a;
    loop_timer_set(f->loop, &a.timer, 5000);
    loop_timer_set(f->loop, &b.timer, 5000);
    f->sim.mono_us += 20000;
    loop_turn(f->loop, 0);
    /* Both were due in the same turn; whichever came first took the other away. */
    assert_int_equal((a.fired_us != 0) + (b.fired_us != 0), 1);

    struct probe c = {.timer = {.fire = probe_fire}, .f = f, .again = true};
    loop_timer_set(f->loop, &c.timer, 0);
    loop_turn(f->loop, 0);
    assert_int_equal(c.fired_us, 0);
    f->sim.mono_us += 49000;
    loop_turn(f->loop, 0);
    assert_int_equal(c.fired_us, 0);
    f->sim.mono_us += 1000;
    loop_turn(f->loop, 0);
    assert_int_equal(c.fired_us, f->sim.mono_us);
}

/* ---- descriptors ---- */

struct watcher {
    struct loop_fd watch;
    struct loop *loop;
    struct watcher *removes;
    int calls;
};

static void watcher_ready(struct loop_fd *watch, uint32_t events) {
    struct watcher *w = CONTAINER_OF(watch, struct watcher, watch);
    char byte;
    w->calls++;
    assert_true(events & EPOLLIN);
    assert_int_equal(read(watch->fd, &byte, 1), 1);
    if (w->removes != NULL) {
        loop_fd_remove(w->loop, &w->removes->watch);
    }
}

static void removed_descriptor_gets_no_event(void **state) {
    struct fixture *f = *state;
    int a[2], b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    struct watcher x = {.watch = {.fd = a[0], .ready = watcher_ready}, .loop = f->loop};
    struct watcher y = {.watch = {.fd = b[0], .ready = watcher_ready}, .loop = f->loop};
    x.removes = &y;
    y.removes = &x;
    assert_int_equal(loop_fd_add(f->loop, &x.watch, EPOLLIN), 0);
    assert_int_equal(loop_fd_add(f->loop, &y.watch, EPOLLIN), 0);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "y", 1), 1);
    loop_turn(f->loop, 1000); /* both are reported in this turn */
    loop_turn(f->loop, 0);
    assert_int_equal(x.calls + y.calls, 1);

    /* The one that is left can be silenced and heard again. */
    struct watcher *left = x.calls == 1 ? &x : &y;
    int peer = left == &x ? a[1] : b[1];
    left->removes = NULL;
    assert_int_equal(loop_fd_set(f->loop, &left->watch, 0), 0);
    assert_int_equal(write(peer, "z", 1), 1);
    loop_turn(f->loop, 0);
    assert_int_equal(left->calls, 1);
    assert_int_equal(loop_fd_set(f->loop, &left->watch, EPOLLIN), 0);
    loop_turn(f->loop, 0);
    assert_int_equal(left->calls, 2);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

/* ---- tasks ---- */

#define POSTERS 4
#define POSTS   20000

struct numbered {
    struct task task;
    int poster, number;
};

static struct numbered tasks[POSTERS][POSTS];
static int next_number[POSTERS];
static int tasks_run;
static struct loop *task_loop;

static void numbered_run(struct task *task) {
    struct numbered *n = CONTAINER_OF(task, struct numbered, task);
    assert_int_equal(next_number[n->poster], n->number); /* in the order posted */
    next_number[n->poster]++;
    if (++tasks_run == POSTERS * POSTS) {
        loop_stop(task_loop);
    }
}

static void *poster_main(void *arg) {
    struct numbered *mine = arg;
    for (int i = 0; i < POSTS; i++) {
        executor_post(loop_executor(task_loop), &mine[i].task);
    }
    return NULL;
}

static void tasks_from_many_threads_all_run_in_order(void **state) {
    struct fixture *f = *state;
    pthread_t threads[POSTERS];
    task_loop = f->loop;
    for (int p = 0; p < POSTERS; p++) {
        for (int i = 0; i < POSTS; i++) {
            tasks[p][i] = (struct numbered){{.run = numbered_run}, p, i};
        }
    }
    for (int p = 0; p < POSTERS; p++) {
        assert_int_equal(pthread_create(&threads[p], NULL, poster_main, tasks[p]), 0);
    }
    loop_run(f->loop); /* a lost wake would hang here */
    for (int p = 0; p < POSTERS; p++) {
        pthread_join(threads[p], NULL);
        assert_int_equal(next_number[p], POSTS);
    }
}

static int hook_runs;
static void hook_run(struct loop_hook *hook) {
    hook_runs++;
}
static int self_posts;
static void self_run(struct task *task) {
    assert_int_equal(hook_runs, self_posts); /* one turn each: a task that posts itself is fair */
    if (++self_posts < 5) {
        executor_post(loop_executor(task_loop), task);
    }
}

static void hooks_end_turns(void **state) {
    struct fixture *f = *state;
    struct loop_hook hook = {.run = hook_run};
    struct task task = {.run = self_run};
    task_loop = f->loop;
    loop_hook_add(f->loop, &hook);
    executor_post(loop_executor(f->loop), &task);
    for (int i = 0; i < 6; i++) {
        loop_turn(f->loop, 0);
    }
    assert_int_equal(self_posts, 5);
    assert_int_equal(hook_runs, 6);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(timers_fire_when_due),
        TEST(timers_clear_and_set_inside_callbacks),
        TEST(removed_descriptor_gets_no_event),
        TEST(tasks_from_many_threads_all_run_in_order),
        TEST(hooks_end_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
