/* CopyObject and UploadPartCopy. The caller needs write on the target (checked with the route) and
 * read on the source's bucket, which is checked here, before anything is said about the source. The
 * object layer copies by reference where it can and works on workers by itself. */
#include "base/error.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

struct copy {
    struct s3_request *r;
    struct s3_copy_source source;
    struct bucket_record source_bucket;
    struct object_conditions source_conditions, conditions;
    struct object_copy_args object;
    struct object_part_copy_args part;
};

static int check_source_version(struct s3_request *r, struct slice version) {
    if (version.data == NULL || slice_equal_str(version, "null")) {
        return 0;
    }
    s3_add_detail(r, "VersionId", version);
    return version.size == 0 ? -HL_ERR_INVALID : -HL_ERR_NO_SUCH_VERSION;
}

/* Which object is meant, and may this caller read it? */
static int resolve_source(struct copy *c) {
    struct s3_request *r = c->r;
    struct slice field = s3_header(r, "x-amz-copy-source");
    int err = s3_copy_source_parse(field, r->pool, &c->source);
    if (err < 0) {
        s3_add_detail(r, "ArgumentName", SLICE_LITERAL("x-amz-copy-source"));
        s3_add_detail(r, "ArgumentValue", field);
        return s3_err(r, err,
                      "Copy Source must mention the source bucket and key: "
                      "sourcebucket/sourcekey");
    }
    if (c->source.key.size > S3_KEY_BYTES_MAX) {
        return -HL_ERR_KEY_TOO_LONG;
    }
    struct slice caller = r->auth.access_key;
    err = directory_bucket(r->s3->store, c->source.bucket, caller, r->pool, &c->source_bucket);
    if (err < 0) {
        return err;
    }
    uint32_t flags = directory_permission(r->s3->store, c->source_bucket.id, caller);
    if ((flags & PERMISSION_READ) == 0) {
        return -HL_ERR_ACCESS_DENIED;
    }
    err = s3_check_expected_owner(r, "x-amz-source-expected-bucket-owner", &c->source_bucket);
    if (err == 0) {
        err = check_source_version(r, c->source.version_id);
    }
    return err < 0 ? err : s3_conditions_copy_source(r, &c->source_conditions);
}

static struct copy *copy_new(struct s3_request *r) {
    struct copy *c = POOL_NEW(r->pool, struct copy);
    if (c == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return NULL;
    }
    c->r = r;
    r->op = c;
    return c;
}

static void respond_copied(struct copy *c, const char *root, const struct object_result *result,
                           bool with_type) {
    struct s3_request *r = c->r;
    xml_begin(&r->out, root, S3_XMLNS);
    s3_xml_time(&r->out, "LastModified", result->modified_ms);
    s3_xml_etag(&r->out, &result->etag, true);
    s3_xml_checksum(&r->out, &result->checksum, result->etag.parts, with_type);
    xml_close(&r->out, root);
    s3_respond_xml(r, 200);
}

/* ---- CopyObject ---- */

static void object_copied(void *arg, int err, const struct object_result *result) {
    struct copy *c = arg;
    if (err < 0) {
        s3_fail(c->r, err);
        return;
    }
    respond_copied(c, "CopyObjectResult", result, true);
}

static int directive(struct s3_request *r, const char *name, bool *ret_replace) {
    struct slice value = s3_header(r, name);
    *ret_replace = slice_equal_str(value, "REPLACE");
    if (value.size == 0 || *ret_replace || slice_equal_str(value, "COPY")) {
        return 0;
    }
    s3_add_detail(r, "ArgumentName", slice_str(name));
    s3_add_detail(r, "ArgumentValue", value);
    return s3_err(r, -HL_ERR_INVALID, "Unknown metadata directive.");
}

static int prepare_copy(struct copy *c) {
    struct s3_request *r = c->r;
    bool replace = false, replace_tags;
    int err = resolve_source(c);
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err == 0) {
        err = directive(r, "x-amz-metadata-directive", &replace);
    }
    if (err == 0) {
        err = directive(r, "x-amz-tagging-directive", &replace_tags);
    }
    if (err == 0) {
        err = s3_conditions_write(r, &c->conditions);
    }
    if (err == 0 && replace) {
        err = s3_metadata_read(r, &c->object.headers);
    }
    if (err == 0) {
        err = s3_checksum_algorithm_header(r, &c->object.checksum_algorithm);
    }
    if (err < 0) {
        return err;
    }
    bool itself = c->source_bucket.id == r->bucket.id && slice_equal(c->source.key, r->key);
    bool changes = replace || c->object.checksum_algorithm != CHECKSUM_NONE ||
                   s3_header(r, "x-amz-storage-class").size > 0 ||
                   s3_header(r, "x-amz-website-redirect-location").size > 0;
    if (itself && !changes) {
        return s3_err(r, -HL_ERR_INVALID_REQUEST,
                      "This copy request is illegal because it is trying to copy an object to "
                      "itself without changing the object's metadata, storage class, website "
                      "redirect location or encryption attributes.");
    }
    c->object.replace_metadata = replace;
    return 0;
}

void s3_copy_object(struct s3_request *r) {
    struct copy *c = copy_new(r);
    if (c == NULL) {
        return;
    }
    int err = prepare_copy(c);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    c->object.source_bucket = c->source_bucket.id;
    c->object.source_key = c->source.key;
    c->object.source_conditions = &c->source_conditions;
    c->object.bucket = r->bucket.id;
    c->object.key = r->key;
    c->object.conditions = &c->conditions;
    c->object.owner = r->auth.access_key;
    object_copy(r->s3->store, &c->object, r->pool, r->home, object_copied, c);
}

/* ---- UploadPartCopy ---- */

static void part_copied(void *arg, int err, const struct object_result *result) {
    struct copy *c = arg;
    if (err < 0) {
        s3_fail(c->r, err);
        return;
    }
    respond_copied(c, "CopyPartResult", result, false);
}

static int prepare_part(struct copy *c) {
    struct s3_request *r = c->r;
    int err = s3_param_part_number(r, &c->part.part_number);
    if (err == 0) {
        err = s3_param_upload_id(r, c->part.upload_id);
    }
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err == 0) {
        err = resolve_source(c);
    }
    if (err < 0) {
        return err;
    }
    struct slice range = s3_header(r, "x-amz-copy-source-range");
    if (range.data != NULL &&
        !s3_parse_copy_range(range, &c->part.range_first, &c->part.range_last)) {
        s3_add_detail(r, "ArgumentName", SLICE_LITERAL("x-amz-copy-source-range"));
        s3_add_detail(r, "ArgumentValue", range);
        return s3_err(
            r, -HL_ERR_INVALID,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where "
            "first and last are the zero-based offsets of the first and last bytes to "
            "copy");
    }
    c->part.range_given = range.data != NULL;
    return 0;
}

void s3_upload_part_copy(struct s3_request *r) {
    struct copy *c = copy_new(r);
    if (c == NULL) {
        return;
    }
    int err = prepare_part(c);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    c->part.source_bucket = c->source_bucket.id;
    c->part.source_key = c->source.key;
    c->part.source_conditions = &c->source_conditions;
    c->part.bucket = r->bucket.id;
    c->part.key = r->key;
    object_part_copy(r->s3->store, &c->part, r->pool, r->home, part_copied, c);
}
