/* Metadata and data that do not belong together: an older copy of the metadata beside newer data.
 * The store must refuse and change nothing, and a rebuild must bring everything back that the data
 * holds. The truth is what the test itself wrote. */
#include <fcntl.h>

#include "harness.h"

#define OBJECTS 20

static const char *name_of(struct harness *h, int i) {
    return pool_printf(h->pool, "key/%02d", i);
}

/* Small and large ones. */
static size_t size_of(int i) {
    return i % 3 == 0 ? 3 * H_BLOCK + 5 : 100 + (size_t)i;
}

static void put_range(struct harness *h, int first, int end) {
    for (int i = first; i < end; i++) {
        struct slice body = h_body(h, (uint64_t)i, size_of(i));
        assert_int_equal(h_put(h, h->bucket, name_of(h, i), body, NULL, NULL), 0);
    }
}

static void check_range(struct harness *h, int first, int end) {
    for (int i = first; i < end; i++) {
        struct slice body = SLICE_EMPTY;
        assert_int_equal(h_get(h, h->bucket, name_of(h, i), &body, NULL), 0);
        assert_true(slice_equal(body, h_body(h, (uint64_t)i, size_of(i))));
    }
}

/* ---- copies of the metadata ---- */

static void copy_space(struct kv *from, struct kv *to, enum kv_space space) {
    static const uint8_t first[1] = {0}, end[2] = {0xff, 0xff};
    struct kv_batch *batch = kv_batch_new(to);
    struct kv_iter *iter = kv_iter_new(from, space, slice_of(first, 1), slice_of(end, 2));
    assert_true(batch != NULL && iter != NULL);
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        kv_batch_put(batch, space, kv_iter_key(iter), kv_iter_value(iter));
    }
    assert_int_equal(kv_write(to, batch), 0);
    kv_iter_free(iter);
    kv_batch_free(batch);
}

static struct kv_mem_disk *copy_kv(struct harness *h) {
    struct kv_mem_disk *disk = kv_mem_disk_new();
    struct kv *from, *to;
    assert_int_equal(kv_open_mem(h->kv_disk, &h->random.random, &from), 0);
    assert_int_equal(kv_open_mem(disk, &h->random.random, &to), 0);
    copy_space(from, to, KV_META);
    copy_space(from, to, KV_LOCAL);
    assert_int_equal(kv_flush(to), 0);
    kv_close(from);
    kv_close(to);
    return disk;
}

struct files {
    struct harness *h;
    const char *from, *to;
};

static int copy_file(const char *name, bool is_dir, void *arg) {
    struct files *files = arg;
    struct os_fs *fs = files->h->env.fs;
    uint8_t *data;
    size_t size;
    const char *from = pool_printf(files->h->pool, "%s/%s", files->from, name);
    const char *to = pool_printf(files->h->pool, "%s/%s", files->to, name);
    assert_int_equal(os_file_load(fs, from, 4u << 20, &data, &size), 0);
    assert_int_equal(os_file_replace(fs, to, data, size), 0);
    free(data);
    return 0;
}

static int remove_file(const char *name, bool is_dir, void *arg) {
    struct files *files = arg;
    return os_unlink(files->h->env.fs, pool_printf(files->h->pool, "%s/%s", files->to, name));
}

static void copy_files(struct harness *h, const char *from, const char *to) {
    struct files files = {h, from, to};
    assert_int_equal(os_mkdir_all(h->env.fs, to), 0);
    assert_int_equal(os_list(h->env.fs, to, remove_file, &files), 0);
    assert_int_equal(os_list(h->env.fs, from, copy_file, &files), 0);
}

/* The store is closed. kv and log as they are now. */
static struct kv_mem_disk *save_metadata(struct harness *h) {
    copy_files(h, "/meta/log", "/saved-log");
    return copy_kv(h);
}

static void put_back(struct harness *h, struct kv_mem_disk *saved) {
    copy_files(h, "/saved-log", "/meta/log");
    kv_mem_disk_free(h->kv_disk);
    h->kv_disk = saved;
    h->options.kv_mem = saved;
}

/* ---- an older copy of the metadata ---- */

static void reopen(struct harness *h) {
    object_store_close(h->store);
    h->store = NULL;
    assert_int_equal(h_open(h), 0);
}

static void refuse_and_rebuild(uint64_t seed, bool settled) {
    struct harness h;
    struct object_rebuild_result result;
    h_start(&h, seed);
    put_range(&h, 0, OBJECTS);
    object_store_close(h.store);
    struct kv_mem_disk *saved = save_metadata(&h);
    assert_int_equal(h_open(&h), 0);
    put_range(&h, OBJECTS / 2, 2 * OBJECTS);
    if (settled) {
        h_settle(&h);
    }
    object_store_close(h.store);
    h.store = NULL;
    put_back(&h, saved);
    for (int i = 0; i < 3; i++) { /* nothing is called garbage meanwhile */
        assert_int_equal(h_open(&h), -HL_ERR_CORRUPT);
    }
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.objects, 2 * OBJECTS);
    assert_int_equal(result.missing_bodies, 0);
    assert_int_equal(h_open(&h), 0);
    check_range(&h, 0, 2 * OBJECTS);
    put_range(&h, 0, 3);
    h_settle(&h);
    reopen(&h);
    check_range(&h, 0, 2 * OBJECTS);
    h_done(&h);
}

static void test_older_metadata(void **state) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        refuse_and_rebuild(seed, seed % 2 == 0);
    }
}

/* Only a bucket is newer: its configuration record tells. */
static void test_older_configuration(void **state) {
    struct harness h;
    h_start(&h, 11);
    put_range(&h, 0, 3);
    object_store_close(h.store);
    struct kv_mem_disk *saved = save_metadata(&h);
    assert_int_equal(h_open(&h), 0);
    (void)h_bucket(&h, "newer");
    object_store_close(h.store);
    h.store = NULL;
    put_back(&h, saved);
    assert_int_equal(h_open(&h), -HL_ERR_CORRUPT);
    h_done(&h);
}

/* The copy of this very moment is fine, and so is any number of starts after writes, overwrites and
 * deletes, of objects and buckets. */
static void test_same_metadata(void **state) {
    struct harness h;
    h_start(&h, 12);
    for (int round = 0; round < 6; round++) {
        put_range(&h, 0, OBJECTS);
        uint64_t gone = h_bucket(&h, "gone");
        struct object_wait *wait = h_wait(&h);
        directory_bucket_delete(h.store, gone, h.pool, object_wait_executor(wait), object_wait_done,
                                wait);
        assert_int_equal(object_wait(wait, NULL), 0);
        assert_int_equal(h_delete(&h, h.bucket, name_of(&h, OBJECTS - 1), NULL, NULL), 0);
        if (round % 2 == 0) {
            h_settle(&h);
        }
        object_store_close(h.store);
        put_back(&h, save_metadata(&h));
        assert_int_equal(h_open(&h), 0);
        check_range(&h, 0, OBJECTS - 1);
    }
    h_done(&h);
}

/* The deletion of a bucket is the last commit, then a rebuild: what comes later is newer than it,
 * also for the next rebuild. */
static void test_order_after_rebuild(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    struct bucket_record record;
    h_start(&h, 13);
    put_range(&h, 0, 3);
    uint64_t gone = h_bucket(&h, "again");
    struct object_wait *wait = h_wait(&h);
    directory_bucket_delete(h.store, gone, h.pool, object_wait_executor(wait), object_wait_done,
                            wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    object_store_close(h.store);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.buckets, 1);
    assert_int_equal(h_open(&h), 0);
    uint64_t again = h_bucket(&h, "again");
    object_store_close(h.store);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.buckets, 2);
    assert_int_equal(h_open(&h), 0);
    assert_int_equal(
        directory_bucket(h.store, SLICE_LITERAL("again"), SLICE_EMPTY, h.pool, &record), 0);
    assert_int_equal(record.id, again);
    check_range(&h, 0, 3);
    h_done(&h);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_metadata),
        cmocka_unit_test(test_older_configuration),
        cmocka_unit_test(test_same_metadata),
        cmocka_unit_test(test_order_after_rebuild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
