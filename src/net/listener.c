/* Listening sockets, one a loop and address.
 *
 * Invariants: a batch of accepts is bounded, the rest waits for the next turn (level-triggered).
 * When descriptors run out the spare one is given up to take a connection and answer it, then
 * accepting pauses, so that the loop does not spin on a queue that it cannot empty. Knows nothing
 * of protocols. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"
#include "base/text.h"

#define ACCEPT_BATCH    64
#define ACCEPT_PAUSE_US 50000
#define LISTEN_BACKLOG  1024

struct listener {
    struct loop_fd watch;
    struct loop_timer resume;
    struct listener_group *group;
    struct loop *loop;
    uint32_t index;
    int spare_fd;
};

struct listener_group {
    listener_fn fn;
    void *arg;
    char *unix_path;
    uint32_t count;
    struct listener listeners[];
};

/* ---- accepting ---- */

static void listener_exhausted(struct listener *l) {
    if (l->spare_fd >= 0) {
        close(l->spare_fd);
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        int fd =
            accept4(l->watch.fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->group->fn(l->group->arg, l->index, fd, (struct sockaddr *)&peer, size, true);
        }
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    loop_fd_set(l->loop, &l->watch, 0);
    loop_timer_set(l->loop, &l->resume, ACCEPT_PAUSE_US);
}

static void listener_resume(struct loop_timer *timer) {
    struct listener *l = CONTAINER_OF(timer, struct listener, resume);
    if (l->spare_fd < 0) {
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    loop_fd_set(l->loop, &l->watch, EPOLLIN);
}

static void listener_ready(struct loop_fd *watch, uint32_t events) {
    struct listener *l = CONTAINER_OF(watch, struct listener, watch);
    for (int i = 0; i < ACCEPT_BATCH && l->watch.fd >= 0; i++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        int fd = accept4(watch->fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->group->fn(l->group->arg, l->index, fd, (struct sockaddr *)&peer, size, false);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            listener_exhausted(l);
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
        /* Anything else (ECONNABORTED, EINTR, network errors) concerns that connection only. */
    }
}

/* ---- opening ---- */

static int socket_bind(const struct addrinfo *ai, bool share_port, int *ret_fd) {
    int on = 1, off = 0;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (share_port) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    }
    if (ai->ai_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    /* Inherited by accepted sockets: answers leave at once. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0) {
        int errnum = errno;
        close(fd);
        return errnum;
    }
    *ret_fd = fd;
    return 0;
}

static uint16_t socket_port(int fd) {
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof(name);
    getsockname(fd, (struct sockaddr *)&name, &size);
    return name.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&name)->sin6_port)
                                      : ntohs(((struct sockaddr_in *)&name)->sin_port);
}

static void address_set_port(struct addrinfo *ai, uint16_t port) {
    if (ai->ai_family == AF_INET6) {
        ((struct sockaddr_in6 *)ai->ai_addr)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)ai->ai_addr)->sin_port = htons(port);
    }
}

static int bind_failed(const char *address, int errnum) {
    if (errnum == EADDRINUSE) {
        LOG_ERROR("net",
                  "cannot listen on %s: the address is in use. Stop the other program (ss "
                  "-ltnp shows it) or choose another port",
                  address);
        return -HL_ERR_BUSY;
    }
    LOG_ERROR("net", "cannot listen on %s: %s", address, strerror(errnum));
    return errnum == EACCES ? -HL_ERR_ACCESS_DENIED : error_from_errno(errnum);
}

/* Binds one socket a loop. SO_REUSEPORT would share the port silently with another process of the
 * same user, so a socket without it is bound first to find out. */
static int group_bind(struct listener_group *group, const char *address, struct addrinfo *ai) {
    int fd = -1;
    int errnum = socket_bind(ai, false, &fd);
    if (errnum == 0) {
        close(fd);
    }
    for (uint32_t i = 0; i < group->count && errnum == 0; i++) {
        errnum = socket_bind(ai, true, &group->listeners[i].watch.fd);
        if (errnum == 0 && listen(group->listeners[i].watch.fd, LISTEN_BACKLOG) != 0) {
            errnum = errno;
        }
        if (errnum == 0 && i == 0) {
            address_set_port(ai, socket_port(group->listeners[0].watch.fd));
        }
    }
    return errnum == 0 ? 0 : bind_failed(address, errnum);
}

/* Splits "host:port"; an empty host or "[::]" stands for every address. */
static bool address_split(const char *address, char host[256], char port[8]) {
    const char *colon = strrchr(address, ':');
    uint64_t number;
    if (colon == NULL || strlen(colon + 1) >= 8 ||
        !parse_u64(slice_str(colon + 1), UINT16_MAX, &number)) {
        return false;
    }
    size_t size = (size_t)(colon - address);
    const char *start = address;
    if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
        start++;
        size -= 2;
    } else if (memchr(address, ':', size) != NULL) {
        return false; /* an IPv6 address needs brackets */
    }
    if (size >= 256) {
        return false;
    }
    memcpy(host, start, size);
    host[size] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return true;
}

static bool has_ipv6(void) {
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static int group_open_tcp(struct listener_group *group, const char *address, uint16_t *ret_port) {
    char host[256], port[8];
    if (!address_split(address, host, port)) {
        LOG_ERROR("net", "%s is not an address: write \"[::]:3900\" or \"127.0.0.1:3900\"",
                  address);
        return -HL_ERR_INVALID;
    }
    const char *name = host[0] == '\0' ? "::" : host;
    if (strcmp(name, "::") == 0 && !has_ipv6()) {
        name = "0.0.0.0";
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *ai = NULL;
    int gai = getaddrinfo(name, port, &hints, &ai);
    if (gai != 0) {
        LOG_ERROR("net", "cannot listen on %s: %s", address, gai_strerror(gai));
        return -HL_ERR_INVALID;
    }
    int err = group_bind(group, address, ai);
    if (err == 0) {
        *ret_port = socket_port(group->listeners[0].watch.fd);
    }
    freeaddrinfo(ai);
    return err;
}

/* A socket file that nobody answers is left from a process that died. */
static void unix_remove_stale(const struct sockaddr_un *name) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    struct stat st;
    if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) != 0 && errno == ECONNREFUSED &&
        lstat(name->sun_path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        unlink(name->sun_path);
    }
    close(fd);
}

static int group_open_unix(struct listener_group *group, const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(name.sun_path) || path[0] == '\0') {
        LOG_ERROR("net", "unix:%s: the path must have 1 to %zu bytes", path,
                  sizeof(name.sun_path) - 1);
        return -HL_ERR_INVALID;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return error_from_errno(errno);
    }
    group->listeners[0].watch.fd = fd;
    unix_remove_stale(&name);
    fchmod(fd, 0600); /* the file is created with the socket's mode */
    if (bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
        return bind_failed(path, errno);
    }
    group->unix_path = strdup(path);
    return listen(fd, LISTEN_BACKLOG) == 0 ? 0 : error_from_errno(errno);
}

int listener_open(const char *address, struct loop *const *loops, uint32_t loop_count,
                  listener_fn fn, void *arg, struct listener_group **ret, uint16_t *ret_port) {
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    uint32_t count = is_unix ? 1 : loop_count;
    CHECK(count > 0);
    struct listener_group *group = calloc(1, sizeof(*group) + count * sizeof(struct listener));
    if (group == NULL) {
        return -HL_ERR_NOMEM;
    }
    group->fn = fn;
    group->arg = arg;
    group->count = count;
    for (uint32_t i = 0; i < count; i++) {
        group->listeners[i] = (struct listener){.watch = {.fd = -1, .ready = listener_ready},
                                                .resume = {.fire = listener_resume},
                                                .group = group,
                                                .loop = loops[i],
                                                .index = i,
                                                .spare_fd = -1};
    }
    uint16_t port = 0;
    int err = is_unix ? group_open_unix(group, address + 5) : group_open_tcp(group, address, &port);
    for (uint32_t i = 0; i < count && err == 0; i++) {
        struct listener *l = &group->listeners[i];
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        err = loop_fd_add(l->loop, &l->watch, EPOLLIN);
    }
    if (err < 0) {
        listener_free(group);
        return err;
    }
    *ret = group;
    if (ret_port != NULL) {
        *ret_port = port;
    }
    return 0;
}

static void listener_close(struct listener *l) {
    if (l->watch.fd >= 0) {
        close(l->watch.fd);
        l->watch.fd = -1;
    }
    if (l->spare_fd >= 0) {
        close(l->spare_fd);
        l->spare_fd = -1;
    }
}

void listener_stop(struct listener_group *group, uint32_t index) {
    if (index >= group->count || group->listeners[index].watch.fd < 0) {
        return;
    }
    struct listener *l = &group->listeners[index];
    loop_fd_remove(l->loop, &l->watch);
    loop_timer_clear(l->loop, &l->resume);
    listener_close(l);
}

void listener_free(struct listener_group *group) {
    if (group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        loop_timer_clear(group->listeners[i].loop, &group->listeners[i].resume);
        listener_close(&group->listeners[i]);
    }
    if (group->unix_path != NULL) {
        unlink(group->unix_path);
        free(group->unix_path);
    }
    free(group);
}

void listener_format_peer(const struct sockaddr *peer, socklen_t size,
                          char ret[LISTENER_PEER_SIZE]) {
    char text[INET6_ADDRSTRLEN];
    if (size >= sizeof(struct sockaddr_in) && peer->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)peer;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        snprintf(ret, LISTENER_PEER_SIZE, "%s:%u", text, ntohs(in->sin_port));
    } else if (size >= sizeof(struct sockaddr_in6) && peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)peer;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in->sin6_addr);
        inet_ntop(mapped ? AF_INET : AF_INET6,
                  mapped ? (const void *)&in->sin6_addr.s6_addr[12] : &in->sin6_addr, text,
                  sizeof(text));
        snprintf(ret, LISTENER_PEER_SIZE, mapped ? "%s:%u" : "[%s]:%u", text, ntohs(in->sin6_port));
    } else {
        snprintf(ret, LISTENER_PEER_SIZE, "unix");
    }
}
