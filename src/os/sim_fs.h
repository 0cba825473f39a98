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

/* For the percentages below, where 0 means the default. */
#define SIM_FS_NEVER UINT32_MAX

struct sim_fs_options {
    uint64_t seed;
    uint64_t capacity_bytes;  /* 0: unlimited; beyond it writes answer NO_SPACE */
    uint32_t survive_percent; /* chance that an un-synced operation survives a crash (default 50) */
    uint32_t tear_percent;    /* chance that a surviving un-synced write is torn (default 25) */
};

/* Paths are absolute or relative to the root, which exists. Aborts when out of memory. */
struct sim_fs *sim_fs_new(const struct sim_fs_options *options);
void sim_fs_free(struct sim_fs *sim); /* after all files are closed; NULL is fine */
struct os_fs *sim_fs_fs(struct sim_fs *sim);

/* Power loss (unless it happened before) and restart. */
void sim_fs_crash(struct sim_fs *sim);
/* Power loss inside the n-th disk operation from now (write, truncate, sync, create, rename, ...):
 * that call and all later ones answer CRASHED, what it would have done may or may not reach the
 * disk; call sim_fs_crash() to come back up. 0 turns it off. */
void sim_fs_crash_after(struct sim_fs *sim, uint64_t operations);
/* Power loss now without restart: every call answers CRASHED until sim_fs_crash(). For failpoints'
 * crash handlers; may be called from within list's callback. */
void sim_fs_power_off(struct sim_fs *sim);
/* The process dies (kill -9), the machine does not: open handles answer CRASHED and lose their
 * locks, but what was written stays, synced or not. */
void sim_fs_kill(struct sim_fs *sim);
uint64_t sim_fs_operations(const struct sim_fs *sim); /* done so far */
bool sim_fs_crashed(const struct sim_fs *sim);

/* Faults. The n-th sync from now (of a file) fails once with IO: of what it should have made
 * durable, a subset is, and the rest will never be, as after a failed fsync(2). */
void sim_fs_fail_sync(struct sim_fs *sim, uint64_t nth);
/* The n-th write from now fails once with err; a part of it may be there. */
void sim_fs_fail_write(struct sim_fs *sim, uint64_t nth, int err);
/* Reads that touch this range of the file answer IO until sim_fs_heal_reads (or a restart of the
 * simulator); the newest range of a file counts. NOT_FOUND when there is no such file. */
int sim_fs_fail_read(struct sim_fs *sim, const char *path, uint64_t off, uint64_t size);
void sim_fs_heal_reads(struct sim_fs *sim);
/* Flips a bit (0 to 7) of the durable and the volatile image. NOT_FOUND or LIMIT when there is no
 * such byte. */
int sim_fs_flip(struct sim_fs *sim, const char *path, uint64_t off, unsigned bit);

#endif
