/* The configuration of a node: a TOML file whose keys are Garage's where the meaning is the same,
 * an environment twin for each key, defaults. One table (config_keys.c) describes every key; the
 * reader, docs/configuration.md and the tests go by it.
 *
 * Precedence: command line (applied by cmd/) over environment over file over default. Errors and
 * warnings are collected as lines "file:line: text" for people; nothing is printed here. */
#ifndef ADMIN_CONFIG_H
#define ADMIN_CONFIG_H

#include "base/buf.h"
#include "base/pool.h"

#define CONFIG_DATA_DIRS_MAX 32
#define CONFIG_FILE_DEFAULT  "/etc/hayloft.toml"

struct config_data_dir {
    const char *path;
    uint64_t capacity_bytes; /* 0: what the file system has */
    bool read_only;
};

/* Strings are NUL-terminated and live in the pool; NULL means not set. */
struct config {
    const char *file; /* the file that was read, or NULL */

    /* store */
    const char *metadata_dir;
    const char *control_socket; /* default: metadata_dir/control.sock */
    struct config_data_dir data_dirs[CONFIG_DATA_DIRS_MAX];
    uint32_t data_dir_count;
    uint64_t replication_factor;
    uint64_t block_bytes;
    uint64_t inline_max_bytes;
    uint64_t volume_bytes_max;
    uint64_t reserve_bytes;
    uint64_t compact_percent;
    bool scrub_off;
    uint64_t scrub_interval_s;
    uint64_t scrub_bytes_per_s;
    uint64_t log_segment_bytes;
    uint64_t checkpoint_log_bytes;
    uint64_t checkpoint_idle_s;
    uint64_t cache_bytes;
    uint64_t write_buffer_bytes;

    /* process */
    const char *log_level;
    const char *access_log;
    uint64_t loop_threads;   /* 0: one per core */
    uint64_t worker_threads; /* 0: by cores */
    uint64_t connections_max;
    uint64_t body_buffers_bytes;
    uint64_t shutdown_timeout_s;
    bool allow_world_readable_secrets;

    /* peers */
    const char *rpc_bind_addr;
    const char *rpc_secret;
    const char *rpc_secret_file;

    /* s3 */
    const char *s3_bind_addr;
    const char *s3_region;
    bool s3_region_strict;
    const char *s3_root_domain;
    const char *s3_tls_certificate;
    const char *s3_tls_key;

    /* admin */
    const char *admin_bind_addr;
    const char *admin_token;
    const char *admin_token_file;
    const char *metrics_token;
    const char *metrics_token_file;
    bool metrics_require_token;
};

enum config_state {
    CONFIG_USED,    /* does what it says */
    CONFIG_LATER,   /* a key of ours whose part is not built in this version: warns */
    CONFIG_FOREIGN, /* Garage's; has no meaning here: warns */
};

enum config_type {
    CONFIG_STRING,
    CONFIG_BOOL,
    CONFIG_COUNT,    /* a whole number */
    CONFIG_BYTES,    /* a number, or a string such as "10G" */
    CONFIG_DURATION, /* seconds, or a string such as "30d" */
    CONFIG_DATA_DIR,
    CONFIG_ANY, /* not looked at */
};

struct config_key {
    const char *section; /* "" or "s3_api" ... */
    const char *name;
    enum config_type type;
    enum config_state state;
    const char *env;          /* environment twin, or NULL */
    const char *default_text; /* TOML, parsed by the reader too; NULL: unset */
    size_t offset;            /* of the field in struct config; CONFIG_ANY: unused */
    uint64_t min, max;        /* for numbers, inclusive */
    bool secret;              /* never printed; its file must not be world-readable */
    const char *meaning;      /* for used keys: what it does; else: why it is not used */
};
extern const struct config_key config_keys[];
extern const size_t config_key_count;
const struct config_key *config_key_find(const char *section, const char *name);

struct config_report {
    struct buf errors;   /* lines; empty on success */
    struct buf warnings; /* lines */
    struct buf refusals; /* lines: understood, but `hayloft server` will not start with it */
    uint32_t error_count, warning_count, refusal_count;
};
void config_report_done(struct config_report *report);

typedef const char *(*config_getenv)(void *ctx, const char *name);

/* Reads path (NULL: CONFIG_FILE_DEFAULT if it is there, else no file) and the environment through
 * env (NULL: the process's). 0, or INVALID with the reasons in report->errors; the report is
 * filled in either case and belongs to the caller. */
int config_load(const char *path, config_getenv env, void *env_ctx, struct pool *pool,
                struct config *ret, struct config_report *report);

/* docs/configuration.md, whole. */
void config_docs(struct buf *out);

/* For a misspelt word: the nearest of count candidates (stride bytes apart, each beginning with a
 * const char *) when it is near enough to be meant, else NULL. */
const char *config_nearest(const char *word, const void *candidates, size_t count, size_t stride);

#endif
