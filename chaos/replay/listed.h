/* chaos/replay/listed.h - is our schedule the one of the list of interleavings, told again?
 */
#ifndef MEMSYNC_CHAOS_LISTED_H
#define MEMSYNC_CHAOS_LISTED_H

#include "chaos/replay/schedule.h"

/* True when every look of the listed schedule is in ours (NULL: there is none) and expects the
 * same, or says what the list expects where ours is better. Tells the differences on standard
 * output. */
bool listed_is_retold(const struct schedule *listed, const struct schedule *ours);

#endif
