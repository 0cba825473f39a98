/* A write session's insides, shared by write.c (bytes) and commit.c (names). */
#ifndef OBJECT_WRITE_INT_H
#define OBJECT_WRITE_INT_H

#include "object/object_int.h"

struct object_write {
    struct object_store *store;
    struct pool *pool;
    struct object_write_args args;
    struct object_digest digest;
    uint64_t size; /* so far */
    bool inline_body;
    uint8_t *body; /* while inline; in the pool */
    uint32_t body_size, body_max;
    struct body_run run; /* block_bytes 0: no ids yet; block_count: finished blocks */
    struct data_block *block;
    uint32_t block_room; /* bytes that still fit into block */
    bool finished;
    uint8_t md5[16];
    struct checksum checksum;
    /* The commit. */
    struct object_op op;
    struct object_commit_args commit;
};

/* Frees what is not in the pool; the bodies are named or discarded already. */
void object_write_done(struct object_write *write);

#endif
