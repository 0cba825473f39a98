/* OpenSSL server contexts: TLS 1.2 and 1.3 only, session tickets, ALPN http/1.1.
 *
 * Invariants: `context` is never NULL and is swapped under the mutex; OpenSSL counts references, so
 * sessions keep their context alive after a reload. Buffers of idle sessions are released. Knows
 * nothing of HTTP beyond the ALPN name. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/logger.h"
#include "base/macros.h"

struct tls_server {
    pthread_mutex_t mutex;
    SSL_CTX *context;
    char *certificate;
    char *key;
};

static int tls_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                    const unsigned char *in, unsigned in_size, void *arg) {
    static const unsigned char name[] = "\x08http/1.1";
    unsigned char *selected;
    if (SSL_select_next_proto(&selected, out_size, name, sizeof(name) - 1, in, in_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = selected;
    return SSL_TLSEXT_ERR_OK;
}

static const char *tls_error_text(void) {
    unsigned long code = ERR_peek_last_error();
    const char *text = code == 0 ? NULL : ERR_reason_error_string(code);
    return text == NULL ? "unknown error" : text;
}

static int tls_check_files(const char *certificate, const char *key) {
    if (access(certificate, R_OK) != 0) {
        int err = error_from_errno(errno);
        LOG_ERROR("tls", "certificate %s: %s", certificate, strerror(errno));
        return err;
    }
    struct stat st;
    if (stat(key, &st) != 0) {
        int err = error_from_errno(errno);
        LOG_ERROR("tls", "private key %s: %s", key, strerror(errno));
        return err;
    }
    if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        LOG_ERROR("tls", "private key %s may be read by everyone (mode %04o): chmod 600 %s", key,
                  (unsigned)st.st_mode & 07777, key);
        return -HL_ERR_ACCESS_DENIED;
    }
    return 0;
}

static void tls_cleanup_context(SSL_CTX **context) {
    SSL_CTX_free(*context);
}

static int tls_load(const char *certificate, const char *key, SSL_CTX **ret) {
    int err = tls_check_files(certificate, key);
    if (err < 0) {
        return err;
    }
    ERR_clear_error();
    CLEANUP(tls_cleanup_context) SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) {
        return -HL_ERR_NOMEM;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1); /* one read for the header and the body of a record */
    /* Tickets carry the session; nothing is kept here for a client that went away. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_alpn_select_cb(context, tls_alpn, NULL);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
        LOG_ERROR("tls", "certificate %s cannot be used: %s", certificate, tls_error_text());
        return -HL_ERR_INVALID;
    }
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        LOG_ERROR("tls", "private key %s cannot be used with certificate %s: %s", key, certificate,
                  tls_error_text());
        return -HL_ERR_INVALID;
    }
    *ret = TAKE_PTR(context);
    return 0;
}

int tls_server_new(const char *certificate, const char *key, struct tls_server **ret) {
    int err;
    struct tls_server *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return -HL_ERR_NOMEM;
    }
    pthread_mutex_init(&tls->mutex, NULL);
    tls->certificate = strdup(certificate);
    tls->key = strdup(key);
    if (tls->certificate == NULL || tls->key == NULL) {
        err = -HL_ERR_NOMEM;
        goto free_tls;
    }
    err = tls_load(certificate, key, &tls->context);
    if (err < 0) {
        goto free_tls;
    }
    *ret = tls;
    return 0;

free_tls:
    tls_server_free(tls);
    return err;
}

void tls_server_free(struct tls_server *tls) {
    if (tls == NULL) {
        return;
    }
    SSL_CTX_free(tls->context);
    pthread_mutex_destroy(&tls->mutex);
    free(tls->certificate);
    free(tls->key);
    free(tls);
}

int tls_server_reload(struct tls_server *tls) {
    SSL_CTX *fresh;
    int err = tls_load(tls->certificate, tls->key, &fresh);
    if (err < 0) {
        return err;
    }
    pthread_mutex_lock(&tls->mutex);
    SSL_CTX *old = tls->context;
    tls->context = fresh;
    pthread_mutex_unlock(&tls->mutex);
    SSL_CTX_free(old);
    return 0;
}

struct ssl_st *tls_server_session(struct tls_server *tls) {
    pthread_mutex_lock(&tls->mutex);
    SSL *ssl = SSL_new(tls->context);
    pthread_mutex_unlock(&tls->mutex);
    if (ssl != NULL) {
        SSL_set_accept_state(ssl);
    }
    return ssl;
}
