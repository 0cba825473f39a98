/* Real files in a temporary directory: what the simulated disk promises too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/macros.h"
#include "base/slice.h"
#include "os/env.h"

static char root[64];
static struct os_fs *fs;

static const char *in_root(const char *name) {
    static char path[4][256];
    static unsigned turn;
    char *ret = path[turn++ % 4];
    snprintf(ret, sizeof(path[0]), "%s/%s", root, name);
    return ret;
}

static int make_root(void **state) {
    snprintf(root, sizeof(root), "/tmp/hayloft-test-XXXXXX");
    fs = os_env_real()->fs;
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_entry(const char *name, bool is_dir, void *arg) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    if (is_dir) {
        os_list(fs, path, remove_entry, path);
        return os_rmdir(fs, path);
    }
    return os_unlink(fs, path);
}

static int remove_root(void **state) {
    int err = os_list(fs, root, remove_entry, root);
    return err == 0 ? os_rmdir(fs, root) : err;
}

static struct os_file *open_file(const char *name, unsigned flags) {
    struct os_file *f = NULL;
    assert_int_equal(os_open(fs, in_root(name), flags, &f), 0);
    return f;
}

static void test_open_modes(void **state) {
    struct os_file *f = NULL;
    assert_int_equal(os_open(fs, in_root("none"), OS_OPEN_READ, &f), -HL_ERR_NOT_FOUND);
    assert_null(f);
    f = open_file("a", OS_OPEN_WRITE | OS_OPEN_CREATE | OS_OPEN_EXCLUSIVE);
    int fd = os_file_fd(f);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    os_file_close(f);
    unsigned exclusive = OS_OPEN_WRITE | OS_OPEN_CREATE | OS_OPEN_EXCLUSIVE;
    assert_int_equal(os_open(fs, in_root("a"), exclusive, &f), -HL_ERR_EXISTS);
    os_file_close(NULL);
}

static void test_read_and_write(void **state) {
    struct os_file *f = open_file("rw", OS_OPEN_WRITE | OS_OPEN_CREATE);
    char text[32];
    size_t size = 99;
    uint64_t file_size;
    assert_int_equal(os_file_write(f, 5, "hello", 5), 0);
    assert_int_equal(os_file_read(f, 0, text, sizeof(text), &size), 0);
    assert_int_equal(size, 10); /* less only at the end of the file */
    assert_memory_equal(text, "\0\0\0\0\0hello", 10);
    assert_int_equal(os_file_read(f, 10, text, 1, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(os_file_size(f, &file_size), 0);
    assert_int_equal(file_size, 10);
    assert_int_equal(os_file_truncate(f, 7), 0);
    assert_int_equal(os_file_read(f, 5, text, 5, &size), 0);
    assert_int_equal(size, 2);
    assert_int_equal(os_file_sync(f), 0);
    os_file_close(f);
}

/* More vectors than one system call takes, among them empty ones. */
static void test_many_vectors(void **state) {
    enum { COUNT = 3000 };
    struct os_file *f = open_file("vectors", OS_OPEN_WRITE | OS_OPEN_CREATE);
    static struct iovec iov[COUNT];
    static uint8_t bytes[COUNT * 2], back[COUNT * 2];
    size_t total = 0, size;
    for (int i = 0; i < COUNT; i++) {
        size_t n = (size_t)i % 3;
        bytes[total] = bytes[total + 1] = (uint8_t)i;
        iov[i] = (struct iovec){bytes + total, n};
        total += n;
    }
    assert_int_equal(os_file_writev(f, 100, iov, COUNT), 0);
    assert_int_equal(os_file_read(f, 100, back, sizeof(back), &size), 0);
    assert_int_equal(size, total);
    assert_memory_equal(back, bytes, total);
    assert_int_equal(os_file_writev(f, 0, NULL, 0), 0);
    os_file_close(f);
}

static void test_read_nowait(void **state) {
    struct os_file *f = open_file("nowait", OS_OPEN_WRITE | OS_OPEN_CREATE);
    char text[8];
    size_t size = 99;
    assert_int_equal(os_file_write(f, 0, "cached", 6), 0);
    int err = os_file_read_nowait(f, 0, text, sizeof(text), &size);
    assert_true(err == 0 || err == -HL_ERR_AGAIN); /* not every file system can */
    if (err == 0) {
        assert_int_equal(size, 6);
        assert_memory_equal(text, "cached", 6);
    } else {
        assert_int_equal(size, 99);
    }
    os_file_close(f);
}

static void test_direct_read_at_the_end(void **state) {
    struct os_file *f = open_file("direct", OS_OPEN_WRITE | OS_OPEN_CREATE);
    static uint8_t bytes[5000];
    memset(bytes, 7, sizeof(bytes));
    assert_int_equal(os_file_write(f, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(os_file_sync(f), 0);
    os_file_close(f);
    f = open_file("direct", OS_OPEN_READ | OS_OPEN_DIRECT); /* or silently without */
    CLEANUP_FREE uint8_t *back = aligned_alloc(4096, 8192);
    size_t size;
    assert_int_equal(os_file_read(f, 0, back, 8192, &size), 0);
    assert_int_equal(size, 5000);
    assert_memory_equal(back, bytes, 5000);
    os_file_close(f);
}

static void test_punch(void **state) {
    struct os_file *f = open_file("punch", OS_OPEN_WRITE | OS_OPEN_CREATE);
    static uint8_t bytes[65536], back[65536], zeros[16384];
    size_t size;
    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(os_file_write(f, 0, bytes, sizeof(bytes)), 0);
    int err = os_file_punch(f, 16384, 16384);
    assert_true(err == 0 || err == -HL_ERR_UNSUPPORTED);
    assert_int_equal(os_file_read(f, 0, back, sizeof(back), &size), 0);
    assert_int_equal(size, sizeof(back)); /* the size stays */
    assert_memory_equal(back + 16384, err == 0 ? zeros : bytes, 16384);
    assert_memory_equal(back, bytes, 16384);
    assert_memory_equal(back + 32768, bytes, 32768);
    os_file_close(f);
}

static void test_lock_is_per_open(void **state) {
    struct os_file *a = open_file("lock", OS_OPEN_WRITE | OS_OPEN_CREATE);
    struct os_file *b = open_file("lock", OS_OPEN_WRITE);
    assert_int_equal(os_file_lock(a), 0);
    assert_int_equal(os_file_lock(b), -HL_ERR_LOCKED); /* although it is the same process */
    os_file_close(a);
    assert_int_equal(os_file_lock(b), 0);
    os_file_close(b);
}

static int count_entries(const char *name, bool is_dir, void *arg) {
    int *counts = arg;
    counts[is_dir]++;
    return strcmp(name, "stop") == 0 ? 42 : 0;
}

static void test_names(void **state) {
    uint64_t size;
    bool is_dir;
    assert_int_equal(os_mkdir(fs, in_root("d")), 0);
    assert_int_equal(os_mkdir(fs, in_root("d")), -HL_ERR_EXISTS);
    os_file_close(open_file("d/one", OS_OPEN_WRITE | OS_OPEN_CREATE));
    assert_int_equal(os_mkdir(fs, in_root("d/sub")), 0);
    assert_int_equal(os_rename(fs, in_root("d/one"), in_root("d/two")), 0);
    assert_int_equal(os_dir_sync(fs, in_root("d")), 0);
    assert_int_equal(os_stat(fs, in_root("d/two"), &size, &is_dir), 0);
    assert_true(size == 0 && !is_dir);
    assert_int_equal(os_stat(fs, in_root("d/one"), &size, &is_dir), -HL_ERR_NOT_FOUND);
    int counts[2] = {0, 0};
    assert_int_equal(os_list(fs, in_root("d"), count_entries, counts), 0);
    assert_true(counts[0] == 1 && counts[1] == 1);
    assert_int_equal(os_rename(fs, in_root("d/two"), in_root("d/stop")), 0);
    assert_int_equal(os_list(fs, in_root("d"), count_entries, counts), 42);
    assert_int_equal(os_list(fs, in_root("none"), count_entries, counts), -HL_ERR_NOT_FOUND);
    assert_int_equal(os_unlink(fs, in_root("none")), -HL_ERR_NOT_FOUND);
    assert_true(os_rmdir(fs, in_root("d")) < 0); /* not empty */
    assert_int_equal(os_dir_sync(fs, in_root("none")), -HL_ERR_NOT_FOUND);
}

static void test_space(void **state) {
    struct os_space space, other;
    assert_int_equal(os_space(fs, root, &space), 0);
    assert_true(space.bytes_total > 0 && space.bytes_free <= space.bytes_total);
    assert_true(space.inodes_free > 0);
    assert_int_equal(os_space(fs, root, &other), 0);
    assert_true(space.device == other.device);
    assert_int_equal(os_space(fs, in_root("none"), &space), -HL_ERR_NOT_FOUND);
}

static void test_helpers(void **state) {
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(os_mkdir_all(fs, in_root("x//y/z/")), 0);
    assert_int_equal(os_mkdir_all(fs, in_root("x/y/z")), 0); /* there already */
    assert_int_equal(os_file_replace(fs, in_root("x/y/z/f"), "old", 3), 0);
    assert_int_equal(os_file_replace(fs, in_root("x/y/z/f"), "newer", 5), 0);
    assert_int_equal(os_file_load(fs, in_root("x/y/z/f"), 5, &data, &size), 0);
    assert_int_equal(size, 5);
    assert_string_equal((char *)data, "newer"); /* a NUL is appended */
    free(data);
    data = NULL;
    assert_int_equal(os_file_load(fs, in_root("x/y/z/f"), 4, &data, &size), -HL_ERR_LIMIT);
    assert_int_equal(os_file_load(fs, in_root("x/nothing"), 4, &data, &size), -HL_ERR_NOT_FOUND);
    assert_null(data);
    int counts[2] = {0, 0};
    assert_int_equal(os_list(fs, in_root("x/y/z"), count_entries, counts), 0);
    assert_int_equal(counts[0], 1); /* no temporary file is left */
    assert_int_equal(os_mkdir_all(fs, in_root("x/y/z/f")), -HL_ERR_EXISTS); /* a file */
    assert_true(os_mkdir_all(fs, in_root("x/y/z/f/g")) < 0);
    assert_int_equal(os_mkdir_all(fs, ""), -HL_ERR_INVALID);
    assert_int_equal(os_mkdir_all(fs, "/"), 0);
}

static void test_clock_and_random(void **state) {
    struct os_env *env = os_env_real();
    uint64_t before = os_mono_us(env->clock);
    assert_true(os_mono_us(env->clock) >= before);
    assert_true(os_wall_ms(env->clock) > INT64_C(1700000000000)); /* after 2023 */
    assert_true(os_random_u64(env->random) != os_random_u64(env->random));
    struct os_clock_sim clock;
    os_clock_sim_init(&clock, 5000);
    clock.wall_ms += 7;
    clock.mono_us += 3;
    assert_true(os_wall_ms(&clock.clock) == 5007);
    assert_true(os_mono_us(&clock.clock) == 1000003);
    struct os_random_sim a, b;
    os_random_sim_init(&a, 1);
    os_random_sim_init(&b, 1);
    assert_true(os_random_u64(&a.random) == os_random_u64(&b.random));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_modes),
        cmocka_unit_test(test_read_and_write),
        cmocka_unit_test(test_many_vectors),
        cmocka_unit_test(test_read_nowait),
        cmocka_unit_test(test_direct_read_at_the_end),
        cmocka_unit_test(test_punch),
        cmocka_unit_test(test_lock_is_per_open),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_space),
        cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_clock_and_random),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
