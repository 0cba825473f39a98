/* Hash map of body ids: chains in a table that doubles. When there is no memory to double it stays
 * as it is and gets slower, never wrong. */
#include "data/data_map.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"

#define BUCKETS_FIRST 64u

static uint32_t bucket_of(const struct data_map *map, struct body_id id) {
    uint64_t h = (id.low ^ id.high * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
    return (uint32_t)(h >> 32) & (map->bucket_count - 1);
}

int data_map_init(struct data_map *map) {
    struct data_map_node **buckets = calloc(BUCKETS_FIRST, sizeof(*buckets));
    if (buckets == NULL) {
        return -HL_ERR_NOMEM;
    }
    *map = (struct data_map){buckets, BUCKETS_FIRST, 0};
    return 0;
}

void data_map_done(struct data_map *map) {
    free(map->buckets);
    *map = (struct data_map){0};
}

static void link_node(struct data_map *map, struct data_map_node *node) {
    struct data_map_node **bucket = &map->buckets[bucket_of(map, node->id)];
    node->next = *bucket;
    *bucket = node;
}

static void grow(struct data_map *map) {
    struct data_map_node **buckets = calloc(map->bucket_count * 2ull, sizeof(*buckets));
    if (buckets == NULL) {
        return;
    }
    struct data_map old = *map;
    map->buckets = buckets;
    map->bucket_count = old.bucket_count * 2;
    for (uint32_t i = 0; i < old.bucket_count; i++) {
        for (struct data_map_node *node = old.buckets[i]; node != NULL;) {
            struct data_map_node *next = node->next;
            link_node(map, node);
            node = next;
        }
    }
    free(old.buckets);
}

void data_map_insert(struct data_map *map, struct data_map_node *node) {
    if (map->count >= map->bucket_count && map->bucket_count < 1u << 30) {
        grow(map);
    }
    link_node(map, node);
    map->count++;
}

static struct data_map_node *find_from(struct data_map_node *node, struct body_id id) {
    while (node != NULL && !body_id_equal(node->id, id)) {
        node = node->next;
    }
    return node;
}

struct data_map_node *data_map_find(const struct data_map *map, struct body_id id) {
    return find_from(map->buckets[bucket_of(map, id)], id);
}

struct data_map_node *data_map_find_next(const struct data_map_node *node) {
    return find_from(node->next, node->id);
}

void data_map_remove(struct data_map *map, struct data_map_node *node) {
    struct data_map_node **p = &map->buckets[bucket_of(map, node->id)];
    while (*p != node) {
        CHECK(*p != NULL);
        p = &(*p)->next;
    }
    *p = node->next;
    map->count--;
}

void data_map_each(struct data_map *map, bool clear,
                   void (*fn)(void *arg, struct data_map_node *node), void *arg) {
    for (uint32_t i = 0; i < map->bucket_count; i++) {
        for (struct data_map_node *node = map->buckets[i]; node != NULL;) {
            struct data_map_node *next = node->next;
            fn(arg, node);
            node = next;
        }
        if (clear) {
            map->buckets[i] = NULL;
        }
    }
    if (clear) {
        map->count = 0;
    }
}
