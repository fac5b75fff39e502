/* core/migration_summaries.h: which summaries an agent's old file adds. Pure. */
#include "core/migration_summaries.h"

#include <criterion/criterion.h>
#include <string.h>

/* The merge of two JSON texts ("" = there is no manifest): what is to be written, or the cause. */
static void expect_merge(const char *user, const char *agent, enum status expected,
                         const char *expected_text)
{
    AUTO_JSON json_t *user_root = *user ? json_loads(user, 0, NULL) : NULL;
    AUTO_JSON json_t *agent_root = json_loads(agent, 0, NULL);
    AUTO_JSON json_t *summaries = NULL;
    char cause[ERROR_MESSAGE_MAX] = "";

    cr_assert_not_null(agent_root);
    cr_expect_eq(migration_merge_summaries(user_root, agent_root, &summaries, cause), expected);
    AUTO_FREE char *text = summaries ? json_dumps(summaries, JSON_COMPACT) : strdup(cause);
    cr_expect_str_eq(text, expected_text);
}

#define FULL "{\"user\":{\"topOfMind\":{\"summary\":\"Bees.\",\"updatedAt\":\"x\"}}}"

Test(migration_summaries, empty_sections_are_filled)
{
    expect_merge("", FULL, STATUS_OK, FULL);
    expect_merge("{}", FULL, STATUS_OK, FULL);
    expect_merge("{\"user\":null}", FULL, STATUS_OK, FULL);
    expect_merge("{\"user\":{\"topOfMind\":{\"summary\":\"\"}}}", FULL, STATUS_OK, FULL);
    expect_merge("{\"user\":{\"other\":{\"summary\":\"Else.\"}}}", FULL, STATUS_OK, FULL);
}

Test(migration_summaries, what_is_there_already_or_says_nothing_is_passed_over)
{
    expect_merge(FULL, FULL, STATUS_OK, "{}");
    expect_merge("{\"user\":{\"topOfMind\":{\"summary\":\"Bees.\",\"updatedAt\":\"y\"}}}", FULL,
                 STATUS_OK, "{}");
    expect_merge(FULL, "{}", STATUS_OK, "{}");
    expect_merge(FULL, "{\"user\":null,\"history\":{\"recentMonths\":null}}", STATUS_OK, "{}");
    expect_merge(FULL, "{\"user\":{\"topOfMind\":{\"summary\":\"\"}}}", STATUS_OK, "{}");
}

Test(migration_summaries, what_disagrees_or_is_no_section_is_refused)
{
    expect_merge("{\"user\":{\"topOfMind\":{\"summary\":\"Wasps.\"}}}", FULL, STATUS_CONFLICT,
                 "user.topOfMind is not what the user's manifest has");
    expect_merge("", "{\"history\":[]}", STATUS_CONFLICT, "history is no mapping");
    expect_merge("", "{\"history\":{\"recentMonths\":\"text\"}}", STATUS_CONFLICT,
                 "history.recentMonths is no mapping");
}
