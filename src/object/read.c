/* Reading objects. A read takes its pin before it reads the row, so every body that the row names
 * stays readable until object_read_done, whatever happens to the object meanwhile: a reader sees
 * one whole version. The body read last stays open between calls.
 *
 * One read belongs to one thread at a time: a loop with nowait, else a worker. */
#include "object/object_int.h"

struct object_read {
    struct object_store *store;
    uint64_t bucket;
    struct slice key;
    struct data_pin pin;
    struct object_record record;
    uint64_t off, end; /* what is left of the range */
    uint32_t part;     /* the part that holds off, or a guess before it */
    uint64_t part_off; /* where that part starts in the object */
    struct data_body body;
    bool body_open;
};

/* A stretch of the object that lies in one body. */
struct extent {
    struct body_id id;
    uint64_t off;  /* in the body */
    uint64_t size; /* from there on */
};

static int load(struct object_read *read, struct pool *pool) {
    CLEANUP_BUF struct buf row_key = {0};
    keys_object(&row_key, read->bucket, read->key);
    if (row_key.failed) {
        return -HL_ERR_NOMEM;
    }
    int err = object_row_load(read->store, buf_slice(&row_key), pool, &read->record);
    return err == -HL_ERR_NOT_FOUND ? -HL_ERR_NO_SUCH_KEY : err;
}

static int open_body(struct object_read *read, struct body_id id) {
    if (read->body_open && body_id_equal(read->body.id, id)) {
        return 0;
    }
    if (read->body_open) {
        data_body_done(&read->body);
        read->body_open = false;
    }
    int err = data_body_open(read->store->data, id, &read->body);
    if (err < 0) {
        return err;
    }
    read->body_open = true;
    return 0;
}

/* Where the bytes at read->off lie; off is before the end of the object. */
static struct extent locate(struct object_read *read) {
    const struct object_record *record = &read->record;
    if (record->part_count == 0) {
        return (struct extent){record->head, read->off, record->size - read->off};
    }
    if (read->off < read->part_off) {
        read->part = 0;
        read->part_off = 0;
    }
    while (read->off - read->part_off >= record->parts[read->part].size) {
        read->part_off += record->parts[read->part].size;
        read->part++;
        CHECK(read->part < record->part_count); /* the decoder checked the sum of the sizes */
    }
    const struct object_part *part = &record->parts[read->part];
    uint64_t in_part = read->off - read->part_off;
    if (part->run.block_count == 0) {
        return (struct extent){part->inline_id, in_part, part->size - in_part};
    }
    uint64_t in_run = in_part + part->run.skip;
    uint64_t block = in_run / part->run.block_bytes;
    uint64_t in_block = in_run % part->run.block_bytes;
    return (struct extent){body_id_nth(part->run.first, block), in_block,
                           MIN(part->run.block_bytes - in_block, part->size - in_part)};
}

int object_read_open(struct object_store *store, uint64_t bucket, struct slice key,
                     struct pool *pool, struct object_read **ret) {
    struct object_read *read = POOL_NEW(pool, struct object_read);
    if (read == NULL) {
        return -HL_ERR_NOMEM;
    }
    read->store = store;
    read->bucket = bucket;
    read->key = key;
    data_pin(store->data, &read->pin);
    int err = load(read, pool);
    if (err == 0 && read->record.size > 0) {
        err = open_body(read, locate(read).id);
        if (err == -HL_ERR_NOT_FOUND) {
            /* The row may be older than the pin after all; a second look cannot be. */
            err = load(read, pool);
            if (err == 0 && read->record.size > 0) {
                err = open_body(read, locate(read).id);
            }
            if (err == -HL_ERR_NOT_FOUND) {
                char name[OBJECT_BUCKET_TEXT];
                object_bucket_text(store, bucket, name);
                LOG_ERROR("object", "bucket %s, key \"%.*s\": its data is missing", name,
                          SLICE_PRINT(key));
                err = -HL_ERR_CORRUPT;
            }
        }
    }
    if (err < 0) {
        object_read_done(read);
        return err;
    }
    read->end = read->record.size;
    *ret = read;
    return 0;
}

const struct object_record *object_read_record(const struct object_read *read) {
    return &read->record;
}

void object_read_range(struct object_read *read, uint64_t off, uint64_t size) {
    read->off = MIN(off, read->record.size);
    read->end = read->off + MIN(size, read->record.size - read->off);
}

int object_read_next(struct object_read *read, void *data, size_t size_max, bool nowait,
                     size_t *ret_size) {
    if (read->off == read->end || size_max == 0) {
        *ret_size = 0;
        return 0;
    }
    struct extent extent = locate(read);
    uint64_t size = MIN(MIN(extent.size, read->end - read->off), size_max);
    int err = open_body(read, extent.id);
    if (err == 0) {
        err = data_body_read(read->store->data, &read->body, extent.off, data, size, nowait);
    }
    if (err == -HL_ERR_AGAIN) {
        return err;
    }
    if (err < 0) {
        char name[OBJECT_BUCKET_TEXT];
        object_bucket_text(read->store, read->bucket, name);
        LOG_ERROR("object", "bucket %s, key \"%.*s\": cannot read at byte %llu: %s", name,
                  SLICE_PRINT(read->key), (unsigned long long)read->off, error_text(err));
        return err == -HL_ERR_NOT_FOUND ? -HL_ERR_CORRUPT : err;
    }
    read->off += size;
    *ret_size = size;
    return 0;
}

void object_read_done(struct object_read *read) {
    if (read == NULL) {
        return;
    }
    if (read->body_open) {
        data_body_done(&read->body);
        read->body_open = false;
    }
    data_unpin(read->store->data, &read->pin);
}

#define DIGEST_BYTES (128u << 10)

int object_read_digest(struct object_read *read, struct object_digest *digest, uint8_t *body) {
    CLEANUP_FREE uint8_t *bytes = body == NULL ? malloc(DIGEST_BYTES) : NULL;
    if (body == NULL && bytes == NULL) {
        return -HL_ERR_NOMEM;
    }
    size_t filled = 0;
    for (;;) {
        uint8_t *to = body == NULL ? bytes : body + filled;
        size_t got;
        int err = object_read_next(read, to, DIGEST_BYTES, false, &got);
        if (err < 0 || got == 0) {
            return err;
        }
        object_digest_update(digest, to, got);
        filled += got;
    }
}
