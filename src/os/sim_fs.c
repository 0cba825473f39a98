/* The simulated disk: the file system's calls, the crash, and the faults that tests ask for. Names
 * are kept in sim_names.c, open files in sim_file.c, bytes in sim_image.c. One mutex protects
 * everything; speed is not the point, determinism is: with one caller, the same seed and the same
 * calls give the same disk. */
#include "os/sim_fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/macros.h"
#include "os/sim_fs_int.h"

#define SURVIVE_PERCENT_DEFAULT 50
#define TEAR_PERCENT_DEFAULT    25
#define BYTES_TOTAL_DEFAULT     (1ull << 40) /* shown when the capacity is unlimited */

int sim_step(struct sim_fs *sim) {
    CHECK(!sim->crashed);
    sim->operations++;
    if (sim->crash_in > 0 && --sim->crash_in == 0) {
        sim->crashed = true;
        return -HL_ERR_CRASHED;
    }
    return 0;
}

bool sim_chance(struct sim_fs *sim, uint32_t percent) {
    return prng_below(&sim->prng, 100) < percent;
}

/* Locks, checks for life, and cleans the path. On failure the lock is not held. */
static int enter(struct os_fs *fs, const char *path, char ret_clean[SIM_PATH_MAX],
                 struct sim_fs **ret) {
    struct sim_fs *sim = (struct sim_fs *)fs;
    int err = sim_path_clean(path, ret_clean);
    if (err < 0) {
        return err;
    }
    pthread_mutex_lock(&sim->mutex);
    if (sim->crashed) {
        pthread_mutex_unlock(&sim->mutex);
        return -HL_ERR_CRASHED;
    }
    *ret = sim;
    return 0;
}

static void leave(struct sim_fs *sim) {
    pthread_mutex_unlock(&sim->mutex);
}

/* ---- names ---- */

/* The new name is noted even when the power goes in this call: it may have reached the disk. */
static int create(struct sim_fs *sim, const char *path, bool is_dir, struct sim_inode **ret) {
    if (!sim_names_has_parent(&sim->seen, path)) {
        return -HL_ERR_NOT_FOUND;
    }
    int err = sim_step(sim);
    struct sim_inode *inode = sim_inode_new(sim, is_dir);
    sim_names_put(&sim->seen, path, inode);
    sim_note_name(sim, SIM_CREATE, path, NULL, inode);
    *ret = inode;
    return err;
}

static int open_inode(struct sim_fs *sim, const char *path, unsigned flags,
                      struct sim_inode **ret) {
    struct sim_entry *entry = sim_names_find(&sim->seen, path);
    if (sim_names_is_dir(&sim->seen, path)) {
        return -HL_ERR_IO;
    }
    if (entry == NULL) {
        return (flags & OS_OPEN_CREATE) != 0 ? create(sim, path, false, ret) : -HL_ERR_NOT_FOUND;
    }
    if ((flags & OS_OPEN_EXCLUSIVE) != 0) {
        return -HL_ERR_EXISTS;
    }
    *ret = entry->inode;
    return 0;
}

static int sim_open(struct os_fs *fs, const char *path, unsigned flags, struct os_file **ret) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    struct sim_inode *inode;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    err = open_inode(sim, clean, flags, &inode);
    if (err == 0) {
        *ret = sim_file_new(sim, inode, flags);
    }
    leave(sim);
    return err;
}

static int remove_name(struct os_fs *fs, const char *path, bool is_dir) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    struct sim_entry *entry = sim_names_find(&sim->seen, clean);
    if (entry == NULL) {
        err = -HL_ERR_NOT_FOUND;
    } else if (entry->inode->is_dir != is_dir || sim_names_has_children(&sim->seen, clean)) {
        err = -HL_ERR_IO;
    } else {
        err = sim_step(sim);
        sim_note_name(sim, SIM_REMOVE, clean, NULL, entry->inode);
        sim_names_remove(&sim->seen, clean);
    }
    leave(sim);
    return err;
}

static int sim_unlink(struct os_fs *fs, const char *path) {
    return remove_name(fs, path, false);
}

static int sim_rmdir(struct os_fs *fs, const char *path) {
    return remove_name(fs, path, true);
}

static int rename_entry(struct sim_fs *sim, const char *from, const char *to) {
    struct sim_entry *entry = sim_names_find(&sim->seen, from);
    if (entry == NULL || !sim_names_has_parent(&sim->seen, to)) {
        return -HL_ERR_NOT_FOUND;
    }
    if (sim_names_has_children(&sim->seen, from)) {
        int stepped = sim_step(sim);
        if (stepped == 0) {
            sim_move_dir(sim, from, to);
        }
        return stepped;
    }
    if (strcmp(from, to) == 0) {
        return 0;
    }
    if (sim_names_is_dir(&sim->seen, to)) {
        return -HL_ERR_IO;
    }
    int err = sim_step(sim);
    struct sim_inode *inode = sim_inode_ref(entry->inode);
    sim_note_name(sim, SIM_RENAME, from, to, inode);
    sim_names_remove(&sim->seen, from);
    sim_names_put(&sim->seen, to, inode);
    sim_inode_unref(inode);
    return err;
}

static int sim_rename(struct os_fs *fs, const char *from, const char *to) {
    char clean_from[SIM_PATH_MAX], clean_to[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = sim_path_clean(to, clean_to);
    err = err < 0 ? err : enter(fs, from, clean_from, &sim);
    if (err < 0) {
        return err;
    }
    err = rename_entry(sim, clean_from, clean_to);
    leave(sim);
    return err;
}

static int sim_mkdir(struct os_fs *fs, const char *path) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    struct sim_inode *ignored;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    bool exists = strcmp(clean, "/") == 0 || sim_names_find(&sim->seen, clean) != NULL;
    err = exists ? -HL_ERR_EXISTS : create(sim, clean, true, &ignored);
    leave(sim);
    return err;
}

static int sim_dir_sync(struct os_fs *fs, const char *path) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    err = sim_names_is_dir(&sim->seen, clean) ? sim_step(sim) : -HL_ERR_NOT_FOUND;
    if (err == 0) {
        sim_settle_dir(sim, clean);
    }
    leave(sim);
    return err;
}

struct listed {
    char name[SIM_PATH_MAX];
    bool is_dir;
};

/* The names are copied first, so that fn may call the file system. */
static size_t collect(struct sim_fs *sim, const char *path, struct listed **ret) {
    struct listed *list = sim_must(calloc(sim->seen.count + 1, sizeof(*list)));
    size_t count = 0;
    for (size_t i = 0; i < sim->seen.count; i++) {
        char parent[SIM_PATH_MAX];
        const struct sim_entry *entry = &sim->seen.entries[i];
        sim_path_parent(entry->path, parent);
        if (strcmp(parent, path) == 0) {
            snprintf(list[count].name, sizeof(list[count].name), "%s",
                     strrchr(entry->path, '/') + 1);
            list[count++].is_dir = entry->inode->is_dir;
        }
    }
    *ret = list;
    return count;
}

static int sim_list(struct os_fs *fs, const char *path,
                    int (*fn)(const char *name, bool is_dir, void *arg), void *arg) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    CLEANUP_FREE struct listed *list = NULL;
    size_t count = 0;
    if (sim_names_is_dir(&sim->seen, clean)) {
        count = collect(sim, clean, &list);
    } else {
        err = -HL_ERR_NOT_FOUND;
    }
    leave(sim);
    for (size_t i = 0; i < count && err == 0; i++) {
        err = fn(list[i].name, list[i].is_dir, arg);
    }
    return err;
}

static int sim_space(struct os_fs *fs, const char *path, struct os_space *ret) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    uint64_t capacity = sim->options.capacity_bytes;
    uint64_t total = capacity == 0 ? BYTES_TOTAL_DEFAULT : capacity;
    uint64_t used = MIN(sim->chunk_count * SIM_CHUNK_BYTES, total);
    *ret = (struct os_space){total, total - used, UINT64_MAX, 1};
    leave(sim);
    return 0;
}

static int sim_stat(struct os_fs *fs, const char *path, uint64_t *ret_size, bool *ret_is_dir) {
    char clean[SIM_PATH_MAX];
    struct sim_fs *sim;
    int err = enter(fs, path, clean, &sim);
    if (err < 0) {
        return err;
    }
    struct sim_entry *entry = sim_names_find(&sim->seen, clean);
    bool is_dir = sim_names_is_dir(&sim->seen, clean);
    if (entry == NULL && !is_dir) {
        err = -HL_ERR_NOT_FOUND;
    } else {
        *ret_size = is_dir ? 0 : entry->inode->seen.size;
        *ret_is_dir = is_dir;
    }
    leave(sim);
    return err;
}

static const struct os_fs_ops sim_fs_ops = {
    .open = sim_open,
    .unlink = sim_unlink,
    .rename = sim_rename,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .dir_sync = sim_dir_sync,
    .list = sim_list,
    .space = sim_space,
    .stat = sim_stat,
};

/* ---- crashes ---- */

void sim_fs_crash(struct sim_fs *sim) {
    pthread_mutex_lock(&sim->mutex);
    sim_crash_names(sim);
    sim_names_clear(&sim->seen);
    for (size_t i = 0; i < sim->durable.count; i++) {
        struct sim_entry *entry = &sim->durable.entries[i];
        sim_crash_data(sim, entry->inode);
        entry->inode->locked = false;
        sim_image_copy(&entry->inode->seen, &entry->inode->durable);
        sim_names_put(&sim->seen, entry->path, entry->inode);
    }
    sim->epoch++;
    sim->crashed = false;
    sim->crash_in = sim->fail_sync_in = sim->fail_write_in = 0;
    pthread_mutex_unlock(&sim->mutex);
}

void sim_fs_crash_after(struct sim_fs *sim, uint64_t operations) {
    pthread_mutex_lock(&sim->mutex);
    sim->crash_in = operations;
    pthread_mutex_unlock(&sim->mutex);
}

void sim_fs_power_off(struct sim_fs *sim) {
    pthread_mutex_lock(&sim->mutex);
    sim->crashed = true;
    pthread_mutex_unlock(&sim->mutex);
}

void sim_fs_kill(struct sim_fs *sim) {
    pthread_mutex_lock(&sim->mutex);
    for (size_t i = 0; i < sim->seen.count; i++) {
        sim->seen.entries[i].inode->locked = false;
    }
    sim->epoch++;
    pthread_mutex_unlock(&sim->mutex);
}

uint64_t sim_fs_operations(const struct sim_fs *sim) {
    struct sim_fs *mutable = (struct sim_fs *)(uintptr_t)sim;
    pthread_mutex_lock(&mutable->mutex);
    uint64_t operations = sim->operations;
    pthread_mutex_unlock(&mutable->mutex);
    return operations;
}

bool sim_fs_crashed(const struct sim_fs *sim) {
    struct sim_fs *mutable = (struct sim_fs *)(uintptr_t)sim;
    pthread_mutex_lock(&mutable->mutex);
    bool crashed = sim->crashed;
    pthread_mutex_unlock(&mutable->mutex);
    return crashed;
}

/* ---- faults ---- */

void sim_fs_fail_sync(struct sim_fs *sim, uint64_t nth) {
    pthread_mutex_lock(&sim->mutex);
    sim->fail_sync_in = nth;
    pthread_mutex_unlock(&sim->mutex);
}

void sim_fs_fail_write(struct sim_fs *sim, uint64_t nth, int err) {
    pthread_mutex_lock(&sim->mutex);
    sim->fail_write_in = nth;
    sim->fail_write_err = err;
    pthread_mutex_unlock(&sim->mutex);
}

/* Locks and finds the file; the lock is held on return in any case. */
static struct sim_inode *lock_inode(struct sim_fs *sim, const char *path) {
    char clean[SIM_PATH_MAX];
    int err = sim_path_clean(path, clean);
    pthread_mutex_lock(&sim->mutex);
    struct sim_entry *entry = err < 0 ? NULL : sim_names_find(&sim->seen, clean);
    return entry == NULL || entry->inode->is_dir ? NULL : entry->inode;
}

int sim_fs_fail_read(struct sim_fs *sim, const char *path, uint64_t off, uint64_t size) {
    struct sim_inode *inode = lock_inode(sim, path);
    if (inode != NULL) {
        inode->bad_off = off;
        inode->bad_size = size;
    }
    leave(sim);
    return inode == NULL ? -HL_ERR_NOT_FOUND : 0;
}

void sim_fs_heal_reads(struct sim_fs *sim) {
    pthread_mutex_lock(&sim->mutex);
    for (size_t i = 0; i < sim->seen.count; i++) {
        sim->seen.entries[i].inode->bad_size = 0;
    }
    pthread_mutex_unlock(&sim->mutex);
}

int sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t off, unsigned bit) {
    struct sim_inode *inode = lock_inode(sim, path);
    int err = inode == NULL ? -HL_ERR_NOT_FOUND : off >= inode->seen.size ? -HL_ERR_LIMIT : 0;
    if (err == 0) {
        sim_image_flip(&inode->seen, off, bit);
        sim_image_flip(&inode->durable, off, bit);
    }
    leave(sim);
    return err;
}

/* ---- life ---- */

static uint32_t percent_of(uint32_t option, uint32_t default_percent) {
    return option == 0 ? default_percent : option == SIM_FS_NEVER ? 0 : option;
}

struct sim_fs *sim_fs_new(const struct sim_fs_options *options) {
    struct sim_fs *sim = sim_must(calloc(1, sizeof(*sim)));
    sim->fs.ops = &sim_fs_ops;
    sim->options = *options;
    sim->options.survive_percent = percent_of(options->survive_percent, SURVIVE_PERCENT_DEFAULT);
    sim->options.tear_percent = percent_of(options->tear_percent, TEAR_PERCENT_DEFAULT);
    sim->name_ops_end = &sim->name_ops;
    CHECK(pthread_mutex_init(&sim->mutex, NULL) == 0);
    prng_init(&sim->prng, options->seed);
    return sim;
}

void sim_fs_free(struct sim_fs *sim) {
    if (sim == NULL) {
        return;
    }
    sim_crash_names(sim); /* whatever it decides: all of it goes now */
    sim_names_clear(&sim->seen);
    sim_names_clear(&sim->durable);
    free(sim->seen.entries);
    free(sim->durable.entries);
    pthread_mutex_destroy(&sim->mutex);
    free(sim);
}

struct os_fs *sim_fs_fs(struct sim_fs *sim) {
    return &sim->fs;
}
