/* core/volume_rollback.h - the two ways in which a dead writer's journal ends, under the user's
 * exclusive lock: its change is taken back, or only its traces are removed.
 *
 * For volume_recover.c, which holds the lock and has read the journal under it. Both can be
 * repeated after a kill at any point. Paths in errors are relative to the bucket.
 */
#ifndef MEMSYNC_CORE_VOLUME_ROLLBACK_H
#define MEMSYNC_CORE_VOLUME_ROLLBACK_H

#include "core/journal.h"
#include "core/volume.h"

/* Takes a prepared change back: old facts from their backups, new facts removed, the manifest last;
 * then the traces, and what it had not yet renamed. STATUS_CORRUPT: what it takes is not there,
 * nothing was changed. STATUS_DENIED: no right to change something. */
MUST_CHECK enum status volume_rollback(const struct volume *volume, int bucket_fd,
                                       const char *manifest_name, const struct journal *journal,
                                       struct error *error);

/* Removes the backups and, last, the journal, if it is still this operation's. */
MUST_CHECK enum status volume_rollback_clean_up(const struct volume *volume, int bucket_fd,
                                                const struct journal *journal, struct error *error);

/* The same for a change of our own that stands, without waiting for the disk: a power cut may bring
 * any of it back, and a journal that says committed, with backups or without, is removed by whoever
 * comes next. */
MUST_CHECK enum status volume_rollback_clean_up_soon(const struct volume *volume, int bucket_fd,
                                                     const struct journal *journal,
                                                     struct error *error);

#endif
