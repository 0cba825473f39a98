/* The S3 API as an http_handler: each request is parsed, authenticated, routed and authorised here,
 * in this order and in one place, and then handed to its operation. Default deny: no handler runs
 * for a caller whom s3_route_authorise did not let through. */
#include "s3/s3.h"

#include "base/error.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/request.h"
#include "s3/route.h"

#include <stdio.h>

/* Every request that reaches a handler has a bucket, except service calls and CreateBucket. */
static bool needs_bucket(const struct s3_request *r) {
    return r->scope != S3_SERVICE && (r->route == NULL || r->route->need != S3_NEED_CREATE);
}

struct secret_context {
    struct s3_request *r;
    bool found;
};

/* s3_auth_env.secret: keeps the record that it looked up for the request. */
static int find_secret(void *ctx, struct slice access_key, uint8_t ret[128], size_t *ret_size) {
    struct secret_context *c = ctx;
    struct s3_request *r = c->r;
    struct access_key_record record;
    int err = directory_access_key(r->s3->store, access_key, r->pool, &record);
    if (err < 0) {
        return err;
    }
    if ((record.flags & ACCESS_KEY_DISABLED) != 0 || record.secret.size > 128) {
        return -HL_ERR_NO_SUCH_ACCESS_KEY;
    }
    if (record.expires_ms != 0 && record.expires_ms <= os_wall_ms(r->s3->clock)) {
        return -HL_ERR_EXPIRED;
    }
    memcpy(ret, record.secret.data, record.secret.size);
    *ret_size = record.secret.size;
    r->access_key = record;
    c->found = true;
    return 0;
}

static int authenticate(struct s3_request *r) {
    struct secret_context context = {.r = r};
    struct s3_auth_env env = {
        .now_ms = os_wall_ms(r->s3->clock),
        .region = r->s3->region,
        .region_strict = r->s3->region_strict,
        .secret = find_secret,
        .ctx = &context,
    };
    struct s3_auth_detail detail = {0};
    int err = s3_auth_verify(r->head, &env, r->pool, &r->auth, &r->message, &detail);
    if (err < 0) {
        r->auth = (struct s3_auth){.anonymous = true};
        if (err == -HL_ERR_SIGNATURE) {
            s3_add_detail(r, "StringToSign", detail.string_to_sign);
            s3_add_detail(r, "CanonicalRequest", detail.canonical_request);
            s3_add_detail(r, "SignatureProvided", detail.signature_provided);
        }
        return err;
    }
    return r->auth.anonymous || context.found ? 0 : -HL_ERR_ACCESS_DENIED;
}

/* The bucket under the name that this caller gives it, and what the caller may do there. */
static int resolve_bucket(struct s3_request *r) {
    struct slice key_id = r->auth.anonymous ? SLICE_EMPTY : r->auth.access_key;
    int err = directory_bucket(r->s3->store, r->bucket_name, key_id, r->pool, &r->bucket);
    if (err < 0) {
        return err;
    }
    if (!r->auth.anonymous) {
        r->permissions = directory_permission(r->s3->store, r->bucket.id, key_id);
    }
    return 0;
}

/* aws-chunked bodies come with PutObject and UploadPart only (AWS refuses them elsewhere, and no
 * other operation would take the framing off). */
static int check_payload_mode(struct s3_request *r) {
    bool framed = r->auth.payload == S3_PAYLOAD_STREAM_SIGNED ||
                  r->auth.payload == S3_PAYLOAD_STREAM_SIGNED_TRAILER ||
                  r->auth.payload == S3_PAYLOAD_STREAM_UNSIGNED_TRAILER;
    if (!framed || r->route->handler == s3_put_object || r->route->handler == s3_upload_part) {
        return 0;
    }
    return s3_err(r, -HL_ERR_INVALID_REQUEST,
                  "The value of x-amz-content-sha256 is not allowed for this operation: only "
                  "PutObject and UploadPart take an aws-chunked body.");
}

/* From a head to a row that this caller may use. */
static int admit(struct s3_request *r) {
    int err = s3_request_parse(r);
    if (err < 0) {
        return err;
    }
    int route_err = s3_route_find(r, &r->route);
    err = authenticate(r);
    if (err < 0) {
        return err;
    }
    if (needs_bucket(r)) {
        err = resolve_bucket(r);
        if (err < 0) {
            return err;
        }
    }
    if (route_err < 0) {
        return r->auth.anonymous ? -HL_ERR_ACCESS_DENIED : route_err;
    }
    err = s3_route_authorise(r->route, r->auth.anonymous, r->permissions);
    if (err == 0) {
        err = check_payload_mode(r);
    }
    if (err == 0 && needs_bucket(r)) {
        err = s3_check_expected_owner(r, "x-amz-expected-bucket-owner", &r->bucket);
    }
    return err;
}

static void handle(void *ctx, struct http_request *http) {
    struct s3 *s3 = ctx;
    struct s3_request *r = POOL_NEW(http_pool(http), struct s3_request);
    if (r == NULL) {
        http_respond(http, 500, SLICE_EMPTY);
        return;
    }
    http_set_context(http, r);
    r->s3 = s3;
    r->http = http;
    r->head = http_head(http);
    r->pool = http_pool(http);
    r->home = http_home(http);
    r->start_us = os_mono_us(s3->clock);
    r->auth.anonymous = true;
    int err = admit(r);
    if (err == 0 && r->route->handler == NULL) {
        err = r->route->err;
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    r->route->handler(r);
}

int s3_new(struct object_store *store, const struct s3_options *options, struct s3 **ret) {
    const char *region = options->region != NULL ? options->region : "us-east-1";
    const char *domain = options->root_domain != NULL ? options->root_domain : "";
    if (strlen(region) >= sizeof(((struct s3 *)0)->region) ||
        strlen(domain) + 2 > sizeof(((struct s3 *)0)->root_domain)) {
        return -HL_ERR_INVALID;
    }
    struct s3 *s3 = calloc(1, sizeof(*s3));
    if (s3 == NULL) {
        return -HL_ERR_NOMEM;
    }
    s3->store = store;
    s3->workers = options->workers;
    s3->clock = object_env(store)->clock;
    s3->region_strict = options->region_strict;
    (void)snprintf(s3->region, sizeof(s3->region), "%s", region);
    const char *dot = domain[0] == 0 || domain[0] == '.' ? "" : ".";
    (void)snprintf(s3->root_domain, sizeof(s3->root_domain), "%s%s", dot, domain);
    s3->handler = (struct http_handler){.request = handle, .error_body = s3_error_body, .ctx = s3};
    *ret = s3;
    return 0;
}

void s3_free(struct s3 *s3) {
    free(s3);
}

const struct http_handler *s3_handler(struct s3 *s3) {
    return &s3->handler;
}
