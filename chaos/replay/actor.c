#include "chaos/replay/actor_private.h"

#include "tests/support/files.h"

#include <stdio.h>
#include <string.h>

struct actor *actor_create(struct temp_store *store, size_t threads, unsigned first_number,
                           void (*run)(struct actor_thread *thread))
{
    struct actor *actor = calloc(1, sizeof *actor);

    if (!actor || first_number + threads > PAUSE_ACTORS_MAX)
        test_die("no room for an actor");
    actor->store = store;
    actor->thread_count = threads;
    actor->run = run;
    for (size_t i = 0; i < threads; i++)
        actor->threads[i] =
            (struct actor_thread){.actor = actor, .number = first_number + (unsigned) i};
    for (size_t i = 0; i < threads; i++)
        pause_actor_forget(actor->threads[i].number);
    return actor;
}

static void *be_actor(void *context)
{
    struct actor_thread *thread = context;

    pause_actor_enter(thread->number);
    thread->actor->run(thread);
    pause_actor_leave();
    return NULL;
}

/* ---- leading ---- */

static void lead(struct actor_thread *thread, uint64_t stops)
{
    if (thread->ended)
        return;
    for (unsigned i = 0; i < PAUSE_POINT_COUNT; i++)
        thread->visits[i] = pause_actor_visits(thread->number, (enum pause_point) i);
    pause_actor_go(thread->number, stops);
    if (!thread->started && pthread_create(&thread->thread, NULL, be_actor, thread) != 0)
        test_die("no thread");
    thread->started = true;
}

void actor_lead(struct actor *actor, uint64_t stops)
{
    for (size_t i = 0; i < actor->thread_count; i++)
        lead(&actor->threads[i], stops);
}

static struct actor_thread *first_alive(struct actor *actor)
{
    for (size_t i = 0; i < actor->thread_count; i++) {
        if (!actor->threads[i].ended)
            return &actor->threads[i];
    }
    return NULL;
}

bool actor_lead_first(struct actor *actor, uint64_t stops)
{
    actor->first = first_alive(actor);
    if (actor->first)
        lead(actor->first, stops);
    return actor->first != NULL;
}

void actor_lead_others(struct actor *actor, uint64_t stops)
{
    for (size_t i = 0; i < actor->thread_count; i++) {
        if (&actor->threads[i] != actor->first)
            lead(&actor->threads[i], stops);
    }
}

/* Looks, for at most `timeout_ms`; joins it when it has ended. */
static enum pause_actor_state look(struct actor_thread *thread, unsigned timeout_ms)
{
    enum pause_point at;

    if (thread->ended || !thread->started)
        return thread->ended ? PAUSE_ACTOR_ENDED : PAUSE_ACTOR_AWAY;
    enum pause_actor_state state = pause_actor_wait(thread->number, timeout_ms, &at);
    if (state == PAUSE_ACTOR_ENDED) {
        thread->ended = true;
        (void) pthread_join(thread->thread, NULL);
    }
    return state;
}

static _Noreturn void stands_still(const struct actor_thread *thread)
{
    test_die("actor %u neither arrives nor ends", thread->number);
}

/* True when it stands at a point, false when it has ended. */
static bool await(struct actor_thread *thread)
{
    enum pause_actor_state state = look(thread, ACTOR_PATIENCE_MS);

    if (state == PAUSE_ACTOR_RUNNING || (state == PAUSE_ACTOR_AWAY && thread->started))
        stands_still(thread);
    return state == PAUSE_ACTOR_HELD;
}

enum actor_where actor_await(struct actor *actor)
{
    bool any = false;

    for (size_t i = 0; i < actor->thread_count; i++)
        any |= await(&actor->threads[i]);
    return any ? ACTOR_HELD : ACTOR_ENDED;
}

enum actor_where actor_await_first(struct actor *actor)
{
    return actor->first && await(actor->first) ? ACTOR_HELD : ACTOR_ENDED;
}

/* The one that stands; waits a moment for each. */
static struct actor_thread *find_standing(struct actor *actor, unsigned timeout_ms)
{
    for (size_t i = 0; i < actor->thread_count; i++) {
        if (look(&actor->threads[i], timeout_ms) == PAUSE_ACTOR_HELD)
            return &actor->threads[i];
    }
    return NULL;
}

bool actor_stands(struct actor *actor)
{
    return find_standing(actor, 0) != NULL;
}

enum actor_where actor_await_any(struct actor *actor)
{
    for (unsigned waited_ms = 0; waited_ms < ACTOR_PATIENCE_MS; waited_ms++) {
        actor->first = find_standing(actor, 1);
        if (actor->first)
            return ACTOR_HELD;
        if (actor_alive(actor) == 0)
            return ACTOR_ENDED;
    }
    stands_still(&actor->threads[0]);
}

bool actor_has_not_reached(const struct actor *actor, enum pause_point point)
{
    for (size_t i = 0; i < actor->thread_count; i++) {
        const struct actor_thread *thread = &actor->threads[i];
        if (thread->started && !thread->ended &&
            pause_actor_visits(thread->number, point) != thread->visits[point])
            return false;
    }
    return true;
}

unsigned actor_alive(struct actor *actor)
{
    unsigned count = 0;

    for (size_t i = 0; i < actor->thread_count; i++)
        count += look(&actor->threads[i], 0) != PAUSE_ACTOR_ENDED;
    return count;
}

void actor_refuse(struct actor *actor, unsigned nth)
{
    pause_actor_fail_at(actor->threads[0].number, PAUSE_INSTALL_BEFORE_COMMIT, nth);
}

const char *actor_outcome(const struct actor *actor)
{
    for (size_t i = 0; i < actor->thread_count; i++) {
        if (actor->threads[i].status != STATUS_OK)
            return status_name(actor->threads[i].status);
    }
    return status_name(STATUS_OK);
}

void actor_destroy(struct actor **actor_address)
{
    struct actor *actor = TAKE_PTR(*actor_address);

    if (!actor)
        return;
    for (size_t i = 0; i < actor->thread_count; i++) {
        struct actor_thread *thread = &actor->threads[i];
        if (!thread->started || thread->ended)
            continue;
        pause_actor_go(thread->number, PAUSE_SET_NONE);
        (void) await(thread);
    }
    free(actor);
}
