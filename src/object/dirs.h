/* Which data directories a store knows, see dirs.c. */
#ifndef OBJECT_DIRS_H
#define OBJECT_DIRS_H

#include "object/object.h"

/* Before the volumes are opened, not at the first start: a heap copy of the configured directories
 * in which those that may get a marker have is_new set. NO_MARKER, logged, when a directory is new
 * while a known one is not there, because it may be that one in disguise. */
int object_dirs_prepare(struct os_env *env, const struct object_options *options,
                        struct volume_dir **ret);
/* After a start that went well: the configured directories are the known ones. */
int object_dirs_remember(struct os_env *env, const struct object_options *options);

#endif
