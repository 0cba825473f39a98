/* Helpers of the volume tests: a simulated node and self-describing bodies (each byte follows from
 * the id), so that any mix-up shows. */
#ifndef TEST_UNIT_VOLUME_TESTVOLUME_H
#define TEST_UNIT_VOLUME_TESTVOLUME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/prng.h"
#include "os/sim_fs.h"
#include "volume/volume.h"
#include "volume/volume_format.h"

#define CLUSTER "0123456789abcdef"

struct node {
    struct sim_fs *sim;
    struct os_clock_sim clock;
    struct os_random_sim random;
    struct os_env env;
    struct volume_set *set;
    struct volume_dir dirs[2];
    struct volume_options options;
};

static inline void node_init(struct node *node, uint64_t seed, uint64_t capacity,
                             uint32_t dir_count) {
    struct sim_fs_options options = {.seed = seed, .capacity_bytes = capacity};
    *node = (struct node){.sim = sim_fs_new(&options)};
    os_clock_sim_init(&node->clock, 1700000000000);
    os_random_sim_init(&node->random, seed);
    node->env = (struct os_env){sim_fs_fs(node->sim), &node->clock.clock, &node->random.random};
    node->dirs[0] = (struct volume_dir){.path = "/a"};
    node->dirs[1] = (struct volume_dir){.path = "/b"};
    node->options = (struct volume_options){.dirs = node->dirs,
                                            .dir_count = dir_count,
                                            .cluster_id = (const uint8_t *)CLUSTER,
                                            .volume_bytes_max = 256 << 10,
                                            .reserve_bytes = 64 << 10};
}

static inline int node_open(struct node *node, bool first_start) {
    return volume_set_open(&node->env, &node->options, first_start, &node->set);
}

static inline void node_close(struct node *node) {
    volume_set_close(node->set);
    node->set = NULL;
}

static inline void node_done(struct node *node) {
    node_close(node);
    sim_fs_free(node->sim);
}

/* The body of an id: position-dependent, so shifted bytes show. */
static inline void fill_body(struct body_id id, uint8_t *data, size_t size) {
    struct prng prng;
    prng_init(&prng, id.high * 31 + id.low);
    prng_bytes(&prng, data, size);
}

#endif
