/* Text codecs: published vectors, round trips, and the malformed inputs that each decoder must
 * refuse. Times were made with Python's datetime and email.utils. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_hex(void **state) {
    uint8_t bytes[256], back[256];
    char text[513];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
    }
    hex_encode(bytes, 256, text);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102030405060708090a0b", 24);
    assert_memory_equal(text + 504, "fcfdfeff", 8);
    assert_true(hex_decode(slice_str(text), back, 256));
    assert_memory_equal(bytes, back, 256);
    assert_true(hex_decode(slice_str("DeadBEEF"), back, 4));
    assert_memory_equal(back, "\xde\xad\xbe\xef", 4);
    static const char *const bad[] = {"",     "0",  "0g", "g0", "0x", " 00",     "00 ",
                                      "0000", "@@", "``", "//", "::", "\xff\xff"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(hex_decode(slice_str(bad[i]), back, 1));
    }
}

static void test_base64_vectors(void **state) {
    /* RFC 4648 section 10. */
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xff\xbf", "+/+/"}};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        char text[16];
        uint8_t back[16];
        size_t size;
        base64_encode(pairs[i][0], strlen(pairs[i][0]), text);
        assert_string_equal(text, pairs[i][1]);
        assert_true(base64_decode(slice_str(text), back, sizeof(back), &size));
        assert_true(slice_equal_str(slice_of(back, size), pairs[i][0]));
    }
}

static void test_base64_round_trip(void **state) {
    struct prng prng;
    prng_init(&prng, 5);
    for (size_t size = 0; size < 300; size++) {
        uint8_t bytes[300], back[300];
        char text[BASE64_SIZE(300) + 1];
        size_t back_size;
        prng_bytes(&prng, bytes, size);
        base64_encode(bytes, size, text);
        assert_int_equal(strlen(text), BASE64_SIZE(size));
        assert_true(base64_decode(slice_str(text), back, size, &back_size)); /* fits exactly */
        assert_int_equal(back_size, size);
        assert_memory_equal(back, bytes, size);
        if (size > 0) {
            assert_false(base64_decode(slice_str(text), back, size - 1, &back_size));
        }
    }
}

static void test_base64_malformed(void **state) {
    static const char *const bad[] = {"Z",    "Zg",       "Zg=",        "Z===",     "====",
                                      "=",    "Zg==Zg==", "Zm9v=",      "Zm9v\n",   " Zm9v",
                                      "Zm9-", "Zm9_",     "Zh==",       "Zm9=",     "Zm8=Zm8=",
                                      "Z=g=", "Zg=a",     "Zm\xc3\xa9", "AAAA====", "A=AA"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t back[16];
        size_t size = 99;
        assert_false(base64_decode(slice_str(bad[i]), back, sizeof(back), &size));
        assert_int_equal(size, 99); /* untouched on failure */
    }
    uint8_t back[4];
    size_t size;
    assert_false(base64_decode(slice_of("Zg=\0", 4), back, sizeof(back), &size));
}

static void assert_encoded(const char *text, bool keep_slash, const char *expected) {
    CLEANUP_BUF struct buf b = {0};
    percent_encode(&b, slice_str(text), keep_slash);
    assert_true(slice_equal_str(buf_slice(&b), expected));
    buf_clear(&b);
    assert_true(percent_decode(&b, slice_str(expected)));
    assert_true(slice_equal_str(buf_slice(&b), text));
}

static void test_percent(void **state) {
    assert_encoded("", false, "");
    assert_encoded("AZaz09-._~", false, "AZaz09-._~");
    assert_encoded("a b+c", false, "a%20b%2Bc");
    assert_encoded("/a//b/", true, "/a//b/");
    assert_encoded("/a//b/", false, "%2Fa%2F%2Fb%2F");
    assert_encoded("\xc3\xa9%", false, "%C3%A9%25");
    assert_encoded("!*'();:@&=$,?#[]", false, "%21%2A%27%28%29%3B%3A%40%26%3D%24%2C%3F%23%5B%5D");
}

static void test_percent_decode(void **state) {
    CLEANUP_BUF struct buf b = {0};
    assert_true(percent_decode(&b, slice_str("a%2fB%2F+%00z")));
    assert_true(slice_equal(buf_slice(&b), slice_of("a/B/+\0z", 7)));
    static const char *const bad[] = {"%", "a%", "%2", "%2g", "%g2", "%%41", "% 1", "abc%f"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        buf_clear(&b);
        assert_false(percent_decode(&b, slice_str(bad[i])));
    }
}

static void test_percent_all_bytes(void **state) {
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
    }
    CLEANUP_BUF struct buf text = {0}, back = {0};
    percent_encode(&text, slice_of(bytes, 256), false);
    assert_int_equal(text.size, 66 + 190 * 3); /* RFC 3986 has 66 unreserved characters */
    assert_true(percent_decode(&back, buf_slice(&text)));
    assert_true(slice_equal(buf_slice(&back), slice_of(bytes, 256)));
}

static void test_utf8(void **state) {
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "na\xc3\xafve \xf0\x9f\x8c\xbe"};
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(utf8_valid(slice_str(good[i])));
    }
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe1\x80",
                                      "\xe1\x80\x41",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "a\xfe",
                                      "\xf0\x90\x80"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(utf8_valid(slice_str(bad[i])));
    }
    assert_true(utf8_valid(slice_of("a\0b", 3)));
}

/* ---- times ---- */

static const struct {
    int64_t ms;
    const char *iso8601, *http, *amz;
} times[] = {
    {INT64_C(250), "1970-01-01T00:00:00.250Z", "Thu, 01 Jan 1970 00:00:00 GMT", "19700101T000000Z"},
    {INT64_C(-999), "1969-12-31T23:59:59.001Z", "Wed, 31 Dec 1969 23:59:59 GMT",
     "19691231T235959Z"},
    {INT64_C(784111777001), "1994-11-06T08:49:37.001Z", "Sun, 06 Nov 1994 08:49:37 GMT",
     "19941106T084937Z"},
    {INT64_C(951825600999), "2000-02-29T12:00:00.999Z", "Tue, 29 Feb 2000 12:00:00 GMT",
     "20000229T120000Z"},
    {INT64_C(951868800999), "2000-03-01T00:00:00.999Z", "Wed, 01 Mar 2000 00:00:00 GMT",
     "20000301T000000Z"},
    {INT64_C(946684799999), "1999-12-31T23:59:59.999Z", "Fri, 31 Dec 1999 23:59:59 GMT",
     "19991231T235959Z"},
    {INT64_C(1796119200000), "2026-12-01T10:00:00.000Z", "Tue, 01 Dec 2026 10:00:00 GMT",
     "20261201T100000Z"},
    {INT64_C(2147483648001), "2038-01-19T03:14:08.001Z", "Tue, 19 Jan 2038 03:14:08 GMT",
     "20380119T031408Z"},
    {INT64_C(-2203891200001), "1900-02-28T23:59:59.999Z", "Wed, 28 Feb 1900 23:59:59 GMT",
     "19000228T235959Z"},
    {INT64_C(-2203891199001), "1900-03-01T00:00:00.999Z", "Thu, 01 Mar 1900 00:00:00 GMT",
     "19000301T000000Z"},
    {INT64_C(4107542399250), "2100-02-28T23:59:59.250Z", "Sun, 28 Feb 2100 23:59:59 GMT",
     "21000228T235959Z"},
    {INT64_C(4107542400001), "2100-03-01T00:00:00.001Z", "Mon, 01 Mar 2100 00:00:00 GMT",
     "21000301T000000Z"},
    {INT64_C(-62135596799001), "0001-01-01T00:00:00.999Z", "Mon, 01 Jan 0001 00:00:00 GMT",
     "00010101T000000Z"},
    {INT64_C(253402300799250), "9999-12-31T23:59:59.250Z", "Fri, 31 Dec 9999 23:59:59 GMT",
     "99991231T235959Z"},
    {INT64_C(1709251199999), "2024-02-29T23:59:59.999Z", "Thu, 29 Feb 2024 23:59:59 GMT",
     "20240229T235959Z"},
    {INT64_C(-11670998399750), "1600-02-29T00:00:00.250Z", "Tue, 29 Feb 1600 00:00:00 GMT",
     "16000229T000000Z"},
    {INT64_C(105280200184999), "5306-03-13T20:03:04.999Z", "Sat, 13 Mar 5306 20:03:04 GMT",
     "53060313T200304Z"},
    {INT64_C(214906500238001), "8780-02-12T18:03:58.001Z", "Tue, 12 Feb 8780 18:03:58 GMT",
     "87800212T180358Z"},
    {INT64_C(200205138446001), "8314-04-02T02:27:26.001Z", "Thu, 02 Apr 8314 02:27:26 GMT",
     "83140402T022726Z"},
    {INT64_C(-26026468377000), "1145-04-03T17:27:03.000Z", "Tue, 03 Apr 1145 17:27:03 GMT",
     "11450403T172703Z"},
    {INT64_C(230211405637001), "9265-02-08T20:40:37.001Z", "Sun, 08 Feb 9265 20:40:37 GMT",
     "92650208T204037Z"},
    {INT64_C(-30143275005999), "1014-10-19T12:03:14.001Z", "Wed, 19 Oct 1014 12:03:14 GMT",
     "10141019T120314Z"},
    {INT64_C(-38034301293999), "0764-09-28T04:18:26.001Z", "Mon, 28 Sep 0764 04:18:26 GMT",
     "07640928T041826Z"},
    {INT64_C(12454798775001), "2364-09-04T18:19:35.001Z", "Fri, 04 Sep 2364 18:19:35 GMT",
     "23640904T181935Z"},
    {INT64_C(31308835212000), "2962-02-19T18:40:12.000Z", "Fri, 19 Feb 2962 18:40:12 GMT",
     "29620219T184012Z"},
    {INT64_C(130397551476999), "6102-02-18T22:04:36.999Z", "Sat, 18 Feb 6102 22:04:36 GMT",
     "61020218T220436Z"},
    {INT64_C(-31311821785999), "0977-10-07T15:43:34.001Z", "Tue, 07 Oct 0977 15:43:34 GMT",
     "09771007T154334Z"},
    {INT64_C(158935114769250), "7006-06-15T18:59:29.250Z", "Sun, 15 Jun 7006 18:59:29 GMT",
     "70060615T185929Z"},
    {INT64_C(124818731089250), "5925-05-08T05:44:49.250Z", "Fri, 08 May 5925 05:44:49 GMT",
     "59250508T054449Z"},
    {INT64_C(64064856811000), "4000-02-19T09:33:31.000Z", "Sat, 19 Feb 4000 09:33:31 GMT",
     "40000219T093331Z"},
    {INT64_C(115465513084001), "5628-12-15T09:38:04.001Z", "Fri, 15 Dec 5628 09:38:04 GMT",
     "56281215T093804Z"},
    {INT64_C(-1082398298001), "1935-09-14T05:48:21.999Z", "Sat, 14 Sep 1935 05:48:21 GMT",
     "19350914T054821Z"},
    {INT64_C(16460674924250), "2491-08-14T01:42:04.250Z", "Tue, 14 Aug 2491 01:42:04 GMT",
     "24910814T014204Z"},
    {INT64_C(226415384504250), "9144-10-26T10:21:44.250Z", "Thu, 26 Oct 9144 10:21:44 GMT",
     "91441026T102144Z"},
    {INT64_C(118931568689001), "5738-10-16T18:51:29.001Z", "Thu, 16 Oct 5738 18:51:29 GMT",
     "57381016T185129Z"},
    {INT64_C(-26599133718000), "1127-02-09T15:44:42.000Z", "Wed, 09 Feb 1127 15:44:42 GMT",
     "11270209T154442Z"},
    {INT64_C(-28556934018001), "1065-01-24T22:19:41.999Z", "Tue, 24 Jan 1065 22:19:41 GMT",
     "10650124T221941Z"},
    {INT64_C(236705725125999), "9470-11-27T14:18:45.999Z", "Sun, 27 Nov 9470 14:18:45 GMT",
     "94701127T141845Z"},
    {INT64_C(137331505762999), "6321-11-12T00:29:22.999Z", "Sat, 12 Nov 6321 00:29:22 GMT",
     "63211112T002922Z"},
    {INT64_C(24764540593999), "2754-10-04T15:03:13.999Z", "Mon, 04 Oct 2754 15:03:13 GMT",
     "27541004T150313Z"},
};

static void test_times(void **state) {
    for (size_t i = 0; i < COUNT(times); i++) {
        char text[TIME_TEXT_SIZE];
        int64_t ms, second = times[i].ms - ((times[i].ms % 1000) + 1000) % 1000;
        time_format_iso8601(times[i].ms, text);
        assert_string_equal(text, times[i].iso8601);
        assert_true(time_parse_iso8601(slice_str(text), &ms));
        assert_true(ms == times[i].ms);
        time_format_http(times[i].ms, text);
        assert_string_equal(text, times[i].http);
        assert_true(time_parse_http(slice_str(text), &ms));
        assert_true(ms == second);
        time_format_amz(times[i].ms, text);
        assert_string_equal(text, times[i].amz);
        assert_true(time_parse_amz(slice_str(text), &ms));
        assert_true(ms == second);
    }
}

/* Every day from 1896 to 2104, counted one by one as the calendar on the wall does. */
static void test_every_day(void **state) {
    static const int days_in_month[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t ms = INT64_C(-2335219200000); /* 1896-01-01T00:00:00Z */
    for (int year = 1896; year <= 2104; year++) {
        for (int month = 1; month <= 12; month++) {
            bool leap = month == 2 && year % 4 == 0 && year != 1900 && year != 2100;
            for (int day = 1; day <= days_in_month[month - 1] + leap; day++) {
                char expected[TIME_TEXT_SIZE], text[TIME_TEXT_SIZE];
                snprintf(expected, sizeof(expected), "%04d%02d%02dT000000Z", year, month, day);
                time_format_amz(ms, text);
                assert_string_equal(text, expected);
                int64_t back;
                assert_true(time_parse_amz(slice_str(text), &back));
                assert_true(back == ms);
                ms += 86400000;
            }
        }
    }
}

static void test_time_extremes(void **state) {
    char text[TIME_TEXT_SIZE];
    time_format_iso8601(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    time_format_http(INT64_MIN, text);
    assert_string_equal(text, "Mon, 01 Jan 0001 00:00:00 GMT");
}

static const struct {
    const char *text;
    int64_t ms;
} http_forms[] = {
    {"Sun, 06 Nov 1994 08:49:37 GMT", INT64_C(784111777000)},
    {"Sunday, 06-Nov-94 08:49:37 GMT", INT64_C(784111777000)},
    {"Sun Nov  6 08:49:37 1994", INT64_C(784111777000)},
    {"Sun, 06 Nov 1994 08:49:37 +0000", INT64_C(784111777000)},
    {"Sun, 06 Nov 1994 08:49:37 -0000", INT64_C(784111777000)},
    {"Sun, 06 Nov 1994 08:49:37 UTC", INT64_C(784111777000)},
    {"Sun, 06 Nov 1994 09:49:37 +0100", INT64_C(784111777000)},
    {"Sun, 06 Nov 1994 03:19:37 -0530", INT64_C(784111777000)},
    {"Tue Nov 16 08:49:37 2010", INT64_C(1289897377000)},
    {"Tuesday, 01-Dec-26 10:00:00 GMT", INT64_C(1796119200000)},
    {"Sat, 31 Dec 2016 23:59:60 GMT", INT64_C(1483228800000)},
};

static const char *const http_bad[] = {
    "",
    "Sun",
    "Sun, 06 Nov 1994 08:49:37",
    "Sun, 06 Nov 1994 08:49:37 ",
    "Sun, 06 Nov 1994 08:49:37 GMT ",
    " Sun, 06 Nov 1994 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT",
    "Sun, 06 nov 1994 08:49:37 GMT",
    "Sun, 31 Nov 1994 08:49:37 GMT",
    "Tue, 29 Feb 2100 08:49:37 GMT",
    "Sun, 00 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 0000 08:49:37 GMT",
    "Sun, 06 Nov 1994 24:00:00 GMT",
    "Sun, 06 Nov 1994 08:60:37 GMT",
    "Sun, 06 Nov 1994 08:49:61 GMT",
    "Sun, 06 Nov 1994 08:49:37 PST",
    "Sun, 06 Nov 1994 08:49:37 +2400",
    "Sun, 06 Nov 1994 08:49:37 +01:00",
    "Sun, 06 Nov 94 08:49:37 GMT",
    "Sun, -6 Nov 1994 08:49:37 GMT",
    "Xyz, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-1994 08:49:37 GMT",
    "Sun Nov 6 08:49:37 1994",
    "Sun Nov  6 08:49:37 1994 GMT",
    "Sun Nov 06 08:49:37 94",
};

static void test_http_time_forms(void **state) {
    int64_t ms;
    for (size_t i = 0; i < COUNT(http_forms); i++) {
        assert_true(time_parse_http(slice_str(http_forms[i].text), &ms));
        assert_true(ms == http_forms[i].ms);
    }
    for (size_t i = 0; i < COUNT(http_bad); i++) {
        assert_false(time_parse_http(slice_str(http_bad[i]), &ms));
    }
    /* Every truncation of a good one is bad. */
    struct slice good = slice_str(http_forms[0].text);
    for (size_t size = 0; size < good.size; size++) {
        assert_false(time_parse_http(slice_take(good, size), &ms));
    }
}

static void test_iso8601_forms(void **state) {
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"2026-12-01T10:00:00Z", INT64_C(1796119200000)},
        {"2026-12-01T10:00:00.5Z", INT64_C(1796119200500)},
        {"2026-12-01T10:00:00.123456789Z", INT64_C(1796119200123)},
        {"2026-12-01T11:30:00+01:30", INT64_C(1796119200000)},
        {"2026-12-01T02:00:00.001-08:00", INT64_C(1796119200001)},
        {"1969-12-31T23:59:59.999Z", -1},
    };
    static const char *const bad[] = {
        "",
        "2026-12-01",
        "2026-12-01T10:00:00",
        "2026-12-01 10:00:00Z",
        "2026-12-01t10:00:00z",
        "2026-12-01T10:00Z",
        "2026-12-01T10:00:00.Z",
        "2026-12-01T10:00:00.1234567890Z",
        "2026-12-01T10:00:00,5Z",
        "2026-13-01T10:00:00Z",
        "2026-00-01T10:00:00Z",
        "2026-02-29T10:00:00Z",
        "2026-12-01T25:00:00Z",
        "2026-12-01T10:00:00+24:00",
        "2026-12-01T10:00:00+01:60",
        "2026-12-01T10:00:00+0100",
        "2026-12-01T10:00:00+01",
        "2026-12-01T10:00:00Zz",
        "+026-12-01T10:00:00Z",
        "0000-12-01T10:00:00Z",
        "12026-12-01T10:00:00Z",
    };
    int64_t ms;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(time_parse_iso8601(slice_str(good[i].text), &ms));
        assert_true(ms == good[i].ms);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(time_parse_iso8601(slice_str(bad[i]), &ms));
    }
}

static void test_amz_malformed(void **state) {
    static const char *const bad[] = {"",
                                      "20261201",
                                      "20261201T100000",
                                      "20261201T100000z",
                                      "20261201 100000Z",
                                      "20261301T100000Z",
                                      "20260230T100000Z",
                                      "20261201T240000Z",
                                      "2026121T100000Z",
                                      "20261201T100000ZZ",
                                      "2026-12-01T10:00:00Z",
                                      "2026 201T100000Z"};
    int64_t ms;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(time_parse_amz(slice_str(bad[i]), &ms));
    }
}

/* ---- numbers ---- */

static void test_u64(void **state) {
    uint64_t v = 1;
    assert_true(parse_u64(slice_str("0"), 0, &v) && v == 0);
    assert_true(parse_u64(slice_str("18446744073709551615"), UINT64_MAX, &v) && v == UINT64_MAX);
    assert_true(parse_u64(slice_str("007"), 10, &v) && v == 7);
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x1",
                                      "1a",
                                      "11",
                                      "1.0",
                                      "١",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(parse_u64(slice_str(bad[i]), 10, &v));
        assert_int_equal(v, 7);
    }
    assert_false(parse_u64(slice_str("18446744073709551616"), UINT64_MAX, &v));
}

static void test_bytes(void **state) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"64", 64},
        {"64B", 64},
        {"1k", 1000},
        {"10G", 10000000000},
        {"1TiB", 1ull << 40},
        {"1tib", 1ull << 40},
        {"500MB", 500000000},
        {"4Mi", 4 << 20},
        {"1.5 GiB", 1610612736},
        {"0.001K", 1},
        {"0.1KiB", 102},
        {"8P", 8000000000000000},
        {"8191PiB", 8191ull << 50},
        {"0.000000001G", 1},
    };
    static const char *const bad[] = {"",
                                      "G",
                                      "-1G",
                                      "1.G",
                                      ".5G",
                                      "1,5G",
                                      "1.5",
                                      "1.5B",
                                      "1Gib5",
                                      "1 G ",
                                      "1E",
                                      "1iB",
                                      "1GG",
                                      "1Gbit",
                                      "1.2.3G",
                                      "8192PiB",
                                      "10000P",
                                      "1 0G",
                                      "1\tG",
                                      "1.0000000001G",
                                      "9223372036854775808",
                                      "99999999999999999999"};
    uint64_t v = 77;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(parse_bytes(slice_str(good[i].text), &v));
        assert_true(v == good[i].bytes);
    }
    v = 77;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(parse_bytes(slice_str(bad[i]), &v));
        assert_int_equal(v, 77);
    }
}

static void test_durations(void **state) {
    uint64_t v;
    assert_true(parse_duration(slice_str("30s"), &v) && v == 30);
    assert_true(parse_duration(slice_str("15m"), &v) && v == 900);
    assert_true(parse_duration(slice_str("1h"), &v) && v == 3600);
    assert_true(parse_duration(slice_str("7d"), &v) && v == 604800);
    assert_true(parse_duration(slice_str("2w"), &v) && v == 1209600);
    assert_true(parse_duration(slice_str("0s"), &v) && v == 0);
    static const char *const bad[] = {"",     "s",  "30",  "30 s",       "-1s",
                                      "1.5h", "1y", "1ms", "4294967296w"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(parse_duration(slice_str(bad[i]), &v));
    }
}

static void test_format_bytes(void **state) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {{0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.0 KiB"},
                {1536, "1.5 KiB"},
                {1048575, "1.0 MiB"},
                {1610612736, "1.5 GiB"},
                {1ull << 40, "1.0 TiB"},
                {UINT64_MAX, "16.0 EiB"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[32];
        format_bytes(rows[i].bytes, text);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_base64_vectors),
        cmocka_unit_test(test_base64_round_trip),
        cmocka_unit_test(test_base64_malformed),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_percent_decode),
        cmocka_unit_test(test_percent_all_bytes),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_every_day),
        cmocka_unit_test(test_time_extremes),
        cmocka_unit_test(test_http_time_forms),
        cmocka_unit_test(test_iso8601_forms),
        cmocka_unit_test(test_amz_malformed),
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_format_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
