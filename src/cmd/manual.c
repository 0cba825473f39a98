/* hayloft man: the man page from the table of commands, in the macros of man(7). A test compares
 * docs/man/hayloft.1 with it. */
#include "cmd/command.h"

/* Text for troff: backslashes and hyphens escaped, a leading dot or quote made harmless. */
static void manual_text(const char *text, struct buf *out) {
    bool line_start = true;
    for (; *text != 0; text++) {
        if (line_start && (*text == '.' || *text == '\'')) {
            buf_append_str(out, "\\&");
        }
        if (*text == '\\') {
            buf_append_str(out, "\\e");
        } else if (*text == '-') {
            buf_append_str(out, "\\-");
        } else {
            buf_append_u8(out, (uint8_t)*text);
        }
        line_start = *text == '\n';
    }
}

static void manual_option(const struct cmd_option *option, struct buf *out) {
    bool optional = option->metavar != NULL && option->metavar[0] == '[';
    buf_append_str(out, ".TP\n.B ");
    if (option->letter != 0) {
        buf_printf(out, "\\-%c, ", option->letter);
    }
    buf_append_str(out, "\\-\\-");
    manual_text(option->name, out);
    if (option->metavar != NULL) {
        buf_append_str(out, optional ? "" : " ");
        manual_text(option->metavar, out);
    }
    buf_append_str(out, "\n");
    manual_text(option->help, out);
    buf_append_str(out, ".\n");
}

static void manual_command(const struct cmd_command *command, struct buf *out) {
    buf_append_str(out, ".SS hayloft ");
    manual_text(command->name, out);
    buf_append_str(out, command->arguments[0] != 0 ? " " : "");
    manual_text(command->arguments, out);
    buf_append_str(out, "\n");
    manual_text(command->summary, out);
    buf_append_str(out, ".\n");
    if (command->details != NULL) {
        buf_append_str(out, ".PP\n");
        manual_text(command->details, out);
        buf_append_str(out, "\n");
    }
    for (int i = 0; i < CMD_OPTIONS_MAX && command->options[i].name != NULL; i++) {
        manual_option(&command->options[i], out);
    }
    if (command->example != NULL) {
        buf_append_str(out, ".PP\nExample:\n.PP\n.nf\n");
        manual_text(command->example, out);
        buf_append_str(out, "\n.fi\n");
    }
}

int cmd_man(struct cmd *cmd) {
    (void)cmd;
    CLEANUP_BUF struct buf out = {0};
    buf_append_str(&out, ".\\\" Written by `hayloft man` from src/cmd/commands.c.\n"
                         ".TH HAYLOFT 1 \"\" \"hayloft " HAYLOFT_VERSION "\" \"Hayloft\"\n"
                         ".SH NAME\nhayloft \\- a small durable object store with the S3 API\n"
                         ".SH SYNOPSIS\n.B hayloft\nCOMMAND [OPTIONS] [ARGUMENTS]\n"
                         ".SH DESCRIPTION\n"
                         "Hayloft stores objects and serves them over the S3 API. The command "
                         "server runs it; the other commands reach a running server through the "
                         "control socket in its metadata directory, or over the network with "
                         "\\-\\-admin\\-url and a token.\n"
                         ".PP\nTo begin:\n.PP\n.nf\n"
                         "hayloft server \\-\\-single\\-node \\-\\-default\\-bucket\n.fi\n"
                         ".PP\nOptions and arguments may stand in any order.\n"
                         ".SH OPTIONS OF EVERY COMMAND\n");
    for (const struct cmd_option *o = cmd_global_options; o->name != NULL; o++) {
        manual_option(o, &out);
    }
    buf_append_str(&out, ".SH COMMANDS\n");
    for (size_t i = 0; i < cmd_command_count; i++) {
        if (!cmd_commands[i].hidden) {
            manual_command(&cmd_commands[i], &out);
        }
    }
    buf_append_str(&out, ".SH EXIT STATUS\n0: done. 1: it failed; standard error says why and what "
                         "to do. 2: the command line is wrong.\n"
                         ".SH FILES\n.TP\n" CONFIG_FILE_DEFAULT "\nThe configuration; its keys are "
                         "in docs/configuration.md and in `hayloft config docs`.\n"
                         ".TP\n/var/lib/hayloft\nMetadata and data, where nothing else is set.\n"
                         ".SH ENVIRONMENT\nEach key of the configuration has a variable "
                         "HAYLOFT_...; see `hayloft config docs`.\n"
                         ".TP\nHAYLOFT_CONFIG_FILE\nThe configuration file.\n"
                         ".TP\nHAYLOFT_DEFAULT_ACCESS_KEY, HAYLOFT_DEFAULT_SECRET_KEY, "
                         "HAYLOFT_DEFAULT_BUCKET\nThe key pair and bucket of "
                         "\\-\\-default\\-access\\-key and \\-\\-default\\-bucket.\n");
    cmd_print_buf(&out);
    return CMD_OK;
}
