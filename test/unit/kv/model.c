/* Both implementations of kv.h against a plain model: a sorted array per space, changed and
 * searched by the dullest code that does it. Random batches, reads, counters, iterators in both
 * directions and with bounds, snapshots while writing; and what a crash may leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "kv/kv.h"

#define KEY_MAX    12
#define VALUE_MAX  400
#define ROWS_MAX   400
#define COUNTERS   5
#define CRASH_RUNS 12

struct row {
    uint8_t key[KEY_MAX];
    size_t key_size;
    uint8_t value[VALUE_MAX];
    size_t value_size;
};

struct model {
    struct row rows[KV_SPACE_COUNT][ROWS_MAX];
    size_t count[KV_SPACE_COUNT];
};

static struct slice row_key(const struct row *row) {
    return slice_of(row->key, row->key_size);
}

static struct slice row_value(const struct row *row) {
    return slice_of(row->value, row->value_size);
}

/* Bytes compared one by one: not the order function of the code under test. */
static int order(struct slice a, struct slice b) {
    for (size_t i = 0; i < a.size && i < b.size; i++) {
        if (a.data[i] != b.data[i]) {
            return a.data[i] < b.data[i] ? -1 : 1;
        }
    }
    return a.size == b.size ? 0 : a.size < b.size ? -1 : 1;
}

static size_t model_at_or_after(const struct model *m, int space, struct slice key) {
    size_t i = 0;
    while (i < m->count[space] && order(row_key(&m->rows[space][i]), key) < 0) {
        i++;
    }
    return i;
}

static struct row *model_find(struct model *m, int space, struct slice key) {
    size_t i = model_at_or_after(m, space, key);
    bool hit = i < m->count[space] && order(row_key(&m->rows[space][i]), key) == 0;
    return hit ? &m->rows[space][i] : NULL;
}

static void model_put(struct model *m, int space, struct slice key, struct slice value) {
    struct row *row = model_find(m, space, key);
    if (row == NULL) {
        size_t i = model_at_or_after(m, space, key);
        assert_true(m->count[space] < ROWS_MAX);
        memmove(&m->rows[space][i + 1], &m->rows[space][i],
                (m->count[space] - i) * sizeof(struct row));
        m->count[space]++;
        row = &m->rows[space][i];
        memcpy(row->key, key.data, key.size);
        row->key_size = key.size;
    }
    memcpy(row->value, value.data, value.size);
    row->value_size = value.size;
}

static void model_delete_range(struct model *m, int space, struct slice first, struct slice end) {
    size_t kept = 0;
    for (size_t i = 0; i < m->count[space]; i++) {
        struct slice key = row_key(&m->rows[space][i]);
        if (order(key, first) < 0 || order(key, end) >= 0) {
            m->rows[space][kept++] = m->rows[space][i];
        }
    }
    m->count[space] = kept;
}

static void model_delete(struct model *m, int space, struct slice key) {
    struct row *row = model_find(m, space, key);
    if (row != NULL) {
        size_t i = (size_t)(row - m->rows[space]);
        m->count[space]--;
        memmove(row, row + 1, (m->count[space] - i) * sizeof(*row));
    }
}

static void model_add(struct model *m, int space, struct slice key, int64_t delta) {
    const struct row *row = model_find(m, space, key);
    uint8_t value[8];
    put_le64(value, (row == NULL ? 0 : get_le64(row->value)) + (uint64_t)delta);
    model_put(m, space, key, slice_of(value, 8));
}

/* Few different keys of few letters, so that they collide, are prefixes of each other, and cover
 * the extremes of a byte. Counters live under keys of their own. */
static struct slice random_key(struct prng *prng, uint8_t data[KEY_MAX]) {
    static const uint8_t letters[] = {0, 'a', 'b', 0xff};
    size_t size = 1 + (size_t)prng_below(prng, 4);
    for (size_t i = 0; i < size; i++) {
        data[i] = letters[prng_below(prng, sizeof(letters))];
    }
    return slice_of(data, size);
}

static struct slice counter_key(struct prng *prng, uint8_t data[KEY_MAX]) {
    data[0] = 'c';
    data[1] = (uint8_t)prng_below(prng, COUNTERS);
    return slice_of(data, 2);
}

static void random_operation(struct prng *prng, struct model *m, struct kv_batch *batch) {
    uint8_t a[KEY_MAX];
    uint8_t b[KEY_MAX];
    uint8_t value[VALUE_MAX];
    enum kv_space space = (enum kv_space)prng_below(prng, KV_SPACE_COUNT);
    struct slice key = random_key(prng, a);
    uint64_t dice = prng_below(prng, 100);
    if (dice < 50) {
        size_t size = (size_t)prng_below(prng, VALUE_MAX);
        prng_bytes(prng, value, size);
        kv_batch_put(batch, space, key, slice_of(value, size));
        model_put(m, space, key, slice_of(value, size));
    } else if (dice < 70) {
        kv_batch_delete(batch, space, key);
        model_delete(m, space, key);
    } else if (dice < 75) {
        struct slice end = random_key(prng, b);
        kv_batch_delete_range(batch, space, key, end);
        model_delete_range(m, space, key, end);
    } else {
        int64_t delta = (int64_t)prng_below(prng, 2000) - 1000;
        key = counter_key(prng, a);
        kv_batch_add(batch, space, key, delta);
        model_add(m, space, key, delta);
    }
}

static void random_batch(struct prng *prng, struct model *m, struct kv *kv,
                         struct kv_batch *batch) {
    kv_batch_clear(batch);
    uint32_t count = 1 + (uint32_t)prng_below(prng, 8);
    for (uint32_t i = 0; i < count; i++) {
        random_operation(prng, m, batch);
    }
    assert_int_equal(kv_batch_count(batch), count);
    assert_int_equal(kv_write(kv, batch), 0);
}

static void check_row(const struct kv_iter *iter, const struct row *row) {
    assert_true(kv_iter_valid(iter));
    assert_true(slice_equal(kv_iter_key(iter), row_key(row)));
    assert_true(slice_equal(kv_iter_value(iter), row_value(row)));
}

/* The whole space, forwards and backwards, against rows [from, to). */
static void check_range(struct kv_iter *iter, const struct model *m, int space, size_t from,
                        size_t to) {
    kv_iter_seek_first(iter);
    for (size_t i = from; i < to; i++) {
        check_row(iter, &m->rows[space][i]);
        kv_iter_next(iter);
    }
    assert_false(kv_iter_valid(iter));
    kv_iter_seek_last(iter);
    for (size_t i = to; i > from; i--) {
        check_row(iter, &m->rows[space][i - 1]);
        kv_iter_prev(iter);
    }
    assert_false(kv_iter_valid(iter));
    assert_int_equal(kv_iter_error(iter), 0);
}

static void check_all(struct kv *kv, const struct model *m) {
    for (int space = 0; space < KV_SPACE_COUNT; space++) {
        CLEANUP_KV_ITER struct kv_iter *iter =
            kv_iter_new(kv, (enum kv_space)space, SLICE_EMPTY, SLICE_EMPTY);
        check_range(iter, m, space, 0, m->count[space]);
    }
}

static void check_bounded(struct prng *prng, struct kv *kv, const struct model *m) {
    uint8_t a[KEY_MAX];
    uint8_t b[KEY_MAX];
    uint8_t c[KEY_MAX];
    int space = (int)prng_below(prng, KV_SPACE_COUNT);
    struct slice lower = prng_below(prng, 4) == 0 ? SLICE_EMPTY : random_key(prng, a);
    struct slice upper = prng_below(prng, 4) == 0 ? SLICE_EMPTY : random_key(prng, b);
    size_t from = model_at_or_after(m, space, lower);
    size_t to = upper.size == 0 ? m->count[space] : model_at_or_after(m, space, upper);
    to = to < from ? from : to;
    CLEANUP_KV_ITER struct kv_iter *iter = kv_iter_new(kv, (enum kv_space)space, lower, upper);
    check_range(iter, m, space, from, to);

    struct slice key = random_key(prng, c);
    size_t i = model_at_or_after(m, space, key);
    i = i < from ? from : i;
    kv_iter_seek(iter, key);
    if (i >= to) {
        assert_false(kv_iter_valid(iter));
        return;
    }
    check_row(iter, &m->rows[space][i]);
    kv_iter_prev(iter);
    if (i == from) {
        assert_false(kv_iter_valid(iter));
    } else {
        check_row(iter, &m->rows[space][i - 1]);
    }
}

static void check_get(struct prng *prng, struct kv *kv, struct model *m) {
    uint8_t data[KEY_MAX];
    enum kv_space space = (enum kv_space)prng_below(prng, KV_SPACE_COUNT);
    struct slice key = random_key(prng, data);
    const struct row *row = model_find(m, space, key);
    CLEANUP_KV_VALUE struct kv_value value = {0};
    int err = kv_get(kv, space, key, &value);
    assert_int_equal(err, row == NULL ? -HL_ERR_NOT_FOUND : 0);
    if (row != NULL) {
        assert_true(slice_equal(value.data, row_value(row)));
    }
    kv_value_done(&value);
    err = kv_get_nowait(kv, space, key, &value);
    if (err != -HL_ERR_AGAIN) {
        assert_int_equal(err, row == NULL ? -HL_ERR_NOT_FOUND : 0);
    }
    key = counter_key(prng, data);
    row = model_find(m, space, key);
    int64_t counter = -1;
    assert_int_equal(kv_get_counter(kv, space, key, &counter), 0);
    assert_int_equal(counter, row == NULL ? 0 : (int64_t)get_le64(row->value));
}

/* Random work; an iterator made somewhere in the middle must not see what came later. */
static void run_model(struct kv *kv, struct model *m, uint64_t seed, int batches) {
    struct prng prng;
    prng_init(&prng, seed);
    struct kv_batch *batch = kv_batch_new(kv);
    struct model *old = calloc(1, sizeof(*old));
    struct kv_iter *snapshot = NULL;
    for (int i = 0; i < batches; i++) {
        random_batch(&prng, m, kv, batch);
        check_get(&prng, kv, m);
        check_bounded(&prng, kv, m);
        uint64_t dice = prng_below(&prng, 100);
        if (dice < 5) {
            check_all(kv, m);
        } else if (dice < 10) {
            assert_int_equal(kv_flush(kv), 0);
        } else if (dice < 15 && snapshot == NULL) {
            *old = *m;
            snapshot = kv_iter_new(kv, KV_META, SLICE_EMPTY, SLICE_EMPTY);
        } else if (dice < 20 && snapshot != NULL) {
            check_range(snapshot, old, KV_META, 0, old->count[KV_META]);
            kv_iter_free(snapshot);
            snapshot = NULL;
        }
    }
    check_all(kv, m);
    kv_iter_free(snapshot);
    free(old);
    kv_batch_free(batch);
}

static char *temporary_dir(void) {
    char *path = strdup("/tmp/hayloft-kv-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void remove_dir(char *path) {
    char command[100];
    (void)snprintf(command, sizeof(command), "rm -rf %s", path);
    assert_int_equal(system(command), 0);
    free(path);
}

static struct kv *open_rocks(const char *path) {
    struct kv_options options = {.create = true, .write_buffer_bytes = 256 << 10};
    struct kv *kv = NULL;
    assert_int_equal(kv_open_rocks(path, &options, &kv), 0);
    return kv;
}

static void test_mem_model(void **state) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct model *m = calloc(1, sizeof(*m));
        struct kv_mem_disk *disk = kv_mem_disk_new();
        struct kv *kv = NULL;
        assert_int_equal(kv_open_mem(disk, NULL, &kv), 0);
        run_model(kv, m, seed, 200);
        struct kv_stats stats;
        kv_stats(kv, &stats);
        assert_int_equal(stats.keys_estimate[KV_META], m->count[KV_META]);
        kv_close(kv);
        kv_mem_disk_free(disk);
        free(m);
    }
}

/* With reopening: what was flushed is there, closing flushes nothing by itself. */
static void test_rocks_model(void **state) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        char *path = temporary_dir();
        struct model *m = calloc(1, sizeof(*m));
        struct kv *kv = open_rocks(path);
        run_model(kv, m, seed, 300);
        assert_int_equal(kv_flush(kv), 0);
        kv_close(kv);
        kv = open_rocks(path);
        check_all(kv, m);
        run_model(kv, m, seed + 100, 100);
        kv_close(kv);
        free(m);
        remove_dir(path);
    }
}

/* Batch i of the crash tests: writes i to both spaces, adds 1 to a counter, and fills. */
static void numbered_batch(struct kv *kv, struct kv_batch *batch, uint64_t i, size_t fill) {
    static uint8_t value[4096];
    struct prng prng;
    prng_init(&prng, i);
    prng_bytes(&prng, value, fill);
    put_le64(value, i);
    uint8_t key[9] = {'n'};
    put_be64(key + 1, i);
    kv_batch_clear(batch);
    kv_batch_put(batch, KV_META, slice_of(key, sizeof(key)), slice_of(value, fill));
    kv_batch_put(batch, KV_LOCAL, slice_of(key, sizeof(key)), slice_of(value, 8));
    kv_batch_put(batch, KV_LOCAL, SLICE_LITERAL("applied"), slice_of(value, 8));
    kv_batch_add(batch, KV_META, SLICE_LITERAL("counter"), 1);
    assert_int_equal(kv_write(kv, batch), 0);
}

/* The store holds exactly batches 1..n for some n; returns n. */
static uint64_t check_prefix(struct kv *kv) {
    CLEANUP_KV_VALUE struct kv_value applied = {0};
    uint64_t n = 0;
    int err = kv_get(kv, KV_LOCAL, SLICE_LITERAL("applied"), &applied);
    if (err == 0) {
        n = get_le64(applied.data.data);
    } else {
        assert_int_equal(err, -HL_ERR_NOT_FOUND);
    }
    int64_t counter = -1;
    assert_int_equal(kv_get_counter(kv, KV_META, SLICE_LITERAL("counter"), &counter), 0);
    assert_int_equal(counter, n);
    for (int space = 0; space < KV_SPACE_COUNT; space++) {
        CLEANUP_KV_ITER struct kv_iter *iter =
            kv_iter_new(kv, (enum kv_space)space, SLICE_LITERAL("n"), SLICE_LITERAL("o"));
        uint64_t i = 0;
        for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
            i++;
            assert_int_equal(get_be64(kv_iter_key(iter).data + 1), i);
            assert_int_equal(get_le64(kv_iter_value(iter).data), i);
        }
        assert_int_equal(kv_iter_error(iter), 0);
        assert_int_equal(i, n);
    }
    return n;
}

/* What the child of the crash test does: write and die without closing. */
static void crash_child(const char *path, uint64_t flushed, uint64_t written) {
    struct kv *kv = open_rocks(path);
    struct kv_batch *batch = kv_batch_new(kv);
    for (uint64_t i = 1; i <= written; i++) {
        numbered_batch(kv, batch, i, 2000);
        if (i == flushed) {
            assert_int_equal(kv_flush(kv), 0);
        }
    }
    _exit(7);
}

/* RocksDB's threads do not survive a fork, so the child is this program started anew. */
static void run_crash_child(const char *path, uint64_t flushed, uint64_t written) {
    char flushed_text[24];
    char written_text[24];
    (void)snprintf(flushed_text, sizeof(flushed_text), "%llu", (unsigned long long)flushed);
    (void)snprintf(written_text, sizeof(written_text), "%llu", (unsigned long long)written);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "crash-child", path, flushed_text, written_text, (char *)NULL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* The parent looks at what a dead child left. Values are large enough for RocksDB to flush
 * memtables on its own between the flushes that were asked for. */
static void test_rocks_crash(void **state) {
    uint64_t unasked = 0;
    for (uint64_t run = 1; run <= CRASH_RUNS; run++) {
        char *path = temporary_dir();
        uint64_t flushed = run % 3 == 0 ? 0 : run * 20;
        uint64_t written = flushed + run * 37;
        run_crash_child(path, flushed, written);
        struct kv *kv = open_rocks(path);
        uint64_t n = check_prefix(kv);
        assert_in_range(n, flushed, written);
        unasked += n > flushed;
        kv_close(kv);
        remove_dir(path);
    }
    assert_true(unasked > 0); /* else the test did not test what it is for */
}

static void test_rocks_close_keeps_flush_only(void **state) {
    char *path = temporary_dir();
    struct kv *kv = open_rocks(path);
    struct kv_batch *batch = kv_batch_new(kv);
    numbered_batch(kv, batch, 1, 100);
    assert_int_equal(kv_flush(kv), 0);
    numbered_batch(kv, batch, 2, 100);
    kv_batch_free(batch);
    kv_close(kv);
    kv = open_rocks(path);
    assert_int_equal(check_prefix(kv), 1);
    kv_close(kv);
    remove_dir(path);
}

static void test_mem_crash(void **state) {
    struct os_random_sim random;
    os_random_sim_init(&random, 42);
    struct kv_mem_disk *disk = kv_mem_disk_new();
    bool seen[21] = {false};
    for (int run = 0; run < 300; run++) {
        kv_mem_disk_free(disk);
        disk = kv_mem_disk_new();
        struct kv *kv = NULL;
        assert_int_equal(kv_open_mem(disk, NULL, &kv), 0);
        struct kv_batch *batch = kv_batch_new(kv);
        for (uint64_t i = 1; i <= 20; i++) {
            numbered_batch(kv, batch, i, 8);
            if (i == 10) {
                assert_int_equal(kv_flush(kv), 0);
            }
        }
        kv_batch_free(batch);
        kv_close(kv);
        bool exact = run % 10 == 0;
        assert_int_equal(kv_open_mem(disk, exact ? NULL : &random.random, &kv), 0);
        uint64_t n = check_prefix(kv);
        assert_in_range(n, 10, exact ? 10 : 20);
        seen[n] = true;
        kv_close(kv);
        /* What a crash left is on disk: the next one cannot lose it. */
        assert_int_equal(kv_open_mem(disk, NULL, &kv), 0);
        assert_int_equal(check_prefix(kv), n);
        kv_close(kv);
    }
    kv_mem_disk_free(disk);
    for (int i = 10; i <= 20; i++) {
        assert_true(seen[i]);
    }
}

static void test_rocks_checkpoint(void **state) {
    char *path = temporary_dir();
    char *copies = temporary_dir();
    char copy[100];
    (void)snprintf(copy, sizeof(copy), "%s/copy", copies);
    struct kv *kv = open_rocks(path);
    struct kv_batch *batch = kv_batch_new(kv);
    numbered_batch(kv, batch, 1, 100);
    assert_int_equal(kv_checkpoint(kv, copy), 0);
    numbered_batch(kv, batch, 2, 100);
    kv_batch_free(batch);
    struct kv *other = open_rocks(copy);
    assert_int_equal(check_prefix(other), 1);
    assert_int_equal(check_prefix(kv), 2);
    kv_close(other);
    kv_close(kv);
    remove_dir(path);
    remove_dir(copies);
}

static void test_rocks_errors(void **state) {
    char *path = temporary_dir();
    char missing[100];
    (void)snprintf(missing, sizeof(missing), "%s/missing", path);
    struct kv_options options = {.create = false};
    struct kv *kv = NULL;
    assert_int_equal(kv_open_rocks(missing, &options, &kv), -HL_ERR_NOT_FOUND);
    assert_null(kv);

    kv = open_rocks(path);
    struct kv *second = NULL;
    options.create = true;
    assert_int_equal(kv_open_rocks(path, &options, &second), -HL_ERR_LOCKED);

    static const uint8_t long_key[KV_KEY_MAX + 1];
    CLEANUP_KV_VALUE struct kv_value value = {0};
    struct kv_batch *batch = kv_batch_new(kv);
    kv_batch_put(batch, KV_META, slice_of(long_key, KV_KEY_MAX), SLICE_LITERAL("fits"));
    assert_int_equal(kv_write(kv, batch), 0);
    assert_int_equal(kv_get(kv, KV_META, slice_of(long_key, KV_KEY_MAX), &value), 0);
    kv_batch_put(batch, KV_META, slice_of(long_key, KV_KEY_MAX + 1), SLICE_LITERAL("too long"));
    assert_int_equal(kv_write(kv, batch), -HL_ERR_INVALID);
    kv_batch_free(batch);
    kv_value_done(&value);
    assert_int_equal(kv_flush(kv), 0);
    kv_close(kv);

    /* A damaged manifest: refused, not half-opened. */
    char command[200];
    (void)snprintf(command, sizeof(command),
                   "for f in %s/MANIFEST-*; do printf 'damage!!' | dd of=$f bs=1 seek=20 "
                   "conv=notrunc 2>/dev/null; done",
                   path);
    assert_int_equal(system(command), 0);
    kv = NULL;
    assert_int_equal(kv_open_rocks(path, &options, &kv), -HL_ERR_CORRUPT);
    assert_null(kv);
    remove_dir(path);
}

int main(int argc, char **argv) {
    if (argc == 4) {
        crash_child(argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem_model),
        cmocka_unit_test(test_mem_crash),
        cmocka_unit_test(test_rocks_model),
        cmocka_unit_test(test_rocks_crash),
        cmocka_unit_test(test_rocks_checkpoint),
        cmocka_unit_test(test_rocks_close_keeps_flush_only),
        cmocka_unit_test(test_rocks_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
