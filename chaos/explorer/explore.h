/* chaos/explorer/explore.h - all schedules of a scenario up to a bound, chance beyond it, and from
 * a schedule that fails to the shortest one that does.
 */
#ifndef MEMSYNC_CHAOS_EXPLORE_H
#define MEMSYNC_CHAOS_EXPLORE_H

#include "chaos/explorer/run.h"

struct explore_options {
    unsigned bound; /* switches away from somebody who could go on, and waits cut short */
    double seconds; /* when to stop; 0: at the end */
    unsigned walks; /* schedules by chance, after those up to the bound */
    uint64_t seed;  /* of chance */
    uint64_t twice; /* so many of the first schedules are run again and must leave the same trace */
    bool no_states; /* carry on from states that were seen, too */
    uint64_t number; /* stop at this schedule (from 1) of the enumeration; 0: none */
};

struct explore_result {
    uint64_t schedules;
    uint64_t cut;  /* of them, since what followed had been seen */
    uint64_t ends; /* different ones: what the actors had to say */
    uint64_t stops;
    uint64_t points[PAUSE_POINT_COUNT];
    struct schedule longest;
    bool is_complete; /* all schedules up to the bound were seen */
    bool has_failed;
    bool differs;             /* since two runs of it were not the same */
    struct schedule schedule; /* the failing one, or the one asked for by number */
    double seconds;
};

void explore(const struct scenario *scenario, const struct explore_options *options,
             struct explore_result *ret);

/* Runs one schedule. False: it does not fit, at the step `ret_step`. */
bool explore_replay(const struct scenario *scenario, const struct schedule *schedule,
                    struct run *ret, unsigned *ret_step);

/* Looks for a shorter schedule that fails as well, for at most `seconds`. */
void explore_shrink(const struct scenario *scenario, struct schedule *schedule, double seconds);

#endif
