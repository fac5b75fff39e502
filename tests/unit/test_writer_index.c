/* core/write_session.h: what becomes of an own write in the index, and what is found after it. */
#include "tests/unit/write_checks.h"

#include "core/clock.h"
#include "core/keeper.h"

#include <fcntl.h>
#include <sys/stat.h>

static void open_store(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    temp_store_usual(store, false);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

TestSuite(writer_index, .init = write_set_up, .fini = write_tear_down, .timeout = 120);

#define COUNTER(name) atomic_load(&store->store->counters.name)

static struct temp_answer ask_as(enum freshness_mode mode)
{
    return temp_store_ask_as(store, &(struct temp_question){.scopes = "u/a",
                                                            .mode = mode,
                                                            .max_staleness_ms = 3600000});
}

/* A write that stands at `point` until go_on(). */
static struct job job;

static void start_until(enum pause_point point)
{
    job = (struct job){.thread = 1, .scope = "u/a", .wish = {.id = "f3", .text = "note three"}};
    pause_arm(point);
    job_start(&job);
    cr_assert(pause_wait_reached(point, LONG_MS));
}

static void go_on(enum pause_point point)
{
    pause_release(point);
    job_join(&job);
    EXPECT_JOB(job, STATUS_OK);
}

/* ---- outcomes ---- */

Test(writer_index, a_delta_that_fits_is_taken)
{
    open_store();
    start_until(PAUSE_WRITE_BEFORE_INSTALL);
    EXPECT_STATE(store, "u/a", "behind");
    go_on(PAUSE_WRITE_BEFORE_INSTALL);
    EXPECT_STATE(store, "u/a", "synced");
    cr_expect(!job.result.index_behind);
    cr_expect_eq(COUNTER(promoted), 1);
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two f3=three g1=bee", "fresh fresh", 0);
    cr_expect_str_eq(ask_as(FRESHNESS_LOCAL).facts, "f1=one f2=two f3=three");
    job_destroy(&job);
}

Test(writer_index, a_refresh_that_was_faster_has_it_already)
{
    open_store();
    start_until(PAUSE_WRITE_AFTER_UNLOCK);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three");
    cr_expect_str_eq(answer.states, "refreshed");
    go_on(PAUSE_WRITE_AFTER_UNLOCK);
    cr_expect(!job.result.index_behind);
    cr_expect_eq(COUNTER(already_current), 1);
    cr_expect_eq(COUNTER(promoted), 0);
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two f3=three g1=bee", "fresh fresh", 0);
    job_destroy(&job);
}

static void forget_by_a_peer(void)
{
    open_store();
    start_until(PAUSE_WRITE_AFTER_UNLOCK);
    (void) temp_volume_add(store->volume, "u", "a", "f4", "note four");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
    pause_arm(PAUSE_REFRESH_AFTER_PLAN); /* of the refresh that starts at once */
    go_on(PAUSE_WRITE_AFTER_UNLOCK);
    cr_expect(job.result.index_behind);
    cr_expect_eq(COUNTER(forgotten), 1);
}

Test(writer_index, a_delta_that_may_not_fit_is_forgotten_and_read_at_once)
{
    forget_by_a_peer();
    cr_expect(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS), "without being asked");
    EXPECT_STATE(store, "u/a", "unsynced");
    struct temp_answer local = ask_as(FRESHNESS_LOCAL);
    cr_expect_str_eq(local.states, "stale");
    pause_release(PAUSE_REFRESH_AFTER_PLAN);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
    EXPECT_STATE(store, "u/a", "synced");
    job_destroy(&job);
}

Test(writer_index, what_is_forgotten_is_never_answered_at_once)
{
    forget_by_a_peer();
    cr_expect(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS));
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a",
                                                         .mode = FRESHNESS_BOUNDED,
                                                         .max_staleness_ms = 3600000});
    cr_expect(!temp_search_ends(search, 50), "it waits for the refresh");
    pause_release(PAUSE_REFRESH_AFTER_PLAN);
    struct temp_answer answer = temp_search_join(&search);
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
    job_destroy(&job);
}

Test(writer_index, a_scope_that_was_never_built_is_built)
{
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    temp_store_open(store);
    const struct writer_options options = {.lock_timeout_ms = 2000};
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f2", "note two");
    cr_expect(result.index_behind);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
    /* another agent of the user, whose facts nobody has read either */
    (void) temp_volume_add(store->volume, "u", "c", "h1", "note aitch");
    write_done("u/c", "h2", "note other");
    answer = temp_store_ask(store, "u/c");
    cr_expect_str_eq(answer.facts, "h1=aitch h2=other");
}

Test(writer_index, a_change_of_summaries_touches_no_row)
{
    struct index_scope before;
    struct index_scope after;

    open_store();
    cr_assert(temp_store_row(store, "u/a", &before));
    struct wish wish = {.summary = "of all"};
    struct write_result result;
    struct error error;
    cr_assert_eq(write_wish("u/a", &wish, &result, &error), STATUS_OK);
    cr_expect(result.changed && !result.index_behind);
    write_result_destroy(&result);
    cr_assert(temp_store_row(store, "u/a", &after));
    cr_expect_eq(after.generation, before.generation);
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee", "fresh fresh", 0);

    /* of an agent that nobody knows: no row comes of it */
    cr_assert_eq(write_wish("u/zzz", &wish, &result, &error), STATUS_OK);
    cr_expect(!result.changed);
    write_result_destroy(&result);
    wish.summary = "of nobody";
    cr_assert_eq(write_wish("u/zzz", &wish, &result, &error), STATUS_OK);
    cr_expect(result.changed && !result.index_behind);
    write_result_destroy(&result);
    cr_expect(!temp_store_row(store, "u/zzz", &after));
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee", "fresh fresh", 0);
}

Test(writer_index, nothing_changed_is_nothing_told)
{
    struct index_scope before;
    struct index_scope after;

    open_store();
    AUTO_WRITE_RESULT struct write_result first = write_ok("u/a", "f3", "note three");
    cr_assert(temp_store_row(store, "u/a", &before));
    AUTO_WRITE_RESULT struct write_result second = write_ok("u/a", "f3", "note three");
    cr_expect(!second.changed);
    cr_expect_eq(second.revision, first.revision);
    cr_expect_str_eq(second.last_updated, first.last_updated);
    cr_assert(temp_store_row(store, "u/a", &after));
    cr_expect_eq(after.generation, before.generation);
    cr_expect_eq(COUNTER(promoted), 1);
    cr_expect_eq(COUNTER(commits), 1);
    cr_expect_eq(COUNTER(writes_unchanged), 1);
}

/* ---- an index that fails ---- */

static void spoil_index(void)
{
    char path[PATH_MAX];
    char noise[4096];
    struct stat status;

    test_join(path, store->index_directory, INDEX_FILE_NAME);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &status) == 0);
    memset(noise, 0x5a, sizeof noise);
    for (off_t at = 0; at < status.st_size; at += (off_t) sizeof noise)
        cr_assert_eq(pwrite(fd, noise, sizeof noise, at), (ssize_t) sizeof noise);
}

Test(writer_index, a_write_stands_though_the_index_fails)
{
    captured_log_expect("event=write.index");
    open_store();
    start_until(PAUSE_WRITE_BEFORE_INSTALL);
    spoil_index();
    go_on(PAUSE_WRITE_BEFORE_INSTALL);
    cr_expect(job.result.changed);
    if (COUNTER(installs_failed) > 0) /* pages that are still in memory may be good enough */
        cr_expect(job.result.index_behind);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three");
    write_done("u/a", "f4", "note four");
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
    job_destroy(&job);
}

Test(writer_index, an_index_that_is_known_to_be_damaged_is_behind)
{
    captured_log_expect("event=write.index");
    open_store();
    temp_store_close(store); /* so that no page is in memory */
    writer_destroy(&writer);
    temp_store_open(store);
    const struct writer_options options = {.lock_timeout_ms = 2000};
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
    spoil_index();
    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f3", "note three");
    cr_expect(result.index_behind);
    cr_expect_eq(COUNTER(installs_failed), 1);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three");
    struct wish all = {.id = "f4", .text = "note four", .need = WRITE_SOURCE_ALL};
    struct write_result second;
    struct error error;
    spoil_index();
    cr_expect_eq(write_wish("u/a", &all, &second, &error), STATUS_OK, "%s", error.message);
    write_result_destroy(&second);
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
}

/* ---- with the threads of a real agent ---- */

Test(writer_index, the_keeper_has_nothing_to_do_after_own_writes)
{
    struct keeper *keeper = NULL;
    const struct keeper_options options = {.refreshers = 2,
                                           .inotify = true,
                                           .poll_interval_min_ms = 5,
                                           .poll_interval_max_ms = 20,
                                           .operations_per_second = 100000};
    char text[32];
    char id[8];

    store->without_refresher = true;
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    temp_store_open(store);
    const struct writer_options writer_options = {.lock_timeout_ms = 2000};
    cr_assert_eq(writer_create(store->store, &writer_options, &writer), STATUS_OK);
    cr_assert_eq(keeper_start(store->store, &options, &keeper, NULL), STATUS_OK);
    for (unsigned i = 0; i < 100; i++) {
        (void) snprintf(id, sizeof id, "w%u", i % 10);
        (void) snprintf(text, sizeof text, "note number %u", i);
        write_done("u/a", id, i % 7 == 6 ? NULL : text);
        struct temp_answer answer = temp_store_ask(store, "u/a");
        (void) snprintf(text, sizeof text, "%s=number %u", id, i);
        cr_expect(strcmp(answer.states, "fresh") == 0 || strcmp(answer.states, "refreshed") == 0);
        cr_expect_eq(strstr(answer.facts, text) != NULL, i % 7 != 6, "%u: {%s}", i, answer.facts);
    }
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
}

/* ---- rows as a refresh makes them ---- */

static enum status add_document(void *context, const char *document, size_t size, const char *path)
{
    json_t *rows = context;

    return json_object_set_new(rows, path, json_stringn_nocheck(document, size)) == 0
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

/* Everything that an answer is made of: documents by path, and scores. */
static json_t *index_of(const char *scope_name)
{
    json_t *rows = json_object();
    struct index_scope row;
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    cr_assert_eq(index_begin(store->reader, NULL), STATUS_OK);
    if (index_read_scope(store->reader, &scope, &row, NULL) == STATUS_OK) {
        cr_assert_eq(index_list(store->reader, row.id, NULL, 0, UINT64_MAX, add_document, rows,
                                NULL, NULL),
                     STATUS_OK);
        cr_expect_eq(row.facts, json_object_size(rows));
    }
    index_end(store->reader);

    AUTO_SEARCH struct search_result result = {0};
    const struct search_request request = {
        .reading = {.scopes = &scope,
                    .count = 1,
                    .mode = FRESHNESS_LOCAL,
                    .deadline_ns = clock_deadline_ms(LONG_MS),
                    .may_block = true},
        .query = "note word",
        .query_size = strlen("note word"),
        .top_k = SEARCH_TOP_K_MAX,
    };
    cr_assert_eq(searcher_run(store->store, &request, &result, NULL), STATUS_OK);
    for (size_t i = 0; i < result.count; i++) {
        char key[64];
        char score[64];
        AUTO_JSON json_t *document =
            json_loadb(result.hits[i].hit.document, result.hits[i].hit.document_size, 0, NULL);
        (void) snprintf(key, sizeof key, "score of %.40s",
                        json_string_value(json_object_get(document, "id")));
        (void) snprintf(score, sizeof score, "%.9g", result.hits[i].hit.score);
        (void) json_object_set_new(rows, key, json_string(score));
    }
    return rows;
}

static void expect_rows_as_read(const char *scope, unsigned step)
{
    AUTO_JSON json_t *before = index_of(scope);
    struct refresh_result result = temp_store_refresh(store, scope, REFRESH_WISH_FULL);
    AUTO_JSON json_t *after = index_of(scope);
    char differs[1000];

    cr_assert_eq(result.status, STATUS_OK);
    temp_tree_differ(before, after, differs, sizeof differs);
    cr_expect_str_eq(differs, "", "step %u: %s: %s\n%s", step, differs,
                     json_string_value(json_object_get(before, differs)),
                     json_string_value(json_object_get(after, differs)));
}

static unsigned next_number(void)
{
    static unsigned state = 1;

    state = state * 1103515245u + 12345u;
    return state >> 16 & 0x7fff;
}

static const char *const contents[] = {
    "note",
    "note  two   blanks",
    "note line\n\nsecond paragraph\n\n- list\n- list",
    "note # not a title\n---\nno: front matter\n---",
    "note \xc3\xbc\xf0\x9f\x8d\x8a \xe4\xbd\xa0\xe5\xa5\xbd",
    "note 12:30 yes no null ~ {a: b} [c] & * ! % @ `",
    "note \"quoted\" 'single' \\ back",
    "note tab\there",
    "note\r\nline ends\rof others",
    "note word word word word word word word word word word word word word word word",
};

#define MODEL_FACTS 10

/* What should be there: which content each fact has, -1 none. */
static int model[2][MODEL_FACTS];

static void check_model(unsigned agent, unsigned step)
{
    struct temp_answer answer = temp_store_ask(store, agent ? "u/b" : "u/a");
    size_t expected = 0;

    for (unsigned i = 0; i < MODEL_FACTS; i++)
        expected += model[agent][i] >= 0;
    cr_expect_eq(answer.count, expected, "step %u: %zu instead of %zu: {%s}", step, answer.count,
                 expected, answer.facts);
    cr_expect(strcmp(answer.states, "fresh") == 0 || strcmp(answer.states, "refreshed") == 0);
}

static void write_at_random(unsigned step)
{
    unsigned agent = next_number() % 2;
    unsigned number = next_number() % MODEL_FACTS;
    int content = next_number() % 4 ? (int) (next_number() % ARRAY_SIZE(contents)) : -1;
    char id[8];
    const char *scope = agent ? "u/b" : "u/a";
    int64_t revision = temp_volume_revision(store->volume, "u");

    (void) snprintf(id, sizeof id, "m%u", number);
    struct wish wish = {.id = id,
                        .text = content >= 0 ? contents[content] : NULL,
                        .summary = next_number() % 8 ? NULL : contents[next_number() % 3],
                        .need = next_number() % 5 == 0 ? WRITE_SOURCE_ALL : WRITE_SOURCE_SOME};
    struct write_result result;
    struct error error;
    cr_assert_eq(write_wish(scope, &wish, &result, &error), STATUS_OK, "step %u: %s", step,
                 error.message);
    cr_expect_eq(result.revision, revision + result.changed, "step %u", step);
    cr_expect_eq(temp_volume_revision(store->volume, "u"), result.revision, "step %u", step);
    model[agent][number] = content;
    bool behind = result.index_behind;
    write_result_destroy(&result);
    if (behind)
        (void) temp_store_ask(store, "u/a u/b");
}

static void peer_at_random(void)
{
    unsigned agent = next_number() % 2;
    unsigned number = next_number() % MODEL_FACTS;
    const char *name = agent ? "b" : "a";
    char id[8];

    (void) snprintf(id, sizeof id, "m%u", number);
    if (model[agent][number] < 0)
        (void) temp_volume_add(store->volume, "u", name, id, "note of a peer");
    else if (next_number() % 2)
        (void) temp_volume_update(store->volume, "u", name, id, "note of a peer");
    else
        (void) temp_volume_delete(store->volume, "u", name, id);
    char path[SCOPE_PATH_MAX];
    temp_volume_fact_path("u", name, id, path);
    model[agent][number] = temp_volume_exists(store->volume, path) ? 0 : -1;
}

Test(writer_index, rows_of_own_writes_are_those_that_a_refresh_makes)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    for (unsigned i = 0; i < 2 * MODEL_FACTS; i++)
        model[i / MODEL_FACTS][i % MODEL_FACTS] = -1;
    temp_store_open(store);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
    for (unsigned step = 0; step < 250; step++) {
        if (next_number() % 10 == 0)
            peer_at_random();
        write_at_random(step);
        check_model(0, step);
        check_model(1, step);
        if (step % 3 == 0) {
            expect_rows_as_read("u/a", step);
            expect_rows_as_read("u/b", step);
        }
    }
    cr_expect(COUNTER(promoted) > 100, "%d", (int) COUNTER(promoted));
    char left[1000];
    temp_tree_leftovers(store->volume, ".", left, sizeof left);
    cr_expect_str_eq(left, "");
}
