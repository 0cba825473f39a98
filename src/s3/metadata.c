/* Between HTTP headers and stored object headers. Values are kept byte for byte; names of user
 * metadata are lower case. Headers that ask for what is not built are refused here, loudly, instead
 * of being dropped. Pure but for reading the request's head. */
#include "s3/metadata.h"

#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/fields.h"

#include <string.h>

static const struct slice meta_prefix = {(const uint8_t *)"x-amz-meta-", 11};

/* ---- in ---- */

static bool starts_with_nocase(struct slice s, struct slice prefix) {
    return s.size >= prefix.size && slice_equal_nocase(slice_take(s, prefix.size), prefix);
}

static bool is_metadata(struct slice name) {
    return name.size > meta_prefix.size && starts_with_nocase(name, meta_prefix);
}

static struct slice lower_case(struct pool *pool, struct slice s) {
    uint8_t *out = pool_alloc(pool, s.size + 1);
    if (out == NULL) {
        return SLICE_EMPTY;
    }
    for (size_t i = 0; i < s.size; i++) {
        uint8_t c = s.data[i];
        out[i] = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    }
    return slice_of(out, s.size);
}

/* A name that came before gets the second value behind a comma, as HTTP lists do. */
static int add_metadata(struct pool *pool, struct header_pair *pairs, uint32_t *count,
                        struct slice name, struct slice value) {
    for (uint32_t i = 0; i < *count; i++) {
        if (slice_equal(pairs[i].name, name)) {
            char *joined =
                pool_printf(pool, "%.*s,%.*s", SLICE_PRINT(pairs[i].value), SLICE_PRINT(value));
            if (joined == NULL) {
                return -HL_ERR_NOMEM;
            }
            pairs[i].value = slice_str(joined);
            return 0;
        }
    }
    pairs[(*count)++] = (struct header_pair){name, value};
    return 0;
}

static int read_user_metadata(struct s3_request *r, struct object_headers *ret) {
    uint32_t fields = s3_field_count(r), count = 0, max = 0;
    size_t bytes = 0;
    struct slice field_name, value;
    for (uint32_t i = 0; i < fields; i++) {
        max += s3_field(r, i, &field_name, &value) && is_metadata(field_name);
    }
    if (max == 0) {
        return 0;
    }
    struct header_pair *pairs = pool_alloc(r->pool, max * sizeof(*pairs));
    if (pairs == NULL) {
        return -HL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < fields; i++) {
        if (!s3_field(r, i, &field_name, &value) || !is_metadata(field_name)) {
            continue;
        }
        struct slice name = lower_case(r->pool, slice_skip(field_name, meta_prefix.size));
        /* An empty value is kept: data must not be NULL, which would read as absent. */
        if (value.data == NULL) {
            value = slice_of("", 0);
        }
        bytes += name.size + value.size;
        if (bytes > S3_METADATA_BYTES_MAX) {
            s3_add_detail(r, "MaxSizeAllowed", SLICE_LITERAL("2048"));
            return -HL_ERR_METADATA_TOO_LARGE;
        }
        if (name.data == NULL || add_metadata(r->pool, pairs, &count, name, value) < 0) {
            return -HL_ERR_NOMEM;
        }
    }
    ret->metadata = pairs;
    ret->metadata_count = count;
    return 0;
}

/* Empty standard headers count as absent. */
static struct slice standard(struct s3_request *r, const char *name) {
    struct slice value = s3_header(r, name);
    return value.size > 0 ? value : SLICE_EMPTY;
}

int s3_metadata_read(struct s3_request *r, struct object_headers *ret) {
    struct object_headers headers = {
        .content_type = standard(r, "Content-Type"),
        .cache_control = standard(r, "Cache-Control"),
        .content_disposition = standard(r, "Content-Disposition"),
        .content_encoding = s3_strip_aws_chunked(r->pool, standard(r, "Content-Encoding")),
        .content_language = standard(r, "Content-Language"),
        .expires = standard(r, "Expires"),
        .website_redirect = standard(r, "x-amz-website-redirect-location"),
        .storage_class = standard(r, "x-amz-storage-class"),
    };
    struct slice redirect = headers.website_redirect;
    if (redirect.size > 0 && redirect.data[0] != '/' &&
        !slice_starts_with(redirect, SLICE_LITERAL("http://")) &&
        !slice_starts_with(redirect, SLICE_LITERAL("https://"))) {
        return s3_err(r, -HL_ERR_INVALID,
                      "The website redirect location must have a prefix of 'http://' or 'https://' "
                      "or '/'.");
    }
    if (slice_equal_str(headers.storage_class, "STANDARD")) {
        headers.storage_class = SLICE_EMPTY; /* the default is not stored */
    }
    int err = read_user_metadata(r, &headers);
    if (err < 0) {
        return err;
    }
    *ret = headers;
    return 0;
}

/* ---- out ---- */

static void set_header(struct s3_request *r, const char *name, struct slice stored,
                       const char *override) {
    struct slice value = override != NULL ? s3_param(r, override) : SLICE_EMPTY;
    if (value.size == 0) {
        value = stored;
    }
    if (value.size > 0) {
        s3_set_header(r, name, value);
    }
}

void s3_metadata_write(struct s3_request *r, const struct object_headers *headers) {
    struct slice type = headers->content_type.size > 0 ? headers->content_type
                                                       : SLICE_LITERAL("binary/octet-stream");
    set_header(r, "Content-Type", type, "response-content-type");
    set_header(r, "Cache-Control", headers->cache_control, "response-cache-control");
    set_header(r, "Content-Disposition", headers->content_disposition,
               "response-content-disposition");
    set_header(r, "Content-Encoding", headers->content_encoding, "response-content-encoding");
    set_header(r, "Content-Language", headers->content_language, "response-content-language");
    set_header(r, "Expires", headers->expires, "response-expires");
    set_header(r, "x-amz-website-redirect-location", headers->website_redirect, NULL);
    set_header(r, "x-amz-storage-class", headers->storage_class, NULL);
    for (uint32_t i = 0; i < headers->metadata_count; i++) {
        const struct header_pair *pair = &headers->metadata[i];
        char *name = pool_printf(r->pool, "x-amz-meta-%.*s", SLICE_PRINT(pair->name));
        if (name != NULL) {
            s3_set_header(r, name, pair->value);
        }
    }
}

/* ---- what is not built ---- */

static bool any_of(struct slice value, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (slice_equal_str(value, names[i])) {
            return true;
        }
    }
    return false;
}

static int check_acl(struct s3_request *r) {
    static const char *const owner_only[] = {"private", "bucket-owner-full-control"};
    static const char *const wider[] = {"public-read",        "public-read-write",
                                        "authenticated-read", "bucket-owner-read",
                                        "aws-exec-read",      "log-delivery-write"};
    struct slice acl = s3_header(r, "x-amz-acl");
    if (acl.size == 0 || any_of(acl, owner_only, ARRAY_COUNT(owner_only))) {
        return 0;
    }
    if (any_of(acl, wider, ARRAY_COUNT(wider))) {
        return s3_err(r, -HL_ERR_NOT_IMPLEMENTED,
                      "Access control lists other than 'private' are not implemented.");
    }
    s3_add_detail(r, "ArgumentName", SLICE_LITERAL("x-amz-acl"));
    s3_add_detail(r, "ArgumentValue", acl);
    return -HL_ERR_INVALID;
}

static int check_storage_class(struct s3_request *r) {
    static const char *const known[] = {"STANDARD", "REDUCED_REDUNDANCY"};
    struct slice class = s3_header(r, "x-amz-storage-class");
    if (class.size == 0 || any_of(class, known, ARRAY_COUNT(known))) {
        return 0;
    }
    s3_add_detail(r, "StorageClassRequested", class);
    return -HL_ERR_STORAGE_CLASS;
}

int s3_metadata_check(struct s3_request *r) {
    static const char *const unbuilt[] = {
        "x-amz-tagging", "x-amz-server-side-encryption", "x-amz-grant-",
        "x-amz-copy-source-server-side-encryption", "x-amz-write-offset-bytes"};
    static const char *const lock = "x-amz-object-lock-";
    struct slice name, value;
    for (uint32_t i = 0; i < s3_field_count(r); i++) {
        if (!s3_field(r, i, &name, &value) || value.size == 0 ||
            slice_equal_nocase(name, SLICE_LITERAL("x-amz-tagging-directive"))) {
            continue; /* an empty value counts as absent */
        }
        for (size_t k = 0; k < ARRAY_COUNT(unbuilt); k++) {
            if (starts_with_nocase(name, slice_str(unbuilt[k]))) {
                s3_add_detail(r, "Header", name);
                return -HL_ERR_UNSUPPORTED;
            }
        }
        if (starts_with_nocase(name, slice_str(lock))) {
            return s3_err(r, -HL_ERR_INVALID_REQUEST,
                          "Bucket is missing Object Lock Configuration");
        }
    }
    int err = check_acl(r);
    if (err == 0) {
        err = check_storage_class(r);
    }
    return err;
}

int s3_check_expected_owner(struct s3_request *r, const char *header,
                            const struct bucket_record *bucket) {
    struct slice expected = s3_header(r, header);
    if (expected.size == 0 || slice_equal(expected, bucket->owner)) {
        return 0;
    }
    return -HL_ERR_ACCESS_DENIED;
}

/* ---- conditions ---- */

static int match_fields(struct s3_request *r, const char *match, const char *none_match,
                        struct object_conditions *c) {
    int err = s3_parse_etags(s3_header(r, match), r->pool, &c->match);
    if (err == 0) {
        err = s3_parse_etags(s3_header(r, none_match), r->pool, &c->none_match);
    }
    return err;
}

/* Dates that cannot be parsed are ignored (RFC 9110 13.1.3). */
static void date_fields(struct s3_request *r, const char *since, const char *unmodified,
                        struct object_conditions *c) {
    c->modified_since_given = s3_parse_time(s3_header(r, since), &c->modified_since_ms);
    c->unmodified_since_given = s3_parse_time(s3_header(r, unmodified), &c->unmodified_since_ms);
}

int s3_conditions_read(struct s3_request *r, struct object_conditions *ret) {
    *ret = (struct object_conditions){0};
    date_fields(r, "If-Modified-Since", "If-Unmodified-Since", ret);
    return match_fields(r, "If-Match", "If-None-Match", ret);
}

int s3_conditions_write(struct s3_request *r, struct object_conditions *ret) {
    *ret = (struct object_conditions){0};
    return match_fields(r, "If-Match", "If-None-Match", ret);
}

int s3_conditions_delete(struct s3_request *r, struct object_conditions *ret) {
    *ret = (struct object_conditions){0};
    struct slice time = s3_header(r, "x-amz-if-match-last-modified-time");
    struct slice size = s3_header(r, "x-amz-if-match-size");
    if (time.size > 0) {
        ret->last_modified_given = s3_parse_time(time, &ret->last_modified_ms);
        if (!ret->last_modified_given) {
            return s3_err(r, -HL_ERR_INVALID, "x-amz-if-match-last-modified-time is not a date");
        }
    }
    if (size.size > 0) {
        ret->size_given = parse_u64(size, UINT64_MAX, &ret->size);
        if (!ret->size_given) {
            return s3_err(r, -HL_ERR_INVALID, "x-amz-if-match-size is not a number");
        }
    }
    return match_fields(r, "If-Match", "If-None-Match", ret);
}

int s3_conditions_copy_source(struct s3_request *r, struct object_conditions *ret) {
    *ret = (struct object_conditions){0};
    date_fields(r, "x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-unmodified-since",
                ret);
    return match_fields(r, "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match", ret);
}

int s3_checksum_algorithm_header(struct s3_request *r, uint8_t *ret) {
    struct slice name = s3_header(r, "x-amz-checksum-algorithm");
    if (name.size == 0) {
        *ret = CHECKSUM_NONE;
        return 0;
    }
    int algorithm = checksum_algorithm_parse(name);
    if (algorithm == CHECKSUM_NONE) {
        return s3_err(
            r, -HL_ERR_INVALID_REQUEST,
            "Checksum algorithm provided is unsupported. Please try again with any of the "
            "valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]");
    }
    *ret = (uint8_t)algorithm;
    return 0;
}
