/* Applying entries: heads are gathered and written with one append at the end of the turn, staged
 * bodies get their rows, freed ones lose them. Runs on the apply thread only, in log order; every
 * change goes into the batch that also carries the entry's own rows, so all of it happens or none.
 * What a turn gathered is valid until data_turn_end returns 0. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "data/data_int.h"

static int gather(struct data *data, const struct volume_append *append, uint32_t *ret_index) {
    struct data_turn *turn = &data->turn;
    if (turn->head_count == turn->head_capacity) {
        uint32_t capacity = MAX(64u, turn->head_capacity * 2);
        struct data_gathered *heads =
            reallocarray(turn->heads, capacity, sizeof(struct data_gathered));
        if (heads == NULL) {
            return -HL_ERR_NOMEM;
        }
        turn->heads = heads;
        turn->head_capacity = capacity;
    }
    *ret_index = turn->head_count;
    turn->heads[turn->head_count++] = (struct data_gathered){.append = *append};
    return 0;
}

/* A head whose record is to be written at the end of the turn. A row that exists is replaced then;
 * fresh: outside of replay an id is new, so only this turn can know it. */
static int gather_head(struct data *data, const struct volume_append *append, bool fresh) {
    uint32_t index;
    int err = gather(data, append, &index);
    if (err != 0) {
        return err;
    }
    struct data_place old;
    int64_t gathered;
    bool unknown = fresh && data_map_find(&data->turn.overlay, append->record.id) == NULL;
    err = unknown ? -HL_ERR_NOT_FOUND : data_row_lookup(data, append->record.id, &old, &gathered);
    if (err == 0) {
        return gathered < 0 ? 0 : -HL_ERR_CORRUPT; /* two heads with one id in a turn */
    }
    if (err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    return data_overlay_set(data, append->record.id, DATA_OVERLAY_GATHERED, NULL, index);
}

/* A record of the head that an earlier life of the process wrote. Takes it when it is whole. */
static int reuse_staged(struct data *data, struct kv_batch *batch,
                        const struct volume_append *append, bool *ret_reused) {
    pthread_mutex_lock(&data->mutex);
    struct data_staged *staged = data_staged_find(data, append->record.id);
    struct data_place place = staged != NULL ? staged->place : (struct data_place){0};
    pthread_mutex_unlock(&data->mutex);
    if (staged == NULL) {
        return 0;
    }
    int err = data_verify(data, append->record.id, &place, append);
    if (err != 0 && err != -HL_ERR_CORRUPT && err != -HL_ERR_IO) {
        return err;
    }
    *ret_reused = err == 0;
    if (err == 0) {
        /* What was read may be in the page cache alone, see volume_rewrite. */
        int rewrite_err = volume_rewrite(data->volumes, append, &place.location);
        if (rewrite_err != 0) {
            return rewrite_err;
        }
    }
    /* A torn copy still looks like a head to a rebuild: its tombstone must name that volume, too.
     */
    err = err == 0 ? data_row_put(data, batch, append->record.id, &place)
                   : data_alias_add(data, batch, append->record.id, place.location.volume);
    pthread_mutex_lock(&data->mutex);
    data_staged_remove(data, staged); /* only this thread removes heads from the set */
    pthread_mutex_unlock(&data->mutex);
    return err;
}

int data_apply_head(struct data *data, struct kv_batch *batch, struct body_id id,
                    struct slice row_key, struct slice row_value, struct slice body, bool replay) {
    struct volume_append append = {
        .record = {.id = id, .kind = VOLUME_HEAD, .origin_key = row_key, .origin_value = row_value},
        .body = body};
    bool reused = false;
    if (replay) {
        int err = reuse_staged(data, batch, &append, &reused);
        if (err != 0) {
            return err;
        }
    }
    return reused ? 0 : gather_head(data, &append, !replay);
}

int data_replay_head(struct data *data, struct kv_batch *batch, struct body_id id,
                     struct slice row_key, struct slice row_value, struct slice body) {
    struct data_place place;
    int64_t gathered;
    int err = data_row_lookup(data, id, &place, &gathered);
    if (err == -HL_ERR_NOT_FOUND) {
        return 0; /* freed by a later entry that the kv has, too */
    }
    if (err != 0 || gathered >= 0) {
        return err;
    }
    struct volume_append append = {
        .record = {.id = id, .kind = VOLUME_HEAD, .origin_key = row_key, .origin_value = row_value},
        .body = body};
    err = data_verify(data, id, &place, &append);
    if (err == 0) {
        return volume_rewrite(data->volumes, &append, &place.location);
    }
    if (err != -HL_ERR_CORRUPT && err != -HL_ERR_IO) {
        return err;
    }
    FAILPOINT("data.recover.rewrite");
    err = data_alias_add(data, batch, id, place.location.volume); /* the torn copy */
    return err != 0 ? err : gather_head(data, &append, false);
}

int data_apply_commit(struct data *data, struct kv_batch *batch, struct body_id first,
                      uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        struct body_id id = body_id_nth(first, i);
        pthread_mutex_lock(&data->mutex);
        struct data_staged *staged = data_staged_find(data, id);
        struct data_place place = staged != NULL ? staged->place : (struct data_place){0};
        pthread_mutex_unlock(&data->mutex);
        if (staged == NULL) {
            continue;
        }
        int err = data_row_put(data, batch, id, &place);
        if (err != 0) {
            return err;
        }
        pthread_mutex_lock(&data->mutex);
        staged = data_staged_find(data, id);
        if (staged != NULL) {
            data_staged_remove(data, staged);
        }
        pthread_mutex_unlock(&data->mutex);
    }
    return 0;
}

int data_apply_config(struct data *data, struct kv_batch *batch, struct slice row_key,
                      struct slice row_value, uint64_t sequence) {
    struct data_turn *turn = &data->turn;
    for (uint32_t i = 0; i < turn->head_count; i++) {
        struct data_gathered *other = &turn->heads[i];
        if (other->append.record.kind == VOLUME_CONFIG &&
            slice_equal(other->append.record.origin_key, row_key)) {
            other->dropped = true;
        }
    }
    struct volume_append append = {.record = {.id = {0, sequence},
                                              .kind = VOLUME_CONFIG,
                                              .origin_key = row_key,
                                              .origin_value = row_value}};
    uint32_t index;
    return gather(data, &append, &index);
}

static int put_row(struct data *data, struct kv_batch *batch, const struct volume_record *record,
                   const struct volume_location *location) {
    struct data_place place = {*location, record->kind};
    if (record->kind == VOLUME_CONFIG) {
        return data_config_put(data, batch, record->origin_key, record->id.low, &place);
    }
    return data_row_put(data, batch, record->id, &place);
}

/* Writes what was gathered. After an error nothing is forgotten: the call may be repeated. */
static int write_gathered(struct data *data, struct kv_batch *batch) {
    struct data_turn *turn = &data->turn;
    CLEANUP_FREE struct volume_append *appends = calloc(turn->head_count + 1, sizeof(*appends));
    CLEANUP_FREE struct volume_location *locations =
        calloc(turn->head_count + 1, sizeof(*locations));
    if (appends == NULL || locations == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < turn->head_count; i++) {
        if (!turn->heads[i].dropped) {
            appends[count++] = turn->heads[i].append;
        }
    }
    FAILPOINT("data.turn_end.before");
    /* The entries are durable in the log already, so they must be applied: the reserve is for that
     * too; data_admit refused earlier. */
    int err = volume_append(data->volumes, appends, count, true, locations);
    if (err != 0) {
        return err;
    }
    FAILPOINT("data.turn_end.appended");
    turn->head_count = 0;
    for (uint32_t i = 0; i < count && err == 0; i++) {
        err = put_row(data, batch, &appends[i].record, &locations[i]);
    }
    return err;
}

int data_turn_end(struct data *data, struct kv_batch *batch) {
    if (data->turn.head_count > 0) {
        int err = write_gathered(data, batch);
        if (err != 0) {
            return err;
        }
    }
    int err = data_free_reclaim(data, batch, DATA_RECLAIM_PER_TURN);
    FAILPOINT("data.turn_end.done");
    return err;
}

void data_turn_applied(struct data *data) {
    FAILPOINT("data.turn_end.applied");
    data_overlay_clear(data);
    pthread_mutex_lock(&data->mutex);
    data->epoch++;
    pthread_mutex_unlock(&data->mutex);
}
