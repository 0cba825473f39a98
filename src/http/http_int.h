/* Inside of the HTTP server: connections, requests and what they share on one loop. */
#ifndef HTTP_INT_H
#define HTTP_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "base/metrics.h"
#include "base/text.h"
#include "http/buffers.h"
#include "http/chunked.h"
#include "http/parse.h"
#include "http/server.h"
#include "net/listener.h"
#include "net/stream.h"
#include "net/tls.h"

#define HTTP_SCRATCH_BYTES  65536    /* one read of what is thrown away */
#define HTTP_HEAD_READ      8192     /* one read of a head, with the small body that follows it */
#define HTTP_READ_BUDGET    262144   /* bytes a connection and turn */
#define HTTP_WRITE_BUDGET   1048576  /* bytes a connection and turn */
#define HTTP_REQUEST_BUDGET 64       /* requests a connection and turn */
#define HTTP_KEEP_DRAIN_MAX 65536    /* unread body that is worth keeping the connection */
#define HTTP_LINGER_BYTES   16777216 /* clients that do not wait for 100 send a part to its end */
#define HTTP_LINGER_US      2000000
#define HTTP_DRAIN_US       10000000

/* ---- slow peers (limits.c) ---- */

struct http_progress {
    bool waiting;
    uint64_t since_us;  /* of this wait */
    uint64_t waited_us; /* in this window, before this wait */
    uint64_t bytes;     /* in this window */
};
void http_progress_wait(struct http_progress *p, uint64_t now_us); /* waits for the peer from now */
void http_progress_moved(struct http_progress *p, uint64_t bytes, uint64_t now_us);
uint64_t http_progress_deadline(const struct http_progress *p); /* while waiting */
/* True when a window is full and too little moved; begins the next window. */
bool http_progress_late(struct http_progress *p, uint64_t bytes_per_s, uint64_t now_us);

/* ---- the server ---- */

struct http_listener {
    struct http_listener *next;
    struct http_server *server;
    struct http_handler handler;
    struct tls_server *tls; /* NULL: plain */
    struct listener_group *group;
};

/* What the connections of one loop share. */
struct http_loop {
    struct loop *loop;
    struct http_server *server;
    uint8_t *scratch;
    struct http_conn *first;                  /* all connections */
    struct http_conn *idle_first, *idle_last; /* longest idle first */
    uint32_t conn_count;
    struct http_request *spare_requests;
    uint32_t spare_count;
    int64_t date_s; /* second for which date is right */
    char date[TIME_TEXT_SIZE];
    uint64_t id_next;
    struct loop_hook hook; /* writes the access log of the turn */
    char *log;
    size_t log_size;
    struct task drain_task;
    bool draining;
    bool drained;
};

struct http_server {
    struct http_limits limits;
    struct os_clock *clock;
    struct http_buffers *buffers;
    pthread_mutex_t mutex; /* listeners */
    struct http_listener *listeners;
    atomic_uint conn_count;
    atomic_int log_fd;
    /* drain; but for loops_left only on loop 0 */
    atomic_uint loops_left;
    uint64_t drain_timeout_us;
    struct loop_timer drain_timer;
    struct task drain_done_task;
    void (*drain_done)(void *arg);
    void *drain_arg;
    uint32_t loop_count;
    struct http_loop loops[];
};

/* ---- a connection (conn.c) ---- */

enum http_conn_state {
    HTTP_IDLE,    /* nothing of the next request is here */
    HTTP_HEAD,    /* part of a head, or a new TLS connection */
    HTTP_HANDLER, /* the handler has the turn */
    HTTP_BODY,    /* the handler waits for a piece of the body */
    HTTP_ANSWER,  /* the answer has begun */
    HTTP_DRAIN,   /* the rest of a short unread body is thrown away */
    HTTP_LINGER,  /* our direction is shut; waits for the peer to have read it */
    HTTP_CLOSED,  /* no descriptor; the request, if any, waits for its handler */
    HTTP_STATE_COUNT
};

struct http_conn {
    struct loop_fd watch;
    struct stream stream;
    struct loop_timer timer; /* may be set earlier than deadline_us: then it is set again */
    uint64_t deadline_us;    /* of the state; UINT64_MAX: none */
    struct http_loop *home;
    struct http_listener *listener;
    struct http_request *req;
    enum http_conn_state state;

    bool readable; /* a read may succeed (edge-triggered) */
    bool writable;
    bool peer_ended; /* FIN seen by epoll: reads go on until 0 */
    bool running;    /* inside http_conn_run */
    bool keep;       /* after this answer */
    bool in_pooled;  /* `in` is memory of the request's pool */

    bool turn_posted; /* turn_task waits for the next turn */
    struct task turn_task;
    uint32_t turn_read, turn_written, turn_requests; /* budgets used in this turn */

    uint8_t *in; /* bytes received and not consumed: in_pos to in_size */
    size_t in_pos, in_size, in_capacity;
    size_t scan_pos;     /* resume point in the head at in_pos */
    uint64_t drain_left; /* in DRAIN: rest of the body; in LINGER: what we bear */
    struct http_progress progress;

    struct http_conn *next, **link;
    struct http_conn *idle_next, *idle_prev;
    char peer[LISTENER_PEER_SIZE];
};

/* Takes fd, tls and the place that was counted for the connection. */
void http_conn_new(struct http_loop *home, struct http_listener *listener, int fd,
                   struct ssl_st *tls, const struct sockaddr *peer, socklen_t peer_size);
/* Does all that can be done now; harmless when nested. The connection may be gone after it. */
void http_conn_run(struct http_conn *conn);
/* The peer is gone or must go: closes the descriptor; the handler learns it from its callbacks. */
void http_conn_fail(struct http_conn *conn, bool abort);
void http_conn_set_state(struct http_conn *conn, enum http_conn_state state);
void http_conn_next_turn(struct http_conn *conn); /* a budget is used up */
void http_conn_close_oldest_idle(struct http_loop *home);
void http_conn_drain_all(struct http_loop *home); /* closes what is idle */
void http_conn_destroy(struct http_conn *conn);   /* whatever its state; the loops have stopped */
/* One read: sets readable as it finds it. 0 with *ret_size 0 is the end of the peer. */
int http_conn_read(struct http_conn *conn, void *data, size_t size, size_t *ret_size);
bool http_conn_in_append(struct http_conn *conn, const uint8_t *data, size_t size);
void http_conn_in_release(struct http_conn *conn);     /* when all of it was consumed */
void http_conn_finish_request(struct http_conn *conn); /* frees it and goes on as keep says */
static inline uint64_t http_conn_now(struct http_conn *conn) {
    return loop_now_us(conn->home->loop);
}

/* ---- a request ---- */

struct http_text { /* in the request's pool */
    char *data;
    size_t size, capacity;
    bool failed; /* out of memory: incomplete */
};

struct http_request {
    struct http_conn *conn;
    struct http_request *next; /* spare ones */
    struct pool *pool;
    struct http_head head;
    char id[17];
    uint64_t started_us;
    void *context;
    struct slice operation, access_key;

    /* body.c */
    http_body_fn body_fn;
    void *body_arg;
    uint64_t body_left; /* with a length: not yet delivered */
    bool body_ended;    /* all of it was received */
    int body_err;       /* sticky */
    bool continue_due;  /* the client waits for 100 */
    uint8_t continue_pos;
    struct http_chunked chunked;
    struct http_buffer buffer; /* of the last piece, or of the answer */
    uint8_t half;              /* of a whole buffer: where the next read goes */
    bool piece_out;            /* the handler works on a piece that lies in the other half */
    uint32_t ahead_bytes;      /* read into the half meanwhile */
    struct http_buffer_wait wait;
    bool waiting; /* wait is queued or granted, its task has not run */
    http_buffer_fn buffer_fn;
    void *buffer_arg;

    /* response.c and answer.c */
    struct http_text lines; /* headers of the answer */
    int status;
    bool begun;          /* the head is built */
    bool ended;          /* nothing more will be written */
    bool answer_chunked; /* framing of the answer */
    bool answer_bodyless;
    uint64_t answer_left; /* announced and not yet written */
    uint64_t bytes_sent;
    struct iovec out[5];
    uint32_t out_pos, out_count;
    char chunk_line[20];
    http_write_fn write_fn;
    void *write_arg;
    bool lent;       /* the buffer may be taken while the write waits */
    bool taken;      /* it was: write_fn will get AGAIN */
    uint64_t unsent; /* of the write at that time */
};

/* body.c: steps of http_conn_run; true when something was done. */
bool http_body_step(struct http_conn *conn);
/* In state HANDLER: receives the next piece while the handler works on one. */
void http_body_ahead(struct http_conn *conn);
void http_body_begin(struct http_request *req);
/* Gives up the place in the queue for a buffer; false: the grant is on its way. */
bool http_body_cancel_wait(struct http_request *req);
/* Callbacks that wait get CLOSED; true when one was called. */
bool http_body_closed(struct http_request *req);

/* response.c: pure text. */
void http_text_append(struct http_request *req, struct http_text *text, const char *data,
                      size_t size);
struct slice http_response_head(struct http_request *req, int status, bool has_length,
                                uint64_t length, bool close);
const char *http_reason(int status);
bool http_status_bodyless(int status);

/* answer.c */
bool http_answer_step(struct http_conn *conn);
/* Answers a request that reaches no handler, and closes. */
void http_answer_error(struct http_request *req, int status);

/* access_log.c */
void http_log_request(struct http_request *req);
void http_log_flush(struct loop_hook *hook);
/* Appends the target with secrets of its query replaced. */
void http_log_redact(struct buf *out, struct slice target);

/* server.c */
void http_server_conn_gone(struct http_loop *home);

extern struct metric http_metric_requests, http_metric_connections, http_metric_received,
    http_metric_sent, http_metric_refused, http_metric_latency;

#endif
