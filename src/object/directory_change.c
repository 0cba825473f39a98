/* Changes of the directory: buckets, aliases, quotas, permissions, access keys. Each is one
 * transaction. Rows that say which buckets there are and how they are called are kept in the
 * volumes too (put_config), so that a rebuild brings them back; secrets and permissions are not.
 *
 * Latches. The row that changes is held exclusively. Whatever belongs to a bucket is changed under
 * its bucket row, whatever belongs to an access key under that key's row, shared or exclusive; so
 * deleting either finds everything that belongs to it and nothing comes in between. Under latches
 * the cache is exact: it is told of a change before the latches of its writer are released. */
#include "base/bytes.h"
#include "base/text.h"
#include "object/directory_int.h"

struct change_op {
    struct object_op op;
    uint64_t bucket;
    struct slice name, key_id, location;
    uint64_t quota_bytes, quota_objects;
    uint32_t set, clear;
    const struct access_key_record *record;
    bool replace;
};

static struct change_op *change_new(struct object_store *store, object_op_fn fn, struct pool *pool,
                                    struct executor *home, object_done_fn done, void *arg) {
    struct change_op *c = POOL_NEW(pool, struct change_op);
    CHECK(c != NULL); /* without it no refusal could be delivered either */
    object_op_init(&c->op, store, pool, home, done, arg);
    c->op.fn = fn;
    return c;
}

static struct change_op *change_of(struct object_op *op) {
    return CONTAINER_OF(op, struct change_op, op);
}

static void latch(struct object_op *op, struct buf *key, enum meta_latch_mode mode) {
    op->unknown_latch |= key->failed;
    object_op_latch(op, buf_slice(key), mode);
    buf_done(key);
}

static void latch_bucket(struct object_op *op, uint64_t bucket, enum meta_latch_mode mode) {
    struct buf key = {0};
    keys_bucket(&key, bucket);
    latch(op, &key, mode);
}

static void latch_access_key(struct object_op *op, struct slice id, enum meta_latch_mode mode) {
    struct buf key = {0};
    if (id.size > 0) {
        keys_access_key(&key, id);
        latch(op, &key, mode);
    }
}

static void alias_key(struct buf *out, struct slice name, struct slice local_to) {
    if (local_to.size > 0) {
        keys_local_alias(out, local_to, name);
    } else {
        keys_alias(out, name);
    }
}

static void latch_alias(struct object_op *op, struct slice name, struct slice local_to) {
    struct buf key = {0};
    alias_key(&key, name, local_to);
    latch(op, &key, META_EXCLUSIVE);
}

static int put_alias(struct meta_txn *txn, struct slice name, struct slice local_to,
                     uint64_t bucket) {
    CLEANUP_BUF struct buf key = {0};
    uint8_t value[8];
    put_be64(value, bucket);
    alias_key(&key, name, local_to);
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put_config(txn, buf_slice(&key), slice_of(value, sizeof(value)));
    return 0;
}

static int delete_alias(struct meta_txn *txn, struct slice name, struct slice local_to) {
    CLEANUP_BUF struct buf key = {0};
    alias_key(&key, name, local_to);
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put_config(txn, buf_slice(&key), SLICE_EMPTY);
    return 0;
}

static int put_bucket(struct meta_txn *txn, const struct bucket_record *record) {
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_BUF struct buf value = {0};
    keys_bucket(&key, record->id);
    bucket_record_encode(&value, record);
    if (key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put_config(txn, buf_slice(&key), buf_slice(&value));
    return 0;
}

/* 0 flags: no row. */
static int put_permission(struct meta_txn *txn, uint64_t bucket, struct slice key_id,
                          uint32_t flags) {
    CLEANUP_BUF struct buf key = {0};
    uint8_t value = (uint8_t)flags;
    keys_permission(&key, bucket, key_id);
    if (key.failed) {
        return -HL_ERR_NOMEM;
    }
    if (flags == 0) {
        meta_txn_delete(txn, buf_slice(&key));
    } else {
        meta_txn_put(txn, buf_slice(&key), slice_of(&value, 1));
    }
    return 0;
}

static int check_access_key(struct object_op *op, struct slice id) {
    struct access_key_record record;
    return id.size == 0 ? 0 : directory_access_key(op->store, id, op->pool, &record);
}

/* ---- creating a bucket ---- */

/* The next id; under the exclusive latch of its row. */
static int next_bucket_id(struct object_op *op, struct meta_txn *txn, uint64_t *ret) {
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_KV_VALUE struct kv_value value = {0};
    uint64_t next = 1;
    uint8_t bytes[8];
    keys_system(&key, "bucket_next");
    int err = key.failed ? -HL_ERR_NOMEM : meta_get(op->store->meta, buf_slice(&key), &value);
    if (err < 0 && err != -HL_ERR_NOT_FOUND) {
        return err;
    }
    if (err == 0 && !directory_parse_bucket_id(value.data, &next)) {
        return -HL_ERR_CORRUPT;
    }
    put_be64(bytes, next + 1);
    meta_txn_put(txn, buf_slice(&key), slice_of(bytes, sizeof(bytes)));
    *ret = next;
    return 0;
}

static int name_taken(struct object_op *op, struct slice owner, uint64_t bucket) {
    struct bucket_record record;
    bool owned = owner.size > 0 &&
                 directory_bucket_by_id(op->store, bucket, op->pool, &record) == 0 &&
                 (slice_equal(record.owner, owner) ||
                  (directory_permission(op->store, bucket, owner) & PERMISSION_OWNER) != 0);
    return owned ? -HL_ERR_BUCKET_OWNED : -HL_ERR_BUCKET_EXISTS;
}

static int create_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    uint64_t there;
    int err = directory_alias_get(op->store, c->name, c->key_id, &there);
    if (err == 0) {
        return name_taken(op, c->record->id, there);
    }
    if (err != -HL_ERR_NO_SUCH_BUCKET) {
        return err;
    }
    struct slice owner = c->record->id;
    struct bucket_record record = {.created_ms = os_wall_ms(op->store->env->clock),
                                   .name = c->name,
                                   .owner = owner,
                                   .location = c->location};
    err = object_admit(op->store, 0);
    if (err == 0) {
        err = check_access_key(op, owner);
    }
    if (err == 0) {
        err = check_access_key(op, c->key_id);
    }
    if (err == 0) {
        err = next_bucket_id(op, txn, &record.id);
    }
    if (err == 0) {
        err = put_bucket(txn, &record);
    }
    if (err == 0) {
        err = put_alias(txn, c->name, c->key_id, record.id);
    }
    if (err == 0 && owner.size > 0) {
        err = put_permission(txn, record.id, owner,
                             PERMISSION_READ | PERMISSION_WRITE | PERMISSION_OWNER);
    }
    return err;
}

void directory_bucket_create(struct object_store *store, struct slice name, struct slice local_to,
                             struct slice owner, struct slice location, struct pool *pool,
                             struct executor *home, object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, create_txn, pool, home, done, arg);
    struct access_key_record *record = POOL_NEW(pool, struct access_key_record);
    if (record == NULL || !directory_bucket_name_valid(name)) {
        object_op_end(&c->op, record == NULL ? -HL_ERR_NOMEM : -HL_ERR_BUCKET_NAME);
        return;
    }
    record->id = owner;
    c->record = record;
    c->name = name;
    c->key_id = local_to;
    c->location = location;
    struct buf key = {0};
    keys_system(&key, "bucket_next");
    latch(&c->op, &key, META_EXCLUSIVE);
    latch_alias(&c->op, name, local_to);
    latch_access_key(&c->op, owner, META_SHARED);
    latch_access_key(&c->op, local_to, META_SHARED);
    object_op_run(&c->op);
}

/* ---- deleting a bucket ---- */

static int check_no_rows(struct object_op *op, struct slice prefix) {
    CLEANUP_BUF struct buf end = {0};
    keys_prefix_end(&end, prefix);
    CLEANUP_KV_ITER struct kv_iter *iter =
        kv_iter_new(op->store->kv, KV_META, prefix, buf_slice(&end));
    if (iter == NULL || end.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_iter_seek_first(iter);
    return kv_iter_valid(iter) ? -HL_ERR_BUCKET_NOT_EMPTY : kv_iter_error(iter);
}

static int check_empty(struct object_op *op, uint64_t bucket) {
    CLEANUP_BUF struct buf objects = {0};
    CLEANUP_BUF struct buf uploads = {0};
    keys_object(&objects, bucket, SLICE_EMPTY);
    keys_upload_bucket(&uploads, bucket);
    if (objects.failed || uploads.failed) {
        return -HL_ERR_NOMEM;
    }
    int err = check_no_rows(op, buf_slice(&objects));
    return err < 0 ? err : check_no_rows(op, buf_slice(&uploads));
}

static int delete_counters(struct meta_txn *txn, uint64_t bucket) {
    static const enum keys_counter counters[] = {KEYS_COUNT_OBJECTS, KEYS_COUNT_BYTES,
                                                 KEYS_COUNT_UPLOADS, KEYS_COUNT_UPLOAD_BYTES};
    CLEANUP_BUF struct buf key = {0};
    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        buf_clear(&key);
        keys_counter(&key, bucket, counters[i]);
        if (key.failed) {
            return -HL_ERR_NOMEM;
        }
        meta_txn_delete(txn, buf_slice(&key));
    }
    return 0;
}

/* Aliases, permissions, counters, the row itself. */
static int delete_rows(struct object_op *op, struct meta_txn *txn, uint64_t bucket) {
    struct directory_alias *aliases;
    struct directory_grant *grants;
    uint32_t alias_count, grant_count;
    CLEANUP_BUF struct buf key = {0};
    int err = directory_aliases(op->store, bucket, op->pool, &aliases, &alias_count);
    if (err == 0) {
        err = directory_grants(op->store, bucket, op->pool, &grants, &grant_count);
    }
    for (uint32_t i = 0; err == 0 && i < alias_count; i++) {
        err = delete_alias(txn, aliases[i].name, aliases[i].key_id);
    }
    for (uint32_t i = 0; err == 0 && i < grant_count; i++) {
        err = put_permission(txn, bucket, grants[i].key_id, 0);
    }
    if (err == 0) {
        err = delete_counters(txn, bucket);
    }
    keys_bucket(&key, bucket);
    if (err < 0 || key.failed) {
        return err < 0 ? err : -HL_ERR_NOMEM;
    }
    meta_txn_put_config(txn, buf_slice(&key), SLICE_EMPTY);
    return 0;
}

static int delete_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct bucket_record record;
    int err = directory_bucket_by_id(op->store, c->bucket, op->pool, &record);
    if (err == 0) {
        err = check_empty(op, c->bucket);
    }
    return err < 0 ? err : delete_rows(op, txn, c->bucket);
}

void directory_bucket_delete(struct object_store *store, uint64_t bucket, struct pool *pool,
                             struct executor *home, object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, delete_txn, pool, home, done, arg);
    c->bucket = bucket;
    latch_bucket(&c->op, bucket, META_EXCLUSIVE);
    object_op_run(&c->op);
}

/* ---- aliases ---- */

static int alias_add_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct bucket_record record;
    uint64_t there;
    int err = directory_bucket_by_id(op->store, c->bucket, op->pool, &record);
    if (err == 0) {
        err = check_access_key(op, c->key_id);
    }
    if (err < 0) {
        return err;
    }
    err = directory_alias_get(op->store, c->name, c->key_id, &there);
    if (err == 0) {
        return there == c->bucket ? 0 : -HL_ERR_BUCKET_EXISTS;
    }
    if (err != -HL_ERR_NO_SUCH_BUCKET) {
        return err;
    }
    return put_alias(txn, c->name, c->key_id, c->bucket);
}

void directory_alias_add(struct object_store *store, uint64_t bucket, struct slice name,
                         struct slice local_to, struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, alias_add_txn, pool, home, done, arg);
    c->bucket = bucket;
    c->name = name;
    c->key_id = local_to;
    if (!directory_bucket_name_valid(name)) {
        object_op_end(&c->op, -HL_ERR_BUCKET_NAME);
        return;
    }
    latch_bucket(&c->op, bucket, META_EXCLUSIVE);
    latch_alias(&c->op, name, local_to);
    latch_access_key(&c->op, local_to, META_SHARED);
    object_op_run(&c->op);
}

static int alias_remove_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct directory_alias *aliases;
    uint32_t count;
    uint64_t there;
    int err = directory_alias_get(op->store, c->name, c->key_id, &there);
    if (err == 0 && there != c->bucket) {
        err = -HL_ERR_NO_SUCH_BUCKET;
    }
    if (err == 0) {
        err = directory_aliases(op->store, c->bucket, op->pool, &aliases, &count);
    }
    if (err < 0) {
        return err;
    }
    return count <= 1 ? -HL_ERR_INVALID_REQUEST : delete_alias(txn, c->name, c->key_id);
}

void directory_alias_remove(struct object_store *store, uint64_t bucket, struct slice name,
                            struct slice local_to, struct pool *pool, struct executor *home,
                            object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, alias_remove_txn, pool, home, done, arg);
    c->bucket = bucket;
    c->name = name;
    c->key_id = local_to;
    latch_bucket(&c->op, bucket, META_EXCLUSIVE);
    latch_alias(&c->op, name, local_to);
    object_op_run(&c->op);
}

/* ---- quotas and permissions ---- */

static int quota_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct bucket_record record;
    int err = directory_bucket_by_id(op->store, c->bucket, op->pool, &record);
    if (err < 0) {
        return err;
    }
    record.quota_bytes = c->quota_bytes;
    record.quota_objects = c->quota_objects;
    return put_bucket(txn, &record);
}

void directory_quota_set(struct object_store *store, uint64_t bucket, uint64_t bytes_max,
                         uint64_t objects_max, struct pool *pool, struct executor *home,
                         object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, quota_txn, pool, home, done, arg);
    c->bucket = bucket;
    c->quota_bytes = bytes_max;
    c->quota_objects = objects_max;
    latch_bucket(&c->op, bucket, META_EXCLUSIVE);
    object_op_run(&c->op);
}

static int permission_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct bucket_record record;
    int err = directory_bucket_by_id(op->store, c->bucket, op->pool, &record);
    if (err == 0) {
        err = check_access_key(op, c->key_id);
    }
    if (err < 0) {
        return err;
    }
    uint32_t flags = directory_permission(op->store, c->bucket, c->key_id);
    return put_permission(txn, c->bucket, c->key_id, (flags & ~c->clear) | c->set);
}

void directory_permission_set(struct object_store *store, uint64_t bucket, struct slice key_id,
                              uint32_t set, uint32_t clear, struct pool *pool,
                              struct executor *home, object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, permission_txn, pool, home, done, arg);
    struct buf key = {0};
    c->bucket = bucket;
    c->key_id = key_id;
    c->set = set;
    c->clear = clear;
    if (key_id.size == 0) {
        object_op_end(&c->op, -HL_ERR_NO_SUCH_ACCESS_KEY);
        return;
    }
    keys_permission(&key, bucket, key_id);
    latch_bucket(&c->op, bucket, META_SHARED);
    latch_access_key(&c->op, key_id, META_SHARED);
    latch(&c->op, &key, META_EXCLUSIVE);
    object_op_run(&c->op);
}

/* ---- access keys ---- */

static int key_put_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct access_key_record there;
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_BUF struct buf value = {0};
    int err = directory_access_key(op->store, c->record->id, op->pool, &there);
    if (err == 0 && !c->replace) {
        return -HL_ERR_EXISTS;
    }
    if (err < 0 && err != -HL_ERR_NO_SUCH_ACCESS_KEY) {
        return err;
    }
    keys_access_key(&key, c->record->id);
    access_key_record_encode(&value, c->record);
    if (key.failed || value.failed) {
        return -HL_ERR_NOMEM;
    }
    meta_txn_put(txn, buf_slice(&key), buf_slice(&value));
    return 0;
}

void directory_access_key_put(struct object_store *store, const struct access_key_record *record,
                              bool replace, struct pool *pool, struct executor *home,
                              object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, key_put_txn, pool, home, done, arg);
    struct access_key_record *copy = POOL_NEW(pool, struct access_key_record);
    /* A zero byte would end the id in the rows of local aliases. */
    bool bad = record->id.size == 0 || memchr(record->id.data, 0, record->id.size) != NULL;
    if (copy == NULL || bad) {
        object_op_end(&c->op, bad ? -HL_ERR_INVALID : -HL_ERR_NOMEM);
        return;
    }
    *copy = *record;
    c->record = copy;
    c->replace = replace;
    latch_access_key(&c->op, record->id, META_EXCLUSIVE);
    object_op_run(&c->op);
}

/* Local aliases of the key, over all buckets. */
static int delete_local_aliases(struct object_op *op, struct meta_txn *txn, struct slice id) {
    CLEANUP_BUF struct buf prefix = {0};
    keys_local_alias(&prefix, id, SLICE_EMPTY);
    if (prefix.failed) {
        return -HL_ERR_NOMEM;
    }
    struct directory *directory = op->store->directory;
    directory_read_lock(directory);
    size_t first, end = directory_range(directory, buf_slice(&prefix), &first);
    for (size_t i = first; i < end; i++) {
        meta_txn_put_config(txn, directory->rows[i]->key, SLICE_EMPTY);
    }
    directory_unlock(directory);
    return 0;
}

static int key_delete_txn(struct object_op *op, struct meta_txn *txn) {
    struct change_op *c = change_of(op);
    struct access_key_record record;
    struct directory_grant *grants;
    uint32_t count;
    CLEANUP_BUF struct buf key = {0};
    int err = directory_access_key(op->store, c->key_id, op->pool, &record);
    if (err == 0) {
        err = directory_key_grants(op->store, c->key_id, op->pool, &grants, &count);
    }
    for (uint32_t i = 0; err == 0 && i < count; i++) {
        err = put_permission(txn, grants[i].bucket, c->key_id, 0);
    }
    if (err == 0) {
        err = delete_local_aliases(op, txn, c->key_id);
    }
    keys_access_key(&key, c->key_id);
    if (err < 0 || key.failed) {
        return err < 0 ? err : -HL_ERR_NOMEM;
    }
    meta_txn_delete(txn, buf_slice(&key));
    return 0;
}

void directory_access_key_delete(struct object_store *store, struct slice id, struct pool *pool,
                                 struct executor *home, object_done_fn done, void *arg) {
    struct change_op *c = change_new(store, key_delete_txn, pool, home, done, arg);
    c->key_id = id;
    latch_access_key(&c->op, id, META_EXCLUSIVE);
    object_op_run(&c->op);
}

void directory_access_key_generate(struct object_store *store, struct pool *pool,
                                   struct slice *ret_id, struct slice *ret_secret) {
    uint8_t random[12 + 32];
    char id[25], secret[65];
    os_random_bytes(store->env->random, random, sizeof(random));
    hex_encode(random, 12, id);
    hex_encode(random + 12, 32, secret);
    *ret_id = slice_str(pool_printf(pool, "GK%s", id));
    *ret_secret = slice_str(pool_printf(pool, "%s", secret));
    wipe(random, sizeof(random));
    wipe(secret, sizeof(secret));
}
