/* Bytes of segment headers and records from and to structs. Pure: no files, no state. Whatever
 * comes in here may be damaged or stale; nothing is believed before its checksum. */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "log/log_int.h"

void log_segment_encode(struct log_segment_info *info, struct log_segment_header *ret) {
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->magic, LOG_SEGMENT_MAGIC, sizeof(ret->magic));
    put_le32(ret->version, LOG_FORMAT_VERSION);
    put_le32(ret->header_size, LOG_SEGMENT_HEADER_SIZE);
    put_le64(ret->number, info->number);
    put_le64(ret->segment_bytes, info->segment_bytes);
    memcpy(ret->cluster_id, info->cluster_id, LOG_CLUSTER_ID_SIZE);
    info->crc = crc32c(0, ret, offsetof(struct log_segment_header, crc));
    put_le32(ret->crc, info->crc);
}

int log_segment_decode(struct slice data, struct log_segment_info *ret) {
    struct log_segment_header header;
    if (data.size < sizeof(header)) {
        return -HL_ERR_CORRUPT;
    }
    memcpy(&header, data.data, sizeof(header));
    uint32_t crc = crc32c(0, &header, offsetof(struct log_segment_header, crc));
    if (memcmp(header.magic, LOG_SEGMENT_MAGIC, sizeof(header.magic)) != 0 ||
        get_le32(header.crc) != crc) {
        return -HL_ERR_CORRUPT;
    }
    if (get_le32(header.version) != LOG_FORMAT_VERSION ||
        get_le32(header.header_size) != LOG_SEGMENT_HEADER_SIZE) {
        return -HL_ERR_BAD_FORMAT;
    }
    ret->number = get_le64(header.number);
    ret->segment_bytes = get_le64(header.segment_bytes);
    memcpy(ret->cluster_id, header.cluster_id, LOG_CLUSTER_ID_SIZE);
    ret->crc = crc;
    return 0;
}

/* The checksum of the place, which that of the record's header continues. */
static uint32_t place_crc(const uint8_t *cluster_id, uint64_t number, uint64_t off) {
    uint8_t place[LOG_CLUSTER_ID_SIZE + 16];
    memcpy(place, cluster_id, LOG_CLUSTER_ID_SIZE);
    put_le64(place + LOG_CLUSTER_ID_SIZE, number);
    put_le64(place + LOG_CLUSTER_ID_SIZE + 8, off);
    return crc32c(0, place, sizeof(place));
}

static uint32_t header_crc(const uint8_t *cluster_id, uint64_t number, uint64_t off,
                           const struct log_record_header *header) {
    size_t start = offsetof(struct log_record_header, payload_crc);
    return crc32c(place_crc(cluster_id, number, off), (const uint8_t *)header + start,
                  sizeof(*header) - start);
}

void log_record_encode(const uint8_t *cluster_id, uint64_t number, uint64_t off,
                       struct log_record_info *info, struct log_record_header *ret) {
    put_le32(ret->magic, LOG_RECORD_MAGIC);
    put_le32(ret->payload_crc, info->payload_crc);
    put_le32(ret->chain, info->chain);
    put_le32(ret->length, info->length);
    put_le16(ret->kind, (uint16_t)info->kind);
    put_le16(ret->flags, (uint16_t)info->flags);
    put_le32(ret->group, info->group);
    put_le32(ret->left, info->left);
    put_le64(ret->term, info->term);
    put_le64(ret->index, info->index);
    put_le64(ret->batch, info->batch);
    info->header_crc = header_crc(cluster_id, number, off, ret);
    put_le32(ret->header_crc, info->header_crc);
}

bool log_record_decode_header(const uint8_t *cluster_id, uint64_t number, uint64_t off,
                              struct slice rest, struct log_record_info *ret) {
    struct log_record_header header;
    if (rest.size < sizeof(header) || get_le32(rest.data) != LOG_RECORD_MAGIC) {
        return false;
    }
    memcpy(&header, rest.data, sizeof(header));
    if (get_le32(header.header_crc) != header_crc(cluster_id, number, off, &header) ||
        log_record_size(get_le32(header.length)) > rest.size) {
        return false;
    }
    *ret = (struct log_record_info){
        .header_crc = get_le32(header.header_crc),
        .payload_crc = get_le32(header.payload_crc),
        .chain = get_le32(header.chain),
        .length = get_le32(header.length),
        .kind = get_le16(header.kind),
        .flags = get_le16(header.flags),
        .group = get_le32(header.group),
        .left = get_le32(header.left),
        .term = get_le64(header.term),
        .index = get_le64(header.index),
        .batch = get_le64(header.batch),
    };
    return true;
}

bool log_record_decode(const uint8_t *cluster_id, uint64_t number, uint64_t off, struct slice rest,
                       struct log_record_info *ret, struct slice *ret_payload) {
    struct log_record_info info;
    if (!log_record_decode_header(cluster_id, number, off, rest, &info)) {
        return false;
    }
    const uint8_t *payload = rest.data + LOG_RECORD_HEADER_SIZE;
    size_t padded = (size_t)log_record_size(info.length) - LOG_RECORD_HEADER_SIZE;
    if (crc32c(0, payload, padded) != info.payload_crc) {
        return false;
    }
    *ret = info;
    *ret_payload = slice_of(payload, info.length);
    return true;
}
