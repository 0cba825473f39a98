/* The simulated disk. Two worlds: the volatile one, which calls see, and the durable one, which a
 * crash leaves. Data of a file goes from the first to the second by os_file_sync, names of a
 * directory by os_dir_sync; what is still on the way when the power goes is decided by the seed,
 * operation by operation, and a surviving write may be torn at sectors.
 *
 * One mutex protects everything; performance is not the point. Images live in sim_image.c. */
#include "os/sim_fs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/macros.h"
#include "base/prng.h"
#include "os/sim_image.h"

struct data_op { /* an un-synced change of a file's data */
    struct data_op *next;
    enum { OP_WRITE, OP_TRUNCATE, OP_PUNCH } kind;
    uint64_t off;
    uint64_t size; /* bytes, or the new size of the file */
    uint8_t bytes[];
};

struct inode {
    uint32_t refs; /* entries of both worlds, name operations, open handles */
    bool is_dir;
    bool locked;
    struct sim_image seen, durable;
    struct data_op *ops, **ops_end;
};

struct entry {
    char *path;
    struct inode *inode;
};

struct names { /* a world's names */
    struct entry *entries;
    size_t count, capacity;
};

struct name_op { /* an un-synced change of names */
    struct name_op *next;
    enum { NAME_CREATE, NAME_REMOVE, NAME_RENAME } kind;
    char *path;
    char *to; /* RENAME */
    struct inode *inode;
};

struct sim_fs {
    struct os_fs fs;
    pthread_mutex_t mutex;
    struct sim_fs_options options;
    struct prng prng;
    struct names seen, durable;
    struct name_op *name_ops, **name_ops_end;
    uint64_t operations, crash_in, fail_sync_in, fail_write_in;
    int fail_write_err;
    uint64_t epoch; /* counts crashes: older handles are dead */
    uint64_t chunk_count;
    bool crashed;
};

struct sim_file {
    struct os_file file;
    struct sim_fs *sim;
    struct inode *inode;
    uint64_t epoch;
    bool writable;
    bool locks;
};

/* ---- inodes and names ---- */

static void *must(void *p) {
    CHECK(p != NULL); /* a simulation without memory proves nothing */
    return p;
}

static void ops_free(struct inode *inode) {
    while (inode->ops != NULL) {
        struct data_op *next = inode->ops->next;
        free(inode->ops);
        inode->ops = next;
    }
    inode->ops_end = &inode->ops;
}

static struct inode *inode_new(struct sim_fs *sim, bool is_dir) {
    struct inode *inode = must(calloc(1, sizeof(*inode)));
    inode->is_dir = is_dir;
    inode->ops_end = &inode->ops;
    inode->seen.chunk_counter = &sim->chunk_count;
    return inode;
}

static struct inode *inode_ref(struct inode *inode) {
    inode->refs++;
    return inode;
}

static void inode_unref(struct inode *inode) {
    if (--inode->refs > 0) {
        return;
    }
    ops_free(inode);
    sim_image_done(&inode->seen);
    sim_image_done(&inode->durable);
    free(inode);
}

static struct entry *names_find(struct names *names, const char *path) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].path, path) == 0) {
            return &names->entries[i];
        }
    }
    return NULL;
}

static void names_put(struct names *names, const char *path, struct inode *inode) {
    struct entry *entry = names_find(names, path);
    inode_ref(inode);
    if (entry != NULL) {
        inode_unref(entry->inode);
        entry->inode = inode;
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = names->capacity * 2 + 16;
        names->entries = must(realloc(names->entries, names->capacity * sizeof(*names->entries)));
    }
    names->entries[names->count++] = (struct entry){must(strdup(path)), inode};
}

static void names_remove(struct names *names, const char *path) {
    struct entry *entry = names_find(names, path);
    if (entry != NULL) {
        inode_unref(entry->inode);
        free(entry->path);
        *entry = names->entries[--names->count];
    }
}

static void names_clear(struct names *names) {
    while (names->count > 0) {
        names_remove(names, names->entries[names->count - 1].path);
    }
}

static void parent_path(const char *path, char *ret, size_t size) {
    const char *slash = strrchr(path, '/');
    int n = slash == NULL || slash == path ? snprintf(ret, size, "/")
                                           : snprintf(ret, size, "%.*s", (int)(slash - path), path);
    CHECK(n > 0 && (size_t)n < size);
}

static bool dir_exists(struct names *names, const char *path) {
    if (strcmp(path, "/") == 0) {
        return true;
    }
    struct entry *entry = names_find(names, path);
    return entry != NULL && entry->inode->is_dir;
}

static bool parent_exists(struct names *names, const char *path) {
    char parent[512];
    parent_path(path, parent, sizeof(parent));
    return dir_exists(names, parent);
}

static void note_name(struct sim_fs *sim, int kind, const char *path, const char *to,
                      struct inode *inode) {
    struct name_op *op = must(calloc(1, sizeof(*op)));
    op->kind = kind;
    op->path = must(strdup(path));
    op->to = to == NULL ? NULL : must(strdup(to));
    op->inode = inode_ref(inode);
    *sim->name_ops_end = op;
    sim->name_ops_end = &op->next;
}

static void apply_name(struct names *names, const struct name_op *op) {
    if (op->kind == NAME_CREATE) {
        names_put(names, op->path, op->inode);
        return;
    }
    struct entry *entry = names_find(names, op->path);
    if (entry != NULL && entry->inode == op->inode) {
        names_remove(names, op->path);
    }
    if (op->kind == NAME_RENAME) {
        names_put(names, op->to, op->inode);
    }
}

static void name_op_free(struct name_op *op) {
    inode_unref(op->inode);
    free(op->path);
    free(op->to);
    free(op);
}

/* Makes the un-synced name operations durable that chosen() picks, in order, and drops them. */
static void settle_names(struct sim_fs *sim,
                         bool (*chosen)(struct sim_fs *sim, struct name_op *op, const char *dir),
                         const char *dir, bool drop_others) {
    struct name_op **link = &sim->name_ops;
    while (*link != NULL) {
        struct name_op *op = *link;
        bool apply = chosen(sim, op, dir);
        if (apply) {
            apply_name(&sim->durable, op);
        }
        if (apply || drop_others) {
            *link = op->next;
            name_op_free(op);
        } else {
            link = &op->next;
        }
    }
    sim->name_ops_end = link;
}

static bool in_dir(struct sim_fs *sim, struct name_op *op, const char *dir) {
    char parent[512];
    parent_path(op->to != NULL ? op->to : op->path, parent, sizeof(parent));
    return strcmp(parent, dir) == 0;
}

static bool survives(struct sim_fs *sim, struct name_op *op, const char *dir) {
    return prng_below(&sim->prng, 100) < sim->options.survive_percent;
}

/* ---- the crash clock and injected faults ---- */

static int step(struct sim_fs *sim) {
    if (sim->crashed) {
        return -HL_ERR_CRASHED;
    }
    sim->operations++;
    if (sim->crash_in > 0 && --sim->crash_in == 0) {
        sim->crashed = true;
        return -HL_ERR_CRASHED;
    }
    return 0;
}

static bool countdown(uint64_t *n) {
    return *n > 0 && --*n == 0;
}

/* ---- file operations ---- */

static struct sim_file *lock_file(struct os_file *f, int *ret_err) {
    struct sim_file *file = (struct sim_file *)f;
    pthread_mutex_lock(&file->sim->mutex);
    bool dead = file->sim->crashed || file->epoch != file->sim->epoch;
    *ret_err = dead ? -HL_ERR_CRASHED : 0;
    return file;
}

static void unlock(struct sim_fs *sim) {
    pthread_mutex_unlock(&sim->mutex);
}

static int sim_read(struct os_file *f, uint64_t off, void *data, size_t size, size_t *ret_size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    if (err == 0) {
        *ret_size = sim_image_read(&file->inode->seen, off, data, size);
    }
    unlock(file->sim);
    return err;
}

static void note_data(struct inode *inode, int kind, uint64_t off, uint64_t size,
                      const uint8_t *bytes) {
    struct data_op *op = must(malloc(sizeof(*op) + (bytes == NULL ? 0 : size)));
    op->next = NULL;
    op->kind = kind;
    op->off = off;
    op->size = size;
    if (bytes != NULL && size > 0) {
        memcpy(op->bytes, bytes, size);
    }
    *inode->ops_end = op;
    inode->ops_end = &op->next;
}

static bool room_for(struct sim_fs *sim, const struct sim_image *image, uint64_t off,
                     uint64_t size) {
    if (sim->options.capacity_bytes == 0) {
        return true;
    }
    uint64_t more = sim_image_missing(image, off, size);
    return (sim->chunk_count + more) * SIM_CHUNK_BYTES <= sim->options.capacity_bytes;
}

static int write_one(struct sim_file *file, uint64_t off, const struct iovec *iov) {
    struct inode *inode = file->inode;
    if (!room_for(file->sim, &inode->seen, off, iov->iov_len)) {
        return -HL_ERR_NO_SPACE;
    }
    note_data(inode, OP_WRITE, off, iov->iov_len, iov->iov_base);
    sim_image_write(&inode->seen, off, iov->iov_base, iov->iov_len);
    return 0;
}

static int sim_writev(struct os_file *f, uint64_t off, const struct iovec *iov, int count) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    struct sim_fs *sim = file->sim;
    if (err == 0) {
        CHECK(file->writable);
        int stepped = step(sim); /* a write in which the power goes may still reach the disk */
        err = countdown(&sim->fail_write_in) ? sim->fail_write_err : 0;
        for (int i = 0; i < count && err == 0; i++) {
            err = write_one(file, off, &iov[i]);
            off += iov[i].iov_len;
        }
        err = stepped < 0 ? stepped : err;
    }
    unlock(sim);
    return err;
}

static void apply_data(struct sim_image *image, const struct data_op *op) {
    switch (op->kind) {
    case OP_WRITE:
        sim_image_write(image, op->off, op->bytes, op->size);
        break;
    case OP_TRUNCATE:
        sim_image_truncate(image, op->size);
        break;
    case OP_PUNCH:
        sim_image_punch(image, op->off, op->size);
        break;
    }
}

static int sim_sync(struct os_file *f) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    err = err < 0 ? err : step(file->sim);
    if (err == 0) {
        bool fails = countdown(&file->sim->fail_sync_in);
        /* After a failed fsync the kernel holds the pages for clean: nothing will write them again.
         */
        for (struct data_op *op = file->inode->ops; op != NULL && !fails; op = op->next) {
            apply_data(&file->inode->durable, op);
        }
        ops_free(file->inode);
        err = fails ? -HL_ERR_IO : 0;
    }
    unlock(file->sim);
    return err;
}

static int sim_truncate(struct os_file *f, uint64_t size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    err = err < 0 ? err : step(file->sim);
    if (err == 0) {
        note_data(file->inode, OP_TRUNCATE, 0, size, NULL);
        sim_image_truncate(&file->inode->seen, size);
    }
    unlock(file->sim);
    return err;
}

static int sim_size(struct os_file *f, uint64_t *ret) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    if (err == 0) {
        *ret = file->inode->seen.size;
    }
    unlock(file->sim);
    return err;
}

static int sim_punch(struct os_file *f, uint64_t off, uint64_t size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    err = err < 0 ? err : step(file->sim);
    if (err == 0) {
        note_data(file->inode, OP_PUNCH, off, size, NULL);
        sim_image_punch(&file->inode->seen, off, size);
    }
    unlock(file->sim);
    return err;
}

static int sim_lock(struct os_file *f) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    if (err == 0 && file->inode->locked && !file->locks) {
        err = -HL_ERR_LOCKED;
    } else if (err == 0) {
        file->inode->locked = file->locks = true;
    }
    unlock(file->sim);
    return err;
}

static int sim_fd(struct os_file *f) {
    return -1;
}

static void sim_close(struct os_file *f) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    struct sim_fs *sim = file->sim;
    if (file->locks && file->epoch == sim->epoch) {
        file->inode->locked = false;
    }
    inode_unref(file->inode);
    free(file);
    unlock(sim);
}

static const struct os_file_ops sim_file_ops = {
    .read = sim_read,
    .read_nowait = sim_read,
    .writev = sim_writev,
    .sync = sim_sync,
    .truncate = sim_truncate,
    .size = sim_size,
    .punch = sim_punch,
    .lock = sim_lock,
    .fd = sim_fd,
    .close = sim_close,
};

/* ---- name operations ---- */

static struct sim_fs *lock_fs(struct os_fs *fs) {
    struct sim_fs *sim = (struct sim_fs *)fs;
    pthread_mutex_lock(&sim->mutex);
    return sim;
}

static int create(struct sim_fs *sim, const char *path, bool is_dir, struct inode **ret) {
    if (!parent_exists(&sim->seen, path)) {
        return -HL_ERR_NOT_FOUND;
    }
    int err = step(sim);
    if (err < 0) {
        return err;
    }
    struct inode *inode = inode_new(sim, is_dir);
    names_put(&sim->seen, path, inode);
    note_name(sim, NAME_CREATE, path, NULL, inode);
    *ret = inode;
    return 0;
}

static int open_inode(struct sim_fs *sim, const char *path, unsigned flags, struct inode **ret) {
    if (sim->crashed) {
        return -HL_ERR_CRASHED;
    }
    struct entry *entry = names_find(&sim->seen, path);
    if (entry == NULL) {
        return (flags & OS_OPEN_CREATE) != 0 ? create(sim, path, false, ret) : -HL_ERR_NOT_FOUND;
    }
    if ((flags & OS_OPEN_EXCLUSIVE) != 0) {
        return -HL_ERR_EXISTS;
    }
    if (entry->inode->is_dir) {
        return -HL_ERR_IO;
    }
    *ret = entry->inode;
    return 0;
}

static int sim_open(struct os_fs *fs, const char *path, unsigned flags, struct os_file **ret) {
    struct sim_fs *sim = lock_fs(fs);
    struct inode *inode = NULL;
    int err = open_inode(sim, path, flags, &inode);
    if (err == 0) {
        struct sim_file *file = must(calloc(1, sizeof(*file)));
        *file = (struct sim_file){.file = {&sim_file_ops},
                                  .sim = sim,
                                  .inode = inode_ref(inode),
                                  .epoch = sim->epoch,
                                  .writable = (flags & OS_OPEN_WRITE) != 0};
        *ret = &file->file;
    }
    unlock(sim);
    return err;
}

static int remove_name(struct os_fs *fs, const char *path, bool is_dir) {
    struct sim_fs *sim = lock_fs(fs);
    struct entry *entry = names_find(&sim->seen, path);
    int err = sim->crashed                     ? -HL_ERR_CRASHED
              : entry == NULL                  ? -HL_ERR_NOT_FOUND
              : entry->inode->is_dir != is_dir ? -HL_ERR_IO
                                               : step(sim);
    if (err == 0) {
        note_name(sim, NAME_REMOVE, path, NULL, entry->inode);
        names_remove(&sim->seen, path);
    }
    unlock(sim);
    return err;
}

static int sim_unlink(struct os_fs *fs, const char *path) {
    return remove_name(fs, path, false);
}

static int sim_rmdir(struct os_fs *fs, const char *path) {
    return remove_name(fs, path, true);
}

static int sim_rename(struct os_fs *fs, const char *from, const char *to) {
    struct sim_fs *sim = lock_fs(fs);
    struct entry *entry = names_find(&sim->seen, from);
    int err = sim->crashed                     ? -HL_ERR_CRASHED
              : entry == NULL                  ? -HL_ERR_NOT_FOUND
              : !parent_exists(&sim->seen, to) ? -HL_ERR_NOT_FOUND
                                               : step(sim);
    if (err == 0) {
        struct inode *inode = inode_ref(entry->inode);
        note_name(sim, NAME_RENAME, from, to, inode);
        names_remove(&sim->seen, from);
        names_put(&sim->seen, to, inode);
        inode_unref(inode);
    }
    unlock(sim);
    return err;
}

static int sim_mkdir(struct os_fs *fs, const char *path) {
    struct sim_fs *sim = lock_fs(fs);
    struct inode *inode;
    int err = sim->crashed                           ? -HL_ERR_CRASHED
              : dir_exists(&sim->seen, path)         ? -HL_ERR_EXISTS
              : names_find(&sim->seen, path) != NULL ? -HL_ERR_EXISTS
                                                     : create(sim, path, true, &inode);
    unlock(sim);
    return err;
}

static int sim_dir_sync(struct os_fs *fs, const char *path) {
    struct sim_fs *sim = lock_fs(fs);
    int err = !dir_exists(&sim->seen, path) && !sim->crashed ? -HL_ERR_NOT_FOUND : step(sim);
    if (err == 0) {
        settle_names(sim, in_dir, path, false);
    }
    unlock(sim);
    return err;
}

struct listed {
    char name[256];
    bool is_dir;
};

/* The names are copied first, so that fn may call the file system. */
static size_t collect(struct sim_fs *sim, const char *path, struct listed **ret) {
    struct listed *list = must(calloc(sim->seen.count + 1, sizeof(*list)));
    size_t count = 0;
    for (size_t i = 0; i < sim->seen.count; i++) {
        char parent[512];
        const struct entry *entry = &sim->seen.entries[i];
        parent_path(entry->path, parent, sizeof(parent));
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
    struct sim_fs *sim = lock_fs(fs);
    int err = sim->crashed                    ? -HL_ERR_CRASHED
              : !dir_exists(&sim->seen, path) ? -HL_ERR_NOT_FOUND
                                              : 0;
    struct listed *list = NULL;
    size_t count = err == 0 ? collect(sim, path, &list) : 0;
    unlock(sim);
    for (size_t i = 0; i < count && err == 0; i++) {
        err = fn(list[i].name, list[i].is_dir, arg);
    }
    free(list);
    return err;
}

static int sim_space(struct os_fs *fs, const char *path, struct os_space *ret) {
    struct sim_fs *sim = lock_fs(fs);
    uint64_t total = sim->options.capacity_bytes == 0 ? 1ull << 40 : sim->options.capacity_bytes;
    uint64_t used = MIN(sim->chunk_count * SIM_CHUNK_BYTES, total);
    int err = sim->crashed ? -HL_ERR_CRASHED : 0;
    if (err == 0) {
        *ret = (struct os_space){total, total - used, UINT64_MAX, 1};
    }
    unlock(sim);
    return err;
}

static int sim_stat(struct os_fs *fs, const char *path, uint64_t *ret_size, bool *ret_is_dir) {
    struct sim_fs *sim = lock_fs(fs);
    struct entry *entry = names_find(&sim->seen, path);
    bool root = strcmp(path, "/") == 0;
    int err = sim->crashed ? -HL_ERR_CRASHED : entry == NULL && !root ? -HL_ERR_NOT_FOUND : 0;
    if (err == 0) {
        *ret_size = root ? 0 : entry->inode->seen.size;
        *ret_is_dir = root || entry->inode->is_dir;
    }
    unlock(sim);
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

/* ---- the crash ---- */

/* Applies a surviving write, whole or only some of its sectors. */
static void survive_write(struct sim_fs *sim, struct sim_image *image, const struct data_op *op) {
    enum { SECTOR = 512 };
    if (op->kind != OP_WRITE || prng_below(&sim->prng, 100) >= sim->options.tear_percent) {
        apply_data(image, op);
        return;
    }
    uint64_t end = op->off + op->size;
    for (uint64_t off = op->off; off < end;) {
        uint64_t next = MIN(end, off / SECTOR * SECTOR + SECTOR);
        if (prng_below(&sim->prng, 2) == 0) {
            sim_image_write(image, off, op->bytes + (off - op->off), next - off);
        }
        off = next;
    }
}

static void crash_inode(struct sim_fs *sim, struct inode *inode) {
    for (struct data_op *op = inode->ops; op != NULL; op = op->next) {
        if (prng_below(&sim->prng, 100) < sim->options.survive_percent) {
            survive_write(sim, &inode->durable, op);
        }
    }
    ops_free(inode);
    inode->locked = false;
    sim_image_copy(&inode->seen, &inode->durable);
}

/* Names whose directory did not survive are gone with it. */
static void drop_orphans(struct names *names) {
    bool dropped = true;
    while (dropped) {
        dropped = false;
        for (size_t i = 0; i < names->count && !dropped; i++) {
            if (!parent_exists(names, names->entries[i].path)) {
                names_remove(names, names->entries[i].path);
                dropped = true;
            }
        }
    }
}

void sim_fs_crash(struct sim_fs *sim) {
    pthread_mutex_lock(&sim->mutex);
    settle_names(sim, survives, NULL, true);
    drop_orphans(&sim->durable);
    names_clear(&sim->seen);
    for (size_t i = 0; i < sim->durable.count; i++) {
        crash_inode(sim, sim->durable.entries[i].inode);
        names_put(&sim->seen, sim->durable.entries[i].path, sim->durable.entries[i].inode);
    }
    sim->epoch++;
    sim->crashed = false;
    sim->crash_in = 0;
    unlock(sim);
}

/* ---- control ---- */

struct sim_fs *sim_fs_new(const struct sim_fs_options *options) {
    struct sim_fs *sim = must(calloc(1, sizeof(*sim)));
    sim->fs.ops = &sim_fs_ops;
    sim->options = *options;
    if (sim->options.survive_percent == 0) {
        sim->options.survive_percent = 50;
    }
    if (sim->options.tear_percent == 0) {
        sim->options.tear_percent = 25;
    }
    sim->name_ops_end = &sim->name_ops;
    pthread_mutex_init(&sim->mutex, NULL);
    prng_init(&sim->prng, options->seed);
    return sim;
}

void sim_fs_free(struct sim_fs *sim) {
    if (sim == NULL) {
        return;
    }
    while (sim->name_ops != NULL) {
        struct name_op *next = sim->name_ops->next;
        name_op_free(sim->name_ops);
        sim->name_ops = next;
    }
    names_clear(&sim->seen);
    names_clear(&sim->durable);
    free(sim->seen.entries);
    free(sim->durable.entries);
    pthread_mutex_destroy(&sim->mutex);
    free(sim);
}

struct os_fs *sim_fs_fs(struct sim_fs *sim) {
    return &sim->fs;
}

void sim_fs_crash_after(struct sim_fs *sim, uint64_t operations) {
    pthread_mutex_lock(&sim->mutex);
    sim->crash_in = operations;
    unlock(sim);
}

uint64_t sim_fs_operations(const struct sim_fs *sim) {
    return sim->operations;
}

bool sim_fs_crashed(const struct sim_fs *sim) {
    return sim->crashed;
}

void sim_fs_fail_sync(struct sim_fs *sim, uint64_t nth) {
    pthread_mutex_lock(&sim->mutex);
    sim->fail_sync_in = nth;
    unlock(sim);
}

void sim_fs_fail_write(struct sim_fs *sim, uint64_t nth, int err) {
    pthread_mutex_lock(&sim->mutex);
    sim->fail_write_in = nth;
    sim->fail_write_err = err;
    unlock(sim);
}

int sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t off, unsigned bit) {
    pthread_mutex_lock(&sim->mutex);
    struct entry *entry = names_find(&sim->seen, path);
    int err = entry == NULL                    ? -HL_ERR_NOT_FOUND
              : off >= entry->inode->seen.size ? -HL_ERR_LIMIT
                                               : 0;
    if (err == 0) {
        sim_image_flip(&entry->inode->seen, off, bit);
        sim_image_flip(&entry->inode->durable, off, bit);
    }
    unlock(sim);
    return err;
}
