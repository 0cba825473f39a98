/* UploadPartCopy. When the range is exactly one run of the source, the part shares it by reference;
 * otherwise the bytes go through a write session like those of any upload. Runs are shared whole or
 * not at all, because names are counted for a run, not for its blocks. On a worker. */
#include "object/object_int.h"

#define RESTART_MAX 16
#define COPY_BYTES  (256u << 10)

struct part_copy_op {
    struct object_op op;
    struct object_part_copy_args args;
    struct object_part_place place;
    struct pool *scratch;
    struct object_read *read;
    struct object_record source;
    struct upload_record upload;
    uint64_t off, size;      /* the range */
    struct part_record part; /* by reference */
    bool changed;
    uint32_t restarts;
};

static void part_copy_start(struct task *task);

static void part_copy_end(struct part_copy_op *c, int err) {
    object_read_done(TAKE_PTR(c->read));
    pool_free(TAKE_PTR(c->scratch));
    object_op_end(&c->op, err);
}

static int choose_range(struct part_copy_op *c) {
    c->off = 0;
    c->size = c->source.size;
    if (c->args.range_given) {
        if (c->args.range_first > c->args.range_last) {
            return -HL_ERR_INVALID;
        }
        if (c->args.range_last >= c->source.size) {
            return -HL_ERR_RANGE;
        }
        c->off = c->args.range_first;
        c->size = c->args.range_last - c->args.range_first + 1;
    }
    return c->size > OBJECT_WRITE_BYTES_MAX ? -HL_ERR_INVALID_REQUEST : 0;
}

/* ---- by reference ---- */

/* The part of the source that is exactly the range, or NULL. */
static const struct object_part *matching_part(const struct part_copy_op *c) {
    uint64_t off = 0;
    for (uint32_t i = 0; i < c->source.part_count && off <= c->off; i++) {
        const struct object_part *part = &c->source.parts[i];
        if (off == c->off && part->size == c->size && part->size > 0) {
            return part->run.block_count > 0 ? part : NULL;
        }
        off += part->size;
    }
    return NULL;
}

/* What is known of the range without reading it. */
static bool known_digest(const struct part_copy_op *c, const struct object_part *part,
                         uint8_t algorithm, uint8_t ret_md5[16], struct checksum *ret_checksum) {
    bool whole = !c->source.multipart && c->source.part_count == 1;
    const struct checksum *checksum = whole ? &c->source.checksum : &part->checksum;
    if (!whole && !c->source.multipart) {
        return false; /* a copy of a multipart object: its parts' numbers are gone */
    }
    if (checksum->size == 0 || checksum->algorithm != algorithm ||
        checksum->type != CHECKSUM_FULL_OBJECT) {
        return false;
    }
    memcpy(ret_md5, whole ? c->source.etag.md5 : part->md5, 16);
    *ret_checksum = *checksum;
    return true;
}

static int describe(struct part_copy_op *c, const struct object_part *part) {
    uint8_t algorithm =
        c->upload.checksum_given ? c->upload.checksum_algorithm : CHECKSUM_CRC64NVME;
    c->part = (struct part_record){
        .part = {.number = c->args.part_number, .size = part->size, .run = part->run}};
    if (known_digest(c, part, algorithm, c->part.part.md5, &c->part.part.checksum)) {
        return 0;
    }
    struct object_digest digest;
    object_digest_init(&digest, algorithm);
    object_read_range(c->read, c->off, c->size);
    int err = object_read_digest(c->read, &digest, NULL);
    if (err == 0) {
        object_digest_final(&digest, c->part.part.md5, &c->part.part.checksum);
    }
    object_digest_done(&digest);
    return err;
}

static int check_unchanged(struct part_copy_op *c) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    struct object_record now;
    keys_object(&row_key, c->args.source_bucket, c->args.source_key);
    int err =
        row_key.failed ? -HL_ERR_NOMEM : meta_get(c->op.store->meta, buf_slice(&row_key), &value);
    if (err == 0) {
        err = object_record_peek(value.data, &now);
    }
    if (err == -HL_ERR_NOT_FOUND || (err == 0 && now.sequence != c->source.sequence)) {
        c->changed = true;
        return -HL_ERR_AGAIN;
    }
    return err;
}

static int part_copy_txn(struct object_op *op, struct meta_txn *txn) {
    struct part_copy_op *c = CONTAINER_OF(op, struct part_copy_op, op);
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_BUF struct buf value = {0};
    struct object_units units = {0};
    int err = check_unchanged(c);
    if (err == 0) {
        err = object_part_replace(op, txn, &c->place, c->size);
    }
    if (err == 0) {
        err = object_units_add_part(&units, meta_txn_pool(txn), &c->part.part);
    }
    if (err < 0) {
        return err;
    }
    c->part.modified_ms = os_wall_ms(op->store->env->clock);
    keys_part(&row_key, c->place.upload_id, c->place.number);
    part_record_encode(&value, &c->part);
    if (row_key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    object_units_share(txn, &units);
    meta_txn_put(txn, buf_slice(&row_key), buf_slice(&value));
    op->result = (struct object_result){
        .size = c->size, .modified_ms = c->part.modified_ms, .checksum = c->part.part.checksum};
    memcpy(op->result.etag.md5, c->part.part.md5, 16);
    op->has_result = true;
    FAILPOINT("object.copy.part_txn");
    return 0;
}

static void part_copy_finished(struct object_op *op, int err) {
    struct part_copy_op *c = CONTAINER_OF(op, struct part_copy_op, op);
    if (err < 0 && c->changed && c->restarts++ < RESTART_MAX) {
        object_op_post(op, part_copy_start);
        return;
    }
    part_copy_end(c, err < 0 && c->changed ? -HL_ERR_CONDITIONAL_CONFLICT : err);
}

/* ---- by bytes ---- */

static void bytes_committed(void *arg, int err, const struct object_result *result) {
    struct part_copy_op *c = arg;
    if (err == 0) {
        c->op.result = *result;
        c->op.has_result = true;
    }
    part_copy_end(c, err);
}

static int feed(struct part_copy_op *c, struct object_write *write) {
    CLEANUP_FREE uint8_t *bytes = malloc(COPY_BYTES);
    if (bytes == NULL) {
        return -HL_ERR_NOMEM;
    }
    object_read_range(c->read, c->off, c->size);
    for (;;) {
        size_t got;
        int err = object_read_next(c->read, bytes, COPY_BYTES, false, &got);
        if (err < 0) {
            return err;
        }
        if (got == 0) {
            return object_write_finish(write);
        }
        err = object_write_data(write, bytes, got);
        if (err < 0) {
            return err;
        }
    }
}

static void copy_bytes(struct part_copy_op *c) {
    struct object_write_args args = {
        .kind = OBJECT_WRITE_PART,
        .bucket = c->args.bucket,
        .key = c->args.key,
        .part_number = c->args.part_number,
        .size = c->size,
    };
    memcpy(args.upload_id, c->args.upload_id, sizeof(args.upload_id));
    struct object_write *write;
    int err = object_write_open(c->op.store, &args, c->scratch, &write);
    if (err < 0) {
        part_copy_end(c, err);
        return;
    }
    err = feed(c, write);
    if (err < 0) {
        object_write_abort(write);
        part_copy_end(c, err);
        return;
    }
    object_write_commit(write, &(struct object_commit_args){0}, c->op.store->workers,
                        bytes_committed, c);
}

/* ---- both ---- */

static int open_source(struct part_copy_op *c) {
    struct object_store *store = c->op.store;
    int err = object_upload_get(store, c->args.bucket, c->args.key, c->args.upload_id, c->scratch,
                                &c->upload);
    if (err == 0) {
        err = object_read_open(store, c->args.source_bucket, c->args.source_key, c->scratch,
                               &c->read);
    }
    if (err < 0) {
        return err;
    }
    c->source = *object_read_record(c->read);
    if (object_conditions_read(c->args.source_conditions, &c->source) < 0) {
        return -HL_ERR_PRECONDITION;
    }
    err = choose_range(c);
    return err < 0 ? err : object_admit(store, 0); /* copied bytes ask for themselves */
}

static void part_copy_start(struct task *task) {
    struct object_op *op = CONTAINER_OF(task, struct object_op, task);
    struct part_copy_op *c = CONTAINER_OF(op, struct part_copy_op, op);
    object_read_done(TAKE_PTR(c->read));
    pool_free(TAKE_PTR(c->scratch));
    c->changed = false;
    c->scratch = pool_new(0);
    if (c->scratch == NULL) {
        part_copy_end(c, -HL_ERR_NOMEM);
        return;
    }
    pool_set_limit(c->scratch, OBJECT_POOL_BYTES_MAX);
    int err = open_source(c);
    const struct object_part *part = err == 0 ? matching_part(c) : NULL;
    if (err == 0 && part != NULL) {
        err = describe(c, part);
    }
    if (err < 0) {
        part_copy_end(c, err);
    } else if (part == NULL) {
        copy_bytes(c);
    } else {
        object_op_latch_object(op, c->args.source_bucket, c->args.source_key, META_SHARED);
        object_op_run(op);
    }
}

void object_part_copy(struct object_store *store, const struct object_part_copy_args *args,
                      struct pool *pool, struct executor *home, object_done_fn done, void *arg) {
    struct part_copy_op *c = POOL_NEW(pool, struct part_copy_op);
    CHECK(c != NULL); /* without it no refusal could be delivered either */
    CHECK(args->part_number >= 1 && args->part_number <= OBJECT_PART_NUMBER_MAX);
    object_op_init(&c->op, store, pool, home, done, arg);
    c->args = *args;
    c->place =
        (struct object_part_place){args->bucket, args->key, c->args.upload_id, args->part_number};
    c->op.fn = part_copy_txn;
    c->op.finished = part_copy_finished;
    c->op.on_worker = true;
    object_part_latch(&c->op, &c->place);
    object_op_post(&c->op, part_copy_start);
}
