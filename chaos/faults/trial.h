/* chaos/faults/trial.h - one run of a scenario with one fault, and all that must be so afterwards.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_TRIAL_H
#define MEMSYNC_CHAOS_FAULTS_TRIAL_H

#include "chaos/faults/fault.h"
#include "chaos/faults/scenario.h"

struct trial {
    uint64_t met;       /* operations that could have been struck */
    uint64_t strikes;   /* ... that were */
    unsigned errors;    /* requests that failed for it */
    bool leaks;         /* memory that nobody holds: no further trial in this process can tell */
    char problem[2048]; /* "" when all was right */
    char struck[128];   /* what was hit first */
};

/* With `fault->at` 0 nothing fails, and all must be answered. */
void trial_run(const struct scenario *scenario, const struct fault *fault, struct trial *ret);

#endif
