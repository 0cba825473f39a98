/* What commands print: errors, aligned tables, JSON, progress. Everything that came from outside
 * is shown without control characters, so that an object's name cannot steer a terminal. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/command.h"

int cmd_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fputs("hayloft: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    return CMD_FAILED;
}

int cmd_usage(const struct cmd *cmd, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fputs("hayloft: ", stderr);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "; see `hayloft %s --help`\n", cmd->command->name);
    return CMD_USAGE;
}

/* ---- tables ---- */

/* Characters as a terminal counts them, near enough: UTF-8 sequences are one. */
static size_t cmd_cell_width(const uint8_t *cell, size_t size) {
    size_t width = 0;
    for (size_t i = 0; i < size; i++) {
        width += (cell[i] & 0xC0) != 0x80;
    }
    return width;
}

#define CMD_COLUMNS_MAX 16

static size_t cmd_cell_end(struct slice rows, size_t pos) {
    while (pos < rows.size && rows.data[pos] != '\t' && rows.data[pos] != '\n') {
        pos++;
    }
    return pos;
}

static void cmd_print_cell(struct slice cell) {
    for (size_t i = 0; i < cell.size; i++) {
        (void)putchar(cell.data[i] < 0x20 || cell.data[i] == 0x7f ? '?' : cell.data[i]);
    }
}

static void cmd_block_widths(struct slice rows, size_t widths[CMD_COLUMNS_MAX]) {
    size_t column = 0;
    for (size_t pos = 0; pos < rows.size;) {
        size_t end = cmd_cell_end(rows, pos);
        bool more = end < rows.size && rows.data[end] == '\t';
        /* A line without tabs is a heading: it stretches no column. */
        if (column < CMD_COLUMNS_MAX && (more || column > 0)) {
            widths[column] = MAX(widths[column], cmd_cell_width(rows.data + pos, end - pos));
        }
        column = more ? column + 1 : 0;
        pos = end + 1;
    }
}

static void cmd_print_block(struct slice rows) {
    size_t widths[CMD_COLUMNS_MAX] = {0};
    size_t column = 0;
    cmd_block_widths(rows, widths);
    for (size_t pos = 0; pos < rows.size;) {
        size_t end = cmd_cell_end(rows, pos);
        bool more = end < rows.size && rows.data[end] == '\t';
        cmd_print_cell(slice_of(rows.data + pos, end - pos));
        if (more) {
            size_t width = cmd_cell_width(rows.data + pos, end - pos);
            size_t target = column < CMD_COLUMNS_MAX ? widths[column] : width;
            (void)printf("%*s", (int)(MIN(target - MIN(width, target), 200u) + 2), "");
        } else {
            (void)putchar('\n');
        }
        column = more ? column + 1 : 0;
        pos = end + 1;
    }
}

/* Blocks are separated by an empty line; each has its own columns. */
void cmd_print_table(const struct buf *rows) {
    struct slice rest = buf_slice(rows);
    while (rest.size > 0) {
        const uint8_t *gap = memmem(rest.data, rest.size, "\n\n", 2);
        size_t size = gap == NULL ? rest.size : (size_t)(gap - rest.data) + 1;
        cmd_print_block(slice_take(rest, size));
        if (gap != NULL) {
            (void)putchar('\n');
            size++;
        }
        rest = slice_skip(rest, size);
    }
}

void cmd_print_buf(const struct buf *text) {
    (void)fwrite(text->data, 1, text->size, stdout);
}

/* ---- JSON ---- */

int cmd_print_json(const json_t *json) {
    (void)json_dumpf(json, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    return CMD_OK;
}

const char *cmd_json_str(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

uint64_t cmd_json_u64(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value < 0 ? 0 : (uint64_t)value;
}

bool cmd_json_bool(const json_t *object, const char *name) {
    return json_is_true(json_object_get(object, name));
}

/* ---- progress ---- */

void cmd_progress(void *arg, uint64_t done, uint64_t total) {
    struct cmd_progress_state *state = arg;
    int percent = total == 0 ? 100 : (int)((double)done * 100.0 / (double)total);
    percent = MIN(percent, 100);
    bool terminal = isatty(STDERR_FILENO) == 1;
    if (percent == state->last_percent || (!terminal && percent < state->last_percent + 10)) {
        return;
    }
    state->last_percent = percent;
    char done_text[32], total_text[32];
    format_bytes(done, done_text);
    format_bytes(total, total_text);
    if (!terminal) {
        (void)fprintf(stderr, "%s: %d %%, %s of %s\n", state->what, percent, done_text, total_text);
        return;
    }
    char bar[41];
    memset(bar, '-', 40);
    memset(bar, '#', (size_t)percent * 40 / 100);
    bar[40] = 0;
    (void)fprintf(stderr, "\r%s [%s] %3d %%  %s of %s ", state->what, bar, percent, done_text,
                  total_text);
    if (percent == 100) {
        (void)fputc('\n', stderr);
    }
    (void)fflush(stderr);
}
