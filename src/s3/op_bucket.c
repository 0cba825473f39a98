/* Buckets: list, create, ask for, delete. The directory holds them in memory; changes are its
 * transactions. On the request's loop, except the listing. */
#include "base/error.h"
#include "base/text.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

#define CREATE_DOCUMENT_MAX (64u << 10)
#define LIST_BUCKETS_MAX    10000 /* AWS's limit on max-buckets and its default */

/* ---- ListBuckets ---- */

struct list_buckets {
    struct slice prefix, after;
    uint32_t max;
};

static int parse_list_buckets(struct s3_request *r, struct list_buckets *l) {
    l->prefix = s3_param(r, "prefix");
    int err = s3_param_count(r, "max-buckets", LIST_BUCKETS_MAX, LIST_BUCKETS_MAX, &l->max);
    if (err < 0) {
        return err;
    }
    if (l->max == 0) {
        return s3_err(r, -HL_ERR_INVALID, "max-buckets must be between 1 and 10000");
    }
    struct slice token = s3_param(r, "continuation-token");
    bool is_prefix;
    if (token.size > 0 && !s3_token_decode(r->pool, token, &is_prefix, &l->after)) {
        return s3_err(r, -HL_ERR_INVALID, "The continuation token provided is incorrect");
    }
    return 0;
}

static int list_buckets_work(struct s3_request *r) {
    struct list_buckets *l = r->op;
    struct directory_listed *items;
    uint32_t count;
    bool truncated;
    int err = directory_list(r->s3->store, r->auth.access_key, l->prefix, l->after, l->max, r->pool,
                             &items, &count, &truncated);
    if (err < 0) {
        return err;
    }
    struct buf *out = &r->out;
    xml_begin(out, "ListAllMyBucketsResult", S3_XMLNS);
    s3_xml_owner(r, "Owner", r->auth.access_key);
    xml_open(out, "Buckets");
    for (uint32_t i = 0; i < count; i++) {
        xml_open(out, "Bucket");
        xml_text(out, "Name", items[i].name);
        s3_xml_time(out, "CreationDate", items[i].created_ms);
        xml_close(out, "Bucket");
    }
    xml_close(out, "Buckets");
    if (truncated && count > 0) {
        xml_text(out, "ContinuationToken", s3_token_encode(r->pool, false, items[count - 1].name));
    }
    if (l->prefix.size > 0) {
        xml_text(out, "Prefix", l->prefix);
    }
    xml_close(out, "ListAllMyBucketsResult");
    return 0;
}

static void list_buckets_done(struct s3_request *r, int err) {
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_respond_xml(r, 200);
}

void s3_list_buckets(struct s3_request *r) {
    struct list_buckets *l = POOL_NEW(r->pool, struct list_buckets);
    int err = l == NULL ? -HL_ERR_NOMEM : parse_list_buckets(r, l);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    r->op = l;
    s3_on_worker(r, list_buckets_work, list_buckets_done);
}

/* ---- CreateBucket ---- */

/* The name exists already: harmless for someone who may write there, as with AWS's us-east-1 and as
 * tools that create before each upload need it; otherwise it is taken. Returns 1 when there is no
 * such bucket. */
static int existing_bucket(struct s3_request *r) {
    int err =
        directory_bucket(r->s3->store, r->bucket_name, r->auth.access_key, r->pool, &r->bucket);
    if (err == -HL_ERR_NO_SUCH_BUCKET) {
        return 1;
    }
    if (err < 0) {
        return err;
    }
    uint32_t flags = directory_permission(r->s3->store, r->bucket.id, r->auth.access_key);
    return flags & (PERMISSION_WRITE | PERMISSION_OWNER) ? 0 : -HL_ERR_BUCKET_EXISTS;
}

static int check_create(struct s3_request *r) {
    if (!directory_bucket_name_valid(r->bucket_name)) {
        return -HL_ERR_BUCKET_NAME;
    }
    struct slice lock = s3_header(r, "x-amz-bucket-object-lock-enabled");
    struct slice ownership = s3_header(r, "x-amz-object-ownership");
    if (slice_equal_nocase(lock, SLICE_LITERAL("true"))) {
        return s3_err(r, -HL_ERR_NOT_IMPLEMENTED, "Object lock is not implemented.");
    }
    /* Without ACLs every object belongs to the bucket's owner: that is what this asks for. */
    if (ownership.size > 0 && !slice_equal_str(ownership, "BucketOwnerEnforced")) {
        return s3_err(r, -HL_ERR_NOT_IMPLEMENTED,
                      "Only the object ownership BucketOwnerEnforced is implemented.");
    }
    return s3_metadata_check(r);
}

static void respond_created(struct s3_request *r) {
    s3_set_header_str(r, "Location", pool_printf(r->pool, "/%.*s", SLICE_PRINT(r->bucket_name)));
    s3_respond_empty(r, 200);
}

static void bucket_created(void *arg, int err, const struct object_result *result) {
    struct s3_request *r = arg;
    if (err < 0 && err != -HL_ERR_BUCKET_OWNED) {
        s3_fail(r, err);
        return;
    }
    respond_created(r);
}

static void create_document(struct s3_request *r, struct slice document) {
    struct slice location = SLICE_EMPTY;
    if (s3_trim(document).size > 0) {
        struct xml_node *root;
        int err = xml_parse(document, 256, r->pool, &root);
        if (err == 0 && !slice_equal_str(root->name, "CreateBucketConfiguration")) {
            err = -HL_ERR_XML;
        }
        if (err < 0) {
            s3_fail(r, err);
            return;
        }
        location = xml_child_text(root, "LocationConstraint");
    }
    if (location.size > 64) {
        s3_fail(r, -HL_ERR_LOCATION);
        return;
    }
    int exists = existing_bucket(r);
    if (exists < 0) {
        s3_fail(r, exists);
        return;
    }
    if (exists == 0) {
        respond_created(r);
        return;
    }
    if ((r->access_key.flags & ACCESS_KEY_CREATE_BUCKET) == 0) {
        s3_fail_message(r, -HL_ERR_ACCESS_DENIED, "This access key may not create buckets");
        return;
    }
    directory_bucket_create(r->s3->store, r->bucket_name, SLICE_EMPTY, r->auth.access_key, location,
                            r->pool, r->home, bucket_created, r);
}

void s3_create_bucket(struct s3_request *r) {
    int err = check_create(r);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_read_document(r, CREATE_DOCUMENT_MAX, false, create_document);
}

/* ---- the rest ---- */

void s3_head_bucket(struct s3_request *r) {
    s3_set_header_str(r, "x-amz-bucket-region", r->s3->region);
    s3_respond_empty(r, 200);
}

static void bucket_deleted(void *arg, int err, const struct object_result *result) {
    struct s3_request *r = arg;
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_respond_empty(r, 204);
}

static void delete_again(struct s3_request *r, int err) {
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    directory_bucket_delete(r->s3->store, r->bucket.id, r->pool, r->home, bucket_deleted, r);
}

/* Unfinished uploads do not keep a bucket alive on S3: without objects they are aborted. On a
 * worker. */
static int abort_uploads(struct s3_request *r) {
    struct object_list_args args = {.bucket = r->bucket.id, .count_max = 1};
    struct object_list list;
    uint32_t aborted;
    int err = object_list(r->s3->store, &args, r->pool, &list);
    if (err == 0 && list.count > 0) {
        err = -HL_ERR_BUCKET_NOT_EMPTY;
    }
    return err < 0 ? err : object_upload_cleanup(r->s3->store, r->bucket.id, INT64_MAX, &aborted);
}

static void bucket_first_try(void *arg, int err, const struct object_result *result) {
    struct s3_request *r = arg;
    if (err == -HL_ERR_BUCKET_NOT_EMPTY) {
        s3_on_worker(r, abort_uploads, delete_again);
        return;
    }
    bucket_deleted(r, err, result);
}

void s3_delete_bucket(struct s3_request *r) {
    directory_bucket_delete(r->s3->store, r->bucket.id, r->pool, r->home, bucket_first_try, r);
}

/* The constraint given at creation, else the store's region; us-east-1 is the empty one. */
void s3_get_bucket_location(struct s3_request *r) {
    struct slice location =
        r->bucket.location.size > 0 ? r->bucket.location : slice_str(r->s3->region);
    bool classic = slice_equal_str(location, "us-east-1");
    xml_begin(&r->out, "LocationConstraint", S3_XMLNS);
    if (!classic) {
        xml_escape(&r->out, location);
    }
    xml_close(&r->out, "LocationConstraint");
    s3_respond_xml(r, 200);
}
