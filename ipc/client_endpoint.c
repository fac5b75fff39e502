/* client_endpoint.c - which endpoints can be used, and whether somebody listens there. */
#include "ipc/client_private.h"

#include <errno.h>
#include <grp.h>
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

static void take_directory(const char *path, char directory[CLIENT_PATH_BYTES_MAX + 1])
{
    char *slash;

    (void) snprintf(directory, CLIENT_PATH_BYTES_MAX + 1, "%s", path);
    slash = strrchr(directory, '/');
    if (slash && slash != directory)
        *slash = '\0';
    else
        (void) snprintf(directory, CLIENT_PATH_BYTES_MAX + 1, "%s", slash ? "/" : ".");
}

/* Why a socket's path leads nowhere; NULL: a socket lies there. `*ret_error` is EACCES where it
 * cannot be told. */
static const char *missing_reason(const char *path, int *ret_error)
{
    struct stat st;
    char directory[CLIENT_PATH_BYTES_MAX + 1];

    if (lstat(path, &st) == 0)
        return S_ISSOCK(st.st_mode) || S_ISLNK(st.st_mode) ? NULL : "that file is no socket";
    if (errno == EACCES) {
        *ret_error = EACCES;
        return NULL;
    }
    take_directory(path, directory);
    if (stat(directory, &st) < 0)
        return "its directory does not exist";
    return "there is no socket";
}

/* The errno of a plain connect(), 0 when it worked. */
static int try_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    else
        size++;
    socklen_t length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size);
    int result = connect(fd, (const struct sockaddr *) &address, length);
    int error = result < 0 ? errno : 0;
    (void) close(fd);
    return error;
}

/* "group memsync", or its number where it has no name. */
static void name_group(gid_t gid, char *ret, size_t size)
{
    struct group entry;
    struct group *found = NULL;
    char names[4096];

    if (getgrgid_r(gid, &entry, names, sizeof names, &found) == 0 && found)
        (void) snprintf(ret, size, "group %s", found->gr_name);
    else
        (void) snprintf(ret, size, "group %u", (unsigned) gid);
}

/* Permission was refused: whose group this user would have to be in. The directory is told of when
 * it hides the socket. */
static void explain_denial(const char *endpoint, const char *path, char *why, size_t why_size)
{
    struct stat st;
    char directory[CLIENT_PATH_BYTES_MAX + 1];
    char group[300];
    bool is_hidden = stat(path, &st) < 0;

    take_directory(path, directory);
    if (path[0] == '@' || (is_hidden && stat(directory, &st) < 0)) {
        (void) snprintf(why, why_size, "%s may not be reached by this user (uid %u)", endpoint,
                        (unsigned) geteuid());
        return;
    }
    name_group(st.st_gid, group, sizeof group);
    (void) snprintf(why, why_size, "%s%s may not be %s by this user (uid %u): it belongs to %s",
                    is_hidden ? "the directory of " : "the socket ", endpoint,
                    is_hidden ? "entered" : "opened", (unsigned) geteuid(), group);
}

static const char *reason_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "the socket is dead";
    case ENOENT:
        return "there is no socket";
    default: /* a full backlog (EAGAIN) included: somebody is there */
        return NULL;
    }
}

static bool is_ipc_served(const char *endpoint, char *why, size_t why_size, const char **ret_reason)
{
    const char *path = endpoint + strlen("ipc://");
    int error = 0;

    *ret_reason = path[0] == '@' ? NULL : missing_reason(path, &error);
    if (!*ret_reason && error == 0)
        error = try_connect(path);
    if (!*ret_reason && (error == EACCES || error == EPERM)) {
        explain_denial(endpoint, path, why, why_size);
        return false;
    }
    if (!*ret_reason)
        *ret_reason = reason_of(error);
    return !*ret_reason;
}

bool client_endpoint_is_served(const char *endpoint, char *why, size_t why_size)
{
    const char *reason = "the connection was refused";

    if (strncmp(endpoint, "ipc://", 6) == 0 && is_ipc_served(endpoint, why, why_size, &reason))
        return true;
    if (reason)
        (void) snprintf(why, why_size,
                        "no agent at %s (%s): is memsyncd running? (systemctl status memsyncd)",
                        endpoint, reason);
    return false;
}
