#include "chaos/explorer/sched.h"

#include "chaos/explorer/wrap.h"
#include "core/clock.h"
#include "tests/support/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STEP_NS NS_PER_US
#define HANG_SECONDS 120
/* Waits that end early by choice are those of readers' patience, not those of minutes. */
#define EARLY_NS (500 * NS_PER_MS)
/* So much waiting in vain is a deadlock, whatever the deadlines are. */
#define STALL_NS (5 * NS_PER_SECOND)
/* To die while others go on is much like having died before, but for the lock: left to large
 * bounds.
 */
#define LATE_DEATH_COST 2
#define STACK_BYTES (512u << 10)

static struct {
    struct sched_actor *actors[SCHED_ACTORS_MAX];
    unsigned count;
    struct sched_actor *current;
    unsigned mortal_process; /* 0: none, or dead by now */
    bool somebody_died;
    bool draining;
    unsigned step;
    uint64_t stalled_ns;
    unsigned points[PAUSE_POINT_COUNT];
    sem_t stopped; /* the running actor has come to a stop */
} sched;

static _Thread_local struct sched_actor *self;

/* ---- the actor's side ---- */

static void wait_for_semaphore(sem_t *semaphore)
{
    while (sem_wait(semaphore) < 0 && errno == EINTR)
        continue;
}

static void give_way(void)
{
    (void) sem_post(&sched.stopped);
    wait_for_semaphore(&self->go);
}

struct sched_actor *sched_self(void)
{
    return self;
}

bool sched_stop(const char *label)
{
    if (sched.draining)
        return false;
    self->at = label;
    self->state = ACTOR_HELD;
    self->last_wait = NULL;
    give_way();
    return !self->dying && !sched.draining;
}

bool sched_wait(const void *key, uint64_t until_ns, const char *label)
{
    self->at = label;
    self->expired_last = self->expired && self->last_wait == key;
    self->last_wait = key;
    self->waits_for = key;
    self->until_ns = until_ns;
    self->told = false;
    self->expired = false;
    self->state = ACTOR_BLOCKED;
    give_way();
    return !self->expired;
}

void sched_sleep(uint64_t ns)
{
    (void) sched_wait(&sched, clock_monotonic_ns() + ns, "sleeps");
}

void sched_tell(const void *key)
{
    for (unsigned i = 0; i < sched.count; i++) {
        struct sched_actor *actor = sched.actors[i];
        if (actor->state == ACTOR_BLOCKED && actor->waits_for == key)
            actor->told = true;
    }
}

static void visit(enum pause_point point)
{
    if (!self || sched.draining)
        return;
    sched.points[point]++;
    (void) sched_stop(pause_point_name(point));
}

static void *actor_main(void *context)
{
    self = context;
    wait_for_semaphore(&self->go);
    if (!sched.draining && (!self->waits_for_death || sched.somebody_died))
        self->body(self);
    self->state = ACTOR_ENDED;
    self->at = "the end";
    (void) sem_post(&sched.stopped);
    return NULL;
}

/* ---- the main thread's side ---- */

void sched_reset(void)
{
    static bool is_ready;

    if (!is_ready) {
        (void) sem_init(&sched.stopped, 0, 0);
        pause_set_visitor(visit);
        is_ready = true;
    }
    sched.count = 0;
    sched.current = NULL;
    sched.mortal_process = 0;
    sched.somebody_died = false;
    sched.draining = false;
    sched.step = 0;
    sched.stalled_ns = 0;
    memset(sched.points, 0, sizeof sched.points);
}

void sched_add(struct sched_actor *actor)
{
    if (sched.count == SCHED_ACTORS_MAX)
        test_die("too many actors");
    actor->number = sched.count;
    actor->state = ACTOR_HELD;
    actor->at = "start";
    (void) sem_init(&actor->go, 0, 0);
    sched.actors[sched.count++] = actor;
}

void sched_begin(unsigned mortal_process)
{
    pthread_attr_t attributes;

    sched.mortal_process = mortal_process;
    (void) pthread_attr_init(&attributes);
    (void) pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (unsigned i = 0; i < sched.count; i++) {
        struct sched_actor *actor = sched.actors[i];
        if (pthread_create(&actor->thread, &attributes, actor_main, actor) != 0)
            test_die("no thread");
    }
    (void) pthread_attr_destroy(&attributes);
    wrap_stop_clocks();
}

static void report_hang(const struct sched_actor *actor)
{
    test_die("%s went on from \"%s\" and comes to no stop", actor->name, actor->at);
}

/* The actor goes on, and comes to its next stop. */
static void let_go(struct sched_actor *actor)
{
    struct timespec until;

    wrap_real_clock(CLOCK_REALTIME, &until);
    until.tv_sec += HANG_SECONDS;
    (void) sem_post(&actor->go);
    while (sem_timedwait(&sched.stopped, &until) < 0) {
        if (errno != EINTR)
            report_hang(actor);
    }
}

static bool has_begun(const struct sched_actor *actor)
{
    return actor->steps > 0;
}

static bool is_there(const struct sched_actor *actor)
{
    return actor->state != ACTOR_ENDED && !actor->is_zombie &&
           (!actor->waits_for_death || sched.somebody_died);
}

static bool can_run(const struct sched_actor *actor)
{
    return is_there(actor) && (actor->state == ACTOR_HELD || actor->told);
}

static bool can_expire(const struct sched_actor *actor)
{
    return is_there(actor) && actor->state == ACTOR_BLOCKED && !actor->told &&
           actor->until_ns != CLOCK_NEVER;
}

static bool is_over(void)
{
    for (unsigned i = 0; i < sched.count; i++) {
        const struct sched_actor *actor = sched.actors[i];
        if (is_there(actor) && (!actor->is_server || can_run(actor)))
            return false;
    }
    return true;
}

static void add_option(struct sched_option *options, unsigned *count, enum choice_kind kind,
                       unsigned number, unsigned cost)
{
    options[(*count)++] =
        (struct sched_option){.choice = {.kind = kind, .actor = number}, .cost = cost};
}

/* Runs, the current actor's first. */
static void offer_runs(struct sched_option *options, unsigned *count)
{
    bool free = !sched.current || !can_run(sched.current);

    if (!free)
        add_option(options, count, CHOICE_RUN, sched.current->number, 0);
    for (unsigned i = 0; i < sched.count; i++) {
        if (can_run(sched.actors[i]) && sched.actors[i] != sched.current)
            add_option(options, count, CHOICE_RUN, i, !free);
    }
    /* It was not offered above when it had ended or waits. */
    if (free && sched.current && can_run(sched.current))
        add_option(options, count, CHOICE_RUN, sched.current->number, 0);
}

static void offer_deaths(struct sched_option *options, unsigned *count)
{
    for (unsigned i = 0; i < sched.count; i++) {
        const struct sched_actor *actor = sched.actors[i];
        if (actor->is_mortal && is_there(actor) && has_begun(actor) && actor->state == ACTOR_HELD &&
            !sched.somebody_died)
            add_option(options, count, CHOICE_DIE, i, actor == sched.current ? 0 : LATE_DEATH_COST);
    }
    if (sched.mortal_process && sched.current)
        add_option(options, count, CHOICE_KILL, sched.mortal_process,
                   sched.current->process == sched.mortal_process ? 0 : LATE_DEATH_COST);
}

static void offer_early_ends(struct sched_option *options, unsigned *count)
{
    uint64_t now_ns = clock_monotonic_ns();

    for (unsigned i = 0; i < sched.count; i++) {
        const struct sched_actor *actor = sched.actors[i];
        if (can_expire(actor) && !actor->expired_last && !actor->is_server &&
            actor->until_ns < now_ns + EARLY_NS)
            add_option(options, count, CHOICE_EXPIRE, i, 1);
    }
}

/* Nobody can go on but by waiting: the wait that ends first ends. */
static bool offer_first_end(struct sched_option *options, unsigned *count)
{
    const struct sched_actor *first = NULL;

    for (unsigned i = 0; i < sched.count; i++) {
        const struct sched_actor *actor = sched.actors[i];
        if (can_expire(actor) && (!first || actor->until_ns < first->until_ns))
            first = actor;
    }
    if (first)
        add_option(options, count, CHOICE_EXPIRE, first->number, 0);
    return first != NULL;
}

unsigned sched_options(struct sched_option ret[SCHED_OPTIONS_MAX], const char **ret_stuck)
{
    unsigned count = 0;

    *ret_stuck = NULL;
    if (is_over())
        return 0;
    if (sched.step >= SCHED_STEPS_MAX || sched.stalled_ns > STALL_NS) {
        *ret_stuck = "the actors wait for each other, again and again";
        return 0;
    }
    offer_runs(ret, &count);
    if (count > 0)
        offer_early_ends(ret, &count);
    else if (!offer_first_end(ret, &count))
        *ret_stuck = "deadlock: everybody waits, nobody will be told";
    if (!*ret_stuck)
        offer_deaths(ret, &count);
    return *ret_stuck ? 0 : count;
}

static void end_wait(struct sched_actor *actor)
{
    uint64_t now_ns = clock_monotonic_ns();

    actor->expired = true;
    if (actor->until_ns > now_ns) {
        wrap_advance_clocks(actor->until_ns - now_ns);
        sched.stalled_ns += actor->until_ns - now_ns;
    }
}

static void kill_process(unsigned process)
{
    for (unsigned i = 0; i < sched.count; i++) {
        if (sched.actors[i]->process == process)
            sched.actors[i]->is_zombie = true;
    }
    sched.mortal_process = 0;
    sched.somebody_died = true;
}

void sched_perform(struct choice choice)
{
    sched.step++;
    wrap_advance_clocks(STEP_NS);
    if (choice.kind == CHOICE_KILL) {
        kill_process(choice.actor);
        return;
    }
    struct sched_actor *actor = sched.actors[choice.actor];
    if (choice.kind == CHOICE_EXPIRE)
        end_wait(actor);
    else if (choice.kind == CHOICE_DIE)
        sched.somebody_died = actor->dying = true;
    else if (actor->state == ACTOR_HELD)
        sched.stalled_ns = 0;
    sched.current = actor;
    actor->steps++;
    sched_tell(&sched); /* whoever slept meanwhile may have slept long enough */
    let_go(actor);
}

/* One of those that have not ended; the one that waits shortest when all of them wait. */
static struct sched_actor *next_to_drain(void)
{
    struct sched_actor *next = NULL;

    for (unsigned i = 0; i < sched.count; i++) {
        struct sched_actor *actor = sched.actors[i];
        if (actor->state == ACTOR_ENDED)
            continue;
        if (actor->state == ACTOR_HELD || actor->told)
            return actor;
        if (!next || actor->until_ns < next->until_ns)
            next = actor;
    }
    return next;
}

void sched_drain(void)
{
    sched.draining = true;
    for (struct sched_actor *actor; (actor = next_to_drain());) {
        if (actor->state == ACTOR_BLOCKED && !actor->told) {
            if (actor->until_ns == CLOCK_NEVER)
                test_die("%s waits for ever at \"%s\"", actor->name, actor->at);
            end_wait(actor);
        }
        let_go(actor);
    }
    for (unsigned i = 0; i < sched.count; i++) {
        (void) pthread_join(sched.actors[i]->thread, NULL);
        (void) sem_destroy(&sched.actors[i]->go);
    }
}

void sched_end(void)
{
    wrap_start_clocks();
}

struct sched_actor *sched_current(void)
{
    return sched.current;
}

struct sched_actor *sched_actor(unsigned number)
{
    return sched.actors[number];
}

unsigned sched_actor_count(void)
{
    return sched.count;
}

unsigned sched_step(void)
{
    return sched.step;
}

const unsigned *sched_points_met(void)
{
    return sched.points;
}

bool sched_is_draining(void)
{
    return sched.draining;
}
