/* Recovery: reads the held records in order, finds the tail, tells a torn tail from damage, and
 * leaves the log so that whatever comes later is told apart just as well.
 *
 * The rule (protocol-aware recovery, Alagappan et al., FAST 2018): a batch is acknowledged only
 * after its sync, and the next batch is written only after that. So at the first invalid record,
 * which belongs to the batch `suspect` (the last one read when that is incomplete, else the one
 * after it), any trace of a later batch, in the rest of this segment or in a later one, proves that
 * the invalid record was acknowledged: CORRUPT, nothing is changed. Otherwise it was torn by a
 * crash. A trace is a record whose header is intact; headers are bound to their place, so leftovers
 * of recycled files are none.
 *
 * Then, in this order, each durable before the next:
 *  1. the last batch is written again as it is and synced: it may have come from the page cache
 *     alone (the process died before its sync, or after a sync that failed), and the caller is
 *     about to act on it;
 *  2. traces of the torn batch behind the tail are erased, segments that carry some are deleted;
 *  3. when the tail was torn, a RESUME record closes it under a new batch number.
 * A crash between any two leaves a log that the same rule reads the same way.
 *
 * Runs alone, before the first append. */
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/macros.h"
#include "log/log_int.h"

struct recovery {
    struct log *log;
    int (*fn)(void *arg, const struct log_record *record, struct slice payload,
              struct log_position position);
    void *arg;

    uint8_t *data; /* of the segment being read */
    uint64_t data_capacity;

    size_t pos; /* in log->segments: the segment being read, at the end that of the tail */
    uint64_t off;
    uint32_t chain;

    bool any;       /* a record was read */
    uint64_t batch; /* of the last record */
    uint32_t left;
    size_t batch_pos; /* where the last batch starts */
    uint64_t batch_off;

    uint64_t trace_batch; /* highest batch found behind the tail, 0: none */
    uint64_t trace_end;   /* in the tail's segment: end of the last trace */
};

static void recovery_done(struct recovery *r) {
    free(r->data);
}

static int corrupt(const struct recovery *r, uint64_t number, uint64_t off, const char *what) {
    CLEANUP_FREE char *path = log_segment_path(r->log, number, "log");
    LOG_ERROR("log", "%s at offset %llu: %s. It held acknowledged writes; nothing was changed",
              path == NULL ? "a segment" : path, (unsigned long long)off, what);
    return -HL_ERR_CORRUPT;
}

static int load(struct recovery *r, const struct log_segment *segment) {
    if (segment->size > r->data_capacity) {
        free(r->data);
        r->data_capacity = 0;
        r->data = malloc((size_t)segment->size);
        if (r->data == NULL) {
            return -HL_ERR_NOMEM;
        }
        r->data_capacity = segment->size;
    }
    size_t got = 0;
    int err = os_file_read(segment->file, 0, r->data, (size_t)segment->size, &got);
    if (err == 0 && got != segment->size) {
        err = -HL_ERR_IO;
    }
    if (err != 0) {
        LOG_ERROR("log", "cannot read segment %016llx of %s: %s",
                  (unsigned long long)segment->number, r->log->path, error_text(err));
    }
    return err;
}

/* Whether an intact record may follow what was read so far. */
static bool follows(const struct recovery *r, const struct log_record_info *info) {
    uint64_t end = r->off + log_record_size(info->length);
    uint64_t room = r->log->segments[r->pos]->size - end;
    if (info->kind != LOG_KIND_END && room < LOG_RECORD_HEADER_SIZE) {
        return false; /* there is always room for an END */
    }
    if (info->chain != r->chain || info->batch > LOG_BATCH_MAX || info->kind == 0 ||
        info->kind > LOG_KIND_RESUME) {
        return false;
    }
    if (!r->any) {
        /* The very first batch may have been torn and closed by a RESUME in its place. */
        return r->log->segments[r->pos]->number > 1 || info->batch == 1 ||
               (info->flags & LOG_FLAG_RESUME) != 0;
    }
    if (r->left > 0 && info->batch == r->batch) {
        return info->left == r->left - 1;
    }
    if ((info->flags & LOG_FLAG_RESUME) != 0) {
        return info->batch > r->batch;
    }
    return r->left == 0 && info->batch == r->batch + 1;
}

static void take(struct recovery *r, const struct log_record_info *info) {
    if (!r->any || info->batch != r->batch) {
        r->batch_pos = r->pos;
        r->batch_off = r->off;
    }
    r->any = true;
    r->batch = info->batch;
    r->left = info->left;
    r->chain = info->header_crc;
    r->off += log_record_size(info->length);
}

static int deliver(const struct recovery *r, const struct log_record_info *info,
                   struct slice payload, uint64_t off) {
    struct log_record record = {
        .group = info->group, .kind = info->kind, .term = info->term, .index = info->index};
    struct log_position position = {r->log->segments[r->pos]->number, off};
    return r->fn(r->arg, &record, payload, position);
}

/* Reads one segment in order. *ret_ended: it is sealed, the log goes on in the next. */
static int read_segment(struct recovery *r, bool *ret_ended) {
    struct log_segment *segment = r->log->segments[r->pos];
    r->off = LOG_SEGMENT_HEADER_SIZE;
    r->chain = segment->crc;
    bool ended = false;
    while (!ended && r->off < segment->size) {
        struct slice rest = slice_of(r->data + r->off, (size_t)(segment->size - r->off));
        struct log_record_info info;
        struct slice payload;
        if (!log_record_decode(r->log->cluster_id, segment->number, r->off, rest, &info,
                               &payload) ||
            !follows(r, &info)) {
            break;
        }
        uint64_t off = r->off;
        take(r, &info);
        ended = info.kind == LOG_KIND_END;
        if (info.kind < LOG_KIND_END) {
            int err = deliver(r, &info, payload, off);
            if (err != 0) {
                return err;
            }
        }
    }
    segment->used = r->off;
    *ret_ended = ended;
    return 0;
}

/* Reads segments in order until the tail: r->pos and r->off, whose segment is in r->data. */
static int read_all(struct recovery *r) {
    struct log *log = r->log;
    for (r->pos = 0;; r->pos++) {
        uint64_t expected = r->pos == 0 ? 0 : log->segments[r->pos - 1]->number + 1;
        if (r->pos == log->count || (r->pos > 0 && log->segments[r->pos]->number != expected)) {
            return corrupt(r, expected, 0, "the segment is missing");
        }
        struct log_segment *segment = log->segments[r->pos];
        if (segment->header_error != 0) {
            return corrupt(r, segment->number, 0, "the header or the size of the file is damaged");
        }
        int err = load(r, segment);
        if (err != 0) {
            return err;
        }
        bool ended = false;
        err = read_segment(r, &ended);
        if (err != 0) {
            return err;
        }
        if (!ended) {
            return 0;
        }
    }
}

/* Looks for traces in r->data from off on; *ret_end is the end of the last one. */
static void find_traces(struct recovery *r, const struct log_segment *segment, uint64_t off,
                        uint64_t *ret_end) {
    while (off + LOG_RECORD_HEADER_SIZE <= segment->size) {
        struct log_record_info info;
        struct slice rest = slice_of(r->data + off, (size_t)(segment->size - off));
        if (log_record_decode_header(r->log->cluster_id, segment->number, off, rest, &info)) {
            r->trace_batch = MAX(r->trace_batch, info.batch);
            *ret_end = off + log_record_size(info.length);
        }
        off += LOG_RECORD_ALIGN;
    }
}

/* Decides between a torn tail (0) and damage. Notes which later segments must go by setting their
 * header_error. */
static int judge(struct recovery *r) {
    struct log *log = r->log;
    struct log_segment *tail = log->segments[r->pos];
    find_traces(r, tail, r->off, &r->trace_end);
    for (size_t i = r->pos + 1; i < log->count; i++) {
        struct log_segment *segment = log->segments[i];
        uint64_t end = 0;
        int err = load(r, segment);
        if (err != 0) {
            return err;
        }
        find_traces(r, segment, LOG_SEGMENT_HEADER_SIZE, &end);
        if (end > 0 || segment->size != log->options.segment_bytes ||
            segment->number != log->segments[i - 1]->number + 1) {
            segment->header_error = -HL_ERR_CORRUPT;
        }
    }
    uint64_t suspect = r->any && r->left > 0 ? r->batch : r->batch + 1;
    if (r->trace_batch > suspect) {
        return corrupt(r, tail->number, r->off, "a record is damaged and later ones exist");
    }
    if (!r->any && tail->number != 1) {
        return corrupt(r, tail->number, r->off, "the first record is damaged");
    }
    return 0;
}

/* Writes bytes [from, to) of a segment again as they are and syncs. */
static int rewrite(struct recovery *r, struct log_segment *segment, uint64_t from, uint64_t to) {
    int err = load(r, segment);
    if (err == 0 && to > from) {
        err = os_file_write(segment->file, from, r->data + from, (size_t)(to - from));
    }
    return err != 0 ? err : os_file_sync(segment->file);
}

static int rewrite_last_batch(struct recovery *r) {
    if (!r->any) {
        return 0;
    }
    for (size_t i = r->batch_pos; i <= r->pos; i++) {
        struct log_segment *segment = r->log->segments[i];
        uint64_t from = i == r->batch_pos ? r->batch_off : LOG_SEGMENT_HEADER_SIZE;
        int err = rewrite(r, segment, from, segment->used);
        if (err != 0) {
            return err;
        }
    }
    FAILPOINT("log.recover.rewritten");
    return 0;
}

/* Erases traces behind the tail in its own segment. */
static int erase_traces(struct recovery *r) {
    if (r->trace_end <= r->off) {
        return 0;
    }
    struct log_segment *tail = r->log->segments[r->pos];
    size_t size = (size_t)(r->trace_end - r->off);
    CLEANUP_FREE uint8_t *zeros = calloc(1, size);
    if (zeros == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = os_file_write(tail->file, r->off, zeros, size);
    if (err != 0) {
        return err;
    }
    FAILPOINT("log.recover.erasing");
    err = os_file_sync(tail->file);
    FAILPOINT("log.recover.erased");
    return err;
}

/* Deletes the segments that judge marked, and those behind the first of them, so that the spares
 * stay one run of numbers. */
static int remove_spoiled(struct recovery *r) {
    struct log *log = r->log;
    size_t keep = r->pos + 1;
    while (keep < log->count && log->segments[keep]->header_error == 0) {
        keep++;
    }
    bool removed = keep < log->count;
    while (log->count > keep) {
        int err = log_segment_remove(log, log->segments[--log->count]);
        if (err != 0) {
            return err;
        }
    }
    if (!removed) {
        return 0;
    }
    FAILPOINT("log.recover.unlinked");
    return os_dir_sync(log->env->fs, log->path);
}

/* Closes a torn tail. */
static int resume(struct recovery *r) {
    if (r->left == 0 && r->trace_batch == 0) {
        return 0;
    }
    LOG_WARN("log", "the last write before the stop was incomplete: %s goes on at %016llx:%llu",
             r->log->path, (unsigned long long)r->log->active->number,
             (unsigned long long)r->log->tail_off);
    struct log_record record = {.kind = LOG_KIND_RESUME};
    uint64_t batch = MAX(r->batch, r->trace_batch) + 1;
    int err = log_append_batch(r->log, &record, 1, batch, LOG_FLAG_RESUME);
    FAILPOINT("log.recover.resumed");
    return err;
}

static int settle(struct recovery *r) {
    int err = rewrite_last_batch(r);
    if (err == 0) {
        err = erase_traces(r);
    }
    if (err == 0) {
        err = remove_spoiled(r);
    }
    if (err != 0) {
        LOG_ERROR("log", "cannot repair the tail of %s: %s", r->log->path, error_text(err));
        return err;
    }
    struct log *log = r->log;
    log_lock(log);
    log->held_count = r->pos + 1;
    log->active = log->segments[r->pos];
    log->tail_off = r->off;
    log->chain = r->chain;
    log->batch = r->batch;
    log->left = r->left;
    log->released = (struct log_position){log->segments[0]->number, LOG_SEGMENT_HEADER_SIZE};
    log_unlock(log);
    return resume(r);
}

int log_recover(struct log *log,
                int (*fn)(void *arg, const struct log_record *record, struct slice payload,
                          struct log_position position),
                void *arg) {
    CHECK(log->active == NULL);
    CLEANUP(recovery_done) struct recovery r = {.log = log, .fn = fn, .arg = arg};
    int err = read_all(&r);
    if (err == 0) {
        err = judge(&r);
    }
    if (err == 0) {
        err = settle(&r);
    }
    log_lock(log);
    log->refuse = err;
    log_unlock(log);
    return err;
}
