/* PutObject and UploadPart: the one way in for payload bytes.
 *
 *   parse headers -> (part: look the upload up, on a worker) -> open session
 *     -> [ask for a piece -> de-frame, verify, hash, write] until the end
 *     -> end of payload -> finish (large bodies become durable) -> compare digests -> commit ->
 * answer
 *
 * Pieces of a small body are worked on the loop, those of a large one on a worker, one at a time;
 * when the payload is the body as it comes, a second worker computes MD5 of the piece meanwhile.
 * Nothing is visible before the commit; every other way out aborts the session. */
#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/payload.h"

struct put {
    struct s3_request *r;
    struct object_write_args args;
    struct object_commit_args commit;
    struct object_conditions conditions;
    struct upload_record upload; /* of a part */
    struct s3_payload *payload;
    struct object_write *write;
    bool asking;   /* inside http_body_next */
    bool answered; /* it called back at once */
    const uint8_t *data;
    size_t size;
    int err;
    struct task md5_task;
    bool md5_apart;
    int working; /* workers that have the piece */
    int feed_err;
};

#define MD5_APART_BYTES_MIN (1u << 20) /* below, one worker more is not worth its wake-up */

static void put_fail(struct put *p, int err) {
    struct s3_request *r = p->r;
    object_write_abort(TAKE_PTR(p->write));
    s3_payload_done(TAKE_PTR(p->payload));
    s3_fail(r, err);
}

/* ---- the end ---- */

static void put_committed(void *arg, int err, const struct object_result *result) {
    struct put *p = arg;
    struct s3_request *r = p->r;
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    s3_payload_done(TAKE_PTR(p->payload));
    s3_set_etag(r, &result->etag);
    s3_set_checksum(r, &result->checksum, 0, p->args.kind == OBJECT_WRITE_PUT);
    s3_respond_empty(r, 200);
}

static struct slice put_trailer(void *arg, const char *name) {
    return http_trailer(((struct put *)arg)->r->http, name);
}

static int finish_work(struct s3_request *r) {
    struct put *p = r->op;
    int err = object_write_finish(p->write);
    if (err < 0) {
        return err;
    }
    return s3_payload_check(p->payload, object_write_md5(p->write), object_write_checksum(p->write),
                            &r->message);
}

static void finish_done(struct s3_request *r, int err) {
    struct put *p = r->op;
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    object_write_commit(TAKE_PTR(p->write), &p->commit, r->home, put_committed, p);
}

static void put_finish(struct put *p) {
    struct s3_request *r = p->r;
    int err = s3_payload_finish(p->payload, put_trailer, p, &r->message);
    if (err < 0) {
        put_fail(p, err);
    } else if (object_write_is_inline(p->write)) {
        finish_done(r, finish_work(r));
    } else {
        s3_on_worker(r, finish_work, finish_done);
    }
}

/* ---- the body ---- */

static void put_ask(struct put *p);

static int put_sink(void *arg, const uint8_t *data, size_t size) {
    return object_write_data(((struct put *)arg)->write, data, size);
}

/* A refusal of the decoder carries its message to the end of the payload. */
static int feed_work(struct s3_request *r) {
    struct put *p = r->op;
    int err = s3_payload_feed(p->payload, p->data, p->size, put_sink, p);
    if (err < 0) {
        (void)s3_payload_finish(p->payload, NULL, NULL, &r->message);
    }
    return err;
}

/* A worker is through with the piece; runs at home. */
static void worker_done(struct put *p) {
    int err = p->feed_err;
    if (--p->working > 0) {
        return;
    }
    if (err < 0) {
        put_fail(p, err == -HL_ERR_LIMIT ? -HL_ERR_TOO_LARGE : err);
        return;
    }
    put_ask(p);
}

static void feed_done(struct s3_request *r, int err) {
    struct put *p = r->op;
    p->feed_err = err;
    worker_done(p);
}

static void md5_done(struct task *task) {
    worker_done(CONTAINER_OF(task, struct put, md5_task));
}

static void md5_work(struct task *task) {
    struct put *p = CONTAINER_OF(task, struct put, md5_task);
    object_write_md5_data(p->write, p->data, p->size);
    task->run = md5_done;
    executor_post(p->r->home, task);
}

static void feed_on_workers(struct put *p) {
    struct s3_request *r = p->r;
    p->working = p->md5_apart ? 2 : 1;
    p->feed_err = 0;
    if (p->md5_apart) {
        p->md5_task.run = md5_work;
        executor_post(r->s3->workers, &p->md5_task);
    }
    s3_on_worker(r, feed_work, feed_done);
}

/* One piece. True when the next is to be asked for at once; otherwise p may be gone. */
static bool put_step(struct put *p) {
    struct s3_request *r = p->r;
    if (p->err < 0) {
        put_fail(p, p->err);
        return false;
    }
    if (p->size == 0) {
        put_finish(p);
        return false;
    }
    if (!object_write_is_inline(p->write)) {
        feed_on_workers(p);
        return false;
    }
    int err = feed_work(r);
    if (err < 0) {
        put_fail(p, err == -HL_ERR_LIMIT ? -HL_ERR_TOO_LARGE : err);
        return false;
    }
    return true;
}

static void put_piece(void *arg, int err, const uint8_t *data, size_t size) {
    struct put *p = arg;
    p->err = err;
    p->data = data;
    p->size = size;
    if (p->asking) {
        p->answered = true; /* put_ask's loop goes on: many tiny chunks must not nest calls */
    } else if (put_step(p)) {
        put_ask(p);
    }
}

static void put_ask(struct put *p) {
    for (;;) {
        p->asking = true;
        p->answered = false;
        http_body_next(p->r->http, put_piece, p);
        p->asking = false;
        if (!p->answered || !put_step(p)) {
            return;
        }
    }
}

/* ---- the start ---- */

/* Opens payload and session, then asks for the body (which lets a waiting client send it). */
static void put_open(struct put *p) {
    struct s3_request *r = p->r;
    int err = s3_payload_open(r->head, &r->auth, true, r->pool, &p->payload, &r->message);
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    const struct s3_payload_expect *expect = s3_payload_expect(p->payload);
    if (expect->size != UINT64_MAX && expect->size > S3_OBJECT_BYTES_MAX) {
        s3_add_detail(r, "ProposedSize",
                      slice_str(pool_printf(r->pool, "%llu", (unsigned long long)expect->size)));
        s3_add_detail(r, "MaxSizeAllowed", SLICE_LITERAL("5368709120"));
        put_fail(p, -HL_ERR_TOO_LARGE);
        return;
    }
    p->args.size = expect->size;
    p->args.checksum_algorithm = expect->checksum_algorithm;
    if (p->args.kind == OBJECT_WRITE_PART && p->upload.checksum_given) {
        uint8_t sent = expect->checksum_algorithm, wanted = p->upload.checksum_algorithm;
        bool missing = sent == CHECKSUM_NONE && p->upload.checksum_type == CHECKSUM_COMPOSITE;
        if (missing || (sent != CHECKSUM_NONE && sent != wanted)) {
            const char *actual = missing ? "null" : checksum_algorithm_name(sent);
            r->message = pool_printf(r->pool,
                                     "Checksum Type mismatch occurred, expected checksum Type: %s, "
                                     "actual checksum Type: %s",
                                     checksum_algorithm_name(wanted), actual);
            put_fail(p, -HL_ERR_INVALID_REQUEST);
            return;
        }
    }
    err = object_write_open(r->s3->store, &p->args, r->pool, &p->write);
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    bool plain = r->auth.payload == S3_PAYLOAD_SIGNED || r->auth.payload == S3_PAYLOAD_UNSIGNED;
    if (plain && p->args.size != UINT64_MAX && p->args.size >= MD5_APART_BYTES_MIN &&
        !object_write_is_inline(p->write)) {
        p->md5_apart = true;
        object_write_md5_apart(p->write);
    }
    put_ask(p);
}

static struct put *put_new(struct s3_request *r, enum object_write_kind kind) {
    struct put *p = POOL_NEW(r->pool, struct put);
    if (p == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return NULL;
    }
    p->r = r;
    p->args.kind = kind;
    p->args.bucket = r->bucket.id;
    p->args.key = r->key;
    p->commit.owner = r->auth.access_key;
    r->op = p;
    return p;
}

void s3_put_object(struct s3_request *r) {
    struct put *p = put_new(r, OBJECT_WRITE_PUT);
    if (p == NULL) {
        return;
    }
    int err = 0;
    if (s3_has_param(r, "partNumber")) {
        err = s3_err(r, -HL_ERR_INVALID,
                     "This operation does not accept a partNumber without uploadId");
    }
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err == 0) {
        err = s3_metadata_read(r, &p->commit.headers);
    }
    if (err == 0) {
        err = s3_conditions_write(r, &p->conditions);
    }
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    p->commit.conditions = &p->conditions;
    put_open(p);
}

static int upload_work(struct s3_request *r) {
    struct put *p = r->op;
    return object_upload_get(r->s3->store, r->bucket.id, r->key, p->args.upload_id, r->pool,
                             &p->upload);
}

static void upload_done(struct s3_request *r, int err) {
    struct put *p = r->op;
    if (err < 0) {
        if (err == -HL_ERR_NO_SUCH_UPLOAD) {
            s3_add_detail(r, "UploadId", s3_param(r, "uploadId"));
        }
        put_fail(p, err);
        return;
    }
    put_open(p);
}

void s3_upload_part(struct s3_request *r) {
    struct put *p = put_new(r, OBJECT_WRITE_PART);
    if (p == NULL) {
        return;
    }
    int err = s3_param_part_number(r, &p->args.part_number);
    if (err == 0) {
        err = s3_param_upload_id(r, p->args.upload_id);
    }
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err < 0) {
        put_fail(p, err);
        return;
    }
    s3_on_worker(r, upload_work, upload_done);
}
