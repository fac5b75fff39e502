/* core/refresher.h - one refresh: compare, snapshot, plan, install. The trip by which a change on
 * the volume reaches the index.
 */
#ifndef MEMSYNC_CORE_REFRESHER_H
#define MEMSYNC_CORE_REFRESHER_H

#include "core/store.h"

#define REFRESH_DEADLINE_MS                                                                        \
    600000 /* of a run: a cold build of a big scope on a slow volume may take that long */

/* Does a run that was taken or claimed, tells the table and the events how it ended, and schedules
 * what follows (a second look at stamps that are not settled, a retry after a failure). `reader` is
 * the calling thread's. */
void refresher_run(struct store *store, struct index_reader *reader, struct refresh_run *run,
                   struct refresh_result *ret);

#endif
