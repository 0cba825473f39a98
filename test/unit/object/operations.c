/* The rules of each operation: conditions, quotas, multipart checks, copies, deletes in bulk, the
 * directory. What is expected is what S3 documents and what hash functions say of the bytes, not
 * what the code computes. */
#include <fcntl.h>

#include "base/bytes.h"
#include "harness.h"

#define MIB (1u << 20)

static struct object_conditions match(const struct slice *tags, uint32_t count) {
    return (struct object_conditions){.match = {.given = true, .tags = tags, .tag_count = count}};
}
static struct object_conditions none_match_any(void) {
    return (struct object_conditions){.none_match = {.given = true, .any = true}};
}

static void etag_of(struct slice body, char ret[OBJECT_ETAG_SIZE]) {
    struct etag etag = {.parts = 0};
    hash_sum(HASH_MD5, body, etag.md5);
    object_etag_text(&etag, ret);
}

/* ---- conditions ---- */

static void test_conditional_writes(void **state) {
    struct harness h;
    char text[OBJECT_ETAG_SIZE];
    h_start(&h, 1);
    struct object_conditions absent = none_match_any();
    struct object_conditions any = {.match = {.given = true, .any = true}};
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("one"), &any, NULL), -HL_ERR_NO_SUCH_KEY);
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("one"), &absent, NULL), 0);
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("two"), &absent, NULL),
                     -HL_ERR_PRECONDITION);
    etag_of(slice_str("one"), text);
    assert_string_equal(text, "f97c5d29941bfb1b2fdab0874906ab82"); /* md5sum */
    struct slice tags[2] = {SLICE_LITERAL("00000000000000000000000000000000"), slice_str(text)};
    struct object_conditions wrong = match(tags, 1), right = match(tags, 2);
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("two"), &wrong, NULL),
                     -HL_ERR_PRECONDITION);
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("two"), &right, NULL), 0);
    assert_int_equal(h_put(&h, h.bucket, "k", slice_str("three"), &right, NULL),
                     -HL_ERR_PRECONDITION);
    bool existed;
    assert_int_equal(h_delete(&h, h.bucket, "k", &right, &existed), -HL_ERR_PRECONDITION);
    struct object_conditions size = {.size_given = true, .size = 3};
    assert_int_equal(h_delete(&h, h.bucket, "k", &size, &existed), 0);
    assert_true(existed);
    assert_int_equal(h_delete(&h, h.bucket, "k", &size, &existed), 0); /* gone already: fine */
    assert_false(existed);
    h_done(&h);
}

static void test_conditional_reads(void **state) {
    struct object_record record = {.modified_ms = 1000500};
    memset(record.etag.md5, 0xab, 16);
    char text[OBJECT_ETAG_SIZE];
    object_etag_text(&record.etag, text);
    struct slice tag = slice_str(text), other = SLICE_LITERAL("x");
    struct object_conditions c = match(&other, 1);
    assert_int_equal(object_conditions_read(&c, &record), -HL_ERR_PRECONDITION);
    c = match(&tag, 1);
    c.unmodified_since_given = true; /* silenced by If-Match */
    assert_int_equal(object_conditions_read(&c, &record), 0);
    c = (struct object_conditions){.none_match = {.given = true, .tags = &tag, .tag_count = 1}};
    assert_int_equal(object_conditions_read(&c, &record), -HL_ERR_NOT_MODIFIED);
    c.none_match.tags = &other;
    c.modified_since_given = true;
    c.modified_since_ms = 9000000; /* silenced by If-None-Match */
    assert_int_equal(object_conditions_read(&c, &record), 0);
    c = (struct object_conditions){.modified_since_given = true, .modified_since_ms = 1000000};
    assert_int_equal(object_conditions_read(&c, &record), -HL_ERR_NOT_MODIFIED); /* same second */
    c.modified_since_ms = 999000;
    assert_int_equal(object_conditions_read(&c, &record), 0);
    c = (struct object_conditions){.unmodified_since_given = true, .unmodified_since_ms = 1000000};
    assert_int_equal(object_conditions_read(&c, &record), 0);
    c.unmodified_since_ms = 999000;
    assert_int_equal(object_conditions_read(&c, &record), -HL_ERR_PRECONDITION);
}

/* ---- quotas ---- */

static int set_quota(struct harness *h, uint64_t bytes, uint64_t objects) {
    struct object_wait *wait = h_wait(h);
    directory_quota_set(h->store, h->bucket, bytes, objects, h->pool, object_wait_executor(wait),
                        object_wait_done, wait);
    return object_wait(wait, NULL);
}

static void test_quotas(void **state) {
    struct harness h;
    h_start(&h, 1);
    assert_int_equal(set_quota(&h, 1000, 2), 0);
    assert_int_equal(h_put(&h, h.bucket, "a", h_body(&h, 1, 600), NULL, NULL), 0);
    assert_int_equal(h_put(&h, h.bucket, "b", h_body(&h, 2, 401), NULL, NULL), -HL_ERR_QUOTA);
    assert_int_equal(h_put(&h, h.bucket, "b", h_body(&h, 2, 400), NULL, NULL), 0);
    assert_int_equal(h_put(&h, h.bucket, "c", SLICE_EMPTY, NULL, NULL), -HL_ERR_QUOTA);
    assert_int_equal(h_copy_keys(&h, "a", "c", NULL), -HL_ERR_QUOTA);
    /* An overwrite counts by its difference, and shrinking is always allowed. */
    assert_int_equal(h_put(&h, h.bucket, "a", h_body(&h, 3, 601), NULL, NULL), -HL_ERR_QUOTA);
    assert_int_equal(h_put(&h, h.bucket, "a", h_body(&h, 3, 100), NULL, NULL), 0);
    assert_int_equal(h_put(&h, h.bucket, "b", h_body(&h, 3, 900), NULL, NULL), 0);
    assert_int_equal(set_quota(&h, 10, 0), 0); /* below what is there */
    assert_int_equal(h_put(&h, h.bucket, "b", h_body(&h, 3, 9), NULL, NULL), 0);
    assert_int_equal(h_delete(&h, h.bucket, "a", NULL, NULL), 0);
    h_done(&h);
}

/* ---- deleting in bulk ---- */

static void test_delete_many(void **state) {
    struct harness h;
    struct object_delete_item items[1000] = {0};
    struct object_conditions size = {.size_given = true, .size = 1};
    struct directory_usage usage;
    h_start(&h, 1);
    for (int i = 0; i < 1000; i++) {
        items[i].key = slice_str(pool_printf(h.pool, "k%d", i / 2)); /* each key twice */
        if (i % 2 == 0 && i < 900) {
            const char *key = pool_printf(h.pool, "k%d", i / 2);
            size_t bytes = i == 500 ? 2 * H_BLOCK : i == 502 ? 1 : 3;
            assert_int_equal(h_put(&h, h.bucket, key, h_body(&h, (uint64_t)i, bytes), NULL, NULL),
                             0);
        }
    }
    assert_int_equal(h_copy_keys(&h, "k250", "k251", NULL), 0); /* both name one run */
    items[4].conditions = &size;
    items[5].conditions = &size;
    struct object_wait *wait = h_wait(&h);
    object_delete(h.store, h.bucket, items, 1000, h.pool, object_wait_executor(wait),
                  object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    int existed = 0;
    for (int i = 0; i < 1000; i++) {
        existed += items[i].existed;
        assert_int_equal(items[i].err, i == 4 ? -HL_ERR_PRECONDITION : 0);
    }
    assert_int_equal(existed, 449);
    assert_int_equal(directory_usage(h.store, h.bucket, &usage), 0);
    assert_int_equal(usage.objects, 1);
    assert_int_equal(usage.bytes, 3);
    h_done(&h);
}

/* More than an entry of the log can hold: several transactions, the same results. */
static void test_delete_large(void **state) {
    struct harness h;
    struct object_delete_item items[700] = {0};
    struct directory_usage usage;
    h_init(&h, 1);
    h.options.meta.log.segment_bytes = 64 << 10;
    h.options.meta.log.segments_max = 32;
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    for (int i = 0; i < 700; i++) {
        char *key = pool_printf(h.pool, "%0300d", i % 600); /* some twice */
        items[i].key = slice_str(key);
        if (i < 500) {
            assert_int_equal(h_put(&h, h.bucket, key, h_body(&h, 1, 1 + i % 7), NULL, NULL), 0);
        }
    }
    struct object_wait *wait = h_wait(&h);
    object_delete(h.store, h.bucket, items, 700, h.pool, object_wait_executor(wait),
                  object_wait_done, wait);
    assert_int_equal(object_wait(wait, NULL), 0);
    for (int i = 0; i < 700; i++) {
        assert_int_equal(items[i].err, 0);
        assert_int_equal(items[i].existed, i < 500);
    }
    assert_int_equal(directory_usage(h.store, h.bucket, &usage), 0);
    assert_int_equal(usage.objects, 0);
    assert_int_equal(usage.bytes, 0);
    h_done(&h);
}

/* ---- multipart ---- */

static int complete(struct harness *h, const uint8_t id[16],
                    const struct object_complete_part *parts, uint32_t count,
                    struct object_result *ret) {
    struct object_complete_args args = {
        .bucket = h->bucket, .key = SLICE_LITERAL("m"), .parts = parts, .part_count = count};
    memcpy(args.upload_id, id, 16);
    return h_complete(h, &args, ret);
}

static void use_big_blocks(struct harness *h) {
    h->options.data.block_bytes = MIB;
    h->options.data.volumes.volume_bytes_max = 64 * MIB;
}

static void test_multipart_rules(void **state) {
    struct harness h;
    uint8_t id[16], other[16] = {1};
    h_init(&h, 1);
    use_big_blocks(&h);
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    assert_int_equal(h_upload(&h, "m", NULL, id), 0);
    struct slice big = h_body(&h, 1, 5 * MIB), big2 = h_body(&h, 2, 5 * MIB + 1);
    struct slice small = h_body(&h, 3, 10);
    assert_int_equal(h_part(&h, "m", id, 1, small, NULL), 0);
    assert_int_equal(h_part(&h, "m", id, 1, big, NULL), 0); /* replaces it */
    assert_int_equal(h_part(&h, "m", id, 2, big2, NULL), 0);
    assert_int_equal(h_part(&h, "m", id, 9, small, NULL), 0);
    assert_int_equal(h_part(&h, "m", other, 9, small, NULL), -HL_ERR_NO_SUCH_UPLOAD);
    struct object_complete_part p[4] = {{.number = 1}, {.number = 2}, {.number = 9}};
    assert_int_equal(complete(&h, other, p, 3, NULL), -HL_ERR_NO_SUCH_UPLOAD);
    assert_int_equal(complete(&h, id, p, 0, NULL), -HL_ERR_XML);
    struct object_complete_part wrong_order[] = {{.number = 2}, {.number = 1}};
    assert_int_equal(complete(&h, id, wrong_order, 2, NULL), -HL_ERR_PART_ORDER);
    struct object_complete_part unknown[] = {{.number = 1}, {.number = 3}};
    assert_int_equal(complete(&h, id, unknown, 2, NULL), -HL_ERR_INVALID_PART);
    struct object_complete_part tag[] = {
        {.number = 1, .etag = SLICE_LITERAL("00000000000000000000000000000000")}};
    assert_int_equal(complete(&h, id, tag, 1, NULL), -HL_ERR_INVALID_PART);
    assert_int_equal(h_part(&h, "m", id, 1, small, NULL), 0);
    assert_int_equal(complete(&h, id, p, 3, NULL), -HL_ERR_TOO_SMALL);
    assert_int_equal(h_part(&h, "m", id, 1, big, NULL), 0);
    /* Part 2 twice: the last entry counts, here the right ETag. */
    char text[OBJECT_ETAG_SIZE];
    etag_of(big2, text);
    struct object_complete_part twice[] = {{.number = 1},
                                           {.number = 2, .etag = tag[0].etag},
                                           {.number = 2, .etag = slice_str(text)},
                                           {.number = 9}};
    struct object_result result, again;
    assert_int_equal(complete(&h, id, twice, 4, &result), 0);
    uint8_t md5s[48], md5[16];
    hash_sum(HASH_MD5, big, md5s);
    hash_sum(HASH_MD5, big2, md5s + 16);
    hash_sum(HASH_MD5, small, md5s + 32);
    hash_sum(HASH_MD5, slice_of(md5s, 48), md5);
    assert_memory_equal(result.etag.md5, md5, 16);
    assert_int_equal(result.etag.parts, 3);
    struct slice body = SLICE_EMPTY;
    struct object_record record = {0};
    assert_int_equal(h_get(&h, h.bucket, "m", &body, &record), 0);
    assert_int_equal(body.size, big.size + big2.size + small.size);
    assert_memory_equal(body.data, big.data, big.size);
    assert_memory_equal(body.data + big.size, big2.data, big2.size);
    assert_memory_equal(body.data + big.size + big2.size, small.data, small.size);
    assert_true(record.multipart);
    assert_int_equal(complete(&h, id, twice, 4, &again), 0);
    assert_int_equal(again.sequence, result.sequence);
    assert_int_equal(complete(&h, id, p, 3, NULL), -HL_ERR_NO_SUCH_UPLOAD); /* another request */
    assert_int_equal(h_put(&h, h.bucket, "m", small, NULL, NULL), 0);
    assert_int_equal(complete(&h, id, twice, 4, NULL), -HL_ERR_NO_SUCH_UPLOAD); /* overwritten */
    assert_int_equal(h_abort(&h, "m", id), -HL_ERR_NO_SUCH_UPLOAD);
    h_done(&h);
}

/* Checksums of the whole from those of the parts, against the whole in one go. */
static void test_multipart_checksums(void **state) {
    static const uint8_t algorithms[] = {CHECKSUM_CRC32, CHECKSUM_CRC32C, CHECKSUM_CRC64NVME,
                                         CHECKSUM_SHA1, CHECKSUM_SHA256};
    for (int i = 0; i < 10; i++) {
        uint8_t algorithm = algorithms[i % 5], type = (uint8_t)(i / 5);
        bool sha = algorithm == CHECKSUM_SHA1 || algorithm == CHECKSUM_SHA256;
        if ((sha && type == CHECKSUM_FULL_OBJECT) ||
            (algorithm == CHECKSUM_CRC64NVME && type == CHECKSUM_COMPOSITE)) {
            continue; /* not offered */
        }
        struct harness h;
        uint8_t id[16];
        struct object_result whole, parts[2], result;
        h_init(&h, 1);
        use_big_blocks(&h);
        assert_int_equal(h_open(&h), 0);
        h.bucket = h_bucket(&h, "bucket");
        struct slice all = h_body(&h, 9, 6 * MIB);
        struct upload_record upload = {
            .checksum_given = true, .checksum_algorithm = algorithm, .checksum_type = type};
        assert_int_equal(h_upload(&h, "m", &upload, id), 0);
        assert_int_equal(h_part(&h, "m", id, 1, slice_take(all, 5 * MIB), &parts[0]), 0);
        assert_int_equal(h_part(&h, "m", id, 2, slice_skip(all, 5 * MIB), &parts[1]), 0);
        struct slice content = all;
        if (type == CHECKSUM_COMPOSITE) {
            struct buf joined = {0};
            buf_append(&joined, parts[0].checksum.value, parts[0].checksum.size);
            buf_append(&joined, parts[1].checksum.value, parts[1].checksum.size);
            content = pool_copy(h.pool, buf_slice(&joined));
            buf_done(&joined);
        }
        struct object_write_args args = {.bucket = h.bucket,
                                         .key = SLICE_LITERAL("whole"),
                                         .size = content.size,
                                         .checksum_algorithm = algorithm};
        assert_int_equal(h_write(&h, &args, content, &(struct object_commit_args){0}, &whole), 0);
        struct object_complete_part p[] = {{.number = 1, .checksum = parts[0].checksum},
                                           {.number = 2}};
        struct object_complete_args complete_args = {.bucket = h.bucket,
                                                     .key = SLICE_LITERAL("m"),
                                                     .parts = p,
                                                     .part_count = 2,
                                                     .checksum = whole.checksum,
                                                     .size_given = true,
                                                     .size = all.size + 1};
        memcpy(complete_args.upload_id, id, 16);
        assert_int_equal(h_complete(&h, &complete_args, NULL), -HL_ERR_INVALID_REQUEST);
        complete_args.size--;
        complete_args.checksum.value[0] ^= 1;
        assert_int_equal(h_complete(&h, &complete_args, NULL), -HL_ERR_BAD_CHECKSUM);
        complete_args.checksum.value[0] ^= 1;
        assert_int_equal(h_complete(&h, &complete_args, &result), 0);
        assert_int_equal(result.checksum.type, type);
        assert_memory_equal(result.checksum.value, whole.checksum.value, whole.checksum.size);
        h_done(&h);
    }
}

/* 10,000 parts are one batch. Parts are shared by one copy each, so that memory stays small. */
static void test_many_parts(void **state) {
    struct harness h;
    uint8_t id[16];
    h_init(&h, 1);
    h.options.data.block_bytes = 2 * MIB;
    h.options.data.volumes.volume_bytes_max = 64 * MIB;
    h.options.meta.log.segment_bytes = 4 * MIB;
    h.options.meta.checkpoint_log_bytes = 16 * MIB;
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    assert_int_equal(h_put(&h, h.bucket, "source", h_body(&h, 1, 5 * MIB), NULL, NULL), 0);
    assert_int_equal(h_upload(&h, "m", NULL, id), 0);
    uint64_t live = h_live_bytes(&h);
    struct object_complete_part *parts = calloc(10000, sizeof(*parts));
    for (uint32_t i = 0; i < 10000; i++) {
        struct object_part_copy_args copy = {.source_bucket = h.bucket,
                                             .bucket = h.bucket,
                                             .source_key = SLICE_LITERAL("source"),
                                             .key = SLICE_LITERAL("m"),
                                             .part_number = (uint16_t)(i + 1)};
        memcpy(copy.upload_id, id, 16);
        struct object_wait *wait = h_wait(&h);
        object_part_copy(h.store, &copy, h.pool, object_wait_executor(wait), object_wait_done,
                         wait);
        assert_int_equal(object_wait(wait, NULL), 0);
        parts[i].number = (uint16_t)(i + 1);
        if (i % 256 == 0) {
            pool_reset(h.pool);
        }
    }
    struct object_result result;
    assert_int_equal(complete(&h, id, parts, 10000, &result), 0);
    assert_int_equal(result.size, 10000ull * 5 * MIB);
    assert_int_equal(result.etag.parts, 10000);
    struct object_read *read;
    uint8_t bytes[100];
    size_t got;
    struct slice want = h_body(&h, 1, 5 * MIB);
    assert_int_equal(object_read_open(h.store, h.bucket, SLICE_LITERAL("m"), h.pool, &read), 0);
    object_read_range(read, 7777ull * 5 * MIB + 2 * MIB - 50, 100);
    assert_int_equal(object_read_next(read, bytes, 100, false, &got), 0);
    assert_int_equal(got, 50); /* up to the end of a block */
    assert_int_equal(object_read_next(read, bytes + 50, 50, false, &got), 0);
    assert_memory_equal(bytes, want.data + 2 * MIB - 50, 100);
    object_read_done(read);
    assert_int_equal(h_delete(&h, h.bucket, "source", NULL, NULL), 0);
    assert_int_equal(h_delete(&h, h.bucket, "m", NULL, NULL), 0);
    h_settle(&h);
    assert_true(h_live_bytes(&h) < live - 5 * MIB + 100000);
    free(parts);
    h_done(&h);
}

/* ---- copies ---- */

static void test_copy(void **state) {
    struct harness h;
    struct slice body = SLICE_EMPTY;
    struct object_record from, to;
    h_start(&h, 1);
    struct header_pair pair = {SLICE_LITERAL("mtime"), SLICE_LITERAL("1.5")};
    struct object_write_args args = {
        .bucket = h.bucket, .key = SLICE_LITERAL("a"), .size = 3 * H_BLOCK};
    struct object_commit_args commit = {.headers = {.content_type = SLICE_LITERAL("text/x"),
                                                    .metadata = &pair,
                                                    .metadata_count = 1}};
    struct slice content = h_body(&h, 1, 3 * H_BLOCK);
    assert_int_equal(h_write(&h, &args, content, &commit, NULL), 0);
    uint64_t live = h_live_bytes(&h);
    assert_int_equal(h_copy_keys(&h, "a", "b", NULL), 0);
    assert_true(h_live_bytes(&h) < live + 1000); /* by reference */
    assert_int_equal(h_get(&h, h.bucket, "a", &body, &from), 0);
    assert_int_equal(h_get(&h, h.bucket, "b", &body, &to), 0);
    assert_true(slice_equal(body, content));
    assert_memory_equal(&from.etag, &to.etag, sizeof(from.etag));
    assert_int_equal(to.headers.metadata_count, 1);
    assert_true(slice_equal_str(to.headers.metadata[0].value, "1.5"));
    /* Onto itself: refused without a change, else the metadata is new and the bytes stay. */
    struct object_copy_args self = {.source_bucket = h.bucket,
                                    .bucket = h.bucket,
                                    .source_key = SLICE_LITERAL("a"),
                                    .key = SLICE_LITERAL("a")};
    assert_int_equal(h_copy(&h, &self, NULL), -HL_ERR_INVALID_REQUEST);
    self.replace_metadata = true;
    self.headers.content_type = SLICE_LITERAL("text/y");
    self.checksum_algorithm = CHECKSUM_SHA1;
    assert_int_equal(h_copy(&h, &self, NULL), 0);
    assert_int_equal(h_get(&h, h.bucket, "a", &body, &to), 0);
    assert_true(slice_equal(body, content));
    assert_true(slice_equal_str(to.headers.content_type, "text/y"));
    assert_int_equal(to.headers.metadata_count, 0);
    uint8_t sha1[20];
    hash_sum(HASH_SHA1, content, sha1);
    assert_int_equal(to.checksum.algorithm, CHECKSUM_SHA1);
    assert_memory_equal(to.checksum.value, sha1, 20);
    /* Both kinds of a failing source condition are 412. */
    struct object_conditions not_modified = none_match_any();
    self.key = SLICE_LITERAL("c");
    self.source_conditions = &not_modified;
    assert_int_equal(h_copy(&h, &self, NULL), -HL_ERR_PRECONDITION);
    self.source_conditions = NULL;
    self.source_key = SLICE_LITERAL("missing");
    assert_int_equal(h_copy(&h, &self, NULL), -HL_ERR_NO_SUCH_KEY);
    h_done(&h);
}

/* A copy of a multipart object is a plain one: its ETag is the MD5 of its bytes. */
static void test_copy_multipart(void **state) {
    struct harness h;
    uint8_t id[16], md5[16];
    struct slice body = SLICE_EMPTY;
    struct object_record record;
    h_start(&h, 1);
    struct slice content = h_body(&h, 5, 2 * H_BLOCK + 5);
    assert_int_equal(h_upload(&h, "m", NULL, id), 0);
    assert_int_equal(h_part(&h, "m", id, 4, content, NULL), 0);
    struct object_complete_part part = {.number = 4};
    assert_int_equal(complete(&h, id, &part, 1, NULL), 0);
    assert_int_equal(h_copy_keys(&h, "m", "plain", NULL), 0);
    assert_int_equal(h_delete(&h, h.bucket, "m", NULL, NULL), 0);
    h_settle(&h);
    assert_int_equal(h_get(&h, h.bucket, "plain", &body, &record), 0);
    assert_true(slice_equal(body, content));
    hash_sum(HASH_MD5, content, md5);
    assert_int_equal(record.etag.parts, 0);
    assert_false(record.multipart);
    assert_memory_equal(record.etag.md5, md5, 16);
    h_done(&h);
}

/* Ranges of every alignment give the bytes and their MD5. */
static void test_part_copy(void **state) {
    static const struct {
        uint64_t first, last;
        int err;
    } ranges[] = {{0, 3 * H_BLOCK - 1, 0},
                  {0, H_BLOCK - 1, 0},
                  {1, 2 * H_BLOCK, 0},
                  {H_BLOCK - 1, H_BLOCK, 0},
                  {5, 5, 0},
                  {3 * H_BLOCK - 1, 3 * H_BLOCK, -HL_ERR_RANGE},
                  {9, 8, -HL_ERR_INVALID}};
    struct harness h;
    h_start(&h, 1);
    struct slice content = h_body(&h, 1, 3 * H_BLOCK);
    assert_int_equal(h_put(&h, h.bucket, "s", content, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        uint8_t id[16], md5[16];
        struct object_result result;
        struct slice body = SLICE_EMPTY;
        assert_int_equal(h_upload(&h, "m", NULL, id), 0);
        struct object_part_copy_args copy = {.source_bucket = h.bucket,
                                             .bucket = h.bucket,
                                             .source_key = SLICE_LITERAL("s"),
                                             .key = SLICE_LITERAL("m"),
                                             .part_number = 1,
                                             .range_given = true,
                                             .range_first = ranges[i].first,
                                             .range_last = ranges[i].last};
        memcpy(copy.upload_id, id, 16);
        struct object_wait *wait = h_wait(&h);
        object_part_copy(h.store, &copy, h.pool, object_wait_executor(wait), object_wait_done,
                         wait);
        assert_int_equal(object_wait(wait, &result), ranges[i].err);
        if (ranges[i].err < 0) {
            continue;
        }
        struct slice want =
            slice_of(content.data + ranges[i].first, ranges[i].last - ranges[i].first + 1);
        hash_sum(HASH_MD5, want, md5);
        assert_memory_equal(result.etag.md5, md5, 16);
        struct object_complete_part part = {.number = 1};
        assert_int_equal(complete(&h, id, &part, 1, NULL), 0);
        assert_int_equal(h_get(&h, h.bucket, "m", &body, NULL), 0);
        assert_true(slice_equal(body, want));
    }
    h_done(&h);
}

/* ---- the rest ---- */

/* A reader that began before an overwrite ends with the old bytes. */
static void test_pinned_reader(void **state) {
    struct harness h;
    struct object_read *read;
    uint8_t bytes[3 * H_BLOCK];
    size_t filled = 0, got;
    h_start(&h, 1);
    struct slice old = h_body(&h, 1, sizeof(bytes));
    assert_int_equal(h_put(&h, h.bucket, "k", old, NULL, NULL), 0);
    assert_int_equal(object_read_open(h.store, h.bucket, SLICE_LITERAL("k"), h.pool, &read), 0);
    assert_int_equal(object_read_next(read, bytes, 100, false, &filled), 0);
    assert_int_equal(h_put(&h, h.bucket, "k", h_body(&h, 2, sizeof(bytes)), NULL, NULL), 0);
    assert_int_equal(h_delete(&h, h.bucket, "k", NULL, NULL), 0);
    h_settle(&h);
    while (filled < sizeof(bytes)) {
        assert_int_equal(object_read_next(read, bytes + filled, sizeof(bytes), false, &got), 0);
        assert_true(got > 0);
        filled += got;
    }
    assert_memory_equal(bytes, old.data, sizeof(bytes));
    object_read_done(read);
    h_done(&h);
}

/* Sessions that are given up leave nothing; wrong sizes are refused. */
static void test_sessions(void **state) {
    struct harness h;
    struct object_write *write;
    uint8_t bytes[H_BLOCK] = {0};
    h_start(&h, 1);
    struct object_write_args args = {
        .bucket = h.bucket, .key = SLICE_LITERAL("k"), .size = 2 * H_BLOCK};
    assert_int_equal(object_write_open(h.store, &args, h.pool, &write), 0);
    assert_false(object_write_is_inline(write));
    assert_int_equal(object_write_data(write, bytes, sizeof(bytes)), 0);
    assert_int_equal(object_write_data(write, bytes, 100), 0);
    assert_int_equal(object_write_finish(write), -HL_ERR_INCOMPLETE_BODY);
    object_write_abort(write);
    assert_int_equal(object_write_open(h.store, &args, h.pool, &write), 0);
    assert_int_equal(object_write_data(write, bytes, sizeof(bytes)), 0);
    assert_int_equal(object_write_data(write, bytes, sizeof(bytes)), 0);
    assert_int_equal(object_write_data(write, bytes, 1), -HL_ERR_INVALID);
    object_write_abort(write);
    args.bucket++;
    assert_int_equal(object_write_open(h.store, &args, h.pool, &write), -HL_ERR_NO_SUCH_BUCKET);
    struct slice body = SLICE_EMPTY;
    assert_int_equal(h_get(&h, h.bucket, "k", &body, NULL), -HL_ERR_NO_SUCH_KEY);
    struct object_stats stats;
    h_settle(&h);
    object_stats(h.store, &stats);
    assert_int_equal(stats.data.staged_bytes, 0);
    h_done(&h);
}

/* A full disk refuses writes, answers reads and deletes, and takes writes again when there is room.
 */
static void test_full_disk(void **state) {
    struct harness h;
    h_init(&h, 1);
    sim_fs_free(h.disk);
    h.disk = sim_fs_new(&(struct sim_fs_options){.seed = 1, .capacity_bytes = 12 * MIB});
    h.env.fs = sim_fs_fs(h.disk);
    h.options.data.volumes.reserve_bytes = 4 * MIB;
    assert_int_equal(os_mkdir_all(h.env.fs, "/data"), 0);
    assert_int_equal(h_open(&h), 0);
    h.bucket = h_bucket(&h, "bucket");
    int count = 0, err = 0;
    bool busy;
    while (err == 0 && count < 5000) {
        pool_reset(h.pool);
        const char *key = pool_printf(h.pool, "k%d", count);
        err = h_put(&h, h.bucket, key, h_body(&h, (uint64_t)count, 5 * H_BLOCK), NULL, NULL);
        count += err == 0;
        assert_int_equal(object_step(h.store, &busy), 0);
    }
    assert_int_equal(err, -HL_ERR_NO_SPACE);
    assert_true(count > 50);
    for (int i = 0; i < count; i++) {
        struct slice body = SLICE_EMPTY;
        const char *key = pool_printf(h.pool, "k%d", i);
        assert_int_equal(h_get(&h, h.bucket, key, &body, NULL), 0);
        assert_true(slice_equal(body, h_body(&h, (uint64_t)i, 5 * H_BLOCK)));
        if (i % 3 != 0) {
            assert_int_equal(h_delete(&h, h.bucket, key, NULL, NULL), 0);
        }
    }
    for (int i = 0; i < 30; i++) {
        h_settle(&h);
    }
    for (int i = 0; i < count / 3; i++) {
        pool_reset(h.pool);
        const char *key = pool_printf(h.pool, "again%d", i);
        assert_int_equal(h_put(&h, h.bucket, key, h_body(&h, 7, 5 * H_BLOCK), NULL, NULL), 0);
    }
    h_done(&h);
}

static void test_cleanup(void **state) {
    struct harness h;
    uint8_t id[16];
    uint32_t count;
    h_start(&h, 1);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(h_upload(&h, "m", NULL, id), 0);
        assert_int_equal(h_part(&h, "m", id, 1, h_body(&h, 1, 2 * H_BLOCK), NULL), 0);
        h.clock.wall_ms += 1000;
    }
    int64_t now = h.clock.wall_ms;
    assert_int_equal(object_upload_cleanup(h.store, h.bucket, now - 2500, &count), 0);
    assert_int_equal(count, 4);
    struct directory_usage usage;
    assert_int_equal(directory_usage(h.store, h.bucket, &usage), 0);
    assert_int_equal(usage.uploads, 2);
    assert_int_equal(usage.upload_bytes, 4 * H_BLOCK);
    h_done(&h);
}

int main(void) {
    logger_set_fd(open("/dev/null", O_WRONLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditional_writes),
        cmocka_unit_test(test_conditional_reads),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_delete_many),
        cmocka_unit_test(test_delete_large),
        cmocka_unit_test(test_multipart_rules),
        cmocka_unit_test(test_multipart_checksums),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_multipart),
        cmocka_unit_test(test_part_copy),
        cmocka_unit_test(test_pinned_reader),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_cleanup),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
