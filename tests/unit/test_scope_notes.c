/* core/scope_notes.h: what the process remembers beside the index. */
#include "core/scope_notes.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

static struct scope_notes *notes;

static void set_up(void)
{
    cr_assert(scope_notes_create(&notes) == STATUS_OK);
}

static void tear_down(void)
{
    scope_notes_destroy(&notes);
    cr_expect(notes == NULL);
    scope_notes_destroy(&notes);
}

TestSuite(scope_notes, .init = set_up, .fini = tear_down, .timeout = 30);

static struct scope scope_of(const char *user, const char *agent)
{
    struct scope scope;

    cr_assert(scope_create(user, agent, &scope, NULL) == STATUS_OK);
    return scope;
}

Test(scope_notes, the_latest_look_counts)
{
    struct scope scope = scope_of("ada", "desk");

    cr_expect_eq(scope_notes_last_in_step(notes, &scope), 0);
    scope_notes_in_step(notes, &scope, 500);
    cr_expect_eq(scope_notes_last_in_step(notes, &scope), 500);
    scope_notes_in_step(notes, &scope, 400); /* a slow thread brings an older look */
    cr_expect_eq(scope_notes_last_in_step(notes, &scope), 500);
    scope_notes_in_step(notes, &scope, 600);
    cr_expect_eq(scope_notes_last_in_step(notes, &scope), 600);
}

Test(scope_notes, scopes_are_told_apart)
{
    const struct scope scopes[] = {scope_of("ada", "desk"), scope_of("ada", "door"),
                                   scope_of("bob", "desk"), scope_of(NULL, "desk"),
                                   scope_of(NULL, NULL)};

    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
        for (size_t k = i; k < ARRAY_SIZE(scopes); k++)
            cr_expect_eq(scope_notes_last_in_step(notes, &scopes[k]), 0);
        scope_notes_in_step(notes, &scopes[i], 100 + i);
    }
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        cr_expect_eq(scope_notes_last_in_step(notes, &scopes[i]), 100 + i);
}

Test(scope_notes, a_state_is_told_once_a_change)
{
    const struct {
        enum status status;
        bool told;
        uint64_t failing;
    } steps[] = {
        {STATUS_OK, false, 0}, {STATUS_CORRUPT, true, 1}, {STATUS_CORRUPT, false, 1},
        {STATUS_IO, true, 1},  {STATUS_IO, false, 1},     {STATUS_OK, true, 0},
        {STATUS_OK, false, 0}, {STATUS_DENIED, true, 1},  {STATUS_OK, true, 0},
    };
    struct scope scope = scope_of("ada", "desk");
    struct scope other = scope_of("bob", "desk");

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        cr_expect(scope_notes_outcome(notes, &scope, steps[i].status, 0, i + 1) == steps[i].told,
                  "step %zu", i);
        cr_expect_eq(scope_notes_failing(notes), steps[i].failing);
    }
    cr_expect(scope_notes_outcome(notes, &other, STATUS_IO, 0, 1), "each scope by itself");
    cr_expect_eq(scope_notes_failing(notes), 1);
}

/* Writers at work are no alarm; one that never ends is. */
Test(scope_notes, who_is_busy_fails_only_when_it_lasts)
{
    const struct {
        unsigned second;
        enum status status;
        bool told;
        uint64_t failing;
    } steps[] = {
        {1, STATUS_BUSY, false, 0},  {10, STATUS_BUSY, false, 0}, {10, STATUS_OK, false, 0},
        {12, STATUS_BUSY, false, 0}, {21, STATUS_BUSY, false, 0}, {22, STATUS_BUSY, true, 1},
        {60, STATUS_BUSY, false, 1}, {61, STATUS_OK, true, 0},    {62, STATUS_IO, true, 1},
        {63, STATUS_BUSY, false, 1}, {64, STATUS_IO, false, 1},   {70, STATUS_BUSY, false, 1},
        {80, STATUS_BUSY, true, 1},  {81, STATUS_OK, true, 0},
    };
    struct scope scope = scope_of("ada", "desk");

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        uint64_t now_ns = steps[i].second * NS_PER_SECOND;
        cr_expect(scope_notes_outcome(notes, &scope, steps[i].status, 0, now_ns) == steps[i].told,
                  "step %zu", i);
        cr_expect_eq(scope_notes_failing(notes), steps[i].failing, "step %zu", i);
    }
}

Test(scope_notes, want_of_descriptors_is_a_failure_at_once)
{
    struct scope scope = scope_of("ada", "desk");

    cr_expect(!scope_notes_outcome(notes, &scope, STATUS_BUSY, 0, 1));
    cr_expect(scope_notes_outcome(notes, &scope, STATUS_BUSY, EMFILE, 2));
    cr_expect_eq(scope_notes_failing(notes), 1);
}

Test(scope_notes, they_grow_and_keep_what_they_hold)
{
    char user[16];

    for (unsigned i = 1; i <= 5000; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        struct scope scope = scope_of(user, "desk");
        scope_notes_in_step(notes, &scope, i);
        if (i % 10 == 0)
            cr_assert(scope_notes_outcome(notes, &scope, STATUS_IO, 0, i));
    }
    for (unsigned i = 1; i <= 5000; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        struct scope scope = scope_of(user, "desk");
        cr_assert_eq(scope_notes_last_in_step(notes, &scope), i);
    }
    cr_expect_eq(scope_notes_failing(notes), 500);
}
