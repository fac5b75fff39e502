#include "core/json_text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

static char *plain(const char *text)
{
    return (char *) (uintptr_t) text;
}

/* A text and its length, so that NUL may be inside. */
#define TEXT(literal) literal, sizeof(literal) - 1

#define FDD0 "\xef\xb7\x90"
#define FDD1 "\xef\xb7\x91"

static char *rewritten(const char *bytes, size_t size)
{
    AUTO_JSON json_t *value = NULL;
    struct text text = {0};
    struct error error = {0};

    if (json_text_read(bytes, size, JSON_TEXT_DEPTH_MAX, &value, &error) != STATUS_OK)
        return strdup(error.message);
    json_text_write(&text, value);
    return text_take(&text, NULL);
}

static void check_rewritten(size_t row, const char *bytes, size_t size, const char *expected)
{
    AUTO_FREE char *text = rewritten(bytes, size);

    cr_expect(eq(str, text, plain(expected)), "row %zu", row);
}

Test(json_text, reads_and_writes_what_the_peers_take)
{
    const struct {
        const char *bytes;
        size_t size;
        const char *expected;
    } cases[] = {
        {TEXT("{}"), "{}"},
        {TEXT(" \t\r\n[ 1 , \"a\" , null,true ,false ] \n"), "[1,\"a\",null,true,false]"},
        {TEXT("{\"b\":1,\"a\":{\"\":[]}}"), "{\"b\":1,\"a\":{\"\":[]}}"},
        {TEXT("-0"), "0"},
        {TEXT("-0.0"), "-0.0"},
        {TEXT("9223372036854775807"), "9223372036854775807"},
        {TEXT("-9223372036854775808"), "-9223372036854775808"},
        {TEXT("9223372036854775808"), "9223372036854775808"},
        {TEXT("[-123456789012345678901234567890]"), "[-123456789012345678901234567890]"},
        {TEXT("[NaN,Infinity,-Infinity]"),
         "[{\"$float\":\"nan\"},{\"$float\":\"inf\"},{\"$float\":\"-inf\"}]"},
        {TEXT("[1e999,-1E+999,1e-999]"), "[{\"$float\":\"inf\"},{\"$float\":\"-inf\"},0.0]"},
        {TEXT("{\"a\":1,\"b\":2,\"a\":3}"), "{\"a\":3,\"b\":2}"},
        {TEXT("\"\\ud83d\""), "\"\\ud83d\""},
        {TEXT("\"\\uD83D\\uDE00\""), "\"\xf0\x9f\x98\x80\""},
        {TEXT("\"\\ud83d\\ud83d\\ude00\\ude00\""), "\"\\ud83d\xf0\x9f\x98\x80\\ude00\""},
        {TEXT("{\"x\\ud800\":1,\"x\\u0000\":2,\"x\":3}"),
         "{\"x\\ud800\":1,\"x\\u0000\":2,\"x\":3}"},
        {TEXT("\"a\\u0000b\""), "\"a\\u0000b\""},
        {TEXT("\"\\ufdd012\""), "\"" FDD0 "12\""},
        {TEXT("\"" FDD0 "12\""), "\"" FDD0 "12\""},
        {TEXT("{\"" FDD1 "d83d\":\"" FDD1 "d83d\"}"), "{\"" FDD1 "d83d\":\"" FDD1 "d83d\"}"},
        {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\""),
         "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\""},
        {TEXT("\"\xf4\x8f\xbf\xbf\""), "\"\xf4\x8f\xbf\xbf\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_rewritten(i, cases[i].bytes, cases[i].size, cases[i].expected);
}

Test(json_text, refuses_what_the_peers_refuse_and_says_where)
{
    const struct {
        const char *bytes;
        size_t size;
        const char *expected;
    } cases[] = {
        {TEXT(""), "line 1 column 1: the text is empty"},
        {TEXT(" \n "), "line 2 column 2: the text ends too early"},
        {TEXT("\xef\xbb\xbf{}"), "line 1 column 1: a value is missing"},
        {TEXT("{}x"), "line 1 column 3: something follows the value"},
        {TEXT("1\0"), "line 1 column 2: something follows the value"},
        {TEXT("[1,]"), "line 1 column 4: a value is missing"},
        {TEXT("{\"a\":1,}"), "line 1 column 8: a key in double quotes is missing"},
        {TEXT("{'a':1}"), "line 1 column 2: a key in double quotes is missing"},
        {TEXT("{\"a\" 1}"), "line 1 column 6: a colon is missing after the key"},
        {TEXT("[1 2]"), "line 1 column 4: a comma or a closing bracket is missing"},
        {TEXT("[1}"), "line 1 column 3: a comma or a closing bracket is missing"},
        {TEXT("{\"a\":1 /* x */}"), "line 1 column 8: a comma or a closing bracket is missing"},
        {TEXT("{\n \"\xc3\xa9\": \"a\nb\"}"),
         "line 2 column 9: a raw control character in a string"},
        {TEXT("\"\xc0\xb2\""), "line 1 column 2: bytes that are not UTF-8"},
        {TEXT("\"\xed\xa0\xbd\""), "line 1 column 2: bytes that are not UTF-8"},
        {TEXT("\"\\x30\""), "line 1 column 2: no such escape in a string"},
        {TEXT("\"\\u12g4\""), "line 1 column 2: \\u takes four hexadecimal digits"},
        {TEXT("\"\\ud83d\\u12\""), "line 1 column 8: \\u takes four hexadecimal digits"},
        {TEXT("{\"a\": \"abc"), "line 1 column 7: the string does not end"},
        {TEXT("\"\\"), "line 1 column 2: the string does not end"},
        {TEXT("[01]"), "line 1 column 3: a comma or a closing bracket is missing"},
        {TEXT("1."), "line 1 column 3: a digit is missing after the point"},
        {TEXT("1e+"), "line 1 column 4: a digit is missing in the exponent"},
        {TEXT("-"), "line 1 column 1: a value is missing"},
        {TEXT("+1"), "line 1 column 1: a value is missing"},
        {TEXT(".5"), "line 1 column 1: a value is missing"},
        {TEXT("nan"), "line 1 column 1: a value is missing"},
        {TEXT("True"), "line 1 column 1: a value is missing"},
        {TEXT("truex"), "line 1 column 5: something follows the value"},
        {TEXT("{\"a\""), "line 1 column 5: the text ends too early"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_rewritten(i, cases[i].bytes, cases[i].size, cases[i].expected);
}

/* Strings are passed in strides; what needs a look must be seen wherever it stands in one. */
Test(json_text, sees_every_character_of_a_long_string)
{
    for (size_t at = 1; at < 40; at++) {
        char bytes[42];
        char message[60];
        memset(bytes, 'a', sizeof bytes);
        bytes[0] = bytes[41] = '"';
        check_rewritten(at, bytes, 41, "line 1 column 1: the string does not end");

        bytes[at] = '\x1f';
        (void) snprintf(message, sizeof message,
                        "line 1 column %zu: a raw control character in a string", at + 1);
        check_rewritten(at, bytes, sizeof bytes, message);
        bytes[at] = '\x80';
        (void) snprintf(message, sizeof message, "line 1 column %zu: bytes that are not UTF-8",
                        at + 1);
        check_rewritten(at, bytes, sizeof bytes, message);
        bytes[at] = '\\';
        (void) snprintf(message, sizeof message, "line 1 column %zu: no such escape in a string",
                        at + 1);
        check_rewritten(at, bytes, sizeof bytes, message);
        bytes[at] = '"';
        (void) snprintf(message, sizeof message, "line 1 column %zu: something follows the value",
                        at + 2);
        check_rewritten(at, bytes, sizeof bytes, message);
    }
}

Test(json_text, leaves_the_path_of_the_error_alone)
{
    struct error error = {.path = "users/u/memory.json"};
    json_t *value = NULL;

    cr_assert(eq(int, json_text_read("x", 1, 10, &value, &error), STATUS_CORRUPT));
    cr_expect(eq(str, error.path, plain("users/u/memory.json")));
    cr_expect(eq(int, error.status, STATUS_CORRUPT));
    cr_expect(eq(ptr, value, NULL));
}

/* `levels` arrays around nothing, `close` of them closed. */
static enum status read_nested(size_t levels, size_t close, unsigned depth_max)
{
    AUTO_FREE char *bytes = malloc(levels + close + 1);
    AUTO_JSON json_t *value = NULL;

    cr_assert(ne(ptr, bytes, NULL));
    memset(bytes, '[', levels);
    memset(bytes + levels, ']', close);
    return json_text_read(bytes, levels + close, depth_max, &value, NULL);
}

Test(json_text, bounds_the_nesting)
{
    cr_expect(eq(int, read_nested(32, 32, 32), STATUS_OK));
    cr_expect(eq(int, read_nested(33, 33, 32), STATUS_CORRUPT));
    cr_expect(eq(int, read_nested(JSON_TEXT_DEPTH_MAX, JSON_TEXT_DEPTH_MAX, 100000), STATUS_OK));
    cr_expect(eq(int, read_nested(JSON_TEXT_DEPTH_MAX + 1, JSON_TEXT_DEPTH_MAX + 1, 100000),
                 STATUS_CORRUPT));
    cr_expect(eq(int, read_nested(100000, 0, 100000), STATUS_CORRUPT));
}

Test(json_text, bounds_the_digits_of_an_integer_as_the_peers_do)
{
    char digits[4303];
    json_t *value = NULL;

    memset(digits, '7', sizeof digits);
    digits[0] = '-';
    cr_assert(eq(int, json_text_read(digits, 4301, 1, &value, NULL), STATUS_OK));
    json_decref(value);
    cr_expect(eq(int, json_text_read(digits, 4302, 1, &value, NULL), STATUS_CORRUPT));
    cr_expect(eq(int, json_text_read(digits + 1, 4301, 1, &value, NULL), STATUS_CORRUPT));
}

Test(json_text, knows_a_long_number_beyond_a_double_without_an_exponent)
{
    char digits[402];
    json_t *value = NULL;

    memset(digits, '9', sizeof digits);
    digits[400] = '.';
    cr_assert(eq(int, json_text_read(digits, sizeof digits, 1, &value, NULL), STATUS_OK));
    cr_expect(
        eq(str, plain(json_string_value(json_object_get(value, plain("$float")))), plain("inf")));
    json_decref(value);
}

Test(json_text, writes_reals_briefly_and_as_reals)
{
    const struct {
        double value;
        const char *expected;
    } cases[] = {
        {0.8, "0.8"},
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {1000.0, "1000.0"},
        {-1234.5, "-1234.5"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e-9, "1e-09"},
        {1.5e-7, "1.5e-07"},
        {1e15, "1000000000000000.0"},
        {9007199254740993.0, "9007199254740992.0"},
        {1e16, "1e+16"},
        {1.5e300, "1.5e+300"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {0x1p-44, "5.684341886080802e-14"},
        {0x1p-140, "7.174648137343064e-43"}, /* the nearest digits do not read back, these do */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *value = json_real(cases[i].value);
        AUTO_TEXT struct text text = {0};
        json_text_write(&text, value);
        cr_expect(eq(str, text.bytes, plain(cases[i].expected)), "row %zu", i);
        cr_expect(eq(dbl, strtod(text.bytes, NULL), cases[i].value), "row %zu", i);
    }
}

Test(json_text, writes_marks_that_disguise_nothing_as_characters)
{
    static const char *const strings[] = {FDD0, FDD0 "01",  FDD0 "-",    FDD0 "1x",
                                          FDD1, FDD1 "d83", FDD1 "D83D", "x" FDD0 "1"};

    for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
        AUTO_JSON json_t *value = json_string(strings[i]);
        AUTO_TEXT struct text text = {0};
        AUTO_TEXT struct text expected = {0};
        json_text_write(&text, value);
        text_append_format(&expected, "\"%s\"", strings[i]);
        cr_expect(eq(str, text.bytes, expected.bytes), "row %zu", i);
    }
}

Test(json_text, writes_manifests_as_the_peers_lay_them_out)
{
    static const char bytes[] = "{\"a\":[],\"b\":{},\"c\":[1,{\"d\":NaN}],\"e\":-Infinity}";
    AUTO_JSON json_t *value = NULL;
    AUTO_TEXT struct text text = {0};

    cr_assert(eq(int, json_text_read(bytes, sizeof bytes - 1, 9, &value, NULL), STATUS_OK));
    json_text_write_pretty(&text, value);
    cr_expect(
        eq(str, text.bytes,
           plain("{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": NaN\n"
                 "    }\n  ],\n  \"e\": -Infinity\n}")));
}

Test(json_text, writes_a_string_literal_with_its_disguises_put_back)
{
    AUTO_TEXT struct text text = {0};

    json_text_write_string(&text, TEXT("a\"\0" FDD1 "0000" FDD1 "fdd0" FDD1 "dead\xc3\xa9"));
    cr_expect(eq(str, text.bytes, plain("\"a\\\"\\u0000\\u0000" FDD0 "\\udead\xc3\xa9\"")));
}

Test(json_text, tells_integers_and_whether_they_fit)
{
    const struct {
        const char *text;
        bool is_integer, fits;
        int64_t value;
    } cases[] = {
        {"7", true, true, 7},
        {"-9223372036854775808", true, true, INT64_MIN},
        {"9223372036854775808", true, false, 0},
        {"-9223372036854775809", true, false, 0},
        {"\"7\"", false, false, 0},
        {"7.0", false, false, 0},
        {"true", false, false, 0},
        {"NaN", false, false, 0},
        {"[7]", false, false, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *value = NULL;
        bool fits = false;
        int64_t number = 0;
        cr_assert(eq(int, json_text_read(cases[i].text, strlen(cases[i].text), 2, &value, NULL),
                     STATUS_OK));
        cr_expect(eq(int, json_text_is_integer(value, &fits, &number), cases[i].is_integer),
                  "row %zu", i);
        cr_expect(eq(int, fits, cases[i].fits), "row %zu", i);
        cr_expect(eq(i64, number, cases[i].value), "row %zu", i);
    }
}

Test(json_text, tells_where_half_of_a_surrogate_pair_is)
{
    static const struct {
        const char *json;
        bool is_unicode;
    } cases[] = {
        {"\"a\"", true},
        {"\"\\ud83d\\ude00\"", true},
        {"\"\\\\ud83d\"", true},
        {"\"\\ufdd1d83d\"", true},
        {"\"\\ufdd0\\ufdd1\"", true},
        {"\"\\ufdd1\\ud83d\"", false},
        {"\"\\ud800\"", false},
        {"\"a\\udfff b\"", false},
        {"[1,null,[{\"a\":\"b\"}],1e400]", true},
        {"[1,[{\"a\":\"\\ud800\"}]]", false},
        {"{\"a\":{\"\\udc00\":1}}", false},
        {"{\"\\u0000\":1}", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *value = NULL;
        cr_assert(json_text_read(cases[i].json, strlen(cases[i].json), 10, &value, NULL) ==
                  STATUS_OK);
        cr_expect(json_text_is_unicode(value) == cases[i].is_unicode, "%s", cases[i].json);
    }
    cr_expect(json_text_is_unicode(NULL));
}
