/* The operator's door: an HTTP API with JSON (calls named as in Garage's admin API v2), /metrics
 * and /health. Served twice over one object: on the control socket, where the file's mode 0600 is
 * the authorisation, and on the admin port, where a bearer token is.
 *
 * Threads: handlers start on loops; calls that read or change the store run one at a time on
 * options.executor, which may block. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "http/server.h"
#include "object/directory.h"

#define ADMIN_BODY_MAX (64u * 1024) /* bytes of a call's JSON */

struct admin;

struct admin_options {
    struct object_store *store;
    struct executor *executor; /* one thread of its own; calls block there */
    const char *node_id;       /* hexadecimal, see admin_node_id */
    const char *s3_address;    /* as listened on, for status */
    const char *region;
    const char *data_dir_text;  /* for status */
    const char *admin_token;    /* NULL: the API is not served on the admin port */
    const char *metrics_token;  /* NULL: see metrics_require_token */
    bool metrics_require_token; /* /metrics only with metrics_token or admin_token */
};

/* The strings are borrowed for the life of the object. */
int admin_new(const struct admin_options *options, struct admin **ret);
void admin_free(struct admin *admin); /* after its executor has stopped; NULL is fine */
const struct http_handler *admin_control_handler(struct admin *admin);
const struct http_handler *admin_network_handler(struct admin *admin);

/* The node's id, from metadata_dir/node.key: 64 hexadecimal digits and a NUL. NOT_FOUND before the
 * first start. */
#define ADMIN_NODE_ID_SIZE 65
int admin_node_id(struct os_fs *fs, const char *metadata_dir, char ret[ADMIN_NODE_ID_SIZE]);

#endif
