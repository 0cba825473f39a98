/* Write sessions: hash, keep small bodies in memory, cut large ones into blocks and make them
 * durable. Nothing is visible before the commit (commit.c). A body of at most inline_max bytes will
 * ride in the log entry; when the size is not known at the start, the session keeps that much in
 * memory and changes to blocks only when more comes.
 *
 * A session belongs to one thread at a time: a loop while inline, else a worker. */
#include "object/write_int.h"

/* ---- opening ---- */

static int check_upload(struct object_store *store, const struct object_write_args *args,
                        struct pool *pool, uint8_t *algorithm) {
    struct upload_record upload;
    int err = object_upload_get(store, args->bucket, args->key, args->upload_id, pool, &upload);
    if (err < 0) {
        return err;
    }
    if (*algorithm == CHECKSUM_NONE) {
        *algorithm = upload.checksum_given ? upload.checksum_algorithm : CHECKSUM_CRC64NVME;
    }
    return 0;
}

static int check_args(struct object_store *store, const struct object_write_args *args,
                      struct pool *pool, uint8_t *algorithm) {
    struct bucket_record bucket;
    if (args->key.size == 0) {
        return -HL_ERR_INVALID;
    }
    if (args->key.size > KEYS_OBJECT_KEY_MAX) {
        return -HL_ERR_KEY_TOO_LONG;
    }
    if (args->size != UINT64_MAX && args->size > OBJECT_WRITE_BYTES_MAX) {
        return -HL_ERR_TOO_LARGE;
    }
    int err = directory_bucket_by_id(store, args->bucket, pool, &bucket);
    if (err == 0 && args->kind == OBJECT_WRITE_PART) {
        CHECK(args->part_number >= 1 && args->part_number <= OBJECT_PART_NUMBER_MAX);
        err = check_upload(store, args, pool, algorithm);
    }
    /* What a write replaces may make room: only what can never fit is refused here, the commit
     * decides. */
    if (err == 0 && bucket.quota_bytes > 0 && args->size != UINT64_MAX &&
        args->size > bucket.quota_bytes) {
        err = -HL_ERR_QUOTA;
    }
    if (err == 0) {
        err = object_admit(store, args->size == UINT64_MAX ? store->inline_max : args->size);
    }
    return err;
}

int object_write_open(struct object_store *store, const struct object_write_args *args,
                      struct pool *pool, struct object_write **ret) {
    uint8_t algorithm = args->checksum_algorithm;
    int err = check_args(store, args, pool, &algorithm);
    if (err < 0) {
        return err;
    }
    struct object_write *write = POOL_NEW(pool, struct object_write);
    if (write == NULL) {
        return -HL_ERR_NOMEM;
    }
    write->store = store;
    write->pool = pool;
    write->args = *args;
    write->inline_body = args->size == UINT64_MAX || args->size <= store->inline_max;
    if (write->inline_body) {
        write->body_max = args->size == UINT64_MAX ? store->inline_max : (uint32_t)args->size;
    }
    object_digest_init(&write->digest, algorithm == CHECKSUM_NONE ? CHECKSUM_CRC64NVME : algorithm);
    *ret = write;
    return 0;
}

bool object_write_is_inline(const struct object_write *write) {
    return write->inline_body && write->args.size != UINT64_MAX;
}

/* ---- blocks ---- */

/* Ids for all blocks that may come. */
static void allocate_run(struct object_write *write) {
    uint64_t size = write->args.size == UINT64_MAX ? OBJECT_WRITE_BYTES_MAX : write->args.size;
    uint32_t block_bytes = write->store->block_bytes;
    write->run.block_bytes = block_bytes;
    write->run.first = data_allocate(write->store->data, (size + block_bytes - 1) / block_bytes);
}

static int next_block(struct object_write *write) {
    if (write->run.block_bytes == 0) {
        allocate_run(write);
    }
    uint64_t written = (uint64_t)write->run.block_count * write->run.block_bytes;
    uint64_t left = write->args.size == UINT64_MAX ? UINT64_MAX : write->args.size - written;
    write->block_room = (uint32_t)MIN(left, (uint64_t)write->run.block_bytes);
    return data_block_open(write->store->data,
                           body_id_nth(write->run.first, write->run.block_count), write->block_room,
                           &write->block);
}

static int finish_block(struct object_write *write) {
    CLEANUP_BUF struct buf origin = {0};
    keys_object(&origin, write->args.bucket, write->args.key);
    if (origin.failed) {
        return -HL_ERR_NOMEM;
    }
    uint64_t position = (uint64_t)write->run.block_count * write->run.block_bytes;
    int err = data_block_finish(TAKE_PTR(write->block), buf_slice(&origin), position);
    if (err < 0) {
        return err;
    }
    write->run.block_count++;
    return 0;
}

static int write_blocks(struct object_write *write, const uint8_t *data, size_t size) {
    while (size > 0) {
        int err = write->block == NULL ? next_block(write) : 0;
        if (err < 0) {
            return err;
        }
        size_t piece = MIN(size, (size_t)write->block_room);
        err = data_block_write(write->block, data, piece);
        if (err < 0) {
            return err;
        }
        write->block_room -= (uint32_t)piece;
        data += piece;
        size -= piece;
        if (write->block_room == 0) {
            err = finish_block(write);
            if (err < 0) {
                return err;
            }
        }
    }
    return 0;
}

/* More than fits into an entry: what was kept goes to blocks. */
static int spill(struct object_write *write) {
    write->inline_body = false;
    return write_blocks(write, write->body, write->body_size);
}

static int keep(struct object_write *write, const void *data, size_t size) {
    if (write->body == NULL) {
        write->body = pool_alloc(write->pool, write->body_max + 1u);
        if (write->body == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    memcpy(write->body + write->body_size, data, size);
    write->body_size += (uint32_t)size;
    return 0;
}

void object_write_md5_apart(struct object_write *write) {
    CHECK(write->size == 0);
    write->digest.md5_apart = true;
}

void object_write_md5_data(struct object_write *write, const void *data, size_t size) {
    hash_update(write->digest.md5, data, size);
}

int object_write_data(struct object_write *write, const void *data, size_t size) {
    CHECK(!write->finished);
    uint64_t total = write->size + size;
    if (total > OBJECT_WRITE_BYTES_MAX) {
        return -HL_ERR_LIMIT;
    }
    if (write->args.size != UINT64_MAX && total > write->args.size) {
        return -HL_ERR_INVALID;
    }
    if (size == 0) {
        return 0;
    }
    object_digest_update(&write->digest, data, size);
    write->size = total;
    if (write->inline_body && total <= write->body_max) {
        return keep(write, data, size);
    }
    int err = write->inline_body ? spill(write) : 0;
    return err < 0 ? err : write_blocks(write, data, size);
}

int object_write_finish(struct object_write *write) {
    CHECK(!write->finished);
    if (write->args.size != UINT64_MAX && write->size != write->args.size) {
        return -HL_ERR_INCOMPLETE_BODY;
    }
    object_digest_final(&write->digest, write->md5, &write->checksum);
    write->finished = true;
    if (write->inline_body) {
        return 0;
    }
    int err = write->block != NULL ? finish_block(write) : 0;
    if (err == 0) {
        FAILPOINT("object.write.unsynced");
        err = data_sync(write->store->data, write->run.first, write->run.block_count);
    }
    if (err < 0) {
        return err;
    }
    write->run.size = write->size;
    FAILPOINT("object.write.finished");
    return 0;
}

const uint8_t *object_write_md5(const struct object_write *write) {
    return write->md5;
}

const struct checksum *object_write_checksum(const struct object_write *write) {
    return &write->checksum;
}

uint64_t object_write_size(const struct object_write *write) {
    return write->size;
}

void object_write_done(struct object_write *write) {
    object_digest_done(&write->digest);
}

void object_write_abort(struct object_write *write) {
    if (write == NULL) {
        return;
    }
    if (write->block != NULL) {
        data_block_abort(TAKE_PTR(write->block));
    }
    if (write->run.block_count > 0) {
        data_discard(write->store->data, write->run.first, write->run.block_count);
    }
    object_write_done(write);
}
