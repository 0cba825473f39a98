/* The simulated disk, promise by promise. The random test against a model is sim_model.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/error.h"
#include "base/macros.h"
#include "os/sim_fs.h"

#define SEEDS 200

static struct sim_fs *new_sim(uint64_t seed, uint32_t survive, uint32_t tear) {
    struct sim_fs_options options = {
        .seed = seed, .survive_percent = survive, .tear_percent = tear};
    return sim_fs_new(&options);
}

static struct os_file *open_file(struct sim_fs *sim, const char *path, unsigned flags) {
    struct os_file *f = NULL;
    assert_int_equal(os_open(sim_fs_fs(sim), path, flags, &f), 0);
    return f;
}

static struct os_file *create_file(struct sim_fs *sim, const char *path) {
    return open_file(sim, path, OS_OPEN_WRITE | OS_OPEN_CREATE);
}

/* The file's first bytes as text; "" when it is absent. */
static const char *content(struct sim_fs *sim, const char *path) {
    static char text[64];
    struct os_file *f = NULL;
    size_t size = 0;
    text[0] = 0;
    if (os_open(sim_fs_fs(sim), path, OS_OPEN_READ, &f) == 0) {
        assert_int_equal(os_file_read(f, 0, text, sizeof(text) - 1, &size), 0);
        text[size] = 0;
        os_file_close(f);
    }
    return text;
}

static bool exists(struct sim_fs *sim, const char *path) {
    uint64_t size;
    bool is_dir;
    return os_stat(sim_fs_fs(sim), path, &size, &is_dir) == 0;
}

static void test_synced_survives(void **state) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, SIM_FS_NEVER, 0);
        struct os_file *f = create_file(sim, "/f");
        assert_int_equal(os_file_write(f, 0, "kept", 4), 0);
        assert_int_equal(os_file_sync(f), 0);
        assert_int_equal(os_file_write(f, 4, "lost", 4), 0);
        assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
        assert_string_equal(content(sim, "/f"), "keptlost");
        sim_fs_crash(sim);
        assert_string_equal(content(sim, "/f"), "kept");
        os_file_close(f);
        sim_fs_free(sim);
    }
}

/* A synced file without a synced name is gone; with chance it survives. */
static void test_name_needs_dir_sync(void **state) {
    int there = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, 0, 0);
        struct os_file *f = create_file(sim, "/f");
        assert_int_equal(os_file_write(f, 0, "data", 4), 0);
        assert_int_equal(os_file_sync(f), 0);
        os_file_close(f);
        sim_fs_crash(sim);
        if (exists(sim, "/f")) {
            there++;
            assert_string_equal(content(sim, "/f"), "data"); /* its data were synced */
        }
        sim_fs_free(sim);
    }
    assert_in_range(there, SEEDS / 4, SEEDS * 3 / 4);
}

static void test_rename_and_unlink_may_be_lost(void **state) {
    int renamed = 0, unlinked = 0, both = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, 0, 0);
        struct os_fs *fs = sim_fs_fs(sim);
        os_file_close(create_file(sim, "/a"));
        os_file_close(create_file(sim, "/u"));
        assert_int_equal(os_dir_sync(fs, "/"), 0);
        assert_int_equal(os_rename(fs, "/a", "/b"), 0);
        assert_int_equal(os_unlink(fs, "/u"), 0);
        sim_fs_crash(sim);
        assert_true(exists(sim, "/a") != exists(sim, "/b")); /* never none, never both */
        renamed += exists(sim, "/b");
        unlinked += !exists(sim, "/u");
        both += exists(sim, "/b") && !exists(sim, "/u");
        sim_fs_free(sim);
    }
    assert_in_range(renamed, SEEDS / 4, SEEDS * 3 / 4);
    assert_in_range(unlinked, SEEDS / 4, SEEDS * 3 / 4);
    assert_in_range(both, SEEDS / 10, SEEDS / 2); /* independently */
}

static void test_directories(void **state) {
    struct sim_fs *sim = new_sim(1, SIM_FS_NEVER, 0);
    struct os_fs *fs = sim_fs_fs(sim);
    assert_int_equal(os_mkdir_all(fs, "a/b//c/"), 0); /* syncs each parent */
    os_file_close(create_file(sim, "/a/b/c/f"));
    assert_int_equal(os_dir_sync(fs, "/a/b/c"), 0);
    assert_int_equal(os_mkdir(fs, "/lost"), 0);
    os_file_close(create_file(sim, "/lost/f"));
    assert_int_equal(os_dir_sync(fs, "/lost"), 0); /* its own name is not synced */
    assert_int_equal(os_rmdir(fs, "/a/b"), -HL_ERR_IO);
    assert_int_equal(os_mkdir(fs, "/a/b"), -HL_ERR_EXISTS);
    struct os_file *f = NULL;
    assert_int_equal(os_open(fs, "/none/f", OS_OPEN_WRITE | OS_OPEN_CREATE, &f), -HL_ERR_NOT_FOUND);
    sim_fs_crash(sim);
    assert_true(exists(sim, "/a/b/c/f"));
    assert_false(exists(sim, "/lost"));
    assert_false(exists(sim, "/lost/f"));
    sim_fs_free(sim);
}

/* Which of ten un-synced writes survive: a string of digits per seed. */
static void survivors(uint64_t seed, uint32_t tear, char ret[11]) {
    struct sim_fs *sim = new_sim(seed, 0, tear);
    struct os_file *f = create_file(sim, "/f");
    assert_int_equal(os_file_truncate(f, 10 * 4096), 0);
    assert_int_equal(os_file_sync(f), 0);
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(os_file_write(f, (uint64_t)i * 4096, "x", 1), 0);
    }
    os_file_close(f);
    sim_fs_crash(sim);
    f = open_file(sim, "/f", OS_OPEN_READ);
    for (int i = 0; i < 10; i++) {
        size_t size;
        assert_int_equal(os_file_read(f, (uint64_t)i * 4096, ret + i, 1, &size), 0);
        ret[i] = ret[i] == 'x' ? 'x' : '.';
    }
    ret[10] = 0;
    os_file_close(f);
    sim_fs_free(sim);
}

static void test_subsets_vary_by_seed(void **state) {
    char first[11], text[11];
    int different = 0, gaps = 0;
    survivors(1, SIM_FS_NEVER, first);
    survivors(1, SIM_FS_NEVER, text);
    assert_string_equal(first, text); /* the same seed, the same disk */
    for (uint64_t seed = 2; seed < 50; seed++) {
        survivors(seed, SIM_FS_NEVER, text);
        different += strcmp(text, first) != 0;
        gaps += strstr(text, ".x") != NULL; /* a later one without an earlier one */
    }
    assert_true(different > 40);
    assert_true(gaps > 40);
}

static void test_writes_tear_at_sectors(void **state) {
    static uint8_t old[4096], fresh[4096], back[4096];
    memset(old, 'o', sizeof(old));
    memset(fresh, 'n', sizeof(fresh));
    int torn = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, 100, 50);
        struct os_file *f = create_file(sim, "/f");
        size_t size;
        assert_int_equal(os_file_write(f, 0, old, sizeof(old)), 0);
        assert_int_equal(os_file_sync(f), 0);
        assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
        assert_int_equal(os_file_write(f, 100, fresh, 3000), 0); /* not aligned */
        os_file_close(f);
        sim_fs_crash(sim);
        f = open_file(sim, "/f", OS_OPEN_READ);
        assert_int_equal(os_file_read(f, 0, back, sizeof(back), &size), 0);
        assert_int_equal(size, sizeof(back));
        bool any_old = false, any_new = false;
        for (size_t i = 0; i < size; i++) {
            bool inside = i >= 100 && i < 3100;
            assert_true(back[i] == 'o' || (inside && back[i] == 'n'));
            any_old |= inside && back[i] == 'o';
            any_new |= back[i] == 'n';
            if (inside && i > 100 && i % 512 != 0) { /* within a sector all or nothing */
                assert_int_equal(back[i], back[i - 1]);
            }
        }
        torn += any_old && any_new;
        os_file_close(f);
        sim_fs_free(sim);
    }
    assert_in_range(torn, SEEDS / 4, SEEDS * 3 / 4);
}

static void test_handles_die_in_a_crash(void **state) {
    struct sim_fs *sim = new_sim(1, 100, SIM_FS_NEVER);
    struct os_file *f = create_file(sim, "/f"), *g;
    char byte;
    size_t size;
    uint64_t file_size;
    assert_int_equal(os_file_lock(f), 0);
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    sim_fs_crash(sim);
    assert_int_equal(os_file_read(f, 0, &byte, 1, &size), -HL_ERR_CRASHED);
    assert_int_equal(os_file_write(f, 0, "x", 1), -HL_ERR_CRASHED);
    assert_int_equal(os_file_sync(f), -HL_ERR_CRASHED);
    assert_int_equal(os_file_size(f, &file_size), -HL_ERR_CRASHED);
    g = open_file(sim, "/f", OS_OPEN_WRITE);
    assert_int_equal(os_file_lock(g), 0); /* the lock died with its holder */
    os_file_close(f);                     /* and its late close does not unlock */
    f = open_file(sim, "/f", OS_OPEN_WRITE);
    assert_int_equal(os_file_lock(f), -HL_ERR_LOCKED);
    os_file_close(f);
    os_file_close(g);
    sim_fs_free(sim);
}

/* os_file_replace is cut short in each of its operations, with many seeds: the old or the new
 * content is there, whole; both occur; and a success is the new one. */
static void test_replace_is_atomic(void **state) {
    int old = 0, fresh = 0, finished = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (uint64_t cut = 1; cut <= 7; cut++) {
            struct sim_fs *sim = new_sim(seed * 100 + cut, 0, 0);
            struct os_fs *fs = sim_fs_fs(sim);
            assert_int_equal(os_file_replace(fs, "/f", "old content", 11), 0);
            sim_fs_crash_after(sim, cut);
            int err = os_file_replace(fs, "/f", "new", 3);
            assert_true(err == 0 || err == -HL_ERR_CRASHED);
            assert_true(sim_fs_crashed(sim) == (err < 0));
            sim_fs_crash(sim);
            bool is_new = strcmp(content(sim, "/f"), "new") == 0;
            assert_true(is_new || strcmp(content(sim, "/f"), "old content") == 0);
            assert_true(is_new || err < 0);
            old += !is_new;
            fresh += is_new && err < 0;
            finished += err == 0;
            sim_fs_free(sim);
        }
    }
    assert_true(old > 0 && fresh > 0 && finished > 0);
}

/* The operation in which the power goes may have reached the disk. */
static void test_crash_inside_a_write(void **state) {
    int there = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, 0, SIM_FS_NEVER);
        struct os_file *f = create_file(sim, "/f");
        assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
        uint64_t before = sim_fs_operations(sim);
        sim_fs_crash_after(sim, 2);
        assert_int_equal(os_file_truncate(f, 0), 0);
        assert_int_equal(os_file_write(f, 0, "data", 4), -HL_ERR_CRASHED);
        assert_int_equal(os_file_sync(f), -HL_ERR_CRASHED);
        assert_int_equal(os_mkdir(sim_fs_fs(sim), "/d"), -HL_ERR_CRASHED);
        assert_int_equal(sim_fs_operations(sim), before + 2);
        sim_fs_crash(sim);
        there += strcmp(content(sim, "/f"), "data") == 0;
        os_file_close(f);
        sim_fs_free(sim);
    }
    assert_in_range(there, SEEDS / 4, SEEDS * 3 / 4);
}

static void test_failed_sync_loses(void **state) {
    struct sim_fs *sim = new_sim(1, SIM_FS_NEVER, SIM_FS_NEVER);
    struct os_file *f = create_file(sim, "/f");
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    sim_fs_fail_sync(sim, 2);
    assert_int_equal(os_file_write(f, 0, "one", 3), 0);
    assert_int_equal(os_file_sync(f), 0);
    assert_int_equal(os_file_write(f, 3, "two", 3), 0);
    assert_int_equal(os_file_sync(f), -HL_ERR_IO);
    assert_string_equal(content(sim, "/f"), "onetwo"); /* still in the page cache */
    assert_int_equal(os_file_sync(f), 0);              /* and the next sync knows nothing */
    sim_fs_crash(sim);
    assert_string_equal(content(sim, "/f"), "one");
    os_file_close(f);
    sim_fs_free(sim);
}

static void test_failed_write_and_read(void **state) {
    struct sim_fs *sim = new_sim(1, 0, 0);
    struct os_file *f = create_file(sim, "/f");
    char text[8];
    size_t size = 0;
    sim_fs_fail_write(sim, 2, -HL_ERR_NO_SPACE);
    assert_int_equal(os_file_write(f, 0, "12345678", 8), 0);
    assert_int_equal(os_file_write(f, 0, "abcdefgh", 8), -HL_ERR_NO_SPACE);
    assert_int_equal(os_file_write(f, 0, "12345678", 8), 0);
    assert_int_equal(sim_fs_fail_read(sim, "/f", 4, 2), 0);
    assert_int_equal(os_file_read(f, 0, text, 8, &size), -HL_ERR_IO);
    assert_int_equal(os_file_read(f, 5, text, 1, &size), -HL_ERR_IO);
    assert_int_equal(os_file_read(f, 0, text, 4, &size), 0);
    assert_int_equal(os_file_read(f, 6, text, 2, &size), 0);
    sim_fs_heal_reads(sim);
    assert_int_equal(os_file_read(f, 0, text, 8, &size), 0);
    assert_memory_equal(text, "12345678", 8);
    assert_int_equal(sim_fs_fail_read(sim, "/g", 0, 1), -HL_ERR_NOT_FOUND);
    os_file_close(f);
    sim_fs_free(sim);
}

static void test_flip(void **state) {
    struct sim_fs *sim = new_sim(1, 0, 0);
    struct os_file *f = create_file(sim, "/f");
    assert_int_equal(os_file_write(f, 0, "abc", 3), 0);
    assert_int_equal(os_file_sync(f), 0);
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    assert_int_equal(sim_fs_flip(sim, "/f", 1, 5), 0);
    assert_string_equal(content(sim, "/f"), "aBc");
    assert_int_equal(sim_fs_flip(sim, "/f", 3, 0), -HL_ERR_LIMIT);
    assert_int_equal(sim_fs_flip(sim, "/g", 0, 0), -HL_ERR_NOT_FOUND);
    os_file_close(f);
    sim_fs_crash(sim);
    assert_string_equal(content(sim, "/f"), "aBc"); /* on the disk, not in a cache */
    sim_fs_free(sim);
}

static void test_capacity(void **state) {
    struct sim_fs_options options = {.seed = 1, .capacity_bytes = 1 << 20};
    struct sim_fs *sim = sim_fs_new(&options);
    struct os_fs *fs = sim_fs_fs(sim);
    struct os_file *f = create_file(sim, "/f");
    static uint8_t block[65536];
    struct os_space space;
    uint64_t off = 0;
    int err;
    while ((err = os_file_write(f, off, block, sizeof(block))) == 0) {
        off += sizeof(block);
    }
    assert_int_equal(err, -HL_ERR_NO_SPACE);
    assert_int_equal(off, 1 << 20);
    assert_int_equal(os_file_write(f, 0, block, sizeof(block)), 0); /* over what is there */
    assert_int_equal(os_space(fs, "/", &space), 0);
    assert_true(space.bytes_total == 1 << 20 && space.bytes_free == 0);
    assert_int_equal(os_file_punch(f, 0, 65536), 0);
    assert_int_equal(os_space(fs, "/", &space), 0);
    assert_int_equal(space.bytes_free, 65536);
    assert_int_equal(os_file_truncate(f, 0), 0);
    assert_int_equal(os_space(fs, "/", &space), 0);
    assert_int_equal(space.bytes_free, 1 << 20);
    assert_int_equal(os_file_write(f, 0, block, 4096), 0);
    os_file_close(f);
    assert_int_equal(os_unlink(fs, "/f"), 0);
    sim_fs_free(sim);
}

/* A volume of 1 GiB costs what was written to it. */
static void test_sparse(void **state) {
    struct sim_fs *sim = new_sim(1, 0, 0);
    struct os_file *f = create_file(sim, "/v");
    char text[4];
    size_t size;
    struct os_space space;
    assert_int_equal(os_file_truncate(f, 1 << 30), 0);
    assert_int_equal(os_file_write(f, (1 << 30) - 4, "tail", 4), 0);
    assert_int_equal(os_file_sync(f), 0);
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    assert_int_equal(os_space(sim_fs_fs(sim), "/", &space), 0);
    assert_true(space.bytes_total - space.bytes_free <= 65536);
    os_file_close(f);
    sim_fs_crash(sim);
    f = open_file(sim, "/v", OS_OPEN_READ);
    assert_int_equal(os_file_read(f, (1 << 30) - 4, text, 4, &size), 0);
    assert_memory_equal(text, "tail", 4);
    assert_int_equal(os_file_read(f, 1 << 29, text, 4, &size), 0);
    assert_memory_equal(text, "\0\0\0\0", 4);
    os_file_close(f);
    sim_fs_free(sim);
}

static void test_dsync_is_sure(void **state) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_fs *sim = new_sim(seed, 0, 0);
        struct os_file *plain = create_file(sim, "/f");
        struct os_file *f = open_file(sim, "/f", OS_OPEN_WRITE | OS_OPEN_DSYNC);
        assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
        assert_int_equal(os_file_write(plain, 0, "????", 4), 0);
        assert_int_equal(os_file_write(f, 0, "sure", 4), 0);
        sim_fs_crash(sim);
        assert_string_equal(content(sim, "/f"), "sure");
        os_file_close(f);
        os_file_close(plain);
        sim_fs_free(sim);
    }
}

static void test_kill_and_power_off(void **state) {
    struct sim_fs *sim = new_sim(1, SIM_FS_NEVER, 0);
    struct os_file *f = create_file(sim, "/f");
    assert_int_equal(os_file_write(f, 0, "cached", 6), 0);
    assert_int_equal(os_file_lock(f), 0);
    sim_fs_kill(sim);
    assert_int_equal(os_file_sync(f), -HL_ERR_CRASHED);
    assert_string_equal(content(sim, "/f"), "cached"); /* the machine runs on */
    os_file_close(f);
    f = open_file(sim, "/f", OS_OPEN_WRITE);
    assert_int_equal(os_file_lock(f), 0);
    assert_int_equal(os_dir_sync(sim_fs_fs(sim), "/"), 0);
    sim_fs_power_off(sim);
    assert_true(sim_fs_crashed(sim));
    assert_int_equal(os_file_sync(f), -HL_ERR_CRASHED);
    assert_false(exists(sim, "/f"));
    os_file_close(f);
    sim_fs_crash(sim);
    assert_true(exists(sim, "/f"));
    assert_string_equal(content(sim, "/f"), ""); /* its bytes were never synced */
    sim_fs_free(sim);
}

static void *write_in_thread(void *arg) {
    struct os_file *f = arg;
    static _Atomic uint64_t turn;
    for (int i = 0; i < 500; i++) {
        uint64_t off = turn++ * 8;
        if (os_file_write(f, off, "12345678", 8) < 0 || (i % 50 == 0 && os_file_sync(f) < 0)) {
            return arg;
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    struct sim_fs *sim = new_sim(1, 0, 0);
    struct os_file *f = create_file(sim, "/f");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_in_thread, f), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (uint64_t i = 0; i < 2000; i++) {
        char text[8];
        size_t size;
        assert_int_equal(os_file_read(f, i * 8, text, 8, &size), 0);
        assert_memory_equal(text, "12345678", 8);
    }
    os_file_close(f);
    sim_fs_free(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synced_survives),
        cmocka_unit_test(test_name_needs_dir_sync),
        cmocka_unit_test(test_rename_and_unlink_may_be_lost),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_subsets_vary_by_seed),
        cmocka_unit_test(test_writes_tear_at_sectors),
        cmocka_unit_test(test_handles_die_in_a_crash),
        cmocka_unit_test(test_replace_is_atomic),
        cmocka_unit_test(test_crash_inside_a_write),
        cmocka_unit_test(test_failed_sync_loses),
        cmocka_unit_test(test_failed_write_and_read),
        cmocka_unit_test(test_flip),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_dsync_is_sure),
        cmocka_unit_test(test_kill_and_power_off),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
