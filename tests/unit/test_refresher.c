/* core/refresher.h: a change on the volume reaches the index whole, or not at all. */
#include "core/refresher.h"

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

TestSuite(refresher, .init = set_up, .fini = tear_down, .timeout = 60);

static struct refresh_result refresh(const char *scope, unsigned wishes)
{
    return temp_store_refresh(store, scope, wishes);
}

static uint64_t refreshes(void)
{
    return atomic_load(&store->store->counters.refreshes);
}

static uint64_t lost(void)
{
    return atomic_load(&store->store->counters.refreshes_lost);
}

/* ---- what a refresh reads ---- */

/* Where each look is a message the manifest is not read once more only to learn that. */
Test(refresher, on_a_network_volume_the_snapshot_tells_what_is_in_step)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;

    store->options.force_kind = &unknown;
    temp_store_usual(store, false);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    uint64_t compares = atomic_load(&store->store->counters.compares);
    uint64_t files = atomic_load(&store->store->counters.files_read);
    struct refresh_result result = refresh("u/a", REFRESH_WISH_NONE);
    cr_expect(result.status == STATUS_OK && !result.installed && result.facts == 2);
    cr_expect_eq(atomic_load(&store->store->counters.files_read), files);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    result = refresh("u/a", REFRESH_WISH_NONE);
    cr_expect(result.status == STATUS_OK && result.installed);
    cr_expect_eq(atomic_load(&store->store->counters.compares), compares);
    EXPECT_ASK(store, "u/a", "f1=ONE f2=two", "fresh", 0);
}

/* Each fact's shard is its own, so one changed fact costs one listing and one read. */
Test(refresher, reads_only_what_changed_once_stamps_are_settled)
{
    temp_volume_fill(store->volume, "u", "a", "n", 40);
    temp_store_open(store);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_eq(answer.files_read, 40);
    cr_expect_eq(temp_store_settle(store), 1);
    cr_expect_eq(temp_store_settle(store), 0, "then all is settled");

    (void) temp_volume_update(store->volume, "u", "a", "n0007", "note seven");
    answer = temp_store_ask(store, "u/a");
    cr_expect(answer.files_read == 1 && answer.refreshes == 1);
    cr_expect_str_eq(answer.facts, "n0007=seven");
    (void) temp_store_settle(store);
    (void) temp_volume_delete(store->volume, "u", "a", "n0007");
    answer = temp_store_ask(store, "u/a");
    cr_expect(answer.files_read == 0 && answer.refreshes == 1 && answer.count == 0);
    (void) temp_store_settle(store);
    (void) temp_volume_summary(store->volume, "u", NULL);
    answer = temp_store_ask(store, "u/a");
    cr_expect(answer.files_read == 0 && answer.refreshes == 1);
    (void) temp_volume_add(store->volume, "u", "b", "other", "note of another agent");
    answer = temp_store_ask(store, "u/a");
    cr_expect(answer.files_read == 0 && answer.refreshes == 1);
}

Test(refresher, a_restart_of_an_unchanged_volume_reads_no_fact)
{
    temp_store_usual(store, true);
    temp_store_close(store);
    temp_store_open(store);
    struct temp_answer answer = temp_store_ask(store, "u/a u/b v/a");
    check_answer(&answer, "f1=one f2=two g1=bee h1=aitch", "fresh fresh fresh", 0, __LINE__);
    cr_expect_eq(answer.files_read, 0);
    cr_expect_eq(atomic_load(&store->store->counters.files_read), 0);
}

Test(refresher, a_restart_after_a_change_reads_only_what_is_not_settled_and_what_changed)
{
    temp_volume_fill(store->volume, "u", "a", "n", 30);
    temp_store_open(store);
    (void) temp_store_ask(store, "u/a");
    (void) temp_store_settle(store);
    temp_store_close(store);
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    temp_store_open(store);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    check_answer(&answer, "f1=one", "refreshed", 1, __LINE__);
    cr_expect_eq(answer.files_read, 1);
}

Test(refresher, does_nothing_when_the_rows_are_in_step)
{
    temp_store_usual(store, false);
    uint64_t before = refreshes();
    temp_calls_count(TEMP_CALL_LIST, "/facts");
    struct refresh_result result = refresh("u/a", REFRESH_WISH_NONE);
    cr_expect(result.status == STATUS_OK && !result.installed && result.facts == 2);
    cr_expect_eq(refreshes(), before);
}

Test(refresher, full_reads_everything_and_finds_an_edit_in_place)
{
    char path[SCOPE_PATH_MAX];
    char whole[PATH_MAX];
    struct stat status;
    struct index_scope before;
    struct index_scope after;

    temp_store_usual(store, false);
    (void) temp_store_settle(store);
    temp_volume_fact_path("u", "a", "f1", path);
    temp_volume_file(store->volume, path, whole);
    AUTO_FREE char *bytes = temp_volume_read(store->volume, path, NULL);
    char *at = strstr(bytes, "\n\nnote one");
    cr_assert(at != NULL && stat(whole, &status) == 0);
    FILE *file = fopen(whole, "r+e");
    cr_assert(file && fseek(file, at - bytes, SEEK_SET) == 0 && fputs("\n\nnote ten", file) >= 0 &&
              fclose(file) == 0);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0); /* no manifest moved */
    struct refresh_result result = refresh("u/a", REFRESH_WISH_FULL);
    cr_expect(result.status == STATUS_OK && result.files_read == 2);
    EXPECT_ASK(store, "u/a", "f1=ten f2=two", "fresh", 0);

    cr_expect_eq(temp_store_settle(store), 1);
    cr_expect_eq(temp_store_settle(store), 0);
    cr_assert(temp_store_row(store, "u/a", &before));
    result = refresh("u/a", REFRESH_WISH_FULL);
    cr_expect_eq(result.files_read, 2);
    cr_assert(temp_store_row(store, "u/a", &after));
    cr_expect_eq(after.generation, before.generation, "equal rows are not written again");
}

/* ---- racily clean ---- */

#define FROZEN_NS UINT64_C(1700000000000000000)

/* A fact replaced within one tick: name, size, times and inode are all the same. */
Test(refresher, a_second_change_within_one_tick_is_found)
{
    store->options.calls = temp_calls();
    temp_calls_freeze(".md", FROZEN_NS);
    temp_store_usual(store, false);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ten");
    EXPECT_REFRESHED(store, "u/a", "f1=ten f2=two");
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note six");
    EXPECT_REFRESHED(store, "u/a", "f1=six f2=two");
}

static void freeze_shard(const char *id)
{
    static char end[8];

    (void) snprintf(end, sizeof end, "/");
    fact_id_shard(id, end + 1);
    temp_calls_freeze(end, FROZEN_NS);
}

/* The same for a directory: its listing is taken again until its stamp has settled. */
Test(refresher, a_directory_that_changed_twice_within_one_tick_is_listed_again)
{
    store->options.calls = temp_calls();
    freeze_shard("f1");
    temp_store_usual(store, false);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note uno");
    EXPECT_REFRESHED(store, "u/a", "f1=uno f2=two");
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "f2=two");
}

/* What is marked is trusted: that is what the marks are for, and why they come so late. */
Test(refresher, a_settled_directory_is_not_listed)
{
    store->options.calls = temp_calls();
    freeze_shard("f1");
    temp_store_usual(store, false);
    (void) temp_store_settle(store);
    (void) temp_volume_delete(store->volume, "u", "a", "f1"); /* beyond the promise of any clock */
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
}

/* Before W has passed a second look proves nothing, however often it is taken. */
Test(refresher, looks_within_the_tick_set_no_mark)
{
    store->options.calls = temp_calls();
    freeze_shard("f1");
    temp_store_usual(store, false);
    for (unsigned i = 0; i < 3; i++) {
        clock_advance_for_test(volume_settle_ns(store->store->volume) / 8);
        (void) temp_volume_summary(store->volume, "u", NULL);
        EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    }
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "f2=two");
}

/* Monotonic times die with the process, and with them what was known since when. */
Test(refresher, a_restart_begins_to_settle_anew)
{
    store->options.calls = temp_calls();
    freeze_shard("f1");
    temp_store_usual(store, false);
    temp_store_close(store);
    clock_advance_for_test(100 * NS_PER_SECOND);
    temp_store_open(store);
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "f2=two");
}

Test(refresher, where_directory_times_do_not_work_each_directory_is_listed)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;
    char shard[8] = "/";

    store->options.calls = temp_calls();
    store->options.force_kind = &unknown;
    store->options.locks = STORE_LOCKS_TRUSTED;
    freeze_shard("f1");
    fact_id_shard("f1", shard + 1);
    /* The probe's directory stands still too. */
    temp_calls_freeze("", FROZEN_NS);
    temp_store_usual(store, false);
    cr_assert(!volume_directory_times_work(store->store->volume));
    (void) temp_store_settle(store);
    temp_calls_count(TEMP_CALL_LIST, shard);
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "f2=two");
    cr_expect(temp_calls_counted() > 0);
}

/* ---- compare and set ---- */

static void own_write_elsewhere(const char *scope_name)
{
    struct scope scope;
    enum own_write_outcome outcome;

    temp_store_scope(scope_name, &scope);
    /* A delta that fits nothing: it forgets the scope. */
    struct index_own_write write = {.scope = &scope, .facts_changed = true};
    write.pre.signature.revision = 900;
    write.post.signature.revision = 901;
    cr_assert(index_install_own_write(store->store->index, &write, &outcome, NULL) == STATUS_OK);
    cr_expect_eq(outcome, OWN_WRITE_FORGOTTEN);
}

/* Moves the rows' generation as another installer would. */
static void move_generation(const char *scope_name)
{
    struct scope scope;
    struct index_scope row;
    enum install_outcome outcome;
    uint64_t generation;
    struct seen_entry seen = {.path = (char[]){"elsewhere.md"}, .fault = FACT_FAULT_BROKEN};

    temp_store_scope(scope_name, &scope);
    cr_assert(temp_store_row(store, scope_name, &row));
    const struct index_change change = {
        .scope = &scope,
        .expected_generation = row.generation,
        .seen = &seen,
        .seen_count = 1,
        .synced = {.known = true, .mark = {.signature = {.revision = 1}}},
    };
    cr_assert(index_install_refresh(store->store->index, &change, &outcome, &generation, NULL) ==
              STATUS_OK);
    cr_assert(outcome == INSTALL_DONE && generation != row.generation);
}

Test(refresher, rows_that_moved_between_plan_and_install_are_planned_for_again)
{
    struct index_scope row;

    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
    move_generation("u/a");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    struct refresh_result result = temp_refresh_join(&running);
    cr_expect(result.status == STATUS_OK && result.installed);
    cr_expect_eq(lost(), 1);
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 4); /* two builds, lost, again */
    EXPECT_STATE(store, "u/a", "synced");
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
    cr_assert(temp_store_row(store, "u/a", &row));
    cr_expect_eq(row.broken, 0, "what the other put in was seen by the second plan");
}

Test(refresher, a_scope_forgotten_between_plan_and_install_ends_in_step)
{
    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
    own_write_elsewhere("u/a");
    EXPECT_STATE(store, "u/a", "unsynced");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
}

Test(refresher, a_forgotten_scope_is_refreshed_by_the_next_search)
{
    temp_store_usual(store, false);
    own_write_elsewhere("u/a");
    EXPECT_STATE(store, "u/a", "unsynced");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

/* A commit gets as far as its manifest after the refresh has looked for a journal, and whoever
 * takes it back does so manifest first: what is captured then is right, what is read is not. */
Test(refresher, a_change_that_is_taken_back_manifest_first_is_not_read)
{
    const struct temp_change change = {.kind = TEMP_ADD, .id = "f9", .text = "note never"};
    const struct temp_commit commit = {.user = "u", .agent = "a", .changes = &change, .count = 1};
    char path[SCOPE_PATH_MAX];

    temp_store_usual(store, false);
    pause_arm(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_FULL);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_BEFORE_CAPTURE, LONG_MS));
    struct temp_writer *writer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    temp_volume_rollback(store->volume, "u");
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    pause_release(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    bool has_read = pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, 1000);
    cr_expect(!has_read, "a commit is under way, nothing is read");

    temp_volume_fact_path("u", "a", "f9", path);
    temp_volume_remove(store->volume, path);
    temp_volume_remove(store->volume, "users/u/" JOURNAL_NAME);
    temp_writer_abandon(&writer);
    if (has_read)
        pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    pause_reset();
    (void) temp_refresh_join(&running);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
}

static void *recover_in_thread(void *context)
{
    struct scope scope;

    temp_store_scope("u/a", &scope);
    if (volume_recover(store->store->recovery, store->store->locks, store->store->volume, &scope,
                       clock_deadline_ms(LONG_MS), context, NULL) != STATUS_OK)
        *(enum recover_outcome *) context = RECOVER_IMPOSSIBLE;
    return NULL;
}

/* Half way through, a reader who missed the journal finds the new manifest over the old facts,
 * which the next compare sees; and never the old manifest over the new facts. */
Test(refresher, a_recovery_puts_the_facts_back_before_the_manifest)
{
    const struct temp_change change = {.kind = TEMP_UPDATE, .id = "f1", .text = "note never"};
    const struct temp_commit commit = {
        .user = "u", .agent = "a", .changes = &change, .count = 1, .stop = TEMP_STEP_MANIFEST};
    enum recover_outcome outcome = RECOVER_NOTHING;
    pthread_t recoverer;

    temp_store_usual(store, false);
    pause_arm(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_FULL);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_BEFORE_CAPTURE, LONG_MS));
    (void) temp_volume_commit(store->volume, &commit);
    pause_arm_after(PAUSE_REPLACE_BEFORE_RENAME, 1);
    cr_assert_eq(pthread_create(&recoverer, NULL, recover_in_thread, &outcome), 0);
    cr_assert(pause_wait_reached(PAUSE_REPLACE_BEFORE_RENAME, LONG_MS));
    pause_release(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    (void) temp_refresh_join(&running);
    pause_release(PAUSE_REPLACE_BEFORE_RENAME);
    cr_assert_eq(pthread_join(recoverer, NULL), 0);
    cr_expect_eq(outcome, RECOVER_ROLLED_BACK);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
}

/* A refresh of u/a, which has lost a fact, that is about to install. */
static struct temp_refresh *refresh_up_to_install(void)
{
    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
    return running;
}

/* Its rows move before it installs, and it comes to the same place again. */
static void lose_and_try_again(void)
{
    (void) close(temp_volume_lock(store->volume, "u", true)); /* nobody holds it yet */
    move_generation("u/a");
    pause_arm(PAUSE_REFRESH_AFTER_PLAN);
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS));
    pause_arm(PAUSE_REFRESH_BEFORE_INSTALL);
    pause_release(PAUSE_REFRESH_AFTER_PLAN);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_BEFORE_INSTALL, LONG_MS));
}

/* Twice lost: the third try holds the user's lock, so that no own write can come between. */
Test(refresher, who_lost_twice_installs_under_the_users_lock)
{
    struct temp_refresh *running = refresh_up_to_install();
    lose_and_try_again();
    lose_and_try_again();
    struct volume_lock *lock = NULL;
    struct scope scope;
    temp_store_scope("u/a", &scope);
    cr_expect_eq(volume_lock_acquire(store->store->locks, store->store->volume, &scope,
                                     VOLUME_LOCK_EXCLUSIVE, false, 0, &lock, NULL),
                 STATUS_BUSY, "the run holds the user's lock");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    cr_expect_eq(lost(), 2);
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
    cr_assert(volume_lock_acquire(store->store->locks, store->store->volume, &scope,
                                  VOLUME_LOCK_EXCLUSIVE, false, 0, &lock, NULL) == STATUS_OK);
    volume_lock_release(&lock);
}

/* A write that holds the lock brings the scope in step itself. Whoever is at it and waits for that
 * very lock goes out of its way: both would wait for the longer of their patience. */
Test(refresher, who_waits_for_the_lock_makes_way_for_its_holder)
{
    struct volume_lock *lock = NULL;
    struct scope scope;

    struct temp_refresh *running = refresh_up_to_install();
    temp_store_scope("u/a", &scope);
    lose_and_try_again();
    cr_assert(volume_lock_acquire(store->store->locks, store->store->volume, &scope,
                                  VOLUME_LOCK_EXCLUSIVE, true, clock_deadline_ms(LONG_MS), &lock,
                                  NULL) == STATUS_OK);
    move_generation("u/a");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);

    cr_expect_eq(refresher_bring_in_step(store->store, store->reader, &scope, REFRESH_WISH_NONE,
                                         clock_deadline_ms(LONG_MS), NULL),
                 STATUS_OK);
    struct refresh_result result = temp_refresh_join(&running);
    cr_expect(result.status == STATUS_OK && !result.installed);
    volume_lock_release(&lock);
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
}

/* The other run does not come to a place where it could make way. */
Test(refresher, who_is_at_a_scope_is_not_waited_for_without_end)
{
    struct scope scope;
    struct error error = {0};

    struct temp_refresh *running = refresh_up_to_install();
    temp_store_scope("u/a", &scope);
    cr_expect_eq(refresher_bring_in_step(store->store, store->reader, &scope, REFRESH_WISH_NONE,
                                         clock_deadline_ms(20), &error),
                 STATUS_BUSY);
    cr_expect_str_eq(error.message, "a refresh of the scope is still under way");
    pause_release(PAUSE_REFRESH_BEFORE_INSTALL);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
}

/* Rows and mark change together: while the transaction is open nobody sees either. */
Test(refresher, rows_and_mark_appear_together)
{
    temp_store_usual(store, false);
    (void) temp_volume_delete(store->volume, "u", "a", "f2");
    pause_arm(PAUSE_INSTALL_BEFORE_COMMIT);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
    cr_assert(pause_wait_reached(PAUSE_INSTALL_BEFORE_COMMIT, LONG_MS));
    EXPECT_STATE(store, "u/a", "behind");
    struct temp_answer answer =
        temp_store_ask_as(store, &(struct temp_question){.scopes = "u/a", .mode = FRESHNESS_LOCAL});
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
    pause_release(PAUSE_INSTALL_BEFORE_COMMIT);
    (void) temp_refresh_join(&running);
    EXPECT_ASK(store, "u/a", "f1=one", "fresh", 0);
}

/* ---- a peer between the steps of a refresh ---- */

static const enum pause_point between[] = {PAUSE_REFRESH_AFTER_PLAN, PAUSE_SNAPSHOT_AFTER_CAPTURE,
                                           PAUSE_SNAPSHOT_AFTER_READ, PAUSE_REFRESH_BEFORE_INSTALL,
                                           PAUSE_REFRESH_AFTER_INSTALL};

Test(refresher, a_commit_at_any_point_of_a_refresh_is_found)
{
    temp_store_usual(store, false);
    for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
        char id[16];
        char expected[256] = "f1=one f2=two";

        (void) temp_volume_summary(store->volume, "u", NULL);
        pause_arm(between[i]);
        struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_NONE);
        cr_assert(pause_wait_reached(between[i], LONG_MS), "%s", pause_point_name(between[i]));
        (void) snprintf(id, sizeof id, "k%zu", i);
        (void) temp_volume_add(store->volume, "u", "a", id, "note new");
        pause_release(between[i]);
        cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
        for (size_t k = 0; k <= i; k++)
            (void) snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                            " k%zu=new", k);
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, expected, "after %s", pause_point_name(between[i]));
        /* Read before the second look: the attempt starts over and ends in step. */
        bool behind =
            between[i] == PAUSE_REFRESH_BEFORE_INSTALL || between[i] == PAUSE_REFRESH_AFTER_INSTALL;
        cr_expect_eq(answer.refreshes, behind, "after %s", pause_point_name(between[i]));
        EXPECT_ASK(store, "u/a", expected, "fresh", 0);
    }
}

Test(refresher, a_deletion_at_any_point_of_a_first_build_is_found)
{
    for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
        char user[16];
        char scope[24];

        (void) snprintf(user, sizeof user, "u%zu", i);
        (void) snprintf(scope, sizeof scope, "%s/a", user);
        (void) temp_volume_add(store->volume, user, "a", "f1", "note one");
        (void) temp_volume_add(store->volume, user, "a", "f2", "note two");
        if (i == 0)
            temp_store_open(store);
        pause_arm(between[i]);
        struct temp_refresh *running = temp_refresh_start(store, scope, REFRESH_WISH_NONE);
        cr_assert(pause_wait_reached(between[i], LONG_MS), "%s", pause_point_name(between[i]));
        (void) temp_volume_delete(store->volume, user, "a", "f2");
        pause_release(between[i]);
        cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
        cr_expect_str_eq(temp_store_ask(store, scope).facts, "f1=one", "after %s",
                         pause_point_name(between[i]));
        EXPECT_ASK(store, scope, "f1=one", "fresh", 0);
    }
}

/* ---- commits that never became whole ---- */

/* A peer's crashed change was read at revision r; recovery puts the same manifest back. */
Test(refresher, facts_of_a_commit_that_was_taken_back_go_again)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f9", .text = "note never"};
    const struct temp_change take = {.kind = TEMP_DELETE, .id = "f9"};

    for (unsigned frozen = 0; frozen < 2; frozen++) {
        temp_store_destroy(&store);
        store = temp_store_create();
        temp_store_usual(store, false);
        temp_volume_freeze_clock(store->volume, frozen);
        temp_volume_raw(store->volume, "u", "a", &add, 1);
        (void) refresh("u/a", REFRESH_WISH_FULL);
        temp_volume_raw(store->volume, "u", "a", &take, 1);
        temp_volume_restore(store->volume, "u");
        EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
    }
}

Test(refresher, a_revision_that_is_used_twice_is_told_apart)
{
    const struct temp_change changes[] = {{.kind = TEMP_DELETE, .id = "f9"},
                                          {.kind = TEMP_ADD, .id = "f8", .text = "note other"}};

    temp_store_usual(store, false);
    temp_volume_freeze_clock(store->volume, true);
    (void) temp_volume_add(store->volume, "u", "a", "f9", "note back");
    (void) refresh("u/a", REFRESH_WISH_NONE);
    temp_volume_raw(store->volume, "u", "a", changes, 2);
    temp_volume_rollback(store->volume, "u");
    (void) temp_volume_write_manifest(store->volume, "u");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f8=other");
}

Test(refresher, half_a_commit_that_was_read_is_made_whole)
{
    const struct temp_change first = {.kind = TEMP_DELETE, .id = "f1"};
    const struct temp_change second = {.kind = TEMP_ADD, .id = "f3", .text = "note three"};

    temp_store_usual(store, false);
    temp_volume_raw(store->volume, "u", "a", &first, 1);
    (void) refresh("u/a", REFRESH_WISH_FULL);
    temp_volume_raw(store->volume, "u", "a", &second, 1);
    (void) temp_volume_write_manifest(store->volume, "u");
    EXPECT_REFRESHED(store, "u/a", "f2=two f3=three");
}

/* ---- facts without a manifest ---- */

Test(refresher, facts_without_a_manifest_are_served_and_looked_at_each_time)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f1", .text = "note one"};
    const struct temp_change take = {.kind = TEMP_DELETE, .id = "f1"};

    temp_volume_make_dir(store->volume, "users/u");
    temp_store_open(store);
    EXPECT_ASK(store, "u/a", "", "fresh", 0);
    temp_volume_raw(store->volume, "u", "a", &add, 1);
    EXPECT_ASK(store, "u/a", "f1=one", "refreshed", 1);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one");
    cr_expect_str_eq(answer.states, "refreshed", "no signature can prove it");
    temp_volume_raw(store->volume, "u", "a", &take, 1);
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "");
    EXPECT_ASK(store, "u/a", "", "fresh", 0);
}

Test(refresher, facts_without_a_manifest_are_read_under_the_lock)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f1", .text = "note one"};

    temp_volume_raw(store->volume, "u", "a", &add, 1);
    (void) close(temp_volume_lock(store->volume, "u", true)); /* makes the lock file */
    temp_store_open(store);
    int fd = temp_volume_lock(store->volume, "u", true);
    struct refresh_result result = refresh("u/a", REFRESH_WISH_NONE);
    cr_expect_eq(result.status, STATUS_BUSY, "a writer may be at it");
    (void) close(fd);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one");
    cr_expect_str_eq(answer.states, "refreshed");
}

Test(refresher, a_manifest_that_goes_and_comes_back_is_followed)
{
    char path[SCOPE_PATH_MAX];

    temp_store_usual(store, false);
    temp_volume_manifest_path(store->volume, "u", path);
    AUTO_FREE char *bytes = temp_volume_read(store->volume, path, NULL);
    temp_volume_remove(store->volume, path);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    temp_volume_write(store->volume, path, bytes, strlen(bytes));
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

Test(refresher, a_users_removal_is_a_change_like_others)
{
    struct index_scope row;

    temp_store_usual(store, true);
    temp_volume_remove(store->volume, "users/u");
    EXPECT_ASK(store, "u/a", "", "refreshed", 1);
    EXPECT_ASK(store, "u/a", "", "fresh", 0);
    cr_expect(!temp_store_row(store, "u/a", &row));
    EXPECT_ASK(store, "v/a", "h1=aitch", "fresh", 0);
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note again");
    EXPECT_REFRESHED(store, "u/a", "f1=again");
}

/* ---- files that are no sound facts ---- */

Test(refresher, one_broken_fact_is_kept_out_and_the_others_are_served)
{
    struct index_scope row;

    temp_store_usual(store, false);
    temp_volume_break_fact(store->volume, "u", "a", "f1");
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f2=two");
    cr_assert(temp_store_row(store, "u/a", &row));
    cr_expect(row.facts == 1 && row.broken == 1);
    temp_volume_repair_fact(store->volume, "u", "a", "f1");
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
    cr_assert(temp_store_row(store, "u/a", &row));
    cr_expect(row.facts == 2 && row.broken == 0);
}

Test(refresher, a_fact_that_cannot_be_read_is_kept_out_until_it_can)
{
    char path[SCOPE_PATH_MAX];
    char whole[PATH_MAX];

    temp_volume_fact_path("u", "a", "f1", path);
    store->options.calls = temp_calls();
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_OPEN, "/f1.md", EACCES, 0, 0);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    EXPECT_ASK(store, "u/a", "f2=two", "refreshed", 1);
    (void) temp_store_settle(store);
    temp_calls_reset();
    temp_volume_file(store->volume, path, whole);
    cr_assert(chmod(whole, 0600) == 0); /* its directory does not move */
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f1=ONE f2=two");
}

/* As a ticket that expired does, and is renewed: neither file nor directory nor manifest move. */
Test(refresher, a_refusal_that_passes_without_a_trace_is_noticed)
{
    struct index_scope row;

    store->options.calls = temp_calls();
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_OPEN, "/f1.md", EACCES, 0, 0);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    EXPECT_ASK(store, "u/a", "f2=two", "refreshed", 1);
    cr_assert(temp_store_row(store, "u/a", &row));
    cr_expect_eq(row.broken, 1);
    temp_calls_reset();
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_expect_geq(temp_store_settle(store), 1);
    EXPECT_ASK(store, "u/a", "f1=ONE f2=two", "fresh", 0);
    cr_assert(temp_store_row(store, "u/a", &row));
    cr_expect_eq(row.broken, 0);
    clock_advance_for_test(120 * NS_PER_SECOND);
    (void) temp_store_settle(store);
    cr_expect_eq(temp_store_settle(store), 0, "then nobody looks any more");
}

/* How many looks there are within so many seconds; none waits for its time. */
static unsigned looks_within(unsigned seconds)
{
    uint64_t end_ns = clock_monotonic_ns() + seconds * NS_PER_SECOND;
    struct refresh_table_counts counts;
    unsigned looks = 0;

    for (;;) {
        refresh_table_counts(store->store->refreshes, &counts);
        cr_assert_gt(counts.delayed, 0, "nobody will look again");
        if (counts.next_due_ns > end_ns)
            break;
        if (counts.next_due_ns > clock_monotonic_ns())
            clock_advance_for_test(counts.next_due_ns - clock_monotonic_ns());
        looks += temp_store_take_due(store);
    }
    if (end_ns > clock_monotonic_ns())
        clock_advance_for_test(end_ns - clock_monotonic_ns());
    return looks;
}

Test(refresher, a_refusal_that_lasts_is_looked_at_less_and_less)
{
    store->options.calls = temp_calls();
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_OPEN, "/f1.md", EACCES, 0, 0);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    EXPECT_ASK(store, "u/a", "f2=two", "refreshed", 1);
    unsigned first = looks_within(60);
    cr_expect(first >= 5 && first <= 8, "%u looks in the first minute", first);
    (void) looks_within(60);
    unsigned later = looks_within(240);
    cr_expect(later >= 3 && later <= 4, "%u looks in four minutes", later);
    EXPECT_ASK(store, "u/a", "f2=two", "fresh", 0);
}

Test(refresher, dotfiles_and_foreign_names_are_no_facts_and_nested_directories_are_searched)
{
    const struct temp_change deep = {.kind = TEMP_ADD, .id = "deep", .text = "note deep"};
    AUTO_FREE char *bytes = temp_fact_render("u", "a", &deep, NULL, NULL, 1);
    static const char *const foreign[] = {".f9.md.tmp", ".hidden.md", "readme.txt",  "f9.MD",
                                          ".md",        "f9.md.bak",  ".dir/deep.md"};

    temp_store_usual(store, false);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
        char path[SCOPE_PATH_MAX];
        (void) snprintf(path, sizeof path, "users/u/agents/a/facts/zz/%s", foreign[i]);
        temp_volume_write(store->volume, path, bytes, strlen(bytes));
    }
    temp_volume_write(store->volume, "users/u/agents/a/facts/zz/more/yet/deep.md", bytes,
                      strlen(bytes));
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "deep=deep f1=one f2=two");
    temp_volume_remove(store->volume, "users/u/agents/a/facts/zz/more");
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

Test(refresher, a_fact_whose_name_became_a_directory_loses_its_row)
{
    char path[SCOPE_PATH_MAX];

    temp_store_usual(store, false);
    temp_volume_fact_path("u", "a", "f1", path);
    temp_volume_remove(store->volume, path);
    temp_volume_make_dir(store->volume, path);
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_REFRESHED(store, "u/a", "f2=two");
}

/* ---- faults of the volume ---- */

/* A directory that cannot be listed to its end tells nothing; nothing may be removed for it. */
Test(refresher, a_listing_that_fails_removes_nothing)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
        int sys_errno;
        unsigned skip;
    } cases[] = {
        {TEMP_CALL_OPEN, "/facts", EIO, 0},    {TEMP_CALL_LIST, "/facts", EIO, 0},
        {TEMP_CALL_LIST, "/facts", EIO, 1}, /* after the first names */
        {TEMP_CALL_OPEN, "/agents", EIO, 0},   {TEMP_CALL_LIST, "/agents", EIO, 1},
        {TEMP_CALL_LIST, "/a", EACCES, 0},     {TEMP_CALL_LIST, "/u", EIO, 1},
        {TEMP_CALL_STAT, "/facts", EIO, 0},    {TEMP_CALL_STAT, "/f1.md", EIO, 0},
        {TEMP_CALL_READ, "/f1.md", EIO, 0},    {TEMP_CALL_LIST, "/facts", EACCES, 0},
        {TEMP_CALL_OPEN, "/f1.md", ESTALE, 0}, {TEMP_CALL_LIST, "/facts", ENOENT, 1},
    };

    store->options.calls = temp_calls();
    captured_log_start();
    captured_log_expect("event=scope.unreadable");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        temp_store_destroy(&store);
        store = temp_store_create();
        store->options.calls = temp_calls();
        temp_store_usual(store, false);
        (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
        (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
        temp_calls_fail(cases[i].call, cases[i].path_end, cases[i].sys_errno, cases[i].skip, 0);
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect(answer.status == STATUS_OK, "row %zu: %s", i, answer.error.message);
        cr_expect_str_eq(answer.facts, "f1=one f2=two", "row %zu", i);
        cr_expect(strcmp(answer.states, "unverified") == 0 || strcmp(answer.states, "stale") == 0,
                  "row %zu: %s", i, answer.states);
        EXPECT_STATE(store, "u/a", "behind");
        temp_calls_reset();
        answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, "f1=ONE f2=two f3=three", "row %zu", i);
        cr_expect_str_eq(answer.states, "refreshed", "row %zu", i);
    }
    const char *unexpected = captured_log_unexpected();
    cr_expect(unexpected == NULL, "%s", unexpected);
    captured_log_stop();
}

/* Passing faults of an attempt: it starts over and nobody notices. */
Test(refresher, a_file_that_went_stale_while_it_was_read_starts_the_attempt_over)
{
    static const struct {
        enum temp_call call;
        const char *path_end;
        int sys_errno;
    } cases[] = {
        {TEMP_CALL_OPEN, "/f1.md", ENOENT}, {TEMP_CALL_OPEN, "/f1.md", ESTALE},
        {TEMP_CALL_READ, "/f1.md", ESTALE}, {TEMP_CALL_STAT, "/f1.md", ENOENT},
        {TEMP_CALL_LIST, "/facts", ESTALE}, {TEMP_CALL_READ, "/memory.json", ESTALE},
    };

    temp_store_destroy(&store);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        store = temp_store_create();
        store->options.calls = temp_calls();
        temp_store_usual(store, false);
        (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
        temp_calls_fail(cases[i].call, cases[i].path_end, cases[i].sys_errno, 0, 1);
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, "f1=ONE f2=two", "row %zu", i);
        cr_expect_str_eq(answer.states, "refreshed", "row %zu", i);
        cr_expect_eq(answer.refreshes, 1, "row %zu", i);
        temp_calls_reset();
        temp_store_destroy(&store);
    }
}

/* Lets time pass until the retry of u/a is due and takes it; returns how long that was. Runs of
 * another scope make the table look at the clock. */
static uint64_t take_retry(struct refresh_run *ret)
{
    const struct refresh_result fine = {.status = STATUS_OK};
    uint64_t waited_ms = 0;
    struct scope other;
    uint64_t number;

    temp_store_scope("x/y", &other);
    for (;;) {
        cr_assert(waited_ms < 70000);
        clock_advance_for_test(500 * NS_PER_MS);
        waited_ms += 500;
        cr_assert(refresh_request(store->store->refreshes, &other, REFRESH_BACKGROUND,
                                  REFRESH_CAUSE_SEARCH, 0, &number) == STATUS_OK);
        cr_assert(refresh_take(store->store->refreshes, false, ret));
        bool due = strcmp(ret->scope.agent, "a") == 0;
        struct refresh_run run = *ret;
        if (due && !refresh_claim(store->store->refreshes, &other, &run))
            cr_assert_fail("the other run is still wanted");
        refresh_done(store->store->refreshes, &run, &fine, 0);
        if (due)
            return waited_ms;
    }
}

Test(refresher, failures_are_tried_again_ever_more_rarely)
{
    uint64_t last_wait_ms = 0;
    struct refresh_run run;
    struct refresh_result result;

    store->options.calls = temp_calls();
    temp_store_usual(store, false);
    (void) temp_store_settle(store);
    (void) temp_volume_update(store->volume, "u", "a", "f1", "note ONE");
    temp_calls_fail(TEMP_CALL_READ, "/f1.md", EIO, 0, 0);
    captured_log_start();
    cr_expect_eq(refresh("u/a", REFRESH_WISH_NONE).status, STATUS_IO);
    for (unsigned i = 1; i < 9; i++) {
        uint64_t wait_ms = take_retry(&run);
        cr_expect(wait_ms >= last_wait_ms && wait_ms <= 61000, "%d after %d ms", (int) wait_ms,
                  (int) last_wait_ms);
        last_wait_ms = wait_ms;
        cr_expect_eq(run.failures, i);
        refresher_run(store->store, store->reader, &run, &result);
        cr_expect_eq(result.status, STATUS_IO);
    }
    cr_expect(last_wait_ms >= 59000, "it grew to a minute");
    cr_expect_eq(captured_log_count("event=scope.unreadable"), 1, "told once");
    captured_log_stop();
}

Test(refresher, a_commit_under_way_is_looked_at_again_soon_however_often_it_was_met)
{
    const struct temp_change change = {.kind = TEMP_ADD, .id = "f3", .text = "note three"};
    const struct temp_commit commit = {.user = "u", .agent = "a", .changes = &change, .count = 1};
    struct refresh_run run;
    struct refresh_result result;

    temp_store_usual(store, false);
    (void) temp_store_settle(store);
    struct temp_writer *writer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    cr_expect_eq(refresh("u/a", REFRESH_WISH_NONE).status, STATUS_BUSY);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t wait_ms = take_retry(&run);
        cr_expect(wait_ms <= 2500, "after %u", (unsigned) wait_ms);
        refresher_run(store->store, store->reader, &run, &result);
        cr_expect_eq(result.status, STATUS_BUSY);
    }
    (void) temp_writer_finish(&writer);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f3=three", "refreshed", 1);
}

/* ---- events ---- */

struct told {
    char text[1024];
    pthread_mutex_t lock;
};

static void note_event(void *context, const struct scope *scope, const char *event,
                       const char *members)
{
    struct told *told = context;

    (void) members;
    (void) pthread_mutex_lock(&told->lock);
    size_t used = strlen(told->text);
    (void) snprintf(told->text + used, sizeof told->text - used, "%s:%.20s/%.20s ", event,
                    scope->user, scope->agent);
    (void) pthread_mutex_unlock(&told->lock);
}

Test(refresher, tells_what_happened_to_a_scope)
{
    static struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct temp_change changes[] = {{.kind = TEMP_ADD, .id = "f7", .text = "note seven"}};
    const struct temp_commit dying = {
        .user = "u", .agent = "a", .changes = changes, .count = 1, .stop = TEMP_STEP_MANIFEST};

    store->options.event_sink = note_event;
    store->options.event_context = &told;
    temp_store_usual(store, false);
    cr_expect_str_eq(told.text, "refreshed:u/a refreshed:u/b ");
    told.text[0] = '\0';
    (void) temp_volume_summary(store->volume, "u", NULL);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    cr_expect_str_eq(told.text, "", "no row changed");
    (void) temp_volume_commit(store->volume, &dying);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
    cr_expect(strstr(told.text, "recovered:u/a ") != NULL, "%s", told.text);
    told.text[0] = '\0';
    temp_volume_remove(store->volume, "users/u");
    EXPECT_ASK(store, "u/a", "", "refreshed", 1);
    cr_expect_str_eq(told.text, "removed:u/a ");
}

Test(refresher, a_nested_directory_that_became_a_file_is_gone)
{
    temp_store_usual(store, false);
    temp_volume_make_dir(store->volume, "users/u/agents/a/facts/00/sub");
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f3=three");
    temp_volume_remove(store->volume, "users/u/agents/a/facts/00/sub");
    temp_volume_write(store->volume, "users/u/agents/a/facts/00/sub", "x", 1);
    (void) temp_volume_delete(store->volume, "u", "a", "f1");
    EXPECT_REFRESHED(store, "u/a", "f2=two f3=three");
    EXPECT_ASK(store, "u/a", "f2=two f3=three", "fresh", 0);
}
