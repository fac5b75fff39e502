/* core/watch.h - who tells early that something may have changed. Never trusted for correctness.
 *
 * Both watchers report through one sink: a bucket may have changed, a bucket appeared or went, or
 * events were lost (then every bucket is suspect). The sink only asks for compares; lose every
 * event and searches are still right.
 */
#ifndef MEMSYNC_CORE_WATCH_H
#define MEMSYNC_CORE_WATCH_H

#include "core/volume.h"

enum watch_event {
    WATCH_BUCKET_CHANGED, /* its manifest or journal moved, or a fact did */
    WATCH_BUCKET_GONE,    /* its directory is no longer there */
    WATCH_EVENTS_LOST,    /* compare everything; `bucket` is NULL */
};

/* `has_user` false: the root bucket (`bucket` is ""). Called from the watcher's thread; must not
 * block long. */
typedef void (*watch_sink)(void *context, enum watch_event event, bool has_user,
                           const char *bucket);

/* Opens a bucket's directory; as volume_open_dir(), for a caller who must not get lost in it. */
typedef enum status (*watch_opener)(void *context, const char *bucket, const char *path, int *ret,
                                    struct error *error);

#endif
