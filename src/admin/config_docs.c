/* Writes docs/configuration.md from the table of keys. A test compares the tree's copy with this,
 * so that the page cannot fall behind. Pure. */
#include "admin/config.h"

#include <string.h>

static const char *config_type_text(const struct config_key *key) {
    switch (key->type) {
    case CONFIG_STRING:
        return "text";
    case CONFIG_BOOL:
        return "true or false";
    case CONFIG_COUNT:
        return "number";
    case CONFIG_BYTES:
        return "size";
    case CONFIG_DURATION:
        return "time";
    case CONFIG_DATA_DIR:
        return "path or list";
    case CONFIG_ANY:
        return "any";
    }
    return "any";
}

static void config_docs_table(struct buf *out, const char *section) {
    buf_append_str(out,
                   "| Key | Type | Default | Environment | Meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->state != CONFIG_USED || strcmp(key->section, section) != 0) {
            continue;
        }
        const char *quote = key->default_text == NULL ? "" : "`";
        buf_printf(out, "| `%s` | %s | %s%s%s | `%s` | %s |\n", key->name, config_type_text(key),
                   quote, key->default_text == NULL ? "–" : key->default_text, quote, key->env,
                   key->meaning);
    }
    buf_append_str(out, "\n");
}

static void config_docs_unused(struct buf *out, enum config_state state) {
    buf_append_str(out, "| Key | Why |\n|---|---|\n");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->state == state) {
            buf_printf(out, "| `%s%s%s` | %s |\n", key->section, key->section[0] == 0 ? "" : ".",
                       key->name, key->meaning);
        }
    }
    buf_append_str(out, "\n");
}

void config_docs(struct buf *out) {
    buf_append_str(
        out,
        "# Configuration\n\n"
        "This page is written by `hayloft config docs` from the table in "
        "`src/admin/config_keys.c`; change that table, not this page.\n\n"
        "Hayloft starts without a file. With one, it reads `" CONFIG_FILE_DEFAULT
        "`, or the file named by `-c` or `HAYLOFT_CONFIG_FILE`. The keys are Garage's where the "
        "meaning is the same, so an existing `garage.toml` is understood: what does not apply "
        "warns by name, a misspelt key is an error with file and line. "
        "`hayloft config check` says what it thinks of a file.\n\n"
        "Each key can also be set in the environment, which wins over the file; options of the "
        "command line win over both.\n\n"
        "Sizes are numbers of bytes or texts such as `\"512M\"`, `\"10G\"` (powers of 1000) and "
        "`\"1GiB\"` (powers of 1024). Times are seconds or texts such as `\"30s\"`, `\"12h\"`, "
        "`\"30d\"`.\n\n"
        "A secret is refused when every user can read its file: `chmod 600` it.\n\n"
        "The file is a subset of TOML: tables, texts of one line, whole numbers, true and false, "
        "arrays, inline tables, comments.\n\n"
        "## Top of the file\n\n");
    config_docs_table(out, "");
    buf_append_str(out, "## `[s3_api]`\n\n");
    config_docs_table(out, "s3_api");
    buf_append_str(out, "## `[admin]`\n\n");
    config_docs_table(out, "admin");
    buf_append_str(out, "## Understood, without effect in this version\n\n"
                        "Keys `rpc_...` may also stand in a section `[rpc]`, without the "
                        "prefix. `server` warns about each.\n\n");
    config_docs_unused(out, CONFIG_LATER);
    buf_append_str(out, "## Garage's keys that have no meaning here\n\n"
                        "They are accepted with a warning, as are the sections "
                        "`[consul_discovery]`, `[kubernetes_discovery]` and `[k2v_api]`.\n\n");
    config_docs_unused(out, CONFIG_FOREIGN);
}
