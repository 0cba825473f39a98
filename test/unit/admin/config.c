/* The configuration: the file of the first story, a flat garage.toml, misspelt keys with file and
 * line, environment twins, secrets, and that docs/configuration.md is what the table says. */
#include "admin/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

struct fixture {
    char path[64];
    struct pool *pool;
    struct config config;
    struct config_report report;
    const char *const *env; /* name, value, ..., NULL */
};

static const char *fake_env(void *ctx, const char *name) {
    const struct fixture *f = ctx;
    for (size_t i = 0; f->env != NULL && f->env[i] != NULL; i += 2) {
        if (strcmp(f->env[i], name) == 0) {
            return f->env[i + 1];
        }
    }
    return NULL;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    strncpy(f->path, "/tmp/hayloft-config-XXXXXX", sizeof(f->path) - 1);
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    (void)close(fd);
    f->pool = pool_new(0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    config_report_done(&f->report);
    pool_free(f->pool);
    (void)unlink(f->path);
    free(f);
    return 0;
}

static int load(struct fixture *f, const char *text, mode_t mode) {
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(f->path, mode), 0);
    config_report_done(&f->report);
    return config_load(f->path, fake_env, f, f->pool, &f->config, &f->report);
}

static void assert_says(const struct buf *lines, const char *format, const char *path,
                        const char *what) {
    char want[256];
    (void)snprintf(want, sizeof(want), format, path, what);
    if (lines->size == 0 || memmem(lines->data, lines->size, want, strlen(want)) == NULL) {
        fail_msg("\"%s\" is not in:\n%.*s", want, (int)lines->size, (const char *)lines->data);
    }
}

static const char story[] = "metadata_dir = \"/var/lib/garage/meta\"\n"
                            "data_dir = \"/data\"\n"
                            "db_engine = \"lmdb\"\n"
                            "replication_factor = 2\n"
                            "\n"
                            "[rpc]\n"
                            "bind_addr = \"[::]:3901\"\n"
                            "public_addr = \"127.0.0.1:3901\"\n"
                            "\n"
                            "[s3_api]\n"
                            "api_bind_addr = \"[::]:3900\"\n"
                            "s3_region = \"garage\"\n"
                            "root_domain = \".s3.local\"\n"
                            "\n"
                            "[s3_web]\n"
                            "bind_addr = \"[::]:3902\"\n"
                            "root_domain = \".web.local\"\n"
                            "\n"
                            "[k2v]\n"
                            "api_bind_addr = \"[::]:3904\"\n"
                            "\n"
                            "[admin]\n"
                            "api_bind_addr = \"[::]:3903\"\n"
                            "metrics_token = \"\xE2\x80\xA6\"\n";

static void test_story(void **state) {
    struct fixture *f = *state;
    /* As people leave it: readable by all. Only metrics_token is in it. */
    assert_int_equal(load(f, story, 0644), 0);
    assert_string_equal(f->config.metadata_dir, "/var/lib/garage/meta");
    assert_string_equal(f->config.control_socket, "/var/lib/garage/meta/control.sock");
    assert_int_equal(f->config.data_dir_count, 1);
    assert_string_equal(f->config.data_dirs[0].path, "/data");
    assert_string_equal(f->config.rpc_bind_addr, "[::]:3901");
    assert_string_equal(f->config.s3_bind_addr, "[::]:3900");
    assert_string_equal(f->config.s3_region, "garage");
    assert_string_equal(f->config.s3_root_domain, ".s3.local");
    assert_string_equal(f->config.admin_bind_addr, "[::]:3903");
    assert_string_equal(f->config.metrics_token, "\xE2\x80\xA6");
    assert_int_equal(f->report.refusal_count, 1);
    assert_says(&f->report.refusals, "%s:4: %s", f->path, "replication_factor = 2");
    assert_says(&f->report.warnings, "%s:3: %s", f->path, "db_engine is ignored");
    assert_says(&f->report.warnings, "%s:7: %s", f->path, "rpc_bind_addr");
    assert_says(&f->report.warnings, "%s:16: %s", f->path, "s3_web.bind_addr");
    assert_says(&f->report.warnings, "%s:20: %s", f->path, "k2v.api_bind_addr");
    assert_int_equal(f->report.warning_count, 6);
}

static void test_flat_garage(void **state) {
    struct fixture *f = *state;
    const char *text =
        "metadata_dir = \"/m\"\n"
        "data_dir = [ { path = \"/d1\", capacity = \"1T\" },\n"
        "             { path = \"/d2\", read_only = true } ]\n"
        "db_engine = \"sqlite\"\n"
        "block_size = \"1M\"\n"
        "compression_level = 'none'\n"
        "replication_factor = 1\n"
        "rpc_secret = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n"
        "rpc_bind_addr = \"[::]:3901\"\n"
        "bootstrap_peers = []\n"
        "[s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"[::]:3900\"\n"
        "[consul_discovery]\nservice_name = \"x\"\n"
        "[k2v_api]\napi_bind_addr = \"[::]:3904\"\n";
    assert_int_equal(load(f, text, 0600), 0);
    assert_int_equal(f->config.data_dir_count, 2);
    assert_true(f->config.data_dirs[0].capacity_bytes == UINT64_C(1000000000000));
    assert_true(f->config.data_dirs[1].read_only);
    assert_int_equal(f->config.block_bytes, 1000000);
    assert_int_equal(f->report.refusal_count, 0);
    assert_says(&f->report.warnings, "%s:14: %s", f->path, "[consul_discovery]");
    /* The same file for everyone to read: the secret in it is refused, unless allowed. */
    assert_int_equal(load(f, text, 0644), -HL_ERR_INVALID);
    assert_says(&f->report.errors, "%s:8: %s", f->path, "the file holds a secret");
    static const char *const allow[] = {"HAYLOFT_ALLOW_WORLD_READABLE_SECRETS", "true", NULL};
    f->env = allow;
    assert_int_equal(load(f, text, 0644), 0);
}

static void test_misspelt(void **state) {
    struct fixture *f = *state;
    assert_int_equal(load(f,
                          "metadata_dir = \"/x\"\n"
                          "metdata_dir = \"/y\"\n"
                          "[s3_api]\n"
                          "s3_regoin = \"x\"\n"
                          "block_size = 3\n"
                          "zzzzzzzzzzz = 3\n"
                          "[admim]\nx = 1\n",
                          0600),
                     -HL_ERR_INVALID);
    assert_says(&f->report.errors, "%s:2: %s", f->path,
                "unknown key \"metdata_dir\"; did you mean \"metadata_dir\"?");
    assert_says(&f->report.errors, "%s:4: %s", f->path,
                "unknown key \"s3_regoin\" in [s3_api]; did you mean \"s3_region\"?");
    assert_says(&f->report.errors, "%s:5: %s", f->path,
                "unknown key \"block_size\" in [s3_api]; it belongs before");
    assert_says(&f->report.errors, "%s:6: %s", f->path, "unknown key \"zzzzzzzzzzz\"");
    assert_says(&f->report.errors, "%s:7: %s", f->path,
                "unknown section [admim]; did you mean [admin]?");
    assert_int_equal(f->report.error_count, 5);
}

static void test_wrong_values(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"block_size = \"many\"", "not understood"},
        {"block_size = 1", "out of range"},
        {"block_size = true", "must be a size"},
        {"metadata_dir = 3", "must be a string"},
        {"metadata_dir = \"\"", "empty"},
        {"disable_scrub = \"yes\"", "true or false"},
        {"scrub_interval = \"often\"", "not understood"},
        {"replication_factor = -1", "not understood"},
        {"data_dir = [{ path = \"/a\", size = 3 }]", "\"size\" is not understood"},
        {"data_dir = [{ capacity = \"1T\" }]", "a path is missing"},
        {"data_dir = [\"/a\", \"/a\"]", "twice"},
        {"data_dir = [{ path = \"/a\", read_only = true }]", "read_only"},
        {"log_level = \"loud\"", "log_level is"},
        {"[s3_api]\ntls_key = \"/k\"", "needed together"},
        {"[admin]\nmetrics_require_token = true", "metrics_require_token needs"},
        {"rpc_bind_addr = \"a\"\n[rpc]\nbind_addr = \"b\"", "was set already in line 1"},
        {"rpc_secret = \"short\"", "64 hexadecimal"},
        {"rpc_secret_file = \"/nonexistent/x\"", "cannot be read"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (load(f, cases[i].text, 0600) != -HL_ERR_INVALID) {
            fail_msg("accepted: %s", cases[i].text);
        }
        assert_says(&f->report.errors, "%s%s", "", cases[i].says);
    }
}

static void test_environment(void **state) {
    struct fixture *f = *state;
    static const char *const env[] = {"HAYLOFT_METADATA_DIR",
                                      "/env/meta",
                                      "HAYLOFT_DATA_DIR",
                                      "/d1:/d2",
                                      "HAYLOFT_S3_API_BIND_ADDR",
                                      "127.0.0.1:1",
                                      "HAYLOFT_CACHE_SIZE",
                                      "16MiB",
                                      "HAYLOFT_DISABLE_SCRUB",
                                      "1",
                                      NULL};
    f->env = env;
    assert_int_equal(load(f, "metadata_dir = \"/file\"\ndata_dir = \"/file\"\n", 0600), 0);
    assert_string_equal(f->config.metadata_dir, "/env/meta");
    assert_int_equal(f->config.data_dir_count, 2);
    assert_string_equal(f->config.data_dirs[1].path, "/d2");
    assert_string_equal(f->config.s3_bind_addr, "127.0.0.1:1");
    assert_int_equal(f->config.cache_bytes, 16 << 20);
    assert_true(f->config.scrub_off);
    static const char *const bad[] = {"HAYLOFT_CACHE_SIZE", "plenty", NULL};
    f->env = bad;
    assert_int_equal(load(f, "", 0600), -HL_ERR_INVALID);
    assert_says(&f->report.errors, "%s %s", "environment", "HAYLOFT_CACHE_SIZE: cache_size");
}

static void test_secret_files(void **state) {
    struct fixture *f = *state;
    char secret[80], text[160];
    (void)snprintf(secret, sizeof(secret), "%s.token", f->path);
    FILE *file = fopen(secret, "w");
    assert_non_null(file);
    (void)fputs("s3cret\n", file);
    (void)fclose(file);
    (void)snprintf(text, sizeof(text), "[admin]\nadmin_token_file = \"%s\"\n", secret);
    assert_int_equal(chmod(secret, 0604), 0);
    assert_int_equal(load(f, text, 0644), -HL_ERR_INVALID);
    assert_says(&f->report.errors, "%s: %s", secret, "every user can read this secret");
    assert_int_equal(chmod(secret, 0640), 0);
    assert_int_equal(load(f, text, 0644), 0);
    assert_string_equal(f->config.admin_token, "s3cret");
    (void)unlink(secret);
}

static void test_defaults(void **state) {
    struct fixture *f = *state;
    static const char *const env[] = {"STATE_DIRECTORY", "/srv/state", NULL};
    f->env = env;
    assert_int_equal(load(f, "", 0644), 0);
    assert_string_equal(f->config.metadata_dir, "/srv/state/meta");
    assert_string_equal(f->config.data_dirs[0].path, "/srv/state/data");
    assert_string_equal(f->config.s3_bind_addr, "[::]:3900");
    assert_string_equal(f->config.admin_bind_addr, "127.0.0.1:3903");
    assert_null(f->config.rpc_bind_addr);
    assert_int_equal(f->config.block_bytes, 4 << 20);
    assert_int_equal(f->config.inline_max_bytes, 32 << 10);
    assert_int_equal(f->config.scrub_interval_s, 30 * 86400);
    assert_int_equal(f->report.warning_count, 0);
}

static void test_missing_file(void **state) {
    struct fixture *f = *state;
    assert_int_equal(
        config_load("/nonexistent/hayloft.toml", fake_env, f, f->pool, &f->config, &f->report),
        -HL_ERR_INVALID);
    assert_says(&f->report.errors, "%s: %s", "/nonexistent/hayloft.toml", "the configuration");
}

static void test_docs_are_current(void **state) {
    (void)state;
    CLEANUP_BUF struct buf want = {0};
    config_docs(&want);
    FILE *file = fopen(CONFIG_DOCS_FILE, "r");
    if (file == NULL) {
        fail_msg("%s is missing", CONFIG_DOCS_FILE);
    }
    static char found[256 * 1024];
    size_t size = fread(found, 1, sizeof(found), file);
    (void)fclose(file);
    if (size != want.size || memcmp(found, want.data, size) != 0) {
        fail_msg("docs/configuration.md is not what `hayloft config docs` prints");
    }
}

static void test_every_row_is_whole(void **state) {
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        assert_non_null(key->meaning);
        assert_ptr_equal(config_key_find(key->section, key->name), key);
        if (key->state == CONFIG_USED) {
            assert_non_null(key->env);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_story, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flat_garage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_misspelt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secret_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_file, setup, teardown),
        cmocka_unit_test(test_docs_are_current),
        cmocka_unit_test(test_every_row_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
