/* chaos/explorer/run.h - one schedule of a scenario from a fresh world to the judge's last look. */
#ifndef MEMSYNC_CHAOS_RUN_H
#define MEMSYNC_CHAOS_RUN_H

#include "chaos/explorer/history.h"
#include "chaos/explorer/scenario.h"
#include "chaos/explorer/schedule.h"

#include <limits.h>

/* What could be chosen before a step, and what was. */
struct decision {
    struct sched_option options[SCHED_OPTIONS_MAX];
    unsigned count;
    unsigned chosen;
    unsigned cost; /* of all before it */
};

struct run {
    struct decision *decisions; /* one a step */
    unsigned count;
    struct text failure;                /* empty: all was right */
    struct text story;                  /* the steps for people; only when asked for */
    bool is_cut;                        /* it came to a state from which enough had been explored */
    uint64_t end;                       /* a hash of what everybody has to say at the end */
    uint64_t trace;                     /* a hash of every stop and of how it all ended */
    unsigned points[PAUSE_POINT_COUNT]; /* stops at pause points */
    unsigned stops;                     /* all of them */
};

#define RUN_CUT UINT_MAX

/* Which of the options of the next step is taken; RUN_CUT: the run is not carried on. `state` is
 * that before the step (history.h). */
typedef unsigned (*run_chooser)(void *context, const struct run *run,
                                const struct decision *decision, uint64_t state);

/* `ret` is destroyed by the caller, also when it has failed. */
void run_schedule(const struct scenario *scenario, run_chooser chooser, void *context,
                  bool tell_story, struct run *ret);
void run_destroy(struct run *run);
#define AUTO_RUN CLEANUP(run_destroy)

bool run_has_failed(const struct run *run);

/* From here on a program that aborts or crashes tells in which schedule. */
void run_watch_for_crashes(void);

/* What was chosen, all steps of it. */
void run_get_schedule(const struct run *run, struct schedule *ret);

#endif
