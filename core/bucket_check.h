/* core/bucket_check.h - one bucket, seen by the watcher: which of its scopes should be refreshed?
 */
#ifndef MEMSYNC_CORE_BUCKET_CHECK_H
#define MEMSYNC_CORE_BUCKET_CHECK_H

#include "core/store.h"

/* Remembers at which manifest a bucket's agents were last listed. Thread-safe. */
struct bucket_check;

/* `store` must outlive it. STATUS_NO_MEMORY. */
MUST_CHECK enum status bucket_check_create(struct store *store, struct bucket_check **ret,
                                           struct error *error);
void bucket_check_destroy(struct bucket_check **check);

struct bucket_verdict {
    bool changed; /* something was out of step or missing */
    bool empty;   /* neither the volume nor the index has anything of it: nothing to watch */
};

/* Compares the bucket's manifest with what the index holds of its scopes, lists its agents when the
 * manifest is one whose agents were not listed yet, and asks for background refreshes where
 * something is out of step or missing. REFRESH_CAUSE_PASS: one of the looks at everything, which
 * count for the store's build progress and are quick; where all rows are in step the agents are not
 * listed now (an agent without rows is found by the next look that is not quick). Failures of the
 * volume are returned; nothing is concluded from them. Any number of threads. */
MUST_CHECK enum status bucket_check_run(struct bucket_check *check, bool has_user,
                                        const char *bucket, enum refresh_cause cause,
                                        struct bucket_verdict *ret, struct error *error);

#endif
