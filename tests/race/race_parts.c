/* The parts below the engine that many threads share: table, queue, pool, notes. */
#include "tests/race/race.h"

#include "core/clock.h"
#include "core/install_queue.h"
#include "core/reader_pool.h"
#include "core/refresh_table.h"
#include "core/scope_notes.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define SCOPES 5
#define ASKERS 4
#define RUNNERS 3
#define ROUNDS 300

static struct scope scope_number(unsigned number)
{
    struct scope scope;
    char user[16];

    (void) snprintf(user, sizeof user, "u%u", number);
    enum status status = scope_create(user, "a", &scope, NULL);
    RACE_CHECK(status == STATUS_OK);
    return scope;
}

static unsigned number_of(const struct scope *scope)
{
    return (unsigned) (scope->user[1] - '0');
}

/* ---- refresh table ---- */

struct table_race {
    struct refresh_table *table;
    atomic_uint running[SCOPES];
    _Atomic uint64_t written[SCOPES]; /* what a "peer" wrote last */
    _Atomic uint64_t seen[SCOPES];    /* what a run has captured */
    atomic_uint asker;
};

/* Looks as a refresh does: what was written before the run began is seen at the latest. */
static void do_run(struct table_race *race, struct refresh_run *run)
{
    unsigned number = number_of(&run->scope);
    struct refresh_result result = {.status = STATUS_OK};

    RACE_CHECK(atomic_fetch_add(&race->running[number], 1) == 0);
    uint64_t captured = atomic_load(&race->written[number]);
    (void) sched_yield();
    atomic_store(&race->seen[number], captured);
    result.generation = captured;
    racy_start(run->racy, clock_monotonic_ns());
    RACE_CHECK(atomic_fetch_sub(&race->running[number], 1) == 1);
    refresh_done(race->table, run, &result, 0);
}

static void *run_urgent(void *context)
{
    struct table_race *race = context;
    struct refresh_run run;

    while (refresh_take(race->table, true, &run))
        do_run(race, &run);
    return NULL;
}

static void *run_any(void *context)
{
    struct table_race *race = context;
    struct refresh_run run;

    while (refresh_take(race->table, false, &run))
        do_run(race, &run);
    return NULL;
}

/* Writes, asks for a run after it, and finds what it wrote. */
static void *ask_and_expect(void *context)
{
    struct table_race *race = context;
    unsigned asker = atomic_fetch_add(&race->asker, 1);
    struct refresh_result result;
    struct refresh_run run;
    uint64_t wanted;

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned number = (asker + i) % SCOPES;
        struct scope scope = scope_number(number);
        uint64_t mine = atomic_fetch_add(&race->written[number], 1) + 1;
        enum status status =
            refresh_request(race->table, &scope, i % 2 ? REFRESH_URGENT : REFRESH_BACKGROUND,
                            REFRESH_CAUSE_SEARCH, REFRESH_WISH_NONE, &wanted);
        RACE_CHECK(status == STATUS_OK);
        if (i % 3 == 0 && refresh_claim(race->table, &scope, &run))
            do_run(race, &run);
        RACE_CHECK(refresh_wait(race->table, &scope, wanted, CLOCK_NEVER, &result));
        RACE_CHECK(atomic_load(&race->seen[number]) >= mine);
    }
    return NULL;
}

/* Joins what is under way, as searches do, and looks again afterwards. */
static void *join_and_expect(void *context)
{
    struct table_race *race = context;
    unsigned asker = atomic_fetch_add(&race->asker, 1);
    struct refresh_result result;
    uint64_t number_of_run;

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned number = (asker + i) % SCOPES;
        struct scope scope = scope_number(number);
        uint64_t mine = atomic_fetch_add(&race->written[number], 1) + 1;
        unsigned tries = 0;
        while (atomic_load(&race->seen[number]) < mine && tries++ < 3) {
            enum status status = refresh_join(race->table, &scope, &number_of_run);
            RACE_CHECK(status == STATUS_OK);
            RACE_CHECK(refresh_wait(race->table, &scope, number_of_run, CLOCK_NEVER, &result));
        }
        /* One that was under way, and one that began after the first try. */
        RACE_CHECK(tries <= 2);
    }
    return NULL;
}

static void run_table_race(void *(*asker)(void *), bool with_urgent)
{
    struct table_race race = {0};
    pthread_t askers[ASKERS];
    pthread_t runners[RUNNERS];

    enum status status = refresh_table_create(&race.table);
    RACE_CHECK(status == STATUS_OK);
    for (unsigned i = 0; i < RUNNERS; i++)
        (void) pthread_create(&runners[i], NULL, i == 0 && with_urgent ? run_urgent : run_any,
                              &race);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_create(&askers[i], NULL, asker, &race);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_join(askers[i], NULL);
    refresh_table_stop(race.table);
    for (unsigned i = 0; i < RUNNERS; i++)
        (void) pthread_join(runners[i], NULL);
    refresh_table_destroy(&race.table);
}

void race_table_one_runner_a_scope(void)
{
    run_table_race(join_and_expect, true);
}

void race_table_no_request_is_lost(void)
{
    run_table_race(ask_and_expect, true);
}

struct waiter {
    struct refresh_table *table;
    uint64_t number;
    bool ended;
};

static void *wait_for_ever(void *context)
{
    struct waiter *waiter = context;
    struct scope scope = scope_number(1);
    struct refresh_result result;

    waiter->ended = refresh_wait(waiter->table, &scope, waiter->number, CLOCK_NEVER, &result);
    return NULL;
}

void race_table_stop_wakes_everybody(void)
{
    for (unsigned i = 0; i < 50; i++) {
        struct table_race race = {0};
        struct waiter waiter = {0};
        struct scope scope = scope_number(1);
        pthread_t threads[3];

        enum status status = refresh_table_create(&race.table);
        RACE_CHECK(status == STATUS_OK);
        /* Nobody takes background runs, so only stopping can end the wait. */
        status = refresh_request(race.table, &scope, REFRESH_BACKGROUND, REFRESH_CAUSE_SEARCH,
                                 REFRESH_WISH_NONE, &waiter.number);
        RACE_CHECK(status == STATUS_OK);
        waiter.table = race.table;
        (void) pthread_create(&threads[0], NULL, wait_for_ever, &waiter);
        (void) pthread_create(&threads[1], NULL, run_urgent, &race);
        (void) pthread_create(&threads[2], NULL, run_urgent, &race);
        if (i % 2)
            (void) sched_yield();
        refresh_table_stop(race.table);
        for (unsigned t = 0; t < 3; t++)
            (void) pthread_join(threads[t], NULL);
        RACE_CHECK(!waiter.ended);
        refresh_table_destroy(&race.table);
    }
}

/* ---- install queue ---- */

struct queue_race {
    struct install_queue *queue;
    uint64_t order[ASKERS * ROUNDS]; /* no atomics: the turn guards it */
    size_t count;
};

static void *install_often(void *context)
{
    struct queue_race *race = context;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t place;
        if (i % 4 == 3 && !install_queue_try(race->queue, &place))
            place = install_queue_enter(race->queue);
        else if (i % 4 != 3)
            place = install_queue_enter(race->queue);
        install_queue_wait(race->queue, place);
        race->order[race->count++] = place;
        install_queue_leave(race->queue, place);
    }
    return NULL;
}

void race_queue_first_come_first_served(void)
{
    static struct queue_race race;
    pthread_t threads[ASKERS];

    race = (struct queue_race){0};
    enum status status = install_queue_create(&race.queue);
    RACE_CHECK(status == STATUS_OK);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_create(&threads[i], NULL, install_often, &race);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_join(threads[i], NULL);
    RACE_CHECK(race.count == (size_t) ASKERS * ROUNDS);
    for (size_t i = 0; i < race.count; i++)
        RACE_CHECK(race.order[i] == i);
    RACE_CHECK(install_queue_length(race.queue) == 0);
    install_queue_destroy(&race.queue);
}

/* ---- reader pool ---- */

struct pool_race {
    struct reader_pool *pool;
    atomic_uint done;
};

static enum status fill_in(void *context, size_t index)
{
    unsigned *cells = context;

    cells[index]++; /* no atomics: each index is one thread's */
    return STATUS_OK;
}

static enum status fail_at_seven(void *context, size_t index)
{
    struct pool_race *race = context;

    atomic_fetch_add(&race->done, 1);
    return index == 7 ? STATUS_IO : STATUS_OK;
}

static void *use_pool(void *context)
{
    struct pool_race *race = context;

    for (size_t count = 0; count < 64; count++) {
        unsigned cells[64] = {0};
        enum status status = reader_pool_run(race->pool, count, fill_in, cells);
        RACE_CHECK(status == STATUS_OK);
        for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
            RACE_CHECK(cells[i] == (i < count ? 1 : 0));
        status = reader_pool_run(race->pool, count, fail_at_seven, race);
        RACE_CHECK(status == (count > 7 ? STATUS_IO : STATUS_OK));
    }
    return NULL;
}

void race_pool_shared_by_many(void)
{
    for (unsigned size = 0; size <= 4; size += 2) {
        struct pool_race race = {0};
        pthread_t threads[ASKERS];

        enum status status = reader_pool_create(size, READER_POOL_EAGER, &race.pool);
        RACE_CHECK(status == STATUS_OK);
        for (unsigned i = 0; i < ASKERS; i++)
            (void) pthread_create(&threads[i], NULL, use_pool, &race);
        for (unsigned i = 0; i < ASKERS; i++)
            (void) pthread_join(threads[i], NULL);
        reader_pool_destroy(&race.pool);
    }
}

/* ---- notes ---- */

struct notes_race {
    struct scope_notes *notes;
    atomic_uint told; /* changes of state that were told */
};

static void *note_often(void *context)
{
    struct notes_race *race = context;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct scope scope = scope_number(i % SCOPES);
        scope_notes_in_step(race->notes, &scope, i + 1);
        RACE_CHECK(scope_notes_last_in_step(race->notes, &scope) >= i + 1);
        if (scope_notes_outcome(race->notes, &scope, STATUS_IO, 0, i + 1))
            atomic_fetch_add(&race->told, 1);
    }
    return NULL;
}

void race_notes_and_clock(void)
{
    struct notes_race race = {0};
    pthread_t threads[ASKERS];

    enum status status = scope_notes_create(&race.notes);
    RACE_CHECK(status == STATUS_OK);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_create(&threads[i], NULL, note_often, &race);
    for (unsigned i = 0; i < ASKERS; i++)
        (void) pthread_join(threads[i], NULL);
    /* Each scope's failure is told once, whoever met it. */
    RACE_CHECK(atomic_load(&race.told) == SCOPES);
    RACE_CHECK(scope_notes_failing(race.notes) == SCOPES);
    scope_notes_destroy(&race.notes);
}
