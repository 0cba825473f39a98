/* The simulator: a whole node (object store, transactions, log, volumes, ordered store) in one
 * process, without threads, from a seed. Several clients have operations in flight; the disk loses,
 * tears and reorders what was not synced; the power goes in the middle of any disk operation, also
 * during recovery; compaction, scrub and checkpoints run in between. Every body describes itself
 * (key, writer, sequence, length), so that any mix-up shows.
 *
 * What is checked: an acknowledged write is there (durable), nothing is there that nobody wrote (no
 * ghost), what was in flight at the crash is there whole or not at all, listings agree with reads,
 * usage counters agree with the listing, and after everything is deleted no bytes are alive. At the
 * end of some seeds the metadata is thrown away and rebuilt from the volumes.
 *
 *   sim --seeds N        seeds 1 to N (with --first F: F to F + N - 1); one line each failing seed
 *   sim --seed S [--arm FAILPOINT@HIT]   one seed, with the log on standard error
 *   --failpoints         also one line a failpoint: its name, hits, and power cuts right at it
 */
#include <fcntl.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/logger.h"
#include "base/prng.h"
#include "data/location_format.h"
#include "object/directory.h"
#include "object/object.h"
#include "os/sim_fs.h"

#define CLIENT_COUNT   5
#define KEY_COUNT      12
#define MAYBE_MAX      32
#define BODY_BYTES_MAX (300u << 10)
#define POINT_MAX      512

/* ---- failing: a seed ends with a message and exit code 1 ---- */

static uint64_t current_seed;
static char armed[96]; /* "NAME@HIT": the failpoint that this seed waits for, or empty */

/* Sums over all seeds, shared with the child processes. */
struct totals {
    _Atomic uint64_t operations, acknowledged, crashes, rebuilds;
    struct point { /* a failpoint: filled by one seed at a time */
        char name[64];
        uint64_t hits, crashes;
    } points[POINT_MAX];
    uint32_t point_count;
};
static struct totals *totals;

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("not ok seed %llu: %s:%d: ", (unsigned long long)current_seed, __FILE__,        \
                   __LINE__);                                                                      \
            printf(__VA_ARGS__);                                                                   \
            printf(" (replay: build-test/test/sim/sim --seed %llu%s%s)\n",                         \
                   (unsigned long long)current_seed, armed[0] != 0 ? " --arm " : "", armed);       \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- the run queue: home of every callback and the worker pool at once ---- */

static struct task *queue_first, **queue_last = &queue_first;

static void queue_post(struct executor *executor, struct task *task) {
    task->next = NULL;
    *queue_last = task;
    queue_last = &task->next;
}
static struct executor queue_executor = {queue_post};

static bool queue_run(void) {
    struct task *task = queue_first;
    if (task == NULL) {
        return false;
    }
    queue_first = task->next;
    if (queue_first == NULL) {
        queue_last = &queue_first;
    }
    task->run(task);
    return true;
}

/* ---- failpoints: a seed may arm one that an earlier seed has met ---- */

static struct sim_fs *armed_disk;
static const char *armed_by_option;

static struct point *point_find(const char *name) {
    for (uint32_t i = 0; i < totals->point_count; i++) {
        if (strcmp(totals->points[i].name, name) == 0) {
            return &totals->points[i];
        }
    }
    REQUIRE(totals->point_count < POINT_MAX, "too many failpoints");
    struct point *point = &totals->points[totals->point_count++];
    snprintf(point->name, sizeof(point->name), "%s", name);
    return point;
}

static void power_off_at(const char *name) {
    point_find(name)->crashes++;
    sim_fs_power_off(armed_disk);
}

static void arm(const char *name, uint64_t hit) {
    snprintf(armed, sizeof(armed), "%s@%llu", name, (unsigned long long)hit);
    failpoint_set(name, "crash", hit);
}

/* One whose name starts with prefix; the least tried of a few, so that rare ones get their turn. */
static void arm_one(struct prng *prng, const char *prefix) {
    char name[64];
    unsigned long long hit;
    uint64_t dice =
        prng_u64(prng); /* drawn in any case, so that --arm replays the rest as it was */
    if (armed_by_option != NULL && sscanf(armed_by_option, "%63[^@]@%llu", name, &hit) == 2) {
        if (strncmp(name, prefix, strlen(prefix)) == 0) {
            arm(name, hit);
        }
        return;
    }
    struct prng choice;
    prng_init(&choice, dice);
    const struct point *point = NULL;
    for (int i = 0; i < 12 && totals->point_count > 0; i++) {
        const struct point *other = &totals->points[prng_below(&choice, totals->point_count)];
        bool fits = strncmp(other->name, prefix, strlen(prefix)) == 0;
        point = fits && (point == NULL || other->crashes < point->crashes) ? other : point;
    }
    if (point != NULL && prng_below(&choice, 2) == 0) {
        arm(point->name, 1 + prng_below(&choice, point->hits > 200 ? 20 : 2));
    }
}

static void count_point(const char *name, uint64_t hits, void *arg) {
    point_find(name)->hits += hits;
}

/* ---- bodies that describe themselves ---- */

struct stamp {
    uint32_t key;
    uint32_t client;
    uint64_t sequence;
    uint32_t size;
    uint32_t crc; /* of the four before */
};

static void make_body(uint8_t *data, uint32_t key, uint32_t client, uint64_t sequence,
                      uint32_t size) {
    struct prng prng;
    prng_init(&prng, sequence * 31 + key);
    prng_bytes(&prng, data, size);
    struct stamp stamp = {key, client, sequence, size, 0};
    stamp.crc = crc32c(0, &stamp, offsetof(struct stamp, crc));
    memcpy(data, &stamp, size < sizeof(stamp) ? size : sizeof(stamp));
}

/* ---- the model ---- */

/* A state of a key: 0 is absent, else the sequence of the write. */
struct model_key {
    uint64_t sure;
    uint64_t maybe[MAYBE_MAX]; /* outcomes of operations whose end is unknown */
    uint32_t maybe_count;
};

struct world {
    struct prng prng;
    struct os_env env;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct sim_fs *disk;
    struct kv_mem_disk *kv_disk;
    struct object_options options;
    struct volume_dir dir;
    struct object_store *store;
    uint64_t bucket;
    struct model_key keys[KEY_COUNT];
    uint32_t size_of[1u << 16]; /* by sequence */
    uint32_t key_of[1u << 16];  /* the key named inside the body (differs for copies) */
    uint64_t next_sequence;
    uint64_t operations, crashes;
};

static bool possible(const struct model_key *k, uint64_t state) {
    bool found = k->sure == state;
    for (uint32_t i = 0; i < k->maybe_count; i++) {
        found |= k->maybe[i] == state;
    }
    return found;
}

static void settle(struct model_key *k, uint64_t state) {
    k->sure = state;
    k->maybe_count = 0;
}

static void add_maybe(struct model_key *k, uint64_t state) {
    REQUIRE(k->maybe_count < MAYBE_MAX, "the model is too small");
    k->maybe[k->maybe_count++] = state;
}

static struct slice key_name(uint32_t key, char name[32]) {
    static const char *const forms[] = {"a%u", "dir/%u", "dir/sub/%u", "..//%u", "z/%u/"};
    int n = snprintf(name, 32, forms[key % 5], key);
    return slice_of(name, (size_t)n);
}

/* ---- the node's life ---- */

static void fatal(void *ctx, int err) {
}

static void node_options(struct world *w) {
    static const uint32_t inline_sizes[] = {512, 4096, 32768};
    w->dir = (struct volume_dir){.path = "/data"};
    w->options = (struct object_options){
        .metadata_dir = "/meta",
        .data = {.volumes = {.dirs = &w->dir,
                             .dir_count = 1,
                             .volume_bytes_max = 400u << 10,
                             .reserve_bytes = 1u << 20},
                 .block_bytes = 64u << 10,
                 .compact_percent = 30},
        .meta = {.log = {.segment_bytes = 128u << 10, .spare_segments = 1, .segments_max = 24},
                 .checkpoint_log_bytes = prng_below(&w->prng, 2) == 0 ? 1u << 20 : 2u << 20,
                 .fatal = fatal},
        .inline_max = inline_sizes[prng_below(&w->prng, 3)],
        .kv_mem = w->kv_disk,
        .threads = false,
        .workers = &queue_executor,
        .step_workers = queue_run,
    };
}

static int node_open(struct world *w) {
    return object_store_open(&w->env, &w->options, &w->store);
}

static void node_close(struct world *w) {
    if (w->store != NULL) {
        /* As when the process dies: what is under way ends without an answer that counts. */
        meta_stop(object_meta(w->store));
        while (queue_run()) {
        }
        object_store_close(w->store);
        w->store = NULL;
    }
    while (queue_run()) {
    }
}

static bool node_dead(struct world *w) {
    return sim_fs_crashed(w->disk) || meta_failed(object_meta(w->store));
}

static void drain(struct world *w) {
    bool busy = true;
    for (int i = 0; i < 10000 && busy && !node_dead(w); i++) {
        bool stepped = false;
        bool ran = queue_run();
        object_step(w->store, &stepped);
        busy = ran || stepped;
    }
}

static int create_bucket(struct world *w) {
    struct pool *pool = pool_new(0);
    struct object_wait *wait = object_wait_new(w->store);
    directory_bucket_create(w->store, SLICE_LITERAL("bucket"), SLICE_EMPTY, SLICE_EMPTY,
                            SLICE_EMPTY, pool, object_wait_executor(wait), object_wait_done, wait);
    int err = object_wait(wait, NULL);
    struct bucket_record record;
    if (err == 0 || err == -HL_ERR_BUCKET_OWNED || err == -HL_ERR_BUCKET_EXISTS) {
        err = directory_bucket(w->store, SLICE_LITERAL("bucket"), SLICE_EMPTY, pool, &record);
        w->bucket = err == 0 ? record.id : 0;
    }
    pool_free(pool);
    return err;
}

/* ---- reading and checking ---- */

/* Reads a whole object and returns the state it proves: 0 absent, else the sequence. Fails the seed
 * on foreign bytes. */
static uint64_t read_state(struct world *w, uint32_t key) {
    char name[32];
    static uint8_t data[BODY_BYTES_MAX], expected[BODY_BYTES_MAX];
    struct pool *pool = pool_new(0);
    struct object_read *read = NULL;
    int err = object_read_open(w->store, w->bucket, key_name(key, name), pool, &read);
    if (err == -HL_ERR_NO_SUCH_KEY || node_dead(w)) {
        pool_free(pool);
        return 0;
    }
    REQUIRE(err == 0, "reading key %u: %s", key, error_name(err));
    const struct object_record *record = object_read_record(read);
    REQUIRE(record->size <= BODY_BYTES_MAX, "key %u has %llu bytes", key,
            (unsigned long long)record->size);
    size_t size = 0, n = 1;
    while (n > 0) {
        size_t piece = 1 + prng_below(&w->prng, 100000);
        piece = piece > BODY_BYTES_MAX - size ? BODY_BYTES_MAX - size : piece;
        n = 0;
        err = piece == 0 ? 0 : object_read_next(read, data + size, piece, false, &n);
        REQUIRE(err == 0, "reading key %u at %zu: %s", key, size, error_name(err));
        size += n;
    }
    REQUIRE(size == record->size, "key %u gave %zu of %llu bytes", key, size,
            (unsigned long long)record->size);
    REQUIRE(size >= sizeof(struct stamp), "key %u is too short", key);
    struct stamp stamp;
    memcpy(&stamp, data, sizeof(stamp));
    REQUIRE(stamp.crc == crc32c(0, &stamp, offsetof(struct stamp, crc)) && stamp.size == size &&
                stamp.sequence < w->next_sequence,
            "key %u holds foreign bytes", key);
    make_body(expected, stamp.key, stamp.client, stamp.sequence, stamp.size);
    REQUIRE(memcmp(data, expected, size) == 0, "key %u: the body of write %llu is damaged", key,
            (unsigned long long)stamp.sequence);
    /* A copy keeps the body of its source; which write made this key is told by user metadata. */
    REQUIRE(record->headers.metadata_count == 1 && record->headers.metadata[0].value.size == 8,
            "key %u lost its metadata", key);
    uint64_t state = get_le64(record->headers.metadata[0].value.data);
    REQUIRE(state < w->next_sequence && w->size_of[state] == size && w->key_of[state] == stamp.key,
            "key %u: metadata and body disagree", key);
    object_read_done(read);
    pool_free(pool);
    return state;
}

static void check_key(struct world *w, uint32_t key) {
    uint64_t state = read_state(w, key);
    if (node_dead(w)) {
        return;
    }
    REQUIRE(possible(&w->keys[key], state), "key %u is in state %llu, expected %llu or one of %u",
            key, (unsigned long long)state, (unsigned long long)w->keys[key].sure,
            w->keys[key].maybe_count);
}

/* After a crash everything in flight has ended one way or the other: what is read now is the truth.
 * False when a failpoint cut the reading: then it is to be done again. */
static bool settle_all(struct world *w) {
    for (uint32_t key = 0; key < KEY_COUNT; key++) {
        uint64_t state = read_state(w, key);
        if (node_dead(w)) {
            node_close(w);
            sim_fs_crash(w->disk);
            return false;
        }
        REQUIRE(possible(&w->keys[key], state),
                "after recovery key %u is in state %llu, expected %llu or one of %u", key,
                (unsigned long long)state, (unsigned long long)w->keys[key].sure,
                w->keys[key].maybe_count);
        settle(&w->keys[key], state);
    }
    return true;
}

static void check_listing(struct world *w, bool quiet) {
    struct pool *pool = pool_new(0);
    struct object_list_args args = {.bucket = w->bucket, .count_max = 1000};
    struct object_list list;
    int err = object_list(w->store, &args, pool, &list);
    REQUIRE(err == 0 || node_dead(w), "listing: %s", error_name(err));
    bool listed[KEY_COUNT] = {false};
    uint64_t count = 0, bytes = 0;
    for (uint32_t i = 0; err == 0 && i < list.count; i++) {
        REQUIRE(i == 0 || slice_compare(list.items[i - 1].key, list.items[i].key) < 0, "order");
        for (uint32_t key = 0; key < KEY_COUNT; key++) {
            char name[32];
            listed[key] |= slice_equal(key_name(key, name), list.items[i].key);
        }
        count++;
        bytes += list.items[i].record.size;
    }
    for (uint32_t key = 0; err == 0 && key < KEY_COUNT; key++) {
        const struct model_key *k = &w->keys[key];
        bool may_be_absent = possible(k, 0);
        bool may_be_there = k->sure != 0 || k->maybe_count > 0;
        REQUIRE(listed[key] ? may_be_there : may_be_absent, "key %u is %s the listing", key,
                listed[key] ? "in" : "not in");
    }
    struct directory_usage usage;
    if (err == 0 && quiet && directory_usage(w->store, w->bucket, &usage) == 0) {
        REQUIRE((uint64_t)usage.objects == count && (uint64_t)usage.bytes == bytes,
                "usage says %lld objects and %lld bytes, the listing %llu and %llu",
                (long long)usage.objects, (long long)usage.bytes, (unsigned long long)count,
                (unsigned long long)bytes);
    }
    pool_free(pool);
}

/* ---- clients ---- */

enum action { PUT, DELETE, COPY, MULTIPART, PART_COPY, PUT_IF_ABSENT, ACTION_COUNT };

struct client {
    struct world *w;
    uint32_t number;
    bool busy;
    enum action action;
    uint32_t key;
    uint64_t sequence; /* the state this operation makes, 0 for a delete */
    char name[32], source_name[32];
    struct pool *pool;
    uint8_t metadata[8];
    struct header_pair pair;
    struct object_conditions conditions;
    struct object_delete_item item;
    uint8_t upload[16];
    uint32_t body_size;
    struct object_complete_part part;
    char etag[OBJECT_ETAG_SIZE];
    char source_etag[OBJECT_ETAG_SIZE];
    struct slice source_tag;
    struct object_conditions source_conditions;
    struct object_write *write;
};

static bool unknown_end(int err) {
    return err == -HL_ERR_CRASHED || err == -HL_ERR_CANCELED || err == -HL_ERR_IO;
}

static void client_free(struct client *c) {
    pool_free(c->pool);
    c->pool = NULL;
    c->busy = false;
}

/* Takes one operation that ended for certain out of what is open. */
static void forget_maybe(struct model_key *k, uint64_t state) {
    for (uint32_t i = 0; i < k->maybe_count; i++) {
        if (k->maybe[i] == state) {
            k->maybe[i] = k->maybe[--k->maybe_count];
            return;
        }
    }
}

static void client_done(void *arg, int err, const struct object_result *result) {
    struct client *c = arg;
    struct model_key *k = &c->w->keys[c->key];
    if (err == 0 && c->action == DELETE && c->item.err < 0) {
        err = c->item.err;
    }
    if (!unknown_end(err)) {
        REQUIRE(err == 0 || err == -HL_ERR_PRECONDITION || err == -HL_ERR_NO_SUCH_KEY ||
                    err == -HL_ERR_NO_SPACE || err == -HL_ERR_BUSY || err == -HL_ERR_NO_SUCH_UPLOAD,
                "an operation ended with %s", error_name(err));
        forget_maybe(k, c->sequence);
    }
    if (err == 0) {
        totals->acknowledged++;
        /* Ends come in the order of commits: what is still open on this key comes after it. */
        k->sure = c->sequence;
    }
    client_free(c);
}

static void prepare(struct client *c) {
    struct world *w = c->w;
    c->busy = true;
    c->pool = pool_new(0);
    c->key = (uint32_t)prng_below(&w->prng, KEY_COUNT);
    c->sequence = w->next_sequence++;
    put_le64(c->metadata, c->sequence);
    c->pair = (struct header_pair){SLICE_LITERAL("state"), slice_of(c->metadata, 8)};
    c->conditions = (struct object_conditions){0};
    key_name(c->key, c->name);
}

static struct slice name_of(const char *name) {
    return slice_str(name);
}

static uint32_t random_size(struct world *w) {
    uint32_t least = sizeof(struct stamp);
    switch (prng_below(&w->prng, 4)) {
    case 0:
        return least + (uint32_t)prng_below(&w->prng, 200);
    case 1:
        return 4096;
    case 2:
        return least + (uint32_t)prng_below(&w->prng, 40000);
    default:
        return least + (uint32_t)prng_below(&w->prng, BODY_BYTES_MAX - least);
    }
}

/* Writes the body of a client's operation; false when the store refused or died (the client is free
 * again). */
static bool write_body(struct client *c, enum object_write_kind kind) {
    static uint8_t data[BODY_BYTES_MAX];
    struct world *w = c->w;
    uint32_t size = random_size(w);
    c->body_size = size;
    w->size_of[c->sequence] = size;
    w->key_of[c->sequence] = c->key;
    make_body(data, c->key, c->number, c->sequence, size);
    struct object_write_args args = {.kind = kind,
                                     .bucket = w->bucket,
                                     .key = name_of(c->name),
                                     .part_number = 1,
                                     .size = prng_below(&w->prng, 3) == 0 ? UINT64_MAX : size};
    memcpy(args.upload_id, c->upload, 16);
    int err = object_write_open(w->store, &args, c->pool, &c->write);
    for (uint32_t off = 0; err == 0 && off < size;) {
        uint32_t n = 1 + (uint32_t)prng_below(&w->prng, 50000);
        n = n > size - off ? size - off : n;
        err = object_write_data(c->write, data + off, n);
        off += n;
    }
    if (err == 0) {
        err = object_write_finish(c->write);
    }
    if (err < 0) {
        REQUIRE(node_dead(w) || unknown_end(err) || err == -HL_ERR_NO_SPACE, "writing a body: %s",
                error_name(err));
        object_write_abort(c->write);
        c->write = NULL;
    }
    return err == 0;
}

static void commit_put(struct client *c) {
    struct object_commit_args args = {.headers = {.metadata = &c->pair, .metadata_count = 1},
                                      .conditions = &c->conditions};
    add_maybe(&c->w->keys[c->key], c->sequence);
    object_write_commit(TAKE_PTR(c->write), &args, &queue_executor, client_done, c);
}

/* Picks a source whose state the model knows, and pins that state by its ETag: another client may
 * overwrite it before the copy runs. False when there is none. */
static bool choose_source(struct client *c) {
    struct world *w = c->w;
    uint32_t source = (uint32_t)prng_below(&w->prng, KEY_COUNT);
    const struct model_key *k = &w->keys[source];
    if (k->maybe_count > 0 || k->sure == 0 || source == c->key) {
        return false;
    }
    w->size_of[c->sequence] = w->size_of[k->sure];
    w->key_of[c->sequence] = w->key_of[k->sure];
    key_name(source, c->source_name);
    struct object_read *read = NULL;
    int err = object_read_open(w->store, w->bucket, name_of(c->source_name), c->pool, &read);
    if (err < 0) {
        REQUIRE(node_dead(w), "copying key %u: %s", source, error_name(err));
        return false;
    }
    object_etag_text(&object_read_record(read)->etag, c->source_etag);
    object_read_done(read);
    c->source_tag = slice_str(c->source_etag);
    c->source_conditions = (struct object_conditions){
        .match = {.given = true, .tags = &c->source_tag, .tag_count = 1}};
    return true;
}

static void part_done(void *arg, int err, const struct object_result *result) {
    struct client *c = arg;
    if (err < 0) {
        client_free(c);
        return;
    }
    object_etag_text(&result->etag, c->etag);
    c->part = (struct object_complete_part){.number = 1, .etag = slice_str(c->etag)};
    struct object_complete_args args = {.bucket = c->w->bucket,
                                        .key = name_of(c->name),
                                        .parts = &c->part,
                                        .part_count = 1,
                                        .conditions = &c->conditions};
    memcpy(args.upload_id, c->upload, 16);
    add_maybe(&c->w->keys[c->key], c->sequence);
    object_upload_complete(c->w->store, &args, c->pool, &queue_executor, client_done, c);
}

/* The upload exists: its only part is a copy of another object's bytes. */
static void upload_for_copy_created(void *arg, int err, const struct object_result *result) {
    struct client *c = arg;
    struct world *w = c->w;
    if (err < 0 || node_dead(w) || !choose_source(c)) {
        client_free(c);
        return;
    }
    struct object_part_copy_args args = {.source_bucket = w->bucket,
                                         .bucket = w->bucket,
                                         .source_key = name_of(c->source_name),
                                         .key = name_of(c->name),
                                         .source_conditions = &c->source_conditions,
                                         .part_number = 1};
    memcpy(args.upload_id, c->upload, 16);
    object_part_copy(w->store, &args, c->pool, &queue_executor, part_done, c);
}

static void upload_created(void *arg, int err, const struct object_result *result) {
    struct client *c = arg;
    if (err < 0 || node_dead(c->w) || !write_body(c, OBJECT_WRITE_PART)) {
        client_free(c);
        return;
    }
    struct object_commit_args args = {0};
    object_write_commit(TAKE_PTR(c->write), &args, &queue_executor, part_done, c);
}

static void start_copy(struct client *c) {
    struct world *w = c->w;
    if (!choose_source(c)) {
        client_free(c);
        return;
    }
    struct object_copy_args args = {.source_bucket = w->bucket,
                                    .bucket = w->bucket,
                                    .source_key = name_of(c->source_name),
                                    .key = name_of(c->name),
                                    .source_conditions = &c->source_conditions,
                                    .replace_metadata = true,
                                    .headers = {.metadata = &c->pair, .metadata_count = 1}};
    add_maybe(&w->keys[c->key], c->sequence);
    object_copy(w->store, &args, c->pool, &queue_executor, client_done, c);
}

static void start_upload(struct client *c, object_done_fn created) {
    struct object_upload_args args = {
        .bucket = c->w->bucket,
        .key = name_of(c->name),
        .record = {.headers = {.metadata = &c->pair, .metadata_count = 1}}};
    object_upload_create(c->w->store, &args, c->upload, c->pool, &queue_executor, created, c);
}

static void client_start(struct client *c) {
    struct world *w = c->w;
    if (w->next_sequence + 2 >= ARRAY_COUNT(w->size_of)) {
        return;
    }
    prepare(c);
    struct model_key *k = &w->keys[c->key];
    if (k->maybe_count > 4) {
        client_free(c);
        return;
    }
    w->operations++;
    c->action = (enum action)prng_below(&w->prng, ACTION_COUNT);
    switch (c->action) {
    case PUT_IF_ABSENT:
        c->conditions.none_match = (struct object_etags){.given = true, .any = true};
        /* fall through */
    case PUT:
        if (write_body(c, OBJECT_WRITE_PUT)) {
            commit_put(c);
        } else {
            client_free(c);
        }
        break;
    case DELETE:
        c->sequence = 0;
        c->item = (struct object_delete_item){.key = name_of(c->name)};
        add_maybe(k, 0);
        object_delete(w->store, w->bucket, &c->item, 1, c->pool, &queue_executor, client_done, c);
        break;
    case COPY:
        start_copy(c);
        break;
    case MULTIPART:
        start_upload(c, upload_created);
        break;
    case PART_COPY:
        start_upload(c, upload_for_copy_created);
        break;
    default:
        client_free(c);
        break;
    }
}

/* ---- a seed ---- */

static void one_step(struct world *w, struct client *clients) {
    bool busy;
    uint64_t what = prng_below(&w->prng, 100);
    struct client *c = &clients[prng_below(&w->prng, CLIENT_COUNT)];
    w->clock.mono_us += prng_below(&w->prng, 200000);
    w->clock.wall_ms += (int64_t)prng_below(&w->prng, 400) - 100; /* the wall clock may go back */
    if (what < 35 && !c->busy) {
        client_start(c);
    } else if (what < 60) {
        queue_run();
    } else if (what < 80) {
        meta_commit_turn(object_meta(w->store), &busy);
    } else if (what < 90) {
        object_step(w->store, &busy);
    } else if (what < 93) {
        data_compact_step(object_data(w->store), 1 + prng_below(&w->prng, 200000), &busy);
    } else if (what < 94) {
        data_scrub_step(object_data(w->store), 100000, &busy);
    } else if (what < 96) {
        meta_checkpoint(object_meta(w->store));
    } else if (what < 99) {
        check_key(w, (uint32_t)prng_below(&w->prng, KEY_COUNT));
    } else {
        check_listing(w, false);
    }
}

/* Half of the time the power goes; else only the process dies and what it wrote stays. */
static void lose_power(struct world *w) {
    node_close(w);
    if (prng_below(&w->prng, 4) == 0 && !sim_fs_crashed(w->disk)) {
        sim_fs_kill(w->disk);
    } else {
        sim_fs_crash(w->disk);
    }
    w->crashes++;
}

/* Opens the store; a failpoint may cut that too, then again. */
static void open_after(struct world *w, const char *what) {
    for (int tries = 0; tries < 20; tries++) {
        int err = node_open(w);
        if (err == 0 && !node_dead(w)) {
            return;
        }
        REQUIRE(sim_fs_crashed(w->disk), "the store does not open after %s: %s", what,
                error_name(err));
        if (err < 0) {
            w->store = NULL;
        }
        lose_power(w);
    }
    REQUIRE(false, "the store never opens after %s", what);
}

static void power_cut(struct world *w) {
    lose_power(w);
    /* Half of the time again during recovery. */
    while (prng_below(&w->prng, 2) == 0) {
        sim_fs_crash_after(w->disk, 1 + prng_below(&w->prng, 40));
        if (node_open(w) < 0) {
            w->store = NULL;
        }
        lose_power(w);
    }
    sim_fs_crash_after(w->disk, 0);
    do {
        open_after(w, "a power cut");
    } while (!settle_all(w));
    check_listing(w, true);
}

/* Nothing that could stay in flight after a clean end: all that the model held possible is decided.
 */
static void quiesce(struct world *w) {
    sim_fs_crash_after(w->disk, 0);
    if (node_dead(w)) {
        power_cut(w);
    }
    drain(w);
    REQUIRE(settle_all(w), "a power cut that nobody asked for");
    check_listing(w, true);
}

/* Every object is deleted: the location index may name tombstones, but no head and no block. */
static void check_no_bodies(struct world *w) {
    struct data_key first = data_key_table(DATA_ROW_LOCATION);
    struct data_key end = data_key_table((enum data_row)(DATA_ROW_LOCATION + 1));
    struct kv_iter *iter = kv_iter_new(meta_kv(object_meta(w->store)), KV_LOCAL,
                                       data_key_slice(&first), data_key_slice(&end));
    for (kv_iter_seek_first(iter); kv_iter_valid(iter); kv_iter_next(iter)) {
        struct data_place place;
        struct reader r = reader_of(kv_iter_value(iter));
        REQUIRE(data_place_decode(&r, &place), "a location row is malformed");
        REQUIRE(place.kind == VOLUME_TOMBSTONES, "after all deletes a record of kind %u is alive",
                place.kind);
    }
    REQUIRE(kv_iter_error(iter) == 0, "reading the location index");
    kv_iter_free(iter);
}

static void delete_everything(struct world *w, struct client *c) {
    for (uint32_t key = 0; key < KEY_COUNT; key++) {
        c->pool = pool_new(0);
        c->busy = true;
        c->key = key;
        c->action = DELETE;
        c->sequence = 0;
        key_name(key, c->name);
        c->item = (struct object_delete_item){.key = name_of(c->name)};
        add_maybe(&w->keys[key], 0);
        object_delete(w->store, w->bucket, &c->item, 1, c->pool, &queue_executor, client_done, c);
        drain(w);
        REQUIRE(!c->busy, "a delete does not end");
    }
    uint32_t aborted;
    int err = object_upload_cleanup(w->store, w->bucket, INT64_MAX, &aborted);
    REQUIRE(err == 0, "cleaning uploads up: %s", error_name(err));
    drain(w);
    REQUIRE(meta_checkpoint(object_meta(w->store)) == 0, "checkpoint");
    drain(w);
    REQUIRE(settle_all(w), "a power cut that nobody asked for");
    struct data_stats stats;
    data_stats(object_data(w->store), &stats);
    REQUIRE(stats.staged_bytes == 0 && stats.free_queue_bytes == 0,
            "after all deletes %llu bytes are staged, %llu queued",
            (unsigned long long)stats.staged_bytes, (unsigned long long)stats.free_queue_bytes);
    check_no_bodies(w);
}

static void rebuild(struct world *w) {
    node_close(w);
    kv_mem_disk_free(w->kv_disk);
    w->kv_disk = kv_mem_disk_new();
    w->options.kv_mem = w->kv_disk;
    /* A start with the names gone is refused, because it would take every body for garbage; unless
     * the log still holds every entry since the first: then they all come back. */
    int opened = node_open(w);
    if (opened == 0) {
        REQUIRE(settle_all(w), "a power cut that nobody asked for");
        node_close(w);
    } else {
        REQUIRE(opened == -HL_ERR_CORRUPT, "a store without its names: %s", error_name(opened));
        w->store = NULL;
    }
    struct object_rebuild_result result;
    totals->rebuilds++;
    arm_one(&w->prng, prng_below(&w->prng, 2) == 0 ? "object.rebuild" : "data.rebuild");
    int err = object_rebuild(&w->env, &w->options, NULL, NULL, &result);
    while (err < 0 && sim_fs_crashed(w->disk)) {
        sim_fs_crash(w->disk);
        w->crashes++;
        err = object_rebuild(&w->env, &w->options, NULL, NULL, &result);
    }
    failpoint_clear();
    REQUIRE(err == 0, "rebuild: %s", error_name(err));
    open_after(w, "a rebuild");
    struct pool *pool = pool_new(0);
    struct bucket_record record;
    err = directory_bucket(w->store, SLICE_LITERAL("bucket"), SLICE_EMPTY, pool, &record);
    REQUIRE(err == 0, "the bucket's name is gone after a rebuild: %s", error_name(err));
    REQUIRE(record.id == w->bucket, "the bucket changed its id");
    pool_free(pool);
    REQUIRE(settle_all(w), "a power cut that nobody asked for");
    check_listing(w, true);
}

static void run_seed(uint64_t seed) {
    static struct world world;
    struct world *w = &world;
    current_seed = seed;
    w->next_sequence = 1;
    prng_init(&w->prng, seed);
    struct sim_fs_options disk = {.seed = seed * 7 + 1,
                                  .survive_percent = 1 + (uint32_t)prng_below(&w->prng, 99),
                                  .tear_percent = 1 + (uint32_t)prng_below(&w->prng, 60)};
    w->disk = sim_fs_new(&disk);
    w->kv_disk = kv_mem_disk_new();
    os_clock_sim_init(&w->clock, 1764547200000);
    os_random_sim_init(&w->random, seed);
    w->env = (struct os_env){sim_fs_fs(w->disk), &w->clock.clock, &w->random.random};
    node_options(w);
    armed_disk = w->disk;
    failpoint_set_crash_handler(power_off_at);
    arm_one(&w->prng, "");
    int err = -HL_ERR_CRASHED;
    for (int tries = 0; tries < 5 && err < 0; tries++) { /* the first start may be cut as well */
        open_after(w, "its creation");
        err = create_bucket(w);
        if (err < 0 && node_dead(w)) {
            lose_power(w);
        }
    }
    REQUIRE(err == 0, "creating a bucket: %s", error_name(err));
    struct client clients[CLIENT_COUNT];
    for (uint32_t i = 0; i < CLIENT_COUNT; i++) {
        clients[i] = (struct client){.w = w, .number = i};
    }
    uint64_t rounds = 2 + prng_below(&w->prng, 6);
    for (uint64_t round = 0; round < rounds; round++) {
        if (prng_below(&w->prng, 5) != 0) {
            sim_fs_crash_after(w->disk, 1 + prng_below(&w->prng, 300));
        }
        uint64_t steps = 50 + prng_below(&w->prng, 400);
        for (uint64_t i = 0; i < steps && !node_dead(w); i++) {
            one_step(w, clients);
        }
        if (node_dead(w) || prng_below(&w->prng, 2) == 0) {
            power_cut(w);
        }
    }
    failpoint_clear();
    quiesce(w);
    if (prng_below(&w->prng, 3) == 0) {
        REQUIRE(meta_checkpoint(object_meta(w->store)) == 0, "checkpoint");
        rebuild(w);
    }
    delete_everything(w, &clients[0]);
    node_close(w);
    sim_fs_free(w->disk);
    kv_mem_disk_free(w->kv_disk);
    failpoint_each(count_point, NULL);
    totals->operations += w->operations;
    totals->crashes += w->crashes;
}

/* Each seed runs in a process of its own, so that one that fails does not stop the others. */
static bool run_forked(uint64_t seed, bool quiet) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (quiet) {
            logger_set_fd(open("/dev/null", O_WRONLY));
        }
        alarm(120);
        run_seed(seed);
        _exit(0);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    if (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 1)) {
        printf(
            "not ok seed %llu: died with status %d (replay: build-test/test/sim/sim --seed %llu)\n",
            (unsigned long long)seed, status, (unsigned long long)seed);
    }
    return status == 0;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},  {"seeds", required_argument, NULL, 'n'},
        {"first", required_argument, NULL, 'f'}, {"failpoints", no_argument, NULL, 'p'},
        {"arm", required_argument, NULL, 'a'},   {0}};
    bool report_points = false;
    uint64_t seed = 0, count = 100, first = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            count = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            first = strtoull(optarg, NULL, 10);
            break;
        case 'a':
            armed_by_option = optarg;
            break;
        case 'p':
            report_points = true;
            break;
        default:
            fprintf(stderr, "usage: sim [--seed S | --first F --seeds N]\n");
            return 2;
        }
    }
    totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(totals != MAP_FAILED, "memory");
    if (seed != 0) {
        run_seed(seed); /* in this process, for a debugger */
        printf("ok seed %llu\n", (unsigned long long)seed);
        return 0;
    }
    uint64_t good = 0;
    for (uint64_t s = first; s < first + count; s++) {
        good += run_forked(s, true);
    }
    printf("%s %llu of %llu seeds: %llu operations, %llu acknowledged, %llu power cuts, %llu "
           "rebuilds\n",
           good == count ? "ok" : "not ok", (unsigned long long)good, (unsigned long long)count,
           (unsigned long long)totals->operations, (unsigned long long)totals->acknowledged,
           (unsigned long long)totals->crashes, (unsigned long long)totals->rebuilds);
    for (uint32_t i = 0; report_points && i < totals->point_count; i++) {
        printf("failpoint %s %llu %llu\n", totals->points[i].name,
               (unsigned long long)totals->points[i].hits,
               (unsigned long long)totals->points[i].crashes);
    }
    return good == count ? 0 : 1;
}
