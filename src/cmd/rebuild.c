/* hayloft rebuild: with the server stopped, makes the metadata anew from the data files. */
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/store.h"
#include "net/worker.h"

static void rebuild_pool_free(struct worker_pool **pool) {
    if (*pool != NULL) {
        worker_pool_free(*pool);
    }
}

static int rebuild_report(const struct cmd *cmd, const struct object_rebuild_result *result) {
    if (cmd->json) {
        json_t *json = json_pack(
            "{s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "objects", (json_int_t)result->objects,
            "buckets", (json_int_t)result->buckets, "skipped", (json_int_t)result->skipped,
            "missingBodies", (json_int_t)result->missing_bodies, "oldMetadataRead",
            result->keys_known, "keys", (json_int_t)result->keys, "permissions",
            (json_int_t)result->permissions);
        (void)cmd_print_json(json);
        json_decref(json);
        return CMD_OK;
    }
    (void)printf("Rebuilt %llu objects in %llu buckets; %llu records were skipped, %llu bodies are "
                 "missing.\n",
                 (unsigned long long)result->objects, (unsigned long long)result->buckets,
                 (unsigned long long)result->skipped, (unsigned long long)result->missing_bodies);
    if (result->keys_known) {
        (void)printf("%llu access keys and %llu permissions were taken over from the old metadata. "
                     "If that was an old\ncopy, keys that were deleted since may be back: `hayloft "
                     "key list`.\n",
                     (unsigned long long)result->keys, (unsigned long long)result->permissions);
    } else {
        (void)printf("The old metadata could not be read, and access keys and permissions are not "
                     "in the data files:\n`hayloft key create`, `hayloft bucket allow`.\n");
    }
    return CMD_OK;
}

int cmd_rebuild(struct cmd *cmd) {
    struct config config;
    CLEANUP(config_report_done) struct config_report report = {0};
    int code = cmd_load_config(cmd, true, &config, &report);
    if (code != CMD_OK) {
        return code;
    }
    if (!cmd_flag(cmd, "yes")) {
        return cmd_error("would throw the metadata in %s away and make it anew from the data files "
                         "in %s%s; stop the server, then add --yes to do it",
                         config.metadata_dir, config.data_dirs[0].path,
                         config.data_dir_count > 1 ? " and the other data directories" : "");
    }
    code = store_make_metadata(&config);
    if (code != CMD_OK) {
        return code;
    }
    CLEANUP(rebuild_pool_free) struct worker_pool *workers = NULL;
    int err = worker_pool_new(2, &workers);
    if (err < 0) {
        return cmd_error("no threads: %s", error_name(err));
    }
    struct store_dirs dirs;
    struct object_options options;
    struct cmd_progress_state progress = {.what = "rebuild", .last_percent = -10};
    struct object_rebuild_result result = {0};
    store_options(&config, worker_pool_executor(workers), &dirs, &options);
    err = object_rebuild(os_env_real(), &options, cmd_progress, &progress, &result);
    if (err < 0) {
        return cmd_error("the rebuild failed (%s): %s", error_name(err), store_advice(err));
    }
    return rebuild_report(cmd, &result);
}
