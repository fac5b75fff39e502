#include "core/content_key.h"

#include "core/signature.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_key(const char *content, size_t size, const char *expected, size_t expected_size)
{
    AUTO_TEXT struct text key = {0};

    cr_assert_eq(content_key_fold(content, size, &key), STATUS_OK);
    cr_expect_eq(key.size, expected_size, "\"%s\" gave %zu bytes", content, key.size);
    cr_expect(key.size == expected_size && memcmp(key.bytes, expected, expected_size) == 0,
              "\"%s\" gave \"%s\"", content, text_string(&key));
    cr_expect_eq(key.bytes[key.size], '\0');
}

static void expect_text_key(const char *content, const char *expected)
{
    expect_key(content, strlen(content), expected, strlen(expected));
}

static bool are_equal(const char *a, const char *b)
{
    bool equal = false;
    uint64_t a_hash = 0;
    uint64_t b_hash = 1;

    cr_assert_eq(content_key_equal(a, strlen(a), b, strlen(b), &equal), STATUS_OK);
    cr_assert_eq(content_key_hash(a, strlen(a), &a_hash), STATUS_OK);
    cr_assert_eq(content_key_hash(b, strlen(b), &b_hash), STATUS_OK);
    cr_expect_eq(a_hash == b_hash, equal, "\"%s\", \"%s\"", a, b);
    return equal;
}

Test(content_key, folds_case_in_full)
{
    expect_text_key("Uses VIM", "uses vim");
    expect_text_key("Stra\xc3\x9f"
                    "e",
                    "strasse");
    expect_text_key("\xe1\xba\x9e", "ss");
    expect_text_key("\xef\xac\x81", "fi");
    expect_text_key("\xce\xa3\xcf\x82", "\xcf\x83\xcf\x83");
    expect_text_key("\xc4\xb0", "i\xcc\x87");
    expect_text_key("I\xc4\xb1", "i\xc4\xb1"); /* no Turkish rules: the dotless i stays */
    expect_text_key("\xf0\x90\x90\x80", "\xf0\x90\x90\xa8");
    expect_text_key("\xe1\x8f\xb8", "\xe1\x8f\xb0"); /* Cherokee folds to its capitals */
}

Test(content_key, what_grows_most_has_room)
{
    AUTO_TEXT struct text content = {0};
    AUTO_TEXT struct text expected = {0};

    for (unsigned i = 0; i < 5000; i++) {
        text_append_string(&content, "\xce\x90");
        text_append_string(&expected, "\xce\xb9\xcc\x88\xcc\x81");
    }
    expect_text_key(content.bytes, expected.bytes);
}

Test(content_key, trims_and_keeps_all_else)
{
    expect_text_key("\t\xc2\xa0 A  b\x1f\xe3\x80\x80", "a  b");
    expect_key(" A\0B ", 5, "a\0b", 3);
    expect_text_key("", "");
    expect_text_key(" \n ", "");
}

Test(content_key, appends)
{
    AUTO_TEXT struct text key = {0};

    text_append_string(&key, "x");
    cr_assert_eq(content_key_fold("Y", 1, &key), STATUS_OK);
    cr_expect_str_eq(key.bytes, "xy");
}

Test(content_key, equal_are_those_that_fold_alike)
{
    cr_expect(are_equal("Stra\xc3\x9f"
                        "e",
                        " STRASSE\n"));
    cr_expect(are_equal("", "  "));
    cr_expect_not(are_equal("\xc4\xb0", "i"));
    cr_expect_not(are_equal("a b", "a  b"));
    cr_expect_not(are_equal("\xc3\xa9", "e\xcc\x81"));
    cr_expect_not(are_equal("a", "ab"));
}

Test(content_key, the_hash_is_of_the_key)
{
    uint64_t hash = 0;

    cr_assert_eq(content_key_hash(" Uses VIM ", 10, &hash), STATUS_OK);
    cr_expect_eq(hash, signature_digest("uses vim", 8));
    cr_assert_eq(content_key_hash(" ", 1, &hash), STATUS_OK);
    cr_expect_eq(hash, signature_digest("", 0));
}

Test(content_key, is_bounded)
{
    AUTO_TEXT struct text key = {0};
    uint64_t hash = 0;
    bool equal = false;

    cr_expect_eq(content_key_fold("", (size_t) CONTENT_KEY_BYTES_MAX + 1, &key), STATUS_TOO_LARGE);
    cr_expect_eq(content_key_hash("", (size_t) CONTENT_KEY_BYTES_MAX + 1, &hash), STATUS_TOO_LARGE);
    cr_expect_eq(content_key_equal("", 0, "", (size_t) CONTENT_KEY_BYTES_MAX + 1, &equal),
                 STATUS_TOO_LARGE);
}
