/* Segment files: create, recycle, open, remove.
 *
 * Invariant: a file bears the name NNNN.log only while its header says NNNN, durably. A new or
 * recycled file is prepared under NNNN.tmp and renamed when its header is synced; whatever is found
 * as .tmp at a start is the work of a crash and holds nothing. So a spare can be taken into use
 * without touching a directory, and a header that does not match its name is damage.
 *
 * Any thread that holds files_lock. Knows nothing of records. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "log/log_int.h"

#define ZERO_BYTES (64u << 10)
#define ZERO_IOVS  16

char *log_segment_path(const struct log *log, uint64_t number, const char *suffix) {
    char *path = NULL;
    if (asprintf(&path, "%s/%016llx.%s", log->path, (unsigned long long)number, suffix) < 0) {
        return NULL;
    }
    return path;
}

void log_segment_free(struct log_segment *segment) {
    if (segment != NULL) {
        os_file_close(segment->file);
        free(segment);
    }
}

static void cleanup_segment(struct log_segment **segment) {
    log_segment_free(*segment);
}

/* Reads the header; damage is noted in the segment, a foreign log refused. */
static int read_header(struct log *log, struct log_segment *segment, const char *path) {
    uint8_t data[sizeof(struct log_segment_header)];
    size_t got = 0;
    int err = os_file_read(segment->file, 0, data, sizeof(data), &got);
    if (err != 0) {
        LOG_ERROR("log", "cannot read the header of %s: %s", path, error_text(err));
        return err;
    }
    struct log_segment_info info;
    err = log_segment_decode(slice_of(data, got), &info);
    if (err == -HL_ERR_BAD_FORMAT) {
        LOG_ERROR("log", "%s was written by another version of the program", path);
        return err;
    }
    if (err == 0 && memcmp(info.cluster_id, log->cluster_id, LOG_CLUSTER_ID_SIZE) != 0) {
        LOG_ERROR("log", "%s belongs to another cluster", path);
        return -HL_ERR_WRONG_CLUSTER;
    }
    if (err != 0 || info.number != segment->number || info.segment_bytes != segment->size) {
        segment->header_error = -HL_ERR_CORRUPT;
        return 0;
    }
    segment->crc = info.crc;
    return 0;
}

int log_segment_open(struct log *log, uint64_t number, struct log_segment **ret) {
    CLEANUP_FREE char *path = log_segment_path(log, number, "log");
    CLEANUP(cleanup_segment) struct log_segment *segment = calloc(1, sizeof(*segment));
    if (path == NULL || segment == NULL) {
        return -HL_ERR_NOMEM;
    }
    segment->number = number;
    segment->used = LOG_SEGMENT_HEADER_SIZE;
    int err = os_open(log->env->fs, path, OS_OPEN_WRITE, &segment->file);
    if (err == 0) {
        err = os_file_size(segment->file, &segment->size);
    }
    if (err != 0) {
        LOG_ERROR("log", "cannot open %s: %s", path, error_text(err));
        return err;
    }
    err = read_header(log, segment, path);
    if (err != 0) {
        return err;
    }
    *ret = TAKE_PTR(segment);
    return 0;
}

static int write_header(struct log *log, struct log_segment *segment) {
    struct log_segment_info info = {.number = segment->number, .segment_bytes = segment->size};
    memcpy(info.cluster_id, log->cluster_id, LOG_CLUSTER_ID_SIZE);
    uint8_t block[LOG_SEGMENT_HEADER_SIZE] = {0};
    struct log_segment_header header;
    log_segment_encode(&info, &header);
    memcpy(block, &header, sizeof(header));
    segment->crc = info.crc;
    return os_file_write(segment->file, 0, block, sizeof(block));
}

/* Writes zeros over the whole file, so that its blocks are allocated and later writes need no
 * journal commit of the file system. */
static int write_zeros(struct log_segment *segment) {
    static const uint8_t zeros[ZERO_BYTES];
    for (uint64_t off = 0; off < segment->size;) {
        struct iovec iov[ZERO_IOVS];
        int count = 0;
        uint64_t size = 0;
        while (count < ZERO_IOVS && off + size < segment->size) {
            uint64_t rest = segment->size - off - size;
            iov[count++] = (struct iovec){(void *)(uintptr_t)zeros, MIN(rest, ZERO_BYTES)};
            size += MIN(rest, ZERO_BYTES);
        }
        int err = os_file_writev(segment->file, off, iov, count);
        if (err != 0) {
            return err;
        }
        off += size;
    }
    return 0;
}

/* Header, sync, the final name, sync of the directory. */
static int finish_segment(struct log *log, struct log_segment *segment, const char *temporary,
                          const char *final) {
    int err = write_header(log, segment);
    if (err != 0) {
        return err;
    }
    err = os_file_sync(segment->file);
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.segment.created");
    err = os_rename(log->env->fs, temporary, final);
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.segment.renamed");
    return os_dir_sync(log->env->fs, log->path);
}

int log_segment_create(struct log *log, uint64_t number, struct log_segment **ret) {
    CLEANUP_FREE char *temporary = log_segment_path(log, number, "tmp");
    CLEANUP_FREE char *final = log_segment_path(log, number, "log");
    CLEANUP(cleanup_segment) struct log_segment *segment = calloc(1, sizeof(*segment));
    if (temporary == NULL || final == NULL || segment == NULL) {
        return -HL_ERR_NOMEM;
    }
    segment->number = number;
    segment->used = LOG_SEGMENT_HEADER_SIZE;
    segment->size = log->options.segment_bytes;
    int err = os_open(log->env->fs, temporary, OS_OPEN_WRITE | OS_OPEN_CREATE, &segment->file);
    if (err != 0) {
        return err;
    }
    err = write_zeros(segment);
    if (err == 0) {
        err = finish_segment(log, segment, temporary, final);
    }
    if (err != 0) {
        /* Gives the room back; if even that fails the next open removes the file. */
        (void)os_unlink(log->env->fs, temporary);
        return err;
    }
    metric_add(&log_metric_segments_made, 1);
    *ret = TAKE_PTR(segment);
    return 0;
}

/* A full disk makes no spare of a released segment (a file system that never writes in place needs
 * room for its header): it goes, which needs none. */
static int give_up(struct log *log, const char *path, const char *other) {
    int err = os_unlink(log->env->fs, path);
    if (err == -HL_ERR_NOT_FOUND && other != NULL) {
        err = os_unlink(log->env->fs, other);
    }
    return err == 0 ? os_dir_sync(log->env->fs, log->path) : err;
}

int log_segment_recycle(struct log *log, struct log_segment *segment_, uint64_t number,
                        struct log_segment **ret) {
    CLEANUP(cleanup_segment) struct log_segment *segment = segment_;
    CLEANUP_FREE char *old = log_segment_path(log, segment->number, "log");
    CLEANUP_FREE char *temporary = log_segment_path(log, number, "tmp");
    CLEANUP_FREE char *final = log_segment_path(log, number, "log");
    if (old == NULL || temporary == NULL || final == NULL) {
        return -HL_ERR_NOMEM;
    }
    /* The old name is gone durably before its header changes, and before a younger segment can be
     * released: after a crash the held segments still are one run of numbers. */
    *ret = NULL;
    int err = os_rename(log->env->fs, old, temporary);
    if (err == -HL_ERR_NO_SPACE) {
        return give_up(log, old, NULL);
    }
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.release.renamed");
    err = os_dir_sync(log->env->fs, log->path);
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.release.unnamed");
    segment->number = number;
    segment->used = LOG_SEGMENT_HEADER_SIZE;
    err = finish_segment(log, segment, temporary, final);
    if (err == -HL_ERR_NO_SPACE) {
        return give_up(log, temporary, final);
    }
    if (err != 0) {
        return err;
    }
    *ret = TAKE_PTR(segment);
    return 0;
}

int log_segment_remove(struct log *log, struct log_segment *segment_) {
    CLEANUP(cleanup_segment) struct log_segment *segment = segment_;
    CLEANUP_FREE char *path = log_segment_path(log, segment->number, "log");
    if (path == NULL) {
        return -HL_ERR_NOMEM;
    }
    return os_unlink(log->env->fs, path);
}

int log_segments_push(struct log *log, struct log_segment *segment) {
    CHECK(log->count == 0 || log->segments[log->count - 1]->number < segment->number);
    if (log->count == log->capacity) {
        size_t capacity = MAX(log->capacity * 2, (size_t)8);
        struct log_segment **segments = reallocarray(log->segments, capacity, sizeof(*segments));
        if (segments == NULL) {
            return -HL_ERR_NOMEM;
        }
        log->segments = segments;
        log->capacity = capacity;
    }
    log->segments[log->count++] = segment;
    return 0;
}

/* One more spare; only whoever holds files_lock adds or removes spares at the end of the array. */
static int make_spare(struct log *log) {
    log_lock(log);
    uint64_t number = log->count == 0 ? 1 : log->segments[log->count - 1]->number + 1;
    log_unlock(log);
    struct log_segment *segment = NULL;
    int err = log_segment_create(log, number, &segment);
    if (err != 0) {
        return err;
    }
    log_lock(log);
    err = log_segments_push(log, segment);
    log_unlock(log);
    if (err != 0) {
        log_segment_free(segment);
    }
    return err;
}

int log_make_spares(struct log *log, size_t count) {
    int err = 0;
    pthread_mutex_lock(&log->files_lock);
    while (err == 0) {
        log_lock(log);
        bool enough = log->count - log->held_count >= count;
        log_unlock(log);
        if (enough) {
            break;
        }
        err = make_spare(log);
    }
    pthread_mutex_unlock(&log->files_lock);
    return err;
}
