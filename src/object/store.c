/* Opening and closing a store: the files of metadata_dir, the order in which the modules below come
 * up, and their wiring (what entries carry goes to data; what data must do between two turns goes
 * through meta). Everything here runs on the thread that opens or closes.
 *
 * The first start is known by the absence of cluster.id. It is marked by a file of its own until
 * everything exists, so that a first start that a crash cut is simply continued, while later a
 * missing directory is an error and never an empty store. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "object/dirs.h"
#include "object/object_int.h"
#include "volume/volume_format.h"

#define OPEN_BYTES_MIN  (1u << 20)
#define OPEN_INODES_MIN 8u

/* ---- files ---- */

char *object_path(const char *dir, const char *name) {
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s/%s", dir, name);
    }
    return path;
}

static int file_exists(struct os_env *env, const char *dir, const char *name, bool *ret) {
    CLEANUP_FREE char *path = object_path(dir, name);
    uint64_t size;
    bool is_dir;
    int err = path == NULL ? -HL_ERR_NOMEM : os_stat(env->fs, path, &size, &is_dir);
    if (err == 0 || err == -HL_ERR_NOT_FOUND) {
        *ret = err == 0;
        return 0;
    }
    return err;
}

static int file_write(struct os_env *env, const char *dir, const char *name, const void *data,
                      size_t size) {
    CLEANUP_FREE char *path = object_path(dir, name);
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_replace(env->fs, path, data, size);
    if (err < 0) {
        LOG_ERROR("object", "cannot write %s/%s: %s", dir, name, error_text(err));
    }
    return err;
}

/* NOT_FOUND when absent; a file of another size is damage. */
static int file_read(struct os_env *env, const char *dir, const char *name, uint8_t *ret,
                     size_t size) {
    CLEANUP_FREE char *path = object_path(dir, name);
    CLEANUP_FREE uint8_t *data = NULL;
    size_t got;
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_load(env->fs, path, 4096, &data, &got);
    if (err == 0 && got != size) {
        LOG_ERROR("object", "%s has %zu bytes where %zu belong: restore it from a backup", path,
                  got, size);
        err = -HL_ERR_BAD_FORMAT;
    }
    if (err == 0) {
        memcpy(ret, data, size);
    }
    return err;
}

int object_store_lock(struct os_env *env, const char *metadata_dir, struct os_file **ret) {
    CLEANUP_FREE char *path = object_path(metadata_dir, OBJECT_LOCK_FILE);
    struct os_file *file;
    int err = path == NULL ? -HL_ERR_NOMEM : os_mkdir_all(env->fs, metadata_dir);
    if (err == 0) {
        err = os_open(env->fs, path, OS_OPEN_WRITE | OS_OPEN_CREATE, &file);
    }
    if (err < 0) {
        LOG_ERROR("object", "cannot use metadata_dir %s: %s (does this user own it?)", metadata_dir,
                  error_text(err));
        return err;
    }
    err = os_file_lock(file);
    if (err < 0) {
        os_file_close(file);
        LOG_ERROR("object", "metadata_dir %s is in use by another process: stop it first",
                  metadata_dir);
        return err;
    }
    *ret = file;
    return 0;
}

/* A data directory that was used before, while metadata_dir is new: metadata_dir was lost or is
 * another one. */
static int check_unused_dirs(struct os_env *env, const struct object_options *options) {
    for (uint32_t i = 0; i < options->data.volumes.dir_count; i++) {
        const char *dir = options->data.volumes.dirs[i].path;
        bool there;
        int err = file_exists(env, dir, VOLUME_MARKER_NAME, &there);
        if (err == 0 && there) {
            LOG_ERROR(
                "object",
                "data_dir %s holds data, but metadata_dir %s is new: correct the path, or run "
                "`hayloft rebuild` to make the metadata again from the data",
                dir, options->metadata_dir);
            return -HL_ERR_WRONG_CLUSTER;
        }
        if (err < 0 && err != -HL_ERR_NOT_FOUND) {
            return err;
        }
    }
    return 0;
}

/* cluster.id and node.key, made on the first start. */
static int load_identity(struct object_store *store, const struct object_options *options,
                         bool *ret_first) {
    struct os_env *env = store->env;
    const char *dir = store->metadata_dir;
    uint8_t node_key[32];
    int err = file_exists(env, dir, OBJECT_START_FILE, ret_first);
    if (err < 0) {
        return err;
    }
    err = file_read(env, dir, OBJECT_CLUSTER_FILE, store->cluster_id, sizeof(store->cluster_id));
    if (err == -HL_ERR_NOT_FOUND) {
        err = check_unused_dirs(env, options);
        if (err == 0) {
            err = file_write(env, dir, OBJECT_START_FILE, "", 0);
        }
        if (err == 0) {
            os_random_bytes(env->random, store->cluster_id, sizeof(store->cluster_id));
            err = file_write(env, dir, OBJECT_CLUSTER_FILE, store->cluster_id,
                             sizeof(store->cluster_id));
        }
        *ret_first = true;
        FAILPOINT("object.open.identity");
    }
    if (err < 0) {
        return err;
    }
    err = file_read(env, dir, OBJECT_NODE_FILE, node_key, sizeof(node_key));
    if (err == -HL_ERR_NOT_FOUND) {
        os_random_bytes(env->random, node_key, sizeof(node_key));
        err = file_write(env, dir, OBJECT_NODE_FILE, node_key, sizeof(node_key));
    }
    wipe(node_key, sizeof(node_key));
    return err;
}

static int end_first_start(struct object_store *store) {
    CLEANUP_FREE char *path = object_path(store->metadata_dir, OBJECT_START_FILE);
    int err = path == NULL ? -HL_ERR_NOMEM : os_unlink(store->env->fs, path);
    return err < 0 && err != -HL_ERR_NOT_FOUND ? err
                                               : os_dir_sync(store->env->fs, store->metadata_dir);
}

static int check_rebuild(struct object_store *store) {
    bool begun;
    int err = file_exists(store->env, store->metadata_dir, OBJECT_REBUILD_FILE, &begun);
    if (err == 0 && begun) {
        LOG_ERROR("object",
                  "a rebuild of %s was begun and not finished: run `hayloft rebuild` again",
                  store->metadata_dir);
        err = -HL_ERR_BAD_FORMAT;
    }
    return err;
}

/* ---- the sink: what entries carry goes to data ---- */

static struct data *data_of(void *ctx) {
    return ((struct object_store *)ctx)->data;
}
static int sink_head(void *ctx, struct kv_batch *batch, struct body_id id, struct slice row_key,
                     struct slice row_value, struct slice body, bool replay) {
    return data_apply_head(data_of(ctx), batch, id, row_key, row_value, body, replay);
}
static int sink_commit(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count) {
    return data_apply_commit(data_of(ctx), batch, first, count);
}
static int sink_release(void *ctx, struct kv_batch *batch, struct body_id first, uint64_t count,
                        bool head) {
    return data_apply_free(data_of(ctx), batch, first, count, head);
}
static int sink_config(void *ctx, struct kv_batch *batch, struct slice row_key,
                       struct slice row_value, uint64_t sequence) {
    return data_apply_config(data_of(ctx), batch, row_key, row_value, sequence);
}
static int sink_room(void *ctx, uint64_t bytes) {
    return data_admit(data_of(ctx), bytes);
}
static int sink_turn_end(void *ctx, struct kv_batch *batch) {
    return data_turn_end(data_of(ctx), batch);
}
static void sink_turn_applied(void *ctx) {
    data_turn_applied(data_of(ctx));
}
static int sink_replay_head(void *ctx, struct kv_batch *batch, struct body_id id,
                            struct slice row_key, struct slice row_value, struct slice body) {
    return data_replay_head(data_of(ctx), batch, id, row_key, row_value, body);
}
static int sink_checkpoint_begin(void *ctx, struct kv_batch *batch) {
    return data_checkpoint_begin(data_of(ctx), batch);
}
static int sink_checkpoint_sync(void *ctx) {
    int err = object_space_for_flush(ctx);
    return err < 0 ? err : data_checkpoint_sync(data_of(ctx));
}
static int sink_checkpoint_done(void *ctx) {
    return data_checkpoint_done(data_of(ctx));
}

static struct meta_sink sink_of(struct object_store *store) {
    return (struct meta_sink){.ctx = store,
                              .head = sink_head,
                              .commit = sink_commit,
                              .release = sink_release,
                              .config = sink_config,
                              .room = sink_room,
                              .turn_end = sink_turn_end,
                              .turn_applied = sink_turn_applied,
                              .replay_head = sink_replay_head,
                              .checkpoint_begin = sink_checkpoint_begin,
                              .checkpoint_sync = sink_checkpoint_sync,
                              .checkpoint_done = sink_checkpoint_done};
}

static int run_local(void *ctx, data_local_fn fn, void *arg) {
    return meta_run_local(ctx, fn, arg);
}

/* ---- opening ---- */

/* RocksDB writes some files when it opens, and aborts the process when it cannot. */
static int check_room_to_open(struct os_env *env, const char *metadata_dir) {
    struct os_space space;
    int err = os_space(env->fs, metadata_dir, &space);
    if (err == 0 && (space.bytes_free < OPEN_BYTES_MIN || space.inodes_free < OPEN_INODES_MIN)) {
        LOG_ERROR(
            "object",
            "the disk of metadata_dir %s is full (%llu KiB and %llu inodes free; a start needs "
            "%u KiB and %u): make room there; nothing is lost",
            metadata_dir, (unsigned long long)(space.bytes_free >> 10),
            (unsigned long long)space.inodes_free, OPEN_BYTES_MIN >> 10, OPEN_INODES_MIN);
        err = -HL_ERR_NO_SPACE;
    }
    return err;
}

/* RocksDB would leave a directory behind, which then is in the way of the one that is put back. */
static int check_kv_there(struct os_env *env, const char *path) {
    bool there = false;
    int err = file_exists(env, path, "CURRENT", &there);
    if (err == 0 && !there) {
        LOG_ERROR(
            "object",
            "%s is missing or holds no names: is metadata_dir right, and its disk mounted? If "
            "it is lost, `hayloft rebuild` makes it again from the data directories",
            path);
        err = -HL_ERR_MISSING;
    }
    return err;
}

int object_kv_open(struct os_env *env, const struct object_options *options, bool create,
                   struct kv **ret) {
    if (options->kv_mem != NULL) {
        return kv_open_mem(options->kv_mem, env->random, ret);
    }
    CLEANUP_FREE char *path = object_path(options->metadata_dir, "kv");
    struct kv_options kv_options = options->kv;
    kv_options.create = create;
    int err = path == NULL ? -HL_ERR_NOMEM : check_room_to_open(env, options->metadata_dir);
    if (err == 0 && !create) {
        err = check_kv_there(env, path);
    }
    if (err < 0) {
        return err;
    }
    err = kv_open_rocks(path, &kv_options, ret);
    if (err < 0) {
        LOG_ERROR("object",
                  "cannot open %s: if it is lost or damaged, `hayloft rebuild` makes it again from "
                  "the data directories",
                  path == NULL ? "kv" : path);
    }
    return err;
}

/* Fail-stop: after a write of unknown durability nothing may be answered any more. */
static void store_fatal(void *ctx, int err) {
    struct object_store *store = ctx;
    if (store->fatal != NULL) {
        store->fatal(store->fatal_ctx, err);
        return;
    }
    if (store->threads) {
        LOG_ERROR("object", "stopping: %s; start again to recover", error_text(err));
        _exit(70);
    }
}

static uint64_t row_sequence(struct slice row_key, struct slice row_value) {
    struct object_record record;
    bool is_object = row_key.size > 0 && row_key.data[0] == KEYS_OBJECT;
    return is_object && object_record_peek(row_value, &record) == 0 ? record.sequence : 0;
}

static int open_data(struct object_store *store, const struct object_options *options, bool first) {
    struct data_options data_options = options->data;
    data_options.first_start = first;
    data_options.row_sequence = row_sequence;
    data_options.block_bytes = store->block_bytes;
    data_options.volumes.cluster_id = store->cluster_id;
    CLEANUP_FREE struct volume_dir *dirs = NULL;
    if (!first) {
        int err = object_dirs_prepare(store->env, options, &dirs);
        if (err < 0) {
            return err;
        }
        data_options.volumes.dirs = dirs;
    }
    return data_open(store->env, store->kv, &data_options, &store->data);
}

static int open_meta(struct object_store *store, const struct object_options *options) {
    CLEANUP_FREE char *log_path = object_path(store->metadata_dir, "log");
    struct meta_sink sink = sink_of(store);
    struct meta_options meta_options = options->meta;
    if (log_path == NULL) {
        return -HL_ERR_NOMEM;
    }
    if (meta_options.log_path == NULL) {
        meta_options.log_path = log_path;
    }
    object_space_limit_log(store, &meta_options);
    meta_options.log.cluster_id = store->cluster_id;
    meta_options.fatal = store_fatal;
    meta_options.fatal_ctx = store;
    store->fatal = options->meta.fatal;
    store->fatal_ctx = options->meta.fatal_ctx;
    int err = os_mkdir_all(store->env->fs, meta_options.log_path);
    return err < 0 ? err : meta_open(store->env, store->kv, &sink, &meta_options, &store->meta);
}

/* Nothing was ever applied, yet the volumes hold bodies: the names are gone, and what follows would
 * call all of it garbage. */
static int refuse_lost_names(struct object_store *store) {
    struct meta_stats meta;
    struct data_stats data;
    meta_stats(store->meta, &meta);
    data_stats(store->data, &data);
    if (meta.applied_index > 0 || data.staged_bytes == 0) {
        return 0;
    }
    LOG_ERROR("object", "the metadata is empty but the data directories hold objects: put the "
                        "right metadata_dir back, or run: "
                        "hayloft rebuild");
    return -HL_ERR_CORRUPT;
}

/* The volumes hold commits that neither kv nor log knows, though each is in the log first: an older
 * copy of the metadata was put back. What follows would call the newer objects garbage. */
static int refuse_old_names(struct object_store *store) {
    struct meta_stats meta;
    meta_stats(store->meta, &meta);
    uint64_t sequence = data_leftover_sequence(store->data);
    if (sequence <= meta.sequence) {
        return 0;
    }
    LOG_ERROR("object",
              "metadata_dir %s is older than the data: it ends at commit %" PRIu64
              ", the data directories hold %" PRIu64 ": put the right metadata_dir back, or run: "
              "hayloft rebuild",
              store->metadata_dir, meta.sequence, sequence);
    return -HL_ERR_CORRUPT;
}

/* Everything that a crash left behind is settled here; then the directory is read. */
static int recover(struct object_store *store) {
    data_set_local_runner(store->data, run_local, store->meta);
    int err = directory_new(store);
    if (err == 0) {
        err = data_recover_scan(store->data);
    }
    if (err == 0) {
        FAILPOINT("object.open.scanned");
        err = meta_recover(store->meta);
    }
    if (err == 0) {
        FAILPOINT("object.open.replayed");
        err = refuse_lost_names(store);
    }
    if (err == 0) {
        err = refuse_old_names(store);
    }
    if (err == 0) {
        err = data_recover_done(store->data);
    }
    return err < 0 ? err : directory_load(store);
}

static int open_parts(struct object_store *store, const struct object_options *options) {
    bool first = false;
    int err = check_rebuild(store);
    if (err == 0) {
        err = load_identity(store, options, &first);
    }
    if (err == 0) {
        err = object_kv_open(store->env, options, first, &store->kv);
    }
    if (err == 0) {
        err = open_data(store, options, first);
    }
    if (err == 0) {
        err = open_meta(store, options);
    }
    if (err == 0) {
        err = recover(store);
    }
    if (err == 0) {
        err = object_dirs_remember(store->env, options);
    }
    if (err == 0 && first) {
        err = end_first_start(store);
    }
    return err;
}

static void run_now(struct executor *executor, struct task *task) {
    task->run(task);
}
static struct executor inline_executor = {run_now};

static struct object_store *store_new(struct os_env *env, const struct object_options *options) {
    struct object_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->env = env;
    object_space_init(store);
    store->metadata_dir = strdup(options->metadata_dir);
    store->workers = options->workers != NULL ? options->workers : &inline_executor;
    store->inline_max = options->inline_max != 0 ? options->inline_max : OBJECT_INLINE_MAX_DEFAULT;
    store->block_bytes =
        options->data.block_bytes != 0 ? options->data.block_bytes : OBJECT_BLOCK_BYTES_DEFAULT;
    store->checkpoint_log_bytes = options->meta.checkpoint_log_bytes != 0
                                      ? options->meta.checkpoint_log_bytes
                                      : OBJECT_CHECKPOINT_LOG_BYTES_DEFAULT;
    store->threads = options->threads;
    store->step_workers = options->step_workers;
    if (store->metadata_dir == NULL) {
        object_space_done(store);
        free(store);
        return NULL;
    }
    return store;
}

/* Half-built is fine. */
static void store_free(struct object_store *store) {
    meta_close(store->meta);
    data_close(store->data);
    kv_close(store->kv);
    directory_free(store->directory);
    os_file_close(store->lock);
    object_space_done(store);
    free(store->metadata_dir);
    free(store);
}

int object_store_open(struct os_env *env, const struct object_options *options,
                      struct object_store **ret) {
    struct object_store *store = store_new(env, options);
    if (store == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = object_store_lock(env, store->metadata_dir, &store->lock);
    if (err == 0) {
        err = open_parts(store, options);
    }
    if (err == 0 && store->threads) {
        err = meta_start(store->meta);
        err = err < 0 ? err : maintenance_start(store);
    }
    if (err < 0) {
        LOG_ERROR("object", "cannot open the store in %s: %s", options->metadata_dir,
                  error_text(err));
        store_free(store);
        return err;
    }
    *ret = store;
    return 0;
}

void object_store_close(struct object_store *store) {
    if (store == NULL) {
        return;
    }
    maintenance_stop(store);
    if (!meta_failed(store->meta)) {
        int err = meta_checkpoint(store->meta);
        if (err < 0) {
            LOG_WARN("object", "no checkpoint at the end (%s): the next start replays the log",
                     error_text(err));
        }
    }
    store_free(store);
}

/* ---- parts for others ---- */

struct meta *object_meta(struct object_store *store) {
    return store->meta;
}
struct data *object_data(struct object_store *store) {
    return store->data;
}
struct os_env *object_env(struct object_store *store) {
    return store->env;
}
const uint8_t *object_cluster_id(struct object_store *store) {
    return store->cluster_id;
}
