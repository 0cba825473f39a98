/* A disk that is full at one write: NO_SPACE at each write in turn of puts, parts, deletes,
 * checkpoints, compaction and rotation of the log, and of a rebuild. Whatever happens, what was
 * acknowledged is read, what was refused is not there, and the store goes on, or stops and is whole
 * after a restart. The truth is a table in the test. */
#include <fcntl.h>

#include "harness.h"

#define KEYS     24
#define STEPS    110
#define MIB      (1u << 20)
#define NTH_STEP 2 /* every second write: all of them take too long for one program */

struct truth {
    uint64_t value[KEYS]; /* what was acknowledged last; 0: absent */
    uint64_t maybe[KEYS]; /* a write of unknown fate; UINT64_MAX: a delete; 0: none */
    uint64_t refused, acked, restarts;
};

static size_t size_of(uint64_t value) {
    static const size_t sizes[] = {10, 900, 5 * H_BLOCK + 7, H_BLOCK};
    return sizes[value % 4];
}

static void key_of(int key, char ret[16]) {
    snprintf(ret, 16, "k%d", key);
}

static bool unknown(int err) {
    return err == -HL_ERR_CRASHED || err == -HL_ERR_CANCELED;
}

static bool holds(struct harness *h, int key, uint64_t value) {
    char name[16];
    struct slice body = SLICE_EMPTY;
    key_of(key, name);
    int err = h_get(h, h->bucket, name, &body, NULL);
    if (value == 0 || value == UINT64_MAX) {
        return err == -HL_ERR_NO_SUCH_KEY;
    }
    return err == 0 && slice_equal(body, h_body(h, value, size_of(value)));
}

static void check_all(struct harness *h, struct truth *t) {
    for (int key = 0; key < KEYS; key++) {
        pool_reset(h->pool);
        if (!holds(h, key, t->value[key])) {
            assert_true(t->maybe[key] != 0 && holds(h, key, t->maybe[key]));
            t->value[key] = t->maybe[key] == UINT64_MAX ? 0 : t->maybe[key];
        }
        t->maybe[key] = 0;
    }
}

static void reopen(struct harness *h, struct truth *t) {
    object_store_close(h->store);
    h->store = NULL;
    t->restarts++;
    int err = h_open(h); /* the write that fails may be one of these */
    if (err < 0) {
        err = h_open(h);
    }
    assert_int_equal(err, 0);
    check_all(h, t);
}

static void note(struct truth *t, int key, uint64_t value, int err) {
    if (err == 0) {
        t->value[key] = value == UINT64_MAX ? 0 : value;
        t->maybe[key] = 0;
        t->acked++;
    } else if (unknown(err)) {
        t->maybe[key] = value;
    } else {
        assert_true(err == -HL_ERR_NO_SPACE || err == -HL_ERR_BUSY);
        t->refused++;
    }
}

static void step(struct harness *h, struct truth *t, struct prng *prng, uint64_t value) {
    char name[16];
    bool busy;
    int key = (int)prng_below(prng, KEYS);
    key_of(key, name);
    pool_reset(h->pool);
    switch (prng_below(prng, 8)) {
    case 0:
    case 1:
        note(t, key, UINT64_MAX, h_delete(h, h->bucket, name, NULL, NULL));
        break;
    case 2:
        (void)meta_checkpoint(object_meta(h->store));
        break;
    case 3:
        for (int i = 0; i < 20; i++) {
            (void)object_step(h->store, &busy);
        }
        break;
    default:
        note(t, key, value,
             h_put(h, h->bucket, name, h_body(h, value, size_of(value)), NULL, NULL));
    }
    if (meta_failed(object_meta(h->store))) {
        reopen(h, t);
    } else if (prng_below(prng, 40) == 0) {
        sim_fs_kill(h->disk);
        reopen(h, t);
    }
}

static void small_log(struct harness *h) {
    h->options.meta.log.segment_bytes = 64 << 10;
    h->options.meta.log.segments_max = 8;
    h->options.meta.checkpoint_log_bytes = 128 << 10;
    h->options.meta.turn_bytes_max = 32 << 10;
    h->options.data.volumes.volume_bytes_max = 128 << 10;
}

static void run(uint64_t nth, struct truth *t, uint64_t *ret_operations) {
    struct harness h;
    struct prng prng;
    prng_init(&prng, nth % 7);
    h_init(&h, nth % 7);
    small_log(&h);
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    *t = (struct truth){0};
    uint64_t before = sim_fs_operations(h.disk);
    sim_fs_fail_write(h.disk, nth, -HL_ERR_NO_SPACE);
    for (uint64_t i = 1; i <= STEPS; i++) {
        step(&h, t, &prng, i);
    }
    check_all(&h, t);
    *ret_operations = sim_fs_operations(h.disk) - before;
    sim_fs_fail_write(h.disk, 0, 0);
    reopen(&h, t);
    assert_int_equal(h_put(&h, h.bucket, "last", h_body(&h, 1, 100), NULL, NULL), 0);
    h_done(&h);
}

static void test_each_write(void **state) {
    uint64_t operations = 1, acked = 0, refused = 0, restarts = 0, runs = 0;
    for (uint64_t nth = 1; nth <= operations; nth += NTH_STEP) {
        struct truth t;
        run(nth, &t, &operations);
        acked += t.acked;
        refused += t.refused;
        restarts += t.restarts;
        runs++;
    }
    print_message("%llu runs: %llu writes acknowledged, %llu refused, %llu restarts\n",
                  (unsigned long long)runs, (unsigned long long)acked, (unsigned long long)refused,
                  (unsigned long long)restarts);
    assert_true(runs > 30 && refused > 10);
}

/* The store has a real limit, is filled again and again, and its data files and log share it. */
static void test_capacity(void **state) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct harness h;
        struct prng prng;
        struct truth t = {0};
        prng_init(&prng, seed);
        h_init(&h, seed);
        sim_fs_free(h.disk);
        /* 4 MiB are kept for names, so less than the keys can hold is there to be filled. */
        h.disk = sim_fs_new(
            &(struct sim_fs_options){.seed = seed, .capacity_bytes = 4 * MIB + 920 * 1024});
        h.env.fs = sim_fs_fs(h.disk);
        small_log(&h);
        h.options.data.volumes.reserve_bytes = 300 << 10;
        assert_int_equal(os_mkdir_all(h.env.fs, "/data"), 0);
        assert_int_equal(h_open(&h), 0);
        h.bucket = h_bucket(&h, "bucket");
        for (uint64_t i = 1; i <= 500; i++) {
            h.clock.mono_us += 300000;
            step(&h, &t, &prng, i % 3 == 0 ? i : i * 4 + 2); /* mostly large */
        }
        check_all(&h, &t);
        reopen(&h, &t);
        h_done(&h);
        assert_true(t.acked > 100 && t.refused > 20);
        print_message("seed %llu: %llu acknowledged, %llu refused\n", (unsigned long long)seed,
                      (unsigned long long)t.acked, (unsigned long long)t.refused);
    }
}

static void test_rebuild(void **state) {
    uint64_t operations = 1;
    int failed = 0;
    for (uint64_t nth = 1; nth <= operations; nth++) {
        struct harness h;
        struct truth t = {0};
        struct prng prng;
        struct object_rebuild_result result;
        prng_init(&prng, 3);
        h_init(&h, 3);
        small_log(&h);
        assert_int_equal(h_open(&h), 0);
        h.bucket = h_bucket(&h, "bucket");
        for (uint64_t i = 1; i <= 60; i++) {
            step(&h, &t, &prng, i);
        }
        object_store_close(h.store);
        h.store = NULL;
        uint64_t before = sim_fs_operations(h.disk);
        sim_fs_fail_write(h.disk, nth, -HL_ERR_NO_SPACE);
        int err = object_rebuild(&h.env, &h.options, NULL, NULL, &result);
        operations = MAX(operations, sim_fs_operations(h.disk) - before);
        sim_fs_fail_write(h.disk, 0, 0);
        if (err < 0) {
            failed++;
            assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
        }
        assert_int_equal(h_open(&h), 0);
        check_all(&h, &t);
        h_done(&h);
    }
    assert_true(failed > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_write),
                                       cmocka_unit_test(test_capacity),
                                       cmocka_unit_test(test_rebuild)};
    logger_set_fd(open("/dev/null", O_WRONLY)); /* each refusal is logged */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
