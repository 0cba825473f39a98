/* The worker pool: order, bound of threads, and that nothing queued is lost at the end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "net/worker.h"

struct job {
    struct task task;
    int number;
};

static struct job jobs[2000];
static int order[2000];
static atomic_int done_count, running, running_max;

static void job_run(struct task *task) {
    struct job *job = CONTAINER_OF(task, struct job, task);
    int now = atomic_fetch_add(&running, 1) + 1;
    int max = atomic_load(&running_max);
    while (now > max && !atomic_compare_exchange_weak(&running_max, &max, now)) {
    }
    order[atomic_fetch_add(&done_count, 1)] = job->number;
    atomic_fetch_sub(&running, 1);
}

static void run_all(uint32_t threads) {
    struct worker_pool *pool;
    atomic_store(&done_count, 0);
    atomic_store(&running_max, 0);
    assert_int_equal(worker_pool_new(threads, &pool), 0);
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        jobs[i] = (struct job){{.run = job_run}, (int)i};
        executor_post(worker_pool_executor(pool), &jobs[i].task);
    }
    assert_true(worker_pool_queued(pool) <= ARRAY_COUNT(jobs));
    worker_pool_free(pool);
    assert_int_equal(atomic_load(&done_count), ARRAY_COUNT(jobs));
    assert_true((uint32_t)atomic_load(&running_max) <= threads);
}

static void one_thread_keeps_the_order(void **state) {
    run_all(1);
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        assert_int_equal(order[i], i);
    }
}

static void several_threads_run_everything_once(void **state) {
    static bool seen[ARRAY_COUNT(jobs)];
    run_all(4);
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
}

/* Two tasks that wait for each other need two threads at once. */
static pthread_barrier_t barrier;
static void barrier_run(struct task *task) {
    pthread_barrier_wait(&barrier);
}

static void threads_work_side_by_side(void **state) {
    struct worker_pool *pool;
    struct task a = {.run = barrier_run}, b = {.run = barrier_run};
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(worker_pool_new(2, &pool), 0);
    executor_post(worker_pool_executor(pool), &a);
    executor_post(worker_pool_executor(pool), &b);
    worker_pool_free(pool);
    pthread_barrier_destroy(&barrier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_keeps_the_order),
        cmocka_unit_test(several_threads_run_everything_once),
        cmocka_unit_test(threads_work_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
