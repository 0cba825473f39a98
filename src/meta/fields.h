/* The wire form of records: a version byte, then fields. A field is a varint (tag << 1 | form) and,
 * for form 0, a varint value, for form 1, a varint length and bytes. Tags below 128 change the
 * meaning of a record: a reader that does not know one refuses the record. From 128 on they may be
 * ignored and are carried along. */
#ifndef META_FIELDS_H
#define META_FIELDS_H

#include "base/buf.h"
#include "base/bytes.h"

#define FIELDS_VERSION      1
#define FIELDS_OPTIONAL_TAG 128

static inline void fields_begin(struct buf *out) {
    buf_append_u8(out, FIELDS_VERSION);
}
static inline void fields_number(struct buf *out, uint64_t tag, uint64_t value) {
    buf_append_varint(out, tag << 1);
    buf_append_varint(out, value);
}
static inline void fields_bytes(struct buf *out, uint64_t tag, struct slice value) {
    buf_append_varint(out, tag << 1 | 1);
    buf_append_blob(out, value);
}
/* Defaults are not written: 0, and bytes that were never given (data NULL). */
static inline void fields_number_if(struct buf *out, uint64_t tag, uint64_t value) {
    if (value != 0) {
        fields_number(out, tag, value);
    }
}
static inline void fields_bytes_if(struct buf *out, uint64_t tag, struct slice value) {
    if (value.data != NULL) {
        fields_bytes(out, tag, value);
    }
}

struct field {
    uint64_t tag;
    bool is_bytes;
    uint64_t number;
    struct slice bytes;
    struct slice whole; /* tag and value as found */
};

/* Checks the version byte. */
static inline struct reader fields_open(struct slice value) {
    struct reader r = reader_of(value);
    if (reader_u8(&r) != FIELDS_VERSION) {
        r.failed = true;
    }
    return r;
}
/* The next field; false at the end or when malformed (then r->failed). */
bool fields_next(struct reader *r, struct field *ret);

#endif
