#include "chaos/explorer/history.h"

#include "tests/support/files.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    hash *= UINT64_C(0xff51afd7ed558ccd);
    return hash ^ (hash >> 32);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- steps ---- */

struct things {
    struct history_thing *changed[HISTORY_PARTS + HISTORY_AGENTS + 1];
    unsigned changed_count;
    struct history_thing *looked_at[HISTORY_PARTS];
    unsigned looked_count;
};

static void collect(struct history *history, const struct history_touch *touch, struct things *ret)
{
    ret->changed_count = ret->looked_count = 0;
    for (unsigned i = 0; i < HISTORY_PARTS; i++) {
        if (touch->everything || (touch->writes >> i & 1))
            ret->changed[ret->changed_count++] = &history->parts[i];
        else if (touch->reads >> i & 1)
            ret->looked_at[ret->looked_count++] = &history->parts[i];
    }
    if (touch->everything || touch->locks)
        ret->changed[ret->changed_count++] = &history->locks;
    for (unsigned i = 1; i < HISTORY_AGENTS; i++) {
        if (touch->everything || touch->agent == i)
            ret->changed[ret->changed_count++] = &history->agents[i];
    }
}

void history_add(struct history *history, struct choice choice, unsigned actor, const char *label,
                 const struct history_touch *touch)
{
    struct things things;
    uint64_t step = mix(history->steps[actor], (uint64_t) choice.kind << 8 | choice.actor);

    collect(history, touch, &things);
    step = mix_text(step, label);
    for (unsigned i = 0; i < things.changed_count; i++)
        step = mix(mix(step, things.changed[i]->changed), things.changed[i]->looked);
    for (unsigned i = 0; i < things.looked_count; i++)
        step = mix(step, things.looked_at[i]->changed);
    for (unsigned i = 0; i < things.changed_count; i++)
        *things.changed[i] = (struct history_thing){.changed = step};
    for (unsigned i = 0; i < things.looked_count; i++)
        things.looked_at[i]->looked += step;
    history->steps[actor] = step;
}

uint64_t history_state(const struct history *history, const struct sched_actor *current)
{
    uint64_t state = current ? current->number + 1 : 0;

    for (unsigned i = 0; i < SCHED_ACTORS_MAX; i++)
        state = mix(state, history->steps[i]);
    return state;
}

/* ---- states ---- */

struct seen {
    uint64_t state; /* 0: a free place */
    unsigned left;
};

struct seen_states {
    struct seen *places; /* a power of two of them, at most half full */
    size_t room, count;
};

struct seen_states *seen_states_create(void)
{
    struct seen_states *states = calloc(1, sizeof *states);

    if (!states)
        test_die("no memory for states");
    states->room = 1024;
    states->places = calloc(states->room, sizeof *states->places);
    if (!states->places)
        test_die("no memory for states");
    return states;
}

void seen_states_destroy(struct seen_states **states)
{
    if (!*states)
        return;
    free((*states)->places);
    free(*states);
    *states = NULL;
}

static struct seen *place_of(const struct seen_states *states, uint64_t state)
{
    size_t i = state & (states->room - 1);

    while (states->places[i].state && states->places[i].state != state)
        i = (i + 1) & (states->room - 1);
    return &states->places[i];
}

static void grow(struct seen_states *states)
{
    struct seen_states larger = {.room = 2 * states->room, .count = states->count};

    larger.places = calloc(larger.room, sizeof *larger.places);
    if (!larger.places)
        test_die("no memory for states");
    for (size_t i = 0; i < states->room; i++) {
        if (states->places[i].state)
            *place_of(&larger, states->places[i].state) = states->places[i];
    }
    free(states->places);
    *states = larger;
}

bool seen_states_knows(struct seen_states *states, uint64_t state, unsigned left)
{
    state += state == 0;
    struct seen *place = place_of(states, state);

    if (place->state && place->left >= left)
        return true;
    if (!place->state && 2 * ++states->count > states->room) {
        grow(states);
        place = place_of(states, state);
    }
    *place = (struct seen){.state = state, .left = left};
    return false;
}
