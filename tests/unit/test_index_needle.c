/* core/index_needle.h: what is found in a document, by whichever way it is looked for. */
#include "core/index_needle.h"

#include "core/analyzer.h"
#include "core/json_text.h"
#include "core/text.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <string.h>

TestSuite(index_needle, .timeout = 60);

static void make_document(const char *content, struct text *ret)
{
    AUTO_JSON json_t *fact =
        json_pack("{s:s, s:s, s:s}", "id", "needle", "content", content, "category", "haystack");

    cr_assert(fact != NULL);
    json_text_write(ret, fact);
    cr_assert(text_ok(ret));
}

static bool find(const char *text, const char *content)
{
    AUTO_NEEDLE struct needle *needle = NULL;
    AUTO_TEXT struct text document = {0};
    bool found = true;

    make_document(content, &document);
    cr_assert(needle_create(text, strlen(text), &needle) == STATUS_OK);
    cr_assert(needle_find(needle, text_string(&document), document.size, &found) == SQLITE_OK);
    return found;
}

Test(index_needle, case_does_not_matter_in_any_script)
{
    const struct {
        const char *text, *content;
        bool found;
    } rows[] = {
        {"green tea", "Drinks GREEN tea.", true},
        {"  green\n", "evergreen", true},
        {"greens", "evergreen", false},
        {"needle", "the id is another member", false},
        {"haystack", "so is the category", false},
        {"绿茶", "喜欢绿茶", true},
        {"红茶", "喜欢绿茶", false},
        {"tea", "喜欢 TEA", true},
        {"绿茶", "green tea", false},
        {"STRASSE", "in der Stra\u00dfe", true},
        {"stra\u00dfe", "STRASSE", true}, /* folds to ASCII */
        {"kelvin", "10 \u212aelvin", true},
        {"\u03a3\u03b1", "\u03c3\u0391", true},
        {"say \"no\"", "they Say \"No\" often", true},
        {"a\\b", "C:\\A\\B", true},
        {"one\ntwo", "One\nTwo", true},
        {"u000a", "one\ntwo", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        cr_expect(find(rows[i].text, rows[i].content) == rows[i].found, "row %zu: %s in %s", i,
                  rows[i].text, rows[i].content);
}

Test(index_needle, nothing_but_blanks_is_empty)
{
    AUTO_NEEDLE struct needle *needle = NULL;

    cr_assert(needle_create(" \t\n", 3, &needle) == STATUS_OK);
    cr_expect(needle_is_empty(needle));
}

Test(index_needle, what_is_no_document_is_told)
{
    static const char broken[] = "{\"id\":\"x\",\"content\":\"\\u00e4 cut";
    AUTO_NEEDLE struct needle *needle = NULL;
    bool found = true;

    cr_assert(needle_create("x", 1, &needle) == STATUS_OK);
    cr_expect(needle_find(needle, broken, sizeof broken - 1, &found) == SQLITE_CORRUPT);
}

/* The plain way: fold all, then look. */
static bool find_plainly(const char *text, const char *content)
{
    AUTO_FREE char *folded_text = NULL;
    AUTO_FREE char *folded_content = NULL;
    size_t text_size, content_size;

    cr_assert(analyzer_fold(text, strlen(text), &folded_text, &text_size) == STATUS_OK);
    cr_assert(analyzer_fold(content, strlen(content), &folded_content, &content_size) == STATUS_OK);
    return memmem(folded_content, content_size, folded_text, text_size) != NULL;
}

static void draw(unsigned *seed, unsigned parts, struct text *ret)
{
    static const char *const alphabet[] = {"a", "A",  "s", "S",      "k",      "i",      "\"", "\\",
                                           "n", "\n", "/", "\u00df", "\u017f", "\u212a", "茶", "u"};

    while (parts-- > 0) {
        *seed = *seed * 1103515245u + 12345u;
        text_append_string(ret, alphabet[(*seed >> 16) % ARRAY_SIZE(alphabet)]);
    }
}

Test(index_needle, short_cuts_find_what_the_plain_way_finds)
{
    unsigned seed = 1;
    unsigned found = 0;

    for (unsigned i = 0; i < 20000; i++) {
        AUTO_TEXT struct text text = {0};
        AUTO_TEXT struct text content = {0};
        text_append_char(&text, 'x'); /* no blanks at the ends, which would be stripped */
        draw(&seed, i % 3, &text);
        text_append_char(&text, 'x');
        text_append_char(&content, 'x');
        draw(&seed, i % 7, &content);
        text_append_string(&content, "xX");
        bool wanted = find_plainly(text_string(&text), text_string(&content));
        cr_assert(find(text_string(&text), text_string(&content)) == wanted, "%s in %s",
                  text_string(&text), text_string(&content));
        found += wanted;
    }
    cr_expect(found > 500 && found < 19500);
}
