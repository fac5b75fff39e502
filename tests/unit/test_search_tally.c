/* core/search_tally.h: one state a search, one reason a scope. */
#include "core/search_tally.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(search_tally, .timeout = 30);

static uint64_t searches(const struct search_tally *tally)
{
    struct histogram_reading reading;

    histogram_read(&tally->duration, &reading);
    return reading.up_to[HISTOGRAM_BOUNDS];
}

Test(search_tally, a_scope_has_one_reason)
{
    static const struct {
        enum status problem;
        bool looked, suspended;
        const char *reason;
    } cases[] = {
        {STATUS_OK, false, false, "not_compared"},
        {STATUS_OK, true, false, "changing"},
        {STATUS_BUSY, true, false, "busy"},
        {STATUS_TIMEOUT, false, false, "timeout"},
        {STATUS_UNAVAILABLE, false, true, "suspended"},
        {STATUS_UNAVAILABLE, false, false, "unavailable"},
        {STATUS_DENIED, false, false, "denied"},
        {STATUS_CORRUPT, true, false, "corrupt"},
        {STATUS_IO, false, false, "other"},
        {STATUS_NO_MEMORY, false, true, "other"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct search_tally tally = {0};
        struct scope_report report = {.state = SCOPE_STALE,
                                      .problem = cases[i].problem,
                                      .looked = cases[i].looked};
        search_tally_answered(&tally, &report, 1, cases[i].suspended, 1);
        for (unsigned reason = 0; reason < STALE_REASON_COUNT; reason++) {
            bool is_it =
                strcmp(stale_reason_name((enum stale_reason) reason), cases[i].reason) == 0;
            cr_expect_eq(tally.by_reason[reason], is_it, "row %zu, %u", i, reason);
        }
    }
}

Test(search_tally, a_search_counts_by_its_worst_scope_and_each_scope_by_its_reason)
{
    struct search_tally tally = {0};
    const struct scope_report reports[] = {
        {.state = SCOPE_REFRESHED, .looked = true},
        {.state = SCOPE_UNVERIFIED, .problem = STATUS_DENIED},
        {.state = SCOPE_STALE, .problem = STATUS_BUSY},
        {.state = SCOPE_FRESH, .looked = true},
    };

    search_tally_answered(&tally, reports, ARRAY_SIZE(reports), false, 40 * NS_PER_US);
    cr_expect_eq(tally.by_state[SCOPE_UNVERIFIED], 1);
    cr_expect_eq(tally.by_state[SCOPE_STALE] + tally.by_state[SCOPE_FRESH] +
                     tally.by_state[SCOPE_REFRESHED] + tally.failed,
                 0);
    cr_expect_eq(tally.by_reason[STALE_DENIED], 1);
    cr_expect_eq(tally.by_reason[STALE_BUSY], 1);
    cr_expect_eq(searches(&tally), 1);
    cr_expect_eq(tally.duration.sum_ns, 40 * NS_PER_US);
}

Test(search_tally, what_is_fresh_or_failed_has_no_reason)
{
    struct search_tally tally = {0};
    const struct scope_report report = {.state = SCOPE_REFRESHED, .looked = true};

    search_tally_answered(&tally, &report, 1, false, 1);
    search_tally_failed(&tally, 2);
    cr_expect_eq(tally.by_state[SCOPE_REFRESHED], 1);
    cr_expect_eq(tally.failed, 1);
    cr_expect_eq(searches(&tally), 2);
    for (unsigned reason = 0; reason < STALE_REASON_COUNT; reason++)
        cr_expect_eq(tally.by_reason[reason], 0, "%u", reason);
}
