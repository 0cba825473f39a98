/* XML out: an escaping writer. XML in: events over expat with limits (no DOCTYPE, depth 16, size by
 * the caller). */
#ifndef S3_XML_H
#define S3_XML_H

#include "base/buf.h"
#include "base/pool.h"

#define S3_XMLNS "http://s3.amazonaws.com/doc/2006-03-01/"

/* <?xml version="1.0" encoding="UTF-8"?> and the root; ns NULL: none. */
void xml_begin(struct buf *out, const char *root, const char *ns);
void xml_open(struct buf *out, const char *name);
void xml_close(struct buf *out, const char *name);
/* <name>escaped</name>; control characters that XML 1.0 cannot hold become &#xN; as AWS does. */
void xml_text(struct buf *out, const char *name, struct slice value);
void xml_str(struct buf *out, const char *name, const char *value);
void xml_u64(struct buf *out, const char *name, uint64_t value);
void xml_bool(struct buf *out, const char *name, bool value);
void xml_escape(struct buf *out, struct slice value);

/* A parsed document: elements in document order with their text, in pool. Names without namespace
 * prefix. */
struct xml_node {
    struct slice name;
    struct slice text; /* concatenated character data, untrimmed */
    struct xml_node *child, *next, *parent;
};
/* XML when malformed, too deep, with a DOCTYPE, not UTF-8, or with more than node_max nodes. */
int xml_parse(struct slice document, uint32_t node_max, struct pool *pool,
              struct xml_node **ret_root);
struct xml_node *xml_child(const struct xml_node *node,
                           const char *name); /* first of that name or NULL */
struct slice xml_child_text(const struct xml_node *node,
                            const char *name); /* trimmed; empty when absent */

#endif
