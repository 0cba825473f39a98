/* The default key and bucket: made at the first start, found at later ones. A secret that differs
 * from the stored one is an error and never replaces it. Runs on the main thread before the loops.
 */
#include "cmd/provision.h"

#include <stdio.h>
#include <unistd.h>

#define PROVISION_KEY_NAME "default-access-key"
#define PROVISION_BUCKET   "default-bucket"

int provision_parse(struct cmd *cmd, struct provision *ret) {
    const char *bucket = cmd_value(cmd, "default-bucket");
    const char *bucket_env = getenv("HAYLOFT_DEFAULT_BUCKET");
    *ret = (struct provision){.access_key = getenv("HAYLOFT_DEFAULT_ACCESS_KEY"),
                              .secret_key = getenv("HAYLOFT_DEFAULT_SECRET_KEY")};
    ret->wanted = bucket != NULL || cmd_flag(cmd, "default-access-key");
    if (bucket != NULL) {
        bool from_env = bucket[0] == 0 && bucket_env != NULL && bucket_env[0] != 0;
        ret->bucket = bucket[0] != 0 ? bucket : from_env ? bucket_env : PROVISION_BUCKET;
        if (!directory_bucket_name_valid(slice_str(ret->bucket))) {
            return cmd_error("%s is no bucket name: 3 to 63 of a-z, 0-9, '.' and '-', beginning "
                             "and ending with a letter or digit",
                             ret->bucket);
        }
    }
    bool id_given = ret->access_key != NULL && ret->access_key[0] != 0;
    bool secret_given = ret->secret_key != NULL && ret->secret_key[0] != 0;
    if (ret->wanted && id_given != secret_given) {
        return cmd_error("HAYLOFT_DEFAULT_ACCESS_KEY and HAYLOFT_DEFAULT_SECRET_KEY are needed "
                         "together; set both, or none to have a pair made");
    }
    if (!id_given) {
        ret->access_key = NULL;
        ret->secret_key = NULL;
        return CMD_OK;
    }
    size_t id_size = strlen(ret->access_key), secret_size = strlen(ret->secret_key);
    if (ret->wanted && (id_size < 3 || id_size > 128 || secret_size < 8 || secret_size > 128)) {
        return cmd_error("HAYLOFT_DEFAULT_ACCESS_KEY has 3 to 128 characters and "
                         "HAYLOFT_DEFAULT_SECRET_KEY 8 to 128");
    }
    ret->secret_given = true;
    return CMD_OK;
}

/* ---- the key ---- */

static int provision_key_put(struct object_store *store, struct pool *pool,
                             const struct access_key_record *key, bool replace) {
    struct object_wait *wait = object_wait_new(store);
    if (wait == NULL) {
        return -HL_ERR_NOMEM;
    }
    directory_access_key_put(store, key, replace, pool, object_wait_executor(wait),
                             object_wait_done, wait);
    return object_wait(wait, NULL);
}

/* The key made by an earlier start without HAYLOFT_DEFAULT_ACCESS_KEY. */
static int provision_find_made(struct object_store *store, struct pool *pool,
                               struct access_key_record *ret) {
    struct access_key_record *keys;
    uint32_t count;
    int err = directory_access_keys(store, pool, &keys, &count);
    if (err < 0) {
        return err;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal_str(keys[i].name, PROVISION_KEY_NAME)) {
            *ret = keys[i];
            return 0;
        }
    }
    return -HL_ERR_NO_SUCH_ACCESS_KEY;
}

static int provision_key(struct cmd *cmd, struct object_store *store, struct provision *p) {
    struct access_key_record key = {0};
    int err = p->access_key != NULL
                  ? directory_access_key(store, slice_str(p->access_key), cmd->pool, &key)
                  : provision_find_made(store, cmd->pool, &key);
    if (err == 0 && p->secret_key != NULL && !slice_equal_str(key.secret, p->secret_key)) {
        return cmd_error("the access key %s exists with another secret than "
                         "HAYLOFT_DEFAULT_SECRET_KEY; correct the variable, or delete the key "
                         "first (`hayloft key delete --yes %s`)",
                         p->access_key, p->access_key);
    }
    bool complete = err == 0 && (key.flags & ACCESS_KEY_CREATE_BUCKET) != 0;
    if (!complete && (err == 0 || err == -HL_ERR_NO_SUCH_ACCESS_KEY)) {
        bool replace = err == 0;
        if (!replace) {
            key = (struct access_key_record){.id = slice_str(p->access_key),
                                             .secret = slice_str(p->secret_key),
                                             .name = SLICE_LITERAL(PROVISION_KEY_NAME),
                                             .created_ms = os_wall_ms(object_env(store)->clock)};
            if (p->access_key == NULL) {
                directory_access_key_generate(store, cmd->pool, &key.id, &key.secret);
            }
            p->key_made = true;
        }
        key.flags |= ACCESS_KEY_CREATE_BUCKET;
        err = provision_key_put(store, cmd->pool, &key, replace);
    }
    if (err < 0) {
        return cmd_error("the default access key could not be made: %s", error_name(err));
    }
    p->access_key = (const char *)pool_copy(cmd->pool, key.id).data;
    p->secret_key = (const char *)pool_copy(cmd->pool, key.secret).data;
    return p->access_key == NULL || p->secret_key == NULL ? cmd_error("out of memory") : CMD_OK;
}

/* ---- the bucket ---- */

static int provision_bucket(struct cmd *cmd, struct object_store *store, struct provision *p) {
    struct bucket_record bucket;
    struct slice name = slice_str(p->bucket), key_id = slice_str(p->access_key);
    int err = directory_bucket(store, name, SLICE_EMPTY, cmd->pool, &bucket);
    if (err == -HL_ERR_NO_SUCH_BUCKET) {
        struct object_wait *wait = object_wait_new(store);
        if (wait == NULL) {
            return cmd_error("out of memory");
        }
        directory_bucket_create(store, name, SLICE_EMPTY, key_id, SLICE_EMPTY, cmd->pool,
                                object_wait_executor(wait), object_wait_done, wait);
        err = object_wait(wait, NULL);
        err = err < 0 ? err : directory_bucket(store, name, SLICE_EMPTY, cmd->pool, &bucket);
        p->bucket_made = err == 0;
    }
    uint32_t all = PERMISSION_READ | PERMISSION_WRITE | PERMISSION_OWNER;
    if (err == 0 && directory_permission(store, bucket.id, key_id) != all) {
        struct object_wait *wait = object_wait_new(store);
        if (wait == NULL) {
            return cmd_error("out of memory");
        }
        directory_permission_set(store, bucket.id, key_id, all, 0, cmd->pool,
                                 object_wait_executor(wait), object_wait_done, wait);
        err = object_wait(wait, NULL);
    }
    return err < 0 ? cmd_error("the default bucket %s could not be made: %s", p->bucket,
                               error_name(err))
                   : CMD_OK;
}

int provision_run(struct cmd *cmd, struct object_store *store, struct provision *provision) {
    if (!provision->wanted) {
        return CMD_OK;
    }
    int code = provision_key(cmd, store, provision);
    if (code == CMD_OK && provision->bucket != NULL) {
        code = provision_bucket(cmd, store, provision);
    }
    return code;
}

void provision_print(const struct provision *p, const char *address, uint16_t port, bool tls,
                     const char *region) {
    if (!p->wanted) {
        return;
    }
    /* What listens everywhere is reached here as localhost. */
    size_t host_size = strlen(address);
    const char *colon = strrchr(address, ':');
    if (colon != NULL) {
        host_size = (size_t)(colon - address);
    }
    bool everywhere =
        host_size == 0 || strncmp(address, "[::]", 4) == 0 || strncmp(address, "0.0.0.0", 7) == 0;
    /* A secret that came from the environment is known; it need not go into a log as well. */
    bool hide = p->secret_given && isatty(STDOUT_FILENO) != 1;
    const char *secret = hide ? "$HAYLOFT_DEFAULT_SECRET_KEY" : p->secret_key;
    (void)printf("\nAccess key:  %s\nSecret key:  %s\n", p->access_key, secret);
    if (p->bucket != NULL) {
        (void)printf("Bucket:      %s\n", p->bucket);
    }
    char url[256];
    (void)snprintf(url, sizeof(url), "%s://%.*s:%u", tls ? "https" : "http",
                   everywhere ? 9 : (int)host_size, everywhere ? "localhost" : address, port);
    const char *quote = hide ? "\"" : "'";
    /* The option beside the variable: aws before 1.29 does not know the variable. */
    (void)printf("\nTo use it, paste:\n\n"
                 "export AWS_ACCESS_KEY_ID='%s'\n"
                 "export AWS_SECRET_ACCESS_KEY=%s%s%s\n"
                 "export AWS_ENDPOINT_URL='%s' AWS_DEFAULT_REGION='%s'\n"
                 "aws --endpoint-url %s s3 cp /etc/os-release s3://%s/\n\n",
                 p->access_key, quote, secret, quote, url, region, url,
                 p->bucket != NULL ? p->bucket : "BUCKET");
    (void)fflush(stdout);
}
