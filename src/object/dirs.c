/* The data directories that a store knows, kept in metadata_dir/data-dirs. A directory without a
 * marker is either new and empty, or the mount point of a disk that is away; nothing may be written
 * to the latter. The rule: without the file none is new; with it one is new when its path is
 * unknown, it has no marker, and every known directory is found. A known one is found at its path,
 * or by its uuid at a path that is not known (a disk that moved); uuids alone would not do, since
 * markers have been copied between directories. Opening thread only. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "object/dirs.h"
#include "object/dirs_format.h"
#include "object/object_int.h"
#include "volume/volume_format.h"
#include "volume/volume_record.h"

/* ---- what is there ---- */

/* NOT_FOUND without a marker; the volumes say what is wrong with a bad one. */
static int read_uuid(struct os_env *env, const char *dir, uint8_t ret_uuid[16]) {
    CLEANUP_FREE char *path = object_path(dir, VOLUME_MARKER_NAME);
    CLEANUP_FREE uint8_t *bytes = NULL;
    uint8_t cluster_id[16];
    size_t size;
    int err = path == NULL ? -HL_ERR_NOMEM : os_file_load(env->fs, path, 4096, &bytes, &size);
    return err < 0 ? err : volume_marker_decode(slice_of(bytes, size), cluster_id, ret_uuid);
}

static int load(struct os_env *env, const struct object_options *options, struct buf *ret) {
    CLEANUP_FREE char *path = object_path(options->metadata_dir, DIRS_FILE);
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size;
    int err =
        path == NULL ? -HL_ERR_NOMEM : os_file_load(env->fs, path, DIRS_BYTES_MAX, &bytes, &size);
    if (err == 0) {
        buf_append(ret, bytes, size);
        err = ret->failed ? -HL_ERR_NOMEM : 0;
    }
    return err;
}

/* ---- the file ---- */

struct known {
    struct slice path;
    struct slice uuid;
};

struct known_list {
    struct buf file;
    struct known *items; /* into file */
    uint32_t count;
};

static void known_done(struct known_list *list) {
    free(list->items);
    buf_done(&list->file);
}
#define CLEANUP_KNOWN CLEANUP(known_done)

static int decode(struct known_list *list) {
    struct slice bytes = buf_slice(&list->file);
    if (bytes.size < sizeof(struct dirs_header_disk) + 4 ||
        get_le32(bytes.data + bytes.size - 4) != crc32c(0, bytes.data, bytes.size - 4)) {
        return -HL_ERR_CORRUPT;
    }
    struct reader r = reader_of(slice_of(bytes.data, bytes.size - 4));
    if (reader_le32(&r) != DIRS_MAGIC) {
        return -HL_ERR_CORRUPT;
    }
    if (reader_le32(&r) != DIRS_VERSION) {
        return -HL_ERR_BAD_FORMAT;
    }
    uint32_t count = reader_le32(&r);
    if (count > reader_left(&r) / sizeof(struct dirs_entry_disk)) {
        return -HL_ERR_CORRUPT;
    }
    list->items = calloc(count + 1ull, sizeof(struct known));
    if (list->items == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (; list->count < count && !r.failed; list->count++) {
        list->items[list->count].uuid = reader_bytes(&r, 16);
        list->items[list->count].path = reader_bytes(&r, reader_le32(&r));
    }
    return r.failed || reader_left(&r) > 0 ? -HL_ERR_CORRUPT : 0;
}

/* NOT_FOUND: no file, or one that cannot be used. */
static int known_load(struct os_env *env, const struct object_options *options,
                      struct known_list *ret) {
    int err = load(env, options, &ret->file);
    err = err < 0 ? err : decode(ret);
    if (err == -HL_ERR_CORRUPT || err == -HL_ERR_LIMIT) {
        LOG_WARN("object", "%s/" DIRS_FILE " is damaged and made anew", options->metadata_dir);
        return -HL_ERR_NOT_FOUND;
    }
    if (err == -HL_ERR_BAD_FORMAT) {
        LOG_ERROR("object", "%s/" DIRS_FILE " is of a newer version of this program",
                  options->metadata_dir);
    }
    return err;
}

static int encode(struct os_env *env, const struct object_options *options, struct buf *out) {
    const struct volume_options *volumes = &options->data.volumes;
    buf_append_le32(out, DIRS_MAGIC);
    buf_append_le32(out, DIRS_VERSION);
    buf_append_le32(out, volumes->dir_count);
    for (uint32_t i = 0; i < volumes->dir_count; i++) {
        uint8_t uuid[16];
        int err = read_uuid(env, volumes->dirs[i].path, uuid);
        if (err < 0) {
            return err;
        }
        buf_append(out, uuid, sizeof(uuid));
        buf_append_le32(out, (uint32_t)strlen(volumes->dirs[i].path));
        buf_append_str(out, volumes->dirs[i].path);
    }
    buf_append_le32(out, crc32c(0, out->data, out->size));
    return out->failed ? -HL_ERR_NOMEM : 0;
}

int object_dirs_remember(struct os_env *env, const struct object_options *options) {
    CLEANUP_FREE char *path = object_path(options->metadata_dir, DIRS_FILE);
    CLEANUP_BUF struct buf before = {0};
    CLEANUP_BUF struct buf now = {0};
    int err = path == NULL ? -HL_ERR_NOMEM : encode(env, options, &now);
    if (err < 0) {
        return err;
    }
    err = load(env, options, &before);
    if (err == 0 && slice_equal(buf_slice(&before), buf_slice(&now))) {
        return 0;
    }
    FAILPOINT("object.open.dirs");
    err = os_file_replace(env->fs, path, now.data, now.size);
    if (err < 0) {
        LOG_ERROR("object", "cannot write %s: %s", path, error_text(err));
    }
    return err;
}

/* ---- what is new ---- */

struct found {
    bool has_marker;
    uint8_t uuid[16];
};

static bool path_known(const struct known_list *list, const char *path) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (slice_equal(list->items[i].path, slice_str(path))) {
            return true;
        }
    }
    return false;
}

static bool is_found(const struct known_list *list, const struct known *known,
                     const struct volume_options *volumes, const struct found *found) {
    for (uint32_t i = 0; i < volumes->dir_count; i++) {
        const char *path = volumes->dirs[i].path;
        bool same_path = slice_equal(known->path, slice_str(path));
        bool moved =
            slice_equal(known->uuid, slice_of(found[i].uuid, 16)) && !path_known(list, path);
        if (found[i].has_marker && (same_path || moved)) {
            return true;
        }
    }
    return false;
}

/* Sets is_new. */
static int judge(const struct known_list *list, const struct object_options *options,
                 const struct found *found, struct volume_dir *dirs) {
    const struct volume_options *volumes = &options->data.volumes;
    const struct known *away = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!is_found(list, &list->items[i], volumes, found)) {
            away = &list->items[i];
            LOG_WARN("object",
                     "data_dir %.*s belongs to this store and is not there: mount it, or put it "
                     "back into data_dir",
                     SLICE_PRINT(away->path));
        }
    }
    for (uint32_t i = 0; i < volumes->dir_count; i++) {
        dirs[i].is_new = !found[i].has_marker && !path_known(list, dirs[i].path);
        if (dirs[i].is_new && away != NULL) {
            LOG_ERROR("object",
                      "data_dir %s has no marker and is not taken for a new one while %.*s is not "
                      "there; nothing was written",
                      dirs[i].path, SLICE_PRINT(away->path));
            return -HL_ERR_NO_MARKER;
        }
    }
    return 0;
}

int object_dirs_prepare(struct os_env *env, const struct object_options *options,
                        struct volume_dir **ret) {
    const struct volume_options *volumes = &options->data.volumes;
    CLEANUP_FREE struct volume_dir *dirs = calloc(volumes->dir_count + 1ull, sizeof(*dirs));
    CLEANUP_FREE struct found *found = calloc(volumes->dir_count + 1ull, sizeof(*found));
    CLEANUP_KNOWN struct known_list list = {0};
    if (dirs == NULL || found == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < volumes->dir_count; i++) {
        dirs[i] = volumes->dirs[i];
        int err = read_uuid(env, dirs[i].path, found[i].uuid);
        /* Any other error: a marker that the volumes will complain of. */
        found[i].has_marker = err != -HL_ERR_NOT_FOUND;
    }
    int err = known_load(env, options, &list);
    if (err == 0) {
        err = judge(&list, options, found, dirs);
    } else if (err == -HL_ERR_NOT_FOUND) {
        err = 0;
    }
    if (err == 0) {
        *ret = TAKE_PTR(dirs);
    }
    return err;
}
