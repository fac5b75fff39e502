/* core/searcher.h: a search tells what lies on the volume, and costs no refresh more than needed.
 */
#include "core/searcher.h"

#include "tests/unit/engine_checks.h"

static struct temp_store *store;

static void set_up(void)
{
    store = temp_store_create();
}

static void tear_down(void)
{
    pause_reset();
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(searcher, .init = set_up, .fini = tear_down, .timeout = 60);

static void commit(const char *user, const char *agent, const struct temp_change *changes,
                   size_t count)
{
    const struct temp_commit commit = {.user = user,
                                       .agent = agent,
                                       .changes = changes,
                                       .count = count};

    (void) temp_volume_commit(store->volume, &commit);
}

/* ---- what a peer did before the search ---- */

Test(searcher, a_peers_new_fact_is_found)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f3=three");
}

Test(searcher, a_peers_change_replaces_the_row)
{
    temp_store_usual(store, false);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    EXPECT_REFRESHED(store, "u/a", "f1=ONE f2=two");
}

Test(searcher, a_peers_deletion_takes_the_row)
{
    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    EXPECT_REFRESHED(store, "u/a", "f1=one");
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "");
}

Test(searcher, summaries_alone_move_the_manifest_and_no_row)
{
    temp_store_usual(store, false);
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

Test(searcher, another_agents_write_costs_each_scope_one_look)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "b", "g2", "note wasp");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
    EXPECT_REFRESHED(store, "u/b", "g1=bee g2=wasp");
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee g2=wasp", "fresh fresh", 0);
}

Test(searcher, another_users_write_costs_nothing)
{
    temp_store_usual(store, true);
    (void) temp_volume_add(store->volume, "v", "a", "h2", "note new");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    EXPECT_REFRESHED(store, "v/a", "h1=aitch h2=new");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

Test(searcher, nothing_changed_costs_nothing)
{
    temp_store_usual(store, false);
    for (unsigned i = 0; i < 3; i++)
        EXPECT_ASK(store, "u/a u/b", "f1=one f2=two g1=bee", "fresh fresh", 0);
}

Test(searcher, one_refresh_catches_up_with_many_commits)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    (void) temp_volume_update(store->volume, "u", "a", "f3", "note THREE");
    EXPECT_REFRESHED(store, "u/a", "f2=two f3=THREE");
}

/* A list call pages after a hundred; a refresh must not. */
Test(searcher, a_scope_of_more_than_a_hundred_facts_is_found_whole)
{
    temp_volume_fill(store->volume, "u", "a", "note", 130);
    temp_store_open(store);
    cr_expect_eq(temp_store_ask(store, "u/a").count, 130);
    (void) temp_volume_add(store->volume, "u", "a", "last", "note last");
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect(answer.count == 131 && answer.refreshes == 1);
    answer = temp_store_ask(store, "u/a");
    cr_expect(answer.count == 131 && answer.refreshes == 0);
}

Test(searcher, only_the_stale_one_of_two_scopes_is_refreshed)
{
    temp_store_usual(store, true);
    (void) temp_volume_add(store->volume, "v", "a", "h2", "note new");
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch h2=new", "fresh refreshed", 1);
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch h2=new", "fresh fresh", 0);
}

Test(searcher, equal_times_and_sizes_with_another_revision_are_told_apart)
{
    temp_store_usual(store, false);
    temp_volume_freeze_clock(store->volume, true);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    EXPECT_REFRESHED(store, "u/a", "f1=ONE f2=two");
}

Test(searcher, a_newer_time_of_the_same_manifest_is_a_reason_to_look)
{
    temp_store_usual(store, false);
    temp_volume_touch(store->volume, "u");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

Test(searcher, the_first_manifest_of_a_user_is_noticed)
{
    temp_store_open(store);
    EXPECT_ASK(store, "u/a", "", "fresh", 0);
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note first");
    EXPECT_REFRESHED(store, "u/a", "f1=first");
}

Test(searcher, the_bucket_without_user_is_a_scope_like_others)
{
    (void) temp_volume_add(store->volume, NULL, "a", "r1", "note root");
    temp_store_usual(store, false);
    EXPECT_REFRESHED(store, "-/a", "r1=root");
    (void) temp_volume_add(store->volume, NULL, "a", "r2", "note more");
    EXPECT_REFRESHED(store, "-/a", "r1=root r2=more");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

Test(searcher, scopes_of_one_user_see_their_own_facts_only)
{
    temp_store_usual(store, true);
    EXPECT_ASK(store, "u/b", "g1=bee", "fresh", 0);
    EXPECT_ASK(store, "v/a", "h1=aitch", "fresh", 0);
    EXPECT_ASK(store, "w/a", "", "fresh", 0);
}

/* ---- a change between two looks ---- */

/* A joined refresh may have captured its signature before the change that the search must see. */
Test(searcher, who_joined_a_refresh_compares_again)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_search *first =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f4", "note four");
    struct temp_search *second =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 2});
    cr_expect(!temp_search_ends(second, 50), "it waits for the run under way");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);

    struct temp_answer answer = temp_search_join(&second);
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three f4=four");
    cr_expect_str_eq(answer.states, "refreshed");
    answer = temp_search_join(&first);
    cr_expect_str_eq(answer.states, "refreshed");
    cr_expect(strncmp(answer.facts, "f1=one f2=two f3=three", 22) == 0);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f3=three f4=four", "fresh", 0);
}

Test(searcher, two_searches_share_one_refresh)
{
    temp_store_usual(store, false);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    struct temp_search *first =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    uint64_t refreshes = atomic_load(&store->store->counters.refreshes);
    struct temp_search *second =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 2});
    cr_expect(!temp_search_ends(second, 50));
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_str_eq(temp_search_join(&first).facts, "f1=one f2=two f3=three");
    cr_expect_str_eq(temp_search_join(&second).facts, "f1=one f2=two f3=three");
    cr_expect_eq(atomic_load(&store->store->counters.refreshes) - refreshes, 1);
}

/* `fresh` may be said only if the rows that were read are those that were compared. */
Test(searcher, rows_that_moved_after_the_compare_are_compared_again)
{
    temp_store_usual(store, false);
    pause_arm(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_SEARCH_BEFORE_QUERY, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    cr_expect_eq(temp_store_refresh(store, "u/a", REFRESH_WISH_NONE).status, STATUS_OK);
    pause_release(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_answer answer = temp_search_join(&search);
    cr_expect_str_eq(answer.facts, "f1=one f2=two f3=three");
    cr_expect(strcmp(answer.states, "stale") != 0 && strcmp(answer.states, "unverified") != 0);
}

/* What changes while a search waits may stay out; what changed before it asked may not. */
Test(searcher, a_change_after_the_compare_is_the_next_searchs)
{
    temp_store_usual(store, false);
    pause_arm(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_SEARCH_BEFORE_QUERY, LONG_MS));
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    pause_release(PAUSE_SEARCH_BEFORE_QUERY);
    struct temp_answer answer = temp_search_join(&search);
    check_answer(&answer, "f1=one f2=two", "fresh", 0, __LINE__);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f3=three");
}

Test(searcher, a_refresh_that_hangs_holds_no_other_scope_up)
{
    temp_store_usual(store, true);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    (void) temp_volume_add(store->volume, "u", "b", "g2", "note wasp");
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    struct temp_search *hanging =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, LONG_MS));
    EXPECT_ASK(store, "u/b", "g1=bee g2=wasp", "refreshed", 1);
    EXPECT_ASK(store, "v/a", "h1=aitch", "fresh", 0);
    cr_expect(!temp_search_ends(hanging, 0));
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_str_eq(temp_search_join(&hanging).facts, "f1=one f2=two f3=three");
    EXPECT_ASK(store, "u/a u/b", "f1=one f2=two f3=three g1=bee g2=wasp", "fresh fresh", 0);
}

/* ---- merging, limits, the fallback ---- */

static struct search_result run_query(const char *query, const char *scope_names[],
                                      size_t scope_count, size_t top_k)
{
    struct scope scopes[4];
    struct search_result result = {0};
    const struct search_request request = {
        .reading = {.scopes = scopes,
                    .count = scope_count,
                    .deadline_ns = clock_deadline_ms(LONG_MS),
                    .may_block = true},
        .query = query,
        .query_size = strlen(query),
        .top_k = top_k,
    };

    for (size_t i = 0; i < scope_count; i++)
        temp_store_scope(scope_names[i], &scopes[i]);
    cr_assert(searcher_run(store->store, &request, &result, NULL) == STATUS_OK);
    return result;
}

Test(searcher, hits_of_several_scopes_are_merged_by_score_and_cut)
{
    const struct temp_change changes[] = {
        {.kind = TEMP_ADD, .id = "k1", .text = "note kettle"},
        {.kind = TEMP_ADD, .id = "k2", .text = "note and a long tale of other things, kettle"},
        {.kind = TEMP_ADD, .id = "k3", .text = "note about something else"},
    };
    const char *scopes[] = {"u/a", "v/a"};

    commit("u", "a", changes, 3);
    commit("v", "a", changes, 2);
    temp_store_open(store);
    for (unsigned turn = 0; turn < 2; turn++) {
        const char *turned[] = {scopes[turn], scopes[1 - turn]};
        AUTO_SEARCH struct search_result result = run_query("kettle", turned, 2, 10);
        cr_assert_eq(result.count, 4);
        for (size_t i = 1; i < result.count; i++)
            cr_expect(result.hits[i - 1].hit.score >= result.hits[i].hit.score, "turn %u", turn);
        cr_expect_eq(result.report_count, 2);
        cr_expect(!result.substring);
        cr_expect_str_eq(result.strategy, "words");
        AUTO_SEARCH struct search_result best = run_query("kettle", turned, 2, 3);
        cr_assert_eq(best.count, 3);
        for (size_t i = 0; i < best.count; i++)
            cr_expect(best.hits[i].hit.score == result.hits[i].hit.score &&
                      best.hits[i].scope == result.hits[i].scope);
    }
}

Test(searcher, without_a_hit_a_substring_is_tried)
{
    const char *scopes[] = {"u/a"};

    (void) temp_volume_add(store->volume, "u", "a", "k1", "Teekesselchen");
    temp_store_open(store);
    AUTO_SEARCH struct search_result result = run_query("KESSELCH", scopes, 1, 5);
    cr_expect(result.substring);
    cr_expect_eq(result.count, 1);
    AUTO_SEARCH struct search_result none = run_query("kettle", scopes, 1, 5);
    cr_expect_eq(none.count, 0);
}

Test(searcher, an_empty_query_finds_nothing_and_still_tells_the_state)
{
    static const char *const queries[] = {"", "  ", "?!", "\"\""};
    const char *scopes[] = {"u/a"};

    temp_store_usual(store, false);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        AUTO_SEARCH struct search_result result = run_query(queries[i], scopes, 1, 5);
        cr_expect_eq(result.count, 0);
        cr_expect_str_eq(result.strategy, "empty");
        cr_expect(result.report_count == 1 && result.reports[0].state == SCOPE_FRESH);
    }
}

Test(searcher, a_query_beyond_the_limit_is_cut_and_that_is_said)
{
    const char *scopes[] = {"u/a"};
    AUTO_FREE char *query = calloc(1, QUERY_BYTES_MAX + 10);

    temp_store_usual(store, false);
    cr_assert(query != NULL);
    memset(query, ' ', QUERY_BYTES_MAX + 8);
    memcpy(query, "note", 4);
    AUTO_SEARCH struct search_result result = run_query(query, scopes, 1, 5);
    cr_expect(result.truncated && result.count == 2);
    query[QUERY_BYTES_MAX] = '\0';
    AUTO_SEARCH struct search_result whole = run_query(query, scopes, 1, 5);
    cr_expect(!whole.truncated && whole.count == 2);
}

/* The server's own thread answers only what it can answer at once. */
Test(searcher, a_thread_that_may_not_wait_is_told_to_hand_over)
{
    const struct temp_question question = {.scopes = "u/a", .inline_only = true};

    temp_store_usual(store, false);
    struct temp_answer answer = temp_store_ask_as(store, &question);
    check_answer(&answer, "f1=one f2=two", "fresh", 0, __LINE__);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    answer = temp_store_ask_as(store, &question);
    cr_expect_eq(answer.status, STATUS_WOULD_BLOCK);
    cr_expect_eq(answer.refreshes, 0);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f3=three");
    answer = temp_store_ask_as(store, &question);
    check_answer(&answer, "f1=one f2=two f3=three", "fresh", 0, __LINE__);
}

Test(searcher, a_volume_that_can_hang_is_not_looked_at_by_a_thread_that_may_not_wait)
{
    static enum volume_kind cluster = VOLUME_CLUSTER;
    struct temp_question question = {.scopes = "u/a", .inline_only = true};

    store->options.force_kind = &cluster;
    temp_store_usual(store, false);
    uint64_t compares = atomic_load(&store->store->counters.compares);
    cr_expect_eq(temp_store_ask_as(store, &question).status, STATUS_WOULD_BLOCK);
    cr_expect_eq(atomic_load(&store->store->counters.compares), compares);
    question.mode = FRESHNESS_LOCAL;
    struct temp_answer answer = temp_store_ask_as(store, &question);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    question.mode = FRESHNESS_BOUNDED;
    question.max_staleness_ms = 60000;
    answer = temp_store_ask_as(store, &question);
    check_answer(&answer, "f1=one f2=two", "stale", 0, __LINE__);
    cr_expect_eq(atomic_load(&store->store->counters.compares), compares);
}
