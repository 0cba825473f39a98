/* ListObjects (both versions) and ListObjectVersions: one walk of the object layer, three ways to
 * write it down. Parameters are read on the loop; the walk and the XML happen on a worker. Keys
 * come in byte order of the full key. */
#include "base/error.h"
#include "s3/checksum_header.h"
#include "s3/fields.h"
#include "s3/operations.h"
#include "s3/xml.h"

#define LIST_KEYS_MAX   1000
/* A key of 1,024 control bytes is 6 KiB of character references. */
#define LIST_ANSWER_MAX (12u << 20)
#define LIST_POOL_MAX   (32u << 20)

enum list_form { LIST_V1, LIST_V2, LIST_VERSIONS };
struct list {
    enum list_form form;
    struct object_list_args args;
    struct object_list result;
    bool url;
    bool owner;
    bool has_delimiter;
    struct slice marker; /* v1: marker; versions: key-marker */
    struct slice start_after, token, version_marker;
};

static struct slice or_empty(struct slice s) {
    return s.data != NULL ? s : slice_of("", 0);
}

static bool holds_at(struct slice s, size_t at, struct slice what) {
    return at <= s.size && slice_starts_with(slice_skip(s, at), what);
}

/* A marker that is a common prefix (prefix, some bytes, the delimiter for the first time, end)
 * stands for everything below it: the page before ended with that CommonPrefix. */
static bool is_common_prefix(struct slice marker, struct slice prefix, struct slice delimiter) {
    if (delimiter.size == 0 || !slice_starts_with(marker, prefix)) {
        return false;
    }
    for (size_t i = prefix.size; i < marker.size; i++) {
        if (holds_at(marker, i, delimiter)) {
            return i + delimiter.size == marker.size;
        }
    }
    return false;
}

static void resume_after(struct list *l, struct slice marker) {
    l->args.after = marker;
    l->args.after_is_prefix = is_common_prefix(marker, l->args.prefix, l->args.delimiter);
}

static int parse_common(struct s3_request *r, struct list *l) {
    l->args.bucket = r->bucket.id;
    l->args.prefix = s3_param(r, "prefix");
    l->args.delimiter = s3_param(r, "delimiter");
    l->has_delimiter = l->args.delimiter.size > 0;
    int err = s3_param_count(r, "max-keys", LIST_KEYS_MAX, LIST_KEYS_MAX, &l->args.count_max);
    if (err == 0) {
        err = s3_param_encoding(r, &l->url);
    }
    /* Keys are listed in order anyway; the combination is refused as in the extension it is from.
     */
    if (err == 0 && l->has_delimiter &&
        slice_equal_nocase(s3_param(r, "allow-unordered"), SLICE_LITERAL("true"))) {
        err = s3_err(r, -HL_ERR_INVALID, "allow-unordered cannot be used with a delimiter");
    }
    return err;
}

static int parse_v2(struct s3_request *r, struct list *l) {
    if (!slice_equal_str(s3_param(r, "list-type"), "2")) {
        return s3_err(r, -HL_ERR_INVALID, "Invalid List Type specified in Request");
    }
    l->owner = slice_equal_nocase(s3_param(r, "fetch-owner"), SLICE_LITERAL("true"));
    l->start_after = s3_param(r, "start-after");
    l->token = s3_param(r, "continuation-token");
    if (l->token.size == 0) { /* an empty token counts as none, but is echoed */
        resume_after(l, l->start_after);
        return 0;
    }
    if (!s3_token_decode(r->pool, l->token, &l->args.after_is_prefix, &l->args.after)) {
        s3_add_detail(r, "ArgumentName", SLICE_LITERAL("continuation-token"));
        return s3_err(r, -HL_ERR_INVALID, "The continuation token provided is incorrect");
    }
    return 0;
}

static int parse_versions(struct s3_request *r, struct list *l) {
    l->owner = true;
    l->marker = s3_param(r, "key-marker");
    l->version_marker = s3_param(r, "version-id-marker");
    if (l->version_marker.data != NULL && l->marker.data == NULL) {
        return s3_err(r, -HL_ERR_INVALID,
                      "A version-id marker cannot be specified without a key marker.");
    }
    resume_after(l, l->marker);
    return 0;
}

/* ---- writing it down ---- */

static void write_item(struct s3_request *r, const struct list *l, const char *element,
                       const struct object_list_item *item) {
    struct buf *out = &r->out;
    const struct object_record *record = &item->record;
    xml_open(out, element);
    s3_xml_key(out, "Key", item->key, l->url);
    if (l->form == LIST_VERSIONS) {
        xml_str(out, "VersionId", "null");
        xml_bool(out, "IsLatest", true);
    }
    s3_xml_time(out, "LastModified", record->modified_ms);
    s3_xml_etag(out, &record->etag, true);
    if (record->checksum.size > 0) {
        xml_str(out, "ChecksumAlgorithm", checksum_algorithm_name(record->checksum.algorithm));
        xml_str(out, "ChecksumType", checksum_type_name(record->checksum.type));
    }
    xml_u64(out, "Size", record->size);
    struct slice class = record->headers.storage_class;
    xml_text(out, "StorageClass", class.size > 0 ? class : SLICE_LITERAL("STANDARD"));
    if (l->owner) {
        s3_xml_owner(r, "Owner", record->owner);
    }
    xml_close(out, element);
}

static void write_items(struct s3_request *r, const struct list *l) {
    const char *element = l->form == LIST_VERSIONS ? "Version" : "Contents";
    for (uint32_t i = 0; i < l->result.count; i++) {
        if (!l->result.items[i].is_prefix) {
            write_item(r, l, element, &l->result.items[i]);
        }
    }
    for (uint32_t i = 0; i < l->result.count; i++) {
        if (l->result.items[i].is_prefix) {
            xml_open(&r->out, "CommonPrefixes");
            s3_xml_key(&r->out, "Prefix", l->result.items[i].key, l->url);
            xml_close(&r->out, "CommonPrefixes");
        }
    }
}

static void write_v1(struct s3_request *r, const struct list *l) {
    s3_xml_key(&r->out, "Marker", or_empty(l->marker), l->url);
    /* Without a delimiter the client takes the last key. */
    if (l->result.truncated && l->has_delimiter) {
        s3_xml_key(&r->out, "NextMarker", l->result.next, l->url);
    }
}

static void write_v2(struct s3_request *r, const struct list *l) {
    if (l->start_after.data != NULL) {
        s3_xml_key(&r->out, "StartAfter", l->start_after, l->url);
    }
    if (l->token.data != NULL) {
        xml_text(&r->out, "ContinuationToken", l->token);
    }
    if (l->result.truncated) {
        xml_text(&r->out, "NextContinuationToken",
                 s3_token_encode(r->pool, l->result.next_is_prefix, l->result.next));
    }
    xml_u64(&r->out, "KeyCount", l->result.count);
}

static void write_versions(struct s3_request *r, const struct list *l) {
    s3_xml_key(&r->out, "KeyMarker", or_empty(l->marker), l->url);
    xml_text(&r->out, "VersionIdMarker", or_empty(l->version_marker));
    if (l->result.truncated) {
        s3_xml_key(&r->out, "NextKeyMarker", l->result.next, l->url);
        if (!l->result.next_is_prefix) {
            xml_str(&r->out, "NextVersionIdMarker", "null");
        }
    }
}

static int list_work(struct s3_request *r) {
    struct list *l = r->op;
    int err = 0;
    if (l->args.count_max > 0) {
        err = object_list(r->s3->store, &l->args, r->pool, &l->result);
    }
    if (err < 0) {
        return err;
    }
    const char *root = l->form == LIST_VERSIONS ? "ListVersionsResult" : "ListBucketResult";
    struct buf *out = &r->out;
    out->size_max = LIST_ANSWER_MAX;
    xml_begin(out, root, S3_XMLNS);
    xml_text(out, "Name", r->bucket_name);
    s3_xml_key(out, "Prefix", or_empty(l->args.prefix), l->url);
    if (l->has_delimiter) {
        s3_xml_key(out, "Delimiter", l->args.delimiter, l->url);
    }
    xml_u64(out, "MaxKeys", l->args.count_max);
    if (l->url) {
        xml_str(out, "EncodingType", "url");
    }
    xml_bool(out, "IsTruncated", l->result.truncated);
    if (l->form == LIST_V1) {
        write_v1(r, l);
    } else if (l->form == LIST_V2) {
        write_v2(r, l);
    } else {
        write_versions(r, l);
    }
    write_items(r, l);
    xml_close(out, root);
    return out->failed ? -HL_ERR_NOMEM : 0;
}

static void list_done(struct s3_request *r, int err) {
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_set_header_str(r, "x-amz-bucket-region", r->s3->region);
    s3_respond_xml(r, 200);
}

static void list_start(struct s3_request *r, enum list_form form) {
    struct list *l = POOL_NEW(r->pool, struct list);
    if (l == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    r->op = l;
    l->form = form;
    int err = parse_common(r, l);
    if (err == 0 && form == LIST_V1) {
        l->owner = true;
        l->marker = s3_param(r, "marker");
        resume_after(l, l->marker);
    } else if (err == 0) {
        err = form == LIST_V2 ? parse_v2(r, l) : parse_versions(r, l);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    pool_set_limit(r->pool, LIST_POOL_MAX);
    s3_on_worker(r, list_work, list_done);
}

void s3_list_objects_v1(struct s3_request *r) {
    list_start(r, LIST_V1);
}

void s3_list_objects_v2(struct s3_request *r) {
    list_start(r, LIST_V2);
}

void s3_list_object_versions(struct s3_request *r) {
    list_start(r, LIST_VERSIONS);
}
