#include "core/pause_point.h"

#include "core/compiler.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Long enough for the slowest machine; only a failing test waits for it. */
#define LONG_MS 10000

static void *pass_by(void *passed)
{
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    *(int *) passed = 1;
    return NULL;
}

TestSuite(pause_point, .fini = pause_reset, .timeout = 30);

Test(pause_point, every_point_has_a_name_that_leads_back)
{
    enum pause_point point = PAUSE_POINT_COUNT;

    for (int i = 0; i < PAUSE_POINT_COUNT; i++) {
        cr_expect(pause_point_from_name(pause_point_name((enum pause_point) i), &point));
        cr_expect_eq(point, (enum pause_point) i);
    }
    cr_expect_str_eq(pause_point_name(PAUSE_COMPARE_BEFORE_OPEN), "COMPARE_BEFORE_OPEN");
    cr_expect_str_eq(pause_point_name(PAUSE_POINT_COUNT), "unknown");
    cr_expect_not(pause_point_from_name("PAUSE_COMPARE_BEFORE_OPEN", &point));
    cr_expect_not(pause_point_from_name("", &point));
}

Test(pause_point, unarmed_it_only_counts)
{
    for (int i = 0; i < 3; i++)
        pause_here(PAUSE_REFRESH_AFTER_PLAN);
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 3);
    cr_expect_eq(pause_visits(PAUSE_COMPARE_AFTER_READ), 0);
    cr_expect_not(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, 0));
    pause_reset();
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 0);
}

Test(pause_point, an_armed_one_holds_one_thread_until_it_is_released)
{
    pthread_t thread;
    int passed = 0;

    pause_arm(PAUSE_REFRESH_AFTER_PLAN);
    cr_assert_eq(pthread_create(&thread, NULL, pass_by, &passed), 0);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS));
    cr_expect_eq(passed, 0);
    pause_here(PAUSE_REFRESH_AFTER_PLAN); /* a second one passes */
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 2);
    pause_release(PAUSE_REFRESH_AFTER_PLAN);
    (void) pthread_join(thread, NULL);
    cr_expect_eq(passed, 1);
    pause_here(PAUSE_REFRESH_AFTER_PLAN); /* disarmed */
}

Test(pause_point, some_may_pass_before_it_holds)
{
    pthread_t thread;
    int passed = 0;

    pause_arm_after(PAUSE_REFRESH_AFTER_PLAN, 2);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    cr_assert_eq(pthread_create(&thread, NULL, pass_by, &passed), 0);
    cr_assert(pause_wait_reached(PAUSE_REFRESH_AFTER_PLAN, LONG_MS));
    pause_reset(); /* releases as well */
    (void) pthread_join(thread, NULL);
    cr_expect_eq(passed, 1);
}

Test(pause_point, a_release_before_anybody_came_disarms)
{
    pause_arm(PAUSE_REFRESH_AFTER_PLAN);
    pause_release(PAUSE_REFRESH_AFTER_PLAN);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 1);
}

/* What a child leaves behind that is told to look for orders, finds `order` before its third visit
 * and comes by `visits` times in all: its signal or 0, and the trace. */
static int end_of_ordered(const char *order, int visits, char trace[128])
{
    char directory[] = "/tmp/mspXXXXXX";
    char wish[64];
    char line[128];
    int status = 0;

    cr_assert_not_null(mkdtemp(directory));
    cr_assert_eq(chdir(directory), 0);
    (void) snprintf(wish, sizeof wish, "orders:%s/orders", directory);
    (void) snprintf(line, sizeof line, order, directory);
    pid_t child = fork();
    if (child == 0) {
        if (setenv("MEMSYNC_PAUSE", wish, 1) != 0)
            _exit(1);
        pause_configure_from_environment();
        for (int i = 1; i <= visits; i++) {
            FILE *file = i == 3 ? fopen("orders", "w") : NULL;
            if (i == 3 && (!file || fputs(line, file) < 0 || fclose(file) != 0))
                _exit(2);
            pause_here(PAUSE_INSTALL_BEFORE_COMMIT);
            if (access("orders", F_OK) == 0)
                _exit(3);
        }
        _exit(0);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%d", WEXITSTATUS(status));
    FILE *file = fopen("trace", "r");
    size_t size = file ? fread(trace, 1, 127, file) : 0;
    trace[size] = '\0';
    if (file)
        (void) fclose(file);
    (void) unlink("trace");
    (void) unlink("orders");
    cr_assert_eq(chdir("/"), 0);
    cr_assert_eq(rmdir(directory), 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Test(pause_point, orders_count_from_the_visit_that_finds_them)
{
    char trace[128];

    cr_expect_eq(end_of_ordered("kill:INSTALL_BEFORE_COMMIT:2", 3, trace), 0);
    cr_expect_eq(end_of_ordered("kill:INSTALL_BEFORE_COMMIT:2", 4, trace), SIGKILL);
    cr_expect_eq(end_of_ordered("kill:INSTALL_BEFORE_COMMIT:1", 3, trace), SIGKILL);
    cr_expect_eq(end_of_ordered("kill:SEARCH_BEFORE_QUERY:1", 6, trace), 0);
    cr_expect_eq(end_of_ordered("nonsense", 6, trace), 0);
    cr_expect_str_eq(trace, "");
    cr_expect_eq(end_of_ordered("trace:%s/trace", 4, trace), 0);
    cr_expect_str_eq(trace, "INSTALL_BEFORE_COMMIT\nINSTALL_BEFORE_COMMIT\n");
}

/* How a child ends that comes by the point `visits` times: its signal, or 0. */
static int end_of_child(const char *wish, unsigned nth, int visits)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        if (wish && setenv("MEMSYNC_PAUSE", wish, 1) == 0)
            pause_configure_from_environment();
        else
            pause_kill_at(PAUSE_INSTALL_BEFORE_COMMIT, nth);
        for (int i = 0; i < visits; i++)
            pause_here(PAUSE_INSTALL_BEFORE_COMMIT);
        _exit(0);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Test(pause_point, the_nth_visit_kills)
{
    cr_expect_eq(end_of_child(NULL, 1, 0), 0);
    cr_expect_eq(end_of_child(NULL, 1, 1), SIGKILL);
    cr_expect_eq(end_of_child(NULL, 3, 2), 0);
    cr_expect_eq(end_of_child(NULL, 3, 3), SIGKILL);
    cr_expect_eq(end_of_child(NULL, 0, 3), 0);
}

Test(pause_point, the_environment_can_ask_for_a_kill)
{
    cr_expect_eq(end_of_child("kill:INSTALL_BEFORE_COMMIT", 0, 1), SIGKILL);
    cr_expect_eq(end_of_child("kill:INSTALL_BEFORE_COMMIT:2", 0, 1), 0);
    cr_expect_eq(end_of_child("kill:INSTALL_BEFORE_COMMIT:2", 0, 2), SIGKILL);
    cr_expect_eq(end_of_child("kill:SEARCH_BEFORE_QUERY:1", 0, 3), 0);
    cr_expect_eq(end_of_child("kill:BANANAS:1", 0, 3), 0);
    cr_expect_eq(end_of_child("hold:INSTALL_BEFORE_COMMIT", 0, 3), 0);
    cr_expect_eq(end_of_child("", 0, 3), 0);
}

/* ---- actors ---- */

struct led {
    unsigned actor;
    int passed;
    bool failed;
};

static void *be_led(void *context)
{
    struct led *led = context;

    pause_actor_enter(led->actor);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    led->passed++;
    pause_here(PAUSE_INSTALL_BEFORE_COMMIT);
    led->failed = pause_fails(PAUSE_INSTALL_BEFORE_COMMIT);
    led->passed++;
    pause_actor_leave();
    return NULL;
}

static void expect_held(unsigned actor, enum pause_point point)
{
    enum pause_point at = PAUSE_POINT_COUNT;

    cr_assert_eq(pause_actor_wait(actor, LONG_MS, &at), PAUSE_ACTOR_HELD);
    cr_expect_eq(at, point);
}

static void expect_ended(unsigned actor)
{
    enum pause_point at;

    cr_expect_eq(pause_actor_wait(actor, LONG_MS, &at), PAUSE_ACTOR_ENDED);
}

Test(pause_point, actors_stop_where_each_was_told_to)
{
    struct led leds[] = {{.actor = 1}, {.actor = 2}};
    pthread_t threads[ARRAY_SIZE(leds)];
    enum pause_point at;

    for (unsigned i = 0; i < ARRAY_SIZE(leds); i++) {
        pause_actor_go(leds[i].actor, PAUSE_SET(REFRESH_AFTER_PLAN));
        cr_assert_eq(pthread_create(&threads[i], NULL, be_led, &leds[i]), 0);
    }
    expect_held(1, PAUSE_REFRESH_AFTER_PLAN);
    expect_held(2, PAUSE_REFRESH_AFTER_PLAN);
    pause_here(PAUSE_REFRESH_AFTER_PLAN); /* nobody has told this thread */
    pause_actor_go(2, PAUSE_SET(INSTALL_BEFORE_COMMIT) | PAUSE_SET(REFRESH_AFTER_PLAN));
    expect_held(2, PAUSE_INSTALL_BEFORE_COMMIT);
    expect_held(1, PAUSE_REFRESH_AFTER_PLAN);
    cr_expect_eq(leds[0].passed, 0);
    cr_expect_eq(leds[1].passed, 1);
    cr_expect_eq(pause_actor_visits(1, PAUSE_INSTALL_BEFORE_COMMIT), 0);
    cr_expect_eq(pause_actor_visits(2, PAUSE_INSTALL_BEFORE_COMMIT), 1);
    pause_actor_go(1, PAUSE_SET_NONE);
    expect_ended(1);
    pause_reset(); /* releases them as well */
    (void) pthread_join(threads[0], NULL);
    (void) pthread_join(threads[1], NULL);
    cr_expect_eq(pause_actor_wait(3, 0, &at), PAUSE_ACTOR_AWAY);
}

Test(pause_point, only_the_named_actor_fails_and_only_once)
{
    struct led led = {.actor = 1};
    pthread_t thread;

    for (unsigned nth = 1; nth <= 2; nth++) {
        pause_actor_fail_at(1, PAUSE_INSTALL_BEFORE_COMMIT, nth);
        cr_expect_not(pause_fails(PAUSE_INSTALL_BEFORE_COMMIT));
        for (unsigned i = 1; i <= 3; i++) {
            cr_assert_eq(pthread_create(&thread, NULL, be_led, &led), 0);
            (void) pthread_join(thread, NULL);
            cr_expect_eq(led.failed, i == nth);
        }
    }
    expect_ended(1);
    pause_actor_fail_at(1, PAUSE_INSTALL_BEFORE_COMMIT, 1);
    pause_actor_forget(1);
    cr_assert_eq(pthread_create(&thread, NULL, be_led, &led), 0);
    (void) pthread_join(thread, NULL);
    cr_expect_not(led.failed);
}

Test(pause_point, what_is_armed_for_anybody_holds_no_actor)
{
    struct led led = {.actor = 1};
    pthread_t thread;

    pause_arm(PAUSE_REFRESH_AFTER_PLAN);
    cr_assert_eq(pthread_create(&thread, NULL, be_led, &led), 0);
    (void) pthread_join(thread, NULL);
    cr_expect_eq(led.passed, 2);
    cr_expect_eq(pause_visits(PAUSE_REFRESH_AFTER_PLAN), 1);
}

static unsigned seen;

static void see(enum pause_point point)
{
    seen += point == PAUSE_REFRESH_AFTER_PLAN;
}

Test(pause_point, a_visitor_sees_every_arrival)
{
    pause_set_visitor(see);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    pause_here(PAUSE_INSTALL_BEFORE_COMMIT);
    pause_set_visitor(NULL);
    pause_here(PAUSE_REFRESH_AFTER_PLAN);
    cr_expect_eq(seen, 1);
}
