/* chaos/replay/runner.h - playing many schedules and counting.
 */
#ifndef MEMSYNC_CHAOS_RUNNER_H
#define MEMSYNC_CHAOS_RUNNER_H

#include "chaos/replay/player.h"

struct run_options {
    const char *only; /* how the names begin that are wanted; NULL: all */
    unsigned repeat;  /* each so often, and each time the same must be seen */
    bool verbose;
};

struct run_totals {
    unsigned passed, failed;
    unsigned held, passed_by;
};

/* Our schedules, those with kinds once for every kind. One line each on standard output, and what
 * is wrong below it. */
void run_schedules(const struct run_options *options, const struct schedule_list *list,
                   struct peer_process *peer, struct run_totals *totals);

/* The list of interleavings at `path`: compared with ours, and played itself. */
void run_listed(const struct run_options *options, const char *path,
                const struct schedule_list *ours, struct peer_process *peer,
                struct run_totals *totals);

/* Schedules that chance makes, from `seed` on: `rounds` of them, or as many as `seconds` allow (0:
 * not said). Only failures are told one by one, with their steps. */
void run_random(const struct run_options *options, uint64_t seed, unsigned rounds, unsigned seconds,
                struct peer_process *peer, struct run_totals *totals);

#endif
