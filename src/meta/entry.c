/* The codec of entry_format.h. Pure functions, any thread. */
#include "meta/entry_format.h"

static void encode_id(struct buf *out, struct body_id id) {
    buf_append_be64(out, id.high);
    buf_append_be64(out, id.low);
}

static uint64_t zigzag(int64_t v) {
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v) {
    return (int64_t)(v >> 1 ^ (~(v & 1) + 1));
}

void entry_op_encode(struct buf *out, const struct entry_op *op) {
    buf_append_u8(out, (uint8_t)op->kind);
    switch (op->kind) {
    case ENTRY_PUT:
    case ENTRY_DELETE_RANGE:
        buf_append_blob(out, op->key);
        buf_append_blob(out, op->value);
        break;
    case ENTRY_DELETE:
        buf_append_blob(out, op->key);
        break;
    case ENTRY_ADD:
        buf_append_blob(out, op->key);
        buf_append_varint(out, zigzag(op->delta));
        break;
    case ENTRY_HEAD:
    case ENTRY_HEAD_ONLY:
        buf_append_blob(out, op->key);
        buf_append_blob(out, op->value);
        encode_id(out, op->id);
        buf_append_blob(out, op->body);
        break;
    case ENTRY_COMMIT:
    case ENTRY_FREE:
        encode_id(out, op->id);
        buf_append_varint(out, op->count);
        break;
    case ENTRY_FREE_HEAD:
        encode_id(out, op->id);
        break;
    case ENTRY_CONFIG:
        buf_append_blob(out, op->key);
        buf_append_blob(out, op->value);
        buf_append_varint(out, op->sequence);
        break;
    }
}

struct reader entry_open(struct slice entry, uint64_t *ret_sequence) {
    struct reader r = reader_of(entry);
    if (reader_u8(&r) != ENTRY_VERSION) {
        r.failed = true;
    }
    *ret_sequence = reader_varint(&r);
    return r;
}

static struct body_id read_id(struct reader *r) {
    struct body_id id;
    id.high = reader_be64(r);
    id.low = reader_be64(r);
    return id;
}

bool entry_next(struct reader *r, struct entry_op *ret) {
    if (r->failed || reader_left(r) == 0) {
        return false;
    }
    struct entry_op op = {.kind = (enum entry_op_kind)reader_u8(r)};
    switch (op.kind) {
    case ENTRY_PUT:
    case ENTRY_DELETE_RANGE:
        op.key = reader_blob(r);
        op.value = reader_blob(r);
        break;
    case ENTRY_DELETE:
        op.key = reader_blob(r);
        break;
    case ENTRY_ADD:
        op.key = reader_blob(r);
        op.delta = unzigzag(reader_varint(r));
        break;
    case ENTRY_HEAD:
    case ENTRY_HEAD_ONLY:
        op.key = reader_blob(r);
        op.value = reader_blob(r);
        op.id = read_id(r);
        op.body = reader_blob(r);
        break;
    case ENTRY_COMMIT:
    case ENTRY_FREE:
        op.id = read_id(r);
        op.count = reader_varint(r);
        break;
    case ENTRY_FREE_HEAD:
        op.id = read_id(r);
        break;
    case ENTRY_CONFIG:
        op.key = reader_blob(r);
        op.value = reader_blob(r);
        op.sequence = reader_varint(r);
        break;
    default:
        r->failed = true;
        break;
    }
    if (r->failed) {
        return false;
    }
    *ret = op;
    return true;
}
