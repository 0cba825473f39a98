/* The directory's listings: everything that goes through a table of the cache. Results are copied
 * into the caller's pool. Any thread. */
#include "base/bytes.h"
#include "object/directory_int.h"

/* A growing array in a pool. */
struct list {
    struct pool *pool;
    void *items;
    uint32_t count, capacity;
    size_t item_size;
    bool failed;
};

static void *list_add(struct list *list) {
    if (list->count == list->capacity) {
        uint32_t capacity = MAX(8u, list->capacity * 2);
        void *items = pool_alloc(list->pool, capacity * list->item_size);
        if (items == NULL) {
            list->failed = true;
            return NULL;
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * list->item_size);
        }
        list->items = items;
        list->capacity = capacity;
    }
    void *item = (uint8_t *)list->items + list->count * list->item_size;
    list->count++;
    return item;
}

static struct slice list_copy(struct list *list, struct slice s) {
    struct slice copy = pool_copy(list->pool, s);
    list->failed |= copy.data == NULL;
    return copy;
}

static struct slice table_prefix(const uint8_t *table) {
    return slice_of(table, 1);
}

/* ---- aliases ---- */

static void add_alias(struct list *list, struct slice name, struct slice key_id) {
    struct directory_alias *alias = list_add(list);
    if (alias != NULL) {
        *alias = (struct directory_alias){list_copy(list, name), list_copy(list, key_id)};
    }
}

/* Calls fn for every alias of any bucket; key_id is empty for global ones. */
static void each_alias(const struct directory *directory,
                       void (*fn)(void *arg, uint64_t bucket, struct slice name,
                                  struct slice key_id),
                       void *arg) {
    static const uint8_t global = KEYS_ALIAS, local = KEYS_LOCAL_ALIAS;
    uint64_t bucket;
    size_t first, end = directory_range(directory, table_prefix(&global), &first);
    for (size_t i = first; i < end; i++) {
        const struct directory_row *row = directory->rows[i];
        if (directory_parse_bucket_id(row->value, &bucket)) {
            fn(arg, bucket, slice_skip(row->key, 1), SLICE_EMPTY);
        }
    }
    end = directory_range(directory, table_prefix(&local), &first);
    for (size_t i = first; i < end; i++) {
        const struct directory_row *row = directory->rows[i];
        struct slice key_id, name;
        if (directory_parse_bucket_id(row->value, &bucket) &&
            directory_parse_local(row->key, &key_id, &name)) {
            fn(arg, bucket, name, key_id);
        }
    }
}

struct alias_search {
    struct list list;
    uint64_t bucket;
};

static void alias_of_bucket(void *arg, uint64_t bucket, struct slice name, struct slice key_id) {
    struct alias_search *search = arg;
    if (bucket == search->bucket) {
        add_alias(&search->list, name, key_id);
    }
}

static int compare_aliases(const void *a, const void *b) {
    const struct directory_alias *x = a, *y = b;
    int c = slice_compare(x->name, y->name);
    return c != 0 ? c : slice_compare(x->key_id, y->key_id);
}

int directory_aliases(struct object_store *store, uint64_t bucket, struct pool *pool,
                      struct directory_alias **ret, uint32_t *ret_count) {
    struct alias_search search = {{.pool = pool, .item_size = sizeof(struct directory_alias)},
                                  bucket};
    directory_read_lock(store->directory);
    each_alias(store->directory, alias_of_bucket, &search);
    directory_unlock(store->directory);
    if (search.list.failed) {
        return -HL_ERR_NOMEM;
    }
    if (search.list.count > 1) {
        qsort(search.list.items, search.list.count, sizeof(struct directory_alias),
              compare_aliases);
    }
    *ret = search.list.items;
    *ret_count = search.list.count;
    return 0;
}

/* ---- grants ---- */

static void add_grant(struct list *list, const struct directory_grant *grant) {
    struct directory_grant *item = list_add(list);
    if (item != NULL) {
        *item = *grant;
        item->key_id = list_copy(list, grant->key_id);
    }
}

/* Of a bucket (its prefix), or of a key over all buckets. */
static int grants(struct object_store *store, struct slice prefix, const struct slice *key_id,
                  struct pool *pool, struct directory_grant **ret, uint32_t *ret_count) {
    struct list list = {.pool = pool, .item_size = sizeof(struct directory_grant)};
    struct directory *directory = store->directory;
    directory_read_lock(directory);
    size_t first, end = directory_range(directory, prefix, &first);
    for (size_t i = first; i < end; i++) {
        struct directory_grant grant;
        if (directory_parse_grant(directory->rows[i], &grant) &&
            (key_id == NULL || slice_equal(*key_id, grant.key_id))) {
            add_grant(&list, &grant);
        }
    }
    directory_unlock(directory);
    if (list.failed) {
        return -HL_ERR_NOMEM;
    }
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}

int directory_grants(struct object_store *store, uint64_t bucket, struct pool *pool,
                     struct directory_grant **ret, uint32_t *ret_count) {
    uint8_t prefix[9] = {KEYS_PERMISSION};
    put_be64(prefix + 1, bucket);
    return grants(store, slice_of(prefix, sizeof(prefix)), NULL, pool, ret, ret_count);
}

int directory_key_grants(struct object_store *store, struct slice key_id, struct pool *pool,
                         struct directory_grant **ret, uint32_t *ret_count) {
    static const uint8_t table = KEYS_PERMISSION;
    return grants(store, table_prefix(&table), &key_id, pool, ret, ret_count);
}

/* ---- buckets and keys ---- */

int directory_buckets(struct object_store *store, struct pool *pool, struct bucket_record **ret,
                      uint32_t *ret_count) {
    static const uint8_t table = KEYS_BUCKET;
    struct list list = {.pool = pool, .item_size = sizeof(struct bucket_record)};
    struct directory *directory = store->directory;
    int err = 0;
    directory_read_lock(directory);
    size_t first, end = directory_range(directory, table_prefix(&table), &first);
    for (size_t i = first; i < end && err == 0; i++) {
        struct bucket_record *record = list_add(&list);
        struct slice value = list_copy(&list, directory->rows[i]->value);
        err = list.failed ? -HL_ERR_NOMEM : bucket_record_decode(value, record);
    }
    directory_unlock(directory);
    if (err < 0) {
        return err;
    }
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}

int directory_access_keys(struct object_store *store, struct pool *pool,
                          struct access_key_record **ret, uint32_t *ret_count) {
    static const uint8_t table = KEYS_ACCESS_KEY;
    struct list list = {.pool = pool, .item_size = sizeof(struct access_key_record)};
    struct directory *directory = store->directory;
    int err = 0;
    directory_read_lock(directory);
    size_t first, end = directory_range(directory, table_prefix(&table), &first);
    for (size_t i = first; i < end && err == 0; i++) {
        struct access_key_record *record = list_add(&list);
        struct slice value = list_copy(&list, directory->rows[i]->value);
        err = list.failed ? -HL_ERR_NOMEM : access_key_record_decode(value, record);
    }
    directory_unlock(directory);
    if (err < 0) {
        return err;
    }
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}

/* ---- S3's ListBuckets ---- */

struct visible_search {
    struct list list;
    const struct directory *directory;
    struct slice key_id, prefix, after;
};

static bool permitted(const struct visible_search *search, uint64_t bucket) {
    CLEANUP_BUF struct buf key = {0};
    struct directory_grant grant;
    keys_permission(&key, bucket, search->key_id);
    const struct directory_row *row =
        key.failed ? NULL : directory_row(search->directory, buf_slice(&key));
    return row != NULL && directory_parse_grant(row, &grant) && grant.flags != 0;
}

static int64_t created_ms(const struct directory *directory, uint64_t bucket) {
    CLEANUP_BUF struct buf key = {0};
    struct bucket_record record;
    keys_bucket(&key, bucket);
    const struct directory_row *row = key.failed ? NULL : directory_row(directory, buf_slice(&key));
    return row != NULL && bucket_record_decode(row->value, &record) == 0 ? record.created_ms : 0;
}

static void visible_alias(void *arg, uint64_t bucket, struct slice name, struct slice key_id) {
    struct visible_search *search = arg;
    if ((key_id.size > 0 && !slice_equal(key_id, search->key_id)) ||
        !slice_starts_with(name, search->prefix) || slice_compare(name, search->after) <= 0 ||
        !permitted(search, bucket)) {
        return;
    }
    struct directory_listed *item = list_add(&search->list);
    if (item != NULL) {
        *item = (struct directory_listed){list_copy(&search->list, name), bucket,
                                          created_ms(search->directory, bucket)};
    }
}

static int compare_listed(const void *a, const void *b) {
    const struct directory_listed *x = a, *y = b;
    return slice_compare(x->name, y->name);
}

/* A local alias hides a global one of the same name. Local ones were found last. */
static uint32_t drop_hidden(struct object_store *store, struct slice key_id,
                            struct directory_listed *items, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && slice_equal(items[kept - 1].name, items[i].name)) {
            uint64_t bucket;
            if (directory_alias_get(store, items[i].name, key_id, &bucket) == 0 &&
                bucket == items[i].bucket) {
                items[kept - 1] = items[i];
            }
            continue;
        }
        items[kept++] = items[i];
    }
    return kept;
}

int directory_list(struct object_store *store, struct slice key_id, struct slice prefix,
                   struct slice after, uint32_t count_max, struct pool *pool,
                   struct directory_listed **ret, uint32_t *ret_count, bool *ret_truncated) {
    struct visible_search search = {{.pool = pool, .item_size = sizeof(struct directory_listed)},
                                    store->directory,
                                    key_id,
                                    prefix,
                                    after};
    if (key_id.size > 0) {
        directory_read_lock(store->directory);
        each_alias(store->directory, visible_alias, &search);
        directory_unlock(store->directory);
    }
    if (search.list.failed) {
        return -HL_ERR_NOMEM;
    }
    if (search.list.count > 1) {
        qsort(search.list.items, search.list.count, sizeof(struct directory_listed),
              compare_listed);
    }
    uint32_t count = drop_hidden(store, key_id, search.list.items, search.list.count);
    *ret = search.list.items;
    *ret_count = MIN(count, count_max);
    *ret_truncated = count > count_max;
    return 0;
}

/* ---- numbers ---- */

static int counter(struct object_store *store, uint64_t bucket, enum keys_counter which,
                   int64_t *ret) {
    CLEANUP_BUF struct buf key = {0};
    keys_counter(&key, bucket, which);
    return key.failed ? -HL_ERR_NOMEM : kv_get_counter(store->kv, KV_META, buf_slice(&key), ret);
}

int directory_usage(struct object_store *store, uint64_t bucket, struct directory_usage *ret) {
    struct directory_usage usage;
    int err = counter(store, bucket, KEYS_COUNT_OBJECTS, &usage.objects);
    if (err == 0) {
        err = counter(store, bucket, KEYS_COUNT_BYTES, &usage.bytes);
    }
    if (err == 0) {
        err = counter(store, bucket, KEYS_COUNT_UPLOADS, &usage.uploads);
    }
    if (err == 0) {
        err = counter(store, bucket, KEYS_COUNT_UPLOAD_BYTES, &usage.upload_bytes);
    }
    if (err == 0) {
        *ret = usage;
    }
    return err;
}

void directory_totals(struct object_store *store, struct directory_usage *ret) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct bucket_record *buckets;
    uint32_t count;
    *ret = (struct directory_usage){0};
    if (pool == NULL || directory_buckets(store, pool, &buckets, &count) < 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct directory_usage usage;
        if (directory_usage(store, buckets[i].id, &usage) == 0) {
            ret->objects += usage.objects;
            ret->bytes += usage.bytes;
            ret->uploads += usage.uploads;
            ret->upload_bytes += usage.upload_bytes;
        }
    }
}

bool directory_origin(struct slice origin_key, uint64_t *ret_bucket, struct slice *ret_key) {
    return keys_parse_object(origin_key, ret_bucket, ret_key);
}
