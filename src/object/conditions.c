/* Conditions of reads and writes, decided on a record. Pure functions; atomicity is the caller's
 * business (inside a transaction for writes). Times compare as whole seconds, because that is what
 * HTTP dates carry. */
#include <stdio.h>

#include "base/text.h"
#include "object/object_int.h"

void object_etag_text(const struct etag *etag, char ret[OBJECT_ETAG_SIZE]) {
    hex_encode(etag->md5, sizeof(etag->md5), ret);
    if (etag->parts > 0) {
        snprintf(ret + 32, OBJECT_ETAG_SIZE - 32, "-%u", etag->parts);
    }
}

static bool etag_listed(const struct object_etags *etags, const struct object_record *record) {
    if (etags->any) {
        return true;
    }
    char text[OBJECT_ETAG_SIZE];
    object_etag_text(&record->etag, text);
    for (uint32_t i = 0; i < etags->tag_count; i++) {
        if (slice_equal_nocase(etags->tags[i], slice_str(text))) {
            return true;
        }
    }
    return false;
}

static int64_t seconds(int64_t ms) {
    return ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
}

/* RFC 9110 section 13.2.2: a given tag list silences the date of the same direction. */
int object_conditions_read(const struct object_conditions *c, const struct object_record *record) {
    if (c == NULL) {
        return 0;
    }
    int64_t modified = seconds(record->modified_ms);
    if (c->match.given) {
        if (!etag_listed(&c->match, record)) {
            return -HL_ERR_PRECONDITION;
        }
    } else if (c->unmodified_since_given && modified > seconds(c->unmodified_since_ms)) {
        return -HL_ERR_PRECONDITION;
    }
    if (c->none_match.given) {
        if (etag_listed(&c->none_match, record)) {
            return -HL_ERR_NOT_MODIFIED;
        }
    } else if (c->modified_since_given && modified <= seconds(c->modified_since_ms)) {
        return -HL_ERR_NOT_MODIFIED;
    }
    return 0;
}

int object_conditions_write(const struct object_conditions *c, const struct object_record *record) {
    if (c == NULL) {
        return 0;
    }
    if (record == NULL) {
        return c->match.given ? -HL_ERR_NO_SUCH_KEY : 0;
    }
    int64_t modified = seconds(record->modified_ms);
    bool holds = !(c->match.given && !etag_listed(&c->match, record)) &&
                 !(c->none_match.given && etag_listed(&c->none_match, record)) &&
                 !(c->unmodified_since_given && modified > seconds(c->unmodified_since_ms)) &&
                 !(c->size_given && c->size != record->size) &&
                 !(c->last_modified_given && seconds(c->last_modified_ms) != modified);
    return holds ? 0 : -HL_ERR_PRECONDITION;
}
