/* chaos/faults/scenario.h - what is done while something fails. */
#ifndef MEMSYNC_CHAOS_FAULTS_SCENARIO_H
#define MEMSYNC_CHAOS_FAULTS_SCENARIO_H

#include "chaos/faults/judge.h"

enum scenario_start {
    START_IN_STEP, /* the agent runs, every scope is built and settled */
    START_UNBUILT, /* it runs, and has looked at nothing yet */
    START_NEVER,   /* it never ran here */
    START_AGAIN,   /* it ran, everything was built, and it ended */
    START_DIED,    /* the same, but it did not end by itself */
};

struct scenario {
    const char *name;
    const char *title;
    enum scenario_start start;
    const char *const *scopes;      /* NULL: u/a and u/b */
    void (*fill)(struct world *);   /* the volume before the agent's start; NULL: the usual */
    void (*change)(struct world *); /* by others, before the first fault; may be NULL */
    void (*act)(struct world *);    /* with faults */
    bool loses_index;               /* others take it away or damage it */
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;
const struct scenario *scenario_find(const char *name); /* NULL: no such scenario */

/* The usual volume: u/a with f1 "one", f2 "two", f3 "three", u/b with g1 "bee", and a summary. */
void scenario_fill_usual(struct world *world);

/* ---- the acts, by what they are about ---- */

void act_open_and_search(struct world *world);
void act_search(struct world *world);
void act_watch_and_search(struct world *world);
void act_search_both(struct world *world);
void act_search_parts(struct world *world);
void act_read_documents(struct world *world);
void act_reload(struct world *world);
void act_verify(struct world *world);
void act_settle(struct world *world);
void act_volume_returns(struct world *world);

void act_create(struct world *world);
void act_update(struct world *world);
void act_delete(struct world *world);
void act_apply(struct world *world);
void act_import(struct world *world);
void act_clear(struct world *world);
void act_summaries(struct world *world);
void act_first_write(struct world *world);
void act_write_and_search(struct world *world);
void act_migrate(struct world *world);
void act_migrating_write(struct world *world);
void act_try_import(struct world *world);

#endif
