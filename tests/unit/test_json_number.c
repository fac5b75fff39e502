#include "core/json_number.h"

#include "core/json_text.h"

#include <criterion/criterion.h>
#include <string.h>

/* As JSON; the value that counts as a number by both rules, by that of text only, or by none. */
struct row {
    const char *json;
    double number;
    bool is_number;
    bool is_text;
};

static const struct row rows[] = {
    {"0", 0, true, false},
    {"-3", -3, true, false},
    {"0.25", 0.25, true, false},
    {"100000000000000000000", 1e20, true, false},
    {"-100000000000000000000", -1e20, true, false},
    {"\"7\"", 7, false, true},
    {"\" 0.85\\n\"", 0.85, false, true},
    {"\"\\u00a0-.5e+1\\u3000\"", -5, false, true},
    {"\"+5.E-1\"", 0.5, false, true},
    {"\"1_000\"", 1000, false, true},
    {"NaN", 0, false, false},
    {"Infinity", 0, false, false},
    {"1e999", 0, false, false},
    {"true", 0, false, false},
    {"false", 0, false, false},
    {"null", 0, false, false},
    {"[1]", 0, false, false},
    {"{}", 0, false, false},
    {"\"\"", 0, false, false},
    {"\".\"", 0, false, false},
    {"\"nan\"", 0, false, false},
    {"\"inf\"", 0, false, false},
    {"\"1e999\"", 0, false, false},
    {"\"0x1p3\"", 0, false, false},
    {"\"1e\"", 0, false, false},
    {"\"1 2\"", 0, false, false},
    {"\"--1\"", 0, false, false},
    {"\"_1\"", 0, false, false},
    {"\"1_\"", 0, false, false},
    {"\"1__0\"", 0, false, false},
    {"\"1_.0\"", 0, false, false},
    {"\"1\\u0000\"", 0, false, false},
};

Test(json_number, knows_numbers_and_numeric_text)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_JSON json_t *value = NULL;
        double number = 42;

        cr_assert_eq(json_text_read(rows[i].json, strlen(rows[i].json), 4, &value, NULL), STATUS_OK,
                     "%s", rows[i].json);
        cr_expect_eq(json_number_read(value, &number), rows[i].is_number, "%s", rows[i].json);
        cr_expect_eq(number, rows[i].is_number ? rows[i].number : 42, "%s", rows[i].json);

        bool counts = rows[i].is_number || rows[i].is_text;
        number = 42;
        cr_expect_eq(json_number_read_text(value, &number), counts, "%s", rows[i].json);
        cr_expect_eq(number, counts ? rows[i].number : 42, "%s", rows[i].json);
    }
}

Test(json_number, nothing_is_no_number)
{
    double number = 42;

    cr_expect_not(json_number_read(NULL, &number));
    cr_expect_not(json_number_read_text(NULL, &number));
}

Test(json_number, texts_are_bounded)
{
    char digits[302];
    double number = 42;

    memset(digits, '0', sizeof digits);
    digits[0] = '1';
    digits[1] = '.';
    AUTO_JSON json_t *fits = json_stringn(digits, 300);
    AUTO_JSON json_t *too_long = json_stringn(digits, 301);
    cr_expect(json_number_read_text(fits, &number));
    cr_expect_eq(number, 1);
    cr_expect_not(json_number_read_text(too_long, &number));
}
