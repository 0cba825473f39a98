/* Location rows and what hangs on them: live counters, configuration rows, tombstones, aliases. All
 * changes go through here, on the apply thread, into the turn's batch; the overlay remembers them
 * until the batch is written, so that a second change of an id in one turn sees the first.
 * Invariant: a volume's 'V' counter is the sum of record bytes of the 'L' and 'C' rows that name
 * it. */
#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"
#include "data/data_int.h"

int data_row_get(struct data *data, struct body_id id, struct data_place *ret) {
    struct data_key key = data_key_id(DATA_ROW_LOCATION, id);
    struct kv_value value CLEANUP_KV_VALUE = {0};
    int err = kv_get(data->kv, KV_LOCAL, data_key_slice(&key), &value);
    if (err != 0) {
        return err;
    }
    struct reader r = reader_of(value.data);
    return data_place_decode(&r, ret) && reader_left(&r) == 0 ? 0 : -HL_ERR_CORRUPT;
}

static struct data_overlay *overlay_find(struct data *data, struct body_id id) {
    struct data_map_node *node = data_map_find(&data->turn.overlay, id);
    return node == NULL ? NULL : CONTAINER_OF(node, struct data_overlay, node);
}

int data_row_lookup(struct data *data, struct body_id id, struct data_place *ret,
                    int64_t *ret_gathered) {
    struct data_overlay *overlay = overlay_find(data, id);
    if (overlay == NULL) {
        *ret_gathered = -1;
        return data_row_get(data, id, ret);
    }
    if (overlay->state == DATA_OVERLAY_ABSENT) {
        return -HL_ERR_NOT_FOUND;
    }
    *ret_gathered = -1;
    if (overlay->state == DATA_OVERLAY_GATHERED) {
        *ret_gathered = overlay->index;
    } else {
        *ret = overlay->place;
    }
    return 0;
}

int data_overlay_set(struct data *data, struct body_id id, enum data_overlay_state state,
                     const struct data_place *place, uint32_t index) {
    struct data_overlay *overlay = overlay_find(data, id);
    if (overlay == NULL) {
        overlay = calloc(1, sizeof(*overlay));
        if (overlay == NULL) {
            return -HL_ERR_NOMEM;
        }
        overlay->node.id = id;
        data_map_insert(&data->turn.overlay, &overlay->node);
    }
    overlay->state = state;
    overlay->index = index;
    if (place != NULL) {
        overlay->place = *place;
    }
    return 0;
}

static void free_overlay(void *arg, struct data_map_node *node) {
    free(CONTAINER_OF(node, struct data_overlay, node));
}

void data_overlay_clear(struct data *data) {
    if (data->turn.overlay.count > 0) {
        data_map_each(&data->turn.overlay, true, free_overlay, NULL);
    }
}

int data_live_add(struct data *data, struct kv_batch *batch, uint32_t volume, int64_t bytes) {
    struct data_key key = data_key_volume(DATA_ROW_LIVE, volume);
    kv_batch_add(batch, KV_LOCAL, data_key_slice(&key), bytes);
    pthread_mutex_lock(&data->mutex);
    struct data_volume *v = data_volume_get(data, volume);
    if (v != NULL) {
        v->live_bytes += bytes;
        data->live_bytes += bytes;
    }
    pthread_mutex_unlock(&data->mutex);
    return v != NULL ? 0 : -HL_ERR_NOMEM;
}

/* The old place of a row is no longer named. */
static int leave_place(struct data *data, struct kv_batch *batch, const struct data_place *old) {
    data_damage_remove(data, batch, old->location.volume, old->location.off);
    return data_live_add(data, batch, old->location.volume, -(int64_t)old->location.record_bytes);
}

int data_row_put(struct data *data, struct kv_batch *batch, struct body_id id,
                 const struct data_place *place) {
    struct data_place old;
    int64_t gathered;
    int err = data_row_lookup(data, id, &old, &gathered);
    if (err == 0 && gathered < 0) {
        err = leave_place(data, batch, &old);
    } else if (err == -HL_ERR_NOT_FOUND) {
        err = 0;
    }
    if (err != 0) {
        return err;
    }
    struct data_key key = data_key_id(DATA_ROW_LOCATION, id);
    uint8_t value[DATA_PLACE_BYTES_MAX];
    size_t size = data_place_encode(place, value);
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), slice_of(value, size));
    err = data_live_add(data, batch, place->location.volume, place->location.record_bytes);
    return err != 0 ? err : data_overlay_set(data, id, DATA_OVERLAY_PRESENT, place, 0);
}

int data_row_delete(struct data *data, struct kv_batch *batch, struct body_id id) {
    struct data_place old;
    int64_t gathered;
    int err = data_row_lookup(data, id, &old, &gathered);
    if (err != 0) {
        return err;
    }
    CHECK(gathered < 0);
    struct data_key key = data_key_id(DATA_ROW_LOCATION, id);
    kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
    err = leave_place(data, batch, &old);
    return err != 0 ? err : data_overlay_set(data, id, DATA_OVERLAY_ABSENT, NULL, 0);
}

static void config_key(struct buf *out, struct slice row_key) {
    buf_append_u8(out, DATA_ROW_CONFIG);
    buf_append_slice(out, row_key);
}

int data_config_get(struct data *data, struct slice row_key, uint64_t *ret_sequence,
                    struct data_place *ret) {
    struct buf key CLEANUP_BUF = {0};
    config_key(&key, row_key);
    struct kv_value value CLEANUP_KV_VALUE = {0};
    int err = key.failed ? -HL_ERR_NOMEM : kv_get(data->kv, KV_LOCAL, buf_slice(&key), &value);
    if (err != 0) {
        return err;
    }
    struct reader r = reader_of(value.data);
    uint64_t sequence = reader_varint(&r);
    if (!data_place_decode(&r, ret) || reader_left(&r) != 0) {
        return -HL_ERR_CORRUPT;
    }
    *ret_sequence = sequence;
    return 0;
}

int data_config_put(struct data *data, struct kv_batch *batch, struct slice row_key,
                    uint64_t sequence, const struct data_place *place) {
    uint64_t old_sequence;
    struct data_place old;
    int err = data_config_get(data, row_key, &old_sequence, &old);
    if (err == 0 && old_sequence > sequence) {
        return 0; /* replay of an older one */
    }
    if (err == 0) {
        err = leave_place(data, batch, &old);
    } else if (err == -HL_ERR_NOT_FOUND) {
        err = 0;
    }
    if (err != 0) {
        return err;
    }
    struct buf key CLEANUP_BUF = {0};
    config_key(&key, row_key);
    uint8_t value[VARINT_MAX + DATA_PLACE_BYTES_MAX];
    size_t size = put_varint(value, sequence);
    size += data_place_encode(place, value + size);
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_batch_put(batch, KV_LOCAL, buf_slice(&key), slice_of(value, size));
    return data_live_add(data, batch, place->location.volume, place->location.record_bytes);
}

/* Each copy of the head gets an entry of its own, as the volumes go at different times. */
static void tombstone_put(struct kv_batch *batch, struct body_id id, uint32_t volume) {
    struct data_key key = data_key_alias(id, volume);
    key.bytes[0] = DATA_ROW_TOMBSTONE;
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), SLICE_EMPTY);
}

void data_tombstone_add(struct data *data, struct kv_batch *batch, struct body_id id,
                        uint32_t volume) {
    tombstone_put(batch, id, volume);
    pthread_mutex_lock(&data->mutex);
    struct data_map_node *node;
    while (data->aliases.count > 0 && (node = data_map_find(&data->aliases, id)) != NULL) {
        struct data_alias *alias = CONTAINER_OF(node, struct data_alias, node);
        tombstone_put(batch, id, alias->volume);
        struct data_key key = data_key_alias(id, alias->volume);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
        data_map_remove(&data->aliases, node);
        free(alias);
    }
    pthread_mutex_unlock(&data->mutex);
}

int data_alias_add(struct data *data, struct kv_batch *batch, struct body_id id, uint32_t volume) {
    struct data_alias *alias = calloc(1, sizeof(*alias));
    if (alias == NULL) {
        return -HL_ERR_NOMEM;
    }
    alias->node.id = id;
    alias->volume = volume;
    bool known = false;
    pthread_mutex_lock(&data->mutex);
    for (struct data_map_node *node = data_map_find(&data->aliases, id); node != NULL && !known;
         node = data_map_find_next(node)) {
        known = CONTAINER_OF(node, struct data_alias, node)->volume == volume;
    }
    if (!known) {
        data_map_insert(&data->aliases, &alias->node);
    }
    pthread_mutex_unlock(&data->mutex);
    if (known) {
        free(alias);
    } else if (batch != NULL) {
        struct data_key key = data_key_alias(id, volume);
        kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), SLICE_EMPTY);
    }
    return 0;
}
