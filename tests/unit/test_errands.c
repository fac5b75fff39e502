/* core/errands.h: a user whose files do not answer costs one thread, and nobody waits for it long.
 */
#include "core/errands.h"

#include "core/clock.h"
#include "core/volume.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 10000

static struct errands *errands;
static _Atomic unsigned begun, destroyed;

/* Where errands stand still until they are let go. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool is_open;

struct visit {
    struct errand errand;
    unsigned number; /* what it brings back: as which it was begun */
    bool on_errand;
};

static void set_up(void)
{
    cr_assert(errands_create(&errands) == STATUS_OK);
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    is_open = true;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
}

static void tear_down(void)
{
    open_gate();
    cr_assert(errands_settle(errands, clock_deadline_ms(LONG_MS)));
    errands_destroy(&errands);
}

TestSuite(errands, .init = set_up, .fini = tear_down, .timeout = 60);

static void run_visit(struct errand *errand)
{
    struct visit *visit = (struct visit *) errand;

    visit->number = atomic_fetch_add(&begun, 1) + 1;
    visit->on_errand = errands_is_on_one();
    volume_count_operations(7);
}

static void run_held(struct errand *errand)
{
    run_visit(errand);
    pthread_mutex_lock(&lock);
    while (!is_open)
        pthread_cond_wait(&opened, &lock);
    pthread_mutex_unlock(&lock);
}

static void destroy(struct errand *errand)
{
    atomic_fetch_add(&destroyed, 1);
    free(errand);
}

static struct errand *send(const char *user, const char *agent, void (*run)(struct errand *),
                           struct error *error)
{
    struct visit *visit = calloc(1, sizeof *visit);

    cr_assert(visit);
    visit->errand = (struct errand){.run = run, .destroy = destroy};
    cr_assert(scope_create(user, agent, &visit->errand.scope, NULL) == STATUS_OK);
    return errands_send(errands, &visit->errand, error);
}

static void wait_until(const _Atomic unsigned *counter, unsigned wanted)
{
    for (unsigned i = 0; i < LONG_MS && atomic_load(counter) < wanted; i++)
        (void) nanosleep(&(struct timespec){.tv_nsec = (long) NS_PER_MS}, NULL);
    cr_assert_eq(atomic_load(counter), wanted);
}

Test(errands, brings_back_what_was_found_and_what_it_cost)
{
    uint64_t operations = volume_operations_here();
    struct errand *errand = send("u", NULL, run_visit, NULL);

    cr_assert(errand);
    cr_assert(errands_wait(errands, errand, CLOCK_NEVER, NULL) == STATUS_OK);
    cr_expect_eq(((struct visit *) errand)->number, 1);
    cr_expect(((struct visit *) errand)->on_errand);
    cr_expect(!errands_is_on_one());
    cr_expect_eq(volume_operations_here() - operations, 7);
    cr_expect_eq(atomic_load(&destroyed), 0);
    errands_release(errands, errand);
    cr_expect_eq(atomic_load(&destroyed), 1);
}

Test(errands, who_hangs_is_waited_for_a_second_and_keeps_only_his_user)
{
    struct error error = {0};
    struct errand *hanging = send("u", "a", run_held, NULL);

    wait_until(&begun, 1);
    clock_advance_for_test(ERRAND_PATIENCE_NS);
    cr_expect_eq(errands_wait(errands, hanging, clock_deadline_ms(1), NULL), STATUS_TIMEOUT);
    cr_expect_eq(errands_wait(errands, hanging, CLOCK_NEVER, &error), STATUS_UNAVAILABLE);
    cr_expect(strstr(error.message, "does not answer"), "%s", error.message);
    errands_release(errands, hanging);
    cr_expect_eq(atomic_load(&destroyed), 0, "whoever runs it still needs it");

    cr_expect(!send("u", "b", run_visit, &error), "another agent of the user");
    cr_expect(strstr(error.message, "does not answer"), "%s", error.message);
    struct errand *other = send("v", "a", run_visit, NULL);
    cr_assert(other);
    cr_expect(errands_wait(errands, other, CLOCK_NEVER, NULL) == STATUS_OK);
    errands_release(errands, other);

    open_gate();
    cr_assert(errands_settle(errands, clock_deadline_ms(LONG_MS)));
    cr_expect_eq(atomic_load(&destroyed), 3, "the refused one, too");
    struct errand *again = send("u", "b", run_visit, NULL);
    cr_assert(again);
    cr_expect(errands_wait(errands, again, CLOCK_NEVER, NULL) == STATUS_OK);
    errands_release(errands, again);
}

Test(errands, of_one_user_one_is_under_way_and_equal_ones_are_one)
{
    struct errand *first = send("u", "a", run_held, NULL);

    wait_until(&begun, 1);
    struct errand *second = send("u", "a", run_held, NULL);
    cr_assert(second && second != first, "what is under way may have looked too early");
    struct errand *joined = send("u", "a", run_held, NULL);
    cr_expect_eq(joined, second);
    struct errand *other_agent = send("u", "b", run_held, NULL);
    cr_assert(other_agent && other_agent != second);
    cr_expect_eq(atomic_load(&begun), 1);
    open_gate();
    cr_expect(errands_wait(errands, joined, CLOCK_NEVER, NULL) == STATUS_OK);
    cr_expect(errands_wait(errands, other_agent, CLOCK_NEVER, NULL) == STATUS_OK);
    cr_expect_eq(atomic_load(&begun), 3);
    struct errand *const all[] = {first, second, joined, other_agent};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        errands_release(errands, all[i]);
}

Test(errands, that_nobody_waits_for_any_more_are_not_begun)
{
    struct errand *first = send("u", "a", run_held, NULL);

    wait_until(&begun, 1);
    struct errand *second = send("u", "a", run_held, NULL);
    errands_release(errands, second);
    cr_expect_eq(atomic_load(&destroyed), 1, "the second");
    errands_release(errands, first);
    open_gate();
    cr_assert(errands_settle(errands, clock_deadline_ms(LONG_MS)));
    cr_expect_eq(atomic_load(&begun), 1);
}

/* As many users hang as there may be threads: the next one is not waited for in vain for long. */
Test(errands, are_bounded_in_all)
{
    struct errand *hanging[ERRAND_THREADS_MAX];
    struct error error = {0};
    char user[16];

    for (unsigned i = 0; i < ERRAND_THREADS_MAX; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        hanging[i] = send(user, NULL, run_held, NULL);
        cr_assert(hanging[i]);
    }
    wait_until(&begun, ERRAND_THREADS_MAX);
    struct errand *one_more = send("more", NULL, run_visit, NULL);
    cr_assert(one_more);
    cr_expect_eq(errands_wait(errands, one_more, CLOCK_NEVER, &error), STATUS_UNAVAILABLE);
    cr_expect(strstr(error.message, "none returns"), "%s", error.message);
    errands_release(errands, one_more);
    cr_expect_eq(atomic_load(&begun), ERRAND_THREADS_MAX);
    for (unsigned i = 0; i < ERRAND_THREADS_MAX; i++)
        errands_release(errands, hanging[i]);
}
