/* Verifying a record from its place: every span of the body, header and origin; and, where the
 * caller knows them, that they are these very bytes. Any thread; blocks on disk. */
#include "base/error.h"
#include "base/macros.h"
#include "data/data_int.h"

#define PIECE (256u << 10)

static int verify_body(struct volume_file *file, struct body_id id,
                       const struct volume_location *location, const struct slice *expected) {
    size_t piece = MIN((size_t)PIECE, (size_t)location->body_bytes);
    CLEANUP_FREE uint8_t *bytes = malloc(piece + 1);
    if (bytes == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint64_t off = 0;
    do {
        size_t n = MIN(piece, location->body_bytes - off);
        int err = volume_read(file, location, id, off, bytes, n, false);
        if (err != 0) {
            return err;
        }
        if (expected != NULL && n > 0 && memcmp(bytes, expected->data + off, n) != 0) {
            return -HL_ERR_CORRUPT;
        }
        off += n;
    } while (off < location->body_bytes);
    return 0;
}

static int verify_file(struct volume_file *file, struct body_id id, const struct data_place *place,
                       const struct volume_append *expected) {
    const struct volume_location *location = &place->location;
    if (expected != NULL && expected->body.size != location->body_bytes) {
        return -HL_ERR_CORRUPT;
    }
    struct volume_record record;
    struct buf origin CLEANUP_BUF = {0};
    int err = volume_read_origin(file, location, &record, &origin);
    if (err != 0) {
        return err;
    }
    if (!body_id_equal(record.id, id) || record.kind != place->kind) {
        return -HL_ERR_CORRUPT;
    }
    if (expected != NULL && (!slice_equal(record.origin_key, expected->record.origin_key) ||
                             !slice_equal(record.origin_value, expected->record.origin_value))) {
        return -HL_ERR_CORRUPT;
    }
    return verify_body(file, id, location, expected != NULL ? &expected->body : NULL);
}

int data_verify(struct data *data, struct body_id id, const struct data_place *place,
                const struct volume_append *expected) {
    struct volume_file *file = volume_pin(data->volumes, place->location.volume);
    if (file == NULL) {
        return -HL_ERR_CORRUPT;
    }
    int err = verify_file(file, id, place, expected);
    volume_unpin(file);
    return err;
}
