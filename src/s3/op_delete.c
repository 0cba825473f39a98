/* DeleteObject and DeleteObjects. A key that is not there counts as deleted. */
#include "base/error.h"
#include "base/text.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

#define DELETE_DOCUMENT_MAX (2u << 20) /* AWS's limit on this body */
#define DELETE_KEYS_MAX     1000
#define DELETE_NODES_MAX    (DELETE_KEYS_MAX * 6 + 16)
#define DELETE_ANSWER_MAX   (12u << 20)
#define DELETE_POOL_MAX     (32u << 20)

/* ---- one ---- */

struct delete_one {
    struct s3_request *r;
    struct object_conditions conditions;
    struct object_delete_item item;
};

static void one_deleted(void *arg, int err, const struct object_result *result) {
    struct delete_one *d = arg;
    struct s3_request *r = d->r;
    if (err == 0) {
        err = d->item.err;
    }
    if (err < 0 && err != -HL_ERR_NO_SUCH_KEY) {
        s3_fail(r, err);
        return;
    }
    s3_respond_empty(r, 204);
}

void s3_delete_object(struct s3_request *r) {
    int err = s3_check_version(r);
    if (err == -HL_ERR_NO_SUCH_VERSION) { /* of valid form: gone already */
        s3_set_header(r, "x-amz-version-id", s3_param(r, "versionId"));
        s3_respond_empty(r, 204);
        return;
    }
    struct delete_one *d = POOL_NEW(r->pool, struct delete_one);
    if (err == 0 && d == NULL) {
        err = -HL_ERR_NOMEM;
    }
    if (err == 0) {
        err = s3_conditions_delete(r, &d->conditions);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    d->r = r;
    d->item = (struct object_delete_item){.key = r->key, .conditions = &d->conditions};
    object_delete(r->s3->store, r->bucket.id, &d->item, 1, r->pool, r->home, one_deleted, d);
}

/* ---- many ---- */

struct entry { /* in the order of the document */
    struct slice key, version;
    int err;      /* decided without the store, or copied from the item */
    int32_t item; /* index of its item, or -1 */
};

struct delete_many {
    struct s3_request *r;
    struct slice document;
    bool quiet;
    struct entry *entries;
    uint32_t entry_count;
    struct object_delete_item *items;
    uint32_t item_count;
};

static struct slice node_text(const struct xml_node *object, const char *name) {
    const struct xml_node *node = xml_child(object, name);
    return node != NULL ? node->text : SLICE_EMPTY;
}

/* ETag, LastModifiedTime and Size of an Object element. */
static int entry_conditions(struct s3_request *r, const struct xml_node *object,
                            const struct object_conditions **ret) {
    struct slice etag = s3_trim(node_text(object, "ETag"));
    struct slice time = s3_trim(node_text(object, "LastModifiedTime"));
    struct slice size = s3_trim(node_text(object, "Size"));
    if (etag.size == 0 && time.size == 0 && size.size == 0) {
        return 0;
    }
    struct object_conditions *c = POOL_NEW(r->pool, struct object_conditions);
    if (c == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = s3_parse_etags(etag, r->pool, &c->match);
    if (err < 0) {
        return err;
    }
    c->last_modified_given = time.size > 0;
    c->size_given = size.size > 0;
    if ((time.size > 0 && !s3_parse_time(time, &c->last_modified_ms)) ||
        (size.size > 0 && !parse_u64(size, UINT64_MAX, &c->size))) {
        return -HL_ERR_XML;
    }
    *ret = c;
    return 0;
}

static int add_entry(struct delete_many *d, const struct xml_node *object) {
    struct entry *entry = &d->entries[d->entry_count++];
    *entry = (struct entry){.key = node_text(object, "Key"),
                            .version = s3_trim(node_text(object, "VersionId")),
                            .item = -1};
    if (entry->key.size == 0) {
        return -HL_ERR_XML;
    }
    if (entry->key.size > S3_KEY_BYTES_MAX) {
        entry->err = -HL_ERR_KEY_TOO_LONG;
        return 0;
    }
    if (entry->version.size > 0 && !slice_equal_str(entry->version, "null")) {
        return 0; /* no such version: gone already */
    }
    struct object_delete_item *item = &d->items[d->item_count];
    *item = (struct object_delete_item){.key = entry->key};
    int err = entry_conditions(d->r, object, &item->conditions);
    entry->item = (int32_t)d->item_count++;
    return err;
}

static int parse_delete(struct s3_request *r) {
    struct delete_many *d = r->op;
    struct xml_node *root;
    int err = xml_parse(d->document, DELETE_NODES_MAX, r->pool, &root);
    if (err < 0) {
        return err;
    }
    uint32_t count = 0;
    for (const struct xml_node *n = root->child; n != NULL; n = n->next) {
        count += slice_equal_str(n->name, "Object");
    }
    if (!slice_equal_str(root->name, "Delete") || count == 0 || count > DELETE_KEYS_MAX) {
        return -HL_ERR_XML;
    }
    d->quiet = slice_equal_nocase(xml_child_text(root, "Quiet"), SLICE_LITERAL("true"));
    d->entries = pool_calloc(r->pool, count * sizeof(*d->entries));
    d->items = pool_calloc(r->pool, count * sizeof(*d->items));
    if (d->entries == NULL || d->items == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (const struct xml_node *n = root->child; n != NULL && err == 0; n = n->next) {
        if (slice_equal_str(n->name, "Object")) {
            err = add_entry(d, n);
        }
    }
    return err;
}

static void write_entry(struct delete_many *d, const struct entry *entry) {
    struct buf *out = &d->r->out;
    int err = entry->item >= 0 ? d->items[entry->item].err : entry->err;
    if (err == -HL_ERR_NO_SUCH_KEY) {
        err = 0;
    }
    if (err == 0 && d->quiet) {
        return;
    }
    const char *element = err == 0 ? "Deleted" : "Error";
    xml_open(out, element);
    xml_text(out, "Key", entry->key);
    if (entry->version.size > 0) {
        xml_text(out, "VersionId", entry->version);
    }
    if (err < 0) {
        xml_str(out, "Code", error_s3_code(err));
        xml_str(out, "Message", error_text(err));
    }
    xml_close(out, element);
}

static void many_deleted(void *arg, int err, const struct object_result *result) {
    struct delete_many *d = arg;
    struct s3_request *r = d->r;
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    r->out.size_max = DELETE_ANSWER_MAX;
    xml_begin(&r->out, "DeleteResult", S3_XMLNS);
    for (uint32_t i = 0; i < d->entry_count; i++) {
        write_entry(d, &d->entries[i]);
    }
    xml_close(&r->out, "DeleteResult");
    s3_respond_xml(r, 200);
}

static void delete_parsed(struct s3_request *r, int err) {
    struct delete_many *d = r->op;
    if (err < 0) {
        s3_fail(r, err);
    } else if (d->item_count == 0) {
        many_deleted(d, 0, NULL);
    } else {
        object_delete(r->s3->store, r->bucket.id, d->items, d->item_count, r->pool, r->home,
                      many_deleted, d);
    }
}

static void delete_document(struct s3_request *r, struct slice document) {
    struct delete_many *d = r->op;
    d->document = document;
    s3_on_worker(r, parse_delete, delete_parsed);
}

void s3_delete_objects(struct s3_request *r) {
    struct delete_many *d = POOL_NEW(r->pool, struct delete_many);
    if (d == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    d->r = r;
    r->op = d;
    pool_set_limit(r->pool, DELETE_POOL_MAX);
    s3_read_document(r, DELETE_DOCUMENT_MAX, false, delete_document);
}
