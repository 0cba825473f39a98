/* Row keys: builders and the two parsers that listings need. Pure functions, any thread. The layout
 * is drawn in keys_format.h; nothing outside this file concatenates row keys by hand. */
#include "meta/keys_format.h"

#include "base/bytes.h"

static void table_u64(struct buf *out, enum keys_table table, uint64_t n) {
    buf_append_u8(out, (uint8_t)table);
    buf_append_be64(out, n);
}

static void append_escaped(struct buf *out, struct slice key) {
    size_t from = 0;
    while (from < key.size) {
        size_t zero = slice_find(key, 0, from);
        buf_append(out, key.data + from, zero - from);
        if (zero == key.size) {
            break;
        }
        buf_append(out, "\x00\xff", 2);
        from = zero + 1;
    }
    buf_append(out, "\x00\x01", 2);
}

void keys_system(struct buf *out, const char *name) {
    buf_append_u8(out, KEYS_SYSTEM);
    buf_append_str(out, name);
}

void keys_bucket(struct buf *out, uint64_t bucket) {
    table_u64(out, KEYS_BUCKET, bucket);
}

void keys_alias(struct buf *out, struct slice name) {
    buf_append_u8(out, KEYS_ALIAS);
    buf_append_slice(out, name);
}

void keys_local_alias(struct buf *out, struct slice key_id, struct slice name) {
    buf_append_u8(out, KEYS_LOCAL_ALIAS);
    buf_append_slice(out, key_id);
    buf_append_u8(out, 0);
    buf_append_slice(out, name);
}

void keys_access_key(struct buf *out, struct slice key_id) {
    buf_append_u8(out, KEYS_ACCESS_KEY);
    buf_append_slice(out, key_id);
}

void keys_permission(struct buf *out, uint64_t bucket, struct slice key_id) {
    table_u64(out, KEYS_PERMISSION, bucket);
    buf_append_slice(out, key_id);
}

void keys_object(struct buf *out, uint64_t bucket, struct slice key) {
    table_u64(out, KEYS_OBJECT, bucket);
    buf_append_slice(out, key);
}

void keys_upload_bucket(struct buf *out, uint64_t bucket) {
    table_u64(out, KEYS_UPLOAD, bucket);
}

void keys_upload(struct buf *out, uint64_t bucket, struct slice key, const uint8_t *upload_id) {
    keys_upload_bucket(out, bucket);
    append_escaped(out, key);
    if (upload_id != NULL) {
        buf_append(out, upload_id, 16);
    }
}

void keys_part(struct buf *out, const uint8_t *upload_id, uint16_t part) {
    uint8_t number[2];
    put_be16(number, part);
    buf_append_u8(out, KEYS_PART);
    buf_append(out, upload_id, 16);
    buf_append(out, number, sizeof(number));
}

void keys_counter(struct buf *out, uint64_t bucket, enum keys_counter counter) {
    table_u64(out, KEYS_COUNTER, bucket);
    buf_append_u8(out, (uint8_t)counter);
}

void keys_references(struct buf *out, struct body_id first) {
    table_u64(out, KEYS_REFERENCES, first.high);
    buf_append_be64(out, first.low);
}

void keys_completed(struct buf *out, const uint8_t *upload_id) {
    buf_append_u8(out, KEYS_COMPLETED);
    buf_append(out, upload_id, 16);
}

void keys_prefix_end(struct buf *out, struct slice prefix) {
    size_t size = prefix.size;
    while (size > 0 && prefix.data[size - 1] == 0xff) {
        size--;
    }
    if (size == 0) {
        return;
    }
    buf_append(out, prefix.data, size - 1);
    buf_append_u8(out, (uint8_t)(prefix.data[size - 1] + 1));
}

/* Undoes append_escaped; the reader stands behind the end mark afterwards. */
static bool read_escaped(struct reader *r, struct buf *out) {
    for (;;) {
        uint8_t byte = reader_u8(r);
        if (r->failed) {
            return false;
        }
        if (byte != 0) {
            buf_append_u8(out, byte);
            continue;
        }
        uint8_t mark = reader_u8(r);
        if (mark == 0x01 && !r->failed) {
            return !out->failed;
        }
        if (mark != 0xff) {
            return false;
        }
        buf_append_u8(out, 0);
    }
}

bool keys_parse_upload(struct slice row_key, uint64_t *ret_bucket, struct buf *out_key,
                       const uint8_t **ret_upload_id) {
    struct reader r = reader_of(row_key);
    if (reader_u8(&r) != KEYS_UPLOAD) {
        return false;
    }
    uint64_t bucket = reader_be64(&r);
    if (!read_escaped(&r, out_key) || reader_left(&r) != 16) {
        return false;
    }
    *ret_bucket = bucket;
    *ret_upload_id = r.pos;
    return true;
}

bool keys_parse_object(struct slice row_key, uint64_t *ret_bucket, struct slice *ret_key) {
    struct reader r = reader_of(row_key);
    if (reader_u8(&r) != KEYS_OBJECT) {
        return false;
    }
    uint64_t bucket = reader_be64(&r);
    if (r.failed) {
        return false;
    }
    *ret_bucket = bucket;
    *ret_key = slice_of(r.pos, reader_left(&r));
    return true;
}
