/* Defaults of the limits, and the rule for slow peers: over each 30 s that were spent waiting for
 * the peer, at least the stated rate must have moved. Time in which the server itself was busy does
 * not count. Pure: time is passed in. */
#include "http/http_int.h"

#define PROGRESS_WINDOW_US 30000000ull

void http_limits_default(struct http_limits *limits) {
    *limits = (struct http_limits){
        .head_bytes_max = 16384,
        .header_count_max = 128,
        .connections_max = 12000,
        .head_timeout_us = 10000000,
        .idle_timeout_us = 60000000,
        .progress_bytes_per_s = 1024,
        .buffers_bytes_max = 48ull << 20,
        .buffer_bytes = 256u << 10,
    };
}

void http_progress_wait(struct http_progress *p, uint64_t now_us) {
    if (!p->waiting) {
        p->waiting = true;
        p->since_us = now_us;
    }
}

void http_progress_moved(struct http_progress *p, uint64_t bytes, uint64_t now_us) {
    if (p->waiting) {
        p->waited_us += now_us - p->since_us;
        p->waiting = false;
    }
    p->bytes += bytes;
}

uint64_t http_progress_deadline(const struct http_progress *p) {
    if (p->waited_us >= PROGRESS_WINDOW_US) {
        return p->since_us;
    }
    return p->since_us + PROGRESS_WINDOW_US - p->waited_us;
}

bool http_progress_late(struct http_progress *p, uint64_t bytes_per_s, uint64_t now_us) {
    uint64_t waited = p->waited_us + (p->waiting ? now_us - p->since_us : 0);
    if (waited < PROGRESS_WINDOW_US) {
        return false;
    }
    bool late = p->bytes < bytes_per_s * (PROGRESS_WINDOW_US / 1000000);
    p->waited_us = 0;
    p->bytes = 0;
    p->since_us = now_us;
    return late;
}
