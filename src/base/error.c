/* The error list as tables. Any thread; no state. */
#include "base/error.h"

#include <errno.h>
#include <stddef.h>

struct error_row {
    const char *name;
    const char *s3_code;
    const char *text;
    int errno_class;
    int http_status;
};

static const struct error_row error_rows[HL_ERR_COUNT] = {
    [HL_ERR_NONE] = {"NONE", "", "Success", 0, 200},
#define X(name_, errno_, s3_, http_, text_) [HL_ERR_##name_] = {#name_, s3_, text_, errno_, http_},
#include "base/error.def"
#undef X
};

static const struct error_row *row(int err) {
    if (err > 0 || err <= -HL_ERR_COUNT) {
        return &error_rows[HL_ERR_INTERNAL];
    }
    return &error_rows[-err];
}

const char *error_name(int err) {
    return row(err)->name;
}

const char *error_text(int err) {
    return row(err)->text;
}

const char *error_s3_code(int err) {
    return row(err)->s3_code;
}

int error_http_status(int err) {
    return row(err)->http_status;
}

int error_errno(int err) {
    return row(err)->errno_class;
}

int error_from_errno(int errnum) {
    switch (errnum) {
    case 0:
        return 0;
    case ENOSPC:
    case EDQUOT:
        return -HL_ERR_NO_SPACE;
    case ENOENT:
        return -HL_ERR_NOT_FOUND;
    case EROFS:
        return -HL_ERR_READ_ONLY;
    case ENOMEM:
        return -HL_ERR_NOMEM;
    case EEXIST:
        return -HL_ERR_EXISTS;
    case EAGAIN:
        return -HL_ERR_AGAIN;
    default:
        return -HL_ERR_IO;
    }
}
