/* The command line: finds the command, its options in any order, its arguments; writes --help.
 * Driven by the table in commands.c. Misspelt words get a suggestion; every error is exit code 2.
 */
#include <stdio.h>

#include "cmd/command.h"

const struct cmd_option cmd_global_options[] = {
    {"config", 'c', "FILE",
     "configuration file (HAYLOFT_CONFIG_FILE, else " CONFIG_FILE_DEFAULT " if it is there)"},
    {"json", 0, NULL, "print JSON, for programs"},
    {"admin-url", 0, "URL",
     "reach the node over the network, http://HOST:3903 "
     "(HAYLOFT_ADMIN_URL), instead of its control socket"},
    {"admin-token", 0, "TOKEN", "with --admin-url (HAYLOFT_ADMIN_TOKEN)"},
    {"admin-token-file", 0, "FILE", "file that holds the token (HAYLOFT_ADMIN_TOKEN_FILE)"},
    {"help", 'h', NULL, "show this help"},
    {NULL, 0, NULL, NULL},
};

/* ---- lookups ---- */

const char *cmd_value(const struct cmd *cmd, const char *name) {
    for (int i = 0; i < CMD_OPTIONS_MAX && cmd->command->options[i].name != NULL; i++) {
        if (strcmp(cmd->command->options[i].name, name) == 0) {
            return cmd->values[i];
        }
    }
    return NULL;
}

bool cmd_flag(const struct cmd *cmd, const char *name) {
    return cmd_value(cmd, name) != NULL;
}

const struct cmd_command *cmd_find(const char *name) {
    for (size_t i = 0; i < cmd_command_count; i++) {
        if (strcmp(cmd_commands[i].name, name) == 0) {
            return &cmd_commands[i];
        }
    }
    return NULL;
}

static bool cmd_is_group(const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i < cmd_command_count; i++) {
        if (strncmp(cmd_commands[i].name, word, size) == 0 && cmd_commands[i].name[size] == ' ') {
            return true;
        }
    }
    return false;
}

/* ---- help ---- */

static void cmd_help_options(const struct cmd_option *options, struct buf *out) {
    for (; options->name != NULL; options++) {
        char left[64];
        char letter[8] = "    ";
        if (options->letter != 0) {
            (void)snprintf(letter, sizeof(letter), "-%c, ", options->letter);
        }
        bool optional = options->metavar != NULL && options->metavar[0] == '[';
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, options->name,
                       options->metavar == NULL || optional ? "" : " ",
                       options->metavar == NULL ? "" : options->metavar);
        buf_printf(out, "  %-32s %s\n", left, options->help);
    }
}

void cmd_help(const struct cmd_command *command, struct buf *out) {
    buf_printf(out, "%s\n\nUsage: hayloft %s%s%s%s\n", command->summary, command->name,
               command->options[0].name != NULL ? " [OPTIONS]" : "",
               command->arguments[0] != 0 ? " " : "", command->arguments);
    if (command->details != NULL) {
        buf_printf(out, "\n%s\n", command->details);
    }
    if (command->options[0].name != NULL) {
        buf_append_str(out, "\nOptions:\n");
        cmd_help_options(command->options, out);
    }
    buf_append_str(out, "\nOptions of every command:\n");
    cmd_help_options(cmd_global_options, out);
    if (command->example != NULL) {
        buf_append_str(out, "\nExamples:\n");
        for (const char *line = command->example; *line != 0;) {
            size_t size = strcspn(line, "\n");
            buf_printf(out, "  %.*s\n", (int)size, line);
            line += size + (line[size] != 0);
        }
    }
}

static void cmd_help_list(const char *group, struct buf *out) {
    size_t size = group == NULL ? 0 : strlen(group);
    for (size_t i = 0; i < cmd_command_count; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        bool member = size == 0 || (strncmp(c->name, group, size) == 0 && c->name[size] == ' ');
        if (!c->hidden && member) {
            buf_printf(out, "  %-34s %s\n", c->name, c->summary);
        }
    }
}

void cmd_help_all(struct buf *out) {
    buf_append_str(out, "Hayloft " HAYLOFT_VERSION ": a small durable object store with the S3 API."
                        "\n\nUsage: hayloft COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n");
    cmd_help_list(NULL, out);
    buf_append_str(out, "\nOptions of every command:\n");
    cmd_help_options(cmd_global_options, out);
    buf_append_str(out, "\nTo begin:\n  hayloft server --single-node --default-bucket\n"
                        "`hayloft COMMAND --help` says more about a command.\n");
}

static int cmd_help_group(const char *group, bool asked) {
    CLEANUP_BUF struct buf out = {0};
    buf_printf(&out, "Usage: hayloft %s COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n", group);
    cmd_help_list(group, &out);
    (void)fwrite(out.data, 1, out.size, asked ? stdout : stderr);
    return asked ? CMD_OK : CMD_USAGE;
}

/* ---- parsing ---- */

struct cmd_parser {
    struct cmd *cmd;
    char *const *argv;
    int argc, next;
    const char *group; /* the first word of a command of two */
    bool help, version, options_ended;
    const char **arguments;
};

static int cmd_unknown_word(const char *group, const char *word) {
    const char *names[96] = {NULL};
    size_t count = 0;
    size_t group_size = group == NULL ? 0 : strlen(group);
    char first_words[96][24];
    for (size_t i = 0; i < cmd_command_count && count < ARRAY_COUNT(names); i++) {
        const char *name = cmd_commands[i].name;
        if (cmd_commands[i].hidden) {
            continue;
        }
        if (group != NULL) {
            if (strncmp(name, group, group_size) == 0 && name[group_size] == ' ') {
                names[count++] = name + group_size + 1;
            }
            continue;
        }
        (void)snprintf(first_words[count], sizeof(first_words[0]), "%.*s", (int)strcspn(name, " "),
                       name);
        names[count] = first_words[count];
        count++;
    }
    const char *near = config_nearest(word, names, count, sizeof(names[0]));
    const char *space = group == NULL ? "" : " ";
    group = group == NULL ? "" : group;
    if (near != NULL) {
        (void)cmd_error("there is no command \"%s%s%s\"; did you mean \"%s%s%s\"?", group, space,
                        word, group, space, near);
    } else {
        (void)cmd_error("there is no command \"%s%s%s\"; `hayloft %s%s--help` lists them", group,
                        space, word, group, space);
    }
    return CMD_USAGE;
}

static int cmd_take_word(struct cmd_parser *p, const char *word) {
    struct cmd *cmd = p->cmd;
    if (cmd->command != NULL) {
        p->arguments[cmd->argument_count++] = word;
        return CMD_OK;
    }
    if (p->group == NULL && strcmp(word, "help") == 0) {
        p->help = true;
        return CMD_OK;
    }
    if (p->group != NULL) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s %s", p->group, word);
        cmd->command = cmd_find(name);
    } else {
        cmd->command = cmd_find(word);
        if (cmd->command == NULL && cmd_is_group(word)) {
            p->group = word;
            return CMD_OK;
        }
    }
    return cmd->command == NULL ? cmd_unknown_word(p->group, word) : CMD_OK;
}

static int cmd_unknown_option(struct cmd_parser *p, const char *text) {
    const char *names[32] = {NULL};
    size_t count = 0;
    for (const struct cmd_option *o = cmd_global_options; o->name != NULL; o++) {
        names[count++] = o->name;
    }
    for (int i = 0; p->cmd->command != NULL && i < CMD_OPTIONS_MAX; i++) {
        if (p->cmd->command->options[i].name != NULL) {
            names[count++] = p->cmd->command->options[i].name;
        }
    }
    char word[64];
    const char *start = text + strspn(text, "-");
    (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(start, "="), start);
    const char *near = config_nearest(word, names, count, sizeof(names[0]));
    const char *command = p->cmd->command != NULL ? p->cmd->command->name : "";
    const char *space = command[0] != 0 ? " " : "";
    if (near != NULL && text[1] == '-') {
        (void)cmd_error("unknown option %s; did you mean --%s?", text, near);
    } else {
        (void)cmd_error("unknown option %s; `hayloft %s%s--help` lists the options", text, command,
                        space);
    }
    return CMD_USAGE;
}

static const struct cmd_option *cmd_match(const struct cmd_option *options, int max,
                                          const char *text) {
    for (int i = 0; i < max && options[i].name != NULL; i++) {
        if (text[1] == '-') {
            size_t size = strlen(options[i].name);
            if (strncmp(text + 2, options[i].name, size) == 0 &&
                (text[2 + size] == 0 || text[2 + size] == '=')) {
                return &options[i];
            }
        } else if (options[i].letter != 0 && text[1] == options[i].letter) {
            return &options[i];
        }
    }
    return NULL;
}

static void cmd_set_global(struct cmd_parser *p, const struct cmd_option *option,
                           const char *value) {
    struct cmd *cmd = p->cmd;
    switch (option - cmd_global_options) {
    case 0:
        cmd->config_path = value;
        break;
    case 1:
        cmd->json = true;
        break;
    case 2:
        cmd->admin_url = value;
        break;
    case 3:
        cmd->admin_token = value;
        break;
    case 4:
        cmd->admin_token_file = value;
        break;
    default:
        p->help = true;
        break;
    }
}

static int cmd_take_option(struct cmd_parser *p, const char *text) {
    struct cmd *cmd = p->cmd;
    const struct cmd_option *own = cmd->command == NULL ? NULL : cmd->command->options;
    const struct cmd_option *option = own == NULL ? NULL : cmd_match(own, CMD_OPTIONS_MAX, text);
    bool global = option == NULL;
    option = global ? cmd_match(cmd_global_options, CMD_OPTIONS_MAX, text) : option;
    if (option == NULL && (strcmp(text, "--version") == 0 || strcmp(text, "-V") == 0)) {
        p->version = true;
        return CMD_OK;
    }
    if (option == NULL) {
        return cmd_unknown_option(p, text);
    }
    const char *value = NULL;
    if (text[1] == '-' && strchr(text, '=') != NULL) {
        value = strchr(text, '=') + 1;
    } else if (text[1] != '-' && text[2] != 0) {
        value = text + 2 + (text[2] == '=');
    }
    bool optional = option->metavar != NULL && option->metavar[0] == '[';
    if (value != NULL && option->metavar == NULL) {
        (void)cmd_error("--%s takes no value", option->name);
        return CMD_USAGE;
    }
    if (value == NULL && option->metavar != NULL && !optional) {
        if (p->next == p->argc) {
            (void)cmd_error("--%s needs a value: --%s %s", option->name, option->name,
                            option->metavar);
            return CMD_USAGE;
        }
        value = p->argv[p->next++];
    }
    value = value == NULL ? "" : value;
    if (global) {
        cmd_set_global(p, option, value);
    } else {
        cmd->values[option - own] = value;
    }
    return CMD_OK;
}

static int cmd_show_help(struct cmd_parser *p) {
    CLEANUP_BUF struct buf out = {0};
    if (p->cmd->command != NULL) {
        cmd_help(p->cmd->command, &out);
    } else if (p->group != NULL) {
        return cmd_help_group(p->group, true);
    } else {
        cmd_help_all(&out);
    }
    cmd_print_buf(&out);
    return CMD_OK;
}

static void cmd_environment(struct cmd *cmd) {
    if (cmd->config_path == NULL) {
        cmd->config_path = getenv("HAYLOFT_CONFIG_FILE");
    }
    if (cmd->admin_url == NULL) {
        cmd->admin_url = getenv("HAYLOFT_ADMIN_URL");
    }
    if (cmd->admin_token == NULL && cmd->admin_token_file == NULL) {
        cmd->admin_token = getenv("HAYLOFT_ADMIN_TOKEN");
        cmd->admin_token_file =
            cmd->admin_token == NULL ? getenv("HAYLOFT_ADMIN_TOKEN_FILE") : NULL;
    }
}

int cmd_parse(int argc, char *const *argv, struct cmd *cmd, bool *ret_done) {
    struct cmd_parser p = {.cmd = cmd, .argv = argv, .argc = argc, .next = 1};
    p.arguments = pool_calloc(cmd->pool, sizeof(char *) * (size_t)(argc + 1));
    if (p.arguments == NULL) {
        return cmd_error("out of memory");
    }
    cmd->arguments = p.arguments;
    *ret_done = false;
    while (p.next < argc) {
        const char *text = argv[p.next++];
        int code;
        if (!p.options_ended && strcmp(text, "--") == 0) {
            p.options_ended = true;
            code = CMD_OK;
        } else if (!p.options_ended && text[0] == '-' && text[1] != 0) {
            code = cmd_take_option(&p, text);
        } else {
            code = cmd_take_word(&p, text);
        }
        if (code != CMD_OK) {
            return code;
        }
    }
    if (p.version && cmd->command == NULL) {
        cmd->command = cmd_find("version");
    }
    if (p.help || (cmd->command == NULL && p.group == NULL && argc <= 1)) {
        *ret_done = true;
        return cmd_show_help(&p);
    }
    if (cmd->command == NULL) {
        if (p.group != NULL) {
            return cmd_help_group(p.group, false);
        }
        (void)cmd_error("a command is missing; `hayloft --help` lists them");
        return CMD_USAGE;
    }
    if (cmd->argument_count < cmd->command->arguments_min) {
        return cmd_usage(cmd, "something is missing: hayloft %s %s", cmd->command->name,
                         cmd->command->arguments);
    }
    if (cmd->argument_count > cmd->command->arguments_max) {
        return cmd_usage(cmd, "\"%s\" is one argument too many",
                         cmd->arguments[cmd->command->arguments_max]);
    }
    cmd_environment(cmd);
    return CMD_OK;
}
