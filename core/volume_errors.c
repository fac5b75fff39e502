#include "core/volume_errors.h"

#include "core/compiler.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static const char *const operations[] = {
    "open", "stat",   "read", "write",  "list",  "sync",
    "lock", "rename", "link", "unlink", "mkdir", "other",
};

static _Atomic uint64_t counts[ARRAY_SIZE(operations)][VOLUME_ERROR_COUNT];

const char *volume_error_name(enum volume_error error)
{
    static const char *const names[VOLUME_ERROR_COUNT] = {
        [VOLUME_ERROR_IO] = "io",         [VOLUME_ERROR_STALE] = "stale",
        [VOLUME_ERROR_DENIED] = "denied", [VOLUME_ERROR_READ_ONLY] = "read_only",
        [VOLUME_ERROR_FULL] = "full",     [VOLUME_ERROR_UNREACHABLE] = "unreachable",
        [VOLUME_ERROR_LIMIT] = "limit",   [VOLUME_ERROR_OTHER] = "other",
    };

    return names[error];
}

const char *volume_errors_operation(unsigned i)
{
    return i < ARRAY_SIZE(operations) ? operations[i] : NULL;
}

static bool is_expected(int sys_errno)
{
    static const int expected[] = {
        ENOENT, EEXIST, ENOTEMPTY, ENOTDIR, EISDIR,     ELOOP,  EXDEV,
        EAGAIN, EINTR,  EINVAL,    ENOSYS,  EOPNOTSUPP, EMLINK, ENAMETOOLONG,
    };

    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        if (expected[i] == sys_errno)
            return true;
    }
    return false;
}

static enum volume_error class_of(int sys_errno)
{
    switch (sys_errno) {
    case EIO:
    case EREMOTEIO:
    case EUCLEAN:
        return VOLUME_ERROR_IO;
    case ESTALE:
        return VOLUME_ERROR_STALE;
    case EACCES:
    case EPERM:
        return VOLUME_ERROR_DENIED;
    case EROFS:
        return VOLUME_ERROR_READ_ONLY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return VOLUME_ERROR_FULL;
    case ETIMEDOUT:
    case ENOTCONN:
    case ECONNABORTED:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENODEV:
    case ENXIO:
    case ESHUTDOWN:
        return VOLUME_ERROR_UNREACHABLE;
    case EMFILE:
    case ENFILE:
    case ENOLCK:
    case ENOMEM:
        return VOLUME_ERROR_LIMIT;
    default:
        return VOLUME_ERROR_OTHER;
    }
}

void volume_errors_note(const char *operation, int sys_errno)
{
    unsigned at = 0;

    if (is_expected(sys_errno))
        return;
    while (at < ARRAY_SIZE(operations) - 1 && strcmp(operations[at], operation) != 0)
        at++;
    atomic_fetch_add_explicit(&counts[at][class_of(sys_errno)], 1, memory_order_relaxed);
}

uint64_t volume_errors_count(unsigned operation, enum volume_error error)
{
    return atomic_load_explicit(&counts[operation][error], memory_order_relaxed);
}
