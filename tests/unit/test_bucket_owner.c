/* core/bucket_owner.h: whose a directory below users/ is. */
#include "core/bucket_owner.h"

#include "tests/unit/engine_checks.h"

static struct temp_store *store;
static char owner[SCOPE_USER_MAX + 1];

static void set_up(void)
{
    store = temp_store_create();
    store->options.calls = temp_calls();
    temp_store_open(store);
}

static void tear_down(void)
{
    temp_calls_reset();
    temp_store_destroy(&store);
}

TestSuite(bucket_owner, .init = set_up, .fini = tear_down, .timeout = 60);

static enum status find(const char *bucket)
{
    owner[0] = '\0';
    return bucket_owner_find(&store->store->source, bucket, owner, NULL);
}

/* An id that is no directory name gets one with a digest. */
static void bucket_of(const char *user, char ret[SCOPE_NAME_MAX + 1])
{
    cr_assert(scope_bucket_of_user(user, ret, NULL) == STATUS_OK);
    cr_assert(scope_bucket_is_ambiguous(ret), "%s", ret);
}

Test(bucket_owner, a_plain_name_tells_by_itself)
{
    cr_expect_eq(find("ada"), STATUS_OK);
    cr_expect_str_eq(owner, "ada");
}

Test(bucket_owner, a_name_with_a_digest_is_told_by_a_fact_in_it)
{
    char bucket[SCOPE_NAME_MAX + 1];

    bucket_of("ada@example.org", bucket);
    cr_expect_eq(find(bucket), STATUS_NOT_FOUND);
    (void) temp_volume_summary(store->volume, "ada@example.org", NULL);
    cr_expect_eq(find(bucket), STATUS_NOT_FOUND, "a manifest does not tell");
    (void) temp_volume_add(store->volume, "ada@example.org", "desk", "f1", "note one");
    cr_expect_eq(find(bucket), STATUS_OK);
    cr_expect_str_eq(owner, "ada@example.org");
}

/* A raw id may look like that as well: it has the directory of its own name. */
Test(bucket_owner, a_raw_id_that_ends_like_a_digest)
{
    static const char raw[] = "ada-0123456789abcdef";

    cr_assert(scope_bucket_is_ambiguous(raw));
    (void) temp_volume_add(store->volume, raw, "desk", "f1", "note one");
    cr_expect_eq(find(raw), STATUS_OK);
    cr_expect_str_eq(owner, raw);
}

Test(bucket_owner, broken_and_foreign_facts_do_not_tell)
{
    char bucket[SCOPE_NAME_MAX + 1];
    char path[SCOPE_PATH_MAX];
    const struct temp_change change = {.kind = TEMP_ADD, .id = "f2", .text = "note"};
    AUTO_FREE char *foreign = temp_fact_render("mallory", "desk", &change, NULL, NULL, 1);

    bucket_of("ada@example.org", bucket);
    (void) snprintf(path, sizeof path, "users/%s/agents/desk/facts/aa/f1.md", bucket);
    temp_volume_write(store->volume, path, "no fact", 7);
    (void) snprintf(path, sizeof path, "users/%s/agents/desk/facts/aa/f2.md", bucket);
    temp_volume_write(store->volume, path, foreign, strlen(foreign));
    cr_expect_eq(find(bucket), STATUS_NOT_FOUND);
    (void) temp_volume_add(store->volume, "ada@example.org", "zoo", "f3", "note");
    cr_expect_eq(find(bucket), STATUS_OK);
    cr_expect_str_eq(owner, "ada@example.org");
}

Test(bucket_owner, only_a_few_files_are_read)
{
    char bucket[SCOPE_NAME_MAX + 1];
    char path[SCOPE_PATH_MAX];

    bucket_of("ada@example.org", bucket);
    for (unsigned i = 0; i < 100; i++) {
        (void) snprintf(path, sizeof path, "users/%s/agents/desk/facts/aa/f%u.md", bucket, i);
        temp_volume_write(store->volume, path, "no fact", 7);
    }
    temp_calls_count(TEMP_CALL_OPEN, ".md");
    cr_expect_eq(find(bucket), STATUS_NOT_FOUND);
    cr_expect(temp_calls_counted() <= 32, "%u", temp_calls_counted());
}

Test(bucket_owner, a_directory_that_is_not_there)
{
    char bucket[SCOPE_NAME_MAX + 1];

    bucket_of("nobody@example.org", bucket);
    cr_expect_eq(find(bucket), STATUS_NOT_FOUND);
    temp_calls_fail(TEMP_CALL_OPEN, bucket, EIO, 0, 0);
    cr_expect_eq(find(bucket), STATUS_IO);
}
