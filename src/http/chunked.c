/* The chunked coding. Strict: sizes are 1 to 16 hexadecimal digits without sign or prefix, lines
 * end with CR LF, extensions hold visible characters and are bounded, trailer lines are bounded and
 * kept raw. A state per byte of framing; content is moved in runs. Knows no sockets. */
#include "http/chunked.h"

#include <string.h>

#include "base/error.h"
#include "base/macros.h"

enum chunked_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
    CHUNK_END,
    CHUNK_BROKEN,
};

#define CHUNK_DIGITS_MAX 16

void http_chunked_init(struct http_chunked *c) {
    *c = (struct http_chunked){.state = CHUNK_SIZE};
}

uint64_t http_chunked_left(const struct http_chunked *c) {
    return c->state == CHUNK_DATA ? c->left : 0;
}

static int hex_value(uint8_t b) {
    if (b >= '0' && b <= '9') {
        return b - '0';
    }
    b |= 0x20;
    return b >= 'a' && b <= 'f' ? b - 'a' + 10 : -1;
}

static int chunked_size_byte(struct http_chunked *c, uint8_t b) {
    int value = hex_value(b);
    if (value >= 0) {
        if (c->digits == CHUNK_DIGITS_MAX) {
            return -HL_ERR_SYNTAX;
        }
        c->digits++;
        c->left = c->left << 4 | (uint64_t)value;
        return c->left <= INT64_MAX ? 0 : -HL_ERR_SYNTAX;
    }
    if (c->digits == 0) {
        return -HL_ERR_SYNTAX;
    }
    if (b == '\r') {
        c->state = CHUNK_SIZE_LF;
        return 0;
    }
    c->state = CHUNK_EXTENSION;
    return b == ';' ? 0 : -HL_ERR_SYNTAX;
}

static int chunked_extension_byte(struct http_chunked *c, uint8_t b) {
    if (b == '\r') {
        c->state = CHUNK_SIZE_LF;
        return 0;
    }
    return b == '\t' || (b >= 0x20 && b <= 0x7e) ? 0 : -HL_ERR_SYNTAX;
}

/* Trailer lines are kept with their ends; the empty line ends the body. */
static int chunked_trailer_byte(struct http_chunked *c, uint8_t b) {
    if (c->trailer_size == HTTP_TRAILER_BYTES_MAX) {
        return -HL_ERR_SYNTAX;
    }
    bool ends = c->state == CHUNK_TRAILER_LF;
    if (ends ? b != '\n' : b != '\r' && b != '\t' && (b < 0x20 || b == 0x7f)) {
        return -HL_ERR_SYNTAX;
    }
    bool empty = c->trailer_size - c->trailer_line == (ends ? 1 : 0);
    if (empty && (b == ' ' || b == '\t')) {
        return -HL_ERR_SYNTAX; /* a folded line */
    }
    if (c->trailers != NULL) {
        c->trailers[c->trailer_size] = b;
    }
    c->trailer_size++;
    if (!ends) {
        c->state = b == '\r' ? CHUNK_TRAILER_LF : CHUNK_TRAILER;
        return 0;
    }
    if (empty) {
        c->trailer_size = c->trailer_line; /* the empty line itself is not kept */
        c->state = CHUNK_END;
        return 0;
    }
    c->trailer_line = c->trailer_size;
    c->state = CHUNK_TRAILER;
    return 0;
}

static int chunked_line_end(struct http_chunked *c, uint8_t b) {
    if (b != '\n') {
        return -HL_ERR_SYNTAX;
    }
    bool last = c->left == 0;
    c->digits = 0;
    c->line_bytes = 0;
    c->state = last ? CHUNK_TRAILER : CHUNK_DATA;
    return 0;
}

static int chunked_expect(struct http_chunked *c, uint8_t b, uint8_t expected, int next) {
    c->state = next;
    return b == expected ? 0 : -HL_ERR_SYNTAX;
}

static int chunked_framing_byte(struct http_chunked *c, uint8_t b) {
    switch ((enum chunked_state)c->state) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION:
        if (++c->line_bytes > HTTP_CHUNK_LINE_MAX) {
            return -HL_ERR_SYNTAX;
        }
        return c->state == CHUNK_SIZE ? chunked_size_byte(c, b) : chunked_extension_byte(c, b);
    case CHUNK_SIZE_LF:
        return chunked_line_end(c, b);
    case CHUNK_DATA_CR:
        return chunked_expect(c, b, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return chunked_expect(c, b, '\n', CHUNK_SIZE);
    case CHUNK_TRAILER:
    case CHUNK_TRAILER_LF:
        return chunked_trailer_byte(c, b);
    case CHUNK_DATA:
    case CHUNK_END:
    case CHUNK_BROKEN:
        break;
    }
    return -HL_ERR_SYNTAX;
}

int http_chunked_decode(struct http_chunked *c, uint8_t *data, size_t size, size_t *ret_consumed,
                        size_t *ret_produced) {
    size_t in = 0, out = 0;
    int err = c->state == CHUNK_BROKEN ? -HL_ERR_SYNTAX : 0;
    while (in < size && err == 0 && c->state != CHUNK_END) {
        if (c->state != CHUNK_DATA) {
            err = chunked_framing_byte(c, data[in++]);
            continue;
        }
        size_t run = (size_t)MIN((uint64_t)(size - in), c->left);
        if (in != out) {
            memmove(data + out, data + in, run);
        }
        in += run;
        out += run;
        c->left -= run;
        if (c->left == 0) {
            c->state = CHUNK_DATA_CR;
        }
    }
    *ret_consumed = in;
    *ret_produced = out;
    if (err < 0) {
        c->state = CHUNK_BROKEN;
        return err;
    }
    return c->state == CHUNK_END ? 1 : 0;
}
