/* The bounded cursor and varints. Pure functions, any thread. */
#include "base/bytes.h"

size_t put_varint(uint8_t *p, uint64_t v) {
    size_t n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

struct slice reader_bytes(struct reader *r, size_t size) {
    if (r->failed || reader_left(r) < size) {
        r->failed = true;
        return SLICE_EMPTY;
    }
    struct slice s = slice_of(r->pos, size);
    r->pos += size;
    return s;
}

uint8_t reader_u8(struct reader *r) {
    struct slice s = reader_bytes(r, 1);
    return s.size == 0 ? 0 : s.data[0];
}

uint16_t reader_le16(struct reader *r) {
    struct slice s = reader_bytes(r, 2);
    return s.size == 0 ? 0 : get_le16(s.data);
}

uint32_t reader_le32(struct reader *r) {
    struct slice s = reader_bytes(r, 4);
    return s.size == 0 ? 0 : get_le32(s.data);
}

uint64_t reader_le64(struct reader *r) {
    struct slice s = reader_bytes(r, 8);
    return s.size == 0 ? 0 : get_le64(s.data);
}

uint64_t reader_be64(struct reader *r) {
    struct slice s = reader_bytes(r, 8);
    return s.size == 0 ? 0 : get_be64(s.data);
}

uint64_t reader_varint(struct reader *r) {
    if (!r->failed && r->pos < r->end && *r->pos < 0x80) { /* most are one byte */
        return *r->pos++;
    }
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = reader_u8(r);
        if (r->failed) {
            return 0;
        }
        if (shift == 63 && b > 1) {
            break;
        }
        v |= (uint64_t)(b & 0x7f) << shift;
        if ((b & 0x80) == 0) {
            if (b == 0 && shift != 0) {
                break; /* longer than needed: two encodings of one value are refused */
            }
            return v;
        }
    }
    r->failed = true;
    return 0;
}

struct slice reader_blob(struct reader *r) {
    uint64_t size = reader_varint(r);
    if (size > reader_left(r)) {
        r->failed = true;
        return SLICE_EMPTY;
    }
    return reader_bytes(r, (size_t)size);
}
