/* Writing one record piece by piece. The body goes through to the file as it comes, at its final
 * place; span checksums are computed on the way; the header is written last, so that an unfinished
 * record is not one. A slot belongs to one thread at a time. */
#include "base/bytes.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "volume/volume_int.h"

/* So much of a body is handed to the disk at a time while the rest still comes, so that the sync at
 * the end of an upload does not begin with all of it. */
#define WRITE_OUT_BYTES (1u << 20)

struct volume_slot {
    struct volume_region region;
    uint64_t body_max;
    uint64_t origin_max;
    uint64_t body_bytes;
    uint64_t started_bytes; /* of the body: being written out */
    int err;                /* the first failed write; sticky */
    uint32_t span_crcs[];   /* plain CRC-32C of each span; bound to the id at the end */
};

int volume_slot_open(struct volume_set *set, uint64_t body_bytes_max, uint64_t origin_bytes_max,
                     bool use_reserve, struct volume_slot **ret) {
    if (body_bytes_max > VOLUME_BODY_MAX || origin_bytes_max > VOLUME_KEY_MAX + VOLUME_VALUE_MAX) {
        return -HL_ERR_LIMIT;
    }
    uint32_t spans = volume_span_count(body_bytes_max);
    struct volume_slot *slot = calloc(1, sizeof(*slot) + spans * sizeof(uint32_t));
    if (slot == NULL) {
        return -HL_ERR_NOMEM;
    }
    slot->body_max = body_bytes_max;
    slot->origin_max = origin_bytes_max;
    uint64_t bytes = VOLUME_RECORD_HEADER + body_bytes_max + 4ull * spans + origin_bytes_max;
    int err = volume_region_open(set, bytes, use_reserve, &slot->region);
    if (err != 0) {
        free(slot);
        return err;
    }
    FAILPOINT("volume.slot.opened");
    *ret = slot;
    return 0;
}

static void checksum_body(struct volume_slot *slot, const uint8_t *data, size_t size) {
    uint64_t at = slot->body_bytes;
    while (size > 0) {
        uint32_t span = (uint32_t)(at / VOLUME_SPAN);
        size_t n = MIN(size, VOLUME_SPAN - at % VOLUME_SPAN);
        slot->span_crcs[span] = crc32c(slot->span_crcs[span], data, n);
        data += n;
        at += n;
        size -= n;
    }
}

static void start_write_out(struct volume_slot *slot) {
    os_file_start_sync(slot->region.file->file,
                       slot->region.off + VOLUME_RECORD_HEADER + slot->started_bytes,
                       slot->body_bytes - slot->started_bytes);
    slot->started_bytes = slot->body_bytes;
}

int volume_slot_write(struct volume_slot *slot, const void *data, size_t size) {
    if (slot->err != 0) {
        return slot->err;
    }
    if (size > slot->body_max - slot->body_bytes) {
        slot->err = -HL_ERR_LIMIT;
        return slot->err;
    }
    if (size == 0) {
        return 0;
    }
    struct iovec iov = {(void *)(uintptr_t)data, size};
    slot->err =
        volume_region_write(&slot->region, VOLUME_RECORD_HEADER + slot->body_bytes, &iov, 1);
    if (slot->err != 0) {
        return slot->err;
    }
    FAILPOINT("volume.slot.written");
    checksum_body(slot, data, size);
    slot->body_bytes += size;
    if (slot->body_bytes - slot->started_bytes >= WRITE_OUT_BYTES) {
        start_write_out(slot);
    }
    return 0;
}

/* The table, the origin and the padding. */
static int write_tail(struct volume_slot *slot, const struct volume_record *record,
                      uint32_t record_bytes) {
    uint32_t body_bytes = (uint32_t)slot->body_bytes;
    uint32_t spans = volume_span_count(body_bytes);
    CLEANUP_FREE uint8_t *table = malloc(4ull * spans + 1);
    if (table == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < spans; i++) {
        put_le32(table + 4ull * i, volume_span_crc_bind(record->id, i, slot->span_crcs[i],
                                                        volume_span_bytes(body_bytes, i)));
    }
    static const uint8_t zeros[VOLUME_RECORD_ALIGN];
    uint64_t off = VOLUME_RECORD_HEADER + slot->body_bytes;
    struct slice key = record->origin_key, value = record->origin_value;
    uint64_t end = off + 4ull * spans + key.size + value.size;
    struct iovec iov[4] = {{table, 4ull * spans},
                           {(void *)(uintptr_t)key.data, key.size},
                           {(void *)(uintptr_t)value.data, value.size},
                           {(void *)(uintptr_t)zeros, record_bytes - end}};
    return volume_region_write(&slot->region, off, iov, 4);
}

static int write_header(struct volume_slot *slot, const struct volume_record *record) {
    struct volume_header header = {
        .kind = record->kind,
        .volume = slot->region.file->number,
        .off = slot->region.off,
        .id = record->id,
        .body_bytes = (uint32_t)slot->body_bytes,
        .key_bytes = (uint32_t)record->origin_key.size,
        .value_bytes = (uint32_t)record->origin_value.size,
        .origin_crc = volume_origin_crc(record->id, record->origin_key, record->origin_value),
    };
    uint8_t bytes[VOLUME_RECORD_HEADER];
    volume_header_encode(&header, slot->region.file->uuid, bytes);
    struct iovec iov = {bytes, sizeof(bytes)};
    return volume_region_write(&slot->region, 0, &iov, 1);
}

int volume_slot_finish(struct volume_slot *slot, const struct volume_record *record,
                       struct volume_location *ret) {
    struct slice key = record->origin_key, value = record->origin_value;
    int err = slot->err;
    if (err == 0 && (key.size > VOLUME_KEY_MAX || value.size > VOLUME_VALUE_MAX ||
                     key.size + value.size > slot->origin_max)) {
        err = -HL_ERR_LIMIT;
    }
    if (err != 0) {
        volume_slot_abort(slot);
        return err;
    }
    uint32_t record_bytes =
        volume_record_size((uint32_t)slot->body_bytes, (uint32_t)key.size, (uint32_t)value.size);
    err = write_tail(slot, record, record_bytes);
    if (err != 0) {
        volume_slot_abort(slot);
        return err;
    }
    FAILPOINT("volume.slot.tail");
    err = write_header(slot, record);
    FAILPOINT("volume.slot.header");
    struct volume_location location = {.volume = slot->region.file->number,
                                       .off = slot->region.off,
                                       .record_bytes = record_bytes,
                                       .body_bytes = (uint32_t)slot->body_bytes};
    /* After a failed header write something may stand there: keep the whole region as a gap. */
    if (slot->body_max >= WRITE_OUT_BYTES && slot->body_bytes > slot->started_bytes) {
        start_write_out(slot);
    }
    volume_region_close(&slot->region, err == 0 ? record_bytes : slot->region.bytes);
    free(slot);
    if (err == 0) {
        *ret = location;
    }
    return err;
}

void volume_slot_abort(struct volume_slot *slot) {
    if (slot == NULL) {
        return;
    }
    volume_region_close(&slot->region, 0);
    free(slot);
}

void volume_slot_place(const struct volume_slot *slot, uint32_t *ret_volume, uint64_t *ret_off) {
    *ret_volume = slot->region.file->number;
    *ret_off = slot->region.off;
}
