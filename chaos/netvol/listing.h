/* chaos/netvol/listing.h - the names in a directory at one moment. Constant once read; counted,
 * since a node may remember one while others are still being read from it. Thread-safe.
 */
#ifndef MEMSYNC_CHAOS_LISTING_H
#define MEMSYNC_CHAOS_LISTING_H

#include "core/compiler.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stddef.h>

struct listing_entry {
    char *name;
    ino_t number;
    mode_t type; /* as in st_mode */
};

struct listing {
    struct listing_entry *entries;
    size_t count;
    size_t capacity;
    _Atomic unsigned owners;
};

/* Reads the directory behind an O_PATH descriptor; the caller is an owner. An errno, or 0. */
MUST_CHECK int listing_read(int path_fd, struct listing **ret);

struct listing *listing_share(struct listing *listing); /* one more owner */
void listing_drop(struct listing **listing);            /* one less; NULL is fine */

#endif
