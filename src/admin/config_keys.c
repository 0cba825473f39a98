/* The table of configuration keys: the only place where a key is named. The reader (config.c), the
 * documentation (config_docs.c) and the tests go by it. Rows of a section stand together, in the
 * order in which they are documented. Constant data; any thread. */
#include "admin/config.h"

#include <string.h>

#define FIELD(member) offsetof(struct config, member)
#define ANY_MAX       UINT64_MAX
#define KIB           UINT64_C(1024)
#define MIB           (KIB * 1024)
#define GIB           (MIB * 1024)

#define USED(section_, name_, type_, env_, default_, field_, min_, max_, meaning_)                 \
    {                                                                                              \
        .section = section_, .name = name_, .type = type_, .state = CONFIG_USED, .env = env_,      \
        .default_text = default_, .offset = FIELD(field_), .min = min_, .max = max_,               \
        .meaning = meaning_                                                                        \
    }
#define SECRET(section_, name_, state_, env_, field_, meaning_)                                    \
    {                                                                                              \
        .section = section_, .name = name_, .type = CONFIG_STRING, .state = state_, .env = env_,   \
        .offset = FIELD(field_), .secret = true, .meaning = meaning_                               \
    }
#define UNUSED(section_, name_, state_, meaning_)                                                  \
    { .section = section_, .name = name_, .type = CONFIG_ANY, .state = state_, .meaning = meaning_ }
#define LATER(section_, name_, meaning_)   UNUSED(section_, name_, CONFIG_LATER, meaning_)
#define FOREIGN(section_, name_, meaning_) UNUSED(section_, name_, CONFIG_FOREIGN, meaning_)

#define NO_PEERS "nodes do not talk to each other in this version"
#define NO_WEB   "static web sites are not built in this version"

const struct config_key config_keys[] = {
    /* ---- where things are ---- */
    USED("", "metadata_dir", CONFIG_STRING, "HAYLOFT_METADATA_DIR", NULL, metadata_dir, 0, 0,
         "Directory of names, log and node identity; best on an SSD. Default: "
         "`/var/lib/hayloft/meta` for root, `$STATE_DIRECTORY/meta` under systemd, else "
         "`$XDG_STATE_HOME/hayloft/meta` (`~/.local/state/hayloft/meta`)."),
    USED("", "data_dir", CONFIG_DATA_DIR, "HAYLOFT_DATA_DIR", NULL, data_dirs, 0, 0,
         "Where the bytes are: one path, or a list such as `[{ path = \"/disk1\", capacity = "
         "\"1T\" }, { path = \"/disk2\", read_only = true }]`. In the environment several paths "
         "are separated by `:`. Default: `data` beside the default metadata directory."),
    USED("", "control_socket", CONFIG_STRING, "HAYLOFT_CONTROL_SOCKET", NULL, control_socket, 0, 0,
         "Unix socket through which the commands reach the server. Default: `control.sock` in "
         "`metadata_dir`. A path has at most 107 bytes."),
    USED("", "replication_factor", CONFIG_COUNT, "HAYLOFT_REPLICATION_FACTOR", "1",
         replication_factor, 1, 9,
         "Copies of each object. Replication is not built in this version: `server` starts with "
         "1, or with `--single-node`."),

    /* ---- how bytes are kept ---- */
    USED("", "block_size", CONFIG_BYTES, "HAYLOFT_BLOCK_SIZE", "4MiB", block_bytes, 64 * KIB,
         16 * MIB, "Large objects are cut into blocks of this size."),
    USED("", "inline_max", CONFIG_BYTES, "HAYLOFT_INLINE_MAX", "32KiB", inline_max_bytes, 0,
         256 * KIB,
         "Objects up to this size travel in the log entry: one disk sync makes name and bytes "
         "durable."),
    USED("", "volume_size", CONFIG_BYTES, "HAYLOFT_VOLUME_SIZE", "1GiB", volume_bytes_max, 16 * MIB,
         64 * GIB, "A volume file takes no more records beyond this size."),
    USED("", "reserve", CONFIG_BYTES, "HAYLOFT_RESERVE", "0", reserve_bytes, 0, ANY_MAX,
         "Bytes kept free on each file system for compaction and checkpoints. 0: 5 %, at least 12 "
         "MiB and at most 1.25 volumes; volumes of a small disk are then smaller than "
         "volume_size."),
    USED("", "compact_percent", CONFIG_COUNT, "HAYLOFT_COMPACT_PERCENT", "30", compact_percent, 5,
         95, "Garbage in a volume, in percent, from which it is compacted."),
    USED("", "disable_scrub", CONFIG_BOOL, "HAYLOFT_DISABLE_SCRUB", "false", scrub_off, 0, 0,
         "No scrub by itself; `hayloft scrub start` still works."),
    USED("", "scrub_interval", CONFIG_DURATION, "HAYLOFT_SCRUB_INTERVAL", "30d", scrub_interval_s,
         60, UINT64_C(3650) * 86400, "Everything stored is read and verified once in this time."),
    USED("", "scrub_rate", CONFIG_BYTES, "HAYLOFT_SCRUB_RATE", "8MiB", scrub_bytes_per_s, 0,
         ANY_MAX, "Bytes a second that a scrub may read; 0: as fast as the disk is."),
    USED("", "log_segment_size", CONFIG_BYTES, "HAYLOFT_LOG_SEGMENT_SIZE", "4MiB",
         log_segment_bytes, 1 * MIB, 256 * MIB,
         "Size of a file of the write-ahead log. An idle node keeps two."),
    USED("", "checkpoint_log_size", CONFIG_BYTES, "HAYLOFT_CHECKPOINT_LOG_SIZE", "32MiB",
         checkpoint_log_bytes, 1 * MIB, 8 * GIB,
         "Log that may gather before a checkpoint; bounds the time of a restart after a crash."),
    USED("", "checkpoint_idle", CONFIG_DURATION, "HAYLOFT_CHECKPOINT_IDLE", "10s",
         checkpoint_idle_s, 1, 3600, "Quiet time after which the rest of the log is checkpointed."),
    USED("", "cache_size", CONFIG_BYTES, "HAYLOFT_CACHE_SIZE", "4MiB", cache_bytes, 256 * KIB,
         64 * GIB, "Memory for rows of names read from disk."),
    USED("", "write_buffer_size", CONFIG_BYTES, "HAYLOFT_WRITE_BUFFER_SIZE", "4MiB",
         write_buffer_bytes, 256 * KIB, 16 * GIB, "Memory for rows of names not yet on disk."),

    /* ---- the process ---- */
    USED("", "log_level", CONFIG_STRING, "HAYLOFT_LOG_LEVEL", "\"info\"", log_level, 0, 0,
         "`error`, `warn`, `info` or `debug`; to standard error."),
    USED("", "access_log", CONFIG_STRING, "HAYLOFT_ACCESS_LOG", "\"off\"", access_log, 0, 0,
         "`off`, `stderr`, `stdout` or a file: one line a request with its id."),
    USED("", "loop_threads", CONFIG_COUNT, "HAYLOFT_LOOP_THREADS", "0", loop_threads, 0, 256,
         "Threads that serve connections; 0: one per core."),
    USED("", "worker_threads", CONFIG_COUNT, "HAYLOFT_WORKER_THREADS", "0", worker_threads, 0, 1024,
         "Threads for disk and hashing; 0: four, or two per core if that is more."),
    USED("", "connections_max", CONFIG_COUNT, "HAYLOFT_CONNECTIONS_MAX", "12000", connections_max,
         16, 1000000, "Connections at a time; idle ones are closed to make room."),
    USED("", "body_buffers", CONFIG_BYTES, "HAYLOFT_BODY_BUFFERS", "48MiB", body_buffers_bytes,
         1 * MIB, 64 * GIB,
         "Memory for bodies in flight, all connections together; when it is used up, sockets "
         "wait."),
    USED("", "shutdown_timeout", CONFIG_DURATION, "HAYLOFT_SHUTDOWN_TIMEOUT", "30s",
         shutdown_timeout_s, 0, 3600, "How long SIGTERM waits for accepted requests."),
    USED("", "allow_world_readable_secrets", CONFIG_BOOL, "HAYLOFT_ALLOW_WORLD_READABLE_SECRETS",
         "false", allow_world_readable_secrets, 0, 0,
         "Accept secrets from files that every user can read."),

    /* ---- peers ---- */
    {.section = "",
     .name = "rpc_bind_addr",
     .type = CONFIG_STRING,
     .state = CONFIG_LATER,
     .env = "HAYLOFT_RPC_BIND_ADDR",
     .offset = FIELD(rpc_bind_addr),
     .meaning = NO_PEERS},
    SECRET("", "rpc_secret", CONFIG_LATER, "HAYLOFT_RPC_SECRET", rpc_secret,
           NO_PEERS "; 64 hexadecimal digits (`hayloft secret new`)"),
    SECRET("", "rpc_secret_file", CONFIG_LATER, "HAYLOFT_RPC_SECRET_FILE", rpc_secret_file,
           NO_PEERS),
    LATER("", "rpc_public_addr", NO_PEERS),
    LATER("", "rpc_public_addr_subnet", NO_PEERS),
    LATER("", "rpc_bind_outgoing", NO_PEERS),
    LATER("", "rpc_ping_timeout_msec", NO_PEERS),
    LATER("", "rpc_timeout_msec", NO_PEERS),
    LATER("", "bootstrap_peers", NO_PEERS),

    /* ---- S3 ---- */
    USED("s3_api", "api_bind_addr", CONFIG_STRING, "HAYLOFT_S3_API_BIND_ADDR", "\"[::]:3900\"",
         s3_bind_addr, 0, 0, "Where S3 listens: `host:port` or `unix:/path`."),
    USED("s3_api", "s3_region", CONFIG_STRING, "HAYLOFT_S3_REGION", "\"us-east-1\"", s3_region, 0,
         0, "The region that is announced. Requests signed for any region are accepted."),
    USED("s3_api", "region_strict", CONFIG_BOOL, "HAYLOFT_S3_REGION_STRICT", "false",
         s3_region_strict, 0, 0, "Refuse requests that are signed for another region."),
    USED("s3_api", "root_domain", CONFIG_STRING, "HAYLOFT_S3_ROOT_DOMAIN", NULL, s3_root_domain, 0,
         0, "Suffix of virtual-host style, e.g. `.s3.example.org`; path style always works."),
    USED("s3_api", "tls_certificate", CONFIG_STRING, "HAYLOFT_S3_TLS_CERTIFICATE", NULL,
         s3_tls_certificate, 0, 0,
         "PEM file with the certificate and its chain: S3 then speaks HTTPS. Read again on "
         "SIGHUP."),
    USED("s3_api", "tls_key", CONFIG_STRING, "HAYLOFT_S3_TLS_KEY", NULL, s3_tls_key, 0, 0,
         "PEM file with the private key; not readable by other users."),

    /* ---- web and K2V ---- */
    LATER("s3_web", "bind_addr", NO_WEB),
    LATER("s3_web", "root_domain", NO_WEB),
    LATER("s3_web", "index", NO_WEB),
    LATER("s3_web", "add_host_to_metrics", NO_WEB),
    FOREIGN("k2v", "api_bind_addr", "there is no K2V interface"),

    /* ---- admin ---- */
    USED("admin", "api_bind_addr", CONFIG_STRING, "HAYLOFT_ADMIN_BIND_ADDR", "\"127.0.0.1:3903\"",
         admin_bind_addr, 0, 0, "Admin API, `/metrics` and `/health`; `off` for none."),
    SECRET("admin", "admin_token", CONFIG_USED, "HAYLOFT_ADMIN_TOKEN", admin_token,
           "Bearer token of the admin API over the network. Without it only the control socket "
           "serves it."),
    SECRET("admin", "admin_token_file", CONFIG_USED, "HAYLOFT_ADMIN_TOKEN_FILE", admin_token_file,
           "File that holds the token."),
    SECRET("admin", "metrics_token", CONFIG_USED, "HAYLOFT_METRICS_TOKEN", metrics_token,
           "Bearer token of `/metrics`; without it `/metrics` is open."),
    SECRET("admin", "metrics_token_file", CONFIG_USED, "HAYLOFT_METRICS_TOKEN_FILE",
           metrics_token_file, "File that holds the token."),
    USED("admin", "metrics_require_token", CONFIG_BOOL, "HAYLOFT_METRICS_REQUIRE_TOKEN", "false",
         metrics_require_token, 0, 0,
         "`/metrics` answers only to `metrics_token` or `admin_token`."),
    FOREIGN("admin", "trace_sink", "traces are not exported"),

    /* ---- Garage's keys that have no meaning here ---- */
    FOREIGN("", "db_engine", "names are always kept in the built-in store"),
    FOREIGN("", "lmdb_map_size", "there is no LMDB; the store grows by itself"),
    FOREIGN("", "fjall_block_cache_size", "there is no fjall; see cache_size"),
    FOREIGN("", "sled_cache_capacity", "there is no sled; see cache_size"),
    FOREIGN("", "sled_flush_every_ms", "every acknowledged write is durable"),
    FOREIGN("", "metadata_fsync", "every acknowledged write is durable"),
    FOREIGN("", "data_fsync", "every acknowledged write is durable"),
    FOREIGN("", "metadata_snapshots_dir", "metadata can be rebuilt from the data files"),
    FOREIGN("", "metadata_auto_snapshot_interval", "metadata can be rebuilt from the data files"),
    FOREIGN("", "compression_level", "objects are not compressed in this version"),
    FOREIGN("", "consistency_mode", "reads always see the last acknowledged write"),
    FOREIGN("", "replication_mode", "use replication_factor"),
    FOREIGN("", "block_ram_buffer_max", "see body_buffers"),
    FOREIGN("", "block_max_concurrent_reads", "see worker_threads"),
    FOREIGN("", "block_max_concurrent_writes_per_request", "see worker_threads"),
    FOREIGN("", "block_manager_background_tranquility", "see scrub_rate"),
    FOREIGN("", "use_local_tz", "there is no lifecycle in this version"),
    FOREIGN("", "allow_punycode", "bucket names follow the rules of S3"),
};
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);

const struct config_key *config_key_find(const char *section, const char *name) {
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0 &&
            strcmp(config_keys[i].name, name) == 0) {
            return &config_keys[i];
        }
    }
    return NULL;
}
