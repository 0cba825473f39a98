/* The configuration as options of the object store; making directories. Start-up code. */
#include "cmd/store.h"

#include <sys/stat.h>

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

static int store_make_directory(const char *key, const char *path) {
    int err = os_mkdir_all(os_fs_real(), path);
    if (err < 0 && err != -HL_ERR_EXISTS) {
        return cmd_error("%s %s cannot be made (%s: %s); make it and give it to the user that runs "
                         "hayloft, or set another one in the configuration",
                         key, path, error_name(err), strerror(error_errno(err)));
    }
    return CMD_OK;
}

int store_make_metadata(const struct config *config) {
    return store_make_directory("metadata_dir", config->metadata_dir);
}

int store_make_directories(const struct config *config) {
    int code = store_make_metadata(config);
    for (uint32_t i = 0; i < config->data_dir_count && code == CMD_OK; i++) {
        /* Making a directory cannot hide an unmounted disk: the volume layer misses its marker
         * then and refuses. */
        struct stat st;
        bool there = stat(config->data_dirs[i].path, &st) == 0;
        if (!there && !config->data_dirs[i].read_only) {
            code = store_make_directory("data_dir", config->data_dirs[i].path);
        }
    }
    return code;
}

const char *store_advice(int err) {
    switch (-err) {
    case HL_ERR_LOCKED:
        return "another hayloft uses these directories; stop it first (or use its commands)";
    case HL_ERR_WRONG_CLUSTER:
        return "metadata_dir and data_dir belong to different stores; check the configuration";
    case HL_ERR_NO_MARKER:
        return "is the disk mounted? Mount it and start again; nothing was written";
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
