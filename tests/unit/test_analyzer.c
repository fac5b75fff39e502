#include "core/analyzer.h"

#include "core/text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* Criterion's macros convert. */
#pragma GCC diagnostic ignored "-Wconversion"

static const char kind_marks[] = {
    [TOKEN_WORD] = 'w', [TOKEN_COMPOUND] = 'c', [TOKEN_CHARACTER] = 'h', [TOKEN_PAIR] = 'p'};

static enum status append(void *context, const struct token *token)
{
    struct text *text = context;

    text_append_format(text, "%s%u%c:", text->size > 0 ? " " : "", token->position,
                       kind_marks[token->kind]);
    text_append(text, token->bytes, token->size);
    return STATUS_OK;
}

/* Tokens as "position, kind, colon, bytes", separated by blanks; the caller frees. */
static char *analysed(const char *bytes, size_t size)
{
    struct text text = {0};

    cr_assert(eq(int, analyzer_run(bytes, size, append, &text), STATUS_OK));
    return text_take(&text, NULL);
}

struct row {
    const char *text;
    const char *tokens;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *tokens = analysed(rows[i].text, strlen(rows[i].text));
        cr_expect(eq(str, tokens, (char *) (uintptr_t) rows[i].tokens), "row %zu: %s", i,
                  rows[i].text);
    }
}

Test(analyzer, words_are_folded_and_counted)
{
    const struct row rows[] = {
        {"", ""},
        {"  ?! -- ", ""},
        {"Dark mode, always.", "0w:dark 1w:mode 2w:always"},
        {"R\xc3\x89SUM\xc3\x89 re\xcc\x81sume\xcc\x81", "0w:resume 1w:resume"},
        {"Stra\xc3\x9f"
         "e STRASSE",
         "0w:strasse 1w:strasse"},
        {"\xce\xa3\xce\xaf\xcf\x83\xcf\x85\xcf\x86\xce\xbf\xcf\x82", /* both small sigmas */
         "0w:\xcf\x83\xce\xb9\xcf\x83\xcf\x85\xcf\x86\xce\xbf\xcf\x83"},
        {"\xef\xbc\xa1\xef\xbc\xa2 \xc2\xb2 \xef\xac\x81x", "0w:ab 1w:2 2w:fix"}, /* NFKC */
        {"\xc4\xb0stanbul", "0w:istanbul"},
        {"co\xc2\xadoperate", "0w:cooperate"}, /* a soft hyphen */
        {"alpha\xe2\x80\x8b"
         "beta",
         "0w:alpha 1w:beta"}, /* a blank of no width */
    };

    check_rows(rows, ARRAY_SIZE(rows));
}

Test(analyzer, compounds_give_their_parts_and_the_whole)
{
    const struct row rows[] = {
        {"can't", "0w:can 0c:cant 1w:t"},
        {"l'\xc3\xa9tage", "0w:l 0c:letage 1w:etage"},
        {"l\xe2\x80\x99\xc3\xa9tage", "0w:l 0c:letage 1w:etage"}, /* the typographic apostrophe */
        {"orchid-blue-42", "0w:orchid 0c:orchidblue42 1w:blue 2w:42"},
        {"db.pool.max", "0w:db 0c:dbpoolmax 1w:pool 2w:max"},
        {"65,000", "0w:65 0c:65000 1w:000"},
        {"'simply' C++ -O2", "0w:simply 1w:c 2w:o2"},
        {"a--b a- b", "0w:a 1w:b 2w:a 3w:b"}, /* only a single joint holds */
        {"x_y@z/w#v&u+t:s", "0w:x 0c:xyzwvuts 1w:y 2w:z 3w:w 4w:v 5w:u 6w:t 7w:s"},
    };

    check_rows(rows, ARRAY_SIZE(rows));
}

Test(analyzer, runs_of_ideographs_give_characters_and_pairs)
{
    const struct row rows[] = {
        {"\xe7\x94\xa8", "0h:\xe7\x94\xa8"},
        {"\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97",
         "0h:\xe4\xb8\xad 0p:\xe4\xb8\xad\xe6\x96\x87 1h:\xe6\x96\x87 "
         "1p:\xe6\x96\x87\xe5\xad\x97 2h:\xe5\xad\x97"},
        /* a Latin word glued in ends the run on both sides */
        {"\xe7\xba\xa7nginx\xe5\x90\x8e", "0h:\xe7\xba\xa7 1w:nginx 2h:\xe5\x90\x8e"},
        {"\xe4\xb8\xad\xef\xbc\x8c\xe6\x96\x87", "0h:\xe4\xb8\xad 1h:\xe6\x96\x87"},
        /* kana (with the half-width forms and the long mark) and hangul are cut the same way */
        {"\xef\xbd\xb7\xef\xbd\xb0", "0h:\xe3\x82\xad 0p:\xe3\x82\xad\xe3\x83\xbc 1h:\xe3\x83\xbc"},
        {"\xec\xbb\xa4\xed\x94\xbc", "0h:\xec\xbb\xa4 0p:\xec\xbb\xa4\xed\x94\xbc 1h:\xed\x94\xbc"},
        /* a variation selector between two characters */
        {"\xe8\x91\x9b\xf3\xa0\x84\x80\xe5\x9f\x8e",
         "0h:\xe8\x91\x9b 0p:\xe8\x91\x9b\xe5\x9f\x8e 1h:\xe5\x9f\x8e"},
        {"\xe3\x80\x85", "0h:\xe3\x80\x85"},
    };

    check_rows(rows, ARRAY_SIZE(rows));
}

Test(analyzer, emoji_are_tokens_and_scripts_keep_their_vowels)
{
    const struct row rows[] = {
        {"go \xf0\x9f\x9a\x80!", "0w:go 1w:\xf0\x9f\x9a\x80"},
        {"\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd", "0w:\xf0\x9f\x91\x8d"}, /* the skin tone goes */
        {"\xe0\xa4\x95\xe0\xa4\xbf", "0w:\xe0\xa4\x95\xe0\xa4\xbf"}, /* ki is not k */
        {"\xd9\x85\xd9\x8e\xd8\xb1", "0w:\xd9\x85\xd8\xb1"},         /* Arabic points go */
        {"\xd0\x99\xd0\xbe", "0w:\xd0\xb8\xd0\xbe"},
    };

    check_rows(rows, ARRAY_SIZE(rows));
}

Test(analyzer, malformed_bytes_and_nul_separate)
{
    const struct {
        const char *bytes;
        size_t size;
        const char *tokens;
    } rows[] = {
        {"a\0b", 3, "0w:a 1w:b"}, {"caf\xe9 x", 6, "0w:caf 1w:x"}, {"\xed\xa0\x80z", 4, "0w:z"},
        {"\xf0\x9f\x9a", 3, ""},  {"\xff\xfe\x80", 3, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FREE char *tokens = analysed(rows[i].bytes, rows[i].size);
        cr_expect(eq(str, tokens, (char *) (uintptr_t) rows[i].tokens), "row %zu", i);
    }
}

static enum status check_bounds(void *context, const struct token *token)
{
    unsigned *last = context;

    cr_assert(token->size > 0 && token->size <= ANALYZER_TOKEN_BYTES_MAX);
    cr_assert(text_is_utf8(token->bytes, token->size));
    cr_assert(memchr(token->bytes, '\0', token->size) == NULL);
    cr_assert(token->position == *last || token->position == *last + 1);
    *last = token->position;
    return STATUS_OK;
}

Test(analyzer, long_words_are_cut_at_a_character)
{
    const char *units[] = {"a",  "\xc3\xa9",     "\xd0\xb6",  "\xe1\xba\x9e",
                           "x-", "\xe7\x94\xa8", "a\xcc\x81", "\xef\xb7\xba"};

    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        AUTO_TEXT struct text text = {0};
        unsigned last = 0;

        for (int j = 0; j < 5000; j++)
            text_append_string(&text, units[i]);
        cr_expect(eq(int, analyzer_run(text.bytes, text.size, check_bounds, &last), STATUS_OK));
    }
}

static enum status keep_places(void *context, const struct token *token)
{
    size_t *places = context;

    places[2 * token->position] = token->start;
    places[2 * token->position + 1] = token->end;
    return STATUS_OK;
}

Test(analyzer, plain_text_tells_where_its_words_stood)
{
    size_t places[6] = {0};

    cr_assert(eq(int, analyzer_run("a bc  def", 9, keep_places, places), STATUS_OK));
    const size_t expected[] = {0, 1, 2, 4, 6, 9};
    cr_expect(memcmp(places, expected, sizeof expected) == 0);
}

static enum status refuse(void *context, const struct token *token UNUSED)
{
    ++*(int *) context;
    return STATUS_BUSY;
}

Test(analyzer, a_sink_ends_the_analysis)
{
    int calls = 0;

    cr_expect(eq(int, analyzer_run("one two", 7, refuse, &calls), STATUS_BUSY));
    cr_expect(eq(int, calls, 1));
}

Test(analyzer, folding_for_the_fallback_drops_nothing)
{
    const struct row rows[] = {
        {"Ship IT!", "ship it!"},
        {"Stra\xc3\x9f"
         "e \xc3\x89",
         "strasse \xc3\xa9"},
        {"\xef\xbc\xa1\xe3\x80\x82", "a\xe3\x80\x82"},
        {"bad\xff", "bad\xef\xbf\xbd"},
        {"", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FREE char *folded = NULL;
        size_t size;
        cr_assert(
            eq(int, analyzer_fold(rows[i].text, strlen(rows[i].text), &folded, &size), STATUS_OK));
        cr_expect(eq(str, folded, (char *) (uintptr_t) rows[i].tokens), "row %zu", i);
        cr_expect(eq(sz, size, strlen(rows[i].tokens)));
    }
}

/* Whatever it folds, it folds as ICU does: a text with U+2026 at its end goes the long way. */
static void expect_as_the_long_way(const char *bytes, size_t size)
{
    static const char ellipsis[] = "\u2026";
    char quick[64];
    char longer[64];
    AUTO_FREE char *folded = NULL;
    size_t quick_size = 0;
    size_t folded_size = 0;

    if (!analyzer_fold_lone(bytes, size, quick, &quick_size))
        return;
    memcpy(longer, bytes, size);
    memcpy(longer + size, ellipsis, sizeof ellipsis - 1);
    cr_assert(not(analyzer_fold_lone(longer, size + sizeof ellipsis - 1, longer, &folded_size)));
    memcpy(longer, bytes, size);
    memcpy(longer + size, ellipsis, sizeof ellipsis - 1);
    cr_assert(eq(int, analyzer_fold(longer, size + sizeof ellipsis - 1, &folded, &folded_size),
                 STATUS_OK));
    cr_assert(eq(sz, folded_size, quick_size + 3), "of %.*s", (int) size, bytes);
    cr_assert(memcmp(folded, quick, quick_size) == 0, "of %.*s", (int) size, bytes);
}

Test(analyzer, folding_character_by_character_gives_the_same)
{
    /* What may join with a neighbour: letters, marks, parts of hangul, a sigma at the end. */
    static const char *const neighbours[] = {"",       "A",      "e",      "\u0301",
                                             "\u3099", "\u1161", "\u11a8", "\uac00",
                                             "\u03a3", "\u4e00", "\uff21"};

    for (uint32_t character = 1; character < 0x11000; character++) {
        char bytes[4];
        size_t size = text_encode(character, bytes);
        if (character >= 0xd800 && character < 0xe000)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(neighbours); i++) {
            char text[40];
            int length =
                snprintf(text, sizeof text, "Words of ASCII %s%.*s%s", neighbours[i], (int) size,
                         bytes, neighbours[(i * 7 + character) % ARRAY_SIZE(neighbours)]);
            expect_as_the_long_way(text, (size_t) length);
        }
    }
}

Test(analyzer, most_texts_fold_character_by_character)
{
    static const char *const texts[] = {"Drinks GREEN tea, at 5.", "caf\u00e9 na\u00efve",
                                        "用户喜欢绿茶，每天三杯。", "\u201cquoted\u201d \u2014 so",
                                        "\u0447\u0430\u0439"};
    static const char *const others[] = {"\u00c9", "Stra\u00dfe", "e\u0301",
                                         "\ufb01", "bad\xff",     "\u212a"};
    char folded[64];
    size_t size;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        cr_expect(analyzer_fold_lone(texts[i], strlen(texts[i]), folded, &size), "%s", texts[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        cr_expect(not(analyzer_fold_lone(others[i], strlen(others[i]), folded, &size)), "%s",
                  others[i]);
}

Test(analyzer, its_version_names_the_library_of_characters)
{
    int version, major, minor;

    cr_expect(eq(int, sscanf(analyzer_version(), "%d-icu%d.%d", &version, &major, &minor), 3));
    cr_expect(eq(int, version, ANALYZER_VERSION));
}
