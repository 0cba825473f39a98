/* What the files of the simulated disk share. Two worlds: the volatile one ("seen"), which calls
 * see, and the durable one, which a crash leaves. Everything below is protected by sim_fs.mutex. */
#ifndef OS_SIM_FS_INT_H
#define OS_SIM_FS_INT_H

#include <pthread.h>

#include "base/check.h"
#include "base/prng.h"
#include "os/sim_fs.h"
#include "os/sim_image.h"

#define SIM_PATH_MAX 512

struct sim_data_op { /* an un-synced change of a file's data */
    struct sim_data_op *next;
    enum { SIM_WRITE, SIM_TRUNCATE, SIM_PUNCH } kind;
    bool sure; /* of a file opened with DSYNC: survives whole */
    uint64_t off;
    uint64_t size; /* bytes, or the new size of the file */
    uint8_t bytes[];
};

struct sim_inode {
    uint32_t refs; /* entries of both worlds, name operations, open handles */
    bool is_dir;
    bool locked;
    struct sim_image seen, durable;
    struct sim_data_op *ops, **ops_end;
    uint64_t bad_off, bad_size; /* reads that touch this range fail */
};

struct sim_entry {
    char *path; /* clean, see sim_path_clean */
    struct sim_inode *inode;
};

struct sim_names { /* one world's names, in no order */
    struct sim_entry *entries;
    size_t count, capacity;
};

struct sim_name_op { /* an un-synced change of names */
    struct sim_name_op *next;
    enum { SIM_CREATE, SIM_REMOVE, SIM_RENAME } kind;
    char *path;
    char *to; /* RENAME */
    struct sim_inode *inode;
};

struct sim_fs {
    struct os_fs fs;
    pthread_mutex_t mutex;
    struct sim_fs_options options;
    struct prng prng;
    struct sim_names seen, durable;
    struct sim_name_op *name_ops, **name_ops_end;
    uint64_t operations;
    uint64_t crash_in, fail_sync_in, fail_write_in; /* 0: not armed */
    int fail_write_err;
    uint64_t epoch;       /* counts crashes: older handles are dead */
    uint64_t chunk_count; /* of all seen images: the space in use */
    bool crashed;
};

static inline void *sim_must(void *p) {
    CHECK(p != NULL); /* a simulation without memory proves nothing */
    return p;
}

/* Counts a disk operation. 0, or CRASHED when the power goes in this very operation; the caller has
 * checked that it had not gone before, and notes the operation in either case. */
int sim_step(struct sim_fs *sim);
bool sim_chance(struct sim_fs *sim, uint32_t percent);

/* sim_names.c */
struct sim_inode *sim_inode_new(struct sim_fs *sim, bool is_dir);
struct sim_inode *sim_inode_ref(struct sim_inode *inode);
void sim_inode_unref(struct sim_inode *inode);
/* "/a/b": one slash before each name, none at the end; "/" for the root and for ".". INVALID when
 * too long. */
int sim_path_clean(const char *path, char ret[SIM_PATH_MAX]);
void sim_path_parent(const char *clean, char ret[SIM_PATH_MAX]);
struct sim_entry *sim_names_find(struct sim_names *names, const char *path);
void sim_names_put(struct sim_names *names, const char *path, struct sim_inode *inode);
void sim_names_remove(struct sim_names *names, const char *path);
void sim_names_clear(struct sim_names *names);
bool sim_names_is_dir(struct sim_names *names, const char *path);
bool sim_names_has_parent(struct sim_names *names, const char *path);
bool sim_names_has_children(struct sim_names *names, const char *path);
void sim_note_name(struct sim_fs *sim, int kind, const char *path, const char *to,
                   struct sim_inode *inode);
/* Makes a directory's pending name operations durable. */
void sim_settle_dir(struct sim_fs *sim, const char *dir);
/* A directory that is not empty moves at once and for good, with every change of names before it:
 * simpler than a real disk, and enough for what the tree does with it (moving old metadata aside).
 */
void sim_move_dir(struct sim_fs *sim, const char *from, const char *to);
/* Lets the seed decide about each pending name operation, and forgets them all. */
void sim_crash_names(struct sim_fs *sim);

/* sim_file.c */
struct os_file *sim_file_new(struct sim_fs *sim, struct sim_inode *inode, unsigned flags);
void sim_ops_free(struct sim_inode *inode);
/* Lets the seed decide about each pending data operation, and forgets them all. */
void sim_crash_data(struct sim_fs *sim, struct sim_inode *inode);

#endif
