/* Fixed-width integers in memory (little-endian for formats, big-endian for ordered keys) and a
 * cursor that reads them with bounds. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/slice.h"

static inline void put_le16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void put_le32(uint8_t *p, uint32_t v) {
    put_le16(p, (uint16_t)v);
    put_le16(p + 2, (uint16_t)(v >> 16));
}
static inline void put_le64(uint8_t *p, uint64_t v) {
    put_le32(p, (uint32_t)v);
    put_le32(p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t get_le16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t get_le32(const uint8_t *p) {
    return (uint32_t)get_le16(p) | (uint32_t)get_le16(p + 2) << 16;
}
static inline uint64_t get_le64(const uint8_t *p) {
    return (uint64_t)get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}
static inline void put_be16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}
static inline void put_be32(uint8_t *p, uint32_t v) {
    put_be16(p, (uint16_t)(v >> 16));
    put_be16(p + 2, (uint16_t)v);
}
static inline void put_be64(uint8_t *p, uint64_t v) {
    put_be32(p, (uint32_t)(v >> 32));
    put_be32(p + 4, (uint32_t)v);
}
static inline uint16_t get_be16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t get_be32(const uint8_t *p) {
    return (uint32_t)get_be16(p) << 16 | get_be16(p + 2);
}
static inline uint64_t get_be64(const uint8_t *p) {
    return (uint64_t)get_be32(p) << 32 | get_be32(p + 4);
}

/* Writes v as LEB128 (7 bits a byte, low first); returns the count of bytes, at most VARINT_MAX. */
#define VARINT_MAX 10
size_t put_varint(uint8_t *p, uint64_t v);

/* A cursor over bytes from disk or wire. Reading past the end sets failed and yields zeros, so a
 * caller may read a whole structure and check failed once. */
struct reader {
    const uint8_t *pos;
    const uint8_t *end;
    bool failed;
};

static inline struct reader reader_of(struct slice s) {
    return (struct reader){s.data, s.data + s.size, false};
}
static inline size_t reader_left(const struct reader *r) {
    return (size_t)(r->end - r->pos);
}
uint8_t reader_u8(struct reader *r);
uint16_t reader_le16(struct reader *r);
uint32_t reader_le32(struct reader *r);
uint64_t reader_le64(struct reader *r);
uint64_t reader_be64(struct reader *r);
/* Refuses encodings longer than needed or above 64 bits. */
uint64_t reader_varint(struct reader *r);
/* Borrows size bytes of the input. */
struct slice reader_bytes(struct reader *r, size_t size);
/* A varint length and that many bytes. */
struct slice reader_blob(struct reader *r);

#endif
