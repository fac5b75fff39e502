/* chaos/netvol/operations.h - the kinds of operations that a volume does, and their names.
 *
 * What the kernel asks for is one of these: it is counted, delayed, failed and traced under this
 * name. A listing with attributes counts as readdir, whatever changes attributes as setattr.
 */
#ifndef MEMSYNC_CHAOS_OPERATIONS_H
#define MEMSYNC_CHAOS_OPERATIONS_H

#include <stdbool.h>

#define OPERATIONS(X)                                                                              \
    X(lookup)                                                                                      \
    X(getattr)                                                                                     \
    X(setattr)                                                                                     \
    X(readlink)                                                                                    \
    X(mkdir)                                                                                       \
    X(unlink)                                                                                      \
    X(rmdir)                                                                                       \
    X(symlink)                                                                                     \
    X(link)                                                                                        \
    X(rename)                                                                                      \
    X(open)                                                                                        \
    X(create)                                                                                      \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(flush)                                                                                       \
    X(fsync)                                                                                       \
    X(release)                                                                                     \
    X(opendir)                                                                                     \
    X(readdir)                                                                                     \
    X(fsyncdir)                                                                                    \
    X(releasedir)                                                                                  \
    X(statfs)                                                                                      \
    X(access)                                                                                      \
    X(flock)

#define OPERATION_AS_ENUM(name) OPERATION_##name,
enum operation { OPERATIONS(OPERATION_AS_ENUM) OPERATION_COUNT };

/* In rules and settings: whatever it is. */
#define OPERATION_ANY OPERATION_COUNT

const char *operation_name(enum operation operation); /* "any" for OPERATION_ANY */

/* False: there is none of that name. */
bool operation_of(const char *name, enum operation *ret);

#endif
