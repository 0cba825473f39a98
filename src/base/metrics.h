/* The registry of metrics: counters, gauges and latency histograms with static storage, registered
 * once, updated with relaxed atomics from any thread, printed by /metrics in Prometheus text format
 * 0.0.4. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdatomic.h>

#include "base/buf.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* Log-linear: 4 buckets a power of two from 1 microsecond to 2^27 (134 s). */
#define METRIC_BUCKETS 112

struct metric {
    const char *name;   /* "hayloft_log_syncs_total" */
    const char *labels; /* "kind=\"put\"" or NULL */
    const char *help;
    enum metric_kind kind;
    _Atomic int64_t value; /* counter, gauge; the histogram's sum in microseconds */
    _Atomic uint64_t count;
    _Atomic uint64_t *buckets; /* METRIC_BUCKETS, for histograms, given at definition */
    struct metric *next;
};

#define METRIC_DEFINE_COUNTER(var, name_, labels_, help_)                                          \
    struct metric var = {.name = name_, .labels = labels_, .help = help_, .kind = METRIC_COUNTER}
#define METRIC_DEFINE_GAUGE(var, name_, labels_, help_)                                            \
    struct metric var = {.name = name_, .labels = labels_, .help = help_, .kind = METRIC_GAUGE}
#define METRIC_DEFINE_HISTOGRAM(var, name_, labels_, help_)                                        \
    static _Atomic uint64_t var##_buckets[METRIC_BUCKETS];                                         \
    struct metric var = {.name = name_,                                                            \
                         .labels = labels_,                                                        \
                         .help = help_,                                                            \
                         .kind = METRIC_HISTOGRAM,                                                 \
                         .buckets = var##_buckets}

void metric_register(struct metric *metric); /* twice is harmless */

static inline void metric_add(struct metric *m, int64_t n) {
    atomic_fetch_add_explicit(&m->value, n, memory_order_relaxed);
}
static inline void metric_set(struct metric *m, int64_t n) {
    atomic_store_explicit(&m->value, n, memory_order_relaxed);
}
void metric_observe_us(struct metric *m, uint64_t microseconds);
/* Appends every registered metric; families with one name are grouped under one HELP and TYPE. */
void metrics_format(struct buf *out);

#endif
