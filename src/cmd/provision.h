/* Inside cmd/: the default access key and bucket of `hayloft server`. */
#ifndef CMD_PROVISION_H
#define CMD_PROVISION_H

#include "cmd/command.h"
#include "object/directory.h"

struct provision {
    bool wanted;            /* a key was asked for */
    const char *bucket;     /* NULL: no bucket was asked for */
    const char *access_key; /* after provision_run: the pair, in the pool */
    const char *secret_key;
    bool secret_given; /* by the environment */
    bool key_made, bucket_made;
};

/* Reads options and HAYLOFT_DEFAULT_... of the command line. 0 or an exit code. */
int provision_parse(struct cmd *cmd, struct provision *ret);
/* Makes what is missing; does nothing twice. Blocks; the store is open and no loop runs yet. 0 or
 * an exit code after having said why. */
int provision_run(struct cmd *cmd, struct object_store *store, struct provision *provision);
/* What to paste to use it, on stdout. address: as S3 listens. */
void provision_print(const struct provision *provision, const char *address, uint16_t port,
                     bool tls, const char *region);

#endif
