/* Rebuild: the location index from the volumes alone, when the kv is lost. Runs alone on an opened,
 * not recovered store; writes to the kv by itself.
 *
 * First all tombstones are read, then every record that is not dead gets a row (of several copies
 * an intact one), and heads and the newest configuration rows are reported. The caller decides
 * which heads win and names their bodies; finish drops every row that nothing named, and gives
 * dropped heads a tombstone, so that the next rebuild does not bring them back. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "data/data_int.h"
#include "volume/volume_format.h"

#define BATCH_ROWS 1000u

struct dead_head {
    struct data_map_node node;
};

struct rebuild {
    struct data *data;
    struct data_map dead;
    int (*fn)(void *arg, const struct data_rebuild_head *head);
    void *arg;
    void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_arg;
    uint64_t bytes_done, bytes_total;
    uint64_t damaged;
    uint32_t items;
};

static int write_batch(struct data *data, uint32_t rows_min) {
    if (kv_batch_count(data->rebuild_batch) <= rows_min) {
        return 0;
    }
    int err = kv_write(data->kv, data->rebuild_batch);
    if (err != 0) {
        return err;
    }
    FAILPOINT("data.rebuild.batch");
    kv_batch_clear(data->rebuild_batch);
    data_overlay_clear(data);
    return 0;
}

static void free_alias_node(void *arg, struct data_map_node *node) {
    free(CONTAINER_OF(node, struct data_alias, node));
}

static int clear_rows(struct data *data) {
    /* Not the 'X' rows: what they say of dead heads no volume tells yet. */
    static const enum data_row tables[] = {DATA_ROW_LOCATION,  DATA_ROW_CONFIG, DATA_ROW_LIVE,
                                           DATA_ROW_SCAN_FROM, DATA_ROW_FREE,   DATA_ROW_ALIAS,
                                           DATA_ROW_DAMAGE,    DATA_ROW_NAMED,  DATA_ROW_MOVED};
    if (data->rebuild_batch == NULL) {
        data->rebuild_batch = kv_batch_new(data->kv);
        if (data->rebuild_batch == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        struct data_key first = data_key_table(tables[i]), end = first;
        end.bytes[0]++;
        kv_batch_delete_range(data->rebuild_batch, KV_LOCAL, data_key_slice(&first),
                              data_key_slice(&end));
    }
    pthread_mutex_lock(&data->mutex);
    data->volume_count = 0;
    data->live_bytes = 0;
    data->damage_count = 0;
    data->free_queue_bytes = 0;
    data_map_each(&data->aliases, true, free_alias_node, NULL);
    pthread_mutex_unlock(&data->mutex);
    data->free_queue.start = data->free_queue.count = 0;
    data->free_queue.overflow = false;
    return write_batch(data, 0);
}

/* ---- first pass: the dead ---- */

static int add_dead(struct rebuild *r, struct body_id id) {
    struct dead_head *dead = calloc(1, sizeof(*dead));
    if (dead == NULL) {
        return -HL_ERR_NOMEM;
    }
    dead->node.id = id;
    data_map_insert(&r->dead, &dead->node);
    return 0;
}

static int read_tombstone_row(struct data *data, struct slice key, struct slice value, void *arg) {
    struct body_id id;
    uint32_t volume;
    return data_key_parse_alias(key, &id, &volume) ? add_dead(arg, id) : -HL_ERR_CORRUPT;
}

static int read_tombstones(struct rebuild *r, const struct volume_scan_item *item) {
    uint32_t size = item->location.body_bytes;
    CLEANUP_FREE uint8_t *body = malloc(size + 1ull);
    struct volume_file *file = volume_pin(r->data->volumes, item->location.volume);
    int err = body == NULL || file == NULL
                  ? -HL_ERR_NOMEM
                  : volume_read(file, &item->location, item->record->id, 0, body, size, false);
    volume_unpin(file);
    if (err == -HL_ERR_CORRUPT || err == -HL_ERR_IO) {
        r->damaged++;
        return 0;
    }
    const size_t step = sizeof(struct volume_tombstone_disk);
    for (uint32_t at = 0; err == 0 && at + step <= size; at += step) {
        struct volume_tombstone_disk entry;
        memcpy(&entry, body + at, sizeof(entry));
        struct body_id first = {get_le64(entry.id_high), get_le64(entry.id_low)};
        for (uint32_t i = 0; i < get_le32(entry.count) && err == 0; i++) {
            err = add_dead(r, body_id_nth(first, i));
        }
    }
    return err;
}

static int first_pass_item(void *arg, const struct volume_scan_item *item) {
    struct rebuild *r = arg;
    if (item->record == NULL || item->record->kind != VOLUME_TOMBSTONES) {
        return 0;
    }
    return read_tombstones(r, item);
}

static int first_pass(void *arg, const struct volume_info *info) {
    struct rebuild *r = arg;
    r->bytes_total += info->bytes;
    if (info->damaged) {
        r->damaged++;
        return 0;
    }
    return volume_scan(r->data->volumes, info->volume, 0, false, first_pass_item, r);
}

/* ---- second pass: rows ---- */

/* Another record has the id already: an intact one stays. */
static bool is_better(struct data *data, const struct volume_scan_item *item,
                      const struct data_place *known) {
    struct data_place place = {item->location, item->record->kind};
    return data_verify(data, item->record->id, known, NULL) != 0 &&
           data_verify(data, item->record->id, &place, NULL) == 0;
}

static int add_body(struct rebuild *r, const struct volume_scan_item *item) {
    struct data *data = r->data;
    struct body_id id = item->record->id;
    if (data_map_find(&r->dead, id) != NULL) {
        /* The tombstone may name another volume only, and go with that. */
        if (item->record->kind == VOLUME_HEAD) {
            data_tombstone_add(data, data->rebuild_batch, id, item->location.volume);
        }
        return 0;
    }
    struct data_place known, place = {item->location, item->record->kind};
    int64_t gathered;
    int err = data_row_lookup(data, id, &known, &gathered);
    if (err == 0) {
        bool better = is_better(data, item, &known);
        uint32_t other = better ? known.location.volume : place.location.volume;
        uint32_t kept = better ? place.location.volume : known.location.volume;
        if (place.kind == VOLUME_HEAD && other != kept) {
            err = data_alias_add(data, data->rebuild_batch, id, other);
        }
        return err != 0 || !better ? err : data_row_put(data, data->rebuild_batch, id, &place);
    }
    if (err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    err = data_row_put(data, data->rebuild_batch, id, &place);
    if (err != 0 || place.kind != VOLUME_HEAD) {
        return err;
    }
    struct data_rebuild_head head = {.id = id,
                                     .row_key = item->record->origin_key,
                                     .row_value = item->record->origin_value,
                                     .kind = VOLUME_HEAD};
    return r->fn(r->arg, &head);
}

static int add_config(struct rebuild *r, const struct volume_scan_item *item) {
    struct data *data = r->data;
    int err = write_batch(data, 0); /* the row is looked up in the kv */
    if (err != 0) {
        return err;
    }
    uint64_t sequence;
    struct data_place known, place = {item->location, VOLUME_CONFIG};
    err = data_config_get(data, item->record->origin_key, &sequence, &known);
    if (err == 0 && sequence >= item->record->id.low) {
        return 0;
    }
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    return data_config_put(data, data->rebuild_batch, item->record->origin_key,
                           item->record->id.low, &place);
}

/* A torn one (of a checkpoint that a power cut ended) is garbage: its rows were still in the kv. */
static int add_tombstones(struct rebuild *r, const struct volume_scan_item *item) {
    struct data_place place = {item->location, VOLUME_TOMBSTONES};
    if (data_verify(r->data, item->record->id, &place, NULL) != 0) {
        return 0;
    }
    int err = add_body(r, item);
    return err != 0 ? err : data_rebuild_name(r->data, item->record->id, 1);
}

static int second_pass_item(void *arg, const struct volume_scan_item *item) {
    struct rebuild *r = arg;
    r->bytes_done += item->location.record_bytes;
    if (++r->items % 256 == 0 && r->progress != NULL) {
        r->progress(r->progress_arg, r->bytes_done, r->bytes_total);
    }
    if (item->record == NULL || item->err != 0) {
        r->damaged += item->record != NULL ? 1 : 0;
        return 0;
    }
    int err = 0;
    if (item->record->kind == VOLUME_CONFIG) {
        err = add_config(r, item);
    } else if (item->record->kind == VOLUME_TOMBSTONES) {
        err = add_tombstones(r, item);
    } else {
        err = add_body(r, item);
    }
    return err != 0 ? err : write_batch(r->data, BATCH_ROWS);
}

static int second_pass(void *arg, const struct volume_info *info) {
    struct rebuild *r = arg;
    FAILPOINT("data.rebuild.volume");
    return info->damaged
               ? 0
               : volume_scan(r->data->volumes, info->volume, 0, false, second_pass_item, r);
}

static int report_config(struct data *data, struct slice key, struct slice value, void *arg) {
    struct rebuild *r = arg;
    struct reader reader = reader_of(value);
    struct data_rebuild_head head = {.id = {0, reader_varint(&reader)}, .kind = VOLUME_CONFIG};
    struct data_place place;
    if (!data_place_decode(&reader, &place)) {
        return -HL_ERR_CORRUPT;
    }
    struct volume_record record;
    struct buf origin CLEANUP_BUF = {0};
    struct volume_file *file = volume_pin(data->volumes, place.location.volume);
    int err = file == NULL ? -HL_ERR_CORRUPT
                           : volume_read_origin(file, &place.location, &record, &origin);
    volume_unpin(file);
    if (err != 0) {
        return err;
    }
    head.row_key = record.origin_key;
    head.row_value = record.origin_value;
    return r->fn(r->arg, &head);
}

static void free_dead(void *arg, struct data_map_node *node) {
    free(CONTAINER_OF(node, struct dead_head, node));
}

static int run_passes(struct rebuild *r) {
    struct data *data = r->data;
    int err = clear_rows(data);
    if (err == 0) {
        err = data_each_row(data, DATA_ROW_TOMBSTONE, read_tombstone_row, r);
    }
    if (err == 0) {
        err = volume_each(data->volumes, first_pass, r);
    }
    FAILPOINT("data.rebuild.tombstones");
    if (err == 0) {
        err = volume_each(data->volumes, second_pass, r);
    }
    if (err == 0) {
        err = write_batch(data, 0);
    }
    if (err == 0) {
        err = data_each_row(data, DATA_ROW_CONFIG, report_config, r);
    }
    return err;
}

int data_rebuild(struct data *data, int (*fn)(void *arg, const struct data_rebuild_head *head),
                 void *arg, void (*progress)(void *arg, uint64_t bytes_done, uint64_t bytes_total),
                 void *progress_arg) {
    struct rebuild r = {
        .data = data, .fn = fn, .arg = arg, .progress = progress, .progress_arg = progress_arg};
    int err = data_map_init(&r.dead);
    if (err != 0) {
        return err;
    }
    err = run_passes(&r);
    data_map_each(&r.dead, true, free_dead, NULL);
    data_map_done(&r.dead);
    if (r.damaged > 0) {
        LOG_ERROR("data", "rebuild met %llu damaged records or volumes",
                  (unsigned long long)r.damaged);
    }
    if (err == 0 && progress != NULL) {
        progress(progress_arg, r.bytes_total, r.bytes_total);
    }
    return err;
}

/* ---- the end ---- */

int data_rebuild_name(struct data *data, struct body_id first, uint64_t count) {
    if (data->rebuild_batch == NULL) {
        return -HL_ERR_INVALID;
    }
    if (count == 0) {
        return 0;
    }
    struct data_key key = data_key_named(first, count);
    kv_batch_put(data->rebuild_batch, KV_LOCAL, data_key_slice(&key), SLICE_EMPTY);
    return write_batch(data, BATCH_ROWS);
}

static struct kv_iter *table_iter(struct data *data, enum data_row row) {
    struct data_key first = data_key_table(row), end = first;
    end.bytes[0]++;
    return kv_iter_new(data->kv, KV_LOCAL, data_key_slice(&first), data_key_slice(&end));
}

/* Walks named runs in step with the location rows: both are ordered by id. */
struct cover {
    struct kv_iter *iter;
    uint64_t high;
    uint64_t end; /* ids high, below end are covered */
};

static bool id_less_or_equal(struct body_id a, struct body_id b) {
    return a.high < b.high || (a.high == b.high && a.low <= b.low);
}

static bool covered(struct cover *cover, struct body_id id) {
    for (; kv_iter_valid(cover->iter); kv_iter_next(cover->iter)) {
        struct body_id first;
        uint64_t count, end;
        if (!data_key_parse_named(kv_iter_key(cover->iter), &first, &count)) {
            continue;
        }
        if (!id_less_or_equal(first, id)) {
            break;
        }
        if (__builtin_add_overflow(first.low, count, &end)) {
            end = UINT64_MAX;
        }
        cover->end = first.high == cover->high ? MAX(cover->end, end) : end;
        cover->high = first.high;
    }
    return id.high == cover->high && id.low < cover->end;
}

static int drop_unnamed(struct data *data, struct cover *cover, struct kv_iter *rows) {
    for (kv_iter_seek_first(rows); kv_iter_valid(rows); kv_iter_next(rows)) {
        struct body_id id;
        struct data_place place;
        struct reader r = reader_of(kv_iter_value(rows));
        if (!data_key_parse_id(kv_iter_key(rows), &id) || !data_place_decode(&r, &place)) {
            return -HL_ERR_CORRUPT;
        }
        if (covered(cover, id)) {
            continue;
        }
        if (place.kind == VOLUME_HEAD) {
            data_tombstone_add(data, data->rebuild_batch, id, place.location.volume);
        }
        int err = data_row_delete(data, data->rebuild_batch, id);
        if (err == 0) {
            err = write_batch(data, BATCH_ROWS);
        }
        if (err != 0) {
            return err;
        }
    }
    return kv_iter_error(rows);
}

/* How many ids of the named runs have no row. */
static uint64_t count_missing(struct kv_iter *named, struct kv_iter *rows) {
    uint64_t missing = 0, high = 0, end = 0;
    for (kv_iter_seek_first(named); kv_iter_valid(named); kv_iter_next(named)) {
        struct body_id first, id;
        uint64_t count, run_end;
        if (!data_key_parse_named(kv_iter_key(named), &first, &count) ||
            __builtin_add_overflow(first.low, count, &run_end)) {
            continue;
        }
        uint64_t from = first.high == high ? MAX(first.low, end) : first.low;
        if (from >= run_end) {
            continue;
        }
        struct data_key key = data_key_id(DATA_ROW_LOCATION, (struct body_id){first.high, from});
        uint64_t found = 0;
        for (kv_iter_seek(rows, data_key_slice(&key));
             kv_iter_valid(rows) && data_key_parse_id(kv_iter_key(rows), &id) &&
             id.high == first.high && id.low < run_end;
             kv_iter_next(rows)) {
            found++;
        }
        missing += run_end - from - found;
        high = first.high;
        end = run_end;
    }
    return missing;
}

static int put_scan_from_end(void *arg, const struct volume_info *info) {
    struct data *data = arg;
    struct data_key key = data_key_volume(DATA_ROW_SCAN_FROM, info->volume);
    uint8_t value[VARINT_MAX];
    kv_batch_put(data->rebuild_batch, KV_LOCAL, data_key_slice(&key),
                 slice_of(value, put_varint(value, info->bytes / VOLUME_RECORD_ALIGN)));
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_get(data, info->volume);
    if (v != NULL) {
        v->has_scan_from = true;
        v->scan_from = info->bytes;
    }
    pthread_mutex_unlock(&data->mutex);
    return v != NULL ? 0 : -HL_ERR_NOMEM;
}

static int finish(struct data *data, uint64_t *ret_missing) {
    CLEANUP_KV_ITER struct kv_iter *named = table_iter(data, DATA_ROW_NAMED);
    CLEANUP_KV_ITER struct kv_iter *rows = table_iter(data, DATA_ROW_LOCATION);
    if (named == NULL || rows == NULL) {
        return -HL_ERR_NOMEM;
    }
    *ret_missing = count_missing(named, rows);
    kv_iter_seek_first(named);
    struct cover cover = {.iter = named};
    int err = drop_unnamed(data, &cover, rows);
    if (err != 0) {
        return err;
    }
    struct data_key first = data_key_table(DATA_ROW_NAMED), end = first;
    end.bytes[0]++;
    kv_batch_delete_range(data->rebuild_batch, KV_LOCAL, data_key_slice(&first),
                          data_key_slice(&end));
    err = volume_each(data->volumes, put_scan_from_end, data);
    return err != 0 ? err : write_batch(data, 0);
}

int data_rebuild_finish(struct data *data, uint64_t *ret_missing) {
    if (data->rebuild_batch == NULL) {
        return -HL_ERR_INVALID;
    }
    uint64_t missing = 0;
    int err = write_batch(data, 0);
    if (err == 0) {
        err = finish(data, &missing);
    }
    FAILPOINT("data.rebuild.dropped");
    if (err == 0) {
        err = kv_flush(data->kv);
    }
    if (err != 0) {
        return err;
    }
    kv_batch_free(data->rebuild_batch);
    data->rebuild_batch = NULL;
    *ret_missing = missing;
    return 0;
}
