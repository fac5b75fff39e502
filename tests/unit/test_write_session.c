/* core/write_session.h and core/write_source.h: what lies in the way of a write. */
#include "tests/unit/write_checks.h"

#include "core/journal.h"
#include "core/write_source.h"

static void open_store(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    temp_store_usual(store, false);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

TestSuite(write_session, .init = write_set_up, .fini = write_tear_down, .timeout = 60);

#define USUAL "f1=one f2=two"

static json_t *user_tree(void)
{
    return temp_tree_read(store->volume, "users/u");
}

/* Refused with this status and path, and not a byte has changed. */
static struct error expect_refused(struct wish *wish, enum status expected, const char *path,
                                   int line)
{
    AUTO_JSON json_t *before = user_tree();
    struct error error = write_refused("u/a", wish, expected, line);
    AUTO_JSON json_t *after = user_tree();
    char differs[1000];

    cr_expect_str_eq(error.path, path, "line %d: %s", line, error.path);
    temp_tree_differ(before, after, differs, sizeof differs);
    cr_expect_str_eq(differs, "", "line %d: %s differs", line, differs);
    return error;
}

static struct error expect_any_refused(enum status expected, const char *path, int line)
{
    struct wish wish = {.id = "f9", .text = "note nine"};

    return expect_refused(&wish, expected, path, line);
}
#define REFUSED(expected, path) expect_any_refused(expected, path, __LINE__)

static void expect_works(const char *facts, int line)
{
    write_done("u/a", "f9", "note nine");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    char expected[1000];
    char left[1000];

    (void) snprintf(expected, sizeof expected, "%s%sf9=nine", facts, facts[0] ? " " : "");
    cr_expect_str_eq(answer.facts, expected, "line %d: {%s}", line, answer.facts);
    temp_tree_leftovers(store->volume, "users/u", left, sizeof left);
    cr_expect_str_eq(left, "", "line %d: left {%s}", line, left);
}
#define WORKS(facts) expect_works(facts, __LINE__)

/* ---- may it be written at all? ---- */

Test(write_session, a_volume_that_is_only_read_is_not_written)
{
    store->options.read_only = true;
    open_store();
    struct error error = REFUSED(STATUS_DENIED, "");
    cr_expect(strstr(error.message, "read_only"));
    EXPECT_ASK(store, "u/a", USUAL, "fresh", 0);
}

Test(write_session, a_volume_that_is_away_is_not_written)
{
    open_store();
    atomic_store(&store->store->suspended, true);
    (void) REFUSED(STATUS_UNAVAILABLE, "");
    atomic_store(&store->store->suspended, false);
    WORKS(USUAL);
}

/* A mount point without its mount looks like a volume on which nobody has been. */
Test(write_session, no_user_is_made_where_the_volume_is_not)
{
    open_store();
    temp_volume_rename(store->volume, "", "../outside");
    temp_volume_make_dir(store->volume, "");
    struct wish wish = {.id = "f9", .text = "note nine"};
    (void) write_refused("new/a", &wish, STATUS_UNAVAILABLE, __LINE__);
    (void) write_refused("u/a", &wish, STATUS_UNAVAILABLE, __LINE__);
    cr_expect_eq(temp_volume_count_files(store->volume, "."), 0);
}

/* ---- locks ---- */

Test(write_session, a_volume_without_locks_is_not_written)
{
    static const int errnos[] = {ENOLCK, EBADF, EOPNOTSUPP};

    open_store();
    for (size_t i = 0; i < ARRAY_SIZE(errnos); i++) {
        char text[16];
        (void) snprintf(text, sizeof text, "errno %d", errnos[i]);
        temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", errnos[i], 0, 0);
        struct error error = REFUSED(STATUS_UNSUPPORTED, "users/u/.memory.lock");
        cr_expect(strstr(error.message, text), "%s", error.message);
        cr_expect_eq(error.sys_errno, errnos[i]);
        EXPECT_ASK(store, "u/a", USUAL, "fresh", 0);
        temp_calls_reset();
    }
    WORKS(USUAL);
}

Test(write_session, a_lock_that_somebody_holds_is_waited_for_until_the_deadline)
{
    open_store();
    int fd = temp_volume_lock(store->volume, "u", true);
    struct wish wish = {.id = "f9", .text = "note nine", .deadline_ms = 150};
    uint64_t begun_ns = clock_monotonic_ns();
    struct error error = expect_refused(&wish, STATUS_TIMEOUT, "users/u/.memory.lock", __LINE__);
    uint64_t took_ms = (clock_monotonic_ns() - begun_ns) / NS_PER_MS;
    cr_expect(took_ms >= 140 && took_ms < 1500, "%d ms", (int) took_ms);
    cr_expect(strstr(error.message, "lock timeout"));
    cleanup_close(&fd);
    fd = temp_volume_lock(store->volume, "u", false);
    wish.deadline_ms = 20;
    (void) expect_refused(&wish, STATUS_TIMEOUT, "users/u/.memory.lock", __LINE__);
    cleanup_close(&fd);
    WORKS(USUAL);
}

Test(write_session, the_bucket_may_be_another_one_once_the_lock_is_had)
{
    open_store();
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f9", .text = "note nine"}};
    int fd = temp_volume_lock(store->volume, "u", true);

    job_start(&job);
    nap_ms(30);
    temp_volume_rename(store->volume, "users/u", "../outside/u");
    AUTO_JSON json_t *moved = temp_tree_read(store->volume, "../outside/u");
    temp_volume_add(store->volume, "u", "a", "f5", "note five");
    cleanup_close(&fd);
    job_join(&job);
    EXPECT_JOB(job, STATUS_OK);
    cr_expect_eq(job.result.revision, 2);
    AUTO_JSON json_t *now = temp_tree_read(store->volume, "../outside/u");
    cr_expect(json_equal(moved, now));
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f5=five f9=nine");
    job_destroy(&job);
}

Test(write_session, the_bucket_may_be_gone_once_the_lock_is_had)
{
    open_store();
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f9", .text = "note nine"}};
    int fd = temp_volume_lock(store->volume, "u", true);

    job_start(&job);
    nap_ms(30);
    temp_volume_remove(store->volume, "users/u");
    cleanup_close(&fd);
    job_join(&job);
    /* a new user, or a failure that says so: never half of it */
    if (job.status == STATUS_OK)
        cr_expect_eq(job.result.revision, 1);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, job.status == STATUS_OK ? "f9=nine" : "");
    job_destroy(&job);
}

Test(write_session, a_user_who_is_removed_during_the_commit_is_told)
{
    open_store();
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f9", .text = "note nine"}};

    pause_arm(PAUSE_COMMIT_AFTER_JOURNAL);
    job_start(&job);
    cr_assert(pause_wait_reached(PAUSE_COMMIT_AFTER_JOURNAL, LONG_MS));
    temp_volume_remove(store->volume, "users/u");
    pause_release(PAUSE_COMMIT_AFTER_JOURNAL);
    job_join(&job);
    EXPECT_JOB(job, STATUS_UNAVAILABLE); /* at the second try */
    cr_expect_str_eq(job.error.path, "users/u");
    cr_expect(!temp_volume_exists(store->volume, "users/u"));
    WORKS("");
    job_destroy(&job);
}

/* ---- the manifest ---- */

Test(write_session, a_manifest_that_cannot_be_understood_is_not_overwritten)
{
    static const struct {
        const char *bytes;
        size_t size;
    } broken[] = {{"", 0},
                  {"{\"revision\": 7", 14},
                  {"[]", 2},
                  {"\0\0\0\0", 4},
                  {"{} x", 4},
                  {"{\"revision\": \"many\"}", 20},
                  {"{\"revision\": 99999999999999999999}", 34}};
    size_t size;

    open_store();
    AUTO_FREE char *good = temp_volume_read(store->volume, "users/u/memory.json", &size);
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        temp_volume_write(store->volume, "users/u/memory.json", broken[i].bytes, broken[i].size);
        (void) REFUSED(STATUS_CORRUPT, "users/u/memory.json");
    }
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, USUAL);
    cr_expect_str_eq(answer.states, "unverified");
    temp_volume_write(store->volume, "users/u/memory.json", good, size);
    WORKS(USUAL);
}

Test(write_session, a_newer_layout_is_read_and_not_written)
{
    static const char newer[] = "{\"version\": \"3.0\", \"revision\": 2, \"more\": true}";

    open_store();
    temp_volume_write(store->volume, "users/u/memory.json", newer, sizeof newer - 1);
    struct error error = REFUSED(STATUS_CONFLICT, "users/u/memory.json");
    EXPECT_MEMBER(error, "\"reason\":\"newer_layout\"");
}

Test(write_session, the_last_revision_has_no_next_one)
{
    open_store();
    temp_volume_set_revision(store->volume, "u", INT64_MAX);
    (void) REFUSED(STATUS_INVALID, "");
    struct wish nothing = {.id = "f8"};
    struct write_result result;
    struct error error;
    cr_expect_eq(write_wish("u/a", &nothing, &result, &error), STATUS_OK);
    cr_expect_eq(result.revision, INT64_MAX);
    write_result_destroy(&result);
}

/* ---- journals ---- */

static const struct temp_change update_f1 = {.kind = TEMP_UPDATE, .id = "f1", .text = "note dead"};

static void die_at(enum temp_step step)
{
    const struct temp_commit commit = {
        .user = "u", .agent = "a", .changes = &update_f1, .count = 1, .stop = step};

    (void) temp_volume_commit(store->volume, &commit);
}

Test(write_session, a_dead_writers_change_is_taken_back_first)
{
    open_store();
    for (enum temp_step step = TEMP_STEP_BACKUP; step <= TEMP_STEP_MANIFEST; step++) {
        if (step == TEMP_STEP_FACT)
            continue;
        int64_t base = temp_volume_revision(store->volume, "u");
        die_at(step);
        AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f2", "note due");
        cr_expect_eq(result.revision, base + 1, "step %d", (int) step);
        write_done("u/a", "f2", "note two");
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, USUAL, "step %d: {%s}", (int) step, answer.facts);
        char left[1000];
        temp_tree_leftovers(store->volume, "users/u", left, sizeof left);
        cr_expect_str_eq(left, "", "step %d: left {%s}", (int) step, left);
    }
}

Test(write_session, a_committed_journal_is_cleaned_up_first)
{
    open_store();
    die_at(TEMP_STEP_COMMITTED);
    WORKS("f1=dead f2=two");
    die_at(TEMP_STEP_CLEANED);
    WORKS("f1=dead f2=two");
}

Test(write_session, a_committed_journal_that_cannot_be_cleaned_up_is_told)
{
    open_store();
    die_at(TEMP_STEP_COMMITTED);
    temp_calls_fail(TEMP_CALL_UNLINK, "/.recovery/*/f1.md", EACCES, 0, 0);
    struct wish wish = {.id = "f9", .text = "note nine"};
    struct error error = write_refused("u/a", &wish, STATUS_DENIED, __LINE__);
    cr_expect_str_eq(error.path, "users/u/.recovery");
    temp_calls_reset();
    WORKS("f1=dead f2=two");
}

Test(write_session, a_journal_that_cannot_be_understood_stays)
{
    static const char torn[] = "{\"operationId\": \"x\", \"state\": \"prep";

    open_store();
    temp_volume_write(store->volume, "users/u/.memory.journal.json", torn, sizeof torn - 1);
    (void) REFUSED(STATUS_CORRUPT, "users/u/.memory.journal.json");
    temp_volume_remove(store->volume, "users/u/.memory.journal.json");
    WORKS(USUAL);
}

Test(write_session, lost_backups_are_no_reason_to_go_on)
{
    open_store();
    die_at(TEMP_STEP_MANIFEST);
    temp_volume_remove(store->volume, "users/u/.recovery");
    (void) REFUSED(STATUS_CORRUPT, "users/u/.memory.journal.json");
}

Test(write_session, where_locks_do_not_reach_a_journal_may_be_alive)
{
    store->options.locks = STORE_LOCKS_LOCAL;
    open_store();
    die_at(TEMP_STEP_JOURNAL);
    struct wish wish = {.id = "f9", .text = "note nine", .deadline_ms = 100};
    (void) expect_refused(&wish, STATUS_TIMEOUT, "users/u/.memory.journal.json", __LINE__);
    clock_advance_for_test(UINT64_C(61000) * NS_PER_MS);
    WORKS(USUAL);
}

Test(write_session, where_locks_do_not_reach_a_commit_is_waited_for)
{
    store->options.locks = STORE_LOCKS_LOCAL;
    open_store();
    const struct temp_commit commit = {.user = "u",
                                       .agent = "a",
                                       .changes = &update_f1,
                                       .count = 1};
    struct job job = {.thread = 1, .scope = "u/a", .wish = {.id = "f9", .text = "note nine"}};

    temp_calls_ignore_locks();
    struct temp_writer *peer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(peer, TEMP_STEP_JOURNAL, 0);
    job_start(&job);
    nap_ms(50);
    cr_expect(!atomic_load(&job.ended));
    (void) temp_writer_finish(&peer);
    job_join(&job);
    EXPECT_JOB(job, STATUS_OK);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=dead f2=two f9=nine");
    job_destroy(&job);
}

/* ---- facts that do not lie as they should ---- */

static void put_fact(const char *path, const char *user, const char *id, const char *text)
{
    const struct temp_change change = {.kind = TEMP_ADD, .id = id, .text = text};
    AUTO_FREE char *bytes =
        temp_fact_render(user, "a", &change, "title", "2026-01-01T00:00:00Z", 1);

    temp_volume_write(store->volume, path, bytes, strlen(bytes));
}

#define MISPLACED "users/u/agents/a/facts/00/f5.md"

static void expect_own_place(const char *id, bool expected)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_fact_path("u", "a", id, path);
    cr_expect_eq(temp_volume_exists(store->volume, path), expected);
}

static void put_misplaced(void)
{
    put_fact(MISPLACED, "u", "f5", "note five");
    (void) temp_volume_write_manifest(store->volume, "u");
    EXPECT_ASK(store, "u/a", "f1=one f2=two f5=five", "refreshed", 1);
}

Test(write_session, a_misplaced_fact_is_changed_where_it_lies)
{
    open_store();
    put_misplaced();
    struct wish create = {.id = "f5", .text = "note twin", .creates = true};
    struct error error = expect_refused(&create, STATUS_CONFLICT, "", __LINE__);
    EXPECT_MEMBER(error, "\"reason\":\"fact_revision\",\"fact_id\":\"f5\"");

    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f5", "note cinque");
    cr_expect_eq(json_integer_value(
                     json_object_get(json_array_get(result.upserted, 0), "revision")),
                 2);
    expect_own_place("f5", false);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f5=cinque", "fresh", 0);
    cr_expect(temp_volume_exists(store->volume, MISPLACED));

    AUTO_WRITE_RESULT struct write_result gone = write_ok("u/a", "f5", NULL);
    cr_expect(gone.changed);
    cr_expect(!temp_volume_exists(store->volume, MISPLACED));
    EXPECT_ASK(store, "u/a", USUAL, "fresh", 0);
    write_done("u/a", "f5", "note five");
    expect_own_place("f5", true);
}

#define NAME_50 "a-name-that-is-as-long-as-fifty-characters-can-be-"
#define NAME_250 NAME_50 NAME_50 NAME_50 NAME_50 NAME_50
#define DEEP_ID NAME_50 "and-thirteen"

/* Readers find it; no path of it below the user's directory is one that a journal could hold. */
Test(write_session, a_misplaced_fact_that_lies_too_deep_is_not_changed)
{
    static const char path[] = "users/u/agents/a/facts/" NAME_250 "/" NAME_250 "/" NAME_250
                               "/" NAME_250 "/twenty-characters-it/" DEEP_ID ".md";
    struct wish update = {.id = DEEP_ID, .text = "note other"};

    open_store();
    put_fact(path, "u", DEEP_ID, "note deep");
    (void) temp_volume_write_manifest(store->volume, "u");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_assert_eq(answer.count, 3);
    struct error error = write_refused("u/a", &update, STATUS_INVALID, __LINE__);
    cr_expect(strstr(error.message, "lies too deep") != NULL, "%s", error.message);
}

/* The index still tells of the file in the shard, which somebody has moved since. */
Test(write_session, a_misplaced_twin_is_found_behind_a_row_that_is_out_of_date)
{
    char own[SCOPE_PATH_MAX];

    open_store();
    temp_volume_fact_path("u", "a", "f1", own);
    put_fact("users/u/agents/a/facts/zz/f1.md", "u", "f1", "note twin");
    (void) temp_volume_write_manifest(store->volume, "u");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_eq(answer.count, 3, "one id in two places is shown twice");
    temp_volume_remove(store->volume, own);
    struct wish create = {.id = "f1", .text = "note new", .creates = true};
    (void) expect_refused(&create, STATUS_CONFLICT, "", __LINE__);
}

static void expect_in_the_way(const char *path, int line)
{
    struct wish update = {.id = "f7", .text = "note seven"};
    struct wish create = {.id = "f7", .text = "note seven", .creates = true};
    struct wish removal = {.id = "f7"};

    (void) expect_refused(&update, STATUS_CORRUPT, path, line);
    (void) expect_refused(&create, STATUS_CORRUPT, path, line);
    (void) expect_refused(&removal, STATUS_CORRUPT, path, line);
}

Test(write_session, a_file_that_is_no_fact_is_in_the_way_and_stays)
{
    static const char *const broken[] = {"", "no front matter", "---\nid: f8\n---\n\n# x\n\nx\n",
                                         "---\nid: f7\ncont"};
    char path[SCOPE_PATH_MAX];

    open_store();
    temp_volume_fact_path("u", "a", "f7", path);
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        temp_volume_write(store->volume, path, broken[i], strlen(broken[i]));
        expect_in_the_way(path, __LINE__);
    }
    WORKS(USUAL);
}

Test(write_session, a_fact_of_another_user_is_in_the_way_and_stays)
{
    char path[SCOPE_PATH_MAX];

    open_store();
    temp_volume_fact_path("u", "a", "f7", path);
    put_fact(path, "somebody", "f7", "note seven");
    expect_in_the_way(path, __LINE__);
    WORKS(USUAL);
}

Test(write_session, a_directory_with_the_name_of_a_fact_is_in_the_way)
{
    char path[SCOPE_PATH_MAX];

    open_store();
    temp_volume_fact_path("u", "a", "f7", path);
    temp_volume_make_dir(store->volume, path);
    struct wish update = {.id = "f7", .text = "note seven"};
    struct error error = write_refused("u/a", &update, STATUS_CORRUPT, __LINE__);
    cr_expect_str_eq(error.path, path);
    WORKS(USUAL);
}

/* ---- several commits under one lock ---- */

struct two_commits {
    enum status second; /* what its work answers after two commits */
};

static enum status commit_one(struct write_session *session, const char *scope_name, const char *id,
                              struct error *error)
{
    AUTO_WRITE_SOURCE struct write_source source = {0};
    AUTO_DRAFT struct draft *draft = NULL;
    AUTO_CHANGE_SET struct change_set set = {0};
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", id, "content", "note session");
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    enum status status = write_session_load(session, error);
    if (status == STATUS_OK)
        status = write_source_open(session, &scope, WRITE_SOURCE_SOME, &source, error);
    const struct draft_options options = {
        .scope = &scope,
        .has_agent = true,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .wall_ns = session->wall_ns,
        .source = write_source_functions(&source),
    };
    if (status == STATUS_OK)
        status = draft_create(&options, &draft);
    if (status == STATUS_OK)
        status = change_set_add_upsert(&set, &scope, fact, session->wall_ns, NULL, error);
    if (status == STATUS_OK)
        status = draft_apply(draft, &set, &outcome, NULL, error);
    return status == STATUS_OK ? write_session_commit(session, draft, false, error) : status;
}

static enum status work(void *context, struct write_session *session, struct error *error)
{
    const struct two_commits *wanted = context;

    enum status status = commit_one(session, "u/a", "s1", error);
    if (status == STATUS_OK)
        status = commit_one(session, "u/b", "s2", error);
    if (status == STATUS_OK)
        status = commit_one(session, "u/a", "s3", error);
    return status == STATUS_OK ? wanted->second : status;
}

Test(write_session, several_commits_come_into_the_index_in_their_order)
{
    static const enum status answers[] = {STATUS_OK, STATUS_BUSY};
    struct scope scope;

    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct two_commits wanted = {.second = answers[i]};
        struct error error = {0};
        bool behind = true;
        open_store();
        temp_store_scope("u/a", &scope);
        int64_t base = temp_volume_revision(store->volume, "u");
        cr_expect_eq(writer_run_alone(writer, &scope, clock_deadline_ms(5000), 0, work, &wanted,
                                      &behind, &error),
                     answers[i], "%s", error.message);
        cr_expect(!behind);
        cr_expect_eq(temp_volume_revision(store->volume, "u"), base + 3);
        EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee s1=session s2=session s3=session",
                   "fresh fresh", 0);
        write_tear_down();
        write_set_up();
    }
}

/* ---- two nodes whose locks do not reach each other, V2 ---- */

static struct temp_store *other_node;
static struct writer *other_writer;

static void open_other_node(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    other_node = temp_store_create();
    other_node->options.volume_path = temp_volume_path(store->volume);
    other_node->options.calls = temp_calls();
    other_node->options.locks = store->options.locks;
    temp_store_open(other_node);
    cr_assert_eq(writer_create(other_node->store, &options, &other_writer), STATUS_OK);
}

static void close_other_node(void)
{
    writer_destroy(&other_writer);
    temp_store_destroy(&other_node);
}

static enum status write_there(struct wish *wish, struct write_result *ret, struct error *error)
{
    struct writer *here = writer;

    writer = other_writer;
    enum status status = write_wish("u/a", wish, ret, error);
    writer = here;
    return status;
}

/* Both on the same revision; the other one comes while the first one stands at `point`. */
static void race_two_nodes(enum store_locks locks, enum pause_point point)
{
    store->options.locks = locks;
    open_store();
    open_other_node();
    temp_calls_ignore_locks();
    int64_t base = temp_volume_revision(store->volume, "u");
    struct job here = {.thread = 1,
                       .scope = "u/a",
                       .wish = {.id = "h1",
                                .text = "note here",
                                .has_manifest_revision = true,
                                .manifest_revision = base}};
    struct wish there = {.id = "t1",
                         .text = "note there",
                         .has_manifest_revision = true,
                         .manifest_revision = base,
                         .deadline_ms = 200};
    struct write_result result;
    struct error error;

    pause_arm(point);
    job_start(&here);
    cr_assert(pause_wait_reached(point, LONG_MS));
    enum status status = write_there(&there, &result, &error);
    pause_release(point);
    job_join(&here);

    const char *name = pause_point_name(point);
    cr_expect(status == STATUS_OK || status == STATUS_CONFLICT || status == STATUS_TIMEOUT,
              "%s: there: %s %s", name, status_name(status), error.message);
    cr_expect(here.status == STATUS_OK || here.status == STATUS_CONFLICT, "%s: here: %s %s", name,
              status_name(here.status), here.error.message);
    cr_expect(status == STATUS_OK || here.status == STATUS_OK, "%s: nobody wins", name);
    cr_expect(status != STATUS_OK || here.status != STATUS_OK, "%s: both win", name);
    cr_expect_eq(temp_volume_revision(store->volume, "u"), base + 1, "%s", name);
    char expected[200];
    char left[1000];
    (void) snprintf(expected, sizeof expected, "f1=one f2=two%s%s",
                    here.status == STATUS_OK ? " h1=here" : "",
                    status == STATUS_OK ? " t1=there" : "");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, expected, "%s: {%s}", name, answer.facts);
    answer = temp_store_ask(other_node, "u/a");
    cr_expect_str_eq(answer.facts, expected, "%s there: {%s}", name, answer.facts);
    temp_tree_leftovers(store->volume, "users/u", left, sizeof left);
    cr_expect_str_eq(left, "", "%s: left {%s}", name, left);
    write_result_destroy(&result);
    job_destroy(&here);
    close_other_node();
    write_tear_down();
    write_set_up();
}

Test(write_session, two_nodes_never_make_the_same_revision)
{
    static const enum pause_point points[] = {
        PAUSE_COMMIT_AFTER_LOCK,     PAUSE_COMMIT_AFTER_BACKUP,     PAUSE_COMMIT_AFTER_JOURNAL,
        PAUSE_COMMIT_AFTER_FACT,     PAUSE_COMMIT_BEFORE_CHECK,     PAUSE_COMMIT_BEFORE_MANIFEST,
        PAUSE_COMMIT_AFTER_MANIFEST, PAUSE_COMMIT_BEFORE_COMMITTED, PAUSE_COMMIT_AFTER_COMMITTED,
        PAUSE_COMMIT_AFTER_CLEANUP,
    };

    for (size_t i = 0; i < ARRAY_SIZE(points); i++)
        race_two_nodes(STORE_LOCKS_LOCAL, points[i]);
}

/* Locks that are trusted and do not lock: whoever comes second takes the first for dead. What was
 * checked already cannot be saved then, all the rest can. */
Test(write_session, two_nodes_that_trust_useless_locks_notice_each_other)
{
    static const enum pause_point points[] = {
        PAUSE_COMMIT_AFTER_LOCK,    PAUSE_COMMIT_AFTER_BACKUP,   PAUSE_COMMIT_AFTER_JOURNAL,
        PAUSE_COMMIT_BEFORE_CHECK,  PAUSE_COMMIT_AFTER_MANIFEST, PAUSE_COMMIT_AFTER_COMMITTED,
        PAUSE_COMMIT_AFTER_CLEANUP,
    };

    for (size_t i = 0; i < ARRAY_SIZE(points); i++)
        race_two_nodes(STORE_LOCKS_TRUSTED, points[i]);
}

/* ---- other volumes, other places ---- */

/* A life of one scope: made, changed, failed, taken up again. */
static void live_through(const char *scope, const char *user)
{
    char bucket[SCOPE_PATH_MAX];
    char left[1000];
    struct wish wish = {.id = "f3", .text = "note three"};

    AUTO_WRITE_RESULT struct write_result first = write_ok(scope, "f1", "note one");
    cr_expect_eq(first.revision, 1);
    write_done(scope, "f2", "note two");
    AUTO_WRITE_RESULT struct write_result third = write_ok(scope, "f1", "note uno");
    cr_expect_eq(third.revision, 3);
    temp_calls_fail(TEMP_CALL_RENAME, "/" JOURNAL_NAME, ENOSPC, 0, 1);
    (void) write_refused(scope, &wish, STATUS_STORAGE_FULL, __LINE__);
    temp_calls_reset();
    struct temp_answer answer = temp_store_ask(store, scope);
    cr_expect_str_eq(answer.facts, "f1=uno f2=two", "%s: {%s}", scope, answer.facts);
    AUTO_WRITE_RESULT struct write_result fourth = write_ok(scope, "f2", NULL);
    cr_expect_eq(fourth.revision, 4);
    cr_expect_eq(temp_volume_revision(store->volume, user), 4);
    answer = temp_store_ask(store, scope);
    cr_expect_str_eq(answer.facts, "f1=uno", "%s: {%s}", scope, answer.facts);
    temp_volume_bucket_path(user, bucket);
    temp_tree_leftovers(store->volume, bucket, left, sizeof left);
    cr_expect_str_eq(left, "", "%s: left {%s}", scope, left);
}

static void open_empty(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    temp_store_open(store);
    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

Test(write_session, every_kind_of_volume_is_written_alike)
{
    static const enum volume_kind kinds[] = {VOLUME_LOCAL, VOLUME_CLUSTER, VOLUME_UNKNOWN};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        enum volume_kind kind = kinds[i];
        store->options.force_kind = &kind;
        open_empty();
        live_through("u/a", "u");
        write_tear_down();
        write_set_up();
    }
}

Test(write_session, the_root_and_the_default_agent_are_written_alike)
{
    open_empty();
    live_through("-/a", NULL);
    live_through("v/-", "v");
    cr_expect(temp_volume_exists(store->volume, ".memory.lock"));
    cr_expect(temp_volume_exists(store->volume, "users/v/agents/" SCOPE_DEFAULT_AGENT));
}

Test(write_session, the_manifest_may_have_another_name)
{
    store->options.manifest_name = "index.json";
    temp_volume_set_manifest_name(store->volume, "index.json");
    open_empty();
    live_through("u/a", "u");
    cr_expect(temp_volume_exists(store->volume, "users/u/index.json"));
    cr_expect(!temp_volume_exists(store->volume, "users/u/memory.json"));
}

/* What is not an agent's name in lower case has no place of its own. */
Test(write_session, agents_are_written_by_their_folded_names)
{
    open_empty();
    write_done("u/Agent-A", "f1", "note one");
    AUTO_WRITE_RESULT struct write_result second = write_ok("u/agent-a", "f1", "note one");
    cr_expect(!second.changed);
    cr_expect(temp_volume_exists(store->volume, "users/u/agents/agent-a"));
}
