/* core/racy.h - since when which stamps are known: the clock side of the racily-clean rule.
 *
 * A stamp (inode, size, mtime, ctime) proves that nothing changed only if it was looked at again at
 * least W after it was first seen, W being the coarsest tick that the volume's clock may have: two
 * changes within one tick can leave equal stamps. Whether a stamp may be trusted is stored in the
 * index (seen_entry.clean); since when a stamp that may not is known lives here, on the monotonic
 * clock, and dies with the process. What is not known here counts as seen for the first time now,
 * which is always safe.
 *
 * One `struct racy` belongs to one scope. Bounded: beyond RACY_PATHS_MAX paths it forgets the
 * single ones and counts all as seen now. Not thread-safe (a scope has one refresher at a time).
 */
#ifndef MEMSYNC_CORE_RACY_H
#define MEMSYNC_CORE_RACY_H

#include "core/status.h"

#include <stdint.h>

#define RACY_PATHS_MAX 256

struct racy {
    uint64_t base_ns; /* stamps without an entry of their own were known by then; 0: none was */
    struct racy_path *paths;
    size_t count;
};

/* All stamps of the scope are as old as `now_ns` at the least, i.e. they were stored by a refresh
 * that ended then. */
void racy_start(struct racy *racy, uint64_t now_ns);

/* The stamp of one path was seen for the first time at `now_ns`. */
void racy_note(struct racy *racy, const char *path, uint64_t now_ns);

/* Since when the stored stamp of `path` is known; `now_ns` when it is not. */
uint64_t racy_since(const struct racy *racy, const char *path, uint64_t now_ns);

/* Forgets everything and frees what it holds; a zeroed one is the same as a new one. */
void racy_clear(struct racy *racy);

/* True when a look at `looked_ns` at a stamp known since `since_ns` proves that nothing hides
 * behind it. */
bool racy_is_settled(uint64_t since_ns, uint64_t looked_ns, uint64_t settle_ns);

#endif
