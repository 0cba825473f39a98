/* Damaged records: found by reads and scrub, kept as rows so that they are known after a restart,
 * gone when the record is freed, moved or found well again. A place that failed is also a hint:
 * scrub looks at its neighbourhood next. Any thread. */
#include <inttypes.h>

#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "data/data_int.h"

static METRIC_DEFINE_COUNTER(metric_found, "hayloft_data_damaged_records_total", NULL,
                             "Live records found damaged.");

/* Codes of the row's first field: error numbers of the program are not stable. */
enum { DAMAGE_CORRUPT = 1, DAMAGE_IO = 2 };

static int load_entry(struct data *data, struct slice key, struct slice value, void *arg) {
    struct data_damage_entry entry;
    struct reader r = reader_of(value);
    (void)reader_varint(&r);
    (void)reader_varint(&r);
    entry.id.high = reader_varint(&r);
    entry.id.low = reader_varint(&r);
    if (!data_key_parse_damage(key, &entry.volume, &entry.off) || r.failed) {
        return -HL_ERR_CORRUPT;
    }
    if (data->damage_count < DATA_DAMAGE_MAX) {
        data->damage[data->damage_count++] = entry;
    }
    return 0;
}

int data_damage_load(struct data *data) {
    metric_register(&metric_found);
    data->damage = calloc(DATA_DAMAGE_MAX, sizeof(*data->damage));
    return data->damage == NULL ? -HL_ERR_NOMEM
                                : data_each_row(data, DATA_ROW_DAMAGE, load_entry, NULL);
}

/* With the mutex held; -1 when unknown. */
static int64_t find_entry(const struct data *data, uint32_t volume, uint64_t off) {
    for (uint32_t i = 0; i < data->damage_count; i++) {
        if (data->damage[i].volume == volume && data->damage[i].off == off) {
            return i;
        }
    }
    return -1;
}

static void add_hint(struct data *data, uint32_t volume, uint64_t off) {
    if (data->hint_count < DATA_HINTS_MAX) {
        data->hints[data->hint_count++] = (struct data_hint){volume, off};
    }
}

static int put_damage_row(struct data *data, struct body_id id,
                          const struct volume_location *location, struct slice origin_key,
                          int err) {
    struct buf value CLEANUP_BUF = {0};
    buf_append_varint(&value, err == -HL_ERR_IO ? DAMAGE_IO : DAMAGE_CORRUPT);
    buf_append_varint(&value, (uint64_t)os_wall_ms(data->env->clock));
    buf_append_varint(&value, id.high);
    buf_append_varint(&value, id.low);
    buf_append_blob(&value, origin_key);
    struct kv_batch *batch = kv_batch_new(data->kv);
    if (batch == NULL || value.failed) {
        kv_batch_free(batch);
        return -HL_ERR_NOMEM;
    }
    struct data_key key = data_key_damage(location->volume, location->off);
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), buf_slice(&value));
    int write_err = kv_write(data->kv, batch);
    kv_batch_free(batch);
    return write_err;
}

void data_damage_add(struct data *data, struct body_id id, const struct volume_location *location,
                     struct slice origin_key, int err) {
    pthread_mutex_lock(&data->mutex);
    bool known = find_entry(data, location->volume, location->off) >= 0;
    bool room = data->damage_count < DATA_DAMAGE_MAX;
    if (!known && room) {
        data->damage[data->damage_count++] =
            (struct data_damage_entry){location->volume, location->off, id};
        add_hint(data, location->volume, location->off);
    }
    pthread_mutex_unlock(&data->mutex);
    if (known || !room) {
        return;
    }
    metric_add(&metric_found, 1);
    struct volume_record record;
    struct buf origin CLEANUP_BUF = {0};
    struct volume_file *file = volume_pin(data->volumes, location->volume);
    if (origin_key.size == 0 && file != NULL &&
        volume_read_origin(file, location, &record, &origin) == 0) {
        origin_key = record.origin_key;
    }
    volume_unpin(file);
    LOG_ERROR("data",
              "volume %06" PRIu32 " offset %" PRIu64 " (body %016" PRIx64 "-%" PRIu64
              "): record is damaged (%s); `hayloft scrub status` says to which object it belongs",
              location->volume, location->off, id.high, id.low, error_name(err));
    int write_err = put_damage_row(data, id, location, origin_key, err);
    if (write_err != 0) {
        LOG_ERROR("data", "cannot record the damage: %s", error_text(write_err));
    }
}

void data_damage_remove(struct data *data, struct kv_batch *batch, uint32_t volume, uint64_t off) {
    pthread_mutex_lock(&data->mutex);
    int64_t i = data->damage_count == 0 ? -1 : find_entry(data, volume, off);
    if (i >= 0) {
        data->damage[i] = data->damage[--data->damage_count];
    }
    pthread_mutex_unlock(&data->mutex);
    if (i < 0) {
        return;
    }
    struct data_key key = data_key_damage(volume, off);
    if (batch != NULL) {
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
        return;
    }
    struct kv_batch *own = kv_batch_new(data->kv);
    if (own != NULL) {
        kv_batch_delete(own, KV_LOCAL, data_key_slice(&key));
        int err = kv_write(data->kv, own);
        if (err != 0) {
            LOG_WARN("data", "cannot remove a damage row: %s", error_text(err));
        }
        kv_batch_free(own);
    }
}

struct each_damage {
    int (*fn)(void *arg, const struct data_damage *damage);
    void *arg;
};

static int report_damage(struct data *data, struct slice key, struct slice value, void *arg) {
    const struct each_damage *each = arg;
    struct data_damage damage = {0};
    struct reader r = reader_of(value);
    damage.err = reader_varint(&r) == DAMAGE_IO ? -HL_ERR_IO : -HL_ERR_CORRUPT;
    damage.found_ms = (int64_t)reader_varint(&r);
    damage.id.high = reader_varint(&r);
    damage.id.low = reader_varint(&r);
    damage.origin_key = reader_blob(&r);
    if (!data_key_parse_damage(key, &damage.volume, &damage.off) || r.failed) {
        return -HL_ERR_CORRUPT;
    }
    return each->fn(each->arg, &damage);
}

int data_damage_each(struct data *data, int (*fn)(void *arg, const struct data_damage *damage),
                     void *arg) {
    struct each_damage each = {fn, arg};
    return data_each_row(data, DATA_ROW_DAMAGE, report_damage, &each);
}

struct check_rows {
    uint32_t volume;
    uint64_t bad;
};

static bool parse_row(struct slice key, struct slice value, struct body_id *ret_id,
                      struct data_place *ret) {
    struct reader r = reader_of(value);
    if (key.data[0] == DATA_ROW_CONFIG) {
        *ret_id = (struct body_id){0, reader_varint(&r)};
        return data_place_decode(&r, ret);
    }
    return data_key_parse_id(key, ret_id) && data_place_decode(&r, ret);
}

/* The row was read from a snapshot: is it still so? */
static bool still_there(struct data *data, struct slice key, struct body_id id,
                        const struct data_place *place) {
    struct data_place now;
    uint64_t sequence;
    int err = key.data[0] == DATA_ROW_CONFIG
                  ? data_config_get(data, slice_skip(key, 1), &sequence, &now)
                  : data_row_get(data, id, &now);
    return err == 0 && now.location.volume == place->location.volume &&
           now.location.off == place->location.off;
}

static int check_row(struct data *data, struct slice key, struct slice value, void *arg) {
    struct check_rows *check = arg;
    struct body_id id;
    struct data_place place;
    if (!parse_row(key, value, &id, &place)) {
        return -HL_ERR_CORRUPT;
    }
    if (place.location.volume != check->volume) {
        return 0;
    }
    int err = data_verify(data, id, &place, NULL);
    if (err == -HL_ERR_CORRUPT || err == -HL_ERR_IO) {
        if (still_there(data, key, id, &place)) {
            data_damage_add(data, id, &place.location, SLICE_EMPTY, err);
            check->bad++;
        }
        return 0;
    }
    return err;
}

int data_damage_check_rows(struct data *data, uint32_t volume, uint64_t *ret_bad) {
    struct check_rows check = {.volume = volume};
    int err = data_each_row(data, DATA_ROW_LOCATION, check_row, &check);
    if (err == 0) {
        err = data_each_row(data, DATA_ROW_CONFIG, check_row, &check);
    }
    if (err == 0) {
        *ret_bad = check.bad;
    }
    return err;
}
