/* Is there room for a new write? Two places must have it: the data directories (data_admit) and the
 * file system of metadata_dir, where log and kv grow with every entry, deletes too. So what brings
 * new bytes is refused while the latter has less than a reserve, and what makes room never is.
 *
 * The reserve there: a part of the disk, what the log may still grow until a checkpoint gives
 * segments back, and a merge of the kv's tables, which writes before it deletes. When data lies on
 * the same file system the volumes leave all of that alone, compaction included.
 *
 * Asked once a second, or when much was let in since; any thread. */
#include "kv/kv.h"
#include "object/object_int.h"

#define SPACE_AGE_US       1000000u
#define SPACE_RESERVE_MAX  (64ull << 20)
#define SPACE_RESERVE_MIN  (4ull << 20)
#define SPACE_MERGE_MAX    (192ull << 20) /* one table and what it overlaps in the next level */
#define SPACE_INODES_MIN   32u            /* of which a flush, a merge and a segment need a few */
#define SPACE_FLUSH_EXTRA  (256ull << 10) /* filters and indexes of the table, the manifest */
#define SPACE_FLUSH_INODES 4u
#define SPACE_SEGMENTS_MIN 4u
#define SPACE_ADMITS_MAX   256u /* of small writes; large ones count by their bytes, too */
#define SPACE_ADMIT_BYTES  (1ull << 20)

void object_space_init(struct object_store *store) {
    pthread_mutex_init(&store->space.mutex, NULL);
}

void object_space_done(struct object_store *store) {
    pthread_mutex_destroy(&store->space.mutex);
}

/* A log that checkpoints cannot keep up with pushes back (BUSY) instead of filling a small disk. */
void object_space_limit_log(struct object_store *store, struct meta_options *options) {
    struct os_space space;
    struct log_options *log = &options->log;
    if (log->segment_bytes == 0) {
        log->segment_bytes = OBJECT_SEGMENT_BYTES_DEFAULT;
    }
    if (log->segments_max == 0) {
        log->segments_max = OBJECT_SEGMENTS_MAX_DEFAULT;
    }
    if (os_space(store->env->fs, store->metadata_dir, &space) == 0) {
        uint64_t count = MAX(space.bytes_total / 8 / log->segment_bytes, SPACE_SEGMENTS_MIN);
        log->segments_max = (uint32_t)MIN(count, log->segments_max);
        store->checkpoint_log_bytes =
            MIN(store->checkpoint_log_bytes, MAX(space.bytes_total / 16, 2 * log->segment_bytes));
    }
    options->checkpoint_log_bytes = store->checkpoint_log_bytes;
    store->log_bytes_max = (log->segments_max + 1ull) * log->segment_bytes; /* and a spare */
}

static uint64_t log_growth(struct object_store *store) {
    struct meta_stats stats;
    meta_stats(store->meta, &stats);
    uint64_t most = store->log_bytes_max;
    return most > stats.log.disk_bytes ? most - stats.log.disk_bytes : 0;
}

static uint64_t reserve_of(struct object_store *store, const struct os_space *space) {
    struct kv_stats kv;
    kv_stats(store->kv, &kv);
    uint64_t part = MAX(MIN(space->bytes_total / 20, SPACE_RESERVE_MAX), SPACE_RESERVE_MIN);
    return part + log_growth(store) + MIN(kv.disk_bytes, SPACE_MERGE_MAX);
}

/* With the mutex held. */
static void note_short(struct object_store *store, const struct os_space *space, uint64_t reserve) {
    bool is_short = space->bytes_free < reserve || space->inodes_free < SPACE_INODES_MIN;
    if (is_short && !store->space.is_short) {
        LOG_WARN(
            "object",
            "the file system of metadata_dir %s is nearly full (%llu KiB and %llu inodes free; "
            "%llu KiB and %u inodes are kept for log and kv): new writes are refused, reads "
            "and deletes go on; make room there",
            store->metadata_dir, (unsigned long long)(space->bytes_free >> 10),
            (unsigned long long)space->inodes_free, (unsigned long long)(reserve >> 10),
            SPACE_INODES_MIN);
    } else if (!is_short && store->space.is_short) {
        LOG_INFO("object", "the file system of metadata_dir %s has room again",
                 store->metadata_dir);
    }
    store->space.is_short = is_short;
}

/* With the mutex held. On an error the old answer stays: the commit itself will meet what is wrong.
 */
static void refresh(struct object_store *store, uint64_t now_us) {
    struct os_space space;
    store->space.asked = true;
    store->space.asked_us = now_us;
    store->space.admits = 0;
    store->space.admitted_bytes = 0;
    if (os_space(store->env->fs, store->metadata_dir, &space) < 0) {
        return;
    }
    uint64_t reserve = reserve_of(store, &space);
    data_keep(store->data, space.device, reserve);
    note_short(store, &space, reserve);
}

static bool ask(struct object_store *store, bool admit, uint64_t bytes) {
    uint64_t now_us = os_mono_us(store->env->clock);
    pthread_mutex_lock(&store->space.mutex);
    store->space.admits += admit;
    store->space.admitted_bytes += MIN(bytes, SPACE_ADMIT_BYTES);
    if (!store->space.asked || now_us - store->space.asked_us >= SPACE_AGE_US ||
        store->space.admits >= SPACE_ADMITS_MAX ||
        (!store->space.is_short && store->space.admitted_bytes >= SPACE_ADMIT_BYTES)) {
        refresh(store, now_us);
    }
    bool is_short = store->space.is_short;
    pthread_mutex_unlock(&store->space.mutex);
    return is_short || meta_stalled(store->meta);
}

bool object_space_short(struct object_store *store) {
    return ask(store, false, 0);
}

int object_admit(struct object_store *store, uint64_t bytes) {
    return ask(store, true, bytes) ? -HL_ERR_NO_SPACE : data_admit(store->data, bytes);
}

/* The kv answers NO_SPACE to every write for seconds after a flush met a full disk; so a flush that
 * may not fit is not begun, and the log keeps what it was to make durable. */
int object_space_for_flush(struct object_store *store) {
    struct os_space space;
    struct kv_stats kv;
    int err = os_space(store->env->fs, store->metadata_dir, &space);
    if (err < 0) {
        return err;
    }
    kv_stats(store->kv, &kv);
    bool fits = space.bytes_free >= kv.unflushed_bytes + SPACE_FLUSH_EXTRA &&
                space.inodes_free >= SPACE_FLUSH_INODES;
    return fits ? 0 : -HL_ERR_NO_SPACE;
}
