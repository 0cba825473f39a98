/* The growing buffer: doubles up to its limit; a failure sticks and later appends do nothing. One
 * byte more than the limit may be allocated, for the NUL that vsnprintf insists on. Belongs to one
 * thread at a time. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"

#define BUF_CAPACITY_MIN 64

void buf_done(struct buf *buf) {
    free(buf->data);
    *buf = (struct buf){.size_max = buf->size_max};
}

void buf_clear(struct buf *buf) {
    buf->size = 0;
    buf->failed = false;
}

bool buf_reserve(struct buf *buf, size_t more) {
    size_t limit = buf->size_max == 0 ? BUF_LIMIT_DEFAULT : buf->size_max;
    size_t needed;
    if (buf->failed || __builtin_add_overflow(buf->size, more, &needed) || needed > limit ||
        needed == SIZE_MAX) {
        buf->failed = true;
        return false;
    }
    if (needed < buf->capacity) {
        return true;
    }
    size_t doubled = MIN(buf->capacity * 2, limit);
    size_t capacity = MAX(MAX(needed, doubled), (size_t)BUF_CAPACITY_MIN) + 1;
    uint8_t *data = realloc(buf->data, capacity);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void buf_append(struct buf *buf, const void *data, size_t size) {
    if (size == 0 || !buf_reserve(buf, size)) {
        return;
    }
    memcpy(buf->data + buf->size, data, size);
    buf->size += size;
}

void buf_append_slice(struct buf *buf, struct slice s) {
    buf_append(buf, s.data, s.size);
}

void buf_append_str(struct buf *buf, const char *s) {
    buf_append(buf, s, strlen(s));
}

void buf_append_u8(struct buf *buf, uint8_t v) {
    buf_append(buf, &v, 1);
}

void buf_append_le32(struct buf *buf, uint32_t v) {
    uint8_t bytes[4];
    put_le32(bytes, v);
    buf_append(buf, bytes, sizeof(bytes));
}

void buf_append_le64(struct buf *buf, uint64_t v) {
    uint8_t bytes[8];
    put_le64(bytes, v);
    buf_append(buf, bytes, sizeof(bytes));
}

void buf_append_be64(struct buf *buf, uint64_t v) {
    uint8_t bytes[8];
    put_be64(bytes, v);
    buf_append(buf, bytes, sizeof(bytes));
}

void buf_append_varint(struct buf *buf, uint64_t v) {
    uint8_t bytes[VARINT_MAX];
    buf_append(buf, bytes, put_varint(bytes, v));
}

void buf_append_blob(struct buf *buf, struct slice s) {
    buf_append_varint(buf, s.size);
    buf_append_slice(buf, s);
}

void buf_printf(struct buf *buf, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size >= 0 && buf_reserve(buf, (size_t)size)) {
        vsnprintf((char *)buf->data + buf->size, (size_t)size + 1, format, again);
        buf->size += (size_t)size;
    }
    va_end(again);
}
