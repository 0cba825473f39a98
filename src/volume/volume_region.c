/* Regions: reserved runs of a volume in which exactly one writer writes. Reserving only moves the
 * append offset, so many uploads stream into one volume at the same time and nothing is buffered.
 * Invariant: regions of a file never overlap, and the append offset moves back only over a region
 * in which no record header was written and behind which nothing lies. Any thread. */
#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "volume/volume_int.h"

static METRIC_DEFINE_COUNTER(metric_written, "hayloft_volume_written_bytes_total", NULL,
                             "Bytes written to volume files.");
static METRIC_DEFINE_COUNTER(metric_refused, "hayloft_volume_no_space_total", NULL,
                             "Writes refused because no directory had room.");

/* Gives dir a new open volume. Called and returns with the mutex held, drops it meanwhile. */
static int make_volume(struct volume_set *set, uint32_t index) {
    struct volume_directory *dir = &set->dirs[index];
    if (set->number_next == UINT32_MAX) {
        return -HL_ERR_LIMIT;
    }
    uint32_t number = set->number_next++;
    dir->creating = true;
    pthread_mutex_unlock(&set->mutex);
    struct volume_file *file = NULL;
    int err = volume_file_create(set, index, number, &file);
    pthread_mutex_lock(&set->mutex);
    dir->creating = false;
    pthread_cond_broadcast(&set->changed);
    if (err == -HL_ERR_NO_SPACE) {
        volume_space_stale(set, index);
    }
    if (err != 0) {
        return err;
    }
    err = volume_insert(set, file);
    if (err != 0) {
        volume_file_free(file);
        return err;
    }
    dir->open = file;
    dir->used_bytes += file->append_off;
    dir->device->written_since += file->append_off;
    return 0;
}

/* With the mutex held: an open volume with room left in a directory that has the space. */
static int find_open_volume(struct volume_set *set, uint64_t bytes, bool use_reserve,
                            struct volume_file **ret) {
    for (;;) {
        if (volume_failed(set)) {
            return -HL_ERR_CRASHED;
        }
        uint32_t index;
        int err = volume_space_choose(set, bytes, use_reserve, &index);
        if (err != 0) {
            return err;
        }
        struct volume_directory *dir = &set->dirs[index];
        if (dir->open != NULL && dir->open->append_off >= dir->volume_bytes_max) {
            dir->open->sealed = true;
            dir->open = NULL;
        }
        if (dir->open != NULL) {
            *ret = dir->open;
            return 0;
        }
        if (dir->creating) {
            pthread_cond_wait(&set->changed, &set->mutex);
            continue;
        }
        err = make_volume(set, index);
        if (err != 0) {
            return err;
        }
    }
}

int volume_region_open(struct volume_set *set, uint64_t bytes, bool use_reserve,
                       struct volume_region *ret) {
    metric_register(&metric_written);
    metric_register(&metric_refused);
    bytes = ALIGN_UP(bytes, VOLUME_RECORD_ALIGN);
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = NULL;
    int err = find_open_volume(set, bytes, use_reserve, &file);
    if (err == 0) {
        *ret = (struct volume_region){
            .file = file, .off = file->append_off, .bytes = bytes, .left = bytes};
        file->refs++;
        file->append_off += bytes;
        set->dirs[file->dir].used_bytes += bytes;
        set->dirs[file->dir].device->outstanding += bytes;
        ret->next = file->regions;
        if (ret->next != NULL) {
            ret->next->prev = ret;
        }
        file->regions = ret;
    }
    pthread_mutex_unlock(&set->mutex);
    if (err == -HL_ERR_NO_SPACE) {
        metric_add(&metric_refused, 1);
    }
    return err;
}

int volume_region_write(struct volume_region *region, uint64_t off, const struct iovec *iov,
                        int count) {
    struct volume_file *file = region->file;
    struct volume_set *set = file->set;
    if (volume_failed(set)) {
        return -HL_ERR_CRASHED;
    }
    uint64_t size = 0;
    for (int i = 0; i < count; i++) {
        size += iov[i].iov_len;
    }
    CHECK(off <= region->bytes && size <= region->bytes - off);
    int err = os_file_writev(file->file, region->off + off, iov, count);
    pthread_mutex_lock(&set->mutex);
    struct volume_device *device = set->dirs[file->dir].device;
    uint64_t counted = MIN(size, region->left);
    region->left -= counted;
    device->outstanding -= counted;
    device->written_since += counted;
    if (err == -HL_ERR_NO_SPACE) {
        volume_space_stale(set, file->dir);
    }
    pthread_mutex_unlock(&set->mutex);
    metric_add(&metric_written, (int64_t)size);
    return err;
}

void volume_region_close(struct volume_region *region, uint64_t used) {
    struct volume_file *file = region->file;
    struct volume_set *set = file->set;
    used = ALIGN_UP(used, VOLUME_RECORD_ALIGN);
    CHECK(used <= region->bytes);
    pthread_mutex_lock(&set->mutex);
    struct volume_directory *dir = &set->dirs[file->dir];
    dir->device->outstanding -= region->left;
    if (region->off + region->bytes == file->append_off) {
        file->append_off = region->off + used;
        if (!file->removed) {
            dir->used_bytes -= region->bytes - used;
        }
    }
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        file->regions = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    }
    file->written_generation++;
    volume_unref(file);
    pthread_mutex_unlock(&set->mutex);
}
