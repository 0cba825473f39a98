/* Buckets, aliases, access keys and permissions: the rules, S3's view of them, and that all of it
 * is there after a restart. And the start itself: a power cut at any disk operation of the first
 * start leaves a store that starts. */
#include <fcntl.h>

#include "harness.h"

#define CHANGE(h, call, ...)                                                                       \
    ({                                                                                             \
        struct object_wait *wait_ = h_wait(h);                                                     \
        call((h)->store, __VA_ARGS__, (h)->pool, object_wait_executor(wait_), object_wait_done,    \
             wait_);                                                                               \
        object_wait(wait_, NULL);                                                                  \
    })

static struct slice S(const char *text) {
    return slice_str(text);
}

static int
put_key(struct harness *h, const char *id, bool replace) {
    struct access_key_record record = {.id = S(id), .secret = S("secret"), .name = S("a name")};
    struct object_wait *wait = h_wait(h);
    directory_access_key_put(h->store, &record, replace, h->pool, object_wait_executor(wait),
                             object_wait_done, wait);
    return object_wait(wait, NULL);
}

static uint64_t id_of(struct harness *h, const char *name, const char *key_id) {
    struct bucket_record record;
    int err = directory_bucket(h->store, S(name), S(key_id), h->pool, &record);
    return err == 0 ? record.id : 0;
}

/* AWS's rules and examples. */
static void test_names(void **state) {
    static const char *const good[] = {"abc",       "a-b",     "aaa.111",    "1abc",
                                       "192.168.5", "a.b.c.d", "my-bucket-2"};
    static const char *const bad[] = {"",         "ab",       "_x",       "foo_bar", "foo-",
                                      "foo..bar", "foo.-bar", "foo-.bar", "Foo",     "192.168.5.4",
                                      "-foo",     ".foo",     "foo.",     "a b",     "xn--abc"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(directory_bucket_name_valid(S(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(directory_bucket_name_valid(S(bad[i])));
    }
    char text[65];
    memset(text, 'a', 64);
    assert_true(directory_bucket_name_valid(slice_of(text, 63)));
    assert_false(directory_bucket_name_valid(slice_of(text, 64)));
}

static void check_list(struct harness *h, const char *key_id, uint32_t count_max,
                       const char *const *want, uint32_t want_count) {
    struct slice after = SLICE_EMPTY;
    uint32_t at = 0;
    bool truncated = true;
    while (truncated) {
        struct directory_listed *items;
        uint32_t count;
        assert_int_equal(directory_list(h->store, S(key_id), SLICE_EMPTY, after, count_max, h->pool,
                                        &items, &count, &truncated),
                         0);
        for (uint32_t i = 0; i < count; i++, at++) {
            assert_true(at < want_count);
            assert_true(slice_equal_str(items[i].name, want[at]));
            after = items[i].name;
        }
    }
    assert_int_equal(at, want_count);
}

static void check_all(struct harness *h) {
    static const char *const first[] = {"mine", "one", "two"}, *const second[] = {"one"};
    struct bucket_record *buckets;
    struct access_key_record *keys;
    struct directory_alias *aliases;
    struct directory_grant *grants;
    uint32_t count;
    for (uint32_t page = 1; page < 5; page++) {
        check_list(h, "GK1", page, first, 3);
        check_list(h, "GK2", page, second, 1);
        check_list(h, "", page, NULL, 0);
    }
    assert_int_equal(directory_buckets(h->store, h->pool, &buckets, &count), 0);
    assert_int_equal(count, 3); /* and the harness's own */
    assert_int_equal(directory_access_keys(h->store, h->pool, &keys, &count), 0);
    assert_int_equal(count, 2);
    assert_true(slice_equal_str(keys[1].id, "GK2"));
    assert_true(slice_equal_str(keys[1].secret, "secret"));
    uint64_t one = id_of(h, "one", ""), two = id_of(h, "two", "");
    assert_int_equal(id_of(h, "mine", "GK1"), two);
    assert_int_equal(id_of(h, "mine", "GK2"), 0);
    assert_int_equal(directory_aliases(h->store, two, h->pool, &aliases, &count), 0);
    assert_int_equal(count, 2);
    assert_true(slice_equal_str(aliases[0].name, "mine"));
    assert_true(slice_equal_str(aliases[0].key_id, "GK1"));
    assert_int_equal(directory_grants(h->store, one, h->pool, &grants, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(directory_permission(h->store, one, S("GK1")),
                     PERMISSION_READ | PERMISSION_WRITE | PERMISSION_OWNER);
    assert_int_equal(directory_permission(h->store, one, S("GK2")), PERMISSION_READ);
    assert_int_equal(directory_key_grants(h->store, S("GK1"), h->pool, &grants, &count), 0);
    assert_int_equal(count, 2);
}

static void test_directory(void **state) {
    struct harness h;
    h_start(&h, 1);
    assert_int_equal(put_key(&h, "GK1", false), 0);
    assert_int_equal(put_key(&h, "GK1", false), -HL_ERR_EXISTS);
    assert_int_equal(put_key(&h, "GK1", true), 0);
    assert_int_equal(put_key(&h, "GK2", false), 0);
    struct slice none = SLICE_EMPTY;
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("one"), none, S("GK1"), none), 0);
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("one"), none, S("GK1"), none),
                     -HL_ERR_BUCKET_OWNED);
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("one"), none, S("GK2"), none),
                     -HL_ERR_BUCKET_EXISTS);
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("No"), none, S("GK1"), none),
                     -HL_ERR_BUCKET_NAME);
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("ten"), none, S("GK9"), none),
                     -HL_ERR_NO_SUCH_ACCESS_KEY);
    assert_int_equal(CHANGE(&h, directory_bucket_create, S("two"), none, S("GK1"), S("eu")), 0);
    uint64_t one = id_of(&h, "one", ""), two = id_of(&h, "two", "");
    assert_true(one != 0 && two != 0 && one != two);
    assert_int_equal(CHANGE(&h, directory_alias_add, two, S("mine"), S("GK1")), 0);
    assert_int_equal(CHANGE(&h, directory_alias_add, two, S("one"), none), -HL_ERR_BUCKET_EXISTS);
    assert_int_equal(CHANGE(&h, directory_alias_remove, one, S("one"), none),
                     -HL_ERR_INVALID_REQUEST); /* its last name */
    assert_int_equal(
        CHANGE(&h, directory_permission_set, one, S("GK2"), PERMISSION_READ | PERMISSION_WRITE, 0),
        0);
    assert_int_equal(CHANGE(&h, directory_permission_set, one, S("GK2"), 0, PERMISSION_WRITE), 0);
    check_all(&h);
    object_store_close(h.store);
    assert_int_equal(h_open(&h), 0);
    check_all(&h);
    /* A key goes with everything that belongs to it. */
    assert_int_equal(CHANGE(&h, directory_access_key_delete, S("GK1")), 0);
    assert_int_equal(CHANGE(&h, directory_access_key_delete, S("GK1")), -HL_ERR_NO_SUCH_ACCESS_KEY);
    assert_int_equal(id_of(&h, "mine", "GK1"), 0);
    assert_int_equal(directory_permission(h.store, one, S("GK1")), 0);
    /* A bucket goes only when it is empty. */
    assert_int_equal(h_put(&h, one, "k", S("x"), NULL, NULL), 0);
    assert_int_equal(CHANGE(&h, directory_bucket_delete, one), -HL_ERR_BUCKET_NOT_EMPTY);
    assert_int_equal(h_delete(&h, one, "k", NULL, NULL), 0);
    assert_int_equal(CHANGE(&h, directory_bucket_delete, one), 0);
    assert_int_equal(CHANGE(&h, directory_bucket_delete, one), -HL_ERR_NO_SUCH_BUCKET);
    assert_int_equal(h_put(&h, one, "k", S("x"), NULL, NULL), -HL_ERR_NO_SUCH_BUCKET);
    assert_int_equal(directory_permission(h.store, one, S("GK2")), 0);
    assert_true(h_bucket(&h, "one") > two); /* numbers are not used again */
    h_done(&h);
}

static void test_generate(void **state) {
    struct harness h;
    struct slice id, secret, other, ignored;
    uint8_t bytes[32];
    h_start(&h, 1);
    directory_access_key_generate(h.store, h.pool, &id, &secret);
    directory_access_key_generate(h.store, h.pool, &other, &ignored);
    assert_int_equal(id.size, 26);
    assert_int_equal(secret.size, 64);
    assert_true(slice_starts_with(id, S("GK")));
    assert_true(hex_decode(slice_skip(id, 2), bytes, 12));
    assert_true(hex_decode(secret, bytes, 32));
    assert_false(slice_equal(id, other));
    h_done(&h);
}

/* A put that began before its bucket was deleted finds no bucket at its commit. */
static void test_bucket_gone(void **state) {
    struct harness h;
    struct object_write *write;
    h_start(&h, 1);
    struct object_write_args args = {.bucket = h.bucket, .key = S("k"), .size = 3 * H_BLOCK};
    assert_int_equal(object_write_open(h.store, &args, h.pool, &write), 0);
    assert_int_equal(h_feed(write, h_body(&h, 1, 3 * H_BLOCK)), 0);
    assert_int_equal(CHANGE(&h, directory_bucket_delete, h.bucket), 0);
    struct object_wait *wait = h_wait(&h);
    object_write_commit(write, &(struct object_commit_args){0}, object_wait_executor(wait),
                        object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), -HL_ERR_NO_SUCH_BUCKET);
    struct object_stats stats;
    h_settle(&h);
    object_stats(h.store, &stats);
    assert_int_equal(stats.data.staged_bytes, 0);
    h_done(&h);
}

static void test_first_start(void **state) {
    int cut = 0;
    for (uint64_t operation = 1; operation <= 60; operation++) {
        struct harness h;
        uint8_t id[16];
        h_init(&h, operation);
        sim_fs_crash_after(h.disk, operation);
        int err = h_open(&h);
        if (err < 0) {
            assert_true(sim_fs_crashed(h.disk));
            sim_fs_crash(h.disk);
            cut++;
            assert_int_equal(os_mkdir_all(h.env.fs, "/data"), 0);
            assert_int_equal(h_open(&h), 0);
        }
        sim_fs_crash_after(h.disk, 0);
        memcpy(id, object_cluster_id(h.store), 16);
        h.bucket = h_bucket(&h, "bucket");
        assert_int_equal(h_put(&h, h.bucket, "k", S("x"), NULL, NULL), 0);
        object_store_close(h.store);
        assert_int_equal(h_open(&h), 0);
        assert_memory_equal(id, object_cluster_id(h.store), 16);
        struct slice body = SLICE_EMPTY;
        assert_int_equal(h_get(&h, h.bucket, "k", &body, NULL), 0);
        h_done(&h);
    }
    assert_true(cut > 5);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_directory),
        cmocka_unit_test(test_generate),    cmocka_unit_test(test_bucket_gone),
        cmocka_unit_test(test_first_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
