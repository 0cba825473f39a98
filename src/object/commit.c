/* Naming what was written: the transactions of PutObject and UploadPart. Conditions and quotas are
 * decided inside, so they are linearizable; what the new version replaces is freed in the same
 * entry. A commit that is refused discards its bodies; one whose outcome is unknown (CRASHED)
 * leaves them to recovery. Runs on the request's home executor. */
#include "object/write_int.h"

static void commit_finished(struct object_op *op, int err) {
    struct object_write *write = CONTAINER_OF(op, struct object_write, op);
    if (err < 0 && err != -HL_ERR_CRASHED) {
        object_write_abort(write);
    } else {
        object_write_done(write);
    }
    object_op_end(op, err);
}

/* ---- PutObject ---- */

static int put_record(struct object_write *write, struct meta_txn *txn) {
    struct object_part part = {.size = write->size, .run = write->run};
    memcpy(part.md5, write->md5, sizeof(part.md5));
    struct object_record record = {
        .sequence = meta_txn_sequence(txn),
        .modified_ms = os_wall_ms(write->store->env->clock),
        .size = write->size,
        .head = data_allocate(write->store->data, 1),
        .checksum = write->checksum,
        .headers = write->commit.headers,
        .owner = write->commit.owner,
    };
    memcpy(record.etag.md5, write->md5, sizeof(write->md5));
    if (!write->inline_body) {
        record.parts = &part;
        record.part_count = 1;
        meta_txn_commit_bodies(txn, write->run.first, write->run.block_count);
    }
    write->op.result = (struct object_result){.etag = record.etag,
                                              .size = record.size,
                                              .sequence = record.sequence,
                                              .modified_ms = record.modified_ms,
                                              .checksum = record.checksum};
    write->op.has_result = true;
    return object_record_put(txn, write->args.bucket, write->args.key, &record,
                             slice_of(write->body, write->inline_body ? write->body_size : 0));
}

static int put_txn(struct object_op *op, struct meta_txn *txn) {
    struct object_write *write = CONTAINER_OF(op, struct object_write, op);
    uint64_t bucket = write->args.bucket;
    struct object_current current;
    int err = object_current_load(op, meta_txn_pool(txn), bucket, write->args.key, &current);
    if (err < 0) {
        return err;
    }
    struct object_delta delta = {.objects = current.found ? 0 : 1,
                                 .bytes = (int64_t)write->size -
                                          (current.found ? (int64_t)current.record.size : 0)};
    err = object_bucket_check(op, bucket, &delta);
    if (err == 0) {
        err = object_conditions_write(write->commit.conditions,
                                      current.found ? &current.record : NULL);
    }
    if (err == 0 && current.found) {
        err = object_record_release(op, txn, &current.record);
    }
    if (err == 0) {
        object_count(txn, bucket, &delta);
        err = put_record(write, txn);
    }
    if (err == 0) {
        FAILPOINT("object.commit.put");
    }
    return err;
}

/* ---- UploadPart ---- */

/* The part that is to be replaced loses its bodies; everything is counted. */
int object_part_replace(struct object_op *op, struct meta_txn *txn,
                        const struct object_part_place *place, uint64_t size) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    struct upload_record upload;
    struct part_record old = {0};
    keys_part(&row_key, place->upload_id, place->number);
    int err = row_key.failed ? -HL_ERR_NOMEM
                             : object_upload_get(op->store, place->bucket, place->key,
                                                 place->upload_id, meta_txn_pool(txn), &upload);
    if (err < 0) {
        return err;
    }
    err = meta_get(op->store->meta, buf_slice(&row_key), &value);
    bool found = err == 0;
    if (err == -HL_ERR_NOT_FOUND || (found && (err = part_record_decode(value.data, &old)) == 0)) {
        struct object_delta delta = {.upload_bytes = (int64_t)size - (int64_t)old.part.size};
        err = object_bucket_check(op, place->bucket, &delta);
        object_count(txn, place->bucket, &delta);
    }
    if (err < 0 || !found) {
        return err;
    }
    struct object_units units = {0};
    err = object_units_add_part(&units, meta_txn_pool(txn), &old.part);
    return err < 0 ? err : object_units_release(op, txn, &units);
}

void object_part_latch(struct object_op *op, const struct object_part_place *place) {
    CLEANUP_BUF struct buf row_key = {0};
    keys_part(&row_key, place->upload_id, place->number);
    op->unknown_latch |= row_key.failed;
    object_op_latch_bucket(op, place->bucket, false);
    object_op_latch_upload(op, place->bucket, place->key, place->upload_id, META_SHARED);
    object_op_latch(op, buf_slice(&row_key), META_EXCLUSIVE);
}

/* Names the part's bodies and writes its row. */
static int put_part(struct object_write *write, struct meta_txn *txn, struct slice row_key) {
    struct part_record record = {
        .part = {.number = write->args.part_number,
                 .size = write->size,
                 .checksum = write->checksum},
        .modified_ms = os_wall_ms(write->store->env->clock),
    };
    memcpy(record.part.md5, write->md5, sizeof(write->md5));
    if (write->inline_body) {
        record.part.inline_id = data_allocate(write->store->data, 1);
    } else {
        record.part.run = write->run;
    }
    CLEANUP_BUF struct buf value = {0};
    part_record_encode(&value, &record);
    if (value.failed) {
        return -HL_ERR_NOMEM;
    }
    if (write->inline_body) {
        meta_txn_head_only(txn, row_key, buf_slice(&value), record.part.inline_id,
                           slice_of(write->body, write->body_size));
    } else {
        meta_txn_commit_bodies(txn, write->run.first, write->run.block_count);
    }
    meta_txn_put(txn, row_key, buf_slice(&value));
    write->op.result = (struct object_result){
        .size = write->size, .modified_ms = record.modified_ms, .checksum = write->checksum};
    memcpy(write->op.result.etag.md5, write->md5, sizeof(write->md5));
    write->op.has_result = true;
    return 0;
}

static struct object_part_place part_place(const struct object_write *write) {
    return (struct object_part_place){write->args.bucket, write->args.key, write->args.upload_id,
                                      write->args.part_number};
}

static int part_txn(struct object_op *op, struct meta_txn *txn) {
    struct object_write *write = CONTAINER_OF(op, struct object_write, op);
    struct object_part_place place = part_place(write);
    CLEANUP_BUF struct buf row_key = {0};
    keys_part(&row_key, place.upload_id, place.number);
    int err = object_part_replace(op, txn, &place, write->size);
    if (err == 0) {
        err = row_key.failed ? -HL_ERR_NOMEM : put_part(write, txn, buf_slice(&row_key));
    }
    if (err == 0) {
        FAILPOINT("object.commit.part");
    }
    return err;
}

/* ---- both ---- */

void object_write_commit(struct object_write *write, const struct object_commit_args *args,
                         struct executor *home, object_done_fn done, void *arg) {
    CHECK(write->finished);
    struct object_op *op = &write->op;
    object_op_init(op, write->store, write->pool, home, done, arg);
    op->finished = commit_finished;
    write->commit = *args;
    if (write->args.kind == OBJECT_WRITE_PUT) {
        op->fn = put_txn;
        object_op_latch_bucket(op, write->args.bucket, true);
        object_op_latch_object(op, write->args.bucket, write->args.key, META_EXCLUSIVE);
    } else {
        struct object_part_place place = part_place(write);
        op->fn = part_txn;
        object_part_latch(op, &place);
    }
    object_op_run(op);
}
