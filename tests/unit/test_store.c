/* core/store.h: one volume with one index; volumes that go, come back or are others, and an index
 * that is lost. */
#include "core/store.h"

#include "core/errands.h"
#include "tests/unit/engine_checks.h"

#include <fcntl.h>

static struct temp_store *store;
static char away[PATH_MAX];

static void set_up(void)
{
    store = temp_store_create();
    const char *root = temp_volume_path(store->volume);
    (void) snprintf(away, sizeof away, "%.*s/away", (int) (strrchr(root, '/') - root), root);
    captured_log_start();
}

static void tear_down(void)
{
    captured_log_stop();
    pause_reset();
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(store, .init = set_up, .fini = tear_down, .timeout = 60);

static const char *root(void)
{
    return temp_volume_path(store->volume);
}

static enum status check_volume(void)
{
    return store_check_volume(store->store, NULL);
}

/* ---- a volume that goes and returns ---- */

static void expect_suspended(void)
{
    for (unsigned i = 0; i < 2; i++)
        EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch", "unverified unverified", 0);
    cr_expect_eq(temp_store_refresh(store, "u/a", REFRESH_WISH_FULL).status, STATUS_UNAVAILABLE);
    struct temp_answer answer = temp_store_ask(store, "w/a");
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE, "a scope without rows");
    cr_expect(strstr(answer.error.message, "--accept-volume") != NULL, "%s", answer.error.message);
}

Test(store, a_volume_that_is_gone_or_another_is_waited_for)
{
    for (unsigned another = 0; another < 2; another++) {
        tear_down();
        set_up();
        temp_store_usual(store, true);
        cr_expect_eq(check_volume(), STATUS_OK);
        test_rename(root(), away);
        if (another)
            test_make_dirs(root());
        cr_expect_eq(check_volume(), STATUS_UNAVAILABLE);
        cr_expect_eq(check_volume(), STATUS_UNAVAILABLE);
        cr_expect_eq(captured_log_count("event=volume.suspended"), 1, "told once");
        expect_suspended();
        if (another)
            test_remove_tree(root());
        test_rename(away, root());
        cr_expect_eq(check_volume(), STATUS_OK);
        cr_expect_eq(captured_log_count("event=volume.resumed"), 1);
        struct temp_answer answer = temp_store_ask(store, "u/a v/a");
        check_answer(&answer, "f1=one f2=two h1=aitch", "fresh fresh", 0, __LINE__);
        cr_expect_eq(answer.files_read, 0);
    }
}

/* An unmounted volume: its path shows an empty directory, and so does the handle that we hold. */
Test(store, nothing_is_removed_before_the_volume_was_looked_at_anew)
{
    char users[PATH_MAX];

    temp_store_usual(store, true);
    test_rename(root(), away);
    test_make_dirs(root());
    test_join(users, away, "users");
    test_remove_tree(users);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    cr_expect(atomic_load(&store->store->suspended));
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch", "unverified unverified", 0);
}

/* One fact less is a removal too. */
Test(store, a_row_is_not_removed_either_before_the_volume_was_looked_at_anew)
{
    char whole[PATH_MAX];
    char path[SCOPE_PATH_MAX];

    temp_store_usual(store, true);
    (void) temp_volume_summary(store->volume, "u", NULL);
    test_rename(root(), away);
    test_make_dirs(root());
    temp_volume_fact_path("u", "a", "f2", path);
    test_join(whole, away, path);
    test_remove_file(whole);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
}

Test(store, a_users_removal_is_believed_while_the_volume_is_the_same)
{
    temp_store_usual(store, true);
    temp_volume_remove(store->volume, "users/u");
    EXPECT_ASK(store, "u/a", "", "refreshed", 1);
    cr_expect(!atomic_load(&store->store->suspended));
}

/* Mounted again elsewhere: another root, the same marker. */
Test(store, the_marker_tells_a_volume_that_was_mounted_again)
{
    temp_store_usual(store, true);
    cr_assert(temp_volume_exists(store->volume, ".memsyncd/volume-id"));
    test_rename(root(), away);
    test_make_dirs(root());
    test_copy_tree(away, root());
    cr_expect_eq(check_volume(), STATUS_OK);
    (void) temp_volume_add(store->volume, "u", "a", "f3", "note three");
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two f3=three");
}

/* ---- markers ---- */

Test(store, a_marker_is_made_only_where_the_volume_is_known_to_be_one)
{
    temp_store_open(store); /* empty: perhaps a mount point whose volume is still to come */
    cr_expect(!temp_volume_exists(store->volume, ".memsyncd"));
    temp_store_close(store);
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    store->options.read_only = true;
    temp_store_open(store);
    cr_expect(!temp_volume_exists(store->volume, ".memsyncd"));
    temp_store_close(store);
    store->options.read_only = false;
    temp_store_open(store);
    cr_expect(temp_volume_exists(store->volume, ".memsyncd/volume-id"));
    AUTO_FREE char *first = temp_volume_read(store->volume, ".memsyncd/volume-id", NULL);
    temp_store_close(store);
    temp_store_open(store);
    AUTO_FREE char *second = temp_volume_read(store->volume, ".memsyncd/volume-id", NULL);
    cr_expect_str_eq(first, second);
    cr_expect(!atomic_load(&store->store->suspended), "named by its place before, now by it");
}

/* ---- an index of another volume ---- */

static void open_beside_another_volume(void)
{
    temp_store_usual(store, true);
    temp_store_close(store);
    test_rename(root(), away);
    test_make_dirs(root());
    (void) temp_volume_add(store->volume, "u", "a", "x1", "note other");
    captured_log_expect("event=volume.other");
    temp_store_open(store);
}

Test(store, an_index_of_another_volume_is_kept_and_answers_unverified)
{
    open_beside_another_volume();
    cr_expect_eq(captured_log_count("event=volume.other"), 1);
    cr_expect(atomic_load(&store->store->suspended));
    expect_suspended();
    cr_expect(!temp_volume_exists(store->volume, ".memsyncd"), "not ours to mark");
    cr_expect_eq(check_volume(), STATUS_UNAVAILABLE);
    temp_store_close(store);
    temp_store_open(store); /* nor does a restart make it ours */
    expect_suspended();
}

Test(store, it_resumes_when_its_own_volume_returns)
{
    open_beside_another_volume();
    test_remove_tree(root());
    test_rename(away, root());
    cr_expect_eq(check_volume(), STATUS_OK);
    struct temp_answer answer = temp_store_ask(store, "u/a v/a");
    check_answer(&answer, "f1=one f2=two h1=aitch", "fresh fresh", 0, __LINE__);
    cr_expect_eq(answer.files_read, 0);
}

Test(store, the_other_volume_can_be_accepted)
{
    struct index_scope row;

    open_beside_another_volume();
    cr_assert(store_accept_volume(store->store, NULL) == STATUS_OK);
    cr_expect(!atomic_load(&store->store->suspended));
    cr_expect(atomic_load(&store->store->rebuild_wanted));
    EXPECT_REFRESHED(store, "u/a", "x1=other");
    EXPECT_ASK(store, "v/a", "", "refreshed", 1);
    cr_expect(!temp_store_row(store, "v/a", &row));
    cr_expect_eq(check_volume(), STATUS_OK);
    temp_store_close(store);
    temp_store_open(store);
    EXPECT_ASK(store, "u/a", "x1=other", "fresh", 0);
}

Test(store, another_volume_can_be_accepted_while_it_runs)
{
    temp_store_usual(store, true);
    test_rename(root(), away);
    test_make_dirs(root());
    (void) temp_volume_add(store->volume, "u", "a", "x1", "note other");
    cr_expect_eq(check_volume(), STATUS_UNAVAILABLE);
    expect_suspended();
    unsigned accepts = atomic_load(&store->store->accepts);
    cr_assert(store_accept_volume(store->store, NULL) == STATUS_OK);
    cr_expect_eq(atomic_load(&store->store->accepts), accepts + 1);
    EXPECT_REFRESHED(store, "u/a", "x1=other");
}

/* ---- opening ---- */

Test(store, what_cannot_be_opened_is_told_and_leaves_nothing_behind)
{
    struct store *none = NULL;
    struct error error = {0};
    struct store_options options = store->options;

    options.volume_path = away;
    cr_expect_eq(store_open(&options, &none, &error), STATUS_NOT_FOUND);
    cr_expect(none == NULL && strstr(error.message, away) != NULL, "%s", error.message);

    temp_store_open(store);
    cr_expect_eq(store_open(&store->options, &none, &error), STATUS_BUSY, "one agent an index");
    cr_expect(none == NULL);
    store_close(&none); /* fine with nothing */
}

/* ---- an index that is lost ---- */

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
        cr_assert(pwrite(fd, noise, sizeof noise, at) == (ssize_t) sizeof noise);
}

Test(store, an_index_that_is_damaged_under_it_is_built_anew_by_the_next_search)
{
    char wal[PATH_MAX];

    captured_log_expect("event=index.rebuild");
    temp_store_usual(store, true);
    temp_store_close(store); /* writes the log back, so that the file holds everything */
    temp_store_open(store);
    test_join(wal, store->index_directory, INDEX_FILE_NAME "-wal");
    spoil_index();
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_str_eq(answer.facts, "f1=one f2=two");
    cr_expect_str_eq(answer.states, "refreshed");
    cr_expect_eq(atomic_load(&store->store->counters.index_rebuilds), 1);
    cr_expect(atomic_load(&store->store->rebuild_wanted));
    cr_expect_eq(captured_log_count("event=index.rebuild"), 1);
    EXPECT_REFRESHED(store, "v/a", "h1=aitch");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    temp_store_close(store);
    temp_store_open(store);
    EXPECT_ASK(store, "u/a v/a", "f1=one f2=two h1=aitch", "fresh fresh", 0);
}

Test(store, a_refresh_that_meets_the_damage_heals_it)
{
    temp_store_usual(store, true);
    temp_store_close(store);
    temp_store_open(store);
    spoil_index();
    struct refresh_result result = temp_store_refresh(store, "u/a", REFRESH_WISH_FULL);
    cr_expect(result.status == STATUS_OK && result.facts == 2);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
    cr_expect_eq(atomic_load(&store->store->counters.index_rebuilds), 1);
}

Test(store, healing_does_nothing_to_a_sound_index)
{
    temp_store_usual(store, false);
    cr_expect_eq(store_heal_index(store->store, NULL), STATUS_OK);
    cr_expect_eq(atomic_load(&store->store->counters.index_rebuilds), 0);
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

Test(store, an_index_that_was_deleted_under_it_is_begun_anew)
{
    char path[PATH_MAX];

    temp_store_usual(store, false);
    test_join(path, store->index_directory, INDEX_FILE_NAME);
    test_remove_file(path);
    cr_assert(index_file_was_replaced(store->store->index));
    cr_expect_eq(store_heal_index(store->store, NULL), STATUS_OK);
    cr_expect(test_exists(path));
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
    temp_store_close(store);
    temp_store_open(store);
    cr_expect(!store->store->index_was_rebuilt && !atomic_load(&store->store->suspended));
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "fresh", 0);
}

Test(store, an_index_that_is_damaged_at_the_start_is_set_aside)
{
    char path[PATH_MAX];

    temp_store_usual(store, false);
    temp_store_close(store);
    test_join(path, store->index_directory, INDEX_FILE_NAME);
    test_replace_file(path, "this is no database, whatever its name says", 43);
    temp_store_open(store);
    cr_expect(store->store->index_was_rebuilt && atomic_load(&store->store->rebuild_wanted));
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

/* Somebody has put a file into the place of its directory. */
Test(store, an_index_that_cannot_be_begun_anew_is_told_as_that)
{
    char aside[PATH_MAX];

    temp_store_usual(store, false);
    temp_store_close(store);
    temp_store_open(store);
    spoil_index();
    (void) snprintf(aside, sizeof aside, "%.3000s.aside", store->index_directory);
    test_rename(store->index_directory, aside);
    test_replace_file(store->index_directory, "", 0);
    struct temp_answer answer = temp_store_ask(store, "u/a");
    cr_expect_eq(answer.status, STATUS_UNAVAILABLE);
    cr_expect(strstr(answer.error.message, "the index cannot be rebuilt: cannot open") != NULL,
              "%s", answer.error.message);
    test_remove_file(store->index_directory);
    test_rename(aside, store->index_directory);
    EXPECT_REFRESHED(store, "u/a", "f1=one f2=two");
}

/* A look at the volume uses what belongs to the store: as long as it hangs nothing of that goes. */
Test(store, what_hangs_at_the_end_keeps_what_it_uses)
{
    static enum volume_kind unknown = VOLUME_UNKNOWN;
    static struct store *left_behind;

    store->options.force_kind = &unknown;
    store->options.calls = temp_calls();
    temp_store_usual(store, false);
    left_behind = store->store;
    temp_calls_hang(TEMP_CALL_OPEN, "/memory.json");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "unverified", 0);
    temp_store_close(store);
    cr_expect_eq(captured_log_count("event=store.close "), 1);
    temp_calls_reset();
    cr_assert(errands_settle(left_behind->errands, clock_deadline_ms(LONG_MS)));
    store_close(&left_behind);
}

/* ---- events ---- */

static char published[2048];

static void keep_event(void *context, const struct scope *scope, const char *event,
                       const char *members)
{
    (void) context;
    (void) snprintf(published, sizeof published, "%s %s/%s %s", event, scope->user, scope->agent,
                    members);
}

Test(store, an_event_carries_its_members_or_none_when_they_are_too_long)
{
    struct scope scope;
    char text[600];

    store->options.event_sink = keep_event;
    temp_store_open(store);
    temp_store_scope("u/a", &scope);
    store_publish(store->store, &scope, "refreshed", "\"revision\":%d", 7);
    cr_expect_str_eq(published, "refreshed u/a \"revision\":7");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    store_publish(store->store, &scope, "refreshed", "\"text\":\"%s\"", text);
    cr_expect_str_eq(published, "refreshed u/a ", "half of a member would be no JSON");
}
