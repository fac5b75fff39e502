#include "ipc/endpoint.h"

#include "core/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

/* A socket's address holds 108 bytes, the last of which libzmq keeps for a NUL. */
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *) NULL)->sun_path) - 1)

struct endpoint {
    char *path;      /* of the socket; NULL when nothing lies in the file system */
    char *lock_path; /* path + ".lock" */
    int lock_fd;
    bool held; /* the flock is ours, and so is the lock file */
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The socket's path, or NULL for an endpoint without one (tcp, abstract names). */
static const char *path_of(const char *endpoint)
{
    const char *path = endpoint + strlen("ipc://");

    return starts_with(endpoint, "ipc://") && *path == '/' ? path : NULL;
}

static enum status check_ipc(const char *path, struct error *error)
{
    size_t length = strlen(path);

    if (length > SOCKET_PATH_MAX)
        return error_set(error, STATUS_INVALID, NULL,
                         "the socket path is %zu bytes long, the limit is %zu: %s", length,
                         SOCKET_PATH_MAX, path);
    if (path[0] == '@' && length > 1)
        return STATUS_OK;
    if (path[0] != '/' || length < 2 || path[length - 1] == '/')
        return error_set(error, STATUS_INVALID, NULL,
                         "the socket path must be absolute or an abstract @name: ipc://%s", path);
    return STATUS_OK;
}

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_port(const char *text)
{
    size_t length = strlen(text);

    if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
        return false;
    unsigned long port = strtoul(text, NULL, 10);
    return port >= 1 && port <= 65535;
}

static enum status check_tcp(const char *address, bool curve, struct error *error)
{
    char host[64];
    const char *colon = strrchr(address, ':');

    if (!colon || !is_port(colon + 1))
        return error_set(error, STATUS_INVALID, NULL,
                         "a tcp endpoint needs a port from 1 to 65535: tcp://%s", address);
    size_t length = (size_t) (colon - address);
    if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
        address++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof host)
        return error_set(error, STATUS_INVALID, NULL, "a tcp endpoint needs an address");
    memcpy(host, address, length);
    host[length] = '\0';
    if (!curve && !is_loopback(host))
        return error_set(error, STATUS_INVALID, NULL,
                         "tcp:// may only listen on the loopback interface (127.0.0.0/8 or "
                         "[::1]), not on %s",
                         host);
    return STATUS_OK;
}

enum status endpoint_check(const char *endpoint, bool curve, struct error *error)
{
    if (starts_with(endpoint, "ipc://"))
        return check_ipc(endpoint + strlen("ipc://"), error);
    if (starts_with(endpoint, "tcp://"))
        return check_tcp(endpoint + strlen("tcp://"), curve, error);
    return error_set(error, STATUS_INVALID, NULL, "an endpoint begins with ipc:// or tcp://: %s",
                     endpoint);
}

static enum status check_directory(const char *path, bool make, struct error *error)
{
    AUTO_FREE char *copy = strdup(path);
    struct stat st;

    if (!copy)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    const char *directory = dirname(copy);
    if (make && mkdir(directory, 0755) < 0 && errno != EEXIST)
        return error_set_errno(error, errno, directory, "cannot make the socket's directory %s",
                               directory);
    if (stat(directory, &st) < 0)
        return error_set_errno(error, errno, directory, "cannot use the socket's directory %s",
                               directory);
    if (!S_ISDIR(st.st_mode))
        return error_set(error, STATUS_INVALID, directory,
                         "the socket's directory %s is no directory", directory);
    return STATUS_OK;
}

/* The process that wrote itself into the lock file; 0 when it has not done so (yet). */
static long read_holder(const char *lock_path)
{
    AUTO_CLOSE int fd = open(lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[24] = "";

    if (fd < 0)
        return 0;
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    if (got <= 0 || text[got - 1] != '\n')
        return 0;
    return strtol(text, NULL, 10);
}

static enum status refuse_second(const struct endpoint *endpoint, struct error *error)
{
    /* The holder locks first and writes next: give it a moment. */
    for (unsigned i = 0; i < 20; i++) {
        long pid = read_holder(endpoint->lock_path);
        if (pid > 0)
            return error_set(error, STATUS_BUSY, endpoint->path,
                             "already running, pid %ld, serves ipc://%s", pid, endpoint->path);
        (void) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return error_set(error, STATUS_BUSY, endpoint->path,
                     "already running, pid unknown, serves ipc://%s", endpoint->path);
}

/* True when the file that was locked is still the one of that name: its last owner removes it. */
static bool is_still_named(const struct endpoint *endpoint)
{
    struct stat held;
    struct stat named;

    return fstat(endpoint->lock_fd, &held) == 0 && lstat(endpoint->lock_path, &named) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

static enum status open_lock(struct endpoint *endpoint, struct error *error)
{
    for (unsigned i = 0; i < 100; i++) {
        endpoint->lock_fd =
            open(endpoint->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (endpoint->lock_fd < 0)
            return error_set_errno(error, errno, endpoint->lock_path, "cannot open the lock %s",
                                   endpoint->lock_path);
        if (flock(endpoint->lock_fd, LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK)
                return refuse_second(endpoint, error);
            return error_set_errno(error, errno, endpoint->lock_path, "cannot lock %s",
                                   endpoint->lock_path);
        }
        endpoint->held = is_still_named(endpoint);
        if (endpoint->held)
            return STATUS_OK;
        (void) close(TAKE_FD(endpoint->lock_fd));
    }
    return error_set(error, STATUS_BUSY, endpoint->path, "the lock %s keeps changing hands",
                     endpoint->lock_path);
}

static enum status write_holder(const struct endpoint *endpoint, struct error *error)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%ld\n", (long) getpid());

    if (ftruncate(endpoint->lock_fd, 0) < 0 ||
        pwrite(endpoint->lock_fd, text, (size_t) length, 0) != length)
        return error_set_errno(error, errno ? errno : EIO, endpoint->lock_path, "cannot write %s",
                               endpoint->lock_path);
    return STATUS_OK;
}

/* Who listens there although nobody holds our lock: 0 nobody, -1 somebody unknown, else a pid. */
static pid_t find_listener(const char *path)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof peer;

    if (fd < 0)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (const struct sockaddr *) &address, sizeof address) < 0)
        return errno == ECONNREFUSED || errno == ENOENT ? 0 : -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
        return -1;
    return peer.pid;
}

/* libzmq would remove whatever lies at the path; only a socket that nobody serves may go. */
static enum status clear_path(const char *path, struct error *error)
{
    struct stat st;

    if (lstat(path, &st) < 0) {
        if (errno == ENOENT)
            return STATUS_OK;
        return error_set_errno(error, errno, path, "cannot look at %s", path);
    }
    if (!S_ISSOCK(st.st_mode))
        return error_set(error, STATUS_INVALID, path,
                         "%s is not a socket: it is left alone, choose another endpoint", path);
    pid_t pid = find_listener(path);
    if (pid > 0)
        return error_set(error, STATUS_BUSY, path, "already running, pid %ld, serves ipc://%s",
                         (long) pid, path);
    if (pid < 0)
        return error_set(error, STATUS_BUSY, path, "another program serves %s", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return error_set_errno(error, errno, path, "cannot remove the dead socket %s", path);
    return STATUS_OK;
}

static enum status claim_path(struct endpoint *endpoint, bool make_directory, struct error *error)
{
    enum status status = check_directory(endpoint->path, make_directory, error);

    if (status == STATUS_OK)
        status = open_lock(endpoint, error);
    if (status == STATUS_OK)
        status = clear_path(endpoint->path, error);
    if (status == STATUS_OK)
        status = write_holder(endpoint, error);
    return status;
}

static void endpoint_free(struct endpoint *endpoint)
{
    /* Only while its name still leads to the file that is locked here. */
    if (endpoint->held && is_still_named(endpoint))
        (void) unlink(endpoint->lock_path);
    if (endpoint->lock_fd >= 0)
        (void) close(endpoint->lock_fd);
    free(endpoint->path);
    free(endpoint->lock_path);
    free(endpoint);
}

enum status endpoint_claim(const char *endpoint, bool make_directory, struct endpoint **ret,
                           struct error *error)
{
    const char *path = path_of(endpoint);
    struct endpoint *claim = calloc(1, sizeof *claim);
    char *lock_path = NULL;
    enum status status = STATUS_OK;

    if (!claim)
        return error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
    claim->lock_fd = -1;
    if (path) {
        claim->path = strdup(path);
        if (!claim->path || asprintf(&lock_path, "%s.lock", path) < 0) {
            status = error_set(error, STATUS_NO_MEMORY, NULL, "out of memory");
        } else {
            claim->lock_path = lock_path;
            status = strlen(path) > SOCKET_PATH_MAX ? check_ipc(path, error)
                                                    : claim_path(claim, make_directory, error);
        }
    }
    if (status != STATUS_OK) {
        endpoint_free(claim);
        return status;
    }
    *ret = claim;
    return STATUS_OK;
}

static enum status find_group(const char *name, gid_t *ret, struct error *error)
{
    struct group group;
    struct group *found = NULL;
    char buffer[16384];

    int failed = getgrnam_r(name, &group, buffer, sizeof buffer, &found);
    if (failed)
        return error_set_errno(error, failed, NULL, "cannot look up the group %s", name);
    if (!found)
        return error_set(error, STATUS_INVALID, NULL, "there is no group %s", name);
    *ret = found->gr_gid;
    return STATUS_OK;
}

enum status endpoint_check_group(const char *group, struct error *error)
{
    gid_t gid;

    return find_group(group, &gid, error);
}

enum status endpoint_set_access(struct endpoint *endpoint, unsigned mode, const char *group,
                                struct error *error)
{
    gid_t gid = (gid_t) -1;

    if (!endpoint->path)
        return STATUS_OK;
    if (group) {
        enum status status = find_group(group, &gid, error);
        if (status != STATUS_OK)
            return status;
    }
    /* The group first: the mode may open the socket to it. */
    if (group && lchown(endpoint->path, (uid_t) -1, gid) < 0)
        return error_set_errno(error, errno, endpoint->path, "cannot give %s to the group %s",
                               endpoint->path, group);
    if (chmod(endpoint->path, mode & 0777) < 0)
        return error_set_errno(error, errno, endpoint->path, "cannot set the mode of %s",
                               endpoint->path);
    return STATUS_OK;
}

void endpoint_release(struct endpoint **endpoint)
{
    struct stat st;

    if (!endpoint || !*endpoint)
        return;
    const char *path = (*endpoint)->path;
    if (path && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        (void) unlink(path);
    endpoint_free(TAKE_PTR(*endpoint));
}
