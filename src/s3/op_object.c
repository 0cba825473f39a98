/* GetObject, HeadObject and GetObjectAttributes.
 *
 * Small answers are read into the request's pool, on the loop when the bytes are at hand and on a
 * worker otherwise, and go out in one piece. Large ones stream through one pooled buffer in two
 * halves: while one half is sent a worker fills the other. The buffer is lent to the server while
 * only the client is waited for; when it was taken, reading goes back to what was not sent. Bytes
 * are verified as they are read; an
 * error after the head was sent cuts the connection, so that no client takes half for the whole. */
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "s3/checksum_header.h"
#include "s3/fields.h"
#include "s3/metadata.h"
#include "s3/operations.h"

#define SMALL_BYTES_MAX (64u << 10)

struct half {
    uint8_t *data;
    size_t size; /* bytes that wait to be sent or are being sent; 0: free */
};

struct get {
    struct s3_request *r;
    struct object_read *read;
    int status;
    uint64_t off, size, left;       /* the bytes of the answer; left to read */
    const struct object_part *part; /* partNumber of a multipart object */
    bool part_given;

    uint8_t *small;
    size_t small_size;

    struct half halves[2];
    size_t half_bytes;
    int read_at, write_at; /* which half is next */
    bool reading, writing, begun;
    bool buffer_asked;
    bool pumping, again;
    int err;
};

static void get_fail(struct get *g, int err) {
    struct s3_request *r = g->r;
    object_read_done(TAKE_PTR(g->read));
    s3_fail(r, err);
}

/* ---- headers ---- */

static bool wants_checksum(const struct s3_request *r) {
    struct slice mode = s3_header(r, "x-amz-checksum-mode");
    return slice_equal_nocase(mode, SLICE_LITERAL("ENABLED"));
}

/* The checksum that speaks of exactly the bytes that are sent: the object's, or with partNumber the
 * part's (with the type of the object). A range of bytes has none: clients verify what they get. */
static void set_checksum(struct get *g, const struct object_record *record) {
    struct s3_request *r = g->r;
    if (!wants_checksum(r)) {
        return;
    }
    if (g->part != NULL) {
        struct checksum part = g->part->checksum;
        if (part.size > 0) {
            part.type = CHECKSUM_FULL_OBJECT; /* a part's value has no "-N" */
            s3_set_checksum(r, &part, 0, false);
            s3_set_header_str(r, "x-amz-checksum-type", checksum_type_name(record->checksum.type));
        }
    } else if (g->status == 200 || g->size == record->size) {
        s3_set_checksum(r, &record->checksum, record->etag.parts, true);
    }
}

static void set_modified(struct s3_request *r, const struct object_record *record) {
    char text[TIME_TEXT_SIZE];
    time_format_http(record->modified_ms, text);
    s3_set_header_str(r, "Last-Modified", text);
}

static void set_headers(struct get *g) {
    struct s3_request *r = g->r;
    const struct object_record *record = object_read_record(g->read);
    s3_metadata_write(r, &record->headers);
    s3_set_etag(r, &record->etag);
    set_modified(r, record);
    s3_set_header_str(r, "Accept-Ranges", "bytes");
    if (g->status == 206) {
        s3_set_header_str(r, "Content-Range",
                          pool_printf(r->pool, "bytes %llu-%llu/%llu", (unsigned long long)g->off,
                                      (unsigned long long)(g->off + g->size - 1),
                                      (unsigned long long)record->size));
    }
    if (g->part_given && record->multipart) {
        s3_set_header_u64(r, "x-amz-mp-parts-count", record->part_count);
    }
    set_checksum(g, record);
}

/* ---- which bytes ---- */

static int choose_part(struct get *g, uint16_t number) {
    struct s3_request *r = g->r;
    const struct object_record *record = object_read_record(g->read);
    g->part_given = true;
    if (!record->multipart) {
        if (number != 1) {
            return s3_err(r, -HL_ERR_INVALID_PART, "The requested partnumber is not satisfiable");
        }
        g->status = record->size > 0 ? 206 : 200;
        return 0;
    }
    uint64_t off = 0;
    for (uint32_t i = 0; i < record->part_count; i++) {
        if (record->parts[i].number == number) {
            g->part = &record->parts[i];
            g->off = off;
            g->size = record->parts[i].size;
            g->status = g->size > 0 ? 206 : 200;
            return 0;
        }
        off += record->parts[i].size;
    }
    return s3_err(r, -HL_ERR_INVALID_PART, "The requested partnumber is not satisfiable");
}

/* If-Range (RFC 9110 13.1.5): the range counts only while the object is the one meant. */
static bool range_still_meant(struct s3_request *r, const struct object_record *record) {
    struct slice field = s3_header(r, "If-Range");
    if (field.size == 0) {
        return true;
    }
    int64_t ms;
    if (time_parse_http(field, &ms)) {
        return record->modified_ms / 1000 == ms / 1000;
    }
    char text[OBJECT_ETAG_SIZE];
    object_etag_text(&record->etag, text);
    return slice_equal_str(field, text) ||
           (field.size > 2 && field.data[0] == '"' &&
            slice_equal_str(slice_of(field.data + 1, field.size - 2), text));
}

static int choose_range(struct get *g) {
    struct s3_request *r = g->r;
    const struct object_record *record = object_read_record(g->read);
    struct slice field = s3_header(r, "Range");
    g->status = 200;
    g->off = 0;
    g->size = record->size;
    if (s3_has_param(r, "partNumber")) {
        uint16_t number = 0;
        if (field.size > 0) {
            return s3_err(r, -HL_ERR_INVALID_REQUEST,
                          "Cannot specify both Range header and partNumber query parameter");
        }
        int err = s3_param_part_number(r, &number);
        return err < 0 ? err : choose_part(g, number);
    }
    if (field.size == 0 || !range_still_meant(r, record)) {
        return 0;
    }
    switch (s3_parse_range(field, record->size, &g->off, &g->size)) {
    case S3_RANGE_NONE:
        break;
    case S3_RANGE_OK:
        g->status = 206;
        break;
    case S3_RANGE_UNSATISFIABLE: {
        char *size = pool_printf(r->pool, "%llu", (unsigned long long)record->size);
        s3_add_detail(r, "RangeRequested", field);
        s3_add_detail(r, "ActualObjectSize", slice_str(size));
        s3_set_header_str(r, "Content-Range", pool_printf(r->pool, "bytes */%s", size));
        return -HL_ERR_RANGE;
    }
    }
    return 0;
}

/* ---- small answers ---- */

static int small_read(struct get *g, bool nowait) {
    while (g->small_size < g->size) {
        size_t got;
        int err = object_read_next(g->read, g->small + g->small_size, g->size - g->small_size,
                                   nowait, &got);
        if (err < 0) {
            return err;
        }
        if (got == 0) {
            return -HL_ERR_CORRUPT; /* shorter than its own record says */
        }
        g->small_size += got;
    }
    return 0;
}

static int small_work(struct s3_request *r) {
    return small_read(r->op, false);
}

static void small_done(struct s3_request *r, int err) {
    struct get *g = r->op;
    if (err < 0) {
        get_fail(g, err);
        return;
    }
    set_headers(g);
    object_read_done(TAKE_PTR(g->read));
    int status = g->status;
    s3_account(r, status);
    http_respond(r->http, status, slice_of(g->small, g->size));
}

static void small_start(struct get *g) {
    struct s3_request *r = g->r;
    g->small = pool_alloc(r->pool, g->size + 1);
    if (g->small == NULL) {
        get_fail(g, -HL_ERR_NOMEM);
        return;
    }
    int err = small_read(g, true);
    if (err == -HL_ERR_AGAIN) {
        s3_on_worker(r, small_work, small_done);
        return;
    }
    small_done(r, err);
}

/* ---- large answers ---- */

static void get_pump(struct get *g);

static int read_work(struct s3_request *r) {
    struct get *g = r->op;
    struct half *half = &g->halves[g->read_at];
    size_t want = (size_t)MIN((uint64_t)g->half_bytes, g->left), filled = 0;
    while (filled < want) {
        size_t got;
        int err = object_read_next(g->read, half->data + filled, want - filled, false, &got);
        if (err < 0) {
            return err;
        }
        if (got == 0) {
            return -HL_ERR_CORRUPT;
        }
        filled += got;
    }
    half->size = filled;
    return 0;
}

static void read_done(struct s3_request *r, int err) {
    struct get *g = r->op;
    g->reading = false;
    if (err < 0) {
        g->err = err;
    } else {
        g->left -= g->halves[g->read_at].size;
        g->read_at ^= 1;
    }
    get_pump(g);
}

static void got_buffer(void *arg, uint8_t *buffer);

/* The server took the buffer from under a client that did not read. */
static void read_again(struct get *g) {
    CHECK(!g->reading);
    g->left += http_response_unsent(g->r->http) + g->halves[g->write_at ^ 1].size;
    g->halves[0].size = g->halves[1].size = 0;
    g->read_at = g->write_at = 0;
    object_read_range(g->read, g->off + g->size - g->left, g->left);
    g->buffer_asked = true;
    http_buffer_get(g->r->http, got_buffer, g);
}

static void write_done(void *arg, int err) {
    struct get *g = arg;
    g->writing = false;
    if (err == -HL_ERR_AGAIN) {
        read_again(g);
        return;
    }
    g->halves[g->write_at].size = 0;
    g->write_at ^= 1;
    if (err < 0 && g->err == 0) {
        g->err = err;
    }
    get_pump(g);
}

/* Ends the request when there is nothing left to do. True when it did: g is gone. */
static bool get_ended(struct get *g) {
    struct s3_request *r = g->r;
    if (g->reading || g->writing || g->buffer_asked) {
        return false;
    }
    if (g->err < 0 && !g->begun) {
        get_fail(g, g->err);
        return true;
    }
    if (g->err < 0) {
        object_read_done(TAKE_PTR(g->read));
        s3_account(r, g->err == -HL_ERR_CLOSED ? 499 : 500);
        http_response_cut(r->http);
        return true;
    }
    if (g->left == 0 && g->halves[g->write_at].size == 0) {
        object_read_done(TAKE_PTR(g->read));
        s3_account(r, g->status);
        http_response_end(r->http);
        return true;
    }
    return false;
}

static void get_turn(struct get *g) {
    struct s3_request *r = g->r;
    if (g->err < 0 || g->buffer_asked) {
        return;
    }
    if (!g->reading && g->left > 0 && g->halves[g->read_at].size == 0) {
        if (!http_buffer_lend(r->http, false)) {
            return; /* taken: write_done will hear of it */
        }
        g->reading = true;
        s3_on_worker(r, read_work, read_done);
    }
    struct half *half = &g->halves[g->write_at];
    /* The half being read has another index, or its size is still 0 and belongs to the worker. */
    bool ready = !(g->reading && g->read_at == g->write_at) && half->size > 0;
    if (!g->writing && ready) {
        if (!g->begun) {
            g->begun = true;
            set_headers(g);
            http_response_begin(r->http, g->status, g->size);
        }
        g->writing = true;
        http_response_write(r->http, half->data, half->size, write_done, g);
    }
    if (g->writing && !g->reading) {
        http_buffer_lend(r->http, true);
    }
}

/* write_done may run inside http_response_write: the loop below takes it up instead of nesting. */
static void get_pump(struct get *g) {
    if (g->pumping) {
        g->again = true;
        return;
    }
    do {
        g->again = false;
        if (get_ended(g)) {
            return;
        }
        g->pumping = true;
        get_turn(g);
        g->pumping = false;
    } while (g->again);
}

static void got_buffer(void *arg, uint8_t *buffer) {
    struct get *g = arg;
    g->buffer_asked = false;
    if (buffer == NULL && !g->begun) {
        get_fail(g, -HL_ERR_SLOW_DOWN);
        return;
    }
    if (buffer == NULL) {
        g->err = -HL_ERR_CLOSED;
        get_pump(g);
        return;
    }
    g->half_bytes = http_buffer_bytes(http_server_of(g->r->http)) / 2;
    g->halves[0].data = buffer;
    g->halves[1].data = buffer + g->half_bytes;
    get_pump(g);
}

/* ---- GetObject and HeadObject ---- */

static int check_overrides(struct s3_request *r) {
    struct slice prefix = SLICE_LITERAL("response-");
    for (uint32_t i = 0; r->auth.anonymous && i < r->query.count; i++) {
        if (slice_starts_with(r->query.params[i].name, prefix)) {
            return s3_err(r, -HL_ERR_INVALID_REQUEST,
                          "Request specific response headers cannot be used for anonymous GET "
                          "requests.");
        }
    }
    return 0;
}

/* Finds the object and judges conditions and range. */
static int get_open(struct get *g) {
    struct s3_request *r = g->r;
    struct object_conditions conditions;
    int err = check_overrides(r);
    if (err == 0) {
        err = s3_check_version(r);
    }
    if (err == 0) {
        err = s3_metadata_check(r);
    }
    if (err == 0) {
        err = s3_conditions_read(r, &conditions);
    }
    if (err < 0) {
        return err;
    }
    err = object_read_open(r->s3->store, r->bucket.id, r->key, r->pool, &g->read);
    if (err < 0) {
        if (err == -HL_ERR_NO_SUCH_KEY) {
            s3_set_header_str(r, "x-amz-delete-marker", "false");
        }
        return err;
    }
    err = object_conditions_read(&conditions, object_read_record(g->read));
    if (err == -HL_ERR_NOT_MODIFIED) {
        s3_set_etag(r, &object_read_record(g->read)->etag);
        set_modified(r, object_read_record(g->read));
    }
    return err < 0 ? err : choose_range(g);
}

void s3_get_object(struct s3_request *r) {
    struct get *g = POOL_NEW(r->pool, struct get);
    if (g == NULL) {
        s3_fail(r, -HL_ERR_NOMEM);
        return;
    }
    g->r = r;
    r->op = g;
    int err = get_open(g);
    if (err < 0) {
        get_fail(g, err);
        return;
    }
    object_read_range(g->read, g->off, g->size);
    if (r->method == S3_HEAD) {
        set_headers(g);
        object_read_done(TAKE_PTR(g->read));
        s3_account(r, g->status);
        http_respond_head(r->http, g->status, (int64_t)g->size);
    } else if (g->size <= SMALL_BYTES_MAX) {
        small_start(g);
    } else {
        g->left = g->size;
        g->buffer_asked = true;
        http_buffer_get(r->http, got_buffer, g);
    }
}
