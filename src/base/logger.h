/* The program's log: one line an event, "time level area: message", to standard error (or to
 * journald's priorities when stderr is the journal). Any thread. Libraries below cmd/ log
 * sparingly: edges log. */
#ifndef BASE_LOGGER_H
#define BASE_LOGGER_H

#include "base/macros.h"

enum logger_level { LOGGER_ERROR, LOGGER_WARN, LOGGER_INFO, LOGGER_DEBUG };

void logger_set_level(enum logger_level level); /* default INFO */
/* Lines go to this file descriptor (default 2). */
void logger_set_fd(int fd);
void logger_write(enum logger_level level, const char *area, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define LOG_ERROR(area, ...) logger_write(LOGGER_ERROR, area, __VA_ARGS__)
#define LOG_WARN(area, ...)  logger_write(LOGGER_WARN, area, __VA_ARGS__)
#define LOG_INFO(area, ...)  logger_write(LOGGER_INFO, area, __VA_ARGS__)
#define LOG_DEBUG(area, ...) logger_write(LOGGER_DEBUG, area, __VA_ARGS__)

#endif
