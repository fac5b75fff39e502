/* core/bucket_errand.h - what the watcher wants of one bucket, without getting lost in it.
 *
 * Where the volume can hang somebody else is sent (see core/errands.h), so that a user whose files
 * do not answer keeps nobody else from being watched. Any number of threads.
 */
#ifndef MEMSYNC_CORE_BUCKET_ERRAND_H
#define MEMSYNC_CORE_BUCKET_ERRAND_H

#include "core/bucket_check.h"

/* As bucket_check_run(), which goes on behind an answer of STATUS_UNAVAILABLE that comes because it
 * takes too long. `check` must outlive the store's errands. */
MUST_CHECK enum status bucket_errand_check(struct store *store, struct bucket_check *check,
                                           bool has_user, const char *bucket,
                                           enum refresh_cause cause, struct bucket_verdict *ret,
                                           struct error *error);

/* As volume_open_dir() of the bucket's directory at `path`. The caller closes `ret`. */
MUST_CHECK enum status bucket_errand_open(struct store *store, const char *bucket, const char *path,
                                          int *ret, struct error *error);

#endif
