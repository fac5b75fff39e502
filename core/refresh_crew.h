/* core/refresh_crew.h - the threads that do refreshes nobody else does.
 *
 * One of them takes only what somebody waits for, so that first builds of big scopes never keep a
 * search waiting. A thread that hangs in a call to the volume is given up: another takes its place,
 * and it leaves when the call returns.
 */
#ifndef MEMSYNC_CORE_REFRESH_CREW_H
#define MEMSYNC_CORE_REFRESH_CREW_H

#include "core/store.h"

struct refresh_crew;

#define REFRESH_CREW_SPARES 16 /* that many are given up at a time, at most */

/* Starts `count` threads for all refreshes and one for urgent ones; `store` must outlive them. */
MUST_CHECK enum status refresh_crew_start(struct store *store, unsigned count,
                                          struct refresh_crew **ret, struct error *error);

/* Puts others in the place of those that hang; call it about once a second, from one thread. */
void refresh_crew_oversee(struct refresh_crew *crew);

/* After refresh_table_stop(): a run under way is finished first. False: a thread did not come back
 * by the deadline, and nothing was released. */
MUST_CHECK bool refresh_crew_stop(struct refresh_crew **crew, uint64_t deadline_ns);

#endif
