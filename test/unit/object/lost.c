/* Metadata and data that do not belong together: an older copy of the metadata beside newer data, a
 * log or a data directory that is away. The store must refuse and change nothing, and a rebuild
 * must bring everything back that the data holds, and the access keys that an old kv holds. The
 * truth is what the test itself wrote. */
#include <fcntl.h>
#include <unistd.h>

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

/* ---- access keys and permissions ---- */

static int count_file(const char *name, bool is_dir, void *arg) {
    ++*(int *)arg;
    return 0;
}

static int count_files(struct harness *h, const char *path) {
    int count = 0;
    int err = os_list(h->env.fs, path, count_file, &count);
    return err < 0 ? -1 : count;
}

static void add_key(struct harness *h, const char *id, uint64_t bucket, uint32_t flags) {
    struct access_key_record record = {
        .id = slice_str(id), .secret = slice_str("secret"), .name = slice_str("a name")};
    struct object_wait *wait = h_wait(h);
    directory_access_key_put(h->store, &record, false, h->pool, object_wait_executor(wait),
                             object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    wait = h_wait(h);
    directory_permission_set(h->store, bucket, slice_str(id), flags, 0, h->pool,
                             object_wait_executor(wait), object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
}

static void check_access(struct harness *h, const char *id, uint64_t bucket, uint32_t flags) {
    struct access_key_record record;
    assert_int_equal(directory_access_key(h->store, slice_str(id), h->pool, &record), 0);
    assert_true(slice_equal(record.secret, slice_str("secret")));
    assert_int_equal(directory_permission(h->store, bucket, slice_str(id)), flags);
}

/* From metadata that opens, and from an old copy that is refused. There a permission on a bucket
 * that was deleted since must not be inherited by a later bucket. */
static void test_keys_kept(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    h_start(&h, 21);
    put_range(&h, 0, 3);
    uint64_t gone = h_bucket(&h, "gone");
    add_key(&h, "GK1", h.bucket, PERMISSION_READ);
    add_key(&h, "GK2", gone, PERMISSION_OWNER);
    object_store_close(h.store);
    struct kv_mem_disk *saved = save_metadata(&h);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_true(result.keys_known);
    assert_int_equal(result.keys, 2);
    assert_int_equal(result.permissions, 2);
    assert_int_equal(h_open(&h), 0);
    check_access(&h, "GK1", h.bucket, PERMISSION_READ);
    check_access(&h, "GK2", gone, PERMISSION_OWNER);
    struct object_wait *wait = h_wait(&h);
    directory_bucket_delete(h.store, gone, h.pool, object_wait_executor(wait), object_wait_done,
                            wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    put_range(&h, 0, 5);
    object_store_close(h.store);
    h.store = NULL;
    put_back(&h, saved);
    assert_int_equal(h_open(&h), -HL_ERR_CORRUPT);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.keys, 2);
    assert_int_equal(result.permissions, 1);
    assert_int_equal(h_open(&h), 0);
    check_range(&h, 0, 5);
    check_access(&h, "GK1", h.bucket, PERMISSION_READ);
    uint64_t later = h_bucket(&h, "later");
    assert_true(later > gone);
    assert_int_equal(directory_permission(h.store, later, slice_str("GK2")), 0);
    h_done(&h);
}

/* ---- on a real disk, because the twin has no directory that could be moved or damaged ---- */

struct real {
    struct harness h;
    char root[64], meta[80], data[80];
};

static void real_start(struct real *r) {
    snprintf(r->root, sizeof(r->root), "/tmp/hayloft-lost-XXXXXX");
    assert_non_null(mkdtemp(r->root));
    snprintf(r->meta, sizeof(r->meta), "%s/meta", r->root);
    snprintf(r->data, sizeof(r->data), "%s/data", r->root);
    h_init(&r->h, 31);
    r->h.env = *os_env_real();
    r->h.dir.path = r->data;
    r->h.options.metadata_dir = r->meta;
    r->h.options.kv_mem = NULL;
    assert_int_equal(h_open(&r->h), 0);
    r->h.bucket = h_bucket(&r->h, "bucket");
    put_range(&r->h, 0, OBJECTS);
    add_key(&r->h, "GK1", r->h.bucket, PERMISSION_WRITE);
    object_store_close(r->h.store);
    r->h.store = NULL;
}

static void real_done(struct real *r) {
    char command[100];
    h_done(&r->h);
    snprintf(command, sizeof(command), "rm -rf %s", r->root);
    assert_int_equal(system(command), 0);
}

static const char *meta_path(struct real *r, const char *name) {
    return pool_printf(r->h.pool, "%s/%s", r->meta, name);
}

static void rebuild_real(struct real *r, uint64_t keys) {
    struct object_rebuild_result result;
    assert_int_equal(object_rebuild(&r->h.env, &r->h.options, NULL, NULL, &result), 0);
    assert_int_equal(result.objects, OBJECTS);
    assert_int_equal(result.keys, keys);
    assert_int_equal(result.permissions, keys);
    assert_int_equal(result.keys_known, keys > 0);
    assert_int_equal(h_open(&r->h), 0);
    check_range(&r->h, 0, OBJECTS);
    if (keys > 0) {
        check_access(&r->h, "GK1", r->h.bucket, PERMISSION_WRITE);
    }
    put_range(&r->h, 0, 1); /* an entry for the log to lose */
    object_store_close(r->h.store);
    r->h.store = NULL;
}

static void test_keys_of_kv(void **state) {
    struct real r;
    struct files files = {&r.h, NULL, NULL};
    real_start(&r);
    rebuild_real(&r, 1); /* all is well */
    files.to = meta_path(&r, "log");
    assert_int_equal(os_list(r.h.env.fs, files.to, remove_file, &files), 0);
    assert_int_equal(h_open(&r.h), -HL_ERR_CORRUPT); /* the log is lost, the names are there */
    rebuild_real(&r, 1);
    /* A rebuild that was interrupted twice: what was moved first counts, not what it had half made,
     * nor what older rebuilds left. */
    assert_int_equal(os_mkdir(r.h.env.fs, meta_path(&r, "before-rebuild-3")), 0);
    assert_int_equal(
        os_rename(r.h.env.fs, meta_path(&r, "kv"), meta_path(&r, "before-rebuild-3/kv")), 0);
    assert_int_equal(os_mkdir(r.h.env.fs, meta_path(&r, "kv")), 0);
    assert_int_equal(os_file_replace(r.h.env.fs, meta_path(&r, "rebuild-begun"), "3\n", 2), 0);
    assert_int_equal(h_open(&r.h), -HL_ERR_BAD_FORMAT);
    rebuild_real(&r, 1);
    assert_int_equal(os_unlink(r.h.env.fs, meta_path(&r, "kv/CURRENT")), 0);
    rebuild_real(&r, 0); /* the names cannot be read either */
    assert_int_equal(os_rename(r.h.env.fs, meta_path(&r, "kv"), meta_path(&r, "away")), 0);
    assert_int_equal(h_open(&r.h), -HL_ERR_MISSING);
    assert_int_equal(count_files(&r.h, meta_path(&r, "kv")), -1); /* nothing in the way of it */
    rebuild_real(&r, 0);
    real_done(&r);
}

/* ---- a data directory that is away ---- */

/* A rebuild with a disk away touches nothing. */
static void test_rebuild_disk_away(void **state) {
    struct harness h;
    struct volume_dir dirs[2] = {{.path = "/data"}, {.path = "/data2"}};
    struct object_rebuild_result result;
    h_init(&h, 41);
    h.options.data.volumes.dirs = dirs;
    h.options.data.volumes.dir_count = 2;
    assert_int_equal(os_mkdir_all(h.env.fs, "/data2"), 0);
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    put_range(&h, 0, OBJECTS);
    object_store_close(h.store);
    h.store = NULL;
    int log_files = count_files(&h, "/meta/log"), meta_files = count_files(&h, "/meta");
    assert_int_equal(os_rename(h.env.fs, "/data2", "/away"), 0);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), -HL_ERR_NO_MARKER);
    assert_int_equal(count_files(&h, "/meta/log"), log_files);
    assert_int_equal(count_files(&h, "/meta"), meta_files);
    assert_int_equal(count_files(&h, "/data2"), -1);
    assert_int_equal(os_rename(h.env.fs, "/away", "/data2"), 0);
    /* Nor does one with a server on one of the directories. */
    struct os_file *lock;
    assert_int_equal(os_open(h.env.fs, "/data2/LOCK", OS_OPEN_WRITE, &lock), 0);
    assert_int_equal(os_file_lock(lock), 0);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), -HL_ERR_LOCKED);
    os_file_close(lock);
    assert_int_equal(count_files(&h, "/meta"), meta_files);
    assert_int_equal(h_open(&h), 0);
    check_range(&h, 0, OBJECTS);
    h_done(&h);
}

/* ---- files that are missing ---- */

static int newest_volume(const char *name, bool is_dir, void *arg) {
    char *newest = arg;
    if (strcmp(name, newest) > 0) {
        snprintf(newest, 32, "%s", name);
    }
    return 0;
}

/* A volume with live bytes, and the directory of volumes: named, refused, and nothing changed. */
static void test_missing_volume(void **state) {
    struct harness h;
    char name[32] = "";
    h_start(&h, 51);
    put_range(&h, 0, 3 * OBJECTS);
    h_settle(&h);
    object_store_close(h.store);
    h.store = NULL;
    assert_int_equal(os_list(h.env.fs, "/data/volumes", newest_volume, name), 0);
    const char *path = pool_printf(h.pool, "/data/volumes/%s", name);
    assert_int_equal(os_rename(h.env.fs, path, "/away.vol"), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(h_open(&h), -HL_ERR_MISSING);
    }
    assert_int_equal(os_rename(h.env.fs, "/away.vol", path), 0);
    assert_int_equal(os_rename(h.env.fs, "/data/volumes", "/away"), 0);
    assert_int_equal(h_open(&h), -HL_ERR_MISSING);
    assert_int_equal(count_files(&h, "/data/volumes"), -1);
    assert_int_equal(os_rename(h.env.fs, "/away", "/data/volumes"), 0);
    assert_int_equal(h_open(&h), 0);
    check_range(&h, 0, 3 * OBJECTS);
    h_done(&h);
}

/* One that is lost for good: a rebuild brings back what the others hold. */
static void test_lost_volume(void **state) {
    struct harness h;
    struct object_rebuild_result result;
    char name[32] = "";
    h_start(&h, 52);
    put_range(&h, 0, 3 * OBJECTS);
    h_settle(&h);
    object_store_close(h.store);
    h.store = NULL;
    assert_int_equal(os_list(h.env.fs, "/data/volumes", newest_volume, name), 0);
    assert_int_equal(os_unlink(h.env.fs, pool_printf(h.pool, "/data/volumes/%s", name)), 0);
    assert_int_equal(h_open(&h), -HL_ERR_MISSING);
    assert_int_equal(object_rebuild(&h.env, &h.options, NULL, NULL, &result), 0);
    assert_true(result.objects > 0 && result.objects < 3 * OBJECTS);
    assert_int_equal(h_open(&h), 0);
    uint64_t whole = 0;
    for (int i = 0; i < 3 * OBJECTS; i++) {
        struct slice body = SLICE_EMPTY;
        int err = h_get(&h, h.bucket, name_of(&h, i), &body, NULL);
        assert_true(err == 0 || err == -HL_ERR_NO_SUCH_KEY || err == -HL_ERR_CORRUPT);
        assert_true(err != 0 || slice_equal(body, h_body(&h, (uint64_t)i, size_of(i))));
        whole += err == 0;
    }
    assert_true(whole > 0 && whole <= result.objects);
    h_done(&h);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_metadata),    cmocka_unit_test(test_older_configuration),
        cmocka_unit_test(test_same_metadata),     cmocka_unit_test(test_order_after_rebuild),
        cmocka_unit_test(test_keys_kept),         cmocka_unit_test(test_keys_of_kv),
        cmocka_unit_test(test_rebuild_disk_away), cmocka_unit_test(test_missing_volume),
        cmocka_unit_test(test_lost_volume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
