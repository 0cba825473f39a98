/* The store with its threads, on a real disk with RocksDB: many clients at once. Conditional writes
 * have one winner, a counter kept with If-Match equals its successes, readers see one whole
 * version, and bodies that are shared, copied and deleted by everybody are freed exactly once. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "harness.h"

#define THREADS 8

static struct harness store; /* real disk; the harness's helpers take a copy with an own pool */

static char directory[] = "/tmp/hayloft-test-XXXXXX";
static char metadata_dir[64], data_dir[64];

static int open_real(void **state) {
    memset(&store, 0, sizeof(store));
    snprintf(directory, sizeof(directory), "/tmp/hayloft-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(metadata_dir, sizeof(metadata_dir), "%s/meta", directory);
    snprintf(data_dir, sizeof(data_dir), "%s/data", directory);
    store.env = *os_env_real();
    assert_int_equal(os_mkdir_all(store.env.fs, data_dir), 0);
    store.dir = (struct volume_dir){.path = data_dir};
    store.options = (struct object_options){
        .metadata_dir = metadata_dir,
        .data = {.volumes = {.dirs = &store.dir, .dir_count = 1, .reserve_bytes = 4096},
                 .block_bytes = H_BLOCK},
        .inline_max = H_INLINE,
        .threads = true,
    };
    store.pool = pool_new(0);
    assert_int_equal(h_open(&store), 0);
    store.bucket = h_bucket(&store, "bucket");
    return 0;
}

static int close_real(void **state) {
    char command[128];
    object_store_close(store.store);
    pool_free(store.pool);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

struct client {
    struct harness h;
    int number;
    int wins;
};

static void run_clients(void *(*run)(void *arg), struct client clients[THREADS]) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        clients[i] = (struct client){.h = store, .number = i};
        clients[i].h.pool = pool_new(0);
        assert_int_equal(pthread_create(&threads[i], NULL, run, &clients[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        pool_free(clients[i].h.pool);
    }
}

static void *race_create(void *arg) {
    struct client *c = arg;
    struct object_conditions absent = {.none_match = {.given = true, .any = true}};
    for (int round = 0; round < 10; round++) {
        const char *key = pool_printf(c->h.pool, "round-%d", round);
        c->wins += h_put(&c->h, c->h.bucket, key, slice_str("x"), &absent, NULL) == 0;
    }
    return NULL;
}

static void test_one_winner(void **state) {
    struct client clients[THREADS];
    int wins = 0;
    run_clients(race_create, clients);
    for (int i = 0; i < THREADS; i++) {
        wins += clients[i].wins;
    }
    assert_int_equal(wins, 10);
}

/* Reads the number, writes number + 1 on the condition that nobody else did meanwhile. */
static void *count_up(void *arg) {
    struct client *c = arg;
    for (int i = 0; i < 20; i++) {
        struct slice body = SLICE_EMPTY;
        struct object_record record;
        char etag[OBJECT_ETAG_SIZE];
        pool_reset(c->h.pool);
        if (h_get(&c->h, c->h.bucket, "counter", &body, &record) != 0) {
            continue;
        }
        object_etag_text(&record.etag, etag);
        struct slice tag = slice_str(etag);
        struct object_conditions same = {.match = {.given = true, .tags = &tag, .tag_count = 1}};
        char *next = pool_printf(c->h.pool, "%ld", strtol((const char *)body.data, NULL, 10) + 1);
        c->wins += h_put(&c->h, c->h.bucket, "counter", slice_str(next), &same, NULL) == 0;
    }
    return NULL;
}

static void test_counter(void **state) {
    struct client clients[THREADS];
    struct slice body = SLICE_EMPTY;
    long wins = 0;
    assert_int_equal(h_put(&store, store.bucket, "counter", slice_str("0"), NULL, NULL), 0);
    run_clients(count_up, clients);
    for (int i = 0; i < THREADS; i++) {
        wins += clients[i].wins;
    }
    assert_int_equal(h_get(&store, store.bucket, "counter", &body, NULL), 0);
    char text[32] = {0};
    memcpy(text, body.data, body.size);
    assert_int_equal(strtol(text, NULL, 10), wins);
    assert_true(wins >= 20);
}

/* Half of the clients overwrite, the others read: each body is one seed's bytes from end to end. */
static _Atomic int torn;
static void *overwrite_and_read(void *arg) {
    struct client *c = arg;
    for (int i = 0; i < 20; i++) {
        struct slice body = SLICE_EMPTY;
        pool_reset(c->h.pool);
        if (c->number % 2 == 0) {
            uint64_t seed = (uint64_t)(c->number * 1000 + i);
            size_t size = i % 5 == 0 ? 100 : 40 * H_BLOCK + (size_t)i;
            uint8_t *bytes = (uint8_t *)(uintptr_t)h_body(&c->h, seed, size + 8).data;
            memcpy(bytes, &seed, 8); /* says whose it is */
            struct slice rest = h_body(&c->h, seed, size);
            memcpy(bytes + 8, rest.data, size);
            torn += h_put(&c->h, c->h.bucket, "hot", slice_of(bytes, size + 8), NULL, NULL) != 0;
        } else if (h_get(&c->h, c->h.bucket, "hot", &body, NULL) == 0) {
            uint64_t seed;
            memcpy(&seed, body.data, 8);
            torn += !slice_equal(slice_skip(body, 8), h_body(&c->h, seed, body.size - 8));
            c->wins++;
        }
    }
    return NULL;
}

static void test_whole_versions(void **state) {
    struct client clients[THREADS];
    uint64_t none = 0; /* a first version: seed 0 and no more bytes */
    torn = 0;
    assert_int_equal(h_put(&store, store.bucket, "hot", slice_of(&none, 8), NULL, NULL), 0);
    run_clients(overwrite_and_read, clients);
    assert_int_equal(torn, 0);
    assert_int_equal(clients[1].wins, 20);
}

/* Everybody writes, copies and deletes the same few keys with shared runs. */
static _Atomic int failed;
static void *share(void *arg) {
    struct client *c = arg;
    struct prng prng;
    prng_init(&prng, (uint64_t)c->number);
    for (int i = 0; i < 60; i++) {
        pool_reset(c->h.pool);
        const char *a = pool_printf(c->h.pool, "s%d", (int)prng_below(&prng, 4));
        const char *b = pool_printf(c->h.pool, "s%d", (int)prng_below(&prng, 4));
        int err = 0;
        switch (prng_below(&prng, 5)) {
        case 0:
            err = h_put(&c->h, c->h.bucket, a, h_body(&c->h, prng_u64(&prng), 3 * H_BLOCK), NULL,
                        NULL);
            break;
        case 1:
            err = h_delete(&c->h, c->h.bucket, a, NULL, NULL);
            break;
        default:
            err = h_copy_keys(&c->h, a, b, NULL);
        }
        failed += err < 0 && err != -HL_ERR_NO_SUCH_KEY && err != -HL_ERR_CONDITIONAL_CONFLICT;
    }
    return NULL;
}

static uint64_t live_after_drain(void) {
    uint64_t live = 0;
    for (int i = 0; i < 100; i++) { /* the free queue drains once a second when idle */
        assert_int_equal(h_put(&store, store.bucket, "drain", slice_str("x"), NULL, NULL), 0);
        live = h_live_bytes(&store);
    }
    return live;
}

static void test_shared_runs(void **state) {
    struct client clients[THREADS];
    uint64_t before = live_after_drain();
    struct directory_usage usage;
    failed = 0;
    run_clients(share, clients);
    assert_int_equal(failed, 0);
    for (int i = 0; i < 4; i++) {
        struct slice body = SLICE_EMPTY;
        const char *key = pool_printf(store.pool, "s%d", i);
        int err = h_get(&store, store.bucket, key, &body, NULL); /* whole, whoever shares it */
        assert_true(err == 0 || err == -HL_ERR_NO_SUCH_KEY);
        assert_int_equal(h_delete(&store, store.bucket, key, NULL, NULL), 0);
    }
    assert_true(live_after_drain() < before + 3 * H_BLOCK);
    assert_int_equal(directory_usage(store.store, store.bucket, &usage), 0);
    struct object_list list;
    struct object_list_args args = {.bucket = store.bucket, .count_max = 1000};
    assert_int_equal(object_list(store.store, &args, store.pool, &list), 0);
    assert_int_equal(usage.objects, list.count);
    /* And all of it after a restart. */
    object_store_close(store.store);
    assert_int_equal(h_open(&store), 0);
    struct object_list again;
    assert_int_equal(object_list(store.store, &args, store.pool, &again), 0);
    assert_int_equal(again.count, list.count);
}

/* With a real directory of RocksDB to move aside. */
static void test_rebuild(void **state) {
    struct object_rebuild_result result;
    struct slice body = SLICE_EMPTY;
    struct object_store *second;
    assert_int_equal(h_put(&store, store.bucket, "small", slice_str("abc"), NULL, NULL), 0);
    struct slice big = h_body(&store, 5, 9 * H_BLOCK);
    assert_int_equal(h_put(&store, store.bucket, "big", big, NULL, NULL), 0);
    assert_int_equal(object_store_open(&store.env, &store.options, &second), -HL_ERR_LOCKED);
    object_store_close(store.store);
    char *kv = pool_printf(store.pool, "rm -rf %s/kv", metadata_dir);
    assert_int_equal(system(kv), 0);
    assert_true(h_open(&store) < 0); /* never an empty store in place of a lost one */
    assert_int_equal(object_rebuild(&store.env, &store.options, NULL, NULL, &result), 0);
    assert_int_equal(result.missing_bodies, 0);
    assert_int_equal(h_open(&store), 0);
    assert_int_equal(h_get(&store, store.bucket, "small", &body, NULL), 0);
    assert_true(slice_equal_str(body, "abc"));
    assert_int_equal(h_get(&store, store.bucket, "big", &body, NULL), 0);
    assert_true(slice_equal(body, big));
    assert_int_equal(object_rebuild(&store.env, &store.options, NULL, NULL, &result),
                     -HL_ERR_LOCKED); /* not under a running store */
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_winner),     cmocka_unit_test(test_counter),
        cmocka_unit_test(test_whole_versions), cmocka_unit_test(test_shared_runs),
        cmocka_unit_test(test_rebuild),
    };
    return cmocka_run_group_tests(tests, open_real, close_real);
}
