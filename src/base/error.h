/* Error codes: one list (error.def), one integer type, 0 or negative.
 *
 * Contract used everywhere: a function that can fail returns 0 or -HL_ERR_<name>; outputs are named
 * ret_... and are untouched on failure. Check on the very next line; log once, at the edge. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum hl_error {
    HL_ERR_NONE = 0,
#define X(name, errno_class, s3_code, http_status, text) HL_ERR_##name,
#include "base/error.def"
#undef X
    HL_ERR_COUNT
};

/* All take a code as returned (0 or negative); unknown codes are described as INTERNAL. */
const char *error_name(int err);    /* "NO_SPACE" */
const char *error_text(int err);    /* default message */
const char *error_s3_code(int err); /* "InsufficientStorage" */
int error_http_status(int err);     /* 507 */
int error_errno(int err);           /* ENOSPC, positive */

/* Maps a positive errno of a system call to a code: ENOSPC and EDQUOT to NO_SPACE, ENOENT to
 * NOT_FOUND, EROFS to READ_ONLY, ENOMEM to NOMEM, EEXIST to EXISTS, EAGAIN to AGAIN, everything
 * else to IO. */
int error_from_errno(int errnum);

#endif
