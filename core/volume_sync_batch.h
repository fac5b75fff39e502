/* core/volume_sync_batch.h - what is made durable together.
 *
 * Internal to the volume_* modules. A file system with a journal of its own writes that for the
 * first sync after a change, and finds all others of the same moment done already: so a commit
 * makes everything it is about to need, and only then asks for the first of it to be on the disk.
 */
#ifndef MEMSYNC_CORE_VOLUME_SYNC_BATCH_H
#define MEMSYNC_CORE_VOLUME_SYNC_BATCH_H

#include "core/volume.h"

#define SYNC_BATCH_MAX 32 /* descriptors held at a time; more are synced as they come */

struct sync_batch {
    const struct volume *volume;
    struct {
        int fd;
        const char *path;
        uint64_t inode; /* of a directory; 0: a file */
    } members[SYNC_BATCH_MAX];
    size_t count;
};

/* Takes the descriptor of a new file over, whatever happens; `path` is for errors and stays valid
 * as long as the batch. Blocks may be on their way to the disk when it returns. */
MUST_CHECK enum status sync_batch_add(struct sync_batch *batch, int fd, const char *path,
                                      struct error *error);

/* Adds a directory, whose descriptor stays the caller's; one that is there already is synced once.
 * All of them are of one file system. */
MUST_CHECK enum status sync_batch_add_dir(struct sync_batch *batch, int dir_fd, const char *path,
                                          struct error *error);

/* Everything that was added is durable afterwards, and the batch empty. After an error, which names
 * the first that failed, it is empty too. */
MUST_CHECK enum status sync_batch_flush(struct sync_batch *batch, struct error *error);

/* Closes what is left, unsynced. */
void sync_batch_destroy(struct sync_batch *batch);
#define AUTO_SYNC_BATCH CLEANUP(sync_batch_destroy)

#endif
