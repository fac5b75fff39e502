#include "chaos/faults/batch.h"

#include "chaos/faults/trial.h"
#include "core/clock.h"
#include "tests/support/child.h"
#include "tests/support/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define RUN_SECONDS_MAX 60
#define FAILURES_TOLD 5 /* of a batch; then it ends */

uint64_t batch_real_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * NS_PER_SECOND + (uint64_t) now.tv_nsec;
}

void batch_warm_up(void)
{
    const struct fault none = {.kind = fault_kinds};

    for (unsigned i = 0; i < scenario_count; i++) {
        struct trial trial;
        trial_run(&scenarios[i], &none, &trial);
    }
}

/* Where a batch is; children that die leave it behind. */
struct progress {
    uint64_t number; /* of the run, from 0: the one without a fault */
    uint64_t at;     /* the operation that it lets fail */
    bool is_done;
    struct batch_counts counts;
    struct places distinct; /* of the run without a fault */
};

static const char *mode_of(const struct batch *batch)
{
    return batch->persists ? "persistent" : "once";
}

static void tell_failure(const struct batch *batch, struct progress *progress, const char *struck,
                         const char *problem)
{
    progress->counts.failures++;
    (void) printf("FAILED %s %s/%s %s at %" PRIu64 " (%s): %s\n"
                  "    again: %s --scenario %s --fault %s --mode %s --at %" PRIu64 "\n",
                  batch->scenario->name, fault_source_name(batch->kind->source), batch->kind->name,
                  mode_of(batch), progress->at, struck, problem, batch->program,
                  batch->scenario->name, batch->kind->name, mode_of(batch), progress->at);
    (void) fflush(stdout);
}

/* False: this process cannot tell any more of the runs to come. */
static bool run_one(const struct batch *batch, struct progress *progress, struct trial *ret)
{
    const struct fault fault = {
        .kind = batch->kind,
        .persists = batch->persists,
        .at = progress->at,
        .places = batch->distinct && progress->at == 0 ? &progress->distinct : NULL,
    };

    (void) alarm(RUN_SECONDS_MAX);
    trial_run(batch->scenario, &fault, ret);
    (void) alarm(0);
    progress->counts.runs++;
    progress->counts.strikes += ret->strikes;
    progress->counts.refused += ret->errors;
    if (ret->problem[0])
        tell_failure(batch, progress, ret->struck, ret->problem);
    return !ret->leaks;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The `number`th operation of a batch whose time is limited: each once, and any few of them far
 * from one another. */
static uint64_t spread(const struct batch *batch, uint64_t places, uint64_t number)
{
    uint64_t step = places * 618 / 1000;

    while (step == 0 || greatest_divisor(step, places) != 1)
        step++;
    return 1 + (batch->seed * 7919 + number * step) % places;
}

/* How many runs with a fault there will be is known before the first. */
static bool is_counted(const struct batch *batch)
{
    return batch->distinct || batch->end_ns > 0;
}

/* Which operation comes next; 0: none. Without limits they are tried until a run has met none. */
static uint64_t next_operation(const struct batch *batch, const struct progress *progress)
{
    uint64_t places = progress->counts.places;
    uint64_t next = progress->number;

    if (progress->counts.failures >= FAILURES_TOLD)
        return 0;
    if (!is_counted(batch))
        return (progress->number - 1) * batch->stride + 1 + batch->seed % batch->stride;
    if (next > places || (batch->end_ns > 0 && next > 1 && batch_real_ns() >= batch->end_ns))
        return 0;
    if (batch->end_ns > 0)
        next = spread(batch, places, next - 1);
    return batch->distinct ? progress->distinct.first[next - 1] : next;
}

static void run_rest(const struct batch *batch, struct progress *progress)
{
    for (bool goes_on = true; goes_on; progress->number++) {
        struct trial trial;
        progress->at = progress->number == 0 ? 0 : next_operation(batch, progress);
        if (progress->number > 0 && progress->at == 0) {
            progress->is_done = true;
            return;
        }
        goes_on = run_one(batch, progress, &trial);
        if (progress->number == 0)
            progress->counts.places = batch->distinct ? progress->distinct.count : trial.met;
        else if (trial.strikes == 0 && !is_counted(batch))
            progress->is_done = true;
        goes_on = goes_on && !progress->is_done;
    }
}

/* A child that ended by itself has said all; else its run is a failure, and the next goes on. */
static void judge_child(const struct batch *batch, struct progress *progress, int status)
{
    char problem[128];

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        (void) snprintf(problem, sizeof problem, "it hangs");
    else if (WIFSIGNALED(status))
        (void) snprintf(problem, sizeof problem, "it crashed: signal %d", WTERMSIG(status));
    else
        (void) snprintf(problem, sizeof problem, "it ended with %d", WEXITSTATUS(status));
    tell_failure(batch, progress, "?", problem);
    progress->number++;
    if (progress->number == 1 || progress->counts.failures >= FAILURES_TOLD)
        progress->is_done = true; /* without any fault, or often enough */
}

void batch_run(const struct batch *batch, const char *directory, struct batch_counts *ret)
{
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (progress == MAP_FAILED)
        test_die("no memory for a batch");
    test_make_dirs(directory);
    if (setenv("TMPDIR", directory, 1) != 0)
        test_die("no memory for a batch");
    while (!progress->is_done) {
        int status = 0;
        (void) fflush(NULL);
        pid_t child = fork();
        if (child < 0)
            test_die("cannot fork");
        if (child == 0) {
            run_rest(batch, progress);
            (void) fflush(NULL);
            child_exit(0);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        judge_child(batch, progress, status);
    }
    *ret = progress->counts;
    (void) munmap(progress, sizeof *progress);
    test_remove_tree(directory);
}

bool batch_run_one(const struct batch *batch, uint64_t at)
{
    struct progress progress = {.number = 1, .at = at};
    struct trial trial;

    (void) run_one(batch, &progress, &trial);
    if (trial.strikes == 0 && progress.counts.failures == 0) {
        (void) printf("nothing failed: there are %" PRIu64 " such operations\n", trial.met);
        return false;
    }
    (void) printf("met %" PRIu64 ", struck %" PRIu64 " (%s), %u requests failed: %s\n", trial.met,
                  trial.strikes, trial.struck, trial.errors,
                  progress.counts.failures ? "not as it must be" : "all was right");
    return progress.counts.failures == 0;
}
