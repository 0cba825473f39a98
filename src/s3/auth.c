/* The verdict on a request's credentials: which mechanism it uses, whether its date is in the
 * window, whether everything that must be signed is, and whether the signature is right. Signatures
 * are compared in constant time, and an unknown key id costs the same work as a wrong secret. Pure
 * but for the callback that looks a secret up; any thread. What the caller may do is not decided
 * here. */
#include "s3/auth.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "s3/auth_int.h"
#include "s3/sigv4.h"

#define SKEW_MS_MAX (15 * 60 * 1000)

int auth_secret(struct auth_run *run, struct slice access_key, uint8_t ret[AUTH_SECRET_MAX],
                size_t *ret_size, int *ret_verdict) {
    size_t size = 0;
    int err = run->env->secret(run->env->ctx, access_key, ret, &size);
    if (err == 0 && (size == 0 || size > AUTH_SECRET_MAX)) {
        err = -HL_ERR_NO_SUCH_ACCESS_KEY; /* a key without a secret opens nothing */
    }
    if (err != 0 && err != -HL_ERR_NO_SUCH_ACCESS_KEY && err != -HL_ERR_EXPIRED) {
        return err;
    }
    if (err != 0) {
        size = 40;
        memset(ret, 'x', size);
    }
    if (err == -HL_ERR_EXPIRED) {
        run->message = "The access key has expired.";
    }
    *ret_size = size;
    *ret_verdict = err;
    return 0;
}

/* ---- dates ---- */

/* The time that the request claims, from x-amz-date (or Date) or X-Amz-Date. */
static int claimed_time(struct auth_run *run, const struct auth_claim *claim, int64_t *ret_ms) {
    if (claim->presigned) {
        if (time_parse_amz(s3_query_value(&run->query, "X-Amz-Date"), ret_ms) && *ret_ms >= 0) {
            return 0;
        }
        run->message = "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"";
        return -HL_ERR_AUTH_QUERY;
    }
    struct slice text = s3_head_header(run->head, "x-amz-date");
    if (text.data == NULL) {
        text = s3_head_header(run->head, "date");
    }
    if ((time_parse_amz(text, ret_ms) || time_parse_http(text, ret_ms)) && *ret_ms >= 0) {
        return 0;
    }
    run->message = "AWS authentication requires a valid Date or x-amz-date header";
    return -HL_ERR_ACCESS_DENIED;
}

static int skewed(struct auth_run *run, int64_t time_ms) {
    char requested[TIME_TEXT_SIZE], now[TIME_TEXT_SIZE];
    time_format_iso8601(time_ms, requested);
    time_format_iso8601(run->env->now_ms, now);
    run->message = pool_printf(run->pool,
                               "The difference between the request time (%s) and the server's time "
                               "(%s) is too large; 15 minutes are allowed. Set the clock that is "
                               "wrong.",
                               requested, now);
    return -HL_ERR_SKEWED;
}

static int check_window(struct auth_run *run, const struct auth_claim *claim, int64_t time_ms) {
    int64_t age_ms = run->env->now_ms - time_ms;
    if (!claim->presigned) {
        return age_ms > SKEW_MS_MAX || age_ms < -SKEW_MS_MAX ? skewed(run, time_ms) : 0;
    }
    if (age_ms < -SKEW_MS_MAX) {
        run->message = "Request is not yet valid";
        return -HL_ERR_ACCESS_DENIED;
    }
    return age_ms > (int64_t)claim->expires_s * 1000 ? -HL_ERR_EXPIRED : 0;
}

/* Time in the window, and its day in the credential's scope. */
static int check_date(struct auth_run *run, const struct auth_claim *claim,
                      char ret_amz_date[TIME_TEXT_SIZE]) {
    int64_t time_ms = 0;
    int err = claimed_time(run, claim, &time_ms);
    if (err != 0) {
        return err;
    }
    time_format_amz(time_ms, ret_amz_date);
    if (!slice_equal(claim->date, slice_of(ret_amz_date, 8))) {
        run->message = pool_printf(run->pool,
                                   "Invalid credential date \"%.*s\". This date is not the same as "
                                   "X-Amz-Date: \"%.8s\".",
                                   SLICE_PRINT(claim->date), ret_amz_date);
        return claim->presigned ? -HL_ERR_AUTH_QUERY : -HL_ERR_AUTH_HEADER;
    }
    return check_window(run, claim, time_ms);
}

/* ---- what must be signed ---- */

/* Headers that only say more about the integrity of the body; the holder of a presigned URL may add
 * them, since lying in them refuses his own upload. */
static bool is_integrity_header(struct slice name) {
    static const char *const names[] = {"x-amz-content-sha256", "x-amz-trailer",
                                        "x-amz-decoded-content-length",
                                        "x-amz-sdk-checksum-algorithm"};
    struct slice prefix = SLICE_LITERAL("x-amz-checksum-");
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (slice_equal_nocase(name, slice_str(names[i]))) {
            return true;
        }
    }
    return slice_equal_nocase(slice_take(name, prefix.size), prefix);
}

/* The same name (in any case) and value stand in the query, which is signed; *ret_named: the name
 * does. */
static bool repeats_query(const struct s3_query *query, const struct http_header *header,
                          bool *ret_named) {
    *ret_named = false;
    for (uint32_t i = 0; i < query->count; i++) {
        if (slice_equal_nocase(query->params[i].name, header->name)) {
            *ret_named = true;
            return slice_equal(query->params[i].value, header->value);
        }
    }
    return false;
}

static bool may_stay_unsigned(struct auth_run *run, const struct auth_claim *claim,
                              const struct http_header *header) {
    bool named = false;
    if (!claim->presigned) {
        return false;
    }
    if (repeats_query(&run->query, header, &named)) {
        return true;
    }
    bool pins_payload = slice_equal_nocase(header->name, SLICE_LITERAL("x-amz-content-sha256"));
    return is_integrity_header(header->name) && !(named && pins_payload);
}

static int check_signed_headers(struct auth_run *run, const struct auth_claim *claim) {
    const struct slice prefix = SLICE_LITERAL("x-amz-");
    if (!sigv4_names_contain(claim->signed_headers, SLICE_LITERAL("host"))) {
        run->message = "There were headers present in the request which were not signed: host";
        return -HL_ERR_UNSIGNED_HEADERS;
    }
    for (uint32_t i = 0; i < run->head->header_count; i++) {
        const struct http_header *header = &run->head->headers[i];
        if (!slice_equal_nocase(slice_take(header->name, prefix.size), prefix) ||
            sigv4_names_contain(claim->signed_headers, header->name) ||
            may_stay_unsigned(run, claim, header)) {
            continue;
        }
        run->message = pool_printf(
            run->pool, "There were headers present in the request which were not signed: %.*s",
            SLICE_PRINT(header->name));
        return -HL_ERR_UNSIGNED_HEADERS;
    }
    return 0;
}

/* ---- payload ---- */

/* The last line of the canonical request, and how the body is framed. */
static int read_payload(struct auth_run *run, const struct auth_claim *claim, struct s3_auth *auth,
                        struct slice *ret_hash) {
    struct slice header = s3_head_header(run->head, "x-amz-content-sha256");
    if (!claim->presigned) {
        if (header.data == NULL) {
            run->message = "Missing required header for this request: x-amz-content-sha256";
            return -HL_ERR_INVALID_REQUEST;
        }
        *ret_hash = header;
        return auth_parse_payload(run, header, auth);
    }
    struct slice query = s3_query_value(&run->query, "X-Amz-Content-Sha256");
    if (query.data != NULL) {
        *ret_hash = query;
    } else if (header.data != NULL &&
               sigv4_names_contain(claim->signed_headers, SLICE_LITERAL("x-amz-content-sha256"))) {
        *ret_hash = header;
    } else {
        *ret_hash = SLICE_LITERAL("UNSIGNED-PAYLOAD");
    }
    int err = auth_parse_payload(run, header.data != NULL ? header : *ret_hash, auth);
    if (err == 0 && (auth->payload == S3_PAYLOAD_STREAM_SIGNED ||
                     auth->payload == S3_PAYLOAD_STREAM_SIGNED_TRAILER)) {
        run->message = "A presigned URL cannot be used with signed chunks; send the body plainly "
                       "or with STREAMING-UNSIGNED-PAYLOAD-TRAILER.";
        return -HL_ERR_INVALID_REQUEST;
    }
    return err;
}

/* ---- signature ---- */

#define HOSTS_MAX 4

/* Spellings of the host that a client may have signed while a proxy or its own HTTP library sent
 * another: lower case, and the default ports left out or added. */
static size_t host_spellings(struct auth_run *run, struct slice ret[HOSTS_MAX]) {
    struct slice host = s3_head_header(run->head, "host");
    size_t count = 0;
    ret[count++] = SLICE_EMPTY; /* as received */
    char *lower = pool_printf(run->pool, "%.*s", SLICE_PRINT(host));
    if (lower == NULL) {
        return count;
    }
    for (char *p = lower; *p != '\0'; p++) {
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
    }
    struct slice name = slice_str(lower);
    bool bracket_end = name.size > 0 && name.data[name.size - 1] == ']';
    bool has_port = !bracket_end && slice_find(name, ':', 0) < name.size;
    if (has_port) {
        size_t colon = name.size;
        while (name.data[--colon] != ':') {
        }
        struct slice port = slice_skip(name, colon + 1);
        if (slice_equal_str(port, "80") || slice_equal_str(port, "443")) {
            name = slice_take(name, colon);
        }
    }
    if (!slice_equal(name, host)) {
        ret[count++] = name;
    }
    if (!has_port) {
        ret[count++] = slice_str(pool_printf(run->pool, "%.*s:80", SLICE_PRINT(name)));
        ret[count++] = slice_str(pool_printf(run->pool, "%.*s:443", SLICE_PRINT(name)));
    }
    return count;
}

/* Whether another form of the path could differ from the canonical one. */
static bool path_form_differs(struct slice path, enum sigv4_path form) {
    bool escape = slice_find(path, '%', 0) < path.size;
    for (size_t i = 0; form == SIGV4_PATH_RAW && i < path.size; i++) {
        uint8_t c = path.data[i], lower = c | 0x20;
        bool plain = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '/' ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (!plain) {
            return true;
        }
    }
    return form == SIGV4_PATH_CANONICAL || (form == SIGV4_PATH_SLASHES && escape);
}

/* One try. *ret_match is set when the claim's signature is that of the variant. */
static int try_variant(struct auth_run *run, const struct sigv4_request *request,
                       const struct auth_claim *claim, struct slice amz_date, const uint8_t key[32],
                       const struct sigv4_variant *variant, bool *ret_match) {
    struct buf canonical CLEANUP_BUF = {0}, to_sign CLEANUP_BUF = {0};
    int err = sigv4_canonical_request(request, variant, &canonical);
    if (err != 0) {
        return err;
    }
    sigv4_string_to_sign(amz_date, claim->scope, buf_slice(&canonical), &to_sign);
    if (to_sign.failed) {
        return -HL_ERR_NOMEM;
    }
    char signature[SIGV4_SIGNATURE_SIZE + 1];
    sigv4_sign(key, buf_slice(&to_sign), signature);
    *ret_match = claim->signature.size == SIGV4_SIGNATURE_SIZE &&
                 equal_constant_time(claim->signature.data, signature, SIGV4_SIGNATURE_SIZE);
    if (!*ret_match && run->detail.canonical_request.data == NULL) {
        run->detail.canonical_request = pool_copy(run->pool, buf_slice(&canonical));
        run->detail.string_to_sign = pool_copy(run->pool, buf_slice(&to_sign));
        run->detail.signature_provided = claim->signature;
    }
    return 0;
}

/* The request as received, then as it may have been before it was rewritten on its way or as an
 * unusual client canonicalises it: another spelling of the host, accept-encoding "identity" (the Go
 * SDK behind a proxy), a path signed as sent or with its escaped slashes plain. Each variant names
 * the same request, so none widens what a signature allows. */
static int match_signature(struct auth_run *run, const struct sigv4_request *request,
                           const struct auth_claim *claim, struct slice amz_date,
                           const uint8_t key[32]) {
    struct slice hosts[HOSTS_MAX] = {SLICE_EMPTY}; /* first: as received */
    size_t host_count = 1;
    struct slice path = s3_uri_raw_path(run->head);
    int encodings =
        sigv4_names_contain(claim->signed_headers, SLICE_LITERAL("accept-encoding")) ? 2 : 1;
    for (size_t h = 0; h < host_count; h++) {
        for (int i = 0; i < encodings * SIGV4_PATH_COUNT; i++) {
            struct sigv4_variant variant = {hosts[h], i >= SIGV4_PATH_COUNT,
                                            (enum sigv4_path)(i % SIGV4_PATH_COUNT)};
            bool match = false;
            if (!path_form_differs(path, variant.path)) {
                continue;
            }
            int err = try_variant(run, request, claim, amz_date, key, &variant, &match);
            if (err != 0 || match) {
                return err;
            }
        }
        if (h == 0) {
            host_count = host_spellings(run, hosts); /* seldom needed */
        }
    }
    return -HL_ERR_SIGNATURE;
}

static int check_signature(struct auth_run *run, const struct auth_claim *claim,
                           struct slice payload_hash, struct slice amz_date, uint8_t ret_key[32]) {
    uint8_t secret[AUTH_SECRET_MAX];
    size_t secret_size = 0;
    int verdict = 0;
    int err = auth_secret(run, claim->access_key, secret, &secret_size, &verdict);
    if (err != 0) {
        return err;
    }
    sigv4_signing_key(claim->access_key, slice_of(secret, secret_size), claim->date, claim->region,
                      claim->service, ret_key);
    wipe(secret, sizeof(secret));
    struct sigv4_request request = {run->head, &run->query, claim->signed_headers, payload_hash};
    err = match_signature(run, &request, claim, amz_date, ret_key);
    return verdict != 0 ? verdict : err;
}

static int verify_v4(struct auth_run *run, const struct auth_claim *claim, struct s3_auth *auth) {
    char amz_date[TIME_TEXT_SIZE];
    int err = check_date(run, claim, amz_date);
    if (err != 0) {
        return err;
    }
    struct slice payload_hash = SLICE_EMPTY;
    err = read_payload(run, claim, auth, &payload_hash);
    if (err != 0) {
        return err;
    }
    err = check_signed_headers(run, claim);
    if (err != 0) {
        return err;
    }
    err = check_signature(run, claim, payload_hash, slice_str(amz_date), auth->signing_key);
    if (err != 0) {
        wipe(auth->signing_key, sizeof(auth->signing_key));
        return err;
    }
    auth->presigned = claim->presigned;
    auth->access_key = pool_copy(run->pool, claim->access_key);
    auth->scope = pool_copy(run->pool, claim->scope);
    auth->amz_date = pool_copy(run->pool, slice_str(amz_date));
    memcpy(auth->seed_signature, claim->signature.data, sizeof(auth->seed_signature));
    bool copied =
        auth->access_key.data != NULL && auth->scope.data != NULL && auth->amz_date.data != NULL;
    return copied ? 0 : -HL_ERR_NOMEM;
}

/* ---- mechanisms ---- */

static int verify_header(struct auth_run *run, struct slice authorization, struct s3_auth *auth) {
    const struct slice v4 = SLICE_LITERAL("AWS4-HMAC-SHA256");
    bool other_algorithm = slice_starts_with(authorization, SLICE_LITERAL("AWS4-")) &&
                           !slice_starts_with(authorization, v4);
    if (other_algorithm || slice_starts_with(authorization, SLICE_LITERAL("AWS "))) {
        run->message = "The authorization mechanism you have provided is not supported. Please use "
                       "AWS4-HMAC-SHA256.";
        return -HL_ERR_INVALID_REQUEST;
    }
    if (!slice_starts_with(authorization, v4)) {
        run->message = "Unsupported Authorization Type";
        return -HL_ERR_INVALID;
    }
    struct auth_claim claim;
    int err = auth_parse_header(run, authorization, &claim);
    return err != 0 ? err : verify_v4(run, &claim, auth);
}

static int verify_anonymous(struct auth_run *run, struct s3_auth *auth) {
    auth->anonymous = true;
    struct slice header = s3_head_header(run->head, "x-amz-content-sha256");
    if (header.data == NULL) {
        auth->payload = S3_PAYLOAD_UNSIGNED;
        return 0;
    }
    int err = auth_parse_payload(run, header, auth);
    if (err == 0 && (auth->payload == S3_PAYLOAD_STREAM_SIGNED ||
                     auth->payload == S3_PAYLOAD_STREAM_SIGNED_TRAILER)) {
        run->message = "Anonymous requests cannot use signed chunks; use UNSIGNED-PAYLOAD or "
                       "STREAMING-UNSIGNED-PAYLOAD-TRAILER.";
        return -HL_ERR_INVALID_REQUEST;
    }
    return err;
}

/* Data NULL: no Authorization. AUTH_HEADER when there are several. */
static int find_authorization(struct auth_run *run, struct slice *ret) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < run->head->header_count; i++) {
        count += slice_equal_nocase(run->head->headers[i].name, SLICE_LITERAL("authorization"));
    }
    if (count > 1) {
        run->message = "The request has more than one Authorization header.";
        return -HL_ERR_AUTH_HEADER;
    }
    *ret = s3_head_header(run->head, "authorization");
    return 0;
}

static int verify(struct auth_run *run, struct s3_auth *auth) {
    int err = s3_query_parse(run->head->query, run->pool, &run->query);
    if (err != 0) {
        return err;
    }
    struct slice authorization = SLICE_EMPTY;
    err = find_authorization(run, &authorization);
    if (err != 0) {
        return err;
    }
    bool header = authorization.size > 0; /* an empty one is no credential: anonymous */
    bool v4_query = auth_has_v4_query(&run->query), v2_query = auth_has_v2_query(&run->query);
    if (header + v4_query + v2_query > 1) {
        run->message = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
                       "Signature query string parameter or the Authorization header should be "
                       "specified";
        return -HL_ERR_INVALID;
    }
    if (header) {
        return verify_header(run, authorization, auth);
    }
    if (v4_query) {
        struct auth_claim claim;
        err = auth_parse_query(run, &claim);
        return err != 0 ? err : verify_v4(run, &claim, auth);
    }
    return v2_query ? auth_v2_verify(run, auth) : verify_anonymous(run, auth);
}

int s3_auth_verify(const struct http_head *head, const struct s3_auth_env *env, struct pool *pool,
                   struct s3_auth *ret, const char **ret_message,
                   struct s3_auth_detail *ret_detail) {
    struct auth_run run = {.head = head, .env = env, .pool = pool};
    struct s3_auth auth = {.anonymous = false};
    int err = verify(&run, &auth);
    if (err != 0) {
        if (ret_message != NULL && run.message != NULL) {
            *ret_message = run.message;
        }
        if (ret_detail != NULL && err == -HL_ERR_SIGNATURE) {
            *ret_detail = run.detail;
        }
        return err;
    }
    *ret = auth;
    return 0;
}
