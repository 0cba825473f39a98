/* Reading of SigV4 credentials: the Authorization header and the X-Amz-* query parameters. Strict
 * in what is there (each field once, no empty names), tolerant of blanks around commas. Decides
 * syntax only; whether the claim is true is auth.c's business. Any thread. */
#include "s3/auth_int.h"

#include "base/error.h"
#include "base/text.h"
#include "s3/sigv4.h"

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

static struct slice trim(struct slice s) {
    while (s.size > 0 && is_blank(s.data[0])) {
        s = slice_skip(s, 1);
    }
    while (s.size > 0 && is_blank(s.data[s.size - 1])) {
        s.size--;
    }
    return s;
}

/* Offset of the last '/' before end, or SIZE_MAX. */
static size_t slash_before(struct slice s, size_t end) {
    while (end-- > 0) {
        if (s.data[end] == '/') {
            return end;
        }
    }
    return SIZE_MAX;
}

static bool is_date(struct slice s) {
    uint64_t ignored;
    return s.size == 8 && parse_u64(s, UINT64_MAX, &ignored);
}

/* "AKID/20130524/us-east-1/s3/aws4_request", from the right, as a key id may hold slashes. */
static bool split_credential(struct slice credential, struct auth_claim *claim) {
    size_t cut[4];
    size_t end = credential.size;
    for (int i = 3; i >= 0; i--) {
        cut[i] = slash_before(credential, end);
        if (cut[i] == SIZE_MAX) {
            return false;
        }
        end = cut[i];
    }
    const uint8_t *p = credential.data;
    claim->access_key = slice_of(p, cut[0]);
    claim->date = slice_of(p + cut[0] + 1, cut[1] - cut[0] - 1);
    claim->region = slice_of(p + cut[1] + 1, cut[2] - cut[1] - 1);
    claim->service = slice_of(p + cut[2] + 1, cut[3] - cut[2] - 1);
    claim->scope = slice_skip(credential, cut[0] + 1);
    return slice_equal_str(slice_skip(credential, cut[3] + 1), "aws4_request") &&
           claim->access_key.size > 0 && claim->access_key.size <= AUTH_KEY_ID_MAX &&
           is_date(claim->date) && claim->region.size <= 64;
}

static bool names_valid(struct slice list) {
    struct slice name;
    while (sigv4_next_name(&list, &name)) {
        if (name.size == 0) {
            return false;
        }
        for (size_t i = 0; i < name.size; i++) {
            if (name.data[i] <= ' ' || name.data[i] >= 0x7f || name.data[i] == ':') {
                return false;
            }
        }
    }
    return true;
}

/* Checks what header and query have in common. code: AUTH_HEADER or AUTH_QUERY. */
static int check_claim(struct auth_run *run, int code, struct slice credential,
                       struct auth_claim *claim) {
    const char *where = code == -HL_ERR_AUTH_HEADER
                            ? "The authorization header is malformed"
                            : "Error parsing the X-Amz-Credential parameter";
    if (!split_credential(credential, claim)) {
        run->message = pool_printf(run->pool,
                                   "%s; the Credential is mal-formed; expecting "
                                   "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
                                   where);
        return code;
    }
    if (!slice_equal_str(claim->service, "s3")) {
        run->message = pool_printf(
            run->pool, "%s; incorrect service \"%.*s\". This endpoint belongs to \"s3\".", where,
            SLICE_PRINT(claim->service));
        return code;
    }
    if (run->env->region_strict && !slice_equal_str(claim->region, run->env->region)) {
        run->message = pool_printf(run->pool, "%s; the region '%.*s' is wrong; expecting '%s'",
                                   where, SLICE_PRINT(claim->region), run->env->region);
        return code;
    }
    if (claim->signed_headers.size == 0 || !names_valid(claim->signed_headers)) {
        run->message = "SignedHeaders must be lower-case header names with one ';' between them.";
        return code;
    }
    if (claim->signature.size == 0) {
        run->message = "The signature is empty.";
        return code;
    }
    return 0;
}

/* Takes one "Name=value" of the header. */
static bool take_field(struct slice field, struct slice *credential, struct auth_claim *claim) {
    size_t equals = slice_find(field, '=', 0);
    if (equals == field.size) {
        return false;
    }
    struct slice name = slice_take(field, equals), value = trim(slice_skip(field, equals + 1));
    struct slice *target = slice_equal_str(name, "Credential")      ? credential
                           : slice_equal_str(name, "SignedHeaders") ? &claim->signed_headers
                           : slice_equal_str(name, "Signature")     ? &claim->signature
                                                                    : NULL;
    if (target == NULL || target->data != NULL) {
        return false;
    }
    *target = value;
    return true;
}

int auth_parse_header(struct auth_run *run, struct slice authorization, struct auth_claim *ret) {
    struct auth_claim claim = {.presigned = false};
    struct slice credential = SLICE_EMPTY;
    struct slice rest = slice_skip(authorization, strlen("AWS4-HMAC-SHA256"));
    bool valid = rest.size > 0 && is_blank(rest.data[0]);
    while (valid) {
        size_t comma = slice_find(rest, ',', 0);
        valid = take_field(trim(slice_take(rest, comma)), &credential, &claim);
        if (comma == rest.size) {
            break;
        }
        rest = slice_skip(rest, comma + 1);
    }
    if (!valid || credential.data == NULL || claim.signed_headers.data == NULL ||
        claim.signature.data == NULL) {
        run->message = "The authorization header is malformed; it needs Credential, SignedHeaders "
                       "and Signature, each once, with commas between them.";
        return -HL_ERR_AUTH_HEADER;
    }
    int err = check_claim(run, -HL_ERR_AUTH_HEADER, credential, &claim);
    if (err != 0) {
        return err;
    }
    *ret = claim;
    return 0;
}

/* ---- query ---- */

static const char *const v4_names[] = {"X-Amz-Algorithm", "X-Amz-Credential",    "X-Amz-Date",
                                       "X-Amz-Expires",   "X-Amz-SignedHeaders", "X-Amz-Signature"};

bool auth_has_v4_query(const struct s3_query *query) {
    return s3_query_has(query, "X-Amz-Algorithm") || s3_query_has(query, "X-Amz-Signature") ||
           s3_query_has(query, "X-Amz-Credential");
}

bool auth_has_v2_query(const struct s3_query *query) {
    return s3_query_has(query, "AWSAccessKeyId") || s3_query_has(query, "Signature");
}

static bool each_once(const struct s3_query *query) {
    for (size_t n = 0; n < ARRAY_COUNT(v4_names); n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < query->count; i++) {
            count += slice_equal_str(query->params[i].name, v4_names[n]);
        }
        if (count != 1) {
            return false;
        }
    }
    return true;
}

/* 1 second to 7 days. Out of range answers 403 as s3-tests wants; AWS says 400 there. */
static int parse_expires(struct auth_run *run, struct slice text, uint64_t *ret) {
    bool negative = text.size > 0 && text.data[0] == '-';
    uint64_t seconds = 0;
    if (!parse_u64(negative ? slice_skip(text, 1) : text, UINT64_MAX, &seconds)) {
        run->message = "X-Amz-Expires should be a number";
        return -HL_ERR_AUTH_QUERY;
    }
    if (negative || seconds < 1 || seconds > 604800) {
        run->message = "X-Amz-Expires must be between 1 and 604800 seconds (a week)";
        return -HL_ERR_ACCESS_DENIED;
    }
    *ret = seconds;
    return 0;
}

int auth_parse_query(struct auth_run *run, struct auth_claim *ret) {
    const struct s3_query *query = &run->query;
    if (!each_once(query)) {
        run->message = "Query-string authentication version 4 requires the X-Amz-Algorithm, "
                       "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and "
                       "X-Amz-Expires parameters, each once.";
        return -HL_ERR_AUTH_QUERY;
    }
    if (!slice_equal_str(s3_query_value(query, "X-Amz-Algorithm"), "AWS4-HMAC-SHA256")) {
        run->message = "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"";
        return -HL_ERR_AUTH_QUERY;
    }
    struct auth_claim claim = {
        .presigned = true,
        .signed_headers = s3_query_value(query, "X-Amz-SignedHeaders"),
        .signature = s3_query_value(query, "X-Amz-Signature"),
    };
    int err =
        check_claim(run, -HL_ERR_AUTH_QUERY, s3_query_value(query, "X-Amz-Credential"), &claim);
    if (err == 0) {
        err = parse_expires(run, s3_query_value(query, "X-Amz-Expires"), &claim.expires_s);
    }
    if (err != 0) {
        return err;
    }
    *ret = claim;
    return 0;
}

int auth_parse_payload(struct auth_run *run, struct slice value, struct s3_auth *auth) {
    static const struct {
        const char *text;
        enum s3_payload_mode mode;
    } forms[] = {
        {"UNSIGNED-PAYLOAD", S3_PAYLOAD_UNSIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", S3_PAYLOAD_STREAM_SIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", S3_PAYLOAD_STREAM_SIGNED_TRAILER},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", S3_PAYLOAD_STREAM_UNSIGNED_TRAILER},
    };
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        if (slice_equal_str(value, forms[i].text)) {
            auth->payload = forms[i].mode;
            return 0;
        }
    }
    if (hex_decode(value, auth->payload_sha256, sizeof(auth->payload_sha256))) {
        auth->payload = S3_PAYLOAD_SIGNED;
        return 0;
    }
    run->message =
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a "
        "valid sha256 value.";
    return -HL_ERR_INVALID;
}
