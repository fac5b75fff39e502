/* backends/deermem_read.c: facts and summaries of one answer are of one revision. */
#include "backends/deermem.h"
#include "core/clock.h"
#include "core/pause_point.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_store.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 20000 /* only a failing test waits for it */

static struct temp_store *temp;
static struct backend *backend;

static void set_up(void)
{
    temp = temp_store_create();
    temp->options.calls = temp_calls();
}

static void tear_down(void)
{
    pause_reset();
    temp_calls_reset();
    if (backend)
        backend_deermem.destroy(backend);
    backend = NULL;
    temp_store_destroy(&temp);
}

TestSuite(deermem_read, .init = set_up, .fini = tear_down, .timeout = 60);

/* Nothing looks at the volume by itself once the first pass is over. */
static void start(void)
{
    struct deermem_options options = {.store = temp->options,
                                      .keeper = {.refreshers = 1,
                                                 .poll_interval_min_ms = 600000,
                                                 .poll_interval_max_ms = 600000,
                                                 .operations_per_second = 1000}};
    const struct backend_setup setup = {.thread_count = 1, .store_options = &options};
    struct keeper_state state = {0};

    cr_assert(backend_deermem.create(&setup, &backend, NULL) == STATUS_OK);
    uint64_t deadline_ns = clock_deadline_ms(LONG_MS);
    while (!state.first_pass_done && clock_remaining_ms(deadline_ns) > 0)
        keeper_state(backend->keeper, &state);
    cr_assert(state.first_pass_done);
}

/* The parts of an answer that must belong together. */
struct answer {
    enum status status;
    struct error error;
    char state[16];
    json_int_t revision; /* of the scope's rows */
    json_int_t told;     /* ... and as the document says */
    char summary[64];
    char facts[128]; /* the contents, with a blank between two */
};

static void read_document(const json_t *document, struct answer *ret)
{
    const json_t *context = json_object_get(json_object_get(document, "user"), "workContext");
    const char *summary = json_string_value(json_object_get(context, "summary"));
    const json_t *fact;
    size_t used = 0;
    size_t i;

    ret->told = json_integer_value(json_object_get(document, "revision"));
    (void) snprintf(ret->summary, sizeof ret->summary, "%s", summary ? summary : "");
    json_array_foreach(json_object_get(document, "facts"), i, fact)
    {
        const char *content = json_string_value(json_object_get(fact, "content"));
        used += (size_t) snprintf(ret->facts + used, sizeof ret->facts - used, "%s%s",
                                  i > 0 ? " " : "", content);
        cr_assert(used < sizeof ret->facts);
    }
}

static struct answer ask(backend_method method, const char *scope_name, const char *freshness)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *params =
        json_pack("{s:s, s:i}", "freshness", freshness, "max_staleness_ms", 3600000);
    struct scope scope;
    struct answer answer = {0};

    temp_store_scope(scope_name, &scope);
    const struct backend_call call = {.scope = &scope,
                                      .params = params,
                                      .deadline_ns = clock_deadline_ms(LONG_MS),
                                      .may_block = true};
    answer.status = method(backend, &call, &text, &answer.error);
    if (answer.status != STATUS_OK)
        return answer;
    AUTO_JSON json_t *result = json_loads(text_string(&text), 0, NULL);
    cr_assert(result != NULL, "%s", text_string(&text));
    const json_t *told = json_object_get(result, "scope");
    (void) snprintf(answer.state, sizeof answer.state, "%s",
                    json_string_value(json_object_get(told, "state")));
    answer.revision = json_integer_value(json_object_get(told, "revision"));
    const json_t *memory = json_object_get(result, "memory");
    read_document(memory ? memory : json_object_get(result, "summaries"), &answer);
    return answer;
}

static void expect(struct answer answer, const char *state, json_int_t revision,
                   const char *summary, const char *facts, int line)
{
    cr_expect(answer.status == STATUS_OK, "line %d: %s: %s", line, status_name(answer.status),
              answer.error.message);
    cr_expect(strcmp(answer.state, state) == 0, "line %d: %s", line, answer.state);
    cr_expect(answer.revision == revision && answer.told == revision, "line %d: %d, %d", line,
              (int) answer.revision, (int) answer.told);
    cr_expect(strcmp(answer.summary, summary) == 0, "line %d: %s", line, answer.summary);
    cr_expect(strcmp(answer.facts, facts) == 0, "line %d: %s", line, answer.facts);
}

#define EXPECT_MEMORY(scope, freshness, state, revision, summary, facts)                           \
    expect(ask(backend_deermem.get_memory, scope, freshness), state, revision, summary, facts,     \
           __LINE__)
#define EXPECT_SUMMARIES(scope, freshness, state, revision, summary)                               \
    expect(ask(backend_deermem.get_summaries, scope, freshness), state, revision, summary, "",     \
           __LINE__)

/* u/a at revision 2: f1 "one", and a summary "old". */
static void start_usual(void)
{
    (void) temp_volume_add(temp->volume, "u", "a", "f1", "one");
    (void) temp_volume_summary(temp->volume, "u", "old");
    start();
    (void) ask(backend_deermem.get_memory, "u/a", "strict");
    EXPECT_MEMORY("u/a", "strict", "fresh", 2, "old", "one");
}

static const struct temp_change change = {.kind = TEMP_UPDATE, .id = "f1", .text = "TWO"};
static const struct temp_commit commit = {.user = "u",
                                          .agent = "a",
                                          .changes = &change,
                                          .count = 1};

Test(deermem_read, a_commit_under_way_shows_nothing_of_itself)
{
    start_usual();
    struct temp_writer *writer = temp_writer_begin(temp->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    EXPECT_MEMORY("u/a", "strict", "stale", 2, "old", "one");
    EXPECT_SUMMARIES("u/a", "strict", "stale", 2, "old");
    EXPECT_MEMORY("u/a", "local", "stale", 2, "old", "one");
    (void) temp_writer_finish(&writer);
    EXPECT_MEMORY("u/a", "strict", "refreshed", 3, "old", "TWO");
    EXPECT_SUMMARIES("u/a", "strict", "fresh", 3, "old");
}

Test(deermem_read, a_commit_that_is_taken_back_was_never_shown)
{
    start_usual();
    struct temp_writer *writer = temp_writer_begin(temp->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    EXPECT_MEMORY("u/a", "strict", "stale", 2, "old", "one");
    temp_writer_abandon(&writer);
    struct answer answer = ask(backend_deermem.get_memory, "u/a", "strict");
    cr_expect(strcmp(answer.state, "fresh") == 0 || strcmp(answer.state, "refreshed") == 0);
    expect(answer, answer.state, 2, "old", "one", __LINE__);
}

Test(deermem_read, a_manifest_that_cannot_be_understood_leaves_the_last_good_one)
{
    start_usual();
    temp_volume_break(temp->volume, "u");
    EXPECT_MEMORY("u/a", "strict", "unverified", 2, "old", "one");
    EXPECT_SUMMARIES("u/a", "strict", "unverified", 2, "old");
    EXPECT_MEMORY("u/a", "local", "stale", 2, "old", "one");
    cr_expect_eq(ask(backend_deermem.get_memory, "u/never", "strict").status, STATUS_CORRUPT);
}

Test(deermem_read, without_a_look_only_the_index_answers)
{
    static const char *const modes[] = {"local", "bounded"};

    start_usual();
    (void) temp_volume_commit(temp->volume, &commit);
    temp_calls_count(TEMP_CALL_OPEN, "memory.json");
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        EXPECT_MEMORY("u/a", modes[i], "stale", 2, "old", "one");
        EXPECT_SUMMARIES("u/a", modes[i], "stale", 2, "old");
    }
    EXPECT_MEMORY("u/never", "local", "stale", 0, "", "");
    cr_expect_eq(temp_calls_counted(), 0);
    EXPECT_MEMORY("u/a", "strict", "refreshed", 3, "old", "TWO");
    cr_expect(temp_calls_counted() > 0);
}

Test(deermem_read, what_was_forgotten_is_still_told_with_the_revision_of_its_rows)
{
    struct scope scope;

    start_usual();
    temp_store_scope("u/a", &scope);
    cr_assert(index_forget(backend->store->index, &scope, NULL) == STATUS_OK);
    EXPECT_MEMORY("u/a", "local", "stale", 2, "old", "one");
    (void) temp_volume_commit(temp->volume, &commit);
    temp_volume_break(temp->volume, "u");
    EXPECT_MEMORY("u/a", "strict", "unverified", 2, "old", "one");
}

/* The rows are of no revision, whatever lies on the volume. */
Test(deermem_read, what_was_not_built_in_time_is_told_without_a_revision)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *params =
        json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "query", "one", "scopes", "user_id", "u",
                  "agent_name", "a", "user_id", "w", "agent_name", "a");

    start_usual();
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    (void) temp_volume_add(temp->volume, "w", "a", "f1", "one");
    const struct backend_call call = {.params = params,
                                      .deadline_ns = clock_deadline_ms(100),
                                      .may_block = true};
    cr_assert(backend_deermem.search(backend, &call, &text, NULL) == STATUS_OK);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    AUTO_JSON json_t *result = json_loads(text_string(&text), 0, NULL);
    const json_t *late = json_array_get(json_object_get(result, "scopes"), 1);
    cr_expect(strcmp(json_string_value(json_object_get(late, "state")), "stale") == 0);
    cr_expect(json_integer_value(json_object_get(late, "revision")) == 0, "%s", text_string(&text));
}

/* Any other error of a write says that nothing was done. */
Test(deermem_read, a_write_whose_answer_cannot_be_read_is_unconfirmed)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *params =
        json_pack("{s:{s:{s:{s:s}}}}", "summaries", "user", "workContext", "summary", "new");
    struct scope scope;
    struct error error = {0};

    start_usual();
    temp_store_scope("w/a", &scope);
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    const struct backend_call call = {.scope = &scope,
                                      .params = params,
                                      .deadline_ns = clock_deadline_ms(1000),
                                      .may_block = true};
    enum status status = backend_deermem.update_summaries(backend, &call, &text, &error);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect(status == STATUS_UNAVAILABLE, "%s: %s", status_name(status), error.message);
    cr_expect(strstr(error.members, ",\"reason\":\"unconfirmed\""), "%s", error.members);
    struct answer answer = ask(backend_deermem.get_summaries, "w/a", "strict");
    expect(answer, answer.state, 1, "new", "", __LINE__);
}

Test(deermem_read, what_waits_for_migration_is_of_the_same_manifest)
{
    static const char old[] =
        "{\"version\": \"1.0\", \"revision\": 4, \"user\": {\"workContext\": {\"summary\": "
        "\"old\"}}, \"facts\": [{\"id\": \"f9\", \"content\": \"nine\"}]}";

    (void) temp_volume_add(temp->volume, "u", NULL, "f1", "one");
    temp_volume_write(temp->volume, "users/u/memory.json", old, strlen(old));
    start();
    (void) ask(backend_deermem.get_memory, "u/-", "strict");
    EXPECT_MEMORY("u/-", "strict", "fresh", 4, "old", "one nine");
    temp_volume_write(temp->volume, "users/u/memory.json", "garbage", 7);
    EXPECT_MEMORY("u/-", "strict", "unverified", 4, "old", "one nine");
}

/* ---- a scope that has no facts has no row either ---- */

Test(deermem_read, a_user_with_summaries_only_has_them_from_the_volume)
{
    (void) temp_volume_summary(temp->volume, "u", "old");
    start();
    (void) ask(backend_deermem.get_summaries, "u/a", "strict");
    EXPECT_SUMMARIES("u/a", "strict", "fresh", 1, "old");
    EXPECT_MEMORY("u/a", "strict", "fresh", 1, "old", "");
    (void) temp_volume_summary(temp->volume, "u", "new");
    EXPECT_SUMMARIES("u/a", "strict", "refreshed", 2, "new");
}

static void *ask_for_summaries(void *result)
{
    *(struct answer *) result = ask(backend_deermem.get_summaries, "u/a", "strict");
    return NULL;
}

/* The facts of a commit that comes between the look and the manifest must come with it. */
Test(deermem_read, a_commit_after_the_look_is_looked_at_again)
{
    struct answer answer;
    pthread_t thread;

    (void) temp_volume_summary(temp->volume, "u", "old");
    start();
    (void) ask(backend_deermem.get_summaries, "u/a", "strict");
    pause_arm(PAUSE_SEARCH_BEFORE_QUERY);
    cr_assert(pthread_create(&thread, NULL, ask_for_summaries, &answer) == 0);
    cr_assert(pause_wait_reached(PAUSE_SEARCH_BEFORE_QUERY, LONG_MS));
    (void) temp_volume_add(temp->volume, "u", "a", "f1", "one");
    pause_release(PAUSE_SEARCH_BEFORE_QUERY);
    pthread_join(thread, NULL);
    expect(answer, "refreshed", 2, "old", "", __LINE__);
    EXPECT_MEMORY("u/a", "strict", "fresh", 2, "old", "one");
}
