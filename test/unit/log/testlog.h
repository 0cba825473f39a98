/* Shared by the log's tests: a log on a simulated disk, and records that describe themselves. A
 * record's content follows from its id and generation, so that a missing, foreign, stale or
 * repeated one shows. */
#ifndef TEST_UNIT_LOG_TESTLOG_H
#define TEST_UNIT_LOG_TESTLOG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/prng.h"
#include "log/log.h"
#include "os/sim_fs.h"

#define TEST_DIR           "/log"
#define TEST_SEGMENT_BYTES (16u << 10)
#define TEST_IDS_MAX       20000
#define TEST_HEADER_BYTES  16 /* id and generation, in front of each payload */

static const uint8_t test_cluster[16] = "cluster-of-tests";

struct testlog {
    struct sim_fs *sim;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct os_env env;
    struct log_options options;
    struct log *log;

    /* The model: records 1..acked are durable; those up to appended were given to an append that
     * did not succeed. */
    uint64_t acked;
    uint64_t appended;
    uint64_t generation;                  /* of ids given out now */
    uint64_t generation_of[TEST_IDS_MAX]; /* by id */
    struct log_position position_of[TEST_IDS_MAX];
    uint64_t needed; /* lowest id that was not released */

    /* The recovery under way. */
    uint64_t first_seen;
    uint64_t last_seen;
};

static inline void testlog_init(struct testlog *t, uint64_t seed, uint64_t capacity) {
    memset(t, 0, sizeof(*t));
    struct sim_fs_options options = {
        .seed = seed, .capacity_bytes = capacity, .survive_percent = 50, .tear_percent = 50};
    t->sim = sim_fs_new(&options);
    os_clock_sim_init(&t->clock, 0);
    os_random_sim_init(&t->random, seed);
    t->env = (struct os_env){sim_fs_fs(t->sim), &t->clock.clock, &t->random.random};
    t->options = (struct log_options){.segment_bytes = TEST_SEGMENT_BYTES,
                                      .spare_segments = 1,
                                      .segments_max = 8,
                                      .cluster_id = test_cluster};
    t->needed = 1;
    assert_int_equal(os_mkdir_all(t->env.fs, TEST_DIR), 0);
}

static inline void testlog_done(struct testlog *t) {
    log_close(t->log);
    sim_fs_free(t->sim);
}

static inline size_t testlog_payload_size(uint64_t id, uint64_t generation) {
    struct prng prng;
    prng_init(&prng, id * 1000003 + generation);
    uint64_t dice = prng_below(&prng, 20);
    uint64_t max = dice == 0 ? LOG_RECORD_MAX(TEST_SEGMENT_BYTES) - TEST_HEADER_BYTES
                             : (dice < 10 ? 1500 : 60);
    return (size_t)(TEST_HEADER_BYTES + prng_below(&prng, max + 1));
}

static inline void testlog_payload(uint64_t id, uint64_t generation, uint8_t *data, size_t size) {
    struct prng prng;
    prng_init(&prng, id * 7919 + generation);
    prng_bytes(&prng, data, size);
    put_le64(data, id);
    put_le64(data + 8, generation);
}

/* Appends the next count ids as one batch and keeps the books. */
static inline int testlog_append(struct testlog *t, int count) {
    static uint8_t arena[64 * LOG_RECORD_MAX(TEST_SEGMENT_BYTES)];
    struct log_record records[64];
    struct iovec parts[64][3];
    size_t used = 0;
    assert_in_range(count, 1, 64);
    assert_int_equal(t->acked, t->appended);
    for (int i = 0; i < count; i++) {
        uint64_t id = t->acked + 1 + (uint64_t)i;
        assert_true(id < TEST_IDS_MAX);
        size_t size = testlog_payload_size(id, t->generation);
        uint8_t *data = arena + used;
        testlog_payload(id, t->generation, data, size);
        used += size;
        size_t cut = size / 3; /* in pieces, one of them empty */
        parts[i][0] = (struct iovec){data, cut};
        parts[i][1] = (struct iovec){data, 0};
        parts[i][2] = (struct iovec){data + cut, size - cut};
        records[i] = (struct log_record){.group = (uint32_t)(id % 3),
                                         .kind = id % 5 == 0 ? LOG_HARD_STATE : LOG_ENTRY,
                                         .term = t->generation,
                                         .index = id,
                                         .parts = parts[i],
                                         .part_count = 3};
        t->generation_of[id] = t->generation;
    }
    struct log_position tail = log_tail(t->log);
    int err = log_append(t->log, records, count);
    if (err == 0) {
        for (int i = 0; i < count; i++) {
            t->position_of[t->acked + 1 + (uint64_t)i] = tail; /* not behind the record's start */
        }
        t->acked += (uint64_t)count;
        t->appended = t->acked;
    } else if (err != -HL_ERR_BUSY && err != -HL_ERR_NO_SPACE) {
        t->appended = t->acked + (uint64_t)count;
    }
    return err;
}

static inline int testlog_record(void *arg, const struct log_record *record, struct slice payload,
                                 struct log_position position) {
    static uint8_t expected[LOG_RECORD_MAX(TEST_SEGMENT_BYTES)];
    struct testlog *t = arg;
    assert_true(payload.size >= TEST_HEADER_BYTES);
    uint64_t id = get_le64(payload.data);
    assert_in_range(id, 1, t->appended);
    if (t->first_seen == 0) {
        t->first_seen = id;
    } else {
        assert_int_equal(id, t->last_seen + 1);
    }
    t->last_seen = id;
    uint64_t generation = t->generation_of[id];
    assert_int_equal(payload.size, testlog_payload_size(id, generation));
    testlog_payload(id, generation, expected, payload.size);
    assert_memory_equal(payload.data, expected, payload.size);
    assert_int_equal(record->index, id);
    assert_int_equal(record->term, generation);
    assert_int_equal(record->group, id % 3);
    assert_int_equal(record->kind, id % 5 == 0 ? LOG_HARD_STATE : LOG_ENTRY);
    t->position_of[id] = position;
    return 0;
}

/* Opens and recovers; on success checks what came back against the model. */
static inline int testlog_open(struct testlog *t) {
    log_close(t->log);
    t->log = NULL;
    struct log *log = NULL;
    int err = log_open(&t->env, TEST_DIR, &t->options, &log);
    if (err != 0) {
        return err;
    }
    t->log = log;
    t->first_seen = 0;
    t->last_seen = 0;
    err = log_recover(log, testlog_record, t);
    if (err != 0) {
        return err;
    }
    if (t->last_seen == 0) {
        assert_true(t->acked == 0 || t->needed > t->acked);
        t->last_seen = t->acked;
    } else {
        assert_true(t->first_seen <= t->needed);
    }
    assert_in_range(t->last_seen, t->acked, t->appended);
    t->acked = t->last_seen;
    t->appended = t->last_seen;
    t->generation++;
    return 0;
}

/* Releases everything before record id. */
static inline int testlog_release(struct testlog *t, uint64_t id) {
    struct log_position position = id > t->acked ? log_tail(t->log) : t->position_of[id];
    if (id > t->needed) {
        t->needed = id;
    }
    return log_release(t->log, position);
}

#endif
