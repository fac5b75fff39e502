/* core/watch_follow.h - keeps one inotify watch on each directory that should have one; part of
 * watch_inotify.
 *
 * An event only makes a directory doubtful. Whether it is there, and which inode it is, is then
 * learnt by opening it beneath the volume's root and adding the watch through that descriptor: the
 * kernel answers with the watch that the inode has already, or with a new one. So a directory that
 * was made again under the same name, or moved away and replaced, is never taken for the old one.
 * Not thread-safe.
 */
#ifndef MEMSYNC_CORE_WATCH_FOLLOW_H
#define MEMSYNC_CORE_WATCH_FOLLOW_H

#include "core/log.h"
#include "core/volume.h"
#include "core/watch.h"
#include "core/watch_table.h"

struct watch_follow {
    const struct volume *volume;
    watch_opener open_bucket; /* NULL: volume_open_dir() */
    void *opener_context;
    int inotify_fd; /* owned by the watcher */
    struct watch_table table;
    struct watch_dir *root; /* both in the table from watch_follow_start() on */
    struct watch_dir *users;
    bool users_absent;
    bool list_wanted;  /* users/ must be listed before the table can be believed */
    bool refusing;     /* a limit was hit since the last try */
    const char *limit; /* its name, or NULL */
    struct log_gate limit_gate;
    uint64_t retry_ns; /* when what failed is tried again; CLOCK_NEVER: nothing failed */
};

/* Adds root and users/ as doubtful: looking at them finds all the rest. */
MUST_CHECK enum status watch_follow_start(struct watch_follow *follow);
void watch_follow_destroy(struct watch_follow *follow);

/* Something happened to the directory itself. */
void watch_follow_doubt(struct watch_follow *follow, struct watch_dir *dir);

/* The kernel ended the directory's watch. */
void watch_follow_ignored(struct watch_follow *follow, struct watch_dir *dir);

/* Events were lost, perhaps those that tell the end of a watch. */
void watch_follow_doubt_all(struct watch_follow *follow);

/* Puts the directories without a watch, and a listing that failed, in line once more when it is
 * time. */
void watch_follow_retry(struct watch_follow *follow, uint64_t now_ns);

/* Looks at one doubtful directory. `ret_gone`: it is not there, and its watch was removed. The
 * status is not OK when the volume could not tell; what was known then stays. */
MUST_CHECK enum status watch_follow_look(struct watch_follow *follow, struct watch_dir *dir,
                                         bool *ret_gone, struct error *error);

/* Logs, once per change, that a limit was hit or is no longer in the way. Call it when nothing is
 * pending, so that the numbers are whole. */
void watch_follow_tell_limit(struct watch_follow *follow);

/* How many directories should be watched. */
size_t watch_follow_wanted(const struct watch_follow *follow);

#endif
