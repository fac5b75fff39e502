#include "core/yaml_value.h"

#include "core/clock.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* U+FDD0 before a big integer, U+FDD1 before a disguised character. */
#define BIG "\xef\xb7\x90"
#define DISGUISE "\xef\xb7\x91"

#define BOMB_SECONDS_MAX 0.5

struct row {
    const char *yaml;
    const char *json; /* NULL: refused */
};

/* The value as JSON, or NULL when it is refused; freed by the caller. */
static char *read_as_json(const char *yaml, size_t size, struct error *error)
{
    AUTO_JSON json_t *value = NULL;
    enum status status = yaml_value_read(yaml, size, &value, NULL, error);

    if (status != STATUS_OK) {
        cr_expect(status == STATUS_CORRUPT && error->message[0], "%s", yaml);
        cr_expect(!value, "the output is written on success only");
        return NULL;
    }
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct error error = {0};
        AUTO_FREE char *json = read_as_json(rows[i].yaml, strlen(rows[i].yaml), &error);
        if (!rows[i].json)
            cr_expect(!json, "row %zu: %s gave %s", i, rows[i].yaml, json);
        else
            cr_expect(json && strcmp(json, rows[i].json) == 0, "row %zu: %s gave %s %s", i,
                      rows[i].yaml, json ? json : "", error.message);
    }
}

#define CHECK_ROWS(...)                                                                            \
    do {                                                                                           \
        const struct row rows_[] = {__VA_ARGS__};                                                  \
        check_rows(rows_, ARRAY_SIZE(rows_));                                                      \
    } while (0)

Test(yaml_value, words_are_typed_as_yaml_1_1_does)
{
    CHECK_ROWS({"Yes", "true"}, {"oFF", "\"oFF\""}, {"off", "false"}, {"y", "\"y\""},
               {"NULL", "null"}, {"~", "null"}, {"", "null"}, {"nULL", "\"nULL\""},
               {"'on'", "\"on\""}, {"On", "true"}, {"FALSE", "false"});
}

Test(yaml_value, integers_have_four_bases_and_sixty)
{
    CHECK_ROWS({"017", "15"}, {"08", "\"08\""}, {"0o17", "\"0o17\""}, {"0xfF", "255"},
               {"-0b101", "-5"}, {"1_0_0", "100"}, {"_1", "\"_1\""}, {"+7", "7"}, {"-0", "0"},
               {"2:05", "125"}, {"-2:05", "-125"}, {"2:65", "\"2:65\""}, {"1:1:1", "3661"},
               {"0_", "0"}, {"0x", "\"0x\""}, {"0x_", NULL}, {"0b_", NULL}, {"12e3", "\"12e3\""},
               {"1:5:x", "\"1:5:x\""}, {"0:10", "\"0:10\""});
}

Test(yaml_value, integers_beyond_64_bits_keep_their_digits)
{
    CHECK_ROWS({"9223372036854775807", "9223372036854775807"},
               {"9223372036854775808", "\"" BIG "9223372036854775808\""},
               {"-9223372036854775808", "-9223372036854775808"},
               {"-9223372036854775809", "\"" BIG "-9223372036854775809\""},
               {"0x10000000000000000", "\"" BIG "18446744073709551616\""},
               {"100000000000000000000000000000", "\"" BIG "100000000000000000000000000000\""},
               {"1:00:00:00:00:00:00:00:00:00:00:00", "\"" BIG "36279705600000000000\""});
}

Test(yaml_value, floats_need_a_dot_and_a_signed_exponent)
{
    CHECK_ROWS({"2.5", "2.5"}, {"2.", "2.0"}, {".5", "0.5"}, {"-.5", "\"-.5\""}, {"1e3", "\"1e3\""},
               {"1.0e3", "\"1.0e3\""}, {"1.0e+3", "1000.0"}, {"1_0.5_0", "10.5"},
               {"1:30.5", "90.5"}, {"-1:30.", "-90.0"}, {"-1:.5", "\"-1:.5\""},
               {"1.2.3", "\"1.2.3\""}, {"0.1", "0.10000000000000001"});
}

Test(yaml_value, floats_that_json_lacks_are_told_by_a_marker)
{
    CHECK_ROWS({".inf", "{\"$float\":\"inf\"}"}, {"-.INF", "{\"$float\":\"-inf\"}"},
               {".NaN", "{\"$float\":\"nan\"}"}, {".nAn", "\".nAn\""},
               {"1.0e+999", "{\"$float\":\"inf\"}"});
}

Test(yaml_value, dates_become_markers_and_impossible_ones_are_refused)
{
    CHECK_ROWS(
        {"2027-03-04", "{\"$date\":\"2027-03-04\"}"}, {"2027-3-4", "\"2027-3-4\""},
        {"2027-3-4 1:02:03", "{\"$datetime\":\"2027-03-04T01:02:03\"}"},
        {"2027-03-04T01:02:03Z", "{\"$datetime\":\"2027-03-04T01:02:03+00:00\"}"},
        {"2027-03-04t01:02:03.1234567 -5", "{\"$datetime\":\"2027-03-04T01:02:03.123456-05:00\"}"},
        {"2027-03-04 01:02:03.5 +05:45", "{\"$datetime\":\"2027-03-04T01:02:03.500000+05:45\"}"},
        {"2028-02-29", "{\"$date\":\"2028-02-29\"}"}, {"2027-02-29", NULL}, {"2027-13-01", NULL},
        {"0000-01-01", NULL}, {"2027-01-01T24:00:00", NULL}, {"2027-01-01T00:60:00", NULL},
        {"2027-01-01T00:00:60", NULL}, {"2027-01-01T00:00:00+24:00", NULL},
        {"!!timestamp 2027-3-4", "{\"$date\":\"2027-03-04\"}"}, {"!!timestamp soon", NULL});
}

Test(yaml_value, known_tags_convert_and_others_are_refused)
{
    CHECK_ROWS({"!!str 5", "\"5\""}, {"!!int '5'", "5"}, {"!!int five", NULL}, {"!!int ''", NULL},
               {"!!int '09'", NULL}, {"!!float 5", "5.0"}, {"!!float '1e2'", "100.0"},
               {"!!float five", NULL}, {"!!float '0x10'", NULL}, {"!!float ''", NULL},
               {"!!bool 'oN'", "true"}, {"!!bool y", NULL}, {"!!null x", "null"}, {"! 5", "5"},
               {"! '5'", "5"}, {"!", "null"}, {"!own x", NULL}, {"!!python/name:os.system", NULL},
               {"!<tag:yaml.org,2002:int> '7'", "7"}, {"!!map {}", "{}"}, {"!!map []", NULL},
               {"!!seq {}", NULL}, {"!!seq x", NULL}, {"!!str [a]", NULL}, {"!!value x", NULL});
}

Test(yaml_value, binary_is_decoded_leniently)
{
    CHECK_ROWS({"!!binary aGk=", "{\"$binary\":\"aGk=\"}"},
               {"!!binary 'a*G-k='", "{\"$binary\":\"aGk=\"}"},
               {"!!binary aGk=aGk=", "{\"$binary\":\"aGk=\"}"},
               {"!!binary '***'", "{\"$binary\":\"\"}"}, {"!!binary aGk", NULL},
               {"!!binary a", NULL}, {"!!binary \xc3\xa9", NULL});
}

Test(yaml_value, sets_and_ordered_maps_become_lists)
{
    CHECK_ROWS({"!!set {b, a, b}", "{\"$set\":[\"b\",\"a\"]}"},
               {"!!set {1, true, 1.0}", "{\"$set\":[1]}"}, {"!!set [a]", NULL},
               {"!!set {[a]}", NULL}, {"!!omap [k: 1, j: 2]", "[[\"k\",1],[\"j\",2]]"},
               {"!!pairs [k: 1, k: 2]", "[[\"k\",1],[\"k\",2]]"}, {"!!omap [{k: 1, j: 2}]", NULL},
               {"!!omap [{}]", NULL}, {"!!pairs [x]", NULL}, {"!!omap {}", NULL});
}

Test(yaml_value, the_last_of_equal_keys_counts_at_the_place_of_the_first)
{
    const struct {
        const char *yaml, *json;
        bool duplicate;
    } cases[] = {
        {"{a: 1, b: 2, a: 3}", "{\"a\":3,\"b\":2}", true},
        {"{a: 1, 'a': 3}", "{\"a\":3}", true},
        {"{a: {b: 1, b: 2}}", "{\"a\":{\"b\":2}}", true},
        {"{1: a, 2: b, 1: c}", "{\"$pairs\":[[1,\"c\"],[2,\"b\"]]}", true},
        {"{a: 1, A: 2}", "{\"a\":1,\"A\":2}", false},
        {"{<<: {a: 1}, a: 2}", "{\"a\":2}", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_JSON json_t *value = NULL;
        bool duplicate = false;
        cr_assert(yaml_value_read(cases[i].yaml, strlen(cases[i].yaml), &value, &duplicate, NULL) ==
                  STATUS_OK);
        AUTO_FREE char *json = json_dumps(value, JSON_COMPACT);
        cr_expect(strcmp(json, cases[i].json) == 0, "row %zu: %s", i, json);
        cr_expect(duplicate == cases[i].duplicate, "row %zu", i);
    }
}

Test(yaml_value, keys_that_are_no_text_are_told_as_pairs)
{
    CHECK_ROWS({"{1: a, true: b, 1.0: c}", "{\"$pairs\":[[1,\"c\"]]}"},
               {"{0: a, -0.0: b, false: c}", "{\"$pairs\":[[0,\"c\"]]}"},
               {"{1: a, '1': b}", "{\"$pairs\":[[1,\"a\"],[\"1\",\"b\"]]}"},
               {"{null: a, ~: b}", "{\"$pairs\":[[null,\"b\"]]}"},
               {"{1.5: a, 1.50: b}", "{\"$pairs\":[[1.5,\"b\"]]}"},
               {"{2027-01-01: a}", "{\"$pairs\":[[{\"$date\":\"2027-01-01\"},\"a\"]]}"},
               {"{2027-01-01T01:00:00+01:00: a, 2027-01-01T00:00:00Z: b, 2027-01-01 00:00:00: c}",
                "{\"$pairs\":[[{\"$datetime\":\"2027-01-01T01:00:00+01:00\"},\"b\"],"
                "[{\"$datetime\":\"2027-01-01T00:00:00\"},\"c\"]]}"},
               {"{!!binary aGk=: a, ? !!binary 'aG k=' : b}",
                "{\"$pairs\":[[{\"$binary\":\"aGk=\"},\"b\"]]}"},
               {"{99999999999999999999: a}",
                "{\"$pairs\":[[\"" BIG "99999999999999999999\",\"a\"]]}"},
               {"{9007199254740993: a, 9007199254740992.0: b}",
                "{\"$pairs\":[[9007199254740993,\"a\"],[9007199254740992.0,\"b\"]]}"});
}

Test(yaml_value, collections_as_keys_are_refused)
{
    CHECK_ROWS({"? [a]\n: b", NULL}, {"? {a: 1}\n: b", NULL}, {"? !!set {a}\n: b", NULL},
               {"? !!omap []\n: b", NULL}, {"[a]: b", NULL});
}

Test(yaml_value, an_equals_sign_is_text_only_as_a_key)
{
    CHECK_ROWS({"=", NULL}, {"a: =", NULL}, {"[=]", NULL}, {"a: '='", "{\"a\":\"=\"}"},
               {"=: a", "{\"=\":\"a\"}"}, {"a: ==", "{\"a\":\"==\"}"});
}

Test(yaml_value, merge_keys_bring_what_is_not_there)
{
    CHECK_ROWS({"{<<: {a: 1, b: 2}, b: 3}", "{\"a\":1,\"b\":3}"},
               {"{b: 3, <<: {a: 1, b: 2}}", "{\"a\":1,\"b\":3}"},
               {"{<<: [{a: 1}, {a: 2, b: 3}], c: 4}", "{\"a\":1,\"b\":3,\"c\":4}"},
               {"x: &x {a: 1}\ny: &y {<<: *x, b: 2}\nz: {<<: *y}",
                "{\"x\":{\"a\":1},\"y\":{\"a\":1,\"b\":2},\"z\":{\"a\":1,\"b\":2}}"},
               {"{<<: {1: a}, b: c}", "{\"$pairs\":[[1,\"a\"],[\"b\",\"c\"]]}"}, {"{<<: x}", NULL},
               {"{<<: [x]}", NULL}, {"{<<: }", NULL}, {"a: <<", NULL},
               {"'<<': x", "{\"<<\":\"x\"}"}, {"{<<: [], a: 1}", "{\"a\":1}"});
}

Test(yaml_value, aliases_repeat_what_they_name)
{
    CHECK_ROWS({"[&a [x], *a, *a]", "[[\"x\"],[\"x\"],[\"x\"]]"}, {"[&a 1, *a]", "[1,1]"},
               {"[*a]", NULL}, {"&a [*a]", NULL}, {"&a {b: *a}", NULL}, {"&a {b: [*a]}", NULL},
               {"[&a 1, &a 2]", NULL});
}

Test(yaml_value, only_one_document_is_taken)
{
    CHECK_ROWS({"--- a", "\"a\""}, {"%YAML 1.1\n---\na", "\"a\""}, {"a\n...\n", "\"a\""},
               {"a\n---\nb", NULL}, {"# nothing\n", "null"}, {"---\n---\n", NULL});
}

Test(yaml_value, text_keeps_every_character)
{
    CHECK_ROWS({"\"a\\0b\"", "\"a\\u0000b\""}, {"{\"a\\0b\": 1}", "{\"a" DISGUISE "0000b\":1}"},
               {"\xef\xb7\x90x", "\"" DISGUISE "fdd0x\""},
               {"{\xef\xb7\x91: \xef\xb7\x91}", "{\"" DISGUISE "fdd1\":\"" DISGUISE "fdd1\"}"},
               {"\"\\N\\L\\_\"", "\"\xc2\x85\xe2\x80\xa8\xc2\xa0\""},
               {"\xf0\x9f\xa6\x8a", "\"\xf0\x9f\xa6\x8a\""}, {"\x7f", NULL}, {"a\x01", NULL});
}

Test(yaml_value, escapes_of_surrogates_are_taken_where_they_are_escapes)
{
    CHECK_ROWS({"\"x\\uD83Dy\"", "\"x" DISGUISE "d83dy\""},
               {"\"\\ud83e\\udd8a\"", "\"" DISGUISE "d83e" DISGUISE "dd8a\""},
               {"{\"\\udfff\": 1}", "{\"" DISGUISE "dfff\":1}"}, {"'\\ud83d'", "\"\\\\ud83d\""},
               {"\\ud83d", "\"\\\\ud83d\""}, {"\"\\\\ud83d\"", "\"\\\\ud83d\""},
               {"\"\\ud83d \\uF8D0 \xef\xa3\x91 f8d2\"",
                "\"" DISGUISE "d83d \xef\xa3\x90 \xef\xa3\x91 f8d2\""},
               {"\"\\ud83\"", NULL});
}

Test(yaml_value, messages_name_the_line)
{
    const struct {
        const char *yaml, *start;
    } cases[] = {
        {"a: 1\nb: [1\nc: 2\n", "line 3: "}, {"a: 1\n\tb: 2\n", "line 2: "},
        {"a: 1\n\nb: =\n", "line 3: "},      {"a: !own 1\n", "line 1: "},
        {"a: 1\nb: *c\n", "line 2: "},       {"a: 1\n? [b]\n: c\n", "line 2: "},
        {"a: 2027-99-01", "line 1: "},       {"a: 1\n--- \nb: 1\n", "line 2: "},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error error = {0};
        AUTO_FREE char *json = read_as_json(cases[i].yaml, strlen(cases[i].yaml), &error);
        cr_expect(!json, "row %zu", i);
        cr_expect(strncmp(error.message, cases[i].start, strlen(cases[i].start)) == 0,
                  "row %zu: %s", i, error.message);
    }
}

Test(yaml_value, a_key_may_be_told_twice_without_anybody_asking)
{
    AUTO_JSON json_t *value = NULL;

    cr_expect(yaml_value_read("{a: 1, a: 2}", 12, &value, NULL, NULL) == STATUS_OK);
}

static double seconds_since(uint64_t start_ns)
{
    return (double) (clock_monotonic_ns() - start_ns) / (double) NS_PER_SECOND;
}

/* Refuses `yaml` and does so quickly. */
static void check_bomb(const struct text *yaml, const char *word)
{
    struct error error = {0};
    uint64_t start_ns = clock_monotonic_ns();

    cr_assert(text_ok(yaml));
    AUTO_FREE char *json = read_as_json(yaml->bytes, yaml->size, &error);
    cr_expect(!json);
    cr_expect(strstr(error.message, word), "%s", error.message);
    cr_expect(seconds_since(start_ns) < BOMB_SECONDS_MAX, "%g s", seconds_since(start_ns));
}

Test(yaml_value, what_expands_without_measure_is_refused_at_once)
{
    AUTO_TEXT struct text lists = {0};
    AUTO_TEXT struct text merges = {0};

    text_append_string(&lists, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    text_append_string(&merges, "a0: &a0 {k: v, l: w}\n");
    for (int i = 1; i < 40; i++) {
        text_append_format(&lists, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1,
                           i - 1, i - 1);
        text_append_format(&merges, "a%d: &a%d {<<: [*a%d, *a%d, *a%d, *a%d]}\n", i, i, i - 1,
                           i - 1, i - 1, i - 1);
    }
    check_bomb(&lists, "aliases");
    check_bomb(&merges, "aliases");
}

Test(yaml_value, nesting_ends_at_the_limit)
{
    AUTO_TEXT struct text deep = {0};
    AUTO_TEXT struct text aliased = {0};
    AUTO_JSON json_t *value = NULL;

    for (int i = 0; i < YAML_VALUE_DEPTH_MAX - 1; i++)
        text_append_char(&deep, '[');
    text_append_char(&deep, 'x');
    for (int i = 0; i < YAML_VALUE_DEPTH_MAX - 1; i++)
        text_append_char(&deep, ']');
    cr_expect(yaml_value_read(deep.bytes, deep.size, &value, NULL, NULL) == STATUS_OK);

    text_clear(&deep);
    for (int i = 0; i < 100000; i++)
        text_append_char(&deep, '[');
    check_bomb(&deep, "deeper");

    text_append_string(&aliased, "a0: &a0 x\n");
    for (int i = 1; i < YAML_VALUE_DEPTH_MAX; i++)
        text_append_format(&aliased, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    check_bomb(&aliased, "deeper");
}

Test(yaml_value, too_many_values_are_refused)
{
    AUTO_TEXT struct text list = {0};
    AUTO_JSON json_t *value = NULL;

    for (int i = 0; i < YAML_VALUE_NODES_MAX - 1; i++)
        text_append_string(&list, "- x\n");
    cr_expect(yaml_value_read(list.bytes, list.size, &value, NULL, NULL) == STATUS_OK);
    text_append_string(&list, "- x\n");
    check_bomb(&list, "more than");
}

Test(yaml_value, integers_of_thousands_of_digits_are_bounded)
{
    AUTO_TEXT struct text digits = {0};
    AUTO_TEXT struct text list = {0};
    AUTO_JSON json_t *value = NULL;
    uint64_t start_ns = clock_monotonic_ns();

    for (int i = 0; i < 4300; i++)
        text_append_char(&digits, '7');
    cr_assert(yaml_value_read(digits.bytes, digits.size, &value, NULL, NULL) == STATUS_OK);
    cr_expect(json_string_length(value) == strlen(BIG) + 4300);

    for (int i = 0; i < 900; i++)
        text_append_format(&list, "- 0x%.4200s\n", digits.bytes);
    json_decref(value);
    value = NULL;
    cr_assert(yaml_value_read(list.bytes, list.size, &value, NULL, NULL) == STATUS_OK);
    cr_expect(seconds_since(start_ns) < 10, "%g s", seconds_since(start_ns));

    text_append_char(&digits, '7');
    check_bomb(&digits, "int");
}
