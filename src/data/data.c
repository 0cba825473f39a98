/* Opening and closing, ids, per-volume figures, statistics. Opening reads the small tables (live
 * counters, scan offsets, free queue, aliases, damage) and never the location rows, so it does not
 * grow with the count of bodies. */
#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "data/data_int.h"

static METRIC_DEFINE_GAUGE(metric_live, "hayloft_data_live_bytes", NULL,
                           "Bytes of volume records that are named.");
static METRIC_DEFINE_GAUGE(metric_garbage, "hayloft_data_garbage_bytes", NULL,
                           "Bytes in volumes that nothing names.");
static METRIC_DEFINE_GAUGE(metric_queue, "hayloft_data_free_queue_bytes", NULL,
                           "Freed bytes that wait for readers.");

/* Index of the first entry whose number is at least number. */
static uint32_t volume_lower_bound(const struct data *data, uint32_t number) {
    uint32_t low = 0, high = data->volume_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (data->volume_table[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct data_volume *data_volume_find(struct data *data, uint32_t number) {
    uint32_t i = volume_lower_bound(data, number);
    if (i < data->volume_count && data->volume_table[i].number == number) {
        return &data->volume_table[i];
    }
    return NULL;
}

struct data_volume *data_volume_get(struct data *data, uint32_t number) {
    struct data_volume *found = data_volume_find(data, number);
    if (found != NULL) {
        return found;
    }
    if (data->volume_count == data->volume_capacity) {
        uint32_t capacity = MAX(16u, data->volume_capacity * 2);
        struct data_volume *table =
            reallocarray(data->volume_table, capacity, sizeof(struct data_volume));
        if (table == NULL) {
            return NULL;
        }
        data->volume_table = table;
        data->volume_capacity = capacity;
    }
    uint32_t i = volume_lower_bound(data, number);
    memmove(&data->volume_table[i + 1], &data->volume_table[i],
            (data->volume_count - i) * sizeof(struct data_volume));
    data->volume_count++;
    data->volume_table[i] = (struct data_volume){.number = number};
    return &data->volume_table[i];
}

int data_each_row(struct data *data, enum data_row row,
                  int (*fn)(struct data *data, struct slice key, struct slice value, void *arg),
                  void *arg) {
    struct data_key lower = data_key_table(row);
    struct data_key upper = lower;
    upper.bytes[0]++;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(data->kv, KV_LOCAL, data_key_slice(&lower), data_key_slice(&upper));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        int err = fn(data, kv_iter_key(iter), kv_iter_value(iter), arg);
        if (err != 0) {
            return err;
        }
    }
    return kv_iter_error(iter);
}

static int load_live(struct data *data, struct slice key, struct slice value, void *arg) {
    uint32_t number;
    if (!data_key_parse_volume(key, &number) || value.size != 8) {
        return -HL_ERR_CORRUPT;
    }
    struct data_volume *v = data_volume_get(data, number);
    if (v == NULL) {
        return -HL_ERR_NOMEM;
    }
    v->live_bytes = (int64_t)get_le64(value.data);
    data->live_bytes += v->live_bytes;
    return 0;
}

static int load_scan_from(struct data *data, struct slice key, struct slice value, void *arg) {
    uint32_t number;
    struct reader r = reader_of(value);
    uint64_t off = reader_varint(&r);
    if (!data_key_parse_volume(key, &number) || r.failed || off > UINT64_MAX / 8) {
        return -HL_ERR_CORRUPT;
    }
    struct data_volume *v = data_volume_get(data, number);
    if (v == NULL) {
        return -HL_ERR_NOMEM;
    }
    v->scan_from = off * 8;
    v->has_scan_from = true;
    return 0;
}

static int load_alias(struct data *data, struct slice key, struct slice value, void *arg) {
    struct body_id id;
    uint32_t volume;
    if (!data_key_parse_alias(key, &id, &volume)) {
        return -HL_ERR_CORRUPT;
    }
    return data_alias_add(data, NULL, id, volume);
}

/* Going on would answer errors for its objects, and compaction, scrub and statistics would have to
 * live with rows that point nowhere; most often only a directory is not mounted or not configured.
 */
static void name_missing_volume(const struct data *data, const struct data_volume *v) {
    const struct volume_options *volumes = &data->options.volumes;
    LOG_ERROR("data",
              "%06u.vol is missing; %lld bytes of objects were in it. It is not in %s/volumes%s: "
              "put it back, or complete data_dir; if it is lost for good, `hayloft rebuild` gives "
              "up what was in it",
              v->number, (long long)v->live_bytes, volumes->dirs[0].path,
              volumes->dir_count > 1 ? ", nor in the other data directories" : "");
}

/* Volume numbers that rows know are never given out again; rows of volumes that are gone go. A
 * volume that is gone although something alive was in it: MISSING. */
static int reconcile_volumes(struct data *data) {
    struct kv_value value CLEANUP_KV_VALUE = {0};
    struct data_key key = data_key_table(DATA_ROW_NUMBER);
    int err = kv_get(data->kv, KV_LOCAL, data_key_slice(&key), &value);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    uint64_t highest = 0;
    bool missing = false;
    if (err == 0) {
        struct reader r = reader_of(value.data);
        highest = reader_varint(&r);
    }
    for (uint32_t i = 0; i < data->volume_count; i++) {
        struct data_volume *v = &data->volume_table[i];
        highest = MAX(highest, v->number);
        struct volume_info info;
        if (volume_info(data->volumes, v->number, &info) == 0) {
            continue;
        }
        if (v->live_bytes > 0) {
            name_missing_volume(data, v);
            missing = true;
        } else {
            v->state = DATA_VOLUME_GONE;
        }
    }
    volume_number_at_least(data->volumes, (uint32_t)MIN(highest, UINT32_MAX - 1ull) + 1);
    return missing ? -HL_ERR_MISSING : 0;
}

static int load(struct data *data) {
    int err = data_each_row(data, DATA_ROW_LIVE, load_live, NULL);
    if (err == 0) {
        err = data_each_row(data, DATA_ROW_SCAN_FROM, load_scan_from, NULL);
    }
    if (err == 0) {
        err = data_each_row(data, DATA_ROW_ALIAS, load_alias, NULL);
    }
    if (err == 0) {
        err = data_moved_load(data);
    }
    if (err == 0) {
        err = data_free_load(data);
    }
    if (err == 0) {
        err = data_damage_load(data);
    }
    if (err == 0) {
        err = data_scrub_load(data);
    }
    if (err == 0) {
        err = reconcile_volumes(data);
    }
    if (err == -HL_ERR_CORRUPT) {
        LOG_ERROR("data", "the location index holds a malformed row; run hayloft rebuild");
    }
    return err;
}

static void apply_defaults(struct data_options *options) {
    if (options->block_bytes == 0) {
        options->block_bytes = DATA_BLOCK_BYTES_DEFAULT;
    }
    if (options->compact_percent == 0) {
        options->compact_percent = DATA_COMPACT_PERCENT_DEFAULT;
    }
    if (options->scrub_interval_s == 0) {
        options->scrub_interval_s = DATA_SCRUB_INTERVAL_DEFAULT;
    }
}

static int open_parts(struct data *data) {
    int err = data_map_init(&data->staged);
    if (err == 0) {
        err = data_map_init(&data->aliases);
    }
    if (err == 0) {
        err = data_map_init(&data->turn.overlay);
    }
    if (err == 0) {
        err = volume_set_open(data->env, &data->options.volumes, data->options.first_start,
                              &data->volumes);
    }
    return err != 0 ? err : load(data);
}

int data_open(struct os_env *env, struct kv *kv, const struct data_options *options,
              struct data **ret) {
    metric_register(&metric_live);
    metric_register(&metric_garbage);
    metric_register(&metric_queue);
    struct data *data = calloc(1, sizeof(*data));
    if (data == NULL) {
        return -HL_ERR_NOMEM;
    }
    data->env = env;
    data->kv = kv;
    data->options = *options;
    data->epoch = 1;
    apply_defaults(&data->options);
    pthread_mutex_init(&data->mutex, NULL);
    while (data->id_high == 0) {
        data->id_high = os_random_u64(env->random);
    }
    atomic_store(&data->id_low, 1);
    int err = open_parts(data);
    if (err != 0) {
        data_close(data);
        return err;
    }
    data->options.volumes.dirs = NULL; /* the caller's, until here */
    *ret = data;
    return 0;
}

static void free_staged(void *arg, struct data_map_node *node) {
    free(CONTAINER_OF(node, struct data_staged, node));
}

static void free_alias(void *arg, struct data_map_node *node) {
    free(CONTAINER_OF(node, struct data_alias, node));
}

void data_close(struct data *data) {
    if (data == NULL) {
        return;
    }
    CHECK(data->pins == NULL && data->blocks == NULL);
    if (data->turn.overlay.buckets != NULL) {
        data_overlay_clear(data);
    }
    if (data->staged.buckets != NULL) {
        data_map_each(&data->staged, true, free_staged, NULL);
    }
    if (data->aliases.buckets != NULL) {
        data_map_each(&data->aliases, true, free_alias, NULL);
    }
    data_map_done(&data->turn.overlay);
    data_map_done(&data->staged);
    data_map_done(&data->aliases);
    volume_set_close(data->volumes);
    pthread_mutex_destroy(&data->mutex);
    if (data->rebuild_batch != NULL) {
        kv_batch_free(data->rebuild_batch);
    }
    free(data->tombstones.keys);
    free(data->turn.heads);
    free(data->free_queue.runs);
    free(data->volume_table);
    free(data->damage);
    free(data);
}

struct body_id data_allocate(struct data *data, uint64_t count) {
    return (struct body_id){data->id_high, atomic_fetch_add(&data->id_low, count)};
}

void data_set_local_runner(struct data *data, int (*run)(void *ctx, data_local_fn fn, void *arg),
                           void *ctx) {
    data->run_local = run;
    data->run_local_ctx = ctx;
}

int data_admit(struct data *data, uint64_t bytes) {
    struct volume_space space;
    volume_space(data->volumes, &space);
    return bytes <= space.bytes_free ? 0 : -HL_ERR_NO_SPACE;
}

void data_keep(struct data *data, uint64_t device, uint64_t bytes) {
    volume_space_keep(data->volumes, device, bytes);
}

void data_stats(struct data *data, struct data_stats *ret) {
    struct data_stats stats = {0};
    volume_space(data->volumes, &stats.space);
    pthread_mutex_lock(&data->mutex);
    stats.live_bytes = (uint64_t)MAX(data->live_bytes, 0);
    stats.staged_bytes = (uint64_t)MAX(data->staged_bytes, 0);
    stats.free_queue_bytes = data->free_queue_bytes;
    stats.compacted_bytes = data->compacted_bytes;
    stats.compacting = data->compaction.source != 0;
    stats.scrubbing = data->scrub.mode == DATA_SCRUB_RUNNING;
    stats.scrub_paused = data->scrub.mode == DATA_SCRUB_PAUSED;
    stats.scrub_bytes_done = data->scrub.bytes_done;
    stats.scrub_bytes_total = MAX(data->scrub.bytes_total, data->scrub.bytes_done);
    stats.scrub_last_ms = data->scrub.completed_ms;
    stats.scrub_next_ms = data->scrub.last_ms + (int64_t)data->options.scrub_interval_s * 1000;
    stats.damaged_records = data->damage_count;
    pthread_mutex_unlock(&data->mutex);
    uint64_t taken = stats.live_bytes + stats.staged_bytes;
    stats.garbage_bytes = stats.space.bytes_used > taken ? stats.space.bytes_used - taken : 0;
    metric_set(&metric_live, (int64_t)stats.live_bytes);
    metric_set(&metric_garbage, (int64_t)stats.garbage_bytes);
    metric_set(&metric_queue, (int64_t)stats.free_queue_bytes);
    *ret = stats;
}
