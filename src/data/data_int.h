/* Inside of the data folder.
 *
 * Two kinds of state. The apply thread's own (struct data_turn, the free queue, tombstones):
 * touched by nobody else. Shared (staged bodies, open blocks, pins, per-volume figures, damage,
 * aliases): under data->mutex, which is never held during disk work. The truth is in the rows
 * (location_format.h); memory mirrors what would be too slow to ask. */
#ifndef DATA_DATA_INT_H
#define DATA_DATA_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/data.h"
#include "data/data_map.h"
#include "data/location_format.h"

#define DATA_BLOCK_BYTES_DEFAULT     (4u << 20)
#define DATA_COMPACT_PERCENT_DEFAULT 30u
#define DATA_SCRUB_INTERVAL_DEFAULT  (30ull * 24 * 3600)
#define DATA_ORIGIN_BYTES_MAX        4224u      /* of a block: a row key and a varint */
#define DATA_RECLAIM_PER_TURN        256u       /* bodies of the free queue */
#define DATA_FREE_MIRROR_MAX         4096u      /* runs of the free queue in memory */
#define DATA_TOMBSTONES_PER_RECORD   65536u     /* entries */
#define DATA_DAMAGE_MAX              4096u      /* rows kept; beyond it only counted */
#define DATA_HINTS_MAX               16u        /* places to be scrubbed next */
#define DATA_OPEN_GARBAGE_MIN        (1u << 20) /* less garbage does not seal an open volume */

/* A body whose record is written and which no row names yet. */
struct data_staged {
    struct data_map_node node;
    struct data_place place;
    uint64_t sequence; /* found by recovery: of the head's row */
};

struct data_block {
    struct data *data;
    struct volume_slot *slot;
    struct data_staged *staged; /* becomes the entry of the staged set */
    uint64_t reserved;          /* bytes counted as staged meanwhile */
    uint32_t volume;
    uint64_t off;
    struct data_block *prev, *next;
};

enum data_volume_state {
    DATA_VOLUME_IN_USE,
    DATA_VOLUME_DOOMED, /* nothing alive in it: removed after the next flush */
    DATA_VOLUME_ARMED,  /* the flush that allows it is under way */
    DATA_VOLUME_GONE,   /* removed; its rows go with the next checkpoint */
};

/* Figures of one volume. */
struct data_volume {
    uint32_t number;
    enum data_volume_state state;
    int64_t live_bytes;   /* mirrors the 'V' row */
    int64_t staged_bytes; /* staged records and open blocks */
    uint64_t scan_from;   /* mirrors the 'S' row */
    bool has_scan_from;
    bool stuck;         /* holds a record that cannot be copied: not compacted again */
    bool moved_from;    /* mirrors the 'M' row */
    uint64_t doomed_at; /* order in which doomed volumes are removed */
    uint64_t copies_at; /* copies of a compaction in flight lie at or behind this offset */
    bool has_copies;
};

/* State of an id that this turn changed and that the kv does not show yet. */
enum data_overlay_state { DATA_OVERLAY_ABSENT, DATA_OVERLAY_PRESENT, DATA_OVERLAY_GATHERED };
struct data_overlay {
    struct data_map_node node;
    enum data_overlay_state state;
    struct data_place place; /* PRESENT */
    uint32_t index;          /* GATHERED: in turn.heads */
};

/* A record that the end of the turn writes. */
struct data_gathered {
    struct volume_append append;
    bool dropped; /* freed within the turn, or a newer one of its row came */
};

struct data_turn {
    struct data_gathered *heads;
    uint32_t head_count, head_capacity;
    struct data_map overlay;
};

struct data_free_run {
    uint64_t seq;
    struct body_id first;
    uint64_t count;
    uint64_t bytes; /* estimate */
    bool head;
    uint64_t epoch;
};

struct data_free_queue {
    struct data_free_run *runs; /* ring of DATA_FREE_MIRROR_MAX */
    uint32_t start, count;
    uint64_t seq_next;
    bool overflow; /* more rows than the mirror holds, up to seq_next */
    uint64_t overflow_epoch;
};

/* The tombstone record of the last checkpoint, between its writing and its row. */
struct data_tombstones {
    bool written; /* in a volume */
    bool armed;   /* the sync that covers it is under way */
    struct data_staged *staged;
    struct data_key *keys; /* the 'X' rows that it repeats */
    uint32_t count;
};

struct data_alias {
    struct data_map_node node;
    uint32_t volume;
};

struct data_damage_entry {
    uint32_t volume;
    uint64_t off;
    struct body_id id;
};

struct data_scrub {
    enum { DATA_SCRUB_IDLE, DATA_SCRUB_RUNNING, DATA_SCRUB_PAUSED } mode;
    uint32_t volume; /* the next bytes to read */
    uint64_t off;
    uint64_t bytes_done, bytes_total;
    int64_t last_ms;          /* wall clock from which the interval counts */
    int64_t completed_ms;     /* wall clock of the last one that came to its end; 0: never */
    uint64_t last_mono_us;    /* of the last end in this process */
    bool guard;               /* last_mono_us tells of a scrub or of the start of this process */
    bool manual;              /* asked for: without the budget of a scheduled one */
    uint64_t tokens_us;       /* monotonic time up to which the budget was given out */
    uint64_t tokens;          /* bytes that may be read now */
    int64_t volume_live_seen; /* live bytes found in the current volume */
    bool volume_whole;        /* it was read from its start without a break */
};

struct data_hint {
    uint32_t volume;
    uint64_t off;
};

struct data_compaction {
    uint32_t source; /* 0: none */
    uint64_t cursor;
    uint64_t moved;  /* records */
    bool empty;      /* nothing alive: removed without reading it */
    bool unreadable; /* a live record could not be copied */
};

struct data {
    struct os_env *env;
    struct kv *kv;
    struct volume_set *volumes;
    struct data_options options;
    uint64_t id_high;
    _Atomic uint64_t id_low;

    /* The apply thread's. */
    struct data_turn turn;
    struct data_free_queue free_queue;
    struct data_tombstones tombstones; /* from begin to done the checkpoint's */
    uint32_t number_written;           /* mirrors the 'N' row */
    struct kv_batch *rebuild_batch;    /* rebuild: rows not written yet */
    uint64_t config_sequence;          /* the highest that recovery's scan met */

    /* The maintenance thread's. */
    struct data_compaction compaction;
    int (*run_local)(void *ctx, data_local_fn fn, void *arg);
    void *run_local_ctx;

    /* Shared, under the mutex. */
    pthread_mutex_t mutex;
    struct data_map staged;
    struct data_block *blocks;
    struct data_pin *pins;
    uint64_t epoch;                   /* grows with each turn that was applied */
    struct data_volume *volume_table; /* by ascending number */
    uint32_t volume_count, volume_capacity;
    struct data_map aliases;
    struct data_damage_entry *damage;
    uint32_t damage_count;
    struct data_hint hints[DATA_HINTS_MAX];
    uint32_t hint_count;
    struct data_scrub scrub;
    int64_t live_bytes, staged_bytes;
    uint64_t free_queue_bytes;
    uint64_t compacted_bytes;
    uint64_t doomed_count;
    bool copying; /* a compaction has copies whose rows are not switched yet */
};

/* ---- data.c ---- */
/* With the mutex held: the figures of a volume, made when missing. NULL only without memory. */
struct data_volume *data_volume_get(struct data *data, uint32_t number);
struct data_volume *data_volume_find(struct data *data, uint32_t number);
/* Calls fn for each row of a table. A row that fn calls malformed (CORRUPT) ends it. */
int data_each_row(struct data *data, enum data_row row,
                  int (*fn)(struct data *data, struct slice key, struct slice value, void *arg),
                  void *arg);

/* ---- data_row.c: location rows; apply thread, unless said otherwise ---- */
/* What the kv shows, any thread. NOT_FOUND. */
int data_row_get(struct data *data, struct body_id id, struct data_place *ret);
/* As data_row_get, but seen with what this turn changed. *ret_gathered is the index of the head
 * that the turn will write, or -1; with an index *ret is untouched. */
int data_row_lookup(struct data *data, struct body_id id, struct data_place *ret,
                    int64_t *ret_gathered);
/* Puts the row and moves the live figures. */
int data_row_put(struct data *data, struct kv_batch *batch, struct body_id id,
                 const struct data_place *place);
int data_row_delete(struct data *data, struct kv_batch *batch, struct body_id id);
int data_overlay_set(struct data *data, struct body_id id, enum data_overlay_state state,
                     const struct data_place *place, uint32_t index);
void data_overlay_clear(struct data *data);
/* Adds to the volume's counter, in the batch and in memory. */
int data_live_add(struct data *data, struct kv_batch *batch, uint32_t volume, int64_t bytes);
/* Config rows: sequence and place. */
int data_config_get(struct data *data, struct slice row_key, uint64_t *ret_sequence,
                    struct data_place *ret);
int data_config_put(struct data *data, struct kv_batch *batch, struct slice row_key,
                    uint64_t sequence, const struct data_place *place);
/* The head is dead: remembers it, and its other copies, for the next tombstone record. */
void data_tombstone_add(struct data *data, struct kv_batch *batch, struct body_id id,
                        uint32_t volume);
int data_alias_add(struct data *data, struct kv_batch *batch, struct body_id id, uint32_t volume);

/* ---- data_block.c, with the mutex held ---- */
struct data_staged *data_staged_find(struct data *data, struct body_id id);
int data_staged_add(struct data *data, struct data_staged *staged);     /* takes it on success */
void data_staged_remove(struct data *data, struct data_staged *staged); /* frees it */
void data_staged_count(struct data *data, uint32_t volume, int64_t bytes);

/* ---- data_free.c ---- */
int data_free_load(struct data *data);
int data_free_reclaim(struct data *data, struct kv_batch *batch, uint32_t bodies_max);

/* ---- data_verify.c ---- */
/* Reads the whole record at place and checks it. With record not NULL also that origin and body are
 * these very bytes. CORRUPT when not. */
int data_verify(struct data *data, struct body_id id, const struct data_place *place,
                const struct volume_append *expected);

/* ---- data_damage.c ---- */
int data_damage_load(struct data *data);
/* A live record failed its check; any thread. */
void data_damage_add(struct data *data, struct body_id id, const struct volume_location *location,
                     struct slice origin_key, int err);
/* The record is gone, moved or found well. batch NULL: written at once. */
void data_damage_remove(struct data *data, struct kv_batch *batch, uint32_t volume, uint64_t off);
/* Checks every record that a row places in the volume (slow: walks all location rows). Adds damage
 * for what cannot be read; *ret_bad counts them. */
int data_damage_check_rows(struct data *data, uint32_t volume, uint64_t *ret_bad);

/* ---- data_moved.c ---- */
int data_moved_load(struct data *data);
/* Apply thread: heads leave the volume in this batch. */
int data_moved_mark(struct data *data, struct kv_batch *batch, uint32_t volume);
/* A volume that heads were moved out of and that is still in use, or 0. */
uint32_t data_moved_next(struct data *data, bool *ret_empty);
/* Makes its old copies known, so that other volumes may go before it. */
int data_moved_resolve(struct data *data, uint32_t volume);

/* ---- data_scrub.c ---- */
int data_scrub_load(struct data *data);

#endif
