/* Volumes that compaction took heads out of and that are still there. Their old copies look alive
 * to a rebuild, while the tombstone of a head that dies later names only the volume where it died.
 * As long as the source goes before any other volume does, that is enough. When it does not go (it
 * holds staged or damaged records, or the process stopped half-way), the old copies are looked up
 * before another volume is compacted: heads that live elsewhere get an alias, dead ones a tombstone
 * for this volume. An 'M' row remembers such volumes. Maintenance thread, except mark and forget.
 */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "data/data_int.h"

#define COPIES_PER_BATCH 1000u

static int load_row(struct data *data, struct slice key, struct slice value, void *arg) {
    uint32_t number;
    if (!data_key_parse_volume(key, &number)) {
        return -HL_ERR_CORRUPT;
    }
    struct data_volume *v = data_volume_get(data, number);
    if (v == NULL) {
        return -HL_ERR_NOMEM;
    }
    v->moved_from = true;
    return 0;
}

int data_moved_load(struct data *data) {
    return data_each_row(data, DATA_ROW_MOVED, load_row, NULL);
}

int data_moved_mark(struct data *data, struct kv_batch *batch, uint32_t volume) {
    struct data_key key = data_key_volume(DATA_ROW_MOVED, volume);
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), SLICE_EMPTY);
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_get(data, volume);
    if (v != NULL) {
        v->moved_from = true;
    }
    pthread_mutex_unlock(&data->mutex);
    return v != NULL ? 0 : -HL_ERR_NOMEM;
}

uint32_t data_moved_next(struct data *data, bool *ret_empty) {
    uint32_t number = 0;
    pthread_mutex_lock(&data->mutex);
    for (uint32_t i = 0; i < data->volume_count && number == 0; i++) {
        const struct data_volume *v = &data->volume_table[i];
        if (v->moved_from && v->state == DATA_VOLUME_IN_USE) {
            number = v->number;
            *ret_empty = v->live_bytes == 0 && v->staged_bytes == 0;
        }
    }
    pthread_mutex_unlock(&data->mutex);
    return number;
}

struct copies {
    struct data *data;
    uint32_t volume;
    struct body_id *ids; /* COPIES_PER_BATCH */
    uint32_t count;
    bool last;
};

/* On the apply thread. */
static int note_copies(void *arg, struct kv_batch *batch) {
    struct copies *c = arg;
    int err = 0;
    for (uint32_t i = 0; i < c->count && err == 0; i++) {
        struct data_place place;
        int64_t gathered;
        err = data_row_lookup(c->data, c->ids[i], &place, &gathered);
        if (err == -HL_ERR_NOT_FOUND) {
            data_tombstone_add(c->data, batch, c->ids[i], c->volume);
            err = 0;
        } else if (err == 0 && (gathered >= 0 || place.location.volume != c->volume)) {
            err = data_alias_add(c->data, batch, c->ids[i], c->volume);
        }
    }
    if (err == 0 && c->last) {
        struct data_key key = data_key_volume(DATA_ROW_MOVED, c->volume);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
    }
    return err;
}

static int flush_copies(struct copies *c, bool last) {
    c->last = last;
    int err = c->data->run_local(c->data->run_local_ctx, note_copies, c);
    c->count = 0;
    FAILPOINT("data.compact.aliased");
    return err;
}

static int gather_head(void *arg, const struct volume_scan_item *item) {
    struct copies *c = arg;
    if (item->record == NULL || item->record->kind != VOLUME_HEAD) {
        return 0;
    }
    c->ids[c->count++] = item->record->id;
    return c->count == COPIES_PER_BATCH ? flush_copies(c, false) : 0;
}

int data_moved_resolve(struct data *data, uint32_t volume) {
    struct copies c = {
        .data = data, .volume = volume, .ids = calloc(COPIES_PER_BATCH, sizeof(struct body_id))};
    if (c.ids == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = volume_scan(data->volumes, volume, 0, false, gather_head, &c);
    if (err == 0 || err == -HL_ERR_NOT_FOUND) {
        err = flush_copies(&c, true);
    }
    free(c.ids);
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_find(data, volume);
    if (v != NULL) {
        v->moved_from = false;
    }
    pthread_mutex_unlock(&data->mutex);
    return 0;
}
