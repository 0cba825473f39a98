/* Volumes against a model, over hundreds of seeds with power cuts: what was synced reads back and
 * is met by a scan; what was not synced reads back whole or is an error; nothing ever reads as
 * other bytes. */
#include "testvolume.h"

#define SEEDS       300
#define OPERATIONS  120
#define RECORDS_MAX 2000
#define BODY_MAX    (200 << 10)

struct model_record {
    struct body_id id;
    uint32_t kind;
    uint32_t size;
    struct volume_location location;
    bool synced;
    bool gone;  /* its volume was removed, or a power cut took it */
    bool found; /* by the scan under way */
};

struct open_slot {
    struct volume_slot *slot;
    struct body_id id;
    uint32_t size, written;
};

struct model {
    struct node node;
    struct prng prng;
    struct model_record records[RECORDS_MAX];
    uint32_t count;
    uint64_t next_id;
    struct open_slot slots[3];
    uint8_t body[BODY_MAX];
    uint8_t read[BODY_MAX];
};

static struct model model;

static uint32_t random_size(struct prng *prng) {
    switch (prng_below(prng, 8)) {
    case 0:
        return 0;
    case 1:
        return (uint32_t)prng_below(prng, BODY_MAX + 1);
    case 2:
        return VOLUME_SPAN + (uint32_t)prng_below(prng, 3) - 1;
    default:
        return (uint32_t)prng_below(prng, 5000);
    }
}

static struct model_record *add_record(struct model *m, struct body_id id, uint32_t kind,
                                       uint32_t size, const struct volume_location *location) {
    assert_true(m->count < RECORDS_MAX);
    struct model_record *r = &m->records[m->count++];
    *r = (struct model_record){.id = id, .kind = kind, .size = size, .location = *location};
    return r;
}

static struct volume_record describe(struct body_id id, uint32_t kind, char key[32]) {
    int n = snprintf(key, 32, "key-%llu", (unsigned long long)id.low);
    return (struct volume_record){.id = id,
                                  .kind = kind,
                                  .origin_key = slice_of(key, (size_t)n),
                                  .origin_value = slice_of(key + 4, (size_t)n - 4)};
}

static void do_append(struct model *m) {
    uint32_t count = 1 + (uint32_t)prng_below(&m->prng, 6);
    struct volume_append appends[8];
    struct volume_location locations[8];
    char keys[8][32];
    size_t used = 0;
    if (m->count + count >= RECORDS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = random_size(&m->prng);
        if (size > BODY_MAX - used) {
            size = 10;
        }
        struct body_id id = {7, m->next_id++};
        fill_body(id, m->body + used, size);
        appends[i].record = describe(id, VOLUME_HEAD, keys[i]);
        appends[i].body = slice_of(m->body + used, size);
        used += size;
        if (used > BODY_MAX - 100) {
            count = i + 1;
        }
    }
    int err = volume_append(m->node.set, appends, count, false, locations);
    if (sim_fs_crashed(m->node.sim)) {
        return;
    }
    assert_int_equal(err, 0);
    for (uint32_t i = 0; i < count; i++) {
        add_record(m, appends[i].record.id, VOLUME_HEAD, (uint32_t)appends[i].body.size,
                   &locations[i]);
    }
}

static void finish_slot(struct model *m, struct open_slot *s) {
    char key[32];
    struct volume_record record = describe(s->id, VOLUME_BLOCK, key);
    struct volume_location location;
    int err = volume_slot_finish(TAKE_PTR(s->slot), &record, &location);
    if (!sim_fs_crashed(m->node.sim)) {
        assert_int_equal(err, 0);
        if (m->count < RECORDS_MAX) {
            add_record(m, s->id, VOLUME_BLOCK, s->written, &location);
        }
    }
}

static void do_slot(struct model *m) {
    struct open_slot *s = &m->slots[prng_below(&m->prng, 3)];
    if (s->slot == NULL) {
        s->id = (struct body_id){9, m->next_id++};
        s->size = random_size(&m->prng);
        s->written = 0;
        int err = volume_slot_open(m->node.set, s->size, 64, false, &s->slot);
        if (!sim_fs_crashed(m->node.sim)) {
            assert_int_equal(err, 0);
        }
        return;
    }
    if (prng_below(&m->prng, 12) == 0) {
        volume_slot_abort(TAKE_PTR(s->slot));
        return;
    }
    uint32_t left = s->size - s->written;
    uint32_t n = (uint32_t)prng_below(&m->prng, left + 1);
    if (prng_below(&m->prng, 3) == 0) {
        n = left;
    }
    fill_body(s->id, m->body, s->size);
    int err = volume_slot_write(s->slot, m->body + s->written, n);
    if (sim_fs_crashed(m->node.sim)) {
        return;
    }
    assert_int_equal(err, 0);
    s->written += n;
    if (prng_below(&m->prng, 2) == 0) {
        finish_slot(m, s);
    }
}

static void do_sync(struct model *m, bool all) {
    uint32_t volume =
        m->count == 0 ? 0 : m->records[prng_below(&m->prng, m->count)].location.volume;
    int err = all ? volume_sync_all(m->node.set) : volume_sync(m->node.set, volume);
    if (sim_fs_crashed(m->node.sim) || err == -HL_ERR_NOT_FOUND) {
        return;
    }
    assert_int_equal(err, 0);
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m->records[i].gone && (all || m->records[i].location.volume == volume)) {
            m->records[i].synced = true;
        }
    }
}

/* Reads a range; true when the bytes came. They are never wrong. */
static bool check_read(struct model *m, const struct model_record *r, uint32_t off, uint32_t size) {
    struct volume_file *file = volume_pin(m->node.set, r->location.volume);
    if (file == NULL) {
        return false;
    }
    memset(m->read, 0xee, size);
    int err = volume_read(file, &r->location, r->id, off, m->read, size, false);
    if (err == 0) {
        struct volume_record record;
        struct buf origin CLEANUP_BUF = {0};
        char key[32];
        struct volume_record expected = describe(r->id, r->kind, key);
        fill_body(r->id, m->body, r->size);
        assert_memory_equal(m->read, m->body + off, size);
        err = volume_read_origin(file, &r->location, &record, &origin);
        if (err == 0) {
            assert_true(slice_equal(record.origin_key, expected.origin_key));
            assert_true(slice_equal(record.origin_value, expected.origin_value));
            assert_int_equal(record.kind, r->kind);
        }
    }
    volume_unpin(file);
    return err == 0;
}

static void do_read(struct model *m) {
    if (m->count == 0) {
        return;
    }
    struct model_record *r = &m->records[prng_below(&m->prng, m->count)];
    uint32_t off = (uint32_t)prng_below(&m->prng, r->size + 1);
    uint32_t size = (uint32_t)prng_below(&m->prng, r->size - off + 1);
    bool ok = check_read(m, r, off, size);
    if (!r->gone && !sim_fs_crashed(m->node.sim)) {
        assert_true(ok);
    }
}

static int mark_found(void *arg, const struct volume_scan_item *item) {
    struct model *m = arg;
    if (item->record == NULL || item->err != 0) {
        return 0;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        struct model_record *r = &m->records[i];
        if (body_id_equal(r->id, item->record->id)) {
            assert_int_equal(r->location.off, item->location.off);
            assert_int_equal(r->location.record_bytes, item->location.record_bytes);
            r->found = true;
        }
    }
    return 0;
}

static int scan_one(void *arg, const struct volume_info *info) {
    struct model *m = arg;
    return volume_scan(m->node.set, info->volume, 0, true, mark_found, m);
}

/* Every record that must be there reads back and is met by a scan. */
static void check_all(struct model *m) {
    for (uint32_t i = 0; i < m->count; i++) {
        m->records[i].found = false;
    }
    assert_int_equal(volume_each(m->node.set, scan_one, m), 0);
    for (uint32_t i = 0; i < m->count; i++) {
        struct model_record *r = &m->records[i];
        if (r->gone) {
            continue;
        }
        bool ok = check_read(m, r, 0, r->size);
        if (r->synced) {
            assert_true(ok);
            assert_true(r->found);
        }
    }
}

/* The process dies, the machine lives: everything is still there, and the next sync makes it
 * durable although another process wrote it. */
static void do_kill(struct model *m) {
    for (int i = 0; i < 3; i++) {
        volume_slot_abort(TAKE_PTR(m->slots[i].slot));
    }
    node_close(&m->node);
    int err = node_open(&m->node, false);
    if (err != 0) {
        assert_true(sim_fs_crashed(m->node.sim));
        sim_fs_crash(m->node.sim);
        assert_int_equal(node_open(&m->node, false), 0);
        for (uint32_t i = 0; i < m->count; i++) {
            m->records[i].gone = m->records[i].gone || !m->records[i].synced;
        }
        return;
    }
    for (uint32_t i = 0; i < m->count && !sim_fs_crashed(m->node.sim); i++) {
        if (!m->records[i].gone) {
            bool ok = check_read(m, &m->records[i], 0, m->records[i].size);
            assert_true(ok || sim_fs_crashed(m->node.sim));
        }
    }
}

static void do_crash(struct model *m) {
    for (int i = 0; i < 3; i++) {
        volume_slot_abort(TAKE_PTR(m->slots[i].slot));
    }
    node_close(&m->node);
    sim_fs_crash(m->node.sim);
    assert_int_equal(node_open(&m->node, false), 0);
    check_all(m);
    /* What a power cut took never comes back as live: the index does not name it any more. */
    for (uint32_t i = 0; i < m->count; i++) {
        m->records[i].gone = m->records[i].gone || !m->records[i].synced;
    }
}

static void do_remove(struct model *m) {
    if (m->count == 0) {
        return;
    }
    uint32_t volume = m->records[prng_below(&m->prng, m->count)].location.volume;
    volume_seal(m->node.set, volume);
    if (prng_below(&m->prng, 2) == 0) {
        return;
    }
    struct volume_info info;
    if (volume_info(m->node.set, volume, &info) != 0 || info.unfinished != info.bytes) {
        return;
    }
    int err = volume_remove(m->node.set, volume);
    assert_true(err == 0 || sim_fs_crashed(m->node.sim));
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->records[i].location.volume == volume) {
            m->records[i].gone = true;
        }
    }
}

static void run_seed(uint64_t seed) {
    struct model *m = &model;
    memset(m, 0, sizeof(*m));
    prng_init(&m->prng, seed);
    m->next_id = 1;
    node_init(&m->node, seed, 0, 1 + (uint32_t)(seed % 2));
    assert_int_equal(node_open(&m->node, true), 0);
    for (int i = 0; i < OPERATIONS; i++) {
        uint64_t op = prng_below(&m->prng, 100);
        if (op < 35) {
            do_append(m);
        } else if (op < 65) {
            do_slot(m);
        } else if (op < 75) {
            do_sync(m, op < 68);
        } else if (op < 93) {
            do_read(m);
        } else if (op < 94) {
            do_remove(m);
        } else if (op < 95) {
            do_kill(m);
        } else if (op < 98) {
            sim_fs_crash_after(m->node.sim, 1 + prng_below(&m->prng, 12));
        } else {
            do_crash(m);
        }
        if (sim_fs_crashed(m->node.sim)) {
            do_crash(m);
        }
    }
    for (int i = 0; i < 3; i++) {
        volume_slot_abort(TAKE_PTR(m->slots[i].slot)); /* a scan stops in front of open slots */
    }
    check_all(m);
    node_done(&m->node);
}

static void random_operations(void **state) {
    const char *one = getenv("HAYLOFT_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t end = one != NULL ? first + 1 : SEEDS + 1;
    for (uint64_t seed = first; seed < end; seed++) {
        printf("\rseed %llu (HAYLOFT_SEED=%llu replays it)", (unsigned long long)seed,
               (unsigned long long)seed);
        run_seed(seed);
    }
    printf("\n");
}

int main(void) {
    logger_set_fd(-1); /* power cuts are loud */
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
