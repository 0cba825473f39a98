/* hayloft status, health, node, stats, worker, scrub, repair, json-api: what concerns the node and
 * not one bucket or key. */
#include <stdio.h>

#include "admin/admin.h"
#include "cmd/client.h"

static void node_bytes(struct buf *rows, const char *label, const json_t *object,
                       const char *name) {
    char text[32];
    uint64_t bytes = cmd_json_u64(object, name);
    format_bytes(bytes, text);
    buf_printf(rows, "%s\t%s\t%llu\n", label, text, (unsigned long long)bytes);
}

/* ---- status and health ---- */

int cmd_status(struct cmd *cmd) {
    json_t *status, *node;
    size_t i;
    int code = client_call(cmd, "/v2/GetClusterStatus", NULL, &status);
    if (code != CMD_OK) {
        return code;
    }
    bool all_up = true;
    CLEANUP_BUF struct buf rows = {0};
    buf_append_str(&rows, "==== HEALTHY NODES ====\n"
                          "ID\tHostname\tAddress\tZone\tCapacity\tDataAvail\tVersion\n");
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        const json_t *role = json_object_get(node, "role");
        const json_t *disk = json_object_get(node, "dataPartition");
        uint64_t total = cmd_json_u64(disk, "total"), available = cmd_json_u64(disk, "available");
        char capacity[32], free_text[32];
        format_bytes(cmd_json_u64(role, "capacity"), capacity);
        format_bytes(available, free_text);
        all_up = all_up && cmd_json_bool(node, "isUp");
        buf_printf(&rows, "%.16s\t%s\t%s\t%s\t%s\t%s (%.1f%%)\t%s%s\n", cmd_json_str(node, "id"),
                   cmd_json_str(node, "hostname"), cmd_json_str(node, "addr"),
                   cmd_json_str(role, "zone"), capacity, free_text,
                   total == 0 ? 0.0 : (double)available * 100.0 / (double)total,
                   cmd_json_str(node, "hayloftVersion"),
                   cmd_json_bool(node, "isUp") ? "" : "  FAILED: see its log");
    }
    if (cmd->json) {
        (void)cmd_print_json(status);
    } else {
        cmd_print_table(&rows);
    }
    json_decref(status);
    return all_up ? CMD_OK : CMD_FAILED;
}

int cmd_health(struct cmd *cmd) {
    json_t *health;
    int code = client_call(cmd, "/v2/GetClusterHealth", NULL, &health);
    if (code != CMD_OK) {
        return code;
    }
    bool healthy = strcmp(cmd_json_str(health, "status"), "healthy") == 0;
    if (cmd->json) {
        (void)cmd_print_json(health);
    } else if (!cmd_flag(cmd, "quiet")) {
        (void)printf("%s\n", cmd_json_str(health, "status"));
    }
    json_decref(health);
    return healthy ? CMD_OK : CMD_FAILED;
}

/* From the file, so that it also works while the server is stopped. */
int cmd_node_id(struct cmd *cmd) {
    struct config config;
    CLEANUP(config_report_done) struct config_report report = {0};
    int code = cmd_load_config(cmd, false, &config, &report);
    if (code != CMD_OK) {
        return code;
    }
    char id[ADMIN_NODE_ID_SIZE];
    int err = admin_node_id(os_fs_real(), config.metadata_dir, id);
    if (err < 0) {
        return cmd_error("%s/node.key cannot be read (%s); the first start of `hayloft server` "
                         "makes it",
                         config.metadata_dir, error_name(err));
    }
    if (cmd->json) {
        json_t *json = json_pack("{s:s}", "id", id);
        code = cmd_print_json(json);
        json_decref(json);
        return code;
    }
    (void)printf("%s\n", id);
    return CMD_OK;
}

/* ---- one node needs no layout ---- */

int cmd_node_connect(struct cmd *cmd) {
    return cmd_error("cannot connect to %s: nodes do not talk to each other in this version; run "
                     "one node",
                     cmd->arguments[0]);
}

int cmd_layout_show(struct cmd *cmd) {
    json_t *status, *node;
    size_t i;
    int code = client_call(cmd, "/v2/GetClusterStatus", NULL, &status);
    if (code != CMD_OK) {
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    buf_append_str(&rows, "==== CURRENT LAYOUT ====\nID\tZone\tCapacity\n");
    json_array_foreach(json_object_get(status, "nodes"), i, node) {
        const json_t *role = json_object_get(node, "role");
        char capacity[32];
        format_bytes(cmd_json_u64(role, "capacity"), capacity);
        buf_printf(&rows, "%.16s\t%s\t%s\n", cmd_json_str(node, "id"), cmd_json_str(role, "zone"),
                   capacity);
    }
    buf_printf(&rows, "\nCurrent layout version: %llu. A single node holds everything.\n",
               (unsigned long long)cmd_json_u64(status, "layoutVersion"));
    if (cmd->json) {
        (void)cmd_print_json(status);
    } else {
        cmd_print_table(&rows);
    }
    json_decref(status);
    return CMD_OK;
}

/* Says the truth and succeeds: after it the layout is what the caller needs. */
int cmd_layout_change(struct cmd *cmd) {
    json_t *health;
    int code = client_call(cmd, "/v2/GetClusterHealth", NULL, &health);
    if (code != CMD_OK) {
        return code;
    }
    json_decref(health);
    (void)printf("Nothing to do: this is a single node, it has its role already and holds "
                 "everything.\n");
    return CMD_OK;
}

/* ---- statistics ---- */

static void node_stats_rows(struct buf *rows, const json_t *stats) {
    const json_t *disk = json_object_get(stats, "disk"), *log = json_object_get(stats, "log");
    buf_printf(rows, "Version:\t%s\n", cmd_json_str(stats, "hayloftVersion"));
    buf_printf(rows, "Uptime:\t%llu s\n", (unsigned long long)cmd_json_u64(stats, "uptimeSecs"));
    node_bytes(rows, "Resident memory:", stats, "residentBytes");
    buf_printf(rows, "Buckets:\t%llu\n", (unsigned long long)cmd_json_u64(stats, "buckets"));
    buf_printf(rows, "Access keys:\t%llu\n", (unsigned long long)cmd_json_u64(stats, "keys"));
    buf_printf(rows, "Objects:\t%llu\n", (unsigned long long)cmd_json_u64(stats, "objects"));
    node_bytes(rows, "Bytes of objects:", stats, "objectBytes");
    buf_printf(rows, "Unfinished uploads:\t%llu\n",
               (unsigned long long)cmd_json_u64(stats, "unfinishedUploads"));
    buf_append_str(rows, "\n==== DISK ====\n");
    node_bytes(rows, "Live:", disk, "live");
    node_bytes(rows, "Garbage (deleted, overwritten):", disk, "garbage");
    node_bytes(rows, "Free queue (waits for readers):", disk, "freeQueue");
    node_bytes(rows, "Being written:", disk, "staged");
    node_bytes(rows, "Multipart leftovers:", disk, "multipartLeftovers");
    node_bytes(rows, "Volumes together:", disk, "volumes");
    node_bytes(rows, "Log:", disk, "log");
    node_bytes(rows, "Names (kv):", disk, "kv");
    node_bytes(rows, "Free for new data:", disk, "free");
    node_bytes(rows, "Capacity:", disk, "total");
    buf_printf(rows, "Volume files:\t%llu\n",
               (unsigned long long)cmd_json_u64(stats, "volumeCount"));
    if (cmd_json_bool(disk, "degraded")) {
        buf_append_str(rows, "A data directory is missing or read-only; see the server's log\n");
    }
    buf_append_str(rows, "\n==== LOG ====\n");
    buf_printf(rows, "Segments:\t%llu\n", (unsigned long long)cmd_json_u64(log, "segments"));
    node_bytes(rows, "Not yet checkpointed:", log, "heldBytes");
    buf_printf(rows, "Records:\t%llu\n", (unsigned long long)cmd_json_u64(log, "records"));
    buf_printf(rows, "Syncs:\t%llu\n", (unsigned long long)cmd_json_u64(log, "syncs"));
    buf_printf(rows, "Checkpoints:\t%llu\n", (unsigned long long)cmd_json_u64(log, "checkpoints"));
}

int cmd_stats(struct cmd *cmd) {
    json_t *stats;
    int code = client_call(cmd, "/v2/GetClusterStatistics", NULL, &stats);
    if (code != CMD_OK) {
        return code;
    }
    if (cmd->json) {
        code = cmd_print_json(stats);
    } else {
        CLEANUP_BUF struct buf rows = {0};
        node_stats_rows(&rows, stats);
        cmd_print_table(&rows);
    }
    json_decref(stats);
    return code;
}

/* The first value of {"success": {id: value}}. */
static const json_t *node_first(json_t *answer) {
    json_t *success = json_object_get(answer, "success");
    return json_object_iter_value(json_object_iter(success));
}

int cmd_worker_list(struct cmd *cmd) {
    json_t *answer, *worker;
    size_t i;
    int code = client_call(cmd, "/v2/ListWorkers?node=self", json_object(), &answer);
    if (code != CMD_OK) {
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    json_t *chosen = json_array();
    buf_append_str(&rows, "TID\tState\tName\tQueue\tErrors\tProgress\n");
    json_array_foreach(node_first(answer), i, worker) {
        const char *state = cmd_json_str(worker, "state");
        if ((cmd_flag(cmd, "busy") && strcmp(state, "busy") != 0) ||
            (cmd_flag(cmd, "errors") && cmd_json_u64(worker, "errors") == 0)) {
            continue;
        }
        (void)json_array_append(chosen, worker);
        char queue[32];
        format_bytes(cmd_json_u64(worker, "queueLength"), queue);
        buf_printf(
            &rows, "%llu\t%s\t%s\t%s\t%llu\t%s\n", (unsigned long long)cmd_json_u64(worker, "id"),
            state, cmd_json_str(worker, "name"), queue,
            (unsigned long long)cmd_json_u64(worker, "errors"), cmd_json_str(worker, "progress"));
    }
    if (cmd->json) {
        code = cmd_print_json(chosen);
    } else {
        cmd_print_table(&rows);
    }
    json_decref(chosen);
    json_decref(answer);
    return code;
}

/* ---- scrub and repair ---- */

static int node_scrub(struct cmd *cmd, const char *command) {
    json_t *answer;
    int code = client_call(cmd, "/v2/LaunchRepairOperation?node=self",
                           json_pack("{s:{s:s}}", "repairType", "scrub", command), &answer);
    if (code != CMD_OK) {
        return code;
    }
    json_decref(answer);
    (void)printf("scrub %s: done; `hayloft scrub status` shows how it goes\n", command);
    return CMD_OK;
}

int cmd_scrub_command(struct cmd *cmd) {
    return node_scrub(cmd, cmd->command->name + strlen("scrub "));
}

int cmd_scrub_status(struct cmd *cmd) {
    json_t *scrub, *record;
    size_t i;
    int code = client_call(cmd, "/v2/GetScrubStatus", NULL, &scrub);
    if (code != CMD_OK) {
        return code;
    }
    if (cmd->json) {
        code = cmd_print_json(scrub);
        json_decref(scrub);
        return code;
    }
    CLEANUP_BUF struct buf rows = {0};
    const char *last = cmd_json_str(scrub, "lastCompleted"), *next = cmd_json_str(scrub, "nextRun");
    uint64_t done = cmd_json_u64(scrub, "bytesDone"), total = cmd_json_u64(scrub, "bytesTotal");
    char done_text[32], total_text[32];
    format_bytes(done, done_text);
    format_bytes(total, total_text);
    buf_printf(&rows, "State:\t%s\n", cmd_json_str(scrub, "state"));
    buf_printf(&rows, "Progress:\t%s of %s\n", done_text, total_text);
    buf_printf(&rows, "Last completed:\t%s\n", last[0] != 0 ? last : "never");
    buf_printf(&rows, "Next run:\t%s\n", next[0] != 0 ? next : "not planned");
    buf_printf(&rows, "Damaged records:\t%llu\n",
               (unsigned long long)cmd_json_u64(scrub, "damagedRecords"));
    if (json_array_size(json_object_get(scrub, "damaged")) > 0) {
        buf_append_str(&rows, "\nVolume\tOffset\tError\tFound\tBelongs to\n");
    }
    json_array_foreach(json_object_get(scrub, "damaged"), i, record) {
        buf_printf(
            &rows, "%llu\t%llu\t%s\t%s\t%s\n", (unsigned long long)cmd_json_u64(record, "volume"),
            (unsigned long long)cmd_json_u64(record, "offset"), cmd_json_str(record, "error"),
            cmd_json_str(record, "found"), cmd_json_str(record, "origin"));
    }
    cmd_print_table(&rows);
    json_decref(scrub);
    return CMD_OK;
}

int cmd_repair(struct cmd *cmd) {
    static const struct {
        const char *name, *answer;
    } others[] = {
        {"tables", "there is one copy of each row; `hayloft rebuild` makes all rows anew"},
        {"blocks", "`hayloft scrub start` verifies all data"},
        {"versions", "names and bytes are committed together; nothing can dangle"},
        {"mpu", "`hayloft bucket cleanup-incomplete-uploads` ends old uploads"},
        {"multipart-uploads", "`hayloft bucket cleanup-incomplete-uploads` ends old uploads"},
        {"block-refs", "names and bytes are committed together; nothing can dangle"},
        {"block-rc", "counts are part of each commit; `hayloft rebuild` makes them anew"},
        {"aliases", "names of buckets are unique by construction"},
        {"rebalance", "new data goes where room is; nothing needs to move"},
        {"clear-resync-queue", "there is no such queue"},
    };
    const char *what = cmd->arguments[0];
    if (strcmp(what, "scrub") == 0) {
        const char *command = cmd->argument_count > 1 ? cmd->arguments[1] : "start";
        static const char *const commands[] = {"start", "pause", "resume", "cancel"};
        for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
            if (strcmp(command, commands[i]) == 0) {
                return node_scrub(cmd, command);
            }
        }
        return cmd_usage(cmd, "repair scrub %s is unknown: start, pause, resume or cancel",
                         command);
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        if (strcmp(what, others[i].name) == 0) {
            (void)printf("Nothing to do for %s: %s.\n", what, others[i].answer);
            return CMD_OK;
        }
    }
    return cmd_usage(cmd, "there is no repair \"%s\"; did you mean `repair scrub start`?", what);
}

/* ---- the raw API ---- */

int cmd_json_api(struct cmd *cmd) {
    json_t *body = NULL, *answer;
    if (cmd->argument_count > 1) {
        json_error_t problem;
        body = strcmp(cmd->arguments[1], "-") == 0
                   ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &problem)
                   : json_loads(cmd->arguments[1], JSON_REJECT_DUPLICATES, &problem);
        if (!json_is_object(body)) {
            json_decref(body);
            return cmd_usage(cmd, "the second argument is no JSON object");
        }
    }
    for (const char *p = cmd->arguments[0]; *p != 0; p++) {
        if (*p <= 0x20 || *p >= 0x7f) {
            json_decref(body);
            return cmd_usage(cmd, "a call is written like GetBucketInfo?search=photos");
        }
    }
    const char *path = pool_printf(cmd->pool, "/v2/%s", cmd->arguments[0]);
    int code = client_call(cmd, path, body, &answer);
    if (code == CMD_OK) {
        code = cmd_print_json(answer);
        json_decref(answer);
    }
    return code;
}
