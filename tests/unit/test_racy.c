/* core/racy.h: since when which stamps are known. */
#include "core/racy.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(racy, a_stamp_is_settled_once_it_was_met_again_after_the_whole_tick)
{
    const struct {
        uint64_t since_ns, looked_ns, settle_ns;
        bool expected;
    } cases[] = {
        {1000, 1000, 10, false},
        {1000, 1009, 10, false},
        {1000, 1010, 10, true},
        {1000, 5000, 10, true},
        {1000, 999, 10, false}, /* a look from before it was known */
        {1000, 0, 10, false},
        {0, 10, 10, true},
        {1000, 1000, 0, true},
        {1000, 999, 0, false},
        {UINT64_MAX - 1, UINT64_MAX, 2, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect(racy_is_settled(cases[i].since_ns, cases[i].looked_ns, cases[i].settle_ns) ==
                      cases[i].expected,
                  "row %zu", i);
}

Test(racy, what_nobody_noted_counts_as_seen_now)
{
    struct racy racy = {0};

    cr_expect_eq(racy_since(&racy, "ab/x.md", 500), 500);
    racy_note(&racy, "ab/x.md", 400); /* without a start nothing is remembered: that is safe */
    cr_expect_eq(racy_since(&racy, "ab/x.md", 500), 500);
    racy_clear(&racy);
}

Test(racy, single_paths_stand_before_the_base)
{
    struct racy racy = {0};

    racy_start(&racy, 100);
    cr_expect_eq(racy_since(&racy, "ab", 900), 100);
    racy_note(&racy, "ab/x.md", 300);
    cr_expect_eq(racy_since(&racy, "ab/x.md", 900), 300);
    cr_expect_eq(racy_since(&racy, "ab/y.md", 900), 100);
    racy_note(&racy, "ab/x.md", 350); /* it changed once more */
    cr_expect_eq(racy_since(&racy, "ab/x.md", 900), 350);
    cr_expect_eq(racy.count, 1);
    racy_start(&racy, 800);
    cr_expect_eq(racy_since(&racy, "ab/x.md", 900), 800);
    racy_clear(&racy);
    cr_expect_eq(racy_since(&racy, "ab/y.md", 900), 900);
}

/* Forgetting may make a stamp younger, never older. */
Test(racy, beyond_its_bound_everything_counts_as_seen_now)
{
    struct racy racy = {0};
    char path[32];

    racy_start(&racy, 100);
    for (unsigned i = 0; i < RACY_PATHS_MAX; i++) {
        (void) snprintf(path, sizeof path, "ab/f%u.md", i);
        racy_note(&racy, path, 200 + i);
    }
    cr_expect_eq(racy.count, RACY_PATHS_MAX);
    cr_expect_eq(racy_since(&racy, "ab/f0.md", 9000), 200);
    racy_note(&racy, "ab/one-more.md", 5000);
    cr_expect_eq(racy.count, 0);
    for (unsigned i = 0; i < RACY_PATHS_MAX; i++) {
        (void) snprintf(path, sizeof path, "ab/f%u.md", i);
        cr_expect_eq(racy_since(&racy, path, 9000), 5000);
    }
    cr_expect_eq(racy_since(&racy, "never/noted.md", 9000), 5000);
    racy_clear(&racy);
}
