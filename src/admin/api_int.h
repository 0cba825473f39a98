/* Inside admin/: one call of the API, and what the endpoint families share. */
#ifndef ADMIN_API_INT_H
#define ADMIN_API_INT_H

#include <jansson.h>

#include "admin/admin.h"
#include "base/error.h"

struct admin {
    struct admin_options options;
    struct http_handler control, network;
    int64_t started_ms;
};

/* Lives in the request's pool from the head to the answer. */
struct api_call {
    struct task task;
    struct admin *admin;
    struct http_request *req;
    const struct api_endpoint *endpoint;
    json_t *body; /* an object for POST; NULL for GET */
    int status;
    const char *answer; /* JSON or text, in the pool; NULL when there was no memory */
    size_t answer_size;
    const char *content_type;
    const char *message; /* of an error, in the pool; NULL: the default text */
};

/* Runs on the blocking executor. 0 and *ret_json (a new reference), or a code; api_fail gives it
 * words. */
typedef int (*api_fn)(struct api_call *call, json_t **ret_json);
struct api_endpoint {
    const char *name; /* "ListBuckets" */
    bool write;       /* POST with a JSON object; else GET */
    api_fn fn;
};

int api_fail(struct api_call *call, int err, const char *format, ...) PRINTF_LIKE(3, 4);
static inline struct object_store *api_store(struct api_call *call) {
    return call->admin->options.store;
}
static inline struct pool *api_pool(struct api_call *call) {
    return http_pool(call->req);
}

/* ---- arguments ---- */

/* A query parameter, decoded, in the pool; NULL when absent. */
const char *api_query(struct api_call *call, const char *name);
/* Members of a JSON object; each refuses a wrong type with the member's name. *ret is untouched
 * when the member is absent or null. required: absent is an error. */
int api_get_string(struct api_call *call, json_t *object, const char *name, bool required,
                   const char **ret);
int api_get_bool(struct api_call *call, json_t *object, const char *name, bool *ret);
int api_get_u64(struct api_call *call, json_t *object, const char *name, uint64_t *ret);
int api_get_object(struct api_call *call, json_t *object, const char *name, json_t **ret);
/* Refuses members that are not in the NULL-terminated list, so that a misspelt one is not ignored.
 */
int api_check_members(struct api_call *call, json_t *object, const char *const *known);
/* "permissions": {read, write, owner} to flags. */
int api_get_permissions(struct api_call *call, json_t *object, const char *name, uint32_t *ret);

/* ---- results ---- */

json_t *api_json_slice(struct slice s); /* bytes that are no UTF-8 are percent-encoded */
json_t *api_json_time(int64_t ms);      /* ISO 8601; null for 0 */
json_t *api_json_permissions(uint32_t flags);

/* ---- shared finders ---- */

#define API_BUCKET_ID_SIZE 17
void api_bucket_id(uint64_t bucket, char ret[API_BUCKET_ID_SIZE]);
/* By id, global alias or unique prefix of an id. */
int api_find_bucket(struct api_call *call, const char *text, struct bucket_record *ret);
/* By id, unique prefix of an id (4 characters or more), or name. */
int api_find_key(struct api_call *call, const char *text, struct access_key_record *ret);
int api_bucket_info(struct api_call *call, uint64_t bucket, json_t **ret);

extern const struct api_endpoint api_bucket_endpoints[], api_key_endpoints[], api_node_endpoints[];
extern const size_t api_bucket_endpoint_count, api_key_endpoint_count, api_node_endpoint_count;

/* metrics.c, health.c: fill call->answer. */
void api_metrics(struct api_call *call);
int64_t api_resident_bytes(void); /* of this process; 0 when unknown */
void api_health(struct admin *admin, struct http_request *req);
json_t *api_health_json(struct admin *admin);

/* Starts an answer that runs on the blocking executor. */
void api_start(struct admin *admin, struct http_request *req, const struct api_endpoint *endpoint);

#endif
