/* Progress of long work on standard error. The clock is read here directly (base is below os/):
 * progress is shown to a person and decides nothing, so the simulator need not see it. */
#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/text.h"

#define TERMINAL_INTERVAL_US UINT64_C(100000)
#define PLAIN_INTERVAL_US    UINT64_C(10000000)
#define WIDTH_DEFAULT        80
#define WIDTH_MAX            200
#define BAR_CELLS_MAX        30

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Asked at every redraw instead of catching SIGWINCH: ten times a second it costs nothing. */
static unsigned terminal_width(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return WIDTH_DEFAULT;
    }
    return MIN((unsigned)size.ws_col, (unsigned)WIDTH_MAX);
}

void progress_init(struct progress *progress, const char *label, enum progress_unit unit,
                   uint64_t total, bool quiet) {
    *progress =
        (struct progress){.label = label, .unit = unit, .total = total, .fd = quiet ? -1 : 2};
    progress->terminal = !quiet && isatty(2) == 1;
    progress->begin_us = progress->drawn_us = now_us();
    progress->samples[0].us = progress->begin_us;
    progress->sample_count = 1;
}

void progress_set_total(struct progress *progress, uint64_t total) {
    progress->total = total;
}

/* ---- the line ---- */

static void format_amount(enum progress_unit unit, uint64_t amount, char ret[32]) {
    if (unit == PROGRESS_BYTES) {
        format_bytes(amount, ret);
    } else {
        snprintf(ret, 32, "%llu", (unsigned long long)amount);
    }
}

static void format_left(uint64_t seconds, char ret[32]) {
    if (seconds >= 100 * 3600) {
        snprintf(ret, 32, "over 99 h left");
    } else if (seconds >= 3600) {
        snprintf(ret, 32, "%u:%02u:%02u left", (unsigned)(seconds / 3600),
                 (unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60));
    } else {
        snprintf(ret, 32, "%u:%02u left", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
    }
}

static void format_bar(double share, unsigned cells, char ret[BAR_CELLS_MAX + 4]) {
    unsigned full = (unsigned)(share * cells);
    unsigned n = 0;
    ret[n++] = '[';
    for (unsigned i = 0; i < cells; i++) {
        ret[n++] = i < full ? '#' : '.';
    }
    ret[n++] = ']';
    ret[n++] = ' ';
    ret[n] = 0;
}

void progress_format(const struct progress *progress, double rate, unsigned width, char *ret,
                     unsigned ret_size) {
    char done[32], total[32], speed[32], left[32] = "", facts[192], bar[BAR_CELLS_MAX + 4] = "";
    format_amount(progress->unit, progress->done, done);
    format_amount(progress->unit, (uint64_t)rate, speed);
    if (progress->total == 0) {
        snprintf(facts, sizeof(facts), "%s  %s/s", done, speed);
    } else {
        uint64_t most = MAX(progress->total, progress->done);
        double share = (double)progress->done / (double)most;
        format_amount(progress->unit, progress->total, total);
        if (rate > 0) {
            format_left((uint64_t)((double)(most - progress->done) / rate + 0.5), left);
        }
        snprintf(facts, sizeof(facts), "%3u%%  %s of %s  %s/s  %s", (unsigned)(share * 100), done,
                 total, speed, left);
        size_t taken = strlen(progress->label) + 1 + strlen(facts) + sizeof("[] ") - 1;
        if (progress->terminal && taken + 5 <= width) {
            format_bar(share, MIN((unsigned)(width - taken), (unsigned)BAR_CELLS_MAX), bar);
        }
    }
    snprintf(ret, MIN(ret_size, width + 1), "%s %s%s", progress->label, bar, facts);
}

/* ---- drawing ---- */

static void note_sample(struct progress *progress, uint64_t us) {
    unsigned newest = (progress->sample_count - 1) % ARRAY_COUNT(progress->samples);
    if (us - progress->samples[newest].us >= 1000000) {
        unsigned next = progress->sample_count++ % ARRAY_COUNT(progress->samples);
        progress->samples[next].us = us;
        progress->samples[next].done = progress->done;
    }
}

/* Units a second since the oldest sample that is kept. */
static double rate_of(const struct progress *progress, uint64_t us) {
    unsigned count = ARRAY_COUNT(progress->samples);
    unsigned oldest = progress->sample_count <= count ? 0 : progress->sample_count % count;
    uint64_t span = us - progress->samples[oldest].us;
    uint64_t before = progress->samples[oldest].done;
    if (span == 0 || progress->done < before) {
        return 0;
    }
    return (double)(progress->done - before) * 1e6 / (double)span;
}

static void write_line(int fd, const char *line) {
    ssize_t written = write(fd, line, strlen(line));
    (void)written; /* a lost redraw harms nobody */
}

void progress_update(struct progress *progress, uint64_t done) {
    progress->done = done;
    if (progress->fd < 0) {
        return;
    }
    uint64_t us = now_us();
    note_sample(progress, us);
    if (us - progress->drawn_us < (progress->terminal ? TERMINAL_INTERVAL_US : PLAIN_INTERVAL_US)) {
        return;
    }
    char text[WIDTH_MAX + 1], line[WIDTH_MAX + 16];
    unsigned width = progress->terminal ? terminal_width(progress->fd) - 1 : WIDTH_MAX;
    progress_format(progress, rate_of(progress, us), width, text, sizeof(text));
    snprintf(line, sizeof(line), progress->terminal ? "\r%s\x1b[K" : "%s\n", text);
    write_line(progress->fd, line);
    progress->drawn_us = us;
    progress->drawn = true;
}

void progress_done(struct progress *progress) {
    if (progress->fd >= 0 && progress->terminal && progress->drawn) {
        write_line(progress->fd, "\r\x1b[K");
    }
    progress->fd = -1;
}
