/* hayloft server: builds the node from its modules, runs it, takes it down in the reverse order.
 *
 * Threads: the main thread runs loop 0 with the signals; one thread a further loop; a pool of
 * workers for disk and hashing; one thread for admin calls, which may block; the store's own.
 * Order at the end: stop accepting and let accepted requests finish, stop the loops, join the
 * workers, then close the store with a checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/admin.h"
#include "base/check.h"
#include "base/logger.h"
#include "cmd/process.h"
#include "cmd/provision.h"
#include "cmd/store.h"
#include "http/server.h"
#include "net/loop.h"
#include "net/worker.h"
#include "s3/s3.h"

#define SERVER_LOOPS_MAX     256
#define SERVER_FILES_APART   256 /* open files that are not connections: volumes, kv, log */
#define SERVER_SOCKET_PREFIX "unix:"

struct server {
    struct cmd *cmd;
    struct config config;
    struct provision provision;
    struct store_dirs dirs;
    struct loop *loops[SERVER_LOOPS_MAX];
    pthread_t threads[SERVER_LOOPS_MAX];
    uint32_t loop_count, thread_count;
    struct worker_pool *workers, *admin_worker;
    struct object_store *store;
    struct s3 *s3;
    struct admin *admin;
    struct http_server *http;
    struct loop_fd signals;
    int access_log_fd;
    uint16_t s3_port;
    bool stopping;
    uint32_t worker_count;
    struct server_pause *pauses; /* one a worker, for server_quiesce */
    pthread_barrier_t pause_barrier;
    char node_id[ADMIN_NODE_ID_SIZE];
};

/* ---- stopping and signals: on loop 0 ---- */

static void server_stop_loops(void *arg) {
    struct server *server = arg;
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_stop(server->loops[i]);
    }
}

static void server_terminate(struct server *server, const char *signal_name) {
    if (server->stopping) {
        LOG_WARN("server", "%s again: stopping now", signal_name);
        server_stop_loops(server);
        return;
    }
    server->stopping = true;
    LOG_INFO("server", "%s: finishing accepted requests", signal_name);
    process_notify("STOPPING=1\nSTATUS=Finishing accepted requests");
    http_server_drain(server->http, server->config.shutdown_timeout_s * 1000000, server_stop_loops,
                      server);
}

static void server_reload(struct server *server) {
    LOG_INFO("server", "SIGHUP: reading the TLS files again");
    if (http_server_reload_tls(server->http) < 0) {
        LOG_ERROR("server", "the old TLS files stay in use");
    }
    process_trim();
}

static void server_signal(struct loop_fd *watch, uint32_t events) {
    (void)events;
    struct server *server = CONTAINER_OF(watch, struct server, signals);
    struct signalfd_siginfo info;
    while (read(watch->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            server_reload(server);
        } else {
            server_terminate(server, info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
        }
    }
}

/* ---- building ---- */

static int server_configure(struct server *server) {
    struct cmd *cmd = server->cmd;
    CLEANUP(config_report_done) struct config_report report = {0};
    int code = cmd_load_config(cmd, true, &server->config, &report);
    if (code != CMD_OK) {
        return code;
    }
    if (report.refusal_count > 0 && !cmd_flag(cmd, "single-node")) {
        return cmd_error("%.*s", (int)(report.refusals.size - 1),
                         (const char *)report.refusals.data);
    }
    if (cmd_flag(cmd, "access-log")) {
        server->config.access_log = cmd_value(cmd, "access-log");
    }
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(server->config.log_level, levels[i]) == 0) {
            logger_set_level((enum logger_level)i);
        }
    }
    return provision_parse(cmd, &server->provision);
}

static int server_make_loops(struct server *server) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cores = cores < 1 ? 1 : cores;
    uint64_t wanted = server->config.loop_threads;
    uint32_t count = (uint32_t)MIN(wanted == 0 ? (uint64_t)cores : wanted, SERVER_LOOPS_MAX);
    for (; server->loop_count < count; server->loop_count++) {
        int err = loop_new(os_clock_real(), &server->loops[server->loop_count]);
        if (err < 0) {
            return cmd_error("no event loop: %s", error_name(err));
        }
    }
    uint64_t workers = server->config.worker_threads;
    workers = workers == 0 ? (uint64_t)MAX(4, 2 * cores) : workers;
    server->worker_count = (uint32_t)workers;
    int err = worker_pool_new(server->worker_count, &server->workers);
    err = err < 0 ? err : worker_pool_new(1, &server->admin_worker);
    return err < 0 ? cmd_error("no worker threads: %s", error_name(err)) : CMD_OK;
}

static int server_open_store(struct server *server) {
    struct object_options options;
    int code = store_make_directories(&server->config);
    if (code != CMD_OK) {
        return code;
    }
    store_options(&server->config, worker_pool_executor(server->workers), &server->dirs, &options);
    int err = object_store_open(os_env_real(), &options, &server->store);
    if (err < 0) {
        server->store = NULL;
        return cmd_error("the store in %s does not open (%s): %s", server->config.metadata_dir,
                         error_name(err), store_advice(err));
    }
    err = admin_node_id(os_fs_real(), server->config.metadata_dir, server->node_id);
    if (err < 0) {
        return cmd_error("%s/node.key cannot be read: %s", server->config.metadata_dir,
                         error_name(err));
    }
    return provision_run(server->cmd, server->store, &server->provision);
}

static int server_make_handlers(struct server *server) {
    const struct config *config = &server->config;
    struct s3_options s3 = {.region = config->s3_region,
                            .region_strict = config->s3_region_strict,
                            .root_domain = config->s3_root_domain,
                            .workers = worker_pool_executor(server->workers)};
    struct admin_options admin = {.store = server->store,
                                  .executor = worker_pool_executor(server->admin_worker),
                                  .node_id = server->node_id,
                                  .s3_address = config->s3_bind_addr,
                                  .region = config->s3_region,
                                  .data_dir_text = config->data_dirs[0].path,
                                  .admin_token = config->admin_token,
                                  .metrics_token = config->metrics_token,
                                  .metrics_require_token = config->metrics_require_token};
    int err = s3_new(server->store, &s3, &server->s3);
    err = err < 0 ? err : admin_new(&admin, &server->admin);
    return err < 0 ? cmd_error("the server cannot be set up: %s", error_name(err)) : CMD_OK;
}

/* ---- listening ---- */

static int server_listen_failed(const char *address, const char *key, int err) {
    if (err == -HL_ERR_BUSY) {
        return cmd_error("%s is in use by another program; stop it, or choose another address with "
                         "%s",
                         address, key);
    }
    return cmd_error("cannot listen on %s (%s); set %s to another address", address,
                     error_name(err), key);
}

static int server_listen_control(struct server *server) {
    const char *path = server->config.control_socket;
    CHECK(path != NULL); /* the configuration's default fills it */
    if (strlen(path) > 107) {
        return cmd_error("the control socket's path %s is longer than 107 bytes; set "
                         "control_socket to a shorter one",
                         path);
    }
    /* The store is locked by us, so a socket that is there is left from a crash. */
    (void)unlink(path);
    const char *address = pool_printf(server->cmd->pool, SERVER_SOCKET_PREFIX "%s", path);
    int err =
        http_server_listen(server->http, address, admin_control_handler(server->admin), NULL, NULL);
    if (err < 0) {
        return server_listen_failed(address, "control_socket", err);
    }
    if (chmod(path, 0600) < 0) {
        return cmd_error("the control socket %s cannot be protected: %s", path, strerror(errno));
    }
    return CMD_OK;
}

static int server_access_log(struct server *server) {
    const char *where = server->config.access_log;
    int fd;
    if (strcmp(where, "off") == 0) {
        fd = -1;
    } else if (strcmp(where, "stderr") == 0) {
        fd = STDERR_FILENO;
    } else if (strcmp(where, "stdout") == 0) {
        fd = STDOUT_FILENO;
    } else {
        fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0) {
            return cmd_error("the access log %s cannot be opened: %s", where, strerror(errno));
        }
        server->access_log_fd = fd;
    }
    http_server_set_access_log(server->http, fd);
    return CMD_OK;
}

static int server_listen(struct server *server) {
    const struct config *config = &server->config;
    struct http_limits limits;
    http_limits_default(&limits);
    uint64_t files = process_raise_files();
    uint64_t room = files > 2 * SERVER_FILES_APART ? files - SERVER_FILES_APART : files / 2;
    limits.connections_max = (uint32_t)MIN(config->connections_max, room);
    if (limits.connections_max < config->connections_max) {
        LOG_WARN("server",
                 "only %u connections at a time: the limit of open files is %llu "
                 "(ulimit -n)",
                 limits.connections_max, (unsigned long long)files);
    }
    limits.buffers_bytes_max = config->body_buffers_bytes;
    int err = http_server_new(server->loops, server->loop_count, &limits, os_clock_real(),
                              os_random_real(), &server->http);
    if (err < 0) {
        return cmd_error("the HTTP server cannot be set up: %s", error_name(err));
    }
    struct http_tls_files tls = {.certificate = config->s3_tls_certificate,
                                 .key = config->s3_tls_key};
    err = http_server_listen(server->http, config->s3_bind_addr, s3_handler(server->s3),
                             tls.certificate != NULL ? &tls : NULL, &server->s3_port);
    if (err < 0 && err != -HL_ERR_BUSY && tls.certificate != NULL) {
        return cmd_error("S3 cannot listen on %s with TLS (%s); see the line above, and check "
                         "s3_api.tls_certificate %s and s3_api.tls_key %s",
                         config->s3_bind_addr, error_name(err), tls.certificate, tls.key);
    }
    if (err < 0) {
        return server_listen_failed(config->s3_bind_addr, "s3_api.api_bind_addr", err);
    }
    if (strcmp(config->admin_bind_addr, "off") != 0) {
        err = http_server_listen(server->http, config->admin_bind_addr,
                                 admin_network_handler(server->admin), NULL, NULL);
        if (err < 0) {
            return server_listen_failed(config->admin_bind_addr, "admin.api_bind_addr", err);
        }
    }
    int code = server_listen_control(server);
    return code != CMD_OK ? code : server_access_log(server);
}

/* ---- running ---- */

static void *server_thread(void *arg) {
    loop_run(arg);
    return NULL;
}

static int server_run(struct server *server) {
    server->signals.ready = server_signal;
    int err = loop_fd_add(server->loops[0], &server->signals, EPOLLIN);
    if (err < 0) {
        return cmd_error("signals cannot be watched: %s", error_name(err));
    }
    for (uint32_t i = 1; i < server->loop_count; i++) {
        if (pthread_create(&server->threads[i], NULL, server_thread, server->loops[i]) != 0) {
            return cmd_error("no thread for a loop");
        }
        server->thread_count++;
    }
    const struct config *config = &server->config;
    bool tls = config->s3_tls_certificate != NULL;
    LOG_INFO("server", "hayloft " HAYLOFT_VERSION " is ready: S3 on %s%s, admin on %s",
             config->s3_bind_addr, tls ? " (TLS)" : "", config->admin_bind_addr);
    provision_print(&server->provision, config->s3_bind_addr, server->s3_port, tls,
                    config->s3_region);
    process_notify("READY=1\nSTATUS=Serving");
    process_trim();
    loop_run(server->loops[0]);
    return CMD_OK;
}

/* A task that holds its worker until all workers hold one: then everything posted before is done.
 */
struct server_pause {
    struct task task;
    struct server *server;
};

static void server_pause_run(struct task *task) {
    struct server_pause *pause = CONTAINER_OF(task, struct server_pause, task);
    (void)pthread_barrier_wait(&pause->server->pause_barrier);
}

/* After the loops have stopped nothing new is posted; requests that did not end in time may still
 * read from the store on a worker. */
static void server_quiesce(struct server *server) {
    server->pauses = calloc(server->worker_count, sizeof(*server->pauses));
    if (server->pauses == NULL ||
        pthread_barrier_init(&server->pause_barrier, NULL, server->worker_count + 1) != 0) {
        return;
    }
    for (uint32_t i = 0; i < server->worker_count; i++) {
        server->pauses[i] = (struct server_pause){.task.run = server_pause_run, .server = server};
        executor_post(worker_pool_executor(server->workers), &server->pauses[i].task);
    }
    (void)pthread_barrier_wait(&server->pause_barrier);
}

/* Takes down whatever was built, in the reverse order; every part may be missing. The workers
 * outlive the store, because closing it may hand them cancelled operations; requests outlive the
 * workers. */
static void server_done(struct server *server) {
    server_stop_loops(server);
    for (uint32_t i = 1; i <= server->thread_count; i++) {
        (void)pthread_join(server->threads[i], NULL);
    }
    worker_pool_free(server->admin_worker);
    if (server->store != NULL) {
        server_quiesce(server);
        object_store_close(server->store);
    }
    worker_pool_free(server->workers);
    free(server->pauses);
    if (server->http != NULL) {
        http_server_free(server->http);
        (void)unlink(server->config.control_socket);
    }
    admin_free(server->admin);
    if (server->s3 != NULL) {
        s3_free(server->s3);
    }
    for (uint32_t i = 0; i < server->loop_count; i++) {
        loop_free(server->loops[i]);
    }
    if (server->access_log_fd >= 0) {
        (void)close(server->access_log_fd);
    }
    if (server->signals.fd >= 0) {
        (void)close(server->signals.fd);
    }
}

int cmd_server(struct cmd *cmd) {
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return cmd_error("out of memory");
    }
    server->cmd = cmd;
    server->access_log_fd = -1;
    process_prepare();
    server->signals.fd = process_signals();
    int code = server_configure(server);
    if (code == CMD_OK && server->signals.fd < 0) {
        code = cmd_error("signals cannot be watched: %s", error_name(server->signals.fd));
    }
    static int (*const steps[])(struct server *) = {
        server_make_loops, server_open_store, server_make_handlers, server_listen, server_run};
    for (size_t i = 0; i < ARRAY_COUNT(steps) && code == CMD_OK; i++) {
        code = steps[i](server);
    }
    server_done(server);
    free(server);
    if (code == CMD_OK) {
        LOG_INFO("server", "stopped");
    }
    return code;
}
