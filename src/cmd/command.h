/* Inside cmd/: what a command is, and what its code may use. One table (commands.c) lists every
 * command; parsing, --help, the man page and shell completions all come from it. */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <jansson.h>

#include "admin/config.h"
#include "base/error.h"
#include "base/text.h"

#define CMD_OPTIONS_MAX 12

enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2 }; /* exit codes */

struct cmd_option {
    const char *name;    /* without "--" */
    char letter;         /* 0: none */
    const char *metavar; /* NULL: a flag; "[=NAME]": the value is optional and needs "=" */
    const char *help;
};

struct cmd;
struct cmd_command {
    const char *name;      /* "bucket allow" */
    const char *arguments; /* "BUCKET", for people */
    int arguments_min, arguments_max;
    const char *summary; /* one line */
    const char *details; /* more, or NULL */
    const char *example; /* lines without the prompt, or NULL */
    bool hidden;
    int (*run)(struct cmd *cmd);
    struct cmd_option options[CMD_OPTIONS_MAX]; /* ended by a name of NULL */
};
extern const struct cmd_command cmd_commands[];
extern const size_t cmd_command_count;
extern const struct cmd_option cmd_global_options[];

/* A command line taken apart. Strings are argv's. */
struct cmd {
    const struct cmd_command *command;
    const char *values[CMD_OPTIONS_MAX]; /* by the row of options; "" for a flag or no value */
    const char *const *arguments;
    int argument_count;
    bool json;
    const char *config_path;
    const char *admin_url, *admin_token, *admin_token_file;
    struct pool *pool; /* for the run of the program */
};

/* The value of an option; "" when it was given without one, NULL when it was not given. */
const char *cmd_value(const struct cmd *cmd, const char *name);
bool cmd_flag(const struct cmd *cmd, const char *name);

/* options.c: 0, or an exit code after having said why (also after --help: CMD_OK with *ret_done).
 */
int cmd_parse(int argc, char *const *argv, struct cmd *cmd, bool *ret_done);
void cmd_help(const struct cmd_command *command, struct buf *out);
void cmd_help_all(struct buf *out);
const struct cmd_command *cmd_find(const char *name);

/* output.c */
/* "hayloft: ..." to stderr; returns CMD_FAILED. The text says what happened; what to do. */
int cmd_error(const char *format, ...) PRINTF_LIKE(1, 2);
int cmd_usage(const struct cmd *cmd, const char *format, ...) PRINTF_LIKE(2, 3);
/* Rows of tab-separated cells, to stdout in aligned columns; control characters become '?'. */
void cmd_print_table(const struct buf *rows);
int cmd_print_json(const json_t *json); /* CMD_OK */
void cmd_print_buf(const struct buf *text);
const char *cmd_json_str(const json_t *object, const char *name); /* "" when absent */
uint64_t cmd_json_u64(const json_t *object, const char *name);
bool cmd_json_bool(const json_t *object, const char *name);
/* A bar on a terminal, a line at each tenth elsewhere; to stderr. */
void cmd_progress(void *arg, uint64_t done, uint64_t total); /* arg: struct cmd_progress_state */
struct cmd_progress_state {
    const char *what;
    int last_percent;
};

/* Loads the configuration for this command line; says errors itself. Warnings are printed only
 * when show_warnings. */
int cmd_load_config(struct cmd *cmd, bool show_warnings, struct config *ret,
                    struct config_report *ret_report);

/* The commands. */
int cmd_server(struct cmd *cmd);
int cmd_status(struct cmd *cmd);
int cmd_health(struct cmd *cmd);
int cmd_node_id(struct cmd *cmd);
int cmd_node_connect(struct cmd *cmd);
int cmd_layout_show(struct cmd *cmd);
int cmd_layout_change(struct cmd *cmd);
int cmd_stats(struct cmd *cmd);
int cmd_repair(struct cmd *cmd);
int cmd_scrub_command(struct cmd *cmd);
int cmd_scrub_status(struct cmd *cmd);
int cmd_worker_list(struct cmd *cmd);
int cmd_bucket_list(struct cmd *cmd);
int cmd_bucket_info(struct cmd *cmd);
int cmd_bucket_create(struct cmd *cmd);
int cmd_bucket_delete(struct cmd *cmd);
int cmd_bucket_alias(struct cmd *cmd);
int cmd_bucket_unalias(struct cmd *cmd);
int cmd_bucket_allow(struct cmd *cmd);
int cmd_bucket_quotas(struct cmd *cmd);
int cmd_bucket_cleanup(struct cmd *cmd);
int cmd_bucket_inspect(struct cmd *cmd);
int cmd_key_list(struct cmd *cmd);
int cmd_key_info(struct cmd *cmd);
int cmd_key_create(struct cmd *cmd);
int cmd_key_rename(struct cmd *cmd);
int cmd_key_delete(struct cmd *cmd);
int cmd_key_import(struct cmd *cmd);
int cmd_key_allow(struct cmd *cmd);
int cmd_key_set(struct cmd *cmd);
int cmd_json_api(struct cmd *cmd);
int cmd_rebuild(struct cmd *cmd);
int cmd_config_check(struct cmd *cmd);
int cmd_config_docs(struct cmd *cmd);
int cmd_secret_new(struct cmd *cmd);
int cmd_version(struct cmd *cmd);
int cmd_completions(struct cmd *cmd);
int cmd_man(struct cmd *cmd);

#endif
