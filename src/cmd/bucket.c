/* hayloft bucket ...: each command is one call of the admin API and a table for people. */
#include <stdio.h>

#include "cmd/client.h"

/* ---- printing ---- */

static void bucket_join(struct buf *out, const json_t *array) {
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) {
        buf_printf(out, "%s%s", i == 0 ? "" : ", ", json_string_value(item));
    }
}

static void bucket_quota(struct buf *rows, const json_t *info) {
    const json_t *quotas = json_object_get(info, "quotas");
    uint64_t size = cmd_json_u64(quotas, "maxSize"), count = cmd_json_u64(quotas, "maxObjects");
    if (size > 0) {
        char text[32];
        format_bytes(size, text);
        buf_printf(rows, "Maximum size:\t%s (%llu bytes)\n", text, (unsigned long long)size);
    }
    if (count > 0) {
        buf_printf(rows, "Maximum objects:\t%llu\n", (unsigned long long)count);
    }
}

static void bucket_keys(struct buf *rows, const json_t *info) {
    size_t i, j;
    json_t *key, *alias;
    const json_t *keys = json_object_get(info, "keys");
    buf_append_str(rows, "\n==== KEYS FOR THIS BUCKET ====\n");
    if (json_array_size(keys) == 0) {
        buf_append_str(rows, "None; `hayloft bucket allow --read --write BUCKET --key KEY` adds "
                             "one\n");
        return;
    }
    buf_append_str(rows, "Permissions\tAccess key\tName\tLocal aliases\n");
    json_array_foreach(keys, i, key) {
        const json_t *rights = json_object_get(key, "permissions");
        buf_printf(rows, "%s%s%s\t%s\t%s\t", cmd_json_bool(rights, "read") ? "R" : " ",
                   cmd_json_bool(rights, "write") ? "W" : " ",
                   cmd_json_bool(rights, "owner") ? "O" : " ", cmd_json_str(key, "accessKeyId"),
                   cmd_json_str(key, "name"));
        json_array_foreach(json_object_get(key, "bucketLocalAliases"), j, alias) {
            buf_printf(rows, "%s%s", j == 0 ? "" : ", ", json_string_value(alias));
        }
        buf_append_str(rows, "\n");
    }
}

/* Prints GetBucketInfo's answer and gives its reference up. */
static int bucket_show(struct cmd *cmd, json_t *info) {
    if (cmd->json) {
        int code = cmd_print_json(info);
        json_decref(info);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    char size[32], uploads[32];
    format_bytes(cmd_json_u64(info, "bytes"), size);
    format_bytes(cmd_json_u64(info, "unfinishedMultipartUploadBytes"), uploads);
    buf_append_str(&rows, "==== BUCKET INFORMATION ====\n");
    buf_printf(&rows, "Bucket:\t%s\n", cmd_json_str(info, "id"));
    buf_printf(&rows, "Created:\t%s\n", cmd_json_str(info, "created"));
    buf_printf(&rows, "Size:\t%s (%llu bytes)\n", size,
               (unsigned long long)cmd_json_u64(info, "bytes"));
    buf_printf(&rows, "Objects:\t%llu\n", (unsigned long long)cmd_json_u64(info, "objects"));
    buf_printf(&rows, "Unfinished uploads:\t%llu (%s)\n",
               (unsigned long long)cmd_json_u64(info, "unfinishedMultipartUploads"), uploads);
    bucket_quota(&rows, info);
    buf_append_str(&rows, "Global aliases:\t");
    bucket_join(&rows, json_object_get(info, "globalAliases"));
    buf_append_str(&rows, "\n");
    bucket_keys(&rows, info);
    cmd_print_table(&rows);
    json_decref(info);
    return CMD_OK;
}

static int bucket_call_show(struct cmd *cmd, const char *path, json_t *body) {
    json_t *info;
    int code = client_call(cmd, path, body, &info);
    return code != CMD_OK ? code : bucket_show(cmd, info);
}

/* ---- commands ---- */

int cmd_bucket_list(struct cmd *cmd) {
    json_t *list;
    int code = client_call(cmd, "/v2/ListBuckets", NULL, &list);
    if (code != CMD_OK) {
        return code;
    }
    if (cmd->json) {
        code = cmd_print_json(list);
        json_decref(list);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    size_t i, j;
    json_t *bucket, *local;
    buf_append_str(&rows, "ID\tCreated\tGlobal aliases\tLocal aliases\n");
    json_array_foreach(list, i, bucket) {
        buf_printf(&rows, "%s\t%.10s\t", cmd_json_str(bucket, "id"),
                   cmd_json_str(bucket, "created"));
        bucket_join(&rows, json_object_get(bucket, "globalAliases"));
        buf_append_str(&rows, "\t");
        json_array_foreach(json_object_get(bucket, "localAliases"), j, local) {
            buf_printf(&rows, "%s%s:%s", j == 0 ? "" : ", ", cmd_json_str(local, "accessKeyId"),
                       cmd_json_str(local, "alias"));
        }
        buf_append_str(&rows, "\n");
    }
    cmd_print_table(&rows);
    json_decref(list);
    return CMD_OK;
}

int cmd_bucket_info(struct cmd *cmd) {
    const char *path = client_path(cmd, "GetBucketInfo", "search", cmd->arguments[0], NULL, NULL);
    return bucket_call_show(cmd, path, NULL);
}

int cmd_bucket_create(struct cmd *cmd) {
    return bucket_call_show(cmd, "/v2/CreateBucket",
                            json_pack("{s:s}", "globalAlias", cmd->arguments[0]));
}

int cmd_bucket_delete(struct cmd *cmd) {
    const char *name = cmd->arguments[0];
    json_t *info, *answer;
    const char *path = client_path(cmd, "GetBucketInfo", "search", name, NULL, NULL);
    int code = client_call(cmd, path, NULL, &info);
    if (code != CMD_OK) {
        return code;
    }
    const char *id = pool_printf(cmd->pool, "%s", cmd_json_str(info, "id"));
    size_t aliases = json_array_size(json_object_get(info, "globalAliases"));
    json_decref(info);
    if (!cmd_flag(cmd, "yes")) {
        return cmd_error("would delete bucket %s (%s)%s; add --yes to do it", name, id,
                         aliases > 1 ? " and all its names" : "");
    }
    code = client_call(cmd, client_path(cmd, "DeleteBucket", "id", id, NULL, NULL), json_object(),
                       &answer);
    if (code == CMD_OK) {
        (void)printf("Bucket %s was deleted.\n", name);
        json_decref(answer);
    }
    return code;
}

int cmd_bucket_alias(struct cmd *cmd) {
    const char *local = cmd_value(cmd, "local");
    json_t *body = local == NULL ? json_pack("{s:s, s:s}", "bucketId", cmd->arguments[0],
                                             "globalAlias", cmd->arguments[1])
                                 : json_pack("{s:s, s:s, s:s}", "bucketId", cmd->arguments[0],
                                             "localAlias", cmd->arguments[1], "accessKeyId", local);
    return bucket_call_show(cmd, "/v2/AddBucketAlias", body);
}

/* A local name cannot be looked up globally: finds the bucket that has it for that key. */
static int bucket_of_local(struct cmd *cmd, const char *key, const char *name, const char **ret) {
    json_t *info, *bucket, *alias;
    size_t i, j;
    int code =
        client_call(cmd, client_path(cmd, "GetKeyInfo", "search", key, NULL, NULL), NULL, &info);
    if (code != CMD_OK) {
        return code;
    }
    const char *id = pool_printf(cmd->pool, "%s", cmd_json_str(info, "accessKeyId"));
    json_decref(info);
    code = client_call(cmd, "/v2/ListBuckets", NULL, &info);
    if (code != CMD_OK) {
        return code;
    }
    *ret = NULL;
    json_array_foreach(info, i, bucket) {
        json_array_foreach(json_object_get(bucket, "localAliases"), j, alias) {
            if (strcmp(cmd_json_str(alias, "accessKeyId"), id) == 0 &&
                strcmp(cmd_json_str(alias, "alias"), name) == 0) {
                *ret = pool_printf(cmd->pool, "%s", cmd_json_str(bucket, "id"));
            }
        }
    }
    json_decref(info);
    return *ret != NULL ? CMD_OK : cmd_error("the key %s knows no bucket as %s", key, name);
}

int cmd_bucket_unalias(struct cmd *cmd) {
    const char *local = cmd_value(cmd, "local"), *name = cmd->arguments[0], *bucket;
    if (local == NULL) {
        return bucket_call_show(cmd, "/v2/RemoveBucketAlias",
                                json_pack("{s:s, s:s}", "bucketId", name, "globalAlias", name));
    }
    int code = bucket_of_local(cmd, local, name, &bucket);
    if (code != CMD_OK) {
        return code;
    }
    return bucket_call_show(
        cmd, "/v2/RemoveBucketAlias",
        json_pack("{s:s, s:s, s:s}", "bucketId", bucket, "localAlias", name, "accessKeyId", local));
}

/* allow and deny differ in the call only. */
int cmd_bucket_allow(struct cmd *cmd) {
    bool allow = strcmp(cmd->command->name, "bucket allow") == 0;
    const char *key = cmd_value(cmd, "key");
    bool read = cmd_flag(cmd, "read"), write = cmd_flag(cmd, "write"),
         owner = cmd_flag(cmd, "owner");
    if (key == NULL) {
        return cmd_usage(cmd, "name the access key with --key KEY");
    }
    if (!read && !write && !owner) {
        return cmd_usage(cmd, "say which rights: --read, --write, --owner");
    }
    json_t *body =
        json_pack("{s:s, s:s, s:{s:b, s:b, s:b}}", "bucketId", cmd->arguments[0], "accessKeyId",
                  key, "permissions", "read", read, "write", write, "owner", owner);
    return bucket_call_show(cmd, allow ? "/v2/AllowBucketKey" : "/v2/DenyBucketKey", body);
}

/* "none" or a number; absent keeps what the bucket has. */
static int bucket_quota_value(struct cmd *cmd, const char *option, const char *member,
                              const json_t *old, bool bytes, json_t *quotas) {
    const char *text = cmd_value(cmd, option);
    uint64_t value = 0;
    if (text == NULL) {
        json_t *kept = json_object_get(old, member);
        (void)json_object_set(quotas, member, kept == NULL ? json_null() : kept);
        return CMD_OK;
    }
    if (strcmp(text, "none") == 0) {
        (void)json_object_set_new(quotas, member, json_null());
        return CMD_OK;
    }
    bool valid = bytes ? parse_bytes(slice_str(text), &value)
                       : parse_u64(slice_str(text), INT64_MAX, &value);
    if (!valid || value == 0 || value > INT64_MAX) {
        return cmd_usage(cmd, "--%s \"%s\" is not understood; write %s, or none", option, text,
                         bytes ? "a size such as 10GiB" : "a number");
    }
    (void)json_object_set_new(quotas, member, json_integer((json_int_t)value));
    return CMD_OK;
}

int cmd_bucket_quotas(struct cmd *cmd) {
    if (!cmd_flag(cmd, "max-size") && !cmd_flag(cmd, "max-objects")) {
        return cmd_usage(cmd, "give --max-size or --max-objects");
    }
    json_t *info;
    const char *path = client_path(cmd, "GetBucketInfo", "search", cmd->arguments[0], NULL, NULL);
    int code = client_call(cmd, path, NULL, &info);
    if (code != CMD_OK) {
        return code;
    }
    json_t *quotas = json_object();
    const json_t *old = json_object_get(info, "quotas");
    code = bucket_quota_value(cmd, "max-size", "maxSize", old, true, quotas);
    if (code == CMD_OK) {
        code = bucket_quota_value(cmd, "max-objects", "maxObjects", old, false, quotas);
    }
    path = client_path(cmd, "UpdateBucket", "id", cmd_json_str(info, "id"), NULL, NULL);
    json_decref(info);
    if (code != CMD_OK) {
        json_decref(quotas);
        return code;
    }
    return bucket_call_show(cmd, path, json_pack("{s:o}", "quotas", quotas));
}

int cmd_bucket_cleanup(struct cmd *cmd) {
    const char *text = cmd_value(cmd, "older-than");
    uint64_t seconds = 86400;
    if (text != NULL && !parse_duration(slice_str(text), &seconds)) {
        return cmd_usage(cmd,
                         "--older-than \"%s\" is not understood; write a time such as 12h or "
                         "7d",
                         text);
    }
    json_t *all = json_object();
    int code = CMD_OK;
    for (int i = 0; i < cmd->argument_count && code == CMD_OK; i++) {
        json_t *answer;
        code = client_call(cmd, "/v2/CleanupIncompleteUploads",
                           json_pack("{s:s, s:I}", "bucketId", cmd->arguments[i], "olderThanSecs",
                                     (json_int_t)MIN(seconds, INT64_MAX)),
                           &answer);
        if (code != CMD_OK) {
            break;
        }
        if (!cmd->json) {
            (void)printf("%s: %llu unfinished uploads aborted\n", cmd->arguments[i],
                         (unsigned long long)cmd_json_u64(answer, "uploadsDeleted"));
        }
        (void)json_object_set_new(all, cmd->arguments[i], answer);
    }
    if (code == CMD_OK && cmd->json) {
        code = cmd_print_json(all);
    }
    json_decref(all);
    return code;
}

static void bucket_show_version(const json_t *version, struct buf *rows) {
    size_t i;
    json_t *item;
    buf_printf(rows, "\nVersion:\t%s\n", cmd_json_str(version, "uuid"));
    buf_printf(rows, "Time:\t%s\n", cmd_json_str(version, "timestamp"));
    buf_printf(rows, "Size:\t%llu\n", (unsigned long long)cmd_json_u64(version, "size"));
    buf_printf(rows, "ETag:\t%s\n", cmd_json_str(version, "etag"));
    buf_printf(rows, "Checksum:\t%s %s\n", cmd_json_str(version, "checksumAlgorithm"),
               cmd_json_str(version, "checksum"));
    buf_printf(rows, "Inline:\t%s\n", cmd_json_bool(version, "inline") ? "yes" : "no");
    json_array_foreach(json_object_get(version, "headers"), i, item) {
        buf_printf(rows, "Header:\t%s: %s\n", json_string_value(json_array_get(item, 0)),
                   json_string_value(json_array_get(item, 1)));
    }
    if (json_array_size(json_object_get(version, "blocks")) > 0) {
        buf_append_str(rows, "\nPart\tOffset\tSize\tBlocks\tFirst body\n");
    }
    json_array_foreach(json_object_get(version, "blocks"), i, item) {
        buf_printf(rows, "%llu\t%llu\t%llu\t%llu\t%s\n",
                   (unsigned long long)cmd_json_u64(item, "partNumber"),
                   (unsigned long long)cmd_json_u64(item, "offset"),
                   (unsigned long long)cmd_json_u64(item, "size"),
                   (unsigned long long)cmd_json_u64(item, "blocks"),
                   cmd_json_str(item, "firstBody"));
    }
}

int cmd_bucket_inspect(struct cmd *cmd) {
    json_t *answer, *version;
    size_t i;
    const char *path =
        client_path(cmd, "InspectObject", "bucketId", cmd->arguments[0], "key", cmd->arguments[1]);
    int code = client_call(cmd, path, NULL, &answer);
    if (code != CMD_OK) {
        return code;
    }
    if (cmd->json) {
        code = cmd_print_json(answer);
        json_decref(answer);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    buf_append_str(&rows, "==== OBJECT ====\n");
    buf_printf(&rows, "Bucket:\t%s\nKey:\t%s\n", cmd_json_str(answer, "bucketId"),
               cmd_json_str(answer, "key"));
    json_array_foreach(json_object_get(answer, "versions"), i, version) {
        bucket_show_version(version, &rows);
    }
    cmd_print_table(&rows);
    json_decref(answer);
    return CMD_OK;
}
