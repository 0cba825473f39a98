/* Encoding and checking of volume records and file headers (volume_format.h). Pure functions: the
 * fuzzer drives them. Invariant: whatever a decoder accepts has sizes within the limits, so callers
 * may add them in 64 bits without overflow. Must not know files, sets or locks. */
#include "volume/volume_record.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/macros.h"

static uint32_t header_crc(const uint8_t bytes[VOLUME_RECORD_HEADER],
                           const uint8_t uuid[VOLUME_UUID_SIZE]) {
    uint32_t crc = crc32c(0, uuid, VOLUME_UUID_SIZE);
    return crc32c(crc, bytes, offsetof(struct volume_record_header_disk, header_crc));
}

void volume_header_encode(const struct volume_header *header, const uint8_t uuid[VOLUME_UUID_SIZE],
                          uint8_t ret[VOLUME_RECORD_HEADER]) {
    CHECK(header->key_bytes <= VOLUME_KEY_MAX && header->value_bytes <= VOLUME_VALUE_MAX);
    CHECK(header->body_bytes <= VOLUME_BODY_MAX && header->off % VOLUME_RECORD_ALIGN == 0);
    struct volume_record_header_disk disk = {.kind = (uint8_t)header->kind};
    put_le32(disk.magic, VOLUME_RECORD_MAGIC);
    put_le16(disk.key_bytes, (uint16_t)header->key_bytes);
    put_le32(disk.volume, header->volume);
    put_le32(disk.body_bytes, header->body_bytes);
    put_le64(disk.off, header->off);
    put_le64(disk.id_high, header->id.high);
    put_le64(disk.id_low, header->id.low);
    put_le32(disk.value_bytes, header->value_bytes);
    put_le32(disk.origin_crc, header->origin_crc);
    memcpy(ret, &disk, sizeof(disk));
    put_le32(ret + offsetof(struct volume_record_header_disk, header_crc), header_crc(ret, uuid));
}

bool volume_header_decode(const uint8_t bytes[VOLUME_RECORD_HEADER],
                          const uint8_t uuid[VOLUME_UUID_SIZE], uint32_t volume, uint64_t off,
                          struct volume_header *ret) {
    struct volume_record_header_disk disk;
    memcpy(&disk, bytes, sizeof(disk));
    if (get_le32(disk.magic) != VOLUME_RECORD_MAGIC || get_le32(disk.volume) != volume ||
        get_le64(disk.off) != off || get_le32(disk.header_crc) != header_crc(bytes, uuid)) {
        return false;
    }
    struct volume_header header = {
        .kind = disk.kind,
        .volume = volume,
        .off = off,
        .id = {get_le64(disk.id_high), get_le64(disk.id_low)},
        .body_bytes = get_le32(disk.body_bytes),
        .key_bytes = get_le16(disk.key_bytes),
        .value_bytes = get_le32(disk.value_bytes),
        .origin_crc = get_le32(disk.origin_crc),
    };
    if (disk.flags != 0 || header.kind < VOLUME_HEAD || header.kind > VOLUME_CONFIG ||
        header.body_bytes > VOLUME_BODY_MAX || header.value_bytes > VOLUME_VALUE_MAX) {
        return false;
    }
    *ret = header;
    return true;
}

uint32_t volume_record_size(uint32_t body_bytes, uint32_t key_bytes, uint32_t value_bytes) {
    uint64_t size = VOLUME_RECORD_HEADER + (uint64_t)body_bytes +
                    4ull * volume_span_count(body_bytes) + key_bytes + value_bytes;
    size = ALIGN_UP(size, VOLUME_RECORD_ALIGN);
    CHECK(size <= VOLUME_RECORD_MAX);
    return (uint32_t)size;
}

#define IDENTITY_SIZE 20

static void identity_encode(uint8_t ret[IDENTITY_SIZE], struct body_id id, uint32_t span) {
    put_le64(ret, id.high);
    put_le64(ret + 8, id.low);
    put_le32(ret + 16, span);
}

uint32_t volume_span_crc(struct body_id id, uint32_t span, const void *bytes, size_t size) {
    uint8_t identity[IDENTITY_SIZE];
    identity_encode(identity, id, span);
    return crc32c(crc32c(0, identity, sizeof(identity)), bytes, size);
}

uint32_t volume_span_crc_bind(struct body_id id, uint32_t span, uint32_t plain, size_t size) {
    uint8_t identity[IDENTITY_SIZE];
    identity_encode(identity, id, span);
    return crc32c_combine(crc32c(0, identity, sizeof(identity)), plain, size);
}

uint32_t volume_origin_crc(struct body_id id, struct slice key, struct slice value) {
    uint8_t identity[IDENTITY_SIZE + 4];
    identity_encode(identity, id, UINT32_MAX);
    put_le32(identity + IDENTITY_SIZE, (uint32_t)key.size);
    uint32_t crc = crc32c(0, identity, sizeof(identity));
    if (key.size > 0) {
        crc = crc32c(crc, key.data, key.size);
    }
    return value.size == 0 ? crc : crc32c(crc, value.data, value.size);
}

void volume_file_header_encode(const struct volume_file_header *header,
                               uint8_t ret[VOLUME_DATA_OFF]) {
    struct volume_file_header_disk disk = {0};
    put_le32(disk.magic, VOLUME_FILE_MAGIC);
    put_le32(disk.version, VOLUME_FILE_VERSION);
    put_le32(disk.number, header->number);
    memcpy(disk.cluster_id, header->cluster_id, sizeof(disk.cluster_id));
    memcpy(disk.uuid, header->uuid, sizeof(disk.uuid));
    put_le64(disk.created_ms, (uint64_t)header->created_ms);
    put_le32(disk.crc, crc32c(0, &disk, offsetof(struct volume_file_header_disk, crc)));
    memset(ret, 0, VOLUME_DATA_OFF);
    memcpy(ret, &disk, sizeof(disk));
    memcpy(ret + VOLUME_FILE_HEADER_COPY, &disk, sizeof(disk));
}

static int file_header_decode_copy(struct slice bytes, size_t off, struct volume_file_header *ret) {
    struct volume_file_header_disk disk;
    if (bytes.size < off + sizeof(disk)) {
        return -HL_ERR_CORRUPT;
    }
    memcpy(&disk, bytes.data + off, sizeof(disk));
    if (get_le32(disk.magic) != VOLUME_FILE_MAGIC ||
        get_le32(disk.crc) != crc32c(0, &disk, offsetof(struct volume_file_header_disk, crc))) {
        return -HL_ERR_CORRUPT;
    }
    if (get_le32(disk.version) != VOLUME_FILE_VERSION) {
        return -HL_ERR_BAD_FORMAT;
    }
    struct volume_file_header header = {.number = get_le32(disk.number),
                                        .created_ms = (int64_t)get_le64(disk.created_ms)};
    memcpy(header.cluster_id, disk.cluster_id, sizeof(header.cluster_id));
    memcpy(header.uuid, disk.uuid, sizeof(header.uuid));
    *ret = header;
    return 0;
}

int volume_file_header_decode(struct slice bytes, struct volume_file_header *ret) {
    int err = file_header_decode_copy(bytes, 0, ret);
    if (err == -HL_ERR_CORRUPT) {
        err = file_header_decode_copy(bytes, VOLUME_FILE_HEADER_COPY, ret);
    }
    return err;
}

void volume_marker_encode(const uint8_t cluster_id[16], const uint8_t uuid[16],
                          struct volume_marker_disk *ret) {
    struct volume_marker_disk disk = {0};
    put_le32(disk.magic, VOLUME_MARKER_MAGIC);
    put_le32(disk.version, VOLUME_MARKER_VERSION);
    memcpy(disk.cluster_id, cluster_id, sizeof(disk.cluster_id));
    memcpy(disk.directory_uuid, uuid, sizeof(disk.directory_uuid));
    put_le32(disk.crc, crc32c(0, &disk, offsetof(struct volume_marker_disk, crc)));
    *ret = disk;
}

int volume_marker_decode(struct slice bytes, uint8_t ret_cluster_id[16], uint8_t ret_uuid[16]) {
    struct volume_marker_disk disk;
    if (bytes.size != sizeof(disk)) {
        return -HL_ERR_CORRUPT;
    }
    memcpy(&disk, bytes.data, sizeof(disk));
    if (get_le32(disk.magic) != VOLUME_MARKER_MAGIC ||
        get_le32(disk.crc) != crc32c(0, &disk, offsetof(struct volume_marker_disk, crc))) {
        return -HL_ERR_CORRUPT;
    }
    if (get_le32(disk.version) != VOLUME_MARKER_VERSION) {
        return -HL_ERR_BAD_FORMAT;
    }
    memcpy(ret_cluster_id, disk.cluster_id, 16);
    memcpy(ret_uuid, disk.directory_uuid, 16);
    return 0;
}
