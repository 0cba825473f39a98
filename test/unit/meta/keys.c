/* Row keys keep the order of what they encode, and come apart again. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "meta/entry_format.h"
#include "meta/keys_format.h"
#include "meta/latch.h"

/* Short keys over a small alphabet with 00 and FF: prefixes and equal heads are frequent. */
static struct slice random_key(struct prng *prng, uint8_t *bytes) {
    static const uint8_t alphabet[] = {0x00, 0x01, 'a', 'b', '/', 0xff};
    size_t size = 1 + prng_below(prng, 6);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = alphabet[prng_below(prng, sizeof(alphabet))];
    }
    return slice_of(bytes, size);
}

static int sign(int v) {
    return (v > 0) - (v < 0);
}

static void test_order(void **state) {
    struct prng prng;
    prng_init(&prng, 1);
    for (int i = 0; i < 20000; i++) {
        uint8_t a[8], b[8];
        uint8_t id[16] = {0};
        struct slice ka = random_key(&prng, a), kb = random_key(&prng, b);
        struct buf x = {0}, y = {0}, ux = {0}, uy = {0};
        keys_object(&x, 5, ka);
        keys_object(&y, 5, kb);
        keys_upload(&ux, 5, ka, id);
        keys_upload(&uy, 5, kb, id);
        int expected = sign(slice_compare(ka, kb));
        assert_int_equal(sign(slice_compare(buf_slice(&x), buf_slice(&y))), expected);
        assert_int_equal(sign(slice_compare(buf_slice(&ux), buf_slice(&uy))), expected);
        buf_done(&x);
        buf_done(&y);
        buf_done(&ux);
        buf_done(&uy);
    }
}

static void test_parse(void **state) {
    struct prng prng;
    prng_init(&prng, 2);
    for (int i = 0; i < 5000; i++) {
        uint8_t bytes[8], id[16];
        struct slice key = random_key(&prng, bytes);
        prng_bytes(&prng, id, sizeof(id));
        struct buf row = {0}, parsed = {0};
        keys_upload(&row, 77, key, id);
        uint64_t bucket;
        const uint8_t *upload;
        assert_true(keys_parse_upload(buf_slice(&row), &bucket, &parsed, &upload));
        assert_int_equal(bucket, 77);
        assert_true(slice_equal(buf_slice(&parsed), key));
        assert_memory_equal(upload, id, 16);
        for (size_t size = 0; size < row.size; size++) {
            buf_clear(&parsed);
            assert_false(keys_parse_upload(slice_of(row.data, size), &bucket, &parsed, &upload));
        }
        buf_done(&row);
        buf_done(&parsed);
    }
}

static void test_prefix_end(void **state) {
    struct buf end = {0};
    keys_prefix_end(&end, SLICE_LITERAL("a\xff\xff"));
    assert_true(slice_equal(buf_slice(&end), SLICE_LITERAL("b")));
    buf_clear(&end);
    keys_prefix_end(&end, SLICE_LITERAL("\xff\xff"));
    assert_int_equal(end.size, 0);
    buf_done(&end);
}

static void test_entry(void **state) {
    const struct entry_op ops[] = {
        {.kind = ENTRY_PUT, .key = SLICE_LITERAL("k"), .value = SLICE_LITERAL("v")},
        {.kind = ENTRY_DELETE, .key = SLICE_LITERAL("k2")},
        {.kind = ENTRY_ADD, .key = SLICE_LITERAL("c"), .delta = INT64_MIN},
        {.kind = ENTRY_ADD, .key = SLICE_LITERAL("c"), .delta = -1},
        {.kind = ENTRY_HEAD,
         .key = SLICE_LITERAL("o"),
         .value = SLICE_LITERAL("r"),
         .id = {1, 2},
         .body = SLICE_LITERAL("hello")},
        {.kind = ENTRY_COMMIT, .id = {3, 4}, .count = 1000000},
        {.kind = ENTRY_FREE, .id = {3, 4}, .count = 1},
        {.kind = ENTRY_FREE_HEAD, .id = {5, 6}},
        {.kind = ENTRY_CONFIG, .key = SLICE_LITERAL("b"), .sequence = 9},
        {.kind = ENTRY_DELETE_RANGE, .key = SLICE_LITERAL("a"), .value = SLICE_LITERAL("b")},
    };
    struct buf entry = {0};
    buf_append_u8(&entry, ENTRY_VERSION);
    buf_append_varint(&entry, 12);
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        entry_op_encode(&entry, &ops[i]);
    }
    uint64_t sequence;
    struct reader r = entry_open(buf_slice(&entry), &sequence);
    assert_int_equal(sequence, 12);
    struct entry_op op;
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        assert_true(entry_next(&r, &op));
        assert_int_equal(op.kind, ops[i].kind);
        assert_true(slice_equal(op.key, ops[i].key));
        assert_true(slice_equal(op.value, ops[i].value));
        assert_true(slice_equal(op.body, ops[i].body));
        assert_true(op.delta == ops[i].delta && op.count == ops[i].count);
        assert_true(body_id_equal(op.id, ops[i].id));
    }
    assert_false(entry_next(&r, &op));
    assert_false(r.failed);
    entry.data[0] = ENTRY_VERSION + 1;
    r = entry_open(buf_slice(&entry), &sequence);
    assert_false(entry_next(&r, &op));
    assert_true(r.failed);
    buf_done(&entry);
}

static struct latch_hold *woken[8];
static int woken_count;
static void note_wake(struct latch_hold *hold) {
    woken[woken_count++] = hold;
}

static void test_latch_fairness(void **state) {
    struct latch_table *table = latch_table_new(3, note_wake);
    struct latch_hold s1 = {.hash = 1, .mode = META_SHARED}, s2 = s1, s3 = s1, s4 = s1;
    struct latch_hold x1 = {.hash = 1, .mode = META_EXCLUSIVE},
                      x2 = {.hash = 257, .mode = META_EXCLUSIVE};
    assert_true(latch_acquire(table, &s1));
    assert_true(latch_acquire(table, &s2));
    assert_false(latch_acquire(table, &x1)); /* waits for both readers */
    assert_false(latch_acquire(table, &s3)); /* may not overtake the writer */
    assert_false(latch_acquire(table, &s4));
    assert_true(latch_acquire(table, &x2)); /* same stripe, another key */
    woken_count = 0;
    latch_release(table, &s2);
    assert_int_equal(woken_count, 0);
    latch_release(table, &s1);
    assert_int_equal(woken_count, 1);
    assert_ptr_equal(woken[0], &x1);
    latch_release(table, &x1);
    assert_int_equal(woken_count, 3);
    assert_ptr_equal(woken[1], &s3);
    assert_ptr_equal(woken[2], &s4);
    latch_release(table, &s3);
    latch_release(table, &s4);
    latch_release(table, &x2);
    latch_table_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_parse),
        cmocka_unit_test(test_prefix_end),     cmocka_unit_test(test_entry),
        cmocka_unit_test(test_latch_fairness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
