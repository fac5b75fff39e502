/* chaos/faults/batch.h - one scenario with one kind of fault at every operation, or at some.
 *
 * Runs go in a child process: one that crashes or hangs is a failure of that run, and the next
 * child goes on behind it.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_BATCH_H
#define MEMSYNC_CHAOS_FAULTS_BATCH_H

#include "chaos/faults/fault.h"
#include "chaos/faults/scenario.h"

struct batch {
    const struct scenario *scenario;
    const struct fault_kind *kind;
    bool persists;
    bool distinct;   /* only the first operation of each place (places.h) */
    uint64_t stride; /* every so manieth operation, beginning with one that the seed gives; 1: all
                      */
    uint64_t seed;
    uint64_t end_ns;     /* in real time, when it has to end; 0: when all is done */
    const char *program; /* for the line that tells how to see a failure again */
};

/* Shared with the children. */
struct batch_counts {
    uint64_t runs;
    uint64_t strikes;
    uint64_t refused; /* requests that failed for it */
    uint64_t failures;
    uint64_t places; /* where the fault could have been: operations, or what is distinct of them */
};

/* Before the first batch. What happens once in a process is done with then, as when SQLite makes
 * itself ready: an operation has the same number in all runs. */
void batch_warm_up(void);

/* Prints what fails. `directory` is for the runs' volumes, and is removed. */
void batch_run(const struct batch *batch, const char *directory, struct batch_counts *ret);

/* One run, here and now; false: it failed, or has no such operation. */
bool batch_run_one(const struct batch *batch, uint64_t at);

/* Real time; the other clock is moved by runs. */
uint64_t batch_real_ns(void);

#endif
