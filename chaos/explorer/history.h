/* chaos/explorer/history.h - states by what led to them, and which of them were seen.
 *
 * Each step is a hash over its actor's step before, and over the steps of others that it comes
 * after: those that touched what it touches, unless both only looked. Orders of steps that do not
 * concern each other have the same hashes, and lead to the same state.
 */
#ifndef MEMSYNC_CHAOS_HISTORY_H
#define MEMSYNC_CHAOS_HISTORY_H

#include "chaos/explorer/sched.h"
#include "core/compiler.h"

/* What a step may touch: parts of the volume, its locks, or an agent with its index and its memory.
 */
#define HISTORY_PARTS 5
#define HISTORY_AGENTS 8

struct history_thing {
    uint64_t changed; /* the last step that changed it */
    uint64_t looked;  /* those that looked since, in any order */
};

struct history {
    uint64_t steps[SCHED_ACTORS_MAX]; /* the last of each actor */
    struct history_thing parts[HISTORY_PARTS], locks, agents[HISTORY_AGENTS];
};

struct history_touch {
    unsigned reads, writes; /* sets of parts of the volume */
    bool locks;
    bool everything; /* e.g. the clocks moved */
    unsigned agent;  /* 0: none */
};

/* `label` names what came of it. */
void history_add(struct history *history, struct choice choice, unsigned actor, const char *label,
                 const struct history_touch *touch);

uint64_t history_state(const struct history *history, const struct sched_actor *current);

/* ---- states that were seen, each with what was left to spend there ---- */

struct seen_states;
struct seen_states *seen_states_create(void);
void seen_states_destroy(struct seen_states **states);
#define AUTO_STATES CLEANUP(seen_states_destroy)

/* True when it was seen with as much left; else it is noted. */
bool seen_states_knows(struct seen_states *states, uint64_t state, unsigned left);

#endif
