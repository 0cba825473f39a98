/* One series a row of the route table: four counters (by class of status) and a histogram. Any
 * thread; relaxed atomics. */
#include "s3/op_metrics.h"

#include "base/check.h"
#include "base/metrics.h"

#include <stdio.h>

#define SERIES_MAX 128
#define CLASSES    4 /* 2xx to 5xx */

struct series {
    _Atomic int state; /* 0 new, 1 being registered, 2 registered */
    struct metric counters[CLASSES];
    struct metric duration;
    char labels[CLASSES][96];
    char duration_labels[64];
    _Atomic uint64_t buckets[METRIC_BUCKETS];
};
static struct series all_series[SERIES_MAX];

static void series_register(struct series *s, const char *operation) {
    static const char *const classes[CLASSES] = {"2xx", "3xx", "4xx", "5xx"};
    for (int i = 0; i < CLASSES; i++) {
        (void)snprintf(s->labels[i], sizeof(s->labels[i]), "operation=\"%.40s\",status=\"%s\"",
                       operation, classes[i]);
        s->counters[i].name = "hayloft_s3_requests_total";
        s->counters[i].labels = s->labels[i];
        s->counters[i].help = "S3 requests answered, by operation and class of status.";
        s->counters[i].kind = METRIC_COUNTER;
        metric_register(&s->counters[i]);
    }
    (void)snprintf(s->duration_labels, sizeof(s->duration_labels), "operation=\"%.40s\"",
                   operation);
    s->duration.name = "hayloft_s3_request_seconds";
    s->duration.labels = s->duration_labels;
    s->duration.help = "Time from a request's head to its last answer, by operation.";
    s->duration.kind = METRIC_HISTOGRAM;
    s->duration.buckets = s->buckets;
    metric_register(&s->duration);
}

void s3_op_metrics_count(const struct s3_route *route, int status, uint64_t duration_us) {
    uint32_t count;
    const struct s3_route *rows = s3_routes(&count);
    CHECK(count < SERIES_MAX);
    size_t index = route == NULL ? count : (size_t)(route - rows);
    struct series *s = &all_series[index];
    int expected = 0;
    if (atomic_load(&s->state) != 2) {
        if (!atomic_compare_exchange_strong(&s->state, &expected, 1)) {
            if (expected == 1) {
                return; /* another loop registers it at this moment: one request goes uncounted */
            }
        } else {
            series_register(s, route == NULL ? "Unknown" : route->name);
            atomic_store(&s->state, 2);
        }
    }
    int class = status / 100 - 2;
    class = class < 0 ? 0 : class >= CLASSES ? CLASSES - 1 : class;
    metric_add(&s->counters[class], 1);
    metric_observe_us(&s->duration, duration_us);
}
