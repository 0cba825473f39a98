/* The time formats of S3 XML (ISO 8601), HTTP (RFC 9110 section 5.6.7) and SigV4. Pure functions on
 * milliseconds since 1970-01-01 UTC; no time zone data and no locale of the C library is consulted.
 * Parsers accept years 0001 to 9999 and refuse dates that do not exist; a leap second (:60) counts
 * as the following second. */
#include "base/text.h"

#define MS_PER_DAY      INT64_C(86400000)
#define SECONDS_PER_DAY INT64_C(86400)

static const char *const month_names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const day_names[] = {"Thursday", "Friday",  "Saturday", "Sunday",
                                        "Monday",   "Tuesday", "Wednesday"}; /* from 1970-01-01 */

struct civil {
    int64_t year;
    int month, day, hour, minute, second, millisecond;
    int weekday; /* index into day_names */
};

/* Days since 1970-01-01 in the proleptic Gregorian calendar. Years start in March here, so that the
 * leap day is the last day of a year; a cycle of 400 years has 146097 days. */
static int64_t days_from_civil(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t cycle = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_cycle = year - cycle * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_cycle =
        year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    return cycle * 146097 + day_of_cycle - 719468;
}

static void civil_from_days(int64_t days, struct civil *c) {
    days += 719468;
    int64_t cycle = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_cycle = days - cycle * 146097;
    int64_t year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36524 - day_of_cycle / 146096) / 365;
    int64_t day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    int month_from_march = (int)((5 * day_of_year + 2) / 153);
    c->day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    c->month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    c->year = year_of_cycle + cycle * 400 + (c->month <= 2);
}

/* Splits ms; years outside 1 to 9999 are clamped so that every result has the fixed width. */
static struct civil civil_of(int64_t ms) {
    const int64_t min = days_from_civil(1, 1, 1) * MS_PER_DAY;
    const int64_t max = days_from_civil(10000, 1, 1) * MS_PER_DAY - 1;
    ms = MAX(MIN(ms, max), min);
    int64_t days = ms / MS_PER_DAY - (ms % MS_PER_DAY < 0);
    int64_t rest = ms - days * MS_PER_DAY;
    struct civil c;
    civil_from_days(days, &c);
    c.weekday = (int)((days % 7 + 7) % 7);
    c.millisecond = (int)(rest % 1000);
    c.second = (int)(rest / 1000 % 60);
    c.minute = (int)(rest / 60000 % 60);
    c.hour = (int)(rest / 3600000);
    return c;
}

/* Each answer carries two or three dates, and printf costs more than everything else about them. So
 * a template holds the fixed characters and the digits are put into their places. */
static void put_digits(char *at, int64_t value, int count) {
    while (count > 0) {
        at[--count] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void put_clock(char *at, const struct civil *c, int step) {
    put_digits(at, c->hour, 2);
    put_digits(at + step, c->minute, 2);
    put_digits(at + 2 * step, c->second, 2);
}

void time_format_iso8601(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    static const char template[] = "0000-00-00T00:00:00.000Z";
    _Static_assert(sizeof(template) <= TIME_TEXT_SIZE, "room");
    struct civil c = civil_of(ms);
    memcpy(ret, template, sizeof(template));
    put_digits(ret, c.year, 4);
    put_digits(ret + 5, c.month, 2);
    put_digits(ret + 8, c.day, 2);
    put_clock(ret + 11, &c, 3);
    put_digits(ret + 20, c.millisecond, 3);
}

void time_format_http(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    static const char template[] = "Day, 00 Mon 0000 00:00:00 GMT";
    _Static_assert(sizeof(template) <= TIME_TEXT_SIZE, "room");
    struct civil c = civil_of(ms);
    memcpy(ret, template, sizeof(template));
    memcpy(ret, day_names[c.weekday], 3);
    put_digits(ret + 5, c.day, 2);
    memcpy(ret + 8, month_names[c.month - 1], 3);
    put_digits(ret + 12, c.year, 4);
    put_clock(ret + 17, &c, 3);
}

void time_format_amz(int64_t ms, char ret[TIME_TEXT_SIZE]) {
    static const char template[] = "00000000T000000Z";
    struct civil c = civil_of(ms);
    memcpy(ret, template, sizeof(template));
    put_digits(ret, c.year, 4);
    put_digits(ret + 4, c.month, 2);
    put_digits(ret + 6, c.day, 2);
    put_clock(ret + 9, &c, 2);
}

/* ---- parsing ---- */

/* A cursor over text: each step that does not fit sets failed, and later steps do nothing. */
struct scan {
    struct slice left;
    bool failed;
};

static bool scan_char(struct scan *s, char c) {
    if (s->left.size > 0 && s->left.data[0] == (uint8_t)c) {
        s->left = slice_skip(s->left, 1);
        return true;
    }
    return false;
}

static void scan_expect(struct scan *s, const char *text) {
    struct slice expected = slice_str(text);
    if (s->failed || !slice_starts_with(s->left, expected)) {
        s->failed = true;
        return;
    }
    s->left = slice_skip(s->left, expected.size);
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* Exactly count digits. */
static int scan_digits(struct scan *s, size_t count) {
    int v = 0;
    if (s->failed || s->left.size < count) {
        s->failed = true;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(s->left.data[i])) {
            s->failed = true;
            return 0;
        }
        v = v * 10 + (s->left.data[i] - '0');
    }
    s->left = slice_skip(s->left, count);
    return v;
}

static int scan_month(struct scan *s) {
    for (int i = 0; i < 12 && !s->failed; i++) {
        if (slice_starts_with(s->left, slice_str(month_names[i]))) {
            s->left = slice_skip(s->left, 3);
            return i + 1;
        }
    }
    s->failed = true;
    return 0;
}

/* A weekday's name, short or whole. It is not compared with the date: clients are known to be wrong
 * there, and the rest of the date is what counts. */
static void scan_weekday(struct scan *s, bool whole) {
    for (int i = 0; i < 7; i++) {
        struct slice name = slice_take(slice_str(day_names[i]), whole ? SIZE_MAX : 3);
        if (slice_starts_with(s->left, name)) {
            s->left = slice_skip(s->left, name.size);
            return;
        }
    }
    s->failed = true;
}

static void scan_clock(struct scan *s, struct civil *c) {
    c->hour = scan_digits(s, 2);
    scan_expect(s, ":");
    c->minute = scan_digits(s, 2);
    scan_expect(s, ":");
    c->second = scan_digits(s, 2);
}

static int days_in_month(int64_t year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* The end of every parser: all text used, a date that exists. */
static bool scan_finish(const struct scan *s, const struct civil *c, int64_t offset_minutes,
                        int64_t *ret_ms) {
    if (s->failed || s->left.size != 0 || c->year < 1 || c->month < 1 || c->month > 12 ||
        c->day < 1 || c->day > days_in_month(c->year, c->month) || c->hour > 23 || c->minute > 59 ||
        c->second > 60) {
        return false;
    }
    int64_t seconds = days_from_civil(c->year, c->month, c->day) * SECONDS_PER_DAY +
                      c->hour * 3600 + (c->minute - offset_minutes) * 60 + c->second;
    *ret_ms = seconds * 1000 + c->millisecond;
    return true;
}

/* 1 to 9 digits; what is finer than a millisecond is dropped. */
static int scan_fraction(struct scan *s) {
    int ms = 0, count = 0;
    while (!s->failed && s->left.size > 0 && is_digit(s->left.data[0])) {
        if (count < 3) {
            ms = ms * 10 + (s->left.data[0] - '0');
        }
        count++;
        s->left = slice_skip(s->left, 1);
    }
    s->failed |= count == 0 || count > 9;
    for (; count < 3; count++) {
        ms *= 10;
    }
    return ms;
}

/* "+hh:mm", "+hhmm" in minutes east of Greenwich; colon as asked. */
static int64_t scan_offset(struct scan *s, bool colon) {
    bool west = scan_char(s, '-');
    if (!west && !scan_char(s, '+')) {
        s->failed = true;
        return 0;
    }
    int hours = scan_digits(s, 2);
    if (colon) {
        scan_expect(s, ":");
    }
    int minutes = scan_digits(s, 2);
    s->failed |= hours > 23 || minutes > 59;
    return (west ? -1 : 1) * (hours * 60 + minutes);
}

bool time_parse_iso8601(struct slice text, int64_t *ret_ms) {
    struct scan s = {text, false};
    struct civil c = {0};
    c.year = scan_digits(&s, 4);
    scan_expect(&s, "-");
    c.month = scan_digits(&s, 2);
    scan_expect(&s, "-");
    c.day = scan_digits(&s, 2);
    scan_expect(&s, "T");
    scan_clock(&s, &c);
    if (!s.failed && scan_char(&s, '.')) {
        c.millisecond = scan_fraction(&s);
    }
    int64_t offset = 0;
    if (!s.failed && !scan_char(&s, 'Z')) {
        offset = scan_offset(&s, true);
    }
    return scan_finish(&s, &c, offset, ret_ms);
}

/* "GMT", or "UTC" and the numeric zones of mail dates, which some clients send. */
static int64_t scan_zone(struct scan *s) {
    uint8_t c = s->failed || s->left.size == 0 ? 0 : s->left.data[0];
    if (c == '+' || c == '-') {
        return scan_offset(s, false);
    }
    scan_expect(s, c == 'U' ? "UTC" : "GMT");
    return 0;
}

/* IMF-fixdate: "Sun, 06 Nov 1994 08:49:37 GMT". */
static bool parse_fixdate(struct slice text, int64_t *ret_ms) {
    struct scan s = {text, false};
    struct civil c = {0};
    scan_weekday(&s, false);
    scan_expect(&s, ", ");
    c.day = scan_digits(&s, 2);
    scan_expect(&s, " ");
    c.month = scan_month(&s);
    scan_expect(&s, " ");
    c.year = scan_digits(&s, 4);
    scan_expect(&s, " ");
    scan_clock(&s, &c);
    scan_expect(&s, " ");
    int64_t offset = scan_zone(&s);
    return scan_finish(&s, &c, offset, ret_ms);
}

/* RFC 850: "Sunday, 06-Nov-94 08:49:37 GMT". A pure function cannot know which years lie more than
 * 50 years ahead, as RFC 9110 asks; two digits below 70 are taken for 20xx, as POSIX does. */
static bool parse_rfc850(struct slice text, int64_t *ret_ms) {
    struct scan s = {text, false};
    struct civil c = {0};
    scan_weekday(&s, true);
    scan_expect(&s, ", ");
    c.day = scan_digits(&s, 2);
    scan_expect(&s, "-");
    c.month = scan_month(&s);
    scan_expect(&s, "-");
    int year = scan_digits(&s, 2);
    c.year = year < 70 ? 2000 + year : 1900 + year;
    scan_expect(&s, " ");
    scan_clock(&s, &c);
    scan_expect(&s, " GMT");
    return scan_finish(&s, &c, 0, ret_ms);
}

/* asctime(): "Sun Nov  6 08:49:37 1994". */
static bool parse_asctime(struct slice text, int64_t *ret_ms) {
    struct scan s = {text, false};
    struct civil c = {0};
    scan_weekday(&s, false);
    scan_expect(&s, " ");
    c.month = scan_month(&s);
    scan_expect(&s, " ");
    c.day = scan_char(&s, ' ') ? scan_digits(&s, 1) : scan_digits(&s, 2);
    scan_expect(&s, " ");
    scan_clock(&s, &c);
    scan_expect(&s, " ");
    c.year = scan_digits(&s, 4);
    return scan_finish(&s, &c, 0, ret_ms);
}

bool time_parse_http(struct slice text, int64_t *ret_ms) {
    return parse_fixdate(text, ret_ms) || parse_rfc850(text, ret_ms) || parse_asctime(text, ret_ms);
}

bool time_parse_amz(struct slice text, int64_t *ret_ms) {
    struct scan s = {text, false};
    struct civil c = {0};
    c.year = scan_digits(&s, 4);
    c.month = scan_digits(&s, 2);
    c.day = scan_digits(&s, 2);
    scan_expect(&s, "T");
    c.hour = scan_digits(&s, 2);
    c.minute = scan_digits(&s, 2);
    c.second = scan_digits(&s, 2);
    scan_expect(&s, "Z");
    return scan_finish(&s, &c, 0, ret_ms);
}
