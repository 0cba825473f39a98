/* Fuzz target of the TOML subset: any bytes are either read into a tree whose parts lie inside the
 * limits, or refused with a line that exists and a text. */
#include "admin/toml.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    struct toml_value *root = NULL;
    struct toml_error error = {0};
    uint32_t line_count = 1;
    for (size_t i = 0; i < size; i++) {
        line_count += data[i] == '\n';
    }
    if (toml_parse(slice_of(data, size), pool, &root, &error) < 0) {
        CHECK(root == NULL);
        CHECK(error.line >= 1 && error.line <= line_count && error.text[0] != 0);
        return 0;
    }
    uint32_t count = 0;
    for (const struct toml_value *v = root->first; v != NULL; v = v->next) {
        CHECK(v->key.data != NULL && v->key.data[v->key.size] == 0);
        CHECK(v->line >= 1 && v->line <= line_count);
        CHECK(toml_find(root, v->key) == v);
        CHECK(++count <= TOML_ENTRIES_MAX);
    }
    return 0;
}
