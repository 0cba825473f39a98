/* hayloft config, secret, version; and loading the configuration for every other command. */
#include <stdio.h>

#include "base/hash.h"
#include "cmd/command.h"
#include "os/env.h"

static void config_print_lines(const char *prefix, const struct buf *lines) {
    struct slice rest = buf_slice(lines);
    while (rest.size > 0) {
        size_t end = slice_find(rest, '\n', 0);
        (void)fprintf(stderr, "%s%.*s\n", prefix, (int)MIN(end, rest.size),
                      (const char *)rest.data);
        rest = slice_skip(rest, MIN(end + 1, rest.size));
    }
}

int cmd_load_config(struct cmd *cmd, bool show_warnings, struct config *ret,
                    struct config_report *ret_report) {
    int err = config_load(cmd->config_path, NULL, NULL, cmd->pool, ret, ret_report);
    if (show_warnings) {
        config_print_lines("hayloft: warning: ", &ret_report->warnings);
    }
    if (err == -HL_ERR_INVALID) {
        config_print_lines("hayloft: ", &ret_report->errors);
        return CMD_FAILED;
    }
    return err < 0 ? cmd_error("the configuration cannot be read: %s", error_name(err)) : CMD_OK;
}

static json_t *config_lines_json(const struct buf *lines) {
    json_t *array = json_array();
    struct slice rest = buf_slice(lines);
    while (rest.size > 0) {
        size_t end = slice_find(rest, '\n', 0);
        (void)json_array_append_new(array, json_stringn((const char *)rest.data, end));
        rest = slice_skip(rest, MIN(end + 1, rest.size));
    }
    return array;
}

int cmd_config_check(struct cmd *cmd) {
    if (cmd->argument_count > 0) {
        cmd->config_path = cmd->arguments[0];
    }
    struct config config;
    CLEANUP(config_report_done) struct config_report report = {0};
    int err = config_load(cmd->config_path, NULL, NULL, cmd->pool, &config, &report);
    if (err < 0 && err != -HL_ERR_INVALID) {
        return cmd_error("the configuration cannot be read: %s", error_name(err));
    }
    int code = err == 0 ? CMD_OK : CMD_FAILED;
    if (cmd->json) {
        json_t *json = json_pack("{s:b, s:o, s:o, s:o}", "understood", err == 0, "errors",
                                 config_lines_json(&report.errors), "warnings",
                                 config_lines_json(&report.warnings), "serverRefuses",
                                 config_lines_json(&report.refusals));
        (void)cmd_print_json(json);
        json_decref(json);
        return code;
    }
    config_print_lines("warning: ", &report.warnings);
    config_print_lines("warning: `server` refuses: ", &report.refusals);
    config_print_lines("error: ", &report.errors);
    if (err < 0) {
        return code;
    }
    (void)printf("%s is understood, %u warnings.\n",
                 config.file != NULL ? config.file : "The configuration without a file",
                 report.warning_count + report.refusal_count);
    (void)printf("metadata: %s\n", config.metadata_dir);
    for (uint32_t i = 0; i < config.data_dir_count; i++) {
        (void)printf("data: %s\n", config.data_dirs[i].path);
    }
    (void)printf("S3: %s%s\n", config.s3_bind_addr,
                 config.s3_tls_certificate != NULL ? " (TLS)" : "");
    (void)printf("admin: %s\n", config.admin_bind_addr);
    return code;
}

int cmd_config_docs(struct cmd *cmd) {
    (void)cmd;
    CLEANUP_BUF struct buf out = {0};
    config_docs(&out);
    cmd_print_buf(&out);
    return CMD_OK;
}

int cmd_secret_new(struct cmd *cmd) {
    (void)cmd;
    uint8_t raw[32];
    char text[65];
    os_random_bytes(os_random_real(), raw, sizeof(raw));
    hex_encode(raw, sizeof(raw), text);
    (void)printf("%s\n", text);
    wipe(raw, sizeof(raw));
    wipe(text, sizeof(text));
    return CMD_OK;
}

int cmd_version(struct cmd *cmd) {
    if (cmd->json) {
        (void)printf("{\n  \"version\": \"" HAYLOFT_VERSION "\"\n}\n");
    } else {
        (void)printf("hayloft " HAYLOFT_VERSION "\n");
    }
    return CMD_OK;
}
