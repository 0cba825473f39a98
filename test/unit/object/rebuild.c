/* Rebuild: all metadata is thrown away and the namespace comes back from the volumes: objects of
 * all shapes, bucket names, counters, references. A rebuild that is cut at any of its steps is done
 * again. */
#include <fcntl.h>

#include "harness.h"

#define OBJECTS 12

static size_t size_of(int i) {
    static const size_t sizes[] = {0, 10, H_INLINE, H_INLINE + 1, 2 * H_BLOCK, 5 * H_BLOCK + 3};
    return sizes[i % 6];
}

static const char *name_of(struct harness *h, int i) {
    return pool_printf(h->pool, "key/%02d", i);
}

/* Twelve objects (written twice), a copy of a large one, a deleted one, a multipart one with an
 * unnamed part, an unfinished upload. */
static void fill(struct harness *h) {
    uint8_t id[16];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            uint64_t seed = (uint64_t)(i + 100 * round);
            assert_int_equal(
                h_put(h, h->bucket, name_of(h, i), h_body(h, seed, size_of(i)), NULL, NULL), 0);
        }
    }
    assert_int_equal(h_copy_keys(h, name_of(h, 5), "copy", NULL), 0);
    assert_int_equal(h_delete(h, h->bucket, name_of(h, 4), NULL, NULL), 0);
    assert_int_equal(h_upload(h, "multi", NULL, id), 0);
    assert_int_equal(h_part(h, "multi", id, 1, h_body(h, 501, 3 * H_BLOCK), NULL), 0);
    assert_int_equal(h_part(h, "multi", id, 2, h_body(h, 502, 100), NULL), 0);
    struct object_complete_part part = {.number = 2};
    struct object_complete_args args = {
        .bucket = h->bucket, .key = SLICE_LITERAL("multi"), .parts = &part, .part_count = 1};
    memcpy(args.upload_id, id, 16);
    assert_int_equal(h_complete(h, &args, NULL), 0);
    assert_int_equal(h_upload(h, "unfinished", NULL, id), 0);
    assert_int_equal(h_part(h, "unfinished", id, 1, h_body(h, 503, 3 * H_BLOCK), NULL), 0);
}

static void check_key(struct harness *h, uint64_t bucket, const char *key, uint64_t seed,
                      size_t size) {
    struct slice body = SLICE_EMPTY;
    assert_int_equal(h_get(h, bucket, key, &body, NULL), 0);
    assert_true(slice_equal(body, h_body(h, seed, size)));
}

static void check(struct harness *h) {
    struct bucket_record record;
    struct slice body = SLICE_EMPTY;
    struct directory_usage usage;
    int64_t objects = 0, bytes = 0;
    assert_int_equal(
        directory_bucket(h->store, SLICE_LITERAL("bucket"), SLICE_EMPTY, h->pool, &record), 0);
    assert_int_equal(record.id, h->bucket);
    assert_int_equal(
        directory_bucket(h->store, SLICE_LITERAL("gone"), SLICE_EMPTY, h->pool, &record),
        -HL_ERR_NO_SUCH_BUCKET);
    for (int i = 0; i < OBJECTS; i++) {
        if (i == 4) {
            assert_int_equal(h_get(h, h->bucket, name_of(h, i), &body, NULL), -HL_ERR_NO_SUCH_KEY);
            continue;
        }
        check_key(h, h->bucket, name_of(h, i), (uint64_t)(i + 100), size_of(i));
        objects++;
        bytes += (int64_t)size_of(i);
    }
    check_key(h, h->bucket, "copy", 105, size_of(5));
    check_key(h, h->bucket, "multi", 502, 100);
    assert_int_equal(directory_usage(h->store, h->bucket, &usage), 0);
    assert_int_equal(usage.objects, objects + 2);
    assert_int_equal(usage.bytes, bytes + (int64_t)size_of(5) + 100);
    assert_int_equal(usage.uploads, 0);
}

/* The original goes, the copy stays; then the copy goes as well and its blocks with it. */
static void check_references(struct harness *h) {
    assert_int_equal(h_delete(h, h->bucket, name_of(h, 5), NULL, NULL), 0);
    h_settle(h);
    check_key(h, h->bucket, "copy", 105, size_of(5));
    uint64_t before = h_live_bytes(h);
    assert_int_equal(h_delete(h, h->bucket, "copy", NULL, NULL), 0);
    h_settle(h);
    assert_true(h_live_bytes(h) + size_of(5) <= before + 1000);
    /* New writes are newer than everything before the rebuild. */
    struct object_result result;
    assert_int_equal(h_put(h, h->bucket, "new", slice_str("x"), NULL, &result), 0);
    assert_true(result.sequence > 2 * OBJECTS);
    assert_true(h_bucket(h, "later") > h->bucket);
}

static void lose_metadata(struct harness *h) {
    kv_mem_disk_free(h->kv_disk);
    h->kv_disk = kv_mem_disk_new();
    h->options.kv_mem = h->kv_disk;
}

static void prepare(struct harness *h, uint64_t seed) {
    h_start(h, seed);
    uint64_t gone = h_bucket(h, "gone");
    struct object_wait *wait = h_wait(h);
    directory_bucket_delete(h->store, gone, h->pool, object_wait_executor(wait), object_wait_done,
                            wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    fill(h);
    h_settle(h);
    object_store_close(h->store);
}

static void test_rebuild(void **state) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct harness h;
        struct object_rebuild_result result;
        prepare(&h, seed);
        lose_metadata(&h);
        assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
        assert_int_equal(result.objects, OBJECTS + 1);
        assert_int_equal(result.buckets, 1);
        assert_int_equal(result.missing_bodies, 0);
        assert_int_equal(h_open(&h), 0);
        check(&h);
        check_references(&h);
        h_done(&h);
    }
}

/* Also metadata_dir itself may be gone: the cluster's id comes from the data directory. */
static void test_lost_identity(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    prepare(&h, 7);
    lose_metadata(&h);
    h.options.metadata_dir = "/other";
    assert_int_equal(h_open(&h), -HL_ERR_WRONG_CLUSTER); /* never an empty store over old data */
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(h_open(&h), 0);
    check(&h);
    h_done(&h);
}

/* A store that is whole loses nothing by a rebuild, not even what only the log knew. */
static void test_whole(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    h_start(&h, 9);
    fill(&h);
    object_store_close(h.store);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(h_open(&h), 0);
    check(&h);
    h_done(&h);
}

/* A power cut before any checkpoint, and index and log are lost with it: no tombstone says which of
 * the versions in the volumes are dead, so the newest of a key has to win by its number. The disk
 * keeps every write here, so all versions are there to choose from. */
static void test_versions(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    h_init(&h, 31);
    sim_fs_free(h.disk);
    h.disk =
        sim_fs_new(&(struct sim_fs_options){.seed = 31, .survive_percent = 100, .tear_percent = 1});
    h.env.fs = sim_fs_fs(h.disk);
    assert_int_equal(os_mkdir_all(h.env.fs, "/data"), 0);
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    for (uint64_t version = 1; version <= 5; version++) {
        assert_int_equal(h_put(&h, h.bucket, "small", h_body(&h, version, 200), NULL, NULL), 0);
        assert_int_equal(h_put(&h, h.bucket, "large", h_body(&h, version, 2 * H_BLOCK), NULL, NULL),
                         0);
    }
    sim_fs_crash_after(h.disk, 1);
    object_store_close(h.store); /* its checkpoint fails */
    sim_fs_crash(h.disk);
    lose_metadata(&h);
    h.options.metadata_dir = "/other"; /* the log is lost as well: it could be replayed */
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.objects, 2);
    assert_true(result.skipped >= 8); /* four older versions of each */
    assert_int_equal(h_open(&h), 0);
    check_key(&h, h.bucket, "small", 5, 200);
    check_key(&h, h.bucket, "large", 5, 2 * H_BLOCK);
    h_done(&h);
}

/* A crash leaves the rebuild where it is: its memory is lost with it, which a leak checker would
 * not understand, so there the disk dies instead. */
static struct harness *crashing;
static jmp_buf crashed_at;
static void crash_now(const char *name) {
    sim_fs_crash_after(crashing->disk, 1); /* the next disk operation is the last */
#ifndef __SANITIZE_ADDRESS__
    longjmp(crashed_at, 1);
#endif
}

/* True when it was cut at point. */
static bool rebuild_until(struct harness *h, const char *point) {
    struct object_rebuild_result result;
    volatile int err = -HL_ERR_CRASHED;
    crashing = h;
    if (setjmp(crashed_at) == 0) {
        assert_true(failpoint_set(point, "crash", 1));
        err = object_rebuild(&h->env, &h->options, NULL, NULL, &result);
    }
    failpoint_clear();
    sim_fs_crash_after(h->disk, 0);
    return err < 0;
}

static void test_crash_in_rebuild(void **state) {
    static const char *const points[] = {"object.rebuild.begun",   "object.rebuild.moved",
                                         "object.rebuild.row",     "object.rebuild.rows",
                                         "object.rebuild.counted", "object.rebuild.written",
                                         "data.rebuild.dropped",   "data.rebuild.tombstones"};
    int crashes = 0, unfinished = 0;
    failpoint_set_crash_handler(crash_now);
    if (!failpoint_set("object.rebuild.begun", "crash", 1)) {
        skip(); /* built without failpoints */
    }
    failpoint_clear();
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        struct harness h;
        struct object_rebuild_result result;
        prepare(&h, 20 + i);
        lose_metadata(&h);
        if (rebuild_until(&h, points[i])) {
            crashes++;
            sim_fs_crash(h.disk);
            int err = h_open(&h);
            if (err < 0) { /* half a namespace is not served */
                assert_int_equal(err, -HL_ERR_BAD_FORMAT);
                assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
                unfinished++;
            } else { /* only the mark was still to be taken off */
                object_store_close(h.store);
            }
        }
        assert_int_equal(h_open(&h), 0);
        check(&h);
        check_references(&h);
        h_done(&h);
    }
    assert_true(crashes >= 5 && unfinished >= 2);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rebuild),
        cmocka_unit_test(test_lost_identity),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_crash_in_rebuild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
