/* Maintenance: space comes back by itself, also on a full disk; damage is found, listed, kept and
 * forgotten; scrub starts when it is due and a jumping clock does not make it start again. */
#include "testdata.h"

static struct store store;

static void put(struct store *s, uint32_t key, uint32_t bytes) {
    struct entry e = {.kind = ENTRY_PUT, .key = key, .old = s->objects[key]};
    e.object = (struct object){.present = true,
                               .head_bytes = bytes,
                               .head = data_allocate(s->data, 1),
                               .sequence = ++s->sequence};
    s->objects[key] = e.object;
    s->pending[s->pending_count++] = e;
    assert_int_equal(run_turn(s), 0);
}

static void delete_key(struct store *s, uint32_t key) {
    struct entry e = {.kind = ENTRY_DELETE, .key = key, .old = s->objects[key]};
    s->objects[key] = (struct object){0};
    s->pending[s->pending_count++] = e;
    assert_int_equal(run_turn(s), 0);
}

static void open_store(struct store *s, uint64_t seed, uint64_t capacity) {
    store_init(s, seed, capacity);
    s->options.volumes.dir_count = 1;
    assert_int_equal(store_recover(s), 0);
}

static void compact_all(struct store *s) {
    bool busy = true;
    for (int i = 0; i < 100 && busy; i++) {
        assert_int_equal(data_compact_step(s->data, 1 << 20, &busy), 0);
    }
    assert_false(busy);
}

static uint64_t used(struct store *s) {
    struct data_stats stats;
    data_stats(s->data, &stats);
    return stats.space.bytes_used;
}

static void deletes_give_space_back(void **state) {
    struct store *s = &store;
    open_store(s, 1, 0);
    s->options.volumes.volume_bytes_max = 4 << 20;
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            put(s, key, 20000);
        }
    }
    uint64_t before = used(s);
    assert_true(before > 2 << 20);
    assert_false(data_checkpoint_wanted(s->data));
    for (int i = 0; i < 3; i++) {
        compact_all(s);
        assert_true(i > 0 || data_checkpoint_wanted(s->data));
        assert_int_equal(checkpoint(s), 0);
        assert_false(data_checkpoint_wanted(s->data));
    }
    assert_true(used(s) < before / 3); /* one round of five is alive */
    for (uint32_t key = 0; key < KEYS; key++) {
        check_object(s, &s->objects[key]);
        delete_key(s, key);
    }
    for (int i = 0; i < 3; i++) {
        compact_all(s);
        assert_int_equal(checkpoint(s), 0);
    }
    assert_true(used(s) < 1200 << 10); /* less than an open volume may keep */
    store_done(s);
}

/* Fills the disk, deletes a little of everything, and compacts within the reserve. */
static void full_disk_is_compacted(void **state) {
    struct store *s = &store;
    open_store(s, 2, 3 << 20);
    uint32_t key = 0;
    while (data_admit(s->data, 24000) == 0) {
        put(s, key++ % KEYS, 20000);
    }
    struct data_block *block;
    assert_int_equal(data_block_open(s->data, data_allocate(s->data, 1), 50000, &block),
                     -HL_ERR_NO_SPACE);
    uint64_t before = used(s);
    assert_true(before > 2 << 20);
    for (int i = 0; i < 12; i++) {
        compact_all(s);
        assert_int_equal(checkpoint(s), 0);
    }
    assert_true(used(s) < before - (500 << 10));
    assert_int_equal(data_admit(s->data, 24000), 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        check_object(s, &s->objects[i]);
    }
    store_done(s);
}

static int count_damage(void *arg, const struct data_damage *damage) {
    int *count = arg;
    assert_int_equal(damage->err, -HL_ERR_CORRUPT);
    assert_true(slice_equal_str(damage->origin_key, "o-key-0003"));
    ++*count;
    return 0;
}

static int damages(struct store *s) {
    int count = 0;
    assert_int_equal(data_damage_each(s->data, count_damage, &count), 0);
    return count;
}

static void flip_body(struct store *s, uint32_t key) {
    struct data_body body;
    char path[64];
    assert_int_equal(data_body_open(s->data, s->objects[key].head, &body), 0);
    snprintf(path, sizeof(path), "/a/volumes/%06u.vol", body.location.volume);
    assert_int_equal(sim_fs_flip(s->sim, path, body.location.off + 100, 3), 0);
    data_body_done(&body);
}

static void scrub_all(struct store *s) {
    assert_int_equal(data_scrub_command(s->data, DATA_SCRUB_START), 0);
    bool busy = true;
    for (int i = 0; i < 100 && busy; i++) {
        assert_int_equal(data_scrub_step(s->data, 1 << 20, &busy), 0);
    }
    assert_false(busy);
}

/* Found by scrub, kept over a restart, never dropped by compaction, gone with the object. */
static void damage_is_found_and_kept(void **state) {
    struct store *s = &store;
    open_store(s, 3, 0);
    for (uint32_t key = 0; key < 10; key++) {
        put(s, key, 5000);
    }
    assert_int_equal(checkpoint(s), 0);
    scrub_all(s);
    assert_int_equal(damages(s), 0);
    flip_body(s, 3);
    scrub_all(s);
    assert_int_equal(damages(s), 1);
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    assert_int_equal(damages(s), 1);
    for (uint32_t key = 0; key < 10; key++) {
        if (key != 3) {
            delete_key(s, key);
        }
    }
    struct data_body body;
    assert_int_equal(data_body_open(s->data, s->objects[3].head, &body), 0);
    uint32_t volume = body.location.volume;
    data_body_done(&body);
    for (uint32_t i = 0; i < 60; i++) {
        put(s, 10 + i % 10, 20000); /* enough garbage that volumes are compacted */
    }
    for (int i = 0; i < 4; i++) {
        compact_all(s);
        assert_int_equal(checkpoint(s), 0);
    }
    assert_int_equal(data_body_open(s->data, s->objects[3].head, &body), 0);
    assert_int_equal(body.location.volume, volume);
    uint8_t bytes[5000];
    assert_int_equal(data_body_read(s->data, &body, 0, bytes, 5000, false), -HL_ERR_CORRUPT);
    data_body_done(&body);
    delete_key(s, 3);
    assert_int_equal(damages(s), 0);
    store_done(s);
}

/* A flipped header hides the record from any walk; the rows tell that it is missing. */
static void lost_header_is_found(void **state) {
    struct store *s = &store;
    open_store(s, 4, 0);
    for (uint32_t i = 0; i < 40; i++) {
        put(s, i % 20, 20000);
    }
    struct data_body body;
    char path[64];
    assert_int_equal(data_body_open(s->data, s->objects[3].head, &body), 0);
    snprintf(path, sizeof(path), "/a/volumes/%06u.vol", body.location.volume);
    assert_int_equal(sim_fs_flip(s->sim, path, body.location.off + 20, 3), 0);
    data_body_done(&body);
    scrub_all(s);
    struct data_stats stats;
    data_stats(s->data, &stats);
    assert_int_equal(stats.damaged_records, 1);
    store_done(s);
}

/* A damaged configuration record is written again from the row at the next start. */
static void config_record_is_rewritten(void **state) {
    struct store *s = &store;
    open_store(s, 5, 0);
    struct entry e = {.kind = ENTRY_CONFIG, .key = 1, .sequence = ++s->sequence, .value = 7};
    s->pending[s->pending_count++] = e;
    assert_int_equal(run_turn(s), 0);
    assert_int_equal(checkpoint(s), 0);
    assert_int_equal(sim_fs_flip(s->sim, "/a/volumes/000001.vol", 1024 + 60, 1), 0);
    store_close(s);
    uint64_t hits = failpoint_count("data.recover.config");
    assert_int_equal(store_recover(s), 0);
    if (failpoint_set("test.none", "error", 1)) {
        assert_int_equal(failpoint_count("data.recover.config"), hits + 1);
    }
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    if (failpoint_set("test.none", "error", 1)) {
        assert_int_equal(failpoint_count("data.recover.config"), hits + 1);
    }
    store_done(s);
}

static bool scrub_starts(struct store *s) {
    bool busy = false;
    assert_int_equal(data_scrub_step(s->data, 1 << 20, &busy), 0);
    struct data_stats stats;
    data_stats(s->data, &stats);
    bool started = stats.scrubbing || busy;
    for (int i = 0; i < 100 && busy; i++) {
        assert_int_equal(data_scrub_step(s->data, 1 << 20, &busy), 0);
    }
    return started;
}

static void advance(struct store *s, int64_t hours) {
    s->clock.wall_ms += hours * 3600 * 1000;
    s->clock.mono_us += (uint64_t)hours * 3600 * 1000000;
}

static void scrub_is_scheduled(void **state) {
    struct store *s = &store;
    open_store(s, 6, 0);
    struct data_stats stats;
    put(s, 1, 5000);
    assert_false(scrub_starts(s));
    data_stats(s->data, &stats);
    assert_int_equal(stats.scrub_last_ms, 0); /* never */
    advance(s, 24 * 29);
    assert_false(scrub_starts(s));
    advance(s, 25);
    assert_true(scrub_starts(s));
    assert_false(scrub_starts(s));
    data_stats(s->data, &stats);
    assert_int_equal(stats.scrub_last_ms, s->clock.wall_ms);
    assert_true(stats.scrub_bytes_done > 5000);
    assert_int_equal(stats.scrub_bytes_done, stats.scrub_bytes_total);
    for (int i = 0; i < 10; i++) { /* a wall clock gone mad: no scrub before a day has passed */
        s->clock.wall_ms += 40ll * 24 * 3600 * 1000;
        s->clock.mono_us += 3600ull * 1000000;
        assert_false(scrub_starts(s));
    }
    advance(s, 24);
    assert_true(scrub_starts(s));
    s->clock.wall_ms -= 400ll * 24 * 3600 * 1000; /* set right again */
    assert_false(scrub_starts(s));
    advance(s, 24 * 31);
    assert_true(scrub_starts(s));
    int64_t completed_ms = s->clock.wall_ms;
    assert_int_equal(checkpoint(s), 0);
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    data_stats(s->data, &stats);
    assert_int_equal(stats.scrub_last_ms, completed_ms);
    assert_int_equal(stats.scrub_bytes_done, stats.scrub_bytes_total);
    store_done(s);
}

static void scrub_keeps_its_budget(void **state) {
    struct store *s = &store;
    open_store(s, 7, 0);
    s->options.scrub_bytes_per_s = 100000;
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    for (uint32_t i = 0; i < 20; i++) {
        put(s, i, 20000);
    }
    advance(s, 24 * 31);
    bool busy;
    assert_int_equal(data_scrub_step(s->data, 50000, &busy), 0);
    struct data_stats stats;
    uint64_t last = 0;
    for (int second = 0; second < 3; second++) {
        do {
            assert_int_equal(data_scrub_step(s->data, 50000, &busy), 0);
        } while (busy);
        data_stats(s->data, &stats);
        if (second > 0 && stats.scrubbing) {
            assert_true(stats.scrub_bytes_done - last <= 100000 + 25000);
        }
        last = stats.scrub_bytes_done;
        s->clock.mono_us += 1000000;
    }
    store_done(s);
}

int main(void) {
    logger_set_fd(-1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deletes_give_space_back),    cmocka_unit_test(full_disk_is_compacted),
        cmocka_unit_test(damage_is_found_and_kept),   cmocka_unit_test(lost_header_is_found),
        cmocka_unit_test(config_record_is_rewritten), cmocka_unit_test(scrub_is_scheduled),
        cmocka_unit_test(scrub_keeps_its_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
