/* Sub-resources that clients read and that no bucket of this store ever configured: each answers as
 * AWS does for such a bucket. Those that AWS answers with an error are rows of the route table. */
#include "base/error.h"
#include "s3/operations.h"
#include "s3/xml.h"

static void respond_root_only(struct s3_request *r, const char *root) {
    xml_begin(&r->out, root, S3_XMLNS);
    xml_close(&r->out, root);
    s3_respond_xml(r, 200);
}

void s3_get_bucket_versioning(struct s3_request *r) {
    respond_root_only(r, "VersioningConfiguration");
}

void s3_get_bucket_logging(struct s3_request *r) {
    respond_root_only(r, "BucketLoggingStatus");
}

void s3_get_bucket_notification(struct s3_request *r) {
    respond_root_only(r, "NotificationConfiguration");
}

void s3_get_bucket_accelerate(struct s3_request *r) {
    respond_root_only(r, "AccelerateConfiguration");
}

void s3_get_bucket_request_payment(struct s3_request *r) {
    xml_begin(&r->out, "RequestPaymentConfiguration", S3_XMLNS);
    xml_str(&r->out, "Payer", "BucketOwner");
    xml_close(&r->out, "RequestPaymentConfiguration");
    s3_respond_xml(r, 200);
}

void s3_get_bucket_policy_status(struct s3_request *r) {
    xml_begin(&r->out, "PolicyStatus", S3_XMLNS);
    xml_bool(&r->out, "IsPublic", false);
    xml_close(&r->out, "PolicyStatus");
    s3_respond_xml(r, 200);
}

void s3_no_content(struct s3_request *r) {
    s3_respond_empty(r, 204);
}

/* One grant: full control for the owner. */
static void respond_acl(struct s3_request *r, struct slice owner) {
    struct buf *out = &r->out;
    xml_begin(out, "AccessControlPolicy", S3_XMLNS);
    s3_xml_owner(r, "Owner", owner);
    xml_open(out, "AccessControlList");
    xml_open(out, "Grant");
    xml_open(out, "Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                  "xsi:type=\"CanonicalUser\"");
    s3_xml_owner_fields(r, owner);
    xml_close(out, "Grantee");
    xml_str(out, "Permission", "FULL_CONTROL");
    xml_close(out, "Grant");
    xml_close(out, "AccessControlList");
    xml_close(out, "AccessControlPolicy");
    s3_respond_xml(r, 200);
}

void s3_get_bucket_acl(struct s3_request *r) {
    respond_acl(r, r->bucket.owner);
}

/* The object's record, copied out of a read that is closed again; -HL_ERR_NO_SUCH_KEY etc. */
static int find_object(struct s3_request *r, struct slice *ret_owner) {
    int err = s3_check_version(r);
    if (err < 0) {
        return err;
    }
    struct object_read *read;
    err = object_read_open(r->s3->store, r->bucket.id, r->key, r->pool, &read);
    if (err < 0) {
        return err;
    }
    struct slice owner = object_read_record(read)->owner;
    *ret_owner = owner.size > 0 ? pool_copy(r->pool, owner) : SLICE_EMPTY;
    object_read_done(read);
    return 0;
}

void s3_get_object_acl(struct s3_request *r) {
    struct slice owner;
    int err = find_object(r, &owner);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    respond_acl(r, owner);
}

void s3_get_object_tagging(struct s3_request *r) {
    struct slice owner;
    int err = find_object(r, &owner);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    xml_begin(&r->out, "Tagging", S3_XMLNS);
    xml_open(&r->out, "TagSet");
    xml_close(&r->out, "TagSet");
    xml_close(&r->out, "Tagging");
    s3_respond_xml(r, 200);
}

/* Retention and legal hold: AWS refuses the question when the bucket has no lock. */
void s3_get_object_retention(struct s3_request *r) {
    struct slice owner;
    int err = find_object(r, &owner);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_fail_message(r, -HL_ERR_INVALID_REQUEST, "Bucket is missing Object Lock Configuration");
}
