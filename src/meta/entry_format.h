/* The payload of a log entry: what a transaction changes, as a list of plain operations. It is what
 * replicas agree on, so applying it is deterministic and the same on every version.
 *
 *   +---------+-------------------+------+------+---
 *   | version | sequence (varint) | op   | op   | ...      version is 1
 *   +---------+-------------------+------+------+---
 *
 * sequence is the highest number that meta_txn_sequence gave to this entry, 0 if none. An op is a
 * kind byte and its operands; blobs are a varint length and bytes, ids 16 bytes big-endian:
 *
 *   PUT           key blob, value blob
 *   DELETE        key blob
 *   DELETE_RANGE  first blob, end blob
 *   ADD           key blob, delta zigzag varint
 *   HEAD          key blob, value blob (without the head field), id, body blob    row + head record
 *   HEAD_ONLY     key blob, value blob, id, body blob                             head record
 * without a row COMMIT        id, count varint           staged bodies are named now FREE id, count
 * varint           bodies are no longer named FREE_HEAD     id                         the same for
 * a head record CONFIG        key blob, value blob, sequence varint   PUT (or DELETE when empty),
 * kept in the volumes too
 *
 * The log record around it carries group, term, index and a checksum. */
#ifndef META_ENTRY_FORMAT_H
#define META_ENTRY_FORMAT_H

#include "base/buf.h"
#include "base/bytes.h"
#include "volume/volume.h"

#define ENTRY_VERSION 1

enum entry_op_kind {
    ENTRY_PUT = 1,
    ENTRY_DELETE = 2,
    ENTRY_DELETE_RANGE = 3,
    ENTRY_ADD = 4,
    ENTRY_HEAD = 5,
    ENTRY_HEAD_ONLY = 6,
    ENTRY_COMMIT = 7,
    ENTRY_FREE = 8,
    ENTRY_FREE_HEAD = 9,
    ENTRY_CONFIG = 10,
};

struct entry_op {
    enum entry_op_kind kind;
    struct slice key;   /* or first */
    struct slice value; /* or end */
    struct slice body;
    int64_t delta;
    struct body_id id;
    uint64_t count;
    uint64_t sequence;
};

/* Appends one op; only the members of its kind are looked at. */
void entry_op_encode(struct buf *out, const struct entry_op *op);

/* Reads an entry: open, then next until it returns false; then reader->failed says whether it was
 * malformed. Slices point into the entry. */
struct reader entry_open(struct slice entry, uint64_t *ret_sequence);
bool entry_next(struct reader *r, struct entry_op *ret);

#endif
