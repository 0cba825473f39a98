/* Parses any document within the limits; what it reads, written again and read again, is the same
 * tree of names and texts. */
#include <stdint.h>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "s3/xml.h"

#define NODES_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the tree without recursion, in document order; texts before children. */
static void write_tree(struct buf *out, const struct xml_node *root) {
    const struct xml_node *node = root;
    while (node != NULL) {
        buf_printf(out, "<%.*s>", SLICE_PRINT(node->name));
        xml_escape(out, node->text);
        if (node->child != NULL) {
            node = node->child;
            continue;
        }
        for (;;) {
            buf_printf(out, "</%.*s>", SLICE_PRINT(node->name));
            if (node == root || node->next != NULL) {
                break;
            }
            node = node->parent;
        }
        node = node == root ? NULL : node->next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pool *pool = pool_new(0);
    struct xml_node *root = NULL, *again = NULL;
    struct buf first = {0}, second = {0}, escaped = {0};
    int err = xml_parse(slice_of(data, size), NODES_MAX, pool, &root);
    CHECK(err == 0 || err == -HL_ERR_XML || err == -HL_ERR_NOMEM);
    if (err == 0) {
        write_tree(&first, root);
        CHECK(xml_parse(buf_slice(&first), NODES_MAX, pool, &again) == 0);
        write_tree(&second, again);
        CHECK(slice_equal(buf_slice(&first), buf_slice(&second)));
    }
    xml_escape(&escaped, slice_of(data, size));
    CHECK(utf8_valid(buf_slice(&escaped)));
    buf_done(&first);
    buf_done(&second);
    buf_done(&escaped);
    pool_free(pool);
    return 0;
}
