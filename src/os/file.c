/* Real files. Every call loops over interrupted and short system calls, so that callers see all or
 * an error. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/macros.h"

struct real_file {
    struct os_file file;
    int fd;
    bool direct;
};

/* A direct read that ends off a sector has met the end of the file; to go on from there would be
 * refused as misaligned. */
#define DIRECT_ALIGNMENT 512

static int fd_of(struct os_file *f) {
    return ((struct real_file *)f)->fd;
}

/* ---- reading and writing ---- */

static int real_read(struct os_file *f, uint64_t off, void *data, size_t size, size_t *ret_size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd_of(f), (char *)data + done, size - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_from_errno(errno);
        }
        done += (size_t)n;
        if (n == 0 || (((struct real_file *)f)->direct && done % DIRECT_ALIGNMENT != 0)) {
            break;
        }
    }
    *ret_size = done;
    return 0;
}

static int real_read_nowait(struct os_file *f, uint64_t off, void *data, size_t size,
                            size_t *ret_size) {
    size_t done = 0;
    while (done < size) {
        struct iovec iov = {(char *)data + done, size - done};
        ssize_t n = preadv2(fd_of(f), &iov, 1, (off_t)(off + done), RWF_NOWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            bool wait =
                errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
            return wait ? -HL_ERR_AGAIN : error_from_errno(errno);
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *ret_size = done;
    return 0;
}

static int write_all(int fd, uint64_t off, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = pwrite(fd, data, size, (off_t)off);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? error_from_errno(errno) : -HL_ERR_IO;
        }
        off += (uint64_t)n;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

static int real_writev(struct os_file *f, uint64_t off, const struct iovec *iov, int iov_count) {
    while (iov_count > 0) {
        ssize_t n = pwritev(fd_of(f), iov, MIN(iov_count, IOV_MAX), (off_t)off);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_from_errno(errno);
        }
        off += (uint64_t)n;
        size_t written = (size_t)n;
        for (; iov_count > 0 && written >= iov->iov_len; iov++, iov_count--) {
            written -= iov->iov_len;
        }
        if (iov_count == 0) {
            break;
        }
        /* Short, or the first of a next batch: finish the vector that was begun, then go on. */
        int err =
            write_all(fd_of(f), off, (const char *)iov->iov_base + written, iov->iov_len - written);
        if (err < 0) {
            return err;
        }
        off += iov->iov_len - written;
        iov++;
        iov_count--;
    }
    return 0;
}

static void real_start_sync(struct os_file *f, uint64_t off, uint64_t size) {
    /* An error stays with the pages and is met by the sync. */
    (void)sync_file_range(fd_of(f), (off64_t)off, (off64_t)size, SYNC_FILE_RANGE_WRITE);
}

static int real_sync(struct os_file *f) {
    int rc;
    do {
        rc = fdatasync(fd_of(f));
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : error_from_errno(errno);
}

static int real_truncate(struct os_file *f, uint64_t size) {
    int rc;
    do {
        rc = ftruncate(fd_of(f), (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : error_from_errno(errno);
}

static int real_size(struct os_file *f, uint64_t *ret) {
    struct stat st;
    if (fstat(fd_of(f), &st) != 0) {
        return error_from_errno(errno);
    }
    *ret = (uint64_t)st.st_size;
    return 0;
}

static int real_punch(struct os_file *f, uint64_t off, uint64_t size) {
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(fd_of(f), mode, (off_t)off, (off_t)size) == 0) {
        return 0;
    }
    return errno == EOPNOTSUPP ? -HL_ERR_UNSUPPORTED : error_from_errno(errno);
}

static int real_lock(struct os_file *f) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd_of(f), F_OFD_SETLK, &lock) == 0) {
        return 0;
    }
    return errno == EAGAIN || errno == EACCES ? -HL_ERR_LOCKED : error_from_errno(errno);
}

static int real_fd(struct os_file *f) {
    return fd_of(f);
}

static void real_close(struct os_file *f) {
    close(fd_of(f));
    free(f);
}

static const struct os_file_ops real_file_ops = {
    .read = real_read,
    .read_nowait = real_read_nowait,
    .writev = real_writev,
    .sync = real_sync,
    .start_sync = real_start_sync,
    .truncate = real_truncate,
    .size = real_size,
    .punch = real_punch,
    .lock = real_lock,
    .fd = real_fd,
    .close = real_close,
};

/* ---- names ---- */

static int open_flags(unsigned flags) {
    int mode = O_CLOEXEC | ((flags & OS_OPEN_WRITE) != 0 ? O_RDWR : O_RDONLY);
    mode |= (flags & OS_OPEN_CREATE) != 0 ? O_CREAT : 0;
    mode |= (flags & OS_OPEN_EXCLUSIVE) != 0 ? O_EXCL : 0;
    mode |= (flags & OS_OPEN_DIRECT) != 0 ? O_DIRECT : 0;
    mode |= (flags & OS_OPEN_DSYNC) != 0 ? O_DSYNC : 0;
    return mode;
}

static int open_retry(const char *path, int flags) {
    int fd;
    do {
        fd = open(path, flags, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static int real_open(struct os_fs *fs, const char *path, unsigned flags, struct os_file **ret) {
    struct real_file *f = malloc(sizeof(*f));
    if (f == NULL) {
        return -HL_ERR_NOMEM;
    }
    int fd = open_retry(path, open_flags(flags));
    if (fd < 0 && errno == EINVAL && (flags & OS_OPEN_DIRECT) != 0) {
        flags &= ~(unsigned)OS_OPEN_DIRECT;
        fd = open_retry(path, open_flags(flags));
    }
    if (fd < 0) {
        int err = error_from_errno(errno);
        free(f);
        return err;
    }
    *f = (struct real_file){{&real_file_ops}, fd, (flags & OS_OPEN_DIRECT) != 0};
    *ret = &f->file;
    return 0;
}

static int real_unlink(struct os_fs *fs, const char *path) {
    return unlink(path) == 0 ? 0 : error_from_errno(errno);
}

static int real_rename(struct os_fs *fs, const char *from, const char *to) {
    return rename(from, to) == 0 ? 0 : error_from_errno(errno);
}

static int real_mkdir(struct os_fs *fs, const char *path) {
    return mkdir(path, 0700) == 0 ? 0 : error_from_errno(errno);
}

static int real_rmdir(struct os_fs *fs, const char *path) {
    return rmdir(path) == 0 ? 0 : error_from_errno(errno);
}

static int real_dir_sync(struct os_fs *fs, const char *path) {
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return error_from_errno(errno);
    }
    int err = fsync(fd) == 0 ? 0 : error_from_errno(errno);
    close(fd);
    return err;
}

static bool entry_is_dir(DIR *dir, const struct dirent *entry) {
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) {
        return entry->d_type == DT_DIR;
    }
    struct stat st;
    return fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int real_list(struct os_fs *fs, const char *path,
                     int (*fn)(const char *name, bool is_dir, void *arg), void *arg) {
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return error_from_errno(errno);
    }
    int err = 0;
    while (err == 0) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            err = error_from_errno(errno); /* 0 at the end */
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            err = fn(entry->d_name, entry_is_dir(dir, entry), arg);
        }
    }
    closedir(dir);
    return err;
}

static int real_space(struct os_fs *fs, const char *path, struct os_space *ret) {
    struct statvfs vfs;
    struct stat st;
    if (statvfs(path, &vfs) != 0 || stat(path, &st) != 0) {
        return error_from_errno(errno);
    }
    /* File systems without fixed inodes (btrfs) report none at all. */
    *ret = (struct os_space){
        .bytes_total = (uint64_t)vfs.f_blocks * vfs.f_frsize,
        .bytes_free = (uint64_t)vfs.f_bavail * vfs.f_frsize,
        .inodes_free = vfs.f_files == 0 ? UINT64_MAX : (uint64_t)vfs.f_favail,
        .device = (uint64_t)st.st_dev,
    };
    return 0;
}

static int real_stat(struct os_fs *fs, const char *path, uint64_t *ret_size, bool *ret_is_dir) {
    struct stat st;
    if (stat(path, &st) != 0) {
        return error_from_errno(errno);
    }
    *ret_size = (uint64_t)st.st_size;
    *ret_is_dir = S_ISDIR(st.st_mode);
    return 0;
}

static const struct os_fs_ops real_fs_ops = {
    .open = real_open,
    .unlink = real_unlink,
    .rename = real_rename,
    .mkdir = real_mkdir,
    .rmdir = real_rmdir,
    .dir_sync = real_dir_sync,
    .list = real_list,
    .space = real_space,
    .stat = real_stat,
};

struct os_fs *os_fs_real(void) {
    static struct os_fs real = {&real_fs_ops};
    return &real;
}
