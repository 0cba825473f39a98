/* The server's bounded set of body buffers, shared by all loops. Memory for bodies in flight never
 * exceeds the limit; who finds none waits in the order of asking. Any thread. */
#ifndef HTTP_BUFFERS_H
#define HTTP_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/task.h"

struct http_buffers;

struct http_buffer {
    uint8_t *data;
    size_t size;
};

/* A place in the queue; embedded, zeroed at first. task is posted to home when granted. */
struct http_buffer_wait {
    struct task task;
    struct executor *home;
    struct http_buffer_wait *next;
    size_t size;
    struct http_buffer granted; /* data NULL: out of memory after all */
};

int http_buffers_new(uint64_t bytes_max, uint32_t buffer_bytes, struct http_buffers **ret);
void http_buffers_free(struct http_buffers *buffers);
/* 0 and *ret (at least size bytes; large ones are whole buffers), or AGAIN and wait is queued, or
 * NOMEM. size is at most buffer_bytes. */
int http_buffers_take(struct http_buffers *buffers, size_t size, struct http_buffer_wait *wait,
                      struct http_buffer *ret);
void http_buffers_put(struct http_buffers *buffers, struct http_buffer *buffer); /* zeroes it */
/* True: taken out of the queue. False: granted already, the task will run. */
bool http_buffers_cancel(struct http_buffers *buffers, struct http_buffer_wait *wait);
/* More than half of the budget is in use, or somebody waits. */
bool http_buffers_scarce(struct http_buffers *buffers);
size_t http_buffers_bytes(const struct http_buffers *buffers); /* of one */
uint64_t http_buffers_used(struct http_buffers *buffers);

#endif
