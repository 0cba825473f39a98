/* The directory's rows in memory, shared by its three files. */
#ifndef OBJECT_DIRECTORY_INT_H
#define OBJECT_DIRECTORY_INT_H

#include "object/object_int.h"

struct directory_row {
    struct slice key, value; /* behind the struct */
};
struct directory {
    pthread_rwlock_t lock;
    struct directory_row **rows; /* by key */
    size_t count, capacity;
    struct object_store *store;
};

/* Under the lock. The first row whose key is at least key. */
size_t directory_find(const struct directory *directory, struct slice key);
/* The row itself, or NULL. */
const struct directory_row *directory_row(const struct directory *directory, struct slice key);
/* Rows [*ret_first, end) whose keys start with prefix; returns end. */
size_t directory_range(const struct directory *directory, struct slice prefix, size_t *ret_first);

static inline void directory_read_lock(struct directory *directory) {
    pthread_rwlock_rdlock(&directory->lock);
}
static inline void directory_unlock(struct directory *directory) {
    pthread_rwlock_unlock(&directory->lock);
}

/* What rows say. False when malformed. */
bool directory_parse_bucket_id(struct slice value, uint64_t *ret);
/* An 'l' row's key: access key id and name. */
bool directory_parse_local(struct slice key, struct slice *ret_key_id, struct slice *ret_name);
/* A 'p' row. */
bool directory_parse_grant(const struct directory_row *row, struct directory_grant *ret);

/* Bucket id of a name, by its row. */
int directory_alias_get(struct object_store *store, struct slice name, struct slice local_to,
                        uint64_t *ret_bucket);

#endif
