/* core/seen_entry.h - what was seen of one directory or file below a scope's facts directory.
 *
 * Stored in the index beside the rows that were built from it, so that the next refresh reads only
 * what changed.
 */
#ifndef MEMSYNC_CORE_SEEN_ENTRY_H
#define MEMSYNC_CORE_SEEN_ENTRY_H

#include "core/fact.h"
#include "core/signature.h"

struct seen_entry {
    char *path; /* relative to the facts directory; "" is that directory itself */
    bool is_dir;
    struct file_stamp stamp;
    bool clean;            /* the stamp may be trusted (racily-clean rule, core/racy.h) */
    uint64_t digest;       /* files: of the bytes read */
    enum fact_fault fault; /* files: why there is no row */
    char *problem;         /* files with a fault: one line for people; else NULL */
};

struct seen_list {
    struct seen_entry *entries; /* directories first; each kind sorted by path, bytewise */
    size_t count;
};

/* Frees the entries and what they own, not the list itself. */
void seen_list_destroy(struct seen_list *list);
#define AUTO_SEEN CLEANUP(seen_list_destroy)

#endif
