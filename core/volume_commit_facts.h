/* core/volume_commit_facts.h - the facts of a commit: all written first, then all given their
 * names.
 *
 * Internal to the commit. Until it is renamed a new file lies in the operation's own directory,
 * where whoever finds it removes it with the backups.
 */
#ifndef MEMSYNC_CORE_VOLUME_COMMIT_FACTS_H
#define MEMSYNC_CORE_VOLUME_COMMIT_FACTS_H

#include "core/volume_commit.h"
#include "core/volume_sync_batch.h"

/* The facts that a commit changes, a directory after the other. */
struct commit_facts {
    const struct commit_request *request;
    const size_t *order;    /* numbers of the request's facts, those of a directory side by side */
    int own_fd;             /* the operation's directory: backups, and new files until then */
    struct file_image *old; /* by the request's facts: what they were, filled by writing */
};

/* Splits a path relative to the bucket; `directory` holds SCOPE_PATH_MAX bytes. Returns the name.
 */
const char *commit_split_path(const char *path, char *directory);

/* Makes the directories that are missing, backs up what is there and writes the new files, durable
 * with the batch. STATUS_NOT_FOUND, STATUS_STALE: a fact is not there any more, or being changed.
 * STATUS_DENIED: the right to change a directory is missing; a commit that stopped later for want
 * of it could for want of it not be taken back, and then nobody would write this user any more. */
MUST_CHECK enum status commit_facts_write(const struct commit_facts *facts,
                                          struct sync_batch *batch, struct error *error);

/* Puts the new files into their places and removes what is to go, durably. `written` counts, also
 * after an error, how many (in that order) may be changed by now. */
MUST_CHECK enum status commit_facts_apply(const struct commit_facts *facts, size_t *written,
                                          struct error *error);

#endif
