/* kv.h in memory: the twin for simulation, and the oracle for the other one.
 *
 * Each space is a persistent treap: a change copies the path to the root and shares the rest, so
 * every version stays whole for as long as somebody holds its root. That makes snapshots, iterators
 * and the history of a disk that forgets one and the same thing: a kept root. Priorities are hashes
 * of the keys, so the shape depends on the content alone and runs repeat exactly. Recursion goes as
 * deep as the tree (about 2 log2 n), never as deep as an input says.
 *
 * The disk keeps the version of the last flush and one after each write since. Any thread: a lock
 * guards the current version, reference counts are atomic, nodes and entries never change. Out of
 * memory stops the program: this is no production store. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/macros.h"
#include "kv/kv_int.h"

struct entry {
    _Atomic uint32_t refs;
    size_t key_size;
    size_t value_size;
    uint8_t data[]; /* key, value */
};

struct node {
    _Atomic uint32_t refs;
    uint32_t priority;
    uint64_t count; /* of the subtree */
    struct entry *entry;
    struct node *left;
    struct node *right;
};

/* A state of the whole store; owns its roots. */
struct version {
    struct node *roots[KV_SPACE_COUNT];
};

struct kv_mem_disk {
    struct version *history; /* [0]: the last flush, then one a write */
    size_t count;
    size_t capacity;
};

struct kv_mem {
    struct kv kv;
    struct kv_mem_disk *disk;
    pthread_mutex_t lock; /* guards the disk's history, whose last version is the current one */
};

enum op_kind { OP_PUT, OP_DELETE, OP_DELETE_RANGE, OP_ADD };

struct mem_batch {
    struct kv_batch batch;
    struct buf ops; /* each: kind, space, two blobs */
};

struct mem_iter {
    struct kv_iter iter;
    struct node *root;
    const struct entry *at; /* held by root; NULL when not valid */
    size_t lower_size;
    size_t upper_size;
    uint8_t bounds[];
};

static const struct kv_ops mem_ops;

static struct slice entry_key(const struct entry *entry) {
    return slice_of(entry->data, entry->key_size);
}

static struct slice entry_value(const struct entry *entry) {
    return slice_of(entry->data + entry->key_size, entry->value_size);
}

static struct entry *entry_new(struct slice key, struct slice value) {
    struct entry *entry = malloc(sizeof(*entry) + key.size + value.size);
    CHECK(entry != NULL);
    atomic_init(&entry->refs, 1);
    entry->key_size = key.size;
    entry->value_size = value.size;
    if (key.size > 0) {
        memcpy(entry->data, key.data, key.size);
    }
    if (value.size > 0) {
        memcpy(entry->data + key.size, value.data, value.size);
    }
    return entry;
}

static struct entry *entry_ref(struct entry *entry) {
    atomic_fetch_add(&entry->refs, 1);
    return entry;
}

static void entry_unref(struct entry *entry) {
    if (atomic_fetch_sub(&entry->refs, 1) == 1) {
        free(entry);
    }
}

void kv_mem_value_done(void *handle) {
    entry_unref(handle);
}

static struct node *node_ref(struct node *node) {
    if (node != NULL) {
        atomic_fetch_add(&node->refs, 1);
    }
    return node;
}

static void node_unref(struct node *node) {
    if (node != NULL && atomic_fetch_sub(&node->refs, 1) == 1) {
        node_unref(node->left);
        node_unref(node->right);
        entry_unref(node->entry);
        free(node);
    }
}

static uint64_t node_count(const struct node *node) {
    return node == NULL ? 0 : node->count;
}

/* Takes over left and right. */
static struct node *node_new(struct entry *entry, uint32_t priority, struct node *left,
                             struct node *right) {
    struct node *node = malloc(sizeof(*node));
    CHECK(node != NULL);
    atomic_init(&node->refs, 1);
    node->priority = priority;
    node->entry = entry_ref(entry);
    node->left = left;
    node->right = right;
    node->count = 1 + node_count(left) + node_count(right);
    return node;
}

/* Two trees: keys before key (or up to it, when inclusive) and the others. The tree is borrowed. */
static void split(const struct node *tree, struct slice key, bool inclusive,
                  struct node **ret_before, struct node **ret_after) {
    if (tree == NULL) {
        *ret_before = NULL;
        *ret_after = NULL;
        return;
    }
    int order = slice_compare(entry_key(tree->entry), key);
    struct node *before = NULL;
    struct node *after = NULL;
    if (order < 0 || (order == 0 && inclusive)) {
        split(tree->right, key, inclusive, &before, &after);
        before = node_new(tree->entry, tree->priority, node_ref(tree->left), before);
    } else {
        split(tree->left, key, inclusive, &before, &after);
        after = node_new(tree->entry, tree->priority, after, node_ref(tree->right));
    }
    *ret_before = before;
    *ret_after = after;
}

/* One tree of two, all keys of a before those of b. Both are borrowed. */
static struct node *join(struct node *a, struct node *b) {
    if (a == NULL || b == NULL) {
        return node_ref(a == NULL ? b : a);
    }
    if (a->priority > b->priority) {
        return node_new(a->entry, a->priority, node_ref(a->left), join(a->right, b));
    }
    return node_new(b->entry, b->priority, join(a, b->left), node_ref(b->right));
}

/* Replaces what lies in [first, end) (or in [first, first], when end is NULL) by entry, or by
 * nothing. */
static void replace(struct node **root, struct slice first, const struct slice *end,
                    struct entry *entry) {
    struct node *before = NULL;
    struct node *rest = NULL;
    struct node *covered = NULL;
    struct node *after = NULL;
    split(*root, first, false, &before, &rest);
    split(rest, end == NULL ? first : *end, end == NULL, &covered, &after);
    if (entry != NULL) {
        uint32_t hash = crc32c(0, first.data, first.size) * 2654435761u;
        struct node *single = node_new(entry, hash ^ hash >> 15, NULL, NULL);
        struct node *joined = join(before, single);
        node_unref(before);
        node_unref(single);
        before = joined;
    }
    node_unref(*root);
    *root = join(before, after);
    node_unref(before);
    node_unref(rest);
    node_unref(covered);
    node_unref(after);
}

static struct entry *find(const struct node *tree, struct slice key) {
    while (tree != NULL) {
        int order = slice_compare(key, entry_key(tree->entry));
        if (order == 0) {
            return tree->entry;
        }
        tree = order < 0 ? tree->left : tree->right;
    }
    return NULL;
}

/* The first entry at or after key (after it, when strict). */
static const struct entry *find_after(const struct node *tree, struct slice key, bool strict) {
    const struct entry *best = NULL;
    while (tree != NULL) {
        int order = slice_compare(entry_key(tree->entry), key);
        if (order > 0 || (order == 0 && !strict)) {
            best = tree->entry;
            tree = tree->left;
        } else {
            tree = tree->right;
        }
    }
    return best;
}

/* The last entry before key (the last of all, when key is NULL). */
static const struct entry *find_before(const struct node *tree, const struct slice *key) {
    const struct entry *best = NULL;
    while (tree != NULL) {
        if (key == NULL || slice_compare(entry_key(tree->entry), *key) < 0) {
            best = tree->entry;
            tree = tree->right;
        } else {
            tree = tree->left;
        }
    }
    return best;
}

static void version_done(struct version *version) {
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        node_unref(version->roots[i]);
    }
}

static struct version version_ref(const struct version *version) {
    struct version copy;
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        copy.roots[i] = node_ref(version->roots[i]);
    }
    return copy;
}

/* Takes version over. */
static void disk_push(struct kv_mem_disk *disk, struct version version) {
    if (disk->count == disk->capacity) {
        disk->capacity = MAX(disk->capacity * 2, (size_t)64);
        disk->history = reallocarray(disk->history, disk->capacity, sizeof(*disk->history));
        CHECK(disk->history != NULL);
    }
    disk->history[disk->count++] = version;
}

/* Keeps version number keep alone. */
static void disk_keep(struct kv_mem_disk *disk, size_t keep) {
    for (size_t i = 0; i < disk->count; i++) {
        if (i != keep) {
            version_done(&disk->history[i]);
        }
    }
    disk->history[0] = disk->history[keep];
    disk->count = 1;
}

struct kv_mem_disk *kv_mem_disk_new(void) {
    struct kv_mem_disk *disk = calloc(1, sizeof(*disk));
    CHECK(disk != NULL);
    disk_push(disk, (struct version){{NULL}});
    return disk;
}

void kv_mem_disk_free(struct kv_mem_disk *disk) {
    if (disk != NULL) {
        for (size_t i = 0; i < disk->count; i++) {
            version_done(&disk->history[i]);
        }
        free(disk->history);
        free(disk);
    }
}

int kv_open_mem(struct kv_mem_disk *disk, struct os_random *random, struct kv **ret) {
    struct kv_mem *mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        return -HL_ERR_NOMEM;
    }
    mem->kv.ops = &mem_ops;
    mem->disk = disk;
    pthread_mutex_init(&mem->lock, NULL);
    disk_keep(disk, random == NULL ? 0 : (size_t)(os_random_u64(random) % disk->count));
    *ret = &mem->kv;
    return 0;
}

static struct kv_mem *mem_of(struct kv *kv) {
    return CONTAINER_OF(kv, struct kv_mem, kv);
}

static void mem_close(struct kv *kv) {
    pthread_mutex_destroy(&mem_of(kv)->lock);
    free(mem_of(kv));
}

static const struct version *current(const struct kv_mem *mem) {
    return &mem->disk->history[mem->disk->count - 1];
}

static int mem_get(struct kv *kv, enum kv_space space, struct slice key, bool nowait,
                   struct kv_value *ret) {
    struct kv_mem *mem = mem_of(kv);
    pthread_mutex_lock(&mem->lock);
    struct entry *entry = find(current(mem)->roots[space], key);
    if (entry != NULL) {
        entry_ref(entry);
    }
    pthread_mutex_unlock(&mem->lock);
    if (entry == NULL) {
        return -HL_ERR_NOT_FOUND;
    }
    *ret = (struct kv_value){entry_value(entry), (void *)((uintptr_t)entry | KV_VALUE_MEM)};
    return 0;
}

static void apply_put(struct node **root, struct slice key, struct slice value) {
    struct entry *entry = entry_new(key, value);
    replace(root, key, NULL, entry);
    entry_unref(entry);
}

static void apply_add(struct node **root, struct slice key, struct slice delta) {
    const struct entry *entry = find(*root, key);
    CHECK(entry == NULL || entry->value_size == 8);
    uint64_t sum = entry == NULL ? 0 : get_le64(entry_value(entry).data);
    uint8_t value[8];
    put_le64(value, sum + get_le64(delta.data));
    apply_put(root, key, slice_of(value, sizeof(value)));
}

static void apply(struct version *version, struct slice ops) {
    struct reader r = reader_of(ops);
    while (reader_left(&r) > 0) {
        uint8_t kind = reader_u8(&r);
        struct node **root = &version->roots[reader_u8(&r) % KV_SPACE_COUNT];
        struct slice key = reader_blob(&r);
        struct slice value = reader_blob(&r);
        CHECK(!r.failed);
        switch ((enum op_kind)kind) {
        case OP_PUT:
            apply_put(root, key, value);
            break;
        case OP_DELETE:
            replace(root, key, NULL, NULL);
            break;
        case OP_DELETE_RANGE:
            replace(root, key, &value, NULL);
            break;
        case OP_ADD:
            apply_add(root, key, value);
            break;
        }
    }
}

static int mem_write(struct kv *kv, struct kv_batch *batch_) {
    struct kv_mem *mem = mem_of(kv);
    const struct mem_batch *batch = CONTAINER_OF(batch_, struct mem_batch, batch);
    if (batch->ops.failed) {
        return -HL_ERR_NOMEM;
    }
    pthread_mutex_lock(&mem->lock);
    struct version next = version_ref(current(mem));
    apply(&next, buf_slice(&batch->ops));
    disk_push(mem->disk, next);
    pthread_mutex_unlock(&mem->lock);
    return 0;
}

static int mem_flush(struct kv *kv) {
    struct kv_mem *mem = mem_of(kv);
    pthread_mutex_lock(&mem->lock);
    disk_keep(mem->disk, mem->disk->count - 1);
    pthread_mutex_unlock(&mem->lock);
    return 0;
}

static int mem_checkpoint(struct kv *kv, const char *path) {
    return -HL_ERR_UNSUPPORTED;
}

static void mem_stats(struct kv *kv, struct kv_stats *ret) {
    struct kv_mem *mem = mem_of(kv);
    pthread_mutex_lock(&mem->lock);
    for (int i = 0; i < KV_SPACE_COUNT; i++) {
        ret->keys_estimate[i] = node_count(current(mem)->roots[i]);
    }
    pthread_mutex_unlock(&mem->lock);
}

static struct kv_batch *mem_batch_new(struct kv *kv) {
    struct mem_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return NULL;
    }
    batch->batch.ops = &mem_ops;
    return &batch->batch;
}

static struct buf *ops_of(struct kv_batch *batch) {
    return &CONTAINER_OF(batch, struct mem_batch, batch)->ops;
}

static void mem_batch_free(struct kv_batch *batch) {
    buf_done(ops_of(batch));
    free(CONTAINER_OF(batch, struct mem_batch, batch));
}

static void mem_batch_clear(struct kv_batch *batch) {
    buf_clear(ops_of(batch));
}

static void add_op(struct kv_batch *batch, enum op_kind kind, enum kv_space space, struct slice key,
                   struct slice value) {
    struct buf *ops = ops_of(batch);
    buf_append_u8(ops, (uint8_t)kind);
    buf_append_u8(ops, (uint8_t)space);
    buf_append_blob(ops, key);
    buf_append_blob(ops, value);
}

static void mem_batch_put(struct kv_batch *batch, enum kv_space space, struct slice key,
                          struct slice value) {
    add_op(batch, OP_PUT, space, key, value);
}

static void mem_batch_delete(struct kv_batch *batch, enum kv_space space, struct slice key) {
    add_op(batch, OP_DELETE, space, key, SLICE_EMPTY);
}

static void mem_batch_delete_range(struct kv_batch *batch, enum kv_space space, struct slice first,
                                   struct slice end) {
    add_op(batch, OP_DELETE_RANGE, space, first, end);
}

static void mem_batch_add(struct kv_batch *batch, enum kv_space space, struct slice key,
                          const uint8_t delta[8]) {
    add_op(batch, OP_ADD, space, key, slice_of(delta, 8));
}

static struct kv_iter *mem_iter_new(struct kv *kv, enum kv_space space, struct slice lower,
                                    struct slice upper) {
    struct kv_mem *mem = mem_of(kv);
    struct mem_iter *iter = calloc(1, sizeof(*iter) + lower.size + upper.size);
    if (iter == NULL) {
        return NULL;
    }
    iter->iter.ops = &mem_ops;
    iter->lower_size = lower.size;
    iter->upper_size = upper.size;
    if (lower.size > 0) {
        memcpy(iter->bounds, lower.data, lower.size);
    }
    if (upper.size > 0) {
        memcpy(iter->bounds + lower.size, upper.data, upper.size);
    }
    pthread_mutex_lock(&mem->lock);
    iter->root = node_ref(current(mem)->roots[space]);
    pthread_mutex_unlock(&mem->lock);
    return &iter->iter;
}

static struct mem_iter *mem_iter_of(const struct kv_iter *iter) {
    return CONTAINER_OF((struct kv_iter *)(uintptr_t)iter, struct mem_iter, iter);
}

static struct slice iter_lower(const struct mem_iter *iter) {
    return slice_of(iter->bounds, iter->lower_size);
}

static struct slice iter_upper(const struct mem_iter *iter) {
    return slice_of(iter->bounds + iter->lower_size, iter->upper_size);
}

/* Moves to entry unless it lies outside the bounds. */
static void iter_move(struct mem_iter *iter, const struct entry *entry) {
    iter->at = entry;
    if (entry != NULL &&
        (slice_compare(entry_key(entry), iter_lower(iter)) < 0 ||
         (iter->upper_size > 0 && slice_compare(entry_key(entry), iter_upper(iter)) >= 0))) {
        iter->at = NULL;
    }
}

static void mem_iter_free(struct kv_iter *iter) {
    node_unref(mem_iter_of(iter)->root);
    free(mem_iter_of(iter));
}

static void mem_iter_seek(struct kv_iter *iter_, struct slice key) {
    struct mem_iter *iter = mem_iter_of(iter_);
    struct slice lower = iter_lower(iter);
    iter_move(iter, find_after(iter->root, slice_compare(key, lower) < 0 ? lower : key, false));
}

static void mem_iter_seek_first(struct kv_iter *iter_) {
    struct mem_iter *iter = mem_iter_of(iter_);
    iter_move(iter, find_after(iter->root, iter_lower(iter), false));
}

static void mem_iter_seek_last(struct kv_iter *iter_) {
    struct mem_iter *iter = mem_iter_of(iter_);
    struct slice upper = iter_upper(iter);
    iter_move(iter, find_before(iter->root, upper.size == 0 ? NULL : &upper));
}

static void mem_iter_next(struct kv_iter *iter_) {
    struct mem_iter *iter = mem_iter_of(iter_);
    iter_move(iter, find_after(iter->root, entry_key(iter->at), true));
}

static void mem_iter_prev(struct kv_iter *iter_) {
    struct mem_iter *iter = mem_iter_of(iter_);
    struct slice key = entry_key(iter->at);
    iter_move(iter, find_before(iter->root, &key));
}

static bool mem_iter_valid(const struct kv_iter *iter) {
    return mem_iter_of(iter)->at != NULL;
}

static int mem_iter_error(const struct kv_iter *iter) {
    return 0;
}

static struct slice mem_iter_key(const struct kv_iter *iter) {
    return entry_key(mem_iter_of(iter)->at);
}

static struct slice mem_iter_value(const struct kv_iter *iter) {
    return entry_value(mem_iter_of(iter)->at);
}

static const struct kv_ops mem_ops = {
    .close = mem_close,
    .get = mem_get,
    .write = mem_write,
    .flush = mem_flush,
    .checkpoint = mem_checkpoint,
    .stats = mem_stats,
    .batch_new = mem_batch_new,
    .batch_free = mem_batch_free,
    .batch_clear = mem_batch_clear,
    .batch_put = mem_batch_put,
    .batch_delete = mem_batch_delete,
    .batch_delete_range = mem_batch_delete_range,
    .batch_add = mem_batch_add,
    .iter_new = mem_iter_new,
    .iter_free = mem_iter_free,
    .iter_seek = mem_iter_seek,
    .iter_seek_first = mem_iter_seek_first,
    .iter_seek_last = mem_iter_seek_last,
    .iter_next = mem_iter_next,
    .iter_prev = mem_iter_prev,
    .iter_valid = mem_iter_valid,
    .iter_error = mem_iter_error,
    .iter_key = mem_iter_key,
    .iter_value = mem_iter_value,
};
