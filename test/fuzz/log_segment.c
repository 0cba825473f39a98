/* Whatever a segment file holds, recovery reads it without a crash, delivers only bytes of the
 * file, and a log that it accepts takes an append which the next recovery delivers too.
 *
 * The first byte chooses: 0: the rest is the file behind its header as it is; 1: wherever a
 * record's magic stands, its checksums and chain are made right first, so that the fuzzer gets
 * behind them. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/logger.h"
#include "base/macros.h"
#include "log/log_int.h"
#include "os/sim_fs.h"

#define SEGMENT_BYTES (16u << 10)
#define DIR           "/log"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t cluster[16] = "cluster-of-tests";

static uint32_t put_header(uint8_t *segment) {
    struct log_segment_info info = {.number = 1, .segment_bytes = SEGMENT_BYTES};
    memcpy(info.cluster_id, cluster, sizeof(cluster));
    struct log_segment_header header;
    log_segment_encode(&info, &header);
    memcpy(segment, &header, sizeof(header));
    return info.crc;
}

static void repair_checksums(uint8_t *segment, uint32_t chain) {
    uint64_t off = LOG_SEGMENT_HEADER_SIZE;
    while (off + LOG_RECORD_HEADER_SIZE <= SEGMENT_BYTES) {
        struct log_record_header header;
        memcpy(&header, segment + off, sizeof(header));
        uint64_t record_size = log_record_size(get_le32(header.length));
        if (get_le32(header.magic) != LOG_RECORD_MAGIC || record_size > SEGMENT_BYTES - off) {
            off += LOG_RECORD_ALIGN;
            continue;
        }
        struct log_record_info info = {
            .payload_crc = crc32c(0, segment + off + LOG_RECORD_HEADER_SIZE,
                                  (size_t)record_size - LOG_RECORD_HEADER_SIZE),
            .chain = chain,
            .length = get_le32(header.length),
            .kind = get_le16(header.kind),
            .flags = get_le16(header.flags),
            .group = get_le32(header.group),
            .left = get_le32(header.left),
            .term = get_le64(header.term),
            .index = get_le64(header.index),
            .batch = get_le64(header.batch),
        };
        log_record_encode(cluster, 1, off, &info, &header);
        memcpy(segment + off, &header, sizeof(header));
        chain = info.header_crc;
        off += record_size;
    }
}

struct seen {
    uint64_t count;
    uint64_t bytes;
    uint32_t crc;
};

static int see(void *arg, const struct log_record *record, struct slice payload,
               struct log_position position) {
    struct seen *seen = arg;
    CHECK(position.off + log_record_size((uint32_t)payload.size) <= SEGMENT_BYTES);
    seen->count++;
    seen->bytes += payload.size;
    seen->crc = crc32c(seen->crc, payload.data, payload.size);
    return 0;
}

static int recover(struct os_env *env, struct log **ret, struct seen *seen) {
    struct log_options options = {.segment_bytes = SEGMENT_BYTES, .cluster_id = cluster};
    int err = log_open(env, DIR, &options, ret);
    return err != 0 ? err : log_recover(*ret, see, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    logger_set_fd(getenv("FUZZ_LOG") != NULL ? 2 : -1);
    if (size < 1 || size - 1 > SEGMENT_BYTES - LOG_SEGMENT_HEADER_SIZE) {
        return 0;
    }
    CLEANUP_FREE uint8_t *segment = calloc(1, SEGMENT_BYTES);
    uint32_t chain = put_header(segment);
    memcpy(segment + LOG_SEGMENT_HEADER_SIZE, data + 1, size - 1);
    if (data[0] == 1) {
        repair_checksums(segment, chain);
    }
    struct sim_fs *sim = sim_fs_new(&(struct sim_fs_options){.seed = 1});
    struct os_env env = {sim_fs_fs(sim), os_clock_real(), os_random_real()};
    CHECK(os_mkdir_all(env.fs, DIR) == 0);
    CHECK(os_file_replace(env.fs, DIR "/0000000000000001.log", segment, SEGMENT_BYTES) == 0);
    struct log *log = NULL;
    struct seen first = {0};
    if (recover(&env, &log, &first) == 0) {
        struct iovec part = {(void *)(uintptr_t) "more", 4};
        struct log_record record = {.kind = LOG_ENTRY, .parts = &part, .part_count = 1};
        CHECK(log_append(log, &record, 1) == 0);
        log_close(log);
        log = NULL;
        struct seen second = {0};
        CHECK(recover(&env, &log, &second) == 0);
        CHECK(second.count == first.count + 1 && second.bytes == first.bytes + 4);
        CHECK(second.crc == crc32c(first.crc, "more", 4));
    }
    log_close(log);
    sim_fs_free(sim);
    return 0;
}
