/* The bytes of a simulated file: an array of chunks that are allocated when first written. Not
 * thread-safe: sim_fs.c holds its mutex. */
#include "os/sim_image.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"

static void count_chunks(struct sim_image *image, int64_t n) {
    if (image->chunk_counter != NULL) {
        *image->chunk_counter += (uint64_t)n;
    }
}

static void chunk_free(struct sim_image *image, uint64_t index) {
    if (index < image->chunk_count && image->chunks[index] != NULL) {
        free(image->chunks[index]);
        image->chunks[index] = NULL;
        count_chunks(image, -1);
    }
}

void sim_image_done(struct sim_image *image) {
    for (uint64_t i = 0; i < image->chunk_count; i++) {
        chunk_free(image, i);
    }
    free(image->chunks);
    image->chunks = NULL;
    image->chunk_count = 0;
    image->size = 0;
}

static uint8_t *chunk_get(struct sim_image *image, uint64_t index) {
    if (index >= image->chunk_count) {
        uint64_t count = MAX(index + 1, image->chunk_count * 2);
        image->chunks = realloc(image->chunks, count * sizeof(*image->chunks));
        CHECK(image->chunks != NULL);
        memset(image->chunks + image->chunk_count, 0,
               (count - image->chunk_count) * sizeof(*image->chunks));
        image->chunk_count = count;
    }
    if (image->chunks[index] == NULL) {
        image->chunks[index] = calloc(1, SIM_CHUNK_BYTES);
        CHECK(image->chunks[index] != NULL);
        count_chunks(image, 1);
    }
    return image->chunks[index];
}

void sim_image_write(struct sim_image *image, uint64_t off, const uint8_t *data, uint64_t size) {
    image->size = MAX(image->size, size == 0 ? image->size : off + size);
    while (size > 0) {
        uint64_t within = off % SIM_CHUNK_BYTES;
        uint64_t n = MIN(size, SIM_CHUNK_BYTES - within);
        memcpy(chunk_get(image, off / SIM_CHUNK_BYTES) + within, data, n);
        off += n;
        data += n;
        size -= n;
    }
}

size_t sim_image_read(const struct sim_image *image, uint64_t off, uint8_t *data, size_t size) {
    if (off >= image->size) {
        return 0;
    }
    size_t total = (size_t)MIN((uint64_t)size, image->size - off);
    for (size_t left = total; left > 0;) {
        uint64_t index = off / SIM_CHUNK_BYTES, within = off % SIM_CHUNK_BYTES;
        size_t n = (size_t)MIN((uint64_t)left, SIM_CHUNK_BYTES - within);
        if (index < image->chunk_count && image->chunks[index] != NULL) {
            memcpy(data, image->chunks[index] + within, n);
        } else {
            memset(data, 0, n);
        }
        off += n;
        data += n;
        left -= n;
    }
    return total;
}

void sim_image_punch(struct sim_image *image, uint64_t off, uint64_t size) {
    uint64_t end = off >= image->size ? off : off + MIN(size, image->size - off);
    while (off < end) {
        uint64_t index = off / SIM_CHUNK_BYTES, within = off % SIM_CHUNK_BYTES;
        uint64_t n = MIN(end - off, SIM_CHUNK_BYTES - within);
        if (n == SIM_CHUNK_BYTES) {
            chunk_free(image, index);
        } else if (index < image->chunk_count && image->chunks[index] != NULL) {
            memset(image->chunks[index] + within, 0, n);
        }
        off += n;
    }
}

void sim_image_truncate(struct sim_image *image, uint64_t size) {
    if (size < image->size) {
        uint64_t old = image->size;
        sim_image_punch(image, size, old - size);
        for (uint64_t i = ALIGN_UP(size, SIM_CHUNK_BYTES) / SIM_CHUNK_BYTES; i < image->chunk_count;
             i++) {
            chunk_free(image, i);
        }
    }
    image->size = size;
}

uint64_t sim_image_missing(const struct sim_image *image, uint64_t off, uint64_t size) {
    uint64_t missing = 0;
    if (size == 0) {
        return 0;
    }
    for (uint64_t i = off / SIM_CHUNK_BYTES; i <= (off + size - 1) / SIM_CHUNK_BYTES; i++) {
        missing += i >= image->chunk_count || image->chunks[i] == NULL;
    }
    return missing;
}

void sim_image_copy(struct sim_image *to, const struct sim_image *from) {
    sim_image_done(to);
    for (uint64_t i = 0; i < from->chunk_count; i++) {
        if (from->chunks[i] != NULL) {
            memcpy(chunk_get(to, i), from->chunks[i], SIM_CHUNK_BYTES);
        }
    }
    to->size = from->size;
}

void sim_image_flip(struct sim_image *image, uint64_t off, unsigned bit) {
    if (off < image->size) {
        chunk_get(image, off / SIM_CHUNK_BYTES)[off % SIM_CHUNK_BYTES] ^=
            (uint8_t)(1u << (bit & 7));
    }
}
