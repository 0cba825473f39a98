/* Open files of the simulated disk. Each change goes to the seen image at once and to the inode's
 * list of pending operations; a sync plays the list onto the durable image. In a crash the seed
 * decides, operation by operation and in order, what was on the disk already: an older write can be
 * missing but never lie over a newer one, as with a page cache. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/macros.h"
#include "os/sim_fs_int.h"

#define SECTOR_BYTES 512

struct sim_file {
    struct os_file file;
    struct sim_fs *sim;
    struct sim_inode *inode;
    uint64_t epoch;
    bool writable, dsync, locks;
};

static struct sim_file *lock_file(struct os_file *f, int *ret_err) {
    struct sim_file *file = (struct sim_file *)f;
    pthread_mutex_lock(&file->sim->mutex);
    bool dead = file->sim->crashed || file->epoch != file->sim->epoch;
    *ret_err = dead ? -HL_ERR_CRASHED : 0;
    return file;
}

static void unlock(struct sim_file *file) {
    pthread_mutex_unlock(&file->sim->mutex);
}

static bool countdown(uint64_t *n) {
    return *n > 0 && --*n == 0;
}

/* ---- pending operations ---- */

void sim_ops_free(struct sim_inode *inode) {
    while (inode->ops != NULL) {
        struct sim_data_op *next = inode->ops->next;
        free(inode->ops);
        inode->ops = next;
    }
    inode->ops_end = &inode->ops;
}

static void note_data(struct sim_file *file, int kind, uint64_t off, uint64_t size,
                      const void *bytes, bool sure) {
    struct sim_data_op *op = sim_must(malloc(sizeof(*op) + (bytes == NULL ? 0 : size)));
    op->next = NULL;
    op->kind = kind;
    op->sure = sure;
    op->off = off;
    op->size = size;
    if (bytes != NULL && size > 0) {
        memcpy(op->bytes, bytes, size);
    }
    *file->inode->ops_end = op;
    file->inode->ops_end = &op->next;
}

static void apply_data(struct sim_image *image, const struct sim_data_op *op) {
    switch (op->kind) {
    case SIM_WRITE:
        sim_image_write(image, op->off, op->bytes, op->size);
        break;
    case SIM_TRUNCATE:
        sim_image_truncate(image, op->size);
        break;
    case SIM_PUNCH:
        sim_image_punch(image, op->off, op->size);
        break;
    }
}

/* Some sectors of a write, and perhaps the size of the file without the bytes. */
static void apply_torn(struct sim_fs *sim, struct sim_image *image, const struct sim_data_op *op) {
    uint64_t end = op->off + op->size;
    for (uint64_t off = op->off; off < end;) {
        uint64_t next = MIN(end, off / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES);
        if (sim_chance(sim, 50)) {
            sim_image_write(image, off, op->bytes + (off - op->off), next - off);
        }
        off = next;
    }
    if (image->size < end && sim_chance(sim, 50)) {
        sim_image_truncate(image, end);
    }
}

void sim_crash_data(struct sim_fs *sim, struct sim_inode *inode) {
    for (struct sim_data_op *op = inode->ops; op != NULL; op = op->next) {
        if (!op->sure && !sim_chance(sim, sim->options.survive_percent)) {
            continue;
        }
        if (!op->sure && op->kind == SIM_WRITE && sim_chance(sim, sim->options.tear_percent)) {
            apply_torn(sim, &inode->durable, op);
        } else {
            apply_data(&inode->durable, op);
        }
    }
    sim_ops_free(inode);
}

/* ---- the calls ---- */

static int sim_read(struct os_file *f, uint64_t off, void *data, size_t size, size_t *ret_size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    const struct sim_inode *inode = file->inode;
    if (err == 0 && off + size > inode->bad_off &&
        (off < inode->bad_off ? inode->bad_size > 0 : off - inode->bad_off < inode->bad_size)) {
        err = -HL_ERR_IO;
    }
    if (err == 0) {
        *ret_size = sim_image_read(&inode->seen, off, data, size);
    }
    unlock(file);
    return err;
}

static bool room_for(struct sim_fs *sim, const struct sim_image *image, uint64_t off,
                     uint64_t size) {
    if (sim->options.capacity_bytes == 0) {
        return true;
    }
    uint64_t more = sim_image_missing(image, off, size);
    return (sim->chunk_count + more) * SIM_CHUNK_BYTES <= sim->options.capacity_bytes;
}

static int write_one(struct sim_file *file, uint64_t off, const struct iovec *iov, bool sure) {
    if (!room_for(file->sim, &file->inode->seen, off, iov->iov_len)) {
        return -HL_ERR_NO_SPACE;
    }
    note_data(file, SIM_WRITE, off, iov->iov_len, iov->iov_base, sure);
    sim_image_write(&file->inode->seen, off, iov->iov_base, iov->iov_len);
    return 0;
}

/* What a failed write leaves behind: some first part of its first vector. */
static void write_part(struct sim_file *file, uint64_t off, const struct iovec *iov) {
    struct iovec part = {iov->iov_base, prng_below(&file->sim->prng, iov->iov_len + 1)};
    write_one(file, off, &part, false);
}

static int sim_writev(struct os_file *f, uint64_t off, const struct iovec *iov, int count) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    CHECK(file->writable);
    if (err < 0) {
        unlock(file);
        return err;
    }
    err = sim_step(file->sim);
    bool sure = file->dsync && err == 0;
    if (countdown(&file->sim->fail_write_in)) {
        err = err < 0 ? err : file->sim->fail_write_err;
        if (count > 0) {
            write_part(file, off, iov);
        }
        count = 0;
    }
    for (int i = 0; i < count; i++) {
        int one = write_one(file, off, &iov[i], sure);
        if (one < 0) {
            err = err < 0 ? err : one;
            break;
        }
        off += iov[i].iov_len;
    }
    unlock(file);
    return err;
}

/* Anything un-synced may reach the disk at any time anyway. */
static void sim_start_sync(struct os_file *f, uint64_t off, uint64_t size) {
}

static int sim_sync(struct os_file *f) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    err = err < 0 ? err : sim_step(file->sim);
    if (err == 0 && countdown(&file->sim->fail_sync_in)) {
        /* After a failed fsync the kernel holds the pages for clean: nothing writes them again. */
        sim_crash_data(file->sim, file->inode);
        err = -HL_ERR_IO;
    } else if (err == 0) {
        for (struct sim_data_op *op = file->inode->ops; op != NULL; op = op->next) {
            apply_data(&file->inode->durable, op);
        }
        sim_ops_free(file->inode);
    }
    unlock(file);
    return err;
}

static int sim_truncate(struct os_file *f, uint64_t size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    CHECK(file->writable);
    if (err == 0) {
        err = sim_step(file->sim);
        note_data(file, SIM_TRUNCATE, 0, size, NULL, false);
        sim_image_truncate(&file->inode->seen, size);
    }
    unlock(file);
    return err;
}

static int sim_size(struct os_file *f, uint64_t *ret) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    if (err == 0) {
        *ret = file->inode->seen.size;
    }
    unlock(file);
    return err;
}

static int sim_punch(struct os_file *f, uint64_t off, uint64_t size) {
    int err;
    struct sim_file *file = lock_file(f, &err);
    CHECK(file->writable);
    if (err == 0) {
        err = sim_step(file->sim);
        note_data(file, SIM_PUNCH, off, size, NULL, false);
        sim_image_punch(&file->inode->seen, off, size);
    }
    unlock(file);
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
    unlock(file);
    return err;
}

static int sim_fd(struct os_file *f) {
    return -1;
}

static void sim_close(struct os_file *f) {
    int ignored;
    struct sim_file *file = lock_file(f, &ignored);
    struct sim_fs *sim = file->sim;
    if (file->locks && file->epoch == sim->epoch) {
        file->inode->locked = false;
    }
    sim_inode_unref(file->inode);
    free(file);
    pthread_mutex_unlock(&sim->mutex);
}

static const struct os_file_ops sim_file_ops = {
    .read = sim_read,
    .read_nowait = sim_read,
    .writev = sim_writev,
    .sync = sim_sync,
    .start_sync = sim_start_sync,
    .truncate = sim_truncate,
    .size = sim_size,
    .punch = sim_punch,
    .lock = sim_lock,
    .fd = sim_fd,
    .close = sim_close,
};

struct os_file *sim_file_new(struct sim_fs *sim, struct sim_inode *inode, unsigned flags) {
    struct sim_file *file = sim_must(calloc(1, sizeof(*file)));
    *file = (struct sim_file){.file = {&sim_file_ops},
                              .sim = sim,
                              .inode = sim_inode_ref(inode),
                              .epoch = sim->epoch,
                              .writable = (flags & OS_OPEN_WRITE) != 0,
                              .dsync = (flags & OS_OPEN_DSYNC) != 0};
    return &file->file;
}
