/* The arithmetic of Signature Version 4. Everything is computed from the bytes that came over the
 * wire: the path is decoded once per segment and encoded again (S3 neither normalises nor encodes
 * twice), the query is sorted in its encoded form. Any thread; the cache of signing keys is one per
 * thread. Knows nothing of who may do what. */
#include "s3/sigv4.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

/* ---- canonical URI ---- */

static bool append_segment(struct buf *out, struct buf *scratch, struct slice segment,
                           bool keep_slash) {
    buf_clear(scratch);
    if (!percent_decode(scratch, segment)) {
        return false;
    }
    percent_encode(out, buf_slice(scratch), keep_slash);
    return true;
}

static bool append_path(struct buf *out, struct slice path, enum sigv4_path form) {
    if (form == SIGV4_PATH_RAW) {
        buf_append_slice(out, path);
        return true;
    }
    struct buf scratch CLEANUP_BUF = {0};
    size_t pos = 0;
    for (;;) {
        size_t slash = slice_find(path, '/', pos);
        if (!append_segment(out, &scratch, slice_of(path.data + pos, slash - pos),
                            form == SIGV4_PATH_SLASHES)) {
            return false;
        }
        if (slash == path.size) {
            return !scratch.failed;
        }
        buf_append_u8(out, '/');
        pos = slash + 1;
    }
}

/* ---- canonical query ---- */

struct encoded_param {
    size_t name_off, name_size, value_size; /* the value follows the name */
    const struct buf *text;                 /* never empty while there are parameters */
};

static struct slice encoded_name(const struct encoded_param *p) {
    return slice_of(p->text->data + p->name_off, p->name_size);
}

static struct slice encoded_value(const struct encoded_param *p) {
    return slice_of(p->text->data + p->name_off + p->name_size, p->value_size);
}

static int compare_params(const void *a, const void *b) {
    int order = slice_compare(encoded_name(a), encoded_name(b));
    return order != 0 ? order : slice_compare(encoded_value(a), encoded_value(b));
}

static bool append_query(struct buf *out, const struct s3_query *query) {
    struct buf text CLEANUP_BUF = {0};
    struct encoded_param params[S3_QUERY_PARAMS_MAX];
    size_t count = 0;
    if (!buf_reserve(&text, 1)) {
        return false;
    }
    for (uint32_t i = 0; i < query->count; i++) {
        const struct s3_query_param *param = &query->params[i];
        if (slice_equal_str(param->name, "X-Amz-Signature")) {
            continue;
        }
        size_t start = text.size;
        percent_encode(&text, param->name, false);
        size_t middle = text.size;
        percent_encode(&text, param->value, false);
        params[count++] = (struct encoded_param){start, middle - start, text.size - middle, &text};
    }
    if (text.failed) {
        return false;
    }
    qsort(params, count, sizeof(params[0]), compare_params);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_append_u8(out, '&');
        }
        buf_append_slice(out, encoded_name(&params[i]));
        buf_append_u8(out, '=');
        buf_append_slice(out, encoded_value(&params[i]));
    }
    return true;
}

/* ---- canonical headers ---- */

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

void sigv4_append_folded(struct buf *out, struct slice value) {
    size_t pos = 0;
    bool first = true;
    while (pos < value.size) {
        while (pos < value.size && is_blank(value.data[pos])) {
            pos++;
        }
        size_t start = pos;
        while (pos < value.size && !is_blank(value.data[pos])) {
            pos++;
        }
        if (pos > start) {
            if (!first) {
                buf_append_u8(out, ' ');
            }
            buf_append(out, value.data + start, pos - start);
            first = false;
        }
    }
}

bool sigv4_next_name(struct slice *list, struct slice *ret_name) {
    if (list->data == NULL) {
        return false;
    }
    size_t end = slice_find(*list, ';', 0);
    *ret_name = slice_take(*list, end);
    *list = end < list->size ? slice_skip(*list, end + 1) : SLICE_EMPTY;
    return true;
}

bool sigv4_names_contain(struct slice list, struct slice name) {
    struct slice item;
    while (sigv4_next_name(&list, &item)) {
        if (slice_equal_nocase(item, name)) {
            return true;
        }
    }
    return false;
}

static void append_lower(struct buf *out, struct slice text) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        buf_append_u8(out, c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c);
    }
}

static void append_header(struct buf *out, const struct http_head *head, struct slice name,
                          const struct sigv4_variant *variant) {
    append_lower(out, name);
    buf_append_u8(out, ':');
    if (variant->host.data != NULL && slice_equal_nocase(name, SLICE_LITERAL("host"))) {
        sigv4_append_folded(out, variant->host);
    } else if (variant->accept_identity &&
               slice_equal_nocase(name, SLICE_LITERAL("accept-encoding"))) {
        buf_append_str(out, "identity");
    } else {
        bool first = true;
        for (uint32_t i = 0; i < head->header_count; i++) {
            if (slice_equal_nocase(head->headers[i].name, name)) {
                if (!first) {
                    buf_append_u8(out, ',');
                }
                sigv4_append_folded(out, head->headers[i].value);
                first = false;
            }
        }
    }
    buf_append_u8(out, '\n');
}

int sigv4_canonical_request(const struct sigv4_request *request,
                            const struct sigv4_variant *variant, struct buf *out) {
    buf_append_slice(out, request->head->method);
    buf_append_u8(out, '\n');
    if (!append_path(out, s3_uri_raw_path(request->head), variant->path)) {
        return -HL_ERR_URI;
    }
    buf_append_u8(out, '\n');
    if (!append_query(out, request->query)) {
        return -HL_ERR_NOMEM;
    }
    buf_append_u8(out, '\n');
    struct slice names = request->signed_headers, name;
    while (sigv4_next_name(&names, &name)) {
        append_header(out, request->head, name, variant);
    }
    buf_append_u8(out, '\n');
    append_lower(out, request->signed_headers);
    buf_append_u8(out, '\n');
    buf_append_slice(out, request->payload_hash);
    return out->failed ? -HL_ERR_NOMEM : 0;
}

/* ---- string to sign, key, signature ---- */

void sigv4_string_to_sign(struct slice amz_date, struct slice scope, struct slice canonical,
                          struct buf *out) {
    uint8_t digest[32];
    char hex[2 * sizeof(digest) + 1];
    hash_sum(HASH_SHA256, canonical, digest);
    hex_encode(digest, sizeof(digest), hex);
    buf_append_str(out, "AWS4-HMAC-SHA256\n");
    buf_append_slice(out, amz_date);
    buf_append_u8(out, '\n');
    buf_append_slice(out, scope);
    buf_append_u8(out, '\n');
    buf_append_str(out, hex);
}

#define KEY_CACHE_COUNT    32
#define KEY_IDENTITY_BYTES 320

/* Everything that a signing key depends on, the secret too, so a key that was imported again with
 * another secret never meets its old entry. */
struct key_identity {
    uint8_t bytes[KEY_IDENTITY_BYTES];
    size_t size;
};

static _Thread_local struct {
    struct key_identity identity; /* empty: unused */
    uint8_t key[32];
} key_cache[KEY_CACHE_COUNT];

static void identity_add(struct key_identity *identity, struct slice s) {
    uint32_t size = (uint32_t)s.size;
    if (sizeof(identity->bytes) - identity->size < sizeof(size) + s.size) {
        identity->size = sizeof(identity->bytes) + 1; /* does not fit, nor does what follows */
        return;
    }
    memcpy(identity->bytes + identity->size, &size, sizeof(size));
    identity->size += sizeof(size);
    if (s.size > 0) {
        memcpy(identity->bytes + identity->size, s.data, s.size);
        identity->size += s.size;
    }
}

static void derive_key(struct slice secret, struct slice date, struct slice region,
                       struct slice service, uint8_t ret[32]) {
    uint8_t first[4 + 128] = "AWS4";
    size_t size = MIN(secret.size, sizeof(first) - 4);
    memcpy(first + 4, secret.data, size);
    uint8_t step[2][32];
    hmac_sha256(slice_of(first, 4 + size), date, step[0]);
    hmac_sha256(slice_of(step[0], 32), region, step[1]);
    hmac_sha256(slice_of(step[1], 32), service, step[0]);
    hmac_sha256(slice_of(step[0], 32), SLICE_LITERAL("aws4_request"), ret);
    wipe(first, sizeof(first));
    wipe(step, sizeof(step));
}

/* FNV-1a over what is not secret. */
static size_t key_slot(struct slice access_key, struct slice date, struct slice region) {
    const struct slice pieces[] = {access_key, date, region};
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        for (size_t k = 0; k < pieces[i].size; k++) {
            h = (h ^ pieces[i].data[k]) * 0x01000193u;
        }
    }
    return h % KEY_CACHE_COUNT;
}

void sigv4_signing_key(struct slice access_key, struct slice secret, struct slice date,
                       struct slice region, struct slice service, uint8_t ret[32]) {
    const struct slice pieces[] = {access_key, secret, date, region, service};
    struct key_identity identity;
    identity.size = 0;
    for (size_t i = 0; i < ARRAY_COUNT(pieces) && identity.size <= KEY_IDENTITY_BYTES; i++) {
        identity_add(&identity, pieces[i]);
    }
    if (identity.size > KEY_IDENTITY_BYTES) {
        derive_key(secret, date, region, service, ret);
        return;
    }
    size_t slot = key_slot(access_key, date, region);
    struct key_identity *cached = &key_cache[slot].identity;
    if (cached->size != identity.size ||
        !equal_constant_time(cached->bytes, identity.bytes, identity.size)) {
        derive_key(secret, date, region, service, key_cache[slot].key);
        memcpy(cached->bytes, identity.bytes, identity.size);
        cached->size = identity.size;
    }
    wipe(identity.bytes, identity.size);
    memcpy(ret, key_cache[slot].key, 32);
}

void sigv4_sign(const uint8_t signing_key[32], struct slice string_to_sign,
                char ret[SIGV4_SIGNATURE_SIZE + 1]) {
    uint8_t mac[32];
    hmac_sha256(slice_of(signing_key, 32), string_to_sign, mac);
    hex_encode(mac, sizeof(mac), ret);
}
