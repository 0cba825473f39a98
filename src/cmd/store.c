/* The configuration as options of the object store; making directories. Start-up code. */
#include "cmd/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/command.h"

/* No scrub by itself: an interval beyond every life. */
#define STORE_SCRUB_NEVER_S (UINT64_C(100) * 366 * 86400)

void store_options(const struct config *config, struct executor *workers, struct store_dirs *dirs,
                   struct object_options *ret) {
    for (uint32_t i = 0; i < config->data_dir_count; i++) {
        dirs->dirs[i] = (struct volume_dir){.path = config->data_dirs[i].path,
                                            .capacity_bytes = config->data_dirs[i].capacity_bytes,
                                            .read_only = config->data_dirs[i].read_only};
    }
    *ret = (struct object_options){
        .metadata_dir = config->metadata_dir,
        .data = {.volumes = {.dirs = dirs->dirs,
                             .dir_count = config->data_dir_count,
                             .volume_bytes_max = config->volume_bytes_max,
                             .reserve_bytes = config->reserve_bytes},
                 .block_bytes = (uint32_t)config->block_bytes,
                 .compact_percent = (uint32_t)config->compact_percent,
                 .scrub_interval_s =
                     config->scrub_off ? STORE_SCRUB_NEVER_S : config->scrub_interval_s,
                 .scrub_bytes_per_s = config->scrub_bytes_per_s},
        .kv = {.cache_bytes = config->cache_bytes,
               .write_buffer_bytes = config->write_buffer_bytes,
               .create = true},
        .meta = {.log = {.segment_bytes = config->log_segment_bytes,
                         .spare_segments = 1,
                         .segments_max = 64},
                 .checkpoint_log_bytes = config->checkpoint_log_bytes,
                 .checkpoint_idle_ms = config->checkpoint_idle_s * 1000,
                 .turn_bytes_max = MIN(UINT64_C(1) << 20, config->log_segment_bytes / 2)},
        .inline_max = (uint32_t)config->inline_max_bytes,
        .threads = true,
        .workers = workers};
}

/* Cuts the last part of a path off; false at the top. */
static bool store_parent(char *path) {
    char *slash = strrchr(path, '/');
    if (slash == NULL || (slash == path && path[1] == 0)) {
        return false;
    }
    slash[slash == path] = 0; /* "/a" becomes "/" */
    return true;
}

static int store_make_directory(const char *key, const char *path) {
    int err = os_mkdir_all(os_fs_real(), path);
    if ((err == 0 || err == -HL_ERR_EXISTS) && access(path, W_OK | X_OK) == 0) {
        return CMD_OK;
    }
    /* What is there of the path says why: the codes of os/ do not tell permissions apart. */
    char there[4096];
    (void)snprintf(there, sizeof(there), "%s", path);
    struct stat st;
    bool found = stat(there, &st) == 0;
    while (!found && store_parent(there)) {
        found = stat(there, &st) == 0;
    }
    const char *why = err < 0 ? error_text(err) : "it is not usable";
    if (found && !S_ISDIR(st.st_mode)) {
        why = "it is no directory";
    } else if (found && access(there, W_OK | X_OK) != 0) {
        why = errno == EROFS ? "its file system is read-only" : "this user may not write there";
    }
    return cmd_error("%s %s cannot be used: %s: %s; make the directory and give it to the user "
                     "that runs hayloft, or set %s to another one",
                     key, path, there, why, key);
}

int store_make_metadata(const struct config *config) {
    return store_make_directory("metadata_dir", config->metadata_dir);
}

int store_make_directories(const struct config *config) {
    int code = store_make_metadata(config);
    if (code != CMD_OK) {
        return code;
    }
    char id_path[4096];
    (void)snprintf(id_path, sizeof(id_path), "%s/cluster.id", config->metadata_dir);
    bool first_start = access(id_path, F_OK) != 0;
    for (uint32_t i = 0; i < config->data_dir_count && code == CMD_OK; i++) {
        const char *path = config->data_dirs[i].path;
        if (first_start && !config->data_dirs[i].read_only) {
            code = store_make_directory("data_dir", path);
        } else if (access(path, F_OK) != 0) {
            /* Making it could write beneath a mount point whose disk is away. */
            code = cmd_error("data_dir %s is not there; is its disk mounted? If it is a new "
                             "directory, make it first",
                             path);
        }
    }
    return code;
}

const char *store_advice(int err) {
    switch (-err) {
    case HL_ERR_LOCKED:
        return "another hayloft uses these directories; stop it first (or use its commands)";
    case HL_ERR_WRONG_CLUSTER:
        return "metadata_dir and data_dir belong to different stores; correct the configuration "
               "(if the "
               "metadata was lost, `hayloft rebuild` makes it anew)";
    case HL_ERR_NO_MARKER:
        return "is the disk mounted? Mount it and start again; nothing was written";
    case HL_ERR_MISSING:
        return "put back what is missing and start again (the lines above name it); nothing was "
               "written";
    case HL_ERR_CORRUPT:
    case HL_ERR_BAD_FORMAT:
        return "the metadata is damaged; `hayloft rebuild` makes it anew from the data files";
    case HL_ERR_NO_SPACE:
        return "the disk is full; make room";
    case HL_ERR_READ_ONLY:
    case HL_ERR_ACCESS_DENIED:
        return "the directories are not writable; give them to the user that runs hayloft";
    default:
        return "see the lines above; check the directories and their disks";
    }
}
