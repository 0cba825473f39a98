/* GetObjectAttributes: what is known of an object without its bytes. One point read, on the loop;
 * at most 1,000 parts an answer. */
#include "base/error.h"
#include "base/text.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

enum attribute {
    ATTRIBUTE_ETAG = 1,
    ATTRIBUTE_CHECKSUM = 2,
    ATTRIBUTE_PARTS = 4,
    ATTRIBUTE_CLASS = 8,
    ATTRIBUTE_SIZE = 16,
};

static int parse_name(struct slice name, uint32_t *attributes) {
    static const struct {
        const char *name;
        enum attribute bit;
    } names[] = {{"ETag", ATTRIBUTE_ETAG},
                 {"Checksum", ATTRIBUTE_CHECKSUM},
                 {"ObjectParts", ATTRIBUTE_PARTS},
                 {"StorageClass", ATTRIBUTE_CLASS},
                 {"ObjectSize", ATTRIBUTE_SIZE}};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (slice_equal_str(name, names[i].name)) {
            *attributes |= names[i].bit;
            return 0;
        }
    }
    return -HL_ERR_INVALID;
}

/* The header may come once with a list or several times. */
static int parse_attributes(struct s3_request *r, uint32_t *ret) {
    for (uint32_t i = 0; i < r->head->header_count; i++) {
        const struct http_header *h = &r->head->headers[i];
        if (!slice_equal_nocase(h->name, SLICE_LITERAL("x-amz-object-attributes"))) {
            continue;
        }
        struct slice rest = h->value;
        while (rest.size > 0) {
            size_t end = slice_find(rest, ',', 0);
            if (parse_name(s3_trim(slice_take(rest, end)), ret) < 0) {
                return s3_err(r, -HL_ERR_INVALID, "Invalid attribute name specified.");
            }
            rest = slice_skip(rest, MIN(end + 1, rest.size));
        }
    }
    if (*ret == 0) {
        return s3_err(
            r, -HL_ERR_INVALID_REQUEST,
            "The x-amz-object-attributes header specifying the attributes to be retrieved "
            "is either missing or empty");
    }
    return 0;
}

static int header_count(struct s3_request *r, const char *name, uint32_t fallback, uint32_t *ret) {
    struct slice text = s3_header(r, name);
    uint64_t value = fallback;
    if (text.size > 0 && !parse_u64(text, INT32_MAX, &value)) {
        return s3_err(r, -HL_ERR_INVALID, pool_printf(r->pool, "%s is not a number", name));
    }
    *ret = (uint32_t)value;
    return 0;
}

static void write_parts(struct buf *out, const struct object_record *record, uint32_t after,
                        uint32_t max) {
    uint32_t shown = 0, last = after;
    bool truncated = false;
    xml_open(out, "ObjectParts");
    xml_u64(out, "PartsCount", record->part_count);
    for (uint32_t i = 0; i < record->part_count; i++) {
        const struct object_part *part = &record->parts[i];
        if (part->number <= after) {
            continue;
        }
        if (shown == max) {
            truncated = true;
            break;
        }
        shown++;
        last = part->number;
        xml_open(out, "Part");
        xml_u64(out, "PartNumber", part->number);
        xml_u64(out, "Size", part->size);
        s3_xml_checksum(out, &part->checksum, 0, false);
        xml_close(out, "Part");
    }
    xml_bool(out, "IsTruncated", truncated);
    xml_u64(out, "MaxParts", max);
    xml_u64(out, "PartNumberMarker", after);
    xml_u64(out, "NextPartNumberMarker", last);
    xml_close(out, "ObjectParts");
}

static void write_attributes(struct buf *out, const struct object_record *record,
                             uint32_t attributes, uint32_t after, uint32_t max) {
    xml_begin(out, "GetObjectAttributesResponse", S3_XMLNS);
    if (attributes & ATTRIBUTE_ETAG) {
        s3_xml_etag(out, &record->etag, false);
    }
    if ((attributes & ATTRIBUTE_CHECKSUM) && record->checksum.size > 0) {
        xml_open(out, "Checksum");
        s3_xml_checksum(out, &record->checksum, record->etag.parts, true);
        xml_close(out, "Checksum");
    }
    if ((attributes & ATTRIBUTE_PARTS) && record->multipart) {
        write_parts(out, record, after, max);
    }
    if (attributes & ATTRIBUTE_CLASS) {
        struct slice class = record->headers.storage_class;
        xml_text(out, "StorageClass", class.size > 0 ? class : SLICE_LITERAL("STANDARD"));
    }
    if (attributes & ATTRIBUTE_SIZE) {
        xml_u64(out, "ObjectSize", record->size);
    }
    xml_close(out, "GetObjectAttributesResponse");
}

void s3_get_object_attributes(struct s3_request *r) {
    uint32_t attributes = 0, max = 1000, after = 0;
    struct object_read *read = NULL;
    int err = parse_attributes(r, &attributes);
    if (err == 0) {
        err = header_count(r, "x-amz-max-parts", 1000, &max);
    }
    if (err == 0) {
        err = header_count(r, "x-amz-part-number-marker", 0, &after);
    }
    if (err == 0) {
        err = s3_check_version(r);
    }
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err == 0) {
        err = object_read_open(r->s3->store, r->bucket.id, r->key, r->pool, &read);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    const struct object_record *record = object_read_record(read);
    char modified[TIME_TEXT_SIZE];
    time_format_http(record->modified_ms, modified);
    s3_set_header_str(r, "Last-Modified", modified);
    write_attributes(&r->out, record, attributes, after, MIN(max, 1000u));
    object_read_done(read);
    s3_respond_xml(r, 200);
}
