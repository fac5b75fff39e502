/* core/bucket_check.h: which scopes of a bucket should be refreshed. */
#include "core/bucket_check.h"

#include "core/build_progress.h"
#include "tests/unit/engine_checks.h"

static struct temp_store *store;
static struct bucket_check *check;

static void set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
}

static void tear_down(void)
{
    bucket_check_destroy(&check);
    cr_expect(check == NULL);
    bucket_check_destroy(&check);
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(bucket_check, .init = set_up, .fini = tear_down, .timeout = 60);

static void create(void)
{
    cr_assert(bucket_check_create(store->store, &check, NULL) == STATUS_OK);
}

/* Takes, and drops, what the check asked for; "user/agent user/agent ". */
static const char *asked(void)
{
    static char text[512];
    struct refresh_table_counts counts;

    text[0] = '\0';
    refresh_table_counts(store->store->refreshes, &counts);
    for (uint64_t left = counts.wanted_background; left > 0; left--) {
        struct refresh_run run;
        size_t used = strlen(text);
        cr_assert(refresh_take(store->store->refreshes, false, &run));
        (void) snprintf(text + used, sizeof text - used, "%.40s/%s ",
                        run.scope.has_user ? run.scope.user : "-", run.scope.agent);
        refresh_done(store->store->refreshes, &run, &(struct refresh_result){.status = STATUS_OK},
                     0);
    }
    return text;
}

static bool run(const char *user, bool quick)
{
    struct bucket_verdict verdict = {0};

    cr_assert(bucket_check_run(check, user != NULL, user ? user : "",
                               quick ? REFRESH_CAUSE_PASS : REFRESH_CAUSE_POLL, &verdict,
                               NULL) == STATUS_OK);
    cr_expect(!verdict.changed || !verdict.empty);
    return verdict.changed;
}

Test(bucket_check, nothing_is_asked_for_while_all_is_in_step)
{
    temp_store_usual(store, true);
    create();
    cr_expect(!run("u", false) && !run("v", false) && !run("u", true) && !run(NULL, false));
    cr_expect_str_eq(asked(), "");
}

Test(bucket_check, every_scope_of_a_user_whose_manifest_moved_is_asked_for)
{
    temp_store_usual(store, true);
    create();
    (void) temp_volume_add(store->volume, "u", "b", "g2", "note wasp");
    cr_expect(run("u", false));
    cr_expect(!run("v", false));
    cr_expect_str_eq(asked(), "u/a u/b ");
}

Test(bucket_check, agents_without_rows_are_found_by_a_listing)
{
    temp_store_usual(store, false);
    create();
    (void) temp_volume_add(store->volume, "u", "c", "c1", "note cat");
    cr_expect(run("u", false));
    cr_expect_str_eq(asked(), "u/a u/b u/c ");
}

Test(bucket_check, a_bucket_without_rows_is_listed)
{
    temp_store_open(store);
    create();
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    (void) temp_volume_add(store->volume, NULL, "r", "r1", "note root");
    cr_expect(run("u", true));
    cr_expect(run(NULL, true));
    cr_expect_str_eq(asked(), "u/a -/r ");
}

/* Somebody polled the bucket between the loss of an index and the pass that builds it anew. */
Test(bucket_check, a_pass_counts_what_somebody_else_has_asked_for)
{
    struct build_figures figures;

    temp_store_open(store);
    create();
    (void) temp_volume_add(store->volume, "u", "a", "f1", "note one");
    cr_expect(run("u", false));
    build_progress_begin(store->store->progress);
    build_progress_listed(store->store->progress, 1);
    cr_expect(run("u", true));
    build_progress_looked(store->store->progress);
    build_progress_figures(store->store->progress, &figures);
    cr_expect_eq(figures.scopes_total, 1);
    cr_expect_str_eq(asked(), "u/a ");
}

/* The listing is made once a manifest, not at every turn. */
Test(bucket_check, agents_are_listed_once_a_manifest)
{
    temp_store_usual(store, false);
    create();
    (void) run("u", false);
    temp_calls_count(TEMP_CALL_LIST, "/agents");
    for (unsigned i = 0; i < 3; i++)
        cr_expect(!run("u", false));
    cr_expect_eq(temp_calls_counted(), 0);
    (void) temp_volume_summary(store->volume, "u", NULL);
    cr_expect(run("u", false));
    cr_expect(temp_calls_counted() > 0);
}

Test(bucket_check, a_quick_look_lists_no_agents_where_rows_are_in_step)
{
    temp_store_usual(store, false);
    create();
    temp_calls_count(TEMP_CALL_LIST, "/agents");
    cr_expect(!run("u", true));
    cr_expect_eq(temp_calls_counted(), 0);
    cr_expect(!run("u", false));
    cr_expect(temp_calls_counted() > 0, "the next look that is not quick does");
}

Test(bucket_check, a_users_removal_asks_for_all_of_the_users_scopes)
{
    temp_store_usual(store, true);
    create();
    temp_volume_remove(store->volume, "users/u");
    cr_expect(run("u", false));
    cr_expect_str_eq(asked(), "u/a u/b ");
}

/* The directory's name does not tell the raw id; a fact in it does. */
Test(bucket_check, a_directory_named_by_a_digest_is_asked_for_by_its_owners_id)
{
    char bucket[SCOPE_NAME_MAX + 1];

    temp_store_open(store);
    create();
    (void) temp_volume_add(store->volume, "ada@example.org", "desk", "f1", "note one");
    cr_assert(scope_bucket_of_user("ada@example.org", bucket, NULL) == STATUS_OK);
    cr_expect(run(bucket, false));
    cr_expect_str_eq(asked(), "ada@example.org/desk ");
}

Test(bucket_check, nothing_is_concluded_from_a_failure)
{
    struct bucket_verdict verdict = {.changed = true};

    temp_store_usual(store, false);
    create();
    temp_calls_fail(TEMP_CALL_READ, "/memory.json", EIO, 0, 0);
    cr_expect_eq(bucket_check_run(check, REFRESH_CAUSE_PASS, "u", false, &verdict, NULL),
                 STATUS_IO);
    cr_expect(!verdict.changed && !verdict.empty);
    cr_expect_str_eq(asked(), "");
    temp_calls_reset();
    (void) temp_volume_add(store->volume, "u", "c", "c1", "note cat");
    temp_calls_fail(TEMP_CALL_LIST, "/agents", EIO, 0, 0);
    cr_expect_eq(bucket_check_run(check, REFRESH_CAUSE_PASS, "u", false, &verdict, NULL),
                 STATUS_IO);
    temp_calls_reset();
    (void) asked();
    cr_expect(run("u", false), "the listing that failed is made again");
    cr_expect(strstr(asked(), "u/c ") != NULL);
}

Test(bucket_check, after_the_index_was_lost_everything_is_asked_for_again)
{
    char path[PATH_MAX];

    temp_store_usual(store, false);
    create();
    cr_expect(!run("u", false)); /* its agents are listed now */
    test_join(path, store->index_directory, INDEX_FILE_NAME);
    test_remove_file(path);
    cr_assert(store_heal_index(store->store, NULL) == STATUS_OK);
    cr_expect(run("u", true));
    cr_expect_str_eq(asked(), "u/a u/b ");
}

Test(bucket_check, a_bucket_without_anything_need_not_be_watched)
{
    struct bucket_verdict verdict;

    temp_store_usual(store, false);
    create();
    cr_assert(bucket_check_run(check, REFRESH_CAUSE_PASS, "nobody", false, &verdict, NULL) ==
              STATUS_OK);
    cr_expect(verdict.empty && !verdict.changed);
    cr_assert(bucket_check_run(check, REFRESH_CAUSE_PASS, "u", false, &verdict, NULL) == STATUS_OK);
    cr_expect(!verdict.empty, "it is there");
    temp_volume_rename(store->volume, "users/u", "gone");
    cr_assert(bucket_check_run(check, REFRESH_CAUSE_PASS, "u", false, &verdict, NULL) == STATUS_OK);
    cr_expect(!verdict.empty && verdict.changed, "the index still has rows of it");
}
