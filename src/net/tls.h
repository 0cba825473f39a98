/* TLS for servers: certificate files become sessions. A tls_server outlives reloads: connections
 * that exist keep the certificate with which they began, new ones get the new one. Any thread. */
#ifndef NET_TLS_H
#define NET_TLS_H

struct tls_server;
struct ssl_st; /* OpenSSL's SSL */

/* certificate: PEM chain, leaf first; key: PEM, refused when others than owner and group may read
 * it. Paths are copied. Errors are logged with the file's name and returned: ACCESS_DENIED for the
 * mode, NOT_FOUND, INVALID for contents. */
int tls_server_new(const char *certificate, const char *key, struct tls_server **ret);
void tls_server_free(struct tls_server *tls); /* NULL is fine; sessions live on */
/* Reads both files again; on failure the old pair stays in use. */
int tls_server_reload(struct tls_server *tls);
/* A session in accept state, without a descriptor yet; NULL when out of memory. */
struct ssl_st *tls_server_session(struct tls_server *tls);

#endif
