#include "core/status.h"

#include "core/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __clang_analyzer__
#undef error_set
#undef error_set_errno
#endif

static const char *const status_names[STATUS_COUNT] = {
    [STATUS_OK] = "ok",
    [STATUS_INVALID] = "invalid",
    [STATUS_NOT_FOUND] = "not_found",
    [STATUS_CONFLICT] = "conflict",
    [STATUS_CORRUPT] = "corrupt",
    [STATUS_TIMEOUT] = "timeout",
    [STATUS_DENIED] = "denied",
    [STATUS_UNSUPPORTED] = "unsupported",
    [STATUS_UNAVAILABLE] = "unavailable",
    [STATUS_STORAGE_FULL] = "storage_full",
    [STATUS_BUSY] = "busy",
    [STATUS_TOO_LARGE] = "too_large",
    [STATUS_STALE] = "stale",
    [STATUS_IO] = "io",
    [STATUS_NO_MEMORY] = "no_memory",
    [STATUS_WOULD_BLOCK] = "would_block",
    [STATUS_INTERNAL] = "internal",
};

const char *status_name(enum status status)
{
    if ((size_t) status >= ARRAY_SIZE(status_names) || !status_names[status])
        return "unknown";
    return status_names[status];
}

enum status status_from_errno(int sys_errno)
{
    switch (sys_errno) {
    case 0:
        return STATUS_OK;
    case ENOENT:
        return STATUS_NOT_FOUND;
    case ESTALE:
        return STATUS_STALE;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENOTDIR:
    case EXDEV:
        return STATUS_DENIED;
    case ENOSPC:
    case EDQUOT:
        return STATUS_STORAGE_FULL;
    case ENOMEM:
        return STATUS_NO_MEMORY;
    case ENAMETOOLONG:
        return STATUS_INVALID;
    case EFBIG:
    case EOVERFLOW:
        return STATUS_TOO_LARGE;
    case EMFILE:
    case ENFILE:
        return STATUS_BUSY;
    case ETIMEDOUT:
        return STATUS_TIMEOUT;
    default:
        return STATUS_IO;
    }
}

/* Copies what fits, whole characters only. */
static void copy_cut(char *target, size_t size, const char *source)
{
    size_t length = text_cut(source, strlen(source), size - 1);

    memmove(target, source, length); /* an error may be passed on with its own path */
    target[length] = '\0';
}

static void fill(struct error *error, enum status status, int sys_errno, const char *path,
                 const char *format, va_list arguments)
{
    char message[2 * ERROR_MESSAGE_MAX];
    int length = vsnprintf(message, sizeof message, format, arguments);

    if (length < 0)
        message[0] = '\0';
    if (sys_errno) {
        size_t used = strlen(message);
        (void) snprintf(message + used, sizeof message - used, ": %s",
                        strerrordesc_np(sys_errno) ? strerrordesc_np(sys_errno) : "unknown error");
    }
    error->status = status;
    error->sys_errno = sys_errno;
    copy_cut(error->path, sizeof error->path, path ? path : "");
    copy_cut(error->message, sizeof error->message, message);
    error->members[0] = '\0';
}

enum status error_set(struct error *error, enum status status, const char *path, const char *format,
                      ...)
{
    va_list arguments;

    if (!error)
        return status;
    va_start(arguments, format);
    fill(error, status, 0, path, format, arguments);
    va_end(arguments);
    return status;
}

enum status error_set_errno(struct error *error, int sys_errno, const char *path,
                            const char *format, ...)
{
    enum status status = sys_errno ? status_from_errno(sys_errno) : STATUS_INTERNAL;
    va_list arguments;

    if (!error)
        return status;
    va_start(arguments, format);
    fill(error, status, sys_errno, path, format, arguments);
    va_end(arguments);
    return status;
}

void error_clear(struct error *error)
{
    if (!error)
        return;
    error->status = STATUS_OK;
    error->sys_errno = 0;
    error->path[0] = '\0';
    error->message[0] = '\0';
    error->members[0] = '\0';
}

void error_add_member(struct error *error, const char *name, const char *value_format, ...)
{
    char value[ERROR_MEMBERS_MAX];
    va_list arguments;

    if (!error)
        return;
    va_start(arguments, value_format);
    int length = vsnprintf(value, sizeof value, value_format, arguments);
    va_end(arguments);
    size_t used = strlen(error->members);
    size_t room = sizeof error->members - used;
    if (length < 0 || (size_t) length + strlen(name) + 5 > room)
        return;
    (void) snprintf(error->members + used, room, ",\"%s\":%s", name, value);
}
