/* Files: the only door to disks. A file system is an object with a real implementation (os_fs_real)
 * and a simulated one (os/sim_fs.h) which loses, tears, reorders and corrupts what was not synced.
 *
 * All calls block and are meant for the log thread, workers and maintenance, except
 * os_file_read_nowait. Any thread may use a file; calls on disjoint ranges do not disturb each
 * other. Errors are -HL_ERR_... Durability: bytes are durable after os_file_sync returns 0; a new
 * or renamed name after os_dir_sync of its directory. A failed sync leaves the file's state
 * unknown: the caller must stop the store (fail-stop). */
#ifndef OS_FILE_H
#define OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct os_fs;
struct os_file;

enum os_open_flags {
    OS_OPEN_READ = 0,
    OS_OPEN_WRITE = 1 << 0,     /* read and write */
    OS_OPEN_CREATE = 1 << 1,    /* create if absent, mode 0600 */
    OS_OPEN_EXCLUSIVE = 1 << 2, /* with CREATE: fail with EXISTS if present */
    OS_OPEN_DIRECT = 1 << 3,    /* O_DIRECT where the file system has it; else silently without */
    OS_OPEN_DSYNC = 1 << 4,     /* each write is durable when it returns (O_DSYNC) */
};

struct os_space {
    uint64_t bytes_total;
    uint64_t bytes_free;  /* available to this user */
    uint64_t inodes_free; /* UINT64_MAX when unknown */
    uint64_t device;      /* st_dev: two directories on one disk have the same */
};

struct os_fs_ops {
    int (*open)(struct os_fs *fs, const char *path, unsigned flags, struct os_file **ret);
    int (*unlink)(struct os_fs *fs, const char *path);
    int (*rename)(struct os_fs *fs, const char *from, const char *to);
    int (*mkdir)(struct os_fs *fs, const char *path); /* mode 0700; EXISTS when there */
    int (*rmdir)(struct os_fs *fs, const char *path);
    int (*dir_sync)(struct os_fs *fs, const char *path);
    /* Calls fn for each entry but . and .., in no order; a non-zero result stops and is returned.
     */
    int (*list)(struct os_fs *fs, const char *path,
                int (*fn)(const char *name, bool is_dir, void *arg), void *arg);
    int (*space)(struct os_fs *fs, const char *path, struct os_space *ret);
    int (*stat)(struct os_fs *fs, const char *path, uint64_t *ret_size, bool *ret_is_dir);
};

struct os_file_ops {
    int (*read)(struct os_file *f, uint64_t off, void *data, size_t size, size_t *ret_size);
    int (*read_nowait)(struct os_file *f, uint64_t off, void *data, size_t size, size_t *ret_size);
    int (*writev)(struct os_file *f, uint64_t off, const struct iovec *iov, int iov_count);
    int (*sync)(struct os_file *f);
    void (*start_sync)(struct os_file *f, uint64_t off, uint64_t size);
    int (*truncate)(struct os_file *f, uint64_t size);
    int (*size)(struct os_file *f, uint64_t *ret);
    int (*punch)(struct os_file *f, uint64_t off, uint64_t size);
    int (*lock)(struct os_file *f);
    int (*fd)(struct os_file *f);
    void (*close)(struct os_file *f);
};

struct os_fs {
    const struct os_fs_ops *ops;
};
struct os_file {
    const struct os_file_ops *ops;
};

/* The real one; static, never freed. */
struct os_fs *os_fs_real(void);

static inline int os_open(struct os_fs *fs, const char *path, unsigned flags,
                          struct os_file **ret) {
    return fs->ops->open(fs, path, flags, ret);
}
static inline int os_unlink(struct os_fs *fs, const char *path) {
    return fs->ops->unlink(fs, path);
}
static inline int os_rename(struct os_fs *fs, const char *from, const char *to) {
    return fs->ops->rename(fs, from, to);
}
static inline int os_mkdir(struct os_fs *fs, const char *path) {
    return fs->ops->mkdir(fs, path);
}
static inline int os_rmdir(struct os_fs *fs, const char *path) {
    return fs->ops->rmdir(fs, path);
}
static inline int os_dir_sync(struct os_fs *fs, const char *path) {
    return fs->ops->dir_sync(fs, path);
}
static inline int os_list(struct os_fs *fs, const char *path,
                          int (*fn)(const char *name, bool is_dir, void *arg), void *arg) {
    return fs->ops->list(fs, path, fn, arg);
}
static inline int os_space(struct os_fs *fs, const char *path, struct os_space *ret) {
    return fs->ops->space(fs, path, ret);
}
static inline int os_stat(struct os_fs *fs, const char *path, uint64_t *ret_size,
                          bool *ret_is_dir) {
    return fs->ops->stat(fs, path, ret_size, ret_is_dir);
}

/* Reads up to size bytes; *ret_size is less only at the end of the file. Interrupted and short
 * reads are continued inside. */
static inline int os_file_read(struct os_file *f, uint64_t off, void *data, size_t size,
                               size_t *ret_size) {
    return f->ops->read(f, off, data, size, ret_size);
}
/* The same without waiting for a disk: -HL_ERR_AGAIN when not all is in the page cache. */
static inline int os_file_read_nowait(struct os_file *f, uint64_t off, void *data, size_t size,
                                      size_t *ret_size) {
    return f->ops->read_nowait(f, off, data, size, ret_size);
}
/* Writes everything or fails; what a failed write left behind is unknown. */
static inline int os_file_writev(struct os_file *f, uint64_t off, const struct iovec *iov, int n) {
    return f->ops->writev(f, off, iov, n);
}
static inline int os_file_write(struct os_file *f, uint64_t off, const void *data, size_t size) {
    struct iovec iov = {(void *)(uintptr_t)data, size};
    return f->ops->writev(f, off, &iov, 1);
}
/* fdatasync. */
static inline int os_file_sync(struct os_file *f) {
    return f->ops->sync(f);
}
/* Lets the kernel begin to write a range out, so that a later sync has less to wait for. A hint:
 * promises nothing, reports nothing. */
static inline void os_file_start_sync(struct os_file *f, uint64_t off, uint64_t size) {
    f->ops->start_sync(f, off, size);
}
static inline int os_file_truncate(struct os_file *f, uint64_t size) {
    return f->ops->truncate(f, size);
}
static inline int os_file_size(struct os_file *f, uint64_t *ret) {
    return f->ops->size(f, ret);
}
/* Gives the range back to the file system where it can (reads as zeros); UNSUPPORTED elsewhere. */
static inline int os_file_punch(struct os_file *f, uint64_t off, uint64_t size) {
    return f->ops->punch(f, off, size);
}
/* Exclusive lock of the open file description (OFD), held until close: -HL_ERR_LOCKED when another
 * has it. */
static inline int os_file_lock(struct os_file *f) {
    return f->ops->lock(f);
}
/* The descriptor for sendfile, or -1 in simulation. */
static inline int os_file_fd(struct os_file *f) {
    return f->ops->fd(f);
}
/* NULL is fine. */
static inline void os_file_close(struct os_file *f) {
    if (f != NULL) {
        f->ops->close(f);
    }
}

/* mkdir -p, syncing each parent that was changed. */
int os_mkdir_all(struct os_fs *fs, const char *path);
/* Writes a whole small file so that after a crash either the old or the new content is there:
 * temporary name in the same directory, sync, rename, sync of the directory. */
int os_file_replace(struct os_fs *fs, const char *path, const void *data, size_t size);
/* Reads a whole small file (at most size_max, else LIMIT) into heap memory with a NUL appended. */
int os_file_load(struct os_fs *fs, const char *path, size_t size_max, uint8_t **ret_data,
                 size_t *ret_size);

#endif
