/* Appending: a batch becomes records in the active segment and, when it is full, in the spares
 * after it; one write a segment (more only for very many pieces), then one sync a segment touched.
 *
 * Invariants: every segment keeps room for an END record behind its last record; nothing of a batch
 * is written before all the segments that it needs exist, durably and by name; after any error past
 * that point the log is stopped for good, because nobody knows what the disk holds.
 *
 * One thread at a time. It holds lock only while it takes segments and when it publishes the new
 * tail; release, prepare and trim may work at the same time on segments that it does not use. */
#include <stdlib.h>

#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "log/log_int.h"

#define WRITER_IOVS    1000 /* below IOV_MAX */
#define WRITER_HEADERS 250

/* Gathers the pieces of records that lie one behind the other and writes them together. */
struct log_writer {
    struct log_segment *segment;
    uint64_t off; /* where the gathered pieces go */
    uint64_t size;
    int iov_count;
    int header_count;
    struct iovec iov[WRITER_IOVS];
    struct log_record_header headers[WRITER_HEADERS];
};

/* Where a batch is on its way. */
struct batch {
    struct log *log;
    uint64_t number;
    uint32_t flags;
    uint32_t left; /* records that follow the next one */
    uint32_t chain;
    uint64_t bytes;
    struct log_segment *first;
};

struct log_writer *log_writer_new(void) {
    return calloc(1, sizeof(struct log_writer));
}

void log_writer_free(struct log_writer *writer) {
    free(writer);
}

static int writer_flush(struct log_writer *w) {
    if (w->iov_count == 0) {
        return 0;
    }
    FAILPOINT("log.append.before_write");
    int err = os_file_writev(w->segment->file, w->off, w->iov, w->iov_count);
    if (err != 0) {
        return err;
    }
    w->off += w->size;
    w->size = 0;
    w->iov_count = 0;
    w->header_count = 0;
    return 0;
}

static int writer_add(struct log_writer *w, const void *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    if (w->iov_count == WRITER_IOVS) {
        int err = writer_flush(w);
        if (err != 0) {
            return err;
        }
    }
    w->iov[w->iov_count++] = (struct iovec){(void *)(uintptr_t)data, size};
    w->size += size;
    return 0;
}

static const uint8_t padding[LOG_RECORD_ALIGN];

static struct log_record_info record_info(const struct batch *b, const struct log_record *record) {
    struct log_record_info info = {.chain = b->chain,
                                   .kind = record->kind,
                                   .flags = b->flags,
                                   .group = record->group,
                                   .left = b->left,
                                   .term = record->term,
                                   .index = record->index,
                                   .batch = b->number};
    uint64_t length = 0;
    for (int i = 0; i < record->part_count; i++) {
        info.payload_crc =
            crc32c(info.payload_crc, record->parts[i].iov_base, record->parts[i].iov_len);
        length += record->parts[i].iov_len;
    }
    info.length = (uint32_t)length;
    size_t pad = (size_t)(log_record_size(info.length) - LOG_RECORD_HEADER_SIZE - length);
    info.payload_crc = crc32c(info.payload_crc, padding, pad);
    return info;
}

/* Adds one record at the writer's place. */
static int add_record(struct batch *b, const struct log_record *record) {
    struct log_writer *w = b->log->writer;
    if (w->header_count == WRITER_HEADERS) {
        int err = writer_flush(w);
        if (err != 0) {
            return err;
        }
    }
    struct log_record_info info = record_info(b, record);
    uint64_t off = w->off + w->size;
    struct log_record_header *header = &w->headers[w->header_count++];
    log_record_encode(b->log->cluster_id, w->segment->number, off, &info, header);
    int err = writer_add(w, header, sizeof(*header));
    for (int i = 0; err == 0 && i < record->part_count; i++) {
        err = writer_add(w, record->parts[i].iov_base, record->parts[i].iov_len);
    }
    if (err == 0) {
        uint64_t padded = log_record_size(info.length) - LOG_RECORD_HEADER_SIZE;
        err = writer_add(w, padding, (size_t)(padded - info.length));
    }
    if (err != 0) {
        return err;
    }
    w->segment->used = off + log_record_size(info.length);
    b->chain = info.header_crc;
    b->left--;
    b->bytes += log_record_size(info.length);
    return 0;
}

static bool record_fits(uint64_t off, uint64_t segment_size, uint64_t record_size) {
    return off + record_size + LOG_RECORD_HEADER_SIZE <= segment_size;
}

/* How many further segments the batch needs. LIMIT: a record is too large. */
static int plan(const struct log *log, const struct log_record *records, int count,
                size_t *ret_segments) {
    uint64_t off = log->tail_off;
    uint64_t segment_size = log->active->size;
    size_t segments = 0;
    for (int i = 0; i < count; i++) {
        size_t length = 0;
        for (int k = 0; k < records[i].part_count; k++) {
            if (__builtin_add_overflow(length, records[i].parts[k].iov_len, &length)) {
                return -HL_ERR_LIMIT;
            }
        }
        if (length > LOG_RECORD_MAX(log->options.segment_bytes)) {
            return -HL_ERR_LIMIT;
        }
        uint64_t size = log_record_size((uint32_t)length);
        if (!record_fits(off, segment_size, size)) {
            segments++;
            off = LOG_SEGMENT_HEADER_SIZE;
            segment_size = log->options.segment_bytes;
        }
        off += size;
    }
    *ret_segments = segments;
    return 0;
}

/* Takes the segments behind the active one that the batch will fill. NO_SPACE and BUSY leave the
 * log as it was. */
static int take_segments(struct log *log, size_t needed) {
    if (needed == 0) {
        return 0;
    }
    for (;;) {
        log_lock(log);
        if (log->held_count + needed > log->options.segments_max) {
            log_unlock(log);
            return -HL_ERR_BUSY;
        }
        if (log->count - log->held_count >= needed) {
            log->held_count += needed;
            log_unlock(log);
            return 0;
        }
        log_unlock(log);
        int err = log_make_spares(log, needed);
        if (err == -HL_ERR_NO_SPACE || err == -HL_ERR_NOMEM) {
            return err;
        }
        if (err != 0) {
            return log_fail(log, err, "creating a segment");
        }
    }
}

static struct log_segment *segment_after(struct log *log, const struct log_segment *segment) {
    struct log_segment *next = NULL;
    log_lock(log);
    for (size_t i = 0; i + 1 < log->held_count; i++) {
        if (log->segments[i] == segment) {
            next = log->segments[i + 1];
        }
    }
    log_unlock(log);
    CHECK(next != NULL);
    return next;
}

/* Ends the writer's segment and goes on in the next. */
static int seal(struct batch *b) {
    struct log_writer *w = b->log->writer;
    int err = add_record(b, &(struct log_record){.kind = LOG_KIND_END});
    if (err == 0) {
        err = writer_flush(w);
    }
    if (err != 0) {
        return err;
    }
    w->segment = segment_after(b->log, w->segment);
    w->off = LOG_SEGMENT_HEADER_SIZE;
    b->chain = w->segment->crc;
    return 0;
}

static int write_records(struct batch *b, const struct log_record *records, int count) {
    struct log_writer *w = b->log->writer;
    for (int i = 0; i < count; i++) {
        uint64_t length = 0;
        for (int k = 0; k < records[i].part_count; k++) {
            length += records[i].parts[k].iov_len;
        }
        uint64_t size = log_record_size((uint32_t)length);
        if (!record_fits(w->off + w->size, w->segment->size, size)) {
            int err = seal(b);
            if (err != 0) {
                return err;
            }
        }
        int err = add_record(b, &records[i]);
        if (err != 0) {
            return err;
        }
    }
    return writer_flush(w);
}

/* Makes durable every segment from the batch's first to its last. */
static int sync_segments(struct batch *b) {
    struct log *log = b->log;
    FAILPOINT("log.append.before_sync");
    if (FAILPOINT_ERROR("log.append.sync")) {
        return -HL_ERR_IO;
    }
    uint64_t start_us = os_mono_us(log->env->clock);
    uint64_t syncs = 0;
    for (struct log_segment *s = b->first;; s = segment_after(log, s)) {
        int err = os_file_sync(s->file);
        if (err != 0) {
            return err;
        }
        syncs++;
        if (s == log->writer->segment) {
            break;
        }
    }
    metric_observe_us(&log_metric_sync_us, os_mono_us(log->env->clock) - start_us);
    metric_add(&log_metric_syncs, (int64_t)syncs);
    log_lock(log);
    log->syncs += syncs;
    log_unlock(log);
    FAILPOINT("log.append.synced");
    return 0;
}

static void publish(struct batch *b, int count) {
    struct log *log = b->log;
    log->chain = b->chain;
    log->batch = b->number;
    log->left = 0;
    log_lock(log);
    log->active = log->writer->segment;
    log->tail_off = log->writer->off;
    log->records += (uint64_t)count;
    log_unlock(log);
    metric_add(&log_metric_records, count);
    metric_add(&log_metric_bytes, (int64_t)b->bytes);
}

int log_append_batch(struct log *log, const struct log_record *records, int count, uint64_t number,
                     uint32_t flags) {
    size_t needed = 0;
    int err = plan(log, records, count, &needed);
    if (err != 0) {
        return err;
    }
    err = take_segments(log, needed);
    if (err != 0) {
        return err;
    }
    struct batch b = {.log = log,
                      .number = number,
                      .flags = flags,
                      .left = (uint32_t)count + (uint32_t)needed - 1,
                      .chain = log->chain,
                      .first = log->active};
    struct log_writer *w = log->writer;
    w->segment = log->active;
    w->off = log->tail_off;
    w->size = 0;
    w->iov_count = 0;
    w->header_count = 0;
    err = write_records(&b, records, count);
    if (err != 0) {
        return log_fail(log, err, "writing");
    }
    err = sync_segments(&b);
    if (err != 0) {
        return log_fail(log, err, "syncing");
    }
    publish(&b, count);
    return 0;
}

int log_append(struct log *log, const struct log_record *records, int count) {
    int err = log_refused(log);
    if (err != 0 || count <= 0) {
        return err;
    }
    for (int i = 0; i < count; i++) {
        CHECK(records[i].kind > 0 && records[i].kind < LOG_KIND_END);
    }
    return log_append_batch(log, records, count, log->batch + 1, 0);
}
