/* The directory's cache: the rows of buckets, aliases, access keys and permissions as one sorted
 * array, under a read-write lock. The engine tells of every change of a row before its writer is
 * acknowledged, so a lookup sees what was acknowledged; rows are the truth and nothing else is
 * derived from them. Lookups are a binary search; the few that go through a whole table are those
 * of administration.
 *
 * Threads: lookups on any; changes on the commit thread. */
#include "base/bytes.h"
#include "object/directory_int.h"

static const char tables[] = {KEYS_BUCKET,     KEYS_ALIAS,      KEYS_LOCAL_ALIAS,
                              KEYS_ACCESS_KEY, KEYS_PERMISSION, 0};

/* ---- rows ---- */

size_t directory_find(const struct directory *directory, struct slice key) {
    size_t low = 0, high = directory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_compare(directory->rows[middle]->key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct directory_row *directory_row(const struct directory *directory, struct slice key) {
    size_t at = directory_find(directory, key);
    if (at < directory->count && slice_equal(directory->rows[at]->key, key)) {
        return directory->rows[at];
    }
    return NULL;
}

size_t directory_range(const struct directory *directory, struct slice prefix, size_t *ret_first) {
    size_t first = directory_find(directory, prefix), end = first;
    while (end < directory->count && slice_starts_with(directory->rows[end]->key, prefix)) {
        end++;
    }
    *ret_first = first;
    return end;
}

static struct directory_row *row_new(struct slice key, struct slice value) {
    struct directory_row *row = malloc(sizeof(*row) + key.size + value.size);
    CHECK(row != NULL); /* a cache that misses a row would answer wrongly from then on */
    uint8_t *bytes = (uint8_t *)(row + 1);
    memcpy(bytes, key.data, key.size);
    memcpy(bytes + key.size, value.data, value.size);
    *row =
        (struct directory_row){slice_of(bytes, key.size), slice_of(bytes + key.size, value.size)};
    return row;
}

static void insert(struct directory *directory, size_t at, struct directory_row *row) {
    if (directory->count == directory->capacity) {
        directory->capacity = MAX((size_t)64, directory->capacity * 2);
        directory->rows = realloc(directory->rows, directory->capacity * sizeof(*directory->rows));
        CHECK(directory->rows != NULL);
    }
    memmove(&directory->rows[at + 1], &directory->rows[at],
            (directory->count - at) * sizeof(*directory->rows));
    directory->rows[at] = row;
    directory->count++;
}

static void remove_at(struct directory *directory, size_t at) {
    free(directory->rows[at]);
    memmove(&directory->rows[at], &directory->rows[at + 1],
            (directory->count - at - 1) * sizeof(*directory->rows));
    directory->count--;
}

/* Under the write lock; an empty value deletes. */
static void set_row(struct directory *directory, struct slice key, struct slice value) {
    size_t at = directory_find(directory, key);
    bool there = at < directory->count && slice_equal(directory->rows[at]->key, key);
    if (value.size == 0) {
        if (there) {
            remove_at(directory, at);
        }
        return;
    }
    struct directory_row *row = row_new(key, value);
    if (there) {
        free(directory->rows[at]);
        directory->rows[at] = row;
    } else {
        insert(directory, at, row);
    }
}

static void changed(void *arg, struct slice key, struct slice value) {
    struct directory *directory = arg;
    pthread_rwlock_wrlock(&directory->lock);
    set_row(directory, key, value);
    pthread_rwlock_unlock(&directory->lock);
}

int directory_new(struct object_store *store) {
    struct directory *directory = calloc(1, sizeof(*directory));
    if (directory == NULL) {
        return -HL_ERR_NOMEM;
    }
    pthread_rwlock_init(&directory->lock, NULL);
    directory->store = store;
    store->directory = directory;
    meta_watch(store->meta, tables, changed, directory);
    return 0;
}

static int load_table(struct object_store *store, uint8_t table) {
    uint8_t end = (uint8_t)(table + 1);
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(store->kv, KV_META, slice_of(&table, 1), slice_of(&end, 1));
    if (iter == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        changed(store->directory, kv_iter_key(iter), kv_iter_value(iter));
    }
    return kv_iter_error(iter);
}

int directory_load(struct object_store *store) {
    for (size_t i = 0; tables[i] != 0; i++) {
        int err = load_table(store, (uint8_t)tables[i]);
        if (err < 0) {
            return err;
        }
    }
    return 0;
}

void directory_free(struct directory *directory) {
    if (directory == NULL) {
        return;
    }
    for (size_t i = 0; i < directory->count; i++) {
        free(directory->rows[i]);
    }
    free(directory->rows);
    pthread_rwlock_destroy(&directory->lock);
    free(directory);
}

/* ---- what rows say ---- */

bool directory_parse_bucket_id(struct slice value, uint64_t *ret) {
    if (value.size != 8) {
        return false;
    }
    *ret = get_be64(value.data);
    return true;
}

bool directory_parse_local(struct slice key, struct slice *ret_key_id, struct slice *ret_name) {
    size_t zero = slice_find(key, 0, 1);
    if (zero == key.size) {
        return false;
    }
    *ret_key_id = slice_of(key.data + 1, zero - 1);
    *ret_name = slice_skip(key, zero + 1);
    return true;
}

bool directory_parse_grant(const struct directory_row *row, struct directory_grant *ret) {
    if (row->key.size < 9 || row->value.size != 1) {
        return false;
    }
    *ret = (struct directory_grant){.bucket = get_be64(row->key.data + 1),
                                    .key_id = slice_skip(row->key, 9),
                                    .flags = row->value.data[0]};
    return true;
}

/* ---- point lookups ---- */

/* A row's value, copied into pool. */
static int copy_value(struct object_store *store, const struct buf *key, struct pool *pool,
                      struct slice *ret) {
    if (key->failed) {
        return -HL_ERR_NOMEM;
    }
    struct directory *directory = store->directory;
    directory_read_lock(directory);
    const struct directory_row *row = directory_row(directory, buf_slice(key));
    int err = row == NULL ? -HL_ERR_NOT_FOUND : 0;
    if (row != NULL) {
        *ret = pool_copy(pool, row->value);
        err = ret->data == NULL ? -HL_ERR_NOMEM : 0;
    }
    directory_unlock(directory);
    return err;
}

int directory_access_key(struct object_store *store, struct slice id, struct pool *pool,
                         struct access_key_record *ret) {
    CLEANUP_BUF struct buf key = {0};
    struct slice value;
    keys_access_key(&key, id);
    int err = copy_value(store, &key, pool, &value);
    if (err < 0) {
        return err == -HL_ERR_NOT_FOUND ? -HL_ERR_NO_SUCH_ACCESS_KEY : err;
    }
    return access_key_record_decode(value, ret);
}

int directory_bucket_by_id(struct object_store *store, uint64_t bucket, struct pool *pool,
                           struct bucket_record *ret) {
    CLEANUP_BUF struct buf key = {0};
    struct slice value;
    keys_bucket(&key, bucket);
    int err = copy_value(store, &key, pool, &value);
    if (err < 0) {
        return err == -HL_ERR_NOT_FOUND ? -HL_ERR_NO_SUCH_BUCKET : err;
    }
    return bucket_record_decode(value, ret);
}

int directory_alias_get(struct object_store *store, struct slice name, struct slice local_to,
                        uint64_t *ret_bucket) {
    CLEANUP_BUF struct buf key = {0};
    if (local_to.size > 0) {
        keys_local_alias(&key, local_to, name);
    } else {
        keys_alias(&key, name);
    }
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    directory_read_lock(store->directory);
    const struct directory_row *row = directory_row(store->directory, buf_slice(&key));
    int err = row == NULL                                         ? -HL_ERR_NO_SUCH_BUCKET
              : directory_parse_bucket_id(row->value, ret_bucket) ? 0
                                                                  : -HL_ERR_CORRUPT;
    directory_unlock(store->directory);
    return err;
}

int directory_bucket(struct object_store *store, struct slice name, struct slice key_id,
                     struct pool *pool, struct bucket_record *ret) {
    uint64_t bucket;
    int err = key_id.size > 0 ? directory_alias_get(store, name, key_id, &bucket)
                              : -HL_ERR_NO_SUCH_BUCKET;
    if (err == -HL_ERR_NO_SUCH_BUCKET) {
        err = directory_alias_get(store, name, SLICE_EMPTY, &bucket);
    }
    return err < 0 ? err : directory_bucket_by_id(store, bucket, pool, ret);
}

uint32_t directory_permission(struct object_store *store, uint64_t bucket, struct slice key_id) {
    CLEANUP_BUF struct buf key = {0};
    struct directory_grant grant = {0};
    keys_permission(&key, bucket, key_id);
    if (key.failed || key_id.size == 0) {
        return 0;
    }
    directory_read_lock(store->directory);
    const struct directory_row *row = directory_row(store->directory, buf_slice(&key));
    if (row != NULL && !directory_parse_grant(row, &grant)) {
        grant.flags = 0;
    }
    directory_unlock(store->directory);
    return grant.flags;
}

/* AWS's rules for general purpose buckets. */
bool directory_bucket_name_valid(struct slice name) {
    if (name.size < 3 || name.size > 63) {
        return false;
    }
    bool address = true; /* looks like an IPv4 address */
    uint32_t dots = 0;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
        uint8_t next = i + 1 < name.size ? name.data[i + 1] : 0;
        if (!letter && !digit && ((c != '-' && c != '.') || i == 0 || next == 0)) {
            return false;
        }
        if ((c == '.' && (next == '.' || next == '-')) || (c == '-' && next == '.')) {
            return false;
        }
        address &= digit || c == '.';
        dots += c == '.';
    }
    return !(address && dots == 3) && !slice_starts_with(name, SLICE_LITERAL("xn--")) &&
           !(name.size > 8 &&
             slice_equal(slice_skip(name, name.size - 8), SLICE_LITERAL("-s3alias")));
}
