/* The transaction engine: what makes an entry durable, agreed and applied. The built-in one
 * (engine_local.c) is log + kv with one voter; a consensus group and an external database implement
 * the same interface. meta.c, above it, owns latches and transactions and does not know which one
 * it has. */
#ifndef META_ENGINE_H
#define META_ENGINE_H

#include "meta/meta.h"

/* An entry on its way. Embedded in the transaction; the engine owns it from propose to done. */
struct meta_proposal {
    struct meta_proposal *next;
    uint32_t group;
    struct slice entry;  /* lives until done */
    uint64_t sequence;   /* the entry's, for the engine's high-water mark */
    uint64_t head_bytes; /* about what its head records take of the volumes */
    bool refusable;      /* it brings new bodies: a full disk refuses it, but not a delete */
    void (*done)(struct meta_proposal *proposal, int err); /* on the commit thread, in order */
};

struct meta_engine;
struct meta_engine_ops {
    /* Never fails: trouble is reported through done. Any thread. */
    void (*propose)(struct meta_engine *engine, struct meta_proposal *proposal);
    int (*recover)(struct meta_engine *engine);
    int (*start)(struct meta_engine *engine);
    void (*stop)(struct meta_engine *engine); /* joins threads; what is queued ends with CANCELED */
    int (*turn)(struct meta_engine *engine, bool *ret_busy);
    int (*run_local)(struct meta_engine *engine, int (*fn)(void *arg, struct kv_batch *batch),
                     void *arg);
    int (*checkpoint)(struct meta_engine *engine);
    bool (*failed)(const struct meta_engine *engine);
    bool (*stalled)(const struct meta_engine *engine);
    uint64_t (*sequence)(struct meta_engine *engine); /* the next one; any thread */
    void (*watch)(struct meta_engine *engine, const char *tables,
                  void (*fn)(void *arg, struct slice key, struct slice value), void *arg);
    void (*stats)(struct meta_engine *engine, struct meta_stats *ret);
    void (*free)(struct meta_engine *engine);
};
struct meta_engine {
    const struct meta_engine_ops *ops;
};

int engine_local_new(struct os_env *env, struct kv *kv, const struct meta_sink *sink,
                     const struct meta_options *options, struct meta_engine **ret);

#endif
