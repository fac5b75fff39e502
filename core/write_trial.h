/* core/write_trial.h - what a write would come to: everything up to the commit, and no commit.
 *
 * For writer.c. Runs under the user's lock, so it is what the write itself would have come to at
 * that moment. A memory of an earlier layout is not migrated: it is taken as reading shows it.
 */
#ifndef MEMSYNC_CORE_WRITE_TRIAL_H
#define MEMSYNC_CORE_WRITE_TRIAL_H

#include "core/write_source.h"

struct write_trial {
    enum status (*build)(void *context, struct draft *draft, struct change_set *set,
                         struct error *error);
    void *context;
    const struct scope *scope; /* with the agent */
    enum write_source_need need;
};

/* `session` has begun and may be without a directory of the user. `build` may be called twice.
 * `ret_unmigrated`: a write would migrate first. Errors as the write would have, but for the
 * commit's, and those that a migration meets only as it writes. */
MUST_CHECK enum status write_trial_run(struct write_session *session,
                                       const struct write_trial *trial, struct draft_outcome *ret,
                                       bool *ret_unmigrated, struct error *error);

#endif
