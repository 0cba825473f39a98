/* Blocks of large bodies: written through to a volume by any thread, staged when whole, durable
 * after data_sync, named by the apply thread. From before its record is finished until its row is
 * written a block is in the list of open blocks or in the staged set, so that a checkpoint always
 * sees it and recovery scans from in front of it. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "data/data_int.h"
#include "volume/volume_format.h"

struct data_staged *data_staged_find(struct data *data, struct body_id id) {
    struct data_map_node *node = data_map_find(&data->staged, id);
    return node == NULL ? NULL : CONTAINER_OF(node, struct data_staged, node);
}

void data_staged_count(struct data *data, uint32_t volume, int64_t bytes) {
    struct data_volume *v = data_volume_get(data, volume);
    if (v != NULL) {
        v->staged_bytes += bytes;
        data->staged_bytes += bytes;
    }
}

int data_staged_add(struct data *data, struct data_staged *staged) {
    const struct volume_location *l = &staged->place.location;
    if (data_volume_get(data, l->volume) == NULL) {
        return -HL_ERR_NOMEM;
    }
    data_map_insert(&data->staged, &staged->node);
    data_staged_count(data, l->volume, l->record_bytes);
    return 0;
}

void data_staged_remove(struct data *data, struct data_staged *staged) {
    const struct volume_location *l = &staged->place.location;
    data_staged_count(data, l->volume, -(int64_t)l->record_bytes);
    data_map_remove(&data->staged, &staged->node);
    free(staged);
}

int data_block_open(struct data *data, struct body_id id, uint32_t bytes_max,
                    struct data_block **ret) {
    struct data_block *block = calloc(1, sizeof(*block));
    struct data_staged *staged = calloc(1, sizeof(*staged));
    int err = block == NULL || staged == NULL ? -HL_ERR_NOMEM : 0;
    if (err == 0) {
        err =
            volume_slot_open(data->volumes, bytes_max, DATA_ORIGIN_BYTES_MAX, false, &block->slot);
    }
    if (err != 0) {
        free(block);
        free(staged);
        return err;
    }
    volume_slot_place(block->slot, &block->volume, &block->off);
    staged->node.id = id;
    block->data = data;
    block->staged = staged;
    block->reserved = bytes_max;
    pthread_mutex_lock(&data->mutex);
    if (data_volume_get(data, block->volume) == NULL) {
        err = -HL_ERR_NOMEM;
    } else {
        data_staged_count(data, block->volume, (int64_t)block->reserved);
        block->next = data->blocks;
        if (block->next != NULL) {
            block->next->prev = block;
        }
        data->blocks = block;
    }
    pthread_mutex_unlock(&data->mutex);
    if (err != 0) {
        volume_slot_abort(block->slot);
        free(block);
        free(staged);
        return err;
    }
    FAILPOINT("data.block.opened");
    *ret = block;
    return 0;
}

int data_block_write(struct data_block *block, const void *bytes, size_t size) {
    return volume_slot_write(block->slot, bytes, size);
}

/* With the mutex held. */
static void block_unlink(struct data_block *block) {
    struct data *data = block->data;
    if (block->prev != NULL) {
        block->prev->next = block->next;
    } else {
        data->blocks = block->next;
    }
    if (block->next != NULL) {
        block->next->prev = block->prev;
    }
    data_staged_count(data, block->volume, -(int64_t)block->reserved);
}

int data_block_finish(struct data_block *block, struct slice origin_key, uint64_t position) {
    struct data *data = block->data;
    uint8_t value[VARINT_MAX];
    struct volume_record record = {.id = block->staged->node.id,
                                   .kind = VOLUME_BLOCK,
                                   .origin_key = origin_key,
                                   .origin_value = slice_of(value, put_varint(value, position))};
    struct volume_location location;
    int err = volume_slot_finish(TAKE_PTR(block->slot), &record, &location);
    FAILPOINT("data.block.finished");
    pthread_mutex_lock(&data->mutex);
    block_unlink(block);
    if (err == 0) {
        block->staged->place = (struct data_place){location, VOLUME_BLOCK};
        err = data_staged_add(data, block->staged);
    }
    pthread_mutex_unlock(&data->mutex);
    if (err != 0) {
        free(block->staged);
    }
    free(block);
    return err;
}

void data_block_abort(struct data_block *block) {
    if (block == NULL) {
        return;
    }
    struct data *data = block->data;
    volume_slot_abort(block->slot);
    pthread_mutex_lock(&data->mutex);
    block_unlink(block);
    pthread_mutex_unlock(&data->mutex);
    free(block->staged);
    free(block);
}

#define SYNC_VOLUMES 32

/* The distinct volumes of staged bodies from *done on, as many as fit; moves *done. */
static int gather_volumes(struct data *data, struct body_id first, uint64_t count, uint64_t *done,
                          uint32_t *volumes, uint32_t *ret_count) {
    uint32_t n = 0;
    int err = 0;
    pthread_mutex_lock(&data->mutex);
    for (; *done < count; (*done)++) {
        struct data_staged *staged = data_staged_find(data, body_id_nth(first, *done));
        if (staged == NULL) {
            err = -HL_ERR_NOT_FOUND;
            break;
        }
        uint32_t i = 0;
        while (i < n && volumes[i] != staged->place.location.volume) {
            i++;
        }
        if (i == SYNC_VOLUMES) {
            break;
        }
        if (i == n) {
            volumes[n++] = staged->place.location.volume;
        }
    }
    pthread_mutex_unlock(&data->mutex);
    *ret_count = n;
    return err;
}

int data_sync(struct data *data, struct body_id first, uint64_t count) {
    for (uint64_t done = 0; done < count;) {
        uint32_t volumes[SYNC_VOLUMES];
        uint32_t n;
        int err = gather_volumes(data, first, count, &done, volumes, &n);
        for (uint32_t i = 0; err == 0 && i < n; i++) {
            err = volume_sync(data->volumes, volumes[i]);
        }
        if (err != 0) {
            return err;
        }
        FAILPOINT("data.block.synced");
    }
    return 0;
}

void data_discard(struct data *data, struct body_id first, uint64_t count) {
    pthread_mutex_lock(&data->mutex);
    for (uint64_t i = 0; i < count; i++) {
        struct data_staged *staged = data_staged_find(data, body_id_nth(first, i));
        if (staged != NULL) {
            data_staged_remove(data, staged);
        }
    }
    pthread_mutex_unlock(&data->mutex);
}
