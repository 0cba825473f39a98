/* Damage: whatever bit of a volume flips, no wrong byte is ever returned; records behind damage are
 * found again; records that changed places, or lie in a copy of the file, are refused. */
#include "testvolume.h"

#define COUNT 6

struct written {
    struct body_id id;
    uint32_t size;
    struct volume_location location;
};

static void write_records(struct node *node, struct written *w) {
    static const uint32_t sizes[COUNT] = {40, 0, 300, 40, 66000, 100};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t *body = malloc(sizes[i] + 1);
        w[i].id = (struct body_id){3, i + 1};
        w[i].size = sizes[i];
        fill_body(w[i].id, body, sizes[i]);
        struct volume_append append = {.record = {.id = w[i].id,
                                                  .kind = VOLUME_HEAD,
                                                  .origin_key = SLICE_LITERAL("key"),
                                                  .origin_value = SLICE_LITERAL("value")},
                                       .body = slice_of(body, sizes[i])};
        assert_int_equal(volume_append(node->set, &append, 1, false, &w[i].location), 0);
        free(body);
    }
    assert_int_equal(volume_sync_all(node->set), 0);
}

/* 0 and the right bytes, or an error. */
static int read_checked(struct node *node, const struct written *w) {
    struct volume_file *file = volume_pin(node->set, w->location.volume);
    if (file == NULL) {
        return -HL_ERR_NOT_FOUND;
    }
    uint8_t *expected = malloc(w->size + 1), *bytes = malloc(w->size + 1);
    fill_body(w->id, expected, w->size);
    int err = volume_read(file, &w->location, w->id, 0, bytes, w->size, false);
    if (err == 0) {
        assert_memory_equal(bytes, expected, w->size);
    }
    struct volume_record record;
    struct buf origin = {0};
    int origin_err = volume_read_origin(file, &w->location, &record, &origin);
    if (origin_err == 0) {
        assert_true(slice_equal_str(record.origin_key, "key"));
        assert_true(slice_equal_str(record.origin_value, "value"));
        buf_done(&origin);
    }
    free(expected);
    free(bytes);
    volume_unpin(file);
    return err != 0 ? err : origin_err;
}

static int count_good(void *arg, const struct volume_scan_item *item) {
    uint32_t *count = arg;
    *count += item->record != NULL && item->err == 0 ? 1 : 0;
    return 0;
}

static void every_bit_flip_is_noticed(void **state) {
    struct node node;
    struct written w[COUNT];
    node_init(&node, 5, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    write_records(&node, w);
    uint64_t end = w[COUNT - 1].location.off + w[COUNT - 1].location.record_bytes;
    uint64_t noticed = 0, scans = 0;
    for (uint64_t off = 0; off<end; off += off> 3000 && off < 66000 ? 997 : 1) {
        unsigned bit = (unsigned)(off % 8);
        assert_int_equal(sim_fs_flip(node.sim, "/a/volumes/000001.vol", off, bit), 0);
        uint32_t bad = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            bad += read_checked(&node, &w[i]) != 0 ? 1 : 0;
        }
        assert_true(bad <= 1); /* the others stay readable */
        noticed += bad;
        if (off % 16 == 0) {
            uint32_t good = 0;
            assert_int_equal(volume_scan(node.set, 1, 0, true, count_good, &good), 0);
            assert_int_equal(good, COUNT - bad);
            scans++;
        }
        assert_int_equal(sim_fs_flip(node.sim, "/a/volumes/000001.vol", off, bit), 0);
    }
    printf("%llu flips noticed, %llu scans\n", (unsigned long long)noticed,
           (unsigned long long)scans);
    assert_true(noticed > 1000);
    node_done(&node);
}

static void patch(struct node *node, uint64_t off, const void *bytes, size_t size) {
    struct os_file *file;
    assert_int_equal(os_open(node->env.fs, "/a/volumes/000001.vol", OS_OPEN_WRITE, &file), 0);
    assert_int_equal(os_file_write(file, off, bytes, size), 0);
    os_file_close(file);
}

static void load(struct node *node, uint64_t off, void *bytes, size_t size) {
    struct os_file *file;
    size_t got;
    assert_int_equal(os_open(node->env.fs, "/a/volumes/000001.vol", OS_OPEN_READ, &file), 0);
    assert_int_equal(os_file_read(file, off, bytes, size, &got), 0);
    assert_int_equal(got, size);
    os_file_close(file);
}

/* Records 0 and 3 have the same size: exchanged as a whole, and only their bodies. */
static void misdirected_writes_are_refused(void **state) {
    struct node node;
    struct written w[COUNT];
    node_init(&node, 6, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    write_records(&node, w);
    uint32_t size = w[0].location.record_bytes;
    assert_int_equal(size, w[3].location.record_bytes);
    uint8_t a[256], b[256];
    load(&node, w[0].location.off, a, size);
    load(&node, w[3].location.off, b, size);
    patch(&node, w[0].location.off, b, size);
    patch(&node, w[3].location.off, a, size);
    assert_int_equal(read_checked(&node, &w[0]), -HL_ERR_CORRUPT);
    assert_int_equal(read_checked(&node, &w[3]), -HL_ERR_CORRUPT);
    patch(&node, w[0].location.off, a, size);
    patch(&node, w[3].location.off, b, size);
    assert_int_equal(read_checked(&node, &w[0]), 0);
    /* Body and table of the other record under this header. */
    patch(&node, w[0].location.off + 52, b + 52, size - 52);
    assert_int_equal(read_checked(&node, &w[0]), -HL_ERR_CORRUPT);
    patch(&node, w[0].location.off + 52, a + 52, size - 52);
    /* The index sends a read to another record. */
    struct written wrong = w[0];
    wrong.location = w[3].location;
    assert_int_equal(read_checked(&node, &wrong), -HL_ERR_CORRUPT);
    node_done(&node);
}

/* An object whose content is a volume file adds no record to a scan, nor does a copied file. */
static void stored_volume_files_do_not_confuse(void **state) {
    struct node node;
    struct written w[COUNT];
    node_init(&node, 7, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    write_records(&node, w);
    uint64_t size = w[COUNT - 1].location.off + w[COUNT - 1].location.record_bytes;
    uint8_t *copy = malloc(size);
    load(&node, 0, copy, size);
    struct volume_slot *slot;
    assert_int_equal(volume_slot_open(node.set, size, 16, false, &slot), 0);
    assert_int_equal(volume_slot_write(slot, copy, size), 0);
    volume_slot_abort(slot); /* no header: the scan searches through it */
    struct volume_append after = {.record = {.id = {8, 8}, .kind = VOLUME_HEAD}};
    struct volume_location location;
    assert_int_equal(volume_slot_open(node.set, size, 16, false, &slot), 0);
    assert_int_equal(volume_append(node.set, &after, 1, false, &location), 0);
    assert_int_equal(volume_slot_write(slot, copy, size), 0);
    volume_slot_abort(slot);
    uint32_t good = 0;
    assert_int_equal(volume_scan(node.set, 1, 0, true, count_good, &good), 0);
    assert_int_equal(good, COUNT + 1);
    free(copy);
    node_done(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_bit_flip_is_noticed),
                                       cmocka_unit_test(misdirected_writes_are_refused),
                                       cmocka_unit_test(stored_volume_files_do_not_confuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
