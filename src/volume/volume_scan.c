/* Walking a volume. Where a valid header stands, the record behind it is reported and jumped over;
 * where none stands, each multiple of 8 is tried until the next one, and the run between is
 * reported as a gap. Nothing at or behind the oldest unfinished region is looked at: writers are at
 * work there. Any thread; holds no lock. */
#include "base/bytes.h"
#include "base/error.h"
#include "base/macros.h"
#include "volume/volume_int.h"

#define WINDOW     (256u << 10)
#define BAD_SECTOR 4096u
#define GAP_MAX    (1u << 30) /* a longer gap is reported in pieces */

struct scan {
    struct volume_file *file;
    uint64_t end;
    bool verify;
    int (*fn)(void *arg, const struct volume_scan_item *item);
    void *arg;
    uint8_t *window; /* WINDOW bytes */
    uint64_t window_off;
    size_t window_size;
    uint8_t *origin;
    size_t origin_capacity;
    uint64_t gap_off; /* start of the gap that is being passed; == off when there is none */
};

/* Makes [off, off + size) available; size is at most WINDOW. NOT_FOUND beyond the end of the file.
 * When a large read fails a small one is tried, so that one bad sector hides little. */
static int load(struct scan *s, uint64_t off, size_t size, const uint8_t **ret) {
    if (off < s->window_off || off + size > s->window_off + s->window_size) {
        size_t got = 0;
        size_t want = (size_t)MIN((uint64_t)WINDOW, s->end > off ? s->end - off : 0);
        int err = os_file_read(s->file->file, off, s->window, MAX(want, size), &got);
        if (err == -HL_ERR_IO) {
            err = os_file_read(s->file->file, off, s->window, size, &got);
        }
        if (err != 0) {
            s->window_size = 0;
            return err;
        }
        s->window_off = off;
        s->window_size = got;
    }
    if (off + size > s->window_off + s->window_size) {
        return -HL_ERR_NOT_FOUND;
    }
    *ret = s->window + (off - s->window_off);
    return 0;
}

static int report_gap(struct scan *s, uint64_t off, int gap_err) {
    while (s->gap_off < off) {
        uint64_t size = MIN(off - s->gap_off, (uint64_t)GAP_MAX);
        struct volume_scan_item item = {.location = {.volume = s->file->number,
                                                     .off = s->gap_off,
                                                     .record_bytes = (uint32_t)size},
                                        .err = gap_err};
        s->gap_off += size;
        int err = s->fn(s->arg, &item);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* Damage and read errors of the record's bytes; NOMEM and the like stop the scan. */
static int as_damage(int err) {
    return err == -HL_ERR_NOT_FOUND ? -HL_ERR_CORRUPT : err;
}

static int check_body(struct scan *s, const struct volume_header *header) {
    uint8_t table[4 * VOLUME_SPANS_MAX];
    uint32_t spans = volume_span_count(header->body_bytes);
    uint64_t body_off = header->off + VOLUME_RECORD_HEADER;
    const uint8_t *bytes;
    size_t got = 0;
    int err = 0;
    if (spans > 0) {
        err = os_file_read(s->file->file, body_off + header->body_bytes, table, 4ull * spans, &got);
        if (err == 0 && got != 4ull * spans) {
            err = -HL_ERR_CORRUPT;
        }
    }
    for (uint32_t i = 0; i < spans && err == 0; i++) {
        uint32_t size = volume_span_bytes(header->body_bytes, i);
        err = as_damage(load(s, body_off + (uint64_t)i * VOLUME_SPAN, size, &bytes));
        if (err == 0 && volume_span_crc(header->id, i, bytes, size) != get_le32(table + 4ull * i)) {
            err = -HL_ERR_CORRUPT;
        }
    }
    return err;
}

static int load_origin(struct scan *s, const struct volume_header *header,
                       struct volume_record *ret) {
    size_t size = (size_t)header->key_bytes + header->value_bytes;
    if (size > s->origin_capacity) {
        uint8_t *origin = realloc(s->origin, size);
        if (origin == NULL) {
            return -HL_ERR_NOMEM;
        }
        s->origin = origin;
        s->origin_capacity = size;
    }
    uint64_t off = header->off + VOLUME_RECORD_HEADER + header->body_bytes +
                   4ull * volume_span_count(header->body_bytes);
    const uint8_t *bytes;
    if (size > 0 && size <= WINDOW) {
        int err = as_damage(load(s, off, size, &bytes));
        if (err != 0) {
            return err;
        }
        memcpy(s->origin, bytes, size);
    } else if (size > 0) {
        size_t got = 0;
        int err = os_file_read(s->file->file, off, s->origin, size, &got);
        if (err != 0 || got != size) {
            return err != 0 ? err : -HL_ERR_CORRUPT;
        }
    }
    struct slice key = slice_of(s->origin, header->key_bytes);
    struct slice value = slice_of(s->origin + header->key_bytes, header->value_bytes);
    if (volume_origin_crc(header->id, key, value) != header->origin_crc) {
        return -HL_ERR_CORRUPT;
    }
    ret->origin_key = key;
    ret->origin_value = value;
    return 0;
}

static int report_record(struct scan *s, const struct volume_header *header) {
    struct volume_record record = {.id = header->id, .kind = header->kind};
    struct volume_scan_item item = {.record = &record,
                                    .location = {.volume = header->volume,
                                                 .off = header->off,
                                                 .record_bytes = volume_header_record_size(header),
                                                 .body_bytes = header->body_bytes}};
    item.err = header->off + item.location.record_bytes > s->end ? -HL_ERR_CORRUPT : 0;
    if (item.err == 0 && s->verify) {
        item.err = check_body(s, header);
    }
    if (item.err == 0 || item.err == -HL_ERR_CORRUPT) {
        int err = load_origin(s, header, &record);
        item.err = item.err != 0 ? item.err : err;
    }
    if (item.err != 0 && item.err != -HL_ERR_CORRUPT && item.err != -HL_ERR_IO) {
        return item.err;
    }
    return s->fn(s->arg, &item);
}

static int walk(struct scan *s, uint64_t off) {
    s->gap_off = off;
    while (off + VOLUME_RECORD_HEADER <= s->end) {
        const uint8_t *bytes;
        int err = load(s, off, VOLUME_RECORD_HEADER, &bytes);
        if (err == -HL_ERR_NOT_FOUND) {
            break; /* the file is shorter than what was reserved */
        }
        if (err == -HL_ERR_IO) {
            err = report_gap(s, off, 0);
            off = MIN((off / BAD_SECTOR + 1) * BAD_SECTOR, s->end);
            err = err != 0 ? err : report_gap(s, off, -HL_ERR_IO);
            if (err != 0) {
                return err;
            }
            continue;
        }
        if (err != 0) {
            return err;
        }
        struct volume_header header;
        if (!volume_header_decode(bytes, s->file->uuid, s->file->number, off, &header)) {
            off += VOLUME_RECORD_ALIGN;
            continue;
        }
        err = report_gap(s, off, 0);
        if (err == 0) {
            err = report_record(s, &header);
        }
        if (err != 0) {
            return err;
        }
        off += volume_header_record_size(&header);
        s->gap_off = off;
    }
    return report_gap(s, s->end, 0);
}

int volume_scan(struct volume_set *set, uint32_t volume, uint64_t from, bool verify_bodies,
                int (*fn)(void *arg, const struct volume_scan_item *item), void *arg) {
    struct volume_info info;
    int err = volume_info(set, volume, &info);
    if (err != 0) {
        return err;
    }
    struct volume_file *file = volume_pin(set, volume);
    if (file == NULL) {
        return -HL_ERR_NOT_FOUND;
    }
    struct scan scan = {.file = file,
                        .end = info.unfinished,
                        .verify = verify_bodies,
                        .fn = fn,
                        .arg = arg,
                        .window = malloc(WINDOW)};
    if (scan.window == NULL) {
        err = -HL_ERR_NOMEM;
    } else if (file->damaged) {
        err = -HL_ERR_CORRUPT;
    } else {
        err = walk(&scan, MAX(ALIGN_UP(from, VOLUME_RECORD_ALIGN), (uint64_t)VOLUME_DATA_OFF));
    }
    free(scan.window);
    free(scan.origin);
    volume_unpin(file);
    return err;
}
