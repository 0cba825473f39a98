/* Scrub: reads every volume once an interval and checks every byte, in steps, within a budget.
 * Places near a failed read come first. Progress is a row, so a restart goes on where it was.
 * Maintenance thread; the command may come from any thread.
 *
 * Time: whether a scheduled scrub is due is asked of the wall clock, since it must survive
 * restarts; a monotonic guard keeps a jumping wall clock from starting one after another. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "data/data_int.h"
#include "volume/volume_format.h"

#define SCRUB_VERSION      1u
#define NEIGHBOURHOOD      (1u << 20)
#define GUARD_US_MAX       (24ull * 3600 * 1000000)
#define BUDGET_SECONDS_MAX 10u

static METRIC_DEFINE_COUNTER(metric_read, "hayloft_data_scrubbed_bytes_total", NULL,
                             "Bytes read by scrub.");
static METRIC_DEFINE_COUNTER(metric_runs, "hayloft_data_scrubs_total", NULL, "Scrubs finished.");

static int store_state(struct data *data) {
    uint8_t value[8 * VARINT_MAX];
    pthread_mutex_lock(&data->mutex);
    const struct data_scrub *s = &data->scrub;
    size_t n = put_varint(value, SCRUB_VERSION);
    n += put_varint(value + n, (uint64_t)s->mode << 1 | (s->manual ? 1 : 0));
    n += put_varint(value + n, s->volume);
    n += put_varint(value + n, s->off / VOLUME_RECORD_ALIGN);
    n += put_varint(value + n, s->bytes_done);
    n += put_varint(value + n, s->bytes_total);
    n += put_varint(value + n, (uint64_t)MAX(s->last_ms, 0));
    n += put_varint(value + n, (uint64_t)MAX(s->completed_ms, 0));
    pthread_mutex_unlock(&data->mutex);
    struct kv_batch *batch = kv_batch_new(data->kv);
    if (batch == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct data_key key = data_key_table(DATA_ROW_SCRUB);
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), slice_of(value, n));
    int err = kv_write(data->kv, batch);
    kv_batch_free(batch);
    FAILPOINT("data.scrub.stored");
    return err;
}

int data_scrub_load(struct data *data) {
    metric_register(&metric_read);
    metric_register(&metric_runs);
    struct data_scrub *s = &data->scrub;
    s->last_mono_us = s->tokens_us = os_mono_us(data->env->clock);
    struct data_key key = data_key_table(DATA_ROW_SCRUB);
    struct kv_value value CLEANUP_KV_VALUE = {0};
    int err = kv_get(data->kv, KV_LOCAL, data_key_slice(&key), &value);
    if (err == -HL_ERR_NOT_FOUND) {
        s->last_ms = os_wall_ms(data->env->clock); /* a new store: nothing to scrub yet */
        return store_state(data);
    }
    if (err != 0) {
        return err;
    }
    struct reader r = reader_of(value.data);
    uint64_t version = reader_varint(&r), mode = reader_varint(&r);
    uint64_t volume = reader_varint(&r), off = reader_varint(&r);
    s->bytes_done = reader_varint(&r);
    s->bytes_total = reader_varint(&r);
    s->last_ms = (int64_t)reader_varint(&r);
    if (r.failed || version != SCRUB_VERSION || mode >> 1 > DATA_SCRUB_PAUSED ||
        volume > UINT32_MAX || off > UINT64_MAX / VOLUME_RECORD_ALIGN) {
        return -HL_ERR_CORRUPT;
    }
    if (reader_left(&r) > 0) {
        s->completed_ms = (int64_t)reader_varint(&r);
    } else if (s->bytes_total > 0 && mode >> 1 == DATA_SCRUB_IDLE) {
        s->completed_ms = s->last_ms; /* of a version that did not tell the two apart */
    }
    s->mode = mode >> 1;
    s->manual = (mode & 1) != 0;
    s->volume = (uint32_t)volume;
    s->off = off * VOLUME_RECORD_ALIGN;
    return 0;
}

static void start(struct data *data, bool manual) {
    struct volume_space space;
    volume_space(data->volumes, &space);
    pthread_mutex_lock(&data->mutex);
    struct data_scrub *s = &data->scrub;
    s->mode = DATA_SCRUB_RUNNING;
    s->manual = manual;
    s->volume = 0;
    s->off = 0;
    s->bytes_done = 0;
    s->bytes_total = space.bytes_used;
    s->volume_whole = false;
    pthread_mutex_unlock(&data->mutex);
}

int data_scrub_command(struct data *data, enum data_scrub_command command) {
    if (command == DATA_SCRUB_START) {
        start(data, true);
        return store_state(data);
    }
    int err = 0;
    pthread_mutex_lock(&data->mutex);
    struct data_scrub *s = &data->scrub;
    switch (command) {
    case DATA_SCRUB_PAUSE:
        err = s->mode == DATA_SCRUB_IDLE ? -HL_ERR_INVALID : 0;
        s->mode = err == 0 ? DATA_SCRUB_PAUSED : s->mode;
        break;
    case DATA_SCRUB_RESUME:
        err = s->mode == DATA_SCRUB_IDLE ? -HL_ERR_INVALID : 0;
        s->mode = err == 0 ? DATA_SCRUB_RUNNING : s->mode;
        break;
    case DATA_SCRUB_CANCEL:
        s->mode = DATA_SCRUB_IDLE;
        s->last_ms = os_wall_ms(data->env->clock);
        s->last_mono_us = os_mono_us(data->env->clock);
        break;
    default:
        err = -HL_ERR_INVALID;
        break;
    }
    pthread_mutex_unlock(&data->mutex);
    return err != 0 ? err : store_state(data);
}

/* ---- checking ---- */

struct check {
    struct data *data;
    uint64_t bytes, bytes_max;
    uint64_t next;     /* behind what was looked at */
    uint64_t end;      /* stop here; 0: the volume's end */
    int64_t live_seen; /* bytes of records that rows name */
};

static int check_item(void *arg, const struct volume_scan_item *item) {
    struct check *check = arg;
    struct data *data = check->data;
    check->next = item->location.off + item->location.record_bytes;
    check->bytes += item->record != NULL ? item->location.record_bytes : 0;
    if (item->record != NULL) {
        struct data_place place;
        uint64_t sequence;
        int err = item->record->kind == VOLUME_CONFIG
                      ? data_config_get(data, item->record->origin_key, &sequence, &place)
                      : data_row_get(data, item->record->id, &place);
        bool live = err == 0 && place.location.volume == item->location.volume &&
                    place.location.off == item->location.off;
        if (live) {
            check->live_seen += item->location.record_bytes;
        }
        if (live && item->err != 0) {
            data_damage_add(data, item->record->id, &item->location, item->record->origin_key,
                            item->err);
        } else if (item->err == 0) {
            data_damage_remove(data, NULL, item->location.volume, item->location.off);
        }
    }
    FAILPOINT("data.scrub.item");
    return check->bytes >= check->bytes_max || (check->end != 0 && check->next >= check->end) ? 1
                                                                                              : 0;
}

/* The neighbourhood of a place where a read failed. */
static int check_hint(struct data *data, struct data_hint hint, uint64_t *ret_bytes) {
    uint64_t from = hint.off > NEIGHBOURHOOD ? hint.off - NEIGHBOURHOOD : 0;
    struct check check = {.data = data, .bytes_max = UINT64_MAX, .end = hint.off + NEIGHBOURHOOD};
    int err = volume_scan(data->volumes, hint.volume, from, true, check_item, &check);
    *ret_bytes += check.bytes;
    return err == 1 || err == -HL_ERR_NOT_FOUND || err == -HL_ERR_CORRUPT ? 0 : err;
}

static int check_hints(struct data *data, uint64_t bytes_max, uint64_t *ret_bytes) {
    for (;;) {
        struct data_hint hint = {0};
        pthread_mutex_lock(&data->mutex);
        bool found = data->hint_count > 0;
        if (found) {
            hint = data->hints[--data->hint_count];
        }
        pthread_mutex_unlock(&data->mutex);
        if (!found || *ret_bytes >= bytes_max) {
            return 0;
        }
        int err = check_hint(data, hint, ret_bytes);
        if (err != 0) {
            return err;
        }
    }
}

/* ---- the walk over all volumes ---- */

static int find_next(void *arg, const struct volume_info *info) {
    uint32_t *number = arg;
    if (info->volume > *number && !info->damaged) {
        *number = info->volume;
        return 1;
    }
    return 0;
}

static int end_scrub(struct data *data) {
    pthread_mutex_lock(&data->mutex);
    struct data_scrub *s = &data->scrub;
    s->mode = DATA_SCRUB_IDLE;
    s->last_ms = s->completed_ms = os_wall_ms(data->env->clock);
    s->last_mono_us = os_mono_us(data->env->clock);
    s->bytes_total = s->bytes_done; /* what was written or removed meanwhile included */
    uint64_t done = s->bytes_done;
    uint32_t damaged = data->damage_count;
    pthread_mutex_unlock(&data->mutex);
    metric_add(&metric_runs, 1);
    LOG_INFO("data", "scrub finished: %llu bytes checked, %u damaged records known",
             (unsigned long long)done, damaged);
    return store_state(data);
}

/* The end of a volume: rows may name records whose headers are gone, which no walk meets. */
static int end_volume(struct data *data, uint32_t volume, int64_t live_seen, bool whole) {
    struct volume_info info;
    if (volume_info(data->volumes, volume, &info) != 0 || !info.sealed) {
        return 0;
    }
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_find(data, volume);
    bool missing = v != NULL && v->staged_bytes == 0 && (!whole || live_seen < v->live_bytes);
    bool any = v != NULL && v->live_bytes > 0;
    pthread_mutex_unlock(&data->mutex);
    uint64_t bad;
    return missing && any ? data_damage_check_rows(data, volume, &bad) : 0;
}

static int walk(struct data *data, uint64_t bytes_max, uint64_t *bytes) {
    pthread_mutex_lock(&data->mutex);
    struct data_scrub now = data->scrub;
    pthread_mutex_unlock(&data->mutex);
    if (now.off == 0) {
        uint32_t number = now.volume;
        if (volume_each(data->volumes, find_next, &number) == 0) {
            return end_scrub(data);
        }
        now.volume = number;
        now.volume_live_seen = 0;
        now.volume_whole = true;
    }
    struct check check = {.data = data, .bytes_max = bytes_max, .next = now.off};
    int err = volume_scan(data->volumes, now.volume, now.off, true, check_item, &check);
    *bytes += check.bytes;
    if (err != 0 && err != 1 && err != -HL_ERR_NOT_FOUND && err != -HL_ERR_CORRUPT) {
        return err;
    }
    now.volume_live_seen += check.live_seen;
    bool ended = err != 1;
    pthread_mutex_lock(&data->mutex);
    if (data->scrub.mode == DATA_SCRUB_RUNNING) {
        data->scrub.volume = now.volume;
        data->scrub.off = ended ? 0 : check.next;
        data->scrub.volume_live_seen = now.volume_live_seen;
        data->scrub.volume_whole = now.volume_whole;
        data->scrub.bytes_done += check.bytes;
    }
    pthread_mutex_unlock(&data->mutex);
    err = ended ? end_volume(data, now.volume, now.volume_live_seen, now.volume_whole) : 0;
    return err != 0 ? err : store_state(data);
}

/* ---- when and how much ---- */

static bool is_due(struct data *data) {
    uint64_t interval_us = data->options.scrub_interval_s * 1000000;
    int64_t now_ms = os_wall_ms(data->env->clock);
    uint64_t now_us = os_mono_us(data->env->clock);
    pthread_mutex_lock(&data->mutex);
    struct data_scrub *s = &data->scrub;
    if (s->last_ms > now_ms) {
        s->last_ms = now_ms; /* the clock was set back */
    }
    bool late = now_ms - s->last_ms >= (int64_t)data->options.scrub_interval_s * 1000;
    /* Right after a start only the wall clock can know; later both must agree. */
    bool guarded = s->guard && now_us - s->last_mono_us < MIN(interval_us, GUARD_US_MAX);
    s->guard = true;
    pthread_mutex_unlock(&data->mutex);
    return late && !guarded;
}

/* Bytes that a scheduled scrub may read now. */
static uint64_t budget(struct data *data, uint64_t bytes_max) {
    uint64_t rate = data->options.scrub_bytes_per_s;
    pthread_mutex_lock(&data->mutex);
    struct data_scrub *s = &data->scrub;
    uint64_t allowed = bytes_max;
    if (rate > 0 && !s->manual) {
        uint64_t now_us = os_mono_us(data->env->clock);
        uint64_t elapsed_us = MIN(now_us - s->tokens_us, BUDGET_SECONDS_MAX * 1000000ull);
        s->tokens_us = now_us;
        s->tokens = MIN(s->tokens + rate * elapsed_us / 1000000, rate * BUDGET_SECONDS_MAX);
        allowed = MIN(bytes_max, s->tokens);
    }
    pthread_mutex_unlock(&data->mutex);
    return allowed;
}

static void spend(struct data *data, uint64_t bytes) {
    pthread_mutex_lock(&data->mutex);
    data->scrub.tokens -= MIN(bytes, data->scrub.tokens);
    pthread_mutex_unlock(&data->mutex);
    metric_add(&metric_read, (int64_t)bytes);
}

int data_scrub_step(struct data *data, uint64_t bytes_max, bool *ret_busy) {
    uint64_t bytes = 0;
    int err = check_hints(data, bytes_max, &bytes);
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    bool idle = data->scrub.mode == DATA_SCRUB_IDLE;
    pthread_mutex_unlock(&data->mutex);
    if (idle && is_due(data)) {
        start(data, false);
    }
    uint64_t allowed = budget(data, bytes_max);
    pthread_mutex_lock(&data->mutex);
    bool running = data->scrub.mode == DATA_SCRUB_RUNNING;
    pthread_mutex_unlock(&data->mutex);
    if (running && allowed > bytes) {
        err = walk(data, allowed - bytes, &bytes);
    }
    spend(data, bytes);
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    *ret_busy = data->scrub.mode == DATA_SCRUB_RUNNING && allowed > 0;
    pthread_mutex_unlock(&data->mutex);
    return 0;
}
