/* The simulated disk against a model, with random operations and crashes.
 *
 * The model shares no code and no structure with the disk: for each file it keeps the bytes as last
 * synced and, for each byte, which values un-synced operations may have left there; for each name,
 * which files it may belong to after a crash. What the disk shows after a crash must be allowed by
 * that, and where nothing is un-synced only one answer is allowed. Each file begins with a number
 * that is synced before anything else happens to it, so that it can be told after a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "base/error.h"
#include "base/macros.h"
#include "base/prng.h"
#include "os/sim_fs.h"

#define SEEDS     150
#define OPS       120
#define NAMES     6
#define FILES_MAX 128
#define BYTES_MAX 4096
#define HEAD      16 /* bytes of the number; never touched again */

struct model_file {
    uint8_t seen[BYTES_MAX], synced[BYTES_MAX];
    uint64_t size, synced_size;
    /* What an un-synced operation may have left: a bit for each value, beside the synced one. */
    uint8_t may_be[BYTES_MAX][32];
    bool pending;         /* any un-synced operation */
    bool shrunk;          /* an un-synced truncate below the synced size */
    uint64_t largest_end; /* of the un-synced operations */
};

struct model {
    struct prng prng;
    struct sim_fs *sim;
    struct os_fs *fs;
    struct model_file *files;
    int file_count;
    int seen[NAMES], durable[NAMES]; /* file, or -1 */
    bool may_hold[NAMES][FILES_MAX]; /* by un-synced name operations */
    bool may_lack[NAMES];
    bool name_pending[2]; /* per directory */
    uint64_t checked_bytes, lost, kept, odd;
};

/* Names 0 to 2 are in /a, 3 to 5 in /b. */
static const char *path_of(int name) {
    static const char *const paths[NAMES] = {"/a/0", "/a/1", "/a/2", "/b/3", "/b/4", "/b/5"};
    return paths[name];
}

static void allow(struct model_file *file, uint64_t at, uint8_t value) {
    file->may_be[at][value / 8] |= (uint8_t)(1 << value % 8);
}

static bool allowed(const struct model_file *file, uint64_t at, uint8_t value) {
    uint8_t synced = at < file->synced_size ? file->synced[at] : 0;
    return value == synced || (file->may_be[at][value / 8] >> value % 8 & 1) != 0;
}

static void settle_file(struct model_file *file) {
    memcpy(file->synced, file->seen, BYTES_MAX);
    memset(file->may_be, 0, sizeof(file->may_be));
    file->synced_size = file->size;
    file->pending = file->shrunk = false;
    file->largest_end = 0;
}

/* Opens by name; the call counts against the crash clock only when it creates. */
static struct os_file *open_name(struct model *m, int name, unsigned flags) {
    struct os_file *f = NULL;
    int err = os_open(m->fs, path_of(name), flags, &f);
    assert_true(err == 0 || err == -HL_ERR_CRASHED);
    return f;
}

/* ---- operations: each returns false when the power went ---- */

static bool model_write(struct model *m, int name) {
    struct model_file *file = &m->files[m->seen[name]];
    uint64_t off = HEAD + prng_below(&m->prng, BYTES_MAX - HEAD);
    uint64_t size = 1 + prng_below(&m->prng, MIN(BYTES_MAX - off, (uint64_t)1500));
    uint8_t bytes[1500];
    prng_bytes(&m->prng, bytes, size);
    struct os_file *f = open_name(m, name, OS_OPEN_WRITE);
    int err = os_file_write(f, off, bytes, size);
    os_file_close(f);
    for (uint64_t i = off; i < off + size; i++) {
        file->seen[i] = bytes[i - off];
        allow(file, i, bytes[i - off]);
    }
    for (uint64_t i = file->synced_size; i < off; i++) {
        allow(file, i, 0);
    }
    file->pending = true;
    file->size = MAX(file->size, off + size);
    file->largest_end = MAX(file->largest_end, off + size);
    return err == 0;
}

static bool model_truncate(struct model *m, int name) {
    struct model_file *file = &m->files[m->seen[name]];
    uint64_t size = HEAD + prng_below(&m->prng, BYTES_MAX - HEAD);
    struct os_file *f = open_name(m, name, OS_OPEN_WRITE);
    int err = os_file_truncate(f, size);
    os_file_close(f);
    for (uint64_t i = HEAD; i < BYTES_MAX; i++) {
        if (i >= size) {
            file->seen[i] = 0;
            allow(file, i, 0);
        }
    }
    file->pending = true;
    file->shrunk |= size < file->synced_size;
    file->size = size;
    file->largest_end = MAX(file->largest_end, size);
    return err == 0;
}

static bool model_punch(struct model *m, int name) {
    struct model_file *file = &m->files[m->seen[name]];
    uint64_t off = HEAD + prng_below(&m->prng, BYTES_MAX - HEAD);
    uint64_t size = prng_below(&m->prng, 2 * BYTES_MAX);
    struct os_file *f = open_name(m, name, OS_OPEN_WRITE);
    int err = os_file_punch(f, off, size);
    os_file_close(f);
    for (uint64_t i = off; i < MIN(off + size, (uint64_t)BYTES_MAX); i++) {
        file->seen[i] = 0;
        allow(file, i, 0);
    }
    file->pending = true;
    return err == 0;
}

static bool model_sync(struct model *m, int name) {
    struct os_file *f = open_name(m, name, OS_OPEN_WRITE);
    int err = os_file_sync(f);
    os_file_close(f);
    if (err == 0) {
        settle_file(&m->files[m->seen[name]]);
    }
    return err == 0;
}

/* A name changes from one file to another in the seen world: the old and the new are possible. */
static void note_name(struct model *m, int name, int file) {
    if (file < 0) {
        m->may_lack[name] = true;
    } else {
        m->may_hold[name][file] = true;
    }
    m->seen[name] = file;
    m->name_pending[name / 3] = true;
}

static bool model_create(struct model *m, int name) {
    uint8_t head[HEAD];
    int number = m->file_count++;
    assert_true(number < FILES_MAX);
    struct model_file *file = &m->files[number];
    memset(file, 0, sizeof(*file));
    memset(head, number + 1, sizeof(head));
    /* Made durable under a name of its own first, so that no name ever leads to a headless file. */
    char temporary[32];
    snprintf(temporary, sizeof(temporary), "/temporary-%d", number);
    struct os_file *f = NULL;
    int err = os_open(m->fs, temporary, OS_OPEN_WRITE | OS_OPEN_CREATE, &f);
    err = err < 0 ? err : os_file_write(f, 0, head, sizeof(head));
    err = err < 0 ? err : os_file_sync(f);
    os_file_close(f);
    err = err < 0 ? err : os_dir_sync(m->fs, "/");
    if (err < 0) {
        return false;
    }
    memcpy(file->seen, head, sizeof(head));
    file->size = HEAD;
    settle_file(file);
    err = os_rename(m->fs, temporary, path_of(name));
    note_name(m, name, number);
    return err == 0;
}

static bool model_unlink(struct model *m, int name) {
    int err = os_unlink(m->fs, path_of(name));
    note_name(m, name, -1);
    return err == 0;
}

static bool model_rename(struct model *m, int from, int to) {
    int file = m->seen[from];
    int err = os_rename(m->fs, path_of(from), path_of(to));
    note_name(m, to, file);
    if (from != to) {
        note_name(m, from, -1);
    }
    return err == 0;
}

/* The names of one directory are as seen from now on. A rename out of it into the other directory
 * belongs to the other one, so its source may still hold the file after a crash. */
static bool model_dir_sync(struct model *m, int dir) {
    int err = os_dir_sync(m->fs, dir == 0 ? "/a" : "/b");
    if (err < 0) {
        return false;
    }
    m->name_pending[dir] = false;
    for (int name = 3 * dir; name < 3 * dir + 3; name++) {
        m->durable[name] = m->seen[name];
        memset(m->may_hold[name], 0, sizeof(m->may_hold[name]));
        m->may_lack[name] = false;
    }
    return true;
}

static bool step(struct model *m) {
    int name = (int)prng_below(&m->prng, NAMES), other = (int)prng_below(&m->prng, NAMES);
    uint64_t dice = prng_below(&m->prng, 100);
    if (m->seen[name] < 0) {
        return m->file_count == FILES_MAX || model_create(m, name);
    }
    if (dice < 40) {
        return model_write(m, name);
    }
    if (dice < 50) {
        return model_truncate(m, name);
    }
    if (dice < 55) {
        return model_punch(m, name);
    }
    if (dice < 75) {
        return model_sync(m, name);
    }
    if (dice < 80) {
        return model_unlink(m, name);
    }
    if (dice < 90) { /* within a directory: across them the model would have to know their order */
        return model_rename(m, name, name / 3 * 3 + other % 3);
    }
    return model_dir_sync(m, name / 3);
}

/* ---- what a crash may leave ---- */

static void check_bytes(struct model *m, int number, const uint8_t *bytes, uint64_t size) {
    struct model_file *file = &m->files[number];
    if (!file->pending) {
        assert_int_equal(size, file->synced_size);
        assert_memory_equal(bytes, file->synced, size);
    }
    assert_true(size <= MAX(file->synced_size, file->largest_end));
    assert_true(file->shrunk || size >= file->synced_size);
    bool odd = size != file->synced_size && size != file->size;
    for (uint64_t i = 0; i < size; i++) {
        assert_true(allowed(file, i, bytes[i]));
        odd |= bytes[i] != file->seen[i] && i >= file->synced_size;
    }
    m->checked_bytes += size;
    m->odd += odd;
    memset(file->seen, 0, BYTES_MAX);
    memcpy(file->seen, bytes, size);
    file->size = size;
    settle_file(file);
}

/* The file behind a name after a crash, or -1. */
static int check_name(struct model *m, int name) {
    uint8_t bytes[BYTES_MAX + 1];
    struct os_file *f = NULL;
    size_t size = 0;
    int err = os_open(m->fs, path_of(name), OS_OPEN_READ, &f);
    if (err == -HL_ERR_NOT_FOUND) {
        assert_true(m->durable[name] < 0 || m->may_lack[name] || m->name_pending[name / 3]);
        return -1;
    }
    assert_int_equal(err, 0);
    assert_int_equal(os_file_read(f, 0, bytes, sizeof(bytes), &size), 0);
    os_file_close(f);
    assert_true(size >= HEAD && bytes[0] >= 1);
    int number = bytes[0] - 1;
    assert_true(number < m->file_count);
    assert_true(number == m->durable[name] || m->may_hold[name][number]);
    check_bytes(m, number, bytes, size);
    return number;
}

static void crash_and_check(struct model *m) {
    bool found[FILES_MAX] = {false};
    sim_fs_crash(m->sim);
    for (int name = 0; name < NAMES; name++) {
        int before = m->durable[name];
        int now = check_name(m, name);
        if (!m->name_pending[name / 3]) {
            assert_int_equal(now, before); /* nothing synced is ever lost */
        }
        m->kept += now == m->seen[name];
        m->lost += now != m->seen[name];
        m->seen[name] = m->durable[name] = now;
        if (now >= 0) {
            assert_false(found[now]); /* one file, one name */
            found[now] = true;
        }
        memset(m->may_hold[name], 0, sizeof(m->may_hold[name]));
        m->may_lack[name] = false;
    }
    m->name_pending[0] = m->name_pending[1] = false;
}

static void run_seed(uint64_t seed, uint64_t totals[3]) {
    struct sim_fs_options options = {.seed = seed};
    struct model m = {.sim = sim_fs_new(&options)};
    m.fs = sim_fs_fs(m.sim);
    m.files = calloc(FILES_MAX, sizeof(*m.files));
    prng_init(&m.prng, seed);
    for (int i = 0; i < NAMES; i++) {
        m.seen[i] = m.durable[i] = -1;
    }
    assert_int_equal(os_mkdir_all(m.fs, "/a"), 0);
    assert_int_equal(os_mkdir_all(m.fs, "/b"), 0);
    for (int i = 0; i < OPS; i++) {
        if (i % 30 == 0) {
            sim_fs_crash_after(m.sim, 1 + prng_below(&m.prng, 40));
        }
        if (!step(&m) || prng_below(&m.prng, 40) == 0) {
            crash_and_check(&m);
        }
    }
    crash_and_check(&m);
    totals[0] += m.kept;
    totals[1] += m.lost;
    totals[2] += m.odd;
    free(m.files);
    sim_fs_free(m.sim);
}

static uint64_t seed_running; /* 0: none */

static int print_seed(void **state) {
    if (seed_running != 0) {
        print_error("replay: SIM_MODEL_SEED=%llu %s\n", (unsigned long long)seed_running,
                    program_invocation_name);
    }
    return 0;
}

static void test_against_model(void **state) {
    uint64_t totals[3] = {0, 0, 0};
    const char *only = getenv("SIM_MODEL_SEED");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (only == NULL || strtoull(only, NULL, 10) == seed) {
            seed_running = seed;
            run_seed(seed, totals);
        }
    }
    seed_running = 0;
    /* The test tests: names were kept and lost, and mixtures of old and new bytes were seen. */
    if (only == NULL) {
        assert_true(totals[0] > SEEDS && totals[1] > SEEDS && totals[2] > SEEDS / 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_against_model, print_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
