/* All threads at once: uploads, readers, turns, compaction, scrub and checkpoints on one store.
 * Every byte read must be right; at the end nothing is lost and nothing stays queued. Run under the
 * thread sanitizer, too. */
#include <pthread.h>
#include <stdatomic.h>

#include "testdata.h"

#define WRITERS 4
#define ROUNDS  100
#define SLOTS   (WRITERS * 2)

struct shared {
    struct store *store;
    pthread_mutex_t turn; /* held by whoever is "the apply thread" */
    struct object objects[SLOTS];
    pthread_mutex_t names; /* guards objects: the rows of the names */
    _Atomic bool stop;
};

static struct store store;
static struct shared shared = {
    .store = &store, .turn = PTHREAD_MUTEX_INITIALIZER, .names = PTHREAD_MUTEX_INITIALIZER};

static int run_locked(void *ctx, data_local_fn fn, void *arg) {
    struct shared *sh = ctx;
    pthread_mutex_lock(&sh->turn);
    struct kv_batch *batch = kv_batch_new(sh->store->kv);
    int err = fn(arg, batch);
    if (err == 0) {
        err = kv_write(sh->store->kv, batch);
    }
    kv_batch_free(batch);
    pthread_mutex_unlock(&sh->turn);
    return err;
}

/* A turn with one entry: names the object in slot, frees the one before. */
static void commit(struct shared *sh, uint32_t slot, const struct object *object) {
    struct data *data = sh->store->data;
    uint8_t key[16], value[VALUE_BYTES], *body = malloc(BODY_MAX);
    pthread_mutex_lock(&sh->turn);
    struct kv_batch *batch = kv_batch_new(sh->store->kv);
    struct object old = sh->objects[slot];
    fill_body(object->head, body, object->head_bytes);
    CHECK(data_apply_head(data, batch, object->head, key_of(slot, key), value_of(object, value),
                          slice_of(body, object->head_bytes), false) == 0);
    CHECK(data_apply_commit(data, batch, object->first, object->blocks) == 0);
    if (old.present) {
        CHECK(data_apply_free(data, batch, old.head, 1, true) == 0);
        CHECK(data_apply_free(data, batch, old.first, old.blocks, false) == 0);
    }
    CHECK(data_turn_end(data, batch) == 0);
    pthread_mutex_lock(&sh->names); /* name and rows change together */
    CHECK(kv_write(sh->store->kv, batch) == 0);
    sh->objects[slot] = *object;
    pthread_mutex_unlock(&sh->names);
    data_turn_applied(data);
    kv_batch_free(batch);
    pthread_mutex_unlock(&sh->turn);
    free(body);
}

static void *write_main(void *arg) {
    static _Atomic uint32_t next_writer;
    struct shared *sh = arg;
    struct data *data = sh->store->data;
    uint32_t me = atomic_fetch_add(&next_writer, 1) % WRITERS;
    uint8_t *bytes = malloc(BLOCK_BYTES);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct object o = {.present = true,
                           .sequence = round,
                           .blocks = 1 + round % 3,
                           .head_bytes = 100 + round % 40 * 100,
                           .block_bytes = 1000 + round % 40 * 1000};
        o.first = data_allocate(data, o.blocks);
        o.head = data_allocate(data, 1);
        for (uint64_t i = 0; i < o.blocks; i++) {
            struct data_block *block;
            struct body_id id = body_id_nth(o.first, i);
            fill_body(id, bytes, o.block_bytes);
            CHECK(data_block_open(data, id, o.block_bytes, &block) == 0);
            CHECK(data_block_write(block, bytes, o.block_bytes / 2) == 0);
            CHECK(data_block_write(block, bytes + o.block_bytes / 2,
                                   o.block_bytes - o.block_bytes / 2) == 0);
            CHECK(data_block_finish(block, SLICE_LITERAL("o-key"), i) == 0);
        }
        CHECK(data_sync(data, o.first, o.blocks) == 0);
        commit(sh, me * 2 + round % 2, &o);
    }
    free(bytes);
    return NULL;
}

static void read_object(struct data *data, const struct object *o) {
    uint8_t *bytes = malloc(BLOCK_BYTES), *expected = malloc(BLOCK_BYTES);
    for (uint64_t i = 0; i <= o->blocks; i++) {
        struct body_id id = i == o->blocks ? o->head : body_id_nth(o->first, i);
        uint32_t size = i == o->blocks ? o->head_bytes : o->block_bytes;
        struct data_body body;
        CHECK(data_body_open(data, id, &body) == 0);
        CHECK(data_body_read(data, &body, 0, bytes, size, false) == 0);
        fill_body(id, expected, size);
        CHECK(memcmp(bytes, expected, size) == 0);
        data_body_done(&body);
    }
    free(bytes);
    free(expected);
}

static void *read_main(void *arg) {
    struct shared *sh = arg;
    struct data *data = sh->store->data;
    for (uint32_t i = 0; !atomic_load(&sh->stop); i++) {
        struct data_pin pin;
        data_pin(data, &pin);
        pthread_mutex_lock(&sh->names);
        struct object o = sh->objects[i % SLOTS];
        pthread_mutex_unlock(&sh->names);
        if (o.present) {
            read_object(data, &o);
        }
        data_unpin(data, &pin);
    }
    return NULL;
}

static void *maintain_main(void *arg) {
    struct shared *sh = arg;
    struct data *data = sh->store->data;
    while (!atomic_load(&sh->stop)) {
        bool busy;
        CHECK(data_compact_step(data, 100 << 10, &busy) == 0);
        CHECK(data_scrub_step(data, 100 << 10, &busy) == 0);
        if (!busy) {
            CHECK(data_scrub_command(data, DATA_SCRUB_START) == 0);
        }
    }
    return NULL;
}

static void *checkpoint_main(void *arg) {
    struct shared *sh = arg;
    struct data *data = sh->store->data;
    while (!atomic_load(&sh->stop)) {
        CHECK(run_locked(sh, begin_checkpoint, data) == 0);
        CHECK(data_checkpoint_sync(data) == 0);
        CHECK(kv_flush(sh->store->kv) == 0);
        CHECK(data_checkpoint_done(data) == 0);
        struct data_stats stats;
        data_stats(data, &stats);
    }
    return NULL;
}

static void idle_turn(void) {
    struct kv_batch *batch = kv_batch_new(store.kv);
    assert_int_equal(data_turn_end(store.data, batch), 0);
    assert_int_equal(kv_write(store.kv, batch), 0);
    data_turn_applied(store.data);
    kv_batch_free(batch);
}

static void all_at_once(void **state) {
    store_init(&store, 2, 0);
    assert_int_equal(store_recover(&store), 0);
    data_set_local_runner(store.data, run_locked, &shared);
    pthread_t writers[WRITERS], others[4];
    void *(*const mains[4])(void *) = {read_main, read_main, maintain_main, checkpoint_main};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&others[i], NULL, mains[i], &shared), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&writers[i], NULL, write_main, &shared), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i], NULL);
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < 4; i++) {
        pthread_join(others[i], NULL);
    }
    idle_turn();
    idle_turn();
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_true(shared.objects[i].present);
        read_object(store.data, &shared.objects[i]);
    }
    struct data_stats stats;
    data_stats(store.data, &stats);
    assert_int_equal(stats.free_queue_bytes, 0);
    assert_int_equal(stats.staged_bytes, 0);
    assert_int_equal(stats.damaged_records, 0);
    printf("%llu bytes compacted\n", (unsigned long long)stats.compacted_bytes);
    store_done(&store);
}

int main(void) {
    logger_set_fd(-1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
