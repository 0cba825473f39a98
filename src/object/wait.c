/* An executor for code that may block: tasks that are posted to it run on the thread that waits. In
 * simulation nobody else would work meanwhile, so waiting steps the store. */
#include <stdlib.h>

#include "object/object_int.h"

struct object_wait {
    struct executor executor;
    struct object_store *store;
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    struct task *first, **last;
    bool done;
    int err;
    struct object_result result;
};

static void wait_post(struct executor *executor, struct task *task) {
    struct object_wait *wait = CONTAINER_OF(executor, struct object_wait, executor);
    task->next = NULL;
    pthread_mutex_lock(&wait->mutex);
    *wait->last = task;
    wait->last = &task->next;
    pthread_cond_signal(&wait->posted);
    pthread_mutex_unlock(&wait->mutex);
}

static struct task *take(struct object_wait *wait, bool block) {
    pthread_mutex_lock(&wait->mutex);
    while (block && wait->first == NULL) {
        pthread_cond_wait(&wait->posted, &wait->mutex);
    }
    struct task *task = wait->first;
    if (task != NULL) {
        wait->first = task->next;
        if (wait->first == NULL) {
            wait->last = &wait->first;
        }
    }
    pthread_mutex_unlock(&wait->mutex);
    return task;
}

struct object_wait *object_wait_new(struct object_store *store) {
    struct object_wait *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        return NULL;
    }
    wait->executor.post = wait_post;
    wait->store = store;
    wait->last = &wait->first;
    pthread_mutex_init(&wait->mutex, NULL);
    pthread_cond_init(&wait->posted, NULL);
    return wait;
}

struct executor *object_wait_executor(struct object_wait *wait) {
    return &wait->executor;
}

void object_wait_done(void *arg, int err, const struct object_result *result) {
    struct object_wait *wait = arg;
    wait->err = err;
    if (result != NULL) {
        wait->result = *result;
    }
    wait->done = true;
}

int object_wait(struct object_wait *wait, struct object_result *ret_result) {
    while (!wait->done) {
        struct task *task = take(wait, wait->store->threads);
        if (task != NULL) {
            task->run(task);
            continue;
        }
        bool busy;
        (void)object_step(wait->store, &busy); /* its error reaches the operations */
    }
    int err = wait->err;
    if (err == 0 && ret_result != NULL) {
        *ret_result = wait->result;
    }
    CHECK(wait->first == NULL);
    pthread_mutex_destroy(&wait->mutex);
    pthread_cond_destroy(&wait->posted);
    free(wait);
    return err;
}
