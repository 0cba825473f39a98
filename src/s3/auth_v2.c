/* Presigned requests of AWS Signature Version 2 (AWSAccessKeyId, Expires, Signature in the query),
 * which boto3 and the aws CLI v1 still make by default for us-east-1. The header form is not
 * accepted. Any thread. Source: "Signing and authenticating REST requests (AWS signature version
 * 2)", Amazon S3 User Guide. */
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "s3/auth_int.h"

/* Parameters that take part in the signature. Sorted by bytes. Wider than the published list:
 * a sub-resource that is missing here could be added to somebody's signed URL. */
static const char *const sub_resources[] = {
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "defaultObjectAcl",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "retention",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
};

/* ---- x-amz-* headers ---- */

static bool is_amz(struct slice name) {
    struct slice prefix = SLICE_LITERAL("x-amz-");
    return slice_equal_nocase(slice_take(name, prefix.size), prefix);
}

static int compare_nocase(struct slice a, struct slice b) {
    size_t n = MIN(a.size, b.size);
    for (size_t i = 0; i < n; i++) {
        int x = a.data[i], y = b.data[i];
        x = x >= 'A' && x <= 'Z' ? x + 32 : x;
        y = y >= 'A' && y <= 'Z' ? y + 32 : y;
        if (x != y) {
            return x - y;
        }
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

/* order keeps duplicates as they came, and all headers before all query parameters. */
struct amz_pair {
    struct slice name, value;
    uint32_t order;
    bool from_query;
};

static int compare_pairs(const void *a, const void *b) {
    const struct amz_pair *x = a, *y = b;
    int order = compare_nocase(x->name, y->name);
    return order != 0 ? order : x->order < y->order ? -1 : x->order > y->order;
}

/* V2 trims a value and, unlike V4, keeps its inner spaces. */
static void append_trimmed(struct buf *out, struct slice value) {
    while (value.size > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) {
        value = slice_skip(value, 1);
    }
    while (value.size > 0 &&
           (value.data[value.size - 1] == ' ' || value.data[value.size - 1] == '\t')) {
        value.size--;
    }
    buf_append_slice(out, value);
}

/* botocore moves x-amz-* headers into the query of a V2 URL after signing them as headers; a header
 * that is really sent wins over its twin in the query. */
static int append_amz_headers(struct auth_run *run, struct buf *out) {
    const struct http_head *head = run->head;
    size_t capacity = (size_t)head->header_count + run->query.count + 1;
    struct amz_pair *pairs = pool_calloc(run->pool, capacity * sizeof(*pairs));
    if (pairs == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (is_amz(head->headers[i].name)) {
            pairs[count] =
                (struct amz_pair){head->headers[i].name, head->headers[i].value, count, false};
            count++;
        }
    }
    for (uint32_t i = 0; i < run->query.count; i++) {
        if (is_amz(run->query.params[i].name)) {
            pairs[count] = (struct amz_pair){run->query.params[i].name, run->query.params[i].value,
                                             count, true};
            count++;
        }
    }
    qsort(pairs, count, sizeof(*pairs), compare_pairs);
    for (uint32_t i = 0; i < count; i++) {
        bool again = i > 0 && compare_nocase(pairs[i - 1].name, pairs[i].name) == 0;
        if (again && pairs[i].from_query) {
            continue;
        }
        if (again) {
            out->size--; /* the line feed: duplicates share a line */
            buf_append_u8(out, ',');
        } else {
            for (size_t k = 0; k < pairs[i].name.size; k++) {
                uint8_t c = pairs[i].name.data[k];
                buf_append_u8(out, c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c);
            }
            buf_append_u8(out, ':');
        }
        append_trimmed(out, pairs[i].value);
        buf_append_u8(out, '\n');
        if (out->failed) {
            return -HL_ERR_NOMEM;
        }
    }
    return 0;
}

/* ---- resource ---- */

/* end_slash: "/bucket" counts as "/bucket/", which is how botocore signs it. */
static void append_resource(struct auth_run *run, bool end_slash, struct buf *out) {
    struct slice bucket =
        s3_uri_host_bucket(s3_head_header(run->head, "host"), run->env->root_domain);
    if (bucket.data != NULL) {
        buf_append_u8(out, '/');
        buf_append_slice(out, bucket);
    }
    buf_append_slice(out, s3_uri_raw_path(run->head)); /* as sent: V2 signs the encoded path */
    if (end_slash) {
        buf_append_u8(out, '/');
    }
    char separator = '?';
    for (size_t n = 0; n < ARRAY_COUNT(sub_resources); n++) {
        for (uint32_t i = 0; i < run->query.count; i++) {
            const struct s3_query_param *param = &run->query.params[i];
            if (slice_equal_str(param->name, sub_resources[n])) {
                buf_append_u8(out, (uint8_t)separator);
                buf_append_str(out, sub_resources[n]);
                if (param->has_value) {
                    buf_append_u8(out, '=');
                    buf_append_slice(out, param->value);
                }
                separator = '&';
            }
        }
    }
}

/* A header, or where botocore put it. */
static struct slice header_or_query(struct auth_run *run, const char *name) {
    struct slice value = s3_head_header(run->head, name);
    return value.data != NULL ? value : s3_query_value(&run->query, name);
}

static int string_to_sign(struct auth_run *run, struct slice expires, bool end_slash,
                          struct buf *out) {
    buf_append_slice(out, run->head->method);
    buf_append_u8(out, '\n');
    buf_append_slice(out, header_or_query(run, "content-md5"));
    buf_append_u8(out, '\n');
    buf_append_slice(out, header_or_query(run, "content-type"));
    buf_append_u8(out, '\n');
    buf_append_slice(out, expires);
    buf_append_u8(out, '\n');
    int err = append_amz_headers(run, out);
    if (err != 0) {
        return err;
    }
    append_resource(run, end_slash, out);
    return out->failed ? -HL_ERR_NOMEM : 0;
}

/* ---- verdict ---- */

/* Base64 holds no spaces: one there is a '+' that the client did not escape. */
static bool signature_equal(struct slice provided, const char *computed, size_t size) {
    uint8_t restored[BASE64_SIZE(20)];
    if (provided.size != size || size > sizeof(restored)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        restored[i] = provided.data[i] == ' ' ? '+' : provided.data[i];
    }
    return equal_constant_time(restored, computed, size);
}

/* As sent, then with the slash that a bucket's path may lack. */
static int match_signature(struct auth_run *run, struct slice secret, struct slice expires,
                           struct slice provided) {
    struct slice path = s3_uri_raw_path(run->head);
    bool bare = path.size > 1 && slice_find(path, '/', 1) == path.size;
    for (int end_slash = 0; end_slash <= bare; end_slash++) {
        struct buf to_sign CLEANUP_BUF = {0};
        int err = string_to_sign(run, expires, end_slash == 1, &to_sign);
        if (err != 0) {
            return err;
        }
        uint8_t mac[20];
        char computed[BASE64_SIZE(sizeof(mac)) + 1];
        hmac_sha1(secret, buf_slice(&to_sign), mac);
        base64_encode(mac, sizeof(mac), computed);
        if (signature_equal(provided, computed, strlen(computed))) {
            return 0;
        }
        if (end_slash == 0) {
            run->detail.string_to_sign = pool_copy(run->pool, buf_slice(&to_sign));
            run->detail.signature_provided = provided;
        }
    }
    return -HL_ERR_SIGNATURE;
}

static int check_signature(struct auth_run *run, struct slice access_key, struct slice expires,
                           struct slice provided) {
    uint8_t secret[AUTH_SECRET_MAX];
    size_t secret_size = 0;
    int verdict = 0;
    int err = auth_secret(run, access_key, secret, &secret_size, &verdict);
    if (err != 0) {
        return err;
    }
    err = match_signature(run, slice_of(secret, secret_size), expires, provided);
    wipe(secret, sizeof(secret));
    return verdict != 0 ? verdict : err;
}

static int check_expires(struct auth_run *run, struct slice text) {
    uint64_t seconds = 0;
    if (!parse_u64(text, INT64_MAX / 1000, &seconds)) {
        run->message = pool_printf(run->pool, "Invalid date (should be seconds since epoch): %.*s",
                                   SLICE_PRINT(text));
        return -HL_ERR_ACCESS_DENIED;
    }
    return run->env->now_ms > (int64_t)seconds * 1000 ? -HL_ERR_EXPIRED : 0;
}

static int read_payload(struct auth_run *run, struct s3_auth *auth) {
    struct slice value = s3_head_header(run->head, "x-amz-content-sha256");
    if (value.data == NULL) {
        auth->payload = S3_PAYLOAD_UNSIGNED;
        return 0;
    }
    int err = auth_parse_payload(run, value, auth);
    if (err == 0 && (auth->payload == S3_PAYLOAD_STREAM_SIGNED ||
                     auth->payload == S3_PAYLOAD_STREAM_SIGNED_TRAILER)) {
        run->message = "Signed chunks need AWS4-HMAC-SHA256 in the Authorization header.";
        return -HL_ERR_INVALID_REQUEST;
    }
    return err;
}

int auth_v2_verify(struct auth_run *run, struct s3_auth *auth) {
    struct slice access_key = s3_query_value(&run->query, "AWSAccessKeyId");
    struct slice provided = s3_query_value(&run->query, "Signature");
    struct slice expires = s3_query_value(&run->query, "Expires");
    if (access_key.size == 0 || access_key.size > AUTH_KEY_ID_MAX || provided.size == 0 ||
        expires.data == NULL) {
        run->message = "Query-string authentication requires the Signature, Expires and "
                       "AWSAccessKeyId parameters";
        return -HL_ERR_ACCESS_DENIED;
    }
    int err = check_expires(run, expires);
    if (err != 0) {
        return err;
    }
    err = read_payload(run, auth);
    if (err != 0) {
        return err;
    }
    err = check_signature(run, access_key, expires, provided);
    if (err != 0) {
        return err;
    }
    auth->presigned = true;
    auth->access_key = pool_copy(run->pool, access_key);
    return auth->access_key.data != NULL ? 0 : -HL_ERR_NOMEM;
}
