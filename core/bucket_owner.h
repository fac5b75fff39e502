/* core/bucket_owner.h - whose a directory below users/ is.
 *
 * A directory's name tells the raw user id unless it ends like a digest; then only the facts in it
 * know (each carries its owner's id).
 */
#ifndef MEMSYNC_CORE_BUCKET_OWNER_H
#define MEMSYNC_CORE_BUCKET_OWNER_H

#include "core/volume_snapshot.h"

/* Writes the raw user id of the first sound fact whose owner has that directory into `ret`
 * (SCOPE_USER_MAX + 1 bytes); the directory's own name when it cannot be anybody else's.
 * STATUS_NOT_FOUND: no fact tells. Reads a few files at most. */
MUST_CHECK enum status bucket_owner_find(const struct snapshot_source *source, const char *bucket,
                                         char *ret, struct error *error);

#endif
