/* The route table against a second table that was written from AWS's API reference: which request
 * is which operation. Also what must never happen: a sub-resource that falls through to the plain
 * operation, a row that anyone may use, two rows of one name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/route.h"

struct expected {
    enum s3_method method;
    enum s3_scope scope;
    const char *query;
    const char *header;
    const char *name; /* NULL: the error */
    int err;
};

static bool has_header(void *arg, const char *name) {
    const char *present = arg;
    return present != NULL && strcmp(present, name) == 0;
}

static int choose(const struct expected *e, const struct s3_route **ret) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct s3_query query;
    assert_int_equal(s3_query_parse(slice_str(e->query), pool, &query), 0);
    return s3_route_choose(e->method, e->scope, &query, has_header, (void *)e->header, ret);
}

static const struct expected rows[] = {
    {S3_GET, S3_SERVICE, "", NULL, "ListBuckets", 0},
    {S3_GET, S3_SERVICE, "x-id=ListBuckets", NULL, "ListBuckets", 0},
    {S3_GET, S3_SERVICE, "max-buckets=5&prefix=a&continuation-token=x", NULL, "ListBuckets", 0},
    {S3_PUT, S3_BUCKET, "", NULL, "CreateBucket", 0},
    {S3_HEAD, S3_BUCKET, "", NULL, "HeadBucket", 0},
    {S3_DELETE, S3_BUCKET, "", NULL, "DeleteBucket", 0},
    {S3_GET, S3_BUCKET, "", NULL, "ListObjects", 0},
    {S3_GET, S3_BUCKET, "prefix=a&marker=b&delimiter=%2F&max-keys=3&encoding-type=url", NULL,
     "ListObjects", 0},
    {S3_GET, S3_BUCKET, "list-type=2", NULL, "ListObjectsV2", 0},
    {S3_GET, S3_BUCKET, "prefix=x&list-type=2&start-after=y&fetch-owner=true", NULL,
     "ListObjectsV2", 0},
    {S3_GET, S3_BUCKET, "versions", NULL, "ListObjectVersions", 0},
    {S3_GET, S3_BUCKET, "versions=&key-marker=a", NULL, "ListObjectVersions", 0},
    {S3_GET, S3_BUCKET, "uploads&max-uploads=7", NULL, "ListMultipartUploads", 0},
    {S3_GET, S3_BUCKET, "location", NULL, "GetBucketLocation", 0},
    {S3_POST, S3_BUCKET, "delete", NULL, "DeleteObjects", 0},
    {S3_POST, S3_BUCKET, "delete=", NULL, "DeleteObjects", 0},
    {S3_POST, S3_BUCKET, "", NULL, "PostObject", 0},
    {S3_GET, S3_BUCKET, "versioning", NULL, "GetBucketVersioning", 0},
    {S3_PUT, S3_BUCKET, "versioning", NULL, "PutBucketVersioning", 0},
    {S3_GET, S3_BUCKET, "acl", NULL, "GetBucketAcl", 0},
    {S3_GET, S3_BUCKET, "policy", NULL, "GetBucketPolicy", 0},
    {S3_DELETE, S3_BUCKET, "policy", NULL, "DeleteBucketPolicy", 0},
    {S3_DELETE, S3_BUCKET, "publicAccessBlock", NULL, "DeletePublicAccessBlock", 0},
    {S3_GET, S3_BUCKET, "object-lock", NULL, "GetObjectLockConfiguration", 0},

    {S3_GET, S3_OBJECT, "", NULL, "GetObject", 0},
    {S3_GET, S3_OBJECT, "partNumber=3", NULL, "GetObject", 0},
    {S3_GET, S3_OBJECT, "versionId=null&response-content-type=a", NULL, "GetObject", 0},
    {S3_GET, S3_OBJECT, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=1", NULL, "GetObject", 0},
    {S3_GET, S3_OBJECT, "AWSAccessKeyId=a&Signature=b&Expires=1", NULL, "GetObject", 0},
    {S3_GET, S3_OBJECT, "cache-buster=17", NULL, "GetObject", 0},
    {S3_HEAD, S3_OBJECT, "", NULL, "HeadObject", 0},
    {S3_PUT, S3_OBJECT, "x-id=PutObject", NULL, "PutObject", 0},
    {S3_PUT, S3_OBJECT, "x-amz-checksum-crc32=AAAAAA%3D%3D", NULL, "PutObject", 0},
    {S3_PUT, S3_OBJECT, "", "x-amz-copy-source", "CopyObject", 0},
    {S3_PUT, S3_OBJECT, "partNumber=1&uploadId=a", NULL, "UploadPart", 0},
    {S3_PUT, S3_OBJECT, "uploadId=a&partNumber=1", "x-amz-copy-source", "UploadPartCopy", 0},
    {S3_POST, S3_OBJECT, "uploads", NULL, "CreateMultipartUpload", 0},
    {S3_POST, S3_OBJECT, "uploads=", NULL, "CreateMultipartUpload", 0},
    {S3_POST, S3_OBJECT, "uploadId=a", NULL, "CompleteMultipartUpload", 0},
    {S3_DELETE, S3_OBJECT, "uploadId=a", NULL, "AbortMultipartUpload", 0},
    {S3_GET, S3_OBJECT, "uploadId=a&max-parts=2", NULL, "ListParts", 0},
    {S3_DELETE, S3_OBJECT, "", NULL, "DeleteObject", 0},
    {S3_DELETE, S3_OBJECT, "versionId=null", NULL, "DeleteObject", 0},
    {S3_GET, S3_OBJECT, "attributes", NULL, "GetObjectAttributes", 0},
    {S3_GET, S3_OBJECT, "tagging", NULL, "GetObjectTagging", 0},
    {S3_PUT, S3_OBJECT, "tagging", NULL, "PutObjectTagging", 0},

    /* Never the plain operation. */
    {S3_DELETE, S3_BUCKET, "analytics&id=1", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_BUCKET, "inventory", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_BUCKET, "metrics", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_BUCKET, "intelligent-tiering", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_BUCKET, "requestPayment", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_BUCKET, "nobody-knows=this", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_PUT, S3_BUCKET, "metadataTable", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_PUT, S3_OBJECT, "append&position=0", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_GET, S3_BUCKET, "inventory", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_DELETE, S3_OBJECT, "acl", NULL, NULL, -HL_ERR_NOT_IMPLEMENTED},
    {S3_GET, S3_BUCKET, "acl&policy", NULL, NULL, -HL_ERR_INVALID},
    {S3_POST, S3_OBJECT, "", NULL, NULL, -HL_ERR_METHOD},
    {S3_PUT, S3_SERVICE, "", NULL, NULL, -HL_ERR_METHOD},
    {S3_METHOD_OTHER, S3_OBJECT, "", NULL, NULL, -HL_ERR_METHOD},
    {S3_METHOD_OTHER, S3_BUCKET, "", NULL, NULL, -HL_ERR_METHOD},
};

static void test_choose(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct s3_route *route = NULL;
        int err = choose(&rows[i], &route);
        assert_int_equal(err, rows[i].err);
        if (rows[i].name != NULL) {
            assert_non_null(route);
            assert_string_equal(route->name, rows[i].name);
        } else {
            assert_null(route);
        }
    }
}

/* For every sub-resource of the table, every method and scope: the answer is a row of that very
 * sub-resource, or an error, never a plain row. */
static void test_no_fall_through(void **state) {
    uint32_t count;
    const struct s3_route *table = s3_routes(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (table[i].query == NULL) {
            continue;
        }
        for (int method = S3_GET; method <= S3_METHOD_OTHER; method++) {
            for (int scope = S3_SERVICE; scope <= S3_OBJECT; scope++) {
                struct expected e = {
                    (enum s3_method)method, (enum s3_scope)scope, table[i].query, NULL, NULL, 0};
                const struct s3_route *route = NULL;
                if (choose(&e, &route) == 0) {
                    assert_string_equal(route->query, table[i].query);
                    assert_int_equal(route->method, method);
                    assert_int_equal(route->scope, scope);
                }
            }
        }
    }
}

static void test_table_sound(void **state) {
    uint32_t count;
    const struct s3_route *table = s3_routes(&count);
    assert_true(count > 60);
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(table[i].name);
        assert_int_not_equal(table[i].need, 0);
        assert_true((table[i].handler != NULL) != (table[i].err < 0));
        /* What writes objects or changes a bucket never passes with read alone. */
        bool read_only = table[i].method == S3_GET || table[i].method == S3_HEAD ||
                         table[i].method == S3_OPTIONS;
        if (table[i].scope != S3_SERVICE && table[i].handler != NULL && !read_only) {
            assert_int_equal(table[i].need & S3_NEED_READ, 0);
        }
        for (uint32_t k = 0; k < i; k++) {
            assert_string_not_equal(table[i].name, table[k].name);
        }
    }
}

/* Default deny: without the right nobody passes, anonymous never. */
static void test_authorise(void **state) {
    uint32_t count;
    const struct s3_route *table = s3_routes(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t flags = 0; flags < 8; flags++) {
            assert_int_equal(s3_route_authorise(&table[i], true, flags), -HL_ERR_ACCESS_DENIED);
        }
        if (table[i].need & (S3_NEED_SIGNED | S3_NEED_CREATE)) {
            continue;
        }
        assert_int_equal(s3_route_authorise(&table[i], false, 0), -HL_ERR_ACCESS_DENIED);
        assert_int_equal(s3_route_authorise(&table[i], false, table[i].need), 0);
        uint32_t others = 7 & ~table[i].need;
        assert_int_equal(s3_route_authorise(&table[i], false, others), -HL_ERR_ACCESS_DENIED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_no_fall_through),
        cmocka_unit_test(test_table_sound),
        cmocka_unit_test(test_authorise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
