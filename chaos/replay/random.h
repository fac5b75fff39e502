/* chaos/replay/random.h - schedules that chance makes: two users, two agents, four facts, and what
 * the schedules of group H show to be dangerous more often than chance would have it.
 */
#ifndef MEMSYNC_CHAOS_RANDOM_H
#define MEMSYNC_CHAOS_RANDOM_H

#include "core/text.h"

#include <stdint.h>

/* Appends the schedule of that seed, in the language of the schedules. Every search in it expects
 * the truth, unless half of a change lies there. */
void random_schedule(uint64_t seed, struct text *ret);

#endif
