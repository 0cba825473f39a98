/* Syncing volumes. Callers that come while a sync runs wait for the next one and share it. A failed
 * sync stops the set for good: after it the kernel's pages cannot be trusted (reference/
 * reliability.md 0.6), so nothing may be acknowledged any more. Any thread. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "volume/volume_int.h"

static METRIC_DEFINE_COUNTER(metric_syncs, "hayloft_volume_syncs_total", NULL,
                             "Syncs of volume files.");

void volume_fail(struct volume_set *set, const char *path, int err) {
    if (!atomic_exchange_explicit(&set->failed, true, memory_order_acq_rel)) {
        LOG_ERROR("volume", "sync of %s failed (%s): no more writes until a restart", path,
                  error_text(err));
    }
}

/* Called and returns with the mutex held. */
static void sync_once(struct volume_file *file) {
    struct volume_set *set = file->set;
    uint64_t generation = file->written_generation;
    file->syncing = true;
    pthread_mutex_unlock(&set->mutex);
    FAILPOINT("volume.sync.before");
    int err = FAILPOINT_ERROR("volume.sync") ? -HL_ERR_IO : os_file_sync(file->file);
    metric_register(&metric_syncs);
    metric_add(&metric_syncs, 1);
    if (err != 0) {
        volume_fail(set, file->path, err);
    }
    pthread_mutex_lock(&set->mutex);
    file->syncing = false;
    if (err == 0) {
        file->synced_generation = generation;
    }
    pthread_cond_broadcast(&set->changed);
}

/* With the mutex held. */
static int sync_file(struct volume_file *file) {
    struct volume_set *set = file->set;
    uint64_t target = file->written_generation;
    while (file->synced_generation < target) {
        if (volume_failed(set)) {
            return -HL_ERR_CRASHED;
        }
        if (file->syncing) {
            pthread_cond_wait(&set->changed, &set->mutex);
        } else {
            sync_once(file);
        }
    }
    return volume_failed(set) ? -HL_ERR_CRASHED : 0;
}

int volume_sync(struct volume_set *set, uint32_t volume) {
    pthread_mutex_lock(&set->mutex);
    struct volume_file *file = volume_find(set, volume);
    int err = -HL_ERR_NOT_FOUND;
    if (file != NULL) {
        file->refs++;
        err = sync_file(file);
        volume_unref(file);
    }
    pthread_mutex_unlock(&set->mutex);
    return err;
}

int volume_sync_all(struct volume_set *set) {
    pthread_mutex_lock(&set->mutex);
    int err = volume_failed(set) ? -HL_ERR_CRASHED : 0;
    /* The table may change while a sync runs; numbers only grow, so walk by number. */
    uint32_t after = 0;
    for (uint32_t i = 0; i < set->file_count && err == 0;) {
        struct volume_file *file = set->files[i];
        if (file->number <= after) {
            i++;
            continue;
        }
        after = file->number;
        file->refs++;
        err = sync_file(file);
        volume_unref(file);
        i = 0;
    }
    pthread_mutex_unlock(&set->mutex);
    return err;
}
