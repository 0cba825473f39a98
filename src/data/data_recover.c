/* Recovery: which records in the volumes no row names, which rows name records that a crash tore.
 *
 * The kv may be older than the volumes (records without a row: staged, so that the log's replay can
 * name them) and newer (rows whose records were never synced: replay verifies each head, and the
 * configuration records are verified here). Runs before anything else works on the store. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "data/data_int.h"

static METRIC_DEFINE_COUNTER(metric_scanned, "hayloft_data_recover_records_total", NULL,
                             "Records looked at by recovery.");
static METRIC_DEFINE_COUNTER(metric_left, "hayloft_data_recover_leftovers_total", NULL,
                             "Records that recovery left as garbage.");

struct recover {
    struct data *data;
    struct kv_batch *batch; /* alias and tombstone rows */
};

static bool same_place(const struct volume_location *a, const struct volume_location *b) {
    return a->volume == b->volume && a->off == b->off;
}

/* Another copy of a head whose place is known: remembered, so that its tombstone covers it. */
static int note_copy(struct recover *r, const struct volume_scan_item *item,
                     const struct volume_location *known) {
    if (item->record->kind != VOLUME_HEAD || known->volume == item->location.volume) {
        return 0;
    }
    return data_alias_add(r->data, r->batch, item->record->id, item->location.volume);
}

static int stage(struct recover *r, const struct volume_scan_item *item) {
    struct data *data = r->data;
    struct data_staged *known = data_staged_find(data, item->record->id);
    if (known != NULL) {
        return note_copy(r, item, &known->place.location);
    }
    struct data_staged *staged = calloc(1, sizeof(*staged));
    if (staged == NULL) {
        return -HL_ERR_NOMEM;
    }
    staged->node.id = item->record->id;
    staged->place = (struct data_place){item->location, item->record->kind};
    if (item->record->kind == VOLUME_HEAD && data->options.row_sequence != NULL) {
        staged->sequence =
            data->options.row_sequence(item->record->origin_key, item->record->origin_value);
    }
    pthread_mutex_lock(&data->mutex);
    int err = data_staged_add(data, staged);
    pthread_mutex_unlock(&data->mutex);
    if (err != 0) {
        free(staged);
    }
    return err;
}

static int scan_item(void *arg, const struct volume_scan_item *item) {
    struct recover *r = arg;
    if (item->record == NULL || item->err != 0) {
        return 0; /* torn: whatever named it is verified or replayed */
    }
    metric_add(&metric_scanned, 1);
    uint32_t kind = item->record->kind;
    if (kind == VOLUME_CONFIG) {
        r->data->config_sequence = MAX(r->data->config_sequence, item->record->id.low);
    }
    if (kind != VOLUME_HEAD && kind != VOLUME_BLOCK) {
        return 0;
    }
    struct data_place place;
    int err = data_row_get(r->data, item->record->id, &place);
    if (err == -HL_ERR_NOT_FOUND) {
        return stage(r, item);
    }
    if (err != 0) {
        return err;
    }
    return same_place(&place.location, &item->location) ? 0 : note_copy(r, item, &place.location);
}

static int scan_volume(void *arg, const struct volume_info *info) {
    struct recover *r = arg;
    if (info->damaged) {
        return 0;
    }
    uint64_t from = 0;
    struct data_volume *v = data_volume_find(r->data, info->volume);
    if (v != NULL && v->has_scan_from) {
        from = v->scan_from;
    }
    if (from > info->bytes) {
        /* The kv knows of bytes that a crash took. Appends between the file's end and that offset
         * would not be met by a later scan: the volume takes no more. */
        volume_seal(r->data->volumes, info->volume);
        return 0;
    }
    int err = volume_scan(r->data->volumes, info->volume, from, false, scan_item, r);
    FAILPOINT("data.recover.volume");
    return err;
}

int data_recover_scan(struct data *data) {
    metric_register(&metric_scanned);
    metric_register(&metric_left);
    struct recover r = {.data = data, .batch = kv_batch_new(data->kv)};
    if (r.batch == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = volume_each(data->volumes, scan_volume, &r);
    if (err == 0 && kv_batch_count(r.batch) > 0) {
        err = kv_write(data->kv, r.batch);
    }
    kv_batch_free(r.batch);
    FAILPOINT("data.recover.scanned");
    return err;
}

static void raise_sequence(void *arg, struct data_map_node *node) {
    const struct data_staged *staged = CONTAINER_OF(node, struct data_staged, node);
    uint64_t *sequence = arg;
    *sequence = MAX(*sequence, staged->sequence);
}

uint64_t data_leftover_sequence(struct data *data) {
    uint64_t sequence = data->config_sequence;
    data_map_each(&data->staged, false, raise_sequence, &sequence);
    return sequence;
}

/* ---- configuration records ---- */

/* Writes the record again from the row that it copies. */
static int rewrite_config(struct data *data, struct kv_batch *batch, struct slice row_key,
                          uint64_t sequence) {
    struct kv_value value CLEANUP_KV_VALUE = {0};
    int err = kv_get(data->kv, KV_META, row_key, &value);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    struct volume_append append = {.record = {.id = {0, sequence},
                                              .kind = VOLUME_CONFIG,
                                              .origin_key = row_key,
                                              .origin_value = value.data}};
    struct data_place place = {.kind = VOLUME_CONFIG};
    err = volume_append(data->volumes, &append, 1, true, &place.location);
    return err != 0 ? err : data_config_put(data, batch, row_key, sequence, &place);
}

static int check_config(struct data *data, struct slice key, struct slice value, void *arg) {
    struct reader r = reader_of(value);
    uint64_t sequence = reader_varint(&r);
    struct data_place place;
    if (!data_place_decode(&r, &place) || reader_left(&r) != 0) {
        return -HL_ERR_CORRUPT;
    }
    /* Few (one a bucket, key or permission), so all are checked: a torn one is one whose turn
     * reached the kv without its volume being synced. */
    int err = data_verify(data, (struct body_id){0, sequence}, &place, NULL);
    if (err != -HL_ERR_CORRUPT && err != -HL_ERR_IO) {
        return err;
    }
    FAILPOINT("data.recover.config");
    return rewrite_config(data, arg, slice_skip(key, 1), sequence);
}

/* ---- the end ---- */

/* A head without a row after the whole replay is dead: whatever named it is in the log or in the
 * kv. Its record is whole, so a rebuild must be told. */
static void bury_leftover(void *arg, struct data_map_node *node) {
    struct recover *r = arg;
    struct data_staged *staged = CONTAINER_OF(node, struct data_staged, node);
    if (staged->place.kind == VOLUME_HEAD) {
        data_tombstone_add(r->data, r->batch, node->id, staged->place.location.volume);
    }
}

static void free_leftover(void *arg, struct data_map_node *node) {
    struct data *data = arg;
    struct data_staged *staged = CONTAINER_OF(node, struct data_staged, node);
    const struct volume_location *l = &staged->place.location;
    data_staged_count(data, l->volume, -(int64_t)l->record_bytes);
    metric_add(&metric_left, 1);
    free(staged);
}

int data_recover_done(struct data *data) {
    struct kv_batch *batch = kv_batch_new(data->kv);
    if (batch == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = data_each_row(data, DATA_ROW_CONFIG, check_config, batch);
    struct recover r = {.data = data, .batch = batch};
    data_map_each(&data->staged, false, bury_leftover, &r); /* nobody else is at work yet */
    if (err == 0 && kv_batch_count(batch) > 0) {
        err = kv_write(data->kv, batch);
    }
    kv_batch_free(batch);
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    uint32_t left = data->staged.count;
    data_map_each(&data->staged, true, free_leftover, data);
    pthread_mutex_unlock(&data->mutex);
    if (left > 0) {
        LOG_INFO("data", "recovery left %u records that nothing names; compaction takes them",
                 left);
    }
    FAILPOINT("data.recover.done");
    return 0;
}
