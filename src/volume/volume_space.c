/* How much room there is and which directory gets the next bytes. Free space is asked per file
 * system, cached for a second or 16 MiB of writes; what open regions will still write is
 * subtracted, so that many uploads at once cannot promise the same room twice. Called with
 * set->mutex held. */
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "volume/volume_int.h"

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static int refresh(struct volume_set *set, struct volume_directory *dir) {
    struct os_space space;
    int err = os_space(set->env->fs, dir->path, &space);
    if (err != 0) {
        return err;
    }
    struct volume_device *device = dir->device;
    device->bytes_total = space.bytes_total;
    device->bytes_free = space.bytes_free;
    device->inodes_free = space.inodes_free;
    device->written_since = 0;
    device->refreshed_us = os_mono_us(set->env->clock);
    return 0;
}

static void refresh_when_old(struct volume_set *set, struct volume_directory *dir) {
    struct volume_device *device = dir->device;
    uint64_t age = os_mono_us(set->env->clock) - device->refreshed_us;
    if (age >= VOLUME_SPACE_REFRESH_US || device->written_since >= VOLUME_SPACE_REFRESH_BYTES) {
        (void)refresh(set, dir); /* on error the old figures stay */
    }
}

/* Room in a directory, less the reserve unless it may be used. */
static uint64_t available(const struct volume_directory *dir, bool use_reserve) {
    const struct volume_device *device = dir->device;
    uint64_t kept = use_reserve ? 0 : dir->reserve_bytes;
    if (device->inodes_free < VOLUME_INODES_MIN && !use_reserve) {
        return 0; /* the last ones are for what must be written; an open volume needs none */
    }
    uint64_t room = minus(device->bytes_free,
                          device->written_since + device->outstanding + device->kept + kept);
    if (dir->capacity_bytes > 0) {
        room = MIN(room, minus(dir->capacity_bytes, dir->used_bytes + kept));
    }
    return room;
}

/* A twentieth, but no more than a volume and a quarter: a full disk is made room on by copying the
 * live records of one volume into the reserve, so volumes of a small disk must be small as well. */
static void default_reserve(struct volume_set *set, struct volume_directory *dir, uint64_t total) {
    uint64_t enough = set->volume_bytes_max + set->volume_bytes_max / 4;
    dir->reserve_bytes = MAX(MIN(total / 20, enough), VOLUME_RESERVE_DEFAULT_MIN);
    if (dir->reserve_bytes < enough) {
        dir->volume_bytes_max = MIN(set->volume_bytes_max, dir->reserve_bytes / 2);
    }
}

static int init_dir(struct volume_set *set, struct volume_directory *dir, uint64_t reserve_bytes) {
    struct os_space space;
    int err = os_space(set->env->fs, dir->path, &space);
    if (err != 0) {
        LOG_ERROR("volume", "cannot ask the free space of %s: %s", dir->path, error_text(err));
        return err;
    }
    for (uint32_t i = 0; i < set->device_count && dir->device == NULL; i++) {
        if (set->devices[i].device == space.device) {
            dir->device = &set->devices[i];
        }
    }
    if (dir->device == NULL) {
        dir->device = &set->devices[set->device_count++];
        dir->device->device = space.device;
    }
    uint64_t total =
        dir->capacity_bytes > 0 ? MIN(dir->capacity_bytes, space.bytes_total) : space.bytes_total;
    dir->reserve_bytes = reserve_bytes;
    if (reserve_bytes == 0) {
        default_reserve(set, dir, total);
    }
    return refresh(set, dir);
}

int volume_space_init(struct volume_set *set, const struct volume_options *options) {
    for (uint32_t i = 0; i < set->dir_count; i++) {
        int err = init_dir(set, &set->dirs[i], options->reserve_bytes);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* The directory with most room; the one chosen last stays unless another is clearly better, so that
 * consecutive records lie together. */
static struct volume_directory *best_directory(struct volume_set *set, bool use_reserve) {
    struct volume_directory *best = NULL;
    uint64_t best_room = 0;
    for (uint32_t i = 0; i < set->dir_count; i++) {
        struct volume_directory *dir = &set->dirs[i];
        if (dir->read_only) {
            continue;
        }
        refresh_when_old(set, dir);
        uint64_t room = available(dir, use_reserve);
        if (i == set->dir_last && room > 0) {
            room += VOLUME_DIR_HYSTERESIS_BYTES;
        }
        if (best == NULL || room > best_room) {
            best = dir;
            best_room = room;
        }
    }
    return best;
}

int volume_space_choose(struct volume_set *set, uint64_t size, bool use_reserve,
                        uint32_t *ret_dir) {
    struct volume_directory *best = best_directory(set, use_reserve);
    if (best == NULL) {
        return -HL_ERR_READ_ONLY;
    }
    /* A new volume's header and the file system's own blocks want a little more. */
    uint64_t need = size + 2ull * VOLUME_DATA_OFF;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (available(best, use_reserve) >= need) {
            set->dir_last = (uint32_t)(best - set->dirs);
            *ret_dir = set->dir_last;
            return 0;
        }
        if (attempt > 0) {
            break;
        }
        for (uint32_t i = 0; i < set->dir_count; i++) {
            (void)refresh(set, &set->dirs[i]);
        }
        best = best_directory(set, use_reserve);
        /* The favoured directory may have less than another one that still fits. */
        for (uint32_t i = 0; i < set->dir_count && available(best, use_reserve) < need; i++) {
            if (!set->dirs[i].read_only && available(&set->dirs[i], use_reserve) >= need) {
                best = &set->dirs[i];
            }
        }
    }
    return -HL_ERR_NO_SPACE;
}

void volume_space_stale(struct volume_set *set, uint32_t dir) {
    set->dirs[dir].device->refreshed_us = 0;
    (void)refresh(set, &set->dirs[dir]);
}

static void add_device(struct volume_set *set, struct volume_device *device,
                       struct volume_space *space) {
    uint64_t room = 0, total = 0, reserve = 0;
    bool open_ended = false;
    for (uint32_t i = 0; i < set->dir_count; i++) {
        struct volume_directory *dir = &set->dirs[i];
        if (dir->device != device) {
            continue;
        }
        reserve = MAX(reserve, dir->reserve_bytes);
        open_ended = open_ended || dir->capacity_bytes == 0;
        total += dir->capacity_bytes;
        room += dir->read_only ? 0 : available(dir, false);
    }
    uint64_t free_bytes = minus(device->bytes_free, device->written_since + device->outstanding +
                                                        device->kept + reserve);
    space->bytes_total += open_ended ? device->bytes_total : MIN(total, device->bytes_total);
    space->bytes_free += device->inodes_free < VOLUME_INODES_MIN ? 0 : MIN(room, free_bytes);
}

void volume_space_keep(struct volume_set *set, uint64_t device, uint64_t bytes) {
    pthread_mutex_lock(&set->mutex);
    for (uint32_t i = 0; i < set->device_count; i++) {
        if (set->devices[i].device == device) {
            set->devices[i].kept = bytes;
        }
    }
    pthread_mutex_unlock(&set->mutex);
}

void volume_space(struct volume_set *set, struct volume_space *ret) {
    struct volume_space space = {0};
    pthread_mutex_lock(&set->mutex);
    for (uint32_t i = 0; i < set->dir_count; i++) {
        refresh_when_old(set, &set->dirs[i]);
        space.bytes_used += set->dirs[i].used_bytes;
        space.degraded = space.degraded || set->dirs[i].read_only;
    }
    for (uint32_t i = 0; i < set->device_count; i++) {
        add_device(set, &set->devices[i], &space);
    }
    space.volume_count = set->file_count;
    pthread_mutex_unlock(&set->mutex);
    *ret = space;
}
