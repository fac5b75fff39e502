/* core/refresh_table.h: every arrow of the state machine, and who is woken. */
#include "core/refresh_table.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct refresh_table *table;
static struct scope desk, door, chair;
static const struct refresh_result fine = {.status = STATUS_OK, .generation = 3};
static const struct refresh_result bad = {.status = STATUS_IO};

static void set_up(void)
{
    cr_assert(refresh_table_create(&table) == STATUS_OK);
    cr_assert(scope_create("ada", "desk", &desk, NULL) == STATUS_OK);
    cr_assert(scope_create("eve", "chair", &chair, NULL) == STATUS_OK);
    cr_assert(scope_create("ada", "door", &door, NULL) == STATUS_OK);
}

static void tear_down(void)
{
    refresh_table_destroy(&table);
    cr_expect(table == NULL);
    refresh_table_destroy(&table);
}

TestSuite(refresh_table, .init = set_up, .fini = tear_down, .timeout = 30);

static uint64_t request(const struct scope *scope, enum refresh_urgency urgency, unsigned wishes)
{
    uint64_t number = 0;

    cr_assert(refresh_request(table, scope, urgency, REFRESH_CAUSE_SEARCH, wishes, &number) ==
              STATUS_OK);
    return number;
}

static uint64_t join(const struct scope *scope)
{
    uint64_t number = 0;

    cr_assert(refresh_join(table, scope, &number) == STATUS_OK);
    return number;
}

static struct refresh_run claim(const struct scope *scope)
{
    struct refresh_run run;

    cr_assert(refresh_claim(table, scope, &run));
    cr_expect(run.scope.has_user == scope->has_user && strcmp(run.scope.user, scope->user) == 0 &&
              strcmp(run.scope.agent, scope->agent) == 0);
    return run;
}

static void done(struct refresh_run *run, const struct refresh_result *result)
{
    refresh_done(table, run, result, 0);
}

/* "slots urgent background delayed running" */
static const char *counts(void)
{
    static char text[64];
    struct refresh_table_counts now;

    refresh_table_counts(table, &now);
    (void) snprintf(text, sizeof text, "%d %d %d %d %d", (int) now.slots, (int) now.wanted_urgent,
                    (int) now.wanted_background, (int) now.delayed, (int) now.running);
    return text;
}

static bool has_ended(const struct scope *scope, uint64_t number, struct refresh_result *ret)
{
    struct refresh_result result;

    return refresh_wait(table, scope, number, 1, ret ? ret : &result);
}

Test(refresh_table, idle_wanted_running_idle)
{
    struct refresh_result result;

    cr_expect_str_eq(counts(), "0 0 0 0 0");
    uint64_t number = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    cr_expect_str_eq(counts(), "1 0 1 0 0");
    cr_expect(!has_ended(&desk, number, NULL));
    struct refresh_run run = claim(&desk);
    cr_expect(run.number > number, "the run begins after the request");
    cr_expect_str_eq(counts(), "1 0 0 0 1");
    cr_expect(!has_ended(&desk, number, NULL));
    done(&run, &fine);
    cr_expect(run.slot == NULL);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
    cr_expect(has_ended(&desk, number, &result));
    cr_expect(result.status == STATUS_OK && result.generation == fine.generation,
              "who waits late learns how it ended");
}

/* Runs of other scopes, until the table has forgotten how the first one ended. */
Test(refresh_table, how_a_run_ended_is_forgotten_after_many_others)
{
    struct refresh_result result = {.generation = 99};
    uint64_t number = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);

    done(&run, &fine);
    for (unsigned i = 0; i < 1000; i++) {
        char user[16];
        struct scope other;
        (void) snprintf(user, sizeof user, "u%u", i);
        cr_assert(scope_create(user, NULL, &other, NULL) == STATUS_OK);
        (void) request(&other, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
        run = claim(&other);
        done(&run, &fine);
    }
    cr_expect_str_eq(counts(), "0 0 0 0 0");
    cr_expect(has_ended(&desk, number, &result));
    cr_expect(result.status == STATUS_OK && result.generation == 0, "nothing is remembered");
}

Test(refresh_table, a_request_during_a_run_wants_another_run)
{
    uint64_t first = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);
    uint64_t second = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);

    cr_expect(second > run.number);
    struct refresh_run none;
    cr_expect(!refresh_claim(table, &desk, &none), "one runner a scope");
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 0 1 0 0");
    cr_expect(has_ended(&desk, first, NULL));
    cr_expect(!has_ended(&desk, second, NULL), "that run may have looked before the change");
    run = claim(&desk);
    cr_expect(!has_ended(&desk, second, NULL));
    done(&run, &fine);
    cr_expect(has_ended(&desk, second, NULL));
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, many_requests_during_a_run_share_the_next_one)
{
    uint64_t last = request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);

    for (unsigned i = 0; i < 5; i++)
        last = request(&desk, i % 2 ? REFRESH_URGENT : REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 1 0 0 0");
    run = claim(&desk);
    done(&run, &fine);
    cr_expect(has_ended(&desk, last, NULL));
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, who_joins_waits_for_the_run_under_way)
{
    uint64_t number = join(&desk); /* nobody is at it: asks for one, urgently */
    cr_expect_str_eq(counts(), "1 1 0 0 0");
    cr_expect(join(&desk) >= number, "shares it");
    cr_expect_str_eq(counts(), "1 1 0 0 0");
    struct refresh_run run = claim(&desk);
    cr_expect_eq(join(&desk), run.number);
    cr_expect_str_eq(counts(), "1 0 0 0 1");
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    cr_expect_eq(join(&desk), run.number, "also while another is wanted after it");
    done(&run, &fine);
    struct refresh_result result;
    cr_expect(has_ended(&desk, run.number, &result));
    cr_expect_eq(result.generation, 3);
}

Test(refresh_table, scopes_do_not_wait_for_each_other)
{
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);
    uint64_t other = request(&door, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    struct refresh_run second = claim(&door);

    done(&second, &fine);
    cr_expect(has_ended(&door, other, NULL));
    cr_expect_str_eq(counts(), "1 0 0 0 1");
    done(&run, &fine);
}

Test(refresh_table, urgent_runs_are_taken_first_and_a_wanted_one_may_become_urgent)
{
    struct scope attic;
    struct refresh_run run;

    cr_assert(scope_create(NULL, NULL, &attic, NULL) == STATUS_OK);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    (void) request(&door, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    (void) request(&attic, REFRESH_URGENT, REFRESH_WISH_NONE);
    cr_expect_str_eq(counts(), "3 1 2 0 0");
    (void) request(&door, REFRESH_URGENT, REFRESH_WISH_NONE);
    cr_expect_str_eq(counts(), "3 2 1 0 0");
    (void) request(&door, REFRESH_BACKGROUND, REFRESH_WISH_NONE); /* never back */
    cr_expect_str_eq(counts(), "3 2 1 0 0");

    cr_assert(refresh_take(table, false, &run));
    cr_expect(!run.scope.has_user);
    done(&run, &fine);
    cr_assert(refresh_take(table, true, &run));
    cr_expect_str_eq(run.scope.agent, "door");
    done(&run, &fine);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_str_eq(run.scope.agent, "desk");
    done(&run, &fine);
}

Test(refresh_table, an_urgent_request_during_a_background_run_is_served_urgently)
{
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 1 0 0 0");
}

Test(refresh_table, wishes_gather_for_the_run_that_is_to_come)
{
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_SETTLE);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL);
    struct refresh_run run = claim(&desk);
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE | REFRESH_WISH_FULL);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL); /* during the run: the next's */
    done(&run, &fine);
    run = claim(&desk);
    cr_expect_eq(run.wishes, REFRESH_WISH_FULL);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    done(&run, &fine);
    run = claim(&desk);
    cr_expect_eq(run.wishes, REFRESH_WISH_NONE, "a wish is granted once");
    done(&run, &fine);
}

Test(refresh_table, a_later_run_comes_when_it_is_due)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(60000)) ==
              STATUS_OK);
    cr_expect_str_eq(counts(), "1 0 0 1 0");
    cr_expect(!refresh_claim(table, &desk, &run), "not before");
    clock_advance_for_test(61 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE);
    cr_expect_str_eq(counts(), "1 0 0 0 1");
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, later_runs_come_in_the_order_of_their_times)
{
    static const unsigned due_s[] = {50, 20, 90, 10, 70, 30, 80, 60, 40, 100};
    struct refresh_run run;
    unsigned last = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(due_s); i++) {
        struct scope scope;
        char user[16];
        (void) snprintf(user, sizeof user, "u%u", due_s[i]);
        cr_assert(scope_create(user, "desk", &scope, NULL) == STATUS_OK);
        cr_assert(refresh_request_later(table, &scope, REFRESH_WISH_NONE,
                                        clock_deadline_ms(due_s[i] * 1000)) == STATUS_OK);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(due_s); i++) {
        clock_advance_for_test(10 * NS_PER_SECOND);
        cr_assert(refresh_take(table, false, &run));
        unsigned due = 0;
        cr_expect(sscanf(run.scope.user, "u%u", &due) == 1 && due == last + 10, "%s after %u",
                  run.scope.user, last);
        last = due;
        done(&run, &fine);
    }
}

Test(refresh_table, of_two_later_requests_the_first_time_stands_and_the_wishes_gather)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(5000)) ==
              STATUS_OK);
    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_FULL, clock_deadline_ms(90000)) ==
              STATUS_OK);
    cr_expect_str_eq(counts(), "1 0 0 1 0");
    clock_advance_for_test(6 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE | REFRESH_WISH_FULL);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

/* A listing that the first one reads may still be an old one of the second change. */
Test(refresh_table, a_later_relisting_comes_at_its_own_time_too)
{
    struct refresh_run run;

    for (unsigned i = 0; i < 3; i++) {
        cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE | REFRESH_WISH_RELIST,
                                        clock_deadline_ms(5000)) == STATUS_OK);
        clock_advance_for_test(2 * NS_PER_SECOND);
    }
    cr_expect(!refresh_claim(table, &desk, &run), "not before");
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE | REFRESH_WISH_RELIST);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 0 0 1 0");
    clock_advance_for_test(3 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_RELIST);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

/* What is wanted now does not wait for the later time, and does not do the later run's work. */
Test(refresh_table, a_request_now_leaves_the_later_run_as_it_is)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(5000)) ==
              STATUS_OK);
    (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.wishes, REFRESH_WISH_NONE);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 0 0 1 0");
}

Test(refresh_table, a_later_run_that_falls_due_during_a_run_follows_it)
{
    struct refresh_run run;
    struct refresh_run other;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(5000)) ==
              STATUS_OK);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    clock_advance_for_test(6 * NS_PER_SECOND);
    (void) request(&door, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    cr_assert(refresh_take(table, false, &other)); /* somebody comes by and looks at the clock */
    done(&other, &fine);
    done(&run, &fine);
    run = claim(&desk);
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE);
    done(&run, &fine);
}

Test(refresh_table, failures_are_counted_and_tried_again_later)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(refresh_take(table, false, &run));
        cr_expect_eq(run.failures, i);
        refresh_done(table, &run, &bad, clock_deadline_ms(1000));
        cr_expect_str_eq(counts(), "1 0 0 1 0");
        clock_advance_for_test(2 * NS_PER_SECOND);
    }
    cr_assert(refresh_take(table, false, &run));
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.failures, 0, "a success begins anew");
    done(&run, &fine);
}

static struct refresh_run take_relist(void)
{
    struct refresh_run run = {0};

    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_RELIST);
    return run;
}

static void relist_soon(const struct scope *scope)
{
    cr_assert(refresh_request_later(table, scope, REFRESH_WISH_RELIST, clock_deadline_ms(1000)) ==
              STATUS_OK);
}

static atomic_bool has_taken;

static void *take_in_thread(void *run)
{
    (void) refresh_take(table, false, run);
    atomic_store(&has_taken, true);
    return NULL;
}

/* Each may take long; one that takes very long may hang. */
Test(refresh_table, relistings_come_one_scope_at_a_time)
{
    struct refresh_run other;

    relist_soon(&desk);
    relist_soon(&door);
    clock_advance_for_test(2 * NS_PER_SECOND);
    struct refresh_run first = take_relist();
    (void) request(&chair, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    cr_assert(refresh_take(table, false, &other));
    cr_expect(scope_equal(&other.scope, &chair), "others' runs do not wait for it");
    done(&other, &fine);
    cr_expect_str_eq(counts(), "2 0 1 0 1", "the second one waits");
    struct refresh_run second;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, take_in_thread, &second), 0);
    (void) usleep(400 * 1000);
    cr_expect(!atomic_load(&has_taken), "the second one waits, whoever would take it");
    done(&first, &fine);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(second.wishes, REFRESH_WISH_RELIST);
    cr_expect(!scope_equal(&first.scope, &second.scope));
    relist_soon(&chair);
    clock_advance_for_test(10 * NS_PER_SECOND);
    struct refresh_run third = take_relist();
    cr_expect(scope_equal(&third.scope, &chair), "the second one hangs");
    done(&second, &fine);
    done(&third, &fine);
}

/* Somebody who waits for a change does not wait for all listings. */
Test(refresh_table, whoever_asks_comes_before_a_relisting_that_is_due_and_does_not_do_it)
{
    struct refresh_run first;

    relist_soon(&desk);
    relist_soon(&door);
    clock_advance_for_test(2 * NS_PER_SECOND);
    first = take_relist();
    const struct scope *waiting = scope_equal(&first.scope, &desk) ? &door : &desk;
    (void) request(waiting, REFRESH_URGENT, REFRESH_WISH_SETTLE);
    struct refresh_run run = claim(waiting);
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE);
    done(&run, &fine);
    done(&first, &fine);
    run = take_relist();
    cr_expect(scope_equal(&run.scope, waiting), "it is due still");
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

/* Where a second look is due in a minute, a failure must not wait for that. */
Test(refresh_table, a_failure_is_tried_again_before_another_look_that_is_due_later)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_RELIST, clock_deadline_ms(62000)) ==
              STATUS_OK);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(1000));
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE); /* put off, until the retry */
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_FULL, "the other look is for its own time");
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 0 0 1 0");
    clock_advance_for_test(61 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_RELIST);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, a_look_that_is_due_before_the_retry_keeps_its_time)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(3000)) ==
              STATUS_OK);
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(8000));
    clock_advance_for_test(4 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_SETTLE);
    done(&run, &fine);
    clock_advance_for_test(5 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_FULL);
    done(&run, &fine);
}

Test(refresh_table, searches_that_meet_a_fault_do_not_make_its_back_off_grow)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(1000));
    for (unsigned i = 0; i < 10; i++) {
        (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
        run = claim(&desk);
        cr_expect_eq(run.failures, 1);
        refresh_done(table, &run, &bad, clock_deadline_ms(60000));
    }
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.failures, 1);
    refresh_done(table, &run, &bad, clock_deadline_ms(2000));
    clock_advance_for_test(3 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.failures, 2);
    done(&run, &fine);
}

Test(refresh_table, an_urgent_request_does_not_wait_for_the_back_off)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(60000));
    (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.failures, 1);
    done(&run, &fine);
}

Test(refresh_table, background_requests_of_a_failing_scope_wait_for_the_back_off)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(60000));
    uint64_t number = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL);
    cr_assert(!refresh_claim(table, &desk, &run));
    cr_expect(!has_ended(&desk, number, NULL), "put off is not done");
    clock_advance_for_test(61 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.wishes, REFRESH_WISH_FULL);
    cr_expect(!has_ended(&desk, number, NULL));
    done(&run, &fine);
    cr_expect(has_ended(&desk, number, NULL));
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, a_background_request_during_a_run_that_fails_waits_too)
{
    static const struct {
        enum refresh_urgency urgency;
        const char *counts;
    } cases[] = {{REFRESH_BACKGROUND, "1 0 0 1 0"}, {REFRESH_URGENT, "1 1 0 1 0"}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct refresh_run run;
        (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
        run = claim(&desk);
        uint64_t number = request(&desk, cases[i].urgency, REFRESH_WISH_FULL);
        refresh_done(table, &run, &bad, clock_deadline_ms(60000));
        cr_expect_str_eq(counts(), cases[i].counts);
        cr_expect(!has_ended(&desk, number, NULL));
        clock_advance_for_test(61 * NS_PER_SECOND);
        cr_assert(refresh_take(table, false, &run));
        cr_expect_eq(run.wishes, REFRESH_WISH_FULL);
        done(&run, &fine);
        cr_expect(has_ended(&desk, number, NULL));
        cr_expect_str_eq(counts(), "0 0 0 0 0", "row %zu", i);
    }
}

/* An urgent run serves those who were put off as well. */
Test(refresh_table, a_success_in_between_ends_the_putting_off)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    refresh_done(table, &run, &bad, clock_deadline_ms(60000));
    uint64_t number = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    (void) request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    run = claim(&desk);
    done(&run, &fine);
    cr_expect(has_ended(&desk, number, NULL));
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.failures, 0);
    done(&run, &fine);
}

Test(refresh_table, who_begins_a_run_leaves_nothing_to_others)
{
    struct refresh_run run;
    struct refresh_run none;
    uint64_t number = 0;
    bool begun = false;

    cr_assert_eq(refresh_begin(table, &desk, &run, &begun, &number), STATUS_OK);
    cr_expect(begun);
    cr_expect(!refresh_claim(table, &desk, &none));
    cr_assert_eq(refresh_begin(table, &desk, &none, &begun, &number), STATUS_OK);
    cr_expect(!begun);
    cr_expect_eq(number, run.number);
    cr_expect(!has_ended(&desk, number, NULL));
    done(&run, &fine);
    cr_expect(has_ended(&desk, number, NULL));
    cr_expect_str_eq(counts(), "0 0 0 0 0");

    uint64_t wanted = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_FULL);
    cr_assert_eq(refresh_begin(table, &desk, &run, &begun, &number), STATUS_OK);
    cr_expect(begun);
    cr_expect_eq(run.wishes, REFRESH_WISH_FULL, "what others wished is done as well");
    done(&run, &fine);
    cr_expect(has_ended(&desk, wanted, NULL));
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, the_outcome_reaches_who_waits)
{
    struct refresh_result result;
    uint64_t number = request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    struct refresh_run run = claim(&desk);

    refresh_done(table, &run, &bad, clock_deadline_ms(60000));
    cr_expect(has_ended(&desk, number, &result));
    cr_expect_eq(result.status, STATUS_IO);
}

struct waiter {
    uint64_t number;
    struct refresh_result result;
    bool ended;
    pthread_t thread;
};

static void *wait_long(void *context)
{
    struct waiter *waiter = context;

    waiter->ended =
        refresh_wait(table, &desk, waiter->number, clock_deadline_ms(20000), &waiter->result);
    return NULL;
}

Test(refresh_table, everybody_who_waits_is_woken_by_the_end)
{
    struct waiter waiters[4] = {0};
    uint64_t number = request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);

    for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
        waiters[i].number = number;
        cr_assert(pthread_create(&waiters[i].thread, NULL, wait_long, &waiters[i]) == 0);
    }
    struct refresh_run run = claim(&desk);
    /* The slot is kept for those who have come, and only for them. */
    (void) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    done(&run, &fine);
    for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
        (void) pthread_join(waiters[i].thread, NULL);
        cr_expect(waiters[i].ended && waiters[i].result.status == STATUS_OK);
    }
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

static void *take_one(void *context)
{
    struct refresh_run run;

    if (!refresh_take(table, *(const bool *) context, &run))
        return NULL;
    done(&run, &fine);
    return table;
}

Test(refresh_table, who_waits_for_work_is_woken_by_a_request)
{
    const bool urgent_only = true;
    pthread_t thread;
    void *took = NULL;

    cr_assert(pthread_create(&thread, NULL, take_one, (void *) (uintptr_t) &urgent_only) == 0);
    (void) request(&door, REFRESH_BACKGROUND, REFRESH_WISH_NONE); /* not for him */
    uint64_t number = request(&desk, REFRESH_URGENT, REFRESH_WISH_NONE);
    struct refresh_result result;
    cr_expect(refresh_wait(table, &desk, number, clock_deadline_ms(20000), &result));
    (void) pthread_join(thread, &took);
    cr_expect(took == table);
    cr_expect_str_eq(counts(), "1 0 1 0 0");
}

Test(refresh_table, stopping_ends_all_waiting)
{
    const bool urgent_only = false;
    struct waiter waiter = {.number = request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE)};
    struct refresh_run mine = claim(&desk);
    struct refresh_run run;
    pthread_t thread;
    void *took = table;

    cr_assert(pthread_create(&waiter.thread, NULL, wait_long, &waiter) == 0);
    cr_assert(pthread_create(&thread, NULL, take_one, (void *) (uintptr_t) &urgent_only) == 0);
    refresh_table_stop(table);
    (void) pthread_join(waiter.thread, NULL);
    (void) pthread_join(thread, &took);
    cr_expect(!waiter.ended);
    cr_expect(took == NULL);
    (void) request(&door, REFRESH_URGENT, REFRESH_WISH_NONE);
    cr_expect(!refresh_take(table, false, &run));
    cr_expect(!refresh_claim(table, &door, &run));
    done(&mine, &fine); /* a run under way may still end */
}

/* A slot keeps what a later run needs: since when stamps are known. */
Test(refresh_table, stamps_that_are_not_settled_keep_the_slot)
{
    struct refresh_run run;

    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.racy->base_ns, 0);
    racy_start(run.racy, 123);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "1 0 0 0 0");
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    cr_expect_eq(run.racy->base_ns, 123);
    racy_clear(run.racy);
    done(&run, &fine);
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

Test(refresh_table, thousands_of_scopes_have_their_own_slots)
{
    struct refresh_run run;
    char user[16];

    for (unsigned i = 0; i < 3000; i++) {
        struct scope scope;
        (void) snprintf(user, sizeof user, "u%u", i);
        cr_assert(scope_create(user, "desk", &scope, NULL) == STATUS_OK);
        (void) request(&scope, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    }
    cr_expect_str_eq(counts(), "3000 0 3000 0 0");
    for (unsigned i = 0; i < 3000; i++) {
        cr_assert(refresh_take(table, false, &run));
        (void) snprintf(user, sizeof user, "u%u", i);
        cr_expect_str_eq(run.scope.user, user, "first come, first served");
        done(&run, &fine);
    }
    cr_expect_str_eq(counts(), "0 0 0 0 0");
}

static void note_running(void *context, const struct scope *scope, uint64_t age_ns)
{
    (void) snprintf(context, 64, "%.20s/%.20s %s", scope->user, scope->agent,
                    age_ns >= 5 * NS_PER_SECOND ? "old" : "young");
}

Test(refresh_table, runs_under_way_are_told_with_their_age)
{
    char text[64] = "";
    struct refresh_table_counts now;
    struct refresh_run run;

    refresh_table_running(table, note_running, text);
    cr_expect_str_eq(text, "");
    (void) request(&desk, REFRESH_BACKGROUND, REFRESH_WISH_NONE);
    run = claim(&desk);
    clock_advance_for_test(6 * NS_PER_SECOND);
    refresh_table_running(table, note_running, text);
    cr_expect_str_eq(text, "ada/desk old");
    refresh_table_counts(table, &now);
    cr_expect(now.oldest_running_ns >= 6 * NS_PER_SECOND);
    done(&run, &fine);
    refresh_table_counts(table, &now);
    cr_expect_eq(now.oldest_running_ns, 0);
}

/* ---- causes ---- */

static void want(const struct scope *scope, enum refresh_urgency urgency, enum refresh_cause cause)
{
    uint64_t number = 0;

    cr_assert(refresh_request(table, scope, urgency, cause, REFRESH_WISH_NONE, &number) ==
              STATUS_OK);
}

Test(refresh_table, whoever_asked_first_is_the_cause)
{
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_INOTIFY);
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL);
    struct refresh_run run = claim(&desk);
    cr_expect_eq(run.cause, REFRESH_CAUSE_INOTIFY);
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL);
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_INOTIFY);
    refresh_done(table, &run, &fine, 0);
    run = claim(&desk);
    cr_expect_eq(run.cause, REFRESH_CAUSE_POLL, "of what came while it ran");
    refresh_done(table, &run, &fine, 0);
}

Test(refresh_table, whoever_makes_a_run_urgent_is_its_cause)
{
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL);
    want(&desk, REFRESH_URGENT, REFRESH_CAUSE_WRITE);
    want(&desk, REFRESH_URGENT, REFRESH_CAUSE_REQUEST);
    struct refresh_run run = claim(&desk);
    cr_expect_eq(run.cause, REFRESH_CAUSE_WRITE);
    want(&desk, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL);
    want(&desk, REFRESH_URGENT, REFRESH_CAUSE_REQUEST);
    want(&desk, REFRESH_URGENT, REFRESH_CAUSE_WRITE);
    refresh_done(table, &run, &fine, 0);
    run = claim(&desk);
    cr_expect_eq(run.cause, REFRESH_CAUSE_REQUEST);
    refresh_done(table, &run, &fine, 0);
}

Test(refresh_table, who_joins_or_begins_is_a_search_unless_the_run_was_wanted)
{
    struct refresh_run run;
    uint64_t number = 0;
    bool begun = false;

    (void) join(&desk);
    run = claim(&desk);
    cr_expect_eq(run.cause, REFRESH_CAUSE_SEARCH);
    refresh_done(table, &run, &fine, 0);

    want(&door, REFRESH_BACKGROUND, REFRESH_CAUSE_INOTIFY);
    cr_assert(refresh_begin(table, &door, &run, &begun, &number) == STATUS_OK && begun);
    cr_expect_eq(run.cause, REFRESH_CAUSE_INOTIFY);
    refresh_done(table, &run, &fine, 0);
    cr_assert(refresh_begin(table, &door, &run, &begun, &number) == STATUS_OK && begun);
    cr_expect_eq(run.cause, REFRESH_CAUSE_SEARCH, "nobody had asked for that one");
    refresh_done(table, &run, &fine, 0);
}

Test(refresh_table, what_is_due_later_settles_or_tries_again)
{
    struct refresh_run run;

    cr_assert(refresh_request_later(table, &desk, REFRESH_WISH_SETTLE, clock_deadline_ms(1000)) ==
              STATUS_OK);
    cr_assert(refresh_request_later(table, &door, REFRESH_WISH_RELIST, clock_deadline_ms(1000)) ==
              STATUS_OK);
    clock_advance_for_test(2 * NS_PER_SECOND);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(refresh_take(table, false, &run));
        cr_expect_eq(run.cause, REFRESH_CAUSE_SETTLE, "run %u", i);
        refresh_done(table, &run, &fine, 0);
    }
    want(&chair, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL);
    run = claim(&chair);
    refresh_done(table, &run, &bad, clock_deadline_ms(1000));
    want(&chair, REFRESH_BACKGROUND, REFRESH_CAUSE_POLL); /* is left to the retry */
    clock_advance_for_test(2 * NS_PER_SECOND);
    cr_assert(refresh_take(table, false, &run));
    cr_expect_eq(run.cause, REFRESH_CAUSE_RETRY);
    refresh_done(table, &run, &fine, 0);
}

Test(refresh_table, causes_and_outcomes_have_names_of_their_own)
{
    for (unsigned i = 0; i < REFRESH_CAUSE_COUNT; i++) {
        for (unsigned other = 0; other < i; other++)
            cr_expect_str_neq(refresh_cause_name((enum refresh_cause) i),
                              refresh_cause_name((enum refresh_cause) other));
    }
    for (unsigned i = 0; i < REFRESH_OUTCOME_COUNT; i++) {
        for (unsigned other = 0; other < i; other++)
            cr_expect_str_neq(refresh_outcome_name((enum refresh_outcome) i),
                              refresh_outcome_name((enum refresh_outcome) other));
    }
}
