/* core/watch_inotify.h - inotify on the buckets: writes from this node, at once.
 *
 * Watches the root, users/ and each bucket's directory (manifest and journal are replaced there by
 * rename, so one watch a user is enough). Facts have no watches of their own: a bucket that has
 * facts and never gets a manifest is left to polling. Watches are added through descriptors opened
 * beneath the root, so a directory is matched by its inode and no link can lead out. The watch
 * table follows the kernel (IN_IGNORED, overflow, moved directories). Reaching a limit (ENOSPC,
 * EMFILE) is told once, with what to raise; the buckets without a watch are left to polling and
 * tried again from time to time. One thread uses it; the volume's root must stay the same as long
 * (after volume_accept() make a new watcher).
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

/* Buckets are opened by this function from here on. */
void watch_inotify_open_with(struct watch_inotify *watch, watch_opener opener, void *context);

/* The descriptor to poll for reading. It is also readable when work was left over or something is
 * to be tried again, so no timer of the caller's is needed; calling step early does no harm. */
int watch_inotify_fd(const struct watch_inotify *watch);

/* Reads what is there, follows directories that came and went, calls the sink (one call a bucket,
 * however many events). The first call sets the watches up (add the watch, then list: nothing slips
 * between) and tells each bucket it finds. Works for a bounded time; the rest makes the descriptor
 * readable again. An error says that the root or users/ could not be read; what was known stays,
 * and it is tried again. `error` may be NULL. */
MUST_CHECK enum status watch_inotify_step(struct watch_inotify *watch, struct error *error);

struct watch_inotify_state {
    uint64_t watched; /* directories */
    uint64_t wanted;  /* watched plus those refused by a limit or by missing rights */
    uint64_t overflows;
    uint64_t events;
    const char *limit; /* NULL, or which one is in the way: "fs.inotify.max_user_watches" */
};
void watch_inotify_state(const struct watch_inotify *watch, struct watch_inotify_state *ret);

#endif
