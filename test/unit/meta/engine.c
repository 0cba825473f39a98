/* The built-in engine against a model, on a simulated disk that loses what was not synced: several
 * clients with transactions in flight, a crash inside a random disk operation, recovery, and again.
 * What was acknowledged must be there; what was refused must not; what was in flight may be either.
 * Reads inside transactions are exact: a counter kept by read-modify-write equals the successes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/logger.h"
#include "meta/meta.h"
#include "os/sim_fs.h"

#define CLIENTS 6
#define KEYS    8
#define SEEDS   150

/* ---- a run queue as executor ---- */

static struct task *queue_first, **queue_last = &queue_first;

static void queue_post(struct executor *executor, struct task *task) {
    task->next = NULL;
    *queue_last = task;
    queue_last = &task->next;
}
static struct executor queue_executor = {queue_post};

static bool queue_run(void) {
    struct task *task = queue_first;
    if (task == NULL) {
        return false;
    }
    queue_first = task->next;
    if (queue_first == NULL) {
        queue_last = &queue_first;
    }
    task->run(task);
    return true;
}

/* ---- a sink that only counts: bodies are the business of data/ ---- */

static int heads_applied, heads_verified;
static int sink_head(void *ctx, struct kv_batch *batch, struct body_id id, struct slice key,
                     struct slice value, struct slice body, bool replay) {
    heads_applied++;
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
    heads_verified++;
    return 0;
}
static const struct meta_sink sink = {
    .head = sink_head,
    .commit = sink_run,
    .release = sink_release,
    .config = sink_config,
    .turn_end = sink_batch,
    .turn_applied = sink_void,
    .replay_head = sink_replay,
    .checkpoint_begin = sink_batch,
    .checkpoint_sync = sink_int,
    .checkpoint_done = sink_int,
};

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
                                           .segments_max = 16,
                                           .cluster_id = (const uint8_t *)"0123456789abcdef"}};
    int err = os_mkdir_all(node->env.fs, options.log_path);
    if (err == 0) {
        err = kv_open_mem(node->kv_disk, &node->random.random, &node->kv);
    }
    if (err == 0) {
        err = meta_open(&node->env, node->kv, &sink, &options, &node->meta);
    }
    return err < 0 ? err : meta_recover(node->meta);
}

static void node_close(struct node *node) {
    if (node->meta != NULL) {
        meta_stop(node->meta);
        while (queue_run()) {
        }
    }
    meta_close(node->meta);
    node->meta = NULL;
    kv_close(node->kv);
    node->kv = NULL;
}

/* ---- clients and the model ---- */

struct model {
    uint64_t value[KEYS];     /* last acknowledged, 0: absent */
    uint64_t maybe[KEYS][64]; /* values whose fate is unknown since then */
    int maybe_count[KEYS];
    uint64_t counter, counter_max; /* acknowledged, and with all unknown ones */
};

struct client {
    struct node *node;
    struct model *model;
    struct prng *prng;
    bool busy;
    bool increments;
    int key;
    uint64_t value;
    struct buf row;
    struct meta_latch latches[2];
    uint64_t sequence;
};

static uint64_t last_value;

static int client_fn(struct meta_txn *txn, void *arg) {
    struct client *c = arg;
    uint8_t bytes[8];
    if (c->increments) {
        struct kv_value value = {0};
        uint64_t n = 0;
        int err = meta_get(c->node->meta, buf_slice(&c->row), &value);
        if (err == 0) {
            n = get_le64(value.data.data);
        }
        kv_value_done(&value);
        if (err < 0 && err != -HL_ERR_NOT_FOUND) {
            return err;
        }
        put_le64(bytes, n + 1);
        meta_txn_put(txn, buf_slice(&c->row), slice_of(bytes, 8));
        return 0;
    }
    c->sequence = meta_txn_sequence(txn);
    put_le64(bytes, c->value);
    if (c->value % 2 == 0) {
        meta_txn_put_head(txn, buf_slice(&c->row), slice_of(bytes, 8),
                          (struct body_id){1, c->value}, slice_of(bytes, 8));
    } else {
        meta_txn_put(txn, buf_slice(&c->row), slice_of(bytes, 8));
    }
    return 0;
}

static void client_done(void *arg, int err) {
    struct client *c = arg;
    struct model *m = c->model;
    c->busy = false;
    if (c->increments) {
        m->counter += err == 0;
        m->counter_max += err == 0 || err == -HL_ERR_CRASHED || err == -HL_ERR_CANCELED;
    } else if (err == 0) {
        m->value[c->key] = c->value;
        m->maybe_count[c->key] = 0;
    } else if ((err == -HL_ERR_CRASHED || err == -HL_ERR_CANCELED) && m->maybe_count[c->key] < 64) {
        m->maybe[c->key][m->maybe_count[c->key]++] = c->value;
    }
    buf_done(&c->row);
}

static void client_start(struct client *c) {
    c->busy = true;
    c->increments = prng_below(c->prng, 3) == 0;
    c->key = (int)prng_below(c->prng, KEYS);
    c->value = ++last_value;
    char name[16];
    int size = snprintf(name, sizeof(name), c->increments ? "counter" : "key%d", c->key);
    keys_object(&c->row, 1, slice_of(name, (size_t)size));
    c->latches[0] = (struct meta_latch){SLICE_LITERAL("bucket"), META_SHARED};
    c->latches[1] = (struct meta_latch){buf_slice(&c->row), META_EXCLUSIVE};
    struct meta_request request = {.latches = c->latches,
                                   .latch_count = 2,
                                   .fn = client_fn,
                                   .done = client_done,
                                   .arg = c,
                                   .home = &queue_executor};
    meta_run(c->node->meta, &request);
}

static void check_key(struct node *node, struct model *m, int key) {
    char name[16];
    struct buf row = {0};
    struct kv_value value = {0};
    int size = snprintf(name, sizeof(name), "key%d", key);
    keys_object(&row, 1, slice_of(name, (size_t)size));
    int err = meta_get(node->meta, buf_slice(&row), &value);
    uint64_t found = err == 0 ? get_le64(value.data.data) : 0;
    bool good = found == m->value[key];
    for (int i = 0; i < m->maybe_count[key]; i++) {
        good |= found == m->maybe[key][i];
    }
    assert_true(good);
    m->value[key] = found; /* from now on it is certain */
    m->maybe_count[key] = 0;
    kv_value_done(&value);
    buf_done(&row);
}

static void check_all(struct node *node, struct model *m) {
    for (int key = 0; key < KEYS; key++) {
        check_key(node, m, key);
    }
    struct buf row = {0};
    struct kv_value value = {0};
    keys_object(&row, 1, SLICE_LITERAL("counter"));
    int err = meta_get(node->meta, buf_slice(&row), &value);
    uint64_t found = err == 0 ? get_le64(value.data.data) : 0;
    assert_true(found >= m->counter && found <= m->counter_max);
    m->counter = m->counter_max = found;
    kv_value_done(&value);
    buf_done(&row);
}

static void run_until_crash(struct node *node, struct client *clients, struct prng *prng) {
    uint64_t steps = 20 + prng_below(prng, 400);
    if (prng_below(prng, 4) != 0) {
        sim_fs_crash_after(node->disk, 1 + prng_below(prng, 60));
    }
    for (uint64_t i = 0; i < steps && !meta_failed(node->meta); i++) {
        uint64_t what = prng_below(prng, 10);
        struct client *c = &clients[prng_below(prng, CLIENTS)];
        bool busy;
        if (what < 5 && !c->busy) {
            client_start(c);
        } else if (what < 8) {
            queue_run();
        } else if (what < 9 || prng_below(prng, 8) != 0) {
            meta_commit_turn(node->meta, &busy);
        } else {
            meta_checkpoint(node->meta);
        }
    }
}

static void run_seed(uint64_t seed) {
    struct prng prng;
    prng_init(&prng, seed);
    struct node node = {.kv_disk = kv_mem_disk_new()};
    struct sim_fs_options disk = {.seed = seed, .survive_percent = 50, .tear_percent = 25};
    node.disk = sim_fs_new(&disk);
    os_clock_sim_init(&node.clock, 1764547200000);
    os_random_sim_init(&node.random, seed);
    node.env = (struct os_env){sim_fs_fs(node.disk), &node.clock.clock, &node.random.random};
    struct model model = {0};
    struct client clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.node = &node, .model = &model, .prng = &prng};
    }
    assert_int_equal(node_open(&node), 0);
    for (int round = 0; round < 6; round++) {
        run_until_crash(&node, clients, &prng);
        node_close(&node);
        sim_fs_crash(node.disk);
        sim_fs_crash_after(node.disk, 0);
        if (prng_below(&prng, 3) == 0) { /* a crash inside recovery, too */
            sim_fs_crash_after(node.disk, 1 + prng_below(&prng, 10));
            if (node_open(&node) < 0 || prng_below(&prng, 2) == 0) {
                node_close(&node);
                sim_fs_crash(node.disk);
                sim_fs_crash_after(node.disk, 0);
                assert_int_equal(node_open(&node), 0);
            }
            sim_fs_crash_after(node.disk, 0);
        } else {
            assert_int_equal(node_open(&node), 0);
        }
        check_all(&node, &model);
    }
    node_close(&node);
    sim_fs_free(node.disk);
    kv_mem_disk_free(node.kv_disk);
}

static void test_crashes(void **state) {
    if (getenv("HAYLOFT_TEST_SEED") == NULL) {
        logger_set_fd(open("/dev/null", O_WRONLY)); /* each crash logs why the log stopped */
    }
    const char *only = getenv("HAYLOFT_TEST_SEED");
    uint64_t first = only == NULL ? 1 : strtoull(only, NULL, 10);
    uint64_t last = only == NULL ? SEEDS : first;
    for (uint64_t seed = first; seed <= last; seed++) {
        print_message("seed %llu (HAYLOFT_TEST_SEED=%llu replays it)\n", (unsigned long long)seed,
                      (unsigned long long)seed);
        run_seed(seed);
    }
    assert_true(heads_applied > 0);
    assert_true(heads_verified > 0);
}

/* ---- log or names lost ---- */

static void new_node(struct node *node) {
    struct sim_fs_options disk = {.seed = 1};
    *node = (struct node){.kv_disk = kv_mem_disk_new(), .disk = sim_fs_new(&disk)};
    os_clock_sim_init(&node->clock, 1764547200000);
    os_random_sim_init(&node->random, 1);
    node->env = (struct os_env){sim_fs_fs(node->disk), &node->clock.clock, &node->random.random};
    assert_int_equal(node_open(node), 0);
}

static void free_node(struct node *node) {
    node_close(node);
    sim_fs_free(node->disk);
    kv_mem_disk_free(node->kv_disk);
}

static void write_some(struct node *node, struct model *model, struct prng *prng) {
    struct client client = {.node = node, .model = model, .prng = prng};
    bool busy = true;
    for (int i = 0; i < 5; i++) {
        client_start(&client);
        while (client.busy) {
            meta_commit_turn(node->meta, &busy);
            queue_run();
        }
    }
}

static int remove_log_file(const char *name, bool is_dir, void *arg) {
    char path[300];
    snprintf(path, sizeof(path), "/meta/log/%s", name);
    return os_unlink(arg, path);
}

/* Names that were flushed beyond a log that is gone: acknowledged writes may be missing, so the
 * store must not open. */
static void test_lost_log(void **state) {
    struct node node;
    struct model model = {0};
    struct prng prng;
    prng_init(&prng, 1);
    new_node(&node);
    write_some(&node, &model, &prng);
    assert_int_equal(kv_flush(node.kv), 0);
    node_close(&node);
    assert_int_equal(os_list(node.env.fs, "/meta/log", remove_log_file, node.env.fs), 0);
    assert_int_equal(node_open(&node), -HL_ERR_CORRUPT);
    free_node(&node);
}

/* A log that was released because the names held it all, and then other, empty names. */
static void test_lost_names(void **state) {
    struct node node;
    struct model model = {0};
    struct prng prng;
    prng_init(&prng, 2);
    new_node(&node);
    for (int i = 0; i < 40;
         i++) { /* more than one segment, so that the first entries are gone from the log */
        write_some(&node, &model, &prng);
        assert_int_equal(meta_checkpoint(node.meta), 0);
    }
    node_close(&node);
    kv_mem_disk_free(node.kv_disk);
    node.kv_disk = kv_mem_disk_new();
    int err = node_open(&node);
    if (err == 0) {
        check_all(&node, &model); /* the log still held everything */
    } else {
        assert_int_equal(err, -HL_ERR_CORRUPT);
    }
    free_node(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes),
                                       cmocka_unit_test(test_lost_log),
                                       cmocka_unit_test(test_lost_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
