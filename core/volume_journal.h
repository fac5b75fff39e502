/* core/volume_journal.h - the journal on the volume: it appears whole and exclusively, or not at
 * all.
 *
 * The lock alone does not do: some mounts treat flock as a no-op. So the journal is made with
 * link(2), which fails where the name is taken, and a commit asks again whether the journal is
 * still its own before it does what cannot be undone. The caller holds the user's lock; paths in
 * errors are relative to the bucket.
 */
#ifndef MEMSYNC_CORE_VOLUME_JOURNAL_H
#define MEMSYNC_CORE_VOLUME_JOURNAL_H

#include "core/journal.h"
#include "core/volume.h"

struct sync_batch;

/* Writes the journal as a new file `name` of an open directory, synced with the batch, with the
 * attributes of a file of the bucket. STATUS_TOO_LARGE, STATUS_INVALID: it would be one that no
 * reader takes (a fact in a place that the format does not allow). */
MUST_CHECK enum status volume_journal_write(const struct volume *volume, int dir_fd,
                                            const char *name, const struct journal *journal,
                                            int bucket_fd, struct sync_batch *batch,
                                            struct error *error);

/* Gives its name to a journal that was written to an open directory, durably; its name there is
 * gone in any case. STATUS_CONFLICT: a journal lies there already, and it is somebody else's. Where
 * the volume knows neither hard links nor RENAME_NOREPLACE, a listing stands in for the exclusive
 * creation. */
MUST_CHECK enum status volume_journal_place(const struct volume *volume, int from_fd,
                                            const char *name, int bucket_fd, struct error *error);

enum journal_owner {
    JOURNAL_OURS, /* and it says prepared */
    JOURNAL_OURS_COMMITTED,
    JOURNAL_NOBODYS, /* there is none */
    JOURNAL_SOMEBODYS,
};

/* Whose journal lies there now, by its operation id. */
MUST_CHECK enum status volume_journal_owner(const struct volume *volume, int bucket_fd,
                                            const char *operation_id, enum journal_owner *ret,
                                            struct error *error);

/* Replaces our journal by one that says committed, written before to an open directory: from here
 * on the change stands. */
MUST_CHECK enum status volume_journal_commit(const struct volume *volume, int from_fd,
                                             const char *name, int bucket_fd, struct error *error);

#endif
