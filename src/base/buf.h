/* A growing byte buffer with a limit. Appending past the limit or out of memory sets failed; the
 * bytes so far stay. A caller may append many times and check failed once. Zero-initialised is
 * valid (limit BUF_LIMIT_DEFAULT). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/macros.h"
#include "base/slice.h"

#define BUF_LIMIT_DEFAULT (64u << 20)

struct buf {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t size_max; /* 0: BUF_LIMIT_DEFAULT */
    bool failed;
};

void buf_done(struct buf *buf);  /* frees and zeroes */
void buf_clear(struct buf *buf); /* size 0, failed false, keeps the memory */
bool buf_reserve(struct buf *buf, size_t more);
void buf_append(struct buf *buf, const void *data, size_t size);
void buf_append_slice(struct buf *buf, struct slice s);
void buf_append_str(struct buf *buf, const char *s);
void buf_append_u8(struct buf *buf, uint8_t v);
void buf_append_le32(struct buf *buf, uint32_t v);
void buf_append_le64(struct buf *buf, uint64_t v);
void buf_append_be64(struct buf *buf, uint64_t v);
void buf_append_varint(struct buf *buf, uint64_t v);
void buf_append_blob(struct buf *buf, struct slice s); /* varint length, bytes */
void buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

static inline struct slice buf_slice(const struct buf *buf) {
    return slice_of(buf->data, buf->size);
}
#define CLEANUP_BUF CLEANUP(buf_done)

#endif
