/* The set: markers, locks, foreign clusters, space, syncs that fail, directories, removal. */
#include "testvolume.h"

static int append(struct node *node, uint64_t low, size_t size, bool use_reserve,
                  struct volume_location *ret) {
    uint8_t *body = malloc(size + 1);
    fill_body((struct body_id){1, low}, body, size);
    struct volume_append a = {.record = {.id = {1, low}, .kind = VOLUME_HEAD},
                              .body = slice_of(body, size)};
    int err = volume_append(node->set, &a, 1, use_reserve, ret);
    free(body);
    return err;
}

static int read_back(struct node *node, uint64_t low, const struct volume_location *location) {
    struct volume_file *file = volume_pin(node->set, location->volume);
    if (file == NULL) {
        return -HL_ERR_NOT_FOUND;
    }
    uint8_t *bytes = malloc(location->body_bytes + 1), *expected = malloc(location->body_bytes + 1);
    fill_body((struct body_id){1, low}, expected, location->body_bytes);
    int err = volume_read(file, location, (struct body_id){1, low}, 0, bytes, location->body_bytes,
                          false);
    if (err == 0) {
        assert_memory_equal(bytes, expected, location->body_bytes);
    }
    free(bytes);
    free(expected);
    volume_unpin(file);
    return err;
}

static void marker_is_required(void **state) {
    struct node node;
    node_init(&node, 1, 0, 1);
    assert_int_equal(node_open(&node, false), -HL_ERR_NO_MARKER);
    uint64_t size;
    bool is_dir;
    assert_int_equal(os_stat(node.env.fs, "/a", &size, &is_dir), -HL_ERR_NOT_FOUND);
    assert_int_equal(node_open(&node, true), 0);
    node_close(&node);
    assert_int_equal(node_open(&node, false), 0);
    struct volume_location location;
    assert_int_equal(append(&node, 1, 100, false, &location), 0);
    assert_int_equal(volume_sync_all(node.set), 0);
    node_close(&node);
    assert_int_equal(os_unlink(node.env.fs, "/a/hayloft-marker"), 0);
    assert_int_equal(os_unlink(node.env.fs, "/a/LOCK"), 0);
    assert_int_equal(node_open(&node, false), -HL_ERR_NO_MARKER);
    assert_int_equal(node_open(&node, true), -HL_ERR_NO_MARKER); /* it holds volumes */
    assert_int_equal(os_stat(node.env.fs, "/a/LOCK", &size, &is_dir), -HL_ERR_NOT_FOUND);
    node_done(&node);
}

static void foreign_cluster_and_lock(void **state) {
    struct node node;
    node_init(&node, 2, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_set *other;
    assert_int_equal(volume_set_open(&node.env, &node.options, false, &other), -HL_ERR_LOCKED);
    node_close(&node);
    node.options.cluster_id = (const uint8_t *)"another-cluster!";
    assert_int_equal(node_open(&node, false), -HL_ERR_WRONG_CLUSTER);
    node.options.cluster_id = (const uint8_t *)CLUSTER;
    assert_int_equal(node_open(&node, false), 0);
    node_close(&node);
    struct os_file *file;
    assert_int_equal(os_open(node.env.fs, "/a/hayloft-marker", OS_OPEN_WRITE, &file), 0);
    assert_int_equal(os_file_write(file, 10, "x", 1), 0);
    os_file_close(file);
    assert_int_equal(node_open(&node, false), -HL_ERR_NO_MARKER);
    node_done(&node);
}

/* A full disk refuses ordinary writes, keeps the reserve, and takes writes again after removal. */
static void full_disk(void **state) {
    struct node node;
    node_init(&node, 3, 2 << 20, 1);
    node.options.reserve_bytes = 512 << 10;
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location locations[200];
    uint32_t count = 0;
    int err;
    while ((err = append(&node, count, 20000, false, &locations[count])) == 0) {
        count++;
        assert_true(count < 200);
    }
    assert_int_equal(err, -HL_ERR_NO_SPACE);
    assert_true(count > 60 && count < 80); /* 1.5 MiB of 20,000 bytes */
    struct volume_slot *slot;
    assert_int_equal(volume_slot_open(node.set, 20000, 0, false, &slot), -HL_ERR_NO_SPACE);
    uint32_t in_reserve = 0;
    while (append(&node, count, 20000, true, &locations[count]) == 0) {
        count++;
        in_reserve++;
    }
    assert_true(in_reserve > 15 && in_reserve < 27);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(read_back(&node, i, &locations[i]), 0);
    }
    assert_int_equal(volume_sync_all(node.set), 0);
    for (uint32_t volume = 1; volume <= 4; volume++) {
        volume_seal(node.set, volume);
        assert_int_equal(volume_remove(node.set, volume), 0);
    }
    assert_int_equal(append(&node, count, 20000, false, &locations[count]), 0);
    assert_int_equal(read_back(&node, count, &locations[count]), 0);
    assert_int_equal(read_back(&node, 0, &locations[0]), -HL_ERR_NOT_FOUND);
    node_done(&node);
}

/* The file system is fuller than it said: the write fails, the next one goes on elsewhere. */
static void write_meets_full_disk(void **state) {
    struct node node;
    node_init(&node, 4, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location location;
    assert_int_equal(append(&node, 1, 1000, false, &location), 0);
    sim_fs_fail_write(node.sim, 1, -HL_ERR_NO_SPACE);
    struct volume_location other;
    assert_int_equal(append(&node, 2, 1000, false, &other), -HL_ERR_NO_SPACE);
    struct volume_slot *slot;
    assert_int_equal(volume_slot_open(node.set, 1000, 0, false, &slot), 0);
    sim_fs_fail_write(node.sim, 1, -HL_ERR_NO_SPACE);
    assert_int_equal(volume_slot_write(slot, "abc", 3), -HL_ERR_NO_SPACE);
    struct volume_record record = {.id = {1, 3}, .kind = VOLUME_BLOCK};
    assert_int_equal(volume_slot_finish(slot, &record, &other), -HL_ERR_NO_SPACE);
    assert_int_equal(append(&node, 4, 1000, false, &other), 0);
    assert_int_equal(read_back(&node, 1, &location), 0);
    assert_int_equal(read_back(&node, 4, &other), 0);
    node_done(&node);
}

/* Many open slots cannot promise the same room twice. */
static void slots_reserve_space(void **state) {
    struct node node;
    node_init(&node, 5, 2 << 20, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_slot *slots[16] = {NULL};
    int opened = 0;
    while (opened < 16 && volume_slot_open(node.set, 300 << 10, 0, false, &slots[opened]) == 0) {
        opened++;
    }
    assert_in_range(opened, 5, 6);
    for (int i = 0; i < opened; i++) {
        volume_slot_abort(slots[i]);
    }
    struct volume_slot *slot;
    assert_int_equal(volume_slot_open(node.set, 1 << 20, 0, false, &slot), 0);
    volume_slot_abort(slot);
    node_done(&node);
}

static void failed_sync_is_final(void **state) {
    struct node node;
    node_init(&node, 6, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location location, other;
    assert_int_equal(append(&node, 1, 1000, false, &location), 0);
    sim_fs_fail_sync(node.sim, 1);
    assert_int_equal(volume_sync(node.set, location.volume), -HL_ERR_CRASHED);
    assert_int_equal(volume_sync(node.set, location.volume), -HL_ERR_CRASHED);
    assert_int_equal(volume_sync_all(node.set), -HL_ERR_CRASHED);
    assert_int_equal(append(&node, 2, 1000, false, &other), -HL_ERR_CRASHED);
    assert_int_equal(read_back(&node, 1, &location), 0);
    node_done(&node);
}

static void capacities_and_read_only(void **state) {
    struct node node;
    node_init(&node, 7, 0, 2);
    node.dirs[0].capacity_bytes = 600 << 10;
    node.dirs[1].read_only = true;
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location location;
    uint64_t count = 0;
    while (append(&node, count, 10000, false, &location) == 0) {
        struct volume_info info;
        assert_int_equal(volume_info(node.set, location.volume, &info), 0);
        assert_int_equal(info.dir, 0);
        count++;
        assert_true(count < 100);
    }
    assert_true(count >= 50); /* 600 KiB less a reserve of 64 KiB */
    struct volume_space space;
    volume_space(node.set, &space);
    assert_true(space.degraded);
    assert_true(space.bytes_used <= 600 << 10);
    node_done(&node);
}

static void pinned_file_survives_removal(void **state) {
    struct node node;
    node_init(&node, 8, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location location;
    assert_int_equal(append(&node, 1, 5000, false, &location), 0);
    struct volume_file *file = volume_pin(node.set, location.volume);
    volume_seal(node.set, location.volume);
    assert_int_equal(volume_remove(node.set, location.volume), 0);
    assert_null(volume_pin(node.set, location.volume));
    uint8_t bytes[5000], expected[5000];
    assert_int_equal(
        volume_read(file, &location, (struct body_id){1, 1}, 0, bytes, sizeof(bytes), false), 0);
    fill_body((struct body_id){1, 1}, expected, sizeof(expected));
    assert_memory_equal(bytes, expected, sizeof(bytes));
    volume_unpin(file);
    node_done(&node);
}

/* Both copies of the file header gone: the volume is kept and reported, never removed by itself. */
static void damaged_file_header(void **state) {
    struct node node;
    node_init(&node, 9, 0, 1);
    assert_int_equal(node_open(&node, true), 0);
    struct volume_location location;
    assert_int_equal(append(&node, 1, 100, false, &location), 0);
    assert_int_equal(volume_sync_all(node.set), 0);
    node_close(&node);
    assert_int_equal(sim_fs_flip(node.sim, "/a/volumes/000001.vol", 20, 1), 0);
    assert_int_equal(node_open(&node, false), 0);
    assert_int_equal(read_back(&node, 1, &location), 0); /* from the second copy */
    node_close(&node);
    assert_int_equal(sim_fs_flip(node.sim, "/a/volumes/000001.vol", 532, 1), 0);
    assert_int_equal(node_open(&node, false), 0);
    struct volume_info info;
    assert_int_equal(volume_info(node.set, 1, &info), 0);
    assert_true(info.damaged && info.sealed);
    assert_int_equal(read_back(&node, 1, &location), -HL_ERR_CORRUPT);
    node_done(&node);
}

int main(void) {
    logger_set_fd(-1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(marker_is_required),
                                       cmocka_unit_test(foreign_cluster_and_lock),
                                       cmocka_unit_test(full_disk),
                                       cmocka_unit_test(write_meets_full_disk),
                                       cmocka_unit_test(slots_reserve_space),
                                       cmocka_unit_test(failed_sync_is_final),
                                       cmocka_unit_test(capacities_and_read_only),
                                       cmocka_unit_test(pinned_file_survives_removal),
                                       cmocka_unit_test(damaged_file_header)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
