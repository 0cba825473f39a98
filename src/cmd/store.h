/* Inside cmd/: from a configuration to the options of the object store, for server and rebuild. */
#ifndef CMD_STORE_H
#define CMD_STORE_H

#include "admin/config.h"
#include "object/object.h"

struct store_dirs {
    struct volume_dir dirs[CONFIG_DATA_DIRS_MAX];
};

/* Fills every option that a key sets. dirs is referred to and must live as long as ret. */
void store_options(const struct config *config, struct executor *workers, struct store_dirs *dirs,
                   struct object_options *ret);
/* Makes metadata_dir and, before the first start, the data directories, with parents. 0, or an exit
 * code after having said which one and why. */
int store_make_directories(const struct config *config);
int store_make_metadata(const struct config *config); /* metadata_dir only */
/* What to do about an error of object_store_open, for people. */
const char *store_advice(int err);

#endif
