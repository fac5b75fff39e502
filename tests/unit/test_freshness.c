/* core/freshness.h: when rows may be called fresh. */
#include "core/freshness.h"

#include "core/compiler.h"

#include <criterion/criterion.h>
#include <string.h>

static struct manifest_mark mark_of(int64_t revision)
{
    return (struct manifest_mark){
        .signature = {.mtime_ns = 1000, .size = 200, .revision = revision, .digest = 0xabc},
        .inode = 7,
        .ctime_ns = 1001,
    };
}

Test(freshness, every_part_of_the_mark_counts)
{
    const struct synced_mark synced = {.known = true, .mark = mark_of(5)};
    struct live_state live = {.mark = mark_of(5)};

    cr_expect(freshness_in_step(&synced, 3, &live, true));
    uint64_t *const parts[] = {&live.mark.signature.mtime_ns, &live.mark.signature.size,
                               &live.mark.signature.digest, &live.mark.inode, &live.mark.ctime_ns};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        live.mark = mark_of(5);
        ++*parts[i];
        cr_expect(!freshness_in_step(&synced, 3, &live, true), "part %zu", i);
        *parts[i] -= 2;
        cr_expect(!freshness_in_step(&synced, 3, &live, true), "part %zu, an older value", i);
    }
    live.mark = mark_of(6);
    cr_expect(!freshness_in_step(&synced, 3, &live, true));
    live.mark = mark_of(4);
    cr_expect(!freshness_in_step(&synced, 3, &live, true), "a revision that went back");
}

Test(freshness, inodes_that_are_not_stable_prove_nothing)
{
    const struct synced_mark synced = {.known = true, .mark = mark_of(5)};
    struct live_state live = {.mark = mark_of(5)};

    live.mark.inode++;
    live.mark.ctime_ns++;
    cr_expect(freshness_in_step(&synced, 3, &live, false));
    live.mark.signature.digest++;
    cr_expect(!freshness_in_step(&synced, 3, &live, false));
}

Test(freshness, rows_that_nothing_vouches_for_are_never_in_step)
{
    struct synced_mark synced = {.known = false, .mark = mark_of(5)};
    const struct live_state live = {.mark = mark_of(5)};
    const struct live_state nothing = {.mark = {.signature = {.absent = true}}, .bare = false};

    cr_expect(!freshness_in_step(&synced, 0, &live, true));
    synced.known = true;
    synced.mark = nothing.mark;
    cr_expect(!freshness_in_step(&synced, 0, &live, true), "there was no manifest, now there is");
}

/* An absent manifest looks like any other absent one, so it proves only that there is nothing. */
Test(freshness, no_manifest_is_in_step_only_with_nothing_on_either_side)
{
    const struct manifest_mark absent = {.signature = {.absent = true}};
    const struct {
        struct synced_mark synced;
        uint64_t facts;
        bool bare, expected;
    } cases[] = {
        {{.known = true, .mark = absent}, 0, true, true},   {{.known = false}, 0, true, true},
        {{.known = true, .mark = absent}, 1, true, false},  /* rows of facts that went */
        {{.known = true, .mark = absent}, 0, false, false}, /* facts that came */
        {{.known = true, .mark = absent}, 2, false, false}, /* facts that may be others */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct live_state live = {.mark = absent, .bare = cases[i].bare};
        cr_expect(freshness_in_step(&cases[i].synced, cases[i].facts, &live, true) ==
                      cases[i].expected,
                  "row %zu", i);
    }
}

Test(freshness, modes_and_states_have_the_names_of_the_protocol)
{
    static const char *const modes[] = {"strict", "bounded", "local"};
    static const char *const states[] = {"fresh", "refreshed", "stale", "unverified"};
    static const char *const others[] = {"", "Strict", "stricter", "fresh", "loca"};
    enum freshness_mode mode = FRESHNESS_LOCAL;

    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        cr_expect(freshness_mode_from_name(modes[i], &mode) && mode == (enum freshness_mode) i);
        cr_expect_str_eq(freshness_mode_name((enum freshness_mode) i), modes[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(states); i++)
        cr_expect_str_eq(scope_state_name((enum scope_state) i), states[i]);
    mode = FRESHNESS_BOUNDED;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        cr_expect(!freshness_mode_from_name(others[i], &mode) && mode == FRESHNESS_BOUNDED, "%s",
                  others[i]);
}
