/* The registry of failpoints: which were hit, how often, and what is to happen at which hit. Test
 * builds only. */
#include "base/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#ifdef HAYLOFT_FAILPOINTS

#define NAMES_MAX      512
#define NAME_BYTES_MAX 64

struct failpoint {
    char name[NAME_BYTES_MAX];
    uint64_t hits;
    uint64_t armed_hit; /* 0: every hit */
    uint64_t armed_from;
    enum { IDLE, CRASH, FAIL } action;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the table */
static struct failpoint points[NAMES_MAX];
static int point_count;
static bool environment_read;
static void (*crash_handler)(const char *name);

static struct failpoint *find(const char *name) {
    for (int i = 0; i < point_count; i++) {
        if (strcmp(points[i].name, name) == 0) {
            return &points[i];
        }
    }
    CHECK(strlen(name) < NAME_BYTES_MAX && point_count < NAMES_MAX);
    struct failpoint *p = &points[point_count++];
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

static bool arm(const char *name, const char *action, uint64_t hit) {
    if (strcmp(action, "crash") != 0 && strcmp(action, "error") != 0) {
        return false;
    }
    struct failpoint *p = find(name);
    p->action = strcmp(action, "crash") == 0 ? CRASH : FAIL;
    p->armed_hit = hit;
    p->armed_from = p->hits;
    return true;
}

/* "name=action@hit,name=action" */
static void read_environment(void) {
    environment_read = true;
    const char *text = getenv("HAYLOFT_FAILPOINTS");
    while (text != NULL && *text != 0) {
        char name[NAME_BYTES_MAX], action[16];
        unsigned long long hit = 0;
        int used = 0;
        if (sscanf(text, "%63[^=]=%15[a-z]%n", name, action, &used) < 2) {
            return;
        }
        text += used;
        if (sscanf(text, "@%llu%n", &hit, &used) == 1) {
            text += used;
        }
        arm(name, action, hit);
        text += *text == ',';
    }
}

/* At the end of the process: the names that were hit, for the test that wants every one. */
static void write_report(void) {
    FILE *f = fopen(getenv("HAYLOFT_FAILPOINT_REPORT"), "a");
    for (int i = 0; f != NULL && i < point_count; i++) {
        fprintf(f, "failpoint %s %llu 0\n", points[i].name, (unsigned long long)points[i].hits);
    }
    if (f != NULL) {
        fclose(f);
    }
}

bool failpoint_hit(const char *name) {
    pthread_mutex_lock(&mutex);
    if (!environment_read) {
        read_environment();
        if (getenv("HAYLOFT_FAILPOINT_REPORT") != NULL) {
            atexit(write_report);
        }
    }
    struct failpoint *p = find(name);
    p->hits++;
    int action = p->action;
    bool due = action != IDLE && (p->armed_hit == 0 || p->hits == p->armed_from + p->armed_hit);
    if (due && p->armed_hit != 0) {
        p->action = IDLE;
    }
    void (*handler)(const char *name) = crash_handler;
    pthread_mutex_unlock(&mutex);
    if (due && action == CRASH) {
        if (handler != NULL) {
            handler(name);
        } else {
            kill(getpid(), SIGKILL);
        }
    }
    return due && action == FAIL;
}

bool failpoint_set(const char *name, const char *action, uint64_t hit) {
    pthread_mutex_lock(&mutex);
    bool done = arm(name, action, hit);
    pthread_mutex_unlock(&mutex);
    return done;
}

void failpoint_clear(void) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < point_count; i++) {
        points[i].action = IDLE;
    }
    pthread_mutex_unlock(&mutex);
}

uint64_t failpoint_count(const char *name) {
    pthread_mutex_lock(&mutex);
    struct failpoint *p = find(name);
    uint64_t hits = p->hits;
    pthread_mutex_unlock(&mutex);
    return hits;
}

void failpoint_set_crash_handler(void (*handler)(const char *name)) {
    pthread_mutex_lock(&mutex);
    crash_handler = handler;
    pthread_mutex_unlock(&mutex);
}

void failpoint_each(void (*fn)(const char *name, uint64_t hits, void *arg), void *arg) {
    /* Entries are only ever added, so fn may run without the mutex and hit failpoints itself. */
    pthread_mutex_lock(&mutex);
    int count = point_count;
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        uint64_t hits = points[i].hits;
        pthread_mutex_unlock(&mutex);
        if (hits > 0) {
            fn(points[i].name, hits, arg);
        }
    }
}

#else

bool failpoint_set(const char *name, const char *action, uint64_t hit) {
    return false;
}

void failpoint_clear(void) {
}

uint64_t failpoint_count(const char *name) {
    return 0;
}

void failpoint_set_crash_handler(void (*handler)(const char *name)) {
}

void failpoint_each(void (*fn)(const char *name, uint64_t hits, void *arg), void *arg) {
}

#endif
