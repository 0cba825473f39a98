/* Freeing bodies. A single body that no reader can be looking at loses its row at once. Everything
 * else becomes a row of the free queue and is reclaimed, some bodies a turn, when every reader that
 * pinned before the free was applied has gone. The queue's rows are the truth; memory mirrors the
 * first few thousand of them with their epochs. Apply thread only.
 *
 * Epochs: the counter grows after each turn's write. A run freed in epoch e may be known to pins of
 * epochs up to e; so it is reclaimed when the oldest pin is younger, and never in its own turn. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "data/data_int.h"

static struct data_free_run *run_at(struct data_free_queue *queue, uint32_t i) {
    return &queue->runs[(queue->start + i) % DATA_FREE_MIRROR_MAX];
}

static void put_run_row(struct kv_batch *batch, const struct data_free_run *run) {
    struct data_key key = data_key_free(run->seq);
    uint8_t value[5 * VARINT_MAX];
    size_t n = put_varint(value, run->first.high);
    n += put_varint(value + n, run->first.low);
    n += put_varint(value + n, run->count);
    n += put_varint(value + n, run->head ? 1 : 0);
    n += put_varint(value + n, run->bytes);
    kv_batch_put(batch, KV_LOCAL, data_key_slice(&key), slice_of(value, n));
}

static bool decode_run(struct slice key, struct slice value, struct data_free_run *ret) {
    struct reader r = reader_of(value);
    struct data_free_run run = {0};
    run.first.high = reader_varint(&r);
    run.first.low = reader_varint(&r);
    run.count = reader_varint(&r);
    run.head = reader_varint(&r) != 0;
    run.bytes = reader_varint(&r);
    if (r.failed || !data_key_parse_free(key, &run.seq)) {
        return false;
    }
    *ret = run;
    return true;
}

static void queue_bytes_add(struct data *data, int64_t bytes) {
    pthread_mutex_lock(&data->mutex);
    data->free_queue_bytes += (uint64_t)bytes;
    pthread_mutex_unlock(&data->mutex);
}

static int load_run(struct data *data, struct slice key, struct slice value, void *arg) {
    struct data_free_queue *queue = &data->free_queue;
    struct data_free_run run;
    if (!decode_run(key, value, &run)) {
        return -HL_ERR_CORRUPT;
    }
    queue->seq_next = run.seq + 1;
    data->free_queue_bytes += run.bytes;
    if (queue->count < DATA_FREE_MIRROR_MAX) {
        *run_at(queue, queue->count++) = run;
    } else {
        queue->overflow = true;
    }
    return 0;
}

/* At start no reader is left, so every run may go: epoch 0. */
int data_free_load(struct data *data) {
    data->free_queue.runs = calloc(DATA_FREE_MIRROR_MAX, sizeof(struct data_free_run));
    data->free_queue.seq_next = 1;
    if (data->free_queue.runs == NULL) {
        return -HL_ERR_NOMEM;
    }
    return data_each_row(data, DATA_ROW_FREE, load_run, NULL);
}

/* Fills the empty mirror from the rows; those of the turn under way are not visible yet and stay
 * for the next time. */
static int reload(struct data *data) {
    struct data_free_queue *queue = &data->free_queue;
    struct data_key lower = data_key_free(0);
    struct data_key upper = data_key_table(DATA_ROW_FREE);
    upper.bytes[0]++;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(data->kv, KV_LOCAL, data_key_slice(&lower), data_key_slice(&upper));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    queue->start = 0;
    uint64_t last = 0;
    for (kv_iter_seek_first(iter); kv_iter_valid(iter) && queue->count < DATA_FREE_MIRROR_MAX;
         kv_iter_next(iter)) {
        struct data_free_run run;
        if (!decode_run(kv_iter_key(iter), kv_iter_value(iter), &run)) {
            return -HL_ERR_CORRUPT;
        }
        run.epoch = queue->overflow_epoch;
        *run_at(queue, queue->count++) = run;
        last = run.seq;
    }
    queue->overflow = last + 1 < queue->seq_next;
    return kv_iter_error(iter);
}

/* The row goes, and a dead head is remembered. What was only gathered is not written at all. */
static int drop_body(struct data *data, struct kv_batch *batch, struct body_id id, bool head) {
    struct data_place place;
    int64_t gathered;
    int err = data_row_lookup(data, id, &place, &gathered);
    if (err == 0 && gathered >= 0) {
        data->turn.heads[gathered].dropped = true;
        return data_overlay_set(data, id, DATA_OVERLAY_ABSENT, NULL, 0);
    }
    if (err == 0) {
        /* A head that is being written again in this turn (replay) must not come back. */
        for (uint32_t i = 0; i < data->turn.head_count; i++) {
            if (body_id_equal(data->turn.heads[i].append.record.id, id) &&
                data->turn.heads[i].append.record.kind == VOLUME_HEAD) {
                data->turn.heads[i].dropped = true;
            }
        }
        if (place.kind == VOLUME_HEAD) {
            data_tombstone_add(data, batch, id, place.location.volume);
        }
        return data_row_delete(data, batch, id);
    }
    return err == -HL_ERR_NOT_FOUND ? 0 : err;
}

/* A staged body that is freed will never be named. */
static void drop_staged(struct data *data, struct kv_batch *batch, struct body_id id) {
    bool was_head = false;
    uint32_t volume = 0;
    pthread_mutex_lock(&data->mutex);
    struct data_staged *staged = data_staged_find(data, id);
    if (staged != NULL) {
        was_head = staged->place.kind == VOLUME_HEAD;
        volume = staged->place.location.volume;
        data_staged_remove(data, staged);
    }
    pthread_mutex_unlock(&data->mutex);
    if (was_head) {
        data_tombstone_add(data, batch, id, volume);
    }
}

static int push_run(struct data *data, struct kv_batch *batch, struct body_id first, uint64_t count,
                    bool head) {
    struct data_free_queue *queue = &data->free_queue;
    struct data_place place;
    int64_t gathered;
    int err = data_row_lookup(data, first, &place, &gathered);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    struct data_free_run run = {.seq = queue->seq_next++,
                                .first = first,
                                .count = count,
                                .head = head,
                                .epoch = data->epoch};
    if (err == 0 && gathered < 0) {
        run.bytes = place.location.record_bytes * count;
    }
    put_run_row(batch, &run);
    queue_bytes_add(data, (int64_t)run.bytes);
    if (!queue->overflow && queue->count < DATA_FREE_MIRROR_MAX) {
        *run_at(queue, queue->count++) = run;
    } else {
        queue->overflow = true;
        queue->overflow_epoch = run.epoch;
    }
    return 0;
}

static bool is_gathered(struct data *data, struct body_id id) {
    struct data_place place;
    int64_t gathered;
    return data->turn.head_count > 0 && data_row_lookup(data, id, &place, &gathered) == 0 &&
           gathered >= 0;
}

int data_apply_free(struct data *data, struct kv_batch *batch, struct body_id first, uint64_t count,
                    bool head) {
    pthread_mutex_lock(&data->mutex);
    bool any_staged = data->staged.count > 0;
    bool any_pins = data->pins != NULL;
    pthread_mutex_unlock(&data->mutex);
    for (uint64_t i = 0; any_staged && i < count; i++) {
        drop_staged(data, batch, body_id_nth(first, i));
    }
    if (count == 1 && (!any_pins || is_gathered(data, first))) {
        return drop_body(data, batch, first, head);
    }
    return push_run(data, batch, first, count, head);
}

/* Epoch of the oldest reader, or of the turn under way when there is none. */
static uint64_t oldest_epoch(struct data *data) {
    pthread_mutex_lock(&data->mutex);
    uint64_t oldest = data->epoch;
    for (const struct data_pin *pin = data->pins; pin != NULL; pin = pin->next) {
        oldest = MIN(oldest, pin->epoch);
    }
    pthread_mutex_unlock(&data->mutex);
    return oldest;
}

/* Frees up to *budget bodies of the run and shortens it. */
static int reclaim_run(struct data *data, struct kv_batch *batch, struct data_free_run *run,
                       uint32_t *budget) {
    uint64_t n = MIN((uint64_t)*budget, run->count);
    for (uint64_t i = 0; i < n; i++) {
        int err = drop_body(data, batch, body_id_nth(run->first, i), run->head);
        if (err != 0) {
            return err;
        }
    }
    uint64_t bytes = n == run->count ? run->bytes : run->bytes / run->count * n;
    *budget -= (uint32_t)n;
    run->first.low += n;
    run->count -= n;
    run->bytes -= bytes;
    queue_bytes_add(data, -(int64_t)bytes);
    if (run->count > 0) {
        put_run_row(batch, run);
    } else {
        struct data_key key = data_key_free(run->seq);
        kv_batch_delete(batch, KV_LOCAL, data_key_slice(&key));
    }
    return 0;
}

int data_free_reclaim(struct data *data, struct kv_batch *batch, uint32_t bodies_max) {
    struct data_free_queue *queue = &data->free_queue;
    if (queue->count == 0 && !queue->overflow) {
        return 0;
    }
    if (queue->count == 0) {
        int err = reload(data);
        if (err != 0) {
            return err;
        }
    }
    uint64_t oldest = oldest_epoch(data);
    uint32_t budget = bodies_max;
    while (queue->count > 0 && budget > 0 && run_at(queue, 0)->epoch < oldest) {
        struct data_free_run *run = run_at(queue, 0);
        int err = reclaim_run(data, batch, run, &budget);
        if (err != 0) {
            return err;
        }
        if (run->count == 0) {
            queue->start = (queue->start + 1) % DATA_FREE_MIRROR_MAX;
            queue->count--;
        }
    }
    FAILPOINT("data.free.reclaimed");
    return 0;
}
