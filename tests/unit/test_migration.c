/* core/migration.h: memories of earlier layouts, through the writer that meets them. What becomes
 * of each documented case is compared in tests/integration/test_migration.py.
 */
#include "core/writer.h"

#include "core/json_text.h"
#include "core/signature.h"
#include "tests/support/child.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/engine_checks.h"

#include <signal.h>
#include <sys/wait.h>

#define CALLS_MAX 2000 /* more than a migration and a write make */

#define DEFAULT_FACTS "users/u/agents/__default__/facts"
#define AGENT_FILE "users/u/agents/a/memory.json"
#define LEAD "users/u/agents/lead-agent"

/* A list of two facts, with a summary and a member that nobody knows. */
static const char old_list[] =
    "{\"version\":\"1.0\",\"lastUpdated\":\"2025-12-01T10:00:00Z\",\"user\":{\"workContext\":"
    "{\"summary\":\"Keeps bees.\",\"updatedAt\":\"\"}},\"mine\":7,\"revision\":4,\"facts\":["
    "{\"id\":\"f1\",\"content\":\"note one\",\"createdAt\":\"2025-06-01T08:00:00Z\"},"
    "{\"id\":\"f2\",\"content\":\"note two\"}]}";

/* An agent's own file. */
static const char old_agent[] =
    "{\"version\":\"1.0\",\"lastUpdated\":\"2025-12-01T10:00:00Z\",\"history\":{\"recentMonths\":"
    "{\"summary\":\"Moved house.\",\"updatedAt\":\"\"}},\"facts\":["
    "{\"id\":\"a1\",\"content\":\"note alpha\"}]}";

static struct temp_store *store;
static struct writer *writer;

static void open_all(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    temp_store_open(store);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

static void set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
    captured_log_start();
}

static void tear_down(void)
{
    captured_log_stop();
    pause_reset();
    temp_calls_reset();
    writer_destroy(&writer);
    temp_store_destroy(&store);
}

TestSuite(migration, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- what lies there ---- */

static void put(const char *path, const char *bytes)
{
    temp_volume_write(store->volume, path, bytes, strlen(bytes));
}

static void put_lead_facts(void)
{
    const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "l1", .text = "note led"},
        {.kind = TEMP_ADD, .id = "l2", .text = "note lead"},
    };

    temp_volume_set_revision(store->volume, "u", 3);
    temp_volume_raw(store->volume, "u", "lead-agent", changes, ARRAY_SIZE(changes));
}

static bool there(const char *path)
{
    return temp_volume_exists(store->volume, path);
}

static void expect_bytes(const char *path, const char *expected)
{
    AUTO_FREE char *bytes = there(path) ? temp_volume_read(store->volume, path, NULL) : NULL;

    cr_expect(bytes && strcmp(bytes, expected) == 0, "%s: {%s}", path, bytes ? bytes : "not there");
}

static json_t *manifest_of(const char *user)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_manifest_path(store->volume, user, path);
    AUTO_FREE char *bytes = temp_volume_read(store->volume, path, NULL);
    return json_loads(bytes, 0, NULL);
}

static const char *summary_of(const json_t *manifest, const char *part, const char *section)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(json_object_get(manifest, part), section), "summary"));

    return text ? text : "none";
}

static void expect_same_tree(const json_t *before, int line)
{
    AUTO_JSON json_t *now = temp_tree_read(store->volume, "users/u");
    char differs[1000];

    temp_tree_differ(before, now, differs, sizeof differs);
    cr_expect(!differs[0], "line %d: %s differs", line, differs);
}

/* ---- what is done ---- */

static enum status build_nine(void *context, struct draft *draft, struct change_set *set,
                              struct error *error)
{
    const char *content = context ? context : "note nine";
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", "f9", "content", content);
    struct change_upsert *upsert;

    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status == STATUS_OK)
        upsert->expects = CHANGE_EXPECTS_ANYTHING;
    return status;
}

static enum status build_nothing(void *context, struct draft *draft, struct change_set *set,
                                 struct error *error)
{
    (void) context;
    (void) draft;
    (void) set;
    (void) error;
    return STATUS_OK;
}

static enum status run_with(const char *scope_name, bool has_agent, write_build build,
                            const char *content, struct write_result *ret, struct error *error)
{
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = has_agent,
        .build = build,
        .context = (void *) (uintptr_t) content,
        .deadline_ns = clock_deadline_ms(10000),
    };
    *error = (struct error){0};
    return writer_run(writer, &request, ret, error);
}

static enum status run(const char *scope_name, bool has_agent, write_build build,
                       struct write_result *ret, struct error *error)
{
    return run_with(scope_name, has_agent, build, NULL, ret, error);
}

/* A write of fact f9. */
static int64_t write_nine(const char *scope)
{
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct error error;

    enum status status = run(scope, true, build_nine, &result, &error);
    cr_expect(status == STATUS_OK, "%s: %s %s", status_name(status), error.path, error.message);
    return result.revision;
}

static enum status migrate(const char *scope_name, bool force_agent, struct migration_result *ret,
                           struct error *error)
{
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    const struct migration_request request = {
        .scope = &scope,
        .has_agent = true,
        .force_agent = force_agent,
    };
    *error = (struct error){0};
    return writer_migrate(writer, &request, clock_deadline_ms(10000), 0, ret, error);
}

static void migrate_ok(const char *scope, bool force_agent, bool migrated, unsigned facts,
                       int64_t revision, int line)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    struct error error;

    enum status status = migrate(scope, force_agent, &result, &error);
    cr_assert(status == STATUS_OK, "line %d: %s %s", line, error.path, error.message);
    cr_expect(result.migrated == migrated, "line %d: migrated %d", line, result.migrated);
    cr_expect(result.facts == facts, "line %d: %u facts", line, (unsigned) result.facts);
    cr_expect(result.revision == revision, "line %d: revision %d", line, (int) result.revision);
}
#define MIGRATE_OK(scope, force, migrated, facts, revision)                                        \
    migrate_ok(scope, force, migrated, facts, revision, __LINE__)

/* Neither `migrate` nor a write gets past what lies there, and nothing is changed. */
static void expect_stop(const char *scope, const char *path, const char *cause, int line)
{
    AUTO_JSON json_t *before = temp_tree_read(store->volume, "users/u");
    AUTO_MIGRATION_RESULT struct migration_result migration = {0};
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct error error;

    for (unsigned i = 0; i < 2; i++) {
        enum status status = i == 0 ? migrate(scope, false, &migration, &error)
                                    : run(scope, true, build_nine, &result, &error);
        cr_expect(status == STATUS_CONFLICT, "line %d: %s", line, status_name(status));
        cr_expect(strstr(error.members, "\"reason\":\"migration\"") != NULL, "line %d: %s", line,
                  error.members);
        cr_expect(strcmp(error.path, path) == 0, "line %d: %s", line, error.path);
        cr_expect(strstr(error.message, cause) != NULL, "line %d: %s", line, error.message);
        expect_same_tree(before, line);
    }
}
#define EXPECT_STOP(scope, path, cause) expect_stop(scope, path, cause, __LINE__)

/* ---- the manifest's facts ---- */

Test(migration, the_first_write_keeps_the_facts_of_a_list)
{
    put("users/u/memory.json", old_list);
    open_all();
    EXPECT_ASK(store, "u/-", "", "refreshed", 1);
    EXPECT_ASK(store, "u/a", "", "refreshed", 1);
    expect_bytes("users/u/memory.json", old_list); /* reading leaves it */
    cr_expect_eq(write_nine("u/a"), 6);
    expect_bytes("users/u/memory.json.v1.bak", old_list);
    AUTO_JSON json_t *manifest = manifest_of("u");
    cr_expect_str_eq(json_string_value(json_object_get(manifest, "version")), "2.0");
    cr_expect(!json_object_get(manifest, "facts"));
    cr_expect_eq(json_integer_value(json_object_get(manifest, "mine")), 7);
    cr_expect_str_eq(summary_of(manifest, "user", "workContext"), "Keeps bees.");
    struct temp_answer answer = temp_store_ask(store, "u/- u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f9=nine");
    cr_expect(captured_log_count("volume.migrated") == 1);
}

Test(migration, each_scope_is_built_once_more_by_the_next_search)
{
    struct index_scope row;

    put("users/u/memory.json", old_list);
    open_all();
    EXPECT_ASK(store, "u/-", "", "refreshed", 1);
    EXPECT_ASK(store, "u/b", "", "refreshed", 1);
    cr_expect(temp_store_row(store, "u/b", &row) && row.unmigrated);
    MIGRATE_OK("u/-", false, true, 2, 5);
    EXPECT_STATE(store, "u/-", "unsynced");
    EXPECT_STATE(store, "u/b", "unsynced");
    EXPECT_REFRESHED(store, "u/-", "f1=one f2=two");
    EXPECT_REFRESHED(store, "u/b", "");
    cr_expect(temp_store_row(store, "u/b", &row) && !row.unmigrated);
    cr_expect(temp_store_row(store, "u/-", &row) && !row.unmigrated);
    MIGRATE_OK("u/-", false, false, 0, 5);
    EXPECT_ASK(store, "u/-", "f1=one f2=two", "fresh", 0);
}

Test(migration, a_list_becomes_the_agents_that_is_named)
{
    put("users/u/memory.json", old_list);
    open_all();
    MIGRATE_OK("u/a", true, true, 2, 5);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    EXPECT_ASK(store, "u/-", "", "refreshed", 1);
    cr_expect(!there(DEFAULT_FACTS));
}

Test(migration, a_write_without_an_agent_migrates_the_manifest_and_no_more)
{
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct error error;

    put("users/u/memory.json", old_list);
    put("users/u/agents/__default__/memory.json", "{\"facts\":[{}]}");
    open_all();
    cr_assert_eq(run("u/-", false, build_nothing, &result, &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(result.revision, 5);
    cr_expect(!result.changed);
    cr_expect(there("users/u/agents/__default__/memory.json"));
    EXPECT_ASK(store, "u/-", "f1=one f2=two", "refreshed", 1);
}

Test(migration, a_manifest_of_a_newer_version_is_never_written)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    struct error error;
    static const char newer[] = "{\"version\":\"3.0\",\"revision\":5,\"facts\":[]}";

    put("users/u/memory.json", newer);
    open_all();
    cr_expect_eq(migrate("u/-", false, &result, &error), STATUS_CONFLICT);
    cr_expect(strstr(error.members, "\"newer_layout\"") != NULL, "%s", error.members);
    expect_bytes("users/u/memory.json", newer);
    cr_expect(!there("users/u/memory.json.v1.bak"));
}

Test(migration, facts_that_are_files_already_are_not_taken_again)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_add(store->volume, "u", NULL, "f1", "note one");
    temp_volume_fact_path("u", NULL, "f1", path);
    AUTO_FREE char *fact = temp_volume_read(store->volume, path, NULL);
    put("users/u/memory.json",
        "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f1\",\"content\":\"note one\",\"category\":"
        "\"context\",\"confidence\":0.8,\"source\":\"manual\"},"
        "{\"id\":\"f2\",\"content\":\"note two\"}]}");
    open_all();
    MIGRATE_OK("u/-", false, true, 1, 1);
    expect_bytes(path, fact);
    EXPECT_ASK(store, "u/-", "f1=one f2=two", "refreshed", 1);
}

Test(migration, what_cannot_be_taken_over_stops_it)
{
    temp_volume_add(store->volume, "u", "a", "x1", "note ex");
    put("users/u/memory.json", "{\"version\":\"1.0\",\"facts\":[{\"id\":\"f1\",\"content\":\"ok\"},"
                               "{\"id\":\"f2\",\"content\":\"\"}]}");
    open_all();
    EXPECT_STOP("u/-", "users/u/memory.json", "fact number 2: there is no content");
    EXPECT_STOP("u/a", "users/u/memory.json", "fact number 2");
    put("users/u/memory.json", "{\"version\":\"1.0\",\"facts\":{\"f1\":{\"path\":\"../x.md\"}}}");
    EXPECT_STOP("u/-", "users/u/memory.json", "names no file of this user");
    put("users/u/memory.json", old_list);
    put("users/u/memory.json.v1.bak", "{}");
    EXPECT_STOP("u/-", "users/u/memory.json.v1.bak", "a copy of other bytes");
    temp_volume_remove(store->volume, "users/u/memory.json.v1.bak");
    put(AGENT_FILE, "[]");
    EXPECT_STOP("u/a", AGENT_FILE, "");
    MIGRATE_OK("u/-", false, true, 2, 5); /* another agent's file is not in its way */
}

Test(migration, a_broken_fact_in_the_way_stops_it)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    struct error error;
    char path[SCOPE_PATH_MAX];

    put("users/u/memory.json", old_list);
    temp_volume_fact_path("u", NULL, "f2", path);
    put(path, "no fact");
    open_all();
    AUTO_JSON json_t *before = temp_tree_read(store->volume, "users/u");
    cr_expect_eq(migrate("u/-", false, &result, &error), STATUS_CORRUPT);
    cr_expect_str_eq(error.path, path);
    expect_same_tree(before, __LINE__);
}

/* ---- an agent's file ---- */

Test(migration, an_agents_file_becomes_facts_and_fills_summaries)
{
    put(AGENT_FILE, old_agent);
    open_all();
    cr_expect_eq(write_nine("u/b"), 1); /* not its file */
    cr_expect(there(AGENT_FILE));
    cr_expect_eq(write_nine("u/a"), 3);
    cr_expect(!there(AGENT_FILE));
    expect_bytes(AGENT_FILE ".v1.bak", old_agent);
    AUTO_JSON json_t *manifest = manifest_of("u");
    cr_expect_str_eq(summary_of(manifest, "history", "recentMonths"), "Moved house.");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "a1=alpha f9=nine");
}

Test(migration, both_layouts_at_once_make_two_commits_each_to_its_agent)
{
    put("users/u/memory.json", old_list);
    put(AGENT_FILE, old_agent);
    open_all();
    MIGRATE_OK("u/a", false, true, 3, 6);
    EXPECT_ASK(store, "u/a", "a1=alpha", "refreshed", 1);
    EXPECT_ASK(store, "u/-", "f1=one f2=two", "refreshed", 1);
    AUTO_JSON json_t *manifest = manifest_of("u");
    cr_expect_str_eq(summary_of(manifest, "user", "workContext"), "Keeps bees.");
    cr_expect_str_eq(summary_of(manifest, "history", "recentMonths"), "Moved house.");
}

Test(migration, an_agents_summary_that_disagrees_stops_it)
{
    put("users/u/memory.json", "{\"version\":\"2.0\",\"revision\":2,\"history\":{\"recentMonths\":"
                               "{\"summary\":\"Stayed.\",\"updatedAt\":\"\"}}}");
    put(AGENT_FILE, old_agent);
    open_all();
    EXPECT_STOP("u/a", AGENT_FILE, "history.recentMonths is not what the user's manifest has");
    cr_expect_eq(write_nine("u/b"), 3);
}

/* Somebody else writes them all the time: what was read is never what stands there. */
Test(migration, files_that_keep_changing_are_left_for_later)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    struct error error;

    put(AGENT_FILE, old_agent);
    open_all();
    temp_calls_fail(TEMP_CALL_OPEN, "/agents/a/memory.json", ESTALE, 0, 0);
    cr_expect_eq(migrate("u/a", false, &result, &error), STATUS_UNAVAILABLE);
    cr_expect_str_eq(error.message, "the user's files keep changing");
    temp_calls_reset();
    expect_bytes(AGENT_FILE, old_agent);
    cr_expect_eq(write_nine("u/a"), 2);
}

static enum status try_nine(const char *scope_name, struct error *error)
{
    AUTO_WRITE_RESULT struct write_result result = {0};
    struct scope scope;
    bool unmigrated = false;

    temp_store_scope(scope_name, &scope);
    const struct write_request request = {
        .scope = &scope,
        .has_agent = true,
        .need = WRITE_SOURCE_ALL,
        .build = build_nine,
        .deadline_ns = clock_deadline_ms(10000),
    };
    *error = (struct error){0};
    enum status status = writer_try(writer, &request, &result, &unmigrated, error);
    cr_expect(status != STATUS_OK || unmigrated);
    return status;
}

Test(migration, nothing_is_told_of_files_that_keep_changing)
{
    struct error error;

    put(AGENT_FILE, old_agent);
    open_all();
    EXPECT_ASK(store, "u/a", "", "refreshed", 1);
    cr_expect_eq(try_nine("u/a", &error), STATUS_OK, "%s", error.message);
    temp_calls_fail(TEMP_CALL_OPEN, "/agents/a/memory.json", ESTALE, 0, 0);
    cr_expect_eq(try_nine("u/a", &error), STATUS_UNAVAILABLE);
    cr_expect_str_eq(error.message, "the user's files keep changing");
    temp_calls_reset();
    expect_bytes(AGENT_FILE, old_agent);
}

/* Somebody has made it before: it is compared. */
Test(migration, a_copy_that_cannot_be_read_stops_it)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    struct error error;

    put(AGENT_FILE, old_agent);
    put(AGENT_FILE ".v1.bak", old_agent);
    open_all();
    temp_calls_fail(TEMP_CALL_READ, "/agents/a/memory.json.v1.bak", EIO, 0, 0);
    cr_expect_eq(migrate("u/a", false, &result, &error), STATUS_IO);
    cr_expect_str_eq(error.path, AGENT_FILE ".v1.bak");
    temp_calls_reset();
    cr_expect_eq(write_nine("u/a"), 2);
}

/* ---- the earlier default agent ---- */

Test(migration, the_earlier_default_agents_facts_move)
{
    put_lead_facts();
    temp_volume_make_dir(store->volume, LEAD "/facts/00");
    open_all();
    EXPECT_ASK(store, "u/lead-agent", "l1=led l2=lead", "refreshed", 1);
    MIGRATE_OK("u/a", false, false, 0, 3);
    cr_expect(there(LEAD));
    MIGRATE_OK("u/-", false, true, 2, 4);
    cr_expect(!there(LEAD));
    EXPECT_ASK(store, "u/-", "l1=led l2=lead", "refreshed", 1);
    EXPECT_ASK(store, "u/lead-agent", "", "refreshed", 1);
}

Test(migration, a_real_agent_of_that_name_is_left_alone)
{
    put_lead_facts();
    put(LEAD "/config.yaml", "name: lead-agent\n");
    open_all();
    MIGRATE_OK("u/-", false, false, 0, 3);
    EXPECT_ASK(store, "u/lead-agent", "l1=led l2=lead", "refreshed", 1);
}

Test(migration, anything_else_there_stops_it)
{
    char path[SCOPE_PATH_MAX];

    put_lead_facts();
    put(LEAD "/SOUL.md", "I am.");
    open_all();
    EXPECT_STOP("u/-", LEAD "/SOUL.md", "something unexpected");
    temp_volume_remove(store->volume, LEAD "/SOUL.md");
    temp_volume_add(store->volume, "u", NULL, "l1", "note other");
    temp_volume_fact_path("u", "lead-agent", "l1", path);
    EXPECT_STOP("u/-", path, "in another form");
}

Test(migration, empty_directories_of_it_just_go)
{
    temp_volume_set_revision(store->volume, "u", 3);
    temp_volume_make_dir(store->volume, LEAD "/facts/00");
    open_all();
    MIGRATE_OK("u/-", false, false, 0, 3);
    cr_expect(!there(LEAD));
}

/* ---- somebody of an earlier version ---- */

struct attempt {
    enum status status;
    struct error error;
};

static void *attempt_main(void *context)
{
    struct attempt *attempt = context;
    AUTO_WRITE_RESULT struct write_result result = {0};

    attempt->status = run("u/-", true, build_nine, &result, &attempt->error);
    return NULL;
}

/* It knows no lock, and writes its list over the manifest between the migration and the write that
 * has caused it. */
Test(migration, a_list_that_is_back_before_the_write_is_not_written_over)
{
    struct attempt attempt;
    pthread_t thread;

    put("users/u/memory.json", old_list);
    open_all();
    pause_arm(PAUSE_COMMIT_AFTER_CLEANUP);
    cr_assert_eq(pthread_create(&thread, NULL, attempt_main, &attempt), 0);
    cr_assert(pause_wait_reached(PAUSE_COMMIT_AFTER_CLEANUP, LONG_MS));
    put("users/u/memory.json", old_list);
    pause_release(PAUSE_COMMIT_AFTER_CLEANUP);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(attempt.status, STATUS_CONFLICT);
    cr_expect_str_eq(attempt.error.message, "the memory is of an earlier layout again");
    cr_expect_str_eq(attempt.error.path, "users/u/memory.json");
    expect_bytes("users/u/memory.json", old_list);
}

/* ---- killed ---- */

/* What lies there before, by number; every source there is in the last. */
static void put_sources(unsigned which)
{
    if (which == 1 || which == 3)
        put("users/u/memory.json", old_list);
    else
        temp_volume_set_revision(store->volume, "u", 4);
    if (which == 2 || which == 3) {
        const struct temp_change lead = {.kind = TEMP_ADD, .id = "l1", .text = "note led"};
        temp_volume_raw(store->volume, "u", "lead-agent", &lead, 1);
    }
    if (which == 0 || which == 3)
        put("users/u/agents/__default__/memory.json", old_agent);
}
#define SOURCES_COUNT 4

static const char *const facts_of_sources[SOURCES_COUNT] = {
    "a1=alpha f9=nine",
    "f1=one f2=two f9=nine",
    "f9=nine l1=led",
    "a1=alpha f1=one f2=two f9=nine l1=led",
};

/* In a process of its own, with a store of its own; true when it was killed. */
static bool write_in_child(enum pause_point point, unsigned nth)
{
    int status = 0;
    pid_t pid = fork();

    cr_assert(pid >= 0);
    if (pid == 0) {
        struct write_result result = {0};
        struct error error;
        open_all();
        pause_kill_at(point, nth);
        child_exit(run("u/-", true, build_nine, &result, &error) == STATUS_OK ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0,
              "%s %u: status %x", pause_point_name(point), nth, (unsigned) status);
    return WIFSIGNALED(status);
}

/* The end is the same, whatever happened before. */
static void expect_end(unsigned which, const char *told)
{
    char left[2000];

    struct temp_answer answer = temp_store_ask(store, "u/-");
    cr_expect(strcmp(answer.facts, facts_of_sources[which]) == 0, "%s: {%s}", told, answer.facts);
    cr_expect(there("users/u/memory.json.v1.bak") == (which == 1 || which == 3), "%s", told);
    cr_expect(there("users/u/agents/__default__/memory.json.v1.bak") == (which == 0 || which == 3),
              "%s", told);
    cr_expect(!there("users/u/agents/__default__/memory.json"), "%s", told);
    cr_expect(!there(LEAD) || temp_volume_count_files(store->volume, LEAD) == 0, "%s", told);
    AUTO_JSON json_t *manifest = manifest_of("u");
    cr_expect(!json_object_get(manifest, "facts"), "%s", told);
    if (which == 1 || which == 3)
        cr_expect_str_eq(summary_of(manifest, "user", "workContext"), "Keeps bees.", "%s", told);
    if (which == 0 || which == 3)
        cr_expect_str_eq(summary_of(manifest, "history", "recentMonths"), "Moved house.", "%s",
                         told);
    temp_tree_leftovers(store->volume, "users/u", left, sizeof left);
    cr_expect(left[0] == '\0', "%s: left {%s}", told, left);
}

static void kill_at(unsigned which, enum pause_point point, unsigned nth, bool *ret_killed)
{
    char told[100];

    (void) snprintf(told, sizeof told, "sources %u, %s %u", which, pause_point_name(point), nth);
    put_sources(which);
    *ret_killed = write_in_child(point, nth);
    open_all();
    (void) write_nine("u/-");
    expect_end(which, told);
    writer_destroy(&writer);
    temp_store_close(store);
    temp_volume_remove(store->volume, "users");
}

Test(migration, killed_at_any_point_it_is_finished_by_the_next_write)
{
    const enum pause_point points[] = {
        PAUSE_COMMIT_AFTER_LOCK,     PAUSE_COMMIT_AFTER_BACKUP,     PAUSE_COMMIT_AFTER_JOURNAL,
        PAUSE_COMMIT_AFTER_FACT,     PAUSE_COMMIT_BEFORE_CHECK,     PAUSE_COMMIT_BEFORE_MANIFEST,
        PAUSE_COMMIT_AFTER_MANIFEST, PAUSE_COMMIT_BEFORE_COMMITTED, PAUSE_COMMIT_AFTER_COMMITTED,
        PAUSE_COMMIT_AFTER_CLEANUP,
    };
    unsigned kills = 0;

    for (unsigned which = 0; which < SOURCES_COUNT; which++) {
        for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
            bool killed = true;
            for (unsigned nth = 1; killed; nth++) {
                kill_at(which, points[i], nth, &killed);
                kills += killed;
            }
        }
    }
    cr_expect(kills >= SOURCES_COUNT * 20, "only %u", kills);
}

Test(migration, a_peer_takes_a_dead_migration_back)
{
    const enum pause_point points[] = {PAUSE_COMMIT_AFTER_JOURNAL, PAUSE_COMMIT_AFTER_FACT,
                                       PAUSE_COMMIT_BEFORE_MANIFEST, PAUSE_COMMIT_AFTER_MANIFEST,
                                       PAUSE_COMMIT_BEFORE_COMMITTED};

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        const struct temp_commit commit = {.user = "u", .agent = "b"};
        put("users/u/memory.json", old_list);
        cr_expect(write_in_child(points[i], 1));
        struct temp_writer *peer = temp_writer_begin(store->volume, &commit);
        expect_bytes("users/u/memory.json", old_list);
        expect_bytes("users/u/memory.json.v1.bak", old_list);
        cr_expect_eq(temp_volume_count_files(store->volume, "users/u/agents"), 0);
        cr_expect(!there("users/u/.memory.journal.json"));
        temp_writer_abandon(&peer);
        temp_volume_remove(store->volume, "users");
    }
}

/* ---- calls that fail ---- */

static bool is_old(unsigned which)
{
    if (which == 1 || which == 3) {
        AUTO_FREE char *bytes = temp_volume_read(store->volume, "users/u/memory.json", NULL);
        return strcmp(bytes, old_list) == 0;
    }
    return true;
}

/* The fault at each call in turn; after it the old files are there or their copies are, and the
 * next write does the rest. */
static bool fail_at(unsigned which, unsigned nth, unsigned times)
{
    AUTO_WRITE_RESULT struct write_result result = {0};
    char struck[PATH_MAX];
    char told[PATH_MAX + 50];
    struct error error;

    put_sources(which);
    open_all();
    temp_calls_fail_nth(nth, EIO, times);
    enum status status = run_with("u/-", true, build_nine, "note neuf", &result, &error);
    temp_calls_struck(struck, sizeof struck);
    temp_calls_reset();
    (void) snprintf(told, sizeof told, "sources %u, call %u x %u (%s)", which, nth, times, struck);
    cr_expect(status == STATUS_OK || error.path[0], "no path (%s): %s", error.message, told);
    if (which == 1 || which == 3)
        cr_expect(is_old(which) || there("users/u/memory.json.v1.bak"), "%s", told);
    cr_expect_eq(store_check_volume(store->store, NULL), STATUS_OK); /* as the keeper does */
    (void) write_nine("u/-");
    expect_end(which, told);
    writer_destroy(&writer);
    temp_store_close(store);
    temp_volume_remove(store->volume, "users");
    return struck[0] != '\0';
}

static void fail_at_each(unsigned which, unsigned times)
{
    unsigned nth = 1;

    for (; fail_at(which, nth, times); nth++)
        cr_assert(nth < CALLS_MAX);
    cr_expect(nth > 80, "only %u calls", nth);
}

Test(migration, a_fault_at_each_call_of_a_list)
{
    fail_at_each(1, 1);
}

Test(migration, faults_from_each_call_on_of_a_list)
{
    fail_at_each(1, 0);
}

Test(migration, a_fault_at_each_call_of_everything)
{
    fail_at_each(3, 1);
}

Test(migration, faults_from_each_call_on_of_everything)
{
    fail_at_each(3, 0);
}

/* ---- what it costs others ---- */

Test(migration, an_ordinary_write_lists_no_directory_more)
{
    temp_volume_add(store->volume, "u", "a", "f1", "note one");
    open_all();
    (void) write_nine("u/a");
    temp_calls_count_here(TEMP_CALL_LIST, "/agents/a"); /* refreshers may list what they like */
    (void) write_nine("u/a");
    cr_expect_eq(temp_calls_counted(), 0);
    temp_calls_count_here(TEMP_CALL_LIST, "/agents");
    (void) write_nine("u/a");
    cr_expect_eq(temp_calls_counted(), 0);
}
