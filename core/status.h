/* core/status.h - what went wrong, in terms of what the caller can do about it.
 *
 * The same kinds travel on the wire (ipc/protocol.h maps them to numbers). A function that can fail
 * returns an `enum status`; where people will want to know more, it also fills a `struct error`.
 */
#ifndef MEMSYNC_CORE_STATUS_H
#define MEMSYNC_CORE_STATUS_H

#include "core/compiler.h"

#include <stdbool.h>

enum status {
    STATUS_OK,
    STATUS_INVALID,     /* the caller's arguments: correct them */
    STATUS_NOT_FOUND,   /* no such fact, file or scope */
    STATUS_CONFLICT,    /* somebody else was faster: read again */
    STATUS_CORRUPT,     /* bytes that cannot be understood; they are left as they are */
    STATUS_TIMEOUT,     /* the deadline passed */
    STATUS_DENIED,      /* no permission */
    STATUS_UNSUPPORTED, /* this backend or version does not do it */
    STATUS_UNAVAILABLE, /* cannot be answered now: volume away, index not built */
    STATUS_STORAGE_FULL,
    STATUS_BUSY,      /* a limit was reached: later */
    STATUS_TOO_LARGE, /* beyond a limit that waiting does not change */
    STATUS_STALE,     /* the file changed or went away while it was read: start over */
    STATUS_IO,        /* the system reported an error that none of the others tells */
    STATUS_NO_MEMORY,
    STATUS_WOULD_BLOCK, /* internal: do it on a thread that may wait */
    STATUS_INTERNAL,    /* a bug */
};

#define STATUS_COUNT (STATUS_INTERNAL + 1)

/* Longest path, relative to the volume, that an error carries: users/U/agents/A/facts/xx/F.md, each
 * name at most 255 bytes. */
#define ERROR_PATH_MAX 1100
#define ERROR_MESSAGE_MAX 400
#define ERROR_MEMBERS_MAX 640 /* two fact ids and some numbers */

struct error {
    enum status status;
    int sys_errno;             /* 0 when no system call was behind it */
    char path[ERROR_PATH_MAX]; /* relative to the volume where it is a volume file, or empty */
    char message[ERROR_MESSAGE_MAX]; /* one line, no full stop, for people */
    /* Further members for programs, as JSON text that begins with a comma; or empty. Every
     * error_set() empties it. */
    char members[ERROR_MEMBERS_MAX];
};

/* The lower-case word for a status, e.g. "not_found"; never NULL. */
const char *status_name(enum status status);

/* Maps an errno value. ENOENT is STATUS_NOT_FOUND, ESTALE is STATUS_STALE, EACCES and EPERM and
 * EROFS are STATUS_DENIED, ENOSPC and EDQUOT STATUS_STORAGE_FULL, ENOMEM STATUS_NO_MEMORY, ELOOP,
 * ENOTDIR and EXDEV (a link or `..` that leads out of the volume) STATUS_DENIED, the rest
 * STATUS_IO. */
enum status status_from_errno(int sys_errno);

/* Fills `error` (which may be NULL) and returns `status`, so that it can end a return statement.
 * `path` may be NULL. Both texts are cut at a character boundary to fit. */
enum status error_set(struct error *error, enum status status, const char *path, const char *format,
                      ...) PRINTF(4, 5);

/* The same for a failed system call: the status comes from `sys_errno`, and the message ends in
 * ": " and its text. Never STATUS_OK: an errno of 0 is STATUS_INTERNAL. */
enum status error_set_errno(struct error *error, int sys_errno, const char *path,
                            const char *format, ...) PRINTF(4, 5);

/* Adds `"name":value` to the error's members, where it is not NULL; `value_format` gives JSON text
 * (of ids, words and numbers only: nothing is escaped). What no longer fits is left out. */
void error_add_member(struct error *error, const char *name, const char *value_format, ...)
    PRINTF(3, 4);

/* Makes `error` say "nothing happened". */
void error_clear(struct error *error);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time; without this it takes every failure for a success as well.
 */
#define error_told_(call)                                                                          \
    ({                                                                                             \
        enum status told_ = (call);                                                                \
        if (told_ == STATUS_OK)                                                                    \
            __builtin_unreachable();                                                               \
        told_;                                                                                     \
    })
#define error_set(...) error_told_(error_set(__VA_ARGS__))
#define error_set_errno(...) error_told_(error_set_errno(__VA_ARGS__))
#endif

#endif
