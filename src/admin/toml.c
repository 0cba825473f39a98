/* The TOML subset of toml.h: one pass over the text with a cursor, an explicit stack for nested
 * arrays and inline tables. Invariant: on failure the first error with its line is kept and nothing
 * after it is looked at. Any thread; knows nothing of the configuration's keys. */
#include "admin/toml.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"

struct toml_cursor {
    struct slice text;
    size_t pos;
    uint32_t line;
    uint32_t entry_count;
    struct pool *pool;
    struct toml_error *error;
};

PRINTF_LIKE(2, 3) static int toml_fail(struct toml_cursor *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->error->text, sizeof(c->error->text), format, args);
    va_end(args);
    c->error->line = c->line;
    return -HL_ERR_SYNTAX;
}

static int toml_peek(const struct toml_cursor *c) {
    return c->pos < c->text.size ? c->text.data[c->pos] : -1;
}

static bool toml_take(struct toml_cursor *c, char want) {
    if (toml_peek(c) != want) {
        return false;
    }
    c->pos++;
    return true;
}

static void toml_skip_blank(struct toml_cursor *c) {
    while (toml_peek(c) == ' ' || toml_peek(c) == '\t') {
        c->pos++;
    }
}

static int toml_skip_comment(struct toml_cursor *c) {
    if (toml_peek(c) != '#') {
        return 0;
    }
    while (toml_peek(c) != -1 && toml_peek(c) != '\n') {
        int byte = toml_peek(c);
        if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7f) {
            return toml_fail(c, "a comment holds a control character; remove it");
        }
        c->pos++;
    }
    return 0;
}

static bool toml_take_newline(struct toml_cursor *c) {
    size_t pos = c->pos;
    if (pos < c->text.size && c->text.data[pos] == '\r') {
        pos++;
    }
    if (pos >= c->text.size || c->text.data[pos] != '\n') {
        return false;
    }
    c->pos = pos + 1;
    c->line++;
    return true;
}

/* Blanks, comments and line ends: between the members of an array. */
static int toml_skip_lines(struct toml_cursor *c) {
    do {
        toml_skip_blank(c);
        int err = toml_skip_comment(c);
        if (err < 0) {
            return err;
        }
    } while (toml_take_newline(c));
    return 0;
}

/* After a value or a table header only a comment may follow. */
static int toml_end_line(struct toml_cursor *c) {
    toml_skip_blank(c);
    int err = toml_skip_comment(c);
    if (err < 0) {
        return err;
    }
    if (toml_peek(c) == -1 || toml_take_newline(c)) {
        return 0;
    }
    return toml_fail(c, "unexpected text after the value; one \"key = value\" belongs on a line");
}

/* ---- strings ---- */

static void toml_append_utf8(struct buf *out, uint32_t code) {
    if (code < 0x80) {
        buf_append_u8(out, (uint8_t)code);
    } else if (code < 0x800) {
        buf_append_u8(out, (uint8_t)(0xC0 | code >> 6));
        buf_append_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        buf_append_u8(out, (uint8_t)(0xE0 | code >> 12));
        buf_append_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3F)));
        buf_append_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    } else {
        buf_append_u8(out, (uint8_t)(0xF0 | code >> 18));
        buf_append_u8(out, (uint8_t)(0x80 | (code >> 12 & 0x3F)));
        buf_append_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3F)));
        buf_append_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    }
}

static int toml_hex_digit(int byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static int toml_unicode_escape(struct toml_cursor *c, int digits, struct buf *out) {
    uint32_t code = 0;
    for (int i = 0; i < digits; i++) {
        int digit = toml_hex_digit(toml_peek(c));
        if (digit < 0) {
            return toml_fail(c, "a Unicode escape needs %d hexadecimal digits", digits);
        }
        code = code << 4 | (uint32_t)digit;
        c->pos++;
    }
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return toml_fail(c, "the Unicode escape U+%04X is no character", code);
    }
    toml_append_utf8(out, code);
    return 0;
}

static int toml_escape(struct toml_cursor *c, struct buf *out) {
    int byte = toml_peek(c);
    c->pos++;
    switch (byte) {
    case 'b':
        buf_append_u8(out, '\b');
        return 0;
    case 't':
        buf_append_u8(out, '\t');
        return 0;
    case 'n':
        buf_append_u8(out, '\n');
        return 0;
    case 'f':
        buf_append_u8(out, '\f');
        return 0;
    case 'r':
        buf_append_u8(out, '\r');
        return 0;
    case '"':
    case '\\':
        buf_append_u8(out, (uint8_t)byte);
        return 0;
    case 'u':
        return toml_unicode_escape(c, 4, out);
    case 'U':
        return toml_unicode_escape(c, 8, out);
    default:
        return toml_fail(c, "unknown escape in a string; write '...' for text with backslashes");
    }
}

static int toml_string(struct toml_cursor *c, struct slice *ret) {
    CLEANUP_BUF struct buf out = {.size_max = TOML_TEXT_MAX};
    int quote = toml_peek(c);
    if (c->pos + 2 < c->text.size && c->text.data[c->pos + 1] == quote &&
        c->text.data[c->pos + 2] == quote) {
        return toml_fail(c, "strings over several lines are not understood; use one line");
    }
    c->pos++;
    while (toml_peek(c) != quote) {
        int byte = toml_peek(c);
        if (byte == -1 || byte == '\n' || byte == '\r') {
            return toml_fail(c, "a string is not closed; add %c", quote);
        }
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            return toml_fail(c, "a string holds a control character; write an escape such as \\n");
        }
        c->pos++;
        if (byte == '\\' && quote == '"') {
            int err = toml_escape(c, &out);
            if (err < 0) {
                return err;
            }
        } else {
            buf_append_u8(&out, (uint8_t)byte);
        }
    }
    c->pos++;
    *ret = pool_copy(c->pool, buf_slice(&out));
    return out.failed || ret->data == NULL ? -HL_ERR_NOMEM : 0;
}

/* ---- keys and simple values ---- */

static bool toml_is_bare(int byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

static int toml_key(struct toml_cursor *c, struct slice *ret) {
    if (toml_peek(c) == '"' || toml_peek(c) == '\'') {
        return toml_string(c, ret);
    }
    size_t start = c->pos;
    while (toml_is_bare(toml_peek(c))) {
        c->pos++;
    }
    if (c->pos == start) {
        return toml_fail(c, "a key is expected here; write \"name = value\"");
    }
    *ret = pool_copy(c->pool, slice_of(c->text.data + start, c->pos - start));
    return ret->data == NULL ? -HL_ERR_NOMEM : 0;
}

static int toml_number(struct toml_cursor *c, struct slice word, struct toml_value *value) {
    struct slice digits = word;
    bool negative = false;
    if (digits.size > 0 && (digits.data[0] == '-' || digits.data[0] == '+')) {
        negative = digits.data[0] == '-';
        digits = slice_skip(digits, 1);
    }
    uint64_t number = 0;
    bool previous_digit = false;
    for (size_t i = 0; i < digits.size; i++) {
        uint8_t byte = digits.data[i];
        bool digit = byte >= '0' && byte <= '9';
        if (!digit && !(byte == '_' && previous_digit && i + 1 < digits.size)) {
            return toml_fail(c,
                             "\"%.*s\" is no value; put text, sizes and dates in quotes, "
                             "numbers are whole",
                             (int)MIN(word.size, 40u), (const char *)word.data);
        }
        previous_digit = digit;
        if (digit && (__builtin_mul_overflow(number, 10u, &number) ||
                      __builtin_add_overflow(number, (uint64_t)(byte - '0'), &number) ||
                      number > INT64_MAX)) {
            return toml_fail(c, "the number is too large; sizes may be written as \"10G\"");
        }
    }
    if (digits.size == 0 || (digits.size > 1 && digits.data[0] == '0')) {
        return toml_fail(c, "a value is expected here; numbers have no leading zeros");
    }
    value->type = TOML_INTEGER;
    value->integer = negative ? -(int64_t)number : (int64_t)number;
    return 0;
}

static int toml_scalar(struct toml_cursor *c, struct toml_value *value) {
    if (toml_peek(c) == '"' || toml_peek(c) == '\'') {
        value->type = TOML_STRING;
        return toml_string(c, &value->string);
    }
    size_t start = c->pos;
    while (toml_is_bare(toml_peek(c)) || toml_peek(c) == '+' || toml_peek(c) == '.' ||
           toml_peek(c) == ':') {
        c->pos++;
    }
    struct slice word = slice_of(c->text.data + start, c->pos - start);
    if (slice_equal_str(word, "true") || slice_equal_str(word, "false")) {
        value->type = TOML_BOOLEAN;
        value->boolean = word.data[0] == 't';
        return 0;
    }
    if (word.size == 0) {
        return toml_fail(c, "a value is expected here; text belongs in quotes");
    }
    return toml_number(c, word, value);
}

/* ---- containers ---- */

static int toml_member(struct toml_cursor *c, struct toml_value *parent, struct slice key,
                       struct toml_value **ret) {
    if (++c->entry_count > TOML_ENTRIES_MAX) {
        return toml_fail(c, "the file has more than %u entries", TOML_ENTRIES_MAX);
    }
    if (parent->type == TOML_TABLE && toml_find(parent, key) != NULL) {
        return toml_fail(c, "\"%.*s\" is set twice; keep one", (int)MIN(key.size, 60u),
                         (const char *)key.data);
    }
    struct toml_value *value = POOL_NEW(c->pool, struct toml_value);
    if (value == NULL) {
        return -HL_ERR_NOMEM;
    }
    value->line = c->line;
    value->key = key;
    if (parent->last != NULL) {
        parent->last->next = value;
    } else {
        parent->first = value;
    }
    parent->last = value;
    *ret = value;
    return 0;
}

/* Opens the next member of the innermost container: the value's place, ready to be filled. */
static int toml_open_member(struct toml_cursor *c, struct toml_value *parent,
                            struct toml_value **ret) {
    struct slice key = SLICE_EMPTY;
    if (parent->type == TOML_TABLE) {
        int err = toml_key(c, &key);
        if (err < 0) {
            return err;
        }
        toml_skip_blank(c);
        if (toml_peek(c) == '.') {
            return toml_fail(c, "dotted keys are not understood; write a [table]");
        }
        if (!toml_take(c, '=')) {
            return toml_fail(c, "\"=\" is expected after the key \"%.*s\"", (int)MIN(key.size, 60u),
                             (const char *)key.data);
        }
        toml_skip_blank(c);
    }
    return toml_member(c, parent, key, ret);
}

static int toml_skip_between(struct toml_cursor *c, const struct toml_value *container) {
    if (container->type == TOML_ARRAY) {
        return toml_skip_lines(c);
    }
    toml_skip_blank(c);
    return 0;
}

/* One value with everything inside it. stack[depth - 1] is the innermost open container. */
static int toml_value(struct toml_cursor *c, struct toml_value *value) {
    struct toml_value *stack[TOML_DEPTH_MAX];
    int depth = 0;
    for (;;) {
        bool opened = false;
        if (toml_peek(c) == '[' || toml_peek(c) == '{') {
            if (depth == TOML_DEPTH_MAX) {
                return toml_fail(c, "values are nested deeper than %d", TOML_DEPTH_MAX);
            }
            value->type = toml_peek(c) == '[' ? TOML_ARRAY : TOML_TABLE;
            c->pos++;
            stack[depth++] = value;
            opened = true;
        } else {
            int err = toml_scalar(c, value);
            if (err < 0) {
                return err;
            }
        }
        /* Close what ends here; then either everything is closed or a member follows. */
        while (depth > 0) {
            struct toml_value *top = stack[depth - 1];
            char end = top->type == TOML_ARRAY ? ']' : '}';
            int err = toml_skip_between(c, top);
            if (err < 0) {
                return err;
            }
            bool comma = !opened && toml_take(c, ',');
            err = toml_skip_between(c, top);
            if (err < 0) {
                return err;
            }
            bool may_end = opened || !comma || top->type == TOML_ARRAY;
            if (may_end && toml_take(c, end)) {
                depth--;
                opened = false;
                continue;
            }
            if (!opened && !comma) {
                return toml_fail(c, "\",\" or \"%c\" is expected here", end);
            }
            err = toml_open_member(c, top, &value);
            if (err < 0) {
                return err;
            }
            break;
        }
        if (depth == 0) {
            return 0;
        }
    }
}

/* ---- lines ---- */

/* [a] or [a.b]: finds or makes the table. Naming one twice is an error. */
static int toml_header(struct toml_cursor *c, struct toml_value *root, struct toml_value **ret) {
    if (toml_peek(c) == '[') {
        return toml_fail(c,
                         "[[...]] is not understood; write an array such as [{ path = \"...\" }]");
    }
    struct toml_value *table = root;
    bool made = false;
    do {
        struct slice key;
        toml_skip_blank(c);
        int err = toml_key(c, &key);
        if (err < 0) {
            return err;
        }
        struct toml_value *child = toml_find(table, key);
        made = child == NULL;
        if (made) {
            err = toml_member(c, table, key, &child);
            if (err < 0) {
                return err;
            }
            child->type = TOML_TABLE;
        } else if (child->type != TOML_TABLE) {
            return toml_fail(c, "\"%.*s\" is a value already, not a table", (int)MIN(key.size, 60u),
                             (const char *)key.data);
        }
        table = child;
        toml_skip_blank(c);
    } while (toml_take(c, '.'));
    if (!toml_take(c, ']')) {
        return toml_fail(c, "\"]\" is expected at the end of a table's name");
    }
    if (!made && (table->first == NULL || table->first->type != TOML_TABLE)) {
        return toml_fail(c, "the table [%.*s] appears twice; put its keys together",
                         (int)MIN(table->key.size, 60u), (const char *)table->key.data);
    }
    *ret = table;
    return 0;
}

static int toml_lines(struct toml_cursor *c, struct toml_value *root) {
    struct toml_value *table = root;
    for (;;) {
        int err = toml_skip_lines(c);
        if (err < 0) {
            return err;
        }
        if (toml_peek(c) == -1) {
            return 0;
        }
        if (toml_take(c, '[')) {
            err = toml_header(c, root, &table);
        } else {
            struct toml_value *value;
            err = toml_open_member(c, table, &value);
            if (err == 0) {
                err = toml_value(c, value);
            }
        }
        if (err == 0) {
            err = toml_end_line(c);
        }
        if (err < 0) {
            return err;
        }
    }
}

int toml_parse(struct slice text, struct pool *pool, struct toml_value **ret_root,
               struct toml_error *ret_error) {
    struct toml_cursor c = {.text = text, .line = 1, .pool = pool, .error = ret_error};
    *ret_error = (struct toml_error){.line = 1, .text = "out of memory"};
    if (text.size > TOML_TEXT_MAX) {
        (void)toml_fail(&c, "the file is larger than %u bytes", TOML_TEXT_MAX);
        return -HL_ERR_LIMIT;
    }
    if (!utf8_valid(text)) {
        return toml_fail(&c, "the file is not UTF-8 text");
    }
    if (slice_starts_with(text, SLICE_LITERAL("\xEF\xBB\xBF"))) {
        c.pos = 3; /* a byte order mark, as some editors write it */
    }
    struct toml_value *root = POOL_NEW(pool, struct toml_value);
    if (root == NULL) {
        return -HL_ERR_NOMEM;
    }
    root->type = TOML_TABLE;
    root->line = 1;
    int err = toml_lines(&c, root);
    if (err < 0) {
        return err;
    }
    *ret_root = root;
    return 0;
}

struct toml_value *toml_find(const struct toml_value *table, struct slice key) {
    for (struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (slice_equal(v->key, key)) {
            return v;
        }
    }
    return NULL;
}

const char *toml_type_text(enum toml_type type) {
    static const char *const names[] = {"a string", "a number", "true or false", "an array",
                                        "a table"};
    return names[type];
}
