/* Checkpoints: what must be in the kv and in the volumes so that the log before may be recycled.
 *
 * begin (apply thread, in the last batch before the flush): the scan-from row of each volume, the
 * tombstone record, rows of removed volumes, and which emptied volumes this flush allows to remove.
 * sync (any thread): the volumes. done (after the flush): removal, and the tombstone record's row.
 *
 * Invariants. Recovery that scans a volume from its scan-from row meets every record that no row
 * names and that the log may still name. A tombstone's 'X' rows go only when the record that
 * repeats them is synced. A volume is removed only after a flush that began when nothing alive,
 * staged or being written was in it. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "data/data_int.h"
#include "volume/volume_format.h"

/* ---- tombstones ---- */

struct tombstone_gather {
    struct kv_batch *batch;
    struct data_key *keys;
    uint8_t *entries;
    uint32_t count;
};

static int gather_tombstone(struct data *data, struct slice key, struct slice value, void *arg) {
    struct tombstone_gather *g = arg;
    struct body_id id;
    uint32_t volume;
    if (!data_key_parse_alias(key, &id, &volume)) {
        return -HL_ERR_CORRUPT;
    }
    struct volume_info info;
    if (volume_info(data->volumes, volume, &info) != 0) {
        kv_batch_delete(g->batch, KV_LOCAL, key); /* the copy went with its volume */
        return 0;
    }
    if (g->count == DATA_TOMBSTONES_PER_RECORD) {
        return -HL_ERR_LIMIT;
    }
    struct volume_tombstone_disk entry;
    put_le32(entry.volume, volume);
    put_le32(entry.count, 1);
    put_le64(entry.id_high, id.high);
    put_le64(entry.id_low, id.low);
    memcpy(g->entries + (size_t)g->count * sizeof(entry), &entry, sizeof(entry));
    g->keys[g->count] = (struct data_key){.size = key.size};
    memcpy(g->keys[g->count++].bytes, key.data, key.size);
    return 0;
}

static int count_row(struct data *data, struct slice key, struct slice value, void *arg) {
    uint32_t *count = arg;
    return ++*count < DATA_TOMBSTONES_PER_RECORD ? 0 : -HL_ERR_LIMIT;
}

/* Appends the record and stages it: its row comes when it is synced. */
static int append_tombstones(struct data *data, const struct tombstone_gather *g) {
    struct data_staged *staged = calloc(1, sizeof(*staged));
    if (staged == NULL) {
        return -HL_ERR_NOMEM;
    }
    staged->node.id = data_allocate(data, 1);
    struct volume_append append = {
        .record = {.id = staged->node.id, .kind = VOLUME_TOMBSTONES},
        .body = slice_of(g->entries, (size_t)g->count * sizeof(struct volume_tombstone_disk))};
    staged->place.kind = VOLUME_TOMBSTONES;
    int err = volume_append(data->volumes, &append, 1, true, &staged->place.location);
    if (err == 0) {
        pthread_mutex_lock(&data->mutex);
        err = data_staged_add(data, staged);
        pthread_mutex_unlock(&data->mutex);
    }
    if (err != 0) {
        free(staged);
        return err;
    }
    data->tombstones.staged = staged;
    return 0;
}

static int write_tombstones(struct data *data, struct kv_batch *batch) {
    struct data_tombstones *t = &data->tombstones;
    if (t->written) {
        return 0; /* the record of a checkpoint that failed is synced by this one */
    }
    uint32_t count = 0;
    int err = data_each_row(data, DATA_ROW_TOMBSTONE, count_row, &count);
    if ((err != 0 && err != -HL_ERR_LIMIT) || count == 0) {
        return err;
    }
    CLEANUP_FREE uint8_t *entries = malloc((size_t)count * sizeof(struct volume_tombstone_disk));
    struct data_key *keys = calloc(count, sizeof(*keys));
    struct tombstone_gather g = {batch, keys, entries, 0};
    err = keys == NULL || entries == NULL
              ? -HL_ERR_NOMEM
              : data_each_row(data, DATA_ROW_TOMBSTONE, gather_tombstone, &g);
    if (err == -HL_ERR_LIMIT) {
        err = 0; /* the rest with the next checkpoint */
    }
    if (err == 0 && g.count > 0) {
        err = append_tombstones(data, &g);
    }
    if (err != 0 || g.count == 0) {
        free(keys);
        if (err == -HL_ERR_NO_SPACE) {
            LOG_WARN("data", "no room for tombstones; they stay in the index until there is");
            err = 0;
        }
        return err;
    }
    FAILPOINT("data.checkpoint.tombstones");
    t->written = true;
    t->keys = keys;
    t->count = g.count;
    return 0;
}

/* The record is durable: its row replaces the 'X' rows. Rows of this kind have one writer, so they
 * need not go through the turn's batch. */
static int settle_tombstones(struct data *data) {
    struct data_tombstones *t = &data->tombstones;
    if (!t->armed) {
        return 0;
    }
    struct kv_batch *batch = kv_batch_new(data->kv);
    if (batch == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct data_place place = t->staged->place;
    struct data_key key = data_key_id(DATA_ROW_LOCATION, t->staged->node.id);
    uint8_t value[DATA_PLACE_BYTES_MAX];
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key),
                 slice_of(value, data_place_encode(&place, value)));
    for (uint32_t i = 0; i < t->count; i++) {
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&t->keys[i]));
    }
    int err = data_live_add(data, batch, place.location.volume, place.location.record_bytes);
    if (err == 0) {
        err = kv_write(data->kv, batch);
    }
    kv_batch_free(batch);
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    data_staged_remove(data, t->staged);
    pthread_mutex_unlock(&data->mutex);
    free(t->keys);
    *t = (struct data_tombstones){0};
    return 0;
}

/* ---- scan-from rows ---- */

struct end_of_volume {
    uint32_t number;
    uint64_t scan_from;
};

struct ends {
    struct end_of_volume *items;
    uint32_t count, capacity;
};

static int note_end(void *arg, const struct volume_info *info) {
    struct ends *ends = arg;
    if (ends->count == ends->capacity) {
        uint32_t capacity = MAX(64u, ends->capacity * 2);
        struct end_of_volume *items =
            reallocarray(ends->items, capacity, sizeof(struct end_of_volume));
        if (items == NULL) {
            return -HL_ERR_NOMEM;
        }
        ends->items = items;
        ends->capacity = capacity;
    }
    ends->items[ends->count++] = (struct end_of_volume){info->volume, info->unfinished};
    return 0;
}

static void lower_end(struct ends *ends, uint32_t volume, uint64_t off) {
    uint32_t low = 0, high = ends->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ends->items[middle].number < volume) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < ends->count && ends->items[low].number == volume) {
        ends->items[low].scan_from = MIN(ends->items[low].scan_from, off);
    }
}

static void lower_by_staged(void *arg, struct data_map_node *node) {
    const struct data_place *place = &CONTAINER_OF(node, struct data_staged, node)->place;
    lower_end(arg, place->location.volume, place->location.off);
}

/* With the mutex held. */
static int put_scan_from(struct data *data, struct kv_batch *batch,
                         const struct end_of_volume *end) {
    struct data_volume *v = data_volume_get(data, end->number);
    if (v == NULL) {
        return -HL_ERR_NOMEM;
    }
    if (v->has_scan_from && v->scan_from == end->scan_from) {
        return 0;
    }
    v->has_scan_from = true;
    v->scan_from = end->scan_from;
    struct data_key key = data_key_volume(DATA_ROW_SCAN_FROM, end->number);
    uint8_t value[VARINT_MAX];
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key),
                 slice_of(value, put_varint(value, end->scan_from / VOLUME_RECORD_ALIGN)));
    return 0;
}

/* The ends are taken before the lists are looked at: a record that was finished in between is in
 * one of them, one that was begun in between lies behind the end. */
static int write_scan_from(struct data *data, struct kv_batch *batch) {
    struct ends ends = {0};
    int err = volume_each(data->volumes, note_end, &ends);
    if (err != 0) {
        free(ends.items);
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    for (const struct data_block *block = data->blocks; block != NULL; block = block->next) {
        lower_end(&ends, block->volume, block->off);
    }
    data_map_each(&data->staged, false, lower_by_staged, &ends);
    for (uint32_t i = 0; i < ends.count && data->copying; i++) {
        struct data_volume *v = data_volume_find(data, ends.items[i].number);
        lower_end(&ends, ends.items[i].number, v != NULL && v->has_copies ? v->copies_at : 0);
    }
    for (uint32_t i = 0; i < ends.count && err == 0; i++) {
        err = put_scan_from(data, batch, &ends.items[i]);
    }
    pthread_mutex_unlock(&data->mutex);
    if (err == 0 && ends.count > 0) {
        struct data_key key = data_key_table(DATA_ROW_NUMBER);
        uint8_t value[VARINT_MAX];
        size_t size = put_varint(value, ends.items[ends.count - 1].number);
        if (data->number_written < ends.items[ends.count - 1].number) {
            data->number_written = ends.items[ends.count - 1].number;
            kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), slice_of(value, size));
        }
    }
    free(ends.items);
    return err;
}

/* ---- removal of volumes ---- */

struct forget {
    struct kv_batch *batch;
    struct data *data;
    struct data_map_node *dead; /* chained by next once removed */
};

static void note_gone_alias(void *arg, struct data_map_node *node) {
    struct forget *forget = arg;
    struct data_alias *alias = CONTAINER_OF(node, struct data_alias, node);
    struct data_volume *v = data_volume_find(forget->data, alias->volume);
    if (v == NULL || v->state == DATA_VOLUME_GONE) {
        struct data_key key = data_key_alias(node->id, alias->volume);
        kv_batch_delete(forget->batch, KV_LOCAL, data_key_slice(&key));
        data_map_remove(&forget->data->aliases, node);
        free(alias);
    }
}

/* With the mutex held: rows of removed volumes go. */
static void forget_gone(struct data *data, struct kv_batch *batch) {
    bool any = false;
    for (uint32_t i = 0; i < data->volume_count; i++) {
        any = any || data->volume_table[i].state == DATA_VOLUME_GONE;
    }
    if (!any) {
        return;
    }
    struct forget forget = {.batch = batch, .data = data};
    data_map_each(&data->aliases, false, note_gone_alias, &forget);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < data->volume_count; i++) {
        struct data_volume *v = &data->volume_table[i];
        if (v->state != DATA_VOLUME_GONE) {
            data->volume_table[kept++] = *v;
            continue;
        }
        struct data_key key = data_key_volume(DATA_ROW_LIVE, v->number);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
        key = data_key_volume(DATA_ROW_MOVED, v->number);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
        key = data_key_volume(DATA_ROW_SCAN_FROM, v->number);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
    }
    data->volume_count = kept;
}

/* With the mutex held: doomed volumes that are really empty may go after this flush. */
static void arm_doomed(struct data *data) {
    for (uint32_t i = 0; i < data->volume_count; i++) {
        struct data_volume *v = &data->volume_table[i];
        if (v->state != DATA_VOLUME_DOOMED && v->state != DATA_VOLUME_ARMED) {
            continue;
        }
        struct volume_info info;
        bool empty = volume_info(data->volumes, v->number, &info) == 0 && info.sealed &&
                     info.unfinished == info.bytes && v->live_bytes == 0 && v->staged_bytes == 0;
        v->state = empty ? DATA_VOLUME_ARMED : DATA_VOLUME_IN_USE;
    }
}

int data_checkpoint_begin(struct data *data, struct kv_batch *batch) {
    CHECK(data->turn.head_count == 0);
    FAILPOINT("data.checkpoint.begin");
    int err = write_tombstones(data, batch);
    if (err != 0) {
        return err;
    }
    data->tombstones.armed = data->tombstones.written;
    pthread_mutex_lock(&data->mutex);
    forget_gone(data, batch);
    arm_doomed(data);
    pthread_mutex_unlock(&data->mutex);
    return write_scan_from(data, batch);
}

int data_checkpoint_sync(struct data *data) {
    FAILPOINT("data.checkpoint.before_sync");
    int err = volume_sync_all(data->volumes);
    FAILPOINT("data.checkpoint.synced");
    return err;
}

/* The number of the armed volume that was emptied first, or 0: a compaction's source goes before
 * the volume that took its copies, see data_moved.c. */
static uint32_t next_armed(struct data *data) {
    uint32_t number = 0;
    uint64_t doomed_at = UINT64_MAX;
    pthread_mutex_lock(&data->mutex);
    for (uint32_t i = 0; i < data->volume_count; i++) {
        const struct data_volume *v = &data->volume_table[i];
        if (v->state == DATA_VOLUME_ARMED && v->doomed_at < doomed_at) {
            number = v->number;
            doomed_at = v->doomed_at;
        }
    }
    pthread_mutex_unlock(&data->mutex);
    return number;
}

int data_checkpoint_done(struct data *data) {
    FAILPOINT("data.checkpoint.flushed");
    int err = settle_tombstones(data);
    if (err != 0) {
        return err;
    }
    for (uint32_t number = next_armed(data); number != 0; number = next_armed(data)) {
        FAILPOINT("data.compact.before_remove");
        err = volume_remove(data->volumes, number);
        FAILPOINT("data.compact.removed");
        pthread_mutex_lock(&data->mutex);
        struct data_volume *v = data_volume_find(data, number);
        if (v != NULL) {
            /* After a failed unlink the file shows up again at the next start, still empty. */
            v->state = DATA_VOLUME_GONE;
        }
        pthread_mutex_unlock(&data->mutex);
        if (err != 0) {
            LOG_ERROR("data", "volume %06u could not be removed: %s", number, error_text(err));
        }
    }
    FAILPOINT("data.checkpoint.done");
    return 0;
}

bool data_checkpoint_wanted(struct data *data) {
    bool wanted = false;
    pthread_mutex_lock(&data->mutex);
    for (uint32_t i = 0; i < data->volume_count && !wanted; i++) {
        wanted = data->volume_table[i].state == DATA_VOLUME_DOOMED ||
                 data->volume_table[i].state == DATA_VOLUME_ARMED;
    }
    pthread_mutex_unlock(&data->mutex);
    return wanted;
}
