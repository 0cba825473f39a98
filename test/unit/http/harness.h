/* A server, its loop and its client in one thread with a simulated clock: nothing runs but what a
 * test turns. Handlers: see harness_request. */
#ifndef TEST_HTTP_HARNESS_H
#define TEST_HTTP_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/server.h"

struct harness {
    struct os_clock_sim sim;
    struct loop *loop;
    struct http_server *server;
    struct http_limits limits;
    uint16_t port;
    /* what handlers saw */
    int requests;
    struct http_request *held; /* of "/hold" */
    int body_err;              /* last error of a body or a write */
    uint64_t body_bytes;
    int pieces;
    int taken; /* buffers that the server took from "/lend/" */
    bool drained;
};

void harness_start(struct harness *h, const struct http_tls_files *tls);
void harness_stop(struct harness *h);
void harness_turn(struct harness *h); /* a few turns, until the server has nothing to do */
void harness_advance(struct harness *h, uint64_t us);
void harness_listen(struct harness *h, const struct http_tls_files *tls, uint16_t *ret_port);

int client_open(struct harness *h);
/* Sends everything, turning the server while the socket is full. False when the peer reset. */
bool client_send(struct harness *h, int fd, const void *data, size_t size);
/* Appends what has arrived. Returns true at the end of the stream or a reset. */
bool client_receive(struct harness *h, int fd, struct buf *out);
/* Sends in pieces of step bytes, says that no more will come, and receives all until the end. */
void client_exchange(struct harness *h, const void *data, size_t size, size_t step,
                     struct buf *out);
/* The statuses of the answers in a stream that was received: "100 200 404". */
void statuses(const struct buf *stream, char ret[256]);
bool contains(const struct buf *stream, const char *text);
int count_of(const struct buf *stream, const char *text);

#endif
