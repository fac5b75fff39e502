/* core/draft.h: change sets against a memory, each wholly or not at all. Pure: the memory is a
 * table of this file.
 */
#include "core/draft.h"

#include "core/clock.h"
#include "core/content_key.h"
#include "core/fact_normalise.h"
#include "core/json_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define OLD_NS UINT64_C(1780000000000000000)
#define NOW_NS UINT64_C(1790000000000000000)

/* ---- the memory that a draft starts from ---- */

#define STORED_MAX 8

static struct {
    json_t *facts[STORED_MAX]; /* sorted by id */
    size_t count;
    const char *broken_id; /* its file cannot be understood */
    enum status list_status;
    unsigned found;
} stored;

static struct scope scope;
static struct manifest manifest;
static struct draft *draft;
static struct change_set set;

static enum status find(void *context, const char *id, json_t **ret, char *ret_path,
                        struct error *error)
{
    (void) context;
    stored.found++;
    if (stored.broken_id && strcmp(stored.broken_id, id) == 0)
        return error_set(error, STATUS_CORRUPT, "users/u/broken.md", "no front matter");
    for (size_t i = 0; i < stored.count; i++) {
        if (strcmp(json_string_value(json_object_get(stored.facts[i], "id")), id) != 0)
            continue;
        *ret = json_incref(stored.facts[i]);
        (void) snprintf(ret_path, SCOPE_PATH_MAX, "agents/a/facts/zz/%s.md", id);
        return STATUS_OK;
    }
    return error_set(error, STATUS_NOT_FOUND, NULL, "no such fact");
}

static enum status list(void *context, draft_fact_sink sink, void *sink_context,
                        struct error *error)
{
    (void) context;
    if (stored.list_status != STATUS_OK)
        return error_set(error, stored.list_status, NULL, "no list");
    for (size_t i = 0; i < stored.count; i++) {
        enum status status = sink(sink_context, stored.facts[i]);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Gives all of them: a draft must compare for itself. */
static enum status find_content(void *context, uint64_t key, draft_fact_sink sink,
                                void *sink_context, struct error *error)
{
    (void) key;
    return list(context, sink, sink_context, error);
}

static uint64_t count(void *context)
{
    (void) context;
    return stored.count;
}

static json_t *complete(const char *id, const char *content, uint64_t wall_ns)
{
    AUTO_JSON json_t *given = json_pack("{s:s,s:s}", "id", id, "content", content);
    json_t *fact = NULL;

    cr_assert_eq(fact_normalise(given, &scope, wall_ns, &fact, NULL), STATUS_OK);
    return fact;
}

static void store_fact(const char *id, const char *content)
{
    stored.facts[stored.count++] = complete(id, content, OLD_NS);
}

static void begin(bool has_manifest, bool has_agent)
{
    const struct draft_options options = {
        .scope = &scope,
        .has_agent = has_agent,
        .manifest = has_manifest ? &manifest : NULL,
        .wall_ns = NOW_NS,
        .source = {.find = find, .list = list, .find_content = find_content, .count = count},
    };

    draft_destroy(&draft);
    cr_assert_eq(draft_create(&options, &draft), STATUS_OK);
}

static void set_up(void)
{
    static const char bytes[] =
        "{\"version\": \"2.0\", \"revision\": 7, \"lastUpdated\": \"\","
        " \"user\": {\"workContext\": {\"summary\": \"old\", \"updatedAt\": \"1\"}},"
        " \"history\": {}}";

    memset(&stored, 0, sizeof stored);
    set = (struct change_set){0};
    cr_assert_eq(scope_create("u", "a", &scope, NULL), STATUS_OK);
    cr_assert_eq(manifest_parse(bytes, sizeof bytes - 1, &manifest, NULL), STATUS_OK);
    store_fact("f1", "One.");
    store_fact("f2", "Two.");
    begin(true, true);
}

static void tear_down(void)
{
    draft_destroy(&draft);
    change_set_destroy(&set);
    manifest_destroy(&manifest);
    for (size_t i = 0; i < stored.count; i++)
        json_decref(stored.facts[i]);
}

TestSuite(draft, .init = set_up, .fini = tear_down);

/* ---- wishes ---- */

static struct change_upsert *want(const char *id, const char *content)
{
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", id, "content", content);
    struct change_upsert *upsert = NULL;

    cr_assert_eq(change_set_add_upsert(&set, &scope, fact, NOW_NS, &upsert, NULL), STATUS_OK);
    return upsert;
}

static void want_update(const char *id, const char *content, int64_t revision)
{
    struct change_upsert *upsert = want(id, content);

    upsert->expects = revision ? CHANGE_EXPECTS_REVISION : CHANGE_EXPECTS_ANYTHING;
    upsert->revision = revision;
}

static struct change_delete *want_delete(const char *id)
{
    struct change_delete *removal = NULL;

    cr_assert_eq(change_set_add_delete(&set, id, &removal, NULL), STATUS_OK);
    return removal;
}

static void want_summary(const char *group, const char *section, const char *text)
{
    AUTO_JSON json_t *summaries =
        json_pack("{s:{s:{s:s,s:s}}}", group, section, "summary", text, "updatedAt", "1");

    cr_assert_eq(change_set_set_summaries(&set, summaries, NULL), STATUS_OK);
}

/* Applies what was wished for, and begins a new wish. */
static enum status apply(struct draft_outcome *ret, struct error *error)
{
    *ret = (struct draft_outcome){0};
    enum status status = draft_apply(draft, &set, ret, NULL, error);
    change_set_destroy(&set);
    return status;
}

static void apply_ok(bool changes, int line)
{
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    struct error error = {0};

    cr_assert_eq(apply(&outcome, &error), STATUS_OK, "line %d: %s", line, error.message);
    cr_expect_eq(outcome.changed, changes, "line %d", line);
}
#define APPLY(changes) apply_ok(changes, __LINE__)

static void apply_refused(enum status expected, const char *members, int line)
{
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    struct error error = {0};

    cr_expect_eq(apply(&outcome, &error), expected, "line %d", line);
    cr_expect_str_eq(error.members, members, "line %d: {%s}", line, error.members);
}
#define REFUSED(expected, members) apply_refused(expected, members, __LINE__)

/* "f1=One.@1 f2=Two.@1" */
static void expect_facts(const char *expected, int line)
{
    AUTO_JSON json_t *facts = NULL;
    char text[1000] = "";
    size_t used = 0;
    size_t i;
    json_t *fact;

    cr_assert_eq(draft_list(draft, &facts, NULL), STATUS_OK);
    json_array_foreach(facts, i, fact)
    {
        used += (size_t) snprintf(text + used, sizeof text - used, "%s%s=%s@%d", i ? " " : "",
                                  json_string_value(json_object_get(fact, "id")),
                                  json_string_value(json_object_get(fact, "content")),
                                  (int) json_integer_value(json_object_get(fact, "revision")));
    }
    cr_expect_str_eq(text, expected, "line %d: {%s}", line, text);
    cr_expect_eq(draft_count(draft), json_array_size(facts), "line %d", line);
}
#define EXPECT_FACTS(expected) expect_facts(expected, __LINE__)

/* "+f3 ~f1 -f2" with their paths' shards where they are not zz */
static void expect_changes(const char *expected, int line)
{
    AUTO_FREE struct draft_change *changes = NULL;
    char text[1000] = "";
    size_t used = 0;
    size_t number;

    cr_assert_eq(draft_changes(draft, &changes, &number), STATUS_OK);
    for (size_t i = 0; i < number; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, "%s%s%s", i ? " " : "",
                                  !changes[i].fact     ? "-"
                                  : changes[i].existed ? "~"
                                                       : "+",
                                  changes[i].id);
    cr_expect_str_eq(text, expected, "line %d: {%s}", line, text);
}
#define EXPECT_CHANGES(expected) expect_changes(expected, __LINE__)

static const json_t *now_of(const char *id)
{
    json_t *fact = NULL;

    cr_assert_eq(draft_find(draft, id, &fact, NULL), STATUS_OK);
    return fact;
}

static const char *text_of(const char *id, const char *member)
{
    return json_string_value(json_object_get(now_of(id), member));
}

/* ---- looking ---- */

Test(draft, begins_as_what_is_stored)
{
    json_t *fact = NULL;
    struct error error = {0};

    EXPECT_FACTS("f1=One.@1 f2=Two.@1");
    EXPECT_CHANGES("");
    cr_expect(!draft_has_changed(draft));
    cr_expect_eq(draft_revision(draft), 7);
    cr_expect_null(draft_summaries(draft));
    cr_expect_eq(draft_find(draft, "f9", &fact, &error), STATUS_NOT_FOUND);
    cr_expect_eq(draft_find(draft, "../f9", &fact, &error), STATUS_INVALID);
    begin(false, true);
    cr_expect_eq(draft_revision(draft), 0);
}

Test(draft, a_fact_is_asked_for_once)
{
    (void) now_of("f1");
    (void) now_of("f1");
    want_update("f1", "Uno.", 1);
    APPLY(true);
    cr_expect_eq(stored.found, 1);
}

/* ---- facts ---- */

Test(draft, an_update_keeps_the_time_of_creation_and_goes_one_revision_up)
{
    char old[CLOCK_TEXT_SIZE];
    char now[CLOCK_TEXT_SIZE];

    clock_format(OLD_NS, old);
    clock_format(NOW_NS, now);
    want_update("f1", "Uno.", 1);
    APPLY(true);
    cr_expect_str_eq(text_of("f1", "content"), "Uno.");
    cr_expect_str_eq(text_of("f1", "createdAt"), old);
    cr_expect_str_eq(text_of("f1", "updatedAt"), now);
    cr_expect_eq(json_integer_value(json_object_get(now_of("f1"), "revision")), 2);
    EXPECT_CHANGES("~f1");
    AUTO_FREE struct draft_change *changes = NULL;
    size_t number;
    cr_assert_eq(draft_changes(draft, &changes, &number), STATUS_OK);
    cr_expect_str_eq(changes[0].path, "agents/a/facts/zz/f1.md", "where it lies");
}

Test(draft, a_new_fact_gets_its_own_shard)
{
    AUTO_FREE struct draft_change *changes = NULL;
    char shard[3];
    char path[SCOPE_PATH_MAX];
    size_t number;

    (void) want("f3", "Three.");
    APPLY(true);
    EXPECT_FACTS("f1=One.@1 f2=Two.@1 f3=Three.@1");
    EXPECT_CHANGES("+f3");
    fact_id_shard("f3", shard);
    (void) snprintf(path, sizeof path, "agents/a/facts/%s/f3.md", shard);
    cr_assert_eq(draft_changes(draft, &changes, &number), STATUS_OK);
    cr_expect_str_eq(changes[0].path, path);
}

Test(draft, what_is_there_already_is_no_change)
{
    AUTO_OUTCOME struct draft_outcome outcome = {0};

    want_update("f1", " One.\n", 0);
    cr_assert_eq(apply(&outcome, NULL), STATUS_OK);
    cr_expect(!outcome.changed);
    cr_expect_eq(json_array_size(outcome.upserted), 0);
    cr_expect(!draft_has_changed(draft));
    EXPECT_CHANGES("");
    /* an earlier time of creation and another one of change are no wish */
    AUTO_JSON json_t *same = json_deep_copy(stored.facts[0]);
    (void) json_object_set_new(same, "createdAt", json_string("2001-01-01T00:00:00Z"));
    (void) json_object_set_new(same, "updatedAt", json_string("2001-01-01T00:00:00Z"));
    cr_assert_eq(change_set_add_upsert(&set, &scope, same, NOW_NS, NULL, NULL), STATUS_OK);
    APPLY(false);
    (void) want_delete("f9");
    APPLY(false);
    EXPECT_FACTS("f1=One.@1 f2=Two.@1");
}

Test(draft, a_stale_or_wrong_expectation_is_refused_with_what_is_there)
{
    (void) want("f1", "Uno.");
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f1\","
                             "\"expected\":null,\"current\":1");
    want_update("f1", "Uno.", 3);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f1\","
                             "\"expected\":3,\"current\":1");
    want_update("f9", "Nine.", 2);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f9\","
                             "\"expected\":2,\"current\":null");
    struct change_upsert *upsert = want("f1", "Uno.");
    upsert->expects = CHANGE_EXPECTS_REVISION;
    upsert->revision = 1;
    upsert->has_own_revision = true;
    upsert->own_revision = 5;
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f1\","
                             "\"expected\":5,\"current\":1");
    struct change_delete *removal = want_delete("f2");
    removal->has_revision = true;
    removal->revision = 2;
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f2\","
                             "\"expected\":2,\"current\":1");
    cr_expect(!draft_has_changed(draft));
    EXPECT_FACTS("f1=One.@1 f2=Two.@1");
}

Test(draft, a_removal_of_what_is_not_there_is_nothing_whatever_it_expects)
{
    struct change_delete *removal = want_delete("f9");

    removal->has_revision = true;
    removal->revision = 3;
    APPLY(false);
}

Test(draft, a_set_is_taken_wholly_or_not_at_all)
{
    want_update("f1", "Uno.", 1);
    (void) want("f3", "Three.");
    want_summary("user", "workContext", "new");
    struct change_delete *removal = want_delete("f2");
    removal->has_revision = true;
    removal->revision = 9;
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f2\","
                             "\"expected\":9,\"current\":1");
    cr_expect(!draft_has_changed(draft));
    cr_expect_null(draft_summaries(draft));
    EXPECT_CHANGES("");
    EXPECT_FACTS("f1=One.@1 f2=Two.@1");
}

Test(draft, sets_follow_each_other)
{
    want_update("f1", "Uno.", 1);
    APPLY(true);
    want_update("f1", "Eins.", 2);
    APPLY(true);
    (void) want_delete("f2");
    APPLY(true);
    (void) want("f2", "Two again.");
    APPLY(true);
    (void) want("f3", "Three.");
    APPLY(true);
    (void) want_delete("f3");
    APPLY(true);
    want_update("f1", "Un.", 1);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f1\","
                             "\"expected\":1,\"current\":3");
    EXPECT_FACTS("f1=Eins.@3 f2=Two again.@1");
    EXPECT_CHANGES("~f1 ~f2");
    cr_expect_eq(draft_count(draft), 2);
}

Test(draft, what_was_put_in_and_taken_out_again_is_a_change_without_files)
{
    (void) want("f3", "Three.");
    APPLY(true);
    (void) want_delete("f3");
    APPLY(true);
    EXPECT_CHANGES("");
    cr_expect(draft_has_changed(draft), "both were granted, so the revision moves");
}

Test(draft, a_file_that_cannot_be_understood_stays)
{
    struct error error = {0};
    AUTO_OUTCOME struct draft_outcome outcome = {0};

    stored.broken_id = "f5";
    (void) want("f3", "Three.");
    (void) want("f5", "Five.");
    cr_expect_eq(apply(&outcome, &error), STATUS_CORRUPT);
    cr_expect_str_eq(error.path, "users/u/broken.md");
    EXPECT_CHANGES("");
    (void) want_delete("f5");
    cr_expect_eq(apply(&outcome, &error), STATUS_CORRUPT);
    EXPECT_FACTS("f1=One.@1 f2=Two.@1");
}

Test(draft, a_fact_at_the_last_revision_cannot_go_on)
{
    (void) json_object_set_new(stored.facts[0], "revision", json_integer(INT64_MAX));
    want_update("f1", "Uno.", 0);
    REFUSED(STATUS_INVALID, "");
    EXPECT_CHANGES("");
}

Test(draft, facts_need_an_agent)
{
    begin(true, false);
    (void) want("f3", "Three.");
    REFUSED(STATUS_INVALID, "");
    (void) want_delete("f1");
    REFUSED(STATUS_INVALID, "");
    json_t *fact = NULL;
    cr_expect_eq(draft_find(draft, "f1", &fact, NULL), STATUS_INVALID);
    want_summary("user", "workContext", "new");
    APPLY(true);
}

/* ---- the manifest's revision ---- */

static void expect_manifest(int64_t revision, bool may_rebase)
{
    set.has_manifest_revision = true;
    set.manifest_revision = revision;
    set.may_rebase = may_rebase;
}

Test(draft, the_manifest_revision_is_compared)
{
    (void) want("f3", "Three.");
    expect_manifest(6, false);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"manifest_revision\",\"expected\":6,\"current\":7");
    (void) want("f3", "Three.");
    expect_manifest(7, false);
    APPLY(true);
    begin(false, true);
    (void) want("f3", "Three.");
    expect_manifest(0, false);
    APPLY(true);
}

Test(draft, facts_with_their_own_revisions_are_rebased)
{
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    bool rebased = false;

    want_update("f1", "Uno.", 1);
    expect_manifest(7, true);
    cr_assert_eq(draft_apply(draft, &set, &outcome, &rebased, NULL), STATUS_OK);
    cr_expect(!rebased);
    change_set_destroy(&set);
    draft_outcome_destroy(&outcome);
    want_update("f2", "Due.", 1);
    expect_manifest(6, true);
    cr_assert_eq(draft_apply(draft, &set, &outcome, &rebased, NULL), STATUS_OK);
    cr_expect(rebased);
    change_set_destroy(&set);
    (void) want_delete("f2");
    expect_manifest(6, true);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"manifest_revision\",\"expected\":6,\"current\":7");
    want_update("f1", "Eins.", 1);
    expect_manifest(6, true);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"fact_revision\",\"fact_id\":\"f1\","
                             "\"expected\":1,\"current\":2");
    want_summary("user", "workContext", "new");
    expect_manifest(6, true);
    REFUSED(STATUS_CONFLICT, ",\"reason\":\"manifest_revision\",\"expected\":6,\"current\":7");
}

/* ---- summaries ---- */

Test(draft, a_summary_that_is_there_already_is_no_change)
{
    want_summary("user", "workContext", "old");
    APPLY(false);
    cr_expect(!draft_has_changed(draft));
    want_summary("history", "recentMonths", "");
    APPLY(true); /* its updatedAt differs */
    begin(true, true);
    want_summary("user", "workContext", "old");
    APPLY(false);
    AUTO_JSON json_t *none = json_object();
    cr_assert_eq(change_set_set_summaries(&set, none, NULL), STATUS_OK);
    APPLY(false);
    cr_expect_null(draft_summaries(draft));
}

Test(draft, summaries_of_several_sets_are_merged)
{
    want_summary("user", "workContext", "new");
    APPLY(true);
    want_summary("user", "workContext", "new");
    APPLY(false);
    want_summary("user", "topOfMind", "mind");
    APPLY(true);
    want_summary("history", "recentMonths", "months");
    APPLY(true);
    AUTO_JSON json_t *expected = json_loads(
        "{\"user\": {\"workContext\": {\"summary\": \"new\", \"updatedAt\": \"1\"},"
        " \"topOfMind\": {\"summary\": \"mind\", \"updatedAt\": \"1\"}},"
        " \"history\": {\"recentMonths\": {\"summary\": \"months\", \"updatedAt\": \"1\"}}}",
        0, NULL);
    cr_expect(json_equal(draft_summaries(draft), expected));
}

/* Two wishes for what is there already, each of another section. */
Test(draft, several_summaries_that_are_there_already_are_no_change)
{
    static const char bytes[] =
        "{\"version\": \"2.0\", \"revision\": 7, \"user\": "
        "{\"workContext\": {\"summary\": \"old\", \"updatedAt\": \"1\"},"
        " \"topOfMind\": {\"summary\": \"mind\", \"updatedAt\": \"1\"}}, \"history\": {}}";

    manifest_destroy(&manifest);
    cr_assert_eq(manifest_parse(bytes, sizeof bytes - 1, &manifest, NULL), STATUS_OK);
    begin(true, true);
    want_summary("user", "workContext", "old");
    APPLY(false);
    want_summary("user", "topOfMind", "mind");
    APPLY(false);
    cr_expect(!draft_has_changed(draft));
    want_summary("user", "workContext", "new");
    APPLY(true);
    want_summary("user", "topOfMind", "mind");
    APPLY(false);
    want_summary("user", "workContext", "old");
    APPLY(true);
}

/* ---- equal contents ---- */

static void expect_twin(const char *content, const char *expected, int line)
{
    char id[FACT_ID_MAX + 1];

    cr_assert_eq(draft_find_content(draft, content, strlen(content), id, NULL), STATUS_OK);
    cr_expect_str_eq(id, expected, "line %d: {%s}", line, id);
}
#define EXPECT_TWIN(content, expected) expect_twin(content, expected, __LINE__)

Test(draft, the_same_content_is_found_as_it_is_by_now)
{
    EXPECT_TWIN(" oNE. ", "f1");
    EXPECT_TWIN("One", "");
    want_update("f1", "Uno.", 1);
    APPLY(true);
    EXPECT_TWIN("One.", "");
    EXPECT_TWIN("UNO.", "f1");
    (void) want("f3", "Three.");
    (void) want_delete("f2");
    APPLY(true);
    EXPECT_TWIN("three.", "f3");
    EXPECT_TWIN("Two.", "");
    want_update("f3", "Two.", 0);
    APPLY(true);
    EXPECT_TWIN("Two.", "f3");
}

Test(draft, a_list_that_fails_is_told)
{
    AUTO_JSON json_t *facts = NULL;
    char id[FACT_ID_MAX + 1];

    stored.list_status = STATUS_IO;
    cr_expect_eq(draft_list(draft, &facts, NULL), STATUS_IO);
    cr_expect_null(facts);
    cr_expect_eq(draft_find_content(draft, "x", 1, id, NULL), STATUS_IO);
}

Test(draft, the_order_is_that_of_the_ids)
{
    (void) want("e9", "x");
    (void) want("f10", "x");
    (void) want("Z", "x");
    (void) want("f1-a", "x");
    APPLY(true);
    EXPECT_FACTS("Z=x@1 e9=x@1 f1=One.@1 f1-a=x@1 f10=x@1 f2=Two.@1");
    EXPECT_CHANGES("+Z +e9 +f1-a +f10");
}
