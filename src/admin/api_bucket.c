/* The admin API's calls on buckets: list, info, create, update (quotas), delete, aliases,
 * permissions, unfinished uploads, inspection of one object. Runs on the blocking executor; every
 * change waits until it is durable. */
#include <stdio.h>

#include "admin/api_int.h"
#include "base/text.h"

/* ---- results ---- */

static int api_bucket_aliases(struct api_call *call, uint64_t bucket, json_t **ret_global,
                              json_t **ret_local) {
    struct directory_alias *aliases;
    uint32_t count;
    int err = directory_aliases(api_store(call), bucket, api_pool(call), &aliases, &count);
    if (err < 0) {
        return err;
    }
    json_t *global = json_array(), *local = json_array();
    for (uint32_t i = 0; i < count; i++) {
        if (aliases[i].key_id.size == 0) {
            (void)json_array_append_new(global, api_json_slice(aliases[i].name));
        } else {
            (void)json_array_append_new(local, json_pack("{s:o, s:o}", "accessKeyId",
                                                         api_json_slice(aliases[i].key_id), "alias",
                                                         api_json_slice(aliases[i].name)));
        }
    }
    *ret_global = global;
    *ret_local = local;
    return 0;
}

static json_t *api_bucket_key(struct api_call *call, const struct directory_grant *grant,
                              json_t *all_local) {
    struct access_key_record key;
    int err = directory_access_key(api_store(call), grant->key_id, api_pool(call), &key);
    json_t *names = json_array();
    size_t i;
    json_t *alias;
    json_array_foreach(all_local, i, alias) {
        const char *id = json_string_value(json_object_get(alias, "accessKeyId"));
        if (id != NULL && slice_equal_str(grant->key_id, id)) {
            (void)json_array_append(names, json_object_get(alias, "alias"));
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "accessKeyId", api_json_slice(grant->key_id), "name",
                     err == 0 ? api_json_slice(key.name) : json_string(""), "permissions",
                     api_json_permissions(grant->flags), "bucketLocalAliases", names);
}

static json_t *api_quotas(const struct bucket_record *record) {
    return json_pack(
        "{s:o, s:o}", "maxSize",
        record->quota_bytes == 0 ? json_null() : json_integer((json_int_t)record->quota_bytes),
        "maxObjects",
        record->quota_objects == 0 ? json_null() : json_integer((json_int_t)record->quota_objects));
}

int api_bucket_info(struct api_call *call, uint64_t bucket, json_t **ret_json) {
    struct object_store *store = api_store(call);
    struct bucket_record record;
    struct directory_usage usage;
    struct directory_grant *grants;
    uint32_t grant_count;
    json_t *global, *local;
    int err = directory_bucket_by_id(store, bucket, api_pool(call), &record);
    err = err < 0 ? err : directory_usage(store, bucket, &usage);
    err = err < 0 ? err : directory_grants(store, bucket, api_pool(call), &grants, &grant_count);
    err = err < 0 ? err : api_bucket_aliases(call, bucket, &global, &local);
    if (err < 0) {
        return err;
    }
    json_t *keys = json_array();
    for (uint32_t i = 0; i < grant_count; i++) {
        (void)json_array_append_new(keys, api_bucket_key(call, &grants[i], local));
    }
    json_decref(local);
    char id[API_BUCKET_ID_SIZE];
    api_bucket_id(bucket, id);
    *ret_json = json_pack(
        "{s:s, s:o, s:o, s:b, s:n, s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "id", id, "created",
        api_json_time(record.created_ms), "globalAliases", global, "websiteAccess", 0,
        "websiteConfig", "keys", keys, "objects", (json_int_t)usage.objects, "bytes",
        (json_int_t)usage.bytes, "unfinishedUploads", (json_int_t)usage.uploads,
        "unfinishedMultipartUploads", (json_int_t)usage.uploads, "unfinishedMultipartUploadBytes",
        (json_int_t)usage.upload_bytes, "quotas", api_quotas(&record));
    return 0;
}

static int api_list_buckets(struct api_call *call, json_t **ret_json) {
    struct bucket_record *buckets;
    uint32_t count;
    int err = directory_buckets(api_store(call), api_pool(call), &buckets, &count);
    if (err < 0) {
        return err;
    }
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *global, *local;
        err = api_bucket_aliases(call, buckets[i].id, &global, &local);
        if (err < 0) {
            json_decref(list);
            return err;
        }
        char id[API_BUCKET_ID_SIZE];
        api_bucket_id(buckets[i].id, id);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:o, s:o, s:o}", "id", id, "created",
                                              api_json_time(buckets[i].created_ms), "globalAliases",
                                              global, "localAliases", local));
    }
    *ret_json = list;
    return 0;
}

/* The bucket that the query names: id=, globalAlias= or search=. */
static int api_query_bucket(struct api_call *call, struct bucket_record *ret) {
    const char *text = api_query(call, "id");
    text = text != NULL ? text : api_query(call, "search");
    text = text != NULL ? text : api_query(call, "globalAlias");
    if (text == NULL) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "Name the bucket: ?id=, ?globalAlias= or ?search=.");
    }
    return api_find_bucket(call, text, ret);
}

static int api_get_bucket_info(struct api_call *call, json_t **ret_json) {
    struct bucket_record record;
    int err = api_query_bucket(call, &record);
    return err < 0 ? err : api_bucket_info(call, record.id, ret_json);
}

/* ---- changes ---- */

static int api_body_bucket(struct api_call *call, struct bucket_record *ret) {
    const char *id = NULL;
    int err = api_get_string(call, call->body, "bucketId", true, &id);
    return err < 0 ? err : api_find_bucket(call, id, ret);
}

static int api_alias_taken(struct api_call *call, const char *name) {
    return api_fail(call, -HL_ERR_BUCKET_EXISTS, "The name %.80s is taken by another bucket.",
                    name);
}

static int api_create_named(struct api_call *call, const char *name, struct slice local_to,
                            uint64_t *ret_bucket) {
    if (!directory_bucket_name_valid(slice_str(name))) {
        return api_fail(call, -HL_ERR_BUCKET_NAME,
                        "%.80s is no bucket name: 3 to 63 of a-z, 0-9, '.' and '-', beginning and "
                        "ending with a letter or digit.",
                        name);
    }
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_bucket_create(api_store(call), slice_str(name), local_to, SLICE_EMPTY, SLICE_EMPTY,
                            api_pool(call), object_wait_executor(wait), object_wait_done, wait);
    int err = object_wait(wait, NULL);
    if (err == -HL_ERR_BUCKET_EXISTS || err == -HL_ERR_BUCKET_OWNED) {
        return api_alias_taken(call, name);
    }
    struct bucket_record record;
    err = err < 0 ? err
                  : directory_bucket(api_store(call), slice_str(name), local_to, api_pool(call),
                                     &record);
    if (err < 0) {
        return err;
    }
    *ret_bucket = record.id;
    return 0;
}

static int api_grant(struct api_call *call, uint64_t bucket, struct slice key_id, uint32_t set,
                     uint32_t clear) {
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_permission_set(api_store(call), bucket, key_id, set, clear, api_pool(call),
                             object_wait_executor(wait), object_wait_done, wait);
    return object_wait(wait, NULL);
}

static int api_create_bucket(struct api_call *call, json_t **ret_json) {
    static const char *const known[] = {"globalAlias", "localAlias", NULL};
    static const char *const known_local[] = {"accessKeyId", "alias", "allow", NULL};
    const char *name = NULL, *local_name = NULL, *key_text = NULL;
    json_t *local = NULL;
    uint32_t flags = 0;
    struct access_key_record key = {0};
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_string(call, call->body, "globalAlias", false, &name);
    err = err < 0 ? err : api_get_object(call, call->body, "localAlias", &local);
    if (err == 0 && local != NULL) {
        err = api_check_members(call, local, known_local);
        err = err < 0 ? err : api_get_string(call, local, "alias", true, &local_name);
        err = err < 0 ? err : api_get_string(call, local, "accessKeyId", true, &key_text);
        err = err < 0 ? err : api_get_permissions(call, local, "allow", &flags);
        err = err < 0 ? err : api_find_key(call, key_text, &key);
    }
    if (err < 0) {
        return err;
    }
    if ((name == NULL) == (local_name == NULL)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "Give one name: \"globalAlias\" or \"localAlias\".");
    }
    uint64_t bucket = 0;
    err = api_create_named(call, name != NULL ? name : local_name, key.id, &bucket);
    if (err == 0 && flags != 0) {
        err = api_grant(call, bucket, key.id, flags, 0);
    }
    return err < 0 ? err : api_bucket_info(call, bucket, ret_json);
}

static int api_update_bucket(struct api_call *call, json_t **ret_json) {
    static const char *const known[] = {"quotas", "websiteAccess", NULL};
    static const char *const known_quotas[] = {"maxSize", "maxObjects", NULL};
    struct bucket_record record;
    json_t *quotas = NULL, *website = NULL;
    int err = api_query_bucket(call, &record);
    err = err < 0 ? err : api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_object(call, call->body, "quotas", &quotas);
    err = err < 0 ? err : api_get_object(call, call->body, "websiteAccess", &website);
    if (err < 0) {
        return err;
    }
    if (website != NULL) {
        return api_fail(call, -HL_ERR_NOT_IMPLEMENTED,
                        "Static web sites are not built in this version.");
    }
    if (quotas != NULL) {
        /* As in Garage: the object replaces both quotas, null is none. */
        uint64_t bytes_max = 0, objects_max = 0;
        err = api_check_members(call, quotas, known_quotas);
        err = err < 0 ? err : api_get_u64(call, quotas, "maxSize", &bytes_max);
        err = err < 0 ? err : api_get_u64(call, quotas, "maxObjects", &objects_max);
        if (err < 0) {
            return err;
        }
        struct object_wait *wait = object_wait_new(api_store(call));
        if (wait == NULL) {
            return -HL_ERR_NOMEM;
        }
        directory_quota_set(api_store(call), record.id, bytes_max, objects_max, api_pool(call),
                            object_wait_executor(wait), object_wait_done, wait);
        err = object_wait(wait, NULL);
    }
    return err < 0 ? err : api_bucket_info(call, record.id, ret_json);
}

static int api_delete_bucket(struct api_call *call, json_t **ret_json) {
    struct bucket_record record;
    int err = api_query_bucket(call, &record);
    if (err < 0) {
        return err;
    }
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_bucket_delete(api_store(call), record.id, api_pool(call), object_wait_executor(wait),
                            object_wait_done, wait);
    err = object_wait(wait, NULL);
    if (err == -HL_ERR_BUCKET_NOT_EMPTY) {
        return api_fail(call, err,
                        "The bucket holds objects or unfinished uploads; delete them first "
                        "(uploads: `hayloft bucket cleanup-incomplete-uploads --older-than 0s`).");
    }
    if (err == 0) {
        *ret_json = json_object();
    }
    return err;
}

/* AddBucketAlias and RemoveBucketAlias take the same members. */
static int api_alias_args(struct api_call *call, struct bucket_record *bucket,
                          struct access_key_record *key, const char **ret_name) {
    static const char *const known[] = {"bucketId", "globalAlias", "localAlias", "accessKeyId",
                                        NULL};
    const char *local_name = NULL, *key_text = NULL;
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_string(call, call->body, "globalAlias", false, ret_name);
    err = err < 0 ? err : api_get_string(call, call->body, "localAlias", false, &local_name);
    err = err < 0 ? err
                  : api_get_string(call, call->body, "accessKeyId", local_name != NULL, &key_text);
    if (err < 0) {
        return err;
    }
    if ((*ret_name == NULL) == (local_name == NULL)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "Give one name: \"globalAlias\", or \"localAlias\" and \"accessKeyId\".");
    }
    if (local_name != NULL) {
        *ret_name = local_name;
        err = api_find_key(call, key_text, key);
    }
    return err < 0 ? err : api_body_bucket(call, bucket);
}

static int api_add_alias(struct api_call *call, json_t **ret_json) {
    struct bucket_record bucket;
    struct access_key_record key = {0};
    const char *name = NULL;
    int err = api_alias_args(call, &bucket, &key, &name);
    if (err < 0) {
        return err;
    }
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_alias_add(api_store(call), bucket.id, slice_str(name), key.id, api_pool(call),
                        object_wait_executor(wait), object_wait_done, wait);
    err = object_wait(wait, NULL);
    if (err == -HL_ERR_BUCKET_EXISTS || err == -HL_ERR_EXISTS) {
        return api_alias_taken(call, name);
    }
    return err < 0 ? err : api_bucket_info(call, bucket.id, ret_json);
}

static int api_remove_alias(struct api_call *call, json_t **ret_json) {
    struct bucket_record bucket;
    struct access_key_record key = {0};
    const char *name = NULL;
    int err = api_alias_args(call, &bucket, &key, &name);
    if (err < 0) {
        return err;
    }
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_alias_remove(api_store(call), bucket.id, slice_str(name), key.id, api_pool(call),
                           object_wait_executor(wait), object_wait_done, wait);
    err = object_wait(wait, NULL);
    if (err == -HL_ERR_INVALID_REQUEST) {
        return api_fail(call, err,
                        "%.80s is the bucket's last name; give it another one first, or delete "
                        "the bucket.",
                        name);
    }
    return err < 0 ? err : api_bucket_info(call, bucket.id, ret_json);
}

static int api_change_permission(struct api_call *call, bool allow, json_t **ret_json) {
    static const char *const known[] = {"bucketId", "accessKeyId", "permissions", NULL};
    struct bucket_record bucket;
    struct access_key_record key;
    const char *key_text = NULL;
    uint32_t flags = 0;
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_string(call, call->body, "accessKeyId", true, &key_text);
    err = err < 0 ? err : api_get_permissions(call, call->body, "permissions", &flags);
    err = err < 0 ? err : api_body_bucket(call, &bucket);
    err = err < 0 ? err : api_find_key(call, key_text, &key);
    if (err == 0 && flags == 0) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "\"permissions\" must name read, write or owner.");
    }
    err = err < 0 ? err : api_grant(call, bucket.id, key.id, allow ? flags : 0, allow ? 0 : flags);
    return err < 0 ? err : api_bucket_info(call, bucket.id, ret_json);
}

static int api_allow_key(struct api_call *call, json_t **ret_json) {
    return api_change_permission(call, true, ret_json);
}

static int api_deny_key(struct api_call *call, json_t **ret_json) {
    return api_change_permission(call, false, ret_json);
}

static int api_cleanup_uploads(struct api_call *call, json_t **ret_json) {
    static const char *const known[] = {"bucketId", "olderThanSecs", NULL};
    struct bucket_record bucket;
    uint64_t older_s = 86400;
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_u64(call, call->body, "olderThanSecs", &older_s);
    err = err < 0 ? err : api_body_bucket(call, &bucket);
    if (err < 0) {
        return err;
    }
    int64_t now = os_wall_ms(object_env(api_store(call))->clock);
    int64_t before = older_s > (uint64_t)now / 1000 ? 0 : now - (int64_t)older_s * 1000;
    uint32_t count = 0;
    /* One past now, so that "older than 0 s" takes those of this millisecond too. */
    err = object_upload_cleanup(api_store(call), bucket.id, before + (older_s == 0), &count);
    if (err < 0) {
        return err;
    }
    *ret_json = json_pack("{s:i}", "uploadsDeleted", (int)count);
    return 0;
}

/* ---- one object ---- */

static void api_header(json_t *headers, const char *name, struct slice value) {
    if (value.data != NULL) {
        (void)json_array_append_new(headers, json_pack("[s, o]", name, api_json_slice(value)));
    }
}

static json_t *api_object_headers(struct api_call *call, const struct object_headers *h) {
    json_t *headers = json_array();
    api_header(headers, "content-type", h->content_type);
    api_header(headers, "cache-control", h->cache_control);
    api_header(headers, "content-disposition", h->content_disposition);
    api_header(headers, "content-encoding", h->content_encoding);
    api_header(headers, "content-language", h->content_language);
    api_header(headers, "expires", h->expires);
    api_header(headers, "x-amz-website-redirect-location", h->website_redirect);
    api_header(headers, "x-amz-storage-class", h->storage_class);
    for (uint32_t i = 0; i < h->metadata_count; i++) {
        char *name =
            pool_printf(api_pool(call), "x-amz-meta-%.*s", SLICE_PRINT(h->metadata[i].name));
        if (name != NULL) {
            api_header(headers, name, h->metadata[i].value);
        }
    }
    return headers;
}

static json_t *api_object_blocks(const struct object_record *record) {
    json_t *blocks = json_array();
    uint64_t offset = 0;
    for (uint32_t i = 0; i < record->part_count; i++) {
        const struct object_part *part = &record->parts[i];
        struct body_id id = part->run.block_count > 0 ? part->run.first : part->inline_id;
        char text[40];
        (void)snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)id.high,
                       (unsigned long long)id.low);
        (void)json_array_append_new(
            blocks, json_pack("{s:i, s:I, s:s, s:I, s:I}", "partNumber", (int)part->number,
                              "offset", (json_int_t)offset, "firstBody", text, "blocks",
                              (json_int_t)part->run.block_count, "size", (json_int_t)part->size));
        offset += part->size;
    }
    return blocks;
}

static json_t *api_object_version(struct api_call *call, const struct object_record *record) {
    char etag[OBJECT_ETAG_SIZE], uuid[40], checksum[BASE64_SIZE(CHECKSUM_SIZE_MAX) + 1] = "";
    object_etag_text(&record->etag, etag);
    (void)snprintf(uuid, sizeof(uuid), "%016llx%016llx", (unsigned long long)record->head.high,
                   (unsigned long long)record->head.low);
    base64_encode(record->checksum.value, record->checksum.size, checksum);
    static const char *const algorithms[] = {"none",      "CRC32", "CRC32C",
                                             "CRC64NVME", "SHA1",  "SHA256"};
    const char *algorithm = record->checksum.algorithm < ARRAY_COUNT(algorithms)
                                ? algorithms[record->checksum.algorithm]
                                : "unknown";
    return json_pack("{s:s, s:o, s:b, s:b, s:b, s:b, s:b, s:I, s:s, s:I, s:s, s:s, s:o, s:o, s:o}",
                     "uuid", uuid, "timestamp", api_json_time(record->modified_ms), "encrypted",
                     record->encryption.size > 0, "uploading", 0, "aborted", 0, "deleteMarker", 0,
                     "inline", record->part_count == 0, "size", (json_int_t)record->size, "etag",
                     etag, "sequence", (json_int_t)record->sequence, "checksumAlgorithm", algorithm,
                     "checksum", checksum, "owner", api_json_slice(record->owner), "headers",
                     api_object_headers(call, &record->headers), "blocks",
                     api_object_blocks(record));
}

static int api_inspect_object(struct api_call *call, json_t **ret_json) {
    const char *text = api_query(call, "bucketId");
    const char *key = api_query(call, "key");
    if (text == NULL || key == NULL) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "Give ?bucketId= and &key=.");
    }
    struct bucket_record bucket;
    struct object_read *read;
    int err = api_find_bucket(call, text, &bucket);
    err = err < 0
              ? err
              : object_read_open(api_store(call), bucket.id, slice_str(key), api_pool(call), &read);
    if (err == -HL_ERR_NO_SUCH_KEY) {
        return api_fail(call, err, "There is no object %.200s in the bucket.", key);
    }
    if (err < 0) {
        return err;
    }
    char id[API_BUCKET_ID_SIZE];
    api_bucket_id(bucket.id, id);
    *ret_json =
        json_pack("{s:s, s:o, s:[o]}", "bucketId", id, "key", api_json_slice(slice_str(key)),
                  "versions", api_object_version(call, object_read_record(read)));
    object_read_done(read);
    return 0;
}

const struct api_endpoint api_bucket_endpoints[] = {
    {"ListBuckets", false, api_list_buckets},
    {"GetBucketInfo", false, api_get_bucket_info},
    {"CreateBucket", true, api_create_bucket},
    {"UpdateBucket", true, api_update_bucket},
    {"DeleteBucket", true, api_delete_bucket},
    {"AddBucketAlias", true, api_add_alias},
    {"RemoveBucketAlias", true, api_remove_alias},
    {"AllowBucketKey", true, api_allow_key},
    {"DenyBucketKey", true, api_deny_key},
    {"CleanupIncompleteUploads", true, api_cleanup_uploads},
    {"InspectObject", false, api_inspect_object},
};
const size_t api_bucket_endpoint_count = ARRAY_COUNT(api_bucket_endpoints);
