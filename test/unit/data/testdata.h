/* A small stand-in for meta/ above data/: a log of entries that is durable at once, rows of names
 * in KV_META, turns, checkpoints and recovery in the order that data.h asks for, and a model of
 * what must be readable. Bodies follow from their ids, so any mix-up shows. */
#ifndef TEST_UNIT_DATA_TESTDATA_H
#define TEST_UNIT_DATA_TESTDATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/prng.h"
#include "data/data.h"
#include "data/location_format.h"
#include "os/sim_fs.h"

#define CLUSTER     "0123456789abcdef"
#define KEYS        30
#define CONFIGS     4
#define ENTRIES_MAX 4000
#define BLOCK_BYTES (80u << 10)
#define BODY_MAX    (24u << 10)
#define VALUE_BYTES 48

/* An object: a head, whose body is small, and possibly a run of blocks. */
struct object {
    bool present;
    uint64_t sequence;
    struct body_id head, first;
    uint64_t blocks;
    uint32_t head_bytes, block_bytes;
};

enum entry_kind { ENTRY_PUT, ENTRY_DELETE, ENTRY_CONFIG };
struct entry {
    enum entry_kind kind;
    uint32_t key;
    struct object object; /* PUT: the new one */
    struct object old;    /* what it replaces */
    uint64_t sequence;    /* CONFIG */
    uint32_t value;       /* CONFIG: 0 deletes */
};

struct store {
    struct sim_fs *sim;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct os_env env;
    struct prng prng;
    struct kv_mem_disk *disk;
    struct kv *kv;
    struct data *data;
    struct volume_dir dirs[2];
    struct data_options options;

    struct entry log[ENTRIES_MAX];
    uint64_t log_start, log_end; /* held; indexes count from 1 */
    struct entry pending[64];
    uint32_t pending_count;
    uint64_t sequence;

    void (*before_local)(struct store *s);
    struct object objects[KEYS];
    uint32_t configs[CONFIGS];
    uint64_t config_sequences[CONFIGS];
};

static inline void fill_body(struct body_id id, uint8_t *data, size_t size) {
    struct prng prng;
    prng_init(&prng, id.high * 31 + id.low);
    prng_bytes(&prng, data, size);
}

static inline bool crashed(const struct store *s) {
    return sim_fs_crashed(s->sim);
}

static inline struct slice key_of(uint32_t key, uint8_t bytes[16]) {
    return slice_of(bytes, (size_t)snprintf((char *)bytes, 16, "o-key-%04u", key));
}
static inline struct slice config_key_of(uint32_t key, uint8_t bytes[16]) {
    return slice_of(bytes, (size_t)snprintf((char *)bytes, 16, "b-config-%u", key));
}
static inline struct slice config_value_of(uint32_t value, uint8_t bytes[16]) {
    return slice_of(bytes, value == 0 ? 0 : (size_t)snprintf((char *)bytes, 16, "value-%u", value));
}

static inline struct slice value_of(const struct object *o, uint8_t bytes[VALUE_BYTES]) {
    put_le64(bytes, o->sequence);
    put_le64(bytes + 8, o->first.high);
    put_le64(bytes + 16, o->first.low);
    put_le64(bytes + 24, o->blocks);
    put_le32(bytes + 32, o->head_bytes);
    put_le32(bytes + 36, o->block_bytes);
    put_le64(bytes + 40, o->head.low);
    return slice_of(bytes, VALUE_BYTES);
}
static inline struct object object_of(struct body_id head, struct slice value) {
    assert_int_equal(value.size, VALUE_BYTES);
    const uint8_t *p = value.data;
    return (struct object){.present = true,
                           .sequence = get_le64(p),
                           .head = head,
                           .first = {get_le64(p + 8), get_le64(p + 16)},
                           .blocks = get_le64(p + 24),
                           .head_bytes = get_le32(p + 32),
                           .block_bytes = get_le32(p + 36)};
}

/* ---- applying ---- */

struct turn {
    struct kv_batch *batch;
    uint8_t keys[64][16], values[64][VALUE_BYTES];
    uint8_t *bodies[64];
    uint32_t count;
};

static inline int apply_put(struct store *s, struct turn *t, const struct entry *e, bool replay,
                            bool known) {
    uint32_t i = t->count++;
    struct slice key = key_of(e->key, t->keys[i]);
    struct slice value = value_of(&e->object, t->values[i]);
    t->bodies[i] = malloc(BODY_MAX + 1);
    fill_body(e->object.head, t->bodies[i], e->object.head_bytes);
    struct slice body = slice_of(t->bodies[i], e->object.head_bytes);
    if (known) {
        return data_replay_head(s->data, t->batch, e->object.head, key, value, body);
    }
    kv_batch_put(t->batch, KV_META, key, value);
    return data_apply_head(s->data, t->batch, e->object.head, key, value, body, replay);
}

static inline int apply_entry(struct store *s, struct turn *t, const struct entry *e, bool replay,
                              bool known) {
    int err = 0;
    if (e->kind == ENTRY_CONFIG) {
        uint32_t i = t->count++;
        struct slice key = config_key_of(e->key, t->keys[i]);
        struct slice value = config_value_of(e->value, t->values[i]);
        if (!known && value.size == 0) {
            kv_batch_delete(t->batch, KV_META, key);
        } else if (!known) {
            kv_batch_put(t->batch, KV_META, key, value);
        }
        return data_apply_config(s->data, t->batch, key, value, e->sequence);
    }
    if (e->kind == ENTRY_PUT) {
        err = apply_put(s, t, e, replay, known);
        if (err == 0 && !known && e->object.blocks > 0) {
            err = data_apply_commit(s->data, t->batch, e->object.first, e->object.blocks);
        }
    } else if (!known) {
        uint8_t key[16];
        kv_batch_delete(t->batch, KV_META, key_of(e->key, key));
    }
    if (err == 0 && !known && e->old.present) {
        err = data_apply_free(s->data, t->batch, e->old.head, 1, true);
        if (err == 0 && e->old.blocks > 0) {
            err = data_apply_free(s->data, t->batch, e->old.first, e->old.blocks, false);
        }
    }
    return err;
}

static inline int turn_write(struct store *s, struct turn *t, uint64_t applied) {
    int err = data_turn_end(s->data, t->batch);
    if (err == 0 && !crashed(s)) {
        uint8_t value[8];
        put_le64(value, applied);
        kv_batch_put(t->batch, KV_LOCAL, SLICE_LITERAL("Aapplied"), slice_of(value, 8));
        err = kv_write(s->kv, t->batch);
        if (err == 0) {
            data_turn_applied(s->data);
        }
    }
    return crashed(s) ? -HL_ERR_CRASHED : err;
}

static inline void turn_done(struct turn *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        free(t->bodies[i]);
        t->bodies[i] = NULL;
    }
    t->count = 0;
    kv_batch_free(t->batch);
}

/* Logs what is pending and applies it in one turn. */
static inline int run_turn(struct store *s) {
    struct turn *t = calloc(1, sizeof(*t));
    t->batch = kv_batch_new(s->kv);
    int err = 0;
    for (uint32_t i = 0; i < s->pending_count; i++) {
        assert_true(s->log_end + 1 < ENTRIES_MAX);
        s->log[s->log_end++] = s->pending[i];
    }
    for (uint32_t i = 0; i < s->pending_count && err == 0; i++) {
        err = apply_entry(s, t, &s->pending[i], false, false);
    }
    s->pending_count = 0;
    if (err == 0) {
        err = turn_write(s, t, s->log_end);
    }
    turn_done(t);
    free(t);
    assert_true(err == 0 || crashed(s));
    return err;
}

static inline int run_local(void *ctx, data_local_fn fn, void *arg) {
    struct store *s = ctx;
    if (crashed(s)) {
        return -HL_ERR_CRASHED;
    }
    if (s->before_local != NULL) {
        s->before_local(s); /* turns that come between a compaction's copy and its switch */
    }
    if (crashed(s)) {
        return -HL_ERR_CRASHED;
    }
    struct kv_batch *batch = kv_batch_new(s->kv);
    int err = fn(arg, batch);
    if (err == 0 && !crashed(s) && kv_batch_count(batch) > 0) {
        err = kv_write(s->kv, batch);
    }
    kv_batch_free(batch);
    return crashed(s) ? -HL_ERR_CRASHED : err;
}

static inline int begin_checkpoint(void *arg, struct kv_batch *batch) {
    return data_checkpoint_begin(arg, batch);
}

static inline int checkpoint(struct store *s) {
    uint64_t position = s->log_end;
    int err = run_local(s, begin_checkpoint, s->data);
    if (err == 0) {
        err = data_checkpoint_sync(s->data);
    }
    if (err == 0 && crashed(s)) {
        err = -HL_ERR_CRASHED;
    }
    if (err == 0) {
        err = kv_flush(s->kv);
    }
    if (err == 0) {
        s->log_start = position;
        err = data_checkpoint_done(s->data);
    }
    assert_true(err == 0 || crashed(s));
    return err;
}

/* ---- opening, recovery ---- */

static inline void store_init(struct store *s, uint64_t seed, uint64_t capacity) {
    memset(s, 0, sizeof(*s));
    struct sim_fs_options options = {.seed = seed, .capacity_bytes = capacity};
    s->sim = sim_fs_new(&options);
    os_clock_sim_init(&s->clock, 1700000000000);
    os_random_sim_init(&s->random, seed);
    prng_init(&s->prng, seed);
    s->env = (struct os_env){sim_fs_fs(s->sim), &s->clock.clock, &s->random.random};
    s->disk = kv_mem_disk_new();
    s->dirs[0] = (struct volume_dir){.path = "/a"};
    s->dirs[1] = (struct volume_dir){.path = "/b"};
    s->options = (struct data_options){.volumes = {.dirs = s->dirs,
                                                   .dir_count = 1 + (uint32_t)(seed % 2),
                                                   .cluster_id = (const uint8_t *)CLUSTER,
                                                   .volume_bytes_max = 256 << 10,
                                                   .reserve_bytes = 600 << 10},
                                       .first_start = true,
                                       .block_bytes = BLOCK_BYTES};
}

static inline int store_open(struct store *s) {
    assert_int_equal(kv_open_mem(s->disk, &s->random.random, &s->kv), 0);
    int err = data_open(&s->env, s->kv, &s->options, &s->data);
    if (err == 0) {
        s->options.first_start = false;
        data_set_local_runner(s->data, run_local, s);
    }
    return err;
}

static inline void store_close(struct store *s) {
    data_close(s->data);
    kv_close(s->kv);
    s->data = NULL;
    s->kv = NULL;
}

static inline void store_done(struct store *s) {
    store_close(s);
    kv_mem_disk_free(s->disk);
    sim_fs_free(s->sim);
}

static inline uint64_t applied_index(struct store *s) {
    struct kv_value value = {0};
    uint64_t applied = 0;
    if (kv_get(s->kv, KV_LOCAL, SLICE_LITERAL("Aapplied"), &value) == 0) {
        applied = get_le64(value.data.data);
    }
    kv_value_done(&value);
    return applied;
}

static inline int replay(struct store *s) {
    uint64_t applied = applied_index(s);
    assert_true(applied >= s->log_start && applied <= s->log_end);
    int err = 0;
    for (uint64_t i = s->log_start; i < s->log_end && err == 0; i++) {
        struct turn *t = calloc(1, sizeof(*t));
        t->batch = kv_batch_new(s->kv);
        bool known = i < applied;
        err = apply_entry(s, t, &s->log[i], true, known);
        if (err == 0) {
            err = turn_write(s, t, known ? applied : i + 1);
        }
        turn_done(t);
        free(t);
    }
    return err;
}

/* Opens and recovers; an error only when a power cut hit again. */
static inline int store_recover(struct store *s) {
    int err = store_open(s);
    if (err == 0) {
        err = data_recover_scan(s->data);
    }
    if (err == 0) {
        err = replay(s);
    }
    if (err == 0) {
        err = data_recover_done(s->data);
    }
    return err != 0 ? err : crashed(s) ? -HL_ERR_CRASHED : 0;
}

/* ---- checking ---- */

static inline void check_body(struct store *s, struct body_id id, uint32_t size) {
    struct data_body body;
    int err = data_body_open(s->data, id, &body);
    if (err != 0) {
        fail_msg("body %llx-%llu: %s", (unsigned long long)id.high, (unsigned long long)id.low,
                 error_name(err));
    }
    assert_int_equal(body.location.body_bytes, size);
    uint8_t *expected = malloc(size + 1), *bytes = malloc(size + 1);
    fill_body(id, expected, size);
    err = data_body_read(s->data, &body, 0, bytes, size, false);
    if (err != 0) {
        fail_msg("reading body %llx-%llu: %s", (unsigned long long)id.high,
                 (unsigned long long)id.low, error_name(err));
    }
    assert_memory_equal(bytes, expected, size);
    free(expected);
    free(bytes);
    data_body_done(&body);
}

static inline void check_object(struct store *s, const struct object *o) {
    check_body(s, o->head, o->head_bytes);
    for (uint64_t i = 0; i < o->blocks; i++) {
        check_body(s, body_id_nth(o->first, i), o->block_bytes);
    }
}

#endif
