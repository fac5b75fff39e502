/* Runs the shared corpora of questions: what must be found, and what the peers find. */
#include "tests/unit/index_fixture.h"

/* The directory of shared files, or NULL (told once) when it is not there. */
static const char *shared_directory(void)
{
    const char *directory = getenv("MEMSYNC_SHARED");

    if (!directory)
        directory = "../shared";
    if (access(directory, R_OK) == 0)
        return directory;
    printf("skipped: no shared files in %s\n", directory);
    return NULL;
}

static json_t *load(const char *directory, const char *name)
{
    char path[512];
    json_error_t error;

    (void) snprintf(path, sizeof path, "%s/%s", directory, name);
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, &error);
    cr_assert(value != NULL, "%s: %s", path, error.text);
    return value;
}

static const char *member(const json_t *object, const char *key, const char *otherwise)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : otherwise;
}

static void install_corpus(struct fixture *fixture, const struct scope *scope, const json_t *facts)
{
    AUTO_ROWS struct rows rows = {0};
    size_t i;
    json_t *fact;

    json_array_foreach(facts, i, fact)
    {
        const json_t *content = json_object_get(fact, "content");
        rows_add(&rows, fact_with(member(fact, "id", ""), json_string_value(content),
                                  json_string_length(content), member(fact, "category", ""),
                                  member(fact, "createdAt", ""),
                                  json_number_value(json_object_get(fact, "confidence"))));
    }
    (void) install_rows(fixture, scope, 0, 1, &rows);
}

/* " id1 id2 ", so that an id can be looked for with blanks around it. */
static void ask(struct fixture *fixture, const struct scope *scope, const char *bytes, size_t size,
                const struct index_filter *filter, size_t limit, char *ret, size_t ret_size)
{
    AUTO_HITS struct index_hits hits = {0};
    struct error error = {0};
    char ids[4096];

    begin(fixture);
    cr_assert(eq(int, search_in_snapshot(fixture, scope, bytes, size, filter, limit, &hits, &error),
                 STATUS_OK),
              "%.*s: %s", (int) size, bytes, error.message);
    index_end(fixture->reader);
    join_ids(&hits, ids, sizeof ids);
    (void) snprintf(ret, ret_size, " %s ", ids);
}

static bool has_id(const char *ids, const char *id)
{
    char wanted[64];

    (void) snprintf(wanted, sizeof wanted, " %s ", id);
    return strstr(ids, wanted) != NULL;
}

/* ---- cases/queries.json ---- */

static void check_case(struct fixture *fixture, const struct scope *scope, const json_t *query)
{
    const json_t *text = json_object_get(query, "q");
    const char *shown = json_string_value(text);
    char ids[8192];
    size_t i;
    json_t *id;

    ask(fixture, scope, shown, json_string_length(text), NULL, 20, ids, sizeof ids);
    json_array_foreach(json_object_get(query, "must"), i, id)
        cr_expect(has_id(ids, json_string_value(id)), "%s: no %s in%s", shown,
                  json_string_value(id), ids);
    json_array_foreach(json_object_get(query, "must_not"), i, id)
        cr_expect(not(has_id(ids, json_string_value(id))), "%s: %s in%s", shown,
                  json_string_value(id), ids);
    if (json_is_true(json_object_get(query, "empty")))
        cr_expect(zero(int, strcmp(ids, "  ")), "%s: %s", shown, ids);
}

Test(shared_search, the_cases_of_queries_hold)
{
    AUTO_FIXTURE struct fixture fixture;
    const char *directory = shared_directory();
    struct scope scope = scope_of("u1", "__default__");
    size_t i;
    json_t *query;

    fixture_create(&fixture);
    if (!directory)
        return;
    AUTO_JSON json_t *cases = load(directory, "cases/queries.json");
    install_corpus(&fixture, &scope, json_object_get(cases, "facts"));
    json_array_foreach(json_object_get(cases, "queries"), i, query)
        check_case(&fixture, &scope, query);
    cr_expect(gt(sz, i, 30));
}

/* ---- volumes/search.json ---- */

/* Where we do not find what the peers find with a word cutter, on purpose. */
#define TORN_WORD "the cutter tears words at accented letters, so that caf\xc3\xa9 has a c in it"
#define LONE_CHARACTER "one shared character (in, at) out of a longer run makes no hit"

static const struct {
    const char *query;
    const char *id;
    const char *reason;
} differences[] = {
    {"C++", "s29", TORN_WORD},
    {"C#", "s29", TORN_WORD},
    {"c", "s29", TORN_WORD},
    {"jos\xc3\xa9", "s29", TORN_WORD},
    {"jos\xc3\xa9", "s30", TORN_WORD},
    {"caf\xc3\xa9", "s30", TORN_WORD},
    {"caf\xc3\xa9", "s28", TORN_WORD},
    {"stra\xc3\x9f"
     "e",
     "s29", TORN_WORD},
    {"stra\xc3\x9f"
     "e",
     "s28", TORN_WORD},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x96\x9c\xe6\xac\xa2\xe5\x9c\xa8\xe6\x99\x9a\xe4\xb8\x8a\xe8\xb7"
     "\x91\xe6\xad\xa5",
     "s36", LONE_CHARACTER},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x96\x9c\xe6\xac\xa2\xe5\x9c\xa8\xe6\x99\x9a\xe4\xb8\x8a\xe8\xb7"
     "\x91\xe6\xad\xa5",
     "s43", LONE_CHARACTER},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x96\x9c\xe6\xac\xa2\xe5\x9c\xa8\xe6\x99\x9a\xe4\xb8\x8a\xe8\xb7"
     "\x91\xe6\xad\xa5\xe3\x80\x82",
     "s36", LONE_CHARACTER},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x96\x9c\xe6\xac\xa2\xe5\x9c\xa8\xe6\x99\x9a\xe4\xb8\x8a\xe8\xb7"
     "\x91\xe6\xad\xa5\xe3\x80\x82",
     "s43", LONE_CHARACTER},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x9c\xa8\xe5\x93\xaa\xe9\x87\x8c\xe5\xb7\xa5\xe4\xbd\x9c\xef\xbc"
     "\x9f",
     "s36", LONE_CHARACTER},
    {"\xe7\x94\xa8\xe6\x88\xb7\xe5\x9c\xa8\xe5\x93\xaa\xe9\x87\x8c\xe5\xb7\xa5\xe4\xbd\x9c\xef\xbc"
     "\x9f",
     "s43", LONE_CHARACTER},
};

static bool is_deliberate(const char *query, const char *id)
{
    for (size_t i = 0; i < ARRAY_SIZE(differences); i++) {
        if (strcmp(differences[i].query, query) == 0 && strcmp(differences[i].id, id) == 0)
            return true;
    }
    return false;
}

static void query_text(const json_t *query, struct text *ret)
{
    const json_t *plain = json_object_get(query, "query");
    const json_t *repeat = json_object_get(query, "query_repeat");

    if (plain) {
        text_append(ret, json_string_value(plain), json_string_length(plain));
        return;
    }
    for (json_int_t i = json_integer_value(json_object_get(repeat, "times")); i > 0; i--)
        text_append_string(ret, member(repeat, "unit", ""));
    text_append_string(ret, member(repeat, "then", ""));
}

/* Every id that the peers return, by either way of cutting Chinese text, must be among ours. */
static unsigned check_recall(struct fixture *fixture, const struct scope *scope,
                             const json_t *query, const char *variant)
{
    AUTO_TEXT struct text text = {0};
    const json_t *options = json_object_get(query, "options");
    const struct index_filter filter = {
        .category = json_string_value(json_object_get(options, "category")),
    };
    char ids[8192];
    size_t i;
    json_t *result;

    query_text(query, &text);
    ask(fixture, scope, text_string(&text), text.size, &filter, 20, ids, sizeof ids);
    json_array_foreach(json_object_get(json_object_get(query, variant), "results"), i, result)
    {
        const char *id = json_string_value(json_array_get(result, 0));
        if (strcmp(variant, "plain") == 0 || !is_deliberate(text_string(&text), id))
            cr_expect(has_id(ids, id), "%s, %s: no %s in%s", variant, text_string(&text), id, ids);
    }
    return (unsigned) i;
}

/* Options that the index does not know are the engine's affair. */
static bool is_for_the_index(const json_t *query)
{
    const json_t *options = json_object_get(query, "options");

    return !json_object_get(options, "scopes") && !json_object_get(options, "mode") &&
           !json_object_get(options, "filters");
}

Test(shared_search, what_the_peers_find_is_found)
{
    AUTO_FIXTURE struct fixture fixture;
    const char *directory = shared_directory();
    struct scope scope = scope_of("uma", "desk");
    struct scope other = scope_of("other", "desk");
    unsigned results = 0;
    size_t i;
    json_t *query;

    fixture_create(&fixture);
    if (!directory)
        return;
    AUTO_JSON json_t *corpus = load(directory, "volumes/search.json");
    install_corpus(&fixture, &scope, json_object_get(corpus, "facts"));
    install_corpus(&fixture, &other, json_object_get(corpus, "other_facts"));
    json_array_foreach(json_object_get(corpus, "queries"), i, query)
    {
        if (!is_for_the_index(query))
            continue;
        results += check_recall(&fixture, &scope, query, "plain");
        results += check_recall(&fixture, &scope, query, "jieba");
    }
    cr_expect(gt(uint, results, 300));
}

Test(shared_search, the_fallback_finds_what_the_peers_fall_back_to)
{
    AUTO_FIXTURE struct fixture fixture;
    const char *directory = shared_directory();
    struct scope scope = scope_of("uma", "desk");
    struct index_scope state;
    size_t i;
    json_t *query;

    fixture_create(&fixture);
    if (!directory)
        return;
    AUTO_JSON json_t *corpus = load(directory, "volumes/search.json");
    install_corpus(&fixture, &scope, json_object_get(corpus, "facts"));
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    json_array_foreach(json_object_get(corpus, "queries"), i, query)
    {
        AUTO_TEXT struct text text = {0};
        AUTO_TEXT struct text expected = {0};
        AUTO_HITS struct index_hits hits = {0};
        char ids[8192];
        size_t j;
        json_t *id;

        query_text(query, &text);
        json_array_foreach(json_object_get(query, "substring"), j, id)
            text_append_format(&expected, "%s%s", j > 0 ? " " : "", json_string_value(id));
        if (expected.size == 0)
            continue;
        cr_assert(eq(int,
                     index_search_substring(fixture.reader, state.id, text.bytes, text.size, NULL,
                                            5, CLOCK_NEVER, &hits, NULL),
                     STATUS_OK));
        join_ids(&hits, ids, sizeof ids);
        cr_expect(zero(int, strcmp(ids, text_string(&expected))), "%s: %s instead of %s",
                  text.bytes, ids, text_string(&expected));
    }
    index_end(fixture.reader);
}
