#include "core/text_trim.h"

#include "core/compiler.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint32_t spaces[] = {
    0x09,   0x0a,   0x0b,   0x0c,   0x0d,   0x1c,   0x1d,   0x1e,   0x1f,   0x20,
    0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
    0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
};

static bool is_listed(uint32_t code_point)
{
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        if (spaces[i] == code_point)
            return true;
    }
    return false;
}

Test(text_trim, every_character_is_known_as_what_it_is)
{
    for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++)
        cr_assert_eq(text_is_space(code_point), is_listed(code_point), "U+%04X", code_point);
}

Test(text_trim, each_of_them_goes_from_both_ends_only)
{
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        char space[4];
        size_t length = text_encode(spaces[i], space);
        AUTO_TEXT struct text text = {0};

        text_append(&text, space, length);
        text_append(&text, space, length);
        text_append_string(&text, "a");
        text_append(&text, space, length);
        text_append_string(&text, "\xc3\xa9");
        text_append(&text, space, length);

        const char *bytes = text.bytes;
        size_t size = text.size;
        text_trim(&bytes, &size);
        cr_expect_eq(bytes, text.bytes + 2 * length, "U+%04X", spaces[i]);
        cr_expect_eq(size, 3 + length, "U+%04X", spaces[i]);
    }
}

static void expect_trimmed(const char *given, size_t given_size, const char *expected,
                           size_t expected_size)
{
    const char *bytes = given;
    size_t size = given_size;

    text_trim(&bytes, &size);
    cr_expect_eq(size, expected_size, "\"%s\": %zu", given, size);
    cr_expect(size == expected_size && memcmp(bytes, expected, size) == 0, "\"%s\"", given);
}

Test(text_trim, what_is_no_white_space_stays)
{
    expect_trimmed("", 0, "", 0);
    expect_trimmed(" \n\xe3\x80\x80", 5, "", 0);
    expect_trimmed(" \0 ", 3, "\0", 1);
    expect_trimmed("\xe2\x80\x8bx\xef\xbb\xbf", 7, "\xe2\x80\x8bx\xef\xbb\xbf", 7);
    expect_trimmed(" \x1b ", 3, "\x1b", 1);
}

Test(text_trim, malformed_bytes_are_kept)
{
    expect_trimmed("a \x80", 3, "a \x80", 3);
    expect_trimmed(" \xe2\x80 ", 4, "\xe2\x80", 2);
    expect_trimmed("\x80", 1, "\x80", 1);
}
