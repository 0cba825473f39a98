/* CompleteMultipartUpload: the list of parts (up to 10,000) is read and parsed on a worker; the
 * object layer decides and commits. The checksum headers of this request speak of the object, not
 * of its body. */
#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

#define COMPLETE_DOCUMENT_MAX (4u << 20)
#define COMPLETE_PARTS_MAX    10000
#define COMPLETE_NODES_MAX    (COMPLETE_PARTS_MAX * 5 + 16)
#define COMPLETE_POOL_MAX     (32u << 20)

struct complete {
    struct s3_request *r;
    struct slice document;
    struct object_complete_args args;
    struct object_conditions conditions;
};

/* The one x-amz-checksum-* header with a value, of the whole object. */
static int read_object_checksum(struct s3_request *r, struct object_complete_args *args) {
    for (int algorithm = CHECKSUM_CRC32; algorithm <= CHECKSUM_SHA256; algorithm++) {
        const char *name = checksum_header_name(algorithm);
        struct slice text = s3_header(r, name);
        if (text.size == 0) {
            continue;
        }
        if (args->checksum.size > 0) {
            return s3_err(r, -HL_ERR_INVALID_REQUEST,
                          "Expecting a single x-amz-checksum- header. Multiple checksum Types are "
                          "not allowed.");
        }
        uint32_t parts;
        if (checksum_parse_parts(algorithm, text, &args->checksum, &parts) < 0) {
            r->message = pool_printf(r->pool, "Value for %s header is invalid.", name);
            return -HL_ERR_BAD_CHECKSUM; /* as for PutObject: the code that s3-tests expects */
        }
    }
    struct slice type = s3_header(r, "x-amz-checksum-type");
    args->type_given = type.size > 0;
    if (args->type_given && !checksum_type_parse(type, &args->type)) {
        return s3_err(r, -HL_ERR_INVALID_REQUEST,
                      "Value for x-amz-checksum-type header is invalid.");
    }
    struct slice size = s3_header(r, "x-amz-mp-object-size");
    args->size_given = size.size > 0;
    if (args->size_given && !parse_u64(size, INT64_MAX, &args->size)) {
        return s3_err(r, -HL_ERR_INVALID_REQUEST,
                      "Value for x-amz-mp-object-size header is invalid.");
    }
    return 0;
}

static int parse_part(struct s3_request *r, const struct xml_node *node,
                      struct object_complete_part *ret) {
    uint64_t number;
    struct slice text = xml_child_text(node, "PartNumber");
    if (!parse_u64(text, INT32_MAX, &number)) {
        return -HL_ERR_XML;
    }
    if (number < 1 || number > COMPLETE_PARTS_MAX) {
        s3_add_detail(r, "ArgumentName", SLICE_LITERAL("partNumber"));
        s3_add_detail(r, "ArgumentValue", text);
        return s3_err(r, -HL_ERR_INVALID, "PartNumber must be >= 1 and <= 10000");
    }
    ret->number = (uint16_t)number;
    ret->etag = xml_child_text(node, "ETag");
    if (ret->etag.size >= 2 && ret->etag.data[0] == '"' &&
        ret->etag.data[ret->etag.size - 1] == '"') {
        ret->etag = slice_of(ret->etag.data + 1, ret->etag.size - 2);
    }
    for (int algorithm = CHECKSUM_CRC32; algorithm <= CHECKSUM_SHA256; algorithm++) {
        struct slice value = xml_child_text(node, checksum_element_name(algorithm));
        if (value.size > 0 && checksum_parse(algorithm, value, &ret->checksum) < 0) {
            return -HL_ERR_INVALID_PART;
        }
    }
    return 0;
}

static int parse_complete(struct s3_request *r) {
    struct complete *c = r->op;
    struct xml_node *root;
    if (s3_trim(c->document).size == 0) {
        return -HL_ERR_XML;
    }
    int err = xml_parse(c->document, COMPLETE_NODES_MAX, r->pool, &root);
    if (err < 0) {
        return err;
    }
    uint32_t count = 0;
    for (const struct xml_node *n = root->child; n != NULL; n = n->next) {
        count += slice_equal_str(n->name, "Part");
    }
    if (!slice_equal_str(root->name, "CompleteMultipartUpload") || count == 0 ||
        count > COMPLETE_PARTS_MAX) {
        return -HL_ERR_XML;
    }
    struct object_complete_part *parts = pool_calloc(r->pool, count * sizeof(*parts));
    if (parts == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t filled = 0;
    for (const struct xml_node *n = root->child; n != NULL && err == 0; n = n->next) {
        if (slice_equal_str(n->name, "Part")) {
            err = parse_part(r, n, &parts[filled++]);
        }
    }
    c->args.parts = parts;
    c->args.part_count = filled;
    return err;
}

/* An absolute URL, as parsers of this answer expect: in the style in which it was asked. */
static void write_location(struct s3_request *r) {
    CLEANUP_BUF struct buf url = {0};
    struct slice host = s3_header(r, "Host");
    buf_append_str(&url, http_is_tls(r->http) ? "https://" : "http://");
    buf_append_slice(&url, host);
    if (!r->virtual_host) {
        buf_append_str(&url, "/");
        buf_append_slice(&url, r->bucket_name);
    }
    buf_append_str(&url, "/");
    percent_encode(&url, r->key, true);
    xml_text(&r->out, "Location", buf_slice(&url));
}

static void completed(void *arg, int err, const struct object_result *result) {
    struct complete *c = arg;
    struct s3_request *r = c->r;
    if (err < 0) {
        if (err == -HL_ERR_NO_SUCH_UPLOAD) {
            s3_add_detail(r, "UploadId", s3_param(r, "uploadId"));
        }
        s3_fail(r, err);
        return;
    }
    struct buf *out = &r->out;
    xml_begin(out, "CompleteMultipartUploadResult", S3_XMLNS);
    write_location(r);
    xml_text(out, "Bucket", r->bucket_name);
    xml_text(out, "Key", r->key);
    s3_xml_etag(out, &result->etag, true);
    s3_xml_checksum(out, &result->checksum, result->etag.parts, true);
    xml_close(out, "CompleteMultipartUploadResult");
    s3_respond_xml(r, 200);
}

static void complete_parsed(struct s3_request *r, int err) {
    struct complete *c = r->op;
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    object_upload_complete(r->s3->store, &c->args, r->pool, r->home, completed, c);
}

static void complete_document(struct s3_request *r, struct slice document) {
    struct complete *c = r->op;
    c->document = document;
    s3_on_worker(r, parse_complete, complete_parsed);
}

void s3_complete_multipart_upload(struct s3_request *r) {
    struct complete *c = POOL_NEW(r->pool, struct complete);
    int err = c == NULL ? -HL_ERR_NOMEM : s3_param_upload_id(r, c->args.upload_id);
    if (err == 0) {
        err = s3_conditions_write(r, &c->conditions);
    }
    if (err == 0) {
        err = read_object_checksum(r, &c->args);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    c->r = r;
    r->op = c;
    c->args.bucket = r->bucket.id;
    c->args.key = r->key;
    c->args.conditions = &c->conditions;
    c->args.owner = r->auth.access_key;
    pool_set_limit(r->pool, COMPLETE_POOL_MAX);
    s3_read_document(r, COMPLETE_DOCUMENT_MAX, true, complete_document);
}
