/* core/look_guard.h: a user whose files do not answer keeps two threads at most. */
#include "core/look_guard.h"

#include "core/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

static struct look_guard *guard;

static void set_up(void)
{
    cr_assert(look_guard_create(&guard) == STATUS_OK);
}

static void tear_down(void)
{
    look_guard_destroy(&guard);
}

TestSuite(look_guard, .init = set_up, .fini = tear_down, .timeout = 30);

static enum status enter(const char *user, const char *agent, unsigned *ret_seat)
{
    struct scope scope;

    cr_assert(scope_create(user, agent, &scope, NULL) == STATUS_OK);
    return look_guard_enter(guard, &scope, ret_seat, NULL);
}

Test(look_guard, looks_at_many_users_do_not_meet)
{
    unsigned seats[100];
    char user[16];

    for (unsigned i = 0; i < ARRAY_SIZE(seats); i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        cr_assert(enter(user, NULL, &seats[i]) == STATUS_OK);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(seats); i++)
        look_guard_leave(guard, seats[i]);
}

Test(look_guard, who_hangs_keeps_others_of_the_same_user_out)
{
    unsigned hanging, seat;
    uint64_t oldest_ns;
    struct error error = {0};
    struct scope scope;

    cr_assert(enter("u1", "a", &hanging) == STATUS_OK);
    cr_expect_eq(look_guard_hanging(guard, &oldest_ns), 0);
    clock_advance_for_test(LOOK_HANGS_NS);
    cr_expect_eq(look_guard_hanging(guard, &oldest_ns), 1);
    cr_expect(oldest_ns >= LOOK_HANGS_NS);
    cr_assert(scope_create("u1", "b", &scope, NULL) == STATUS_OK);
    cr_expect_eq(look_guard_enter(guard, &scope, &seat, &error), STATUS_UNAVAILABLE);
    cr_expect(strstr(error.message, "does not answer"), "%s", error.message);
    cr_assert(enter("u2", NULL, &seat) == STATUS_OK, "another user is not disturbed");
    look_guard_leave(guard, seat);
    cr_assert(enter(NULL, NULL, &seat) == STATUS_OK, "nor is the scope without a user");
    look_guard_leave(guard, seat);
    look_guard_leave(guard, hanging);
    cr_expect_eq(look_guard_hanging(guard, &oldest_ns), 0);
    cr_assert(enter("u1", "b", &seat) == STATUS_OK, "the user answers again");
    look_guard_leave(guard, seat);
}

struct waiter {
    pthread_t thread;
    atomic_bool done;
    enum status status;
};

static void *wait_for_room(void *context)
{
    struct waiter *waiter = context;
    unsigned seat;

    waiter->status = enter("u1", NULL, &seat);
    if (waiter->status == STATUS_OK)
        look_guard_leave(guard, seat);
    atomic_store(&waiter->done, true);
    return NULL;
}

Test(look_guard, a_third_look_waits_for_one_of_two)
{
    unsigned first, second;
    struct waiter waiter = {0};

    cr_assert(enter("u1", NULL, &first) == STATUS_OK);
    cr_assert(enter("u1", NULL, &second) == STATUS_OK);
    cr_assert(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    look_guard_leave(guard, first);
    cr_assert(pthread_join(waiter.thread, NULL) == 0);
    cr_expect_eq(waiter.status, STATUS_OK);
    look_guard_leave(guard, second);
}

Test(look_guard, who_waits_gives_up_when_the_others_hang)
{
    unsigned first, second;
    struct waiter waiter = {0};

    cr_assert(enter("u1", NULL, &first) == STATUS_OK);
    cr_assert(enter("u1", NULL, &second) == STATUS_OK);
    cr_assert(pthread_create(&waiter.thread, NULL, wait_for_room, &waiter) == 0);
    clock_advance_for_test(LOOK_HANGS_NS);
    cr_assert(pthread_join(waiter.thread, NULL) == 0);
    cr_expect_eq(waiter.status, STATUS_UNAVAILABLE);
    look_guard_leave(guard, first);
    look_guard_leave(guard, second);
}

Test(look_guard, no_seat_is_ever_given_twice)
{
    unsigned seats[LOOKS_MAX];
    bool taken[LOOKS_MAX] = {false};
    char user[16];

    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        cr_assert(enter(user, NULL, &seats[i]) == STATUS_OK);
        cr_assert(seats[i] < LOOKS_MAX && !taken[seats[i]]);
        taken[seats[i]] = true;
    }
    for (unsigned i = 0; i < LOOKS_MAX; i++)
        look_guard_leave(guard, seats[i]);
}
