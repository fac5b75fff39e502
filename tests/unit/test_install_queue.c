/* core/install_queue.h: one at a time, first come, first served. */
#include "core/install_queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static struct install_queue *queue;
static atomic_int order[4];
static atomic_int arrived;

static void set_up(void)
{
    cr_assert(install_queue_create(&queue) == STATUS_OK);
}

static void tear_down(void)
{
    install_queue_destroy(&queue);
    cr_expect(queue == NULL);
    install_queue_destroy(&queue);
}

TestSuite(install_queue, .init = set_up, .fini = tear_down, .timeout = 30);

struct comer {
    uint64_t place;
    int name;
};

static void *wait_for_turn(void *context)
{
    struct comer *comer = context;

    install_queue_wait(queue, comer->place);
    atomic_store(&order[atomic_fetch_add(&arrived, 1)], comer->name);
    install_queue_leave(queue, comer->place);
    return NULL;
}

/* A place is taken before the user's lock is given back, long before the wait begins. */
Test(install_queue, places_taken_first_go_first_whoever_waits_first)
{
    struct comer comers[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        comers[i] = (struct comer){install_queue_enter(queue), i};
    cr_expect_eq(install_queue_length(queue), 3);
    for (int i = 2; i >= 0; i--)
        cr_assert(pthread_create(&threads[i], NULL, wait_for_turn, &comers[i]) == 0);
    for (int i = 0; i < 3; i++)
        (void) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(atomic_load(&order[i]), i);
    cr_expect_eq(install_queue_length(queue), 0);
}

Test(install_queue, maintenance_gets_a_turn_only_when_nobody_is_there)
{
    uint64_t place = 99;
    uint64_t other;

    cr_assert(install_queue_try(queue, &place));
    install_queue_wait(queue, place); /* at once */
    cr_expect(!install_queue_try(queue, &other));
    install_queue_leave(queue, place);

    uint64_t waiting = install_queue_enter(queue);
    cr_expect(!install_queue_try(queue, &other), "somebody has a place");
    install_queue_wait(queue, waiting);
    cr_expect(!install_queue_try(queue, &other), "somebody is at it");
    install_queue_leave(queue, waiting);
    cr_assert(install_queue_try(queue, &other));
    cr_expect_eq(other, waiting + 1);
    install_queue_leave(queue, other);
}

Test(install_queue, nobody_goes_before_his_turn)
{
    struct comer second;
    pthread_t thread;
    uint64_t first = install_queue_enter(queue);

    second = (struct comer){install_queue_enter(queue), 1};
    install_queue_wait(queue, first);
    cr_assert(pthread_create(&thread, NULL, wait_for_turn, &second) == 0);
    (void) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* a chance to do it wrong */
    cr_expect_eq(atomic_load(&arrived), 0);
    install_queue_leave(queue, first);
    (void) pthread_join(thread, NULL);
    cr_expect_eq(atomic_load(&arrived), 1);
}
