/* Listening sockets: addresses become accepted descriptors. One group a address, with one socket a
 * loop (SO_REUSEPORT), so that loops share nothing. */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/loop.h"

struct listener_group;

/* A connection: fd is non-blocking and close-on-exec and now belongs to the callee, which runs on
 * `loop`, number index. exhausted: the process has no descriptors left (this is the spare one);
 * answer at once and close. */
typedef void (*listener_fn)(void *arg, uint32_t index, int fd, const struct sockaddr *peer,
                            socklen_t peer_size, bool exhausted);

/* "[::]:3900" (both families), "127.0.0.1:3903", ":3900", "host:port" or "unix:/path" (mode 0600,
 * one socket on loop 0; a stale file of a dead process is replaced). The loops may be running.
 * *ret_port is the port bound (0 for unix). In use: logged with the address, BUSY. Not an address:
 * INVALID. */
int listener_open(const char *address, struct loop *const *loops, uint32_t loop_count,
                  listener_fn fn, void *arg, struct listener_group **ret, uint16_t *ret_port);
/* Stops accepting on one loop; on that loop's thread. */
void listener_stop(struct listener_group *group, uint32_t index);
/* After the loops have stopped. */
void listener_free(struct listener_group *group);

/* "192.0.2.1:4711", "[2001:db8::1]:4711" (mapped addresses as IPv4) or "unix". */
#define LISTENER_PEER_SIZE 64
void listener_format_peer(const struct sockaddr *peer, socklen_t size,
                          char ret[LISTENER_PEER_SIZE]);

#endif
