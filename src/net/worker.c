/* The worker pool: threads around one queue under a mutex.
 *
 * Invariants: tasks start in the order posted; worker_pool_free runs what is queued before the
 * threads end, and nothing may be posted once it has begun. Workers block all signals, so that
 * they are handled where the program wants them. Knows nothing of what tasks do. */
#include "net/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"

struct worker_pool {
    struct executor executor;
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    struct task *first;
    struct task **last; /* where the next task is linked */
    uint64_t queued;
    bool stopping;
    uint32_t thread_count;
    pthread_t threads[];
};

static void worker_post(struct executor *executor, struct task *task) {
    struct worker_pool *pool = CONTAINER_OF(executor, struct worker_pool, executor);
    task->next = NULL;
    pthread_mutex_lock(&pool->mutex);
    *pool->last = task;
    pool->last = &task->next;
    pool->queued++;
    pthread_cond_signal(&pool->posted);
    pthread_mutex_unlock(&pool->mutex);
}

static struct task *worker_take(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    while (pool->first == NULL && !pool->stopping) {
        pthread_cond_wait(&pool->posted, &pool->mutex);
    }
    struct task *task = pool->first;
    if (task != NULL) {
        pool->first = task->next;
        if (pool->first == NULL) {
            pool->last = &pool->first;
        }
        pool->queued--;
    }
    pthread_mutex_unlock(&pool->mutex);
    return task;
}

static void *worker_main(void *arg) {
    struct worker_pool *pool = arg;
    struct task *task;
    while ((task = worker_take(pool)) != NULL) {
        task->run(task);
    }
    return NULL;
}

static void worker_stop(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    CHECK(pool->first == NULL);
}

int worker_pool_new(uint32_t thread_count, struct worker_pool **ret) {
    CHECK(thread_count > 0);
    struct worker_pool *pool = calloc(1, sizeof(*pool) + thread_count * sizeof(pthread_t));
    if (pool == NULL) {
        return -HL_ERR_NOMEM;
    }
    pool->executor.post = worker_post;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->posted, NULL);

    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int errnum = 0;
    while (pool->thread_count < thread_count && errnum == 0) {
        errnum = pthread_create(&pool->threads[pool->thread_count], NULL, worker_main, pool);
        pool->thread_count += errnum == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errnum != 0) {
        worker_pool_free(pool);
        return error_from_errno(errnum);
    }
    *ret = pool;
    return 0;
}

void worker_pool_free(struct worker_pool *pool) {
    if (pool == NULL) {
        return;
    }
    worker_stop(pool);
    pthread_cond_destroy(&pool->posted);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

struct executor *worker_pool_executor(struct worker_pool *pool) {
    return &pool->executor;
}

uint64_t worker_pool_queued(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    uint64_t queued = pool->queued;
    pthread_mutex_unlock(&pool->mutex);
    return queued;
}
