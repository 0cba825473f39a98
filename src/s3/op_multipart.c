/* Multipart uploads: create, complete, abort, and the two listings. (UploadPart is in op_put.c,
 * UploadPartCopy in op_copy.c.) Upload ids are 32 hexadecimal digits on the wire. */
#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/metadata.h"
#include "s3/operations.h"
#include "s3/xml.h"

#define UPLOAD_ID_TEXT 33

/* ---- CreateMultipartUpload ---- */

struct create {
    struct s3_request *r;
    struct object_upload_args args;
    uint8_t upload_id[16];
};

/* Which checksum the parts and the object will carry (conformance: SHA cannot be of the full object
 * over parts, CRC64NVME cannot be composite). */
static int choose_checksum(struct s3_request *r, struct upload_record *record) {
    struct slice type = s3_header(r, "x-amz-checksum-type");
    int err = s3_checksum_algorithm_header(r, &record->checksum_algorithm);
    if (err < 0) {
        return err;
    }
    uint8_t algorithm = record->checksum_algorithm;
    record->checksum_given = algorithm != CHECKSUM_NONE;
    record->checksum_type = algorithm == CHECKSUM_CRC64NVME || algorithm == CHECKSUM_NONE
                                ? CHECKSUM_FULL_OBJECT
                                : CHECKSUM_COMPOSITE;
    if (type.size == 0) {
        return 0;
    }
    if (!record->checksum_given) {
        return s3_err(r, -HL_ERR_INVALID_REQUEST,
                      "The x-amz-checksum-type header can only be used with the "
                      "x-amz-checksum-algorithm header.");
    }
    if (!checksum_type_parse(type, &record->checksum_type)) {
        return s3_err(r, -HL_ERR_INVALID_REQUEST,
                      "Value for x-amz-checksum-type header is invalid.");
    }
    bool sha = algorithm == CHECKSUM_SHA1 || algorithm == CHECKSUM_SHA256;
    if ((sha && record->checksum_type == CHECKSUM_FULL_OBJECT) ||
        (algorithm == CHECKSUM_CRC64NVME && record->checksum_type == CHECKSUM_COMPOSITE)) {
        r->message = pool_printf(r->pool,
                                 "The %s checksum type cannot be used with the %s checksum "
                                 "algorithm.",
                                 checksum_type_name(record->checksum_type),
                                 checksum_algorithm_name(algorithm));
        return -HL_ERR_INVALID_REQUEST;
    }
    return 0;
}

static void upload_created(void *arg, int err, const struct object_result *result) {
    struct create *c = arg;
    struct s3_request *r = c->r;
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    const struct upload_record *record = &c->args.record;
    if (record->checksum_given) {
        s3_set_header_str(r, "x-amz-checksum-algorithm",
                          checksum_algorithm_name(record->checksum_algorithm));
        s3_set_header_str(r, "x-amz-checksum-type", checksum_type_name(record->checksum_type));
    }
    char id[UPLOAD_ID_TEXT];
    hex_encode(c->upload_id, sizeof(c->upload_id), id);
    xml_begin(&r->out, "InitiateMultipartUploadResult", S3_XMLNS);
    xml_text(&r->out, "Bucket", r->bucket_name);
    xml_text(&r->out, "Key", r->key);
    xml_str(&r->out, "UploadId", id);
    xml_close(&r->out, "InitiateMultipartUploadResult");
    s3_respond_xml(r, 200);
}

void s3_create_multipart_upload(struct s3_request *r) {
    struct create *c = POOL_NEW(r->pool, struct create);
    int err = c == NULL ? -HL_ERR_NOMEM : s3_metadata_check(r);
    if (err == 0) {
        err = s3_metadata_read(r, &c->args.record.headers);
    }
    if (err == 0) {
        err = choose_checksum(r, &c->args.record);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    c->r = r;
    c->args.bucket = r->bucket.id;
    c->args.key = r->key;
    c->args.record.owner = r->auth.access_key;
    c->args.record.owner_name = r->access_key.name;
    object_upload_create(r->s3->store, &c->args, c->upload_id, r->pool, r->home, upload_created, c);
}

/* ---- AbortMultipartUpload ---- */

static void upload_aborted(void *arg, int err, const struct object_result *result) {
    struct s3_request *r = arg;
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_respond_empty(r, 204);
}

void s3_abort_multipart_upload(struct s3_request *r) {
    uint8_t *upload_id = pool_alloc(r->pool, 16);
    int err = upload_id == NULL ? -HL_ERR_NOMEM : s3_param_upload_id(r, upload_id);
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    object_upload_abort(r->s3->store, r->bucket.id, r->key, upload_id, r->pool, r->home,
                        upload_aborted, r);
}

/* ---- ListParts ---- */

struct list_parts {
    uint8_t upload_id[16];
    uint32_t max, after;
    bool url;
    struct upload_record upload;
    struct object_part_list result;
};

static void write_part(struct buf *out, const struct part_record *record) {
    const struct object_part *part = &record->part;
    struct etag etag = {0};
    memcpy(etag.md5, part->md5, sizeof(etag.md5));
    xml_open(out, "Part");
    xml_u64(out, "PartNumber", part->number);
    s3_xml_time(out, "LastModified", record->modified_ms);
    s3_xml_etag(out, &etag, true);
    xml_u64(out, "Size", part->size);
    s3_xml_checksum(out, &part->checksum, 0, false);
    xml_close(out, "Part");
}

static void write_initiator(struct s3_request *r, const struct upload_record *upload) {
    xml_open(&r->out, "Initiator");
    xml_text(&r->out, "ID", upload->owner);
    xml_text(&r->out, "DisplayName",
             upload->owner_name.size > 0 ? upload->owner_name : upload->owner);
    xml_close(&r->out, "Initiator");
}

static void write_class(struct buf *out, const struct object_headers *headers) {
    struct slice class = headers->storage_class;
    xml_text(out, "StorageClass", class.size > 0 ? class : SLICE_LITERAL("STANDARD"));
}

static int list_parts_work(struct s3_request *r) {
    struct list_parts *l = r->op;
    int err =
        object_upload_get(r->s3->store, r->bucket.id, r->key, l->upload_id, r->pool, &l->upload);
    if (err == 0 && l->max > 0) {
        err = object_part_list(r->s3->store, l->upload_id, (uint16_t)l->after, l->max, r->pool,
                               &l->result);
    }
    if (err < 0) {
        return err;
    }
    struct buf *out = &r->out;
    uint32_t count = l->result.count;
    xml_begin(out, "ListPartsResult", S3_XMLNS);
    xml_text(out, "Bucket", r->bucket_name);
    s3_xml_key(out, "Key", r->key, l->url);
    xml_text(out, "UploadId", s3_param(r, "uploadId"));
    xml_u64(out, "PartNumberMarker", l->after);
    xml_u64(out, "NextPartNumberMarker",
            count > 0 ? l->result.parts[count - 1].part.number : l->after);
    xml_u64(out, "MaxParts", l->max);
    if (l->url) {
        xml_str(out, "EncodingType", "url");
    }
    xml_bool(out, "IsTruncated", l->result.truncated);
    for (uint32_t i = 0; i < count; i++) {
        write_part(out, &l->result.parts[i]);
    }
    write_initiator(r, &l->upload);
    s3_xml_owner(r, "Owner", l->upload.owner);
    write_class(out, &l->upload.headers);
    if (l->upload.checksum_given) {
        xml_str(out, "ChecksumAlgorithm", checksum_algorithm_name(l->upload.checksum_algorithm));
        xml_str(out, "ChecksumType", checksum_type_name(l->upload.checksum_type));
    }
    xml_close(out, "ListPartsResult");
    return 0;
}

static void list_done(struct s3_request *r, int err) {
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_respond_xml(r, 200);
}

void s3_list_parts(struct s3_request *r) {
    struct list_parts *l = POOL_NEW(r->pool, struct list_parts);
    int err = l == NULL ? -HL_ERR_NOMEM : s3_param_upload_id(r, l->upload_id);
    if (err == 0) {
        err = s3_param_count(r, "max-parts", 1000, 1000, &l->max);
    }
    if (err == 0) {
        err = s3_param_count(r, "part-number-marker", 0, 10000, &l->after);
    }
    if (err == 0) {
        err = s3_param_encoding(r, &l->url);
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    r->op = l;
    s3_on_worker(r, list_parts_work, list_done);
}

/* ---- ListMultipartUploads ---- */

struct list_uploads {
    struct object_upload_list_args args;
    uint8_t upload_id_marker[16];
    bool url;
    struct object_upload_list result;
};

static void write_upload(struct s3_request *r, const struct list_uploads *l,
                         const struct object_upload_item *item) {
    struct buf *out = &r->out;
    char id[UPLOAD_ID_TEXT];
    hex_encode(item->upload_id, sizeof(item->upload_id), id);
    xml_open(out, "Upload");
    s3_xml_key(out, "Key", item->key, l->url);
    xml_str(out, "UploadId", id);
    write_initiator(r, &item->record);
    s3_xml_owner(r, "Owner", item->record.owner);
    write_class(out, &item->record.headers);
    s3_xml_time(out, "Initiated", item->record.created_ms);
    if (item->record.checksum_given) {
        xml_str(out, "ChecksumAlgorithm", checksum_algorithm_name(item->record.checksum_algorithm));
        xml_str(out, "ChecksumType", checksum_type_name(item->record.checksum_type));
    }
    xml_close(out, "Upload");
}

static void write_uploads(struct s3_request *r, const struct list_uploads *l) {
    struct buf *out = &r->out;
    for (uint32_t i = 0; i < l->result.count; i++) {
        if (!l->result.items[i].is_prefix) {
            write_upload(r, l, &l->result.items[i]);
        }
    }
    for (uint32_t i = 0; i < l->result.count; i++) {
        if (l->result.items[i].is_prefix) {
            xml_open(out, "CommonPrefixes");
            s3_xml_key(out, "Prefix", l->result.items[i].key, l->url);
            xml_close(out, "CommonPrefixes");
        }
    }
}

static int list_uploads_work(struct s3_request *r) {
    struct list_uploads *l = r->op;
    int err = 0;
    if (l->args.count_max > 0) {
        err = object_upload_list(r->s3->store, &l->args, r->pool, &l->result);
    }
    if (err < 0) {
        return err;
    }
    struct buf *out = &r->out;
    char next_id[UPLOAD_ID_TEXT];
    hex_encode(l->result.next_upload_id, 16, next_id);
    xml_begin(out, "ListMultipartUploadsResult", S3_XMLNS);
    xml_text(out, "Bucket", r->bucket_name);
    s3_xml_key(out, "KeyMarker", l->args.key_marker, l->url);
    xml_text(out, "UploadIdMarker",
             l->args.upload_id_marker != NULL ? s3_param(r, "upload-id-marker") : SLICE_EMPTY);
    s3_xml_key(out, "Prefix", l->args.prefix, l->url);
    if (l->args.delimiter.size > 0) {
        s3_xml_key(out, "Delimiter", l->args.delimiter, l->url);
    }
    if (l->result.truncated) {
        s3_xml_key(out, "NextKeyMarker", l->result.next_key, l->url);
        bool prefix_last = l->result.items[l->result.count - 1].is_prefix;
        xml_str(out, "NextUploadIdMarker", prefix_last ? "" : next_id);
    }
    xml_u64(out, "MaxUploads", l->args.count_max);
    if (l->url) {
        xml_str(out, "EncodingType", "url");
    }
    xml_bool(out, "IsTruncated", l->result.truncated);
    write_uploads(r, l);
    xml_close(out, "ListMultipartUploadsResult");
    return 0;
}

void s3_list_multipart_uploads(struct s3_request *r) {
    struct list_uploads *l = POOL_NEW(r->pool, struct list_uploads);
    if (l == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    r->op = l;
    l->args.bucket = r->bucket.id;
    l->args.prefix = s3_param(r, "prefix");
    l->args.delimiter = s3_param(r, "delimiter");
    l->args.key_marker = s3_param(r, "key-marker");
    struct slice marker = s3_param(r, "upload-id-marker");
    int err = s3_param_count(r, "max-uploads", 1000, 1000, &l->args.count_max);
    if (err == 0) {
        err = s3_param_encoding(r, &l->url);
    }
    /* Without a key marker the upload id marker is ignored. */
    if (err == 0 && marker.size > 0 && l->args.key_marker.size > 0) {
        if (!hex_decode(marker, l->upload_id_marker, 16)) {
            err = s3_err(r, -HL_ERR_INVALID, "Invalid uploadId marker");
        }
        l->args.upload_id_marker = l->upload_id_marker;
    }
    if (err < 0) {
        s3_fail(r, err);
        return;
    }
    s3_on_worker(r, list_uploads_work, list_done);
}
