/* Compaction: live records of a volume with much garbage are copied behind the end of another, then
 * the volume goes. Runs on the maintenance thread; only the switch of rows runs on the apply
 * thread.
 *
 * A step: pick or go on with a source (sealed); read live records up to the budget; append copies;
 * sync them; read each copy back; switch the rows that still name the old place, in one batch. The
 * source is removed by a checkpoint after the flush that made the switches durable. A crash
 * anywhere leaves rows that name an intact record; copies that nothing names are garbage. What
 * cannot be read is never dropped: the source stays and is reported. Copies may use the reserved
 * space, so a full disk can be compacted. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "data/data_int.h"
#include "volume/volume_format.h"

#define SMALL_BODY    (64u << 10) /* larger ones are copied one by one, in pieces */
#define COPIES_MAX    4096u
#define PIECE         (256u << 10)
#define SPACE_SHORT   16u /* short when less than a 16th is free */
#define SHORT_PERCENT 5u

static METRIC_DEFINE_COUNTER(metric_copied, "hayloft_data_compacted_bytes_total", NULL,
                             "Bytes copied by compaction.");
static METRIC_DEFINE_COUNTER(metric_volumes, "hayloft_data_compacted_volumes_total", NULL,
                             "Volumes emptied by compaction.");

/* A live record of the source and its copy. */
struct copy {
    struct body_id id;
    struct body_id new_id; /* differs for tombstones: their body changes */
    struct data_place from, to;
    struct buf origin; /* key blob, value blob */
    struct volume_record record;
    uint8_t *body; /* of small records and tombstones */
    size_t body_size;
    bool dropped; /* a tombstone record that is needed no more */
};

struct step {
    struct data *data;
    uint32_t source;
    struct volume_file *file;
    struct copy *copies;
    uint32_t count;
    uint64_t bytes, bytes_max;
    uint64_t cursor;
    bool ended;
    bool unreadable;
};

static void set_compaction(struct data *data, struct data_compaction compaction) {
    pthread_mutex_lock(&data->mutex); /* statistics look at it */
    data->compaction = compaction;
    pthread_mutex_unlock(&data->mutex);
}

/* ---- choosing ---- */

struct choice {
    struct data *data;
    uint32_t percent;
    uint32_t best;
    uint64_t best_garbage, best_total;
    bool best_empty;
};

static bool more_garbage(uint64_t garbage, uint64_t total, const struct choice *c) {
    return c->best == 0 ||
           (double)garbage * (double)c->best_total > (double)c->best_garbage * (double)total;
}

static int weigh_volume(void *arg, const struct volume_info *info) {
    struct choice *c = arg;
    if (info->damaged) {
        return 0;
    }
    uint64_t total = info->bytes - VOLUME_DATA_OFF;
    pthread_mutex_lock(&c->data->mutex);
    struct data_volume *v = data_volume_get(c->data, info->volume);
    if (v != NULL && v->state == DATA_VOLUME_IN_USE && !v->stuck) {
        int64_t taken = v->live_bytes + v->staged_bytes;
        uint64_t garbage = (int64_t)total > taken ? total - (uint64_t)taken : 0;
        bool empty = v->live_bytes == 0 && v->staged_bytes == 0;
        bool enough = empty || (v->live_bytes > 0 && garbage * 100 >= total * c->percent);
        if (enough && (info->sealed || garbage >= DATA_OPEN_GARBAGE_MIN) &&
            more_garbage(garbage, MAX(total, 1u), c)) {
            c->best = info->volume;
            c->best_garbage = garbage;
            c->best_total = MAX(total, 1u);
            c->best_empty = empty;
        }
    }
    pthread_mutex_unlock(&c->data->mutex);
    return 0;
}

static int choose_source(struct data *data) {
    bool empty = false;
    uint32_t moved = data_moved_next(data, &empty);
    while (moved != 0 && !empty) {
        int err = data_moved_resolve(data, moved);
        if (err != 0) {
            return err;
        }
        moved = data_moved_next(data, &empty);
    }
    if (moved != 0) {
        volume_seal(data->volumes, moved);
        set_compaction(data, (struct data_compaction){.source = moved, .empty = true});
        return 0;
    }
    struct volume_space space;
    volume_space(data->volumes, &space);
    struct choice c = {.data = data, .percent = data->options.compact_percent};
    if (space.bytes_free < space.bytes_total / SPACE_SHORT) {
        c.percent = MIN(c.percent, SHORT_PERCENT);
    }
    int err = volume_each(data->volumes, weigh_volume, &c);
    if (err == 0 && c.best != 0) {
        volume_seal(data->volumes, c.best);
        set_compaction(data, (struct data_compaction){.source = c.best, .empty = c.best_empty});
    }
    return err;
}

/* ---- reading live records ---- */

static int is_live(struct data *data, const struct volume_scan_item *item, bool *ret) {
    struct data_place place;
    uint64_t sequence;
    int err = item->record->kind == VOLUME_CONFIG
                  ? data_config_get(data, item->record->origin_key, &sequence, &place)
                  : data_row_get(data, item->record->id, &place);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    *ret = err == 0 && place.location.volume == item->location.volume &&
           place.location.off == item->location.off;
    return 0;
}

/* Keeps the entries whose volume is still there. */
static void filter_tombstones(struct data *data, struct copy *copy) {
    size_t kept = 0;
    const size_t size = sizeof(struct volume_tombstone_disk);
    for (size_t at = 0; at + size <= copy->body_size; at += size) {
        struct volume_info info;
        if (volume_info(data->volumes, get_le32(copy->body + at), &info) == 0) {
            memmove(copy->body + kept, copy->body + at, size);
            kept += size;
        }
    }
    copy->body_size = kept;
    copy->dropped = kept == 0;
    copy->new_id = data_allocate(data, 1);
    copy->record.id = copy->new_id;
}

static int read_copy(struct step *step, const struct volume_scan_item *item, struct copy *copy) {
    copy->id = copy->new_id = item->record->id;
    copy->from = (struct data_place){item->location, item->record->kind};
    copy->to.kind = item->record->kind;
    int err = volume_read_origin(step->file, &item->location, &copy->record, &copy->origin);
    if (err != 0) {
        return err;
    }
    copy->body_size = item->location.body_bytes;
    if (copy->body_size > SMALL_BODY && item->record->kind != VOLUME_TOMBSTONES) {
        return 0;
    }
    copy->body = malloc(copy->body_size + 1);
    if (copy->body == NULL) {
        return -HL_ERR_NOMEM;
    }
    err = volume_read(step->file, &item->location, copy->id, 0, copy->body, copy->body_size, false);
    if (err == 0 && item->record->kind == VOLUME_TOMBSTONES) {
        filter_tombstones(step->data, copy);
    }
    return err;
}

static void copy_done(struct copy *copy) {
    buf_done(&copy->origin);
    free(copy->body);
    copy->body = NULL;
}

static int gather_item(void *arg, const struct volume_scan_item *item) {
    struct step *step = arg;
    step->cursor = item->location.off + item->location.record_bytes;
    bool live = false;
    if (item->record != NULL && !(item->err != 0 && item->record->kind == VOLUME_CONFIG)) {
        int err = is_live(step->data, item, &live);
        if (err != 0) {
            return err;
        }
    }
    step->bytes += live ? item->location.record_bytes : 0;
    if (!live) {
        return 0;
    }
    struct copy *copy = &step->copies[step->count];
    *copy = (struct copy){0};
    int err = item->err != 0 ? item->err : read_copy(step, item, copy);
    if (err == -HL_ERR_CORRUPT || err == -HL_ERR_IO) {
        step->unreadable = true;
        data_damage_add(step->data, item->record->id, &item->location, item->record->origin_key,
                        err);
        copy_done(copy);
        return 0;
    }
    if (err != 0) {
        copy_done(copy);
        return err;
    }
    step->count++;
    return step->bytes >= step->bytes_max || step->count == COPIES_MAX ? 1 : 0;
}

/* ---- writing copies ---- */

static int copy_large(struct step *step, struct copy *copy) {
    struct volume_slot *slot;
    const struct volume_location *from = &copy->from.location;
    uint64_t origin = copy->record.origin_key.size + copy->record.origin_value.size;
    CLEANUP_FREE uint8_t *piece = malloc(PIECE);
    if (piece == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = volume_slot_open(step->data->volumes, from->body_bytes, origin, true, &slot);
    if (err != 0) {
        return err;
    }
    for (uint64_t off = 0; off < from->body_bytes && err == 0;) {
        size_t n = MIN((uint64_t)PIECE, from->body_bytes - off);
        err = volume_read(step->file, from, copy->id, off, piece, n, false);
        if (err == 0) {
            err = volume_slot_write(slot, piece, n);
        }
        off += n;
    }
    if (err != 0) {
        volume_slot_abort(slot);
        return err;
    }
    return volume_slot_finish(slot, &copy->record, &copy->to.location);
}

/* Small copies with one append each run of them; large ones by themselves. Copies that were made
 * have to.location.volume set. */
static int write_small(struct step *step) {
    CLEANUP_FREE struct volume_append *appends = calloc(step->count + 1, sizeof(*appends));
    CLEANUP_FREE struct volume_location *locations = calloc(step->count + 1, sizeof(*locations));
    if (appends == NULL || locations == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        struct copy *copy = &step->copies[i];
        if (copy->body != NULL && !copy->dropped) {
            appends[n++] =
                (struct volume_append){copy->record, slice_of(copy->body, copy->body_size)};
        }
    }
    int err = volume_append(step->data->volumes, appends, n, true, locations);
    n = 0;
    for (uint32_t i = 0; err == 0 && i < step->count; i++) {
        struct copy *copy = &step->copies[i];
        if (copy->body != NULL && !copy->dropped) {
            copy->to.location = locations[n++];
        }
    }
    return err;
}

static int write_copies(struct step *step) {
    int err = write_small(step);
    for (uint32_t i = 0; i < step->count && err == 0; i++) {
        if (step->copies[i].body == NULL) {
            err = copy_large(step, &step->copies[i]);
        }
        if (err == -HL_ERR_CORRUPT || err == -HL_ERR_IO) {
            step->unreadable = true; /* left where it is */
            data_damage_add(step->data, step->copies[i].id, &step->copies[i].from.location,
                            SLICE_EMPTY, err);
            err = 0;
        }
    }
    FAILPOINT("data.compact.copied");
    return err;
}

static bool was_copied(const struct copy *copy) {
    return copy->to.location.volume != 0;
}

/* Syncs the copies and reads each of them back. One that is not well is not switched to. */
static int settle_copies(struct step *step) {
    uint32_t synced = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        uint32_t volume = step->copies[i].to.location.volume;
        if (volume != 0 && volume != synced) {
            int err = volume_sync(step->data->volumes, volume);
            if (err != 0) {
                return err;
            }
            synced = volume;
        }
    }
    FAILPOINT("data.compact.synced");
    for (uint32_t i = 0; i < step->count; i++) {
        struct copy *copy = &step->copies[i];
        if (!was_copied(copy)) {
            continue;
        }
        struct volume_append expected = {copy->record, slice_of(copy->body, copy->body_size)};
        int err =
            data_verify(step->data, copy->new_id, &copy->to, copy->body != NULL ? &expected : NULL);
        if (err != 0) {
            LOG_ERROR("data", "compaction: the copy in volume %06u does not read back (%s)",
                      copy->to.location.volume, error_text(err));
            return err;
        }
    }
    return 0;
}

/* ---- switching rows, on the apply thread ---- */

static bool row_names(int err, const struct data_place *now, const struct data_place *place) {
    return err == 0 && now->location.volume == place->location.volume &&
           now->location.off == place->location.off;
}

static int switch_config(struct data *data, struct kv_batch *batch, const struct copy *copy) {
    struct data_place now;
    uint64_t sequence;
    int err = data_config_get(data, copy->record.origin_key, &sequence, &now);
    if (row_names(err, &now, &copy->from)) {
        return data_config_put(data, batch, copy->record.origin_key, sequence, &copy->to);
    }
    return err == -HL_ERR_NOT_FOUND ? 0 : err;
}

/* A copy of a head that no row will name: of a dead one it is one more place where that stands, of
 * one that lives elsewhere it is remembered until that dies. */
static int note_orphan(struct data *data, struct kv_batch *batch, const struct copy *copy,
                       bool lives) {
    if (copy->from.kind != VOLUME_HEAD || !was_copied(copy)) {
        return 0;
    }
    if (lives) {
        return data_alias_add(data, batch, copy->id, copy->to.location.volume);
    }
    data_tombstone_add(data, batch, copy->id, copy->to.location.volume);
    return 0;
}

static int switch_row(struct data *data, struct kv_batch *batch, const struct copy *copy) {
    struct data_place now;
    int64_t gathered;
    int err = data_row_lookup(data, copy->id, &now, &gathered);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    if (err != 0 || gathered >= 0 || !row_names(0, &now, &copy->from)) {
        return note_orphan(data, batch, copy, err == 0);
    }
    if (copy->from.kind == VOLUME_TOMBSTONES) {
        err = data_row_delete(data, batch, copy->id);
        if (err != 0 || copy->dropped) {
            return err;
        }
    }
    return data_row_put(data, batch, copy->new_id, &copy->to);
}

static int switch_rows(void *arg, struct kv_batch *batch) {
    struct step *step = arg;
    int err = 0;
    for (uint32_t i = 0; i < step->count && err == 0; i++) {
        struct copy *copy = &step->copies[i];
        if (!was_copied(copy) && !copy->dropped) {
            continue;
        }
        err = copy->from.kind == VOLUME_CONFIG ? switch_config(step->data, batch, copy)
                                               : switch_row(step->data, batch, copy);
    }
    if (err == 0) {
        err = data_moved_mark(step->data, batch, step->source);
    }
    FAILPOINT("data.compact.switching");
    return err;
}

/* ---- the step ---- */

static int note_copies_at(void *arg, const struct volume_info *info) {
    struct data *data = arg;
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_get(data, info->volume);
    if (v != NULL) {
        v->has_copies = true;
        v->copies_at = info->unfinished;
    }
    pthread_mutex_unlock(&data->mutex);
    return v != NULL ? 0 : -HL_ERR_NOMEM;
}

/* From here to end_copying a checkpoint makes recovery scan from in front of the copies. */
static int begin_copying(struct data *data) {
    int err = volume_each(data->volumes, note_copies_at, data);
    pthread_mutex_lock(&data->mutex);
    data->copying = err == 0;
    pthread_mutex_unlock(&data->mutex);
    return err;
}

static void end_copying(struct data *data) {
    pthread_mutex_lock(&data->mutex);
    data->copying = false;
    for (uint32_t i = 0; i < data->volume_count; i++) {
        data->volume_table[i].has_copies = false;
    }
    pthread_mutex_unlock(&data->mutex);
}

/* The step failed before the switch. */
static int note_orphans(void *arg, struct kv_batch *batch) {
    struct step *step = arg;
    int err = 0;
    for (uint32_t i = 0; i < step->count && err == 0; i++) {
        struct copy *copy = &step->copies[i];
        struct data_place now;
        int64_t gathered;
        int found = data_row_lookup(step->data, copy->id, &now, &gathered);
        if (found == -HL_ERR_NOT_FOUND || (found == 0 && !row_names(0, &now, &copy->to))) {
            err = note_orphan(step->data, batch, copy, found == 0);
        }
    }
    return err;
}

static int move_records(struct step *step) {
    struct data *data = step->data;
    int err = begin_copying(data);
    if (err != 0) {
        return err;
    }
    int write_err = write_copies(step);
    err = settle_copies(step);
    if (err == 0) {
        err = data->run_local(data->run_local_ctx, switch_rows, step);
        FAILPOINT("data.compact.switched");
    }
    if (err != 0 && err != -HL_ERR_CRASHED) {
        (void)data->run_local(data->run_local_ctx, note_orphans, step);
    }
    end_copying(data);
    return err != 0 ? err : write_err;
}

/* The whole source was walked. Empty: it goes with the next checkpoint. */
static int finish_source(struct data *data) {
    uint32_t source = data->compaction.source;
    struct data_compaction ended = data->compaction;
    set_compaction(data, (struct data_compaction){0});
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_get(data, source);
    bool empty = v != NULL && v->live_bytes == 0 && v->staged_bytes == 0;
    if (empty) {
        v->state = DATA_VOLUME_DOOMED;
        v->doomed_at = data->doomed_count++;
    }
    bool live = v != NULL && v->live_bytes > 0 && v->staged_bytes == 0;
    pthread_mutex_unlock(&data->mutex);
    if (empty) {
        metric_add(&metric_volumes, 1);
        return 0;
    }
    uint64_t bad = 0;
    if (live && !ended.unreadable) {
        /* Rows name records that the walk did not meet, or that were named only now. */
        int err = data_damage_check_rows(data, source, &bad);
        if (err != 0) {
            return err;
        }
    }
    if (ended.unreadable || bad > 0 || (live && ended.moved == 0)) {
        LOG_ERROR("data", "volume %06u holds damaged records and is kept; see hayloft repair",
                  source);
        pthread_mutex_lock(&data->mutex);
        v = data_volume_find(data, source);
        if (v != NULL) {
            v->stuck = true;
        }
        pthread_mutex_unlock(&data->mutex);
    }
    return 0;
}

static int run_step(struct step *step) {
    struct data *data = step->data;
    int err =
        volume_scan(data->volumes, step->source, data->compaction.cursor, false, gather_item, step);
    if (err < 0) {
        return err;
    }
    step->ended = err == 0;
    err = step->count > 0 ? move_records(step) : 0;
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&data->mutex);
    data->compaction.cursor = step->cursor;
    data->compaction.moved += step->count;
    data->compaction.unreadable = data->compaction.unreadable || step->unreadable;
    data->compacted_bytes += step->bytes;
    pthread_mutex_unlock(&data->mutex);
    metric_add(&metric_copied, (int64_t)step->bytes);
    return step->ended ? finish_source(data) : 0;
}

int data_compact_step(struct data *data, uint64_t bytes_max, bool *ret_busy) {
    metric_register(&metric_copied);
    metric_register(&metric_volumes);
    if (data->run_local == NULL) {
        return -HL_ERR_INVALID;
    }
    if (data->compaction.source == 0) {
        int err = choose_source(data);
        if (err != 0) {
            return err;
        }
    }
    if (data->compaction.source == 0) {
        *ret_busy = false;
        return 0;
    }
    if (data->compaction.empty) {
        int err = finish_source(data);
        if (err == 0) {
            *ret_busy = true;
        }
        return err;
    }
    struct step step = {.data = data,
                        .source = data->compaction.source,
                        .cursor = data->compaction.cursor,
                        .bytes_max = MAX(bytes_max, 1u),
                        .copies = calloc(COPIES_MAX, sizeof(struct copy)),
                        .file = volume_pin(data->volumes, data->compaction.source)};
    int err = step.copies == NULL ? -HL_ERR_NOMEM : step.file == NULL ? -HL_ERR_NOT_FOUND : 0;
    if (err == 0) {
        err = run_step(&step);
    }
    for (uint32_t i = 0; step.copies != NULL && i < step.count; i++) {
        copy_done(&step.copies[i]);
    }
    free(step.copies);
    volume_unpin(step.file);
    if (err != 0) {
        set_compaction(data, (struct data_compaction){0}); /* chosen anew next time */
        return err;
    }
    *ret_busy = true;
    return 0;
}
