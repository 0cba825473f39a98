/* The worker pool: a bounded number of threads for disk and hashing. An executor: tasks run in the
 * order posted, as threads become free. Queue length is bounded by its users (each request has at
 * most one task in flight). */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include <stdint.h>

#include "base/task.h"

struct worker_pool;
int worker_pool_new(uint32_t thread_count, struct worker_pool **ret);
void worker_pool_free(struct worker_pool *pool); /* runs what is queued, then joins */
struct executor *worker_pool_executor(struct worker_pool *pool);
uint64_t worker_pool_queued(struct worker_pool *pool);

#endif
