/* A simulated disk in memory that keeps only what was promised.
 *
 * Writes go to a volatile image and to a list of un-synced operations; os_file_sync makes the
 * file's operations durable, os_dir_sync the names of a directory. sim_fs_crash() throws the
 * volatile state away: of what was not synced, an arbitrary subset drawn from the seed survives,
 * each write whole or torn at 512-byte sectors, in any order; un-synced creates, renames and
 * unlinks survive or not, independently. After a crash all open handles answer CRASHED until they
 * are closed; opening again sees what survived. */
#ifndef OS_SIM_FS_H
#define OS_SIM_FS_H

#include "os/file.h"

struct sim_fs;

struct sim_fs_options {
    uint64_t seed;
    uint64_t capacity_bytes;  /* 0: unlimited; beyond it writes answer NO_SPACE */
    uint32_t survive_percent; /* chance that an un-synced operation survives a crash (default 50) */
    uint32_t tear_percent;    /* chance that a surviving un-synced write is torn (default 25) */
};

struct sim_fs *sim_fs_new(const struct sim_fs_options *options);
void sim_fs_free(struct sim_fs *sim);
struct os_fs *sim_fs_fs(struct sim_fs *sim);

/* Power loss now. */
void sim_fs_crash(struct sim_fs *sim);
/* Power loss inside the n-th disk operation from now (write, sync, rename, ...): that call and all
 * later ones answer CRASHED; call sim_fs_crash() to come back up. 0 turns it off. */
void sim_fs_crash_after(struct sim_fs *sim, uint64_t operations);
uint64_t sim_fs_operations(const struct sim_fs *sim); /* done so far */
bool sim_fs_crashed(const struct sim_fs *sim);

/* Faults. The n-th sync (from now) fails once with IO; reads of a byte range of a file fail or are
 * flipped. */
void sim_fs_fail_sync(struct sim_fs *sim, uint64_t nth);
void sim_fs_fail_write(struct sim_fs *sim, uint64_t nth, int err);
/* Flips bit of the durable and the volatile image. NOT_FOUND or LIMIT when there is no such byte.
 */
int sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t off, unsigned bit);

#endif
