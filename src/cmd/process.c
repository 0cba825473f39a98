/* The process around the server (process.h). The readiness protocol is the datagram that
 * sd_notify(3) documents; it needs no library. */
#include "cmd/process.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/logger.h"

void process_prepare(void) {
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    /* The allocator keeps an arena a thread by default; two bound the memory of a small machine. */
    (void)mallopt(M_ARENA_MAX, 2);
    (void)mallopt(M_TRIM_THRESHOLD, 256 * 1024);
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024);
#ifndef HAYLOFT_FAILPOINTS
    /* No core dumps and no ptrace: keys and tokens are in memory. Test builds want both. */
    (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

uint64_t process_raise_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 1024;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit wanted = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) {
            limit = wanted;
        }
    }
    return limit.rlim_cur;
}

int process_signals(void) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return error_from_errno(errno);
    }
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return fd < 0 ? error_from_errno(errno) : fd;
}

void process_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = path == NULL ? 0 : strlen(path);
    if (size < 2 || size >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') { /* the abstract name space */
        address.sun_path[0] = 0;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    socklen_t address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, address_size) <
        0) {
        LOG_WARN("server", "systemd could not be told \"%s\": %s", state, strerror(errno));
    }
    (void)close(fd);
}
