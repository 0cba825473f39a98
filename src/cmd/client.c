/* The blocking client of client.h. Over TCP it speaks plain HTTP: the token is then readable on
 * the way, so errors advise a tunnel for anything but a trusted network. Limits: the answer's size
 * and five minutes of silence. */
#include "cmd/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/env.h"

#define CLIENT_SILENCE_S 300

static void client_close(const int *fd) {
    if (*fd >= 0) {
        (void)close(*fd);
    }
}
#define CLEANUP_FD CLEANUP(client_close)

/* ---- connecting ---- */

static int client_open_unix(const char *path, int *ret_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size >= sizeof(address.sun_path)) {
        return cmd_error("the control socket's path %s is longer than %zu bytes; set "
                         "control_socket to a shorter one",
                         path, sizeof(address.sun_path) - 1);
    }
    memcpy(address.sun_path, path, size + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return cmd_error("no socket: %s", strerror(errno));
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int problem = errno;
        (void)close(fd);
        if (problem == EACCES) {
            return cmd_error("no permission for %s; run the command as the user that runs the "
                             "server",
                             path);
        }
        return cmd_error("no server answers at %s (%s); start it with `hayloft server`, or name "
                         "its configuration with -c FILE, or another node with --admin-url",
                         path, strerror(problem));
    }
    *ret_fd = fd;
    return CMD_OK;
}

static int client_open_tcp(struct cmd *cmd, const char *url, int *ret_fd) {
    if (strncmp(url, "http://", 7) != 0) {
        return cmd_error("--admin-url must be http://HOST:PORT, not %s; for an encrypted way use "
                         "a tunnel (ssh -L 3903:localhost:3903 HOST)",
                         url);
    }
    const char *host = url + 7;
    size_t size = strcspn(host, "/");
    const char *colon = memrchr(host, ':', size);
    if (colon != NULL && memchr(colon, ']', size - (size_t)(colon - host)) != NULL) {
        colon = NULL;
    }
    const char *port = "3903";
    size_t host_size = size;
    if (colon != NULL) {
        host_size = (size_t)(colon - host);
        port = pool_printf(cmd->pool, "%.*s", (int)(size - host_size - 1), colon + 1);
    }
    if (host_size >= 2 && host[0] == '[' && host[host_size - 1] == ']') {
        host++;
        host_size -= 2;
    }
    const char *name = pool_printf(cmd->pool, "%.*s", (int)host_size, host);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int problem = getaddrinfo(name, port, &hints, &list);
    if (problem != 0) {
        return cmd_error("%s is not found: %s", name, gai_strerror(problem));
    }
    int fd = -1;
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            problem = errno;
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) {
        return cmd_error("no server answers at %s (%s)", url, strerror(problem));
    }
    *ret_fd = fd;
    return CMD_OK;
}

/* ---- one exchange ---- */

static int client_send(int fd, const struct buf *request) {
    size_t sent = 0;
    while (sent < request->size) {
        ssize_t n = send(fd, request->data + sent, request->size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return cmd_error("the server closed the connection: %s", strerror(errno));
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return CMD_OK;
}

/* The request says Connection: close, so the answer ends with the connection. */
static int client_receive(int fd, struct buf *answer) {
    uint8_t piece[16384];
    for (;;) {
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n == 0) {
            return answer->failed ? cmd_error("the answer is too large") : CMD_OK;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return cmd_error("no answer from the server: %s",
                             errno == EAGAIN ? "it was silent for five minutes" : strerror(errno));
        }
        buf_append(answer, piece, (size_t)n);
    }
}

static bool client_header_is(struct slice line, const char *name, struct slice *ret_value) {
    size_t colon = slice_find(line, ':', 0);
    if (!slice_equal_nocase(slice_take(line, colon), slice_str(name)) || colon >= line.size) {
        return false;
    }
    struct slice value = slice_skip(line, colon + 1);
    while (value.size > 0 && value.data[0] == ' ') {
        value = slice_skip(value, 1);
    }
    *ret_value = value;
    return true;
}

/* Chunked coding (RFC 9112 7.1), without extensions of meaning. */
static bool client_unchunk(struct slice in, struct buf *out) {
    for (;;) {
        size_t end = slice_find(in, '\n', 0);
        char text[20];
        if (end >= in.size || end < 2 || end > sizeof(text)) {
            return false;
        }
        (void)snprintf(text, sizeof(text), "%.*s", (int)(end - 1), (const char *)in.data);
        char *stop;
        unsigned long long size = strtoull(text, &stop, 16);
        in = slice_skip(in, end + 1);
        if (stop == text || size > in.size || in.size - size < 2) {
            return false;
        }
        if (size == 0) {
            return true;
        }
        buf_append(out, in.data, size);
        in = slice_skip(in, size + 2);
    }
}

/* Splits the answer; body points into answer or scratch. */
static bool client_parse(const struct buf *answer, struct buf *scratch, int *ret_status,
                         struct slice *ret_body) {
    struct slice rest = buf_slice(answer);
    bool first = true, chunked = false;
    uint64_t length = UINT64_MAX;
    for (;;) {
        size_t end = slice_find(rest, '\n', 0);
        if (end >= rest.size) {
            return false;
        }
        struct slice line = slice_take(rest, end > 0 && rest.data[end - 1] == '\r' ? end - 1 : end);
        rest = slice_skip(rest, end + 1);
        struct slice value;
        if (first) {
            uint64_t status;
            if (line.size < 12 || !slice_starts_with(line, SLICE_LITERAL("HTTP/1.")) ||
                !parse_u64(slice_of(line.data + 9, 3), 999, &status)) {
                return false;
            }
            *ret_status = (int)status;
            first = false;
        } else if (line.size == 0) {
            break;
        } else if (client_header_is(line, "Content-Length", &value)) {
            if (!parse_u64(value, CLIENT_ANSWER_MAX, &length)) {
                return false;
            }
        } else if (client_header_is(line, "Transfer-Encoding", &value)) {
            chunked = true;
        }
    }
    if (chunked) {
        if (!client_unchunk(rest, scratch) || scratch->failed) {
            return false;
        }
        rest = buf_slice(scratch);
    } else if (length != UINT64_MAX) {
        if (rest.size < length) {
            return false;
        }
        rest = slice_take(rest, length);
    }
    *ret_body = rest;
    return true;
}

/* ---- calls ---- */

static int client_token(struct cmd *cmd, const char **ret) {
    *ret = cmd->admin_token;
    if (cmd->admin_token != NULL || cmd->admin_token_file == NULL) {
        return CMD_OK;
    }
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    int err = os_file_load(os_fs_real(), cmd->admin_token_file, 4096, &data, &size);
    if (err < 0) {
        return cmd_error("the token file %s cannot be read (%s)", cmd->admin_token_file,
                         error_name(err));
    }
    while (size > 0 && data[size - 1] <= ' ') {
        size--;
    }
    *ret = (const char *)pool_copy(cmd->pool, slice_of(data, size)).data;
    return CMD_OK;
}

static int client_connect(struct cmd *cmd, int *ret_fd, const char **ret_token) {
    *ret_token = NULL;
    if (cmd->admin_url != NULL && cmd->admin_url[0] != 0) {
        int code = client_token(cmd, ret_token);
        return code != CMD_OK ? code : client_open_tcp(cmd, cmd->admin_url, ret_fd);
    }
    struct config config;
    CLEANUP(config_report_done) struct config_report report = {0};
    int code = cmd_load_config(cmd, false, &config, &report);
    return code != CMD_OK ? code : client_open_unix(config.control_socket, ret_fd);
}

static int client_exchange(struct cmd *cmd, const char *path, const char *body,
                           struct buf *answer) {
    CLEANUP_FD int fd = -1;
    CLEANUP_BUF struct buf request = {0};
    const char *token;
    int code = client_connect(cmd, &fd, &token);
    if (code != CMD_OK) {
        return code;
    }
    struct timeval silence = {.tv_sec = CLIENT_SILENCE_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    buf_printf(&request, "%s %s HTTP/1.1\r\nHost: hayloft\r\nConnection: close\r\n",
               body == NULL ? "GET" : "POST", path);
    if (token != NULL) {
        buf_printf(&request, "Authorization: Bearer %s\r\n", token);
    }
    if (body != NULL) {
        buf_printf(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                   strlen(body));
    }
    buf_append_str(&request, "\r\n");
    buf_append_str(&request, body == NULL ? "" : body);
    if (request.failed) {
        return cmd_error("out of memory");
    }
    code = client_send(fd, &request);
    return code != CMD_OK ? code : client_receive(fd, answer);
}

int client_call(struct cmd *cmd, const char *path, json_t *body, json_t **ret_json) {
    CLEANUP_FREE char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    CLEANUP_BUF struct buf answer = {.size_max = CLIENT_ANSWER_MAX},
                           scratch = {.size_max = CLIENT_ANSWER_MAX};
    bool failed = body != NULL && text == NULL;
    json_decref(body);
    if (failed || path == NULL) {
        return cmd_error("the call cannot be written as JSON: a name is no UTF-8 text");
    }
    int code = client_exchange(cmd, path, text, &answer);
    if (code != CMD_OK) {
        return code;
    }
    int status = 0;
    struct slice payload;
    if (!client_parse(&answer, &scratch, &status, &payload)) {
        return cmd_error("the answer is cut off or no HTTP; is that a Hayloft admin port?");
    }
    json_t *json = json_loadb((const char *)payload.data, payload.size,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (status >= 200 && status < 300 && json != NULL) {
        *ret_json = json;
        return CMD_OK;
    }
    const char *message = cmd_json_str(json, "message");
    if (message[0] != 0) {
        code = cmd_error("%s", message);
    } else {
        code = cmd_error("the server answered %d without an explanation", status);
    }
    json_decref(json);
    return code;
}

const char *client_path(struct cmd *cmd, const char *call, const char *name1, const char *value1,
                        const char *name2, const char *value2) {
    CLEANUP_BUF struct buf path = {.size_max = 8192};
    buf_printf(&path, "/v2/%s?%s=", call, name1);
    percent_encode(&path, slice_str(value1), false);
    if (name2 != NULL) {
        buf_printf(&path, "&%s=", name2);
        percent_encode(&path, slice_str(value2), false);
    }
    return path.failed ? NULL : (const char *)pool_copy(cmd->pool, buf_slice(&path)).data;
}
