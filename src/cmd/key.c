/* hayloft key ...: each command is one call of the admin API and a table for people. */
#include <stdio.h>

#include "cmd/client.h"
#include "os/env.h"

/* ---- printing ---- */

/* Prints GetKeyInfo's answer and gives its reference up. */
static int key_show(struct cmd *cmd, json_t *info) {
    if (cmd->json) {
        int code = cmd_print_json(info);
        json_decref(info);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    size_t i;
    json_t *bucket;
    const char *secret = cmd_json_str(info, "secretAccessKey");
    const char *expiration = cmd_json_str(info, "expiration");
    bool expired = cmd_json_bool(info, "expired");
    bool create = cmd_json_bool(json_object_get(info, "permissions"), "createBucket");
    buf_append_str(&rows, "==== ACCESS KEY INFORMATION ====\n");
    buf_printf(&rows, "Key ID:\t%s\n", cmd_json_str(info, "accessKeyId"));
    buf_printf(&rows, "Key name:\t%s\n", cmd_json_str(info, "name"));
    buf_printf(&rows, "Secret key:\t%s\n", secret[0] != 0 ? secret : "(hidden)");
    buf_printf(&rows, "Created:\t%s\n", cmd_json_str(info, "created"));
    buf_printf(&rows, "Validity:\t%s\n", expired ? "expired" : "valid");
    buf_printf(&rows, "Expiration:\t%s\n", expiration[0] != 0 ? expiration : "never");
    buf_printf(&rows, "Can create buckets:\t%s\n", create ? "true" : "false");
    buf_append_str(&rows, "\n==== BUCKETS FOR THIS KEY ====\n");
    if (json_array_size(json_object_get(info, "buckets")) == 0) {
        buf_append_str(&rows, "None\n");
    } else {
        buf_append_str(&rows, "Permissions\tID\tGlobal aliases\tLocal aliases\n");
    }
    json_array_foreach(json_object_get(info, "buckets"), i, bucket) {
        static const char *const lists[] = {"globalAliases", "localAliases"};
        const json_t *rights = json_object_get(bucket, "permissions");
        buf_printf(&rows, "%s%s%s\t%s", cmd_json_bool(rights, "read") ? "R" : " ",
                   cmd_json_bool(rights, "write") ? "W" : " ",
                   cmd_json_bool(rights, "owner") ? "O" : " ", cmd_json_str(bucket, "id"));
        for (size_t l = 0; l < ARRAY_COUNT(lists); l++) {
            size_t j;
            json_t *name;
            buf_append_str(&rows, "\t");
            json_array_foreach(json_object_get(bucket, lists[l]), j, name) {
                buf_printf(&rows, "%s%s", j == 0 ? "" : ", ", json_string_value(name));
            }
        }
        buf_append_str(&rows, "\n");
    }
    cmd_print_table(&rows);
    json_decref(info);
    return CMD_OK;
}

static int key_call_show(struct cmd *cmd, const char *path, json_t *body) {
    json_t *info;
    int code = client_call(cmd, path, body, &info);
    return code != CMD_OK ? code : key_show(cmd, info);
}

/* Adds "expiration": now + --expires-in. */
static int key_expiration(struct cmd *cmd, json_t *body) {
    const char *text = cmd_value(cmd, "expires-in");
    uint64_t seconds;
    if (text == NULL) {
        return CMD_OK;
    }
    if (!parse_duration(slice_str(text), &seconds) || seconds == 0 ||
        seconds > UINT64_C(100) * 366 * 86400) {
        return cmd_usage(cmd,
                         "--expires-in \"%s\" is not understood; write a time such as 12h or "
                         "30d",
                         text);
    }
    char when[TIME_TEXT_SIZE];
    time_format_iso8601(os_wall_ms(os_clock_real()) + (int64_t)seconds * 1000, when);
    (void)json_object_set_new(body, "expiration", json_string(when));
    return CMD_OK;
}

/* ---- commands ---- */

int cmd_key_list(struct cmd *cmd) {
    json_t *list, *key;
    size_t i;
    int code = client_call(cmd, "/v2/ListKeys", NULL, &list);
    if (code != CMD_OK) {
        return code;
    }
    if (cmd->json) {
        code = cmd_print_json(list);
        json_decref(list);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    buf_append_str(&rows, "ID\tCreated\tName\tExpiration\n");
    json_array_foreach(list, i, key) {
        const char *expiration = cmd_json_str(key, "expiration");
        buf_printf(&rows, "%s\t%.10s\t%s\t%s\n", cmd_json_str(key, "id"),
                   cmd_json_str(key, "created"), cmd_json_str(key, "name"),
                   cmd_json_bool(key, "expired") ? "expired"
                   : expiration[0] == 0          ? "never"
                                                 : expiration);
    }
    cmd_print_table(&rows);
    json_decref(list);
    return CMD_OK;
}

int cmd_key_info(struct cmd *cmd) {
    const char *path = client_path(cmd, "GetKeyInfo", "search", cmd->arguments[0], "showSecretKey",
                                   cmd_flag(cmd, "show-secret") ? "true" : "false");
    return key_call_show(cmd, path, NULL);
}

int cmd_key_create(struct cmd *cmd) {
    const char *name = cmd_value(cmd, "name");
    if (name != NULL && cmd->argument_count > 0) {
        return cmd_usage(cmd, "give the name once: as an argument or with --name");
    }
    if (cmd->argument_count > 0) {
        name = cmd->arguments[0];
    }
    json_t *body = json_pack("{s:s}", "name", name != NULL ? name : "Unnamed key");
    if (body == NULL) {
        return cmd_error("the name is no UTF-8 text");
    }
    int code = key_expiration(cmd, body);
    if (code != CMD_OK) {
        json_decref(body);
        return code;
    }
    return key_call_show(cmd, "/v2/CreateKey", body);
}

static const char *key_update_path(struct cmd *cmd) {
    return client_path(cmd, "UpdateKey", "search", cmd->arguments[0], NULL, NULL);
}

int cmd_key_rename(struct cmd *cmd) {
    return key_call_show(cmd, key_update_path(cmd), json_pack("{s:s}", "name", cmd->arguments[1]));
}

int cmd_key_delete(struct cmd *cmd) {
    json_t *info, *answer;
    const char *path = client_path(cmd, "GetKeyInfo", "search", cmd->arguments[0], NULL, NULL);
    int code = client_call(cmd, path, NULL, &info);
    if (code != CMD_OK) {
        return code;
    }
    const char *id = pool_printf(cmd->pool, "%s", cmd_json_str(info, "accessKeyId"));
    size_t buckets = json_array_size(json_object_get(info, "buckets"));
    json_decref(info);
    if (!cmd_flag(cmd, "yes")) {
        return cmd_error("would delete key %s, which has rights on %zu buckets; add --yes to do it",
                         id, buckets);
    }
    path = client_path(cmd, "DeleteKey", "id", id, NULL, NULL);
    code = client_call(cmd, path, json_object(), &answer);
    if (code == CMD_OK) {
        (void)printf("Key %s was deleted.\n", id);
        json_decref(answer);
    }
    return code;
}

int cmd_key_import(struct cmd *cmd) {
    const char *name = cmd_value(cmd, "name");
    if (!cmd_flag(cmd, "yes")) {
        return cmd_error("would import key %s; keys made by `key create` are safer, import only "
                         "what programs use already. Add --yes to do it",
                         cmd->arguments[0]);
    }
    return key_call_show(cmd, "/v2/ImportKey",
                         json_pack("{s:s, s:s, s:s}", "accessKeyId", cmd->arguments[0],
                                   "secretAccessKey", cmd->arguments[1], "name",
                                   name != NULL ? name : "Imported key"));
}

int cmd_key_allow(struct cmd *cmd) {
    bool allow = strcmp(cmd->command->name, "key allow") == 0;
    if (!cmd_flag(cmd, "create-bucket")) {
        return cmd_usage(cmd,
                         "say which right: --create-bucket (rights on buckets: `hayloft "
                         "bucket %s`)",
                         allow ? "allow" : "deny");
    }
    return key_call_show(cmd, key_update_path(cmd),
                         json_pack("{s:{s:b}}", allow ? "allow" : "deny", "createBucket", 1));
}

int cmd_key_set(struct cmd *cmd) {
    bool never = cmd_flag(cmd, "never-expires");
    if (never == cmd_flag(cmd, "expires-in")) {
        return cmd_usage(cmd, "give one of --expires-in TIME and --never-expires");
    }
    json_t *body = never ? json_pack("{s:b}", "neverExpires", 1) : json_object();
    int code = key_expiration(cmd, body);
    if (code != CMD_OK) {
        json_decref(body);
        return code;
    }
    return key_call_show(cmd, key_update_path(cmd), body);
}
