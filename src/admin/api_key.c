/* The admin API's calls on access keys. Runs on the blocking executor, one call at a time, so an
 * update may read a record, change it and put it back. The secret leaves only when it was made by
 * this very call or is asked for by showSecretKey=true. */
#include "admin/api_int.h"
#include "base/hash.h"
#include "base/text.h"

#define API_KEY_NAME_MAX 256 /* bytes */

static int64_t api_now_ms(struct api_call *call) {
    return os_wall_ms(object_env(api_store(call))->clock);
}

static bool api_key_expired(struct api_call *call, const struct access_key_record *key) {
    return key->expires_ms != 0 && key->expires_ms <= api_now_ms(call);
}

/* ---- results ---- */

static int api_key_buckets(struct api_call *call, struct slice key_id, json_t **ret) {
    struct directory_grant *grants;
    uint32_t count;
    int err = directory_key_grants(api_store(call), key_id, api_pool(call), &grants, &count);
    if (err < 0) {
        return err;
    }
    json_t *buckets = json_array();
    for (uint32_t i = 0; i < count; i++) {
        struct directory_alias *aliases;
        uint32_t alias_count;
        err = directory_aliases(api_store(call), grants[i].bucket, api_pool(call), &aliases,
                                &alias_count);
        if (err < 0) {
            json_decref(buckets);
            return err;
        }
        json_t *global = json_array(), *local = json_array();
        for (uint32_t j = 0; j < alias_count; j++) {
            if (aliases[j].key_id.size == 0) {
                (void)json_array_append_new(global, api_json_slice(aliases[j].name));
            } else if (slice_equal(aliases[j].key_id, key_id)) {
                (void)json_array_append_new(local, api_json_slice(aliases[j].name));
            }
        }
        char id[API_BUCKET_ID_SIZE];
        api_bucket_id(grants[i].bucket, id);
        (void)json_array_append_new(buckets,
                                    json_pack("{s:s, s:o, s:o, s:o}", "id", id, "globalAliases",
                                              global, "localAliases", local, "permissions",
                                              api_json_permissions(grants[i].flags)));
    }
    *ret = buckets;
    return 0;
}

static int api_key_info(struct api_call *call, struct slice id, bool show_secret,
                        json_t **ret_json) {
    struct access_key_record key;
    json_t *buckets;
    int err = directory_access_key(api_store(call), id, api_pool(call), &key);
    err = err < 0 ? err : api_key_buckets(call, id, &buckets);
    if (err < 0) {
        return err;
    }
    *ret_json = json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:o, s:{s:b}, s:o}", "accessKeyId", api_json_slice(key.id),
        "created", api_json_time(key.created_ms), "name", api_json_slice(key.name), "expiration",
        api_json_time(key.expires_ms), "expired", api_key_expired(call, &key), "secretAccessKey",
        show_secret ? api_json_slice(key.secret) : json_null(), "permissions", "createBucket",
        (key.flags & ACCESS_KEY_CREATE_BUCKET) != 0, "buckets", buckets);
    return 0;
}

static int api_list_keys(struct api_call *call, json_t **ret_json) {
    struct access_key_record *keys;
    uint32_t count;
    int err = directory_access_keys(api_store(call), api_pool(call), &keys, &count);
    if (err < 0) {
        return err;
    }
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:b}", "id",
                                                    api_json_slice(keys[i].id), "name",
                                                    api_json_slice(keys[i].name), "created",
                                                    api_json_time(keys[i].created_ms), "expiration",
                                                    api_json_time(keys[i].expires_ms), "expired",
                                                    api_key_expired(call, &keys[i])));
    }
    *ret_json = list;
    return 0;
}

static int api_query_key(struct api_call *call, struct access_key_record *ret) {
    const char *text = api_query(call, "id");
    text = text != NULL ? text : api_query(call, "search");
    if (text == NULL) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "Name the key: ?id= or ?search=.");
    }
    return api_find_key(call, text, ret);
}

static int api_get_key_info(struct api_call *call, json_t **ret_json) {
    const char *show = api_query(call, "showSecretKey");
    struct access_key_record key;
    int err = api_query_key(call, &key);
    return err < 0
               ? err
               : api_key_info(call, key.id, show != NULL && strcmp(show, "true") == 0, ret_json);
}

/* ---- changes ---- */

static int api_key_put(struct api_call *call, const struct access_key_record *key, bool replace) {
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_access_key_put(api_store(call), key, replace, api_pool(call),
                             object_wait_executor(wait), object_wait_done, wait);
    return object_wait(wait, NULL);
}

static int api_key_name(struct api_call *call, const char *name) {
    if (strlen(name) > API_KEY_NAME_MAX) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "A key's name has at most %d bytes.",
                        API_KEY_NAME_MAX);
    }
    for (const char *p = name; *p != 0; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return api_fail(call, -HL_ERR_INVALID_REQUEST,
                            "A key's name holds no control characters.");
        }
    }
    return 0;
}

/* "allow" and "deny": {createBucket: bool}. */
static int api_key_rights(struct api_call *call, struct access_key_record *key) {
    static const char *const known[] = {"createBucket", NULL};
    static const char *const sides[] = {"allow", "deny"};
    for (size_t i = 0; i < ARRAY_COUNT(sides); i++) {
        json_t *side = NULL;
        bool create = false;
        int err = api_get_object(call, call->body, sides[i], &side);
        if (err < 0 || side == NULL) {
            if (err < 0) {
                return err;
            }
            continue;
        }
        err = api_check_members(call, side, known);
        err = err < 0 ? err : api_get_bool(call, side, "createBucket", &create);
        if (err < 0) {
            return err;
        }
        if (create && i == 0) {
            key->flags |= ACCESS_KEY_CREATE_BUCKET;
        } else if (create) {
            key->flags &= ~(uint32_t)ACCESS_KEY_CREATE_BUCKET;
        }
    }
    return 0;
}

/* The members that CreateKey and UpdateKey share, onto the record. */
static int api_key_members(struct api_call *call, struct access_key_record *key) {
    static const char *const known[] = {"name",  "expiration", "neverExpires",
                                        "allow", "deny",       NULL};
    const char *name = NULL, *expiration = NULL;
    bool never = false;
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_string(call, call->body, "name", false, &name);
    err = err < 0 ? err : api_get_string(call, call->body, "expiration", false, &expiration);
    err = err < 0 ? err : api_get_bool(call, call->body, "neverExpires", &never);
    err = err < 0 || name == NULL ? err : api_key_name(call, name);
    err = err < 0 ? err : api_key_rights(call, key);
    if (err < 0) {
        return err;
    }
    if (never && expiration != NULL) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "\"expiration\" and \"neverExpires\" contradict each other.");
    }
    if (expiration != NULL &&
        (!time_parse_iso8601(slice_str(expiration), &key->expires_ms) || key->expires_ms <= 0)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "\"expiration\" must be a time such as 2027-01-31T12:00:00Z.");
    }
    if (never) {
        key->expires_ms = 0;
    }
    if (name != NULL) {
        key->name = slice_str(name);
    }
    return 0;
}

static int api_create_key(struct api_call *call, json_t **ret_json) {
    struct access_key_record key = {.created_ms = api_now_ms(call)};
    int err = api_key_members(call, &key);
    if (err < 0) {
        return err;
    }
    directory_access_key_generate(api_store(call), api_pool(call), &key.id, &key.secret);
    if (key.id.data == NULL || key.secret.data == NULL) {
        return -HL_ERR_NOMEM;
    }
    if (key.name.size == 0) {
        key.name = SLICE_LITERAL("Unnamed key");
    }
    err = api_key_put(call, &key, false);
    return err < 0 ? err : api_key_info(call, key.id, true, ret_json);
}

static bool api_key_text_valid(const char *text, size_t min, size_t max, const char *forbidden) {
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= 0x20 || text[i] >= 0x7f || strchr(forbidden, text[i]) != NULL) {
            return false;
        }
    }
    return size >= min && size <= max;
}

static int api_import_key(struct api_call *call, json_t **ret_json) {
    static const char *const known[] = {"accessKeyId", "secretAccessKey", "name", NULL};
    const char *id = NULL, *secret = NULL, *name = "Imported key";
    int err = api_check_members(call, call->body, known);
    err = err < 0 ? err : api_get_string(call, call->body, "accessKeyId", true, &id);
    err = err < 0 ? err : api_get_string(call, call->body, "secretAccessKey", true, &secret);
    err = err < 0 ? err : api_get_string(call, call->body, "name", false, &name);
    err = err < 0 ? err : api_key_name(call, name);
    if (err < 0) {
        return err;
    }
    /* '/', ',' and '=' separate the fields of a signature's header. */
    if (!api_key_text_valid(id, 8, 128, "/,=")) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "A key id has 8 to 128 visible ASCII characters without '/', ',' and "
                        "'='.");
    }
    if (!api_key_text_valid(secret, 16, 128, "")) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "A secret has 16 to 128 visible ASCII characters.");
    }
    struct access_key_record key = {.id = slice_str(id),
                                    .secret = slice_str(secret),
                                    .name = slice_str(name),
                                    .created_ms = api_now_ms(call)};
    err = api_key_put(call, &key, false);
    if (err == -HL_ERR_EXISTS) {
        return api_fail(call, err, "The key %.80s exists already.", id);
    }
    return err < 0 ? err : api_key_info(call, key.id, false, ret_json);
}

static int api_update_key(struct api_call *call, json_t **ret_json) {
    struct access_key_record key;
    int err = api_query_key(call, &key);
    err = err < 0 ? err : api_key_members(call, &key);
    err = err < 0 ? err : api_key_put(call, &key, true);
    return err < 0 ? err : api_key_info(call, key.id, false, ret_json);
}

static int api_delete_key(struct api_call *call, json_t **ret_json) {
    struct access_key_record key;
    int err = api_query_key(call, &key);
    if (err < 0) {
        return err;
    }
    struct object_wait *wait = object_wait_new(api_store(call));
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_access_key_delete(api_store(call), key.id, api_pool(call), object_wait_executor(wait),
                                object_wait_done, wait);
    err = object_wait(wait, NULL);
    if (err == 0) {
        *ret_json = json_object();
    }
    return err;
}

const struct api_endpoint api_key_endpoints[] = {
    {"ListKeys", false, api_list_keys},  {"GetKeyInfo", false, api_get_key_info},
    {"CreateKey", true, api_create_key}, {"ImportKey", true, api_import_key},
    {"UpdateKey", true, api_update_key}, {"DeleteKey", true, api_delete_key},
};
const size_t api_key_endpoint_count = ARRAY_COUNT(api_key_endpoints);
