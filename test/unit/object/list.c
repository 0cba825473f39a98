/* Listings against a sorted array: random keys over a small alphabet, random prefixes, delimiters
 * and page sizes; the pages together must be what the model says, each once and in order. The model
 * works on the whole set at once and knows nothing of seeking. */
#include "harness.h"

#define KEYS_MAX 200

struct model {
    char keys[KEYS_MAX][40];
    int count;
};

struct expected { /* keys and prefixes in order */
    char names[KEYS_MAX][40];
    bool is_prefix[KEYS_MAX];
    int count;
};

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

static void random_text(struct prng *prng, char *out, size_t max) {
    static const char alphabet[] = "ab/\x01\xff-";
    size_t size = prng_below(prng, max + 1);
    for (size_t i = 0; i < size; i++) {
        out[i] = alphabet[prng_below(prng, sizeof(alphabet) - 1)];
    }
    out[size] = 0;
}

static void expect(const struct model *model, const char *prefix, const char *delimiter,
                   struct expected *ret) {
    ret->count = 0;
    for (int i = 0; i < model->count; i++) {
        const char *key = model->keys[i];
        if (strncmp(key, prefix, strlen(prefix)) != 0) {
            continue;
        }
        const char *found = delimiter[0] == 0 ? NULL : strstr(key + strlen(prefix), delimiter);
        char name[40];
        size_t size = found == NULL ? strlen(key) : (size_t)(found - key) + strlen(delimiter);
        memcpy(name, key, size);
        name[size] = 0;
        bool same = found != NULL && ret->count > 0 && ret->is_prefix[ret->count - 1] &&
                    strcmp(ret->names[ret->count - 1], name) == 0;
        if (!same) {
            strncpy(ret->names[ret->count], name, 40);
            ret->is_prefix[ret->count++] = found != NULL;
        }
    }
}

static void check_listing(struct harness *h, const struct model *model, struct prng *prng) {
    char prefix[8], delimiter[4];
    struct expected want;
    random_text(prng, prefix, 3);
    random_text(prng, delimiter, 2);
    expect(model, prefix, delimiter, &want);
    struct object_list_args args = {.bucket = h->bucket,
                                    .prefix = slice_str(prefix),
                                    .delimiter = slice_str(delimiter),
                                    .count_max = 1 + (uint32_t)prng_below(prng, 8)};
    int at = 0;
    for (;;) {
        struct object_list list;
        assert_int_equal(object_list(h->store, &args, h->pool, &list), 0);
        for (uint32_t i = 0; i < list.count; i++, at++) {
            assert_true(at < want.count);
            assert_true(slice_equal_str(list.items[i].key, want.names[at]));
            assert_int_equal(list.items[i].is_prefix, want.is_prefix[at]);
        }
        assert_int_equal(list.truncated, at < want.count);
        if (!list.truncated) {
            break;
        }
        assert_int_equal(list.count, args.count_max);
        args.after = list.next;
        args.after_is_prefix = list.next_is_prefix;
    }
    assert_int_equal(at, want.count);
}

/* Strictly after any text, whether a key or not. */
static void check_after(struct harness *h, const struct model *model, struct prng *prng) {
    char after[12];
    struct object_list list;
    random_text(prng, after, 6);
    struct object_list_args args = {
        .bucket = h->bucket, .after = slice_str(after), .count_max = KEYS_MAX};
    assert_int_equal(object_list(h->store, &args, h->pool, &list), 0);
    int at = 0;
    while (at < model->count && after[0] != 0 && strcmp(model->keys[at], after) <= 0) {
        at++;
    }
    assert_int_equal(list.count, model->count - at);
    for (uint32_t i = 0; i < list.count; i++) {
        assert_true(slice_equal_str(list.items[i].key, model->keys[at + (int)i]));
    }
}

static void make_keys(struct harness *h, struct model *model, struct prng *prng) {
    char unsorted[KEYS_MAX][40];
    int count = 0;
    for (int i = 0; i < KEYS_MAX / 2; i++) {
        random_text(prng, unsorted[count], 8);
        count += unsorted[count][0] != 0;
    }
    qsort(unsorted, (size_t)count, sizeof(unsorted[0]), compare_names);
    model->count = 0;
    for (int i = 0; i < count; i++) {
        if (model->count > 0 && strcmp(model->keys[model->count - 1], unsorted[i]) == 0) {
            continue;
        }
        memcpy(model->keys[model->count++], unsorted[i], 40);
        assert_int_equal(h_put(h, h->bucket, unsorted[i], slice_str(unsorted[i]), NULL, NULL), 0);
    }
}

static void test_listing(void **state) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct harness h;
        static struct model model;
        struct prng prng;
        prng_init(&prng, seed);
        h_start(&h, seed);
        uint64_t other = h_bucket(&h, "another-bucket"); /* must never leak in */
        assert_int_equal(h_put(&h, other, "a", slice_str("x"), NULL, NULL), 0);
        make_keys(&h, &model, &prng);
        for (int i = 0; i < 200; i++) {
            pool_reset(h.pool);
            check_listing(&h, &model, &prng);
            check_after(&h, &model, &prng);
        }
        h_done(&h);
    }
}

/* What a listing shows of an object is what a read shows. */
static void test_fields(void **state) {
    struct harness h;
    struct object_list list;
    struct object_record record;
    struct slice body = SLICE_EMPTY;
    h_start(&h, 1);
    struct object_result result;
    struct object_write_args args = {.kind = OBJECT_WRITE_PUT,
                                     .bucket = h.bucket,
                                     .key = SLICE_LITERAL("k"),
                                     .size = 5,
                                     .checksum_algorithm = CHECKSUM_SHA256};
    struct object_commit_args commit = {.headers.storage_class = SLICE_LITERAL("STANDARD_IA"),
                                        .owner = SLICE_LITERAL("GK1")};
    assert_int_equal(h_write(&h, &args, SLICE_LITERAL("hello"), &commit, &result), 0);
    struct object_list_args list_args = {.bucket = h.bucket, .count_max = 10};
    assert_int_equal(object_list(h.store, &list_args, h.pool, &list), 0);
    assert_int_equal(h_get(&h, h.bucket, "k", &body, &record), 0);
    assert_int_equal(list.count, 1);
    assert_memory_equal(&list.items[0].record.etag, &record.etag, sizeof(record.etag));
    assert_int_equal(list.items[0].record.size, 5);
    assert_int_equal(list.items[0].record.modified_ms, result.modified_ms);
    assert_true(slice_equal_str(list.items[0].record.owner, "GK1"));
    assert_true(slice_equal_str(list.items[0].record.headers.storage_class, "STANDARD_IA"));
    assert_int_equal(record.checksum.algorithm, CHECKSUM_SHA256);
    list_args.count_max = 0;
    assert_int_equal(object_list(h.store, &list_args, h.pool, &list), 0);
    assert_int_equal(list.count, 0);
    assert_false(list.truncated);
    h_done(&h);
}

/* ---- uploads ---- */

static void test_uploads(void **state) {
    static const char *const keys[] = {"a/1", "a/1", "a/2", "b", "b/x", "c"};
    struct harness h;
    h_start(&h, 3);
    uint8_t ids[6][16];
    for (int i = 0; i < 6; i++) {
        h.clock.wall_ms += 5;
        assert_int_equal(h_upload(&h, keys[i], NULL, ids[i]), 0);
    }
    for (uint32_t page = 1; page <= 7; page++) {
        struct object_upload_list_args args = {.bucket = h.bucket, .count_max = page};
        struct object_upload_list list;
        int at = 0;
        do {
            assert_int_equal(object_upload_list(h.store, &args, h.pool, &list), 0);
            for (uint32_t i = 0; i < list.count; i++, at++) {
                assert_true(at < 6);
                assert_true(slice_equal_str(list.items[i].key, keys[at]));
                assert_memory_equal(list.items[i].upload_id, ids[at], 16);
            }
            args.key_marker = list.next_key;
            args.upload_id_marker = list.next_upload_id;
        } while (list.truncated);
        assert_int_equal(at, 6);
    }
    for (uint32_t page = 1; page <= 5; page++) {
        static const char *const want[] = {"a/", "b", "b/", "c"};
        struct object_upload_list_args args = {
            .bucket = h.bucket, .delimiter = SLICE_LITERAL("/"), .count_max = page};
        struct object_upload_list list;
        int at = 0;
        do {
            assert_int_equal(object_upload_list(h.store, &args, h.pool, &list), 0);
            for (uint32_t i = 0; i < list.count; i++, at++) {
                assert_true(at < 4);
                assert_true(slice_equal_str(list.items[i].key, want[at]));
                assert_int_equal(list.items[i].is_prefix, at % 2 == 0);
            }
            args.key_marker = list.next_key;
            args.upload_id_marker = list.count > 0 && !list.items[list.count - 1].is_prefix
                                        ? list.next_upload_id
                                        : NULL;
        } while (list.truncated);
        assert_int_equal(at, 4);
    }
    h_done(&h);
}

int main(void) {
    logger_set_level(LOGGER_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_uploads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
