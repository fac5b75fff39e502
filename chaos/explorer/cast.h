/* chaos/explorer/cast.h - the actors of a scenario: what each of them does.
 *
 * A part is one line of a scenario (scenario.h); a player is the part in one schedule, on a thread.
 */
#ifndef MEMSYNC_CHAOS_CAST_H
#define MEMSYNC_CHAOS_CAST_H

#include "chaos/explorer/peer.h"
#include "chaos/explorer/sched.h"
#include "chaos/explorer/world.h"

#define PART_CHANGES_MAX 2

enum part_kind {
    PART_NONE,
    PART_WRITE,   /* a worker's write through an agent */
    PART_SEARCH,  /* a worker's searches, one after the other */
    PART_REFRESH, /* what a watcher or the poller asks for */
    PART_SERVE,   /* the refresher that takes what others ask for */
    PART_PEER,    /* another program */
    PART_RESTART, /* an agent that begins when another has died, and searches */
};

struct part {
    enum part_kind kind;
    const char *name;
    unsigned agent; /* from 0; of writes, searches, refreshes */
    const char *scope;
    struct temp_change changes[PART_CHANGES_MAX];
    unsigned count;      /* of changes, or of searches */
    bool is_mortal;      /* a peer that may die */
    bool manifest_first; /* how a peer recovers */
    bool then_searches;  /* a worker that looks for what it has written */
    bool needs_facts;    /* a write that looks at all facts first, under the lock */
    unsigned wishes;     /* of a refresh */
};

struct player {
    struct sched_actor actor;
    struct world *world;
    const struct part *part;
    struct world_op *op;
    struct peer peer;
    int64_t last_revision;
    char user[MEMORY_WORD_SIZE];
    const char *agent_name;
    char outcome[96]; /* for people, and to compare runs */
};

/* Makes it ready and adds it to the schedule. `number` is its place in the scenario. */
void player_join(struct player *player, struct world *world, const struct part *part,
                 unsigned number);

#endif
