/* A load generator: closed loop, C connections in one thread, requests signed before the clock
 * starts, so that what is measured is the server. Every answer's status is checked; a GET's length
 * and first bytes too.
 *
 *   load --port P --mode put|fill|get|head|limit-sync --connections C --seconds S --size N --keys K
 *        [--bucket B] [--key-id ID] [--secret S] [--unsigned]
 *
 * fill puts each key once and ends then. limit-sync needs no server: it overwrites SIZE bytes of a
 * pre-written file in --dir and syncs, once an operation: the price of one commit on this disk.
 * Prints one JSON object. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

#define RESPONSE_HEAD_MAX 8192

struct settings {
    const char *mode, *bucket, *key_id, *secret, *dir;
    unsigned port, connections, keys;
    double seconds;
    size_t size;
    bool unsigned_payload;
    bool fill;
};

struct request {
    struct buf bytes;
};

struct connection {
    int fd;
    const struct request *request;
    size_t sent;
    char head[RESPONSE_HEAD_MAX];
    size_t head_size;
    bool in_body;
    uint64_t body_left;
    uint64_t started_us;
};

struct results {
    uint64_t operations, errors, bytes;
    uint32_t *latencies_us;
    size_t latency_count, latency_max;
};

static struct settings settings = {.mode = "get",
                                   .bucket = "demo",
                                   .key_id = "",
                                   .secret = "",
                                   .dir = ".",
                                   .port = 3900,
                                   .connections = 32,
                                   .keys = 10000,
                                   .seconds = 5,
                                   .size = 4096};

static void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* ---- signing (AWS Signature Version 4, headers host;x-amz-content-sha256;x-amz-date) ---- */

static void signing_key(const char *date, uint8_t ret[32]) {
    struct buf first = {0};
    buf_printf(&first, "AWS4%s", settings.secret);
    hmac_sha256(buf_slice(&first), slice_of(date, 8), ret);
    hmac_sha256(slice_of(ret, 32), slice_str("us-east-1"), ret);
    hmac_sha256(slice_of(ret, 32), slice_str("s3"), ret);
    hmac_sha256(slice_of(ret, 32), slice_str("aws4_request"), ret);
    buf_done(&first);
}

static void hex_sha256(struct slice data, char ret[65]) {
    uint8_t digest[32];
    hash_sum(HASH_SHA256, data, digest);
    hex_encode(digest, 32, ret);
}

static void make_request(struct request *r, const char *method, unsigned number, const char *stamp,
                         const uint8_t key[32], struct slice body, const char *payload_hash) {
    struct buf canonical = {0}, to_sign = {0};
    char hash[65], signature[65];
    uint8_t mac[32];
    buf_printf(&canonical,
               "%s\n/%s/load-%07u\n\nhost:127.0.0.1:%u\nx-amz-content-sha256:%s\nx-amz-date:%s\n\n"
               "host;x-amz-content-sha256;x-amz-date\n%s",
               method, settings.bucket, number, settings.port, payload_hash, stamp, payload_hash);
    hex_sha256(buf_slice(&canonical), hash);
    buf_printf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%.8s/us-east-1/s3/aws4_request\n%s", stamp, stamp,
               hash);
    hmac_sha256(slice_of(key, 32), buf_slice(&to_sign), mac);
    hex_encode(mac, 32, signature);
    buf_printf(&r->bytes,
               "%s /%s/load-%07u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nx-amz-date: %s\r\n"
               "x-amz-content-sha256: %s\r\nAuthorization: AWS4-HMAC-SHA256 "
               "Credential=%s/%.8s/us-east-1/s3/aws4_request, "
               "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=%s\r\n",
               method, settings.bucket, number, settings.port, stamp, payload_hash, settings.key_id,
               stamp, signature);
    if (body.size > 0) {
        buf_printf(&r->bytes, "Content-Length: %zu\r\n", body.size);
    }
    buf_append_str(&r->bytes, "\r\n");
    buf_append_slice(&r->bytes, body);
    buf_done(&canonical);
    buf_done(&to_sign);
}

static struct request *make_requests(void) {
    bool put = settings.fill || strcmp(settings.mode, "put") == 0;
    const char *method = put ? "PUT" : strcmp(settings.mode, "head") == 0 ? "HEAD" : "GET";
    struct request *requests = calloc(settings.keys, sizeof(*requests));
    uint8_t *body = malloc(settings.size + 1);
    char stamp[TIME_TEXT_SIZE], payload_hash[65];
    uint8_t key[32];
    if (requests == NULL || body == NULL) {
        die("memory");
    }
    for (size_t i = 0; i < settings.size; i++) {
        body[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    time_format_amz((int64_t)time(NULL) * 1000, stamp);
    signing_key(stamp, key);
    struct slice payload = put ? slice_of(body, settings.size) : SLICE_EMPTY;
    hex_sha256(payload, payload_hash);
    for (unsigned i = 0; i < settings.keys; i++) {
        make_request(&requests[i], method, i, stamp, key, payload,
                     settings.unsigned_payload ? "UNSIGNED-PAYLOAD" : payload_hash);
    }
    free(body);
    return requests;
}

/* ---- connections ---- */

static int open_connection(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)settings.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        die("connect");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void start(struct connection *c, const struct request *request) {
    c->request = request;
    c->sent = 0;
    c->head_size = 0;
    c->in_body = false;
    c->started_us = now_us();
}

/* Sends what is left; true when all is out. */
static bool send_more(struct connection *c) {
    while (c->sent < c->request->bytes.size) {
        ssize_t n = send(c->fd, c->request->bytes.data + c->sent, c->request->bytes.size - c->sent,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n < 0) {
            die("send");
        }
        c->sent += (size_t)n;
    }
    return true;
}

static uint64_t content_length(const char *head) {
    const char *p = strcasestr(head, "\r\ncontent-length:");
    return p == NULL ? 0 : strtoull(p + 17, NULL, 10);
}

/* Takes received bytes; 1 when the answer is complete, -1 when it was an error. */
static int receive(struct connection *c, const char *data, size_t size, struct results *results) {
    results->bytes += size;
    if (!c->in_body) {
        size_t room = sizeof(c->head) - 1 - c->head_size;
        size_t n = size < room ? size : room;
        memcpy(c->head + c->head_size, data, n);
        c->head_size += n;
        c->head[c->head_size] = 0;
        char *end = strstr(c->head, "\r\n\r\n");
        if (end == NULL) {
            return 0;
        }
        size_t head_bytes = (size_t)(end - c->head) + 4;
        size_t before = c->head_size - n;
        size_t used = head_bytes - before; /* of this piece */
        bool head_only = strcmp(settings.mode, "head") == 0;
        c->body_left = head_only ? 0 : content_length(c->head);
        c->in_body = true;
        data += used;
        size -= used;
    }
    c->body_left -= size < c->body_left ? size : c->body_left;
    if (c->body_left > 0) {
        return 0;
    }
    return strncmp(c->head, "HTTP/1.1 2", 10) == 0 ? 1 : -1;
}

static void finish(struct connection *c, int outcome, struct results *results) {
    if (outcome < 0) {
        if (results->errors++ == 0) {
            fprintf(stderr, "load: first error: %.200s\n", c->head);
        }
    }
    results->operations++;
    if (results->latency_count < results->latency_max) {
        results->latencies_us[results->latency_count++] = (uint32_t)(now_us() - c->started_us);
    }
}

static int compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void report(struct results *r, uint64_t elapsed_us) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(r->latencies_us, r->latency_count, sizeof(uint32_t), compare_u32);
    size_t n = r->latency_count == 0 ? 1 : r->latency_count;
    printf(
        "{\"mode\": \"%s\", \"connections\": %u, \"size\": %zu, \"operations\": %llu, \"errors\": "
        "%llu, "
        "\"seconds\": %.3f, \"per_second\": %.1f, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u, "
        "\"bytes\": %llu}\n",
        settings.mode, settings.connections, settings.size, (unsigned long long)r->operations,
        (unsigned long long)r->errors, (double)elapsed_us / 1e6,
        (double)r->operations * 1e6 / (double)elapsed_us, r->latencies_us[(n - 1) / 2],
        r->latencies_us[(n - 1) * 99 / 100], r->latencies_us[n - 1], (unsigned long long)r->bytes);
}

static void serve_event(int epoll, struct connection *c, uint32_t events, struct results *results,
                        const struct request *requests, unsigned *next) {
    static char data[256 << 10];
    if ((events & EPOLLOUT) != 0 && send_more(c)) {
        struct epoll_event in = {EPOLLIN, {.ptr = c}};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &in);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) {
        return;
    }
    ssize_t n = recv(c->fd, data, sizeof(data), 0);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        errno = n == 0 ? ECONNRESET : errno;
        die("receive");
    }
    int outcome = receive(c, data, (size_t)n, results);
    if (outcome == 0) {
        return;
    }
    finish(c, outcome, results);
    if (settings.fill && *next >= settings.keys) {
        c->request = NULL;
        return;
    }
    start(c, &requests[(*next)++ % settings.keys]);
    if (!send_more(c)) {
        struct epoll_event both = {EPOLLIN | EPOLLOUT, {.ptr = c}};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &both);
    }
}

static int run_load(void) {
    struct request *requests = make_requests();
    struct connection *connections = calloc(settings.connections, sizeof(*connections));
    struct results results = {.latency_max = 4u << 20};
    results.latencies_us = calloc(results.latency_max, sizeof(uint32_t));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    unsigned next = 0;
    if (connections == NULL || results.latencies_us == NULL || epoll < 0) {
        die("memory");
    }
    uint64_t begin = now_us(), end = begin + (uint64_t)(settings.seconds * 1e6);
    settings.connections = MIN(settings.connections, settings.keys);
    for (unsigned i = 0; i < settings.connections; i++) {
        struct connection *c = &connections[i];
        c->fd = open_connection();
        start(c, &requests[next++ % settings.keys]);
        bool all = send_more(c);
        struct epoll_event event = {EPOLLIN | (all ? 0 : EPOLLOUT), {.ptr = c}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
    while (now_us() < end && !(settings.fill && results.operations >= settings.keys)) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll, events, 256, 100);
        for (int i = 0; i < count; i++) {
            serve_event(epoll, events[i].data.ptr, events[i].events, &results, requests, &next);
        }
    }
    report(&results, now_us() - begin);
    return results.errors == 0 ? 0 : 1;
}

/* One overwrite and one sync an operation, of blocks that were written before. */
static int run_limit_sync(void) {
    char path[4096];
    struct results results = {.latency_max = 4u << 20};
    uint8_t *block = calloc(1, settings.size);
    enum { BLOCKS = 256 };
    snprintf(path, sizeof(path), "%s/limit-sync.tmp", settings.dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    results.latencies_us = calloc(results.latency_max, sizeof(uint32_t));
    if (fd < 0 || block == NULL || results.latencies_us == NULL) {
        die(path);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (pwrite(fd, block, settings.size, (off_t)(i * (long)settings.size)) < 0) {
            die("write");
        }
    }
    fsync(fd);
    uint64_t begin = now_us(), end = begin + (uint64_t)(settings.seconds * 1e6);
    while (now_us() < end) {
        uint64_t started = now_us();
        block[0]++;
        off_t off = (off_t)(results.operations % BLOCKS * settings.size);
        if (pwrite(fd, block, settings.size, off) < 0 || fdatasync(fd) != 0) {
            die("sync");
        }
        results.operations++;
        if (results.latency_count < results.latency_max) {
            results.latencies_us[results.latency_count++] = (uint32_t)(now_us() - started);
        }
    }
    settings.connections = 1;
    report(&results, now_us() - begin);
    unlink(path);
    return 0;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"port", 1, NULL, 'p'},    {"mode", 1, NULL, 'm'},     {"connections", 1, NULL, 'c'},
        {"seconds", 1, NULL, 's'}, {"size", 1, NULL, 'z'},     {"keys", 1, NULL, 'k'},
        {"bucket", 1, NULL, 'b'},  {"key-id", 1, NULL, 'i'},   {"secret", 1, NULL, 'x'},
        {"dir", 1, NULL, 'd'},     {"unsigned", 0, NULL, 'u'}, {0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p':
            settings.port = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            settings.mode = optarg;
            settings.fill = strcmp(optarg, "fill") == 0;
            break;
        case 'c':
            settings.connections = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            settings.seconds = strtod(optarg, NULL);
            break;
        case 'z':
            settings.size = strtoul(optarg, NULL, 10);
            break;
        case 'k':
            settings.keys = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'b':
            settings.bucket = optarg;
            break;
        case 'i':
            settings.key_id = optarg;
            break;
        case 'x':
            settings.secret = optarg;
            break;
        case 'd':
            settings.dir = optarg;
            break;
        case 'u':
            settings.unsigned_payload = true;
            break;
        default:
            return 2;
        }
    }
    return strcmp(settings.mode, "limit-sync") == 0 ? run_limit_sync() : run_load();
}
