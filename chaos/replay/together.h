/* chaos/replay/together.h - everything at once, with pauses by chance at every pause point: nothing
 * may stand still, and afterwards every search gives the truth.
 */
#ifndef MEMSYNC_CHAOS_TOGETHER_H
#define MEMSYNC_CHAOS_TOGETHER_H

#include "chaos/replay/runner.h"

/* Searches, own writes, full refreshes, a keeper's refreshers and watcher, and a peer, for so many
 * seconds. Counts one test passed or failed. */
void run_together(uint64_t seed, unsigned seconds, struct peer_process *peer,
                  struct run_totals *totals);

#endif
