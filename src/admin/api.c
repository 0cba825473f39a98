/* The admin API's frame: authorisation, routing, JSON in and out. A call starts on its loop, its
 * body is gathered there, then it hops to the blocking executor, runs to its end, and hops back to
 * answer. Invariants: nothing but /health is answered to a network client without a token check;
 * calls run one at a time, so read-modify-write of a record needs no lock. It must not know what a
 * single endpoint does. */
#include <stdarg.h>
#include <stdio.h>

#include "admin/api_int.h"
#include "base/hash.h"
#include "base/logger.h"
#include "base/text.h"

/* ---- errors and answers ---- */

int api_fail(struct api_call *call, int err, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    call->message = (const char *)pool_copy(api_pool(call), slice_str(text)).data;
    return err;
}

static void api_respond(struct http_request *req, int status, const char *content_type,
                        struct slice body) {
    http_response_header_str(req, "Content-Type", content_type);
    http_response_header_str(req, "Cache-Control", "no-store");
    http_respond(req, status, body);
}

static void api_error_json(struct buf *out, const char *code, const char *message,
                           const char *path) {
    json_t *json = json_pack("{s:s, s:s, s:s?}", "code", code, "message", message, "path", path);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    buf_append_str(out, text != NULL ? text : "{\"code\":\"InternalError\"}");
    buf_append_str(out, "\n");
    free(text);
    json_decref(json);
}

static void api_respond_error(struct http_request *req, int status, const char *code,
                              const char *message) {
    CLEANUP_BUF struct buf out = {0};
    struct slice path = pool_copy(http_pool(req), http_head(req)->path);
    bool printable = path.data != NULL && utf8_valid(path);
    api_error_json(&out, code, message, printable ? (const char *)path.data : NULL);
    api_respond(req, status, "application/json", buf_slice(&out));
}

static void api_error_body(void *ctx, int status, const char *request_id, struct buf *body,
                           const char **content_type) {
    (void)ctx;
    (void)request_id;
    api_error_json(body, status >= 500 ? "ServiceUnavailable" : "InvalidRequest",
                   "The request was refused before it reached the admin API.", NULL);
    *content_type = "application/json";
}

/* ---- the blocking part ---- */

static void api_answer(struct task *task) {
    struct api_call *call = CONTAINER_OF(task, struct api_call, task);
    if (call->answer == NULL) {
        api_respond_error(call->req, 500, "InternalError", "Out of memory.");
    } else {
        api_respond(call->req, call->status, call->content_type,
                    slice_of(call->answer, call->answer_size));
    }
}

static void api_finish(struct api_call *call, int err, json_t *json) {
    if (err == 0) {
        call->status = 200;
    } else {
        /* For the operator an unknown key is a thing not found, not a refusal as in S3. */
        bool no_key = err == -HL_ERR_NO_SUCH_ACCESS_KEY;
        call->status = no_key ? 404 : error_http_status(err);
        json_decref(json);
        json = json_pack("{s:s, s:s}", "code", no_key ? "NoSuchAccessKey" : error_s3_code(err),
                         "message", call->message != NULL ? call->message : error_text(err));
    }
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    call->content_type = "application/json";
    /* Handed over through the pool, so that the answer lives as long as the request. */
    if (text != NULL) {
        struct slice copy = pool_copy(api_pool(call), slice_str(text));
        call->answer = (const char *)copy.data;
        call->answer_size = copy.size;
        free(text);
    }
}

static void api_run(struct task *task) {
    struct api_call *call = CONTAINER_OF(task, struct api_call, task);
    if (call->endpoint == NULL) {
        api_metrics(call);
    } else {
        json_t *json = NULL;
        int err = call->endpoint->fn(call, &json);
        if (err == 0 && json == NULL) {
            err = -HL_ERR_NOMEM;
        }
        api_finish(call, err, json);
    }
    json_decref(call->body);
    call->body = NULL;
    call->task.run = api_answer;
    executor_post(http_home(call->req), &call->task);
}

static void api_body(void *arg, int err, const uint8_t *data, size_t size) {
    struct api_call *call = arg;
    if (err < 0) {
        api_respond_error(call->req, err == -HL_ERR_LIMIT ? 413 : 400, error_s3_code(err),
                          err == -HL_ERR_LIMIT ? "The request's JSON is too large."
                                               : "The request's body could not be read.");
        return;
    }
    json_error_t problem;
    call->body = size == 0 ? json_object()
                           : json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(call->body)) {
        json_decref(call->body);
        call->body = NULL;
        api_respond_error(call->req, 400, "InvalidRequest",
                          "The body must be one JSON object without repeated members.");
        return;
    }
    call->task.run = api_run;
    executor_post(call->admin->options.executor, &call->task);
}

void api_start(struct admin *admin, struct http_request *req, const struct api_endpoint *endpoint) {
    struct api_call *call = POOL_NEW(http_pool(req), struct api_call);
    if (call == NULL) {
        api_respond_error(req, 500, "InternalError", "Out of memory.");
        return;
    }
    call->admin = admin;
    call->req = req;
    call->endpoint = endpoint;
    call->task.run = api_run;
    if (endpoint != NULL && endpoint->write) {
        http_body_all(req, ADMIN_BODY_MAX, api_body, call);
    } else {
        executor_post(admin->options.executor, &call->task);
    }
}

/* ---- routing ---- */

static const struct api_endpoint *api_find_endpoint(struct slice name) {
    const struct {
        const struct api_endpoint *rows;
        size_t count;
    } families[] = {{api_bucket_endpoints, api_bucket_endpoint_count},
                    {api_key_endpoints, api_key_endpoint_count},
                    {api_node_endpoints, api_node_endpoint_count}};
    for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
        for (size_t j = 0; j < families[i].count; j++) {
            if (slice_equal_str(name, families[i].rows[j].name)) {
                return &families[i].rows[j];
            }
        }
    }
    return NULL;
}

/* Authorization: Bearer TOKEN, compared in constant time over digests, so that the length of the
 * secret does not show either. */
static bool api_token_matches(struct http_request *req, const char *token) {
    struct slice given = http_header(req, "Authorization");
    if (token == NULL || given.size < 7 ||
        !slice_equal_nocase(slice_take(given, 7), SLICE_LITERAL("Bearer "))) {
        return false;
    }
    uint8_t a[HASH_SIZE_MAX], b[HASH_SIZE_MAX];
    hash_sum(HASH_SHA256, slice_skip(given, 7), a);
    hash_sum(HASH_SHA256, slice_str(token), b);
    return equal_constant_time(a, b, 32);
}

static void api_refuse_token(struct http_request *req, const char *message) {
    http_response_header_str(req, "WWW-Authenticate", "Bearer");
    api_respond_error(req, 401, "AccessDenied", message);
}

static void api_call_start(struct admin *admin, struct http_request *req) {
    const struct http_head *head = http_head(req);
    const struct api_endpoint *endpoint = api_find_endpoint(slice_skip(head->path, 4));
    if (endpoint == NULL) {
        api_respond_error(req, 404, "NoSuchCall",
                          "There is no such call in this version's admin API.");
        return;
    }
    http_set_log(req, slice_str(endpoint->name), SLICE_EMPTY);
    bool get = slice_equal_str(head->method, "GET");
    if (endpoint->write ? !slice_equal_str(head->method, "POST") : !get) {
        http_response_header_str(req, "Allow", endpoint->write ? "POST" : "GET");
        api_respond_error(req, 405, "MethodNotAllowed",
                          endpoint->write ? "This call changes something: use POST."
                                          : "This call only reads: use GET.");
        return;
    }
    api_start(admin, req, endpoint);
}

static bool api_is_get(const struct http_head *head) {
    return slice_equal_str(head->method, "GET") || slice_equal_str(head->method, "HEAD");
}

static void api_control_request(void *ctx, struct http_request *req) {
    struct admin *admin = ctx;
    const struct http_head *head = http_head(req);
    if (slice_starts_with(head->path, SLICE_LITERAL("/v2/"))) {
        api_call_start(admin, req);
    } else if (slice_equal_str(head->path, "/metrics") && api_is_get(head)) {
        api_start(admin, req, NULL);
    } else if (slice_equal_str(head->path, "/health") && api_is_get(head)) {
        api_health(admin, req);
    } else {
        api_respond_error(req, 404, "NotFound", "Known are /v2/..., /metrics and /health.");
    }
}

static void api_network_request(void *ctx, struct http_request *req) {
    struct admin *admin = ctx;
    const struct admin_options *options = &admin->options;
    const struct http_head *head = http_head(req);
    bool admin_token = api_token_matches(req, options->admin_token);
    if (slice_starts_with(head->path, SLICE_LITERAL("/v2/")) && !admin_token) {
        api_refuse_token(req, options->admin_token == NULL
                                  ? "The admin API is closed here: set admin.admin_token, or use "
                                    "the control socket on the node itself."
                                  : "A valid header \"Authorization: Bearer ADMIN_TOKEN\" is "
                                    "needed.");
        return;
    }
    bool metrics_closed = options->metrics_token != NULL || options->metrics_require_token;
    if (slice_equal_str(head->path, "/metrics") && metrics_closed && !admin_token &&
        !api_token_matches(req, options->metrics_token)) {
        api_refuse_token(req, "A valid header \"Authorization: Bearer METRICS_TOKEN\" is needed.");
        return;
    }
    api_control_request(ctx, req);
}

/* ---- the object ---- */

int admin_new(const struct admin_options *options, struct admin **ret) {
    struct admin *admin = calloc(1, sizeof(*admin));
    if (admin == NULL) {
        return -HL_ERR_NOMEM;
    }
    json_object_seed(0);
    admin->options = *options;
    admin->started_ms = os_wall_ms(object_env(options->store)->clock);
    admin->control = (struct http_handler){
        .request = api_control_request, .error_body = api_error_body, .ctx = admin};
    admin->network = (struct http_handler){
        .request = api_network_request, .error_body = api_error_body, .ctx = admin};
    *ret = admin;
    return 0;
}

void admin_free(struct admin *admin) {
    free(admin);
}

const struct http_handler *admin_control_handler(struct admin *admin) {
    return &admin->control;
}

const struct http_handler *admin_network_handler(struct admin *admin) {
    return &admin->network;
}
