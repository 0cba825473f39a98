/* Listings: objects and uploads in the byte order of their keys, with common prefixes. A common
 * prefix costs one seek, whatever lies under it; memory is one page of items. Synchronous, on a
 * worker; a listing sees the state at its start. */
#include "object/object_int.h"

/* The common prefix of a key, when the delimiter occurs in it behind the prefix. */
static bool common_prefix(struct slice key, struct slice prefix, struct slice delimiter,
                          struct slice *ret) {
    if (delimiter.size == 0) {
        return false;
    }
    struct slice rest = slice_skip(key, prefix.size);
    const uint8_t *found = memmem(rest.data, rest.size, delimiter.data, delimiter.size);
    if (found == NULL) {
        return false;
    }
    *ret = slice_of(key.data, (size_t)(found - key.data) + delimiter.size);
    return true;
}

/* ---- objects ---- */

struct lister {
    struct object_store *store;
    const struct object_list_args *args;
    struct pool *pool;
    struct kv_iter *iter;
    struct object_list list;
    struct buf seek;
};

/* Only what a listing shows, owned by the pool. */
static int add_object(struct lister *l, struct slice key) {
    struct object_record peeked;
    int err = object_record_peek(kv_iter_value(l->iter), &peeked);
    if (err < 0) {
        char name[OBJECT_BUCKET_TEXT];
        object_bucket_text(l->store, l->args->bucket, name);
        LOG_ERROR("object", "the row of bucket %s, key \"%.*s\" is damaged: %s", name,
                  SLICE_PRINT(key), error_text(err));
        return err;
    }
    struct object_list_item *item = &l->list.items[l->list.count];
    *item = (struct object_list_item){.key = pool_copy(l->pool, key),
                                      .record = {.sequence = peeked.sequence,
                                                 .modified_ms = peeked.modified_ms,
                                                 .size = peeked.size,
                                                 .etag = peeked.etag,
                                                 .checksum = peeked.checksum,
                                                 .multipart = peeked.multipart,
                                                 .owner = pool_copy(l->pool, peeked.owner)}};
    if (peeked.headers.storage_class.size > 0) {
        item->record.headers.storage_class = pool_copy(l->pool, peeked.headers.storage_class);
    }
    if (item->key.data == NULL || item->record.owner.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    l->list.count++;
    return 0;
}

static int add_prefix(struct lister *l, struct slice prefix) {
    struct object_list_item *item = &l->list.items[l->list.count];
    *item = (struct object_list_item){.is_prefix = true, .key = pool_copy(l->pool, prefix)};
    if (item->key.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    l->list.count++;
    return 0;
}

/* To the first row behind everything that starts with prefix. */
static int seek_behind(struct lister *l, struct slice prefix) {
    CLEANUP_BUF struct buf row = {0};
    keys_object(&row, l->args->bucket, prefix);
    buf_clear(&l->seek);
    keys_prefix_end(&l->seek, buf_slice(&row));
    if (row.failed || l->seek.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_iter_seek(l->iter, buf_slice(&l->seek));
    return 0;
}

static int seek_start(struct lister *l) {
    struct slice after = l->args->after;
    if (after.size == 0 || slice_compare(after, l->args->prefix) < 0) {
        /* An `after` below the prefix skips nothing, unless it is itself a prefix of the prefix. */
        bool all_skipped =
            after.size > 0 && l->args->after_is_prefix && slice_starts_with(l->args->prefix, after);
        if (!all_skipped) {
            kv_iter_seek_first(l->iter);
            return 0;
        }
    }
    if (l->args->after_is_prefix) {
        return seek_behind(l, after);
    }
    buf_clear(&l->seek);
    keys_object(&l->seek, l->args->bucket, after);
    buf_append_u8(&l->seek, 0);
    if (l->seek.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_iter_seek(l->iter, buf_slice(&l->seek));
    return 0;
}

static int fill(struct lister *l) {
    int err = seek_start(l);
    while (err == 0 && kv_iter_valid(l->iter)) {
        uint64_t bucket;
        struct slice key, prefix;
        if (!keys_parse_object(kv_iter_key(l->iter), &bucket, &key)) {
            return -HL_ERR_CORRUPT;
        }
        if (l->list.count == l->args->count_max) {
            l->list.truncated = true;
            break;
        }
        if (common_prefix(key, l->args->prefix, l->args->delimiter, &prefix)) {
            err = add_prefix(l, prefix);
            if (err == 0) {
                err = seek_behind(l, l->list.items[l->list.count - 1].key);
            }
        } else {
            err = add_object(l, key);
            kv_iter_next(l->iter);
        }
    }
    return err < 0 ? err : kv_iter_error(l->iter);
}

int object_list(struct object_store *store, const struct object_list_args *args, struct pool *pool,
                struct object_list *ret) {
    CLEANUP_BUF struct buf lower = {0};
    CLEANUP_BUF struct buf upper = {0};
    struct lister l = {.store = store, .args = args, .pool = pool};
    if (args->count_max == 0) {
        *ret = l.list;
        return 0;
    }
    keys_object(&lower, args->bucket, args->prefix);
    keys_prefix_end(&upper, buf_slice(&lower));
    l.list.items = pool_alloc(pool, args->count_max * sizeof(*l.list.items));
    if (l.list.items == NULL || lower.failed || upper.failed) {
        return -HL_ERR_NOMEM;
    }
    l.iter = kv_iter_new(store->kv, KV_META, buf_slice(&lower), buf_slice(&upper));
    int err = l.iter == NULL ? -HL_ERR_NOMEM : fill(&l);
    kv_iter_free(l.iter);
    buf_done(&l.seek);
    if (err < 0) {
        return err;
    }
    if (l.list.truncated) {
        const struct object_list_item *last = &l.list.items[l.list.count - 1];
        l.list.next = last->key;
        l.list.next_is_prefix = last->is_prefix;
    }
    *ret = l.list;
    return 0;
}

/* ---- uploads ---- */

struct upload_lister {
    const struct object_upload_list_args *args;
    struct pool *pool;
    struct kv_iter *iter;
    struct object_upload_list list;
};

/* The rows of uploads of keys that start with prefix: an escaped key without its end mark. */
static void upload_rows(struct buf *out, uint64_t bucket, struct slice prefix) {
    keys_upload(out, bucket, prefix, NULL);
    if (!out->failed) {
        out->size -= 2;
    }
}

static int upload_seek_behind(struct upload_lister *l, const struct buf *rows) {
    CLEANUP_BUF struct buf end = {0};
    keys_prefix_end(&end, buf_slice(rows));
    if (rows->failed || end.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_iter_seek(l->iter, buf_slice(&end));
    return 0;
}

static int upload_seek_start(struct upload_lister *l) {
    struct slice marker = l->args->key_marker, prefix;
    CLEANUP_BUF struct buf row = {0};
    if (marker.size == 0 || slice_compare(marker, l->args->prefix) < 0) {
        kv_iter_seek_first(l->iter);
        return 0;
    }
    bool under = slice_starts_with(marker, l->args->prefix);
    if (under && common_prefix(marker, l->args->prefix, l->args->delimiter, &prefix) &&
        prefix.size == marker.size) {
        upload_rows(&row, l->args->bucket, marker); /* the last page ended with a common prefix */
        return upload_seek_behind(l, &row);
    }
    keys_upload(&row, l->args->bucket, marker, l->args->upload_id_marker);
    if (l->args->upload_id_marker == NULL) {
        return upload_seek_behind(l, &row); /* behind all uploads of that very key */
    }
    buf_append_u8(&row, 0);
    if (row.failed) {
        return -HL_ERR_NOMEM;
    }
    kv_iter_seek(l->iter, buf_slice(&row));
    return 0;
}

static int add_upload(struct upload_lister *l, struct slice key, const uint8_t *upload_id) {
    struct object_upload_item *item = &l->list.items[l->list.count];
    struct slice value = pool_copy(l->pool, kv_iter_value(l->iter));
    *item = (struct object_upload_item){.key = key};
    memcpy(item->upload_id, upload_id, sizeof(item->upload_id));
    if (value.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    int err = upload_record_decode(value, l->pool, &item->record);
    if (err < 0) {
        return err;
    }
    l->list.count++;
    return 0;
}

static int upload_step(struct upload_lister *l) {
    CLEANUP_BUF struct buf key = {0};
    CLEANUP_BUF struct buf rows = {0};
    const uint8_t *upload_id;
    uint64_t bucket;
    struct slice prefix;
    if (!keys_parse_upload(kv_iter_key(l->iter), &bucket, &key, &upload_id)) {
        return -HL_ERR_CORRUPT;
    }
    bool rolled = common_prefix(buf_slice(&key), l->args->prefix, l->args->delimiter, &prefix);
    struct slice name = pool_copy(l->pool, rolled ? prefix : buf_slice(&key));
    if (name.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    if (!rolled) {
        int err = add_upload(l, name, upload_id);
        kv_iter_next(l->iter);
        return err;
    }
    l->list.items[l->list.count++] = (struct object_upload_item){.is_prefix = true, .key = name};
    upload_rows(&rows, bucket, name);
    return upload_seek_behind(l, &rows);
}

static int upload_fill(struct upload_lister *l) {
    int err = upload_seek_start(l);
    while (err == 0 && kv_iter_valid(l->iter)) {
        if (l->list.count == l->args->count_max) {
            l->list.truncated = true;
            break;
        }
        err = upload_step(l);
    }
    return err < 0 ? err : kv_iter_error(l->iter);
}

int object_upload_list(struct object_store *store, const struct object_upload_list_args *args,
                       struct pool *pool, struct object_upload_list *ret) {
    CLEANUP_BUF struct buf lower = {0};
    CLEANUP_BUF struct buf upper = {0};
    struct upload_lister l = {.args = args, .pool = pool};
    if (args->count_max == 0) {
        *ret = l.list;
        return 0;
    }
    upload_rows(&lower, args->bucket, args->prefix);
    keys_prefix_end(&upper, buf_slice(&lower));
    l.list.items = pool_alloc(pool, args->count_max * sizeof(*l.list.items));
    if (l.list.items == NULL || lower.failed || upper.failed) {
        return -HL_ERR_NOMEM;
    }
    l.iter = kv_iter_new(store->kv, KV_META, buf_slice(&lower), buf_slice(&upper));
    int err = l.iter == NULL ? -HL_ERR_NOMEM : upload_fill(&l);
    kv_iter_free(l.iter);
    if (err < 0) {
        return err;
    }
    if (l.list.truncated) {
        const struct object_upload_item *last = &l.list.items[l.list.count - 1];
        l.list.next_key = last->key;
        memcpy(l.list.next_upload_id, last->upload_id, sizeof(last->upload_id));
    }
    *ret = l.list;
    return 0;
}
