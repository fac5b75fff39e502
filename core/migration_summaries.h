/* core/migration_summaries.h - the summaries of an agent's old file, merged into the user's. Pure.
 */
#ifndef MEMSYNC_CORE_MIGRATION_SUMMARIES_H
#define MEMSYNC_CORE_MIGRATION_SUMMARIES_H

#include "core/status.h"

/* What of `agent` (the root of agents/<agent>/memory.json) has to be written into the user's
 * manifest `user` (its root; NULL: there is none): sections whose text the user lacks. New
 * reference, an object like the parameter of manifest_write(). STATUS_CONFLICT: a section says
 * something else than the user's, or is no section; `cause` names it. STATUS_NO_MEMORY. */
MUST_CHECK enum status migration_merge_summaries(const json_t *user, const json_t *agent,
                                                 json_t **ret, char cause[ERROR_MESSAGE_MAX]);

#endif
