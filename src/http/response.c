/* The head of an answer as text: status line, the server's own fields, the handler's, the framing.
 * Writes into the request's pool only; knows no sockets. */
#include "base/check.h"
#include "http/http_int.h"

struct reason {
    int status;
    const char *text;
};

static const struct reason reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_reason(int status) {
    for (size_t i = 0; i < ARRAY_COUNT(reasons); i++) {
        if (reasons[i].status == status) {
            return reasons[i].text;
        }
    }
    return "Status";
}

bool http_status_bodyless(int status) {
    return status == 204 || status == 304 || status < 200;
}

/* Grows by doubling in the pool. */
void http_text_append(struct http_request *req, struct http_text *text, const char *data,
                      size_t size) {
    if (text->capacity - text->size < size) {
        size_t capacity = MAX(text->capacity * 2, ALIGN_UP(text->size + size, (size_t)512));
        char *bigger = pool_alloc(req->pool, capacity);
        if (bigger == NULL) {
            text->failed = true;
            return;
        }
        if (text->size > 0) {
            memcpy(bigger, text->data, text->size);
        }
        text->data = bigger;
        text->capacity = capacity;
    }
    if (size > 0) {
        memcpy(text->data + text->size, data, size);
    }
    text->size += size;
}

static void append_str(struct http_request *req, struct http_text *text, const char *s) {
    http_text_append(req, text, s, strlen(s));
}

void http_response_header(struct http_request *req, const char *name, struct slice value) {
    struct http_text *text = &req->lines;
    append_str(req, text, name);
    http_text_append(req, text, ": ", 2);
    size_t start = text->size;
    http_text_append(req, text, (const char *)value.data, value.size);
    /* A value from outside must not begin a line of its own. */
    for (size_t i = start; i < text->size; i++) {
        if (text->data[i] == '\r' || text->data[i] == '\n' || text->data[i] == '\0') {
            text->data[i] = ' ';
        }
    }
    http_text_append(req, text, "\r\n", 2);
}

void http_response_header_str(struct http_request *req, const char *name, const char *value) {
    http_response_header(req, name, slice_str(value));
}

static const char *current_date(struct http_loop *home) {
    int64_t ms = os_wall_ms(home->server->clock);
    if (ms / 1000 != home->date_s || home->date[0] == '\0') {
        home->date_s = ms / 1000;
        time_format_http(ms, home->date);
    }
    return home->date;
}

static char *put_text(char *at, const char *text) {
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

/* Decimal digits; printf would cost as much as the rest of the head. */
static char *put_number(char *at, uint64_t value) {
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0) {
        *at++ = digits[--count];
    }
    return at;
}

#define FIXED_BYTES_MAX 384 /* all that the server itself says; the longest reason has 31 bytes */

struct slice http_response_head(struct http_request *req, int status, bool has_length,
                                uint64_t length, bool close) {
    char *head = pool_alloc(req->pool, FIXED_BYTES_MAX + req->lines.size);
    if (head == NULL) {
        return SLICE_EMPTY;
    }
    char *at = put_text(head, "HTTP/1.1 ");
    at = put_number(at, (uint64_t)status);
    *at++ = ' ';
    at = put_text(at, http_reason(status));
    at = put_text(at, "\r\nDate: ");
    at = put_text(at, current_date(req->conn->home));
    at = put_text(at, "\r\nServer: Hayloft\r\nx-amz-request-id: ");
    at = put_text(at, req->id);
    at = put_text(at, "\r\n");
    if (req->lines.size > 0) {
        memcpy(at, req->lines.data, req->lines.size);
        at += req->lines.size;
    }
    if (has_length) {
        at = put_text(at, "Content-Length: ");
        at = put_number(at, length);
        at = put_text(at, "\r\n");
    } else if (req->answer_chunked) {
        at = put_text(at, "Transfer-Encoding: chunked\r\n");
    }
    at = put_text(at, close ? "Connection: close\r\n\r\n" : "\r\n");
    CHECK((size_t)(at - head) <= FIXED_BYTES_MAX + req->lines.size);
    return slice_of(head, (size_t)(at - head));
}
