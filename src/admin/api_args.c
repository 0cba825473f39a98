/* Arguments and results that the endpoint families share: query parameters, members of a JSON
 * object with their types checked, times, permissions, and finding buckets and keys by what a
 * person types. Runs on the blocking executor. Every refusal names the argument. */
#include <inttypes.h>
#include <stdio.h>

#include "admin/api_int.h"
#include "base/text.h"

const char *api_query(struct api_call *call, const char *name) {
    struct slice rest = http_head(call->req)->query;
    while (rest.size > 0) {
        size_t end = slice_find(rest, '&', 0);
        struct slice pair = slice_take(rest, end);
        rest = slice_skip(rest, MIN(end + 1, rest.size));
        size_t equal = slice_find(pair, '=', 0);
        if (!slice_equal_str(slice_take(pair, equal), name)) {
            continue;
        }
        CLEANUP_BUF struct buf out = {.size_max = ADMIN_BODY_MAX};
        struct slice raw = slice_skip(pair, MIN(equal + 1, pair.size));
        if (!percent_decode(&out, raw) || out.failed ||
            (out.size > 0 && memchr(out.data, 0, out.size) != NULL)) {
            return NULL;
        }
        return (const char *)pool_copy(api_pool(call), buf_slice(&out)).data;
    }
    return NULL;
}

static json_t *api_member(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

int api_get_string(struct api_call *call, json_t *object, const char *name, bool required,
                   const char **ret) {
    json_t *value = api_member(object, name);
    if (value == NULL) {
        return required ? api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%s\" is missing.", name) : 0;
    }
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%s\" must be a string.", name);
    }
    if (json_string_length(value) > 1024) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%s\" is longer than 1024 bytes.", name);
    }
    *ret = json_string_value(value);
    return 0;
}

int api_get_bool(struct api_call *call, json_t *object, const char *name, bool *ret) {
    json_t *value = api_member(object, name);
    if (value == NULL) {
        return 0;
    }
    if (!json_is_boolean(value)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%s\" must be true or false.", name);
    }
    *ret = json_is_true(value);
    return 0;
}

int api_get_u64(struct api_call *call, json_t *object, const char *name, uint64_t *ret) {
    json_t *value = api_member(object, name);
    if (value == NULL) {
        return 0;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST,
                        "\"%s\" must be a whole number that is not negative.", name);
    }
    *ret = (uint64_t)json_integer_value(value);
    return 0;
}

int api_get_object(struct api_call *call, json_t *object, const char *name, json_t **ret) {
    json_t *value = api_member(object, name);
    if (value != NULL && !json_is_object(value)) {
        return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%s\" must be an object.", name);
    }
    if (value != NULL) {
        *ret = value;
    }
    return 0;
}

int api_check_members(struct api_call *call, json_t *object, const char *const *known) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        bool found = false;
        for (size_t i = 0; known[i] != NULL && !found; i++) {
            found = strcmp(known[i], name) == 0;
        }
        if (!found) {
            return api_fail(call, -HL_ERR_INVALID_REQUEST, "\"%.80s\" is not known here.", name);
        }
    }
    return 0;
}

int api_get_permissions(struct api_call *call, json_t *object, const char *name, uint32_t *ret) {
    static const char *const known[] = {"read", "write", "owner", NULL};
    json_t *value = NULL;
    int err = api_get_object(call, object, name, &value);
    if (err < 0 || value == NULL) {
        return err;
    }
    err = api_check_members(call, value, known);
    if (err < 0) {
        return err;
    }
    uint32_t flags = 0;
    for (size_t i = 0; known[i] != NULL; i++) {
        bool on = false;
        err = api_get_bool(call, value, known[i], &on);
        if (err < 0) {
            return err;
        }
        flags |= on ? 1u << i : 0;
    }
    _Static_assert(PERMISSION_READ == 1 && PERMISSION_WRITE == 2 && PERMISSION_OWNER == 4,
                   "in the order of the names above");
    *ret = flags;
    return 0;
}

json_t *api_json_slice(struct slice s) {
    if (s.size == 0) {
        return json_string("");
    }
    json_t *json = json_stringn((const char *)s.data, s.size);
    if (json != NULL) {
        return json;
    }
    CLEANUP_BUF struct buf out = {0};
    percent_encode(&out, s, true);
    return json_stringn((const char *)out.data, out.size);
}

json_t *api_json_time(int64_t ms) {
    if (ms == 0) {
        return json_null();
    }
    char text[TIME_TEXT_SIZE];
    time_format_iso8601(ms, text);
    return json_string(text);
}

json_t *api_json_permissions(uint32_t flags) {
    return json_pack("{s:b, s:b, s:b}", "read", (flags & PERMISSION_READ) != 0, "write",
                     (flags & PERMISSION_WRITE) != 0, "owner", (flags & PERMISSION_OWNER) != 0);
}

void api_bucket_id(uint64_t bucket, char ret[API_BUCKET_ID_SIZE]) {
    (void)snprintf(ret, API_BUCKET_ID_SIZE, "%016" PRIx64, bucket);
}

int api_find_bucket(struct api_call *call, const char *text, struct bucket_record *ret) {
    struct slice name = slice_str(text);
    int err = directory_bucket(api_store(call), name, SLICE_EMPTY, api_pool(call), ret);
    if (err != -HL_ERR_NO_SUCH_BUCKET) {
        return err;
    }
    struct bucket_record *buckets;
    uint32_t count;
    err = directory_buckets(api_store(call), api_pool(call), &buckets, &count);
    if (err < 0) {
        return err;
    }
    const struct bucket_record *found = NULL;
    for (uint32_t i = 0; i < count && name.size > 0; i++) {
        char id[API_BUCKET_ID_SIZE];
        api_bucket_id(buckets[i].id, id);
        if (!slice_starts_with(slice_str(id), name)) {
            continue;
        }
        if (found != NULL) {
            return api_fail(call, -HL_ERR_INVALID_REQUEST,
                            "Several buckets have an id that starts with %.80s; give more digits.",
                            text);
        }
        found = &buckets[i];
    }
    if (found == NULL) {
        return api_fail(call, -HL_ERR_NO_SUCH_BUCKET,
                        "There is no bucket %.80s; `hayloft bucket list` shows all.", text);
    }
    *ret = *found;
    return 0;
}

int api_find_key(struct api_call *call, const char *text, struct access_key_record *ret) {
    struct slice wanted = slice_str(text);
    int err = directory_access_key(api_store(call), wanted, api_pool(call), ret);
    if (err != -HL_ERR_NO_SUCH_ACCESS_KEY) {
        return err;
    }
    struct access_key_record *keys;
    uint32_t count;
    err = directory_access_keys(api_store(call), api_pool(call), &keys, &count);
    if (err < 0) {
        return err;
    }
    const struct access_key_record *found = NULL;
    for (uint32_t i = 0; i < count && wanted.size > 0; i++) {
        /* Short prefixes would make a name such as "GK" ambiguous with every id. */
        bool prefix = wanted.size >= 4 && slice_starts_with(keys[i].id, wanted);
        if (!prefix && !slice_equal(keys[i].name, wanted)) {
            continue;
        }
        if (found != NULL) {
            return api_fail(call, -HL_ERR_INVALID_REQUEST,
                            "Several keys match %.80s; give the whole key id.", text);
        }
        found = &keys[i];
    }
    if (found == NULL) {
        return api_fail(call, -HL_ERR_NO_SUCH_ACCESS_KEY,
                        "There is no key %.80s; `hayloft key list` shows all.", text);
    }
    *ret = *found;
    return 0;
}
