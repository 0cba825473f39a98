/* The engine on a full disk, with a sink and a log that say NO_SPACE when the test wants it: what
 * brings bodies is refused before it is in the log, deletes are not; what is in the log waits and
 * is applied exactly once; after the stated time the store stops and the next start applies it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "meta/meta.h"
#include "os/sim_fs.h"

/* ---- a sink that says what the test wants ---- */

static uint64_t room_bytes = UINT64_MAX;
static int turn_end_fails; /* so many calls answer NO_SPACE */
static int turn_end_calls, fatal_err;

static int sink_head(void *ctx, struct kv_batch *batch, struct body_id id, struct slice key,
                     struct slice value, struct slice body, bool replay) {
    return 0;
}
static int sink_run(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count) {
    return 0;
}
static int sink_release(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count,
                        bool head) {
    return 0;
}
static int sink_config(void *ctx, struct kv_batch *batch, struct slice key, struct slice value,
                       uint64_t sequence) {
    return 0;
}
static int sink_room(void *ctx, uint64_t bytes) {
    return bytes <= room_bytes ? 0 : -HL_ERR_NO_SPACE;
}
static int sink_turn_end(void *ctx, struct kv_batch *batch) {
    turn_end_calls++;
    if (turn_end_fails > 0) {
        turn_end_fails--;
        return -HL_ERR_NO_SPACE;
    }
    return 0;
}
static int sink_batch(void *ctx, struct kv_batch *batch) {
    return 0;
}
static void sink_void(void *ctx) {
}
static int sink_int(void *ctx) {
    return 0;
}
static int sink_replay(void *ctx, struct kv_batch *batch, struct body_id id, struct slice key,
                       struct slice value, struct slice body) {
    return 0;
}
static const struct meta_sink sink = {
    .head = sink_head,
    .commit = sink_run,
    .release = sink_release,
    .config = sink_config,
    .room = sink_room,
    .turn_end = sink_turn_end,
    .turn_applied = sink_void,
    .replay_head = sink_replay,
    .checkpoint_begin = sink_batch,
    .checkpoint_sync = sink_int,
    .checkpoint_done = sink_int,
};

static void note_fatal(void *ctx, int err) {
    fatal_err = err;
}

/* ---- the node ---- */

struct node {
    struct os_env env;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct sim_fs *disk;
    struct kv_mem_disk *kv_disk;
    struct kv *kv;
    struct meta *meta;
};

static int node_open(struct node *node) {
    struct meta_options options = {.log_path = "/meta/log",
                                   .log = {.segment_bytes = 64 << 10,
                                           .segments_max = 4,
                                           .cluster_id = (const uint8_t *)"0123456789abcdef"},
                                   .fatal = note_fatal};
    assert_int_equal(os_mkdir_all(node->env.fs, options.log_path), 0);
    assert_int_equal(kv_open_mem(node->kv_disk, NULL, &node->kv), 0);
    assert_int_equal(meta_open(&node->env, node->kv, &sink, &options, &node->meta), 0);
    return meta_recover(node->meta);
}

static void node_init(struct node *node, uint64_t capacity) {
    struct sim_fs_options disk = {.seed = 1, .capacity_bytes = capacity};
    *node = (struct node){.kv_disk = kv_mem_disk_new(), .disk = sim_fs_new(&disk)};
    os_clock_sim_init(&node->clock, 1764547200000);
    os_random_sim_init(&node->random, 1);
    node->env = (struct os_env){sim_fs_fs(node->disk), &node->clock.clock, &node->random.random};
    room_bytes = UINT64_MAX;
    turn_end_fails = turn_end_calls = fatal_err = 0;
    assert_int_equal(node_open(node), 0);
}

static void node_close(struct node *node) {
    meta_close(node->meta);
    kv_close(node->kv);
}

static void node_done(struct node *node) {
    node_close(node);
    sim_fs_free(node->disk);
    kv_mem_disk_free(node->kv_disk);
}

/* ---- writes ---- */

static void run_now(struct executor *executor, struct task *task) {
    task->run(task);
}
static struct executor now = {run_now};

struct write {
    char key[8];
    const char *value; /* NULL: a delete */
    struct slice body;
    struct buf row;
    int err;
    bool done;
};

static int write_fn(struct meta_txn *txn, void *arg) {
    struct write *w = arg;
    if (w->value == NULL) {
        meta_txn_delete(txn, buf_slice(&w->row));
    } else if (w->body.size == 0) {
        meta_txn_put(txn, buf_slice(&w->row), slice_str(w->value));
    } else {
        meta_txn_put(txn, buf_slice(&w->row), slice_str(w->value));
        meta_txn_head_only(txn, buf_slice(&w->row), slice_str(w->value), (struct body_id){1, 1},
                           w->body);
    }
    return 0;
}

static void write_done(void *arg, int err) {
    struct write *w = arg;
    w->err = err;
    w->done = true;
}

static void propose(struct node *node, struct write *w, const char *key, const char *value,
                    struct slice body) {
    *w = (struct write){.value = value, .body = body};
    keys_object(&w->row, 1, slice_str(key));
    struct meta_latch latch = {buf_slice(&w->row), META_EXCLUSIVE};
    meta_run(node->meta, &(struct meta_request){.latches = &latch,
                                                .latch_count = 1,
                                                .fn = write_fn,
                                                .done = write_done,
                                                .arg = w,
                                                .home = &now});
}

static int finish(struct write *w) {
    assert_true(w->done);
    buf_done(&w->row);
    return w->err;
}

static int write_one(struct node *node, const char *key, const char *value, struct slice body) {
    struct write w;
    bool busy;
    propose(node, &w, key, value, body);
    (void)meta_commit_turn(node->meta, &busy);
    return finish(&w);
}

static bool has(struct node *node, const char *key, const char *value) {
    CLEANUP_BUF struct buf row = {0};
    CLEANUP_KV_VALUE struct kv_value found = {0};
    keys_object(&row, 1, slice_str(key));
    int err = meta_get(node->meta, buf_slice(&row), &found);
    return value == NULL ? err == -HL_ERR_NOT_FOUND
                         : err == 0 && slice_equal(found.data, slice_str(value));
}

static uint8_t bytes[20000];

/* ---- the tests ---- */

/* In one turn: the delete and the row go on, of two bodies the one that has room. */
static void test_refused_before(void **state) {
    struct node node;
    struct write w[4];
    bool busy;
    node_init(&node, 0);
    assert_int_equal(write_one(&node, "old", "1", SLICE_EMPTY), 0);
    room_bytes = 6000;
    propose(&node, &w[0], "a", "1", slice_of(bytes, 5000));
    propose(&node, &w[1], "old", NULL, SLICE_EMPTY);
    propose(&node, &w[2], "b", "1", slice_of(bytes, 5000));
    propose(&node, &w[3], "c", "1", SLICE_EMPTY);
    assert_int_equal(meta_commit_turn(node.meta, &busy), 0);
    assert_int_equal(finish(&w[0]), 0);
    assert_int_equal(finish(&w[1]), 0);
    assert_int_equal(finish(&w[2]), -HL_ERR_NO_SPACE);
    assert_int_equal(finish(&w[3]), 0);
    assert_true(has(&node, "a", "1") && has(&node, "old", NULL) && has(&node, "b", NULL) &&
                has(&node, "c", "1"));
    room_bytes = 0;
    assert_int_equal(write_one(&node, "b", "2", slice_of(bytes, 10)), -HL_ERR_NO_SPACE);
    assert_int_equal(write_one(&node, "c", NULL, SLICE_EMPTY), 0);
    room_bytes = UINT64_MAX;
    assert_int_equal(write_one(&node, "b", "3", slice_of(bytes, 10)), 0);
    node_close(&node);
    assert_int_equal(node_open(&node), 0);
    assert_true(has(&node, "a", "1") && has(&node, "b", "3") && has(&node, "c", NULL));
    node_done(&node);
}

/* In the log, and no room to apply it for a while. */
static void test_waits_after(void **state) {
    struct node node;
    node_init(&node, 0);
    turn_end_fails = 7;
    assert_int_equal(write_one(&node, "a", "1", slice_of(bytes, 100)), 0);
    assert_int_equal(turn_end_calls, 8);
    assert_false(meta_stalled(node.meta) || meta_failed(node.meta));
    assert_true(has(&node, "a", "1"));
    if (failpoint_set("kv.write.no_space", "error", 1)) {
        assert_int_equal(write_one(&node, "b", "1", slice_of(bytes, 100)), 0);
        assert_true(has(&node, "b", "1"));
        assert_int_equal(failpoint_count("kv.write.no_space") >= 2, 1);
        failpoint_clear();
    }
    assert_int_equal(fatal_err, 0);
    node_done(&node);
}

/* No room for longer than stated: not acknowledged, stopped, and there after the next start. */
static void test_gives_up(void **state) {
    struct node node;
    node_init(&node, 0);
    assert_int_equal(write_one(&node, "a", "1", SLICE_EMPTY), 0);
    turn_end_fails = 100000;
    assert_int_equal(write_one(&node, "b", "1", slice_of(bytes, 100)), -HL_ERR_CRASHED);
    assert_int_equal(fatal_err, -HL_ERR_NO_SPACE);
    assert_true(turn_end_calls > 100 && turn_end_calls < 200); /* a second each, two minutes */
    assert_true(meta_failed(node.meta) && has(&node, "a", "1"));
    assert_int_equal(write_one(&node, "c", "1", SLICE_EMPTY), -HL_ERR_CRASHED);
    node_close(&node);
    turn_end_fails = 0;
    assert_int_equal(node_open(&node), 0);
    assert_true(has(&node, "a", "1") && has(&node, "b", "1") && has(&node, "c", NULL));
    node_done(&node);
}

/* The log has all its segments in use: BUSY until a checkpoint, deletes fit for longer. */
static void test_log_full(void **state) {
    struct node node;
    node_init(&node, 0);
    int err = 0, count = 0;
    while (err == 0 && count < 100) {
        err = write_one(&node, "a", "1", slice_of(bytes, sizeof(bytes)));
        count += err == 0;
    }
    assert_int_equal(err, -HL_ERR_BUSY);
    assert_true(count >= 8);
    struct write w[2];
    bool busy;
    propose(&node, &w[0], "b", "1", slice_of(bytes, sizeof(bytes)));
    propose(&node, &w[1], "a", NULL, SLICE_EMPTY);
    assert_int_equal(meta_commit_turn(node.meta, &busy), 0);
    assert_int_equal(finish(&w[0]), -HL_ERR_BUSY);
    assert_int_equal(finish(&w[1]), 0);
    assert_true(has(&node, "a", NULL));
    assert_int_equal(meta_checkpoint(node.meta), 0);
    assert_int_equal(write_one(&node, "b", "1", slice_of(bytes, sizeof(bytes))), 0);
    assert_int_equal(fatal_err, 0);
    node_done(&node);
}

/* The disk of the log is full: bodies are refused while there is no spare segment beside the one in
 * use, deletes have that spare. */
static void test_log_disk_full(void **state) {
    struct node node;
    node_init(&node, 150 << 10); /* two segments and a little */
    int err = 0, count = 0;
    while (err == 0 && count < 100) {
        err = write_one(&node, "a", "1", slice_of(bytes, 2000));
        count += err == 0;
    }
    assert_int_equal(err, -HL_ERR_NO_SPACE);
    assert_true(count >= 20);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(write_one(&node, "a", NULL, SLICE_EMPTY), 0);
    }
    assert_int_equal(write_one(&node, "a", "2", slice_of(bytes, 2000)), -HL_ERR_NO_SPACE);
    assert_int_equal(meta_checkpoint(node.meta), 0);
    assert_int_equal(write_one(&node, "a", "3", slice_of(bytes, 2000)), 0);
    assert_int_equal(fatal_err, 0);
    node_close(&node);
    assert_int_equal(node_open(&node), 0);
    assert_true(has(&node, "a", "3"));
    node_done(&node);
}

/* A write of the log that meets a full disk half-way: what is there is unknown, so it is no
 * refusal. */
static void test_log_write_fails(void **state) {
    struct node node;
    node_init(&node, 0);
    assert_int_equal(write_one(&node, "a", "1", SLICE_EMPTY), 0);
    sim_fs_fail_write(node.disk, 1, -HL_ERR_NO_SPACE);
    assert_int_equal(write_one(&node, "b", "1", SLICE_EMPTY), -HL_ERR_CRASHED);
    assert_true(meta_failed(node.meta) && fatal_err != 0);
    node_close(&node);
    assert_int_equal(node_open(&node), 0);
    assert_true(has(&node, "a", "1"));
    node_done(&node);
}

/* No room to make a spare of a released segment: the checkpoint succeeds, the store goes on. */
static void test_no_spare(void **state) {
    struct node node;
    node_init(&node, 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(write_one(&node, "a", "1", slice_of(bytes, sizeof(bytes))), 0);
    }
    /* The first is the record of the checkpoint, the second the header under its new number. */
    sim_fs_fail_write(node.disk, 2, -HL_ERR_NO_SPACE);
    assert_int_equal(meta_checkpoint(node.meta), 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(write_one(&node, "b", "2", slice_of(bytes, sizeof(bytes))), 0);
    }
    assert_false(meta_failed(node.meta));
    node_close(&node);
    assert_int_equal(node_open(&node), 0);
    assert_true(has(&node, "a", "1") && has(&node, "b", "2"));
    node_done(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_before), cmocka_unit_test(test_waits_after),
        cmocka_unit_test(test_gives_up),       cmocka_unit_test(test_log_full),
        cmocka_unit_test(test_log_disk_full),  cmocka_unit_test(test_log_write_fails),
        cmocka_unit_test(test_no_spare),
    };
    logger_set_fd(open("/dev/null", O_WRONLY)); /* each refusal is logged */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
