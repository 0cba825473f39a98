/* A data directory: its marker (so that an unmounted disk is noticed and never written beneath),
 * its lock, and the volume files found in it. Runs on the opening thread only. Invariant: in a
 * directory without a valid marker of this cluster nothing is created, unless it is the very first
 * start. */
#include <stdio.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "volume/volume_int.h"

#define MARKER_BYTES_MAX 4096

static char *path_join(const char *dir, const char *name) {
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/%s", dir, name);
    }
    return path;
}

/* "000012.vol" gives 12. */
static bool parse_volume_name(const char *name, uint32_t *ret) {
    size_t digits = strspn(name, "0123456789");
    if (digits < 6 || digits > 10 || strcmp(name + digits, ".vol") != 0) {
        return false;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    if (number == 0 || number > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)number;
    return true;
}

static int note_volume(const char *name, bool is_dir, void *arg) {
    uint32_t number;
    if (!is_dir && parse_volume_name(name, &number)) {
        *(bool *)arg = true;
    }
    return 0;
}

static int lock_directory(struct volume_set *set, struct volume_directory *dir) {
    CLEANUP_FREE char *path = path_join(dir->path, "LOCK");
    if (path == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = os_open(set->env->fs, path, OS_OPEN_WRITE | OS_OPEN_CREATE, &dir->lock);
    if (err == -HL_ERR_READ_ONLY) {
        LOG_WARN("volume", "%s is on a read-only file system: nothing new is stored there",
                 dir->path);
        dir->read_only = true;
        return 0;
    }
    if (err != 0) {
        LOG_ERROR("volume", "cannot open %s: %s", path, error_text(err));
        return err;
    }
    err = os_file_lock(dir->lock);
    if (err == -HL_ERR_LOCKED) {
        LOG_ERROR("volume", "%s is in use by another process; stop that one first", dir->path);
    }
    return err;
}

/* The very first start in a directory that holds no volumes. */
static int create_directory(struct volume_set *set, struct volume_directory *dir,
                            const char *marker_path) {
    struct os_fs *fs = set->env->fs;
    int err = os_mkdir_all(fs, dir->path);
    if (err != 0) {
        LOG_ERROR("volume", "cannot create %s: %s", dir->path, error_text(err));
        return err;
    }
    bool has_volumes = false;
    err = os_list(fs, dir->volumes_path, note_volume, &has_volumes);
    if (err != 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    if (has_volumes) {
        LOG_ERROR("volume",
                  "%s holds volumes but no valid marker file; if the disk is the right one, see "
                  "docs/operations.md on restoring hayloft-marker",
                  dir->path);
        return -HL_ERR_NO_MARKER;
    }
    err = lock_directory(set, dir);
    if (err != 0) {
        return err;
    }
    err = os_mkdir_all(fs, dir->volumes_path);
    if (err != 0) {
        LOG_ERROR("volume", "cannot create %s: %s", dir->volumes_path, error_text(err));
        return err;
    }
    FAILPOINT("volume.marker.before");
    uint8_t uuid[16];
    os_random_bytes(set->env->random, uuid, sizeof(uuid));
    struct volume_marker_disk marker;
    volume_marker_encode(set->cluster_id, uuid, &marker);
    err = os_file_replace(fs, marker_path, &marker, sizeof(marker));
    if (err != 0) {
        LOG_ERROR("volume", "cannot write %s: %s", marker_path, error_text(err));
        return err;
    }
    FAILPOINT("volume.marker.written");
    return 0;
}

/* What a start that a crash cut may have left is empty as well. */
static int note_other(const char *name, bool is_dir, void *arg) {
    bool known = strcmp(name, "lost+found") == 0 || strcmp(name, "LOCK") == 0 ||
                 strcmp(name, "volumes") == 0 ||
                 strncmp(name, VOLUME_MARKER_NAME, strlen(VOLUME_MARKER_NAME)) == 0;
    *(bool *)arg |= !known;
    return 0;
}

/* A directory that joins a store. It must be there, so that a mistyped path is noticed. */
static int add_directory(struct volume_set *set, struct volume_directory *dir,
                         const char *marker_path) {
    bool has_others = false;
    int err = os_list(set->env->fs, dir->path, note_other, &has_others);
    if (err == -HL_ERR_NOT_FOUND) {
        LOG_ERROR("volume", "%s is not there; if it is a new data directory, make it first",
                  dir->path);
        return -HL_ERR_NO_MARKER;
    }
    if (err == 0 && has_others) {
        LOG_ERROR("volume",
                  "%s has no marker file %s and is not empty: is it the right directory? A new "
                  "data directory must be empty",
                  dir->path, VOLUME_MARKER_NAME);
        return -HL_ERR_NO_MARKER;
    }
    err = err != 0 ? err : create_directory(set, dir, marker_path);
    if (err == 0) {
        LOG_INFO("volume", "%s is a new data directory", dir->path);
    }
    return err;
}

static int check_marker(struct volume_set *set, struct volume_directory *dir, struct slice bytes,
                        const char *marker_path) {
    uint8_t cluster_id[16], uuid[16];
    int err = volume_marker_decode(bytes, cluster_id, uuid);
    if (err != 0) {
        LOG_ERROR("volume", "%s is damaged or of an unknown version; put it back from a backup",
                  marker_path);
        return err == -HL_ERR_CORRUPT ? -HL_ERR_NO_MARKER : err;
    }
    if (memcmp(cluster_id, set->cluster_id, sizeof(cluster_id)) != 0) {
        LOG_ERROR("volume", "%s belongs to another cluster; check data_dir and metadata_dir",
                  dir->path);
        return -HL_ERR_WRONG_CLUSTER;
    }
    return lock_directory(set, dir);
}

struct open_context {
    struct volume_set *set;
    uint32_t dir;
};

static int open_volume(const char *name, bool is_dir, void *arg) {
    struct open_context *context = arg;
    uint32_t number;
    if (is_dir || !parse_volume_name(name, &number)) {
        return 0;
    }
    struct volume_set *set = context->set;
    if (volume_find(set, number) != NULL) {
        LOG_ERROR("volume", "volume %s is in two data directories, the second is %s", name,
                  set->dirs[context->dir].path);
        return -HL_ERR_BAD_FORMAT;
    }
    struct volume_file *file;
    int err = volume_file_open(set, context->dir, name, number, &file);
    if (err != 0 || file == NULL) {
        return err;
    }
    err = volume_insert(set, file);
    if (err != 0) {
        volume_file_free(file);
        return err;
    }
    set->dirs[context->dir].used_bytes += file->append_off;
    if (number >= set->number_next && number < UINT32_MAX) {
        set->number_next = number + 1;
    }
    return 0;
}

/* The newest volume that has room goes on taking appends. */
static int choose_open_volume(struct volume_set *set, uint32_t index) {
    struct volume_directory *dir = &set->dirs[index];
    for (uint32_t i = set->file_count; i > 0 && !dir->read_only; i--) {
        struct volume_file *file = set->files[i - 1];
        if (file->dir != index || file->damaged) {
            continue;
        }
        if (file->append_off >= dir->volume_bytes_max) {
            break;
        }
        dir->used_bytes -= file->append_off;
        int err = volume_file_prepare_append(file);
        dir->used_bytes += file->append_off;
        if (err != 0) {
            return err;
        }
        file->sealed = false;
        dir->open = file;
        break;
    }
    return 0;
}

int volume_dir_open(struct volume_set *set, uint32_t index, bool first_start, bool is_new) {
    struct volume_directory *dir = &set->dirs[index];
    CLEANUP_FREE char *marker_path = path_join(dir->path, VOLUME_MARKER_NAME);
    dir->volumes_path = path_join(dir->path, "volumes");
    if (marker_path == NULL || dir->volumes_path == NULL) {
        return -HL_ERR_NOMEM;
    }
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size = 0;
    int err = os_file_load(set->env->fs, marker_path, MARKER_BYTES_MAX, &bytes, &size);
    if (err == -HL_ERR_NOT_FOUND && first_start) {
        err = create_directory(set, dir, marker_path);
    } else if (err == -HL_ERR_NOT_FOUND && is_new) {
        err = add_directory(set, dir, marker_path);
    } else if (err == -HL_ERR_NOT_FOUND) {
        LOG_ERROR("volume", "%s has no marker file %s: is the disk mounted?", dir->path,
                  VOLUME_MARKER_NAME);
        err = -HL_ERR_NO_MARKER;
    } else if (err != 0) {
        LOG_ERROR("volume", "cannot read %s: %s", marker_path, error_text(err));
    } else {
        err = check_marker(set, dir, slice_of(bytes, size), marker_path);
    }
    if (err != 0) {
        return err;
    }
    struct open_context context = {set, index};
    err = os_list(set->env->fs, dir->volumes_path, open_volume, &context);
    if (err == -HL_ERR_NOT_FOUND) {
        LOG_ERROR("volume",
                  "%s is missing: put it back with its volumes; if it was empty, or they are lost "
                  "for good, make it anew and run `hayloft rebuild`",
                  dir->volumes_path);
        return -HL_ERR_MISSING;
    }
    if (err != 0) {
        LOG_ERROR("volume", "cannot open the volumes of %s: %s", dir->path, error_text(err));
        return err;
    }
    return choose_open_volume(set, index);
}

void volume_dir_close(struct volume_directory *dir) {
    os_file_close(dir->lock);
    free(dir->path);
    free(dir->volumes_path);
}
