/* core/watch_inotify.h - inotify on the buckets: writes from this node, at once.
 *
 * Watches the root, users/ and each bucket's directory (manifest and journal are replaced there by
 * rename, so one watch a user is enough). The watch table follows the kernel (IN_IGNORED, overflow,
 * moved directories) and is matched by device and inode. Reaching a limit (ENOSPC, EMFILE) is told
 * once, with what to raise; the buckets without a watch are left to polling. One thread uses it.
 */
#ifndef MEMSYNC_CORE_WATCH_INOTIFY_H
#define MEMSYNC_CORE_WATCH_INOTIFY_H

#include "core/watch.h"

struct watch_inotify;

/* STATUS_BUSY when the instance limit is reached (message tells which and what to raise). */
MUST_CHECK enum status watch_inotify_create(const struct volume *volume, const char *manifest_name,
                                            watch_sink sink, void *context,
                                            struct watch_inotify **ret, struct error *error);
void watch_inotify_destroy(struct watch_inotify **watch);

/* The descriptor to poll for reading. */
int watch_inotify_fd(const struct watch_inotify *watch);

/* Reads what is there, follows directories that came and went, calls the sink (one call a bucket,
 * however many events). The first call sets the watches up (add the watch, then list: nothing slips
 * between). */
MUST_CHECK enum status watch_inotify_step(struct watch_inotify *watch, struct error *error);

struct watch_inotify_state {
    uint64_t watched; /* directories */
    uint64_t wanted;  /* watched plus those refused by a limit */
    uint64_t overflows;
    uint64_t events;
    const char *
        limit; /* NULL, or the name of the limit that was hit, e.g. "fs.inotify.max_user_watches" */
};
void watch_inotify_state(const struct watch_inotify *watch, struct watch_inotify_state *ret);

#endif
