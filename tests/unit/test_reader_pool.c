/* core/reader_pool.h: work for many threads, done when it returns. */
#include "core/reader_pool.h"

#include "core/clock.h"
#include "core/volume_stuck.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

TestSuite(reader_pool, .timeout = 30);

#define CELLS 200

struct work {
    atomic_uint done[CELLS];
    atomic_uint begun;
    size_t fail_at; /* CELLS: never */
    pthread_barrier_t *barrier;
};

static enum status do_cell(void *context, size_t index)
{
    struct work *work = context;

    atomic_fetch_add(&work->begun, 1);
    if (index == work->fail_at)
        return STATUS_STALE;
    atomic_fetch_add(&work->done[index], 1);
    return STATUS_OK;
}

static void expect_each_once(enum reader_pool_mode mode)
{
    static const unsigned sizes[] = {0, 1, 2, 8};
    static const size_t counts[] = {0, 1, 4, 5, 6, CELLS};

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        struct reader_pool *pool = NULL;
        cr_assert(reader_pool_create(sizes[s], mode, &pool) == STATUS_OK);
        for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
            struct work work = {.fail_at = CELLS};
            cr_expect(reader_pool_run(pool, counts[c], do_cell, &work) == STATUS_OK);
            for (size_t i = 0; i < CELLS; i++)
                cr_expect(atomic_load(&work.done[i]) == (i < counts[c]),
                          "%u threads, %zu cells, cell %zu", sizes[s], counts[c], i);
        }
        reader_pool_destroy(&pool);
        cr_expect(pool == NULL);
        reader_pool_destroy(&pool);
    }
}

Test(reader_pool, each_index_is_done_once_whatever_the_size)
{
    expect_each_once(READER_POOL_EAGER);
    expect_each_once(READER_POOL_MEASURE);
}

/* Who did what, and how long each takes. */
struct shift {
    pthread_t caller;
    unsigned nap_us;
    atomic_uint by_others;
    atomic_bool first_two_by_others; /* any of them */
};

static enum status work_a_while(void *context, size_t index)
{
    struct shift *shift = context;

    (void) usleep(shift->nap_us);
    if (!pthread_equal(pthread_self(), shift->caller)) {
        atomic_fetch_add(&shift->by_others, 1);
        if (index < 2)
            atomic_store(&shift->first_two_by_others, true);
    }
    return STATUS_OK;
}

/* While the caller naps over the first index, a thread that was woken would take the second. */
Test(reader_pool, threads_join_in_when_the_first_calls_turn_out_to_be_slow)
{
    struct shift eager = {.caller = pthread_self(), .nap_us = 20000};
    struct shift measured = eager;
    struct reader_pool *pool = NULL;

    cr_assert(reader_pool_create(2, READER_POOL_EAGER, &pool) == STATUS_OK);
    cr_expect(reader_pool_run(pool, 20, work_a_while, &eager) == STATUS_OK);
    cr_expect(atomic_load(&eager.first_two_by_others));
    reader_pool_destroy(&pool);
    cr_assert(reader_pool_create(2, READER_POOL_MEASURE, &pool) == STATUS_OK);
    cr_expect(reader_pool_run(pool, 20, work_a_while, &measured) == STATUS_OK);
    cr_expect(!atomic_load(&measured.first_two_by_others));
    cr_expect(atomic_load(&measured.by_others) > 0);
    reader_pool_destroy(&pool);
}

Test(reader_pool, a_failure_is_told_and_skips_what_was_not_begun)
{
    static const unsigned sizes[] = {0, 3};

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        struct reader_pool *pool = NULL;
        struct work work = {.fail_at = 0};
        cr_assert(reader_pool_create(sizes[s], READER_POOL_EAGER, &pool) == STATUS_OK);
        cr_expect(reader_pool_run(pool, CELLS, do_cell, &work) == STATUS_STALE);
        cr_expect(atomic_load(&work.begun) < CELLS || sizes[s] > 0);
        work = (struct work){.fail_at = CELLS};
        cr_expect(reader_pool_run(pool, CELLS, do_cell, &work) == STATUS_OK, "it goes on after");
        reader_pool_destroy(&pool);
    }
}

/* Three calls that wait for one another can only end when three threads are at it. */
static enum status meet(void *context, size_t index)
{
    struct work *work = context;

    (void) index;
    (void) pthread_barrier_wait(work->barrier);
    return STATUS_OK;
}

Test(reader_pool, calls_that_hang_are_waited_for_side_by_side)
{
    struct reader_pool *pool = NULL;
    pthread_barrier_t barrier;
    struct work work = {.fail_at = CELLS, .barrier = &barrier};

    cr_assert(pthread_barrier_init(&barrier, NULL, 3) == 0);
    cr_assert(reader_pool_create(2, READER_POOL_EAGER, &pool) ==
              STATUS_OK); /* and the caller's own */
    cr_expect(reader_pool_run(pool, 6, meet, &work) == STATUS_OK);
    reader_pool_destroy(&pool);
    (void) pthread_barrier_destroy(&barrier);
}

/* All threads of the pool hang in one caller's work; another caller does its own alone. */
static atomic_bool let_go;

static enum status hang(void *context, size_t index)
{
    struct work *work = context;

    (void) index;
    atomic_fetch_add(&work->begun, 1);
    while (!atomic_load(&let_go))
        (void) sched_yield();
    return STATUS_OK;
}

struct hanging {
    struct reader_pool *pool;
    struct work work;
};

static void *run_hanging(void *context)
{
    struct hanging *hanging = context;

    cr_expect(reader_pool_run(hanging->pool, 8, hang, &hanging->work) == STATUS_OK);
    return NULL;
}

Test(reader_pool, a_caller_is_not_stuck_behind_anothers_hanging_calls)
{
    struct hanging hanging = {.work = {.fail_at = CELLS}};
    struct work work = {.fail_at = CELLS};
    pthread_t thread;

    cr_assert(reader_pool_create(2, READER_POOL_EAGER, &hanging.pool) == STATUS_OK);
    cr_assert(pthread_create(&thread, NULL, run_hanging, &hanging) == 0);
    while (atomic_load(&hanging.work.begun) < 3)
        (void) sched_yield();
    cr_expect(reader_pool_run(hanging.pool, CELLS, do_cell, &work) == STATUS_OK);
    atomic_store(&let_go, true);
    (void) pthread_join(thread, NULL);
    reader_pool_destroy(&hanging.pool);
}

/* ---- threads that hang ---- */

struct tunnel {
    atomic_uint inside;
    atomic_bool open;
};

/* Nobody comes back before the tunnel is opened. */
static enum status enter_tunnel(void *context, size_t index)
{
    struct tunnel *tunnel = context;

    (void) index;
    volume_stuck_begin("read", -1, "");
    atomic_fetch_add(&tunnel->inside, 1);
    while (!atomic_load(&tunnel->open))
        (void) usleep(1000);
    volume_stuck_end();
    return STATUS_OK;
}

struct stuck_caller {
    struct reader_pool *pool;
    struct tunnel *tunnel;
    size_t count;
};

static void *run_into_tunnel(void *context)
{
    struct stuck_caller *caller = context;

    cr_expect(reader_pool_run(caller->pool, caller->count, enter_tunnel, caller->tunnel) ==
              STATUS_OK);
    return NULL;
}

struct party {
    atomic_uint arrived;
    unsigned wanted;
};

/* Succeeds only where so many threads come together. */
static enum status come_together(void *context, size_t index)
{
    struct party *party = context;

    (void) index;
    atomic_fetch_add(&party->arrived, 1);
    for (int i = 0; i < 3000; i++) {
        if (atomic_load(&party->arrived) >= party->wanted)
            return STATUS_OK;
        (void) usleep(1000);
    }
    return STATUS_TIMEOUT;
}

static enum status meet_in(struct reader_pool *pool, unsigned threads)
{
    struct party party = {.wanted = threads};

    return reader_pool_run(pool, threads, come_together, &party);
}

Test(reader_pool, threads_that_hang_are_replaced)
{
    struct reader_pool *pool = NULL;
    struct tunnel tunnel = {0};
    pthread_t thread;

    cr_assert(reader_pool_create(3, READER_POOL_EAGER, &pool) == STATUS_OK);
    struct stuck_caller caller = {.pool = pool, .tunnel = &tunnel, .count = 4};
    cr_assert(pthread_create(&thread, NULL, run_into_tunnel, &caller) == 0);
    while (atomic_load(&tunnel.inside) < 4)
        (void) usleep(1000);
    reader_pool_oversee(pool);
    cr_expect(meet_in(pool, 4) == STATUS_TIMEOUT, "they may come back any moment");
    clock_advance_for_test(VOLUME_STUCK_NS);
    reader_pool_oversee(pool);
    reader_pool_oversee(pool);
    cr_expect(meet_in(pool, 4) == STATUS_OK);

    atomic_store(&tunnel.open, true);
    (void) pthread_join(thread, NULL);
    cr_expect(meet_in(pool, 4) == STATUS_OK);
    reader_pool_destroy(&pool);
}
