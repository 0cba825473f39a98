/* The registry of metrics and its text form (Prometheus exposition 0.0.4). Updates are relaxed
 * atomics; registration takes a mutex; a scrape reads what it sees. */
#include "base/metrics.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct metric *first;

void metric_register(struct metric *metric) {
    pthread_mutex_lock(&mutex);
    struct metric **link = &first;
    while (*link != NULL && *link != metric) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        metric->next = NULL;
        *link = metric;
    }
    pthread_mutex_unlock(&mutex);
}

/* Four linear steps in each power of two from 1 us. */
static unsigned bucket_of(uint64_t us) {
    if (us < 4) {
        return (unsigned)us;
    }
    unsigned power = 63u - (unsigned)__builtin_clzll(us);
    unsigned step = (unsigned)(us >> (power - 2)) & 3;
    unsigned bucket = (power - 1) * 4 + step;
    return bucket < METRIC_BUCKETS ? bucket : METRIC_BUCKETS - 1;
}

void metric_observe_us(struct metric *m, uint64_t microseconds) {
    atomic_fetch_add_explicit(&m->value, (int64_t)microseconds, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->buckets[bucket_of(microseconds)], 1, memory_order_relaxed);
}

static void format_labels(struct buf *out, const char *labels, const char *more) {
    if (labels == NULL && more == NULL) {
        return;
    }
    buf_printf(out, "{%s%s%s}", labels == NULL ? "" : labels,
               labels != NULL && more != NULL ? "," : "", more == NULL ? "" : more);
}

/* The upper bound of a whole power of two, in seconds: buckets are summed up to powers so that the
 * text stays short. */
static void format_histogram(struct buf *out, const struct metric *m) {
    uint64_t sum = 0;
    for (unsigned bucket = 0; bucket < METRIC_BUCKETS; bucket++) {
        sum += atomic_load_explicit(&m->buckets[bucket], memory_order_relaxed);
        if (bucket % 4 != 3 || bucket < 15 || bucket == METRIC_BUCKETS - 1) {
            continue; /* the last one has no upper bound: it is +Inf below */
        }
        char le[48];
        snprintf(le, sizeof(le), "le=\"%.6f\"", (double)(1ull << (bucket / 4 + 2)) / 1e6);
        buf_printf(out, "%s_bucket", m->name);
        format_labels(out, m->labels, le);
        buf_printf(out, " %llu\n", (unsigned long long)sum);
    }
    buf_printf(out, "%s_bucket", m->name);
    format_labels(out, m->labels, "le=\"+Inf\"");
    buf_printf(out, " %llu\n%s_sum", (unsigned long long)sum, m->name);
    format_labels(out, m->labels, NULL);
    buf_printf(out, " %.6f\n%s_count", (double)atomic_load(&m->value) / 1e6, m->name);
    format_labels(out, m->labels, NULL);
    buf_printf(out, " %llu\n", (unsigned long long)sum);
}

static void format_one(struct buf *out, const struct metric *m) {
    if (m->kind == METRIC_HISTOGRAM) {
        format_histogram(out, m);
        return;
    }
    buf_append_str(out, m->name);
    format_labels(out, m->labels, NULL);
    buf_printf(out, " %lld\n", (long long)atomic_load(&m->value));
}

static bool named_before(const struct metric *m) {
    for (const struct metric *other = first; other != m; other = other->next) {
        if (strcmp(other->name, m->name) == 0) {
            return true;
        }
    }
    return false;
}

void metrics_format(struct buf *out) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    pthread_mutex_lock(&mutex);
    for (const struct metric *m = first; m != NULL; m = m->next) {
        if (named_before(m)) {
            continue;
        }
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, types[m->kind]);
        for (const struct metric *other = m; other != NULL; other = other->next) {
            if (strcmp(other->name, m->name) == 0) {
                format_one(out, other);
            }
        }
    }
    pthread_mutex_unlock(&mutex);
}
