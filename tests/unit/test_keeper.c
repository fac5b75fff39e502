/* core/keeper.h: the index follows the volume without being asked. */
#include "core/clock.h"
#include "core/keeper.h"
#include "core/volume_stuck.h"

#include "tests/support/descriptors.h"
#include "tests/unit/engine_checks.h"

static struct temp_store *store;
static struct keeper *keeper;
static struct keeper_options options;

static void set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
    options = (struct keeper_options){.refreshers = 2,
                                      .inotify = true,
                                      .poll_interval_min_ms = 20,
                                      .poll_interval_max_ms = 100,
                                      .operations_per_second = 5000};
    captured_log_start();
}

static void tear_down(void)
{
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
    cr_expect(keeper == NULL);
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
    captured_log_stop();
    pause_reset();
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(keeper, .init = set_up, .fini = tear_down, .timeout = 120);

static void start(void)
{
    struct error error = {0};

    cr_assert(keeper_start(store->store, &options, &keeper, &error) == STATUS_OK, "%s",
              error.message);
}

/* What the index says by itself; waits for it. */
static bool shows(const char *scope, const char *facts)
{
    for (unsigned i = 0; i < LONG_MS; i++) {
        struct temp_answer answer =
            temp_store_ask_as(store,
                              &(struct temp_question){.scopes = scope, .mode = FRESHNESS_LOCAL});
        if (answer.status == STATUS_OK && strcmp(answer.facts, facts) == 0)
            return true;
        temp_nap();
    }
    return false;
}

static bool wait_for_state(bool (*wanted)(const struct keeper_state *state))
{
    for (unsigned i = 0; i < LONG_MS; i++) {
        struct keeper_state state;
        keeper_state(keeper, &state);
        if (wanted(&state))
            return true;
        temp_nap();
    }
    return false;
}

static bool first_pass_is_done(const struct keeper_state *state)
{
    return state->first_pass_done;
}

/* Both ways of hearing of a change have to bring each kind of it. */
static void follow_everything(void)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "w1", .text = "note new"};
    const struct temp_commit commit = {.user = "w", .agent = "a", .changes = &add, .count = 1};

    temp_store_usual(store, true);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect(shows("u/a", "f1=one f2=two f3=three"), "a change of a user");
    (void) temp_volume_commit(store->volume, &commit);
    cr_expect(shows("w/a", "w1=new"), "a new user");
    (void) temp_volume_add(store->volume, "w", "b", "w2", "note agent");
    cr_expect(shows("w/b", "w2=agent"), "a new agent");
    (void) temp_volume_delete(store->volume, "v", "a", "h1");
    cr_expect(shows("v/a", ""), "a deletion");
    (void) temp_volume_add(store->volume, NULL, "a", "r1", "note root");
    cr_expect(shows("-/a", "r1=root"), "the bucket without user");
    temp_volume_remove(store->volume, "users/w");
    cr_expect(shows("w/a", "") && shows("w/b", ""), "a user who went");
    struct temp_answer answer = temp_store_ask(store, "u/a w/a w/b");
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three");
    cr_expect_str_eq(answer.states, "fresh fresh fresh");
}

Test(keeper, follows_by_inotify)
{
    options.poll_interval_min_ms = 60000; /* too rare to help */
    options.poll_interval_max_ms = 60000;
    follow_everything();
}

Test(keeper, follows_by_polling)
{
    options.inotify = false;
    follow_everything();
    struct keeper_state state;
    keeper_state(keeper, &state);
    cr_expect(!state.inotify && state.events == 0);
}

/* A build that is over. */
static void expect_progress(const struct build_figures *wanted)
{
    struct build_figures figures;

    build_progress_figures(store->store->progress, &figures);
    cr_expect_eq(figures.phase, BUILD_DONE);
    cr_expect_eq(figures.percent, 100);
    cr_expect_eq(figures.users_total, wanted->users_total);
    cr_expect_eq(figures.users_looked, wanted->users_total);
    cr_expect_eq(figures.scopes_total, wanted->scopes_done + wanted->scopes_failed);
    cr_expect_eq(figures.scopes_done, wanted->scopes_done);
    cr_expect_eq(figures.scopes_failed, wanted->scopes_failed);
    cr_expect_eq(figures.facts, wanted->facts);
    cr_expect_eq(figures.built_scopes, wanted->built_scopes);
    cr_expect_eq(figures.built_facts, wanted->built_facts);
}

Test(keeper, builds_what_lies_there_at_the_start)
{
    char user[16];
    char scope[24];

    for (unsigned i = 0; i < 20; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        (void) temp_volume_add(store->volume, user, "a", "f1", "note one");
    }
    temp_store_open(store);
    start();
    for (unsigned i = 0; i < 20; i++) {
        (void) snprintf(scope, sizeof scope, "u%u/a", i);
        cr_expect(shows(scope, "f1=one"), "%s", scope);
    }
    cr_expect(temp_wait_counter(&store->store->counters.refreshes, 20, LONG_MS));
    (void) !keeper_stop(&keeper, CLOCK_NEVER);
    cr_expect_eq(atomic_load(&store->store->counters.refreshes), 20, "each scope once");
    expect_progress(&(struct build_figures){
        .users_total = 20, .scopes_done = 20, .facts = 20, .built_scopes = 20, .built_facts = 20});
}

Test(keeper, a_warm_start_compares_each_user_once_and_reads_no_fact)
{
    temp_store_usual(store, true);
    (void) temp_store_settle(store);
    temp_store_close(store);
    temp_store_open(store);
    options.inotify = false;
    options.poll_interval_min_ms = options.poll_interval_max_ms = 60000;
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    cr_expect_eq(atomic_load(&store->store->counters.files_read), 0);
    cr_expect_eq(atomic_load(&store->store->counters.refreshes), 0);
    expect_progress(&(struct build_figures){.users_total = 2, .scopes_done = 3, .facts = 4});
    EXPECT_ASK(store, "u/a u/b v/a", "f1=one f2=two g1=bee h1=aitch", "fresh fresh fresh", 0);
}

/* A scope of a user who went while nobody was looking. */
Test(keeper, removes_at_the_start_what_went_meanwhile)
{
    temp_store_usual(store, true);
    temp_store_close(store);
    temp_volume_remove(store->volume, "users/v");
    temp_store_open(store);
    start();
    cr_expect(shows("v/a", ""));
    cr_expect(shows("u/a", "f1=one f2=two"));
}

Test(keeper, takes_the_second_look_when_stamps_have_settled)
{
    temp_store_usual(store, false);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    clock_advance_for_test(volume_settle_ns(store->store->volume) + NS_PER_SECOND);
    cr_expect(temp_wait_counter(&store->store->counters.settles, 2, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect(shows("u/a", "f1=one f2=two f3=three"));
}

/* Polling finds the scope out of step at every turn; the failure is not repeated as often. */
Test(keeper, a_scope_that_fails_is_tried_with_back_off)
{
    temp_store_usual(store, true);
    temp_calls_fail(TEMP_CALL_READ, "/f1.md", EIO, 0, 0);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    options.inotify = false;
    start();
    cr_assert(temp_wait_counter(&store->store->counters.refreshes_failed, 1, LONG_MS));
    uint64_t compares = atomic_load(&store->store->counters.compares);
    cr_assert(temp_wait_counter(&store->store->counters.compares, compares + 12, LONG_MS));
    cr_expect(atomic_load(&store->store->counters.refreshes_failed) <= 2, "%d",
              (int) atomic_load(&store->store->counters.refreshes_failed));
    (void) temp_volume_add(store->volume, "v", "a", "h2", "note new");
    cr_expect(shows("v/a", "h1=aitch h2=new"), "others are not held up");
    temp_calls_reset();
    clock_advance_for_test(61 * NS_PER_SECOND);
    cr_expect(shows("u/a", "f1=ONE f2=two"), "it comes right by itself");
}

Test(keeper, an_unreadable_manifest_recovers_by_itself)
{
    temp_store_usual(store, false);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    temp_volume_break(store->volume, "u");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    (void) temp_volume_repair(store->volume, "u");
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect(shows("u/a", "f1=one f2=two f3=three"));
}

/* A long background build must not keep a search waiting. */
Test(keeper, one_refresher_is_kept_for_what_somebody_waits_for)
{
    struct index_scope row;

    options.refreshers = 1;
    options.inotify = false;
    options.poll_interval_min_ms = options.poll_interval_max_ms = 60000;
    (void) temp_volume_add(store->volume, "slow1", "a", "s1", "note slow");
    (void) temp_volume_add(store->volume, "slow2", "a", "s2", "note slow");
    store->without_refresher = true;
    temp_store_open(store);
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    start();
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    EXPECT_ASK(store, "u/a", "f1=one", "refreshed", 1);
    cr_expect(!temp_store_row(store, "slow1/a", &row) && !temp_store_row(store, "slow2/a", &row),
              "the other one does not help in the background");
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect(shows("slow1/a", "s1=slow") && shows("slow2/a", "s2=slow"));
}

/* By both who look there: whoever polls, and whoever sets the watches. */
Test(keeper, users_that_cannot_be_listed_at_the_start_are_looked_at_when_they_can)
{
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_LIST, "/users", EIO, 0, 0);
    start();
    cr_expect(captured_log_wait("event=volume.listing path=users ", 1, LONG_MS));
    cr_expect(captured_log_wait("event=watch.inotify path=users ", 1, LONG_MS));
    (void) temp_volume_add(store->volume, "w", "a", "w1", "note new");
    temp_calls_reset();
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_expect(shows("w/a", "w1=new"));
}

#define HANGING 24 /* more than there are threads to give up */

/* Each that hangs is given up and another one takes its place, until there is no place. */
Test(keeper, when_too_many_refreshers_hang_none_is_given_up_any_more)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;
    char name[16];

    store->options.force_kind = &unknown; /* a local volume does not hang */
    options.refreshers = 1;
    options.inotify = false;
    for (unsigned i = 0; i < HANGING; i++) {
        (void) snprintf(name, sizeof name, "u%u", i);
        (void) temp_volume_add(store->volume, name, "a", "f1", "note one");
    }
    temp_store_open(store);
    temp_calls_hang(TEMP_CALL_READ, "/f1.md");
    start();
    for (unsigned i = 0; i < LONG_MS && captured_log_count("too many refreshers hang") == 0; i++) {
        clock_advance_for_test(VOLUME_STUCK_NS + 1);
        keeper_oversee(keeper);
        temp_nap();
    }
    cr_expect_geq(captured_log_count("event=refresh.crew "), 1);
    temp_calls_reset();
    for (unsigned i = 0; i < HANGING; i++) {
        (void) snprintf(name, sizeof name, "u%u/a", i);
        cr_expect(shows(name, "f1=one"), "%s", name);
    }
}

Test(keeper, without_a_descriptor_it_does_not_start)
{
    struct error error = {0};

    temp_store_open(store);
    descriptors_leave(0);
    cr_expect(keeper_start(store->store, &options, &keeper, &error) != STATUS_OK);
    descriptors_give_back();
    cr_expect(strstr(error.message, "eventfd") != NULL, "%s", error.message);
    cr_expect(keeper == NULL);
}

/* ---- the index and the volume under it ---- */

Test(keeper, a_deleted_index_is_built_again_without_a_search)
{
    char path[PATH_MAX];

    options.inotify = false; /* nothing else happens that could stumble upon it */
    options.poll_interval_min_ms = options.poll_interval_max_ms = 60000;
    temp_store_usual(store, true);
    (void) temp_store_settle(store);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    test_join(path, store->index_directory, INDEX_FILE_NAME);
    test_remove_file(path);
    clock_advance_for_test(2 * NS_PER_SECOND); /* it looks once a second */
    cr_expect(temp_wait_counter(&store->store->counters.index_rebuilds, 1, LONG_MS));
    cr_expect(shows("u/a", "f1=one f2=two"));
    cr_expect(shows("v/a", "h1=aitch"));
    cr_expect(test_exists(path));
}

/* Somebody has put a file into the place of its directory. */
Test(keeper, an_index_that_cannot_be_begun_anew_is_told_and_tried_again)
{
    char away[PATH_MAX];

    temp_store_usual(store, false);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) snprintf(away, sizeof away, "%.3000s.away", store->index_directory);
    test_rename(store->index_directory, away);
    test_replace_file(store->index_directory, "", 0);
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_expect(captured_log_wait("cannot open the index directory", 1, LONG_MS));
    test_remove_file(store->index_directory);
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_expect(temp_wait_counter(&store->store->counters.index_rebuilds, 1, LONG_MS));
    cr_expect(shows("u/a", "f1=one f2=two"));
}

static bool is_suspended(void)
{
    for (unsigned i = 0; i < LONG_MS; i++) {
        if (atomic_load(&store->store->suspended))
            return true;
        temp_nap();
    }
    return false;
}

Test(keeper, a_volume_that_goes_suspends_and_its_return_resumes)
{
    char away[PATH_MAX];
    const char *root = temp_volume_path(store->volume);

    temp_store_usual(store, true);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) snprintf(away, sizeof away, "%.*s/away", (int) (strrchr(root, '/') - root), root);
    test_rename(root, away);
    test_make_dirs(root);
    cr_assert(is_suspended());
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch", "unverified unverified", 0);
    test_remove_tree(root);
    test_rename(away, root);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect(shows("u/a", "f1=one f2=two f3=three"));
    cr_expect(!atomic_load(&store->store->suspended));
}

Test(keeper, an_accepted_volume_is_followed)
{
    char away[PATH_MAX];
    const char *root = temp_volume_path(store->volume);

    options.poll_interval_min_ms = options.poll_interval_max_ms = 60000;
    temp_store_usual(store, true);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) snprintf(away, sizeof away, "%.*s/away", (int) (strrchr(root, '/') - root), root);
    test_rename(root, away);
    test_make_dirs(root);
    (void) temp_volume_add(store->volume, "u", "a", "x1", "note other");
    cr_assert(is_suspended());
    cr_assert(store_accept_volume(store->store, NULL) == STATUS_OK);
    cr_expect(shows("u/a", "x1=other"));
    cr_expect(shows("v/a", ""));
    (void) temp_volume_add(store->volume, "u", "a", "x2", "note more");
    cr_expect(shows("u/a", "x1=other x2=more"), "its directories are watched");
}

/* ---- state ---- */

static bool watches_all(const struct keeper_state *state)
{
    return state->first_pass_done && state->buckets >= 2 && state->watched > 0 &&
           state->watched == state->wanted && state->events > 0;
}

Test(keeper, tells_its_state)
{
    struct keeper_state state;

    temp_store_usual(store, true);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect(wait_for_state(watches_all));
    keeper_state(keeper, &state);
    cr_expect(state.inotify && state.overflows == 0 && !state.limit[0]);
    cr_expect(state.last_turn_ns > 0 && state.last_turn_ns <= clock_monotonic_ns());
}

Test(keeper, without_a_volume_it_waits_for_one)
{
    temp_store_open(store);
    start();
    cr_assert(wait_for_state(first_pass_is_done));
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    cr_expect(shows("u/a", "f1=one"));
}

/* While somebody always waits for the index there is no idle moment, and merging has to be done. */
Test(keeper, maintenance_takes_its_turn_among_others_that_never_end)
{
    bool had_a_turn = false;

    temp_store_open(store);
    struct install_queue *installs = store->store->installs;
    uint64_t place = install_queue_enter(installs);
    install_queue_wait(installs, place);
    start();
    for (unsigned i = 0; !had_a_turn && i < LONG_MS; i++) {
        temp_nap();
        uint64_t next = install_queue_enter(installs);
        had_a_turn = next != place + 1; /* somebody is between, on an empty volume */
        install_queue_leave(installs, place);
        install_queue_wait(installs, next);
        place = next;
    }
    install_queue_leave(installs, place);
    cr_expect(had_a_turn);
}

/* ---- what is told of it ---- */

static bool has_three_facts(const struct keeper_state *state)
{
    return state->measured && state->totals.facts == 3 && state->totals.scopes == 2 &&
           state->totals.file_bytes > 0;
}

Test(keeper, counts_what_the_index_holds_where_that_is_wanted)
{
    options.measure_index = true;
    temp_store_usual(store, false);
    start();
    cr_expect(wait_for_state(has_three_facts));
}

static bool has_come_round_again(const struct keeper_state *state)
{
    static uint64_t first_ns;

    if (first_ns == 0)
        first_ns = state->last_turn_ns;
    return first_ns != 0 && state->last_turn_ns > first_ns;
}

Test(keeper, counts_nothing_where_nobody_asks)
{
    struct keeper_state state;

    temp_store_usual(store, false);
    start();
    cr_expect(wait_for_state(has_come_round_again));
    keeper_state(keeper, &state);
    cr_expect_not(state.measured);
}

static bool wait_for_silence(bool wanted)
{
    for (unsigned i = 0; i < LONG_MS; i++) {
        uint64_t silence_ns = keeper_silence_ns(keeper);
        if (wanted ? silence_ns > 500 * NS_PER_MS : silence_ns == 0)
            return true;
        temp_nap();
    }
    return false;
}

Test(keeper, a_volume_that_does_not_answer_the_watcher_is_silent)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown; /* a local volume does not hang */
    temp_store_usual(store, false);
    start();
    cr_expect(wait_for_state(first_pass_is_done));
    temp_calls_hang(TEMP_CALL_LIST, "/users");
    cr_expect(wait_for_silence(true));
    temp_calls_reset();
    cr_expect(wait_for_silence(false));
}
