/* Whatever a volume file holds behind its header: a scan ends, reports areas that follow each other
 * and lie within the file, and what it reports as good reads back. The file header and the marker
 * decode without a crash, too.
 *
 * The first byte chooses: 0: the rest is the file as it is; 1: wherever a record's magic stands,
 * its place and header checksum are made right first, so that the fuzzer gets behind them. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "os/sim_fs.h"
#include "volume/volume_record.h"

#define PATH      "/a/volumes/000001.vol"
#define BYTES_MAX (256u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t cluster[16] = "cluster-of-tests";
static const uint8_t uuid[16] = "uuid-of-volume-1";

static void make_right(uint8_t *file, size_t size) {
    for (size_t off = VOLUME_DATA_OFF; off + VOLUME_RECORD_HEADER <= size; off += 8) {
        uint8_t *p = file + off;
        if (get_le32(p) != VOLUME_RECORD_MAGIC) {
            continue;
        }
        put_le32(p + offsetof(struct volume_record_header_disk, volume), 1);
        put_le64(p + offsetof(struct volume_record_header_disk, off), off);
        const size_t covered = offsetof(struct volume_record_header_disk, header_crc);
        put_le32(p + covered, crc32c(crc32c(0, uuid, sizeof(uuid)), p, covered));
    }
}

struct walk {
    struct volume_set *set;
    uint64_t next;
    uint64_t end;
    uint8_t *bytes;
};

static int check_item(void *arg, const struct volume_scan_item *item) {
    struct walk *walk = arg;
    CHECK(item->location.off == walk->next);
    walk->next = item->location.off + item->location.record_bytes;
    if (item->record == NULL) {
        return 0;
    }
    CHECK(item->location.body_bytes <= item->location.record_bytes);
    if (item->err != 0) {
        return 0;
    }
    CHECK(walk->next <= walk->end);
    struct volume_file *file = volume_pin(walk->set, 1);
    struct volume_record record;
    struct buf origin = {0};
    int err = volume_read(file, &item->location, item->record->id, 0, walk->bytes,
                          item->location.body_bytes, false);
    CHECK(err == 0);
    err = volume_read_origin(file, &item->location, &record, &origin);
    CHECK(err == 0 && slice_equal(record.origin_key, item->record->origin_key));
    buf_done(&origin);
    volume_unpin(file);
    return 0;
}

static int ignore_item(void *arg, const struct volume_scan_item *item) {
    return 0;
}

static void scan_file(struct os_env *env, const uint8_t *file, size_t size, uint8_t *scratch) {
    struct volume_dir dir = {.path = "/a"};
    struct volume_options options = {
        .dirs = &dir, .dir_count = 1, .cluster_id = cluster, .reserve_bytes = 1};
    struct walk walk = {.next = VOLUME_DATA_OFF, .bytes = scratch};
    CHECK(volume_set_open(env, &options, true, &walk.set) == 0);
    volume_set_close(walk.set);
    CHECK(os_file_replace(env->fs, PATH, file, size) == 0);
    CHECK(volume_set_open(env, &options, false, &walk.set) == 0);
    struct volume_info info;
    if (volume_info(walk.set, 1, &info) == 0) {
        walk.end = info.bytes;
        CHECK(info.damaged || volume_scan(walk.set, 1, 0, true, check_item, &walk) == 0);
        CHECK(info.damaged || volume_scan(walk.set, 1, 1500, false, ignore_item, NULL) == 0);
    }
    volume_set_close(walk.set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > BYTES_MAX) {
        return 0;
    }
    logger_set_fd(-1);
    struct volume_file_header header;
    uint8_t ids[32];
    (void)volume_file_header_decode(slice_of(data, size), &header);
    (void)volume_marker_decode(slice_of(data, size), ids, ids + 16);

    struct sim_fs_options options = {.seed = 1};
    struct sim_fs *sim = sim_fs_new(&options);
    struct os_clock_sim clock;
    struct os_random_sim random;
    os_clock_sim_init(&clock, 0);
    os_random_sim_init(&random, 1);
    struct os_env env = {sim_fs_fs(sim), &clock.clock, &random.random};
    size_t file_size = VOLUME_DATA_OFF + size - 1;
    uint8_t *file = malloc(file_size), *scratch = malloc(BYTES_MAX);
    CHECK(file != NULL && scratch != NULL);
    header = (struct volume_file_header){.number = 1};
    memcpy(header.cluster_id, cluster, sizeof(cluster));
    memcpy(header.uuid, uuid, sizeof(uuid));
    volume_file_header_encode(&header, file);
    memcpy(file + VOLUME_DATA_OFF, data + 1, size - 1);
    if (data[0] % 2 == 1) {
        make_right(file, file_size);
    }
    scan_file(&env, file, file_size, scratch);
    free(file);
    free(scratch);
    sim_fs_free(sim);
    return 0;
}
