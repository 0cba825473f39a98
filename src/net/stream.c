/* Plain and TLS streams over a non-blocking socket.
 *
 * Invariants: never blocks; after CLOSED nothing more is written. For TLS the iovecs of one call
 * are joined up to one record, so head and body leave together; because a retry begins at the same
 * byte, what OpenSSL has buffered is always a prefix of what it is given again. */
#include "net/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/macros.h"

#define TLS_RECORD_MAX 16384

int stream_init(struct stream *stream, int fd, struct ssl_st *tls) {
    stream->fd = fd;
    stream->tls = tls;
    stream->broken = false;
    stream->drained = false;
    if (tls != NULL && SSL_set_fd(tls, fd) != 1) {
        stream_close(stream, false);
        return -HL_ERR_NOMEM;
    }
    return 0;
}

static int tls_result(struct stream *stream, int result, bool reading, size_t *ret_size) {
    if (result > 0) {
        *ret_size = (size_t)result;
        return 0;
    }
    switch (SSL_get_error(stream->tls, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -HL_ERR_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        if (reading) {
            *ret_size = 0;
            return 0;
        }
        return -HL_ERR_CLOSED;
    default:
        stream->broken = true;
        return -HL_ERR_CLOSED;
    }
}

static int plain_result(ssize_t n, size_t *ret_size) {
    if (n >= 0) {
        *ret_size = (size_t)n;
        return 0;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? -HL_ERR_AGAIN : -HL_ERR_CLOSED;
}

static int plain_read(int fd, void *data, size_t size, size_t *ret_size) {
    ssize_t n;
    do {
        n = recv(fd, data, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return plain_result(n, ret_size);
}

int stream_read(struct stream *stream, void *data, size_t size, size_t *ret_size) {
    if (stream->tls == NULL) {
        return plain_read(stream->fd, data, size, ret_size);
    }
    /* A record at a time is all that OpenSSL gives; go on until the memory is full. */
    size_t total = 0;
    stream->drained = false;
    while (total < size) {
        ERR_clear_error();
        size_t got = 0;
        int n = SSL_read(stream->tls, (char *)data + total,
                         (int)MIN(size - total, (size_t)TLS_RECORD_MAX));
        int err = tls_result(stream, n, true, &got);
        if (err < 0 && total == 0) {
            return err;
        }
        if (err < 0 || got == 0) {
            stream->drained = err == -HL_ERR_AGAIN;
            break; /* the next call meets the end or the error again */
        }
        total += got;
    }
    *ret_size = total;
    return 0;
}

static int tls_writev(struct stream *stream, const struct iovec *iov, int iov_count,
                      size_t *ret_size) {
    char joined[TLS_RECORD_MAX];
    const void *data = iov[0].iov_base;
    size_t size = iov[0].iov_len;
    if (size < sizeof(joined) && iov_count > 1) {
        size = 0;
        for (int i = 0; i < iov_count && size < sizeof(joined); i++) {
            size_t n = MIN(iov[i].iov_len, sizeof(joined) - size);
            if (n > 0) {
                memcpy(joined + size, iov[i].iov_base, n);
            }
            size += n;
        }
        data = joined;
    }
    ERR_clear_error();
    int n = SSL_write(stream->tls, data, (int)MIN(size, (size_t)TLS_RECORD_MAX));
    return tls_result(stream, n, false, ret_size);
}

static int plain_writev(int fd, const struct iovec *iov, int iov_count, size_t *ret_size) {
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)iov_count};
    ssize_t n;
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return plain_result(n, ret_size);
}

int stream_writev(struct stream *stream, const struct iovec *iov, int iov_count, size_t *ret_size) {
    while (iov_count > 0 && iov->iov_len == 0) {
        iov++;
        iov_count--;
    }
    if (iov_count == 0) {
        *ret_size = 0;
        return 0;
    }
    return stream->tls != NULL ? tls_writev(stream, iov, iov_count, ret_size)
                               : plain_writev(stream->fd, iov, iov_count, ret_size);
}

void stream_finish(struct stream *stream) {
    if (stream->tls != NULL && !stream->broken) {
        ERR_clear_error();
        SSL_shutdown(stream->tls);
    }
    shutdown(stream->fd, SHUT_WR);
}

int stream_discard(struct stream *stream, void *scratch, size_t size, size_t *ret_size) {
    return plain_read(stream->fd, scratch, size, ret_size);
}

void stream_close(struct stream *stream, bool abort) {
    if (stream->fd < 0) {
        return;
    }
    if (stream->tls != NULL) {
        if (!stream->broken && !abort) {
            ERR_clear_error();
            SSL_shutdown(stream->tls);
        }
        SSL_free(stream->tls);
        stream->tls = NULL;
    }
    if (abort) {
        struct linger reset = {.l_onoff = 1, .l_linger = 0};
        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    close(stream->fd);
    stream->fd = -1;
}
