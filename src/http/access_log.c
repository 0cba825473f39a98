/* The access log: a line a request, gathered during a turn and written once at its end.
 * Signatures, tokens and credential scopes in query strings never reach it. */
#include <stdio.h>
#include <unistd.h>

#include "http/http_int.h"

#define LOG_BYTES_MAX 65536
#define LOG_LINE_MAX  4096

/* Decodes %XX of one byte of a name; advances *i. */
static uint8_t name_byte(struct slice s, size_t *i) {
    uint8_t decoded;
    if (s.data[*i] == '%' && s.size - *i >= 3 &&
        hex_decode(slice_of(s.data + *i + 1, 2), &decoded, 1)) {
        *i += 3;
        return decoded;
    }
    return s.data[(*i)++];
}

/* Compares as the signature code will see it: decoded, here also without regard to case. */
static bool name_is(struct slice encoded, const char *name) {
    size_t i = 0;
    for (; *name != '\0' && i < encoded.size; name++) {
        uint8_t b = name_byte(encoded, &i);
        uint8_t lower = b >= 'A' && b <= 'Z' ? (uint8_t)(b | 0x20) : b;
        if (lower != (uint8_t)*name) {
            return false;
        }
    }
    return *name == '\0' && i == encoded.size;
}

/* The access key id of a credential is useful, its scope is not worth a risk. */
static size_t credential_public_size(struct slice value) {
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] == '/' || value.data[i] == '%') {
            return i;
        }
    }
    return value.size;
}

static void redact_parameter(struct buf *out, struct slice parameter) {
    size_t equals = slice_find(parameter, '=', 0);
    struct slice name = slice_take(parameter, equals);
    if (equals == parameter.size) {
        buf_append_slice(out, parameter);
        return;
    }
    struct slice value = slice_skip(parameter, equals + 1);
    buf_append_slice(out, slice_take(parameter, equals + 1));
    if (name_is(name, "x-amz-signature") || name_is(name, "signature") ||
        name_is(name, "x-amz-security-token")) {
        buf_append_str(out, "REDACTED");
    } else if (name_is(name, "x-amz-credential")) {
        size_t size = credential_public_size(value);
        buf_append_slice(out, slice_take(value, size));
        if (size < value.size) {
            buf_append_str(out, "/...");
        }
    } else {
        buf_append_slice(out, value);
    }
}

void http_log_redact(struct buf *out, struct slice target) {
    size_t mark = slice_find(target, '?', 0);
    buf_append_slice(out, slice_take(target, mark));
    if (mark == target.size) {
        return;
    }
    buf_append_u8(out, '?');
    struct slice rest = slice_skip(target, mark + 1);
    while (rest.size > 0) {
        size_t end = slice_find(rest, '&', 0);
        redact_parameter(out, slice_take(rest, end));
        if (end == rest.size) {
            break;
        }
        buf_append_u8(out, '&');
        rest = slice_skip(rest, end + 1);
    }
}

static struct slice or_dash(struct slice s) {
    return s.size == 0 ? SLICE_LITERAL("-") : s;
}

/* Handlers may pass bytes from outside: no line breaks, spaces or controls within a field. */
static void append_field(struct buf *out, struct slice s) {
    s = slice_take(or_dash(s), 256);
    for (size_t i = 0; i < s.size; i++) {
        buf_append_u8(out, s.data[i] > 0x20 && s.data[i] != 0x7f ? s.data[i] : '_');
    }
}

void http_log_request(struct http_request *req) {
    struct http_loop *home = req->conn->home;
    struct os_clock *clock = home->server->clock;
    uint64_t spent_us = os_mono_us(clock) - req->started_us;
    metric_observe_us(&http_metric_latency, spent_us);
    if (atomic_load_explicit(&home->server->log_fd, memory_order_relaxed) < 0) {
        return;
    }
    if (home->log_size > LOG_BYTES_MAX - LOG_LINE_MAX) {
        http_log_flush(&home->hook);
    }
    if (home->log == NULL && (home->log = malloc(LOG_BYTES_MAX)) == NULL) {
        return;
    }
    char when[TIME_TEXT_SIZE];
    time_format_iso8601(os_wall_ms(clock), when);
    struct buf line = {.data = (uint8_t *)home->log + home->log_size,
                       .capacity = LOG_LINE_MAX,
                       .size_max = LOG_LINE_MAX - 1};
    buf_printf(&line, "%s %s %s ", when, req->id, req->conn->peer);
    append_field(&line, req->head.method);
    buf_append_u8(&line, ' ');
    http_log_redact(&line, slice_take(or_dash(req->head.target), LOG_LINE_MAX / 2));
    /* 499: the connection was gone before there was an answer. */
    buf_printf(&line, " %d %llu %llu ", req->status == 0 ? 499 : req->status,
               (unsigned long long)req->bytes_sent, (unsigned long long)spent_us);
    append_field(&line, req->operation);
    buf_append_u8(&line, ' ');
    append_field(&line, req->access_key);
    line.data[line.size] = '\n';
    home->log_size += line.size + 1;
}

void http_log_flush(struct loop_hook *hook) {
    struct http_loop *home = CONTAINER_OF(hook, struct http_loop, hook);
    if (home->log_size == 0) {
        return;
    }
    int fd = atomic_load_explicit(&home->server->log_fd, memory_order_relaxed);
    if (fd >= 0) {
        ssize_t n = write(fd, home->log, home->log_size);
        (void)n; /* a log that cannot be written must not stop the service */
    }
    home->log_size = 0;
}

void http_server_set_access_log(struct http_server *server, int fd) {
    atomic_store(&server->log_fd, fd);
}
