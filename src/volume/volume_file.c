/* One volume file: making it, opening it, and finding where appends may go.
 *
 * A new file is synced, with its header and its name, before anything uses it. So a file whose
 * header is unreadable is either the trace of a crash in that moment (no longer than the header:
 * deleted) or real damage (kept, reported, never removed by itself). Runs on whichever thread needs
 * a new volume, without the set's mutex. */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "volume/volume_int.h"

#define TAIL_WINDOW (256u << 10)

static struct volume_file *file_new(struct volume_set *set, uint32_t dir, uint32_t number,
                                    const char *name) {
    struct volume_file *file = calloc(1, sizeof(*file));
    const char *folder = set->dirs[dir].volumes_path;
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (file == NULL || path == NULL) {
        free(file);
        free(path);
        return NULL;
    }
    (void)snprintf(path, size, "%s/%s", folder, name);
    *file = (struct volume_file){.set = set,
                                 .number = number,
                                 .dir = dir,
                                 .path = path,
                                 .append_off = VOLUME_DATA_OFF,
                                 .sealed = true,
                                 .refs = 1};
    return file;
}

void volume_file_free(struct volume_file *file) {
    if (file == NULL) {
        return;
    }
    os_file_close(file->file);
    free(file->path);
    free(file);
}

static int create_on_disk(struct volume_set *set, struct volume_file *file) {
    struct os_fs *fs = set->env->fs;
    int err =
        os_open(fs, file->path, OS_OPEN_WRITE | OS_OPEN_CREATE | OS_OPEN_EXCLUSIVE, &file->file);
    if (err != 0) {
        return err;
    }
    struct volume_file_header header = {.number = file->number,
                                        .created_ms = os_wall_ms(set->env->clock)};
    memcpy(header.cluster_id, set->cluster_id, sizeof(header.cluster_id));
    os_random_bytes(set->env->random, header.uuid, sizeof(header.uuid));
    memcpy(file->uuid, header.uuid, sizeof(file->uuid));
    uint8_t bytes[VOLUME_DATA_OFF];
    volume_file_header_encode(&header, bytes);
    FAILPOINT("volume.create.opened");
    err = os_file_write(file->file, 0, bytes, sizeof(bytes));
    if (err != 0) {
        (void)os_unlink(fs, file->path);
        return err;
    }
    FAILPOINT("volume.create.written");
    err = os_file_sync(file->file);
    if (err == 0) {
        FAILPOINT("volume.create.synced");
        err = os_dir_sync(fs, set->dirs[file->dir].volumes_path);
    }
    if (err != 0) {
        volume_fail(set, file->path, err);
        return -HL_ERR_CRASHED;
    }
    FAILPOINT("volume.create.named");
    return 0;
}

int volume_file_create(struct volume_set *set, uint32_t dir, uint32_t number,
                       struct volume_file **ret) {
    char name[32];
    (void)snprintf(name, sizeof(name), "%06" PRIu32 ".vol", number);
    struct volume_file *file = file_new(set, dir, number, name);
    if (file == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = create_on_disk(set, file);
    if (err != 0) {
        LOG_ERROR("volume", "cannot create %s: %s", file->path, error_text(err));
        volume_file_free(file);
        return err;
    }
    file->sealed = false;
    *ret = file;
    return 0;
}

/* Reads the file header. An unreadable one marks the file damaged, which is no error. */
static int load_header(struct volume_set *set, struct volume_file *file) {
    uint8_t bytes[VOLUME_DATA_OFF];
    size_t size = 0;
    int err = os_file_read(file->file, 0, bytes, sizeof(bytes), &size);
    struct volume_file_header header;
    if (err == 0) {
        err = volume_file_header_decode(slice_of(bytes, size), &header);
    }
    if (err == -HL_ERR_BAD_FORMAT) {
        LOG_ERROR("volume", "%s was written by a newer version", file->path);
        return err;
    }
    if (err == -HL_ERR_IO || err == -HL_ERR_CORRUPT ||
        (err == 0 && header.number != file->number)) {
        file->damaged = true;
        return 0;
    }
    if (err != 0) {
        return err;
    }
    if (memcmp(header.cluster_id, set->cluster_id, sizeof(header.cluster_id)) != 0) {
        LOG_ERROR("volume", "%s belongs to another cluster", file->path);
        return -HL_ERR_WRONG_CLUSTER;
    }
    memcpy(file->uuid, header.uuid, sizeof(file->uuid));
    return 0;
}

static int open_on_disk(struct volume_set *set, struct volume_file *file, uint64_t *ret_size) {
    unsigned flags = set->dirs[file->dir].read_only ? OS_OPEN_READ : OS_OPEN_WRITE;
    int err = os_open(set->env->fs, file->path, flags, &file->file);
    if (err != 0) {
        return err;
    }
    err = os_file_size(file->file, ret_size);
    if (err != 0) {
        return err;
    }
    return load_header(set, file);
}

int volume_file_open(struct volume_set *set, uint32_t dir, const char *name, uint32_t number,
                     struct volume_file **ret) {
    struct volume_file *file = file_new(set, dir, number, name);
    if (file == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint64_t size = 0;
    int err = open_on_disk(set, file, &size);
    if (err != 0) {
        LOG_ERROR("volume", "cannot open %s: %s", file->path, error_text(err));
        volume_file_free(file);
        return err;
    }
    if (file->damaged && size <= VOLUME_DATA_OFF) {
        err = set->dirs[dir].read_only ? 0 : os_unlink(set->env->fs, file->path);
        volume_file_free(file);
        if (err == 0) {
            *ret = NULL;
        }
        return err;
    }
    if (file->damaged) {
        LOG_ERROR("volume", "%s: the file header is damaged, nothing in it can be read",
                  file->path);
    }
    file->append_off = MAX(ALIGN_UP(size, VOLUME_RECORD_ALIGN), VOLUME_DATA_OFF);
    /* A process that was killed may have left writes in the page cache only. */
    file->written_generation = 1;
    *ret = file;
    return 0;
}

/* After a power cut a header may be there whose record reaches beyond what else survived. Appending
 * right behind the file's end would put new records inside the extent that this header claims, and
 * a scan that trusts it would jump over them. So appends start behind everything that any header
 * claims. Only the last VOLUME_RECORD_MAX bytes can hold such a header. */
int volume_file_prepare_append(struct volume_file *file) {
    uint64_t end = file->append_off;
    uint64_t off = end > VOLUME_RECORD_MAX ? end - VOLUME_RECORD_MAX : 0;
    off = MAX(off / VOLUME_RECORD_ALIGN * VOLUME_RECORD_ALIGN, VOLUME_DATA_OFF);
    CLEANUP_FREE uint8_t *window = malloc(TAIL_WINDOW);
    if (window == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint64_t append_off = end;
    while (off + VOLUME_RECORD_HEADER <= end) {
        size_t size = 0;
        int err = os_file_read(file->file, off, window, TAIL_WINDOW, &size);
        if (err != 0) {
            return err;
        }
        if (size < VOLUME_RECORD_HEADER) {
            break;
        }
        size_t at = 0;
        for (; at + VOLUME_RECORD_HEADER <= size; at += VOLUME_RECORD_ALIGN) {
            struct volume_header header;
            if (volume_header_decode(window + at, file->uuid, file->number, off + at, &header)) {
                append_off = MAX(append_off, off + at + volume_header_record_size(&header));
            }
        }
        off += at;
    }
    file->append_off = append_off;
    return 0;
}
