#include "core/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(text, an_empty_one_is_a_string)
{
    AUTO_TEXT struct text text = {0};
    size_t size = 1;

    cr_expect_str_eq(text_string(&text), "");
    cr_expect(text_ok(&text));
    AUTO_FREE char *bytes = text_take(&text, &size);
    cr_expect_str_eq(bytes, "");
    cr_expect_eq(size, 0);
}

Test(text, grows_and_stays_terminated)
{
    AUTO_TEXT struct text text = {0};

    for (size_t i = 0; i < 5000; i++) {
        text_append_char(&text, 'x');
        cr_assert_eq(strlen(text_string(&text)), i + 1);
        cr_assert_lt(text.size, text.capacity);
    }
    text_append(&text, "a\0b", 3);
    text_append(&text, NULL, 0);
    text_append_string(&text, "");
    cr_expect_eq(text.size, 5003);
    cr_expect_eq(memcmp(text.bytes + 5000, "a\0b", 4), 0);
}

Test(text, numbers_have_the_decimals_that_they_need)
{
    const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {0.5, "0.5"},
        {-2.25, "-2.25"},
        {100, "100"},
        {0.05, "0.05"},
        {0.000000001, "0.000000001"},
        {0.0000000001, "0"},
        {-0.0000000001, "0"},
        {3.14159265358979, "3.141592654"},
        {0.9999999999, "1"},
        {999999999.75, "999999999.75"},
        {1e9, "1e+09"},
        {-2.5e300, "-2.5e+300"},
        {NAN, "0"},
        {-INFINITY, "0"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_TEXT struct text text = {0};
        text_append_decimal(&text, rows[i].value);
        cr_expect_str_eq(text_string(&text), rows[i].text, "row %zu: %s", i, text_string(&text));
    }
}

Test(text, formats_of_any_length_fit)
{
    AUTO_TEXT struct text text = {0};

    text_append_format(&text, "%s", "");
    cr_expect_str_eq(text_string(&text), "");
    text_append_format(&text, "%d-%s;", 7, "seven");
    text_append_format(&text, "%*s", 10000, "end");
    cr_expect_eq(text.size, 8 + 10000);
    cr_expect_eq(strncmp(text.bytes, "7-seven;   ", 11), 0);
    cr_expect_str_eq(text.bytes + 8 + 9997, "end");
}

Test(text, a_failed_one_stays_failed_until_it_is_cleared)
{
    AUTO_TEXT struct text text = {0};
    AUTO_TEXT struct text copy = {0};

    text_append_string(&text, "kept");
    text_reserve(&text, SIZE_MAX / 2);
    cr_expect_not(text_ok(&text));
    text_append_string(&text, "more");
    text_append_format(&text, "%d", 1);
    cr_expect_str_eq(text_string(&text), "kept");
    text_clear(&text);
    cr_expect(text_ok(&text));
    cr_expect_str_eq(text_string(&text), "");
    copy.failed = true;
    cr_expect_null(text_take(&copy, NULL));
}

Test(text, taking_hands_the_bytes_over)
{
    AUTO_TEXT struct text text = {0};
    size_t size = 0;

    text_append_string(&text, "abc");
    AUTO_FREE char *bytes = text_take(&text, &size);
    cr_expect_str_eq(bytes, "abc");
    cr_expect_eq(size, 3);
    cr_expect_null(text.bytes);
    text_append_string(&text, "again");
    cr_expect_str_eq(text_string(&text), "again");
}

Test(text, clearing_keeps_the_memory)
{
    AUTO_TEXT struct text text = {0};

    text_clear(&text);
    text_append_string(&text, "abc");
    const char *bytes = text.bytes;
    text_clear(&text);
    cr_expect_str_eq(text_string(&text), "");
    text_append_string(&text, "de");
    cr_expect_eq(text.bytes, bytes);
}

static const struct {
    const char *bytes;
    size_t size;
    uint32_t code_point; /* 0xfffd: malformed */
} characters[] = {
    {"a", 1, 'a'},
    {"\x7f", 1, 0x7f},
    {"\xc2\x80", 2, 0x80},
    {"\xdf\xbf", 2, 0x7ff},
    {"\xe0\xa0\x80", 3, 0x800},
    {"\xed\x9f\xbf", 3, 0xd7ff},
    {"\xee\x80\x80", 3, 0xe000},
    {"\xef\xbf\xbf", 3, 0xffff},
    {"\xf0\x90\x80\x80", 4, 0x10000},
    {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
    {"\x80", 1, 0xfffd},             /* a continuation alone */
    {"\xc0\x80", 2, 0xfffd},         /* two bytes for NUL */
    {"\xc1\xbf", 2, 0xfffd},         /* overlong */
    {"\xe0\x9f\xbf", 3, 0xfffd},     /* overlong */
    {"\xed\xa0\x80", 3, 0xfffd},     /* a surrogate */
    {"\xf0\x8f\xbf\xbf", 4, 0xfffd}, /* overlong */
    {"\xf4\x90\x80\x80", 4, 0xfffd}, /* beyond Unicode */
    {"\xf5\x80\x80\x80", 4, 0xfffd},
    {"\xff", 1, 0xfffd},
    {"\xc3", 1, 0xfffd}, /* cut off */
    {"\xe2\x82", 2, 0xfffd},
    {"\xf0\x9f\x98", 3, 0xfffd},
    {"\xe2\x28\xa1", 3, 0xfffd},
    {"\xe2\x82\x28", 3, 0xfffd},
};

Test(text, utf8_is_checked_and_decoded_by_the_standards_table)
{
    for (size_t i = 0; i < ARRAY_SIZE(characters); i++) {
        bool proper = characters[i].code_point != 0xfffd;
        size_t length = 0;
        cr_expect_eq(text_is_utf8(characters[i].bytes, characters[i].size), proper, "row %zu", i);
        cr_expect_eq(text_decode(characters[i].bytes, characters[i].size, &length),
                     characters[i].code_point, "row %zu", i);
        cr_expect_eq(length, proper ? characters[i].size : 1, "row %zu", i);
    }
    cr_expect(text_is_utf8("", 0));
    cr_expect(text_is_utf8("a\0b", 3));
    cr_expect_not(text_is_utf8("a\xff"
                               "b",
                               3));
}

Test(text, encoding_is_the_way_back)
{
    for (size_t i = 0; i < ARRAY_SIZE(characters); i++) {
        char bytes[4];
        if (characters[i].code_point == 0xfffd)
            continue;
        size_t length = text_encode(characters[i].code_point, bytes);
        cr_expect_eq(length, characters[i].size, "row %zu", i);
        cr_expect_eq(memcmp(bytes, characters[i].bytes, length), 0, "row %zu", i);
    }
}

Test(text, a_cut_falls_between_characters)
{
    static const char bytes[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 2 3 4 1 */
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};

    for (size_t limit = 0; limit < ARRAY_SIZE(cuts); limit++)
        cr_expect_eq(text_cut(bytes, strlen(bytes), limit), cuts[limit], "limit %zu", limit);
}
