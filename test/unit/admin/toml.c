/* The TOML subset: what is read, what is refused and in which line, limits. Expected values are
 * written out by hand from the TOML 1.0 specification. */
#include "admin/toml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"

static struct toml_value *parse(struct pool *pool, const char *text) {
    struct toml_value *root = NULL;
    struct toml_error error;
    int err = toml_parse(slice_str(text), pool, &root, &error);
    if (err < 0) {
        fail_msg("line %u: %s", error.line, error.text);
    }
    return root;
}

static struct toml_value *get(const struct toml_value *table, const char *key) {
    struct toml_value *v = toml_find(table, slice_str(key));
    assert_non_null(v);
    return v;
}

static void assert_text(const struct toml_value *v, const char *want) {
    assert_int_equal(v->type, TOML_STRING);
    assert_int_equal(v->string.size, strlen(want));
    assert_memory_equal(v->string.data, want, strlen(want) + 1);
}

static void test_values(void **state) {
    (void)state;
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct toml_value *root = parse(pool, "# comment\n"
                                          "a = \"x\\ty\\u00e9\\U0001F600\\\\\" # tail\r\n"
                                          "b = 'C:\\raw'\n"
                                          "c = 1_000_000\n"
                                          "d = -5\n"
                                          "e = true\n"
                                          "\"quoted key\" = false\n");
    assert_text(get(root, "a"), "x\ty\xC3\xA9\xF0\x9F\x98\x80\\");
    assert_text(get(root, "b"), "C:\\raw");
    assert_int_equal(get(root, "c")->integer, 1000000);
    assert_int_equal(get(root, "d")->integer, -5);
    assert_true(get(root, "e")->boolean);
    assert_int_equal(get(root, "quoted key")->type, TOML_BOOLEAN);
    assert_false(get(root, "quoted key")->boolean);
    assert_int_equal(get(root, "e")->line, 6);
}

static void test_containers(void **state) {
    (void)state;
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct toml_value *root = parse(pool, "data_dir = [\n"
                                          "  { path = \"/a\", capacity = \"1T\" }, # first\n"
                                          "  { path = \"/b\", read_only = true },\n"
                                          "]\n"
                                          "empty = []\n"
                                          "nested = [[1, 2], [{x = {y = 3}}]]\n"
                                          "[t]\nk = 1\n[t.u]\nk = 2\n[ v ]\nk = 3");
    struct toml_value *dirs = get(root, "data_dir");
    assert_int_equal(dirs->type, TOML_ARRAY);
    assert_text(get(dirs->first, "path"), "/a");
    assert_text(get(dirs->first, "capacity"), "1T");
    assert_int_equal(dirs->first->next->line, 3);
    assert_true(get(dirs->first->next, "read_only")->boolean);
    assert_null(dirs->first->next->next);
    assert_null(get(root, "empty")->first);
    struct toml_value *nested = get(root, "nested");
    assert_int_equal(nested->first->last->integer, 2);
    assert_int_equal(get(get(nested->last->first, "x"), "y")->integer, 3);
    assert_int_equal(get(get(root, "t"), "k")->integer, 1);
    assert_int_equal(get(get(get(root, "t"), "u"), "k")->integer, 2);
    assert_int_equal(get(get(root, "v"), "k")->integer, 3);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t line;
        const char *says;
    } cases[] = {
        {"a = 1\na = 2\n", 2, "twice"},
        {"\n\nb = \"open\n", 3, "not closed"},
        {"x 1\n", 1, "\"=\""},
        {"x = \n", 1, "value is expected"},
        {"x = 1 2\n", 1, "unexpected"},
        {"x = 1.5\n", 1, "whole"},
        {"x = 2024-01-01\n", 1, "quotes"},
        {"x = 007\n", 1, "leading zeros"},
        {"x = 1__0\n", 1, "no value"},
        {"x = 99999999999999999999\n", 1, "too large"},
        {"x = yes\n", 1, "quotes"},
        {"x = [1, 2\n\ny = 3\n", 3, "expected"},
        {"x = { a = 1,\n b = 2 }\n", 1, "key is expected"},
        {"x = { a = 1, }\n", 1, "key is expected"},
        {"x = [1 2]\n", 1, "\",\""},
        {"x = [,]\n", 1, "value is expected"},
        {"[a]\nb = 1\n[a]\nc = 2\n", 3, "twice"},
        {"a = 1\n[a]\n", 2, "not a table"},
        {"[[a]]\n", 1, "[[...]]"},
        {"a.b = 1\n", 1, "dotted"},
        {"x = \"\"\"many\"\"\"\n", 1, "several lines"},
        {"x = \"\\q\"\n", 1, "escape"},
        {"x = \"\\uD800\"\n", 1, "no character"},
        {"x = \"\\u12\"\n", 1, "hexadecimal"},
        {"x = \"a\x01\"\n", 1, "control"},
        {"# \x01\n", 1, "control"},
        {"x = \"\xff\"\n", 1, "UTF-8"},
        {"[a\n", 1, "\"]\""},
        {"x = [[[[[[[[[1]]]]]]]]]\n", 1, "nested"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CLEANUP_POOL struct pool *pool = pool_new(0);
        struct toml_value *root = NULL;
        struct toml_error error = {0};
        int err = toml_parse(slice_str(cases[i].text), pool, &root, &error);
        if (err != -HL_ERR_SYNTAX || error.line != cases[i].line ||
            strstr(error.text, cases[i].says) == NULL || root != NULL) {
            fail_msg("case %zu: %d, line %u: %s", i, err, error.line, error.text);
        }
    }
}

static void test_limits(void **state) {
    (void)state;
    CLEANUP_POOL struct pool *pool = pool_new(0);
    CLEANUP_BUF struct buf text = {0};
    struct toml_value *root = NULL;
    struct toml_error error;
    buf_append_str(&text, "x = [");
    for (int i = 0; i < TOML_ENTRIES_MAX; i++) {
        buf_append_str(&text, "1,\n");
    }
    buf_append_str(&text, "]\n");
    assert_int_equal(toml_parse(buf_slice(&text), pool, &root, &error), -HL_ERR_SYNTAX);
    assert_non_null(strstr(error.text, "entries"));
    buf_clear(&text);
    while (text.size <= TOML_TEXT_MAX) {
        buf_append_str(&text, "# a comment that fills the file\n");
    }
    assert_int_equal(toml_parse(buf_slice(&text), pool, &root, &error), -HL_ERR_LIMIT);
    assert_non_null(strstr(error.text, "larger"));
    assert_null(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
