/* What the record codecs share among themselves. */
#ifndef META_RECORDS_INT_H
#define META_RECORDS_INT_H

#include "meta/fields.h"
#include "meta/records.h"

void records_checksum_field(struct buf *out, uint64_t tag, const struct checksum *checksum);
bool records_checksum_decode(struct slice bytes, struct checksum *ret);
bool records_md5_decode(struct slice bytes, uint8_t ret[16]);

/* A field this version does not know: false if it must not be ignored. Optional ones are written
 * last and lie side by side, so one slice holds them all; a later one that does not follow directly
 * is refused. */
static inline bool records_keep_unknown(const struct field *field, struct slice *unknown) {
    if (field->tag < FIELDS_OPTIONAL_TAG) {
        return false;
    }
    if (unknown->data == NULL) {
        *unknown = field->whole;
        return true;
    }
    if (unknown->data + unknown->size != field->whole.data) {
        return false;
    }
    unknown->size += field->whole.size;
    return true;
}

#endif
