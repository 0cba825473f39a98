/* /metrics: the registry of base/metrics.h, after the gauges that mirror the store's statistics
 * were brought up to date, and usage by bucket. Runs on the blocking executor. */
#include <stdio.h>
#include <unistd.h>

#include "admin/api_int.h"
#include "base/metrics.h"

#define GAUGE(var, name, help) static METRIC_DEFINE_GAUGE(var, name, NULL, help)
#define DISK(var, kind)                                                                            \
    static METRIC_DEFINE_GAUGE(var, "hayloft_disk_bytes", "kind=\"" kind "\"",                     \
                               "Bytes on disk by what they are.")

GAUGE(metric_objects, "hayloft_objects", "Objects in all buckets.");
GAUGE(metric_object_bytes, "hayloft_object_bytes", "Bytes of objects in all buckets.");
GAUGE(metric_uploads, "hayloft_unfinished_uploads", "Multipart uploads not completed.");
GAUGE(metric_upload_bytes, "hayloft_unfinished_upload_bytes", "Bytes of unfinished uploads.");
GAUGE(metric_total, "hayloft_disk_total_bytes", "Capacity of the data directories.");
GAUGE(metric_free, "hayloft_disk_free_bytes", "Bytes free for new data.");
GAUGE(metric_volumes, "hayloft_volumes", "Volume files.");
GAUGE(metric_damaged, "hayloft_damaged_records", "Records that failed their checksum.");
GAUGE(metric_degraded, "hayloft_data_degraded", "1 when a data directory is missing or read-only.");
GAUGE(metric_scrubbing, "hayloft_scrub_running", "1 while a scrub runs.");
GAUGE(metric_scrub_done, "hayloft_scrub_bytes_done", "Bytes that the present scrub has read.");
GAUGE(metric_scrub_last, "hayloft_scrub_last_completed_seconds",
      "Unix time when the last scrub ended; 0: never.");
GAUGE(metric_compacted, "hayloft_compacted_bytes", "Bytes copied by compaction since start.");
GAUGE(metric_checkpoints, "hayloft_checkpoints", "Checkpoints since start.");
GAUGE(metric_failed, "hayloft_store_failed", "1 after a fatal disk error.");
GAUGE(metric_resident, "process_resident_memory_bytes", "Resident memory in bytes.");
GAUGE(metric_start, "process_start_time_seconds", "Unix time when the process started.");
DISK(metric_live, "live");
DISK(metric_garbage, "garbage");
DISK(metric_free_queue, "free_queue");
DISK(metric_staged, "staged");
DISK(metric_log, "log");
DISK(metric_kv, "kv");

static void metrics_set(struct metric *metric, int64_t value) {
    metric_register(metric);
    metric_set(metric, value);
}

int64_t api_resident_bytes(void) {
    /* statm: size, resident, ... in pages (proc(5)). */
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return 0;
    }
    int fields = fscanf(file, "%lld %lld", &size, &resident);
    (void)fclose(file);
    return fields == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

static void metrics_refresh(struct api_call *call) {
    struct object_stats s;
    object_stats(api_store(call), &s);
    metrics_set(&metric_objects, (int64_t)s.objects);
    metrics_set(&metric_object_bytes, (int64_t)s.object_bytes);
    metrics_set(&metric_uploads, (int64_t)s.uploads);
    metrics_set(&metric_upload_bytes, (int64_t)s.upload_bytes);
    metrics_set(&metric_total, (int64_t)s.data.space.bytes_total);
    metrics_set(&metric_free, (int64_t)s.data.space.bytes_free);
    metrics_set(&metric_volumes, s.data.space.volume_count);
    metrics_set(&metric_damaged, (int64_t)s.data.damaged_records);
    metrics_set(&metric_degraded, s.data.space.degraded);
    metrics_set(&metric_scrubbing, s.data.scrubbing);
    metrics_set(&metric_scrub_done, (int64_t)s.data.scrub_bytes_done);
    metrics_set(&metric_scrub_last, s.data.scrub_last_ms / 1000);
    metrics_set(&metric_compacted, (int64_t)s.data.compacted_bytes);
    metrics_set(&metric_checkpoints, (int64_t)s.meta.checkpoints);
    metrics_set(&metric_failed, meta_failed(object_meta(api_store(call))));
    metrics_set(&metric_resident, api_resident_bytes());
    metrics_set(&metric_start, call->admin->started_ms / 1000);
    metrics_set(&metric_live, (int64_t)s.data.live_bytes);
    metrics_set(&metric_garbage, (int64_t)s.data.garbage_bytes);
    metrics_set(&metric_free_queue, (int64_t)s.data.free_queue_bytes);
    metrics_set(&metric_staged, (int64_t)s.data.staged_bytes);
    metrics_set(&metric_log, (int64_t)s.meta.log.disk_bytes);
    metrics_set(&metric_kv, (int64_t)s.kv.disk_bytes);
}

/* Bucket names hold only a-z, 0-9, '.' and '-', so they need no escaping in a label. */
static void metrics_buckets(struct api_call *call, struct buf *out) {
    struct bucket_record *buckets;
    uint32_t count;
    if (directory_buckets(api_store(call), api_pool(call), &buckets, &count) < 0 || count == 0) {
        return;
    }
    static const char *const families[] = {"objects", "bytes"};
    for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
        buf_printf(out, "# HELP hayloft_bucket_%s Usage by bucket.\n", families[f]);
        buf_printf(out, "# TYPE hayloft_bucket_%s gauge\n", families[f]);
        for (uint32_t i = 0; i < count; i++) {
            struct directory_usage usage;
            char id[API_BUCKET_ID_SIZE];
            api_bucket_id(buckets[i].id, id);
            if (directory_usage(api_store(call), buckets[i].id, &usage) == 0) {
                buf_printf(out, "hayloft_bucket_%s{id=\"%s\",bucket=\"%.*s\"} %lld\n", families[f],
                           id, SLICE_PRINT(buckets[i].name),
                           (long long)(f == 0 ? usage.objects : usage.bytes));
            }
        }
    }
}

void api_metrics(struct api_call *call) {
    CLEANUP_BUF struct buf out = {0};
    metrics_refresh(call);
    buf_append_str(&out, "# HELP hayloft_build_info The running version.\n"
                         "# TYPE hayloft_build_info gauge\n"
                         "hayloft_build_info{version=\"" HAYLOFT_VERSION "\"} 1\n");
    metrics_format(&out);
    metrics_buckets(call, &out);
    call->status = 200;
    call->content_type = "text/plain; version=0.0.4; charset=utf-8";
    struct slice copy = pool_copy(api_pool(call), buf_slice(&out));
    call->answer = out.failed ? NULL : (const char *)copy.data;
    call->answer_size = copy.size;
}
