/* The program's log: each line is formatted on the stack and written with one write(2), so that
 * lines of several threads do not mix. Under systemd (JOURNAL_STREAM is set) a priority prefix
 * takes the place of the time: the journal adds its own. */
#include "base/logger.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX 2048

static _Atomic int logger_level = LOGGER_INFO;
static _Atomic int logger_fd = 2;

void logger_set_level(enum logger_level level) {
    atomic_store(&logger_level, (int)level);
}

void logger_set_fd(int fd) {
    atomic_store(&logger_fd, fd);
}

/* systemd says in JOURNAL_STREAM which device and inode its pipe has; a child whose stderr was
 * redirected inherits the variable all the same, hence the comparison. */
static bool is_journal(int fd) {
    unsigned long long device, inode;
    const char *text = getenv("JOURNAL_STREAM");
    struct stat st;
    return text != NULL && sscanf(text, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &st) == 0 &&
           st.st_dev == device && st.st_ino == inode;
}

static size_t write_prefix(char *line, size_t size, enum logger_level level, int fd) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    static const int priorities[] = {3, 4, 6, 7};
    if (is_journal(fd)) {
        return (size_t)snprintf(line, size, "<%d>", priorities[level]);
    }
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return n +
           (size_t)snprintf(line + n, size - n, ".%03ldZ %s ", now.tv_nsec / 1000000, names[level]);
}

void logger_write(enum logger_level level, const char *area, const char *format, ...) {
    if ((int)level > atomic_load_explicit(&logger_level, memory_order_relaxed)) {
        return;
    }
    char line[LINE_BYTES_MAX];
    int fd = atomic_load_explicit(&logger_fd, memory_order_relaxed);
    size_t n = write_prefix(line, sizeof(line), level, fd);
    n += (size_t)snprintf(line + n, sizeof(line) - n, "%.64s: ", area);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + n, sizeof(line) - n, format, args);
    va_end(args);
    n = more < 0 ? n : MIN(n + (size_t)more, sizeof(line) - 2);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = ' '; /* one event is one line, whatever a client put into a name */
        }
    }
    line[n++] = '\n';
    ssize_t written = write(fd, line, n);
    (void)written; /* there is nowhere to report it */
}
