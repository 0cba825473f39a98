/* Splitting and decoding of request targets. The raw target is split first, at literal '/', '?',
 * '&' and '=', and each piece is decoded once afterwards, so an escaped separator never changes the
 * structure. Any thread; knows nothing of what names are allowed or exist. */
#include "s3/uri.h"

#include "base/error.h"
#include "base/text.h"

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

bool s3_uri_decode(struct slice raw, bool plus, struct pool *pool, struct slice *ret) {
    uint8_t *out = pool_alloc(pool, raw.size + 1);
    if (out == NULL) {
        return false;
    }
    size_t size = 0;
    for (size_t i = 0; i < raw.size; i++) {
        uint8_t c = raw.data[i];
        if (c == '%') {
            if (raw.size - i < 3) {
                return false;
            }
            int high = hex_digit(raw.data[i + 1]), low = hex_digit(raw.data[i + 2]);
            if (high < 0 || low < 0) {
                return false;
            }
            c = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        out[size++] = c;
    }
    out[size] = '\0';
    *ret = slice_of(out, size);
    return true;
}

/* What a name may be: UTF-8 without NUL. */
static bool is_text(struct slice s) {
    return slice_find(s, '\0', 0) == s.size && utf8_valid(s);
}

static int decode_text(struct slice raw, bool plus, struct pool *pool, struct slice *ret) {
    struct slice text;
    if (!s3_uri_decode(raw, plus, pool, &text) || !is_text(text)) {
        return -HL_ERR_URI;
    }
    *ret = text;
    return 0;
}

/* ---- query ---- */

static int param_parse(struct slice raw, struct pool *pool, struct s3_query_param *ret) {
    size_t equals = slice_find(raw, '=', 0);
    struct s3_query_param param = {.has_value = equals < raw.size};
    int err = decode_text(slice_take(raw, equals), true, pool, &param.name);
    if (err != 0) {
        return err;
    }
    struct slice value = param.has_value ? slice_skip(raw, equals + 1) : SLICE_LITERAL("");
    err = decode_text(value, true, pool, &param.value);
    if (err != 0) {
        return err;
    }
    *ret = param;
    return 0;
}

static uint32_t count_params(struct slice raw) {
    uint32_t count = raw.size > 0 ? 1 : 0;
    for (size_t i = 0; i < raw.size; i++) {
        count += raw.data[i] == '&';
    }
    return count;
}

int s3_query_parse(struct slice raw, struct pool *pool, struct s3_query *ret) {
    uint32_t capacity = count_params(raw);
    if (capacity > S3_QUERY_PARAMS_MAX) {
        return -HL_ERR_URI;
    }
    struct s3_query_param *params = pool_calloc(pool, (capacity + 1) * sizeof(*params));
    if (params == NULL) {
        return -HL_ERR_NOMEM;
    }
    uint32_t count = 0;
    size_t pos = 0;
    while (pos < raw.size) {
        size_t end = slice_find(raw, '&', pos);
        if (end > pos) {
            int err = param_parse(slice_of(raw.data + pos, end - pos), pool, &params[count]);
            if (err != 0) {
                return err;
            }
            count++;
        }
        pos = end + 1;
    }
    *ret = (struct s3_query){params, count};
    return 0;
}

const struct s3_query_param *s3_query_find(const struct s3_query *query, const char *name) {
    for (uint32_t i = 0; i < query->count; i++) {
        if (slice_equal_str(query->params[i].name, name)) {
            return &query->params[i];
        }
    }
    return NULL;
}

bool s3_query_has(const struct s3_query *query, const char *name) {
    return s3_query_find(query, name) != NULL;
}

struct slice s3_query_value(const struct s3_query *query, const char *name) {
    const struct s3_query_param *param = s3_query_find(query, name);
    return param != NULL ? param->value : SLICE_EMPTY;
}

/* ---- path and host ---- */

struct slice s3_head_header(const struct http_head *head, const char *name) {
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (slice_equal_nocase(head->headers[i].name, slice_str(name))) {
            struct slice value = head->headers[i].value;
            return value.data != NULL ? value : SLICE_LITERAL("");
        }
    }
    return SLICE_EMPTY;
}

static bool starts_with_nocase(struct slice s, struct slice prefix) {
    return s.size >= prefix.size && slice_equal_nocase(slice_take(s, prefix.size), prefix);
}

struct slice s3_uri_raw_path(const struct http_head *head) {
    struct slice path = head->path;
    struct slice rest;
    if (starts_with_nocase(path, SLICE_LITERAL("http://"))) {
        rest = slice_skip(path, 7);
    } else if (starts_with_nocase(path, SLICE_LITERAL("https://"))) {
        rest = slice_skip(path, 8);
    } else {
        return path.size > 0 ? path : SLICE_LITERAL("");
    }
    rest = slice_skip(rest, slice_find(rest, '/', 0));
    return rest.size > 0 ? rest : SLICE_LITERAL("/");
}

/* "b.s3.local:3900" without the port; empty for "[::1]:3900". */
static struct slice host_name(struct slice host) {
    if (host.size > 0 && host.data[0] == '[') {
        return SLICE_LITERAL("");
    }
    return slice_take(host, slice_find(host, ':', 0));
}

static bool is_ipv4_like(struct slice name) {
    for (size_t i = 0; i < name.size; i++) {
        if ((name.data[i] < '0' || name.data[i] > '9') && name.data[i] != '.') {
            return false;
        }
    }
    return true;
}

/* name without suffix ".s3.local", or data NULL. */
static struct slice label_before(struct slice name, struct slice suffix) {
    if (name.size <= suffix.size) {
        return SLICE_EMPTY;
    }
    size_t size = name.size - suffix.size;
    return slice_equal_nocase(slice_skip(name, size), suffix) ? slice_take(name, size)
                                                              : SLICE_EMPTY;
}

static struct slice guess_host_bucket(struct slice name) {
    struct slice bucket = label_before(name, SLICE_LITERAL(".localhost"));
    for (size_t i = 1; bucket.data == NULL && i < name.size; i++) {
        if (starts_with_nocase(slice_skip(name, i), SLICE_LITERAL(".s3."))) {
            bucket = slice_take(name, i);
        }
    }
    return bucket;
}

struct slice s3_uri_host_bucket(struct slice host, const char *root_domain) {
    struct slice name = host_name(host);
    if (name.size == 0 || is_ipv4_like(name)) {
        return SLICE_EMPTY;
    }
    if (root_domain == NULL || root_domain[0] == '\0') {
        return guess_host_bucket(name);
    }
    struct slice suffix = slice_str(root_domain);
    if (suffix.data[0] == '.') {
        return label_before(name, suffix);
    }
    struct slice bucket = label_before(name, suffix);
    if (bucket.size < 2 || bucket.data[bucket.size - 1] != '.') {
        return SLICE_EMPTY;
    }
    return slice_take(bucket, bucket.size - 1);
}

static int lower_copy(struct slice text, struct pool *pool, struct slice *ret) {
    uint8_t *out = pool_alloc(pool, text.size + 1);
    if (out == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        out[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
    }
    *ret = slice_of(out, text.size);
    return is_text(*ret) ? 0 : -HL_ERR_URI;
}

/* The path after its first '/': "bucket/key" in path style. */
static int split_path_style(struct slice rest, struct pool *pool, struct s3_uri *ret) {
    if (rest.size == 0 || slice_equal_str(rest, "/")) {
        return 0;
    }
    size_t slash = slice_find(rest, '/', 0);
    if (slash == 0) {
        return -HL_ERR_URI; /* a key without a bucket */
    }
    int err = decode_text(slice_take(rest, slash), false, pool, &ret->bucket);
    if (err != 0 || slash == rest.size) {
        return err;
    }
    return decode_text(slice_skip(rest, slash + 1), false, pool, &ret->key);
}

int s3_uri_parse(const struct http_head *head, const char *root_domain, struct pool *pool,
                 struct s3_uri *ret) {
    struct slice path = s3_uri_raw_path(head);
    if (path.size == 0 || path.data[0] != '/') {
        return -HL_ERR_URI;
    }
    struct s3_uri uri = {.key = SLICE_LITERAL("")};
    int err = s3_query_parse(head->query, pool, &uri.query);
    if (err != 0) {
        return err;
    }
    struct slice bucket = s3_uri_host_bucket(s3_head_header(head, "host"), root_domain);
    if (bucket.data != NULL) {
        uri.virtual_host = true;
        err = lower_copy(bucket, pool, &uri.bucket); /* host names have no case, buckets do */
        if (err == 0) {
            err = decode_text(slice_skip(path, 1), false, pool, &uri.key);
        }
    } else {
        err = split_path_style(slice_skip(path, 1), pool, &uri);
    }
    if (err != 0) {
        return err;
    }
    *ret = uri;
    return 0;
}

/* ---- copy source ---- */

/* Where the last "?versionId=" begins, or header.size. */
static size_t find_version(struct slice header, struct slice mark) {
    for (size_t i = header.size; i-- > 0;) {
        if (slice_starts_with(slice_skip(header, i), mark)) {
            return i;
        }
    }
    return header.size;
}

int s3_copy_source_parse(struct slice header, struct pool *pool, struct s3_copy_source *ret) {
    const struct slice mark = SLICE_LITERAL("?versionId=");
    struct s3_copy_source source = {.version_id = SLICE_EMPTY};
    size_t version = find_version(header, mark);
    if (version < header.size && decode_text(slice_skip(header, version + mark.size), false, pool,
                                             &source.version_id) != 0) {
        return -HL_ERR_INVALID;
    }
    struct slice path;
    if (decode_text(slice_take(header, version), false, pool, &path) != 0) {
        return -HL_ERR_INVALID;
    }
    if (path.size > 0 && path.data[0] == '/') {
        path = slice_skip(path, 1);
    }
    size_t slash = slice_find(path, '/', 0);
    if (slash == 0 || slash + 1 >= path.size) {
        return -HL_ERR_INVALID;
    }
    source.bucket = slice_take(path, slash);
    source.key = slice_skip(path, slash + 1);
    *ret = source;
    return 0;
}
