/* core/volume_snapshot.h: facts as they were at one moment, or nothing. */
#include "core/volume_snapshot.h"

#include "tests/unit/engine_checks.h"

#include <fcntl.h>
#include <sys/file.h>

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

TestSuite(volume_snapshot, .init = set_up, .fini = tear_down, .timeout = 60);

/* f1 changed, f2 deleted, f3 added. */
static const struct temp_change changes[] = {
    {.kind = TEMP_UPDATE, .id = "f1", .text = "note ONE"},
    {.kind = TEMP_ADD, .id = "f3", .text = "note three"},
    {.kind = TEMP_DELETE, .id = "f2"},
};
#define BEFORE "f1=one f2=two"
#define AFTER "f1=ONE f3=three"

static struct temp_commit commit_to(enum temp_step stop, unsigned number)
{
    return (struct temp_commit){.user = "u",
                                .agent = "a",
                                .changes = changes,
                                .count = ARRAY_SIZE(changes),
                                .stop = stop,
                                .stop_number = number};
}

/* Every place at which a commit can be met, and what a search may say there: the state before it
 * (a live writer's is waited for, a dead one's taken back) or, from `committed` on, after it. */
static const struct {
    enum temp_step step;
    unsigned number;
    bool prepared;  /* the journal says so */
    bool committed; /* it counts */
} places[] = {
    {TEMP_STEP_LOCK, 0, false, false},    {TEMP_STEP_BACKUP, 0, false, false},
    {TEMP_STEP_JOURNAL, 0, true, false},  {TEMP_STEP_FACT, 1, true, false},
    {TEMP_STEP_FACT, 2, true, false},     {TEMP_STEP_FACT, 3, true, false},
    {TEMP_STEP_MANIFEST, 0, true, false}, {TEMP_STEP_COMMITTED, 0, false, true},
    {TEMP_STEP_CLEANED, 0, false, true},  {TEMP_STEP_END, 0, false, true},
};

Test(volume_snapshot, a_dead_writers_commit_is_taken_back_or_kept_whole)
{
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        struct temp_commit commit = commit_to(places[i].step, places[i].number);
        tear_down();
        set_up();
        temp_store_usual(store, false);
        (void) temp_volume_commit(store->volume, &commit);
        /* A journal beside an unmoved manifest is no reason to look: nothing of it counts yet. */
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, places[i].committed ? AFTER : BEFORE, "place %zu", i);
        cr_expect(strcmp(answer.states, "fresh") == 0 || strcmp(answer.states, "refreshed") == 0,
                  "place %zu: %s", i, answer.states);
        EXPECT_ASK(store, "u/a", places[i].committed ? AFTER : BEFORE, "fresh", 0);
        /* Whoever refreshes for another reason puts things right first. */
        (void) temp_store_refresh(store, "u/a", REFRESH_WISH_FULL);
        cr_expect(!temp_volume_exists(store->volume, "users/u/.memory.journal.json") ||
                      !places[i].prepared,
                  "place %zu", i);
        cr_expect_str_eq(temp_store_ask(store, "u/a").facts, places[i].committed ? AFTER : BEFORE,
                         "place %zu", i);
    }
}

Test(volume_snapshot, a_node_that_starts_beside_a_dead_writers_journal_sees_nothing_of_it)
{
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        struct temp_commit commit = commit_to(places[i].step, places[i].number);
        tear_down();
        set_up();
        (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
        (void) temp_volume_add(store->volume, "u", "a", "f2", "note two");
        (void) temp_volume_commit(store->volume, &commit);
        temp_store_open(store);
        EXPECT_REFRESHED(store, "u/a", places[i].committed ? AFTER : BEFORE);
    }
}

Test(volume_snapshot, a_first_commit_that_died_leaves_nothing)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f1", .text = "note never"};
    static const enum temp_step deaths[] = {TEMP_STEP_JOURNAL, TEMP_STEP_FACT, TEMP_STEP_MANIFEST};

    for (size_t i = 0; i < ARRAY_SIZE(deaths); i++) {
        const struct temp_commit commit = {.user = "u",
                                           .agent = "a",
                                           .changes = &add,
                                           .count = 1,
                                           .stop = deaths[i],
                                           .stop_number = 1};
        tear_down();
        set_up();
        (void) temp_volume_commit(store->volume, &commit);
        temp_store_open(store);
        struct temp_answer answer = temp_store_ask(store, "u/a");
        cr_expect(answer.status == STATUS_OK && answer.count == 0, "death %zu", i);
        EXPECT_ASK(store, "u/a", "", "fresh", 0);
        cr_expect(!temp_volume_exists(store->volume, "users/u/.memory.journal.json"));
    }
}

/* While the writer lives its lock is held: the search says stale, and fresh once it is through. */
Test(volume_snapshot, a_live_writer_is_waited_for_within_bounds)
{
    struct temp_commit commit = commit_to(TEMP_STEP_NONE, 0);

    temp_store_usual(store, false);
    struct temp_writer *writer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    check_answer(&answer, BEFORE, "stale", 0, __LINE__);
    cr_expect(answer.took_ns < 10 * NS_PER_SECOND);
    EXPECT_STATE(store, "u/a", "behind");
    (void) temp_writer_finish(&writer);
    EXPECT_REFRESHED(store, "u/a", AFTER);
}

/* It dies while we wait for it: then its commit is taken back, and the manifest with it. */
Test(volume_snapshot, a_writer_that_dies_while_it_is_waited_for)
{
    struct temp_commit commit = commit_to(TEMP_STEP_NONE, 0);

    temp_store_usual(store, false);
    struct temp_writer *writer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_MANIFEST, 0);
    struct temp_search *search =
        temp_search_start(store, &(struct temp_question){.scopes = "u/a", .thread = 1});
    cr_expect(!temp_search_ends(search, 100));
    temp_writer_abandon(&writer);
    struct temp_answer answer = temp_search_join(&search);
    cr_expect_str_eq(answer.facts, BEFORE);
    EXPECT_ASK(store, "u/a", BEFORE, "fresh", 0);
}

/* ---- the second look ---- */

static struct temp_refresh *refresh_up_to(enum pause_point point)
{
    pause_arm(point);
    struct temp_refresh *running = temp_refresh_start(store, "u/a", REFRESH_WISH_FULL);
    cr_assert(pause_wait_reached(point, LONG_MS));
    return running;
}

/* A whole commit between the capture and the second look starts the attempt over. */
Test(volume_snapshot, a_commit_during_the_reading_is_not_seen_by_halves)
{
    static const enum pause_point points[] = {PAUSE_SNAPSHOT_AFTER_CAPTURE,
                                              PAUSE_SNAPSHOT_AFTER_READ};

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        struct temp_commit commit = commit_to(TEMP_STEP_NONE, 0);
        tear_down();
        set_up();
        temp_store_usual(store, false);
        pause_reset();
        struct temp_refresh *running = refresh_up_to(points[i]);
        (void) temp_volume_commit(store->volume, &commit);
        pause_release(points[i]);
        struct refresh_result result = temp_refresh_join(&running);
        cr_expect(result.status == STATUS_OK && result.facts == 2);
        cr_expect_eq(pause_visits(PAUSE_SNAPSHOT_AFTER_READ), 2);
        EXPECT_ASK(store, "u/a", AFTER, "fresh", 0);
    }
}

/* Nobody had written there before: the facts are already there, the manifest is not. */
Test(volume_snapshot, a_first_manifest_that_appears_during_the_reading_starts_it_over)
{
    temp_store_usual(store, false);
    temp_volume_make_dir(store->volume, "users/w");
    pause_arm(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    struct temp_refresh *running = temp_refresh_start(store, "w/a", REFRESH_WISH_FULL);
    cr_assert(pause_wait_reached(PAUSE_SNAPSHOT_BEFORE_CAPTURE, LONG_MS));
    (void) temp_volume_add(store->volume, "w", "a", "w1", "note new");
    pause_release(PAUSE_SNAPSHOT_BEFORE_CAPTURE);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    EXPECT_ASK(store, "w/a", "w1=new", "fresh", 0);
}

/* The manifest is still the old one, the facts are half new, the journal tells. */
Test(volume_snapshot, a_journal_that_appears_during_the_reading_is_waited_for)
{
    struct temp_commit commit = commit_to(TEMP_STEP_NONE, 0);

    temp_store_usual(store, false);
    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_CAPTURE);
    struct temp_writer *writer = temp_writer_begin(store->volume, &commit);
    temp_writer_run(writer, TEMP_STEP_FACT, 2);
    pause_release(PAUSE_SNAPSHOT_AFTER_CAPTURE);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_BUSY);
    EXPECT_ASK(store, "u/a", BEFORE, "fresh", 0); /* nothing was published */
    (void) temp_writer_finish(&writer);
    EXPECT_REFRESHED(store, "u/a", AFTER);
}

/* A peer's recovery puts the manifest back first and the facts afterwards: a reader in between must
 * not keep the wrong facts under the right signature. */
Test(volume_snapshot, a_reader_between_a_peers_steps_of_recovery_publishes_nothing)
{
    struct temp_commit commit = commit_to(TEMP_STEP_MANIFEST, 0);

    temp_store_usual(store, false);
    AUTO_FREE char *manifest = temp_volume_read(store->volume, "users/u/memory.json", NULL);
    (void) temp_volume_commit(store->volume, &commit);   /* dies; facts and manifest are new */
    int fd = temp_volume_lock(store->volume, "u", true); /* the recovering peer */
    temp_volume_write(store->volume, "users/u/memory.json", manifest, strlen(manifest));
    struct temp_answer answer = temp_store_ask(store, "u/a");
    check_answer(&answer, BEFORE, "stale", 0, __LINE__);
    (void) close(fd); /* it dies as well; now we are the ones to recover */
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, BEFORE);
    EXPECT_ASK(store, "u/a", BEFORE, "fresh", 0);
}

/* ---- under the lock ---- */

static int try_lock(int operation)
{
    char path[PATH_MAX];

    temp_volume_file(store->volume, "users/u/.memory.lock", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int failed = fd < 0 || flock(fd, operation | LOCK_NB) != 0;
    (void) close(fd);
    return !failed;
}

/* Goes on from one pause point, at which the refresh is held, to the next. */
static void go_on(enum pause_point from, enum pause_point to)
{
    pause_arm(to);
    pause_release(from);
    cr_assert(pause_wait_reached(to, LONG_MS));
}

/* Somebody commits k0, k1, ... before the second look of an attempt, which is held there: the next
 * one is held at its capture. */
static void spoil_attempt(unsigned number)
{
    char id[16];

    (void) snprintf(id, sizeof id, "k%u", number);
    (void) temp_volume_add(store->volume, "u", "a", id, "note more");
    go_on(PAUSE_SNAPSHOT_AFTER_READ, PAUSE_SNAPSHOT_AFTER_CAPTURE);
}

Test(volume_snapshot, after_a_few_failures_it_reads_under_the_shared_lock)
{
    temp_store_usual(store, false);
    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_READ);
    for (unsigned i = 0; i < 3; i++) {
        cr_expect(try_lock(LOCK_EX), "attempt %u reads without a lock", i);
        spoil_attempt(i);
        go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_AFTER_READ);
    }
    cr_expect(!try_lock(LOCK_EX), "the fourth holds it");
    cr_expect(try_lock(LOCK_SH), "and shares it");
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    cr_expect(try_lock(LOCK_EX), "given back");
    EXPECT_ASK(store, "u/a", BEFORE " k0=more k1=more k2=more", "fresh", 0);
}

/* A lock that is refused does not end the reading: the second look has to do. */
Test(volume_snapshot, where_locks_are_refused_it_reads_on_without)
{
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", ENOLCK, 0, 0);
    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_READ);
    for (unsigned i = 0; i < 4; i++) {
        spoil_attempt(i);
        go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_AFTER_READ);
    }
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    EXPECT_ASK(store, "u/a", BEFORE " k0=more k1=more k2=more k3=more", "fresh", 0);
}

Test(volume_snapshot, a_scope_that_never_stands_still_is_given_up)
{
    temp_store_usual(store, false);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", ENOLCK, 0, 0);
    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_READ);
    for (unsigned i = 0; i < 5; i++) {
        spoil_attempt(i);
        go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_AFTER_READ);
    }
    (void) temp_volume_add(store->volume, "u", "a", "k5", "note more");
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_TIMEOUT);
    EXPECT_STATE(store, "u/a", "behind");
}

/* ---- without the lock ---- */

/* A commit that dies half way and is taken back while facts are read, with a lock that cannot be
 * had: under a manifest that shows, since whoever takes it back writes the manifest anew. */
Test(volume_snapshot, half_a_commit_that_is_taken_back_meanwhile_is_not_seen_without_the_lock)
{
    struct temp_commit commit = commit_to(TEMP_STEP_FACT, 3);
    enum recover_outcome outcome = RECOVER_NOTHING;
    struct scope scope;

    temp_store_usual(store, false);
    temp_store_scope("u/a", &scope);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", EIO, 0, 0);
    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_READ);
    for (unsigned i = 0; i < 3; i++) {
        spoil_attempt(i);
        if (i < 2)
            go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_AFTER_READ);
    }
    (void) temp_volume_commit(store->volume, &commit);
    go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_AFTER_READ); /* half of it is read */
    temp_calls_reset();
    cr_expect_eq(volume_recover(store->store->recovery, store->store->locks, store->store->volume,
                                &scope, clock_deadline_ms(LONG_MS), &outcome, NULL),
                 STATUS_OK);
    cr_expect_eq(outcome, RECOVER_ROLLED_BACK);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", EIO, 0, 0);
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    cr_expect_eq(temp_refresh_join(&running).status, STATUS_OK);
    EXPECT_ASK(store, "u/a", BEFORE " k0=more k1=more k2=more", "fresh", 0);
}

static void put_bare_fact(const char *id, const char *text)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = id, .text = text};

    temp_volume_raw(store->volume, "u", "a", &add, 1);
}

/* Facts without a manifest have nothing that would show. */
Test(volume_snapshot, facts_without_a_manifest_are_unverified_where_the_lock_cannot_be_had)
{
    static const struct {
        int sys_errno;
        const char *state;
    } cases[] = {
        {EIO, "unverified"},
        {ENOLCK, "unverified"},
        {EACCES, "unverified"},
        {ESTALE, "stale"}, /* tried again for a while: somebody may be replacing the file */
    };

    put_bare_fact("f1", "note one");
    temp_volume_write(store->volume, "users/u/.memory.lock", "", 0);
    temp_store_open(store);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", EIO, 0, 0);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE, "never built: %s", answer.states);
    temp_calls_reset();
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one");
    cr_expect_str_eq(answer.states, "refreshed");

    put_bare_fact("f2", "note two");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", cases[i].sys_errno, 0, 0);
        answer = temp_store_ask(store, "u/a");
        cr_expect_str_eq(answer.facts, "f1=one", "row %zu", i);
        cr_expect_str_eq(answer.states, cases[i].state, "row %zu", i);
        cr_expect_str_eq(answer.path, "users/u/.memory.lock", "row %zu", i);
        temp_calls_reset();
    }
    answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
    cr_expect_str_eq(answer.states, "refreshed");
}

/* Of facts without a manifest half a first commit is read, and taken back before the second look.
 */
static struct refresh_result refresh_across_a_first_commit(void)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f2", .text = "note half"};
    const struct temp_commit commit = {.user = "u",
                                       .agent = "a",
                                       .changes = &add,
                                       .count = 1,
                                       .stop = TEMP_STEP_FACT,
                                       .stop_number = 1};
    char path[SCOPE_PATH_MAX];

    struct temp_refresh *running = refresh_up_to(PAUSE_SNAPSHOT_AFTER_CAPTURE);
    for (unsigned i = 0; i < 3; i++) { /* these are given up for want of a lock */
        go_on(PAUSE_SNAPSHOT_AFTER_CAPTURE, PAUSE_SNAPSHOT_BEFORE_CAPTURE);
        go_on(PAUSE_SNAPSHOT_BEFORE_CAPTURE, PAUSE_SNAPSHOT_AFTER_CAPTURE);
    }
    (void) temp_volume_commit(store->volume, &commit);
    pause_arm(PAUSE_SNAPSHOT_AFTER_READ);
    pause_release(PAUSE_SNAPSHOT_AFTER_CAPTURE);
    (void) pause_wait_reached(PAUSE_SNAPSHOT_AFTER_READ, 1000); /* if it reads at all */
    temp_volume_fact_path("u", "a", "f2", path);
    temp_volume_remove(store->volume, path);
    temp_volume_remove(store->volume, "users/u/.memory.journal.json");
    temp_volume_remove(store->volume, "users/u/.recovery");
    pause_release(PAUSE_SNAPSHOT_AFTER_READ);
    return temp_refresh_join(&running);
}

Test(volume_snapshot, half_a_first_commit_is_not_seen_where_the_lock_cannot_be_had)
{
    put_bare_fact("f1", "note one");
    temp_volume_write(store->volume, "users/u/.memory.lock", "", 0);
    temp_store_open(store);
    temp_calls_fail(TEMP_CALL_LOCK, "/.memory.lock", EIO, 0, 0);
    struct refresh_result result = refresh_across_a_first_commit();
    cr_expect_eq(result.status, STATUS_UNAVAILABLE, "%s", status_name(result.status));
    cr_expect(!result.installed);
}

/* There was no lock to take when the reading began; there is one when it ends. */
Test(volume_snapshot, half_a_first_commit_is_not_seen_where_there_was_no_lock_file)
{
    put_bare_fact("f1", "note one");
    temp_store_open(store);
    struct refresh_result result = refresh_across_a_first_commit();
    cr_expect_eq(result.status, STATUS_OK, "%s", status_name(result.status));
    cr_expect_eq(result.facts, 1, "%d facts", (int) result.facts);
}

/* ---- where recovery must wait or cannot be done ---- */

Test(volume_snapshot, where_locks_may_not_reach_the_writer_a_journal_is_left_for_the_grace_time)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;
    struct temp_commit commit = commit_to(TEMP_STEP_MANIFEST, 0);

    store->options.force_kind = &unknown;
    temp_store_usual(store, false);
    (void) temp_store_settle(store); /* a second look that falls due would be counted as one */
    (void) temp_volume_commit(store->volume, &commit);
    EXPECT_ASK(store, "u/a", BEFORE, "stale", 0);
    cr_expect(temp_volume_exists(store->volume, "users/u/.memory.journal.json"));
    clock_advance_for_test(59 * NS_PER_SECOND);
    EXPECT_ASK(store, "u/a", BEFORE, "stale", 0);
    cr_expect(temp_volume_exists(store->volume, "users/u/.memory.journal.json"));
    clock_advance_for_test(2 * NS_PER_SECOND);
    EXPECT_REFRESHED(store, "u/a", BEFORE);
    cr_expect(!temp_volume_exists(store->volume, "users/u/.memory.journal.json"));
}

Test(volume_snapshot, where_recovery_is_impossible_nothing_is_published)
{
    struct temp_commit commit = commit_to(TEMP_STEP_MANIFEST, 0);

    store->options.read_only = true;
    temp_store_usual(store, false);
    (void) temp_volume_commit(store->volume, &commit);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    check_answer(&answer, BEFORE, "unverified", 0, __LINE__);
    cr_expect_str_eq(answer.path, "users/u/.memory.journal.json");
    cr_expect(temp_volume_exists(store->volume, "users/u/.memory.journal.json"));
    answer = temp_store_ask(store, "u/c"); /* never built */
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE);
}

/* ---- the compare ---- */

static struct live_state compare(const char *name)
{
    struct scope scope;
    struct live_state live = {0};

    temp_store_scope(name, &scope);
    cr_assert(snapshot_compare(&store->store->source, &scope, &live, NULL) == STATUS_OK);
    return live;
}

/* A handle that stays stale is not somebody who writes. */
Test(volume_snapshot, a_compare_tells_what_it_cannot_get_over)
{
    static const enum temp_call calls[] = {TEMP_CALL_OPEN, TEMP_CALL_STAT, TEMP_CALL_READ};
    struct scope scope;

    temp_store_usual(store, false);
    temp_store_scope("u/a", &scope);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        struct live_state live = {0};
        struct error error = {0};

        temp_calls_fail(calls[i], "/u/memory.json", ESTALE, 0, 0);
        cr_expect_eq(snapshot_compare(&store->store->source, &scope, &live, &error),
                     STATUS_UNAVAILABLE, "row %zu", i);
        temp_calls_reset();
        cr_expect_str_eq(error.message, "the manifest cannot be read: Stale file handle");
        cr_expect_str_eq(error.path, "users/u/memory.json");
    }
}

Test(volume_snapshot, a_compare_tells_revision_and_stamps_of_one_file)
{
    struct stat status;
    char path[PATH_MAX];

    temp_store_usual(store, false);
    temp_volume_file(store->volume, "users/u/memory.json", path);
    cr_assert(stat(path, &status) == 0);
    struct live_state live = compare("u/a");
    cr_expect_eq(live.mark.signature.revision, temp_volume_revision(store->volume, "u"));
    cr_expect_eq(live.mark.signature.size, (uint64_t) status.st_size);
    cr_expect_eq(live.mark.inode, status.st_ino);
    cr_expect(!live.mark.signature.absent && !live.bare);
    cr_expect_eq(live.mark.signature.mtime_ns % NS_PER_SECOND, (uint64_t) status.st_mtim.tv_nsec);
}

Test(volume_snapshot, no_manifest_is_bare_only_where_nothing_of_the_scope_lies)
{
    const struct temp_change add = {.kind = TEMP_ADD, .id = "f1", .text = "note one"};

    temp_volume_make_dir(store->volume, "users/empty/agents/a/facts/00");
    temp_volume_raw(store->volume, "facts", "a", &add, 1);
    temp_volume_make_dir(store->volume, "users/journal");
    temp_volume_write(store->volume, "users/journal/.memory.journal.json", "{}", 2);
    temp_volume_make_dir(store->volume, "users/old/agents/a");
    temp_volume_write(store->volume, "users/old/agents/a/memory.json", "{\"facts\": []}", 13);
    temp_store_open(store);
    static const struct {
        const char *scope;
        bool bare;
    } cases[] = {{"nobody/a", true},   {"empty/a", true}, {"facts/a", false}, {"facts/b", true},
                 {"journal/a", false}, {"old/a", false},  {"old/b", true},    {"-/a", true}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct live_state live = compare(cases[i].scope);
        cr_expect(live.mark.signature.absent && live.bare == cases[i].bare, "%s", cases[i].scope);
    }
}
