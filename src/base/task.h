/* Work that is handed from one thread to another, and where it is handed to.
 *
 * An executor is anything that runs tasks later: a loop (on its own thread), the worker pool (on
 * some worker), the simulator's run queue. Post may be called from any thread and never blocks; the
 * task's memory belongs to whoever posts it and is embedded in a larger object, so that posting
 * cannot fail. */
#ifndef BASE_TASK_H
#define BASE_TASK_H

struct task {
    struct task *next; /* for the executor's queue */
    void (*run)(struct task *task);
};

struct executor {
    void (*post)(struct executor *executor, struct task *task);
};

static inline void executor_post(struct executor *executor, struct task *task) {
    executor->post(executor, task);
}

#endif
