/* The format of a volume file (docs/formats/volume.md).
 *
 *   0      file header, 64 bytes, the rest of its 512 zero
 *   512    the same file header again (so that one lost sector does not lose the volume)
 *   1024   records, each aligned to 8 bytes; between them there may be gaps of any bytes
 *
 *   record:  +--------+--------------------+-----------+------------+--------------+-----+
 *            | header | body               | span CRCs | origin key | origin value | pad |
 *            | 52     | body_bytes         | 4 a span  | key_bytes  | value_bytes  | 0-7 |
 *            +--------+--------------------+-----------+------------+--------------+-----+
 *
 * Every checksum is bound to the identity of what it covers:
 *   header_crc  CRC-32C of the volume's uuid (16 bytes) and the header before header_crc; the
 * header holds the volume's number, its own offset, the body id and all sizes span CRC i  CRC-32C
 * of (id.high:8 id.low:8 i:4, little-endian) and the i-th 64 KiB of the body origin_crc  CRC-32C of
 * (id.high:8 id.low:8 FFFFFFFF:4 key_bytes:4), key and value
 *
 * A record is found again behind a damaged area by trying each offset that is a multiple of 8: only
 * a header that names this very offset, this volume and (through its checksum) this file's uuid is
 * one. A copy of a volume file that somebody stored as an object therefore never looks like
 * records.
 *
 * Integers are little-endian. */
#ifndef VOLUME_VOLUME_FORMAT_H
#define VOLUME_VOLUME_FORMAT_H

#include <stdint.h>

#define VOLUME_FILE_MAGIC   0x31564c48u /* "HLV1" */
#define VOLUME_FILE_VERSION 1u

struct volume_file_header_disk {
    uint8_t magic[4];
    uint8_t version[4];
    uint8_t number[4];
    uint8_t reserved_a[4];
    uint8_t cluster_id[16];
    uint8_t uuid[16]; /* random: no two volume files share it */
    uint8_t created_ms[8];
    uint8_t reserved_b[4];
    uint8_t crc[4]; /* CRC-32C of the 60 bytes before */
};
_Static_assert(sizeof(struct volume_file_header_disk) == 64, "file header");

#define VOLUME_FILE_HEADER_COPY 512u  /* offset of the second copy */
#define VOLUME_DATA_OFF         1024u /* offset of the first record */

#define VOLUME_RECORD_MAGIC 0x31524c48u /* "HLR1" */

struct volume_record_header_disk {
    uint8_t magic[4];
    uint8_t kind;         /* enum volume_record_kind */
    uint8_t flags;        /* 0; a reader refuses what it does not know */
    uint8_t key_bytes[2]; /* origin key */
    uint8_t volume[4];
    uint8_t body_bytes[4];
    uint8_t off[8]; /* of this header in its file */
    uint8_t id_high[8];
    uint8_t id_low[8];
    uint8_t value_bytes[4]; /* origin value */
    uint8_t origin_crc[4];
    uint8_t header_crc[4];
};
_Static_assert(sizeof(struct volume_record_header_disk) == 52, "record header");

#define VOLUME_RECORD_HEADER 52u
#define VOLUME_RECORD_ALIGN  8u
#define VOLUME_SPAN          65536u
#define VOLUME_BODY_MAX      (16u << 20)
#define VOLUME_SPANS_MAX     (VOLUME_BODY_MAX / VOLUME_SPAN)
#define VOLUME_KEY_MAX       65535u
#define VOLUME_VALUE_MAX     (4u << 20)
/* The largest record: at most so far behind a header does its record end. */
#define VOLUME_RECORD_MAX                                                                          \
    (VOLUME_RECORD_HEADER + VOLUME_BODY_MAX + 4u * VOLUME_SPANS_MAX + VOLUME_KEY_MAX +             \
     VOLUME_VALUE_MAX + VOLUME_RECORD_ALIGN)

/* Body of a VOLUME_TOMBSTONES record: entries of 24 bytes. The heads id.low .. id.low + count - 1
 * are dead, wherever a copy of them is found; the entry is needed while the volume exists. */
struct volume_tombstone_disk {
    uint8_t volume[4];
    uint8_t count[4];
    uint8_t id_high[8];
    uint8_t id_low[8];
};
_Static_assert(sizeof(struct volume_tombstone_disk) == 24, "tombstone");

/* `hayloft-marker` in a data directory. */
#define VOLUME_MARKER_NAME    "hayloft-marker"
#define VOLUME_MARKER_MAGIC   0x314d4c48u /* "HLM1" */
#define VOLUME_MARKER_VERSION 1u

struct volume_marker_disk {
    uint8_t magic[4];
    uint8_t version[4];
    uint8_t cluster_id[16];
    uint8_t directory_uuid[16];
    uint8_t reserved[4];
    uint8_t crc[4]; /* CRC-32C of the 44 bytes before */
};
_Static_assert(sizeof(struct volume_marker_disk) == 48, "marker");

#endif
