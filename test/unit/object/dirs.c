/* Data directories that join, leave, move, or are not mounted: the first must be taken, the last
 * never written beneath. */
#include <fcntl.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "harness.h"

#define OBJECTS 20

struct dirs {
    struct harness h;
    struct volume_dir dirs[3];
};

static void set_dirs(struct dirs *d, const char *a, const char *b, const char *c) {
    const char *paths[] = {a, b, c};
    uint32_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        if (paths[i] != NULL) {
            d->dirs[count++] = (struct volume_dir){.path = paths[i]};
        }
    }
    d->h.options.data.volumes.dirs = d->dirs;
    d->h.options.data.volumes.dir_count = count;
}

static void close_store(struct dirs *d) {
    object_store_close(d->h.store);
    d->h.store = NULL;
}

static const char *name_of(struct harness *h, int i) {
    return pool_printf(h->pool, "key/%02d", i);
}

static void put_all(struct harness *h) {
    for (int i = 0; i < OBJECTS; i++) {
        struct slice body = h_body(h, (uint64_t)i, 3 * H_BLOCK);
        assert_int_equal(h_put(h, h->bucket, name_of(h, i), body, NULL, NULL), 0);
    }
}

static void check_all(struct harness *h) {
    for (int i = 0; i < OBJECTS; i++) {
        struct slice body = SLICE_EMPTY;
        assert_int_equal(h_get(h, h->bucket, name_of(h, i), &body, NULL), 0);
        assert_true(slice_equal(body, h_body(h, (uint64_t)i, 3 * H_BLOCK)));
    }
}

static int count_one(const char *name, bool is_dir, void *arg) {
    ++*(int *)arg;
    return 0;
}

static int count_names(struct harness *h, const char *path) {
    int count = 0;
    assert_int_equal(os_list(h->env.fs, path, count_one, &count), 0);
    return count;
}

/* A store on /data and /data2 with objects, closed. */
static void start_two(struct dirs *d, uint64_t seed) {
    h_init(&d->h, seed);
    set_dirs(d, "/data", "/data2", NULL);
    assert_int_equal(os_mkdir_all(d->h.env.fs, "/data2"), 0);
    assert_int_equal(h_open(&d->h), 0);
    d->h.bucket = h_bucket(&d->h, "bucket");
    put_all(&d->h);
    close_store(d);
}

/* An empty directory, one with lost+found, and one that is there no more than in the configuration.
 */
static void test_added(void **state) {
    struct dirs d;
    start_two(&d, 1);
    set_dirs(&d, "/data", "/data2", "/data3");
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER); /* a mistyped path is not made */
    uint64_t size;
    bool is_dir;
    assert_int_equal(os_stat(d.h.env.fs, "/data3", &size, &is_dir), -HL_ERR_NOT_FOUND);
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/data3/photos"), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER); /* somebody else's */
    assert_int_equal(count_names(&d.h, "/data3"), 1);
    assert_int_equal(os_rmdir(d.h.env.fs, "/data3/photos"), 0);
    assert_int_equal(os_mkdir(d.h.env.fs, "/data3/lost+found"), 0);
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    assert_true(count_names(&d.h, "/data3") > 1);
    close_store(&d);
    /* From now on it is known: the next time it is empty, its disk is away. */
    assert_int_equal(os_rename(d.h.env.fs, "/data3", "/disk"), 0);
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/data3"), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    assert_int_equal(count_names(&d.h, "/data3"), 0);
    h_done(&d.h);
}

/* Every way to have an empty directory where a known one belongs. */
static void test_unmounted(void **state) {
    struct dirs d;
    start_two(&d, 2);
    assert_int_equal(os_rename(d.h.env.fs, "/data2", "/disk"), 0);
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/data2"), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    set_dirs(&d, "/data", "/data2/", NULL); /* the same, written in another way */
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/mnt"), 0);
    set_dirs(&d, "/data", "/mnt", NULL); /* to be mounted elsewhere */
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    set_dirs(&d, "/data", "/data2", "/mnt"); /* a new one beside it */
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    assert_int_equal(os_unlink(d.h.env.fs, "/meta/data-dirs"), 0); /* an older version's store */
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    assert_int_equal(count_names(&d.h, "/data2"), 0);
    assert_int_equal(count_names(&d.h, "/mnt"), 0);
    set_dirs(&d, "/data", "/disk", NULL);
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    close_store(&d);
    set_dirs(&d, "/disk", "/data", "/mnt"); /* it is known there now, and one may join */
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    h_done(&d.h);
}

/* Out of the configuration: refused while it holds volumes, forgotten when it holds none. */
static void test_left_out(void **state) {
    struct dirs d;
    start_two(&d, 3);
    set_dirs(&d, "/data", "/data2", "/data3");
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/data3"), 0);
    assert_int_equal(h_open(&d.h), 0);
    close_store(&d);
    assert_int_equal(count_names(&d.h, "/data3/volumes"), 0);
    set_dirs(&d, "/data", "/data2", NULL);
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    close_store(&d);
    int first = count_names(&d.h, "/data/volumes"), second = count_names(&d.h, "/data2/volumes");
    assert_true(first > 0 || second > 0);
    set_dirs(&d, first > 0 ? "/data2" : "/data", NULL, NULL);
    assert_int_equal(h_open(&d.h), -HL_ERR_MISSING);
    set_dirs(&d, "/data2", "/data", NULL);
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    h_done(&d.h);
}

/* The bytes of the file: written ones by hand, and ones that another program made. */
static void test_format(void **state) {
    static const uint8_t golden[] = {
        0x48, 0x4c, 0x44, 0x31, 0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
        0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
        0x05, 0x00, 0x00, 0x00, 0x2f, 0x64, 0x61, 0x74, 0x61, 0x10, 0x11, 0x12, 0x13, 0x14,
        0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x05, 0x00, 0x00,
        0x00, 0x2f, 0x67, 0x6f, 0x6e, 0x65, 0xb2, 0x0b, 0x54, 0x54};
    struct dirs d;
    uint8_t *marker, *file;
    size_t marker_size, size;
    start_two(&d, 4);
    assert_int_equal(os_file_load(d.h.env.fs, "/meta/data-dirs", 4096, &file, &size), 0);
    assert_int_equal(size, 12 + 20 + 5 + 20 + 6 + 4);
    assert_memory_equal(file, "HLD1\1\0\0\0\2\0\0\0", 12);
    assert_int_equal(os_file_load(d.h.env.fs, "/data2/hayloft-marker", 64, &marker, &marker_size),
                     0);
    assert_memory_equal(file + 37, marker + 24, 16);
    assert_memory_equal(file + 53, "\6\0\0\0/data2", 10);
    assert_int_equal(get_le32(file + 63), crc32c(0, file, 63));
    set_dirs(&d, "/data", "/data2", "/data3");
    assert_int_equal(os_mkdir_all(d.h.env.fs, "/data3"), 0);
    /* It names /data and /gone, so nothing is new while that is not there. */
    assert_int_equal(os_file_replace(d.h.env.fs, "/meta/data-dirs", golden, sizeof(golden)), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    /* A damaged one counts as none; one of a later version is left alone. */
    memcpy(file, golden, 20);
    assert_int_equal(os_file_replace(d.h.env.fs, "/meta/data-dirs", file, size), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_NO_MARKER);
    file[4] = 2;
    put_le32(file + 63, crc32c(0, file, 63));
    assert_int_equal(os_file_replace(d.h.env.fs, "/meta/data-dirs", file, size), 0);
    assert_int_equal(h_open(&d.h), -HL_ERR_BAD_FORMAT);
    assert_int_equal(count_names(&d.h, "/data3"), 0);
    assert_int_equal(os_unlink(d.h.env.fs, "/meta/data-dirs"), 0);
    set_dirs(&d, "/data", "/data2", NULL);
    assert_int_equal(h_open(&d.h), 0);
    check_all(&d.h);
    free(marker);
    free(file);
    h_done(&d.h);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_unmounted),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
