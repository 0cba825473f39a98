/* Volumes: append-only files that pack records (volume_format.h). A set of volumes lies in one or
 * several data directories, each with a marker file and a capacity. A record binds its bytes to
 * their identity: volume, offset in the volume, body id, offset in the body and length are all
 * under the checksum, so that a misdirected, stale or swapped read is an error and never another
 * object's bytes.
 *
 * Records are written whole: reserve a slot, stream the body, finish with the origin. Until
 * volume_sync returns, nothing of them is durable. The volume layer does not know which records are
 * alive: the location index (data/) does.
 *
 * Threads: any; a slot belongs to one thread at a time. All calls may block on disk. */
#ifndef VOLUME_VOLUME_H
#define VOLUME_VOLUME_H

#include "base/slice.h"
#include "os/env.h"

struct body_id {
    uint64_t high; /* drawn at random at each start of an allocating node: never reused */
    uint64_t low;  /* counts up */
};
#define BODY_ID_NONE ((struct body_id){0, 0})
static inline bool body_id_equal(struct body_id a, struct body_id b) {
    return a.high == b.high && a.low == b.low;
}
static inline bool body_id_is_none(struct body_id id) {
    return id.high == 0 && id.low == 0;
}

/* Where a record is. */
struct volume_location {
    uint32_t volume;       /* number of the file */
    uint64_t off;          /* of the record's header */
    uint32_t record_bytes; /* whole record with header, tables, origin and padding */
    uint32_t body_bytes;
};

enum volume_record_kind {
    VOLUME_HEAD = 1,  /* an object's head: origin is (key row, value row), body bytes if small */
    VOLUME_BLOCK = 2, /* a block of a large body: origin names bucket, key and position */
    VOLUME_TOMBSTONES = 3, /* a batch of (volume, body id) of dead heads, see volume_format.h */
    VOLUME_CONFIG =
        4, /* a row of configuration (a bucket's name and settings): origin is (key, value) */
};

struct volume_record {
    struct body_id id;
    uint32_t kind;
    struct slice origin_key; /* small; opaque here */
    struct slice origin_value;
};

struct volume_dir {
    const char *path;
    uint64_t capacity_bytes; /* 0: what the file system has */
    bool read_only;          /* takes no new volumes */
    bool is_new;             /* never used: gets a marker when it has none and is empty */
};

struct volume_options {
    const struct volume_dir *dirs;
    uint32_t dir_count;
    const uint8_t *cluster_id; /* 16 bytes */
    uint64_t volume_bytes_max; /* a volume is sealed beyond this (default 1 GiB) */
    uint64_t reserve_bytes; /* per file system, kept free for compaction and checkpoints (default:
                               5 %, at least 12 MiB, at most 1.25 volumes; volumes of a small disk
                               are then smaller, so that the live part of one fits into it) */
};

struct volume_set;
/* Opens the set; creates volumes/ and the marker in a directory that is empty and has neither. A
 * directory that has no marker and is neither at its first start nor is_new answers NO_MARKER and
 * nothing is written beneath. LOCKED, WRONG_CLUSTER, NO_MARKER and
 * their kin are logged with the path and what to do. */
int volume_set_open(struct os_env *env, const struct volume_options *options, bool first_start,
                    struct volume_set **ret);
void volume_set_close(struct volume_set *set);

/* A record being written. */
struct volume_slot;
/* Takes room for a record whose body has at most body_bytes_max bytes and whose origin has at most
 * origin_bytes_max. use_reserve: compaction and checkpoints may use the reserved space. */
int volume_slot_open(struct volume_set *set, uint64_t body_bytes_max, uint64_t origin_bytes_max,
                     bool use_reserve, struct volume_slot **ret);
/* The next bytes of the body (written through to the file, checksummed per 64 KiB). */
int volume_slot_write(struct volume_slot *slot, const void *data, size_t size);
/* Completes the record: tables, origin, header last. Unused room is returned or padded over. Frees
 * the slot on success and on failure. */
int volume_slot_finish(struct volume_slot *slot, const struct volume_record *record,
                       struct volume_location *ret);
void volume_slot_abort(struct volume_slot *slot); /* NULL is fine */
/* Where the record will be. */
void volume_slot_place(const struct volume_slot *slot, uint32_t *ret_volume, uint64_t *ret_off);

/* Many small records with one write (the apply path): each record's whole body is given. On success
 * every ret_locations[i] is set; nothing is synced. */
struct volume_append {
    struct volume_record record;
    struct slice body;
};
int volume_append(struct volume_set *set, const struct volume_append *appends, uint32_t count,
                  bool use_reserve, struct volume_location *ret_locations);

/* Writes the bytes of a record that is there already over itself, so that the next sync really
 * brings them to the disk: after a sync that failed in an earlier life of the process the kernel
 * may hold pages that look clean and are on no disk. The caller has verified that they are the same
 * bytes.
 */
int volume_rewrite(struct volume_set *set, const struct volume_append *append,
                   const struct volume_location *location);

/* Makes everything finished in a volume before the call durable, and its name. That includes what
 * an earlier process wrote: after volume_set_open every volume counts as not synced. Concurrent
 * calls share syncs. A failed sync is fatal to the set: later calls answer CRASHED.
 * volume_sync_all: all volumes. */
int volume_sync(struct volume_set *set, uint32_t volume);
int volume_sync_all(struct volume_set *set);

/* A pinned volume file: stays readable while pinned, also when the volume is removed. */
struct volume_file;
struct volume_file *volume_pin(struct volume_set *set, uint32_t volume); /* NULL when unknown */
void volume_unpin(struct volume_file *file);
/* Verifies header and identity, then the 64 KiB spans that [off, off + size) of the body touches,
 * and copies. CORRUPT when a checksum or the identity is wrong; IO; AGAIN with nowait when it would
 * wait for the disk. */
int volume_read(struct volume_file *file, const struct volume_location *location, struct body_id id,
                uint64_t off, void *data, size_t size, bool nowait);
/* The record's header and origin (copied into *ret_origin as key blob, value blob; caller frees
 * with buf_done). */
struct buf;
int volume_read_origin(struct volume_file *file, const struct volume_location *location,
                       struct volume_record *ret_record, struct buf *ret_origin);

/* Walks a volume's records from offset from (0: the start). Areas that hold no valid record (never
 * finished, torn) are skipped by searching for the next valid header; they are reported with record
 * NULL. verify_bodies also checks every byte (a bad one is reported with err CORRUPT and its
 * identity if the header is good). */
struct volume_scan_item {
    const struct volume_record *record; /* NULL: a gap of location.record_bytes at location.off */
    struct volume_location location;
    int err; /* 0, CORRUPT or IO */
};
int volume_scan(struct volume_set *set, uint32_t volume, uint64_t from, bool verify_bodies,
                int (*fn)(void *arg, const struct volume_scan_item *item), void *arg);

struct volume_info {
    uint32_t volume;
    uint32_t dir;
    uint64_t bytes;      /* file size used: the append offset */
    uint64_t unfinished; /* offset of the oldest slot still open, or bytes */
    bool sealed;         /* takes no more records */
    bool damaged;        /* its file header is unreadable: nothing in it can be read */
};
/* Calls fn for each volume, in ascending number. */
int volume_each(struct volume_set *set, int (*fn)(void *arg, const struct volume_info *info),
                void *arg);
int volume_info(struct volume_set *set, uint32_t volume, struct volume_info *ret);
/* New volumes get numbers of at least number, so that a number that the index knows (of a file
 * whose creation a crash undid) is not given to another file. */
void volume_number_at_least(struct volume_set *set, uint32_t number);
/* No more appends to it. */
void volume_seal(struct volume_set *set, uint32_t volume);
/* Unlinks it; pinned readers go on. The caller guarantees that no durable index row points into it.
 */
int volume_remove(struct volume_set *set, uint32_t volume);

struct volume_space {
    uint64_t bytes_total; /* over distinct file systems, by capacity where given */
    uint64_t bytes_free;  /* less the reserve */
    uint64_t bytes_used;  /* by volumes */
    uint32_t volume_count;
    bool degraded; /* a directory is missing or read-only */
};
void volume_space(struct volume_set *set, struct volume_space *ret);
/* Leaves so many free bytes of a file system (os_space's device) to others: neither writes nor
 * compaction take them. For what shares it with the volumes; called again as their needs change. */
void volume_space_keep(struct volume_set *set, uint64_t device, uint64_t bytes);

#endif
