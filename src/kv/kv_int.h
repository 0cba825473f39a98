/* Inside of src/kv: the table of functions by which kv.h reaches its two implementations. */
#ifndef KV_KV_INT_H
#define KV_KV_INT_H

#include "base/error.h"
#include "kv/kv.h"

struct kv_ops {
    void (*close)(struct kv *kv);
    int (*get)(struct kv *kv, enum kv_space space, struct slice key, bool nowait,
               struct kv_value *ret);
    int (*write)(struct kv *kv, struct kv_batch *batch);
    int (*flush)(struct kv *kv);
    int (*checkpoint)(struct kv *kv, const char *path);
    void (*stats)(struct kv *kv, struct kv_stats *ret);

    struct kv_batch *(*batch_new)(struct kv *kv);
    void (*batch_free)(struct kv_batch *batch);
    void (*batch_clear)(struct kv_batch *batch);
    void (*batch_put)(struct kv_batch *batch, enum kv_space space, struct slice key,
                      struct slice value);
    void (*batch_delete)(struct kv_batch *batch, enum kv_space space, struct slice key);
    void (*batch_delete_range)(struct kv_batch *batch, enum kv_space space, struct slice first,
                               struct slice end);
    void (*batch_add)(struct kv_batch *batch, enum kv_space space, struct slice key,
                      const uint8_t delta[8]);

    struct kv_iter *(*iter_new)(struct kv *kv, enum kv_space space, struct slice lower,
                                struct slice upper);
    void (*iter_free)(struct kv_iter *iter);
    void (*iter_seek)(struct kv_iter *iter, struct slice key);
    void (*iter_seek_first)(struct kv_iter *iter);
    void (*iter_seek_last)(struct kv_iter *iter);
    void (*iter_next)(struct kv_iter *iter);
    void (*iter_prev)(struct kv_iter *iter);
    bool (*iter_valid)(const struct kv_iter *iter);
    int (*iter_error)(const struct kv_iter *iter);
    struct slice (*iter_key)(const struct kv_iter *iter);
    struct slice (*iter_value)(const struct kv_iter *iter);
};

/* First member of each implementation's struct. */
struct kv {
    const struct kv_ops *ops;
};
/* An addition that a batch has not passed on yet: further ones to the same counter join it. */
#define KV_SUMS        8
#define KV_SUM_KEY_MAX 32
struct kv_sum {
    enum kv_space space;
    uint8_t key_size;
    uint8_t key[KV_SUM_KEY_MAX];
    uint64_t delta;
};
struct kv_batch {
    const struct kv_ops *ops;
    uint32_t count;
    uint32_t sum_count;
    int err; /* what kv_write reports: NOMEM, INVALID */
    struct kv_sum sums[KV_SUMS];
};
struct kv_iter {
    const struct kv_ops *ops;
};

/* kv_value.handle: a pinned slice of RocksDB, or, with this bit set, an entry of the twin. */
#define KV_VALUE_MEM ((uintptr_t)1)
void kv_rocks_value_done(void *handle);
void kv_mem_value_done(void *handle);

#endif
