/* client_endpoint.c - which endpoints can be used, and whether somebody listens there. */
#include "ipc/client_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static _Thread_local char endpoint_error[400];

static const char *refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *refuse(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(endpoint_error, sizeof endpoint_error, format, arguments);
    va_end(arguments);
    return endpoint_error;
}

static const char *check_ipc(const char *path)
{
    size_t size = strlen(path);

    if (size == 0 || strcmp(path, "@") == 0)
        return refuse("ipc:// needs the path of a socket");
    if (strcmp(path, "*") == 0)
        return refuse("ipc://* can only be listened on");
    if (size > CLIENT_PATH_BYTES_MAX)
        return refuse("the socket's path is too long: %zu bytes, the limit is %d", size,
                      CLIENT_PATH_BYTES_MAX);
    return NULL;
}

/* There is no encryption yet, so facts would cross the network in the clear. */
static bool is_loopback(const char *host, size_t size)
{
    static const char *const names[] = {"localhost", "[::1]"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && strncmp(names[i], host, size) == 0)
            return true;
    }
    if (size < strlen("127.0.0.1") || strncmp(host, "127.", 4) != 0)
        return false;
    return strspn(host, "0123456789.") == size;
}

static const char *check_tcp(const char *address)
{
    const char *colon = strrchr(address, ':');

    if (!colon || colon == address)
        return refuse("tcp:// needs HOST:PORT");
    size_t digits = strspn(colon + 1, "0123456789");
    long port = digits > 0 && digits <= 5 ? strtol(colon + 1, NULL, 10) : 0;
    if (colon[1 + digits] != '\0' || port < 1 || port > 65535)
        return refuse("tcp:// needs a port from 1 to 65535");
    if (!is_loopback(address, (size_t) (colon - address)))
        return refuse("tcp:// works with loopback addresses only (127.0.0.1, [::1], localhost)");
    return NULL;
}

const char *memsync_endpoint_error(const char *endpoint)
{
    if (!endpoint || !*endpoint)
        return refuse("the endpoint is empty");
    for (const char *at = endpoint; *at; at++) {
        if ((unsigned char) *at < 0x20 || *at == 0x7f)
            return refuse("the endpoint has a control character in it");
    }
    if (strncmp(endpoint, "ipc://", 6) == 0)
        return check_ipc(endpoint + 6);
    if (strncmp(endpoint, "tcp://", 6) == 0)
        return check_tcp(endpoint + 6);
    return refuse("unknown transport in \"%.60s\": an endpoint is ipc://PATH or tcp://HOST:PORT",
                  endpoint);
}

/* Why a socket's path leads nowhere; NULL: a socket lies there. */
static const char *missing_reason(const char *path)
{
    struct stat st;
    char directory[CLIENT_PATH_BYTES_MAX + 1];

    if (lstat(path, &st) == 0)
        return S_ISSOCK(st.st_mode) || S_ISLNK(st.st_mode) ? NULL : "that file is no socket";
    if (errno == EACCES)
        return "its directory may not be entered by this user";
    (void) snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash && slash != directory) {
        *slash = '\0';
        if (stat(directory, &st) < 0)
            return "its directory does not exist";
    }
    return "there is no socket";
}

static const char *refusal_reason(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "the socket is dead";
    case EACCES:
    case EPERM:
        return "permission denied; this user may not be in the socket's group";
    case ENOENT:
        return "there is no socket";
    default: /* a full backlog (EAGAIN) included: somebody is there */
        return NULL;
    }
}

static const char *connect_reason(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    else
        size++;
    socklen_t length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size);
    int result = connect(fd, (const struct sockaddr *) &address, length);
    int error = result < 0 ? errno : 0;
    (void) close(fd);
    return error ? refusal_reason(error) : NULL;
}

bool client_endpoint_is_served(const char *endpoint, char *why, size_t why_size)
{
    const char *reason = NULL;

    if (strncmp(endpoint, "ipc://", 6) == 0) {
        const char *path = endpoint + 6;
        if (path[0] != '@')
            reason = missing_reason(path);
        if (!reason)
            reason = connect_reason(path);
    } else {
        reason = "the connection was refused";
    }
    if (reason)
        (void) snprintf(why, why_size, "%s", reason);
    return !reason;
}
