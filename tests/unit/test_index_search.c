#include "tests/unit/index_fixture.h"

#include "core/content_key.h"
#include "core/index_private.h"
#include "core/index_rank.h"

/* ---- the words that people write ---- */

Test(index_search, finds_words_whatever_their_case_and_accents)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "__default__");
    const char *const facts[][2] = {
        {"b1", "Le caf\xc3\xa9 est servi \xc3\xa0 l'\xc3\xa9tage"},
        {"b2", "The engineer can't deploy db-prod-01"},
        {"b3", "\xe6\x9c\x8d\xe5\x8a\xa1\xe5\x99\xa8"},
        {"b4", "nothing of the kind"},
    };

    fixture_create(&fixture);
    (void) install_contents(&fixture, &scope, facts, ARRAY_SIZE(facts));
    EXPECT_FOUND(&fixture, &scope, "CAFE", "b1");
    EXPECT_FOUND(&fixture, &scope, "cafe\xcc\x81", "b1");
    EXPECT_FOUND(&fixture, &scope, "\xc3\xa9tage", "b1");
    EXPECT_FOUND(&fixture, &scope, "can't", "b2");
    EXPECT_FOUND(&fixture, &scope, "dbprod01", "b2");
    EXPECT_FOUND(&fixture, &scope, "db-prod-01", "b2");
    EXPECT_FOUND(&fixture, &scope, "\xe6\x9c\x8d\xe5\x8a\xa1", "b3");
    /* both characters are there, but not side by side in this order */
    EXPECT_FOUND(&fixture, &scope, "\xe5\x99\xa8\xe6\x9c\x8d", "");
    EXPECT_FOUND(&fixture, &scope, "\"engineer can't\"", "b2");
    EXPECT_FOUND(&fixture, &scope, "eng*", "b2");
    EXPECT_FOUND(&fixture, &scope, "the NOT engineer", "b4");
    EXPECT_FOUND(&fixture, &scope, "NEAR(engineer deploy, 2)", "b2");
    EXPECT_FOUND(&fixture, &scope, "NEAR(engineer deploy, 1)", "");
    EXPECT_FOUND(&fixture, &scope, "?!", "");
    EXPECT_FOUND(&fixture, &scope, "absent", "");
}

/* ---- order ---- */

Test(index_search, rarer_and_more_frequent_words_rank_higher)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    const char *const facts[][2] = {
        {"c1", "common word here"},       {"c2", "common word there"},
        {"c3", "common zebra"},           {"c4", "common common common thing"},
        {"c5", "unrelated text, really"},
    };

    fixture_create(&fixture);
    (void) install_contents(&fixture, &scope, facts, ARRAY_SIZE(facts));
    EXPECT_FOUND(&fixture, &scope, "common zebra", "c3 c4 c1 c2");
}

Test(index_search, only_texts_longer_than_twice_the_usual_are_marked_down)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    AUTO_HITS struct index_hits hits = {0};

    fixture_create(&fixture);
    rows_add(&rows, fact_of("d1", "needle one two three"));
    rows_add(&rows, fact_of("d2", "needle one two three four five six seven"));
    rows_add(&rows, fact_of("d3", "needle 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"));
    rows_add(&rows, fact_of("d4", "other words stand here"));
    rows_add(&rows, fact_of("d5", "and four more follow"));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);

    cr_assert(eq(int, search(&fixture, &scope, "needle", NULL, 10, &hits), STATUS_OK));
    cr_assert(eq(sz, hits.count, 3));
    cr_expect(eq(dbl, hits.hits[0].relevance, hits.hits[1].relevance));
    cr_expect(lt(dbl, hits.hits[2].relevance, hits.hits[1].relevance));
}

/* Confidence as stored, and the bonus that it gives. */
Test(index_search, confidence_is_a_small_bonus_with_bounds)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    AUTO_HITS struct index_hits hits = {0};
    const struct {
        const char *id;
        double confidence, bonus;
    } cases[] = {{"high", 1.0, 0.2}, {"odd", 7.5, 0.2},   {"some", 0.75, 0.15},
                 {"none", 0.0, 0.1}, {"low", 0.25, 0.05}, {"under", -3.0, 0.0}};

    fixture_create(&fixture);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        rows_add(&rows, fact_with(cases[i].id, "same", 4, "c", "2026-01-01T00:00:00Z",
                                  cases[i].confidence));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);

    cr_assert(eq(int, search(&fixture, &scope, "same", NULL, 10, &hits), STATUS_OK));
    cr_assert(eq(sz, hits.count, ARRAY_SIZE(cases)));
    for (size_t i = 0; i < hits.count; i++) {
        char id[32];
        cr_expect(zero(int, strcmp(hit_id(&hits.hits[i], id, sizeof id), cases[i].id)));
        cr_expect(epsilon_eq(dbl, hits.hits[i].score - hits.hits[i].relevance, cases[i].bonus,
                             1e-9),
                  "%s", id);
    }
}

Test(index_search, of_equal_scores_the_newer_comes_first)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    const struct {
        const char *id, *created_at;
    } facts[] = {
        {"e1", "some day"},
        {"e2", "2026-03-01T09:00:00Z"},
        {"e3", "2026-03-01T09:00:00.5+00:00"},
        {"e4", "2026-03-01T09:30:00+01:00"}, /* half an hour before e2 */
        {"e5", "2026-03-01T09:00:00"},       /* as e2; added later */
    };

    fixture_create(&fixture);
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
        rows_add(&rows, fact_with(facts[i].id, "same", 4, "c", facts[i].created_at, 0.5));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);
    EXPECT_FOUND(&fixture, &scope, "same", "e3 e2 e5 e4 e1");
}

Test(index_search, a_limit_keeps_the_same_best_as_a_full_search)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    AUTO_HITS struct index_hits all = {0};
    char content[200];

    fixture_create(&fixture);
    for (unsigned i = 0; i < 300; i++) {
        char id[16];
        unsigned random = i * 2654435761u >> 16;
        (void) snprintf(id, sizeof id, "f%03u", i);
        (void) snprintf(content, sizeof content, "%s%s%s word%u", random & 1 ? "red " : "",
                        random & 2 ? "green " : "", random & 4 ? "red blue " : "", random % 7);
        rows_add(&rows, fact_with(id, content, strlen(content), "c", "2026-01-01T00:00:00Z",
                                  (random % 11) / 10.0));
    }
    (void) install_rows(&fixture, &scope, 0, 1, &rows);

    cr_assert(eq(int, search(&fixture, &scope, "red blue green", NULL, 1000, &all), STATUS_OK));
    cr_assert(gt(sz, all.count, 200));
    for (size_t limit = 1; limit < all.count; limit += 17) {
        AUTO_HITS struct index_hits some = {0};
        cr_assert(
            eq(int, search(&fixture, &scope, "red blue green", NULL, limit, &some), STATUS_OK));
        cr_assert(eq(sz, some.count, limit));
        for (size_t i = 0; i < limit; i++)
            cr_assert(zero(int, strcmp(some.hits[i].document, all.hits[i].document)),
                      "limit %zu, hit %zu", limit, i);
    }
}

Test(index_search, lengths_are_kept_in_a_byte)
{
    unsigned last = 0;

    for (size_t words = 0; words < 600000; words += 1 + words / 50) {
        unsigned quantised = length_quantise(words);
        double restored = length_restore(quantised);
        cr_assert(quantised <= 255);
        cr_assert(quantised >= last);
        last = quantised;
        if (words < (1u << 19))
            cr_assert(restored <= words && restored > words * 0.93 - 1, "%zu words", words);
    }
    cr_expect(eq(uint, length_restore(length_quantise(31)), 31));
}

/* ---- isolation ---- */

static void add_noise(struct fixture *fixture, const struct scope *scope, unsigned count)
{
    AUTO_ROWS struct rows rows = {0};
    char id[32], content[200];

    for (unsigned i = 0; i < count; i++) {
        (void) snprintf(id, sizeof id, "n%u", i);
        (void) snprintf(content, sizeof content,
                        "deploy secret %u with a much longer text about zebra and nginx "
                        "\xe7\xab\xaf\xe5\x8f\xa3",
                        i);
        rows_add(&rows, fact_with(id, content, strlen(content), "c", "2026-01-01T00:00:00Z", 1));
    }
    (void) install_rows(fixture, scope, 0, 1, &rows);
}

Test(index_search, another_scopes_facts_neither_show_nor_count)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope mine = scope_of("u1", "a");
    const struct scope others[] = {scope_of("u1", "b"), scope_of("u2", "a"), scope_of(NULL, "a")};
    const char *const facts[][2] = {
        {"g1", "deploy the zebra"},
        {"g2", "deploy nginx twice, deploy"},
        {"g3", "\xe7\xab\xaf\xe5\x8f\xa3 zebra"},
    };
    const char *const queries[] = {
        "deploy",           "deploy zebra nginx", "\xe7\xab\xaf\xe5\x8f\xa3", "d*",
        "secret OR deploy", "deploy NOT nginx",   "NEAR(deploy zebra)",       "\"deploy the\"",
    };
    struct index_hits before[ARRAY_SIZE(queries)] = {0};

    fixture_create(&fixture);
    (void) install_contents(&fixture, &mine, facts, ARRAY_SIZE(facts));
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        cr_assert(eq(int, search(&fixture, &mine, queries[i], NULL, 100, &before[i]), STATUS_OK));
        cr_assert(gt(sz, before[i].count, 0), "%s", queries[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        add_noise(&fixture, &others[i], 400);

    EXPECT_FOUND(&fixture, &mine, "secret", "");
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        AUTO_HITS struct index_hits after = {0};
        cr_assert(eq(int, search(&fixture, &mine, queries[i], NULL, 100, &after), STATUS_OK));
        cr_assert(eq(sz, after.count, before[i].count), "%s", queries[i]);
        for (size_t j = 0; j < after.count; j++) {
            cr_expect(zero(int, strcmp(after.hits[j].document, before[i].hits[j].document)), "%s",
                      queries[i]);
            cr_expect(eq(dbl, after.hits[j].score, before[i].hits[j].score), "%s", queries[i]);
        }
        index_hits_destroy(&before[i]);
    }
}

Test(index_search, words_without_a_scope_are_refused)
{
    AUTO_FIXTURE struct fixture fixture;
    struct index_connection connection;

    fixture_create(&fixture);
    cr_assert(eq(int, index_connect(fixture.index, true, &connection, NULL), STATUS_OK));
    cr_expect(eq(int,
                 sqlite3_exec(connection.db, "INSERT INTO fts (rowid, content) VALUES (1, 'x')",
                              NULL, NULL, NULL) &
                     0xff,
                 SQLITE_AUTH));
    cr_expect(ne(int,
                 sqlite3_exec(connection.db, "SELECT rowid FROM fts WHERE fts MATCH '\"x\"'", NULL,
                              NULL, NULL),
                 SQLITE_OK));
    index_disconnect(&connection, false);
}

/* ---- filters ---- */

Test(index_search, filters_come_before_the_cut)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    AUTO_JSON json_t *equals = json_pack("{s:f, s:n}", "confidence", 0.25, "expires");
    AUTO_JSON json_t *whole = json_pack("{s:i}", "confidence", 1);
    AUTO_JSON json_t *missing = json_pack("{s:s}", "status", "active");
    const struct {
        struct index_filter filter;
        const char *ids;
    } cases[] = {
        {{.category = "goal"}, "h9"},
        {{.category = ""}, "h8"},
        {{.category = "none"}, ""},
        {{.equals = equals}, "h7"},
        {{.equals = whole}, "h0"},
        {{.equals = missing}, ""},
        {{.category = "context", .equals = equals}, "h7"},
    };

    fixture_create(&fixture);
    for (unsigned i = 0; i < 10; i++) {
        char id[8];
        (void) snprintf(id, sizeof id, "h%u", i);
        rows_add(&rows, fact_with(id, i == 0 ? "same same same" : "same", i == 0 ? 14 : 4,
                                  i == 9   ? "goal"
                                  : i == 8 ? ""
                                           : "context",
                                  "2026-01-01T00:00:00Z", i == 7 ? 0.25 : 1.0));
    }
    (void) install_rows(&fixture, &scope, 0, 1, &rows);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_HITS struct index_hits hits = {0};
        char ids[64];
        cr_assert(eq(int, search(&fixture, &scope, "same", &cases[i].filter, 1, &hits), STATUS_OK));
        join_ids(&hits, ids, sizeof ids);
        cr_expect(zero(int, strcmp(ids, cases[i].ids)), "row %zu: %s", i, ids);
    }
}

/* ---- the fallback ---- */

static void substring_ids(struct fixture *fixture, const struct scope *scope, const char *text,
                          size_t limit, char *ret, size_t size)
{
    AUTO_HITS struct index_hits hits = {0};
    struct index_scope state;

    begin(fixture);
    cr_assert(eq(int, index_read_scope(fixture->reader, scope, &state, NULL), STATUS_OK));
    cr_assert(eq(int,
                 index_search_substring(fixture->reader, state.id, text, strlen(text), NULL, limit,
                                        CLOCK_NEVER, &hits, NULL),
                 STATUS_OK));
    index_end(fixture->reader);
    for (size_t i = 0; i < hits.count; i++) {
        cr_expect(eq(dbl, hits.hits[i].relevance, 0));
        cr_expect(le(dbl, hits.hits[i].score, INDEX_CONFIDENCE_WEIGHT));
    }
    join_ids(&hits, ret, size);
}

Test(index_search, a_substring_matches_in_any_case_by_confidence_then_id)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    struct scope other = scope_of("u2", "a");
    char ids[64];

    fixture_create(&fixture);
    rows_add(&rows, fact_with("i3",
                              "Says \"ship it\"; Stra\xc3\x9f"
                              "e",
                              23, "c", "", 0.9));
    rows_add(&rows, fact_with("i2", "MEMORYINDEX here", 16, "c", "", 0.9));
    rows_add(&rows, fact_with("i1", "the MemoryIndexWriter", 21, "c", "", 1.0));
    rows_add(&rows, fact_with("i0", "the MemoryIndexWriter", 21, "c", "", 0.9));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);
    add_noise(&fixture, &other, 3);

    const struct {
        const char *text;
        size_t limit;
        const char *ids;
    } cases[] = {
        {" memoryindex\n", 10, "i1 i0 i2"},
        {"memoryindex", 2, "i1 i0"},
        {"STRASSE", 10, "i3"},
        {"\"", 10, "i3"},
        {"secret", 10, ""},
        {"  ", 10, ""},
        {"e", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        substring_ids(&fixture, &scope, cases[i].text, cases[i].limit, ids, sizeof ids);
        cr_expect(zero(int, strcmp(ids, cases[i].ids)), "row %zu: %s", i, ids);
    }
}

/* ---- deadlines ---- */

Test(index_search, a_deadline_that_has_passed_is_a_timeout)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    AUTO_QUERY struct query *query = NULL;
    AUTO_HITS struct index_hits hits = {0};
    struct index_scope state;

    fixture_create(&fixture);
    add_noise(&fixture, &scope, 500);
    cr_assert(eq(int, query_parse("deploy", 6, &query), STATUS_OK));
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_expect(eq(int, index_search(fixture.reader, state.id, query, NULL, 10, 1, &hits, NULL),
                 STATUS_TIMEOUT));
    cr_expect(
        eq(int,
           index_search_substring(fixture.reader, state.id, "deploy", 6, NULL, 10, 1, &hits, NULL),
           STATUS_TIMEOUT));
    /* the snapshot is still good */
    cr_expect(eq(int,
                 index_search(fixture.reader, state.id, query, NULL, 10, CLOCK_NEVER, &hits, NULL),
                 STATUS_OK));
    cr_expect(eq(sz, hits.count, 10));
    index_end(fixture.reader);
    cr_expect(not(index_is_damaged(fixture.index)));
}

/* ---- lists and single facts ---- */

static enum status append_path(void *context, const char *document UNUSED, size_t size UNUSED,
                               const char *path)
{
    text_append_format(context, " %s", path);
    return STATUS_OK;
}

static enum status stop_at_once(void *context, const char *document UNUSED, size_t size UNUSED,
                                const char *path UNUSED)
{
    ++*(int *) context;
    return STATUS_CONFLICT;
}

Test(index_search, lists_are_ordered_by_id_and_then_path_and_paged)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    AUTO_JSON json_t *equals = json_pack("{s:s}", "content", "two");
    const struct index_filter by_member = {.equals = equals};
    const struct index_filter by_category = {.category = "goal"};
    struct index_scope state;
    int calls = 0;

    fixture_create(&fixture);
    rows_add_at(&rows, "zz/j2.md", fact_of("j2", "two"));
    rows_add_at(&rows, "aa/j2.md", fact_of("j2", "two"));
    rows_add_at(&rows, "cc/J9.md", fact_of("J9", "nine"));
    rows_add_at(&rows, "bb/j1.md", fact_with("j1", "one", 3, "goal", "", 0.5));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);

    const struct {
        const struct index_filter *filter;
        uint64_t offset, limit, total;
        const char *paths;
    } cases[] = {
        {NULL, 0, UINT64_MAX, 4, " cc/J9.md bb/j1.md aa/j2.md zz/j2.md"},
        {NULL, 1, 2, 4, " bb/j1.md aa/j2.md"},
        {NULL, 9, 2, 4, ""},
        {NULL, 0, 0, 4, ""},
        {NULL, UINT64_MAX, 5, 4, ""},
        {&by_category, 0, 10, 1, " bb/j1.md"},
        {&by_category, 1, 10, 1, ""},
        {&by_member, 0, 10, 2, " aa/j2.md zz/j2.md"},
        {&by_member, 1, 10, 2, " zz/j2.md"},
        {&by_member, 0, 1, 2, " aa/j2.md"},
    };
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text paths = {0};
        uint64_t total = 0;
        cr_assert(eq(int,
                     index_list(fixture.reader, state.id, cases[i].filter, cases[i].offset,
                                cases[i].limit, append_path, &paths, &total, NULL),
                     STATUS_OK));
        cr_expect(zero(int, strcmp(text_string(&paths), cases[i].paths)), "row %zu: %s", i,
                  text_string(&paths));
        cr_expect(eq(u64, total, cases[i].total), "row %zu", i);
    }
    cr_expect(
        eq(int, index_list(fixture.reader, state.id, NULL, 0, 10, stop_at_once, &calls, NULL, NULL),
           STATUS_CONFLICT));
    cr_expect(eq(int, calls, 1));
    index_end(fixture.reader);
}

Test(index_search, one_id_in_two_places_is_served_from_its_own_shard)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    char shard[3], path[32];
    AUTO_FREE char *document = NULL;
    AUTO_FREE char *other = NULL;
    size_t size;

    fixture_create(&fixture);
    fact_id_shard("k1", shard);
    (void) snprintf(path, sizeof path, "%s/k1.md", shard);
    rows_add_at(&rows, "00/k1.md", fact_of("k1", "misplaced copy"));
    rows_add_at(&rows, path, fact_of("k1", "in its place"));
    rows_add_at(&rows, "00/k2.md", fact_of("k2", "only misplaced"));
    (void) install_rows(&fixture, &scope, 0, 1, &rows);

    EXPECT_FOUND(&fixture, &scope, "copy place", "k1 k1");
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_expect(eq(u64, state.facts, 3));
    cr_assert(
        eq(int, index_get(fixture.reader, state.id, "k1", &document, &size, NULL), STATUS_OK));
    cr_expect(strstr(document, "in its place") != NULL);
    cr_expect(eq(sz, size, strlen(document)));
    cr_assert(eq(int, index_get(fixture.reader, state.id, "k2", &other, &size, NULL), STATUS_OK));
    cr_expect(strstr(other, "only misplaced") != NULL);
    cr_expect(
        eq(int, index_get(fixture.reader, state.id, "k3", &other, &size, NULL), STATUS_NOT_FOUND));
    index_end(fixture.reader);
}

/* The paths of the facts with that content, each with a blank before it. */
static void expect_content(struct fixture *fixture, const struct scope *scope, const char *content,
                           const char *paths)
{
    AUTO_TEXT struct text found = {0};
    struct index_scope state;
    uint64_t key = 0;

    cr_assert(eq(int, content_key_hash(content, strlen(content), &key), STATUS_OK));
    begin(fixture);
    cr_assert(eq(int, index_read_scope(fixture->reader, scope, &state, NULL), STATUS_OK));
    cr_assert(eq(int, index_find_content(fixture->reader, state.id, key, append_path, &found, NULL),
                 STATUS_OK));
    index_end(fixture->reader);
    cr_expect(zero(int, strcmp(text_string(&found), paths)), "%s: %s", content,
              text_string(&found));
}

Test(index_search, equal_contents_are_found_by_their_key)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    AUTO_ROWS struct rows others = {0};
    struct scope scope = scope_of("u1", "a");
    struct scope other = scope_of("u1", "b");
    struct index_scope state;
    uint64_t key = 0;
    int calls = 0;

    fixture_create(&fixture);
    rows_add_at(&rows, "bb/m2.md",
                fact_of("m2", "Stra\xc3\x9f"
                              "e"));
    rows_add_at(&rows, "cc/m1.md", fact_of("m1", "STRASSE"));
    rows_add_at(&rows, "aa/m3.md", fact_of("m3", "strasse 7"));
    uint64_t generation = install_rows(&fixture, &scope, 0, 1, &rows);
    rows_add_at(&others, "dd/m4.md", fact_of("m4", "strasse"));
    (void) install_rows(&fixture, &other, 0, 1, &others);

    expect_content(&fixture, &scope, " Strasse\n", " cc/m1.md bb/m2.md");
    expect_content(&fixture, &scope, "Strasse  7", "");
    expect_content(&fixture, &other, "STRASSE", " dd/m4.md");

    AUTO_ROWS struct rows changed = {0};
    rows_add_at(&changed, "cc/m1.md", fact_of("m1", "Gasse"));
    (void) install_rows(&fixture, &scope, generation, 2, &changed);
    expect_content(&fixture, &scope, "strasse", " bb/m2.md");
    expect_content(&fixture, &scope, "GASSE", " cc/m1.md");

    cr_assert(eq(int, content_key_hash("gasse", 5, &key), STATUS_OK));
    begin(&fixture);
    cr_assert(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_OK));
    cr_expect(eq(int, index_find_content(fixture.reader, state.id, key, stop_at_once, &calls, NULL),
                 STATUS_CONFLICT));
    cr_expect(eq(int, calls, 1));
    index_end(fixture.reader);
}

Test(index_search, nul_inside_a_text_neither_ends_nor_joins_it)
{
    AUTO_FIXTURE struct fixture fixture;
    AUTO_ROWS struct rows rows = {0};
    struct scope scope = scope_of("u1", "a");
    static const char content[] = "before\0after";
    char ids[16];

    fixture_create(&fixture);
    rows_add(&rows, fact_with("l1", content, sizeof content - 1, "c", "", 0.5));
    uint64_t generation = install_rows(&fixture, &scope, 0, 1, &rows);
    EXPECT_FOUND(&fixture, &scope, "after", "l1");
    EXPECT_FOUND(&fixture, &scope, "before", "l1");
    EXPECT_FOUND(&fixture, &scope, "beforeafter", "");
    substring_ids(&fixture, &scope, "fter", 10, ids, sizeof ids);
    cr_expect(zero(int, strcmp(ids, "l1")));

    /* and it leaves the words again */
    const struct index_change change = {.scope = &scope,
                                        .expected_generation = generation,
                                        .replace_all = true,
                                        .synced = synced_at(2)};
    (void) install_change(&fixture, &change);
    EXPECT_FOUND(&fixture, &scope, "after", "");
}

Test(index_search, a_reader_without_a_snapshot_is_told_so)
{
    AUTO_FIXTURE struct fixture fixture;
    struct scope scope = scope_of("u1", "a");
    struct index_scope state;
    struct seen_list list;
    struct index_totals totals;

    fixture_create(&fixture);
    cr_expect(eq(int, index_read_scope(fixture.reader, &scope, &state, NULL), STATUS_INTERNAL));
    cr_expect(eq(int, index_read_seen(fixture.reader, 1, &list, NULL), STATUS_INTERNAL));
    cr_expect(eq(int, index_totals(fixture.reader, &totals, NULL), STATUS_INTERNAL));
}
