#include "core/legacy.h"

#include "tests/support/files.h"
#include "tests/support/shared.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros convert, and their strings are not const. */
#pragma GCC diagnostic ignored "-Wconversion"

static char *plain(const char *text)
{
    return (char *) (uintptr_t) text;
}

/* ---- a scratch volume ---- */

struct scratch {
    char path[PATH_MAX];
    struct volume *volume;
};

static void scratch_destroy(struct scratch *scratch)
{
    volume_close(&scratch->volume);
    test_remove_tree(scratch->path);
}
#define AUTO_SCRATCH CLEANUP(scratch_destroy)

static void scratch_start(struct scratch *scratch)
{
    const char *parent = getenv("TMPDIR");

    (void) snprintf(scratch->path, sizeof scratch->path, "%s/memsync-legacy-XXXXXX",
                    parent ? parent : "/tmp");
    cr_assert(ne(ptr, mkdtemp(scratch->path), NULL));
}

/* Opened last, so that everything it shows was there from the beginning. */
static void scratch_open(struct scratch *scratch)
{
    struct volume_options options = {.path = scratch->path};
    struct error error = {0};

    cr_assert(eq(int, volume_open(&options, &scratch->volume, &error), STATUS_OK), "%s",
              error.message);
}

static void put(const struct scratch *scratch, const char *name, const char *bytes)
{
    char path[PATH_MAX];

    test_join(path, scratch->path, name);
    test_make_parents(path);
    test_replace_file(path, bytes, strlen(bytes));
}

/* A fact file of somebody's. */
static void put_fact(const struct scratch *scratch, const char *name, const char *id,
                     const char *user, const char *agent, const char *content)
{
    AUTO_TEXT struct text text = {0};

    text_append_format(&text,
                       "---\nid: %s\ncategory: context\nconfidence: 0.8\n"
                       "createdAt: '2026-02-10T09:30:00Z'\n"
                       "source:\n  type: manual\n  threadId: null\nschemaVersion: 2\n"
                       "status: active\ntopics: []\nconsolidatedFrom: []\n"
                       "updatedAt: '2026-02-10T09:30:00Z'\nrevision: 1\nuser_id: %s\n"
                       "agent_name: %s\n---\n\n# %s\n\n%s\n",
                       id, user, agent, content, content);
    put(scratch, name, text.bytes);
}

/* Reads with the manifest that lies in the bucket, if one does. */
static enum status read_view(const struct scratch *scratch, const char *user, const char *agent,
                             const char *manifest_name, const json_t *current,
                             struct legacy_view *ret)
{
    AUTO_MANIFEST struct manifest manifest = {0};
    AUTO_FREE char *bytes = NULL;
    struct scope scope;
    struct error error = {0};
    char name[SCOPE_PATH_MAX];
    char path[PATH_MAX];
    size_t size = 0;

    cr_assert(eq(int, scope_create(user, agent, &scope, &error), STATUS_OK), "%s", error.message);
    scope_file_path(&scope, manifest_name, name);
    test_join(path, scratch->path, name);
    if (test_exists(path)) {
        bytes = test_read_file(path, &size);
        cr_assert(eq(int, manifest_parse(bytes, size, &manifest, &error), STATUS_OK), "%s: %s",
                  path, error.message);
    }
    return legacy_read(scratch->volume, &scope, manifest_name, manifest.root ? &manifest : NULL,
                       current, ret, &error);
}

/* A view as one line: found or not, the facts as id=content, the problems as !path: text. */
static char *told(const struct legacy_view *view)
{
    struct text text = {0};
    size_t index = 0;
    json_t *item = NULL;

    text_append_string(&text, view->found ? "found" : "nothing");
    json_array_foreach(view->facts, index, item)
    {
        text_append_format(&text, " %s=%s", json_string_value(json_object_get(item, "id")),
                           json_string_value(json_object_get(item, "content")));
    }
    json_array_foreach(view->problems, index, item)
    {
        text_append_format(&text, " !%s: %s", json_string_value(json_object_get(item, "path")),
                           json_string_value(json_object_get(item, "problem")));
    }
    return text_take(&text, NULL);
}

static void check_view(const struct scratch *scratch, const char *user, const char *agent,
                       const char *expected)
{
    AUTO_LEGACY_VIEW struct legacy_view view = {0};

    cr_assert(eq(int, read_view(scratch, user, agent, "memory.json", NULL, &view), STATUS_OK));
    AUTO_FREE char *text = told(&view);
    cr_expect(eq(str, text, plain(expected)), "%s of %s", agent, user);
}

/* ---- lists ---- */

static const char old_list[] =
    "{\"version\":\"1.0\",\"lastUpdated\":\"2025-12-01T10:00:00Z\",\"facts\":["
    "{\"id\":\"f_b\",\"content\":\" Walks on Sundays.\\r\\nAlone. \",\"category\":\"habit\","
    "\"confidence\":1,\"source\":\"t-7\",\"x\":{\"y\":[1]}},"
    "{\"content\":\"No id.\"},{\"content\":\"No id.\"},"
    "{\"id\":17,\"content\":\"Number.\",\"title\":\"Its\\ntitle\",\"createdAt\":\"2025-01-01T00:00:"
    "00Z\","
    "\"category\":\"goal\",\"source\":{\"threadId\":\"t\"},\"scope\":{\"userId\":\"other\"}}]}";

Test(legacy, list_becomes_facts_of_the_default_agent)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    AUTO_TEXT struct text text = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json", old_list);
    scratch_open(&scratch);
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &view), STATUS_OK));
    cr_expect(view.found);
    cr_expect(eq(sz, json_array_size(view.problems), 0));
    cr_assert(eq(sz, json_array_size(view.facts), 4));

    json_text_write(&text, json_array_get(view.facts, 0));
    text_append_char(&text, '\n');
    json_text_write(&text, json_array_get(view.facts, 1));
    cr_expect(
        eq(str, text.bytes,
           plain("{\"id\":\"17\",\"createdAt\":\"2025-01-01T00:00:00Z\",\"category\":\"goal\","
                 "\"source\":{\"threadId\":\"t\",\"type\":\"unknown\"},\"schemaVersion\":2,"
                 "\"confidence\":0.5,\"status\":\"active\",\"topics\":[],\"consolidatedFrom\":[],"
                 "\"updatedAt\":\"2025-01-01T00:00:00Z\",\"revision\":1,\"title\":\"Its title\","
                 "\"content\":\"Number.\",\"scope\":{\"userId\":\"ann\",\"agentName\":\"__default__"
                 "\"}}\n"
                 "{\"id\":\"f_b\",\"category\":\"other\",\"confidence\":1.0,"
                 "\"source\":{\"type\":\"conversation\",\"threadId\":\"t-7\"},\"x\":{\"y\":[1]},"
                 "\"schemaVersion\":2,\"categoryExtension\":\"habit\",\"status\":\"active\","
                 "\"topics\":[],\"consolidatedFrom\":[],\"createdAt\":\"2025-12-01T10:00:00Z\","
                 "\"updatedAt\":\"2025-12-01T10:00:00Z\",\"revision\":1,"
                 "\"title\":\"Walks on Sundays.\",\"content\":\"Walks on Sundays.\\nAlone.\","
                 "\"scope\":{\"userId\":\"ann\",\"agentName\":\"__default__\"}}")));
}

Test(legacy, made_up_ids_are_the_same_at_every_reading_and_differ_within_one)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_LEGACY_VIEW struct legacy_view first = {0};
    AUTO_LEGACY_VIEW struct legacy_view second = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json", old_list);
    scratch_open(&scratch);
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &first), STATUS_OK));
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &second), STATUS_OK));
    cr_expect(eq(int, json_equal(first.facts, second.facts), 1));

    const char *a = json_string_value(json_object_get(json_array_get(first.facts, 2), "id"));
    const char *b = json_string_value(json_object_get(json_array_get(first.facts, 3), "id"));
    cr_expect(eq(sz, strlen(a), strlen("fact_") + 32));
    cr_expect(fact_id_is_valid(a));
    cr_expect(ne(str, plain(a), plain(b)));
}

Test(legacy, manifest_marks_every_agent_but_shows_facts_to_the_default_one_only)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f\",\"content\":\"One.\"}]}");
    put(&scratch, "users/bea/memory.json", "{\"version\":\"0.9\"}");
    put(&scratch, "users/cyd/memory.json", "{\"version\":\"2.0\",\"revision\":4}");
    put(&scratch, "users/dee/memory.json",
        "{\"version\":\"3.0\",\"facts\":[{\"id\":\"f\",\"content\":\"Later.\"}]}");
    put(&scratch, "memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"r\",\"content\":\"Of the root.\"}]}");
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL, "found f=One.");
    check_view(&scratch, "ann", "desk", "found");
    check_view(&scratch, "bea", NULL, "found");
    check_view(&scratch, "cyd", NULL, "nothing");
    check_view(&scratch, "dee", NULL, "nothing");
    check_view(&scratch, NULL, NULL, "found r=Of the root.");
}

/* The problem of a list's second fact, `first` standing before it. */
static void check_bad_fact(const char *fact, const char *problem)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_TEXT struct text manifest = {0};
    AUTO_TEXT struct text expected = {0};

    scratch_start(&scratch);
    text_append_format(&manifest,
                       "{\"version\":\"1.0\",\"facts\":[{\"id\":\"ok\",\"content\":\"Fine.\"},%s]}",
                       fact);
    text_append_format(&expected, "found ok=Fine. !users/ann/memory.json: fact number 2: %s",
                       problem);
    put(&scratch, "users/ann/memory.json", manifest.bytes);
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL, expected.bytes);
}

Test(legacy, bad_fact_is_a_problem_and_the_others_are_shown)
{
    static const char *const cases[][2] = {
        {"\"text\"", "it is no mapping"},
        {"{\"id\":\"a b\",\"content\":\"x\"}", "the id holds what no fact id may"},
        {"{\"id\":\"a\\u0000\",\"content\":\"x\"}", "the id holds what no fact id may"},
        {"{\"id\":[1],\"content\":\"x\"}", "the id is no text"},
        {"{\"id\":1.5,\"content\":\"x\"}", "the id is no text"},
        {"{\"id\":true,\"content\":\"x\"}", "the id is no text"},
        {"{\"id\":\"a\"}", "there is no content"},
        {"{\"id\":\"a\",\"content\":\" \\n\\u00a0\"}", "there is no content"},
        {"{\"id\":\"a\",\"content\":5}", "there is no content"},
        {"{\"id\":\"a\",\"content\":\"x \\ud83d\"}", "the content holds half of a surrogate pair"},
        {"{\"id\":\"a\",\"content\":\"x\",\"confidence\":1.5}",
         "the confidence is no number from 0 to 1"},
        {"{\"id\":\"a\",\"content\":\"x\",\"confidence\":true}",
         "the confidence is no number from 0 to 1"},
        {"{\"id\":\"a\",\"content\":\"x\",\"confidence\":\"0.5\"}",
         "the confidence is no number from 0 to 1"},
        {"{\"id\":\"a\",\"content\":\"x\",\"confidence\":NaN}",
         "the confidence is no number from 0 to 1"},
        {"{\"id\":\"a\",\"content\":\"x\",\"status\":\"archived\"}",
         "the status is not \"active\""},
        {"{\"id\":\"a\",\"content\":\"x\",\"topics\":\"a\"}",
         "topics or consolidatedFrom is no list"},
        {"{\"id\":\"a\",\"content\":\"x\",\"consolidatedFrom\":[1]}",
         "topics or consolidatedFrom holds what is no text"},
        {"{\"id\":\"a\",\"content\":\"x\",\"category\":3}", "the category is no text"},
        {"{\"id\":\"a\",\"content\":\"x\",\"revision\":0}", "the revision is no number from 1 up"},
        {"{\"id\":\"a\",\"content\":\"x\",\"createdAt\":5}", "a date is no text"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_bad_fact(cases[i][0], cases[i][1]);
}

Test(legacy, two_facts_of_one_id_merge_when_equal)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f\",\"content\":\"One.\"},"
        "{\"id\":\"f\",\"content\":\"One.\"},{\"id\":\"f\",\"content\":\"Two.\"}]}");
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL,
               "found f=One. !users/ann/memory.json: fact f is there twice, in two forms; the "
               "first is shown");
}

Test(legacy, fact_that_the_scope_has_already_is_not_shown_again)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_LEGACY_VIEW struct legacy_view before = {0};
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    AUTO_JSON json_t *current = json_object();

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"a\",\"content\":\"Same.\"},"
        "{\"id\":\"b\",\"content\":\"Old.\"},{\"id\":\"c\",\"content\":\"Unseen.\"},"
        "{\"id\":\"d\",\"content\":\"New.\"}]}");
    scratch_open(&scratch);
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &before), STATUS_OK));

    json_t *same = json_deep_copy(json_array_get(before.facts, 0));
    json_t *other = json_deep_copy(json_array_get(before.facts, 1));
    cr_assert(eq(int, json_object_set_new(same, "revision", json_integer(9)), 0));
    cr_assert(eq(int, json_object_set_new(other, "content", json_string("Changed.")), 0));
    cr_assert(eq(int, json_object_set_new(current, "a", same), 0));
    cr_assert(eq(int, json_object_set_new(current, "b", other), 0));
    cr_assert(eq(int, json_object_set_new(current, "c", json_true()), 0));
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", current, &view), STATUS_OK));
    AUTO_FREE char *text = told(&view);
    cr_expect(eq(str, text,
                 plain("found d=New. !users/ann/memory.json: fact b is there in another form, in a "
                       "file of its own, which "
                       "is shown instead")));
}

Test(legacy, facts_member_of_another_kind_is_a_problem)
{
    static const char *const values[] = {"\"none\"", "3", "true"};

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        AUTO_SCRATCH struct scratch scratch = {0};
        AUTO_TEXT struct text manifest = {0};
        scratch_start(&scratch);
        text_append_format(&manifest, "{\"version\":\"1.0\",\"facts\":%s}", values[i]);
        put(&scratch, "users/ann/memory.json", manifest.bytes);
        scratch_open(&scratch);
        check_view(&scratch, "ann", NULL,
                   "found !users/ann/memory.json: \"facts\" is neither a list nor a mapping");
    }
}

Test(legacy, long_title_is_cut_between_characters)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    AUTO_TEXT struct text content = {0};
    AUTO_TEXT struct text manifest = {0};

    for (int i = 0; i < 170; i++)
        text_append_string(&content, i == 159 ? " " : "\xe2\x82\xac");
    text_append_format(&manifest,
                       "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f\",\"content\":\"%s\"}]}",
                       content.bytes);
    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json", manifest.bytes);
    scratch_open(&scratch);
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &view), STATUS_OK));
    const json_t *title = json_object_get(json_array_get(view.facts, 0), "title");
    cr_assert(eq(sz, json_string_length(title), 159 * 3)); /* the blank at its end is gone too */
    cr_expect(eq(int, memcmp(json_string_value(title), content.bytes, 159 * 3), 0));
}

/* ---- mappings ---- */

Test(legacy, mapping_leads_to_files)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"2.0\",\"facts\":{"
        "\"f_2\":{\"path\":\"facts/f_2.md\"},"
        "\"f_1\":{\"path\":\"agents/desk/facts/aa/f_1.md\",\"contentHash\":null},"
        "\"f_gone\":{\"path\":\"facts/f_gone.md\"},"
        "\"f_dir\":{\"path\":\"facts\"},"
        "\"f_deep\":{\"path\":\"facts/f_2.md/f_deep.md\"},"
        "\"f_hash\":{\"path\":\"facts/f_2.md\",\"contentHash\":\"sha256:00\"},"
        "\"f_num\":{\"path\":\"facts/f_2.md\",\"contentHash\":5},"
        "\"f_other\":{\"path\":\"facts/f_2.md\"},"
        "\"f_bea\":{\"path\":\"facts/f_bea.md\"},"
        "\"no id\":{\"path\":\"facts/f_2.md\"},"
        "\"f_up\":{\"path\":\"../bea/f.md\"},\"f_abs\":{\"path\":\"/etc/hosts\"},"
        "\"f_nul\":{\"path\":\"facts/f_2.md\\u0000\"},"
        "\"f_text\":\"facts/f_2.md\",\"f_none\":{}}}");
    put_fact(&scratch, "users/ann/facts/f_2.md", "f_2", "ann", "__default__", "Two.");
    put_fact(&scratch, "users/ann/facts/f_bea.md", "f_bea", "bea", "__default__", "Hers.");
    put_fact(&scratch, "users/ann/agents/desk/facts/aa/f_1.md", "f_1", "ann", "desk", "One.");
    scratch_open(&scratch);

    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &view), STATUS_OK));
    AUTO_FREE char *text = told(&view);
    cr_expect(eq(int, strncmp(text, "found f_1=One. f_2=Two. !", 25), 0), "%s", text);
    cr_expect(eq(sz, json_array_size(view.problems), 13));
    for (size_t i = 0; i < json_array_size(view.facts); i++) {
        const json_t *scope = json_object_get(json_array_get(view.facts, i), "scope");
        cr_expect(eq(str, plain(json_string_value(json_object_get(scope, "agentName"))),
                     plain("__default__")));
    }
    check_view(&scratch, "ann", "desk", "found");
}

Test(legacy, mapping_checks_the_bytes_that_it_announces)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"1.0\",\"facts\":{\"f\":{\"path\":\"facts/f.md\",\"contentHash\":"
        "\"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}}}");
    put_fact(&scratch, "users/ann/facts/f.md", "f", "ann", "__default__", "Not empty.");
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL,
               "found !users/ann/facts/f.md: the bytes are not those that the manifest announces");
}

/* ---- files of one agent ---- */

Test(legacy, file_of_an_agent_is_shown_to_that_agent)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put(&scratch, "users/ann/agents/desk/memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f\",\"content\":\"Of the desk.\"}]}");
    put(&scratch, "users/ann/agents/hall/memory.json", "{\"version\":\"2.0\"}");
    put(&scratch, "users/ann/agents/loft/memory.json", "{\"facts\":{}}");
    put(&scratch, "users/ann/agents/shed/memory.json", "{");
    put(&scratch, "users/ann/agents/yard/memory.json/x", "");
    put(&scratch, "users/ann/agents/barn/memory.json", "{\"version\":\"1.0\",\"facts\":null}");
    scratch_open(&scratch);
    check_view(&scratch, "ann", "Desk", "found f=Of the desk.");
    check_view(&scratch, "ann", NULL, "nothing");
    check_view(&scratch, "ann", "absent", "nothing");
    check_view(&scratch, "ann", "hall",
               "found !users/ann/agents/hall/memory.json: the file is not of version 1");
    check_view(&scratch, "ann", "loft",
               "found !users/ann/agents/loft/memory.json: \"facts\" is no list");
    check_view(
        &scratch, "ann", "shed",
        "found !users/ann/agents/shed/memory.json: line 1 column 2: the text ends too early");
    check_view(&scratch, "ann", "yard", "nothing");
    check_view(&scratch, "ann", "barn", "found");
}

/* ---- the earlier default agent ---- */

Test(legacy, lead_agent_is_shown_to_the_default_agent)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put_fact(&scratch, "users/ann/agents/lead-agent/facts/9a/f_1.md", "f_1", "ann", "lead-agent",
             "One.");
    put_fact(&scratch, "users/ann/agents/lead-agent/facts/f_0.md", "f_0", "ann", "lead-agent",
             "Misplaced.");
    put_fact(&scratch, "users/bea/agents/lead-agent/facts/9a/f_1.md", "f_1", "bea", "lead-agent",
             "Hers.");
    put(&scratch, "users/bea/agents/lead-agent/config.yaml", "name: lead-agent\n");
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL, "found f_0=Misplaced. f_1=One.");
    check_view(&scratch, "ann", "lead-agent", "nothing");
    check_view(&scratch, "ann", "desk", "nothing");
    check_view(&scratch, "bea", NULL, "nothing");
}

Test(legacy, lead_agent_with_something_unexpected_shows_what_is_sound)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put_fact(&scratch, "users/ann/agents/lead-agent/facts/9a/f_1.md", "f_1", "ann", "lead-agent",
             "One.");
    put(&scratch, "users/ann/agents/lead-agent/facts/9a/.f_1.md.3c.tmp", "half");
    put(&scratch, "users/ann/agents/lead-agent/facts/9a/f_2.md", "no front matter");
    put(&scratch, "users/ann/agents/lead-agent/.metadata/x.json", "{}");
    put(&scratch, "users/ann/agents/lead-agent/NOTES\xff", "");
    scratch_open(&scratch);

    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    cr_assert(eq(int, read_view(&scratch, "ann", NULL, "memory.json", NULL, &view), STATUS_OK));
    AUTO_FREE char *text = told(&view);
    const char *unexpected = "the earlier default agent holds something unexpected";
    AUTO_TEXT struct text start = {0};
    text_append_format(&start,
                       "found f_1=One. !users/ann/agents/lead-agent/.metadata: %s "
                       "!users/ann/agents/lead-agent/NOTES\xef\xbf\xbd: %s "
                       "!users/ann/agents/lead-agent/facts/9a/.f_1.md.3c.tmp: %s "
                       "!users/ann/agents/lead-agent/facts/9a/f_2.md: ",
                       unexpected, unexpected, unexpected);
    cr_expect(eq(int, strncmp(text, start.bytes, start.size), 0), "%s", text);
}

Test(legacy, lead_agent_without_any_file_is_nothing)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    char path[PATH_MAX];

    scratch_start(&scratch);
    test_join(path, scratch.path, "users/ann/agents/lead-agent/facts/9a");
    test_make_dirs(path);
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL, "nothing");
}

Test(legacy, deep_directories_end)
{
    AUTO_SCRATCH struct scratch scratch = {0};

    scratch_start(&scratch);
    put_fact(&scratch, "users/ann/agents/lead-agent/facts/1/2/3/4/5/6/7/8/f.md", "f", "ann",
             "lead-agent", "Deep.");
    put_fact(&scratch, "users/ann/agents/lead-agent/facts/1/2/3/4/5/6/7/8/9/g.md", "g", "ann",
             "lead-agent", "Too deep.");
    scratch_open(&scratch);
    check_view(&scratch, "ann", NULL,
               "found f=Deep. !users/ann/agents/lead-agent/facts/1/2/3/4/5/6/7/8/9: the earlier "
               "default agent holds something unexpected");
}

/* ---- listings ---- */

static bool is_possible(const struct scratch *scratch, const char *agent,
                        const struct manifest *manifest)
{
    AUTO_LISTING struct listing own = {0};
    AUTO_LISTING struct listing lead = {0};
    struct scope scope;
    char path[SCOPE_PATH_MAX];

    cr_assert(eq(int, scope_create("ann", agent, &scope, NULL), STATUS_OK));
    (void) snprintf(path, sizeof path, "users/ann/agents/%s", scope.agent);
    bool has_own = volume_list(scratch->volume, -1, path, &own, NULL) == STATUS_OK;
    bool has_lead =
        volume_list(scratch->volume, -1, "users/ann/agents/lead-agent", &lead, NULL) == STATUS_OK;
    return legacy_is_possible(&scope, manifest, has_own ? &own : NULL, has_lead ? &lead : NULL);
}

Test(legacy, is_told_from_listings_alone)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    struct manifest old = {.layout = MANIFEST_LAYOUT_1};
    struct manifest ours = {.layout = MANIFEST_LAYOUT_2};
    struct manifest newer = {.layout = MANIFEST_LAYOUT_NEWER};

    scratch_start(&scratch);
    put(&scratch, "users/ann/agents/desk/memory.json", "{}");
    put(&scratch, "users/ann/agents/hall/x", "");
    put(&scratch, "users/ann/agents/lead-agent/facts/aa/x", "");
    scratch_open(&scratch);
    cr_expect(is_possible(&scratch, "hall", &old));
    cr_expect(not(is_possible(&scratch, "hall", &ours)));
    cr_expect(not(is_possible(&scratch, "hall", &newer)));
    cr_expect(not(is_possible(&scratch, "hall", NULL)));
    cr_expect(is_possible(&scratch, "desk", &ours));
    cr_expect(is_possible(&scratch, NULL, &ours));
    cr_expect(not(is_possible(&scratch, "lead-agent", &ours)));
    put(&scratch, "users/ann/agents/lead-agent/config.yaml", "");
    cr_expect(not(is_possible(&scratch, NULL, &ours)));
}

/* Names that were opened for reading; a listing shows the rest. */
static struct text opened;

static int open_and_note(int dir_fd, const char *path, int flags, mode_t mode)
{
    text_append_format(&opened, "%s\n", path);
    return volume_real_calls()->open_beneath(dir_fd, path, flags, mode);
}

Test(legacy, looks_up_no_name_that_no_listing_has_shown)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    struct volume_calls calls = *volume_real_calls();
    struct volume_options options = {.path = scratch.path, .calls = &calls};

    calls.open_beneath = open_and_note;
    scratch_start(&scratch);
    put(&scratch, "users/ann/memory.json",
        "{\"version\":\"1.0\",\"facts\":{\"f_gone\":{\"path\":\"facts/f_gone.md\"},"
        "\"g_gone\":{\"path\":\"gone/g_gone.md\"}}}");
    put(&scratch, "users/ann/facts/other.md", "");
    cr_assert(eq(int, volume_open(&options, &scratch.volume, NULL), STATUS_OK));
    text_clear(&opened);
    check_view(&scratch, "ann", NULL,
               "found !users/ann/facts/f_gone.md: the file of fact f_gone is not there "
               "!users/ann/gone/g_gone.md: the file of fact g_gone is not there");
    cr_expect(eq(str, plain(text_string(&opened)), plain("users/ann\nusers/ann/facts\n")));
    text_destroy(&opened);
}

Test(legacy, what_goes_away_between_listing_and_reading_is_stale)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    char path[PATH_MAX];

    scratch_start(&scratch);
    put(&scratch, "users/ann/agents/desk/memory.json", "{}");
    test_join(path, scratch.path, "users/ann/agents/desk/memory.json");
    scratch_open(&scratch);
    test_remove_file(path);
    check_view(&scratch, "ann", "desk", "nothing");
    test_join(path, scratch.path, "users");
    test_remove_tree(path);
    cr_expect(
        eq(int, read_view(&scratch, "ann", "desk", "memory.json", NULL, &view), STATUS_STALE));
}

/* ---- the shared volumes ---- */

/* A copy without the parts that depend on the time of reading or on made-up ids; `expected` shows
 * which these are. */
static void blank_out(json_t *ours, json_t *expected)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(expected, key, value)
    {
        if (json_is_true(json_object_get(value, "$varies")))
            cr_assert(eq(int, json_object_set(ours, key, value), 0));
    }
}

/* Facts that the scope has in files of its own are in the peers' answer too. */
static bool is_own_file(const struct scope *scope, const struct scratch *scratch, const char *id)
{
    char name[SCOPE_PATH_MAX];
    char path[PATH_MAX];
    char shard[3];
    AUTO_TEXT struct text file = {0};

    if (!id)
        return false;
    fact_id_shard(id, shard);
    scope_facts_path(scope, name);
    text_append_format(&file, "%s/%s/%s.md", name, shard, id);
    test_join(path, scratch->path, file.bytes);
    return test_exists(path);
}

static json_t *facts_to_come(const struct scratch *scratch, const struct scope *scope,
                             json_t *document)
{
    json_t *facts = json_array();
    size_t index = 0;
    json_t *fact = NULL;

    json_array_foreach(json_object_get(document, "facts"), index, fact)
    {
        if (!is_own_file(scope, scratch, json_string_value(json_object_get(fact, "id"))))
            cr_assert(eq(int, json_array_append(facts, fact), 0));
    }
    return facts;
}

/* The ids that the scope has already. */
static json_t *facts_at_hand(const struct scratch *scratch, const struct scope *scope,
                             json_t *document)
{
    json_t *current = json_object();
    size_t index = 0;
    json_t *fact = NULL;

    json_array_foreach(json_object_get(document, "facts"), index, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        if (is_own_file(scope, scratch, id))
            cr_assert(eq(int, json_object_set(current, id, fact), 0));
    }
    return current;
}

static void check_facts(const char *where, const struct legacy_view *view, json_t *expected)
{
    AUTO_TEXT struct text ours = {0};
    AUTO_TEXT struct text theirs = {0};

    cr_assert(eq(sz, json_array_size(view->facts), json_array_size(expected)), "%s", where);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        json_t *theirs_fact = json_array_get(expected, i);
        AUTO_JSON json_t *fact = json_copy(json_array_get(view->facts, i));
        blank_out(fact, theirs_fact);
        json_text_write(&ours, fact);
        json_text_write(&theirs, theirs_fact);
        text_append_char(&ours, '\n');
        text_append_char(&theirs, '\n');
    }
    cr_expect(eq(str, plain(text_string(&ours)), plain(text_string(&theirs))), "%s", where);
}

/* One scope of a volume against what a peer answered after it had migrated. */
static void check_scope(const char *name, const struct scratch *scratch, const char *manifest_name,
                        json_t *expected)
{
    const char *user = json_string_value(json_object_get(expected, "user_id"));
    const char *agent = json_string_value(json_object_get(expected, "agent"));
    json_t *document = json_object_get(expected, "document");
    AUTO_LEGACY_VIEW struct legacy_view view = {0};
    AUTO_TEXT struct text where = {0};
    struct scope scope;

    if (!agent)
        return; /* summaries only */
    text_append_format(&where, "%s: %s of %s", name, agent, user ? user : "nobody");
    cr_assert(eq(int, scope_create(user, agent, &scope, NULL), STATUS_OK));
    AUTO_JSON json_t *current = facts_at_hand(scratch, &scope, document);
    cr_assert(eq(int, read_view(scratch, user, agent, manifest_name, current, &view), STATUS_OK),
              "%s", where.bytes);
    if (!document) { /* the peers stop where we show what is sound and tell the rest */
        cr_expect(view.found, "%s", where.bytes);
        return;
    }
    AUTO_JSON json_t *to_come = facts_to_come(scratch, &scope, document);
    check_facts(where.bytes, &view, to_come);
    cr_expect(eq(sz, json_array_size(view.problems), 0), "%s", where.bytes);
}

/* Every file's name and bytes, as one text. */
static void append_tree(struct text *text, const char *path)
{
    AUTO_TEXT struct text command = {0};
    char line[4096];
    size_t got = 0;

    text_append_format(&command, "cd '%s' && find . ! -type d -exec cksum {} + | sort", path);
    FILE *pipe = popen(command.bytes, "r");
    cr_assert(ne(ptr, pipe, NULL));
    while ((got = fread(line, 1, sizeof line, pipe)) > 0)
        text_append(text, line, got);
    cr_assert(eq(int, pclose(pipe), 0));
}

static void check_shared(const char *name)
{
    AUTO_SCRATCH struct scratch scratch = {0};
    AUTO_TEXT struct text before = {0};
    AUTO_TEXT struct text after = {0};
    char path[PATH_MAX];
    AUTO_JSON json_t *expected = shared_json("volumes/%s/expect.json", name);
    json_t *scopes = json_object_get(expected, "scopes");
    const char *manifest_name = json_string_value(
        json_object_get(json_object_get(expected, "config"), "manifest_filename"));

    scratch_start(&scratch);
    shared_path(path, "volumes/%s/volume", name);
    test_copy_tree(path, scratch.path);
    append_tree(&before, scratch.path);
    scratch_open(&scratch);
    cr_assert(gt(sz, json_array_size(scopes), 0), "%s", name);
    for (size_t i = 0; i < json_array_size(scopes); i++)
        check_scope(name, &scratch, manifest_name ? manifest_name : "memory.json",
                    json_array_get(scopes, i));
    append_tree(&after, scratch.path);
    cr_expect(eq(str, after.bytes, before.bytes), "%s: reading changed the volume", name);
}

Test(legacy, shared_volumes_show_what_the_peers_show_after_migration)
{
    static const char *const names[] = {"v1-list",
                                        "v1-list-read-by-agent",
                                        "v1-list-read-summaries",
                                        "v1-root",
                                        "v1-empty-list",
                                        "v1-version-only",
                                        "v1-loose-facts",
                                        "v1-bad-facts",
                                        "v1-mapping",
                                        "v1-mapping-bad",
                                        "v1-per-agent",
                                        "v1-per-agent-unread",
                                        "v1-per-agent-merge",
                                        "v1-per-agent-conflicts",
                                        "v1-both",
                                        "v1-backup-exists",
                                        "v1-custom-name",
                                        "v1-write-first",
                                        "lead-agent-moved",
                                        "lead-agent-other-read",
                                        "lead-agent-custom",
                                        "lead-agent-unexpected",
                                        "lead-agent-conflict",
                                        "lead-agent-root",
                                        "crash-y-lead-agent"};

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        check_shared(names[i]);
}

/* Where the peers stop, what we tell instead. */
Test(legacy, shared_volumes_with_defects_show_what_is_sound)
{
    static const struct {
        const char *name, *user, *expected;
    } cases[] = {
        {"v1-bad-facts", "second",
         "found fact_ok=Fine. !users/second/memory.json: fact number 2: topics or consolidatedFrom "
         "is no list"},
        {"v1-bad-facts", "dupdiff",
         "found fact_x=One. !users/dupdiff/memory.json: fact fact_x is there twice, in two forms; "
         "the first is shown"},
        {"v1-bad-facts", "factsnull", "found"},
        {"v1-mapping-bad", "gone",
         "found !users/gone/facts/fact_m1.md: the file of fact fact_m1 is not there"},
        {"v1-mapping-bad", "escape",
         "found !users/escape/memory.json: fact fact_m1 names no file of this user"},
        {"v1-mapping-bad", "hash",
         "found !users/hash/facts/fact_m1.md: the bytes are not those that the manifest announces"},
        {"v1-backup-exists", "differs", "found fact_b=Backed up before."},
        {"lead-agent-unexpected", "soul",
         "found fact_l1=Beside an unexpected file. !users/soul/agents/lead-agent/SOUL.md: the "
         "earlier default agent holds something unexpected"},
        {"lead-agent-unexpected", "leftover",
         "found fact_l1=Beside an unexpected file. "
         "!users/leftover/agents/lead-agent/facts/aa/.fact_l1.md.0123.tmp: the earlier default "
         "agent holds something unexpected"},
    };

    if (!shared_is_there())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_SCRATCH struct scratch scratch = {0};
        char path[PATH_MAX];
        scratch_start(&scratch);
        shared_path(path, "volumes/%s/volume", cases[i].name);
        test_copy_tree(path, scratch.path);
        scratch_open(&scratch);
        check_view(&scratch, cases[i].user, NULL, cases[i].expected);
    }
}
