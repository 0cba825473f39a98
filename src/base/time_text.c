/* The time formats of HTTP, S3 and SigV4. Proleptic Gregorian, UTC, milliseconds since 1970; years
 * 0 to 9999. Pure. */
#include <stdio.h>

#include "base/text.h"

static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

struct civil {
    int year, month, day, hour, minute, second, millisecond, weekday;
};

/* Days since 1970-01-01 of a civil date: counts from March so that the leap day is last (the usual
 * method). */
static int64_t days_of(int year, int month, int day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void civil_of(int64_t ms, struct civil *ret) {
    int64_t days = ms / 86400000, rest = ms % 86400000;
    if (rest < 0) {
        rest += 86400000;
        days--;
    }
    ret->weekday = (int)(((days + 4) % 7 + 7) % 7);
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    ret->day = (int)(doy - (153 * mp + 2) / 5 + 1);
    ret->month = (int)(mp < 10 ? mp + 3 : mp - 9);
    ret->year = (int)(yoe + era * 400 + (ret->month <= 2));
    ret->hour = (int)(rest / 3600000);
    ret->minute = (int)(rest / 60000 % 60);
    ret->second = (int)(rest / 1000 % 60);
    ret->millisecond = (int)(rest % 1000);
}

static bool civil_valid(const struct civil *c) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (c->year < 0 || c->year > 9999 || c->month < 1 || c->month > 12) {
        return false;
    }
    bool leap = (c->year % 4 == 0 && c->year % 100 != 0) || c->year % 400 == 0;
    int length = lengths[c->month - 1] + (c->month == 2 && leap);
    return c->day >= 1 && c->day <= length && c->hour >= 0 && c->hour <= 23 && c->minute >= 0 &&
           c->minute <= 59 && c->second >= 0 && c->second <= 60;
}

static int64_t civil_ms(const struct civil *c) {
    return ((days_of(c->year, c->month, c->day) * 24 + c->hour) * 60 + c->minute) * 60000 +
           c->second * 1000 + c->millisecond;
}

void time_format_iso8601(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    struct civil c;
    civil_of(ms, &c);
    snprintf(ret, TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", c.year, c.month, c.day,
             c.hour, c.minute, c.second, c.millisecond);
}

void time_format_http(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    struct civil c;
    civil_of(ms, &c);
    snprintf(ret, TIME_TEXT_SIZE, "%s, %02d %s %04d %02d:%02d:%02d GMT", day_names[c.weekday],
             c.day, month_names[c.month - 1], c.year, c.hour, c.minute, c.second);
}

void time_format_amz(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    struct civil c;
    civil_of(ms, &c);
    snprintf(ret, TIME_TEXT_SIZE, "%04d%02d%02dT%02d%02d%02dZ", c.year, c.month, c.day, c.hour,
             c.minute, c.second);
}

/* ---- parsing: a cursor over the text ---- */

struct cursor {
    struct slice left;
    bool failed;
};

static int take_number(struct cursor *c, size_t digits) {
    uint64_t v = 0;
    if (c->failed || c->left.size < digits || !parse_u64(slice_take(c->left, digits), 99999, &v)) {
        c->failed = true;
        return 0;
    }
    c->left = slice_skip(c->left, digits);
    return (int)v;
}

static void take_text(struct cursor *c, const char *text) {
    struct slice expected = slice_str(text);
    if (c->failed || !slice_starts_with(c->left, expected)) {
        c->failed = true;
        return;
    }
    c->left = slice_skip(c->left, expected.size);
}

static bool at(const struct cursor *c, char byte) {
    return !c->failed && c->left.size > 0 && c->left.data[0] == (uint8_t)byte;
}

static int take_month(struct cursor *c) {
    for (int i = 0; i < 12 && !c->failed; i++) {
        if (slice_starts_with(c->left, slice_str(month_names[i]))) {
            c->left = slice_skip(c->left, 3);
            return i + 1;
        }
    }
    c->failed = true;
    return 0;
}

static void take_clock(struct cursor *c, struct civil *t) {
    t->hour = take_number(c, 2);
    take_text(c, ":");
    t->minute = take_number(c, 2);
    take_text(c, ":");
    t->second = take_number(c, 2);
}

static bool finish(const struct cursor *c, const struct civil *t, int64_t *ret_ms) {
    if (c->failed || c->left.size != 0 || !civil_valid(t)) {
        return false;
    }
    *ret_ms = civil_ms(t);
    return true;
}

static int take_fraction_ms(struct cursor *c) {
    int ms = 0, scale = 100;
    bool any = false;
    while (!c->failed && c->left.size > 0 && c->left.data[0] >= '0' && c->left.data[0] <= '9') {
        ms += (c->left.data[0] - '0') * scale;
        scale /= 10;
        any = true;
        c->left = slice_skip(c->left, 1);
    }
    c->failed |= !any;
    return ms;
}

bool time_parse_iso8601(struct slice text, int64_t *ret_ms) {
    struct cursor c = {text, false};
    struct civil t = {0};
    int64_t zone_ms = 0, ms;
    t.year = take_number(&c, 4);
    take_text(&c, "-");
    t.month = take_number(&c, 2);
    take_text(&c, "-");
    t.day = take_number(&c, 2);
    take_text(&c, "T");
    take_clock(&c, &t);
    if (at(&c, '.')) {
        take_text(&c, ".");
        t.millisecond = take_fraction_ms(&c);
    }
    if (at(&c, '+') || at(&c, '-')) {
        int sign = at(&c, '+') ? 1 : -1;
        c.left = slice_skip(c.left, 1);
        int hours = take_number(&c, 2);
        take_text(&c, ":");
        zone_ms = sign * (hours * 60 + take_number(&c, 2)) * (int64_t)60000;
    } else {
        take_text(&c, "Z");
    }
    if (!finish(&c, &t, &ms)) {
        return false;
    }
    *ret_ms = ms - zone_ms;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool parse_imf(struct slice text, int64_t *ret_ms) {
    struct cursor c = {text, text.size < 5};
    struct civil t = {0};
    if (!c.failed) {
        c.left = slice_skip(c.left, 3);
    }
    take_text(&c, ", ");
    t.day = take_number(&c, 2);
    take_text(&c, " ");
    t.month = take_month(&c);
    take_text(&c, " ");
    t.year = take_number(&c, 4);
    take_text(&c, " ");
    take_clock(&c, &t);
    take_text(&c, " ");
    if (at(&c, '+') || at(&c, '-')) {
        c.left = slice_skip(c.left, 1);
        take_text(&c, "0000");
    } else if (at(&c, 'U')) {
        take_text(&c, "UTC");
    } else {
        take_text(&c, "GMT");
    }
    return finish(&c, &t, ret_ms);
}

/* "Sunday, 06-Nov-94 08:49:37 GMT"; two-digit years below 70 are of this century. */
static bool parse_rfc850(struct slice text, int64_t *ret_ms) {
    size_t comma = slice_find(text, ',', 0);
    struct cursor c = {slice_skip(text, comma), false};
    struct civil t = {0};
    take_text(&c, ", ");
    t.day = take_number(&c, 2);
    take_text(&c, "-");
    t.month = take_month(&c);
    take_text(&c, "-");
    t.year = take_number(&c, 2);
    t.year += t.year < 70 ? 2000 : 1900;
    take_text(&c, " ");
    take_clock(&c, &t);
    take_text(&c, " GMT");
    return finish(&c, &t, ret_ms);
}

/* "Sun Nov  6 08:49:37 1994" */
static bool parse_asctime(struct slice text, int64_t *ret_ms) {
    struct cursor c = {text, text.size < 4};
    struct civil t = {0};
    if (!c.failed) {
        c.left = slice_skip(c.left, 3);
    }
    take_text(&c, " ");
    t.month = take_month(&c);
    take_text(&c, " ");
    if (at(&c, ' ')) {
        take_text(&c, " ");
        t.day = take_number(&c, 1);
    } else {
        t.day = take_number(&c, 2);
    }
    take_text(&c, " ");
    take_clock(&c, &t);
    take_text(&c, " ");
    t.year = take_number(&c, 4);
    return finish(&c, &t, ret_ms);
}

bool time_parse_http(struct slice text, int64_t *ret_ms) {
    return parse_imf(text, ret_ms) || parse_rfc850(text, ret_ms) || parse_asctime(text, ret_ms);
}

bool time_parse_amz(struct slice text, int64_t *ret_ms) {
    struct cursor c = {text, false};
    struct civil t = {0};
    t.year = take_number(&c, 4);
    t.month = take_number(&c, 2);
    t.day = take_number(&c, 2);
    take_text(&c, "T");
    t.hour = take_number(&c, 2);
    t.minute = take_number(&c, 2);
    t.second = take_number(&c, 2);
    take_text(&c, "Z");
    return finish(&c, &t, ret_ms);
}
