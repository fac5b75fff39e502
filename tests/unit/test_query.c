#include "core/query.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* Criterion's macros convert. */
#pragma GCC diagnostic ignored "-Wconversion"

static struct query *parsed(const char *bytes, size_t size)
{
    struct query *query = NULL;

    cr_assert(eq(int, query_parse(bytes, size, &query), STATUS_OK));
    return query;
}

/* The expression with a visible sign for what separates the tokens of a phrase. */
static void show(const struct query *query, char *ret, size_t size)
{
    (void) snprintf(ret, size, "%s", query_expression(query));
    for (char *at = ret; (at = strchr(at, QUERY_TOKEN_SEPARATOR)) != NULL; at++)
        *at = '~';
}

static void check_rows(const char *strategy, const char *const (*rows)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_QUERY struct query *query = parsed(rows[i][0], strlen(rows[i][0]));
        char shown[1024];

        show(query, shown, sizeof shown);
        cr_expect(eq(str, shown, (char *) (uintptr_t) rows[i][1]), "row %zu: %s", i, rows[i][0]);
        cr_expect(strcmp(query_strategy(query), strategy) == 0, "row %zu: %s", i, rows[i][0]);
    }
}

Test(query, plain_words_are_joined_by_or)
{
    const char *const rows[][2] = {
        {"Dark mode, dark MODE", "\"dark\" OR \"mode\""},
        {"can't restart", "\"can\" OR \"cant\" OR \"t\" OR \"restart\""},
        {"alpha and gamma", "\"alpha\" OR \"and\" OR \"gamma\""},
        {"content: frozen", "\"content\" OR \"frozen\""},
        {"\"orchid", "\"orchid\""},
        {"what is dark mode (in editors)",
         "\"what\" OR \"is\" OR \"dark\" OR \"mode\" OR \"in\" OR \"editors\""},
        {"(", ""},
        {"", ""},
        {" \t\n", ""},
        {"* ** \"", ""},
        {"\xe7\xab\xaf\xe5\x8f\xa3",
         "\"\xe7\xab\xaf\" OR \"\xe7\xab\xaf\xe5\x8f\xa3\" OR \"\xe5\x8f\xa3\""},
    };

    check_rows("words", rows, ARRAY_SIZE(rows));
}

Test(query, operators_make_a_tree)
{
    const char *const rows[][2] = {
        {"alpha AND gamma", "(\"alpha\" AND \"gamma\")"},
        {"a OR b AND c", "(\"a\" OR (\"b\" AND \"c\"))"},
        {"(a OR b) AND c", "((\"a\" OR \"b\") AND \"c\")"},
        {"a NOT b NOT c", "(\"a\" NOT (\"b\" OR \"c\"))"},
        {"a AND b NOT c", "(\"a\" AND (\"b\" NOT \"c\"))"},
        {"\"alpha gamma\"", "\"alpha~gamma\""},
        {"\"alpha gamma\" delta", "(\"alpha~gamma\" AND \"delta\")"},
        {"orch*", "\"orch\" *"},
        {"\"dark mo\" *", "\"dark~mo\" *"},
        {"NEAR(alpha gamma, 2)", "NEAR(\"alpha\" \"gamma\" , 2)"},
        {"NEAR(\"a b\" c)", "NEAR(\"a~b\" \"c\" , 10)"},
        {"x AND NEAR(a b)", "(\"x\" AND NEAR(\"a\" \"b\" , 10))"},
        {"\xe4\xb8\xad\xe6\x96\x87*", "\"\xe4\xb8\xad~\xe6\x96\x87\" *"},
        /* compounds are words beside an operator, and their parts a phrase */
        {"alpha NOT db-prod", "(\"alpha\" NOT \"db~prod\")"},
        /* never a column */
        {"scope_user:other OR alpha", "(\"scope~user~other\" OR \"alpha\")"},
        /* what holds no word leaves the rest alone */
        {"\"\" OR alpha", "\"alpha\""},
        {"alpha AND \"--\"", "\"alpha\""},
        {"alpha NOT \"--\"", "\"alpha\""},
        {"\"--\" NOT alpha", ""},
        {"beta OR (\"--\" NOT alpha)", "\"beta\""},
        {"\"--\"", ""},
    };

    check_rows("advanced", rows, ARRAY_SIZE(rows));
}

Test(query, what_does_not_parse_is_plain_words)
{
    const char *const rows[][2] = {
        {"AND", "\"and\""},
        {"retries AND", "\"retries\" OR \"and\""},
        {"NOT beta", "\"not\" OR \"beta\""},
        {"OR OR OR", "\"or\""},
        {"NEAR(orchid frozen", "\"near\" OR \"orchid\" OR \"frozen\""},
        {"NEAR(a b, x)", "\"near\" OR \"a\" OR \"b\" OR \"x\""},
        {"NEAR(a b, 99999)", "\"near\" OR \"a\" OR \"b\" OR \"99999\""},
        {"alpha NEAR gamma", "\"alpha\" OR \"near\" OR \"gamma\""},
        {"foo*bar", "\"foo\" OR \"bar\""},
        {"alpha AND -beta", "\"alpha\" OR \"and\" OR \"beta\""},
        {"scope_user : other OR alpha",
         "\"scope\" OR \"scopeuser\" OR \"user\" OR \"other\" OR \"or\" OR \"alpha\""},
        {"(alpha AND beta", "\"alpha\" OR \"and\" OR \"beta\""},
        {"alpha AND beta)", "\"alpha\" OR \"and\" OR \"beta\""},
        {"^alpha OR beta", "\"alpha\" OR \"or\" OR \"beta\""},
        {"\"dark mode\" \"", "\"dark\" OR \"mode\""},
        {"deploy* !!", "\"deploy\""},
        /* no operator, so the apostrophe is one of a plain sentence */
        {"user's \"dark mode\"", "\"user\" OR \"users\" OR \"s\" OR \"dark\" OR \"mode\""},
    };

    check_rows("words", rows, ARRAY_SIZE(rows));
}

Test(query, nul_separates_words)
{
    AUTO_QUERY struct query *query = parsed("alpha\0beta", 10);
    char shown[64];

    show(query, shown, sizeof shown);
    cr_expect(strcmp(shown, "\"alpha\" OR \"beta\"") == 0);
}

Test(query, characters_of_longer_runs_are_optional_and_light)
{
    /* the first character stands alone elsewhere, so it counts in full */
    const char text[] = "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97 x \xe4\xb8\xad";
    const struct {
        double weight;
        bool optional;
    } expected[] = {{1, false}, {1, false}, {0.2, true}, {1, false}, {0.2, true}, {1, false}};
    AUTO_QUERY struct query *query = parsed(text, sizeof text - 1);

    cr_assert(eq(sz, query_phrase_count(query), ARRAY_SIZE(expected)));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        cr_expect(eq(dbl, query_phrase_weight(query, i), expected[i].weight), "phrase %zu", i);
        cr_expect(eq(int, query_phrase_is_optional(query, i), expected[i].optional), "phrase %zu",
                  i);
    }
}

Test(query, two_single_characters_side_by_side_are_no_run)
{
    AUTO_QUERY struct query *query = parsed("\xe4\xb8\xad \xe6\x96\x87", 7);

    cr_assert(eq(sz, query_phrase_count(query), 2));
    cr_expect(not(query_phrase_is_optional(query, 0)));
    cr_expect(not(query_phrase_is_optional(query, 1)));
}

static struct query *repeated(const char *before, const char *unit, int times, const char *after)
{
    AUTO_TEXT struct text text = {0};

    text_append_string(&text, before);
    for (int i = 0; i < times; i++)
        text_append_format(&text, unit, i);
    text_append_string(&text, after);
    return parsed(text.bytes, text.size);
}

Test(query, distinct_words_beyond_the_limit_are_ignored_and_said_so)
{
    AUTO_QUERY struct query *same = repeated("", "alpha %%", 2000, "");
    AUTO_QUERY struct query *full = repeated("", "w%d ", QUERY_TOKENS_MAX, "");
    AUTO_QUERY struct query *over = repeated("", "w%d ", QUERY_TOKENS_MAX + 1, "");
    AUTO_QUERY struct query *huge = repeated("", "alpha%%", QUERY_BYTES_MAX, "beta");

    cr_expect(eq(sz, query_phrase_count(same), 1));
    cr_expect(not(query_is_truncated(same)));
    cr_expect(eq(sz, query_phrase_count(full), QUERY_TOKENS_MAX));
    cr_expect(not(query_is_truncated(full)));
    cr_expect(eq(sz, query_phrase_count(over), QUERY_TOKENS_MAX));
    cr_expect(query_is_truncated(over));
    cr_expect(query_is_truncated(huge));
}

Test(query, trees_are_bounded_in_depth_and_size)
{
    AUTO_QUERY struct query *brackets = repeated("", "(", QUERY_DEPTH_MAX, "a AND b");
    AUTO_QUERY struct query *chain = repeated("a", " NOT b%d", QUERY_TOKENS_MAX - 1, "");
    AUTO_QUERY struct query *longer = repeated("a", " OR b%d", QUERY_TOKENS_MAX, "");
    AUTO_QUERY struct query *phrase = repeated("\"", "b%d ", QUERY_TOKENS_MAX + 1, "\"");

    cr_expect(zero(int, strcmp(query_strategy(brackets), "words")));
    cr_expect(zero(int, strcmp(query_strategy(chain), "advanced")));
    cr_expect(zero(int, strcmp(query_strategy(longer), "words")));
    cr_expect(zero(int, strcmp(query_strategy(phrase), "words")));
}

Test(query, nested_brackets_within_the_bound_parse_and_deeper_ones_do_not)
{
    for (int depth = 1; depth < 2 * QUERY_DEPTH_MAX; depth += 3) {
        AUTO_TEXT struct text text = {0};

        for (int i = 0; i < depth; i++)
            text_append_string(&text, "a OR b AND (");
        text_append_string(&text, "c");
        for (int i = 0; i < depth; i++)
            text_append_char(&text, ')');
        AUTO_QUERY struct query *query = parsed(text.bytes, text.size);
        /* two rendered brackets for each written one, and 24 of them are too many */
        cr_expect(eq(int, strcmp(query_strategy(query), "advanced") == 0, depth <= 12), "depth %d",
                  depth);
    }
}
