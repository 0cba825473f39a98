/* A progress line for long work, on standard error: a bar with share, rate and time left when that
 * is a terminal (redrawn at most ten times a second), a plain line every ten seconds when it is
 * not. Work that ends before its first line leaves no trace. One thread at a time may use one
 * progress. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_ITEMS, PROGRESS_BYTES };

/* Seconds over which the rate is averaged. */
#define PROGRESS_WINDOW_SECONDS 5

struct progress {
    const char *label; /* borrowed; must live until progress_done */
    enum progress_unit unit;
    uint64_t total; /* 0: unknown */
    uint64_t done;
    int fd; /* -1: silent */
    bool terminal;
    bool drawn;
    uint64_t begin_us, drawn_us;
    struct {
        uint64_t us, done;
    } samples[PROGRESS_WINDOW_SECONDS + 1]; /* one a second, oldest overwritten */
    unsigned sample_count;
};

/* quiet (the user asked for --quiet or --json) prints nothing at all. */
void progress_init(struct progress *progress, const char *label, enum progress_unit unit,
                   uint64_t total, bool quiet);
/* The amount done so far, not the increment. Cheap enough to call for every item. */
void progress_update(struct progress *progress, uint64_t done);
/* The total became known, or grew. */
void progress_set_total(struct progress *progress, uint64_t total);
/* Removes the bar, so that the result can be printed in its place. */
void progress_done(struct progress *progress);

/* One line without line end, at most width columns: the pure part, for tests. rate is units a
 * second. */
void progress_format(const struct progress *progress, double rate, unsigned width, char *ret,
                     unsigned ret_size);

#endif
