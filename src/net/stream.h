/* A non-blocking byte stream, plain or TLS, behind one interface. Embedded in its owner, used by
 * one thread. With edge-triggered events the owner keeps reading until AGAIN; with TLS either
 * direction may need either event, so any event means: try both. */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct ssl_st;

struct stream {
    int fd; /* -1 when closed */
    struct ssl_st *tls;
    bool broken;  /* TLS failed: no goodbye may be sent */
    bool drained; /* TLS: the last read met AGAIN after its bytes; a plain short read tells the same
                   */
};

/* Takes fd and tls (NULL: plain). */
int stream_init(struct stream *stream, int fd, struct ssl_st *tls);
/* 0 with *ret_size bytes (0: the peer ended its direction), AGAIN, CLOSED. */
int stream_read(struct stream *stream, void *data, size_t size, size_t *ret_size);
/* Writes as much as the kernel takes at once: 0 with *ret_size > 0, AGAIN, CLOSED. A retry must
 * begin with the bytes that were not taken. */
int stream_writev(struct stream *stream, const struct iovec *iov, int iov_count, size_t *ret_size);
/* Says that no more will be written (close_notify, FIN); reading goes on. */
void stream_finish(struct stream *stream);
/* Reads and throws away what the peer still sends, below TLS: as stream_read. */
int stream_discard(struct stream *stream, void *scratch, size_t size, size_t *ret_size);
/* abort: with a reset, so that the peer cannot take what it has for the whole. */
void stream_close(struct stream *stream, bool abort);

#endif
