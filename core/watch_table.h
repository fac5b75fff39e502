/* core/watch_table.h - which directory has which inotify watch; part of watch_inotify.
 *
 * Pure bookkeeping: no system call. Directories are found by kind and name and by watch
 * descriptor; the ones that somebody has yet to look at form a list. Not thread-safe.
 */
#ifndef MEMSYNC_CORE_WATCH_TABLE_H
#define MEMSYNC_CORE_WATCH_TABLE_H

#include "core/watch_hash.h"

#define WATCH_NONE (-1)

enum watch_kind {
    WATCH_ROOT,   /* the volume's root, which is also the bucket without a user */
    WATCH_USERS,  /* users/ */
    WATCH_BUCKET, /* users/<name> */
};

/* What a listing said of a directory since somebody last doubted it. */
enum watch_presence {
    WATCH_UNLISTED, /* nothing: only opening it, or a new listing, will tell */
    WATCH_LISTED,   /* it was there, so it may be opened */
    WATCH_ABSENT,   /* it was not */
};

struct watch_dir {
    struct watch_link by_name; /* first, so that a link is a directory */
    struct watch_link by_descriptor;
    struct watch_dir *next_pending;
    int descriptor; /* WATCH_NONE: not watched */
    enum watch_kind kind;
    enum watch_presence presence;
    bool pending;  /* in the list of those to be looked at */
    bool doubtful; /* it may have come, gone, or been replaced: open it anew */
    bool changed;  /* to be told to the sink */
    bool warned;   /* a failure was logged, and not yet its end */
    char name[];   /* "" unless a bucket */
};

struct watch_table {
    struct watch_hash names;
    struct watch_hash descriptors;
    struct watch_dir *pending_head;
    struct watch_dir *pending_tail;
};

/* Frees every directory. */
void watch_table_destroy(struct watch_table *table);

/* The table's own entry; NULL: unknown. By kind and name, or by an inotify descriptor. */
struct watch_dir *watch_table_find(const struct watch_table *table, enum watch_kind kind,
                                   const char *name);
struct watch_dir *watch_table_find_descriptor(const struct watch_table *table, int descriptor);

/* Finds it, or adds it without a watch; NULL without memory. */
struct watch_dir *watch_table_add(struct watch_table *table, enum watch_kind kind,
                                  const char *name);

/* Forgets a directory that is not in the list of the pending. */
void watch_table_remove(struct watch_table *table, struct watch_dir *dir);

/* Notes the watch of a directory (WATCH_NONE: it has none any more). A descriptor that another
 * directory had is taken from it: the kernel gives one descriptor to one inode, whatever its
 * name. STATUS_NO_MEMORY leaves `dir` unwatched. */
MUST_CHECK enum status watch_table_set(struct watch_table *table, struct watch_dir *dir,
                                       int descriptor);
void watch_table_unset(struct watch_table *table, struct watch_dir *dir);

/* Puts it into the list of the pending, once; takes the first out of it (NULL: none). */
void watch_table_push(struct watch_table *table, struct watch_dir *dir);
struct watch_dir *watch_table_pop(struct watch_table *table);

/* Directories with a watch, and all. */
size_t watch_table_watched(const struct watch_table *table);
size_t watch_table_count(const struct watch_table *table);

#endif
