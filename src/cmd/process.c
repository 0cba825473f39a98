/* The process around the server (process.h). The readiness protocol is the datagram that
 * sd_notify(3) documents; it needs no library. */
#include "cmd/process.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Forgets the pages of one library that were read from its file and cannot have been changed. */
static int drop_pages(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    (void)arg;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W) != 0) {
            continue;
        }
        uintptr_t begin = (info->dlpi_addr + part->p_vaddr + page - 1) / page * page;
        uintptr_t end = (info->dlpi_addr + part->p_vaddr + part->p_memsz) / page * page;
        if (begin < end) {
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
        }
    }
    return 0;
}

void process_trim(void) {
    (void)malloc_trim(0);
    (void)dl_iterate_phdr(drop_pages, NULL);
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
