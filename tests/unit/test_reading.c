/* core/reading.h: what a search may say of each scope. */
#include "core/reading.h"

#include "tests/unit/engine_checks.h"

#include <sys/wait.h>

static struct temp_store *store;

static void set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
}

static void tear_down(void)
{
    pause_reset();
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(reading, .init = set_up, .fini = tear_down, .timeout = 60);

static struct temp_answer ask(const char *scopes, enum freshness_mode mode,
                              uint64_t max_staleness_ms)
{
    return temp_store_ask_as(store, &(struct temp_question){.scopes = scopes,
                                                            .mode = mode,
                                                            .max_staleness_ms = max_staleness_ms});
}

static void write_manifest(const char *bytes, size_t size)
{
    temp_volume_write(store->volume, "users/u/memory.json", bytes, size);
}

/* ---- local and bounded ---- */

Test(reading, local_never_looks_at_the_volume)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    uint64_t compares = atomic_load(&store->store->counters.compares);
    clock_advance_for_test(7 * NS_PER_SECOND);
    struct temp_answer answer = ask("u/a", FRESHNESS_LOCAL, 0);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect(answer.has_age && answer.age_ns >= 7 * NS_PER_SECOND &&
              answer.age_ns < 60 * NS_PER_SECOND);
    cr_expect_eq(atomic_load(&store->store->counters.compares), compares);
    temp_store_close(store);
    temp_store_open(store);
    answer = ask("u/a", FRESHNESS_LOCAL, 0);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect(!answer.has_age, "this process never found it in step");
}

/* It may be true of newer rows than those that this reading is about to see. */
Test(reading, the_age_is_not_that_of_a_look_that_ended_after_the_reading_had_begun)
{
    temp_store_usual(store, false);
    clock_advance_for_test(7 * NS_PER_SECOND);
    pause_arm(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_search *search = temp_search_start(
        store, &(struct temp_question){.scopes = "u/a", .mode = FRESHNESS_LOCAL, .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_SEARCH_BEFORE_QUERY, LONG_MS));
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    pause_release(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect(answer.has_age && answer.age_ns >= 7 * NS_PER_SECOND);
}

Test(reading, local_of_a_scope_that_was_never_built_has_nothing_to_show)
{
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    temp_store_open(store);
    struct temp_answer answer = ask("u/a", FRESHNESS_LOCAL, 0);
    check_answer(&answer, "", "stale", 0, __LINE__);
    cr_expect(!answer.has_age);
    cr_expect_eq(atomic_load(&store->store->counters.compares), 0);
}

Test(reading, bounded_answers_at_once_within_its_age_and_looks_beyond)
{
    temp_store_usual(store, false);
    (void) temp_store_settle(store); /* a second look that falls due would be counted as one */
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    clock_advance_for_test(4 * NS_PER_SECOND);
    uint64_t compares = atomic_load(&store->store->counters.compares);
    struct temp_answer answer = ask("u/a", FRESHNESS_BOUNDED, 10000);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect(answer.has_age && answer.age_ns >= 4 * NS_PER_SECOND);
    cr_expect_eq(atomic_load(&store->store->counters.compares), compares);
    clock_advance_for_test(7 * NS_PER_SECOND);
    answer = ask("u/a", FRESHNESS_BOUNDED, 10000);
    check_answer(&answer, "f1=one f2=two f3=three", "refreshed", 1, __LINE__);
    answer = ask("u/a", FRESHNESS_BOUNDED, 10000);
    check_answer(&answer, "f1=one f2=two f3=three", "stale", 0, __LINE__);
    answer = ask("u/a", FRESHNESS_BOUNDED, 0);
    check_answer(&answer, "f1=one f2=two f3=three", "fresh", 0, __LINE__);
}

/* Refreshed behind the answer, before the rows grow too old for the next one. */
Test(reading, bounded_asks_for_a_look_behind_in_the_second_half_of_its_age)
{
    struct refresh_table_counts counts;

    temp_store_usual(store, false);
    (void) temp_store_settle(store); /* so that nothing else is wanted */
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    clock_advance_for_test(4 * NS_PER_SECOND);
    (void) ask("u/a", FRESHNESS_BOUNDED, 10000);
    refresh_table_counts(store->store->refreshes, &counts);
    cr_expect_eq(counts.wanted_background, 0);
    clock_advance_for_test(2 * NS_PER_SECOND);
    (void) ask("u/a", FRESHNESS_BOUNDED, 10000);
    refresh_table_counts(store->store->refreshes, &counts);
    cr_expect_eq(counts.wanted_background, 1);
}

Test(reading, bounded_never_answers_at_once_from_rows_that_nothing_vouches_for)
{
    struct scope scope;

    temp_store_usual(store, false);
    temp_store_scope("u/a", &scope);
    cr_assert(index_forget(store->store->index, &scope, NULL) == STATUS_OK);
    struct temp_answer answer = ask("u/a", FRESHNESS_LOCAL, 0);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    answer = ask("u/a", FRESHNESS_BOUNDED, 60000);
    check_answer(&answer, "f1=one f2=two", "refreshed", 1, __LINE__);
    (void) temp_volume_add(store->volume, "w", "a", "w1", "note new");
    answer = ask("w/a", FRESHNESS_BOUNDED, 60000);
    check_answer(&answer, "w1=new", "refreshed", 1, __LINE__);
}

/* ---- a manifest that cannot be read ---- */

static void expect_unverified_then_well(const char *what, const char *kind)
{
    char unreadable[64];

    (void) snprintf(unreadable, sizeof unreadable, "kind=%s", kind);
    for (unsigned i = 0; i < 3; i++) {
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, "f1=one f2=two", "%s", what);
        cr_expect_str_eq(answer.states, "unverified", "%s", what);
        cr_expect_str_eq(answer.path, "users/u/memory.json", "%s", what);
        cr_expect_eq(answer.refreshes, 0, "%s", what);
    }
    cr_expect_eq(captured_log_count("event=scope.unreadable"), 1, "%s is told once", what);
    cr_expect(captured_log_line(unreadable, 0) != NULL, "%s: %s", what,
              captured_log_line("event=scope.unreadable", 0));
    cr_expect_eq(captured_log_count("event=scope.readable"), 0);
}

#define BYTES(text) (text), sizeof(text) - 1

Test(reading, bytes_that_are_no_manifest_leave_the_rows_as_they_are)
{
    static const char zeros[64];
    static const struct {
        const char *what, *bytes;
        size_t size;
    } cases[] = {
        {"empty", BYTES("")},
        {"cut", BYTES("{\"version\": \"2.0\", \"revi")},
        {"zeros", zeros, sizeof zeros},
        {"a list", BYTES("[1, 2]")},
        {"a word for a revision", BYTES("{\"version\": \"2.0\", \"revision\": \"many\"}")},
        {"not UTF-8", BYTES("{\"version\": \"\xff\", \"revision\": 3}")},
        {"text behind it", BYTES("{\"version\": \"2.0\", \"revision\": 3} and more")},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        tear_down();
        set_up();
        captured_log_start();
        temp_store_usual(store, false);
        AUTO_FREE char *sound = temp_volume_read(store->volume, "users/u/memory.json", NULL);
        write_manifest(cases[i].bytes, cases[i].size);
        expect_unverified_then_well(cases[i].what, "corrupt");
        size_t size = 0;
        AUTO_FREE char *after = temp_volume_read(store->volume, "users/u/memory.json", &size);
        cr_expect(size == cases[i].size && memcmp(after, cases[i].bytes, size) == 0,
                  "%s was left as it is", cases[i].what);
        write_manifest(sound, strlen(sound));
        EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
        cr_expect_eq(captured_log_count("event=scope.readable"), 1, "%s", cases[i].what);
        captured_log_stop();
    }
}

Test(reading, a_volume_that_fails_to_read_leaves_the_rows_as_they_are)
{
    static const struct {
        const char *what;
        enum temp_call call;
        int sys_errno;
        const char *kind;
    } cases[] = {
        {"open EIO", TEMP_CALL_OPEN, EIO, "io"},
        {"read EIO", TEMP_CALL_READ, EIO, "io"},
        {"open EACCES", TEMP_CALL_OPEN, EACCES, "denied"},
        {"stat ESTALE", TEMP_CALL_STAT, ESTALE, "unavailable"},
        {"read ESTALE", TEMP_CALL_READ, ESTALE, "unavailable"},
        {"open EMFILE", TEMP_CALL_OPEN, EMFILE, "busy"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        tear_down();
        set_up();
        captured_log_start();
        temp_store_usual(store, false);
        temp_calls_fail(cases[i].call, "/memory.json", cases[i].sys_errno, 0, 0);
        expect_unverified_then_well(cases[i].what, cases[i].kind);
        temp_calls_reset();
        /* Nothing was forgotten, nothing marked: the same file is in step. */
        EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
        cr_expect_eq(captured_log_count("event=scope.readable"), 1, "%s", cases[i].what);
        captured_log_stop();
    }
}

Test(reading, what_a_peer_wrote_meanwhile_is_found_when_it_can_be_read_again)
{
    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    temp_calls_fail(TEMP_CALL_READ, "/memory.json", EIO, 0, 0);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    temp_calls_reset();
    EXPECT_REFRESHED(store, "u/a", "f1=one");
}

Test(reading, one_of_two_users_that_cannot_be_read_does_not_hide_the_other)
{
    temp_store_usual(store, true);
    (void) temp_volume_add(store->volume, "v", "a", "h2", "note new");
    temp_calls_fail(TEMP_CALL_OPEN, "/u/memory.json", EIO, 0, 0);
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch h2=new", "unverified refreshed", 1);
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch h2=new", "unverified fresh", 0);
    EXPECT_ASK(store, "v/a u/a", "f1=one f2=two h1=aitch h2=new", "fresh unverified", 0);
}

Test(reading, a_scope_that_was_never_built_and_cannot_be_is_an_error)
{
    temp_store_usual(store, false);
    temp_volume_make_dir(store->volume, "users/w");
    temp_volume_write(store->volume, "users/w/memory.json", "{\"vers", 6);
    struct temp_answer answer = temp_store_ask(store, "w/a");
    cr_expect_eq(answer.status, STATUS_CORRUPT);
    cr_expect_str_eq(answer.error.path, "users/w/memory.json");
    (void) temp_volume_add(store->volume, "x", "a", "x1", "note ex");
    temp_calls_fail(TEMP_CALL_READ, "/x/memory.json", EIO, 0, 0);
    answer = temp_store_ask(store, "x/a");
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE);
    cr_expect_str_eq(answer.error.path, "users/x/memory.json");
    /* Beside a scope that can be answered it is told as a state. */
    EXPECT_ASK(store, "u/a x/a w/a", "f1=one f2=two", "fresh unverified unverified", 0);
    temp_calls_reset();
    EXPECT_REFRESHED(store, "x/a", "x1=ex");
}

/* Without the rights of root, which reads everything. */
static int read_without_right(void)
{
    char path[PATH_MAX];
    struct temp_store *mine = temp_store_create();
    int failed = 0;

    temp_store_usual(mine, false);
    temp_volume_file(mine->volume, "users/u/memory.json", path);
    failed |= chmod(path, 0) != 0;
    struct temp_answer answer = temp_store_ask(mine, "u/a");
    failed |= (answer.status != STATUS_OK || strcmp(answer.states, "unverified") != 0 ||
               strcmp(answer.facts, "f1=one f2=two") != 0)
              << 1;
    failed |= (chmod(path, 0600) != 0) << 2;
    answer = temp_store_ask(mine, "u/a");
    failed |= (strcmp(answer.states, "refreshed") != 0) << 3;
    char fact[SCOPE_PATH_MAX];
    temp_volume_fact_path("u", "a", "f1", fact);
    temp_volume_file(mine->volume, fact, path);
    failed |= (chmod(path, 0) != 0) << 4;
    (void) temp_store_refresh(mine, "u/a", REFRESH_WISH_FULL);
    failed |= (strcmp(temp_store_ask(mine, "u/a").facts, "f2=two") != 0) << 5;
    failed |= (chmod(path, 0600) != 0) << 6;
    (void) temp_store_refresh(mine, "u/a", REFRESH_WISH_SETTLE);
    failed |= (strcmp(temp_store_ask(mine, "u/a").facts, "f1=one f2=two") != 0) << 7;
    temp_store_destroy(&mine);
    return failed;
}

Test(reading, files_without_the_right_to_read_them)
{
    int status = 0;

    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        if (engine_runs_as_root() &&
            (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
            _exit(255);
        _exit(read_without_right());
    }
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "steps that failed: %#x", status);
}

/* ---- a writer that does not stop ---- */

Test(reading, under_a_steady_writer_a_search_ends_stale_after_a_bounded_number_of_refreshes)
{
    char id[16];

    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "j", "note start");
    pause_arm(PAUSE_REFRESH_AFTER_PLAN);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    /* A commit before what is read, so that it is not what the search saw, and one after. */
    for (unsigned i = 0; i < READING_ATTEMPTS_MAX; i++) {
        cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS));
        (void) snprintf(id, sizeof id, "k%u", i);
        (void) temp_volume_add(store->volume, "u", "a", id, "note more");
        pause_arm(PAUSE_REFRESH_AFTER_INSTALL);
        pause_release(PAUSE_REFRESH_AFTER_PLAN);
        cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_INSTALL, LONG_MS));
        (void) snprintf(id, sizeof id, "m%u", i);
        (void) temp_volume_add(store->volume, "u", "a", id, "note yet");
        if (i + 1 < READING_ATTEMPTS_MAX)
            pause_arm(PAUSE_REFRESH_AFTER_PLAN);
        pause_release(PAUSE_REFRESH_AFTER_INSTALL);
    }
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer,
                 "f1=one f2=two j=start k0=more k1=more k2=more k3=more m0=yet m1=yet m2=yet",
                 "stale", READING_ATTEMPTS_MAX, __LINE__);
    cr_expect(!answer.has_age || answer.age_ns < 60 * NS_PER_SECOND);
    EXPECT_REFRESHED(store, "u/a",
                     "f1=one f2=two j=start k0=more k1=more k2=more k3=more m0=yet m1=yet m2=yet "
                     "m3=yet");
}

/* What was complete when it arrived is in the answer; what came while it waited is left open. */
Test(reading, a_commit_during_the_refresh_does_not_make_the_search_wait_for_another)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "j", "note start");
    pause_arm(PAUSE_REFRESH_AFTER_INSTALL);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_INSTALL, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "k", "note more");
    pause_release(PAUSE_REFRESH_AFTER_INSTALL);
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer, "f1=one f2=two j=start", "refreshed", 1, __LINE__);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two j=start k=more");
}

Test(reading, a_scope_found_fresh_is_looked_at_again_after_waiting_for_another)
{
    temp_store_usual(store, true);
    (void) temp_volume_add(store->volume, "v", "a", "h2", "note new");
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a v/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer, "f1=one f2=two f3=three h1=aitch h2=new", "refreshed refreshed", 2,
                 __LINE__);
}

Test(reading, a_look_that_hangs_keeps_no_search_waiting)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown;
    temp_store_usual(store, true);
    pause_arm(PAUSE_COMPARE_BEFORE_OPEN);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_COMPARE_BEFORE_OPEN, LONG_MS));
    clock_advance_for_test(ERRAND_PATIENCE_NS);
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer, "f1=one f2=two", "unverified", 0, __LINE__);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    EXPECT_ASK(store, "v/a", "h1=aitch", "fresh", 0);
    pause_release(PAUSE_COMPARE_BEFORE_OPEN);
    cr_assert(errands_settle(store->store->errands, clock_deadline_ms(LONG_MS)));
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

Test(reading, agents_that_never_were_leave_nothing_in_the_index)
{
    struct index_scope row;

    temp_store_usual(store, false);
    EXPECT_ASK(store, "u/ghost", "", "refreshed", 1);
    EXPECT_ASK(store, "u/ghost", "", "fresh", 0);
    cr_expect(!temp_store_row(store, "u/ghost", &row));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    EXPECT_ASK(store, "u/ghost", "", "refreshed", 1);
    (void) temp_volume_add(store->volume, "u", "ghost", "f9", "note boo");
    EXPECT_REFRESHED(store, "u/ghost", "f9=boo");
    cr_expect(temp_store_row(store, "u/ghost", &row));
    temp_store_close(store);
    temp_store_open(store);
    EXPECT_ASK(store, "u/ghost", "f9=boo", "fresh", 0);
}

Test(reading, a_deadline_ends_the_waiting_for_a_refresh)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    struct temp_answer answer =
        temp_store_ask_as(store, &(struct temp_question){.scopes = "u/a", .deadline_ms = 100});
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect(answer.took_ns >= 90 * NS_PER_MS && answer.took_ns < 10 * NS_PER_SECOND);
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    (void) temp_refresh_join(&running);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f3=three", "fresh", 0);
}

Test(reading, a_first_build_that_takes_too_long_is_told_and_goes_on)
{
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    temp_store_open(store);
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    struct temp_answer answer =
        temp_store_ask_as(store, &(struct temp_question){.scopes = "u/a", .deadline_ms = 100});
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect(temp_wait_counter(&store->store->counters.refreshes, 1, LONG_MS));
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
}

/* ---- one manifest for all agents of a user ---- */

/* What the refresh has installed is the manifest that this search saw before. */
Test(reading, rows_of_the_manifest_that_was_seen_need_no_second_look)
{
    temp_store_usual(store, true);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    uint64_t compares = atomic_load(&store->store->counters.compares);
    EXPECT_ASK(store, "u/a", "f1=ONE f2=two", "refreshed", 1);
    cr_expect_eq(atomic_load(&store->store->counters.compares) - compares, 2,
                 "the search's and the refresh's");
}

Test(reading, the_manifest_of_a_user_is_read_once_for_all_scopes_of_one_search)
{
    temp_store_usual(store, false);
    uint64_t compares = atomic_load(&store->store->counters.compares);
    EXPECT_ASK(store, "u/a u/b u/a", "f1=one f1=one f2=two f2=two g1=bee", "fresh fresh fresh", 0);
    cr_expect_eq(atomic_load(&store->store->counters.compares) - compares, 1);
}

Test(reading, an_absent_manifest_is_looked_at_for_each_agent)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f1", .text = "note one"};

    temp_volume_raw(store->volume, "u", "b", &add, 1);
    temp_store_open(store);
    struct temp_answer answer = temp_store_ask(store, "u/a u/b");
    cr_expect_str_eq(answer.facts, "f1=one");
    cr_expect_str_eq(answer.states, "fresh refreshed");
}

/* ---- counting ---- */

Test(reading, states_are_counted)
{
    struct store_counters *counters;

    temp_store_usual(store, false);
    counters = &store->store->counters;
    uint64_t fresh = atomic_load(&counters->fresh);
    (void) temp_store_ask(store, "u/a u/b");
    cr_expect_eq(atomic_load(&counters->fresh) - fresh, 2);
    cr_expect_eq(atomic_load(&counters->refreshed), 2);
    (void) ask("u/a", FRESHNESS_LOCAL, 0);
    cr_expect_eq(atomic_load(&counters->stale), 1);
    temp_calls_fail(TEMP_CALL_READ, "/memory.json", EIO, 0, 0);
    (void) temp_store_ask(store, "u/a");
    cr_expect_eq(atomic_load(&counters->unverified), 1);
    cr_expect_eq(atomic_load(&counters->compare_errors), 1);
}
