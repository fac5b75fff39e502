#include "core/clock.h"

#include <criterion/criterion.h>

Test(clock, monotonic_time_never_goes_back)
{
    uint64_t before = clock_monotonic_ns();

    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_monotonic_ns();
        cr_assert_geq(now, before);
        before = now;
    }
}

Test(clock, wall_time_is_in_this_century)
{
    cr_expect_gt(clock_wall_ns(), UINT64_C(1700000000) * NS_PER_SECOND);
    cr_expect_lt(clock_wall_ns(), UINT64_C(4000000000) * NS_PER_SECOND);
}

Test(clock, tests_can_move_both_clocks)
{
    uint64_t monotonic = clock_monotonic_ns();
    uint64_t wall = clock_wall_ns();

    clock_advance_for_test(3600 * NS_PER_SECOND);
    cr_expect_geq(clock_monotonic_ns() - monotonic, 3600 * NS_PER_SECOND);
    cr_expect_lt(clock_monotonic_ns() - monotonic, 3700 * NS_PER_SECOND);
    cr_expect_geq(clock_wall_ns() - wall, 3600 * NS_PER_SECOND);
}

Test(clock, a_deadline_counts_down_and_ends_at_zero)
{
    uint64_t deadline = clock_deadline_ms(3600000);
    int remaining = clock_remaining_ms(deadline);

    cr_expect_gt(remaining, 3500000);
    cr_expect_leq(remaining, 3600000);
    clock_advance_for_test(3600 * NS_PER_SECOND);
    cr_expect_eq(clock_remaining_ms(deadline), 0);
    clock_advance_for_test(3600 * NS_PER_SECOND);
    cr_expect_eq(clock_remaining_ms(deadline), 0);
    cr_expect_eq(clock_remaining_ms(0), 0);
}

Test(clock, nothing_remains_only_when_the_deadline_has_passed)
{
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = clock_monotonic_ns() + 100 * NS_PER_US;
        while (clock_remaining_ms(deadline) > 0)
            continue;
        cr_assert_geq(clock_monotonic_ns(), deadline);
    }
}

Test(clock, far_deadlines_saturate)
{
    cr_expect_eq(clock_deadline_ms(UINT64_MAX), CLOCK_NEVER);
    cr_expect_eq(clock_deadline_ms(UINT64_MAX / NS_PER_MS), CLOCK_NEVER);
    cr_expect_eq(clock_remaining_ms(CLOCK_NEVER), INT32_MAX);
    cr_expect_eq(clock_remaining_ms(CLOCK_NEVER - 1), INT32_MAX);
}

Test(clock, time_is_written_in_utc_with_microseconds)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {999, "1970-01-01T00:00:00.000000Z"},
        {1000, "1970-01-01T00:00:00.000001Z"},
        {UINT64_C(1772352000750000000), "2026-03-01T08:00:00.750000Z"},
        {UINT64_C(1709164800000000000), "2024-02-29T00:00:00.000000Z"},
        {UINT64_MAX, "2554-07-21T23:34:33.709551Z"},
    };
    char text[CLOCK_TEXT_SIZE];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clock_format(cases[i].ns, text);
        cr_expect_str_eq(text, cases[i].text, "row %zu", i);
    }
}
