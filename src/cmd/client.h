/* A small blocking HTTP/1.1 client for the admin API: over the control socket, or over TCP with a
 * token. One call a connection. */
#ifndef CMD_CLIENT_H
#define CMD_CLIENT_H

#include "cmd/command.h"

#define CLIENT_ANSWER_MAX (64u << 20) /* bytes */

/* Calls path (with its query) and gives the JSON of a 2xx answer (a new reference). body: its
 * reference is taken, also on failure; NULL: GET. Otherwise says what went wrong on stderr and
 * returns CMD_FAILED. */
int client_call(struct cmd *cmd, const char *path, json_t *body, json_t **ret_json);
/* The path of a call with one or two query parameters, encoded; in the pool. Later values may be
 * NULL. */
const char *client_path(struct cmd *cmd, const char *call, const char *name1, const char *value1,
                        const char *name2, const char *value2);

#endif
