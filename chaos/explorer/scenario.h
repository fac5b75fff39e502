/* chaos/explorer/scenario.h - who meets whom. */
#ifndef MEMSYNC_CHAOS_SCENARIO_H
#define MEMSYNC_CHAOS_SCENARIO_H

#include "chaos/explorer/cast.h"

#define SCENARIO_PARTS_MAX 5

struct scenario {
    const char *name;
    const char *title;
    struct part parts[SCENARIO_PARTS_MAX]; /* up to the first without a kind */
    unsigned agents;                       /* 0: one */
    unsigned mortal_agent;                 /* the process that may die at any step; 0: none */
    bool locks_do_nothing;
    unsigned bound; /* switches away from somebody who could go on, by default */
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

const struct scenario *scenario_find(const char *name);

#endif
