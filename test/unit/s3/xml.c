/* XML out and in: escapes as parsers read them back (expat is the independent reader of what the
 * writer wrote), limits, and documents that attack parsers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"
#include "s3/xml.h"

static int parse(struct pool *pool, const char *text, struct xml_node **ret) {
    return xml_parse(slice_str(text), 1000, pool, ret);
}

static void writer(void **state) {
    struct buf out CLEANUP_BUF = {0};
    xml_begin(&out, "Root", S3_XMLNS);
    xml_str(&out, "A", "x");
    xml_u64(&out, "N", UINT64_MAX);
    xml_bool(&out, "T", true);
    xml_bool(&out, "F", false);
    xml_open(&out, "In");
    xml_text(&out, "E", SLICE_EMPTY);
    xml_close(&out, "In");
    xml_close(&out, "Root");
    assert_true(slice_equal_str(buf_slice(&out),
                                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                "<Root xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><A>x</A>"
                                "<N>18446744073709551615</N><T>true</T><F>false</F><In><E></E></In>"
                                "</Root>"));
    buf_clear(&out);
    xml_begin(&out, "Error", NULL);
    assert_true(
        slice_equal_str(buf_slice(&out), "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>"));
}

static void escapes(void **state) {
    static const struct {
        const char *in;
        size_t size;
        const char *out;
    } cases[] = {
        {"a&b<c>d\"e'f", 11, "a&amp;b&lt;c&gt;d&quot;e&apos;f"},
        {"\r\n\t", 3, "&#13;\n\t"},
        {"\0\x01\x1f\x7f", 4, "&#x0;&#x1;&#x1F;\x7f"},
        {"\xc3\xa9\xf0\x9f\x98\x80", 6, "\xc3\xa9\xf0\x9f\x98\x80"},
        {"a\xff\xc3", 3, "a\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct buf out CLEANUP_BUF = {0};
        xml_escape(&out, slice_of(cases[i].in, cases[i].size));
        assert_true(slice_equal_str(buf_slice(&out), cases[i].out));
        assert_true(utf8_valid(buf_slice(&out)));
    }
}

/* Every text that XML 1.0 can hold comes back as it went in. */
static void round_trip(void **state) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    char text[256];
    size_t size = 0;
    text[size++] = '\t';
    text[size++] = '\n';
    text[size++] = '\r';
    for (int c = 0x20; c < 0x80; c++) {
        text[size++] = (char)c;
    }
    memcpy(text + size, "]]>\xe6\xbc\xa2\xf4\x8f\xbf\xbd  ", 12);
    size += 12;
    struct buf out CLEANUP_BUF = {0};
    xml_begin(&out, "R", S3_XMLNS);
    xml_text(&out, "K", slice_of(text, size));
    xml_close(&out, "R");
    struct xml_node *root = NULL;
    assert_int_equal(xml_parse(buf_slice(&out), 2, pool, &root), 0);
    assert_true(slice_equal(xml_child(root, "K")->text, slice_of(text, size)));
}

static void tree(void **state) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    struct xml_node *root = NULL;
    assert_int_equal(
        parse(pool,
              "\xef\xbb\xbf<?xml version='1.0'?><!-- c --><s:Delete xmlns:s=\"u\" a='1'>\n"
              "<Object><Key> a&amp;b<![CDATA[<c>]]> </Key><VersionId/></Object>"
              "<Quiet>true</Quiet><Object><Key>&#x32;&#13;</Key></Object> tail</s:Delete>",
              &root),
        0);
    assert_true(slice_equal_str(root->name, "Delete"));
    assert_true(slice_equal_str(root->text, "\n tail"));
    struct xml_node *object = xml_child(root, "Object");
    assert_true(slice_equal_str(xml_child(object, "Key")->text, " a&b<c> "));
    assert_true(slice_equal_str(xml_child_text(object, "Key"), "a&b<c>"));
    assert_non_null(xml_child(object, "VersionId"));
    assert_int_equal(xml_child_text(object, "VersionId").size, 0);
    assert_null(xml_child(object, "ETag"));
    assert_true(slice_equal_str(object->next->name, "Quiet"));
    object = object->next->next;
    assert_true(slice_equal_str(xml_child(object, "Key")->text, "2\r"));
    assert_ptr_equal(object->parent, root);
    assert_null(object->next);
}

static void malformed(void **state) {
    static const char *const documents[] = {
        "",
        " ",
        "x",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a>&nbsp;</a>",
        "<:/>",
        "<a:></a:>",
        "<a>&#0;</a>",
        "<a>\x01</a>",
        "<a>\xff</a>",
        "<a>\xc3</a>",
        "<a b></a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        ("<!DOCTYPE l [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>"
         "<!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;'>]><l>&c;</l>"),
        "\xfe\xff\0<\0a\0/\0>",
        "<a/>trailing",
    };
    for (size_t i = 0; i < ARRAY_COUNT(documents); i++) {
        struct pool *pool CLEANUP_POOL = pool_new(0);
        struct xml_node *root = NULL;
        assert_int_equal(parse(pool, documents[i], &root), -HL_ERR_XML);
        assert_null(root);
    }
}

static int parse_depth(struct pool *pool, int depth) {
    struct buf text CLEANUP_BUF = {0};
    for (int i = 0; i < depth; i++) {
        buf_append_str(&text, "<a>");
    }
    for (int i = 0; i < depth; i++) {
        buf_append_str(&text, "</a>");
    }
    struct xml_node *root = NULL;
    return xml_parse(buf_slice(&text), UINT32_MAX, pool, &root);
}

static void limits(void **state) {
    struct pool *pool CLEANUP_POOL = pool_new(0);
    struct xml_node *root = NULL;
    assert_int_equal(parse_depth(pool, 16), 0);
    assert_int_equal(parse_depth(pool, 17), -HL_ERR_XML);
    assert_int_equal(parse_depth(pool, 100000), -HL_ERR_XML);
    assert_int_equal(xml_parse(slice_str("<a><b/><b/></a>"), 3, pool, &root), 0);
    assert_int_equal(xml_parse(slice_str("<a><b/><b/></a>"), 2, pool, &root), -HL_ERR_XML);
    /* A pool at its limit is an error, not a crash. */
    struct pool *small CLEANUP_POOL = pool_new(0);
    pool_set_limit(small, 8192);
    struct buf text CLEANUP_BUF = {0};
    buf_append_str(&text, "<a>");
    for (int i = 0; i < 5000; i++) {
        buf_append_str(&text, "x\n&amp;<b/>");
    }
    buf_append_str(&text, "</a>");
    assert_int_equal(xml_parse(buf_slice(&text), UINT32_MAX, small, &root), -HL_ERR_NOMEM);
    assert_int_equal(xml_parse(buf_slice(&text), UINT32_MAX, pool, &root), 0);
    assert_int_equal(root->text.size, 15000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer), cmocka_unit_test(escapes),   cmocka_unit_test(round_trip),
        cmocka_unit_test(tree),   cmocka_unit_test(malformed), cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
