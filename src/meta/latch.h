/* Latches on row keys: short-term locks of transactions in flight, shared or exclusive, first come
 * first served. Keys are compared by a seeded 64-bit hash: two keys that collide are merely
 * serialised. A transaction acquires its holds in ascending order of hash, so that no two can wait
 * for each other.
 *
 * Holds are embedded in the transaction; the table allocates nothing. Any thread. */
#ifndef META_LATCH_H
#define META_LATCH_H

#include "base/slice.h"
#include "meta/meta.h"

struct latch_hold {
    struct latch_hold *next, *previous; /* in the stripe's list, in order of arrival */
    uint64_t hash;
    enum meta_latch_mode mode;
    bool granted; /* guarded by the stripe's mutex */
    void *owner;  /* given back to the wake function */
};

struct latch_table;
/* wake is called (outside any mutex) when a hold that had to wait is granted. */
struct latch_table *latch_table_new(uint64_t seed, void (*wake)(struct latch_hold *hold));
void latch_table_free(struct latch_table *table); /* CHECKs that nothing is held */

uint64_t latch_hash(const struct latch_table *table, struct slice key);
/* True: granted at once. False: wake will be called. */
bool latch_acquire(struct latch_table *table, struct latch_hold *hold);
void latch_release(struct latch_table *table, struct latch_hold *hold);

#endif
