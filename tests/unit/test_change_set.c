/* core/change_set.h: what a caller may ask for. Pure. */
#include "core/change_set.h"

#include "core/clock.h"
#include "core/json_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define WALL_NS UINT64_C(1790000000000000000)

static struct scope scope;
static struct change_set set;

static void set_up(void)
{
    cr_assert_eq(scope_create("u", "a", &scope, NULL), STATUS_OK);
    set = (struct change_set){0};
}

static void tear_down(void)
{
    change_set_destroy(&set);
}

TestSuite(change_set, .init = set_up, .fini = tear_down);

static enum status add(const char *fact_text, struct change_upsert **ret, struct error *error)
{
    AUTO_JSON json_t *fact = json_loads(fact_text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(fact);
    return change_set_add_upsert(&set, &scope, fact, WALL_NS, ret, error);
}

Test(change_set, a_fact_is_completed_and_new_unless_it_says_otherwise)
{
    struct change_upsert *upsert = NULL;
    char now[CLOCK_TEXT_SIZE];

    clock_format(WALL_NS, now);
    cr_assert_eq(add("{\"id\": \"f1\", \"content\": \" One. \"}", &upsert, NULL), STATUS_OK);
    cr_expect_eq(upsert->expects, CHANGE_EXPECTS_ABSENT);
    cr_expect(!upsert->has_own_revision);
    cr_expect_str_eq(upsert->id, "f1");
    cr_expect_str_eq(json_string_value(json_object_get(upsert->fact, "content")), "One.");
    cr_expect_str_eq(json_string_value(json_object_get(upsert->fact, "createdAt")), now);

    cr_assert_eq(add("{\"id\": \"f2\", \"content\": \"Two.\", \"revision\": 4}", &upsert, NULL),
                 STATUS_OK);
    cr_expect_eq(upsert->expects, CHANGE_EXPECTS_REVISION);
    cr_expect(upsert->has_own_revision);
    cr_expect_eq(upsert->revision, 4);
    cr_expect_eq(upsert->own_revision, 4);
    cr_expect_eq(set.upsert_count, 2);
}

Test(change_set, an_id_is_made_up_where_there_is_none)
{
    struct change_upsert *upsert = NULL;

    cr_assert_eq(add("{\"content\": \"One.\"}", &upsert, NULL), STATUS_OK);
    cr_expect(fact_id_is_valid(upsert->id));
    char first[FACT_ID_MAX + 1];
    (void) snprintf(first, sizeof first, "%s", upsert->id);
    cr_assert_eq(add("{\"content\": \"One.\"}", &upsert, NULL), STATUS_OK);
    cr_expect_str_neq(upsert->id, first);
}

Test(change_set, what_is_no_fact_is_refused_and_not_taken)
{
    static const char *const refused[] = {
        "[]",
        "null",
        "\"text\"",
        "{}",
        "{\"content\": \"\"}",
        "{\"content\": \" \\n \"}",
        "{\"content\": 7}",
        "{\"content\": null}",
        "{\"id\": \"a/b\", \"content\": \"x\"}",
        "{\"id\": \"..\", \"content\": \"x\"}",
        "{\"id\": 7, \"content\": \"x\"}",
        "{\"content\": \"x\", \"revision\": \"one\"}",
        "{\"content\": \"x\", \"revision\": 0}",
        "{\"content\": \"x\", \"confidence\": \"high\"}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct error error = {0};
        cr_expect_eq(add(refused[i], NULL, &error), STATUS_INVALID, "%s", refused[i]);
        cr_expect(error.message[0], "%s", refused[i]);
    }
    cr_expect_eq(set.upsert_count, 0);
    cr_expect_eq(change_set_check(&set, NULL), STATUS_OK);
}

Test(change_set, a_complete_fact_is_taken_as_it_is)
{
    AUTO_JSON json_t *fact = json_pack("{s:s,s:i}", "id", "f1", "revision", 7);
    AUTO_JSON json_t *bare = json_object();
    AUTO_JSON json_t *odd = json_pack("{s:s}", "id", "f/1");

    cr_assert_eq(change_set_add_complete(&set, fact, NULL), STATUS_OK);
    cr_assert_eq(set.upsert_count, 1);
    cr_expect(set.upserts[0].fact == fact);
    cr_expect_eq(set.upserts[0].expects, CHANGE_EXPECTS_ABSENT);
    cr_expect(!set.upserts[0].has_own_revision);
    cr_expect_eq(change_set_add_complete(&set, bare, NULL), STATUS_INVALID);
    cr_expect_eq(change_set_add_complete(&set, odd, NULL), STATUS_INVALID);
    cr_expect_eq(set.upsert_count, 1);
}

Test(change_set, a_removal_names_an_id)
{
    struct change_delete *removal = NULL;
    struct error error = {0};

    cr_expect_eq(change_set_add_delete(&set, "../f1", &removal, &error), STATUS_INVALID);
    cr_expect_eq(change_set_add_delete(&set, "", &removal, &error), STATUS_INVALID);
    cr_assert_eq(change_set_add_delete(&set, "f1", &removal, &error), STATUS_OK);
    cr_expect_str_eq(removal->id, "f1");
    cr_expect(!removal->has_revision);
    cr_expect_eq(change_set_add_delete(&set, "f2", NULL, NULL), STATUS_OK);
    cr_expect_eq(set.delete_count, 2);
}

Test(change_set, each_id_comes_once)
{
    struct error error = {0};

    cr_assert_eq(add("{\"id\": \"f1\", \"content\": \"One.\"}", NULL, NULL), STATUS_OK);
    cr_assert_eq(change_set_add_delete(&set, "f2", NULL, NULL), STATUS_OK);
    cr_expect_eq(change_set_check(&set, &error), STATUS_OK);
    cr_assert_eq(change_set_add_delete(&set, "f1", NULL, NULL), STATUS_OK);
    cr_expect_eq(change_set_check(&set, &error), STATUS_INVALID);
    cr_expect(strstr(error.message, "f1"), "%s", error.message);
}

Test(change_set, twins_among_facts_and_among_removals_are_seen)
{
    cr_assert_eq(add("{\"id\": \"f1\", \"content\": \"One.\"}", NULL, NULL), STATUS_OK);
    cr_assert_eq(add("{\"id\": \"f3\", \"content\": \"One.\"}", NULL, NULL), STATUS_OK);
    cr_assert_eq(add("{\"id\": \"f1\", \"content\": \"Two.\"}", NULL, NULL), STATUS_OK);
    cr_expect_eq(change_set_check(&set, NULL), STATUS_INVALID);
    change_set_destroy(&set);
    cr_assert_eq(change_set_add_delete(&set, "f1", NULL, NULL), STATUS_OK);
    cr_assert_eq(change_set_add_delete(&set, "f2", NULL, NULL), STATUS_OK);
    cr_assert_eq(change_set_add_delete(&set, "f1", NULL, NULL), STATUS_OK);
    cr_expect_eq(change_set_check(&set, NULL), STATUS_INVALID);
}

Test(change_set, more_facts_than_a_commit_takes_are_too_many)
{
    char id[16];

    for (unsigned i = 0; i < CHANGE_SET_FACTS_MAX; i++) {
        (void) snprintf(id, sizeof id, "f%u", i);
        cr_assert_eq(change_set_add_delete(&set, id, NULL, NULL), STATUS_OK);
    }
    cr_expect_eq(change_set_check(&set, NULL), STATUS_OK);
    cr_assert_eq(add("{\"id\": \"g\", \"content\": \"x\"}", NULL, NULL), STATUS_OK);
    cr_expect_eq(change_set_check(&set, NULL), STATUS_TOO_LARGE);
}

static enum status set_summaries(const char *text, struct error *error)
{
    AUTO_JSON json_t *summaries = json_loads(text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(summaries);
    return change_set_set_summaries(&set, summaries, error);
}

Test(change_set, summaries_are_objects_of_sections)
{
    static const char *const refused[] = {
        "[]", "null", "7", "{\"user\": []}", "{\"history\": 7}", "{\"user\": null}"};
    struct error error = {0};

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        cr_expect_eq(set_summaries(refused[i], &error), STATUS_INVALID, "%s", refused[i]);
    cr_expect_null(set.summaries);
    cr_assert_eq(set_summaries("{\"user\": {\"a\": 1}, \"facts\": [1], \"version\": 9}", &error),
                 STATUS_OK);
    AUTO_JSON json_t *kept = json_loads("{\"user\": {\"a\": 1}}", 0, NULL);
    cr_expect(json_equal(set.summaries, kept));
    cr_assert_eq(set_summaries("{\"history\": {}}", &error), STATUS_OK);
    cr_expect_null(json_object_get(set.summaries, "user"), "the last ones count");
}

Test(change_set, only_facts_with_a_say_of_their_own_can_be_rebased)
{
    struct change_delete *removal = NULL;

    set.may_rebase = true;
    cr_expect(!change_set_can_rebase(&set), "nothing in it");
    cr_assert_eq(add("{\"id\": \"f1\", \"content\": \"One.\"}", NULL, NULL), STATUS_OK);
    cr_expect(change_set_can_rebase(&set));
    set.may_rebase = false;
    cr_expect(!change_set_can_rebase(&set));
    set.may_rebase = true;
    cr_assert_eq(change_set_add_delete(&set, "f2", &removal, NULL), STATUS_OK);
    cr_expect(!change_set_can_rebase(&set), "a removal without a revision");
    removal->has_revision = true;
    cr_expect(change_set_can_rebase(&set));
    cr_assert_eq(set_summaries("{}", NULL), STATUS_OK);
    cr_expect(!change_set_can_rebase(&set), "summaries have no revision of their own");
}
