/* hayloft completions: scripts for bash, zsh and fish from the table of commands. Names in the
 * table hold only a-z and '-', so that nothing needs quoting. */
#include <stdio.h>

#include "cmd/command.h"

static size_t completions_first(const char *name) {
    return strcspn(name, " ");
}

/* True for the first command that has this first word. */
static bool completions_new_word(size_t row) {
    const char *name = cmd_commands[row].name;
    size_t size = completions_first(name);
    for (size_t i = 0; i < row; i++) {
        if (completions_first(cmd_commands[i].name) == size &&
            strncmp(cmd_commands[i].name, name, size) == 0) {
            return false;
        }
    }
    return !cmd_commands[row].hidden;
}

static void completions_options(const struct cmd_option *options, int max, struct buf *out) {
    for (int i = 0; i < max && options[i].name != NULL; i++) {
        buf_printf(out, " --%s", options[i].name);
    }
}

static void completions_bash(struct buf *out) {
    buf_append_str(out, "# bash completion of hayloft\n__hayloft_complete() {\n"
                        "    local word=${COMP_WORDS[COMP_CWORD]} one=${COMP_WORDS[1]} "
                        "two=${COMP_WORDS[2]} list=\n"
                        "    if ((COMP_CWORD == 1)); then\n        list='");
    for (size_t i = 0; i < cmd_command_count; i++) {
        if (completions_new_word(i)) {
            buf_printf(out, "%.*s ", (int)completions_first(cmd_commands[i].name),
                       cmd_commands[i].name);
        }
    }
    buf_append_str(out, "help'\n    else\n        case \"$one $two\" in\n");
    for (size_t i = 0; i < cmd_command_count; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        bool pair = strchr(c->name, ' ') != NULL;
        buf_printf(out, "        \"%s\"%s) list='", c->name, pair ? "" : "*");
        /* A command of one word also matches "status --js". */
        completions_options(c->options, CMD_OPTIONS_MAX, out);
        completions_options(cmd_global_options, CMD_OPTIONS_MAX, out);
        buf_append_str(out, "' ;;\n");
    }
    for (size_t i = 0; i < cmd_command_count; i++) {
        size_t size = completions_first(cmd_commands[i].name);
        if (!completions_new_word(i) || cmd_commands[i].name[size] == 0) {
            continue;
        }
        buf_printf(out, "        \"%.*s \"*) ((COMP_CWORD == 2)) && list='", (int)size,
                   cmd_commands[i].name);
        for (size_t j = i; j < cmd_command_count; j++) {
            if (strncmp(cmd_commands[j].name, cmd_commands[i].name, size) == 0 &&
                cmd_commands[j].name[size] == ' ') {
                buf_printf(out, " %s", cmd_commands[j].name + size + 1);
            }
        }
        buf_append_str(out, "' ;;\n");
    }
    buf_append_str(out, "        esac\n    fi\n"
                        "    COMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n"
                        "    if [[ -z $list || ( $word != -* && ${#COMPREPLY[@]} -eq 0 ) ]]; then\n"
                        "        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n}\n"
                        "complete -F __hayloft_complete hayloft\n");
}

static void completions_zsh(struct buf *out) {
    buf_append_str(out, "#compdef hayloft\n# zsh completion of hayloft, through bash's\n"
                        "autoload -U +X bashcompinit && bashcompinit\n");
    completions_bash(out);
    /* The file is autoloaded as the completer itself: the first use must complete too. */
    buf_append_str(out, "_bash_complete -F __hayloft_complete\n");
}

static void completions_fish_text(const char *text, struct buf *out) {
    for (; *text != 0; text++) {
        if (*text == '\'' || *text == '\\') {
            buf_append_u8(out, '\\');
        }
        buf_append_u8(out, *text == '\n' ? ' ' : (uint8_t)*text);
    }
}

static void completions_fish_option(const char *condition, const struct cmd_option *option,
                                    struct buf *out) {
    buf_printf(out, "complete -c hayloft%s -l %s", condition, option->name);
    if (option->letter != 0) {
        buf_printf(out, " -s %c", option->letter);
    }
    buf_printf(out, "%s -d '", option->metavar != NULL && option->metavar[0] != '[' ? " -r" : "");
    completions_fish_text(option->help, out);
    buf_append_str(out, "'\n");
}

static void completions_fish(struct buf *out) {
    buf_append_str(out, "# fish completion of hayloft\n");
    for (size_t i = 0; i < cmd_command_count; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        size_t size = completions_first(c->name);
        bool pair = c->name[size] == ' ';
        if (c->hidden) {
            continue;
        }
        if (completions_new_word(i)) {
            buf_printf(out, "complete -c hayloft -n __fish_use_subcommand -a %.*s -d '", (int)size,
                       c->name);
            completions_fish_text(pair ? "commands" : c->summary, out);
            buf_append_str(out, "'\n");
        }
        char condition[160];
        if (pair) {
            buf_printf(out,
                       "complete -c hayloft -f -n '__fish_seen_subcommand_from %.*s; and test "
                       "(count (commandline -opc)) -eq 2' -a %s -d '",
                       (int)size, c->name, c->name + size + 1);
            completions_fish_text(c->summary, out);
            buf_append_str(out, "'\n");
        }
        (void)snprintf(condition, sizeof(condition), " -n '__fish_seen_subcommand_from %.*s%s%s'",
                       (int)size, c->name, pair ? "; and __fish_seen_subcommand_from " : "",
                       pair ? c->name + size + 1 : "");
        for (int o = 0; o < CMD_OPTIONS_MAX && c->options[o].name != NULL; o++) {
            completions_fish_option(condition, &c->options[o], out);
        }
    }
    for (const struct cmd_option *o = cmd_global_options; o->name != NULL; o++) {
        completions_fish_option("", o, out);
    }
}

int cmd_completions(struct cmd *cmd) {
    const char *shell = cmd->arguments[0];
    CLEANUP_BUF struct buf out = {0};
    if (strcmp(shell, "bash") == 0) {
        completions_bash(&out);
    } else if (strcmp(shell, "zsh") == 0) {
        completions_zsh(&out);
    } else if (strcmp(shell, "fish") == 0) {
        completions_fish(&out);
    } else {
        return cmd_usage(cmd, "the shell %s is not known: bash, zsh or fish", shell);
    }
    cmd_print_buf(&out);
    return CMD_OK;
}
