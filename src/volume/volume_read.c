/* Reading: header and identity first, then exactly the spans that the range touches, each checked
 * against its bound checksum before a byte of it counts. A record that fits one span is fetched
 * with one read. Any thread; holds no lock. */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/macros.h"
#include "base/metrics.h"
#include "volume/volume_int.h"

#define STACK_BYTES 6144

static METRIC_DEFINE_COUNTER(metric_corrupt, "hayloft_volume_corrupt_reads_total", NULL,
                             "Reads of records that failed their checksum or identity.");

static int corrupt(void) {
    metric_register(&metric_corrupt);
    metric_add(&metric_corrupt, 1);
    return -HL_ERR_CORRUPT;
}

/* A short read is damage: the record does not end before its end. */
static int read_exact(struct volume_file *file, uint64_t off, void *data, size_t size,
                      bool nowait) {
    size_t got = 0;
    int err = nowait ? os_file_read_nowait(file->file, off, data, size, &got)
                     : os_file_read(file->file, off, data, size, &got);
    if (err != 0) {
        return err;
    }
    return got == size ? 0 : corrupt();
}

static int header_check(struct volume_file *file, const uint8_t *bytes, uint64_t off,
                        struct volume_header *ret) {
    if (!volume_header_decode(bytes, file->uuid, file->number, off, ret)) {
        return corrupt();
    }
    return 0;
}

int volume_header_read(struct volume_file *file, uint64_t off, bool nowait,
                       struct volume_header *ret) {
    uint8_t bytes[VOLUME_RECORD_HEADER];
    int err = read_exact(file, off, bytes, sizeof(bytes), nowait);
    return err != 0 ? err : header_check(file, bytes, off, ret);
}

static int identity_check(const struct volume_header *header,
                          const struct volume_location *location, struct body_id id) {
    if (!body_id_equal(header->id, id) || header->body_bytes != location->body_bytes ||
        volume_header_record_size(header) != location->record_bytes) {
        return corrupt();
    }
    return 0;
}

static int span_check(struct body_id id, uint32_t span, const uint8_t *bytes, size_t size,
                      const uint8_t *table_entry) {
    return volume_span_crc(id, span, bytes, size) == get_le32(table_entry) ? 0 : corrupt();
}

/* Header, body and table with one read. */
static int read_single(struct volume_file *file, const struct volume_location *location,
                       struct body_id id, uint64_t off, void *data, size_t size, bool nowait) {
    size_t body_bytes = location->body_bytes;
    size_t total = VOLUME_RECORD_HEADER + body_bytes + 4;
    uint8_t on_stack[STACK_BYTES];
    CLEANUP_FREE uint8_t *on_heap = NULL;
    uint8_t *bytes = on_stack;
    if (total > sizeof(on_stack)) {
        bytes = on_heap = malloc(total);
        if (bytes == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    int err = read_exact(file, location->off, bytes, total, nowait);
    struct volume_header header;
    if (err == 0) {
        err = header_check(file, bytes, location->off, &header);
    }
    if (err == 0) {
        err = identity_check(&header, location, id);
    }
    uint8_t *body = bytes + VOLUME_RECORD_HEADER;
    if (err == 0) {
        err = span_check(id, 0, body, body_bytes, body + body_bytes);
    }
    if (err == 0) {
        memcpy(data, body + off, size);
    }
    return err;
}

struct span_reader {
    struct volume_file *file;
    struct body_id id;
    uint64_t body_off; /* in the file */
    uint32_t body_bytes;
    uint32_t first; /* span whose entry stands first in table */
    uint8_t table[4 * VOLUME_SPANS_MAX];
    bool nowait;
};

/* [from, to) of a span that is not wanted whole: through a buffer. */
static int read_partial(struct span_reader *r, uint32_t span, uint32_t from, uint32_t to,
                        uint8_t *data) {
    uint32_t size = volume_span_bytes(r->body_bytes, span);
    CLEANUP_FREE uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err =
        read_exact(r->file, r->body_off + (uint64_t)span * VOLUME_SPAN, bytes, size, r->nowait);
    if (err == 0) {
        err = span_check(r->id, span, bytes, size, r->table + 4 * (span - r->first));
    }
    if (err == 0) {
        memcpy(data, bytes + from, to - from);
    }
    return err;
}

/* Spans that are wanted whole: with one read, in place. */
static int read_whole(struct span_reader *r, uint32_t span, uint32_t end, uint8_t *data) {
    uint64_t off = (uint64_t)span * VOLUME_SPAN;
    uint64_t size = MIN((uint64_t)end * VOLUME_SPAN, r->body_bytes) - off;
    int err = read_exact(r->file, r->body_off + off, data, size, r->nowait);
    for (; err == 0 && span < end; span++) {
        uint32_t n = volume_span_bytes(r->body_bytes, span);
        err = span_check(r->id, span, data, n, r->table + 4 * (span - r->first));
        data += n;
    }
    return err;
}

static int read_spans(struct span_reader *r, uint64_t off, uint8_t *data, size_t size) {
    uint64_t end = off + size;
    while (off < end) {
        uint32_t span = (uint32_t)(off / VOLUME_SPAN);
        uint64_t span_off = (uint64_t)span * VOLUME_SPAN;
        uint32_t span_bytes = volume_span_bytes(r->body_bytes, span);
        uint64_t n = 0;
        int err = 0;
        if (off == span_off && end >= span_off + span_bytes) {
            uint32_t whole_end = end == r->body_bytes ? volume_span_count(r->body_bytes)
                                                      : (uint32_t)(end / VOLUME_SPAN);
            n = MIN((uint64_t)whole_end * VOLUME_SPAN, r->body_bytes) - off;
            err = read_whole(r, span, whole_end, data);
        } else {
            uint64_t to = MIN(end - span_off, span_bytes);
            n = span_off + to - off;
            err = read_partial(r, span, (uint32_t)(off - span_off), (uint32_t)to, data);
        }
        if (err != 0) {
            return err;
        }
        off += n;
        data += n;
    }
    return 0;
}

int volume_read(struct volume_file *file, const struct volume_location *location, struct body_id id,
                uint64_t off, void *data, size_t size, bool nowait) {
    if (off > location->body_bytes || size > location->body_bytes - off) {
        return -HL_ERR_RANGE;
    }
    if (file->damaged || file->number != location->volume) {
        return corrupt();
    }
    if (location->body_bytes > 0 && location->body_bytes <= VOLUME_SPAN && size > 0) {
        return read_single(file, location, id, off, data, size, nowait);
    }
    struct volume_header header;
    int err = volume_header_read(file, location->off, nowait, &header);
    if (err == 0) {
        err = identity_check(&header, location, id);
    }
    if (err != 0 || size == 0) {
        return err;
    }
    struct span_reader reader = {.file = file,
                                 .id = id,
                                 .body_off = location->off + VOLUME_RECORD_HEADER,
                                 .body_bytes = header.body_bytes,
                                 .first = (uint32_t)(off / VOLUME_SPAN),
                                 .nowait = nowait};
    uint32_t last = (uint32_t)((off + size - 1) / VOLUME_SPAN);
    err = read_exact(file, reader.body_off + header.body_bytes + 4ull * reader.first, reader.table,
                     4ull * (last - reader.first + 1), nowait);
    return err != 0 ? err : read_spans(&reader, off, data, size);
}

int volume_read_origin(struct volume_file *file, const struct volume_location *location,
                       struct volume_record *ret_record, struct buf *ret_origin) {
    struct volume_header header;
    if (file->damaged || file->number != location->volume) {
        return corrupt();
    }
    int err = volume_header_read(file, location->off, false, &header);
    if (err != 0) {
        return err;
    }
    if (header.body_bytes != location->body_bytes ||
        volume_header_record_size(&header) != location->record_bytes) {
        return corrupt();
    }
    size_t size = (size_t)header.key_bytes + header.value_bytes;
    CLEANUP_FREE uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint64_t off = location->off + VOLUME_RECORD_HEADER + header.body_bytes +
                   4ull * volume_span_count(header.body_bytes);
    err = read_exact(file, off, bytes, size, false);
    if (err != 0) {
        return err;
    }
    struct slice key = slice_of(bytes, header.key_bytes);
    struct slice value = slice_of(bytes + header.key_bytes, header.value_bytes);
    if (volume_origin_crc(header.id, key, value) != header.origin_crc) {
        return corrupt();
    }
    struct buf origin = {0};
    buf_append_blob(&origin, key);
    size_t key_at = origin.size - key.size;
    buf_append_blob(&origin, value);
    if (origin.failed) {
        buf_done(&origin);
        return -HL_ERR_NOMEM;
    }
    *ret_record = (struct volume_record){
        .id = header.id,
        .kind = header.kind,
        .origin_key = slice_of(origin.data + key_at, key.size),
        .origin_value = slice_of(origin.data + origin.size - value.size, value.size)};
    *ret_origin = origin;
    return 0;
}
