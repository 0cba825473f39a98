/* What rebuild.c does with the metadata that it replaces, see rebuild_old.c. */
#ifndef OBJECT_REBUILD_OLD_H
#define OBJECT_REBUILD_OLD_H

#include "base/buf.h"
#include "object/object.h"

struct object_old {
    struct os_env *env;
    const struct object_options *options;
    uint32_t first_aside; /* before-rebuild-N that got something first; 0: unknown */
    struct buf rows;      /* key blob, value blob, ...; holds secrets */
    uint64_t keys, permissions;
    bool known; /* the old kv could be read */
};

/* Before anything is touched: every data directory has its marker (NO_MARKER), all are of one store
 * (WRONG_CLUSTER), none is in use (LOCKED). Logged. */
int object_old_check(struct os_env *env, const struct object_options *options);
/* Writes the mark, or reads the one of a rebuild that was interrupted. */
int object_old_begin(struct object_old *old);
/* kv/ and log/ go to before-rebuild-<n>/. */
int object_old_move(struct object_old *old);
/* Gathers the rows of access keys and permissions from the kv that was moved; one that cannot be
 * read is no error. The second: from a kv that is open. */
int object_old_read(struct object_old *old);
int object_old_read_kv(struct object_old *old, struct kv *kv);
void object_old_put(const struct object_old *old, struct kv_batch *batch);
/* When the buckets are known: permissions on others go, lest a later bucket inherit them, and
 * bucket_max rises to their numbers. */
int object_old_settle(struct object_old *old, struct kv *kv, struct kv_batch *batch,
                      uint64_t *bucket_max);
void object_old_done(struct object_old *old);

#endif
