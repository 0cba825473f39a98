/* CompleteMultipartUpload: one transaction turns an upload into an object, whatever its count of
 * parts. It has the upload alone, so the parts that it reads are the parts that it names; parts
 * that the request does not name are freed. A 'd' row remembers the request, so that a client that
 * missed the answer may send it again. Runs on a worker. */
#include "base/bytes.h"
#include "base/text.h"
#include "object/object_int.h"

struct complete_op {
    struct object_op op;
    struct object_complete_args args;
    struct object_complete_part *wanted; /* as sent, the last of equal numbers */
    uint32_t wanted_count;
    uint8_t request_sha256[32];
};

/* ---- the request ---- */

static void hash_request(struct complete_op *c) {
    struct hash *hash = hash_new(HASH_SHA256);
    for (uint32_t i = 0; i < c->args.part_count; i++) {
        const struct object_complete_part *part = &c->args.parts[i];
        uint8_t head[12];
        put_le16(head, part->number);
        put_le64(head + 2, part->etag.size);
        head[10] = part->checksum.algorithm;
        head[11] = part->checksum.size;
        hash_update(hash, head, sizeof(head));
        hash_update(hash, part->etag.data, part->etag.size);
        hash_update(hash, part->checksum.value, part->checksum.size);
    }
    hash_final(hash, c->request_sha256);
    hash_free(hash);
}

/* Ascending order; of a number that is named again, the last entry counts. */
static int read_request(struct complete_op *c) {
    if (c->args.part_count == 0) {
        return -HL_ERR_XML;
    }
    c->wanted = pool_alloc(c->op.pool, c->args.part_count * sizeof(*c->wanted));
    if (c->wanted == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < c->args.part_count; i++) {
        const struct object_complete_part *part = &c->args.parts[i];
        uint32_t last = c->wanted_count;
        if (last > 0 && part->number < c->wanted[last - 1].number) {
            return -HL_ERR_PART_ORDER;
        }
        if (last > 0 && part->number == c->wanted[last - 1].number) {
            c->wanted[last - 1] = *part;
        } else {
            c->wanted[c->wanted_count++] = *part;
        }
    }
    hash_request(c);
    return 0;
}

/* ---- what the upload has ---- */

static bool part_matches(const struct object_complete_part *wanted,
                         const struct object_part *part) {
    char md5[33];
    hex_encode(part->md5, sizeof(part->md5), md5);
    if (wanted->etag.size > 0 && !slice_equal_nocase(wanted->etag, slice_str(md5))) {
        return false;
    }
    const struct checksum *checksum = &wanted->checksum;
    return checksum->size == 0 ||
           (checksum->algorithm == part->checksum.algorithm &&
            checksum->size == part->checksum.size &&
            memcmp(checksum->value, part->checksum.value, checksum->size) == 0);
}

struct selection {
    struct object_part *parts; /* named by the request, in order */
    uint32_t count;
    uint64_t size;
    uint64_t upload_bytes;       /* of all parts */
    struct object_units unnamed; /* of the others */
};

/* Splits the parts (ascending) into named and unnamed, the named ones moved to the front. */
static int select_parts(struct complete_op *c, struct pool *pool, struct object_part *parts,
                        uint32_t count, struct selection *ret) {
    struct selection s = {.parts = parts};
    uint32_t w = 0;
    for (uint32_t i = 0; i < count; i++) {
        s.upload_bytes += parts[i].size;
        if (w == c->wanted_count || c->wanted[w].number != parts[i].number) {
            int err = object_units_add_part(&s.unnamed, pool, &parts[i]);
            if (err < 0) {
                return err;
            }
            continue;
        }
        if (!part_matches(&c->wanted[w], &parts[i])) {
            return -HL_ERR_INVALID_PART;
        }
        if (parts[i].size < OBJECT_PART_BYTES_MIN && w + 1 < c->wanted_count) {
            return -HL_ERR_TOO_SMALL;
        }
        s.size += parts[i].size;
        s.parts[s.count++] = parts[i];
        w++;
    }
    if (w < c->wanted_count) {
        return -HL_ERR_INVALID_PART;
    }
    if (s.size > OBJECT_BYTES_MAX) {
        return -HL_ERR_TOO_LARGE;
    }
    *ret = s;
    return 0;
}

/* The checksum of the object, and whether it is what the client expects. */
static int choose_checksum(struct complete_op *c, const struct upload_record *upload,
                           const struct selection *s, struct checksum *ret) {
    uint8_t algorithm = s->parts[0].checksum.algorithm;
    uint8_t type = algorithm == CHECKSUM_SHA1 || algorithm == CHECKSUM_SHA256
                       ? CHECKSUM_COMPOSITE
                       : CHECKSUM_FULL_OBJECT;
    if (upload->checksum_given) {
        algorithm = upload->checksum_algorithm;
        type = upload->checksum_type;
        if (c->args.type_given && c->args.type != type) {
            return -HL_ERR_INVALID_REQUEST;
        }
    } else if (c->args.type_given && algorithm != CHECKSUM_NONE) {
        type = c->args.type;
    }
    struct checksum checksum = {0};
    bool known = object_checksum_combine(s->parts, s->count, algorithm, type, &checksum);
    const struct checksum *expected = &c->args.checksum;
    if (expected->size > 0) {
        if (!known || expected->algorithm != checksum.algorithm) {
            return -HL_ERR_INVALID_REQUEST;
        }
        if (memcmp(expected->value, checksum.value, checksum.size) != 0) {
            return -HL_ERR_BAD_CHECKSUM;
        }
    }
    *ret = checksum;
    return 0;
}

/* ---- the transaction ---- */

static void set_result(struct complete_op *c, const struct object_record *record) {
    c->op.result = (struct object_result){.etag = record->etag,
                                          .size = record->size,
                                          .sequence = record->sequence,
                                          .modified_ms = record->modified_ms,
                                          .checksum = record->checksum};
    c->op.has_result = true;
}

/* The upload is gone: perhaps because this very request was carried out before. */
static int repeat(struct complete_op *c, const struct object_current *current) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    struct completed_record completed;
    keys_completed(&row_key, c->args.upload_id);
    int err =
        row_key.failed ? -HL_ERR_NOMEM : meta_get(c->op.store->meta, buf_slice(&row_key), &value);
    if (err == 0) {
        err = completed_record_decode(value.data, &completed);
    }
    if (err < 0) {
        return err == -HL_ERR_NOT_FOUND ? -HL_ERR_NO_SUCH_UPLOAD : err;
    }
    if (completed.bucket != c->args.bucket || !slice_equal(completed.key, c->args.key) ||
        memcmp(completed.parts_sha256, c->request_sha256, 32) != 0 || !current->found ||
        current->record.sequence != completed.sequence) {
        return -HL_ERR_NO_SUCH_UPLOAD;
    }
    set_result(c, &current->record);
    return 0;
}

static int remember(struct complete_op *c, struct meta_txn *txn,
                    const struct object_record *record) {
    CLEANUP_BUF struct buf row_key = {0};
    CLEANUP_BUF struct buf value = {0};
    struct completed_record completed = {.bucket = c->args.bucket,
                                         .key = c->args.key,
                                         .etag = record->etag,
                                         .sequence = record->sequence,
                                         .completed_ms = record->modified_ms};
    memcpy(completed.parts_sha256, c->request_sha256, 32);
    keys_completed(&row_key, c->args.upload_id);
    completed_record_encode(&value, &completed);
    if (row_key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put(txn, buf_slice(&row_key), buf_slice(&value));
    return 0;
}

/* Puts the object and takes the upload away. */
static int put_object(struct complete_op *c, struct meta_txn *txn,
                      const struct upload_record *upload, const struct selection *s,
                      const struct checksum *checksum) {
    struct object_record record = {
        .sequence = meta_txn_sequence(txn),
        .modified_ms = os_wall_ms(c->op.store->env->clock),
        .size = s->size,
        .etag = object_parts_etag(s->parts, s->count),
        .head = data_allocate(c->op.store->data, 1),
        .checksum = *checksum,
        .headers = upload->headers,
        .parts = s->parts,
        .part_count = s->count,
        .multipart = true,
        .owner = upload->owner.size > 0 ? upload->owner : c->args.owner,
        .tags = upload->tags,
        .acl = upload->acl,
        .lock = upload->lock,
        .encryption = upload->encryption,
    };
    int err = object_record_put(txn, c->args.bucket, c->args.key, &record, SLICE_EMPTY);
    if (err == 0) {
        err = object_upload_drop(txn, c->args.bucket, c->args.key, c->args.upload_id);
    }
    if (err == 0) {
        err = remember(c, txn, &record);
    }
    set_result(c, &record);
    return err;
}

/* Bodies of the version that is replaced and of parts that were not named lose a name, together:
 * they may be the same. */
static int release_all(struct complete_op *c, struct meta_txn *txn, struct selection *s,
                       const struct object_current *current) {
    struct pool *pool = meta_txn_pool(txn);
    int err = current->found ? object_units_add_record(&s->unnamed, pool, &current->record) : 0;
    if (err == 0) {
        err = object_units_release(&c->op, txn, &s->unnamed);
    }
    if (err == 0 && current->found) {
        meta_txn_free_head(txn, current->record.head);
    }
    return err;
}

static int commit_upload(struct complete_op *c, struct meta_txn *txn,
                         const struct upload_record *upload, const struct object_current *current) {
    struct object_part *parts = NULL;
    uint32_t count = 0;
    struct selection s;
    struct checksum checksum;
    struct pool *pool = meta_txn_pool(txn);
    int err = object_parts_load(c->op.store, c->args.upload_id, pool, &parts, &count);
    if (err == 0) {
        err = select_parts(c, pool, parts, count, &s);
    }
    if (err == 0 && c->args.size_given && c->args.size != s.size) {
        err = -HL_ERR_INVALID_REQUEST;
    }
    if (err == 0) {
        err = choose_checksum(c, upload, &s, &checksum);
    }
    if (err < 0) {
        return err;
    }
    struct object_delta delta = {.objects = current->found ? 0 : 1,
                                 .bytes = (int64_t)s.size -
                                          (current->found ? (int64_t)current->record.size : 0),
                                 .uploads = -1,
                                 .upload_bytes = -(int64_t)s.upload_bytes};
    err = object_bucket_check(&c->op, c->args.bucket, &delta);
    if (err == 0) {
        err = release_all(c, txn, &s, current);
    }
    if (err == 0) {
        object_count(txn, c->args.bucket, &delta);
        err = put_object(c, txn, upload, &s, &checksum);
    }
    if (err == 0) {
        FAILPOINT("object.complete.txn");
    }
    return err;
}

static int complete_txn(struct object_op *op, struct meta_txn *txn) {
    struct complete_op *c = CONTAINER_OF(op, struct complete_op, op);
    struct pool *pool = meta_txn_pool(txn);
    struct object_current current;
    struct upload_record upload;
    int err = object_current_load(op, pool, c->args.bucket, c->args.key, &current);
    if (err < 0) {
        return err;
    }
    err =
        object_upload_get(op->store, c->args.bucket, c->args.key, c->args.upload_id, pool, &upload);
    if (err == -HL_ERR_NO_SUCH_UPLOAD) {
        return repeat(c, &current);
    }
    if (err == 0) {
        err = object_conditions_write(c->args.conditions, current.found ? &current.record : NULL);
    }
    return err < 0 ? err : commit_upload(c, txn, &upload, &current);
}

void object_upload_complete(struct object_store *store, const struct object_complete_args *args,
                            struct pool *pool, struct executor *home, object_done_fn done,
                            void *arg) {
    struct complete_op *c = POOL_NEW(pool, struct complete_op);
    CHECK(c != NULL); /* without it no refusal could be delivered either */
    object_op_init(&c->op, store, pool, home, done, arg);
    c->args = *args;
    c->op.fn = complete_txn;
    c->op.on_worker = true;
    int err = read_request(c);
    if (err < 0) {
        object_op_end(&c->op, err);
        return;
    }
    object_op_latch_bucket(&c->op, args->bucket, true);
    object_op_latch_upload(&c->op, args->bucket, args->key, args->upload_id, META_EXCLUSIVE);
    object_op_latch_object(&c->op, args->bucket, args->key, META_EXCLUSIVE);
    object_op_run(&c->op);
}
