/* Many whole records with one write: the path on which the turn's small objects reach a volume. The
 * small pieces (headers, tables, origins) are laid out in one arena, so that a record costs two
 * vectors; bodies are written from where they are. */
#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/macros.h"
#include "volume/volume_int.h"

#define IOV_BATCH 512

struct arena {
    uint8_t *data;
    struct iovec *iov;
    int iov_count;
    uint8_t *pos; /* free space */
    uint8_t *run; /* start of the small pieces not yet in iov */
};

static int check_limits(const struct volume_append *appends, uint32_t count, uint64_t *ret_total,
                        uint64_t *ret_small) {
    uint64_t total = 0, small = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct volume_append *a = &appends[i];
        size_t key = a->record.origin_key.size, value = a->record.origin_value.size;
        if (a->body.size > VOLUME_BODY_MAX || key > VOLUME_KEY_MAX || value > VOLUME_VALUE_MAX) {
            return -HL_ERR_LIMIT;
        }
        uint32_t size = volume_record_size((uint32_t)a->body.size, (uint32_t)key, (uint32_t)value);
        total += size;
        small += size - a->body.size;
    }
    *ret_total = total;
    *ret_small = small;
    return 0;
}

static void arena_put(struct arena *arena, struct slice bytes) {
    if (bytes.size > 0) {
        memcpy(arena->pos, bytes.data, bytes.size);
        arena->pos += bytes.size;
    }
}

static void arena_flush_run(struct arena *arena) {
    if (arena->pos > arena->run) {
        arena->iov[arena->iov_count++] =
            (struct iovec){arena->run, (size_t)(arena->pos - arena->run)};
        arena->run = arena->pos;
    }
}

static void lay_out(struct arena *arena, const struct volume_append *a, struct volume_file *file,
                    const struct volume_location *location) {
    struct slice key = a->record.origin_key, value = a->record.origin_value;
    struct volume_header header = {.kind = a->record.kind,
                                   .volume = location->volume,
                                   .off = location->off,
                                   .id = a->record.id,
                                   .body_bytes = location->body_bytes,
                                   .key_bytes = (uint32_t)key.size,
                                   .value_bytes = (uint32_t)value.size,
                                   .origin_crc = volume_origin_crc(a->record.id, key, value)};
    volume_header_encode(&header, file->uuid, arena->pos);
    arena->pos += VOLUME_RECORD_HEADER;
    if (a->body.size > 0) {
        arena_flush_run(arena);
        arena->iov[arena->iov_count++] =
            (struct iovec){(void *)(uintptr_t)a->body.data, a->body.size};
    }
    for (uint32_t i = 0; i < volume_span_count(a->body.size); i++) {
        put_le32(arena->pos,
                 volume_span_crc(a->record.id, i, a->body.data + (size_t)i * VOLUME_SPAN,
                                 volume_span_bytes(location->body_bytes, i)));
        arena->pos += 4;
    }
    arena_put(arena, key);
    arena_put(arena, value);
    size_t content = VOLUME_RECORD_HEADER + a->body.size + 4ull * volume_span_count(a->body.size) +
                     key.size + value.size;
    memset(arena->pos, 0, location->record_bytes - content);
    arena->pos += location->record_bytes - content;
}

static int write_all(struct volume_region *region, const struct iovec *iov, int count) {
    uint64_t off = 0;
    for (int done = 0; done < count;) {
        int n = MIN(count - done, IOV_BATCH);
        int err = volume_region_write(region, off, iov + done, n);
        if (err != 0) {
            return err;
        }
        for (int i = 0; i < n; i++) {
            off += iov[done + i].iov_len;
        }
        done += n;
        FAILPOINT("volume.append.piece");
    }
    return 0;
}

static int append_to(struct volume_region *region, const struct volume_append *appends,
                     uint32_t count, struct arena *arena, struct volume_location *locations) {
    uint64_t off = region->off;
    for (uint32_t i = 0; i < count; i++) {
        const struct volume_append *a = &appends[i];
        locations[i] = (struct volume_location){
            .volume = region->file->number,
            .off = off,
            .record_bytes =
                volume_record_size((uint32_t)a->body.size, (uint32_t)a->record.origin_key.size,
                                   (uint32_t)a->record.origin_value.size),
            .body_bytes = (uint32_t)a->body.size};
        lay_out(arena, a, region->file, &locations[i]);
        off += locations[i].record_bytes;
    }
    arena_flush_run(arena);
    FAILPOINT("volume.append.before");
    int err = FAILPOINT_ERROR("volume.append.error")
                  ? -HL_ERR_NO_SPACE
                  : write_all(region, arena->iov, arena->iov_count);
    FAILPOINT("volume.append.written");
    return err;
}

int volume_append(struct volume_set *set, const struct volume_append *appends, uint32_t count,
                  bool use_reserve, struct volume_location *ret_locations) {
    if (count == 0) {
        return 0;
    }
    uint64_t total = 0, small = 0;
    int err = check_limits(appends, count, &total, &small);
    if (err != 0) {
        return err;
    }
    CLEANUP_FREE uint8_t *data = malloc(small);
    CLEANUP_FREE struct iovec *iov = calloc(2ull * count + 1, sizeof(*iov));
    CLEANUP_FREE struct volume_location *locations = calloc(count, sizeof(*locations));
    if (data == NULL || iov == NULL || locations == NULL) {
        return -HL_ERR_NOMEM;
    }
    struct volume_region region;
    err = volume_region_open(set, total, use_reserve, &region);
    if (err != 0) {
        return err;
    }
    struct arena arena = {.data = data, .iov = iov, .pos = data, .run = data};
    err = append_to(&region, appends, count, &arena, locations);
    CHECK(arena.pos == data + small);
    /* After a failed write some records may stand there whole: the region stays taken, as a gap. */
    volume_region_close(&region, region.bytes);
    if (err == 0) {
        memcpy(ret_locations, locations, count * sizeof(*locations));
    }
    return err;
}

int volume_rewrite(struct volume_set *set, const struct volume_append *append,
                   const struct volume_location *location) {
    uint64_t total = 0, small = 0;
    int err = check_limits(append, 1, &total, &small);
    if (err != 0) {
        return err;
    }
    if (total != location->record_bytes) {
        return -HL_ERR_INVALID;
    }
    struct iovec iov[3];
    CLEANUP_FREE uint8_t *data = malloc(small);
    struct volume_file *file = volume_pin(set, location->volume);
    if (data == NULL || file == NULL) {
        volume_unpin(file);
        return data == NULL ? -HL_ERR_NOMEM : -HL_ERR_NOT_FOUND;
    }
    struct arena arena = {.data = data, .iov = iov, .pos = data, .run = data};
    lay_out(&arena, append, file, location);
    arena_flush_run(&arena);
    if (volume_failed(set)) {
        err = -HL_ERR_CRASHED;
    } else if (!set->dirs[file->dir].read_only) {
        err = os_file_writev(file->file, location->off, iov, arena.iov_count);
    }
    pthread_mutex_lock(&set->mutex);
    file->written_generation++;
    volume_unref(file);
    pthread_mutex_unlock(&set->mutex);
    return err;
}
