/* Random operations against a model, with power cuts inside random disk operations. What was
 * acknowledged is there afterwards, whole; what was refused is not; the one operation in flight
 * happened or did not. Counters are exact, and when everything is deleted no body is left: shared
 * runs are freed exactly once, whatever the order. Bodies are made from a seed, so any mix-up of
 * bytes shows. */
#include <fcntl.h>

#include "harness.h"

#define KEYS    8
#define UPLOADS 64

struct value {
    bool there;
    uint64_t seed;
    size_t size;
};

struct model {
    struct value values[KEYS];
    struct value others[KEYS]; /* what an operation in flight may have made of it */
    bool unknown[KEYS];
    uint8_t uploads[UPLOADS][16];
    int upload_keys[UPLOADS];
    int upload_count;
    uint64_t next_seed;
    int done, crashed, copies, completes;
};

static const char *const names[KEYS] = {"a", "a/", "a/b", "b", "dir/x", "dir/y", "z", "\x7f"};

static struct value new_value(struct model *m, struct prng *prng) {
    static const size_t sizes[] = {
        0, 1, 100, H_INLINE - 1, H_INLINE, H_INLINE + 1, H_BLOCK, H_BLOCK + 1, 3 * H_BLOCK + 77};
    return (struct value){true, ++m->next_seed,
                          sizes[prng_below(prng, sizeof(sizes) / sizeof(sizes[0]))]};
}

/* An operation on key ended: err decides what is known. */
static void settle(struct model *m, int key, int err, struct value value) {
    if (err == 0) {
        m->values[key] = value;
        m->done++;
    } else {
        m->unknown[key] = true;
        m->others[key] = value;
    }
}

static int op_put(struct harness *h, struct model *m, struct prng *prng) {
    int key = (int)prng_below(prng, KEYS);
    struct value value = new_value(m, prng);
    int err = h_put(h, h->bucket, names[key], h_body(h, value.seed, value.size), NULL, NULL);
    settle(m, key, err, value);
    return err;
}

static int op_delete(struct harness *h, struct model *m, struct prng *prng) {
    int key = (int)prng_below(prng, KEYS);
    bool existed;
    int err = h_delete(h, h->bucket, names[key], NULL, &existed);
    if (err == 0) {
        assert_int_equal(existed, m->values[key].there);
    }
    settle(m, key, err, (struct value){0});
    return err;
}

static int op_copy(struct harness *h, struct model *m, struct prng *prng) {
    int from = (int)prng_below(prng, KEYS), to = (int)prng_below(prng, KEYS);
    int err = h_copy_keys(h, names[from], names[to], NULL);
    if (!m->values[from].there) {
        assert_true(err == -HL_ERR_NO_SUCH_KEY || sim_fs_crashed(h->disk));
        return err == -HL_ERR_NO_SUCH_KEY ? 0 : err;
    }
    settle(m, to, err, m->values[from]);
    m->copies += err == 0;
    return err;
}

/* An upload of up to three parts, one of which is named; part 2 is a copy of some object's bytes.
 */
static int op_multipart(struct harness *h, struct model *m, struct prng *prng) {
    int key = (int)prng_below(prng, KEYS), source = (int)prng_below(prng, KEYS);
    struct value value = new_value(m, prng);
    uint8_t id[16];
    if (m->upload_count == UPLOADS) {
        return 0;
    }
    int err = h_upload(h, names[key], NULL, id);
    memcpy(m->uploads[m->upload_count], id, 16);
    m->upload_keys[m->upload_count++] = key;
    if (err == 0) {
        err = h_part(h, names[key], id, 1, h_body(h, value.seed, value.size), NULL);
    }
    uint16_t number = 1;
    if (err == 0 && m->values[source].there) {
        struct object_part_copy_args copy = {.source_bucket = h->bucket,
                                             .bucket = h->bucket,
                                             .source_key = slice_str(names[source]),
                                             .key = slice_str(names[key]),
                                             .part_number = 2};
        memcpy(copy.upload_id, id, 16);
        struct object_wait *wait = h_wait(h);
        object_part_copy(h->store, &copy, h->pool, object_wait_executor(wait), object_wait_done,
                         wait);
        err = object_wait(wait, NULL);
        if (prng_below(prng, 2) == 0) {
            number = 2;
            value = m->values[source];
        }
    }
    if (err < 0 || prng_below(prng, 4) == 0) {
        return err; /* left unfinished */
    }
    struct object_complete_part part = {.number = number};
    struct object_complete_args args = {
        .bucket = h->bucket, .key = slice_str(names[key]), .parts = &part, .part_count = 1};
    memcpy(args.upload_id, id, 16);
    struct object_result result;
    err = h_complete(h, &args, &result);
    settle(m, key, err, value);
    if (err == 0) {
        m->completes++;
        assert_int_equal(result.etag.parts, 1);
        assert_int_equal(result.size, value.size);
        struct object_result again; /* a client that missed the answer */
        err = h_complete(h, &args, &again);
        if (err == 0) {
            assert_memory_equal(&again.etag, &result.etag, sizeof(again.etag));
            assert_int_equal(again.sequence, result.sequence);
        }
    }
    return err;
}

static bool holds(struct harness *h, int key, const struct value *value) {
    struct slice body = SLICE_EMPTY;
    struct object_record record;
    int err = h_get(h, h->bucket, names[key], &body, &record);
    if (!value->there) {
        return err == -HL_ERR_NO_SUCH_KEY;
    }
    return err == 0 && slice_equal(body, h_body(h, value->seed, value->size));
}

static void verify(struct harness *h, struct model *m) {
    struct directory_usage usage;
    int64_t objects = 0, bytes = 0;
    for (int key = 0; key < KEYS; key++) {
        pool_reset(h->pool);
        if (m->unknown[key] && !holds(h, key, &m->values[key])) {
            m->values[key] = m->others[key];
        }
        m->unknown[key] = false;
        assert_true(holds(h, key, &m->values[key]));
        objects += m->values[key].there;
        bytes += m->values[key].there ? (int64_t)m->values[key].size : 0;
    }
    assert_int_equal(directory_usage(h->store, h->bucket, &usage), 0);
    assert_int_equal(usage.objects, objects);
    assert_int_equal(usage.bytes, bytes);
}

static void crash(struct harness *h, struct model *m) {
    object_store_close(h->store);
    sim_fs_crash(h->disk);
    assert_int_equal(h_open(h), 0);
    m->crashed++;
    verify(h, m);
}

static int op_random(struct harness *h, struct model *m, struct prng *prng) {
    bool busy;
    switch (prng_below(prng, 10)) {
    case 0:
    case 1:
    case 2:
        return op_put(h, m, prng);
    case 3:
        return op_delete(h, m, prng);
    case 4:
    case 5:
    case 6:
        return op_copy(h, m, prng);
    case 7:
        return op_multipart(h, m, prng);
    case 8:
        return meta_checkpoint(object_meta(h->store));
    default:
        return object_step(h->store, &busy);
    }
}

/* Everything goes, and nothing stays behind. */
static void empty_all(struct harness *h, struct model *m, struct prng *prng, uint64_t live_before) {
    int first = (int)prng_below(prng, KEYS);
    struct directory_usage usage;
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(h_delete(h, h->bucket, names[(first + i * 3) % KEYS], NULL, NULL), 0);
    }
    for (int i = 0; i < m->upload_count; i++) {
        int err = h_abort(h, names[m->upload_keys[i]], m->uploads[i]);
        assert_true(err == 0 || err == -HL_ERR_NO_SUCH_UPLOAD);
    }
    assert_int_equal(directory_usage(h->store, h->bucket, &usage), 0);
    assert_int_equal(usage.objects, 0);
    assert_int_equal(usage.bytes, 0);
    assert_int_equal(usage.uploads, 0);
    assert_int_equal(usage.upload_bytes, 0);
    h_settle(h);
    /* Only what says that bodies are dead may have been added. */
    assert_true(h_live_bytes(h) <= live_before + 8192);
    struct bucket_record record;
    struct object_wait *wait = h_wait(h);
    directory_bucket_delete(h->store, h->bucket, h->pool, object_wait_executor(wait),
                            object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    assert_int_equal(
        directory_bucket(h->store, SLICE_LITERAL("bucket"), SLICE_EMPTY, h->pool, &record),
        -HL_ERR_NO_SUCH_BUCKET);
}

static void run_seed(uint64_t seed, bool crashes, struct model *m) {
    struct harness h;
    struct prng prng;
    memset(m, 0, sizeof(*m));
    prng_init(&prng, seed);
    h_start(&h, seed);
    h_settle(&h);
    uint64_t live_before = h_live_bytes(&h);
    for (int i = 0; i < 120; i++) {
        pool_reset(h.pool);
        if (crashes && prng_below(&prng, 12) == 0) {
            sim_fs_crash_after(h.disk, 1 + prng_below(&prng, 25));
        }
        int err = op_random(&h, m, &prng);
        if (err < 0) {
            if (!sim_fs_crashed(h.disk)) {
                fail_msg("seed %llu, step %d: %s", (unsigned long long)seed, i, error_name(err));
            }
            crash(&h, m);
        }
    }
    if (sim_fs_crashed(h.disk)) {
        crash(&h, m);
    }
    sim_fs_crash_after(h.disk, 0);
    verify(&h, m);
    empty_all(&h, m, &prng, live_before);
    h_done(&h);
}

/* The same, but then all metadata is lost: what comes back is what the model says, and counts and
 * names of bodies are right, because nothing is left when all of it is deleted. */
static void test_rebuild(void **state) {
    static struct model m;
    for (uint64_t seed = 500; seed < 520; seed++) {
        struct harness h;
        struct prng prng;
        struct object_rebuild_result result;
        memset(&m, 0, sizeof(m));
        prng_init(&prng, seed);
        h_start(&h, seed);
        h_settle(&h);
        uint64_t live_before = h_live_bytes(&h);
        for (int i = 0; i < 100; i++) {
            pool_reset(h.pool);
            assert_int_equal(op_random(&h, &m, &prng), 0);
        }
        object_store_close(h.store);
        kv_mem_disk_free(h.kv_disk);
        h.kv_disk = kv_mem_disk_new();
        h.options.kv_mem = h.kv_disk;
        assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
        assert_int_equal(result.missing_bodies, 0);
        assert_int_equal(h_open(&h), 0);
        verify(&h, &m);
        for (int i = 0; i < 30; i++) { /* and it goes on */
            pool_reset(h.pool);
            assert_int_equal(op_random(&h, &m, &prng), 0);
        }
        verify(&h, &m);
        empty_all(&h, &m, &prng, live_before);
        h_done(&h);
    }
}

/* Never silently wrong: after a flipped bit a read gives the right bytes or an error. */
static void test_flips(void **state) {
    struct harness h;
    struct prng prng;
    int errors = 0, flips = 0;
    prng_init(&prng, 1);
    h_start(&h, 1);
    for (int key = 0; key < KEYS; key++) {
        size_t size = key % 2 == 0 ? 700 : 3 * H_BLOCK + 5;
        assert_int_equal(
            h_put(&h, h.bucket, names[key], h_body(&h, (uint64_t)key, size), NULL, NULL), 0);
    }
    h_settle(&h);
    for (int i = 0; i < 300; i++) {
        uint64_t off = prng_below(&prng, 60000);
        unsigned bit = (unsigned)prng_below(&prng, 8);
        pool_reset(h.pool);
        if (sim_fs_flip(h.disk, "/data/volumes/000001.vol", off, bit) != 0) {
            continue; /* behind the end */
        }
        flips++;
        for (int key = 0; key < KEYS; key++) {
            struct slice body = SLICE_EMPTY;
            size_t size = key % 2 == 0 ? 700 : 3 * H_BLOCK + 5;
            int err = h_get(&h, h.bucket, names[key], &body, NULL);
            assert_true(err == 0 || err == -HL_ERR_CORRUPT);
            assert_true(err != 0 || slice_equal(body, h_body(&h, (uint64_t)key, size)));
            errors += err != 0;
        }
        sim_fs_flip(h.disk, "/data/volumes/000001.vol", off, bit); /* back */
    }
    assert_true(flips > 200 && errors > 50);
    h_done(&h);
}

static void test_model(void **state) {
    static struct model m;
    int copies = 0, completes = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        run_seed(seed, false, &m);
        copies += m.copies;
        completes += m.completes;
    }
    assert_true(copies > 100 && completes > 30);
}

static void test_crashes(void **state) {
    static struct model m;
    int crashed = 0;
    for (uint64_t seed = 1000; seed < 1060; seed++) {
        run_seed(seed, true, &m);
        crashed += m.crashed;
    }
    assert_true(crashed > 100);
}

int main(int argc, char **argv) {
    logger_set_level(argc > 1 ? LOGGER_DEBUG : LOGGER_ERROR);
    if (argc > 1) { /* replay one seed */
        static struct model m;
        uint64_t seed = strtoull(argv[1], NULL, 10);
        run_seed(seed, seed >= 1000, &m);
        return 0;
    }
    logger_set_fd(open("/dev/null", O_WRONLY)); /* every cut is reported by whoever meets it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_rebuild),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
