/* The program `hayloft`: takes the command line apart and runs one command. Exit codes: 0 done, 1
 * it failed, 2 the command line is wrong. */
#include <stdio.h>

#include "cmd/command.h"

int main(int argc, char **argv) {
    CLEANUP_POOL struct pool *pool = pool_new(0);
    if (pool == NULL) {
        return cmd_error("out of memory");
    }
    struct cmd cmd = {.pool = pool};
    bool done = false;
    int code = cmd_parse(argc, argv, &cmd, &done);
    if (code != CMD_OK || done) {
        return code;
    }
    code = cmd.command->run(&cmd);
    if (fflush(stdout) != 0 && code == CMD_OK) {
        return cmd_error("standard output could not be written");
    }
    return code;
}
