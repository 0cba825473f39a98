/* Encoding and decoding of buckets, access keys and completed uploads. Pure functions, any thread.
 */
#include "base/error.h"
#include "meta/records_int.h"

/* ---- completed uploads ---- */

enum completed_tag {
    COMPLETED_BUCKET = 1,
    COMPLETED_KEY = 2,
    COMPLETED_MD5 = 3,
    COMPLETED_PARTS = 4,
    COMPLETED_SEQUENCE = 5,
    COMPLETED_AT = 6,
    COMPLETED_REQUEST = 7,
};

void completed_record_encode(struct buf *out, const struct completed_record *record) {
    fields_begin(out);
    fields_number(out, COMPLETED_BUCKET, record->bucket);
    fields_bytes(out, COMPLETED_KEY, record->key);
    fields_bytes(out, COMPLETED_MD5, slice_of(record->etag.md5, 16));
    fields_number_if(out, COMPLETED_PARTS, record->etag.parts);
    fields_number_if(out, COMPLETED_SEQUENCE, record->sequence);
    fields_number_if(out, COMPLETED_AT, (uint64_t)record->completed_ms);
    fields_bytes(out, COMPLETED_REQUEST, slice_of(record->parts_sha256, 32));
}

static bool decode_completed_field(const struct field *field, struct completed_record *record) {
    switch (field->tag) {
    case COMPLETED_BUCKET:
        record->bucket = field->number;
        return true;
    case COMPLETED_KEY:
        record->key = field->bytes;
        return true;
    case COMPLETED_MD5:
        return records_md5_decode(field->bytes, record->etag.md5);
    case COMPLETED_PARTS:
        record->etag.parts = (uint32_t)field->number;
        return field->number <= 10000;
    case COMPLETED_SEQUENCE:
        record->sequence = field->number;
        return true;
    case COMPLETED_AT:
        record->completed_ms = (int64_t)field->number;
        return true;
    case COMPLETED_REQUEST:
        if (field->bytes.size != 32) {
            return false;
        }
        memcpy(record->parts_sha256, field->bytes.data, 32);
        return true;
    default:
        return field->tag >= FIELDS_OPTIONAL_TAG;
    }
}

int completed_record_decode(struct slice value, struct completed_record *ret) {
    struct reader r = fields_open(value);
    struct field field;
    struct completed_record record = {0};
    while (fields_next(&r, &field)) {
        if (!decode_completed_field(&field, &record)) {
            return -HL_ERR_CORRUPT;
        }
    }
    if (r.failed) {
        return -HL_ERR_CORRUPT;
    }
    *ret = record;
    return 0;
}

/* ---- buckets ---- */

enum bucket_tag {
    BUCKET_ID = 1,
    BUCKET_CREATED = 2,
    BUCKET_NAME = 3,
    BUCKET_OWNER = 4,
    BUCKET_LOCATION = 5,
    BUCKET_QUOTA_BYTES = 6,
    BUCKET_QUOTA_OBJECTS = 7,
    BUCKET_GROUP = 8,
    BUCKET_VERSIONING = 9,
};

void bucket_record_encode(struct buf *out, const struct bucket_record *record) {
    fields_begin(out);
    fields_number(out, BUCKET_ID, record->id);
    fields_number_if(out, BUCKET_CREATED, (uint64_t)record->created_ms);
    fields_bytes_if(out, BUCKET_NAME, record->name);
    fields_bytes_if(out, BUCKET_OWNER, record->owner);
    fields_bytes_if(out, BUCKET_LOCATION, record->location);
    fields_number_if(out, BUCKET_QUOTA_BYTES, record->quota_bytes);
    fields_number_if(out, BUCKET_QUOTA_OBJECTS, record->quota_objects);
    fields_number_if(out, BUCKET_GROUP, record->group);
    fields_number_if(out, BUCKET_VERSIONING, record->versioning);
    buf_append_slice(out, record->unknown);
}

static bool decode_bucket_field(const struct field *field, struct bucket_record *record) {
    switch (field->tag) {
    case BUCKET_ID:
        record->id = field->number;
        return true;
    case BUCKET_CREATED:
        record->created_ms = (int64_t)field->number;
        return true;
    case BUCKET_NAME:
        record->name = field->bytes;
        return true;
    case BUCKET_OWNER:
        record->owner = field->bytes;
        return true;
    case BUCKET_LOCATION:
        record->location = field->bytes;
        return true;
    case BUCKET_QUOTA_BYTES:
        record->quota_bytes = field->number;
        return true;
    case BUCKET_QUOTA_OBJECTS:
        record->quota_objects = field->number;
        return true;
    case BUCKET_GROUP:
        record->group = (uint32_t)field->number;
        return field->number <= UINT32_MAX;
    case BUCKET_VERSIONING:
        record->versioning = (uint8_t)field->number;
        return field->number <= 2;
    default:
        return records_keep_unknown(field, &record->unknown);
    }
}

int bucket_record_decode(struct slice value, struct bucket_record *ret) {
    struct reader r = fields_open(value);
    struct field field;
    struct bucket_record record = {0};
    while (fields_next(&r, &field)) {
        if (!decode_bucket_field(&field, &record)) {
            return -HL_ERR_CORRUPT;
        }
    }
    if (r.failed) {
        return -HL_ERR_CORRUPT;
    }
    *ret = record;
    return 0;
}

/* ---- access keys ---- */

enum access_key_tag {
    ACCESS_KEY_ID = 1,
    ACCESS_KEY_SECRET = 2,
    ACCESS_KEY_NAME = 3,
    ACCESS_KEY_CREATED = 4,
    ACCESS_KEY_EXPIRES = 5,
    ACCESS_KEY_FLAGS = 6,
};

void access_key_record_encode(struct buf *out, const struct access_key_record *record) {
    fields_begin(out);
    fields_bytes(out, ACCESS_KEY_ID, record->id);
    fields_bytes(out, ACCESS_KEY_SECRET, record->secret);
    fields_bytes_if(out, ACCESS_KEY_NAME, record->name);
    fields_number_if(out, ACCESS_KEY_CREATED, (uint64_t)record->created_ms);
    fields_number_if(out, ACCESS_KEY_EXPIRES, (uint64_t)record->expires_ms);
    fields_number_if(out, ACCESS_KEY_FLAGS, record->flags);
    buf_append_slice(out, record->unknown);
}

static bool decode_access_key_field(const struct field *field, struct access_key_record *record) {
    switch (field->tag) {
    case ACCESS_KEY_ID:
        record->id = field->bytes;
        return true;
    case ACCESS_KEY_SECRET:
        record->secret = field->bytes;
        return true;
    case ACCESS_KEY_NAME:
        record->name = field->bytes;
        return true;
    case ACCESS_KEY_CREATED:
        record->created_ms = (int64_t)field->number;
        return true;
    case ACCESS_KEY_EXPIRES:
        record->expires_ms = (int64_t)field->number;
        return true;
    case ACCESS_KEY_FLAGS:
        record->flags = (uint32_t)field->number;
        return field->number <= UINT32_MAX;
    default:
        return records_keep_unknown(field, &record->unknown);
    }
}

int access_key_record_decode(struct slice value, struct access_key_record *ret) {
    struct reader r = fields_open(value);
    struct field field;
    struct access_key_record record = {0};
    while (fields_next(&r, &field)) {
        if (!decode_access_key_field(&field, &record)) {
            return -HL_ERR_CORRUPT;
        }
    }
    if (r.failed || record.id.size == 0) {
        return -HL_ERR_CORRUPT;
    }
    *ret = record;
    return 0;
}
