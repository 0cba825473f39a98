/* The log as a whole: opening and closing a directory of segments, its state and figures, and what
 * happens to segments that are no longer needed.
 *
 * Releasing goes from the oldest segment on, one at a time, each gone from the directory durably
 * before the next: so a crash always leaves one run of numbers. */
#include "log/log.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "log/log_int.h"

METRIC_DEFINE_COUNTER(log_metric_syncs, "hayloft_log_syncs_total", NULL,
                      "Syncs of log segments by commits");
METRIC_DEFINE_COUNTER(log_metric_bytes, "hayloft_log_written_bytes_total", NULL,
                      "Bytes of records appended to the log");
METRIC_DEFINE_COUNTER(log_metric_records, "hayloft_log_records_total", NULL,
                      "Records appended to the log");
METRIC_DEFINE_COUNTER(log_metric_segments_made, "hayloft_log_segments_created_total", NULL,
                      "Log segments written anew instead of recycled");
METRIC_DEFINE_HISTOGRAM(log_metric_sync_us, "hayloft_log_sync_seconds", NULL,
                        "Time to make a batch of the log durable");

static void register_metrics(void) {
    metric_register(&log_metric_syncs);
    metric_register(&log_metric_bytes);
    metric_register(&log_metric_records);
    metric_register(&log_metric_segments_made);
    metric_register(&log_metric_sync_us);
}

void log_lock(struct log *log) {
    pthread_mutex_lock(&log->lock);
}

void log_unlock(struct log *log) {
    pthread_mutex_unlock(&log->lock);
}

int log_refused(struct log *log) {
    log_lock(log);
    int err = log->refuse;
    log_unlock(log);
    return err;
}

int log_fail(struct log *log, int err, const char *what) {
    LOG_ERROR("log", "%s in %s failed (%s): the log is stopped", what, log->path, error_text(err));
    log_lock(log);
    log->refuse = -HL_ERR_CRASHED;
    log_unlock(log);
    /* These two promise that nothing happened, which is not known here. */
    return err == -HL_ERR_NO_SPACE || err == -HL_ERR_BUSY ? -HL_ERR_IO : err;
}

/* What the directory holds. */
struct listing {
    uint64_t *numbers;
    size_t count;
    size_t capacity;
    char **leftovers; /* names of .tmp files */
    size_t leftover_count;
};

static void listing_done(struct listing *listing) {
    for (size_t i = 0; i < listing->leftover_count; i++) {
        free(listing->leftovers[i]);
    }
    free(listing->leftovers);
    free(listing->numbers);
}

/* Exactly 16 lower-case hex digits and the suffix. */
static bool parse_name(const char *name, const char *suffix, uint64_t *ret) {
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        char c = name[i];
        if (c >= '0' && c <= '9') {
            number = number << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            number = number << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    *ret = number;
    return strcmp(name + 16, suffix) == 0;
}

static int listing_entry(const char *name, bool is_dir, void *arg) {
    struct listing *listing = arg;
    uint64_t number = 0;
    if (!is_dir && parse_name(name, ".log", &number) && number > 0) {
        if (listing->count == listing->capacity) {
            size_t capacity = MAX(listing->capacity * 2, (size_t)16);
            uint64_t *numbers = reallocarray(listing->numbers, capacity, sizeof(*numbers));
            if (numbers == NULL) {
                return -HL_ERR_NOMEM;
            }
            listing->numbers = numbers;
            listing->capacity = capacity;
        }
        listing->numbers[listing->count++] = number;
        return 0;
    }
    if (!is_dir && parse_name(name, ".tmp", &number)) {
        char **names =
            reallocarray(listing->leftovers, listing->leftover_count + 1, sizeof(*names));
        if (names == NULL) {
            return -HL_ERR_NOMEM;
        }
        listing->leftovers = names;
        names[listing->leftover_count] = strdup(name);
        return names[listing->leftover_count] == NULL ? -HL_ERR_NOMEM
                                                      : (listing->leftover_count++, 0);
    }
    LOG_WARN("log", "%s is no file of the log, ignored", name);
    return 0;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int remove_leftovers(struct log *log, const struct listing *listing) {
    for (size_t i = 0; i < listing->leftover_count; i++) {
        CLEANUP_FREE char *path = NULL;
        if (asprintf(&path, "%s/%s", log->path, listing->leftovers[i]) < 0) {
            path = NULL;
            return -HL_ERR_NOMEM;
        }
        int err = os_unlink(log->env->fs, path);
        if (err != 0) {
            LOG_ERROR("log", "cannot remove %s: %s", path, error_text(err));
            return err;
        }
    }
    return 0;
}

static int open_segments(struct log *log) {
    CLEANUP(listing_done) struct listing listing = {0};
    int err = os_list(log->env->fs, log->path, listing_entry, &listing);
    if (err != 0) {
        LOG_ERROR("log", "cannot list %s: %s", log->path, error_text(err));
        return err;
    }
    err = remove_leftovers(log, &listing);
    if (err != 0) {
        return err;
    }
    if (listing.count > 0) {
        qsort(listing.numbers, listing.count, sizeof(uint64_t), compare_numbers);
    }
    for (size_t i = 0; i < listing.count; i++) {
        struct log_segment *segment = NULL;
        err = log_segment_open(log, listing.numbers[i], &segment);
        if (err != 0) {
            return err;
        }
        err = log_segments_push(log, segment);
        if (err != 0) {
            log_segment_free(segment);
            return err;
        }
    }
    return 0;
}

static int open_log(struct log *log, const char *path, const struct log_options *options) {
    log->path = strdup(path);
    log->writer = log_writer_new();
    if (log->path == NULL || log->writer == NULL) {
        return -HL_ERR_NOMEM;
    }
    memcpy(log->cluster_id, options->cluster_id, LOG_CLUSTER_ID_SIZE);
    log->options = *options;
    log->options.cluster_id = log->cluster_id;
    if (log->options.segment_bytes == 0) {
        log->options.segment_bytes = LOG_SEGMENT_BYTES_DEFAULT;
    }
    if (log->options.spare_segments == 0) {
        log->options.spare_segments = LOG_SPARE_DEFAULT;
    }
    if (log->options.segments_max == 0) {
        log->options.segments_max = LOG_SEGMENTS_MAX_DEFAULT;
    }
    if (log->options.segment_bytes < LOG_SEGMENT_BYTES_MIN ||
        log->options.segment_bytes > UINT32_MAX || log->options.segment_bytes % 4096 != 0) {
        LOG_ERROR("log", "segment_bytes must be a multiple of 4096, 16 KiB to 4 GiB");
        return -HL_ERR_INVALID;
    }
    int err = open_segments(log);
    if (err != 0 || log->count > 0) {
        return err;
    }
    return log_make_spares(log, 1);
}

int log_open(struct os_env *env, const char *path, const struct log_options *options,
             struct log **ret) {
    register_metrics();
    struct log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return -HL_ERR_NOMEM;
    }
    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->files_lock, NULL);
    log->env = env;
    log->refuse = -HL_ERR_BUSY; /* until it is recovered */
    int err = open_log(log, path, options);
    if (err != 0) {
        log_close(log);
        return err;
    }
    *ret = log;
    return 0;
}

void log_close(struct log *log) {
    if (log == NULL) {
        return;
    }
    for (size_t i = 0; i < log->count; i++) {
        log_segment_free(log->segments[i]);
    }
    free(log->segments);
    log_writer_free(log->writer);
    free(log->path);
    pthread_mutex_destroy(&log->lock);
    pthread_mutex_destroy(&log->files_lock);
    free(log);
}

struct log_position log_tail(struct log *log) {
    log_lock(log);
    struct log_position tail = {log->active == NULL ? 0 : log->active->number, log->tail_off};
    log_unlock(log);
    return tail;
}

/* Takes the oldest segment out of the array when it lies wholly before the released position.
 * *ret_number: the number under which it may become a spare, 0 when it is to be deleted. */
static struct log_segment *take_oldest(struct log *log, uint64_t *ret_number) {
    struct log_segment *oldest = NULL;
    log_lock(log);
    if (log->refuse == 0 && log->segments[0]->number < log->released.segment) {
        CHECK(log->segments[0] != log->active && log->held_count > 1);
        oldest = log->segments[0];
        log->count--;
        log->held_count--;
        memmove(log->segments, log->segments + 1, log->count * sizeof(*log->segments));
        size_t spares_max = MAX(log->options.segments_max / 2, log->options.spare_segments);
        bool recycle =
            log->count - log->held_count < spares_max && oldest->size == log->options.segment_bytes;
        *ret_number = recycle ? log->segments[log->count - 1]->number + 1 : 0;
    }
    log_unlock(log);
    return oldest;
}

static int delete_segment(struct log *log, struct log_segment *segment) {
    int err = log_segment_remove(log, segment);
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.release.unlinked");
    return os_dir_sync(log->env->fs, log->path);
}

/* Releases the oldest segment; *ret_more is false when there was none to release. */
static int release_oldest(struct log *log, bool *ret_more) {
    uint64_t number = 0;
    struct log_segment *segment = take_oldest(log, &number);
    *ret_more = segment != NULL;
    if (segment == NULL) {
        return 0;
    }
    if (number == 0) {
        return delete_segment(log, segment);
    }
    struct log_segment *spare = NULL;
    int err = log_segment_recycle(log, segment, number, &spare);
    if (err != 0 || spare == NULL) {
        return err;
    }
    log_lock(log);
    err = log_segments_push(log, spare);
    log_unlock(log);
    if (err != 0) {
        log_segment_free(spare);
    }
    return err;
}

int log_release(struct log *log, struct log_position position) {
    log_lock(log);
    int refused = log->refuse;
    if (refused == 0) {
        struct log_position tail = {log->active->number, log->tail_off};
        if (position.segment > tail.segment ||
            (position.segment == tail.segment && position.off > tail.off)) {
            position = tail;
        }
        if (position.segment > log->released.segment ||
            (position.segment == log->released.segment && position.off > log->released.off)) {
            log->released = position;
        }
    }
    log_unlock(log);
    if (refused != 0) {
        return refused;
    }
    for (bool more = true; more;) {
        pthread_mutex_lock(&log->files_lock);
        int err = release_oldest(log, &more);
        pthread_mutex_unlock(&log->files_lock);
        if (err != 0) {
            return log_fail(log, err, "releasing a segment");
        }
    }
    return 0;
}

int log_prepare(struct log *log) {
    int err = log_refused(log);
    if (err != 0) {
        return err;
    }
    err = log_make_spares(log, log->options.spare_segments);
    if (err != 0 && err != -HL_ERR_NO_SPACE && err != -HL_ERR_NOMEM) {
        return log_fail(log, err, "preparing a segment");
    }
    return err;
}

int log_trim(struct log *log) {
    int err = log_refused(log);
    if (err != 0) {
        return err;
    }
    bool removed = false;
    pthread_mutex_lock(&log->files_lock);
    for (;;) {
        struct log_segment *last = NULL;
        log_lock(log);
        if (log->count - log->held_count > log->options.spare_segments) {
            last = log->segments[--log->count];
        }
        log_unlock(log);
        if (last == NULL) {
            break;
        }
        err = log_segment_remove(log, last);
        if (err != 0) {
            break;
        }
        removed = true;
    }
    if (err == 0 && removed) {
        FAILPOINT("log.trim.unlinked");
        err = os_dir_sync(log->env->fs, log->path);
    }
    pthread_mutex_unlock(&log->files_lock);
    return err == 0 ? 0 : log_fail(log, err, "removing a spare segment");
}

void log_stats(struct log *log, struct log_stats *ret) {
    struct log_stats stats = {0};
    log_lock(log);
    stats.segment_count = log->count;
    stats.spare_count = log->count - log->held_count;
    for (size_t i = 0; i < log->count; i++) {
        stats.disk_bytes += log->segments[i]->size;
    }
    for (size_t i = 0; log->active != NULL && i < log->count; i++) {
        const struct log_segment *s = log->segments[i];
        uint64_t start = LOG_SEGMENT_HEADER_SIZE;
        if (s->number == log->released.segment && log->released.off > start) {
            start = log->released.off;
        }
        uint64_t end = s == log->active ? log->tail_off : s->used;
        stats.held_bytes += end - start;
        if (s == log->active) {
            break;
        }
    }
    stats.syncs = log->syncs;
    stats.records = log->records;
    log_unlock(log);
    *ret = stats;
}
