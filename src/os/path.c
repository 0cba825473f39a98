/* Whole-file and whole-path helpers over any file system, real or simulated. They know nothing but
 * os/file.h and keep the order in which bytes and names must become durable. Any thread; two
 * threads must not replace the same path at once. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/macros.h"
#include "os/file.h"

static void close_file(struct os_file **f) {
    os_file_close(*f);
}

/* The directory that holds path, into ret; "." when there is no slash. */
static int parent_of(const char *path, char ret[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    int n = slash == path ? snprintf(ret, PATH_MAX, "/")
            : size == 0   ? snprintf(ret, PATH_MAX, ".")
                          : snprintf(ret, PATH_MAX, "%.*s", (int)size, path);
    return n < 0 || n >= PATH_MAX ? -HL_ERR_INVALID : 0;
}

/* One directory, its name made durable; fine when it is there already. */
static int make_dir(struct os_fs *fs, const char *path) {
    char parent[PATH_MAX];
    int err = os_mkdir(fs, path);
    if (err < 0) {
        uint64_t ignored;
        bool is_dir;
        /* On a read-only or foreign parent mkdir may fail although the directory is there. */
        return os_stat(fs, path, &ignored, &is_dir) == 0 && is_dir ? 0 : err;
    }
    err = parent_of(path, parent);
    return err < 0 ? err : os_dir_sync(fs, parent);
}

int os_mkdir_all(struct os_fs *fs, const char *path) {
    char partial[PATH_MAX];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof(partial)) {
        return -HL_ERR_INVALID;
    }
    for (size_t i = 1; i <= size; i++) {
        if ((path[i] != '/' && path[i] != 0) || path[i - 1] == '/') {
            continue; /* within a name, or at the second of two slashes */
        }
        memcpy(partial, path, i);
        partial[i] = 0;
        int err = make_dir(fs, partial);
        if (err < 0) {
            return err;
        }
    }
    return 0;
}

int os_file_replace(struct os_fs *fs, const char *path, const void *data, size_t size) {
    char temporary[PATH_MAX], parent[PATH_MAX];
    int n = snprintf(temporary, sizeof(temporary), "%s.new", path);
    int err = n < 0 || n >= PATH_MAX ? -HL_ERR_INVALID : parent_of(path, parent);
    if (err < 0) {
        return err;
    }
    CLEANUP(close_file) struct os_file *f = NULL;
    err = os_open(fs, temporary, OS_OPEN_WRITE | OS_OPEN_CREATE, &f);
    if (err == 0) {
        err = os_file_truncate(f, 0);
    }
    if (err == 0) {
        err = os_file_write(f, 0, data, size);
    }
    if (err == 0) {
        err = os_file_sync(f);
    }
    if (err == 0) {
        err = os_rename(fs, temporary, path);
    }
    if (err < 0) {
        os_unlink(fs, temporary); /* as far as it goes: the first error is what counts */
        return err;
    }
    return os_dir_sync(fs, parent);
}

int os_file_load(struct os_fs *fs, const char *path, size_t size_max, uint8_t **ret_data,
                 size_t *ret_size) {
    CLEANUP(close_file) struct os_file *f = NULL;
    uint64_t size;
    int err = os_open(fs, path, OS_OPEN_READ, &f);
    if (err == 0) {
        err = os_file_size(f, &size);
    }
    if (err < 0) {
        return err;
    }
    if (size > size_max) {
        return -HL_ERR_LIMIT;
    }
    CLEANUP_FREE uint8_t *data = malloc((size_t)size + 1);
    size_t done;
    if (data == NULL) {
        return -HL_ERR_NOMEM;
    }
    err = os_file_read(f, 0, data, (size_t)size, &done);
    if (err < 0) {
        return err;
    }
    data[done] = 0;
    *ret_data = TAKE_PTR(data);
    *ret_size = done;
    return 0;
}
