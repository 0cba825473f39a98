/* A sparse byte image in memory, for os/sim_fs.c only. */
#ifndef OS_SIM_IMAGE_H
#define OS_SIM_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define SIM_CHUNK_BYTES 4096ull

struct sim_image {
    uint8_t **chunks; /* NULL: zeros */
    uint64_t chunk_count;
    uint64_t size;
    uint64_t *chunk_counter; /* shared count of allocated chunks, or NULL */
};

void sim_image_done(struct sim_image *image);
void sim_image_write(struct sim_image *image, uint64_t off, const uint8_t *data, uint64_t size);
size_t sim_image_read(const struct sim_image *image, uint64_t off, uint8_t *data, size_t size);
void sim_image_punch(struct sim_image *image, uint64_t off, uint64_t size);
void sim_image_truncate(struct sim_image *image, uint64_t size);
/* Chunks that a write of this range would allocate. */
uint64_t sim_image_missing(const struct sim_image *image, uint64_t off, uint64_t size);
void sim_image_copy(struct sim_image *to, const struct sim_image *from);
void sim_image_flip(struct sim_image *image, uint64_t off, unsigned bit);

#endif
