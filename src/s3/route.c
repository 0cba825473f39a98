/* The route table and the choice of a row. Pure: no store, no request memory. Rows with a header
 * stand before the row without it. A sub-resource that AWS has and this store has not built is a
 * row with an error, so that the authorisation is still checked first. */
#include "s3/route.h"

#include "base/error.h"
#include "s3/operations.h"

#include <string.h>

#define READ   S3_NEED_READ
#define WRITE  S3_NEED_WRITE
#define OWNER  S3_NEED_OWNER
#define SIGNED S3_NEED_SIGNED
#define CREATE S3_NEED_CREATE
#define ANY    (PERMISSION_READ | PERMISSION_WRITE | PERMISSION_OWNER)

#define ROW(method, scope, query, header, name, need, handler)                                     \
    { S3_##method, S3_##scope, query, header, name, need, handler, 0 }
#define ERR(method, scope, query, name, need, error)                                               \
    { S3_##method, S3_##scope, query, NULL, name, need, NULL, -HL_ERR_##error }

static const struct s3_route table[] = {
    /* ---- service ---- */
    ROW(GET, SERVICE, NULL, NULL, "ListBuckets", SIGNED, s3_list_buckets),
    ERR(POST, SERVICE, NULL, "PostService", SIGNED, NOT_IMPLEMENTED),

    /* ---- bucket ---- */
    ROW(PUT, BUCKET, NULL, NULL, "CreateBucket", CREATE, s3_create_bucket),
    ROW(HEAD, BUCKET, NULL, NULL, "HeadBucket", READ, s3_head_bucket),
    ROW(DELETE, BUCKET, NULL, NULL, "DeleteBucket", OWNER, s3_delete_bucket),
    ROW(GET, BUCKET, NULL, NULL, "ListObjects", READ, s3_list_objects_v1),
    ROW(GET, BUCKET, "list-type", NULL, "ListObjectsV2", READ, s3_list_objects_v2),
    ROW(GET, BUCKET, "versions", NULL, "ListObjectVersions", READ, s3_list_object_versions),
    ROW(GET, BUCKET, "uploads", NULL, "ListMultipartUploads", READ, s3_list_multipart_uploads),
    ROW(POST, BUCKET, "delete", NULL, "DeleteObjects", WRITE, s3_delete_objects),
    ERR(POST, BUCKET, NULL, "PostObject", WRITE, NOT_IMPLEMENTED),
    ERR(OPTIONS, BUCKET, NULL, "PreflightBucket", ANY, NOT_IMPLEMENTED),
    ROW(GET, BUCKET, "location", NULL, "GetBucketLocation", ANY, s3_get_bucket_location),

    /* Sub-resources of a bucket that never configured them. */
    ROW(GET, BUCKET, "versioning", NULL, "GetBucketVersioning", READ, s3_get_bucket_versioning),
    ERR(PUT, BUCKET, "versioning", "PutBucketVersioning", OWNER, NOT_IMPLEMENTED),
    ROW(GET, BUCKET, "acl", NULL, "GetBucketAcl", READ, s3_get_bucket_acl),
    ERR(PUT, BUCKET, "acl", "PutBucketAcl", OWNER, NOT_IMPLEMENTED),
    ERR(GET, BUCKET, "lifecycle", "GetBucketLifecycleConfiguration", OWNER, NO_LIFECYCLE),
    ERR(PUT, BUCKET, "lifecycle", "PutBucketLifecycleConfiguration", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "lifecycle", NULL, "DeleteBucketLifecycle", OWNER, s3_no_content),
    ERR(GET, BUCKET, "cors", "GetBucketCors", OWNER, NO_CORS),
    ERR(PUT, BUCKET, "cors", "PutBucketCors", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "cors", NULL, "DeleteBucketCors", OWNER, s3_no_content),
    ERR(GET, BUCKET, "policy", "GetBucketPolicy", OWNER, NO_POLICY),
    ERR(PUT, BUCKET, "policy", "PutBucketPolicy", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "policy", NULL, "DeleteBucketPolicy", OWNER, s3_no_content),
    ROW(GET, BUCKET, "policyStatus", NULL, "GetBucketPolicyStatus", OWNER,
        s3_get_bucket_policy_status),
    ERR(GET, BUCKET, "tagging", "GetBucketTagging", READ, NO_TAGS),
    ERR(PUT, BUCKET, "tagging", "PutBucketTagging", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "tagging", NULL, "DeleteBucketTagging", OWNER, s3_no_content),
    ERR(GET, BUCKET, "website", "GetBucketWebsite", OWNER, NO_WEBSITE),
    ERR(PUT, BUCKET, "website", "PutBucketWebsite", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "website", NULL, "DeleteBucketWebsite", OWNER, s3_no_content),
    ERR(GET, BUCKET, "encryption", "GetBucketEncryption", READ, NO_ENCRYPTION),
    ERR(PUT, BUCKET, "encryption", "PutBucketEncryption", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "encryption", NULL, "DeleteBucketEncryption", OWNER, s3_no_content),
    ERR(GET, BUCKET, "object-lock", "GetObjectLockConfiguration", READ, NO_OBJECT_LOCK),
    ERR(PUT, BUCKET, "object-lock", "PutObjectLockConfiguration", OWNER, NOT_IMPLEMENTED),
    ERR(GET, BUCKET, "ownershipControls", "GetBucketOwnershipControls", READ, NO_OWNERSHIP),
    ERR(PUT, BUCKET, "ownershipControls", "PutBucketOwnershipControls", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "ownershipControls", NULL, "DeleteBucketOwnershipControls", OWNER,
        s3_no_content),
    ERR(GET, BUCKET, "publicAccessBlock", "GetPublicAccessBlock", READ, NO_PUBLIC_ACCESS_BLOCK),
    ERR(PUT, BUCKET, "publicAccessBlock", "PutPublicAccessBlock", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "publicAccessBlock", NULL, "DeletePublicAccessBlock", OWNER, s3_no_content),
    ERR(GET, BUCKET, "replication", "GetBucketReplication", OWNER, NO_REPLICATION),
    ERR(PUT, BUCKET, "replication", "PutBucketReplication", OWNER, NOT_IMPLEMENTED),
    ROW(DELETE, BUCKET, "replication", NULL, "DeleteBucketReplication", OWNER, s3_no_content),
    ROW(GET, BUCKET, "logging", NULL, "GetBucketLogging", OWNER, s3_get_bucket_logging),
    ERR(PUT, BUCKET, "logging", "PutBucketLogging", OWNER, NOT_IMPLEMENTED),
    ROW(GET, BUCKET, "notification", NULL, "GetBucketNotificationConfiguration", OWNER,
        s3_get_bucket_notification),
    ERR(PUT, BUCKET, "notification", "PutBucketNotificationConfiguration", OWNER, NOT_IMPLEMENTED),
    ROW(GET, BUCKET, "requestPayment", NULL, "GetBucketRequestPayment", READ,
        s3_get_bucket_request_payment),
    ERR(PUT, BUCKET, "requestPayment", "PutBucketRequestPayment", OWNER, NOT_IMPLEMENTED),
    ROW(GET, BUCKET, "accelerate", NULL, "GetBucketAccelerateConfiguration", READ,
        s3_get_bucket_accelerate),
    ERR(PUT, BUCKET, "accelerate", "PutBucketAccelerateConfiguration", OWNER, NOT_IMPLEMENTED),

    /* ---- object ---- */
    ROW(GET, OBJECT, NULL, NULL, "GetObject", READ, s3_get_object),
    ROW(HEAD, OBJECT, NULL, NULL, "HeadObject", READ, s3_get_object),
    ROW(GET, OBJECT, "attributes", NULL, "GetObjectAttributes", READ, s3_get_object_attributes),
    ROW(PUT, OBJECT, NULL, "x-amz-copy-source", "CopyObject", WRITE, s3_copy_object),
    ROW(PUT, OBJECT, NULL, NULL, "PutObject", WRITE, s3_put_object),
    ROW(DELETE, OBJECT, NULL, NULL, "DeleteObject", WRITE, s3_delete_object),
    ROW(POST, OBJECT, "uploads", NULL, "CreateMultipartUpload", WRITE, s3_create_multipart_upload),
    ROW(PUT, OBJECT, "uploadId", "x-amz-copy-source", "UploadPartCopy", WRITE, s3_upload_part_copy),
    ROW(PUT, OBJECT, "uploadId", NULL, "UploadPart", WRITE, s3_upload_part),
    ROW(POST, OBJECT, "uploadId", NULL, "CompleteMultipartUpload", WRITE,
        s3_complete_multipart_upload),
    ROW(DELETE, OBJECT, "uploadId", NULL, "AbortMultipartUpload", WRITE, s3_abort_multipart_upload),
    ROW(GET, OBJECT, "uploadId", NULL, "ListParts", READ | WRITE, s3_list_parts),
    ERR(OPTIONS, OBJECT, NULL, "PreflightObject", ANY, NOT_IMPLEMENTED),
    /* Bucket questions that were asked of a key (AWS: 400). */
    ERR(GET, OBJECT, "versions", "GetObjectVersions", READ, INVALID_REQUEST),
    ERR(GET, OBJECT, "uploads", "GetObjectUploads", READ, INVALID_REQUEST),

    ROW(GET, OBJECT, "acl", NULL, "GetObjectAcl", READ, s3_get_object_acl),
    ERR(PUT, OBJECT, "acl", "PutObjectAcl", WRITE, NOT_IMPLEMENTED),
    ROW(GET, OBJECT, "tagging", NULL, "GetObjectTagging", READ, s3_get_object_tagging),
    ERR(PUT, OBJECT, "tagging", "PutObjectTagging", WRITE, NOT_IMPLEMENTED),
    ROW(DELETE, OBJECT, "tagging", NULL, "DeleteObjectTagging", WRITE, s3_no_content),
    ROW(GET, OBJECT, "retention", NULL, "GetObjectRetention", READ, s3_get_object_retention),
    ERR(PUT, OBJECT, "retention", "PutObjectRetention", WRITE, NOT_IMPLEMENTED),
    ROW(GET, OBJECT, "legal-hold", NULL, "GetObjectLegalHold", READ, s3_get_object_retention),
    ERR(PUT, OBJECT, "legal-hold", "PutObjectLegalHold", WRITE, NOT_IMPLEMENTED),
    ERR(POST, OBJECT, "restore", "RestoreObject", WRITE, NOT_IMPLEMENTED),
    ERR(POST, OBJECT, "select", "SelectObjectContent", READ, NOT_IMPLEMENTED),
    ERR(GET, OBJECT, "torrent", "GetObjectTorrent", READ, NOT_IMPLEMENTED),
};

/* Query parameters that belong to operations and choose none. Names of signatures are matched
 * without case. */
static const char *const parameters[] = {
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "encoding-type",
    "fetch-owner",
    "start-after",
    "continuation-token",
    "allow-unordered",
    "key-marker",
    "upload-id-marker",
    "version-id-marker",
    "max-uploads",
    "max-parts",
    "part-number-marker",
    "partNumber",
    "versionId",
    "max-buckets",
    "bucket-region",
    "x-id",
    "content-type", /* boto3 repeats these two in a presigned URL of Signature Version 2 */
    "content-md5",
    "AWSAccessKeyId",
    "Signature",
    "Expires",
    "response-content-type",
    "response-content-language",
    "response-expires",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
};

const struct s3_route *s3_routes(uint32_t *ret_count) {
    *ret_count = ARRAY_COUNT(table);
    return table;
}

static bool is_parameter(struct slice name) {
    struct slice amz = SLICE_LITERAL("x-amz-");
    if (name.size >= amz.size && slice_equal_nocase(slice_take(name, amz.size), amz)) {
        return true; /* signatures, and headers hoisted into a presigned URL */
    }
    for (size_t i = 0; i < ARRAY_COUNT(parameters); i++) {
        if (slice_equal_str(name, parameters[i])) {
            return true;
        }
    }
    return false;
}

static bool is_subresource(struct slice name) {
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        if (table[i].query != NULL && slice_equal_str(name, table[i].query)) {
            return true;
        }
    }
    return false;
}

/* The sub-resource that the parameters name: data NULL when none. A name that nobody knows is one
 * too, except `name=value` on a read, which AWS ignores and proxies like to add. */
static int find_subresource(enum s3_method method, const struct s3_query *query,
                            struct slice *ret) {
    struct slice found = SLICE_EMPTY;
    bool unknown = false;
    for (uint32_t i = 0; i < query->count; i++) {
        struct slice name = query->params[i].name;
        if (name.size == 0 || is_parameter(name)) {
            continue;
        }
        if (!is_subresource(name)) {
            bool read = method == S3_GET || method == S3_HEAD;
            unknown |= !read || query->params[i].value.size == 0;
            continue;
        }
        if (found.data != NULL && !slice_equal(found, name)) {
            return -HL_ERR_INVALID;
        }
        found = name;
    }
    if (unknown) {
        return -HL_ERR_NOT_IMPLEMENTED;
    }
    *ret = found;
    return 0;
}

int s3_route_choose(enum s3_method method, enum s3_scope scope, const struct s3_query *query,
                    bool (*has_header)(void *arg, const char *name), void *arg,
                    const struct s3_route **ret) {
    struct slice sub = SLICE_EMPTY;
    int err = find_subresource(method, query, &sub);
    if (err < 0) {
        return err;
    }
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        const struct s3_route *row = &table[i];
        if (row->method != method || row->scope != scope ||
            (row->query == NULL) != (sub.data == NULL) ||
            (row->query != NULL && !slice_equal_str(sub, row->query)) ||
            (row->header != NULL && !has_header(arg, row->header))) {
            continue;
        }
        *ret = row;
        return 0;
    }
    return sub.data != NULL ? -HL_ERR_NOT_IMPLEMENTED : -HL_ERR_METHOD;
}

static bool request_has_header(void *arg, const char *name) {
    /* Also when a presigned URL carries it: a copy must never pass for a put of nothing. */
    return s3_header(arg, name).data != NULL || s3_has_param(arg, name);
}

int s3_route_find(struct s3_request *r, const struct s3_route **ret) {
    return s3_route_choose(r->method, r->scope, &r->query, request_has_header, r, ret);
}

int s3_route_authorise(const struct s3_route *route, bool anonymous, uint32_t flags) {
    if (anonymous) {
        return -HL_ERR_ACCESS_DENIED;
    }
    if (route->need & (S3_NEED_SIGNED | S3_NEED_CREATE)) {
        return 0;
    }
    return (route->need & flags) != 0 ? 0 : -HL_ERR_ACCESS_DENIED;
}
