/* Inside cmd/: what a server process arranges with the kernel and with systemd. */
#ifndef CMD_PROCESS_H
#define CMD_PROCESS_H

#include <stdint.h>

/* umask, no core dumps of secrets, few heap arenas, SIGPIPE ignored. Before any thread starts. */
void process_prepare(void);
/* Gives back the memory that only start-up needed: free heap, and the code of libraries that ran
 * (the kernel maps what is needed again, from its cache). Any thread. */
void process_trim(void);
/* Raises the limit of open files as far as allowed and returns it. */
uint64_t process_raise_files(void);
/* Blocks SIGTERM, SIGINT and SIGHUP and returns a signalfd for them, or a negative code. Before any
 * thread starts, so that every thread inherits the mask. */
int process_signals(void);
/* "READY=1\nSTATUS=..." to systemd, if it asks for it (NOTIFY_SOCKET); else nothing. */
void process_notify(const char *state);

#endif
