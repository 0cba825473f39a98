/* Inside of the volume folder: the set, its directories, devices and files. One mutex (set->mutex)
 * guards every field that is not marked otherwise; it is never held during disk work, except for
 * os_space, which asks the kernel only. */
#ifndef VOLUME_VOLUME_INT_H
#define VOLUME_VOLUME_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "volume/volume_record.h"

#define VOLUME_BYTES_MAX_DEFAULT    (1ull << 30)
#define VOLUME_RESERVE_DEFAULT_MIN  (12ull << 20)
#define VOLUME_INODES_MIN           8u
#define VOLUME_SPACE_REFRESH_US     1000000u
#define VOLUME_SPACE_REFRESH_BYTES  (16ull << 20)
#define VOLUME_DIR_HYSTERESIS_BYTES (64ull << 20)

/* A file system that one or several directories share. */
struct volume_device {
    uint64_t device;
    uint64_t bytes_total;
    uint64_t bytes_free; /* as asked last */
    uint64_t inodes_free;
    uint64_t written_since; /* bytes written since then */
    uint64_t outstanding;   /* reserved in open regions, not written yet */
    uint64_t kept;          /* for others on this file system; not even the reserve may take it */
    uint64_t refreshed_us;
};

struct volume_directory {
    char *path;
    char *volumes_path;
    uint64_t capacity_bytes;
    uint64_t reserve_bytes;
    uint64_t volume_bytes_max; /* the set's, or less so that a whole volume fits into the reserve */
    uint64_t used_bytes;       /* sum of its volumes' append offsets */
    struct volume_device *device;
    struct os_file *lock;
    struct volume_file *open; /* takes appends; NULL: none yet */
    bool read_only;
    bool creating; /* a thread is making its next volume */
};

/* A reserved run of a volume that is being written. Nothing else writes there. */
struct volume_region {
    struct volume_file *file; /* pinned */
    uint64_t off;
    uint64_t bytes;
    uint64_t left; /* not written yet */
    struct volume_region *prev, *next;
};

struct volume_file {
    struct volume_set *set;
    uint32_t number;
    uint32_t dir;
    char *path;
    struct os_file *file;           /* constant while pinned */
    uint8_t uuid[VOLUME_UUID_SIZE]; /* constant */
    bool damaged;                   /* constant: the file header is unreadable */
    uint64_t append_off;
    bool sealed;
    bool removed;
    uint32_t refs; /* the table counts as one */
    struct volume_region *regions;
    uint64_t written_generation; /* counts finished writes */
    uint64_t synced_generation;
    bool syncing;
};

struct volume_set {
    struct os_env *env;
    uint8_t cluster_id[16];
    uint64_t volume_bytes_max;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a sync ended, a volume was made */
    struct volume_directory *dirs;
    uint32_t dir_count;
    struct volume_device *devices;
    uint32_t device_count;
    uint32_t dir_last;          /* the directory chosen last */
    struct volume_file **files; /* by ascending number */
    uint32_t file_count;
    uint32_t file_capacity;
    uint32_t number_next;
    _Atomic bool failed; /* a sync failed: the disk's state is unknown */
};

/* ---- volume_set.c, with set->mutex held ---- */
struct volume_file *volume_find(struct volume_set *set, uint32_t number);
int volume_insert(struct volume_set *set, struct volume_file *file);
void volume_unref(struct volume_file *file); /* may close the file */

/* ---- volume_file.c ---- */
/* Makes and syncs a new volume file and its name; not in the table yet. */
int volume_file_create(struct volume_set *set, uint32_t dir, uint32_t number,
                       struct volume_file **ret);
/* Opens a file found in a directory. *ret is NULL when it was the trace of a crash inside
 * volume_file_create and has been deleted. */
int volume_file_open(struct volume_set *set, uint32_t dir, const char *name, uint32_t number,
                     struct volume_file **ret);
void volume_file_free(struct volume_file *file);
/* Moves the append offset behind everything that a header in the file claims, see volume_file.c. */
int volume_file_prepare_append(struct volume_file *file);

/* ---- volume_dir.c ---- */
int volume_dir_open(struct volume_set *set, uint32_t index, bool first_start, bool is_new);
void volume_dir_close(struct volume_directory *dir);

/* ---- volume_space.c ---- */
int volume_space_init(struct volume_set *set, const struct volume_options *options);
/* With set->mutex held: the directory for size more bytes. NO_SPACE, READ_ONLY, IO. */
int volume_space_choose(struct volume_set *set, uint64_t size, bool use_reserve, uint32_t *ret_dir);
/* Forget what was known about free space (a write met a full disk). */
void volume_space_stale(struct volume_set *set, uint32_t dir);

/* ---- volume_region.c ---- */
int volume_region_open(struct volume_set *set, uint64_t bytes, bool use_reserve,
                       struct volume_region *ret);
/* Writes at off of the region; counts space; any error is final for the region. */
int volume_region_write(struct volume_region *region, uint64_t off, const struct iovec *iov,
                        int count);
/* used: bytes from the region's start that stay taken; the rest is given back when nothing lies
 * behind. */
void volume_region_close(struct volume_region *region, uint64_t used);

/* ---- volume_sync.c ---- */
void volume_fail(struct volume_set *set, const char *path, int err);
static inline bool volume_failed(struct volume_set *set) {
    return atomic_load_explicit(&set->failed, memory_order_acquire);
}

/* ---- volume_read.c ---- */
/* Reads and checks the header at off. */
int volume_header_read(struct volume_file *file, uint64_t off, bool nowait,
                       struct volume_header *ret);

#endif
