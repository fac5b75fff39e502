/* core/volume_errors.h - how often calls to the volume have failed, by call and by kind of failure.
 *
 * Of this process, whatever the number of volumes. An error that belongs to the normal course of
 * things (a name that is not there, or is there already; a lock that somebody holds; what a file
 * system does not know) is none. Thread-safe, without a lock; a call that goes well costs nothing.
 */
#ifndef MEMSYNC_CORE_VOLUME_ERRORS_H
#define MEMSYNC_CORE_VOLUME_ERRORS_H

#include <stdint.h>

enum volume_error {
    VOLUME_ERROR_IO,          /* EIO and what else says that bytes are lost */
    VOLUME_ERROR_STALE,       /* a handle of what is no longer there */
    VOLUME_ERROR_DENIED,      /* no right to it */
    VOLUME_ERROR_READ_ONLY,   /* the mount takes no writes */
    VOLUME_ERROR_FULL,        /* no space, or no quota */
    VOLUME_ERROR_UNREACHABLE, /* the server does not answer, or the mount has lost it */
    VOLUME_ERROR_LIMIT,       /* descriptors, locks or memory of this node have run out */
    VOLUME_ERROR_OTHER,
};
#define VOLUME_ERROR_COUNT (VOLUME_ERROR_OTHER + 1)

/* "io", "stale", "denied", "read_only", "full", "unreachable", "limit", "other" */
const char *volume_error_name(enum volume_error error);

/* The operations that are told apart: the name of the one of index `i`, NULL past the last. */
const char *volume_errors_operation(unsigned i);

/* A call has failed with `sys_errno`. An operation that is not told apart counts as the last one.
 */
void volume_errors_note(const char *operation, int sys_errno);

/* How often, by the index of the operation. */
uint64_t volume_errors_count(unsigned operation, enum volume_error error);

#endif
