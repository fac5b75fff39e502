/* Time is an argument here: no test waits. */
#include "core/clock.h"
#include "core/watch_poll.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

/* Criterion's macros put an int into a bit field. */
#pragma GCC diagnostic ignored "-Wconversion"

#define SECOND NS_PER_SECOND

static struct watch_poll *make(uint64_t min_ns, uint64_t max_ns, unsigned rate)
{
    const struct watch_poll_options options = {
        .interval_min_ns = min_ns,
        .interval_max_ns = max_ns,
        .operations_per_second = rate,
    };
    struct watch_poll *poll = NULL;

    cr_assert(eq(int, watch_poll_create(&options, &poll), STATUS_OK));
    return poll;
}

/* The next bucket's name, or "-" when nothing is due. */
static const char *next(struct watch_poll *poll, uint64_t now_ns)
{
    bool has_user = false;
    const char *bucket = NULL;

    return watch_poll_next(poll, now_ns, &has_user, &bucket) ? bucket : "-";
}

static void add(struct watch_poll *poll, const char *bucket, uint64_t now_ns)
{
    cr_assert(eq(int, watch_poll_add(poll, true, bucket, now_ns), STATUS_OK));
}

/* Looks at one bucket for `span_ns`, always at once, and counts. */
static unsigned count_looks(struct watch_poll *poll, const char *bucket, uint64_t from_ns,
                            uint64_t span_ns, bool changed)
{
    unsigned count = 0;
    uint64_t now_ns = from_ns;

    while (now_ns < from_ns + span_ns) {
        const char *name = next(poll, now_ns);
        if (strcmp(name, "-") == 0) {
            now_ns += watch_poll_wait_ns(poll, now_ns);
            continue;
        }
        count += strcmp(name, bucket) == 0 ? 1 : 0;
        watch_poll_done(poll, true, name, changed, now_ns);
    }
    return count;
}

Test(watch_poll, refuses_options_that_cannot_work)
{
    const struct watch_poll_options cases[] = {
        {0, SECOND, 10},
        {2 * SECOND, SECOND, 10},
        {SECOND, SECOND, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct watch_poll *poll = NULL;
        cr_expect(eq(int, watch_poll_create(&cases[i], &poll), STATUS_INVALID), "row %zu", i);
        cr_expect(eq(ptr, poll, NULL), "row %zu", i);
    }
}

Test(watch_poll, a_new_bucket_is_due_at_once_and_only_once)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    cr_expect(eq(u64, watch_poll_wait_ns(poll, 5), CLOCK_NEVER));
    add(poll, "u1", 5);
    add(poll, "u1", 5);
    cr_expect(eq(sz, watch_poll_count(poll), 1));
    cr_expect(eq(u64, watch_poll_wait_ns(poll, 5), 0));
    cr_expect_str_eq(next(poll, 5), "u1");
    cr_expect_str_eq(next(poll, 5), "-", "nobody reported yet");
    watch_poll_destroy(&poll);
    cr_expect(eq(ptr, poll, NULL));
    watch_poll_destroy(&poll);
}

Test(watch_poll, the_root_and_a_user_are_different_buckets)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);
    bool has_user = true;
    const char *bucket = NULL;

    cr_assert(eq(int, watch_poll_add(poll, false, "", 0), STATUS_OK));
    add(poll, "u1", 0);
    cr_assert(watch_poll_next(poll, 0, &has_user, &bucket));
    cr_expect(not(has_user));
    cr_expect_str_eq(bucket, "");
    cr_assert(watch_poll_next(poll, 0, &has_user, &bucket));
    cr_expect(has_user);
    watch_poll_remove(poll, false, "");
    cr_expect(eq(sz, watch_poll_count(poll), 1));
    watch_poll_destroy(&poll);
}

Test(watch_poll, an_idle_bucket_waits_twice_as_long_each_time_up_to_the_maximum)
{
    const uint64_t waits_s[] = {2, 4, 8, 10, 10, 10};
    struct watch_poll *poll = make(SECOND, 10 * SECOND, 1000);
    uint64_t now_ns = 7 * SECOND;

    add(poll, "u1", now_ns);
    cr_assert_str_eq(next(poll, now_ns), "u1");
    watch_poll_done(poll, true, "u1", true, now_ns);
    now_ns += SECOND;
    for (size_t i = 0; i < ARRAY_SIZE(waits_s); i++) {
        cr_assert_str_eq(next(poll, now_ns), "u1", "row %zu", i);
        watch_poll_done(poll, true, "u1", false, now_ns);
        cr_expect(eq(u64, watch_poll_wait_ns(poll, now_ns), waits_s[i] * SECOND), "row %zu", i);
        cr_expect_str_eq(next(poll, now_ns + waits_s[i] * SECOND - 1), "-");
        now_ns += waits_s[i] * SECOND;
    }
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_bucket_that_nobody_asked_for_is_idle_from_the_start)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    add(poll, "u1", 0);
    cr_assert_str_eq(next(poll, 0), "u1");
    watch_poll_done(poll, true, "u1", false, 0);
    cr_expect(eq(u64, watch_poll_wait_ns(poll, 0), 60 * SECOND));
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_bucket_that_changed_or_was_searched_is_polled_often_again)
{
    for (int searched = 0; searched < 2; searched++) {
        struct watch_poll *poll = make(SECOND, 64 * SECOND, 1000);

        add(poll, "u1", 0);
        (void) count_looks(poll, "u1", 0, 600 * SECOND, false);
        if (searched) {
            watch_poll_touch(poll, true, "u1", 600 * SECOND);
        } else {
            watch_poll_all_due(poll, 600 * SECOND);
            cr_assert_str_eq(next(poll, 600 * SECOND), "u1");
            watch_poll_done(poll, true, "u1", true, 600 * SECOND);
        }
        cr_expect(le(u64, watch_poll_wait_ns(poll, 600 * SECOND), SECOND), "searched %d", searched);
        watch_poll_destroy(&poll);
    }
}

Test(watch_poll, steady_searches_do_not_keep_a_bucket_from_being_polled)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);
    unsigned looks = 0;

    add(poll, "u1", 0);
    for (uint64_t now_ns = 0; now_ns < 10 * SECOND; now_ns += SECOND / 10) {
        watch_poll_touch(poll, true, "u1", now_ns);
        if (strcmp(next(poll, now_ns), "u1") == 0) {
            looks++;
            watch_poll_done(poll, true, "u1", false, now_ns);
        }
    }
    cr_expect(ge(uint, looks, 5));
    cr_expect(le(uint, looks, 11));
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_search_during_the_compare_keeps_the_interval_short)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    add(poll, "u1", 0);
    cr_assert_str_eq(next(poll, 0), "u1");
    watch_poll_touch(poll, true, "u1", 0);
    watch_poll_done(poll, true, "u1", false, 0);
    cr_expect(eq(u64, watch_poll_wait_ns(poll, 0), SECOND));
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_compare_that_an_event_caused_saves_one)
{
    for (int changed = 0; changed < 2; changed++) {
        struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

        add(poll, "u1", 0);
        add(poll, "u2", 0);
        watch_poll_done(poll, true, "u1", changed, 0);
        cr_expect_str_eq(next(poll, 0), "u2");
        cr_expect_str_eq(next(poll, 0), "-");
        cr_expect(eq(u64, watch_poll_wait_ns(poll, 0), (changed ? 1 : 60) * SECOND));
        watch_poll_destroy(&poll);
    }
}

Test(watch_poll, searching_an_unknown_bucket_adds_it)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    watch_poll_touch(poll, true, "new", 3);
    cr_expect_str_eq(next(poll, 3), "new");
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_removed_bucket_is_not_polled_and_a_late_report_is_harmless)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    add(poll, "u1", 0);
    add(poll, "u2", 0);
    cr_assert_str_eq(next(poll, 0), "u1");
    watch_poll_remove(poll, true, "u1");
    watch_poll_remove(poll, true, "u2");
    watch_poll_remove(poll, true, "never there");
    watch_poll_done(poll, true, "u1", true, 0);
    cr_expect(eq(sz, watch_poll_count(poll), 0));
    cr_expect_str_eq(next(poll, 100 * SECOND), "-");
    watch_poll_destroy(&poll);
}

Test(watch_poll, the_budget_holds_in_every_second)
{
    const unsigned rate = 50;
    struct watch_poll *poll = make(SECOND, 60 * SECOND, rate);
    char name[16];
    unsigned total = 0;

    for (unsigned i = 0; i < 1000; i++) {
        (void) snprintf(name, sizeof name, "u%u", i);
        add(poll, name, 0);
    }
    for (uint64_t second = 0; second < 10; second++) {
        unsigned looks = 0;
        for (uint64_t ms = 0; ms < 1000; ms++) {
            uint64_t now_ns = second * SECOND + ms * NS_PER_MS;
            const char *bucket = next(poll, now_ns);
            if (strcmp(bucket, "-") == 0)
                continue;
            looks++;
            watch_poll_done(poll, true, bucket, false, now_ns);
        }
        cr_expect(le(uint, looks, rate + rate / 10 + 1), "second %u", (unsigned) second);
        total += looks;
    }
    cr_expect(ge(uint, total, 10 * rate - 1), "and it is used up: %u", total);
    watch_poll_destroy(&poll);
}

Test(watch_poll, waiting_as_told_never_spins_and_never_oversleeps)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 7);
    uint64_t now_ns = 0;

    for (unsigned i = 0; i < 20; i++) {
        char name[16];
        (void) snprintf(name, sizeof name, "u%u", i);
        add(poll, name, 0);
    }
    for (unsigned looks = 0; looks < 200;) {
        const char *bucket = next(poll, now_ns);
        if (strcmp(bucket, "-") != 0) {
            looks++;
            watch_poll_done(poll, true, bucket, false, now_ns);
            continue;
        }
        uint64_t wait_ns = watch_poll_wait_ns(poll, now_ns);
        cr_assert(gt(u64, wait_ns, 0), "nothing is due and yet it says go on");
        cr_assert(lt(u64, wait_ns, 61 * SECOND));
        cr_expect_str_eq(next(poll, now_ns + wait_ns - 1), "-");
        now_ns += wait_ns;
    }
    watch_poll_destroy(&poll);
}

Test(watch_poll, lost_events_make_every_bucket_due)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000000);
    unsigned due = 0;

    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        (void) snprintf(name, sizeof name, "u%u", i);
        add(poll, name, 0);
    }
    (void) count_looks(poll, "u1", 0, 300 * SECOND, false);
    watch_poll_all_due(poll, 300 * SECOND);
    while (strcmp(next(poll, 300 * SECOND), "-") != 0)
        due++;
    cr_expect(eq(uint, due, 100));
    watch_poll_destroy(&poll);
}

Test(watch_poll, events_lost_during_a_compare_make_it_compare_again)
{
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000);

    add(poll, "u1", 0);
    cr_assert_str_eq(next(poll, 0), "u1");
    watch_poll_all_due(poll, 0);
    cr_expect_str_eq(next(poll, 0), "-", "it is still being compared");
    watch_poll_done(poll, true, "u1", false, 0);
    cr_expect_str_eq(next(poll, 0), "u1");
    watch_poll_destroy(&poll);
}

/* 20,000 buckets ask for 333 looks a second at the least, the budget has 100: all intervals are
 * stretched alike, so the one in use is still seen every few seconds and nobody is forgotten. */
Test(watch_poll, busy_buckets_come_first_when_the_budget_is_short_and_nobody_starves)
{
    enum { BUCKETS = 20000 };
    static unsigned looks[BUCKETS];
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 100);
    unsigned unseen = 0;

    for (unsigned i = 0; i < BUCKETS; i++) {
        char name[16];
        (void) snprintf(name, sizeof name, "%u", i);
        add(poll, name, 0);
    }
    for (uint64_t now_ns = 0; now_ns < 400 * SECOND; now_ns += 10 * NS_PER_MS) {
        watch_poll_touch(poll, true, "19999", now_ns);
        const char *bucket = next(poll, now_ns);
        if (strcmp(bucket, "-") == 0)
            continue;
        looks[strtoul(bucket, NULL, 10)]++;
        watch_poll_done(poll, true, bucket, false, now_ns);
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        unseen += looks[i] == 0 ? 1 : 0;
    cr_expect(ge(uint, looks[BUCKETS - 1], 40), "%u", looks[BUCKETS - 1]);
    cr_expect(eq(uint, unseen, 0));
    watch_poll_destroy(&poll);
}

Test(watch_poll, a_hundred_thousand_buckets_are_cheap, .timeout = 20)
{
    enum { BUCKETS = 100000 };
    struct watch_poll *poll = make(SECOND, 60 * SECOND, 1000000000);
    char name[16];
    unsigned looks = 0;
    uint64_t started_ns = clock_monotonic_ns();

    for (unsigned i = 0; i < BUCKETS; i++) {
        (void) snprintf(name, sizeof name, "user-%u", i);
        add(poll, name, 0);
    }
    for (uint64_t now_ns = SECOND; now_ns < 64 * SECOND; now_ns += SECOND) {
        for (;;) {
            const char *bucket = next(poll, now_ns);
            if (strcmp(bucket, "-") == 0)
                break;
            looks++;
            watch_poll_done(poll, true, bucket, false, now_ns);
        }
    }
    watch_poll_all_due(poll, 64 * SECOND);
    for (unsigned i = 0; i < BUCKETS; i++) {
        (void) snprintf(name, sizeof name, "user-%u", i);
        watch_poll_remove(poll, true, name);
    }
    cr_expect(eq(sz, watch_poll_count(poll), 0));
    cr_expect(ge(uint, looks, 2 * BUCKETS));
    /* A linear search anywhere would take minutes. */
    cr_expect(lt(u64, clock_monotonic_ns() - started_ns, 10 * SECOND));
    watch_poll_destroy(&poll);
}

/* A compare that took more than the one operation it was handed out for. */
Test(watch_poll, what_exceeds_the_budget_is_paid_before_the_next_compare)
{
    struct watch_poll *poll = make(SECOND, SECOND, 100);

    for (unsigned i = 0; i < 40; i++) {
        char bucket[8];
        (void) snprintf(bucket, sizeof bucket, "u%u", i);
        add(poll, bucket, SECOND);
    }
    cr_assert(next(poll, SECOND)[0] != '-');
    watch_poll_charge(poll, 59, SECOND); /* ten were in store, and fifty are owed */
    cr_expect(next(poll, SECOND)[0] == '-');
    cr_expect(eq(u64, watch_poll_wait_ns(poll, SECOND), SECOND / 2 + SECOND / 100));
    cr_expect(next(poll, SECOND + SECOND / 2)[0] == '-');
    uint64_t paid_ns = SECOND + watch_poll_wait_ns(poll, SECOND);
    cr_expect(next(poll, paid_ns)[0] != '-');
    cr_expect(next(poll, paid_ns)[0] == '-');
    watch_poll_charge(poll, UINT64_MAX, paid_ns);
    cr_expect(next(poll, paid_ns + 3600 * SECOND)[0] == '-');
    watch_poll_destroy(&poll);
}
