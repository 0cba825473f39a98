/* A hash map from body ids to nodes that are embedded in larger objects. Inserting cannot fail. One
 * id may stand several times; find returns one of them and next walks on. Not thread-safe. */
#ifndef DATA_DATA_MAP_H
#define DATA_DATA_MAP_H

#include "volume/volume.h"

struct data_map_node {
    struct body_id id;
    struct data_map_node *next;
};

struct data_map {
    struct data_map_node **buckets;
    uint32_t bucket_count; /* a power of two */
    uint32_t count;
};

int data_map_init(struct data_map *map);
void data_map_done(struct data_map *map); /* the nodes are the caller's */
void data_map_insert(struct data_map *map, struct data_map_node *node); /* node->id is set */
struct data_map_node *data_map_find(const struct data_map *map, struct body_id id);
struct data_map_node *data_map_find_next(const struct data_map_node *node); /* of the same id */
void data_map_remove(struct data_map *map, struct data_map_node *node);
/* Calls fn for every node; fn may free it, not insert. The map is empty afterwards if clear. */
void data_map_each(struct data_map *map, bool clear,
                   void (*fn)(void *arg, struct data_map_node *node), void *arg);

#endif
