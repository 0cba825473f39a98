/* Body buffers under one mutex: a budget of bytes and a queue of those who wait for some.
 *
 * Invariants: used <= bytes_max; while somebody waits nobody overtakes. Small requests get heap
 * memory of their size, large ones a whole buffer that is mapped apart from the heap, so that it
 * goes back to the system; as many free buffers are kept as are in use, and a few. */
#include "http/buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"
#include "base/metrics.h"

#define SMALL_BYTES_MAX 65536
#define SPARE_COUNT     4

struct spare {
    struct spare *next;
};

struct http_buffers {
    pthread_mutex_t mutex;
    uint64_t bytes_max;
    size_t buffer_bytes;
    uint64_t used;
    uint32_t large_count; /* in use */
    uint32_t spare_count;
    struct spare *spares;
    struct http_buffer_wait *first;
    struct http_buffer_wait **last;
};

static METRIC_DEFINE_GAUGE(metric_used, "hayloft_http_buffer_bytes", NULL,
                           "Bytes of body buffers in use.");
static METRIC_DEFINE_COUNTER(metric_waits, "hayloft_http_buffer_waits_total", NULL,
                             "Times that a request had to wait for a body buffer.");

int http_buffers_new(uint64_t bytes_max, uint32_t buffer_bytes, struct http_buffers **ret) {
    struct http_buffers *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        return -HL_ERR_NOMEM;
    }
    pthread_mutex_init(&b->mutex, NULL);
    b->bytes_max = MAX(bytes_max, (uint64_t)buffer_bytes);
    b->buffer_bytes = buffer_bytes;
    b->last = &b->first;
    metric_register(&metric_used);
    metric_register(&metric_waits);
    *ret = b;
    return 0;
}

void http_buffers_free(struct http_buffers *b) {
    if (b == NULL) {
        return;
    }
    while (b->spares != NULL) {
        struct spare *spare = b->spares;
        b->spares = spare->next;
        munmap(spare, b->buffer_bytes);
    }
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

/* Whole buffers are told from small ones by their size. */
static size_t charge(const struct http_buffers *b, size_t size) {
    return size <= SMALL_BYTES_MAX && size < b->buffer_bytes ? size : b->buffer_bytes;
}

/* The budget allows it; memory may still be missing. */
static int allocate(struct http_buffers *b, size_t size, struct http_buffer *ret) {
    size_t bytes = charge(b, size);
    uint8_t *data;
    if (bytes != b->buffer_bytes) {
        data = malloc(bytes);
    } else if (b->spares != NULL) {
        data = (uint8_t *)b->spares;
        b->spares = b->spares->next;
        b->spare_count--;
    } else {
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        data = data == MAP_FAILED ? NULL : data;
    }
    if (data == NULL) {
        return -HL_ERR_NOMEM;
    }
    b->large_count += bytes == b->buffer_bytes;
    b->used += bytes;
    CHECK(b->used <= b->bytes_max);
    metric_set(&metric_used, (int64_t)b->used);
    *ret = (struct http_buffer){data, bytes};
    return 0;
}

static bool fits(const struct http_buffers *b, size_t size) {
    return b->used + charge(b, size) <= b->bytes_max;
}

int http_buffers_take(struct http_buffers *b, size_t size, struct http_buffer_wait *wait,
                      struct http_buffer *ret) {
    CHECK(size > 0 && size <= b->buffer_bytes);
    int err = -HL_ERR_AGAIN;
    pthread_mutex_lock(&b->mutex);
    if (b->first == NULL && fits(b, size)) {
        err = allocate(b, size, ret);
    } else {
        wait->next = NULL;
        wait->size = size;
        wait->granted = (struct http_buffer){0};
        *b->last = wait;
        b->last = &wait->next;
        metric_add(&metric_waits, 1);
    }
    pthread_mutex_unlock(&b->mutex);
    return err;
}

static void release(struct http_buffers *b, struct http_buffer *buffer) {
    CHECK(b->used >= buffer->size);
    b->used -= buffer->size;
    metric_set(&metric_used, (int64_t)b->used);
    if (buffer->size != b->buffer_bytes) {
        free(buffer->data);
        return;
    }
    b->large_count--;
    struct spare *spare = (struct spare *)(void *)buffer->data;
    spare->next = b->spares;
    b->spares = spare;
    b->spare_count++;
    /* Falls with the use, so that a burst leaves nothing behind. */
    while (b->spare_count > b->large_count + SPARE_COUNT) {
        spare = b->spares;
        b->spares = spare->next;
        b->spare_count--;
        munmap(spare, b->buffer_bytes);
    }
}

static void grant_waiting(struct http_buffers *b) {
    while (b->first != NULL && fits(b, b->first->size)) {
        struct http_buffer_wait *wait = b->first;
        b->first = wait->next;
        if (b->first == NULL) {
            b->last = &b->first;
        }
        struct http_buffer granted = {0};
        int err = allocate(b, wait->size, &granted);
        wait->granted = err < 0 ? (struct http_buffer){0} : granted;
        executor_post(wait->home, &wait->task);
    }
}

void http_buffers_put(struct http_buffers *b, struct http_buffer *buffer) {
    if (buffer->data == NULL) {
        return;
    }
    pthread_mutex_lock(&b->mutex);
    release(b, buffer);
    grant_waiting(b);
    pthread_mutex_unlock(&b->mutex);
    *buffer = (struct http_buffer){0};
}

bool http_buffers_cancel(struct http_buffers *b, struct http_buffer_wait *wait) {
    bool found = false;
    pthread_mutex_lock(&b->mutex);
    for (struct http_buffer_wait **link = &b->first; *link != NULL; link = &(*link)->next) {
        if (*link == wait) {
            *link = wait->next;
            if (*link == NULL) {
                b->last = link;
            }
            found = true;
            break;
        }
    }
    if (found) {
        grant_waiting(b); /* whoever stood behind may fit */
    }
    pthread_mutex_unlock(&b->mutex);
    return found;
}

bool http_buffers_scarce(struct http_buffers *b) {
    pthread_mutex_lock(&b->mutex);
    bool scarce = b->first != NULL || b->used > b->bytes_max / 2;
    pthread_mutex_unlock(&b->mutex);
    return scarce;
}

size_t http_buffers_bytes(const struct http_buffers *b) {
    return b->buffer_bytes;
}

uint64_t http_buffers_used(struct http_buffers *b) {
    pthread_mutex_lock(&b->mutex);
    uint64_t used = b->used;
    pthread_mutex_unlock(&b->mutex);
    return used;
}
