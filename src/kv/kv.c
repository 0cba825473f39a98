/* kv.h over its two implementations: checks what is common and passes on. Any thread.
 *
 * Additions to counters are gathered in the batch: a turn of the log adds to the same few counters
 * again and again, and each merge that the store sees costs it an insertion and the reading of
 * those before. What is gathered goes before any other operation on its key, so the order within a
 * batch is kept for each key. */
#include "kv/kv.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/failpoint.h"
#include "kv/kv_int.h"

void kv_close(struct kv *kv) {
    if (kv != NULL) {
        kv->ops->close(kv);
    }
}

void kv_value_done(struct kv_value *value) {
    if (value->handle != NULL) {
        if (((uintptr_t)value->handle & KV_VALUE_MEM) != 0) {
            kv_mem_value_done((void *)((uintptr_t)value->handle & ~KV_VALUE_MEM));
        } else {
            kv_rocks_value_done(value->handle);
        }
    }
    *value = (struct kv_value){0};
}

static int get(struct kv *kv, enum kv_space space, struct slice key, bool nowait,
               struct kv_value *ret) {
    CHECK(space < KV_SPACE_COUNT);
    if (key.size > KV_KEY_MAX) {
        return -HL_ERR_NOT_FOUND;
    }
    return kv->ops->get(kv, space, key, nowait, ret);
}

int kv_get(struct kv *kv, enum kv_space space, struct slice key, struct kv_value *ret) {
    return get(kv, space, key, false, ret);
}

int kv_get_nowait(struct kv *kv, enum kv_space space, struct slice key, struct kv_value *ret) {
    return get(kv, space, key, true, ret);
}

int kv_get_counter(struct kv *kv, enum kv_space space, struct slice key, int64_t *ret) {
    CLEANUP_KV_VALUE struct kv_value value = {0};
    int err = get(kv, space, key, false, &value);
    if (err == -HL_ERR_NOT_FOUND) {
        *ret = 0;
        return 0;
    }
    if (err != 0) {
        return err;
    }
    if (value.data.size != 8) {
        return -HL_ERR_CORRUPT;
    }
    *ret = (int64_t)get_le64(value.data.data);
    return 0;
}

struct kv_batch *kv_batch_new(struct kv *kv) {
    return kv->ops->batch_new(kv);
}

void kv_batch_free(struct kv_batch *batch) {
    if (batch != NULL) {
        batch->ops->batch_free(batch);
    }
}

void kv_batch_clear(struct kv_batch *batch) {
    batch->count = 0;
    batch->sum_count = 0;
    batch->err = 0;
    batch->ops->batch_clear(batch);
}

uint32_t kv_batch_count(const struct kv_batch *batch) {
    return batch->count;
}

/* Counts the operation; false when its key is too long, which kv_write will report. */
static bool accept(struct kv_batch *batch, enum kv_space space, struct slice key) {
    CHECK(space < KV_SPACE_COUNT);
    batch->count++;
    if (key.size > KV_KEY_MAX) {
        batch->err = -HL_ERR_INVALID;
        return false;
    }
    return true;
}

/* ---- gathered additions ---- */

static void pass_on(struct kv_batch *batch, const struct kv_sum *sum) {
    uint8_t operand[8];
    put_le64(operand, sum->delta);
    batch->ops->batch_add(batch, sum->space, slice_of(sum->key, sum->key_size), operand);
}

static void pass_on_all(struct kv_batch *batch) {
    for (uint32_t i = 0; i < batch->sum_count; i++) {
        pass_on(batch, &batch->sums[i]);
    }
    batch->sum_count = 0;
}

static struct kv_sum *find_sum(struct kv_batch *batch, enum kv_space space, struct slice key) {
    for (uint32_t i = 0; i < batch->sum_count; i++) {
        struct kv_sum *sum = &batch->sums[i];
        if (sum->key_size == key.size && sum->space == space &&
            memcmp(sum->key, key.data, key.size) == 0) {
            return sum;
        }
    }
    return NULL;
}

/* Another operation on the key comes. */
static void pass_on_key(struct kv_batch *batch, enum kv_space space, struct slice key) {
    struct kv_sum *sum = find_sum(batch, space, key);
    if (sum != NULL) {
        pass_on(batch, sum);
        *sum = batch->sums[--batch->sum_count];
    }
}

/* ---- operations ---- */

void kv_batch_put(struct kv_batch *batch, enum kv_space space, struct slice key,
                  struct slice value) {
    if (accept(batch, space, key)) {
        pass_on_key(batch, space, key);
        batch->ops->batch_put(batch, space, key, value);
    }
}

void kv_batch_delete(struct kv_batch *batch, enum kv_space space, struct slice key) {
    if (accept(batch, space, key)) {
        pass_on_key(batch, space, key);
        batch->ops->batch_delete(batch, space, key);
    }
}

void kv_batch_delete_range(struct kv_batch *batch, enum kv_space space, struct slice first,
                           struct slice end) {
    if (accept(batch, space, first.size > end.size ? first : end) &&
        slice_compare(first, end) < 0) {
        pass_on_all(batch);
        batch->ops->batch_delete_range(batch, space, first, end);
    }
}

void kv_batch_add(struct kv_batch *batch, enum kv_space space, struct slice key, int64_t delta) {
    if (!accept(batch, space, key)) {
        return;
    }
    struct kv_sum *sum = find_sum(batch, space, key);
    if (sum != NULL) {
        sum->delta += (uint64_t)delta;
        return;
    }
    if (key.size > KV_SUM_KEY_MAX || key.size == 0) {
        uint8_t operand[8];
        put_le64(operand, (uint64_t)delta);
        batch->ops->batch_add(batch, space, key, operand);
        return;
    }
    if (batch->sum_count == KV_SUMS) {
        pass_on_all(batch);
    }
    sum = &batch->sums[batch->sum_count++];
    *sum = (struct kv_sum){.space = space, .key_size = (uint8_t)key.size, .delta = (uint64_t)delta};
    memcpy(sum->key, key.data, key.size);
}

int kv_write(struct kv *kv, struct kv_batch *batch) {
    CHECK(kv->ops == batch->ops);
    pass_on_all(batch);
    if (batch->err != 0) {
        return batch->err;
    }
    if (FAILPOINT_ERROR("kv.write.no_space")) {
        return -HL_ERR_NO_SPACE; /* as RocksDB after a flush that met a full disk */
    }
    return batch->count == 0 ? 0 : kv->ops->write(kv, batch);
}

int kv_flush(struct kv *kv) {
    return kv->ops->flush(kv);
}

int kv_checkpoint(struct kv *kv, const char *path) {
    return kv->ops->checkpoint(kv, path);
}

void kv_stats(struct kv *kv, struct kv_stats *ret) {
    *ret = (struct kv_stats){0};
    kv->ops->stats(kv, ret);
}

struct kv_iter *kv_iter_new(struct kv *kv, enum kv_space space, struct slice lower,
                            struct slice upper) {
    CHECK(space < KV_SPACE_COUNT);
    return kv->ops->iter_new(kv, space, lower, upper);
}

void kv_iter_free(struct kv_iter *iter) {
    if (iter != NULL) {
        iter->ops->iter_free(iter);
    }
}

void kv_iter_seek(struct kv_iter *iter, struct slice key) {
    iter->ops->iter_seek(iter, key);
}

void kv_iter_seek_first(struct kv_iter *iter) {
    iter->ops->iter_seek_first(iter);
}

void kv_iter_seek_last(struct kv_iter *iter) {
    iter->ops->iter_seek_last(iter);
}

void kv_iter_next(struct kv_iter *iter) {
    CHECK(kv_iter_valid(iter));
    iter->ops->iter_next(iter);
}

void kv_iter_prev(struct kv_iter *iter) {
    CHECK(kv_iter_valid(iter));
    iter->ops->iter_prev(iter);
}

bool kv_iter_valid(const struct kv_iter *iter) {
    return iter->ops->iter_valid(iter);
}

int kv_iter_error(const struct kv_iter *iter) {
    return iter->ops->iter_error(iter);
}

struct slice kv_iter_key(const struct kv_iter *iter) {
    return iter->ops->iter_key(iter);
}

struct slice kv_iter_value(const struct kv_iter *iter) {
    return iter->ops->iter_value(iter);
}
