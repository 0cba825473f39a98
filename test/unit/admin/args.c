/* Arguments of the admin API: types, unknown members, permissions, query parameters, and finding
 * buckets and keys by what a person types. The directory and the request are small fakes with
 * fixed content, so that the expected answers are written out by hand. */
#include "admin/api_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- the fakes ---- */

static struct pool *fake_pool;
static struct http_head fake_head;

struct pool *http_pool(struct http_request *req) {
    (void)req;
    return fake_pool;
}

const struct http_head *http_head(const struct http_request *req) {
    (void)req;
    return &fake_head;
}

static struct bucket_record fake_buckets[] = {
    {.id = 0x1a00000000000001, .name = {(const uint8_t *)"photos", 6}},
    {.id = 0x1a00000000000002, .name = {(const uint8_t *)"logs", 4}},
    {.id = 0x2b00000000000003, .name = {(const uint8_t *)"1a", 2}},
};
static struct access_key_record fake_keys[] = {
    {.id = {(const uint8_t *)"GKaaaa0001", 10}, .name = {(const uint8_t *)"app", 3}},
    {.id = {(const uint8_t *)"GKaaaa0002", 10}, .name = {(const uint8_t *)"twin", 4}},
    {.id = {(const uint8_t *)"GKbbbb0003", 10}, .name = {(const uint8_t *)"twin", 4}},
};

int directory_bucket(struct object_store *store, struct slice name, struct slice key_id,
                     struct pool *pool, struct bucket_record *ret) {
    for (size_t i = 0; i < ARRAY_COUNT(fake_buckets); i++) {
        if (slice_equal(fake_buckets[i].name, name)) {
            *ret = fake_buckets[i];
            return 0;
        }
    }
    return -HL_ERR_NO_SUCH_BUCKET;
}

int directory_buckets(struct object_store *store, struct pool *pool, struct bucket_record **ret,
                      uint32_t *ret_count) {
    *ret = fake_buckets;
    *ret_count = ARRAY_COUNT(fake_buckets);
    return 0;
}

int directory_access_key(struct object_store *store, struct slice id, struct pool *pool,
                         struct access_key_record *ret) {
    for (size_t i = 0; i < ARRAY_COUNT(fake_keys); i++) {
        if (slice_equal(fake_keys[i].id, id)) {
            *ret = fake_keys[i];
            return 0;
        }
    }
    return -HL_ERR_NO_SUCH_ACCESS_KEY;
}

int directory_access_keys(struct object_store *store, struct pool *pool,
                          struct access_key_record **ret, uint32_t *ret_count) {
    *ret = fake_keys;
    *ret_count = ARRAY_COUNT(fake_keys);
    return 0;
}

/* api.c is not part of this program: its words for errors are all that is needed of it. */
int api_fail(struct api_call *call, int err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    call->message = (const char *)pool_copy(fake_pool, slice_str(text)).data;
    return err;
}

static struct admin fake_admin;

static int setup(void **state) {
    static struct api_call call;
    fake_pool = pool_new(0);
    call = (struct api_call){.admin = &fake_admin};
    *state = &call;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    pool_free(fake_pool);
    return 0;
}

/* ---- the tests ---- */

static void test_types(void **state) {
    struct api_call *call = *state;
    json_t *json = json_loads("{\"s\":\"text\",\"n\":7,\"neg\":-1,\"r\":1.5,\"b\":true,\"o\":{},"
                              "\"null\":null,\"nul\":\"a\\u0000b\"}",
                              JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    const char *text = NULL;
    uint64_t number = 42;
    bool flag = false;
    json_t *object = NULL;
    assert_int_equal(api_get_string(call, json, "s", true, &text), 0);
    assert_string_equal(text, "text");
    assert_int_equal(api_get_string(call, json, "n", false, &text), -HL_ERR_INVALID_REQUEST);
    assert_string_equal(call->message, "\"n\" must be a string.");
    assert_int_equal(api_get_string(call, json, "nul", false, &text), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_string(call, json, "absent", true, &text), -HL_ERR_INVALID_REQUEST);
    assert_string_equal(call->message, "\"absent\" is missing.");
    assert_int_equal(api_get_string(call, json, "null", true, &text), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_string(call, json, "null", false, &text), 0);
    assert_string_equal(text, "text");
    assert_int_equal(api_get_u64(call, json, "absent", &number), 0);
    assert_int_equal(number, 42);
    assert_int_equal(api_get_u64(call, json, "n", &number), 0);
    assert_int_equal(number, 7);
    assert_int_equal(api_get_u64(call, json, "neg", &number), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_u64(call, json, "r", &number), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_u64(call, json, "s", &number), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_bool(call, json, "b", &flag), 0);
    assert_true(flag);
    assert_int_equal(api_get_bool(call, json, "n", &flag), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_object(call, json, "o", &object), 0);
    assert_non_null(object);
    assert_int_equal(api_get_object(call, json, "s", &object), -HL_ERR_INVALID_REQUEST);
    json_decref(json);
}

static void test_unknown_members(void **state) {
    struct api_call *call = *state;
    static const char *const known[] = {"a", "b", NULL};
    json_t *json = json_loads("{\"a\":1,\"globalAlais\":2}", 0, NULL);
    assert_int_equal(api_check_members(call, json, known), -HL_ERR_INVALID_REQUEST);
    assert_string_equal(call->message, "\"globalAlais\" is not known here.");
    (void)json_object_del(json, "globalAlais");
    assert_int_equal(api_check_members(call, json, known), 0);
    json_decref(json);
}

static void test_permissions(void **state) {
    struct api_call *call = *state;
    json_t *json = json_loads("{\"p\":{\"read\":true,\"write\":false,\"owner\":true},"
                              "\"q\":{\"raed\":true},\"r\":{\"read\":1}}",
                              0, NULL);
    uint32_t flags = 0;
    assert_int_equal(api_get_permissions(call, json, "p", &flags), 0);
    assert_int_equal(flags, 1 | 4);
    assert_int_equal(api_get_permissions(call, json, "q", &flags), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_get_permissions(call, json, "r", &flags), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(flags, 1 | 4);
    json_decref(json);
}

static void test_query(void **state) {
    struct api_call *call = *state;
    fake_head.query = slice_str("id=a%20b&search=&key=x%2Fy=z&bad=%G0&nul=a%00");
    assert_string_equal(api_query(call, "id"), "a b");
    assert_string_equal(api_query(call, "search"), "");
    assert_string_equal(api_query(call, "key"), "x/y=z");
    assert_null(api_query(call, "bad"));
    assert_null(api_query(call, "nul"));
    assert_null(api_query(call, "absent"));
    fake_head.query = SLICE_EMPTY;
    assert_null(api_query(call, "id"));
}

static void test_find_bucket(void **state) {
    struct api_call *call = *state;
    struct bucket_record found = {0};
    assert_int_equal(api_find_bucket(call, "photos", &found), 0);
    assert_true(found.id == 0x1a00000000000001);
    assert_int_equal(api_find_bucket(call, "1a00000000000002", &found), 0);
    assert_true(found.id == 0x1a00000000000002);
    assert_int_equal(api_find_bucket(call, "2b", &found), 0);
    assert_true(found.id == 0x2b00000000000003);
    /* A name wins over the beginning of an id. */
    assert_int_equal(api_find_bucket(call, "1a", &found), 0);
    assert_true(found.id == 0x2b00000000000003);
    assert_int_equal(api_find_bucket(call, "1a0", &found), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_find_bucket(call, "", &found), -HL_ERR_NO_SUCH_BUCKET);
    assert_int_equal(api_find_bucket(call, "none", &found), -HL_ERR_NO_SUCH_BUCKET);
}

static void test_find_key(void **state) {
    struct api_call *call = *state;
    struct access_key_record found = {0};
    assert_int_equal(api_find_key(call, "GKaaaa0002", &found), 0);
    assert_true(slice_equal_str(found.id, "GKaaaa0002"));
    assert_int_equal(api_find_key(call, "app", &found), 0);
    assert_true(slice_equal_str(found.id, "GKaaaa0001"));
    assert_int_equal(api_find_key(call, "GKbb", &found), 0);
    assert_true(slice_equal_str(found.id, "GKbbbb0003"));
    assert_int_equal(api_find_key(call, "GKaaaa", &found), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_find_key(call, "twin", &found), -HL_ERR_INVALID_REQUEST);
    assert_int_equal(api_find_key(call, "GK", &found), -HL_ERR_NO_SUCH_ACCESS_KEY);
    assert_int_equal(api_find_key(call, "", &found), -HL_ERR_NO_SUCH_ACCESS_KEY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_permissions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_query, setup, teardown),
        cmocka_unit_test_setup_teardown(test_find_bucket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_find_key, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
