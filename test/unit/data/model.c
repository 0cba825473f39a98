/* Bodies against a model, over hundreds of seeds: random puts, deletes, readers, compaction, scrub,
 * checkpoints, power cuts at any disk operation (also inside recovery, checkpoint and compaction),
 * and rebuilds from the volumes alone. After each: every named object reads back, the live counters
 * equal the rows. After a rebuild: exactly the named objects are there, no deleted one. */
#include "testdata.h"

#define SEEDS      250
#define OPERATIONS 140

/* Found: a deleted head came back in a rebuild, as its first copy's volume outlived the second's.
 */
static const uint64_t kept_seeds[] = {961};

static struct store store;

/* ---- invariants ---- */

struct sums {
    int64_t live[200];
    int64_t counted[200];
    int64_t total;
};

static void sum_rows(struct store *s, struct sums *sums) {
    struct kv_iter *iter = kv_iter_new(s->kv, KV_LOCAL, SLICE_EMPTY, SLICE_EMPTY);
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        struct slice key = kv_iter_key(iter), value = kv_iter_value(iter);
        struct reader r = reader_of(value);
        struct data_place place;
        uint32_t volume;
        if (key.data[0] == DATA_ROW_CONFIG) {
            (void)reader_varint(&r);
        }
        if (key.data[0] == DATA_ROW_LOCATION || key.data[0] == DATA_ROW_CONFIG) {
            assert_true(data_place_decode(&r, &place));
            assert_true(place.location.volume < 200);
            sums->live[place.location.volume] += place.location.record_bytes;
            sums->total += place.location.record_bytes;
        } else if (key.data[0] == DATA_ROW_LIVE) {
            assert_true(data_key_parse_volume(key, &volume) && volume < 200);
            sums->counted[volume] = (int64_t)get_le64(value.data);
        }
    }
    kv_iter_free(iter);
}

static void check_all(struct store *s) {
    for (uint32_t i = 0; i < KEYS; i++) {
        if (s->objects[i].present) {
            check_object(s, &s->objects[i]);
        }
    }
    struct sums *sums = calloc(1, sizeof(*sums));
    sum_rows(s, sums);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(sums->live[i], sums->counted[i]);
    }
    struct data_stats stats;
    data_stats(s->data, &stats);
    assert_int_equal(stats.live_bytes, sums->total);
    assert_int_equal(stats.damaged_records, 0);
    free(sums);
}

/* ---- operations ---- */

/* Pending entries were never logged: after a power cut they did not happen. */
static void forget_pending(struct store *s) {
    for (uint32_t i = s->pending_count; i > 0; i--) {
        const struct entry *e = &s->pending[i - 1];
        if (e->kind != ENTRY_CONFIG) {
            s->objects[e->key] = e->old;
        }
    }
    s->pending_count = 0;
    for (uint32_t i = 0; i < CONFIGS; i++) {
        s->configs[i] = 0;
    }
    for (uint64_t i = 0; i < s->log_end; i++) {
        if (s->log[i].kind == ENTRY_CONFIG) {
            s->configs[s->log[i].key] = s->log[i].value;
        }
    }
}

static void crash(struct store *s) {
    forget_pending(s);
    store_close(s);
    for (int attempt = 0;; attempt++) {
        if (crashed(s) || prng_below(&s->prng, 2) == 0) {
            sim_fs_crash(s->sim);
        } /* else the process died and the machine lives */
        if (attempt < 4 && prng_below(&s->prng, 3) == 0) {
            sim_fs_crash_after(s->sim, 1 + prng_below(&s->prng, 20)); /* also inside recovery */
        }
        int err = store_recover(s);
        sim_fs_crash_after(s->sim, 0);
        if (err == 0 && !crashed(s)) {
            break;
        }
        assert_true(crashed(s));
        store_close(s);
    }
    check_all(s);
}

static int write_block(struct store *s, struct body_id id, uint32_t size) {
    uint8_t *bytes = malloc(size + 1);
    fill_body(id, bytes, size);
    struct data_block *block;
    int err = data_block_open(s->data, id, size + (uint32_t)prng_below(&s->prng, 3) * 100, &block);
    if (err == 0) {
        uint32_t half = (uint32_t)prng_below(&s->prng, size + 1);
        err = data_block_write(block, bytes, half);
        if (err == 0) {
            err = data_block_write(block, bytes + half, size - half);
        }
        if (err != 0) {
            data_block_abort(block);
        } else {
            err = data_block_finish(block, SLICE_LITERAL("o-block"), id.low);
        }
    }
    free(bytes);
    return err;
}

/* Writes and syncs the blocks of an object. */
static int write_blocks(struct store *s, struct object *o) {
    o->blocks = 1 + prng_below(&s->prng, 3);
    o->block_bytes = 1 + (uint32_t)prng_below(&s->prng, BLOCK_BYTES);
    o->first = data_allocate(s->data, o->blocks);
    for (uint64_t i = 0; i < o->blocks; i++) {
        int err = write_block(s, body_id_nth(o->first, i), o->block_bytes);
        if (err != 0) {
            return err;
        }
    }
    return data_sync(s->data, o->first, o->blocks);
}

/* The old object of an entry is what the model has after the pending ones. */
static void push(struct store *s, struct entry *e) {
    if (e->kind == ENTRY_CONFIG) {
        s->configs[e->key] = e->value;
        s->config_sequences[e->key] = e->sequence;
    } else {
        e->old = s->objects[e->key];
        s->objects[e->key] = e->object;
    }
    s->pending[s->pending_count++] = *e;
}

static void do_put(struct store *s) {
    struct entry e = {.kind = ENTRY_PUT, .key = (uint32_t)prng_below(&s->prng, KEYS)};
    e.object = (struct object){.present = true};
    if (prng_below(&s->prng, 4) == 0) {
        int err = write_blocks(s, &e.object);
        if (crashed(s)) {
            return;
        }
        assert_int_equal(err, 0);
        if (prng_below(&s->prng, 5) == 0) {
            data_discard(s->data, e.object.first, e.object.blocks);
            return;
        }
        if (prng_below(&s->prng, 8) == 0) {
            return; /* staged for good, until a restart */
        }
    } else {
        e.object.head_bytes =
            (uint32_t)prng_below(&s->prng, prng_below(&s->prng, 4) == 0 ? BODY_MAX : 3000);
    }
    e.object.head = data_allocate(s->data, 1);
    e.object.sequence = ++s->sequence;
    push(s, &e);
}

static void do_delete(struct store *s) {
    uint32_t key = (uint32_t)prng_below(&s->prng, KEYS);
    if (s->objects[key].present) {
        struct entry e = {.kind = ENTRY_DELETE, .key = key};
        push(s, &e);
    }
}

static void do_config(struct store *s) {
    struct entry e = {.kind = ENTRY_CONFIG,
                      .key = (uint32_t)prng_below(&s->prng, CONFIGS),
                      .sequence = ++s->sequence,
                      .value = (uint32_t)prng_below(&s->prng, 5)};
    push(s, &e);
}

static void do_turn(struct store *s) {
    if (run_turn(s) == 0 && prng_below(&s->prng, 4) == 0) {
        (void)run_turn(s); /* an idle one */
    }
}

/* A reader that looked at a row, and reads after everything was deleted under it. */
static void do_reader(struct store *s) {
    do_turn(s);
    uint32_t key = (uint32_t)prng_below(&s->prng, KEYS);
    if (crashed(s) || !s->objects[key].present) {
        return;
    }
    struct data_pin pin;
    data_pin(s->data, &pin);
    struct object seen = s->objects[key];
    struct entry e = {.kind = ENTRY_DELETE, .key = key};
    push(s, &e);
    for (int i = 0; i < 3 && !crashed(s); i++) {
        (void)run_turn(s);
    }
    if (!crashed(s)) {
        check_object(s, &seen);
    }
    data_unpin(s->data, &pin);
    for (int i = 0; i < 2 && !crashed(s); i++) {
        (void)run_turn(s);
    }
    struct data_body body;
    if (!crashed(s)) {
        assert_int_equal(data_body_open(s->data, seen.head, &body), -HL_ERR_NOT_FOUND);
        struct data_stats stats;
        data_stats(s->data, &stats);
        assert_int_equal(stats.free_queue_bytes, 0);
    }
}

static void delete_some(struct store *s) {
    for (int i = 0; i < 2; i++) {
        do_delete(s);
    }
    do_put(s);
    do_config(s);
    do_turn(s);
}

static void do_compact(struct store *s) {
    do_turn(s);
    s->before_local = prng_below(&s->prng, 3) == 0 ? delete_some : NULL;
    for (int i = 0; i < 6 && !crashed(s); i++) {
        bool busy = false;
        int err = data_compact_step(s->data, 64 << 10, &busy);
        assert_true(err == 0 || crashed(s));
        if (prng_below(&s->prng, 3) == 0 && !crashed(s)) {
            (void)checkpoint(s);
        }
    }
    s->before_local = NULL;
}

static void do_scrub(struct store *s) {
    do_turn(s);
    if (crashed(s)) {
        return;
    }
    (void)data_scrub_command(s->data, DATA_SCRUB_START);
    bool busy = true;
    for (int i = 0; i < 200 && busy && !crashed(s); i++) {
        int err = data_scrub_step(s->data, 100 << 10, &busy);
        assert_true(err == 0 || crashed(s));
    }
    if (!crashed(s)) {
        assert_false(busy);
        check_all(s);
    }
}

/* ---- rebuild ---- */

struct rebuilt {
    struct object objects[KEYS];
    uint32_t configs[CONFIGS];
};

static int take_head(void *arg, const struct data_rebuild_head *head) {
    struct rebuilt *r = arg;
    char text[32];
    unsigned number, value;
    snprintf(text, sizeof(text), "%.*s", SLICE_PRINT(head->row_key));
    if (head->kind == VOLUME_CONFIG) {
        assert_int_equal(sscanf(text, "b-config-%u", &number), 1);
        if (head->row_value.size == 0) { /* deleted */
            assert_int_equal(r->configs[number], 0);
            return 0;
        }
        snprintf(text, sizeof(text), "%.*s", SLICE_PRINT(head->row_value));
        assert_int_equal(sscanf(text, "value-%u", &value), 1);
        assert_int_equal(r->configs[number], 0);
        r->configs[number] = value;
        return 0;
    }
    assert_int_equal(sscanf(text, "o-key-%u", &number), 1);
    struct object object = object_of(head->id, head->row_value);
    if (!r->objects[number].present || r->objects[number].sequence < object.sequence) {
        r->objects[number] = object;
    }
    return 0;
}

static void compare_rebuilt(struct store *s, const struct rebuilt *r) {
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct object *a = &s->objects[i], *b = &r->objects[i];
        if (a->present != b->present || (a->present && a->sequence != b->sequence)) {
            fail_msg("key %u: present %d sequence %llu in the model, present %d sequence %llu "
                     "(head %llx-%llu) rebuilt",
                     i, a->present, (unsigned long long)a->sequence, b->present,
                     (unsigned long long)b->sequence, (unsigned long long)b->head.high,
                     (unsigned long long)b->head.low);
        }
    }
    for (uint32_t i = 0; i < CONFIGS; i++) {
        assert_int_equal(s->configs[i], r->configs[i]);
    }
}

/* What object/rebuild.c does: rows for the winners, their bodies named. */
static void write_rows(struct store *s, const struct rebuilt *r) {
    struct kv_batch *batch = kv_batch_new(s->kv);
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct object *o = &r->objects[i];
        uint8_t key[16], value[VALUE_BYTES];
        if (o->present) {
            kv_batch_put(batch, KV_META, key_of(i, key), value_of(o, value));
            assert_int_equal(data_rebuild_name(s->data, o->head, 1), 0);
            assert_int_equal(data_rebuild_name(s->data, o->first, o->blocks), 0);
        }
    }
    for (uint32_t i = 0; i < CONFIGS; i++) {
        uint8_t key[16], value[16];
        if (r->configs[i] != 0) {
            kv_batch_put(batch, KV_META, config_key_of(i, key),
                         config_value_of(r->configs[i], value));
        }
    }
    uint8_t applied[8];
    put_le64(applied, s->log_end);
    kv_batch_put(batch, KV_LOCAL, SLICE_LITERAL("Aapplied"), slice_of(applied, 8));
    assert_int_equal(kv_write(s->kv, batch), 0);
    kv_batch_free(batch);
}

/* All metadata is lost after a checkpoint (sometimes with a power cut in between). */
static void do_rebuild(struct store *s) {
    do_turn(s);
    if (crashed(s) || checkpoint(s) != 0 || crashed(s)) {
        return;
    }
    sim_fs_crash_after(s->sim, 0);
    store_close(s);
    if (prng_below(&s->prng, 2) == 0) {
        sim_fs_crash(s->sim);
    }
    kv_mem_disk_free(s->disk);
    s->disk = kv_mem_disk_new();
    s->log_start = s->log_end;
    assert_int_equal(store_open(s), 0);
    struct rebuilt *r = calloc(1, sizeof(*r));
    assert_int_equal(data_rebuild(s->data, take_head, r, NULL, NULL), 0);
    compare_rebuilt(s, r);
    write_rows(s, r);
    free(r);
    uint64_t missing = 99;
    assert_int_equal(data_rebuild_finish(s->data, &missing), 0);
    assert_int_equal(missing, 0);
    check_all(s);
    store_close(s);
    assert_int_equal(store_recover(s), 0);
    check_all(s);
}

static void step(struct store *s) {
    uint64_t op = prng_below(&s->prng, 100);
    if (op < 45) {
        do_put(s);
    } else if (op < 55) {
        do_delete(s);
    } else if (op < 60) {
        do_config(s);
    } else if (op < 72) {
        do_turn(s);
    } else if (op < 75) {
        do_reader(s);
    } else if (op < 82) {
        do_compact(s);
    } else if (op < 84) {
        do_scrub(s);
    } else if (op < 90) {
        do_turn(s);
        if (!crashed(s)) {
            (void)checkpoint(s);
        }
    } else if (op < 96) {
        sim_fs_crash_after(s->sim, 1 + prng_below(&s->prng, 30));
    } else if (op < 98) {
        crash(s);
    } else if (op < 99) {
        do_rebuild(s);
    }
}

static void run_seed(uint64_t seed) {
    struct store *s = &store;
    store_init(s, seed, 0);
    assert_int_equal(store_recover(s), 0);
    for (int i = 0; i < OPERATIONS; i++) {
        if (s->pending_count > 40) {
            do_turn(s);
        }
        step(s);
        if (crashed(s)) {
            crash(s);
        }
    }
    sim_fs_crash_after(s->sim, 0);
    do_rebuild(s);
    store_done(s);
}

static void random_operations(void **state) {
    const char *one = getenv("HAYLOFT_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t end = one != NULL ? first + 1 : SEEDS + 1;
    for (uint64_t seed = first; seed < end; seed++) {
        fprintf(stderr, "\rseed %llu (HAYLOFT_SEED=%llu replays it)", (unsigned long long)seed,
                (unsigned long long)seed);
        run_seed(seed);
    }
    for (size_t i = 0; one == NULL && i < ARRAY_COUNT(kept_seeds); i++) {
        run_seed(kept_seeds[i]);
    }
    fprintf(stderr, "\n");
}

static void print_hits(const char *name, uint64_t hits, void *arg) {
    printf("%-32s %llu\n", name, (unsigned long long)hits);
}

/* The operations above must reach every step that has a failpoint. */
static void all_steps_were_reached(void **state) {
    static const char *const names[] = {
        "data.block.finished",     "data.block.synced",          "data.turn_end.appended",
        "data.free.reclaimed",     "data.checkpoint.tombstones", "data.checkpoint.done",
        "data.compact.copied",     "data.compact.switched",      "data.compact.removed",
        "data.recover.rewrite",    "data.recover.done",          "data.compact.switching",
        "data.rebuild.tombstones", "data.rebuild.dropped",       "data.scrub.item",
        "volume.create.named",     "volume.remove.unlinked",     "volume.append.written",
        "volume.slot.header"};
    if (!failpoint_set("test.none", "error", 1) || getenv("HAYLOFT_SEED") != NULL) {
        skip(); /* built without failpoints */
    }
    failpoint_each(print_hits, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (failpoint_count(names[i]) == 0) {
            fail_msg("%s was never reached", names[i]);
        }
    }
}

int main(void) {
    if (getenv("HAYLOFT_SEED") == NULL) {
        logger_set_fd(-1); /* power cuts are loud */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations),
                                       cmocka_unit_test(all_steps_were_reached)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
