/* Encoding and checking of volume records and headers: pure functions over bytes, no files. The one
 * place that knows the layout of volume_format.h. */
#ifndef VOLUME_VOLUME_RECORD_H
#define VOLUME_VOLUME_RECORD_H

#include "volume/volume.h"
#include "volume/volume_format.h"

#define VOLUME_UUID_SIZE 16

struct volume_header {
    uint32_t kind;
    uint32_t volume;
    uint64_t off;
    struct body_id id;
    uint32_t body_bytes;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t origin_crc;
};

void volume_header_encode(const struct volume_header *header, const uint8_t uuid[VOLUME_UUID_SIZE],
                          uint8_t ret[VOLUME_RECORD_HEADER]);
/* True when the bytes are a header of this file, at this offset, whole and within the limits. */
bool volume_header_decode(const uint8_t bytes[VOLUME_RECORD_HEADER],
                          const uint8_t uuid[VOLUME_UUID_SIZE], uint32_t volume, uint64_t off,
                          struct volume_header *ret);

static inline uint32_t volume_span_count(uint64_t body_bytes) {
    return (uint32_t)((body_bytes + VOLUME_SPAN - 1) / VOLUME_SPAN);
}
static inline uint32_t volume_span_bytes(uint32_t body_bytes, uint32_t span) {
    uint32_t left = body_bytes - span * VOLUME_SPAN;
    return left < VOLUME_SPAN ? left : VOLUME_SPAN;
}
/* Size on disk with padding. The arguments are within the limits of volume_format.h. */
uint32_t volume_record_size(uint32_t body_bytes, uint32_t key_bytes, uint32_t value_bytes);
static inline uint32_t volume_header_record_size(const struct volume_header *h) {
    return volume_record_size(h->body_bytes, h->key_bytes, h->value_bytes);
}

/* The checksum of a span, bound to its body and number. */
uint32_t volume_span_crc(struct body_id id, uint32_t span, const void *bytes, size_t size);
/* The same from the plain CRC-32C of the bytes. */
uint32_t volume_span_crc_bind(struct body_id id, uint32_t span, uint32_t plain, size_t size);
uint32_t volume_origin_crc(struct body_id id, struct slice key, struct slice value);

struct volume_file_header {
    uint32_t number;
    uint8_t cluster_id[16];
    uint8_t uuid[VOLUME_UUID_SIZE];
    int64_t created_ms;
};
/* Both copies and the zeros between: VOLUME_DATA_OFF bytes. */
void volume_file_header_encode(const struct volume_file_header *header,
                               uint8_t ret[VOLUME_DATA_OFF]);
/* From either copy. CORRUPT when neither is whole, BAD_FORMAT when a whole one has an unknown
 * version. bytes may be shorter than VOLUME_DATA_OFF. */
int volume_file_header_decode(struct slice bytes, struct volume_file_header *ret);

void volume_marker_encode(const uint8_t cluster_id[16], const uint8_t uuid[16],
                          struct volume_marker_disk *ret);
/* CORRUPT, BAD_FORMAT. */
int volume_marker_decode(struct slice bytes, uint8_t ret_cluster_id[16], uint8_t ret_uuid[16]);

#endif
