/* core/build_progress.h: how far a build is, in figures and in the log. */
#include "core/build_progress.h"

#include "core/clock.h"
#include "tests/support/captured_log.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define EXPECT_LOGGED(part) cr_expect_eq(captured_log_count(part), 1, "%s", part)

static struct build_progress *progress;

static void set_up(void)
{
    captured_log_start();
    cr_assert(build_progress_create(&progress) == STATUS_OK);
}

static void tear_down(void)
{
    build_progress_destroy(&progress);
    cr_expect(progress == NULL);
    build_progress_destroy(&progress);
    captured_log_stop();
}

TestSuite(build_progress, .init = set_up, .fini = tear_down, .timeout = 30);

static struct scope scope_of(unsigned number)
{
    struct scope scope;
    char user[16];

    (void) snprintf(user, sizeof user, "u%u", number);
    cr_assert(scope_create(user, "desk", &scope, NULL) == STATUS_OK);
    return scope;
}

static void begin(unsigned users)
{
    build_progress_begin(progress);
    build_progress_listed(progress, users);
}

static void ask(unsigned number)
{
    struct scope scope = scope_of(number);

    build_progress_asked(progress, &scope);
}

static void end(unsigned number, enum status status)
{
    struct scope scope = scope_of(number);

    build_progress_refreshed(progress, &scope, status, 10);
}

static struct build_figures figures(void)
{
    struct build_figures ret;

    build_progress_figures(progress, &ret);
    return ret;
}

/* A pass over `count` users, each of whom has a scope to be built. */
static void ask_for_all(unsigned count)
{
    begin(count);
    for (unsigned i = 0; i < count; i++) {
        ask(i);
        build_progress_looked(progress);
    }
    build_progress_all_looked(progress);
}

Test(build_progress, before_a_pass_there_is_nothing)
{
    end(1, STATUS_OK); /* somebody searched */
    struct build_figures now = figures();
    cr_expect_eq(now.phase, BUILD_WAITING);
    cr_expect_eq(now.percent, 0);
    cr_expect_eq(now.scopes_total, 0);
    cr_expect(!now.has_remaining);
}

Test(build_progress, users_not_looked_at_count_as_a_scope_each)
{
    begin(4);
    cr_expect_eq(figures().scopes_total, 4);
    ask(1);
    ask(2); /* of the same user */
    build_progress_looked(progress);
    cr_expect_eq(figures().scopes_total, 5);
    build_progress_in_step(progress, 7);
    build_progress_looked(progress);
    build_progress_looked(progress); /* one without facts */
    struct build_figures now = figures();
    cr_expect_eq(now.phase, BUILD_LOOKING);
    cr_expect_eq(now.users_looked, 3);
    cr_expect_eq(now.scopes_total, 4);
    cr_expect_eq(now.scopes_done, 1);
    cr_expect_eq(now.facts, 7);
    cr_expect_eq(now.percent, 25);
}

Test(build_progress, what_is_built_counts_and_not_what_was_looked_at)
{
    ask_for_all(4);
    cr_expect_eq(figures().phase, BUILD_BUILDING);
    cr_expect_eq(figures().percent, 0);
    for (unsigned i = 0; i < 3; i++) {
        end(i, STATUS_OK);
        end(i, STATUS_OK);   /* changed since */
        end(100, STATUS_OK); /* not of the pass */
        cr_expect_eq(figures().percent, (i + 1) * 25);
        cr_expect_eq(figures().facts, (i + 1) * 10);
    }
    cr_expect_eq(figures().phase, BUILD_BUILDING);
    end(3, STATUS_OK);
    struct build_figures now = figures();
    cr_expect_eq(now.phase, BUILD_DONE);
    cr_expect_eq(now.percent, 100);
    cr_expect_eq(now.scopes_done, 4);
    cr_expect_eq(now.built_facts, 40);
    EXPECT_LOGGED("event=index.built scopes=4 failed=0 facts=40 ");
}

Test(build_progress, refreshes_that_end_while_users_are_looked_at_do_not_end_it)
{
    begin(2);
    ask(1);
    build_progress_looked(progress);
    end(1, STATUS_OK);
    cr_expect_eq(figures().phase, BUILD_LOOKING);
    cr_expect_eq(figures().percent, 50);
    build_progress_looked(progress);
    cr_expect_eq(figures().percent, 99, "all of 1 are done, and it goes on");
    build_progress_all_looked(progress);
    cr_expect_eq(figures().phase, BUILD_DONE);
}

Test(build_progress, a_start_with_everything_in_step_is_done_and_not_worth_a_line)
{
    begin(1);
    build_progress_in_step(progress, 3);
    build_progress_looked(progress);
    build_progress_all_looked(progress);
    cr_expect_eq(figures().phase, BUILD_DONE);
    cr_expect_eq(figures().facts, 3);
    cr_expect_eq(figures().built_facts, 0);
    cr_expect_eq(captured_log_count("event=index.built"), 0);
}

Test(build_progress, a_scope_that_fails_holds_nothing_up_and_may_be_done_later)
{
    ask_for_all(2);
    end(0, STATUS_CORRUPT);
    end(0, STATUS_CORRUPT);
    cr_expect_eq(figures().scopes_failed, 1);
    cr_expect_eq(figures().percent, 50);
    end(1, STATUS_OK);
    cr_expect_eq(figures().phase, BUILD_DONE);
    EXPECT_LOGGED("event=index.built scopes=1 failed=1 facts=10 ");
    end(0, STATUS_OK);
    struct build_figures now = figures();
    cr_expect_eq(now.scopes_failed, 0);
    cr_expect_eq(now.scopes_done, 2);
    cr_expect_eq(now.scopes_total, 2);
    cr_expect_eq(captured_log_count("event=index.built"), 1);
}

Test(build_progress, the_share_never_goes_back_in_a_pass)
{
    begin(2);
    ask(0);
    build_progress_looked(progress);
    end(0, STATUS_OK);
    cr_expect_eq(figures().percent, 50);
    for (unsigned i = 1; i < 10; i++)
        ask(i); /* the other user has many agents */
    build_progress_looked(progress);
    cr_expect_eq(figures().scopes_total, 10);
    cr_expect_eq(figures().percent, 50);
    begin(1);
    cr_expect_eq(figures().percent, 0, "but with another one");
}

Test(build_progress, another_pass_begins_anew)
{
    ask_for_all(3);
    end(0, STATUS_OK);
    end(1, STATUS_IO);
    ask_for_all(2);
    struct build_figures now = figures();
    cr_expect_eq(now.scopes_total, 2);
    cr_expect_eq(now.scopes_done + now.scopes_failed + now.facts, 0);
}

Test(build_progress, rates_are_of_the_last_seconds)
{
    ask_for_all(100);
    cr_expect(!figures().has_remaining);
    for (unsigned i = 0; i < 50; i++)
        end(i, STATUS_OK);
    clock_advance_for_test(5 * NS_PER_SECOND);
    struct build_figures now = figures();
    cr_expect_float_eq(now.facts_per_second, 100, 5);
    cr_expect(now.has_remaining);
    cr_expect_float_eq((double) now.remaining_ns / (double) NS_PER_SECOND, 5, 0.5);
    for (unsigned i = 50; i < 60; i++)
        end(i, STATUS_OK);
    clock_advance_for_test(5 * NS_PER_SECOND);
    now = figures(); /* ten since the mark that was five seconds ago */
    cr_expect_float_eq(now.facts_per_second, 20, 2);
    cr_expect_float_eq((double) now.remaining_ns / (double) NS_PER_SECOND, 20, 2);
    for (unsigned i = 0; i < 2; i++) {
        clock_advance_for_test(6 * NS_PER_SECOND);
        now = figures();
    }
    cr_expect(!now.has_remaining, "the volume stalls");
    cr_expect_float_eq(now.facts_per_second, 0, 0.01);
    for (unsigned i = 60; i < 100; i++)
        end(i, STATUS_OK);
    now = figures();
    cr_expect_float_eq(now.facts_per_second, 1000.0 / 22, 2, "of all of it, at the end");
    cr_expect(!now.has_remaining);
    clock_advance_for_test(60 * NS_PER_SECOND);
    cr_expect_eq(figures().elapsed_ns, now.elapsed_ns, "it has ended");
}

Test(build_progress, a_line_every_five_seconds_and_one_at_the_end)
{
    ask_for_all(10);
    end(0, STATUS_OK);
    cr_expect_eq(captured_log_count("event=index.build "), 0);
    clock_advance_for_test(5 * NS_PER_SECOND);
    end(1, STATUS_OK);
    end(2, STATUS_OK);
    cr_expect_eq(captured_log_count("event=index.build "), 1);
    EXPECT_LOGGED("event=index.build percent=20 users=10/10 scopes=2/10 failed=0 facts=20 "
                  "facts_per_second=4 left_s=20");
    clock_advance_for_test(5 * NS_PER_SECOND);
    build_progress_tick(progress); /* nothing was built, and that is to be seen */
    build_progress_tick(progress);
    cr_expect_eq(captured_log_count("event=index.build "), 2);
    for (unsigned i = 3; i < 10; i++)
        end(i, STATUS_OK);
    clock_advance_for_test(50 * NS_PER_SECOND);
    build_progress_tick(progress);
    cr_expect_eq(captured_log_count("event=index.build "), 2, "it is over");
}

Test(build_progress, many_scopes_in_any_order)
{
    enum { COUNT = 20000 };

    ask_for_all(COUNT);
    cr_expect_eq(figures().scopes_total, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        end(i * 7919 % COUNT, i % 100 == 0 ? STATUS_IO : STATUS_OK);
        if (i % 1000 == 0)
            cr_assert_eq(figures().scopes_done + figures().scopes_failed, i + 1);
    }
    cr_expect_eq(figures().phase, BUILD_DONE);
    cr_expect_eq(figures().scopes_failed, COUNT / 100);
}

Test(build_progress, phases_have_names)
{
    cr_expect_str_eq(build_phase_name(BUILD_WAITING), "waiting");
    cr_expect_str_eq(build_phase_name(BUILD_LOOKING), "looking");
    cr_expect_str_eq(build_phase_name(BUILD_BUILDING), "building");
    cr_expect_str_eq(build_phase_name(BUILD_DONE), "done");
}
