/* Answers: errors as S3's XML, the common headers, the pieces that several XML answers share, and
 * the account of each request (metrics, access log). Whatever ends a request goes through here, so
 * that its buffer is freed and it is counted exactly once. */
#include "s3/request.h"

#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/op_metrics.h"
#include "s3/route.h"
#include "s3/xml.h"

#define ERROR_BODY_MAX (64u << 10)

void s3_account(struct s3_request *r, int status) {
    uint64_t now = os_mono_us(r->s3->clock);
    s3_op_metrics_count(r->route, status, now - r->start_us);
    const char *name = r->route != NULL ? r->route->name : "Unknown";
    http_set_log(r->http, slice_str(name), r->auth.anonymous ? SLICE_EMPTY : r->auth.access_key);
}

/* The last step of an answer with a body. The server may free the request at once, so the body is
 * moved out of it first; what the kernel does not take is copied by the server. */
static void respond_body(struct s3_request *r, int status, struct buf *from) {
    CLEANUP_BUF struct buf body = *from;
    *from = (struct buf){0};
    http_response_header_str(r->http, "Content-Type", "application/xml");
    http_respond(r->http, status, body.failed ? SLICE_EMPTY : buf_slice(&body));
}

void s3_respond_empty(struct s3_request *r, int status) {
    buf_done(&r->out);
    s3_account(r, status);
    if (r->method == S3_HEAD) {
        http_respond_head(r->http, status, 0);
    } else {
        http_respond(r->http, status, SLICE_EMPTY);
    }
}

void s3_respond_xml(struct s3_request *r, int status) {
    if (r->out.failed) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    s3_account(r, status);
    respond_body(r, status, &r->out);
}

int s3_err(struct s3_request *r, int err, const char *message) {
    if (message != NULL) {
        r->message = message;
    }
    return err;
}

void s3_add_detail(struct s3_request *r, const char *name, struct slice value) {
    if (r->detail_count < S3_DETAILS_MAX) {
        r->details[r->detail_count++] = (struct s3_detail){name, value};
    }
}

static void error_xml(struct s3_request *r, int err, struct buf *out) {
    xml_begin(out, "Error", NULL);
    xml_str(out, "Code", error_s3_code(err));
    xml_str(out, "Message", r->message != NULL ? r->message : error_text(err));
    for (uint32_t i = 0; i < r->detail_count; i++) {
        xml_text(out, r->details[i].name, r->details[i].value);
    }
    if (r->bucket_name.size > 0) {
        xml_text(out, "BucketName", r->bucket_name);
    }
    if (r->key.size > 0) {
        xml_text(out, "Key", slice_take(r->key, 4096));
    }
    xml_text(out, "Resource", slice_take(r->head->path, 4096));
    xml_str(out, "RequestId", http_request_id(r->http));
    xml_close(out, "Error");
}

void s3_fail(struct s3_request *r, int err) {
    buf_done(&r->out);
    int status = error_http_status(err);
    s3_account(r, status);
    if (err == -HL_ERR_SLOW_DOWN || err == -HL_ERR_BUSY || err == -HL_ERR_UNAVAILABLE ||
        err == -HL_ERR_AGAIN) {
        s3_set_header_str(r, "Retry-After", "1");
    }
    if (status == 304) {
        http_respond(r->http, status, SLICE_EMPTY);
        return;
    }
    if (r->method == S3_HEAD) {
        http_respond_head(r->http, status, 0);
        return;
    }
    struct buf out = {.size_max = ERROR_BODY_MAX};
    error_xml(r, err, &out);
    respond_body(r, status, &out);
}

void s3_fail_message(struct s3_request *r, int err, const char *message) {
    s3_fail(r, s3_err(r, err, message));
}

void s3_error_body(void *ctx, int status, const char *request_id, struct buf *body,
                   const char **content_type) {
    static const struct {
        int status;
        const char *code, *message;
    } rows[] = {
        {400, "InvalidRequest", "The request is not valid HTTP/1.1."},
        {408, "RequestTimeout", "The request was not sent within the timeout period."},
        {411, "MissingContentLength", "You must provide the Content-Length HTTP header."},
        {413, "EntityTooLarge", "The request body is too large."},
        {414, "InvalidURI", "The request target is too long."},
        {431, "RequestHeaderSectionTooLarge", "The request headers exceed the maximum size."},
        {501, "NotImplemented", "This transfer coding or method is not implemented."},
        {503, "SlowDown", "Please reduce your request rate."},
        {505, "InvalidRequest", "Only HTTP/1.0 and HTTP/1.1 are understood."},
    };
    const char *code = status >= 500 ? "InternalError" : "InvalidRequest";
    const char *message = "The request could not be served.";
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].status == status) {
            code = rows[i].code;
            message = rows[i].message;
        }
    }
    xml_begin(body, "Error", NULL);
    xml_str(body, "Code", code);
    xml_str(body, "Message", message);
    xml_str(body, "RequestId", request_id);
    xml_close(body, "Error");
    *content_type = "application/xml";
}

/* ---- headers ---- */

void s3_set_header(struct s3_request *r, const char *name, struct slice value) {
    http_response_header(r->http, name, value); /* copies */
}

void s3_set_header_str(struct s3_request *r, const char *name, const char *value) {
    s3_set_header(r, name, slice_str(value));
}

void s3_set_header_u64(struct s3_request *r, const char *name, uint64_t value) {
    s3_set_header_str(r, name, pool_printf(r->pool, "%llu", (unsigned long long)value));
}

void s3_set_etag(struct s3_request *r, const struct etag *etag) {
    char text[OBJECT_ETAG_SIZE + 2] = "\"";
    object_etag_text(etag, text + 1);
    size_t size = strlen(text);
    text[size] = '"';
    s3_set_header(r, "ETag", slice_of(text, size + 1));
}

void s3_set_checksum(struct s3_request *r, const struct checksum *checksum, uint32_t parts,
                     bool with_type) {
    if (checksum->size == 0) {
        return;
    }
    char text[CHECKSUM_TEXT_SIZE];
    checksum_format(checksum, checksum->type == CHECKSUM_COMPOSITE ? parts : 0, text);
    s3_set_header_str(r, checksum_header_name(checksum->algorithm), text);
    if (with_type) {
        s3_set_header_str(r, "x-amz-checksum-type", checksum_type_name(checksum->type));
    }
}

/* ---- XML ---- */

void s3_xml_etag(struct buf *out, const struct etag *etag, bool quoted) {
    char text[OBJECT_ETAG_SIZE], with_quotes[OBJECT_ETAG_SIZE + 2];
    object_etag_text(etag, text);
    size_t size = strlen(text);
    with_quotes[0] = '"';
    memcpy(with_quotes + 1, text, size);
    with_quotes[size + 1] = '"';
    xml_text(out, "ETag", quoted ? slice_of(with_quotes, size + 2) : slice_of(text, size));
}

void s3_xml_checksum(struct buf *out, const struct checksum *checksum, uint32_t parts,
                     bool with_type) {
    if (checksum->size == 0) {
        return;
    }
    char text[CHECKSUM_TEXT_SIZE];
    checksum_format(checksum, checksum->type == CHECKSUM_COMPOSITE ? parts : 0, text);
    xml_str(out, checksum_element_name(checksum->algorithm), text);
    if (with_type) {
        xml_str(out, "ChecksumType", checksum_type_name(checksum->type));
    }
}

void s3_xml_time(struct buf *out, const char *name, int64_t ms) {
    char text[TIME_TEXT_SIZE];
    time_format_iso8601(ms, text);
    xml_str(out, name, text);
}

/* Objects whose writer is unknown belong to the operator; a key that was deleted shows its id. */
void s3_xml_owner_fields(struct s3_request *r, struct slice key_id) {
    struct access_key_record record;
    struct slice id = key_id.size > 0 ? key_id : SLICE_LITERAL("hayloft");
    struct slice display = id;
    if (r->owner_id.data != NULL && slice_equal(r->owner_id, id)) {
        display = r->owner_name;
    } else if (key_id.size > 0 &&
               directory_access_key(r->s3->store, key_id, r->pool, &record) == 0) {
        display = record.name.size > 0 ? record.name : id;
        struct slice kept = pool_copy(r->pool, id);
        if (kept.data != NULL) {
            r->owner_id = kept;
            r->owner_name = display;
        }
    }
    xml_text(&r->out, "ID", id);
    xml_text(&r->out, "DisplayName", display);
}

void s3_xml_owner(struct s3_request *r, const char *name, struct slice key_id) {
    xml_open(&r->out, name);
    s3_xml_owner_fields(r, key_id);
    xml_close(&r->out, name);
}

void s3_xml_key(struct buf *out, const char *name, struct slice key, bool url) {
    if (!url) {
        xml_text(out, name, key);
        return;
    }
    xml_open(out, name);
    percent_encode(out, key, true); /* only unreserved characters, '%' and '/': nothing to escape */
    xml_close(out, name);
}
