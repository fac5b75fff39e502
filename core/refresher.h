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

/* Brings a scope in step for a caller that holds the user's lock exclusively: a writer that has to
 * know all facts. Does the run itself, with these wishes besides what others asked for, after
 * waiting a little for one that is under way. STATUS_BUSY: that one does not end; else as the run.
 */
MUST_CHECK enum status refresher_bring_in_step(struct store *store, struct index_reader *reader,
                                               const struct scope *scope, unsigned wishes,
                                               uint64_t deadline_ns, struct error *error);

#endif
