/* CopyObject. Large bodies are shared by reference, small ones are copied, and a copy onto itself
 * (which replaces metadata) only moves the names of its bodies. The content is read where S3 wants
 * a number that nobody knows yet: the MD5 of an object that was uploaded in parts, or another
 * checksum.
 *
 * First the source is read on a worker under a pin; then a transaction checks that the source is
 * still that version (its row's latch keeps it) and names the copy. If it changed, everything
 * starts again. */
#include "object/object_int.h"

#define RESTART_MAX 16

struct copy_op {
    struct object_op op;
    struct object_copy_args args;
    struct pool *scratch; /* of one attempt */
    struct object_record source;
    struct object_record copy; /* without sequence, time and head */
    struct object_units units; /* shared by reference */
    uint8_t *body;             /* when the copy is small */
    bool self;
    bool changed; /* the source is another version by now */
    uint32_t restarts;
};

/* ---- preparing ---- */

static bool digest_needed(const struct copy_op *c, uint8_t algorithm) {
    const struct checksum *checksum = &c->source.checksum;
    return c->source.multipart || checksum->size == 0 || checksum->algorithm != algorithm ||
           checksum->type != CHECKSUM_FULL_OBJECT;
}

/* The copy's parts: the same runs, without what belonged to the upload. */
static int copy_parts(struct copy_op *c) {
    struct object_part *parts = pool_alloc(c->scratch, c->source.part_count * sizeof(*parts));
    if (parts == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < c->source.part_count; i++) {
        parts[i] = (struct object_part){.size = c->source.parts[i].size,
                                        .run = c->source.parts[i].run,
                                        .inline_id = c->source.parts[i].inline_id};
    }
    c->copy.parts = parts;
    c->copy.part_count = c->source.part_count;
    c->units = (struct object_units){0};
    return object_units_add_record(&c->units, c->scratch, &c->source);
}

/* Reads what must be read: a small body, or everything for a digest. */
static int read_source(struct copy_op *c, struct object_read *read) {
    uint8_t algorithm = c->args.checksum_algorithm;
    if (algorithm == CHECKSUM_NONE) {
        algorithm = c->source.checksum.size > 0 ? c->source.checksum.algorithm : CHECKSUM_CRC64NVME;
    }
    bool small = c->source.size <= c->op.store->inline_max;
    if (small) {
        c->body = pool_alloc(c->scratch, c->source.size + 1);
        if (c->body == NULL) {
            return -HL_ERR_NOMEM;
        }
    }
    c->copy.etag = c->source.etag;
    c->copy.checksum = c->source.checksum;
    if (!small && !digest_needed(c, algorithm)) {
        return 0;
    }
    struct object_digest digest;
    struct etag etag = {0};
    struct checksum checksum;
    object_digest_init(&digest, algorithm);
    int err = object_read_digest(read, &digest, c->body);
    if (err == 0) {
        object_digest_final(&digest, etag.md5, &checksum);
        c->copy.etag = etag;
        c->copy.checksum = checksum;
    }
    object_digest_done(&digest);
    return err;
}

static int check_source(struct copy_op *c) {
    int err = object_conditions_read(c->args.source_conditions, &c->source);
    if (err < 0) {
        return -HL_ERR_PRECONDITION; /* also where a GET would say "not modified" */
    }
    if (c->source.size > OBJECT_WRITE_BYTES_MAX) {
        return -HL_ERR_INVALID_REQUEST;
    }
    return 0;
}

static int prepare(struct copy_op *c) {
    struct object_read *read;
    int err =
        object_read_open(c->op.store, c->args.source_bucket, c->args.source_key, c->scratch, &read);
    if (err < 0) {
        return err;
    }
    c->source = *object_read_record(read);
    c->copy = (struct object_record){
        .size = c->source.size,
        .headers = c->args.replace_metadata ? c->args.headers : c->source.headers,
        .owner = c->args.owner,
    };
    c->body = NULL;
    err = check_source(c);
    if (err == 0) {
        err = read_source(c, read);
    }
    if (err == 0 && c->body == NULL) {
        err = copy_parts(c);
    }
    object_read_done(read);
    return err;
}

/* ---- the transaction ---- */

/* The source row is the version that was read. */
static int check_unchanged(struct copy_op *c) {
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

/* Bodies that the copy names and those that the version it replaces no longer does. */
static int move_names(struct copy_op *c, struct meta_txn *txn,
                      const struct object_current *current) {
    if (c->body == NULL && c->self) {
        meta_txn_free_head(txn, current->record.head); /* the runs stay named by this row */
        return 0;
    }
    if (c->body == NULL) {
        object_units_share(txn, &c->units);
    }
    return current->found ? object_record_release(&c->op, txn, &current->record) : 0;
}

static int put_copy(struct copy_op *c, struct meta_txn *txn) {
    struct object_record record = c->copy;
    record.sequence = meta_txn_sequence(txn);
    record.modified_ms = os_wall_ms(c->op.store->env->clock);
    record.head = data_allocate(c->op.store->data, 1);
    c->op.result = (struct object_result){.etag = record.etag,
                                          .size = record.size,
                                          .sequence = record.sequence,
                                          .modified_ms = record.modified_ms,
                                          .checksum = record.checksum};
    c->op.has_result = true;
    return object_record_put(txn, c->args.bucket, c->args.key, &record,
                             slice_of(c->body, c->body == NULL ? 0 : record.size));
}

static int copy_txn(struct object_op *op, struct meta_txn *txn) {
    struct copy_op *c = CONTAINER_OF(op, struct copy_op, op);
    struct object_current current;
    int err = c->self || c->body == NULL ? check_unchanged(c) : 0;
    if (err == 0) {
        err = object_current_load(op, meta_txn_pool(txn), c->args.bucket, c->args.key, &current);
    }
    if (err < 0) {
        return err;
    }
    struct object_delta delta = {.objects = current.found ? 0 : 1,
                                 .bytes = (int64_t)c->copy.size -
                                          (current.found ? (int64_t)current.record.size : 0)};
    err = object_bucket_check(op, c->args.bucket, &delta);
    if (err == 0) {
        err = object_conditions_write(c->args.conditions, current.found ? &current.record : NULL);
    }
    if (err == 0) {
        err = move_names(c, txn, &current);
    }
    if (err == 0) {
        object_count(txn, c->args.bucket, &delta);
        err = put_copy(c, txn);
    }
    if (err == 0) {
        FAILPOINT("object.copy.txn");
    }
    return err;
}

/* ---- running ---- */

static void copy_start(struct task *task);

static void copy_end(struct copy_op *c, int err) {
    pool_free(TAKE_PTR(c->scratch));
    object_op_end(&c->op, err);
}

static void copy_finished(struct object_op *op, int err) {
    struct copy_op *c = CONTAINER_OF(op, struct copy_op, op);
    if (err < 0 && c->changed && c->restarts++ < RESTART_MAX) {
        object_op_post(op, copy_start);
        return;
    }
    copy_end(c, err < 0 && c->changed ? -HL_ERR_CONDITIONAL_CONFLICT : err);
}

static void copy_start(struct task *task) {
    struct copy_op *c =
        CONTAINER_OF(CONTAINER_OF(task, struct object_op, task), struct copy_op, op);
    if (c->scratch == NULL) {
        c->scratch = pool_new(0);
        if (c->scratch == NULL) {
            copy_end(c, -HL_ERR_NOMEM);
            return;
        }
        pool_set_limit(c->scratch, OBJECT_POOL_BYTES_MAX);
    } else {
        pool_reset(c->scratch);
    }
    c->changed = false;
    int err = prepare(c);
    if (err == 0) {
        err = object_admit(c->op.store, c->body == NULL ? 0 : c->copy.size);
    }
    if (err < 0) {
        copy_end(c, err);
        return;
    }
    FAILPOINT("object.copy.read");
    if (c->self || c->body == NULL) {
        object_op_latch_object(&c->op, c->args.source_bucket, c->args.source_key, META_SHARED);
    }
    object_op_run(&c->op);
}

static int check_args(const struct copy_op *c) {
    if (c->args.key.size == 0) {
        return -HL_ERR_INVALID;
    }
    if (c->args.key.size > KEYS_OBJECT_KEY_MAX) {
        return -HL_ERR_KEY_TOO_LONG;
    }
    /* S3: a copy onto itself must change something. */
    return c->self && !c->args.replace_metadata ? -HL_ERR_INVALID_REQUEST : 0;
}

void object_copy(struct object_store *store, const struct object_copy_args *args, struct pool *pool,
                 struct executor *home, object_done_fn done, void *arg) {
    struct copy_op *c = POOL_NEW(pool, struct copy_op);
    CHECK(c != NULL); /* without it no refusal could be delivered either */
    object_op_init(&c->op, store, pool, home, done, arg);
    c->args = *args;
    c->self = args->source_bucket == args->bucket && slice_equal(args->source_key, args->key);
    c->op.fn = copy_txn;
    c->op.finished = copy_finished;
    c->op.on_worker = true;
    int err = check_args(c);
    if (err < 0) {
        object_op_end(&c->op, err);
        return;
    }
    object_op_latch_bucket(&c->op, args->bucket, true);
    object_op_latch_object(&c->op, args->bucket, args->key, META_EXCLUSIVE);
    object_op_post(&c->op, copy_start);
}
