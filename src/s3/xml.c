/* XML for S3: a writer that escapes into a buf, and a reader that turns a small document into a
 * tree in a pool. The reader drives expat and refuses what no S3 client sends and what attacks are
 * made of: a DOCTYPE (so no entities of its own), depth beyond 16, too many elements, any encoding
 * but UTF-8. Both are pure and run on whatever thread has the request; the caller bounds the size
 * of a document before it comes here. Knows nothing of operations. */
#include "s3/xml.h"

#include <expat.h>
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"

/* ---- out ---- */

void xml_begin(struct buf *out, const char *root, const char *ns) {
    buf_append_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<");
    buf_append_str(out, root);
    if (ns != NULL) {
        buf_append_str(out, " xmlns=\"");
        xml_escape(out, slice_str(ns));
        buf_append_str(out, "\"");
    }
    buf_append_str(out, ">");
}

void xml_open(struct buf *out, const char *name) {
    buf_append_str(out, "<");
    buf_append_str(out, name);
    buf_append_str(out, ">");
}

void xml_close(struct buf *out, const char *name) {
    buf_append_str(out, "</");
    buf_append_str(out, name);
    buf_append_str(out, ">");
}

void xml_text(struct buf *out, const char *name, struct slice value) {
    xml_open(out, name);
    xml_escape(out, value);
    xml_close(out, name);
}

void xml_str(struct buf *out, const char *name, const char *value) {
    xml_text(out, name, slice_str(value));
}

void xml_u64(struct buf *out, const char *name, uint64_t value) {
    xml_open(out, name);
    buf_printf(out, "%" PRIu64, value);
    xml_close(out, name);
}

void xml_bool(struct buf *out, const char *name, bool value) {
    xml_str(out, name, value ? "true" : "false");
}

/* The bytes of the UTF-8 sequence at pos, or 0 when there is none (RFC 3629: shortest form, no
 * surrogates, at most U+10FFFF). */
static size_t utf8_sequence(struct slice s, size_t pos) {
    const uint8_t *p = s.data + pos;
    size_t left = s.size - pos;
    if (p[0] < 0x80) {
        return 1;
    }
    size_t size = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
                  : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                  : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                : 0;
    if (size == 0 || size > left) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0;
    }
    return size;
}

static const char *entity_of(uint8_t c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&apos;";
    case '\r':
        return "&#13;"; /* raw, a parser would read it as a line feed */
    default:
        return NULL;
    }
}

void xml_escape(struct buf *out, struct slice value) {
    size_t plain = 0; /* start of the run not yet copied */
    size_t pos = 0;
    while (pos < value.size) {
        uint8_t c = value.data[pos];
        size_t size = utf8_sequence(value, pos);
        const char *entity = entity_of(c);
        if (size != 0 && entity == NULL && (c >= 0x20 || c == '\n' || c == '\t')) {
            pos += size;
            continue;
        }
        buf_append(out, value.data + plain, pos - plain);
        if (size == 0) {
            buf_append_str(out, "\xef\xbf\xbd"); /* U+FFFD: an answer is always UTF-8 */
        } else if (entity != NULL) {
            buf_append_str(out, entity);
        } else {
            buf_printf(out, "&#x%X;", (unsigned)c);
        }
        pos++;
        plain = pos;
    }
    if (plain < value.size) {
        buf_append(out, value.data + plain, value.size - plain);
    }
}

/* ---- in ---- */

#define XML_DEPTH_MAX    16
#define XML_DOCUMENT_MAX (64u << 20)

struct xml_reader {
    XML_Parser parser;
    struct pool *pool;
    struct xml_node *root;
    struct xml_node *open[XML_DEPTH_MAX];
    struct xml_node *last_child[XML_DEPTH_MAX]; /* of open[i] */
    struct buf text[XML_DEPTH_MAX];             /* of open[i], moved to the pool when it closes */
    uint32_t depth;
    uint32_t node_count;
    uint32_t node_max;
    int err;
};

static void reader_stop(struct xml_reader *reader, int err) {
    if (reader->err == 0) {
        reader->err = err;
        XML_StopParser(reader->parser, XML_FALSE);
    }
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_subset) {
    reader_stop(arg, -HL_ERR_XML);
}

static struct xml_node *node_new(struct xml_reader *reader, const char *qualified) {
    const char *colon = strrchr(qualified, ':');
    struct slice name = slice_str(colon != NULL ? colon + 1 : qualified);
    if (name.size == 0) {
        reader_stop(reader, -HL_ERR_XML); /* "a:" is a name to expat, but none to namespaces */
        return NULL;
    }
    struct xml_node *node = POOL_NEW(reader->pool, struct xml_node);
    if (node != NULL) {
        node->name = pool_copy(reader->pool, name);
    }
    if (node == NULL || node->name.data == NULL) {
        reader_stop(reader, -HL_ERR_NOMEM);
        return NULL;
    }
    return node;
}

static void on_start(void *arg, const XML_Char *name, const XML_Char **attributes) {
    struct xml_reader *reader = arg;
    if (reader->err != 0) {
        return; /* expat may still deliver an event or two after a stop */
    }
    if (reader->depth == XML_DEPTH_MAX || reader->node_count == reader->node_max) {
        reader_stop(reader, -HL_ERR_XML);
        return;
    }
    struct xml_node *node = node_new(reader, name);
    if (node == NULL) {
        return;
    }
    reader->node_count++;
    if (reader->depth == 0) {
        reader->root = node;
    } else {
        uint32_t parent = reader->depth - 1;
        node->parent = reader->open[parent];
        if (reader->last_child[parent] == NULL) {
            node->parent->child = node;
        } else {
            reader->last_child[parent]->next = node;
        }
        reader->last_child[parent] = node;
    }
    reader->open[reader->depth] = node;
    reader->last_child[reader->depth] = NULL;
    buf_clear(&reader->text[reader->depth]);
    reader->depth++;
}

static void on_end(void *arg, const XML_Char *name) {
    struct xml_reader *reader = arg;
    if (reader->err != 0) {
        return;
    }
    reader->depth--;
    struct buf *text = &reader->text[reader->depth];
    struct slice copy = pool_copy(reader->pool, buf_slice(text));
    if (text->failed || copy.data == NULL) {
        reader_stop(reader, -HL_ERR_NOMEM);
        return;
    }
    reader->open[reader->depth]->text = copy;
}

static void on_text(void *arg, const XML_Char *text, int size) {
    struct xml_reader *reader = arg;
    if (reader->err == 0 && reader->depth > 0) {
        buf_append(&reader->text[reader->depth - 1], text, (size_t)size);
    }
}

int xml_parse(struct slice document, uint32_t node_max, struct pool *pool,
              struct xml_node **ret_root) {
    if (document.size == 0 || document.size > XML_DOCUMENT_MAX) {
        return -HL_ERR_XML;
    }
    struct xml_reader reader = {.pool = pool, .node_max = node_max};
    reader.parser = XML_ParserCreate("UTF-8"); /* whatever the document declares */
    if (reader.parser == NULL) {
        return -HL_ERR_NOMEM;
    }
    XML_SetUserData(reader.parser, &reader);
    XML_SetElementHandler(reader.parser, on_start, on_end);
    XML_SetCharacterDataHandler(reader.parser, on_text);
    XML_SetStartDoctypeDeclHandler(reader.parser, on_doctype);
    enum XML_Status status =
        XML_Parse(reader.parser, (const char *)document.data, (int)document.size, XML_TRUE);
    XML_ParserFree(reader.parser);
    for (uint32_t i = 0; i < XML_DEPTH_MAX; i++) {
        buf_done(&reader.text[i]);
    }
    if (reader.err != 0) {
        return reader.err;
    }
    if (status != XML_STATUS_OK || reader.root == NULL || reader.depth != 0) {
        return -HL_ERR_XML;
    }
    *ret_root = reader.root;
    return 0;
}

struct xml_node *xml_child(const struct xml_node *node, const char *name) {
    for (struct xml_node *child = node->child; child != NULL; child = child->next) {
        if (slice_equal_str(child->name, name)) {
            return child;
        }
    }
    return NULL;
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct slice xml_child_text(const struct xml_node *node, const char *name) {
    const struct xml_node *child = xml_child(node, name);
    if (child == NULL) {
        return SLICE_EMPTY;
    }
    struct slice text = child->text;
    while (text.size > 0 && is_space(text.data[0])) {
        text = slice_skip(text, 1);
    }
    while (text.size > 0 && is_space(text.data[text.size - 1])) {
        text.size--;
    }
    return text;
}
