/* Encoding and decoding of objects, uploads and parts; the other records are in records_admin.c.
 * Pure functions, any thread. Decoders never trust their input: a row may come from a damaged file
 * in a rebuild. */
#include "meta/records.h"

#include "base/error.h"
#include "meta/fields.h"
#include "meta/records_int.h"

enum object_tag {
    OBJECT_SEQUENCE = 1,
    OBJECT_MODIFIED = 2,
    OBJECT_SIZE = 3,
    OBJECT_MD5 = 4,
    OBJECT_ETAG_PARTS = 5,
    OBJECT_HEAD = 6, /* always the last field: see object_record_split_head */
    OBJECT_CHECKSUM = 7,
    OBJECT_MULTIPART = 8,
    OBJECT_OWNER = 9,
    OBJECT_PART = 10,
    OBJECT_TAGS = 11,
    OBJECT_ACL = 12,
    OBJECT_LOCK = 13,
    OBJECT_ENCRYPTION = 14,
    OBJECT_VERSION_ID = 15,
    HEADERS_CONTENT_TYPE = 32, /* 32..47: struct object_headers, shared with uploads */
    HEADERS_CACHE_CONTROL = 33,
    HEADERS_CONTENT_DISPOSITION = 34,
    HEADERS_CONTENT_ENCODING = 35,
    HEADERS_CONTENT_LANGUAGE = 36,
    HEADERS_EXPIRES = 37,
    HEADERS_WEBSITE_REDIRECT = 38,
    HEADERS_STORAGE_CLASS = 39,
    HEADERS_METADATA = 40,
};

enum part_tag {
    PART_NUMBER = 1,
    PART_SIZE = 2,
    PART_MD5 = 3,
    PART_CHECKSUM = 4,
    PART_RUN = 5,
    PART_INLINE = 6,
    PART_MODIFIED = 7,
};

/* ---- small pieces ---- */

static void encode_body_id(struct buf *out, struct body_id id) {
    buf_append_be64(out, id.high);
    buf_append_be64(out, id.low);
}

static bool decode_body_id(struct slice bytes, struct body_id *ret) {
    if (bytes.size != 16) {
        return false;
    }
    ret->high = get_be64(bytes.data);
    ret->low = get_be64(bytes.data + 8);
    return true;
}

void records_checksum_field(struct buf *out, uint64_t tag, const struct checksum *checksum) {
    if (checksum->size == 0) {
        return;
    }
    uint8_t bytes[2 + CHECKSUM_SIZE_MAX] = {checksum->algorithm, checksum->type};
    memcpy(bytes + 2, checksum->value, checksum->size);
    fields_bytes(out, tag, slice_of(bytes, 2u + checksum->size));
}

bool records_checksum_decode(struct slice bytes, struct checksum *ret) {
    static const uint8_t sizes[] = {0, 4, 4, 8, 20, 32};
    if (bytes.size < 3 || bytes.data[0] == 0 || bytes.data[0] >= sizeof(sizes) ||
        bytes.size != 2u + sizes[bytes.data[0]] || bytes.data[1] > CHECKSUM_COMPOSITE) {
        return false;
    }
    *ret = (struct checksum){
        .algorithm = bytes.data[0], .type = bytes.data[1], .size = (uint8_t)(bytes.size - 2)};
    memcpy(ret->value, bytes.data + 2, ret->size);
    return true;
}

bool records_md5_decode(struct slice bytes, uint8_t ret[16]) {
    if (bytes.size != 16) {
        return false;
    }
    memcpy(ret, bytes.data, 16);
    return true;
}

/* ---- headers ---- */

static struct slice *header_slot(struct object_headers *h, uint64_t tag) {
    switch (tag) {
    case HEADERS_CONTENT_TYPE:
        return &h->content_type;
    case HEADERS_CACHE_CONTROL:
        return &h->cache_control;
    case HEADERS_CONTENT_DISPOSITION:
        return &h->content_disposition;
    case HEADERS_CONTENT_ENCODING:
        return &h->content_encoding;
    case HEADERS_CONTENT_LANGUAGE:
        return &h->content_language;
    case HEADERS_EXPIRES:
        return &h->expires;
    case HEADERS_WEBSITE_REDIRECT:
        return &h->website_redirect;
    case HEADERS_STORAGE_CLASS:
        return &h->storage_class;
    default:
        return NULL;
    }
}

static void encode_headers(struct buf *out, const struct object_headers *headers) {
    struct object_headers copy = *headers;
    for (uint64_t tag = HEADERS_CONTENT_TYPE; tag <= HEADERS_STORAGE_CLASS; tag++) {
        fields_bytes_if(out, tag, *header_slot(&copy, tag));
    }
    for (uint32_t i = 0; i < headers->metadata_count; i++) {
        const struct header_pair *pair = &headers->metadata[i];
        uint8_t length[VARINT_MAX];
        size_t length_size = put_varint(length, pair->name.size);
        buf_append_varint(out, (uint64_t)HEADERS_METADATA << 1 | 1);
        buf_append_varint(out, length_size + pair->name.size + pair->value.size);
        buf_append(out, length, length_size);
        buf_append_slice(out, pair->name);
        buf_append_slice(out, pair->value);
    }
}

static bool decode_metadata(struct slice bytes, struct header_pair *ret) {
    struct reader r = reader_of(bytes);
    ret->name = reader_blob(&r);
    ret->value = slice_of(r.pos, reader_left(&r));
    return !r.failed;
}

/* Counts the fields with a tag, so that one array can be taken from the pool. */
static uint32_t count_fields(struct slice value, uint64_t tag) {
    struct reader r = fields_open(value);
    struct field field;
    uint32_t count = 0;
    while (fields_next(&r, &field)) {
        count += field.tag == tag && field.is_bytes;
    }
    return count;
}

/* Takes the field if it belongs to the headers. metadata has room for all pairs or is NULL (peek).
 */
static bool decode_header_field(const struct field *field, struct object_headers *h,
                                struct header_pair *metadata, bool *ret_bad) {
    struct slice *slot = header_slot(h, field->tag);
    if (slot != NULL) {
        *slot = field->bytes;
        *ret_bad |= !field->is_bytes;
        return true;
    }
    if (field->tag != HEADERS_METADATA) {
        return false;
    }
    if (metadata != NULL) {
        *ret_bad |=
            !field->is_bytes || !decode_metadata(field->bytes, &metadata[h->metadata_count]);
        h->metadata_count++;
    }
    return true;
}

/* ---- parts ---- */

static void encode_run(struct buf *out, const struct body_run *run) {
    struct buf bytes = {0};
    encode_body_id(&bytes, run->first);
    buf_append_varint(&bytes, run->block_bytes);
    buf_append_varint(&bytes, run->block_count);
    buf_append_varint(&bytes, run->size);
    buf_append_varint(&bytes, run->skip);
    fields_bytes(out, PART_RUN, buf_slice(&bytes));
    out->failed |= bytes.failed;
    buf_done(&bytes);
}

static bool decode_run(struct slice bytes, struct body_run *ret) {
    struct reader r = reader_of(bytes);
    if (!decode_body_id(reader_bytes(&r, 16), &ret->first)) {
        return false;
    }
    uint64_t block_bytes = reader_varint(&r);
    uint64_t block_count = reader_varint(&r);
    ret->size = reader_varint(&r);
    ret->skip = reader_varint(&r);
    uint64_t end;
    if (r.failed || reader_left(&r) != 0 || block_bytes == 0 || block_bytes > UINT32_MAX ||
        block_count == 0 || block_count > UINT32_MAX ||
        __builtin_add_overflow(ret->size, ret->skip, &end) || end > block_bytes * block_count) {
        return false;
    }
    ret->block_bytes = (uint32_t)block_bytes;
    ret->block_count = (uint32_t)block_count;
    return true;
}

static void encode_part_fields(struct buf *out, const struct object_part *part) {
    fields_number_if(out, PART_NUMBER, part->number);
    fields_number_if(out, PART_SIZE, part->size);
    fields_bytes(out, PART_MD5, slice_of(part->md5, sizeof(part->md5)));
    records_checksum_field(out, PART_CHECKSUM, &part->checksum);
    if (part->run.block_count > 0) {
        encode_run(out, &part->run);
    }
    if (!body_id_is_none(part->inline_id)) {
        buf_append_varint(out, PART_INLINE << 1 | 1);
        buf_append_varint(out, 16);
        encode_body_id(out, part->inline_id);
    }
}

static bool decode_part_field(const struct field *field, struct object_part *part, bool *ret_bad) {
    switch (field->tag) {
    case PART_NUMBER:
        *ret_bad |= field->number > 10000;
        part->number = (uint16_t)field->number;
        return true;
    case PART_SIZE:
        part->size = field->number;
        return true;
    case PART_MD5:
        *ret_bad |= !records_md5_decode(field->bytes, part->md5);
        return true;
    case PART_CHECKSUM:
        *ret_bad |= !records_checksum_decode(field->bytes, &part->checksum);
        return true;
    case PART_RUN:
        *ret_bad |= !decode_run(field->bytes, &part->run);
        return true;
    case PART_INLINE:
        *ret_bad |= !decode_body_id(field->bytes, &part->inline_id);
        return true;
    default:
        return false;
    }
}

/* A part that claims more bytes than its run or that has two homes is damage. */
static bool part_consistent(const struct object_part *part) {
    if (part->run.block_count > 0) {
        return part->run.size == part->size && body_id_is_none(part->inline_id);
    }
    return true;
}

static bool decode_part(struct slice bytes, struct object_part *ret) {
    struct reader r = reader_of(bytes);
    struct field field;
    bool bad = false;
    *ret = (struct object_part){0};
    while (fields_next(&r, &field)) {
        if (!decode_part_field(&field, ret, &bad) && field.tag < FIELDS_OPTIONAL_TAG) {
            return false;
        }
    }
    return !r.failed && !bad && part_consistent(ret);
}

void part_record_encode(struct buf *out, const struct part_record *record) {
    fields_begin(out);
    encode_part_fields(out, &record->part);
    fields_number_if(out, PART_MODIFIED, (uint64_t)record->modified_ms);
    buf_append_slice(out, record->unknown);
}

int part_record_decode(struct slice value, struct part_record *ret) {
    struct reader r = fields_open(value);
    struct field field;
    struct part_record record = {0};
    bool bad = false;
    while (fields_next(&r, &field)) {
        if (field.tag == PART_MODIFIED) {
            record.modified_ms = (int64_t)field.number;
        } else if (!decode_part_field(&field, &record.part, &bad)) {
            bad |= !records_keep_unknown(&field, &record.unknown);
        }
    }
    if (r.failed || bad || !part_consistent(&record.part)) {
        return -HL_ERR_CORRUPT;
    }
    *ret = record;
    return 0;
}

/* ---- objects ---- */

static void encode_parts(struct buf *out, const struct object_record *record) {
    struct buf bytes = {0};
    for (uint32_t i = 0; i < record->part_count; i++) {
        buf_clear(&bytes);
        encode_part_fields(&bytes, &record->parts[i]);
        fields_bytes(out, OBJECT_PART, buf_slice(&bytes));
    }
    out->failed |= bytes.failed;
    buf_done(&bytes);
}

void object_record_append_head(struct buf *out, struct body_id head) {
    buf_append_varint(out, OBJECT_HEAD << 1 | 1);
    buf_append_varint(out, 16);
    encode_body_id(out, head);
}

struct slice object_record_split_head(struct slice value, struct body_id head) {
    uint8_t suffix[OBJECT_HEAD_FIELD_SIZE] = {OBJECT_HEAD << 1 | 1, 16};
    put_be64(suffix + 2, head.high);
    put_be64(suffix + 10, head.low);
    if (value.size < sizeof(suffix) ||
        memcmp(value.data + value.size - sizeof(suffix), suffix, sizeof(suffix)) != 0) {
        return value;
    }
    return slice_take(value, value.size - sizeof(suffix));
}

void object_record_encode(struct buf *out, const struct object_record *record) {
    fields_begin(out);
    fields_number_if(out, OBJECT_SEQUENCE, record->sequence);
    fields_number_if(out, OBJECT_MODIFIED, (uint64_t)record->modified_ms);
    fields_number_if(out, OBJECT_SIZE, record->size);
    fields_bytes(out, OBJECT_MD5, slice_of(record->etag.md5, 16));
    fields_number_if(out, OBJECT_ETAG_PARTS, record->etag.parts);
    records_checksum_field(out, OBJECT_CHECKSUM, &record->checksum);
    fields_number_if(out, OBJECT_MULTIPART, record->multipart);
    fields_bytes_if(out, OBJECT_OWNER, record->owner);
    encode_headers(out, &record->headers);
    encode_parts(out, record);
    fields_bytes_if(out, OBJECT_TAGS, record->tags);
    fields_bytes_if(out, OBJECT_ACL, record->acl);
    fields_bytes_if(out, OBJECT_LOCK, record->lock);
    fields_bytes_if(out, OBJECT_ENCRYPTION, record->encryption);
    fields_bytes_if(out, OBJECT_VERSION_ID, record->version_id);
    buf_append_slice(out, record->unknown);
    if (!body_id_is_none(record->head)) {
        object_record_append_head(out, record->head);
    }
}

static bool decode_object_number(const struct field *field, struct object_record *record) {
    switch (field->tag) {
    case OBJECT_SEQUENCE:
        record->sequence = field->number;
        return true;
    case OBJECT_MODIFIED:
        record->modified_ms = (int64_t)field->number;
        return true;
    case OBJECT_SIZE:
        record->size = field->number;
        return true;
    case OBJECT_ETAG_PARTS:
        record->etag.parts = (uint32_t)field->number;
        return field->number <= 10000;
    case OBJECT_MULTIPART:
        record->multipart = field->number != 0;
        return true;
    default:
        return false;
    }
}

static struct slice *object_reserved_slot(struct object_record *record, uint64_t tag) {
    switch (tag) {
    case OBJECT_OWNER:
        return &record->owner;
    case OBJECT_TAGS:
        return &record->tags;
    case OBJECT_ACL:
        return &record->acl;
    case OBJECT_LOCK:
        return &record->lock;
    case OBJECT_ENCRYPTION:
        return &record->encryption;
    case OBJECT_VERSION_ID:
        return &record->version_id;
    default:
        return NULL;
    }
}

/* One field of an object; parts and metadata have room for all, or are NULL for a peek. */
static bool decode_object_field(const struct field *field, struct object_record *record,
                                struct object_part *parts, struct header_pair *metadata) {
    if (!field->is_bytes) {
        return decode_object_number(field, record) || records_keep_unknown(field, &record->unknown);
    }
    struct slice *slot = object_reserved_slot(record, field->tag);
    bool bad = false;
    if (slot != NULL) {
        *slot = field->bytes;
        return true;
    }
    if (decode_header_field(field, &record->headers, metadata, &bad)) {
        return !bad;
    }
    switch (field->tag) {
    case OBJECT_MD5:
        return records_md5_decode(field->bytes, record->etag.md5);
    case OBJECT_CHECKSUM:
        return records_checksum_decode(field->bytes, &record->checksum);
    case OBJECT_HEAD:
        return decode_body_id(field->bytes, &record->head);
    case OBJECT_PART:
        return parts == NULL || decode_part(field->bytes, &parts[record->part_count++]);
    default:
        return records_keep_unknown(field, &record->unknown);
    }
}

static int decode_object(struct slice value, struct object_part *parts,
                         struct header_pair *metadata, struct object_record *ret) {
    struct reader r = fields_open(value);
    struct field field;
    struct object_record record = {0};
    while (fields_next(&r, &field)) {
        if (!decode_object_field(&field, &record, parts, metadata)) {
            return -HL_ERR_CORRUPT;
        }
    }
    if (r.failed) {
        return -HL_ERR_CORRUPT;
    }
    record.parts = parts;
    record.headers.metadata = metadata;
    *ret = record;
    return 0;
}

/* The parts of an object must add up to its size. */
static bool object_consistent(const struct object_record *record) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < record->part_count; i++) {
        if (__builtin_add_overflow(sum, record->parts[i].size, &sum)) {
            return false;
        }
    }
    return record->part_count == 0 || sum == record->size;
}

int object_record_decode(struct slice value, struct pool *pool, struct object_record *ret) {
    uint32_t part_count = count_fields(value, OBJECT_PART);
    uint32_t metadata_count = count_fields(value, HEADERS_METADATA);
    struct object_part *parts = pool_alloc(pool, (part_count + 1) * sizeof(*parts));
    struct header_pair *metadata = pool_alloc(pool, (metadata_count + 1) * sizeof(*metadata));
    if (parts == NULL || metadata == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct object_record record;
    int err = decode_object(value, parts, metadata, &record);
    if (err < 0) {
        return err;
    }
    if (!object_consistent(&record)) {
        return -HL_ERR_CORRUPT;
    }
    *ret = record;
    return 0;
}

int object_record_peek(struct slice value, struct object_record *ret) {
    return decode_object(value, NULL, NULL, ret);
}

/* ---- uploads ---- */

enum upload_tag {
    UPLOAD_CREATED = 1,
    UPLOAD_CHECKSUM_ALGORITHM = 2,
    UPLOAD_CHECKSUM_TYPE = 3,
    UPLOAD_CHECKSUM_GIVEN = 4,
    UPLOAD_OWNER = 5,
    UPLOAD_OWNER_NAME = 6,
    UPLOAD_TAGS = 11,
    UPLOAD_ACL = 12,
    UPLOAD_LOCK = 13,
    UPLOAD_ENCRYPTION = 14,
};

void upload_record_encode(struct buf *out, const struct upload_record *record) {
    fields_begin(out);
    fields_number_if(out, UPLOAD_CREATED, (uint64_t)record->created_ms);
    fields_number_if(out, UPLOAD_CHECKSUM_ALGORITHM, record->checksum_algorithm);
    fields_number_if(out, UPLOAD_CHECKSUM_TYPE, record->checksum_type);
    fields_number_if(out, UPLOAD_CHECKSUM_GIVEN, record->checksum_given);
    fields_bytes_if(out, UPLOAD_OWNER, record->owner);
    fields_bytes_if(out, UPLOAD_OWNER_NAME, record->owner_name);
    fields_bytes_if(out, UPLOAD_TAGS, record->tags);
    fields_bytes_if(out, UPLOAD_ACL, record->acl);
    fields_bytes_if(out, UPLOAD_LOCK, record->lock);
    fields_bytes_if(out, UPLOAD_ENCRYPTION, record->encryption);
    encode_headers(out, &record->headers);
    buf_append_slice(out, record->unknown);
}

static bool decode_upload_field(const struct field *field, struct upload_record *record) {
    switch (field->tag) {
    case UPLOAD_CREATED:
        record->created_ms = (int64_t)field->number;
        return true;
    case UPLOAD_CHECKSUM_ALGORITHM:
        record->checksum_algorithm = (uint8_t)field->number;
        return field->number <= CHECKSUM_SHA256;
    case UPLOAD_CHECKSUM_TYPE:
        record->checksum_type = (uint8_t)field->number;
        return field->number <= CHECKSUM_COMPOSITE;
    case UPLOAD_CHECKSUM_GIVEN:
        record->checksum_given = field->number != 0;
        return true;
    case UPLOAD_OWNER:
        record->owner = field->bytes;
        return true;
    case UPLOAD_OWNER_NAME:
        record->owner_name = field->bytes;
        return true;
    case UPLOAD_TAGS:
        record->tags = field->bytes;
        return true;
    case UPLOAD_ACL:
        record->acl = field->bytes;
        return true;
    case UPLOAD_LOCK:
        record->lock = field->bytes;
        return true;
    case UPLOAD_ENCRYPTION:
        record->encryption = field->bytes;
        return true;
    default:
        return records_keep_unknown(field, &record->unknown);
    }
}

int upload_record_decode(struct slice value, struct pool *pool, struct upload_record *ret) {
    uint32_t metadata_count = count_fields(value, HEADERS_METADATA);
    struct header_pair *metadata = pool_alloc(pool, (metadata_count + 1) * sizeof(*metadata));
    if (metadata == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct reader r = fields_open(value);
    struct field field;
    struct upload_record record = {0};
    bool bad = false;
    while (fields_next(&r, &field)) {
        if (!decode_header_field(&field, &record.headers, metadata, &bad)) {
            bad |= !decode_upload_field(&field, &record);
        }
    }
    if (r.failed || bad) {
        return -HL_ERR_CORRUPT;
    }
    record.headers.metadata = metadata;
    *ret = record;
    return 0;
}
