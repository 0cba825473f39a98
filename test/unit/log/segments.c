/* The log, feature by feature: bytes on disk against a golden file written by another program, one
 * flipped bit at every byte, released and recycled segments, full disk, limits, refusals, and
 * appends while another thread releases, prepares and trims. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "testlog.h"

#ifndef GOLDEN_DIR
#define GOLDEN_DIR "golden"
#endif
#define SEGMENT_1 TEST_DIR "/0000000000000001.log"
#define SEGMENT_2 TEST_DIR "/0000000000000002.log"

struct simple {
    uint32_t group;
    uint32_t kind;
    uint64_t term;
    uint64_t index;
    struct slice payload;
};

static uint8_t all_bytes[256];

static void append_simple(struct log *log, const struct simple *simple, int count) {
    struct log_record records[8];
    struct iovec parts[8];
    for (int i = 0; i < count; i++) {
        parts[i] =
            (struct iovec){(void *)(uintptr_t)simple[i].payload.data, simple[i].payload.size};
        records[i] = (struct log_record){simple[i].group, simple[i].kind, simple[i].term,
                                         simple[i].index, &parts[i],      1};
    }
    assert_int_equal(log_append(log, records, count), 0);
}

/* The batches of golden/make.py. */
static void append_golden(struct log *log) {
    for (size_t i = 0; i < sizeof(all_bytes); i++) {
        all_bytes[i] = (uint8_t)i;
    }
    const struct simple first[] = {{0, LOG_ENTRY, 1, 1, SLICE_LITERAL("first entry")}};
    const struct simple second[] = {
        {7, LOG_ENTRY, 1, 1, SLICE_LITERAL("")},
        {7, LOG_HARD_STATE, 2, 0, SLICE_LITERAL("vote")},
        {0, LOG_ENTRY, 2, 2, slice_of(all_bytes, sizeof(all_bytes))},
    };
    const struct simple third[] = {
        {UINT32_MAX, LOG_ENTRY, UINT64_MAX, 1ull << 63, SLICE_LITERAL("12345678")}};
    append_simple(log, first, 1);
    append_simple(log, second, 3);
    append_simple(log, third, 1);
}

#define GOLDEN_RECORDS       5
#define GOLDEN_LAST_BATCH_AT 4 /* records before it */

static uint8_t *load(struct os_fs *fs, const char *path, size_t *ret_size) {
    uint8_t *data = NULL;
    assert_int_equal(os_file_load(fs, path, 1 << 20, &data, ret_size), 0);
    return data;
}

static void store(struct os_fs *fs, const char *path, const uint8_t *data, size_t size) {
    assert_int_equal(os_file_replace(fs, path, data, size), 0);
}

static void test_golden(void **state) {
    struct testlog t;
    testlog_init(&t, 1, 0);
    assert_int_equal(testlog_open(&t), 0);
    append_golden(t.log);
    size_t size = 0;
    size_t golden_size = 0;
    CLEANUP_FREE uint8_t *data = load(t.env.fs, SEGMENT_1, &size);
    CLEANUP_FREE uint8_t *golden = load(os_fs_real(), GOLDEN_DIR "/segment.bin", &golden_size);
    assert_int_equal(size, TEST_SEGMENT_BYTES);
    assert_memory_equal(data, golden, golden_size);
    for (size_t i = golden_size; i < size; i++) {
        assert_int_equal(data[i], 0);
    }
    assert_int_equal(log_tail(t.log).off, golden_size);
    testlog_done(&t);
}

struct counted {
    int count;
    uint64_t index_sum;
};

static int count_record(void *arg, const struct log_record *record, struct slice payload,
                        struct log_position position) {
    struct counted *counted = arg;
    counted->count++;
    counted->index_sum += record->index;
    return 0;
}

/* Recovers a directory with the one given segment; *ret_count records came back. */
static int recover_bytes(const uint8_t *data, size_t size, int *ret_count) {
    struct testlog t;
    testlog_init(&t, 1, 0);
    store(t.env.fs, SEGMENT_1, data, size);
    struct counted counted = {0};
    int err = log_open(&t.env, TEST_DIR, &t.options, &t.log);
    if (err == 0) {
        err = log_recover(t.log, count_record, &counted);
    }
    if (err == 0) {
        /* It works on, and what came back is still there the next time. */
        const struct simple more[] = {{1, LOG_ENTRY, 1, 1, SLICE_LITERAL("more")}};
        append_simple(t.log, more, 1);
        log_close(t.log);
        struct counted again = {0};
        assert_int_equal(log_open(&t.env, TEST_DIR, &t.options, &t.log), 0);
        assert_int_equal(log_recover(t.log, count_record, &again), 0);
        assert_int_equal(again.count, counted.count + 1);
    } else if (t.log != NULL) {
        struct log_record record = {.kind = LOG_ENTRY};
        assert_int_equal(log_append(t.log, &record, 1), err);
        size_t after_size = 0;
        CLEANUP_FREE uint8_t *after = load(t.env.fs, SEGMENT_1, &after_size);
        assert_int_equal(after_size, size);
        assert_memory_equal(after, data, size); /* nothing was changed */
    }
    testlog_done(&t);
    *ret_count = counted.count;
    return err;
}

/* B-04: a flipped bit in what was acknowledged is refused. Only the last batch cannot be told from
 * one that was never acknowledged. */
static void test_damage(void **state) {
    size_t size = 0;
    CLEANUP_FREE uint8_t *golden = load(os_fs_real(), GOLDEN_DIR "/segment.bin", &size);
    CLEANUP_FREE uint8_t *data = calloc(1, TEST_SEGMENT_BYTES);
    memcpy(data, golden, size);
    size_t last_batch = size - 64; /* header and 8 bytes */
    int count = 0;
    assert_int_equal(recover_bytes(data, TEST_SEGMENT_BYTES, &count), 0);
    assert_int_equal(count, GOLDEN_RECORDS);
    for (size_t off = 0; off < size; off++) {
        if (off == 80) {
            off = 4096; /* nothing lies between header and records */
        }
        data[off] ^= (uint8_t)(1 << off % 8);
        int err = recover_bytes(data, TEST_SEGMENT_BYTES, &count);
        if (off >= last_batch) {
            assert_int_equal(err, 0);
            assert_int_equal(count, GOLDEN_LAST_BATCH_AT);
        } else if (off < 64 || off >= 4096) {
            assert_int_equal(err, -HL_ERR_CORRUPT);
        } else {
            assert_int_equal(err, 0);
            assert_int_equal(count, GOLDEN_RECORDS);
        }
        data[off] = golden[off];
    }
    /* A file that was cut short is damaged even if what is left reads well. */
    assert_int_equal(recover_bytes(data, TEST_SEGMENT_BYTES - 4096, &count), -HL_ERR_CORRUPT);
}

/* B-03: the last batch torn at every byte and at every subset of its sectors' pieces. */
static void test_torn(void **state) {
    size_t size = 0;
    CLEANUP_FREE uint8_t *golden = load(os_fs_real(), GOLDEN_DIR "/segment.bin", &size);
    CLEANUP_FREE uint8_t *data = calloc(1, TEST_SEGMENT_BYTES);
    int count = 0;
    for (size_t cut = size - 64; cut < size; cut++) {
        memset(data, 0, TEST_SEGMENT_BYTES);
        memcpy(data, golden, cut);
        assert_int_equal(recover_bytes(data, TEST_SEGMENT_BYTES, &count), 0);
        assert_int_equal(count, GOLDEN_LAST_BATCH_AT);
    }
}

static void test_refusals(void **state) {
    struct testlog t;
    testlog_init(&t, 1, 0);
    assert_int_equal(testlog_open(&t), 0);
    append_golden(t.log);
    log_close(t.log);
    t.log = NULL;

    /* Another cluster. */
    struct log *log = NULL;
    t.options.cluster_id = (const uint8_t *)"cluster-of-other";
    assert_int_equal(log_open(&t.env, TEST_DIR, &t.options, &log), -HL_ERR_WRONG_CLUSTER);
    assert_null(log);
    t.options.cluster_id = test_cluster;

    /* A segment under a number that is not its own. */
    size_t size = 0;
    CLEANUP_FREE uint8_t *data = load(t.env.fs, SEGMENT_1, &size);
    assert_int_equal(os_unlink(t.env.fs, SEGMENT_1), 0);
    store(t.env.fs, SEGMENT_2, data, size);
    struct counted counted = {0};
    assert_int_equal(log_open(&t.env, TEST_DIR, &t.options, &t.log), 0);
    assert_int_equal(log_recover(t.log, count_record, &counted), -HL_ERR_CORRUPT);
    assert_int_equal(counted.count, 0);
    testlog_done(&t);
}

static void fill_segments(struct testlog *t, uint64_t segments) {
    uint64_t until = log_tail(t->log).segment + segments;
    while (log_tail(t->log).segment < until) {
        assert_int_equal(testlog_append(t, 3), 0);
    }
}

/* A whole segment lost in the middle, or damage in an older one. */
static void test_missing_segment(void **state) {
    struct testlog t;
    testlog_init(&t, 3, 0);
    assert_int_equal(testlog_open(&t), 0);
    fill_segments(&t, 3);
    log_close(t.log);
    t.log = NULL;
    size_t size = 0;
    CLEANUP_FREE uint8_t *data = load(t.env.fs, SEGMENT_2, &size);
    assert_int_equal(os_unlink(t.env.fs, SEGMENT_2), 0);
    assert_int_equal(testlog_open(&t), -HL_ERR_CORRUPT);

    for (size_t off = 5000; off < size; off += 1777) {
        data[off] ^= 0x10;
        store(t.env.fs, SEGMENT_2, data, size);
        data[off] ^= 0x10;
        int err = testlog_open(&t);
        assert_true(err == -HL_ERR_CORRUPT || off > size - 3000); /* behind the END: unused */
        if (err == 0) {
            break;
        }
    }
    store(t.env.fs, SEGMENT_2, data, size);
    assert_int_equal(testlog_open(&t), 0);
    testlog_done(&t);
}

static void test_recycling(void **state) {
    struct testlog t;
    testlog_init(&t, 4, 0);
    assert_int_equal(testlog_open(&t), 0);
    struct log_stats stats;
    for (int round = 0; round < 50; round++) {
        fill_segments(&t, 3);
        assert_int_equal(testlog_release(&t, t.acked + 1), 0);
        log_stats(t.log, &stats);
        assert_int_equal(stats.held_bytes, 0);
        assert_in_range(stats.segment_count, 2, 5); /* the active one, at most 4 spares */
        if (round % 10 == 9) {
            assert_int_equal(log_trim(t.log), 0);
            log_stats(t.log, &stats);
            assert_int_equal(stats.segment_count, 2);
            assert_int_equal(stats.disk_bytes, 2 * TEST_SEGMENT_BYTES);
        }
        if (round % 7 == 6) {
            sim_fs_crash(t.sim);
            assert_int_equal(testlog_open(&t), 0);
        }
    }
    assert_true(log_tail(t.log).segment >= 150);
    testlog_done(&t);
}

static void test_limits(void **state) {
    struct testlog t;
    testlog_init(&t, 5, 0);
    assert_int_equal(testlog_open(&t), 0);
    static uint8_t large[LOG_RECORD_MAX(TEST_SEGMENT_BYTES) + 1];
    struct iovec part = {large, sizeof(large)};
    struct log_record record = {.kind = LOG_ENTRY, .parts = &part, .part_count = 1};
    assert_int_equal(log_append(t.log, &record, 1), -HL_ERR_LIMIT);
    /* Unreleased segments up to segments_max, then BUSY, with nothing appended. */
    int err = 0;
    while (err == 0) {
        err = testlog_append(&t, 5);
    }
    assert_int_equal(err, -HL_ERR_BUSY);
    struct log_stats stats;
    log_stats(t.log, &stats);
    assert_in_range(stats.segment_count, 8, 9);
    assert_int_equal(testlog_append(&t, 40), -HL_ERR_BUSY);
    assert_int_equal(testlog_release(&t, t.acked + 1), 0);
    assert_int_equal(testlog_append(&t, 40), 0);
    assert_int_equal(testlog_open(&t), 0);
    testlog_done(&t);
}

/* B-13: no room for another segment. Nothing is lost, and when room is made writing goes on. */
static void test_no_space(void **state) {
    struct testlog t;
    testlog_init(&t, 6, 4 * TEST_SEGMENT_BYTES + TEST_SEGMENT_BYTES / 2);
    assert_int_equal(testlog_open(&t), 0);
    for (int round = 0; round < 5; round++) {
        int err = 0;
        while (err == 0) {
            err = testlog_append(&t, 4);
        }
        assert_int_equal(err, -HL_ERR_NO_SPACE);
        assert_int_equal(log_prepare(t.log), -HL_ERR_NO_SPACE);
        assert_int_equal(testlog_append(&t, 30), -HL_ERR_NO_SPACE);
        if (round % 2 == 0) {
            sim_fs_crash(t.sim);
            assert_int_equal(testlog_open(&t), 0);
        }
        assert_int_equal(testlog_release(&t, t.acked + 1), 0);
        assert_int_equal(testlog_append(&t, 4), 0);
    }
    testlog_done(&t);
}

static void test_failed_sync_stops(void **state) {
    struct testlog t;
    testlog_init(&t, 7, 0);
    assert_int_equal(testlog_open(&t), 0);
    assert_int_equal(testlog_append(&t, 4), 0);
    sim_fs_fail_sync(t.sim, 1);
    assert_int_equal(testlog_append(&t, 1), -HL_ERR_IO);
    struct log_record record = {.kind = LOG_ENTRY};
    assert_int_equal(log_append(t.log, &record, 1), -HL_ERR_CRASHED);
    assert_int_equal(log_release(t.log, log_tail(t.log)), -HL_ERR_CRASHED);
    assert_int_equal(log_prepare(t.log), -HL_ERR_CRASHED);
    assert_int_equal(log_trim(t.log), -HL_ERR_CRASHED);
    testlog_done(&t);
}

/* One append, one write, one sync: counted by the disk. */
static void test_group_commit(void **state) {
    struct testlog t;
    testlog_init(&t, 8, 0);
    assert_int_equal(testlog_open(&t), 0);
    const struct simple batch[] = {{1, LOG_ENTRY, 1, 1, SLICE_LITERAL("a")},
                                   {2, LOG_ENTRY, 1, 1, SLICE_LITERAL("b")},
                                   {3, LOG_ENTRY, 1, 1, SLICE_LITERAL("c")}};
    uint64_t operations = sim_fs_operations(t.sim);
    append_simple(t.log, batch, 3);
    assert_int_equal(sim_fs_operations(t.sim) - operations, 2);
    testlog_done(&t);
}

struct maintenance {
    struct testlog *t;
    struct os_env env;
    _Atomic uint64_t acked_segment;
    _Atomic bool stop;
};

static void *maintain(void *arg) {
    struct maintenance *m = arg;
    struct log_stats stats;
    while (!m->stop) {
        uint64_t segment = m->acked_segment;
        assert_int_equal(log_release(m->t->log, (struct log_position){segment, 0}), 0);
        assert_int_equal(log_prepare(m->t->log), 0);
        assert_int_equal(log_trim(m->t->log), 0);
        log_stats(m->t->log, &stats);
        assert_true(log_tail(m->t->log).segment >= segment);
    }
    return NULL;
}

static void test_concurrent(void **state) {
    struct testlog *t = malloc(sizeof(*t));
    testlog_init(t, 9, 0);
    assert_int_equal(testlog_open(t), 0);
    struct maintenance m = {.t = t};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, maintain, &m), 0);
    uint64_t start_of[2] = {1, 1}; /* ids at which this and the last segment begin */
    uint64_t segment = log_tail(t->log).segment;
    while (t->acked < 15000) {
        int err = testlog_append(t, 5);
        if (err == -HL_ERR_BUSY) {
            continue; /* until the other thread has released */
        }
        assert_int_equal(err, 0);
        if (log_tail(t->log).segment != segment) {
            segment = log_tail(t->log).segment;
            start_of[0] = start_of[1];
            start_of[1] = t->acked - 4;
            m.acked_segment = segment - 1;
            t->needed = start_of[0];
        }
    }
    m.stop = true;
    pthread_join(thread, NULL);
    t->needed = start_of[1];
    sim_fs_crash(t->sim);
    assert_int_equal(testlog_open(t), 0);
    testlog_done(t);
    free(t);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* failures are planned */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_torn),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_missing_segment),
        cmocka_unit_test(test_recycling),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_failed_sync_stops),
        cmocka_unit_test(test_group_commit),
        cmocka_unit_test(test_concurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
