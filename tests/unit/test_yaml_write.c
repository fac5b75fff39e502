#include "core/yaml_write.h"

#include "core/json_text.h"
#include "core/yaml_value.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *json;
    const char *yaml;
};

static json_t *parse(const char *json)
{
    json_t *value = NULL;
    struct error error = {0};

    cr_assert(json_text_read(json, strlen(json), JSON_TEXT_DEPTH_MAX, &value, &error) == STATUS_OK,
              "%s: %s", json, error.message);
    return value;
}

/* Writes, and requires that reading gives the same again; freed by the caller. */
static char *write_mapping(const json_t *mapping, const char *name)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *again = NULL;
    struct error error = {0};
    bool has_duplicate = false;

    yaml_write_mapping(&text, mapping);
    cr_assert(text_ok(&text));
    cr_assert(yaml_value_read(text.bytes, text.size, &again, &has_duplicate, &error) == STATUS_OK,
              "%s: %s\n%s", name, error.message, text.bytes);
    cr_expect(json_equal(mapping, again), "%s reads back otherwise:\n%s", name, text.bytes);
    cr_expect(!has_duplicate, "%s", name);
    return text_take(&text, NULL);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_JSON json_t *mapping = parse(rows[i].json);
        AUTO_FREE char *yaml = write_mapping(mapping, rows[i].json);
        cr_expect(strcmp(yaml, rows[i].yaml) == 0, "%s gave\n%s", rows[i].json, yaml);
    }
}

#define CHECK_ROWS(...)                                                                            \
    do {                                                                                           \
        const struct row rows_[] = {__VA_ARGS__};                                                  \
        check_rows(rows_, ARRAY_SIZE(rows_));                                                      \
    } while (0)

/* A text as the value of the key `k`, both ways. */
static void check_text(const char *json, const char *spelt)
{
    char mapping[400];
    char yaml[400];

    (void) snprintf(mapping, sizeof mapping, "{\"k\":%s}", json);
    (void) snprintf(yaml, sizeof yaml, "k: %s\n", spelt);
    CHECK_ROWS({mapping, yaml});
}

Test(yaml_write, text_that_nothing_else_can_be_taken_for_stays_plain)
{
    static const char *const texts[] = {
        "a",           "a b",
        "two  blanks", "a:b",
        "a#b",         "it's",
        "a, b",        "--",
        "-a",          "y",
        "0o17",        "1e3",
        "2026-1-1",    "-.5",
        "_1",          "08",
        "?a",          "back\\\\slash",
        "half'",       "a\\\"b",
        "\xc3\xa9",    "\xf0\x9f\x98\x80",
        "<<<",         "==",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        char json[60];
        AUTO_JSON json_t *value = NULL;
        (void) snprintf(json, sizeof json, "\"%s\"", texts[i]);
        value = parse(json);
        check_text(json, json_string_value(value));
    }
}

Test(yaml_write, text_that_would_be_another_type_is_quoted)
{
    static const char *const texts[] = {
        "",
        " ",
        "yes",
        "No",
        "ON",
        "off",
        "true",
        "FALSE",
        "~",
        "null",
        "Null",
        "0",
        "007",
        "0x1F",
        "0b101",
        "1_000",
        "1:30",
        "-1",
        "+1",
        "1.",
        ".5",
        "1.0e+3",
        ".inf",
        "-.INF",
        ".NaN",
        "2026-01-01",
        "2026-01-01 10:00:00",
        "2026-01-01T10:00:00Z",
        "=",
        "<<",
        "190:20:30.15",
        "- a",
        "-",
        "? a",
        "?",
        ": a",
        "a: b",
        "a:",
        "#a",
        "a #b",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "[a",
        "]",
        "{a",
        "}",
        ",a",
        "---",
        "...",
        "--- a",
        " a",
        "a ",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        char json[60];
        char spelt[60];
        (void) snprintf(json, sizeof json, "\"%s\"", texts[i]);
        (void) snprintf(spelt, sizeof spelt, "'%s'", texts[i]);
        check_text(json, spelt);
    }
    check_text("\"'a'\"", "'''a'''");
    check_text("\"\\\"a\"", "'\"a'");
}

Test(yaml_write, several_lines_stay_off_the_margin)
{
    check_text("\"a\\nb\"", "'a\n\n  b'");
    check_text("\"a\\n---\\nb\"", "'a\n\n  ---\n\n  b'");
    check_text("\"\\n...\"", "'\n\n  ...'");
    check_text("\"a\\n\"", "'a\n\n  '");
    check_text("\"a \\nb\"", "\"a \\nb\"");
    check_text("\"a\\n b\"", "\"a\\n b\"");
    CHECK_ROWS({"{\"a\\nb\":1}", "? 'a\n\n  b'\n: 1\n"},
               {"{\"a\":{\"---\":{\"b\":\"x\\n---\"}}}",
                "a:\n  '---':\n    b: 'x\n\n      ---'\n"});
}

Test(yaml_write, what_lines_and_loaders_cannot_hold_is_escaped)
{
    check_text("\"tab\\there\"", "\"tab\\there\"");
    check_text("\"\\u0000\\u0007\\u0008\\u000b\\u000c\\r\\u001b\\u001c\\u007f\\u009f\"",
               "\"\\0\\a\\b\\v\\f\\r\\e\\x1C\\x7F\\x9F\"");
    check_text("\"a\\u0085\\u2028\\u2029\"", "\"a\\N\\L\\P\"");
    check_text("\"\\ufeff\\\"\\\\\\ufffe\\udbff\\udfff\"", "\"\\uFEFF\\\"\\\\\\uFFFE\\U0010FFFF\"");
    check_text("\"\\ufdd0\\u0007\"", "\"\xef\xb7\x90\\a\"");
    check_text("\"\\ufdd10041\"", "\xef\xb7\x91"
                                  "0041");
}

Test(yaml_write, halves_of_surrogate_pairs_are_escaped)
{
    check_text("\"party \\ud83d\"", "\"party \\uD83D\"");
    check_text("\"\\udfff\\ud800\"", "\"\\uDFFF\\uD800\"");
    check_text("\"\\\\ud83d \\ud83d\"", "\"\\\\ud83d \\uD83D\"");
    CHECK_ROWS({"{\"\\ud83d\\u0000\":1}", "\"\\uD83D\\0\": 1\n"});
}

Test(yaml_write, keys_are_quoted_as_values_are)
{
    CHECK_ROWS({"{\"<<\":1,\"=\":2,\"yes\":3,\"a: b\":4,\"\":5,\"k\":6}",
                "'<<': 1\n'=': 2\n'yes': 3\n'a: b': 4\n? ''\n: 5\nk: 6\n"});
}

Test(yaml_write, long_keys_are_announced)
{
    char json[200];
    char yaml[200];
    char key[124];

    memset(key, 'x', sizeof key);
    (void) snprintf(json, sizeof json, "{\"%.122s\":1}", key);
    (void) snprintf(yaml, sizeof yaml, "%.122s: 1\n", key);
    CHECK_ROWS({json, yaml});
    (void) snprintf(json, sizeof json, "{\"%.123s\":1}", key);
    (void) snprintf(yaml, sizeof yaml, "? %.123s\n: 1\n", key);
    CHECK_ROWS({json, yaml});
}

Test(yaml_write, numbers_are_spelt_as_the_peers_spell_them)
{
    CHECK_ROWS({"{\"a\":1.0}", "a: 1.0\n"}, {"{\"a\":1e-9}", "a: 1.0e-09\n"},
               {"{\"a\":1e16}", "a: 1.0e+16\n"}, {"{\"a\":1.5e300}", "a: 1.5e+300\n"},
               {"{\"a\":5e-324}", "a: 5.0e-324\n"},
               {"{\"a\":0.30000000000000004}", "a: 0.30000000000000004\n"},
               {"{\"a\":-0.0}", "a: -0.0\n"},
               {"{\"a\":[NaN,Infinity,-Infinity]}", "a:\n- .nan\n- .inf\n- -.inf\n"},
               {"{\"a\":-9223372036854775808}", "a: -9223372036854775808\n"},
               {"{\"a\":123456789012345678901234567890}", "a: 123456789012345678901234567890\n"},
               {"{\"a\":[null,true,false]}", "a:\n- null\n- true\n- false\n"});
}

Test(yaml_write, collections_are_laid_out_in_blocks)
{
    CHECK_ROWS({"{}", "{}\n"}, {"{\"a\":[],\"b\":{}}", "a: []\nb: {}\n"},
               {"{\"a\":[1,[2,[3],[]],{\"b\":[4],\"c\":{\"d\":5}},{}]}",
                "a:\n- 1\n- - 2\n  - - 3\n  - []\n- b:\n  - 4\n  c:\n    d: 5\n- {}\n"},
               {"{\"a\\nb\":[1],\"c\\nd\":{\"e\":1}}",
                "? 'a\n\n  b'\n: - 1\n? 'c\n\n  d'\n: e: 1\n"});
}

Test(yaml_write, disguises_become_what_they_stand_for)
{
    CHECK_ROWS({"{\"a\":{\"$date\":\"2026-02-10\"}}", "a: 2026-02-10\n"},
               {"{\"a\":{\"$datetime\":\"2026-02-10T09:30:00.500000+02:00\"}}",
                "a: 2026-02-10 09:30:00.500000+02:00\n"},
               {"{\"a\":{\"$binary\":\"AAEC\"}}", "a: !!binary |\n  AAEC\n"},
               {"{\"a\":{\"$binary\":\"\"}}", "a: !!binary \"\"\n"},
               {"{\"a\":{\"$set\":[1,\"yes\",null]}}", "a: !!set\n  1: null\n  'yes': null\n"
                                                       "  null: null\n"},
               {"{\"a\":[{\"$set\":[]}]}", "a:\n- !!set {}\n"},
               {"{\"a\":{\"$pairs\":[[1,\"x\"],[\"k\",[]],[{\"$date\":\"2026-02-10\"},null]]}}",
                "a:\n  1: x\n  k: []\n  2026-02-10: null\n"});
}

Test(yaml_write, what_only_looks_like_a_disguise_is_a_mapping)
{
    CHECK_ROWS({"{\"a\":{\"$date\":\"soon\"}}", "a:\n  $date: soon\n"},
               {"{\"a\":{\"$date\":\"2026-02-30\"}}", "a:\n  $date: '2026-02-30'\n"},
               {"{\"a\":{\"$datetime\":\"2026-02-10\"}}", "a:\n  $datetime: '2026-02-10'\n"},
               {"{\"a\":{\"$float\":\"5\"}}", "a:\n  $float: '5'\n"},
               {"{\"a\":{\"$binary\":\"A\"}}", "a:\n  $binary: A\n"},
               {"{\"a\":{\"$set\":[[1]]}}", "a:\n  $set:\n  - - 1\n"},
               {"{\"a\":{\"$set\":[],\"b\":1}}", "a:\n  $set: []\n  b: 1\n"},
               {"{\"a\":{\"$set\":[1,true]}}", "a:\n  $set:\n  - 1\n  - true\n"},
               {"{\"a\":{\"$pairs\":[[1,2],[1.0,3]]}}",
                "a:\n  $pairs:\n  - - 1\n    - 2\n  - - 1.0\n    - 3\n"},
               {"{\"a\":{\"$pairs\":[]}}", "a:\n  $pairs: []\n"},
               {"{\"a\":{\"$pairs\":[[\"k\",1]]}}", "a:\n  $pairs:\n  - - k\n    - 1\n"},
               {"{\"a\":{\"$pairs\":[[[1],1]]}}", "a:\n  $pairs:\n  - - - 1\n    - 1\n"},
               {"{\"a\":{\"$pairs\":[[1,2]],\"b\":1}}",
                "a:\n  $pairs:\n  - - 1\n    - 2\n  b: 1\n"},
               {"{\"a\":1,\"$pairs\":[[\"k\",1]]}", "a: 1\n$pairs:\n- - k\n  - 1\n"});
}

Test(yaml_write, members_with_other_keys_stand_beside_those_with_text)
{
    AUTO_JSON json_t *mapping = parse("{\"a\":1,\"$pairs\":[[5,\"x\"],[true,[2]]],\"b\":2}");
    AUTO_TEXT struct text text = {0};

    yaml_write_mapping(&text, mapping);
    cr_expect(strcmp(text_string(&text), "a: 1\n5: x\ntrue:\n- 2\nb: 2\n") == 0, "%s",
              text_string(&text));
}

#define ACCENTS "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
#define FIVE ACCENTS " " ACCENTS " " ACCENTS " " ACCENTS " " ACCENTS " "

/* Texts of many equal words, and where the peers end the lines. */
Test(yaml_write, long_lines_are_folded_where_the_peers_fold_them)
{
    static const struct {
        const char *first;
        const char *word;
        int count;
        const char *end;
        const char *yaml;
    } cases[] = {
        {"", "word ", 17, "word",
         "word word word word word word word word word word word word word word word word\n"
         "  word word"},
        {"", ACCENTS " ", 16, "z", FIVE FIVE FIVE ACCENTS "\n  z"},
        {"", "it's: ", 12, "it's: end",
         "'it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s:\n"
         "  it''s: end'"},
        {"", "it's: ", 13, "",
         "'it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s:\n"
         "  it''s: '"},
        {"", "it's: ", 12, "",
         "'it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: it''s: '"},
        {"\\t", "word ", 17, "word",
         "\"\\tword word word word word word word word word word word word word word word word\\\n"
         "  \\ word word\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text json = {0};
        AUTO_TEXT struct text yaml = {0};
        text_append_format(&json, "{\"a\":\"%s", cases[i].first);
        for (int count = 0; count < cases[i].count; count++)
            text_append_string(&json, cases[i].word);
        text_append_format(&json, "%s\"}", cases[i].end);
        text_append_format(&yaml, "a: %s\n", cases[i].yaml);
        CHECK_ROWS({json.bytes, yaml.bytes});
    }
}

Test(yaml_write, marks_that_disguise_nothing_are_characters)
{
    AUTO_JSON json_t *mapping =
        json_pack("{s:s, s:s}", "a", "\xef\xb7\x91zz", "b", "x\xef\xb7\x91");
    AUTO_TEXT struct text text = {0};

    yaml_write_mapping(&text, mapping);
    cr_expect(strcmp(text.bytes, "a: \xef\xb7\x91zz\nb: x\xef\xb7\x91\n") == 0, "%s", text.bytes);
}

/* Each line of the text gets the indentation of its place. */
Test(yaml_write, stops_where_nobody_reads_on)
{
    AUTO_TEXT struct text lines = {0};
    AUTO_TEXT struct text text = {0};

    for (int i = 0; i < 1 << 20; i++)
        text_append_string(&lines, "\nx");
    AUTO_JSON json_t *mapping = json_pack("{s:o}", "k", json_stringn(lines.bytes, lines.size));
    for (int i = 0; i < 400; i++)
        mapping = json_pack("{s:o}", "k", mapping);
    yaml_write_mapping(&text, mapping);
    cr_expect(text_ok(&text));
    cr_expect(text.size > YAML_WRITE_BYTES_MAX && text.size < YAML_WRITE_BYTES_MAX + 100, "%zu",
              text.size);
}

Test(yaml_write, appends_to_what_is_there)
{
    AUTO_JSON json_t *mapping = parse("{\"a\":1}");
    AUTO_TEXT struct text text = {0};

    text_append_string(&text, "---\n");
    yaml_write_mapping(&text, mapping);
    cr_expect(strcmp(text.bytes, "---\na: 1\n") == 0, "%s", text.bytes);
}

Test(yaml_write, every_character_comes_back)
{
    for (uint32_t first = 0; first <= 0x10ffff; first += 0x100) {
        AUTO_TEXT struct text json = {0};
        char name[16];

        text_append_string(&json, "{\"k\":[");
        for (uint32_t i = first; i < first + 0x100; i++) {
            if (i < 0x10000)
                text_append_format(&json, "%s\"x\\u%04xy\"", i > first ? "," : "", i);
            else
                text_append_format(&json, "%s\"x\\u%04x\\u%04xy\"", i > first ? "," : "",
                                   0xd7c0 + (i >> 10), 0xdc00 | (i & 0x3ff));
        }
        text_append_string(&json, "]}");
        AUTO_JSON json_t *mapping = parse(json.bytes);
        (void) snprintf(name, sizeof name, "U+%04x", first);
        AUTO_FREE char *yaml = write_mapping(mapping, name);
        cr_expect(yaml != NULL);
    }
}
