/* Rows of data/ in KV_LOCAL (docs/formats/location.md). Keys start with one byte; numbers in keys
 * are big-endian so that their order is numeric. Values are varints (base/bytes.h) unless said
 * otherwise.
 * 'A' belongs to meta/ (the applied index).
 *
 *   'L' id:16            where a live body is: place
 *   'C' row key          newest configuration record of that row: sequence, place
 *   'V' volume:4         counter: bytes of the volume's records that 'L' and 'C' rows name
 *   'S' volume:4         recovery scans the volume from this offset: off / 8
 *   'F' seq:8            a freed run that waits for readers: id.high, id.low, count, head (0 or 1),
 *                        estimated bytes
 *   'X' id:16 volume:4   a dead head in that volume of which no synced tombstone tells yet: empty
 *   'P' id:16 volume:4   another copy of that head lies in this volume (left by a crash): empty
 *   'M' volume:4         compaction moved heads out of the volume, see data_moved.c: empty
 *   'D' volume:4 off:8   a damaged record: 1 checksum or 2 unreadable, time (ms), id.high,
 *                        id.low, origin key (blob)
 *   'T'                  scrub state: version, mode, volume, off / 8, bytes done, bytes total,
 *                        time of the last end (ms)
 *   'N'                  highest volume number ever used
 *   'B' id:16 count:8    rebuild only: a run that some row names: empty
 *
 * place: volume, off / 8, (record bytes / 8) << 2 | (kind - 1), body bytes. */
#ifndef DATA_LOCATION_FORMAT_H
#define DATA_LOCATION_FORMAT_H

#include "base/buf.h"
#include "base/bytes.h"
#include "volume/volume.h"

enum data_row {
    DATA_ROW_LOCATION = 'L',
    DATA_ROW_CONFIG = 'C',
    DATA_ROW_LIVE = 'V',
    DATA_ROW_SCAN_FROM = 'S',
    DATA_ROW_FREE = 'F',
    DATA_ROW_TOMBSTONE = 'X',
    DATA_ROW_ALIAS = 'P',
    DATA_ROW_MOVED = 'M',
    DATA_ROW_DAMAGE = 'D',
    DATA_ROW_SCRUB = 'T',
    DATA_ROW_NUMBER = 'N',
    DATA_ROW_NAMED = 'B',
};

struct data_place {
    struct volume_location location;
    uint32_t kind; /* enum volume_record_kind */
};

/* A key in the caller's memory. */
struct data_key {
    uint8_t bytes[32];
    size_t size;
};
static inline struct slice data_key_slice(const struct data_key *key) {
    return slice_of(key->bytes, key->size);
}
struct data_key data_key_table(enum data_row row); /* the table byte alone */
struct data_key data_key_id(enum data_row row, struct body_id id);
struct data_key data_key_volume(enum data_row row, uint32_t volume);
struct data_key data_key_free(uint64_t seq);
struct data_key data_key_alias(struct body_id id, uint32_t volume);
struct data_key data_key_damage(uint32_t volume, uint64_t off);
struct data_key data_key_named(struct body_id first, uint64_t count);
/* The inverse; false when the key has another shape. */
bool data_key_parse_id(struct slice key, struct body_id *ret);
bool data_key_parse_volume(struct slice key, uint32_t *ret);
bool data_key_parse_free(struct slice key, uint64_t *ret);
bool data_key_parse_alias(struct slice key, struct body_id *ret_id, uint32_t *ret_volume);
bool data_key_parse_damage(struct slice key, uint32_t *ret_volume, uint64_t *ret_off);
bool data_key_parse_named(struct slice key, struct body_id *ret_first, uint64_t *ret_count);

#define DATA_PLACE_BYTES_MAX (4 * VARINT_MAX)
size_t data_place_encode(const struct data_place *place, uint8_t ret[DATA_PLACE_BYTES_MAX]);
/* False when malformed; reads on at r. */
bool data_place_decode(struct reader *r, struct data_place *ret);

#endif
