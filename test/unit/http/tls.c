/* TLS: handshakes with a certificate made here, versions, tickets, reload, bad files. The client is
 * OpenSSL over the same harness. */
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "harness.h"
#include "net/tls.h"

static char dir[] = "/tmp/hayloft-tls-XXXXXX";
static char certificate[64], key[64];
static struct http_tls_files files = {certificate, key};
static struct harness h;

/* Writes a fresh key and a self-signed certificate for name. */
static void make_certificate(const char *name) {
    EVP_PKEY *pkey = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    X509_set_pubkey(x, pkey);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    assert_true(X509_sign(x, pkey, EVP_sha256()) > 0);
    FILE *f = fopen(certificate, "w");
    PEM_write_X509(f, x);
    fclose(f);
    f = fopen(key, "w");
    fchmod(fileno(f), 0600);
    PEM_write_PrivateKey(f, pkey, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    X509_free(x);
    EVP_PKEY_free(pkey);
}

static int group_set_up(void **state) {
    assert_non_null(mkdtemp(dir));
    snprintf(certificate, sizeof(certificate), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    return 0;
}

static int group_tear_down(void **state) {
    unlink(certificate);
    unlink(key);
    return rmdir(dir);
}

static int set_up(void **state) {
    make_certificate("first.example");
    memset(&h, 0, sizeof(h));
    harness_start(&h, &files);
    return 0;
}

static int tear_down(void **state) {
    harness_stop(&h);
    return 0;
}

struct client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

/* True when the handshake succeeded. */
static bool client_handshake(struct client *c, int min_version, int max_version) {
    c->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(c->context, min_version);
    SSL_CTX_set_max_proto_version(c->context, max_version);
    SSL_CTX_set_security_level(c->context, 0); /* so that old versions are offered at all */
    SSL_CTX_set_alpn_protos(c->context, (const unsigned char *)"\x08http/1.1", 9);
    c->fd = client_open(&h);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->ssl = SSL_new(c->context);
    SSL_set_fd(c->ssl, c->fd);
    for (int i = 0; i < 100; i++) {
        ERR_clear_error();
        int n = SSL_connect(c->ssl);
        if (n == 1) {
            return true;
        }
        if (SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ) {
            return false;
        }
        harness_turn(&h);
    }
    return false;
}

static void client_close(struct client *c) {
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    close(c->fd);
    harness_turn(&h);
}

static void secure_send(struct client *c, const void *data, size_t size) {
    const uint8_t *p = data;
    for (int i = 0; size > 0 && i < 100000; i++) {
        ERR_clear_error();
        int n = SSL_write(c->ssl, p, (int)MIN(size, (size_t)10000));
        harness_turn(&h);
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        }
    }
    assert_int_equal(size, 0);
}

static bool secure_receive(struct client *c, struct buf *out) {
    uint8_t piece[16384];
    for (int idle = 0; idle < 10;) {
        harness_turn(&h);
        ERR_clear_error();
        int n = SSL_read(c->ssl, piece, sizeof(piece));
        if (n <= 0 && SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ) {
            return true;
        }
        idle = n > 0 ? 0 : idle + 1;
        buf_append(out, piece, (size_t)MAX(n, 0));
    }
    return false;
}

static void subject(struct client *c, char ret[64]) {
    X509 *x = SSL_get1_peer_certificate(c->ssl);
    assert_non_null(x);
    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, ret, 64);
    X509_free(x);
}

static void both_versions_and_no_older(void **state) {
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (int i = 0; i < 2; i++) {
        struct client c;
        CLEANUP_BUF struct buf got = {0};
        assert_true(client_handshake(&c, versions[i], versions[i]));
        const unsigned char *protocol;
        unsigned size;
        SSL_get0_alpn_selected(c.ssl, &protocol, &size);
        assert_int_equal(size, 8);
        assert_memory_equal(protocol, "http/1.1", 8);
        static const char two[] = "GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n"
                                  "GET /chunks/20 HTTP/1.1\r\nHost: h\r\n\r\n";
        secure_send(&c, two, sizeof(two) - 1);
        assert_false(secure_receive(&c, &got));
        assert_true(contains(&got, "\r\n\r\nabcdeHTTP/1.1 200"));
        client_close(&c);
    }
    struct client old;
    assert_false(client_handshake(&old, TLS1_VERSION, TLS1_1_VERSION));
    client_close(&old);
}

static void large_bodies_and_answers(void **state) {
    struct client c;
    CLEANUP_BUF struct buf in = {0}, got = {0};
    assert_true(client_handshake(&c, TLS1_2_VERSION, TLS1_3_VERSION));
    size_t size = 700000;
    buf_printf(&in, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", size);
    for (size_t k = 0; k < size; k++) {
        buf_append_u8(&in, (uint8_t)(k * 2654435761u >> 11));
    }
    secure_send(&c, in.data, in.size);
    for (int i = 0; i < 100 && got.size < size + 100; i++) {
        assert_false(secure_receive(&c, &got));
    }
    assert_memory_equal(got.data + got.size - size, in.data + in.size - size, size);
    buf_clear(&got);
    static const char get[] = "GET /stream/3000000 HTTP/1.1\r\nHost: h\r\n\r\n";
    secure_send(&c, get, sizeof(get) - 1);
    for (int i = 0; i < 100 && got.size < 3000000; i++) {
        assert_false(secure_receive(&c, &got));
    }
    for (size_t k = 0; k < 3000000; k++) {
        assert_int_equal(got.data[got.size - 3000000 + k], 'a' + k % 26);
    }
    client_close(&c);
}

static void refusals_are_readable(void **state) {
    struct client c;
    CLEANUP_BUF struct buf got = {0};
    assert_true(client_handshake(&c, TLS1_2_VERSION, TLS1_3_VERSION));
    secure_send(&c, "GET / HTTP/1.1\n", 15);
    assert_true(secure_receive(&c, &got));
    assert_memory_equal(got.data, "HTTP/1.1 400 ", 13);
    assert_int_equal(SSL_get_shutdown(c.ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    client_close(&c);
}

static void a_handshake_that_stalls_is_closed(void **state) {
    CLEANUP_BUF struct buf got = {0};
    int fd = client_open(&h);
    client_send(&h, fd, "\x16\x03\x01", 3);
    harness_advance(&h, 9000000);
    assert_false(client_receive(&h, fd, &got));
    harness_advance(&h, 1100000);
    assert_true(client_receive(&h, fd, &got));
    assert_int_equal(got.size, 0);
    close(fd);
}

static void reload_changes_new_connections_only(void **state) {
    struct client before, after;
    CLEANUP_BUF struct buf got = {0};
    char name[64];
    assert_true(client_handshake(&before, TLS1_2_VERSION, TLS1_3_VERSION));
    make_certificate("second.example");
    assert_int_equal(http_server_reload_tls(h.server), 0);
    assert_true(client_handshake(&after, TLS1_2_VERSION, TLS1_3_VERSION));
    subject(&before, name);
    assert_string_equal(name, "first.example");
    subject(&after, name);
    assert_string_equal(name, "second.example");
    static const char get[] = "GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n";
    secure_send(&before, get, sizeof(get) - 1);
    assert_false(secure_receive(&before, &got));
    assert_true(contains(&got, "\r\n\r\nabcde"));
    client_close(&before);
    client_close(&after);
}

static void a_bad_reload_changes_nothing(void **state) {
    struct client c;
    char name[64];
    chmod(key, 0644);
    assert_int_equal(http_server_reload_tls(h.server), -HL_ERR_ACCESS_DENIED);
    chmod(key, 0600);
    FILE *f = fopen(certificate, "w");
    fputs("not a certificate\n", f);
    fclose(f);
    assert_int_equal(http_server_reload_tls(h.server), -HL_ERR_INVALID);
    unlink(key);
    assert_int_equal(http_server_reload_tls(h.server), -HL_ERR_NOT_FOUND);
    assert_true(client_handshake(&c, TLS1_2_VERSION, TLS1_3_VERSION));
    subject(&c, name);
    assert_string_equal(name, "first.example");
    client_close(&c);
}

static void bad_files_are_refused_at_start(void **state) {
    struct tls_server *tls = NULL;
    char other[80];
    snprintf(other, sizeof(other), "%s.other", certificate);
    assert_int_equal(rename(certificate, other), 0);
    make_certificate("stranger.example"); /* its key does not belong to the old certificate */
    assert_int_equal(tls_server_new(other, key, &tls), -HL_ERR_INVALID);
    assert_int_equal(tls_server_new("/nonexistent", key, &tls), -HL_ERR_NOT_FOUND);
    assert_int_equal(tls_server_new(certificate, "/nonexistent", &tls), -HL_ERR_NOT_FOUND);
    chmod(key, 0604);
    assert_int_equal(tls_server_new(certificate, key, &tls), -HL_ERR_ACCESS_DENIED);
    assert_null(tls);
    chmod(key, 0640);
    assert_int_equal(tls_server_new(certificate, key, &tls), 0);
    tls_server_free(tls);
    unlink(other);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(both_versions_and_no_older),
        TEST(large_bodies_and_answers),
        TEST(refusals_are_readable),
        TEST(a_handshake_that_stalls_is_closed),
        TEST(reload_changes_new_connections_only),
        TEST(a_bad_reload_changes_nothing),
        TEST(bad_files_are_refused_at_start),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
