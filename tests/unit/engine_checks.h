/* tests/unit/engine_checks.h - what the tests of the engine say of an answer. */
#ifndef MEMSYNC_TESTS_ENGINE_CHECKS_H
#define MEMSYNC_TESTS_ENGINE_CHECKS_H

#include "core/clock.h"
#include "core/pause_point.h"
#include "tests/support/captured_log.h"
#include "tests/support/files.h"
#include "tests/support/temp_calls.h"
#include "tests/support/temp_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 20000 /* only a failing test waits for it */

/* An answer with its facts, its states and the refreshes that it cost. */
static UNUSED void check_answer(const struct temp_answer *answer, const char *facts,
                                const char *states, uint64_t refreshes, int line)
{
    cr_expect(answer->status == STATUS_OK, "line %d: %s: %s", line, status_name(answer->status),
              answer->error.message);
    cr_expect(strcmp(answer->facts, facts) == 0, "line %d: found {%s} instead of {%s}", line,
              answer->facts, facts);
    cr_expect(strcmp(answer->states, states) == 0, "line %d: %s instead of %s", line,
              answer->states, states);
    cr_expect(answer->refreshes == refreshes, "line %d: %d refreshes instead of %d", line,
              (int) answer->refreshes, (int) refreshes);
}

#define EXPECT_ASK(store, scopes, facts, states, refreshes)                                        \
    do {                                                                                           \
        struct temp_answer answer_ = temp_store_ask(store, scopes);                                \
        check_answer(&answer_, facts, states, refreshes, __LINE__);                                \
    } while (0)

/* The search that finds a change, and the next one, which finds nothing to do. */
#define EXPECT_REFRESHED(store, scopes, facts)                                                     \
    do {                                                                                           \
        EXPECT_ASK(store, scopes, facts, "refreshed", 1);                                          \
        EXPECT_ASK(store, scopes, facts, "fresh", 0);                                              \
    } while (0)

static UNUSED void expect_state(struct temp_store *store, const char *scope, const char *state,
                                int line)
{
    const char *found = temp_store_state(store, scope);

    cr_expect(strcmp(found, state) == 0, "line %d: %s is %s instead of %s", line, scope, found,
              state);
}
#define EXPECT_STATE(store, scope, state) expect_state(store, scope, state, __LINE__)

static UNUSED bool engine_runs_as_root(void)
{
    return geteuid() == 0;
}

#endif
