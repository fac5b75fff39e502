/* core/writer.h: writes from the lock to the index, alone and in groups. */
#include "core/writer.h"

#include "core/json_text.h"
#include "tests/unit/engine_checks.h"

static struct temp_store *store;
static struct writer *writer;

static void open_writer(void)
{
    const struct writer_options options = {.lock_timeout_ms = 2000};

    cr_assert_eq(writer_create(store->store, &options, &writer), STATUS_OK);
}

static void set_up(void)
{
    store = temp_store_create();
    captured_log_start();
}

static void tear_down(void)
{
    captured_log_stop();
    pause_reset();
    temp_calls_reset();
    writer_destroy(&writer);
    temp_store_destroy(&store);
}

TestSuite(writer, .init = set_up, .fini = tear_down, .timeout = 60);

/* What one write of these tests wants. */
struct wish {
    const char *id;
    const char *text; /* NULL: delete */
    bool has_manifest_revision;
    int64_t manifest_revision;
    unsigned asked; /* how often it was asked */
};

static enum status build(void *context, struct draft *draft, struct change_set *set,
                         struct error *error)
{
    struct wish *wish = context;
    struct change_upsert *upsert;

    wish->asked++;
    set->has_manifest_revision = wish->has_manifest_revision;
    set->manifest_revision = wish->manifest_revision;
    if (!wish->text)
        return change_set_add_delete(set, wish->id, NULL, error);
    AUTO_JSON json_t *fact = json_pack("{s:s,s:s}", "id", wish->id, "content", wish->text);
    enum status status =
        change_set_add_upsert(set, draft_scope(draft), fact, draft_wall_ns(draft), &upsert, error);
    if (status == STATUS_OK)
        upsert->expects = CHANGE_EXPECTS_ANYTHING;
    return status;
}

static enum status write_wish(const char *scope_name, struct wish *wish, struct write_result *ret,
                              struct error *error)
{
    struct scope scope;

    temp_store_scope(scope_name, &scope);
    struct write_request request = {
        .scope = &scope,
        .has_agent = true,
        .retries = true,
        .build = build,
        .context = wish,
        .deadline_ns = clock_deadline_ms(10000),
    };
    return writer_run(writer, &request, ret, error);
}

static struct write_result write_ok(const char *scope, const char *id, const char *text)
{
    struct wish wish = {.id = id, .text = text};
    struct write_result result = {0};
    struct error error = {0};

    cr_assert_eq(write_wish(scope, &wish, &result, &error), STATUS_OK, "%s", error.message);
    return result;
}

Test(writer, an_own_write_is_found_without_a_refresh)
{
    temp_store_usual(store, false);
    open_writer();
    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f3", "note three");
    cr_expect(result.changed);
    cr_expect(!result.index_behind);
    cr_expect_eq(result.attempts, 1);
    EXPECT_ASK(store, "u/a", "f1=one f2=two f3=three", "fresh", 0);
    EXPECT_ASK(store, "u/b", "g1=bee", "fresh", 0);
    cr_expect_eq(temp_volume_revision(store->volume, "u"), result.revision);
    cr_expect_eq(atomic_load(&store->store->counters.promoted), 1);
}

Test(writer, a_first_write_makes_the_user)
{
    temp_store_open(store);
    open_writer();
    AUTO_WRITE_RESULT struct write_result result = write_ok("new/a", "f1", "note one");
    cr_expect_eq(result.revision, 1);
    cr_expect(!result.index_behind, "nothing was there: the delta proves all");
    EXPECT_ASK(store, "new/a", "f1=one", "fresh", 0);
    AUTO_WRITE_RESULT struct write_result second = write_ok("new/a", "f1", "note uno");
    cr_expect_eq(second.revision, 2);
    EXPECT_ASK(store, "new/a", "f1=uno", "fresh", 0);
    AUTO_WRITE_RESULT struct write_result third = write_ok("new/a", "f1", NULL);
    cr_expect_eq(third.revision, 3);
    EXPECT_ASK(store, "new/a", "", "fresh", 0);
}

/* A row that no refresh has read has no stamp to be missed by. */
Test(writer, a_fact_of_ours_that_a_peer_deletes_is_gone)
{
    temp_store_usual(store, false);
    open_writer();
    AUTO_WRITE_RESULT struct write_result result = write_ok("u/a", "f3", "note three");
    temp_volume_delete(store->volume, "u", "a", "f3");
    EXPECT_ASK(store, "u/a", "f1=one f2=two", "refreshed", 1);
}
