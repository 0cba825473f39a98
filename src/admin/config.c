/* Reads the configuration: TOML values and environment twins go through one setter a key
 * (config_set), so that both obey the same checks. All problems of a file are gathered before
 * giving up, each with its line. Start-up code: one thread, may block; prints nothing. It opens
 * files directly and not through os/: it needs their permission bits, and no simulation reads one.
 */
#include "admin/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/toml.h"
#include "base/error.h"
#include "base/text.h"

#define CONFIG_SECRET_FILE_MAX 4096

struct config_reader {
    struct config *config;
    struct config_report *report;
    struct pool *pool;
    const char *file; /* for messages */
    bool file_world_readable;
    bool secret_in_file; /* an inline secret that must not be world-readable */
    uint32_t secret_line;
    uint32_t seen_line[128]; /* by row of config_keys: where the file set it; 0: it did not */
};

/* A value with its place, from the file or from the environment. */
struct config_source {
    const struct toml_value *value;
    const char *where; /* "file" or "environment NAME" */
    uint32_t line;     /* 0: no line */
};

static void config_say(struct buf *out, const struct config_source *source) {
    if (source->line > 0) {
        buf_printf(out, "%s:%u: ", source->where, source->line);
    } else {
        buf_printf(out, "%s: ", source->where);
    }
}

#define CONFIG_ERROR(r, source, ...)                                                               \
    do {                                                                                           \
        config_say(&(r)->report->errors, (source));                                                \
        buf_printf(&(r)->report->errors, __VA_ARGS__);                                             \
        buf_append_str(&(r)->report->errors, "\n");                                                \
        (r)->report->error_count++;                                                                \
    } while (0)

#define CONFIG_WARN(r, source, ...)                                                                \
    do {                                                                                           \
        config_say(&(r)->report->warnings, (source));                                              \
        buf_printf(&(r)->report->warnings, __VA_ARGS__);                                           \
        buf_append_str(&(r)->report->warnings, "\n");                                              \
        (r)->report->warning_count++;                                                              \
    } while (0)

void config_report_done(struct config_report *report) {
    buf_done(&report->errors);
    buf_done(&report->warnings);
    buf_done(&report->refusals);
}

/* ---- setting one key ---- */

static void *config_field(struct config_reader *r, const struct config_key *key) {
    return (char *)r->config + key->offset;
}

static void config_wrong_type(struct config_reader *r, const struct config_key *key,
                              const struct config_source *source, const char *want) {
    CONFIG_ERROR(r, source, "%s must be %s, not %s", key->name, want,
                 toml_type_text(source->value->type));
}

static void config_set_number(struct config_reader *r, const struct config_key *key,
                              const struct config_source *source) {
    const struct toml_value *v = source->value;
    uint64_t number = 0;
    bool valid = false;
    if (v->type == TOML_INTEGER) {
        valid = v->integer >= 0;
        number = (uint64_t)v->integer;
    } else if (v->type == TOML_STRING && key->type == CONFIG_BYTES) {
        valid = parse_bytes(v->string, &number);
    } else if (v->type == TOML_STRING && key->type == CONFIG_DURATION) {
        valid = parse_duration(v->string, &number);
    } else {
        static const char *const wants[] = {[CONFIG_COUNT] = "a whole number",
                                            [CONFIG_BYTES] = "a size such as \"10G\"",
                                            [CONFIG_DURATION] = "a time such as \"30d\""};
        config_wrong_type(r, key, source, wants[key->type]);
        return;
    }
    if (!valid) {
        CONFIG_ERROR(r, source, "%s: \"%.*s\" is not understood; write %s", key->name,
                     (int)MIN(v->string.size, 40u),
                     v->type == TOML_STRING ? (const char *)v->string.data : "",
                     key->type == CONFIG_BYTES      ? "a size such as \"512M\", \"10G\" or \"1TiB\""
                     : key->type == CONFIG_DURATION ? "a time such as \"30s\", \"12h\" or \"30d\""
                                                    : "a whole number that is not negative");
        return;
    }
    if (number < key->min || number > key->max) {
        CONFIG_ERROR(r, source, "%s is out of range: allowed are %llu to %llu", key->name,
                     (unsigned long long)key->min, (unsigned long long)key->max);
        return;
    }
    *(uint64_t *)config_field(r, key) = number;
}

static void config_set_string(struct config_reader *r, const struct config_key *key,
                              const struct config_source *source) {
    const struct toml_value *v = source->value;
    if (v->type != TOML_STRING) {
        config_wrong_type(r, key, source, "a string in quotes");
        return;
    }
    if (v->string.size == 0) {
        CONFIG_ERROR(r, source, "%s is empty; remove the line or give a value", key->name);
        return;
    }
    if (memchr(v->string.data, 0, v->string.size) != NULL) {
        CONFIG_ERROR(r, source, "%s holds a NUL byte", key->name);
        return;
    }
    *(const char **)config_field(r, key) = (const char *)v->string.data;
}

static void config_add_data_dir(struct config_reader *r, const struct config_source *source,
                                struct config_data_dir dir) {
    struct config *c = r->config;
    if (dir.path == NULL || dir.path[0] == 0) {
        CONFIG_ERROR(r, source,
                     "data_dir: a path is missing; write { path = \"/disk1\", "
                     "capacity = \"1T\" }");
        return;
    }
    for (uint32_t i = 0; i < c->data_dir_count; i++) {
        if (strcmp(c->data_dirs[i].path, dir.path) == 0) {
            CONFIG_ERROR(r, source, "data_dir: \"%s\" appears twice", dir.path);
            return;
        }
    }
    if (c->data_dir_count == CONFIG_DATA_DIRS_MAX) {
        CONFIG_ERROR(r, source, "data_dir: more than %d directories", CONFIG_DATA_DIRS_MAX);
        return;
    }
    c->data_dirs[c->data_dir_count++] = dir;
}

static void config_data_dir_entry(struct config_reader *r, const struct toml_value *table,
                                  const char *where) {
    struct config_source source = {.where = where, .line = table->line};
    struct config_data_dir dir = {0};
    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (slice_equal_str(v->key, "path") && v->type == TOML_STRING) {
            dir.path = (const char *)v->string.data;
        } else if (slice_equal_str(v->key, "read_only") && v->type == TOML_BOOLEAN) {
            dir.read_only = v->boolean;
        } else if (slice_equal_str(v->key, "capacity") &&
                   ((v->type == TOML_STRING && parse_bytes(v->string, &dir.capacity_bytes)) ||
                    (v->type == TOML_INTEGER && v->integer > 0))) {
            if (v->type == TOML_INTEGER) {
                dir.capacity_bytes = (uint64_t)v->integer;
            }
        } else {
            CONFIG_ERROR(r, &source,
                         "data_dir: \"%s\" is not understood; known are path = \"...\", "
                         "capacity = \"1T\", read_only = true",
                         (const char *)v->key.data);
            return;
        }
    }
    config_add_data_dir(r, &source, dir);
}

static void config_set_data_dir(struct config_reader *r, const struct config_key *key,
                                const struct config_source *source) {
    const struct toml_value *v = source->value;
    r->config->data_dir_count = 0;
    if (v->type == TOML_STRING && source->line == 0) { /* the environment: a:b:c */
        struct slice rest = v->string;
        while (rest.size > 0) {
            size_t end = slice_find(rest, ':', 0);
            struct slice path = pool_copy(r->pool, slice_take(rest, end));
            config_add_data_dir(r, source,
                                (struct config_data_dir){.path = (const char *)path.data});
            rest = slice_skip(rest, MIN(end + 1, rest.size));
        }
    } else if (v->type == TOML_STRING) {
        config_add_data_dir(r, source,
                            (struct config_data_dir){.path = (const char *)v->string.data});
    } else if (v->type == TOML_ARRAY) {
        for (const struct toml_value *item = v->first; item != NULL; item = item->next) {
            if (item->type == TOML_TABLE) {
                config_data_dir_entry(r, item, source->where);
            } else if (item->type == TOML_STRING) {
                config_add_data_dir(
                    r, source, (struct config_data_dir){.path = (const char *)item->string.data});
            } else {
                CONFIG_ERROR(r, source, "data_dir: an item must be { path = \"...\" }, not %s",
                             toml_type_text(item->type));
            }
        }
    } else {
        config_wrong_type(r, key, source, "a path or a list of { path = \"...\" }");
    }
}

static void config_set(struct config_reader *r, const struct config_key *key,
                       const struct config_source *source) {
    switch (key->type) {
    case CONFIG_STRING:
        config_set_string(r, key, source);
        break;
    case CONFIG_BOOL:
        if (source->value->type != TOML_BOOLEAN) {
            config_wrong_type(r, key, source, "true or false");
            break;
        }
        *(bool *)config_field(r, key) = source->value->boolean;
        break;
    case CONFIG_COUNT:
    case CONFIG_BYTES:
    case CONFIG_DURATION:
        config_set_number(r, key, source);
        break;
    case CONFIG_DATA_DIR:
        config_set_data_dir(r, key, source);
        break;
    case CONFIG_ANY:
        break;
    }
}

/* ---- the file ---- */

static uint32_t config_distance(const char *a, const char *b) {
    enum { WIDTH = 64 };
    uint32_t row[WIDTH];
    size_t size_a = strlen(a), size_b = strlen(b);
    if (size_a >= WIDTH || size_b >= WIDTH) {
        return WIDTH;
    }
    for (uint32_t j = 0; j <= size_b; j++) {
        row[j] = j;
    }
    for (uint32_t i = 1; i <= size_a; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= size_b; j++) {
            uint32_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MIN(replaced, MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[size_b];
}

const char *config_nearest(const char *word, const void *candidates, size_t count, size_t stride) {
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)strlen(word) / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        const char *candidate;
        memcpy(&candidate, (const char *)candidates + i * stride, sizeof(candidate));
        uint32_t distance = candidate == NULL ? UINT32_MAX : config_distance(word, candidate);
        if (distance <= best_distance && (best == NULL || distance < best_distance)) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

static void config_unknown(struct config_reader *r, const char *section, const char *name,
                           const struct config_source *source) {
    const char *names[128];
    size_t count = 0;
    const char *elsewhere = NULL;
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0) {
            names[count++] = config_keys[i].name;
        } else if (strcmp(config_keys[i].name, name) == 0) {
            elsewhere = config_keys[i].section;
        }
    }
    const char *near = config_nearest(name, names, count, sizeof(names[0]));
    const char *shown_open = section[0] == 0 ? "" : " in [";
    const char *shown_close = section[0] == 0 ? "" : "]";
    if (near != NULL) {
        CONFIG_ERROR(r, source, "unknown key \"%s\"%s%s%s; did you mean \"%s\"?", name, shown_open,
                     section, shown_close, near);
    } else if (elsewhere != NULL) {
        CONFIG_ERROR(r, source, "unknown key \"%s\"%s%s%s; it belongs %s%s%s", name, shown_open,
                     section, shown_close,
                     elsewhere[0] == 0 ? "before the first [section]" : "in [", elsewhere,
                     elsewhere[0] == 0 ? "" : "]");
    } else {
        CONFIG_ERROR(r, source,
                     "unknown key \"%s\"%s%s%s; `hayloft config docs` lists all keys, remove the "
                     "line if you do not need it",
                     name, shown_open, section, shown_close);
    }
}

static void config_file_value(struct config_reader *r, const char *section,
                              const struct toml_value *v) {
    const char *name = (const char *)v->key.data;
    struct config_source source = {.value = v, .where = r->file, .line = v->line};
    if (strcmp(section, "rpc") == 0) { /* guides write [rpc] bind_addr for rpc_bind_addr */
        const char *flat = strncmp(name, "rpc_", 4) == 0 || strcmp(name, "bootstrap_peers") == 0
                               ? name
                               : pool_printf(r->pool, "rpc_%s", name);
        if (flat != NULL && config_key_find("", flat) != NULL) {
            section = "";
            name = flat;
        }
    }
    const struct config_key *key = config_key_find(section, name);
    if (key == NULL) {
        config_unknown(r, section, name, &source);
        return;
    }
    size_t row = (size_t)(key - config_keys);
    if (r->seen_line[row] != 0) {
        CONFIG_ERROR(r, &source, "%s was set already in line %u; keep one", key->name,
                     r->seen_line[row]);
        return;
    }
    r->seen_line[row] = v->line;
    if (key->state == CONFIG_FOREIGN) {
        CONFIG_WARN(r, &source, "%s%s%s is ignored: %s", section, section[0] == 0 ? "" : ".", name,
                    key->meaning);
    } else if (key->state == CONFIG_LATER) {
        CONFIG_WARN(r, &source, "%s%s%s has no effect yet: %s", section, section[0] == 0 ? "" : ".",
                    name, key->meaning);
    }
    config_set(r, key, &source);
    bool file_name = strlen(name) > 5 && strcmp(name + strlen(name) - 5, "_file") == 0;
    if (key->secret && !file_name && strcmp(name, "metrics_token") != 0 && !r->secret_in_file) {
        r->secret_in_file = true;
        r->secret_line = v->line;
    }
}

static void config_file_section(struct config_reader *r, const struct toml_value *table) {
    static const char *const sections[] = {"rpc", "s3_api", "s3_web", "k2v", "admin"};
    const char *name = (const char *)table->key.data;
    struct config_source source = {.where = r->file, .line = table->line};
    if (strcmp(name, "consul_discovery") == 0 || strcmp(name, "kubernetes_discovery") == 0) {
        CONFIG_WARN(r, &source, "[%s] is ignored: nodes do not talk to each other in this version",
                    name);
        return;
    }
    if (strcmp(name, "k2v_api") == 0) {
        name = "k2v";
    }
    for (size_t i = 0; i < ARRAY_COUNT(sections); i++) {
        if (strcmp(sections[i], name) == 0) {
            for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
                config_file_value(r, name, v);
            }
            return;
        }
    }
    const char *near = config_nearest(name, sections, ARRAY_COUNT(sections), sizeof(sections[0]));
    if (near != NULL) {
        CONFIG_ERROR(r, &source, "unknown section [%s]; did you mean [%s]?", name, near);
    } else {
        CONFIG_ERROR(r, &source,
                     "unknown section [%s]; known are [rpc], [s3_api], [s3_web], [k2v], [admin]",
                     name);
    }
}

/* Reads a small file (or pipe) into the pool; *ret_mode gets its permission bits. */
static int config_read_file(const char *path, size_t size_max, struct pool *pool, struct slice *ret,
                            mode_t *ret_mode) {
    CLEANUP_BUF struct buf text = {.size_max = size_max};
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == EACCES ? -HL_ERR_ACCESS_DENIED : error_from_errno(errno);
    }
    int err = fstat(fd, &st) < 0 ? error_from_errno(errno) : 0;
    while (err == 0 && !text.failed) {
        uint8_t piece[4096];
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n == 0) {
            break;
        }
        if (n < 0 && errno != EINTR) {
            err = error_from_errno(errno);
        } else if (n > 0) {
            buf_append(&text, piece, (size_t)n);
        }
    }
    (void)close(fd);
    if (err < 0 || text.failed) {
        return err < 0 ? err : -HL_ERR_LIMIT;
    }
    struct slice copy = pool_copy(pool, buf_slice(&text));
    if (copy.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    *ret = copy;
    *ret_mode = st.st_mode;
    return 0;
}

static void config_file(struct config_reader *r, const char *path) {
    struct config_source source = {.where = path};
    struct slice text;
    mode_t mode = 0;
    int err = config_read_file(path, TOML_TEXT_MAX, r->pool, &text, &mode);
    if (err == -HL_ERR_ACCESS_DENIED) {
        CONFIG_ERROR(r, &source, "no permission to read it; run as the user that owns the store");
        return;
    }
    if (err < 0) {
        CONFIG_ERROR(r, &source,
                     "the configuration cannot be read (%s); give the right file with "
                     "-c FILE",
                     error_name(err));
        return;
    }
    r->file_world_readable = (mode & S_IROTH) != 0;
    struct toml_value *root;
    struct toml_error problem;
    err = toml_parse(text, r->pool, &root, &problem);
    if (err < 0) {
        source.line = problem.line;
        CONFIG_ERROR(r, &source, "%s", problem.text);
        return;
    }
    r->config->file = path;
    for (const struct toml_value *v = root->first; v != NULL; v = v->next) {
        if (v->type == TOML_TABLE && config_key_find("", (const char *)v->key.data) == NULL) {
            config_file_section(r, v);
        } else {
            config_file_value(r, "", v);
        }
    }
}

/* ---- defaults and environment ---- */

static void config_defaults(struct config_reader *r) {
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->default_text == NULL) {
            continue;
        }
        struct config_source source = {.where = "default"};
        struct toml_value value = {.type = TOML_STRING, .string = slice_str(key->default_text)};
        if (key->type == CONFIG_BOOL) {
            value =
                (struct toml_value){.type = TOML_BOOLEAN, .boolean = key->default_text[0] == 't'};
        } else if (key->type == CONFIG_COUNT) {
            value.type = TOML_INTEGER;
            (void)parse_u64(slice_str(key->default_text), INT64_MAX, (uint64_t *)&value.integer);
        } else if (key->type == CONFIG_STRING) {
            /* Strings stand in quotes in the table, as they are documented. */
            struct slice inner = slice_of(key->default_text + 1, strlen(key->default_text) - 2);
            value.string = pool_copy(r->pool, inner);
        }
        source.value = &value;
        config_set(r, key, &source);
    }
}

static const char *config_process_env(void *ctx, const char *name) {
    (void)ctx;
    return getenv(name);
}

static void config_environment(struct config_reader *r, config_getenv env, void *env_ctx) {
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        const char *text = key->env == NULL ? NULL : env(env_ctx, key->env);
        if (text == NULL || text[0] == 0) {
            continue;
        }
        struct slice copy = pool_copy(r->pool, slice_str(text));
        struct toml_value value = {.type = TOML_STRING, .string = copy};
        struct config_source source = {.value = &value,
                                       .where = pool_printf(r->pool, "environment %s", key->env)};
        uint64_t number;
        if (key->type == CONFIG_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0 ||
                                         strcmp(text, "false") == 0 || strcmp(text, "0") == 0)) {
            value.type = TOML_BOOLEAN;
            value.boolean = text[0] == 't' || text[0] == '1';
        } else if (key->type != CONFIG_STRING && parse_u64(copy, INT64_MAX, &number)) {
            value.type = TOML_INTEGER;
            value.integer = (int64_t)number;
        }
        config_set(r, key, &source);
    }
}

static void config_directories(struct config_reader *r, config_getenv env, void *env_ctx) {
    struct config *c = r->config;
    const char *base = NULL;
    const char *state = env(env_ctx, "STATE_DIRECTORY");
    const char *xdg = env(env_ctx, "XDG_STATE_HOME");
    const char *home = env(env_ctx, "HOME");
    if (state != NULL && state[0] == '/') {
        base = pool_printf(r->pool, "%.*s", (int)strcspn(state, ":"), state);
    } else if (geteuid() == 0) {
        base = "/var/lib/hayloft";
    } else if (xdg != NULL && xdg[0] == '/') {
        base = pool_printf(r->pool, "%s/hayloft", xdg);
    } else if (home != NULL && home[0] == '/') {
        base = pool_printf(r->pool, "%s/.local/state/hayloft", home);
    } else {
        base = "/var/lib/hayloft";
    }
    if (c->metadata_dir == NULL) {
        c->metadata_dir = pool_printf(r->pool, "%s/meta", base);
    }
    if (c->data_dir_count == 0) {
        c->data_dirs[0] = (struct config_data_dir){.path = pool_printf(r->pool, "%s/data", base)};
        c->data_dir_count = 1;
    }
    if (c->control_socket == NULL) {
        c->control_socket = pool_printf(r->pool, "%s/control.sock", c->metadata_dir);
    }
}

/* ---- secrets and cross-checks ---- */

static void config_secret_file(struct config_reader *r, const char *name, const char *path,
                               const char **secret) {
    struct config_source source = {.where = path};
    if (path == NULL) {
        return;
    }
    if (*secret != NULL) {
        source.where = name;
        CONFIG_ERROR(r, &source, "the secret and its file %s are both given; keep one", path);
        return;
    }
    struct slice text;
    mode_t mode = 0;
    int err = config_read_file(path, CONFIG_SECRET_FILE_MAX, r->pool, &text, &mode);
    if (err < 0) {
        CONFIG_ERROR(r, &source, "%s cannot be read (%s); check the path and its owner", name,
                     error_name(err));
        return;
    }
    if ((mode & S_IROTH) != 0 && !r->config->allow_world_readable_secrets) {
        CONFIG_ERROR(r, &source,
                     "every user can read this secret; run `chmod 600 %s` (or set "
                     "allow_world_readable_secrets = true)",
                     path);
        return;
    }
    while (text.size > 0 && memchr(" \t\r\n", text.data[text.size - 1], 4) != NULL) {
        text.size--;
    }
    if (text.size == 0 || memchr(text.data, 0, text.size) != NULL) {
        CONFIG_ERROR(r, &source, "%s is empty or no text", name);
        return;
    }
    *secret = (const char *)pool_copy(r->pool, text).data;
}

static void config_secrets(struct config_reader *r) {
    struct config *c = r->config;
    config_secret_file(r, "rpc_secret_file", c->rpc_secret_file, &c->rpc_secret);
    config_secret_file(r, "admin_token_file", c->admin_token_file, &c->admin_token);
    config_secret_file(r, "metrics_token_file", c->metrics_token_file, &c->metrics_token);
    if (r->secret_in_file && r->file_world_readable && !c->allow_world_readable_secrets) {
        struct config_source source = {.where = r->file, .line = r->secret_line};
        CONFIG_ERROR(r, &source,
                     "the file holds a secret and every user can read it; run `chmod 600 %s` (or "
                     "set allow_world_readable_secrets = true)",
                     r->file);
    }
    uint8_t raw[32];
    if (c->rpc_secret != NULL && !hex_decode(slice_str(c->rpc_secret), raw, sizeof(raw))) {
        struct config_source source = {.where = "rpc_secret"};
        CONFIG_ERROR(r, &source,
                     "64 hexadecimal digits are needed; `hayloft secret new` makes one");
    }
}

static void config_cross_checks(struct config_reader *r) {
    struct config *c = r->config;
    struct config_source source = {.where = c->file != NULL ? c->file : "configuration"};
    if ((c->s3_tls_certificate == NULL) != (c->s3_tls_key == NULL)) {
        CONFIG_ERROR(r, &source, "s3_api.tls_certificate and s3_api.tls_key are needed together");
    }
    if (c->metrics_require_token && c->metrics_token == NULL && c->admin_token == NULL) {
        CONFIG_ERROR(r, &source,
                     "metrics_require_token needs admin.metrics_token or "
                     "admin.admin_token");
    }
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    bool level_known = false;
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        level_known = level_known || strcmp(c->log_level, levels[i]) == 0;
    }
    if (!level_known) {
        CONFIG_ERROR(r, &source, "log_level is error, warn, info or debug, not \"%s\"",
                     c->log_level);
    }
    uint32_t writable = 0;
    for (uint32_t i = 0; i < c->data_dir_count; i++) {
        writable += !c->data_dirs[i].read_only;
    }
    if (writable == 0) {
        CONFIG_ERROR(r, &source, "every data_dir is read_only; one must take new data");
    }
    if (c->replication_factor > 1) {
        source.line = r->seen_line[config_key_find("", "replication_factor") - config_keys];
        config_say(&r->report->refusals, &source);
        buf_printf(&r->report->refusals,
                   "replication_factor = %llu, but replication is not built in this version: "
                   "every object would have one copy. Set replication_factor = 1, or start "
                   "`hayloft server --single-node` to accept that\n",
                   (unsigned long long)c->replication_factor);
        r->report->refusal_count++;
    }
}

int config_load(const char *path, config_getenv env, void *env_ctx, struct pool *pool,
                struct config *ret, struct config_report *report) {
    *ret = (struct config){0};
    *report = (struct config_report){0};
    struct config_reader r = {.config = ret, .report = report, .pool = pool, .file = path};
    _Static_assert(ARRAY_COUNT(r.seen_line) >= 100, "one slot a key");
    if (env == NULL) {
        env = config_process_env;
    }
    config_defaults(&r);
    if (path == NULL && access(CONFIG_FILE_DEFAULT, F_OK) == 0) {
        r.file = CONFIG_FILE_DEFAULT;
    }
    if (r.file != NULL) {
        config_file(&r, r.file);
    }
    config_environment(&r, env, env_ctx);
    config_directories(&r, env, env_ctx);
    config_secrets(&r);
    config_cross_checks(&r);
    if (report->errors.failed || report->warnings.failed) {
        return -HL_ERR_NOMEM;
    }
    return report->error_count > 0 ? -HL_ERR_INVALID : 0;
}
