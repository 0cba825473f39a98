/* Reading the fields of a record; see fields.h. Pure. */
#include "meta/fields.h"

bool fields_next(struct reader *r, struct field *ret) {
    if (r->failed || reader_left(r) == 0) {
        return false;
    }
    const uint8_t *start = r->pos;
    uint64_t head = reader_varint(r);
    struct field field = {.tag = head >> 1, .is_bytes = (head & 1) != 0};
    if (field.is_bytes) {
        field.bytes = reader_blob(r);
        if (field.bytes.data == NULL) {
            field.bytes.data = r->pos; /* an empty value that was given is not NULL */
        }
    } else {
        field.number = reader_varint(r);
    }
    if (r->failed) {
        return false;
    }
    field.whole = slice_of(start, (size_t)(r->pos - start));
    *ret = field;
    return true;
}
