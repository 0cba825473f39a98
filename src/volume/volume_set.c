/* The set of volumes: opening, the table of files, pins, removal. The table holds one reference to
 * each file, pins and open regions hold more; a removed file stays readable until the last is
 * dropped. Any thread, except open and close. */
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "volume/volume_int.h"

/* Index of the first file whose number is at least number. */
static uint32_t lower_bound(const struct volume_set *set, uint32_t number) {
    uint32_t low = 0, high = set->file_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->files[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct volume_file *volume_find(struct volume_set *set, uint32_t number) {
    uint32_t i = lower_bound(set, number);
    return i < set->file_count && set->files[i]->number == number ? set->files[i] : NULL;
}

int volume_insert(struct volume_set *set, struct volume_file *file) {
    if (set->file_count == set->file_capacity) {
        uint32_t capacity = MAX(16u, set->file_capacity * 2);
        struct volume_file **files =
            reallocarray(set->files, capacity, sizeof(struct volume_file *));
        if (files == NULL) {
            return -HL_ERR_NOMEM;
        }
        set->files = files;
        set->file_capacity = capacity;
    }
    uint32_t i = lower_bound(set, file->number);
    CHECK(i == set->file_count || set->files[i]->number != file->number);
    memmove(&set->files[i + 1], &set->files[i],
            (set->file_count - i) * sizeof(struct volume_file *));
    set->files[i] = file;
    set->file_count++;
    return 0;
}

void volume_unref(struct volume_file *file) {
    CHECK(file->refs > 0);
    if (--file->refs == 0) {
        CHECK(file->regions == NULL);
        volume_file_free(file);
    }
}

static int open_dirs(struct volume_set *set, const struct volume_options *options,
                     bool first_start) {
    for (uint32_t i = 0; i < options->dir_count; i++) {
        struct volume_directory *dir = &set->dirs[i];
        dir->path = strdup(options->dirs[i].path);
        dir->capacity_bytes = options->dirs[i].capacity_bytes;
        dir->read_only = options->dirs[i].read_only;
        dir->volume_bytes_max = set->volume_bytes_max;
        set->dir_count = i + 1;
        if (dir->path == NULL) {
            return -HL_ERR_NOMEM;
        }
        int err = volume_dir_open(set, i, first_start, options->dirs[i].is_new);
        if (err != 0) {
            return err;
        }
    }
    return volume_space_init(set, options);
}

int volume_set_open(struct os_env *env, const struct volume_options *options, bool first_start,
                    struct volume_set **ret) {
    if (options->dir_count == 0) {
        return -HL_ERR_INVALID;
    }
    struct volume_set *set = calloc(1, sizeof(*set));
    if (set == NULL) {
        return -HL_ERR_NOMEM;
    }
    set->env = env;
    set->number_next = 1;
    set->volume_bytes_max =
        options->volume_bytes_max > 0 ? options->volume_bytes_max : VOLUME_BYTES_MAX_DEFAULT;
    memcpy(set->cluster_id, options->cluster_id, sizeof(set->cluster_id));
    pthread_mutex_init(&set->mutex, NULL);
    pthread_cond_init(&set->changed, NULL);
    set->dirs = calloc(options->dir_count, sizeof(*set->dirs));
    set->devices = calloc(options->dir_count, sizeof(*set->devices));
    int err = set->dirs == NULL || set->devices == NULL ? -HL_ERR_NOMEM
                                                        : open_dirs(set, options, first_start);
    if (err != 0) {
        volume_set_close(set);
        return err;
    }
    *ret = set;
    return 0;
}

void volume_set_close(struct volume_set *set) {
    if (set == NULL) {
        return;
    }
    for (uint32_t i = 0; i < set->file_count; i++) {
        CHECK(set->files[i]->refs == 1);
        volume_file_free(set->files[i]);
    }
    for (uint32_t i = 0; i < set->dir_count; i++) {
        volume_dir_close(&set->dirs[i]);
    }
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->mutex);
    free(set->files);
    free(set->dirs);
    free(set->devices);
    free(set);
}

struct volume_file *volume_pin(struct volume_set *set, uint32_t volume) {
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = volume_find(set, volume);
    if (file != NULL) {
        file->refs++;
    }
    pthread_mutex_unlock(&set->mutex);
    return file;
}

void volume_unpin(struct volume_file *file) {
    if (file == NULL) {
        return;
    }
    struct volume_set *set = file->set;
    pthread_mutex_lock(&set->mutex);
    volume_unref(file);
    pthread_mutex_unlock(&set->mutex);
}

static void fill_info(const struct volume_file *file, struct volume_info *ret) {
    uint64_t unfinished = file->append_off;
    for (const struct volume_region *r = file->regions; r != NULL; r = r->next) {
        unfinished = MIN(unfinished, r->off);
    }
    *ret = (struct volume_info){.volume = file->number,
                                .dir = file->dir,
                                .bytes = file->append_off,
                                .unfinished = unfinished,
                                .sealed = file->sealed,
                                .damaged = file->damaged};
}

int volume_each(struct volume_set *set, int (*fn)(void *arg, const struct volume_info *info),
                void *arg) {
    uint32_t after = 0;
    for (;;) {
        struct volume_info info;
        pthread_mutex_lock(&set->mutex);
        uint32_t i = after == UINT32_MAX ? set->file_count : lower_bound(set, after + 1);
        bool found = i < set->file_count;
        if (found) {
            fill_info(set->files[i], &info);
        }
        pthread_mutex_unlock(&set->mutex);
        if (!found) {
            return 0;
        }
        after = info.volume;
        int err = fn(arg, &info);
        if (err != 0) {
            return err;
        }
    }
}

int volume_info(struct volume_set *set, uint32_t volume, struct volume_info *ret) {
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = volume_find(set, volume);
    if (file != NULL) {
        fill_info(file, ret);
    }
    pthread_mutex_unlock(&set->mutex);
    return file != NULL ? 0 : -HL_ERR_NOT_FOUND;
}

void volume_number_at_least(struct volume_set *set, uint32_t number) {
    pthread_mutex_lock(&set->mutex);
    set->number_next = MAX(set->number_next, number);
    pthread_mutex_unlock(&set->mutex);
}

void volume_seal(struct volume_set *set, uint32_t volume) {
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = volume_find(set, volume);
    if (file != NULL) {
        file->sealed = true;
        if (set->dirs[file->dir].open == file) {
            set->dirs[file->dir].open = NULL;
        }
    }
    pthread_mutex_unlock(&set->mutex);
}

int volume_remove(struct volume_set *set, uint32_t volume) {
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = volume_find(set, volume);
    if (file == NULL) {
        pthread_mutex_unlock(&set->mutex);
        return -HL_ERR_NOT_FOUND;
    }
    uint32_t i = lower_bound(set, volume);
    memmove(&set->files[i], &set->files[i + 1],
            (set->file_count - i - 1) * sizeof(struct volume_file *));
    set->file_count--;
    struct volume_directory *dir = &set->dirs[file->dir];
    if (dir->open == file) {
        dir->open = NULL;
    }
    dir->used_bytes -= file->append_off;
    file->removed = true;
    pthread_mutex_unlock(&set->mutex);

    FAILPOINT("volume.remove.before");
    int err = os_unlink(set->env->fs, file->path);
    FAILPOINT("volume.remove.unlinked");
    if (err == 0) {
        err = os_dir_sync(set->env->fs, dir->volumes_path);
    }
    if (err != 0) {
        LOG_ERROR("volume", "cannot remove %s: %s", file->path, error_text(err));
    }
    volume_unpin(file);
    pthread_mutex_lock(&set->mutex);
    volume_space_stale(set, (uint32_t)(dir - set->dirs));
    pthread_mutex_unlock(&set->mutex);
    return err;
}
