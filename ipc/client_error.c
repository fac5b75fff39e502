/* client_error.c - the last failure of a thread, and the names of codes. */
#include "ipc/client_private.h"

#include <stdarg.h>
#include <stdio.h>

#define ERROR_BYTES_MAX 1600 /* a path of the volume and a sentence */

static _Thread_local char last_error[ERROR_BYTES_MAX];

static const struct {
    int code;
    const char *name;
} code_names[] = {
    {MEMSYNC_OK, "ok"},
    {MEMSYNC_NO_AGENT, "no_agent"},
    {MEMSYNC_BAD_ENDPOINT, "bad_endpoint"},
    {MEMSYNC_NO_MEMORY, "no_memory"},
    {MEMSYNC_BAD_REPLY, "bad_reply"},
    {MEMSYNC_BAD_PARAMS, "bad_params"},
    {MEMSYNC_INTERRUPTED, "interrupted"},
    {MEMSYNC_NOT_FOUND, "not_found"},
    {MEMSYNC_CONFLICT, "conflict"},
    {MEMSYNC_CORRUPT, "corrupt"},
    {MEMSYNC_TIMEOUT, "timeout"},
    {MEMSYNC_DENIED, "denied"},
    {MEMSYNC_UNSUPPORTED, "unsupported"},
    {MEMSYNC_UNAVAILABLE, "unavailable"},
    {MEMSYNC_STORAGE_FULL, "storage_full"},
    {MEMSYNC_BUSY, "busy"},
    {MEMSYNC_TOO_LARGE, "too_large"},
    {MEMSYNC_PARSE_ERROR, "parse_error"},
    {MEMSYNC_INVALID_REQUEST, "invalid_request"},
    {MEMSYNC_NO_METHOD, "no_method"},
    {MEMSYNC_INVALID_PARAMS, "invalid_params"},
    {MEMSYNC_INTERNAL, "internal"},
};

int client_fail(int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    for (char *at = last_error; *at; at++) { /* one line, whatever the agent sent */
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    }
    return code;
}

const char *memsync_last_error(void)
{
    return last_error;
}

const char *memsync_code_name(int code)
{
    for (size_t i = 0; i < sizeof code_names / sizeof code_names[0]; i++) {
        if (code_names[i].code == code)
            return code_names[i].name;
    }
    return "unknown";
}
