/* What a rebuild does with the metadata that it replaces: it looks before it touches anything
 * whether all data directories are there, moves kv and log aside (never deletes them), and takes
 * over what no volume holds: access keys and permissions. Their secrets go from one kv to the other
 * and nowhere else.
 *
 * The mark of a rebuild that has begun names the first directory that it moved something to, so
 * that after an interruption the keys come from what was moved first, and never from what the
 * rebuild itself had half made, nor from before an older rebuild. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "object/object_int.h"
#include "object/rebuild_old.h"
#include "volume/volume_format.h"
#include "volume/volume_record.h"

#define ASIDE_MAX 1000u

static int exists(struct os_env *env, const char *path, bool *ret) {
    uint64_t size;
    bool is_dir;
    int err = os_stat(env->fs, path, &size, &is_dir);
    *ret = err == 0;
    return err == -HL_ERR_NOT_FOUND ? 0 : err;
}

/* ---- the data directories ---- */

static int read_marker(struct os_env *env, const char *dir, uint8_t ret_cluster_id[16]) {
    CLEANUP_FREE char *path = object_path(dir, VOLUME_MARKER_NAME);
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size;
    uint8_t uuid[16];
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_load(env->fs, path, 4096, &bytes, &size);
    if (err == 0) {
        err = volume_marker_decode(slice_of(bytes, size), ret_cluster_id, uuid);
    }
    if (err < 0) {
        LOG_ERROR("object",
                  "data_dir %s has no usable marker %s (%s): is it the right directory, and is its "
                  "disk mounted? Nothing was changed",
                  dir, VOLUME_MARKER_NAME,
                  err == -HL_ERR_NOT_FOUND ? "it is missing" : error_text(err));
        return err == -HL_ERR_NOMEM || err == -HL_ERR_IO ? err : -HL_ERR_NO_MARKER;
    }
    return 0;
}

static int check_volumes(struct os_env *env, const char *dir) {
    CLEANUP_FREE char *path = object_path(dir, "volumes");
    bool there = false;
    int err = path == NULL ? -HL_ERR_NOMEM : exists(env, path, &there);
    if (err == 0 && !there) {
        LOG_ERROR(
            "object",
            "%s is missing: put it back, or, if its volumes are lost for good, make it anew and "
            "empty; nothing was changed",
            path);
        err = -HL_ERR_MISSING;
    }
    return err;
}

/* Held by nobody else? A server that runs keeps it. */
static int try_lock(struct os_env *env, const char *dir) {
    CLEANUP_FREE char *path = object_path(dir, OBJECT_LOCK_FILE);
    struct os_file *file;
    int err = path == NULL ? -HL_ERR_NOMEM : os_open(env->fs, path, OS_OPEN_WRITE, &file);
    if (err == -HL_ERR_NOT_FOUND || err == -HL_ERR_READ_ONLY) {
        return 0;
    }
    if (err < 0) {
        LOG_ERROR("object", "cannot open %s: %s", path == NULL ? dir : path, error_text(err));
        return err;
    }
    err = os_file_lock(file);
    os_file_close(file);
    if (err < 0) {
        LOG_ERROR("object", "%s is in use by another process: stop the server first", dir);
    }
    return err;
}

int object_old_check(struct os_env *env, const struct object_options *options) {
    uint8_t first[16], cluster_id[16];
    for (uint32_t i = 0; i < options->data.volumes.dir_count; i++) {
        const char *dir = options->data.volumes.dirs[i].path;
        int err = read_marker(env, dir, cluster_id);
        if (err == 0 && i == 0) {
            memcpy(first, cluster_id, sizeof(first));
        }
        if (err == 0 && memcmp(first, cluster_id, sizeof(first)) != 0) {
            LOG_ERROR("object", "data_dir %s and %s belong to two stores: correct the paths",
                      options->data.volumes.dirs[0].path, dir);
            err = -HL_ERR_WRONG_CLUSTER;
        }
        err = err < 0 ? err : check_volumes(env, dir);
        err = err < 0 ? err : try_lock(env, dir);
        if (err < 0) {
            return err;
        }
    }
    return 0;
}

/* ---- moving aside ---- */

static char *aside_path(const struct object_old *old, uint32_t n) {
    char name[40];
    snprintf(name, sizeof(name), "before-rebuild-%" PRIu32, n);
    return object_path(old->options->metadata_dir, name);
}

/* The first number from n on that no directory has. */
static int free_aside(const struct object_old *old, uint32_t n, uint32_t *ret) {
    for (; n < ASIDE_MAX; n++) {
        CLEANUP_FREE char *path = aside_path(old, n);
        bool there;
        int err = path == NULL ? -HL_ERR_NOMEM : exists(old->env, path, &there);
        if (err < 0) {
            return err;
        }
        if (!there) {
            *ret = n;
            return 0;
        }
    }
    LOG_ERROR("object", "too many before-rebuild-* in %s: remove some", old->options->metadata_dir);
    return -HL_ERR_EXISTS;
}

int object_old_begin(struct object_old *old) {
    CLEANUP_FREE char *path = object_path(old->options->metadata_dir, OBJECT_REBUILD_FILE);
    CLEANUP_FREE uint8_t *text = NULL;
    char mark[24];
    size_t size;
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_load(old->env->fs, path, 64, &text, &size);
    if (err == 0) { /* empty: of a version that did not say */
        unsigned long n = strtoul((const char *)text, NULL, 10);
        old->first_aside = n < ASIDE_MAX ? (uint32_t)n : 0;
        return 0;
    }
    if (err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    err = free_aside(old, 1, &old->first_aside);
    if (err < 0) {
        return err;
    }
    int length = snprintf(mark, sizeof(mark), "%" PRIu32 "\n", old->first_aside);
    return os_file_replace(old->env->fs, path, mark, (size_t)length);
}

struct mover {
    struct os_env *env;
    const char *from, *to;
};

static int move_one(const char *name, bool is_dir, void *arg) {
    const struct mover *mover = arg;
    CLEANUP_FREE char *from = object_path(mover->from, name);
    CLEANUP_FREE char *to = object_path(mover->to, name);
    return from == NULL || to == NULL ? -HL_ERR_NOMEM : os_rename(mover->env->fs, from, to);
}

/* The files of a directory that holds only files. */
static int move_files(const struct object_old *old, const char *name, const char *aside) {
    CLEANUP_FREE char *from = object_path(old->options->metadata_dir, name);
    CLEANUP_FREE char *to = object_path(aside, name);
    struct mover mover = {old->env, from, to};
    bool there;
    int err = from == NULL || to == NULL ? -HL_ERR_NOMEM : exists(old->env, from, &there);
    if (err < 0 || !there) {
        return err;
    }
    err = os_mkdir(old->env->fs, to);
    err = err < 0 ? err : os_list(old->env->fs, from, move_one, &mover);
    err = err < 0 ? err : os_dir_sync(old->env->fs, to);
    return err < 0 ? err : os_dir_sync(old->env->fs, from);
}

static int move_directory(const struct object_old *old, const char *name, const char *aside) {
    CLEANUP_FREE char *from = object_path(old->options->metadata_dir, name);
    CLEANUP_FREE char *to = object_path(aside, name);
    bool there;
    int err = from == NULL || to == NULL ? -HL_ERR_NOMEM : exists(old->env, from, &there);
    return err < 0 || !there ? err : os_rename(old->env->fs, from, to);
}

int object_old_move(struct object_old *old) {
    uint32_t n = MAX(old->first_aside, 1u);
    int err = free_aside(old, n, &n);
    if (err < 0) {
        return err;
    }
    CLEANUP_FREE char *aside = aside_path(old, n);
    err = aside == NULL ? -HL_ERR_NOMEM : os_mkdir(old->env->fs, aside);
    err = err < 0 ? err : move_directory(old, "kv", aside);
    err = err < 0 ? err : move_files(old, "log", aside);
    err = err < 0 ? err : os_dir_sync(old->env->fs, aside);
    err = err < 0 ? err : os_dir_sync(old->env->fs, old->options->metadata_dir);
    if (err == 0) {
        LOG_INFO("object", "the old metadata is in %s", aside);
    }
    return err;
}

/* ---- access keys and permissions ---- */

static int read_table(struct object_old *old, struct kv *kv, uint8_t table, uint64_t *count) {
    uint8_t end = table + 1;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(kv, KV_META, slice_of(&table, 1), slice_of(&end, 1));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        buf_append_blob(&old->rows, kv_iter_key(iter));
        buf_append_blob(&old->rows, kv_iter_value(iter));
        ++*count;
    }
    return old->rows.failed ? -HL_ERR_NOMEM : kv_iter_error(iter);
}

int object_old_read_kv(struct object_old *old, struct kv *kv) {
    uint64_t keys = 0, permissions = 0;
    int err = read_table(old, kv, KEYS_ACCESS_KEY, &keys);
    if (err == 0) {
        err = read_table(old, kv, KEYS_PERMISSION, &permissions);
    }
    if (err < 0) {
        LOG_WARN("object", "access keys cannot be read from the old metadata: %s", error_text(err));
        buf_clear(&old->rows);
        return err == -HL_ERR_NOMEM ? err : 0;
    }
    old->known = true;
    old->keys = keys;
    return 0;
}

/* What was moved first is what the server had. */
static int find_kv(const struct object_old *old, char **ret) {
    for (uint32_t n = old->first_aside; n > 0 && n < ASIDE_MAX; n++) {
        CLEANUP_FREE char *aside = aside_path(old, n);
        CLEANUP_FREE char *path = aside == NULL ? NULL : object_path(aside, "kv");
        bool there;
        int err = path == NULL ? -HL_ERR_NOMEM : exists(old->env, aside, &there);
        if (err < 0 || !there) {
            return err < 0 ? err : -HL_ERR_NOT_FOUND;
        }
        err = exists(old->env, path, &there);
        if (err < 0) {
            return err;
        }
        if (there) {
            *ret = TAKE_PTR(path);
            return 0;
        }
    }
    return -HL_ERR_NOT_FOUND;
}

int object_old_read(struct object_old *old) {
    CLEANUP_FREE char *path = NULL;
    struct kv_options kv_options = old->options->kv;
    struct kv *kv;
    int err = find_kv(old, &path);
    if (err < 0) {
        return err == -HL_ERR_NOT_FOUND ? 0 : err;
    }
    kv_options.create = false;
    err = kv_open_rocks(path, &kv_options, &kv);
    if (err < 0) {
        LOG_WARN("object", "%s cannot be opened: access keys and permissions are lost with it",
                 path);
        return err == -HL_ERR_NOMEM ? err : 0;
    }
    err = object_old_read_kv(old, kv);
    kv_close(kv);
    return err;
}

void object_old_put(const struct object_old *old, struct kv_batch *batch) {
    struct reader r = reader_of(buf_slice(&old->rows));
    while (reader_left(&r) > 0) {
        struct slice key = reader_blob(&r);
        struct slice value = reader_blob(&r);
        CHECK(!r.failed);
        kv_batch_put(batch, KV_META, key, value);
    }
}

int object_old_settle(struct object_old *old, struct kv *kv, struct kv_batch *batch,
                      uint64_t *bucket_max) {
    static const uint8_t first = KEYS_PERMISSION, end = KEYS_PERMISSION + 1;
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(kv, KV_META, slice_of(&first, 1), slice_of(&end, 1));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        CLEANUP_KV_VALUE struct kv_value value = {0};
        CLEANUP_BUF struct buf bucket = {0};
        struct slice key = kv_iter_key(iter);
        uint64_t id = key.size >= 9 ? get_be64(key.data + 1) : 0;
        keys_bucket(&bucket, id);
        int err = bucket.failed ? -HL_ERR_NOMEM : kv_get(kv, KV_META, buf_slice(&bucket), &value);
        if (err == -HL_ERR_NOT_FOUND) {
            kv_batch_delete(batch, KV_META, key);
        } else if (err < 0) {
            return err;
        } else {
            old->permissions++;
        }
        *bucket_max = MAX(*bucket_max, id);
    }
    return kv_iter_error(iter);
}

void object_old_done(struct object_old *old) {
    if (old->rows.data != NULL) {
        wipe(old->rows.data, old->rows.size);
    }
    buf_done(&old->rows);
}
