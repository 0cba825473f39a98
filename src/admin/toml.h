/* A strict subset of TOML 1.0: tables ([a], [a.b]), bare and quoted keys, basic and literal
 * strings of one line, decimal integers with _, booleans, arrays (over several lines, trailing
 * comma allowed), inline tables, comments. What TOML has beyond that (floats, dates, multi-line
 * strings, arrays of tables, dotted keys) is refused with a message that says what to write.
 *
 * Pure: text in, a tree in the caller's pool out. Strings and keys are unescaped copies in the
 * pool. No recursion; every count has a limit. */
#ifndef ADMIN_TOML_H
#define ADMIN_TOML_H

#include "base/pool.h"

#define TOML_TEXT_MAX    (1u << 20) /* bytes of a file */
#define TOML_DEPTH_MAX   8          /* arrays and inline tables inside each other */
#define TOML_ENTRIES_MAX 4096       /* keys and array items of a file together */

enum toml_type { TOML_STRING, TOML_INTEGER, TOML_BOOLEAN, TOML_ARRAY, TOML_TABLE };

struct toml_value {
    enum toml_type type;
    uint32_t line;                   /* where it starts, from 1 */
    struct slice string;             /* TOML_STRING: unescaped, with a NUL behind it */
    int64_t integer;                 /* TOML_INTEGER */
    bool boolean;                    /* TOML_BOOLEAN */
    struct slice key;                /* inside a table: its name, with a NUL behind it */
    struct toml_value *first, *last; /* TOML_ARRAY, TOML_TABLE: members in order of the file */
    struct toml_value *next;
};

struct toml_error {
    uint32_t line;
    char text[160]; /* what is wrong and what to write instead */
};

/* 0 and the root table, or SYNTAX (LIMIT, NOMEM) with *ret_error filled. */
int toml_parse(struct slice text, struct pool *pool, struct toml_value **ret_root,
               struct toml_error *ret_error);
/* The member of that name, or NULL. */
struct toml_value *toml_find(const struct toml_value *table, struct slice key);
/* "a string", "a number", ... for messages. */
const char *toml_type_text(enum toml_type type);

#endif
