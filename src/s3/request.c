/* The request context: what the head asks for, parameters, work on other threads, and reading a
 * body that is a document. Runs on the request's loop. Knows no operation. */
#include "s3/request.h"

#include "base/crc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/payload.h"

/* ---- what was asked ---- */

static enum s3_method parse_method(struct slice method) {
    static const char *const names[] = {
        [S3_GET] = "GET",   [S3_HEAD] = "HEAD",     [S3_PUT] = "PUT",
        [S3_POST] = "POST", [S3_DELETE] = "DELETE", [S3_OPTIONS] = "OPTIONS",
    };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (slice_equal_str(method, names[i])) {
            return (enum s3_method)i;
        }
    }
    return S3_METHOD_OTHER;
}

int s3_request_parse(struct s3_request *r) {
    r->method = parse_method(r->head->method);
    struct s3_uri uri;
    const char *domain = r->s3->root_domain[0] != 0 ? r->s3->root_domain : NULL;
    int err = s3_uri_parse(r->head, domain, r->pool, &uri);
    if (err < 0) {
        return err;
    }
    r->query = uri.query;
    r->virtual_host = uri.virtual_host;
    if (uri.bucket.size == 0 && uri.key.size == 0) {
        r->scope = S3_SERVICE;
        return 0;
    }
    if (uri.bucket.size == 0) {
        return s3_err(r, -HL_ERR_BUCKET_NAME, NULL);
    }
    r->bucket_name = uri.bucket;
    r->key = uri.key;
    r->scope = uri.key.size == 0 ? S3_BUCKET : S3_OBJECT;
    if (uri.key.size > S3_KEY_BYTES_MAX) {
        s3_add_detail(r, "Size", slice_str(pool_printf(r->pool, "%zu", uri.key.size)));
        s3_add_detail(r, "MaxSizeAllowed", SLICE_LITERAL("1024"));
        return -HL_ERR_KEY_TOO_LONG;
    }
    return 0;
}

struct slice s3_param(const struct s3_request *r, const char *name) {
    return s3_query_value(&r->query, name);
}

bool s3_has_param(const struct s3_request *r, const char *name) {
    return s3_query_has(&r->query, name);
}

/* A parameter that an SDK made of a header when it signed the URL. Those of the signature itself
 * are none. */
static bool is_hoisted(struct slice name) {
    static const char *const not_headers[] = {
        "x-amz-algorithm", "x-amz-credential",    "x-amz-date",           "x-amz-expires",
        "x-amz-signature", "x-amz-signedheaders", "x-amz-security-token", "x-amz-content-sha256"};
    struct slice amz = SLICE_LITERAL("x-amz-");
    if (name.size <= amz.size || !slice_equal_nocase(slice_take(name, amz.size), amz)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(not_headers); i++) {
        if (slice_equal_nocase(name, slice_str(not_headers[i]))) {
            return false;
        }
    }
    return true;
}

uint32_t s3_field_count(const struct s3_request *r) {
    return r->head->header_count + (r->auth.presigned ? r->query.count : 0);
}

bool s3_field(const struct s3_request *r, uint32_t index, struct slice *ret_name,
              struct slice *ret_value) {
    if (index < r->head->header_count) {
        *ret_name = r->head->headers[index].name;
        *ret_value = r->head->headers[index].value;
        return true;
    }
    const struct s3_query_param *param = &r->query.params[index - r->head->header_count];
    *ret_name = param->name;
    *ret_value = param->value;
    return is_hoisted(param->name);
}

struct slice s3_header(const struct s3_request *r, const char *name) {
    struct slice value = s3_head_header(r->head, name);
    if (value.data != NULL || !r->auth.presigned || !is_hoisted(slice_str(name))) {
        return value;
    }
    for (uint32_t i = 0; i < r->query.count; i++) {
        if (slice_equal_nocase(r->query.params[i].name, slice_str(name))) {
            return r->query.params[i].value;
        }
    }
    return SLICE_EMPTY;
}

static int bad_argument(struct s3_request *r, const char *name, struct slice value,
                        const char *message) {
    s3_add_detail(r, "ArgumentName", slice_str(name));
    s3_add_detail(r, "ArgumentValue", value);
    return s3_err(r, -HL_ERR_INVALID, message);
}

int s3_param_count(struct s3_request *r, const char *name, uint32_t fallback, uint32_t max,
                   uint32_t *ret) {
    struct slice text = s3_param(r, name);
    if (text.size == 0) {
        *ret = fallback;
        return 0;
    }
    uint64_t value;
    if (!parse_u64(text, INT32_MAX, &value)) {
        return bad_argument(
            r, name, text,
            pool_printf(r->pool, "Provided %s not an integer or within integer range", name));
    }
    *ret = value > max ? max : (uint32_t)value;
    return 0;
}

int s3_param_encoding(struct s3_request *r, bool *ret_url) {
    struct slice text = s3_param(r, "encoding-type");
    *ret_url = slice_equal_str(text, "url");
    if (text.size > 0 && !*ret_url) {
        return bad_argument(r, "encoding-type", text,
                            "Invalid Encoding Method specified in Request");
    }
    return 0;
}

int s3_check_version(struct s3_request *r) {
    struct slice id = s3_param(r, "versionId");
    if (id.data == NULL || slice_equal_str(id, "null")) {
        return 0;
    }
    bool valid = id.size > 0 && id.size <= 128;
    for (size_t i = 0; valid && i < id.size; i++) {
        uint8_t c = id.data[i];
        valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_' || c == '.';
    }
    if (!valid) {
        return bad_argument(r, "versionId", id, "Invalid version id specified");
    }
    s3_add_detail(r, "VersionId", id);
    return -HL_ERR_NO_SUCH_VERSION;
}

int s3_param_upload_id(struct s3_request *r, uint8_t ret[16]) {
    struct slice text = s3_param(r, "uploadId");
    if (!hex_decode(text, ret, 16)) {
        s3_add_detail(r, "UploadId", text);
        return -HL_ERR_NO_SUCH_UPLOAD;
    }
    return 0;
}

int s3_param_part_number(struct s3_request *r, uint16_t *ret) {
    struct slice text = s3_param(r, "partNumber");
    uint64_t value;
    if (!parse_u64(text, 10000, &value) || value == 0) {
        return bad_argument(r, "partNumber", text,
                            "Part number must be an integer between 1 and 10000, inclusive");
    }
    *ret = (uint16_t)value;
    return 0;
}

/* ---- running elsewhere ---- */

static void came_home(struct task *task) {
    struct s3_request *r = CONTAINER_OF(task, struct s3_request, task);
    r->then(r, r->work_err);
}

static void run_work(struct task *task) {
    struct s3_request *r = CONTAINER_OF(task, struct s3_request, task);
    r->work_err = r->work(r);
    r->task.run = came_home;
    executor_post(r->home, &r->task);
}

void s3_on_worker(struct s3_request *r, s3_work_fn work, s3_then_fn then) {
    r->work = work;
    r->then = then;
    r->task.run = run_work;
    executor_post(r->s3->workers, &r->task);
}

/* ---- documents ---- */

struct s3_document {
    struct s3_request *r;
    struct http_head head; /* what the payload decoder sees */
    struct s3_payload *payload;
    s3_document_fn fn;
    struct slice body;
    size_t seen;
};
/* Beyond this a body is hashed on a worker. */
#define DOCUMENT_INLINE_MAX (64u << 10)

/* A head without the headers that speak of the object and not of this body. */
static int hide_object_checksums(struct s3_request *r, struct http_head *head) {
    struct http_header *kept = pool_alloc(r->pool, (head->header_count + 1) * sizeof(*kept));
    if (kept == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < head->header_count; i++) {
        struct slice name = head->headers[i].name;
        struct slice prefix = SLICE_LITERAL("x-amz-checksum-");
        bool hide = slice_equal_nocase(name, SLICE_LITERAL("x-amz-sdk-checksum-algorithm")) ||
                    slice_equal_nocase(slice_take(name, prefix.size), prefix);
        if (!hide) {
            kept[count++] = head->headers[i];
        }
    }
    head->headers = kept;
    head->header_count = count;
    return 0;
}

/* Without framing the payload is the body as it came: the sink only counts. */
static int count_sink(void *arg, const uint8_t *data, size_t size) {
    struct s3_document *d = arg;
    d->seen += size;
    return 0;
}

static void checksum_of(uint8_t algorithm, struct slice data, struct checksum *ret) {
    *ret = (struct checksum){.algorithm = algorithm, .size = checksum_algorithm_size(algorithm)};
    uint64_t crc = 0;
    switch (algorithm) {
    case CHECKSUM_CRC32:
        crc = crc32(0, data.data, data.size);
        break;
    case CHECKSUM_CRC32C:
        crc = crc32c(0, data.data, data.size);
        break;
    case CHECKSUM_CRC64NVME:
        crc = crc64nvme(0, data.data, data.size);
        break;
    case CHECKSUM_SHA1:
        hash_sum(HASH_SHA1, data, ret->value);
        return;
    case CHECKSUM_SHA256:
        hash_sum(HASH_SHA256, data, ret->value);
        return;
    default:
        return;
    }
    for (uint8_t i = 0; i < ret->size; i++) {
        ret->value[i] = (uint8_t)(crc >> (8 * (ret->size - 1 - i)));
    }
}

static int check_document(struct s3_request *r) {
    struct s3_document *d = r->document;
    if (d->body.size > 0) {
        (void)s3_payload_feed(d->payload, d->body.data, d->body.size, count_sink, d);
    }
    int err = s3_payload_finish(d->payload, NULL, NULL, &r->message); /* also feed's first error */
    if (err < 0) {
        return err;
    }
    if (d->seen != d->body.size) {
        return -HL_ERR_INTERNAL;
    }
    const struct s3_payload_expect *expect = s3_payload_expect(d->payload);
    uint8_t md5[16] = {0};
    if (expect->md5_given) {
        hash_sum(HASH_MD5, d->body, md5);
    }
    struct checksum computed;
    checksum_of(expect->checksum_algorithm, d->body, &computed);
    return s3_payload_check(d->payload, md5, &computed, &r->message);
}

static void document_checked(struct s3_request *r, int err) {
    struct s3_document *d = r->document;
    s3_payload_done(TAKE_PTR(d->payload));
    if (err == -HL_ERR_LIMIT) {
        s3_fail_message(r, -HL_ERR_XML, "The document in the request body is too large");
    } else if (err < 0) {
        s3_fail(r, err);
    } else {
        d->fn(r, d->body);
    }
}

static void document_read(void *arg, int err, const uint8_t *data, size_t size) {
    struct s3_document *d = arg;
    struct s3_request *r = d->r;
    d->body = slice_of(data != NULL ? data : (const uint8_t *)"", size);
    if (err < 0) {
        document_checked(r, err);
    } else if (size <= DOCUMENT_INLINE_MAX) {
        document_checked(r, check_document(r));
    } else {
        s3_on_worker(r, check_document, document_checked);
    }
}

void s3_read_document(struct s3_request *r, size_t size_max, bool about_object, s3_document_fn fn) {
    struct s3_document *d = POOL_NEW(r->pool, struct s3_document);
    if (d == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    *d = (struct s3_document){.r = r, .head = *r->head, .fn = fn};
    r->document = d;
    int err = about_object ? hide_object_checksums(r, &d->head) : 0;
    if (err == 0) {
        err = s3_payload_open(&d->head, &r->auth, false, r->pool, &d->payload, &r->message);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    http_body_all(r->http, size_max, document_read, d);
}
