/* chaos/explorer/schedule.h - one schedule: the choices that were made, step by step, and as text.
 *
 * As text it is a list with commas: "0" actor 0 takes a step, "x0" its wait is over, "d0" it dies,
 * "k1" process 1 is killed; "0*3" is "0,0,0". Where a list ends, everything goes on without
 * switching as long as it can.
 */
#ifndef MEMSYNC_CHAOS_SCHEDULE_H
#define MEMSYNC_CHAOS_SCHEDULE_H

#include "chaos/explorer/sched.h"
#include "core/text.h"

struct schedule {
    struct choice choices[SCHED_STEPS_MAX];
    unsigned count;
};

bool choice_equal(struct choice a, struct choice b);

/* False when it is none. */
bool schedule_parse(const char *text, struct schedule *ret);
void schedule_format(const struct schedule *schedule, struct text *text);

/* How often somebody else goes on than before. */
unsigned schedule_switches(const struct schedule *schedule);

#endif
