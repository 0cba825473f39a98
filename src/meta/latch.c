/* The latch table: 256 stripes, each a mutex and a list of holds in order of arrival. A hold is
 * granted when every earlier hold of the same hash is granted and compatible; so nobody overtakes
 * and nobody starves. */
#include "meta/latch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"

#define STRIPE_COUNT 256

struct latch_stripe {
    pthread_mutex_t mutex; /* protects the list and the granted flags in it */
    struct latch_hold *first, *last;
};

struct latch_table {
    uint64_t seed;
    void (*wake)(struct latch_hold *hold);
    struct latch_stripe stripes[STRIPE_COUNT];
};

struct latch_table *latch_table_new(uint64_t seed, void (*wake)(struct latch_hold *hold)) {
    struct latch_table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return NULL;
    }
    table->seed = seed;
    table->wake = wake;
    for (size_t i = 0; i < STRIPE_COUNT; i++) {
        pthread_mutex_init(&table->stripes[i].mutex, NULL);
    }
    return table;
}

void latch_table_free(struct latch_table *table) {
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < STRIPE_COUNT; i++) {
        CHECK(table->stripes[i].first == NULL);
        pthread_mutex_destroy(&table->stripes[i].mutex);
    }
    free(table);
}

/* FNV-1a with a seed, then a finaliser (the mixing of MurmurHash3's 64-bit variant). Speed matters
 * little: keys are short. */
uint64_t latch_hash(const struct latch_table *table, struct slice key) {
    uint64_t h = table->seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < key.size; i++) {
        h = (h ^ key.data[i]) * 0x100000001b3u;
    }
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static struct latch_stripe *stripe_of(struct latch_table *table, uint64_t hash) {
    return &table->stripes[hash % STRIPE_COUNT];
}

static bool compatible(const struct latch_hold *a, const struct latch_hold *b) {
    return a->mode == META_SHARED && b->mode == META_SHARED;
}

bool latch_acquire(struct latch_table *table, struct latch_hold *hold) {
    struct latch_stripe *stripe = stripe_of(table, hold->hash);
    pthread_mutex_lock(&stripe->mutex);
    hold->granted = true;
    for (struct latch_hold *h = stripe->last; h != NULL; h = h->previous) {
        if (h->hash == hold->hash) {
            /* Only the nearest one of the hash matters: it stands for all before it. */
            hold->granted = h->granted && compatible(h, hold);
            break;
        }
    }
    hold->next = NULL;
    hold->previous = stripe->last;
    if (stripe->last != NULL) {
        stripe->last->next = hold;
    } else {
        stripe->first = hold;
    }
    stripe->last = hold;
    bool granted = hold->granted;
    pthread_mutex_unlock(&stripe->mutex);
    return granted;
}

static void unlink_hold(struct latch_stripe *stripe, struct latch_hold *hold) {
    if (hold->previous != NULL) {
        hold->previous->next = hold->next;
    } else {
        stripe->first = hold->next;
    }
    if (hold->next != NULL) {
        hold->next->previous = hold->previous;
    } else {
        stripe->last = hold->previous;
    }
}

/* Grants the next waiter of the hash that nothing before it forbids; NULL when there is none. */
static struct latch_hold *grant_next(struct latch_stripe *stripe, uint64_t hash) {
    struct latch_hold *before = NULL;
    for (struct latch_hold *h = stripe->first; h != NULL; h = h->next) {
        if (h->hash != hash) {
            continue;
        }
        if (!h->granted) {
            if (before != NULL && !compatible(before, h)) {
                return NULL;
            }
            h->granted = true;
            return h;
        }
        before = h;
    }
    return NULL;
}

void latch_release(struct latch_table *table, struct latch_hold *hold) {
    struct latch_stripe *stripe = stripe_of(table, hold->hash);
    uint64_t hash = hold->hash;
    pthread_mutex_lock(&stripe->mutex);
    CHECK(hold->granted);
    unlink_hold(stripe, hold);
    pthread_mutex_unlock(&stripe->mutex);
    for (;;) {
        /* One at a time: a woken transaction may already be gone when the next is looked for. */
        pthread_mutex_lock(&stripe->mutex);
        struct latch_hold *granted = grant_next(stripe, hash);
        pthread_mutex_unlock(&stripe->mutex);
        if (granted == NULL) {
            return;
        }
        table->wake(granted);
    }
}
