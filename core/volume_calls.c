/* The real calls, and the wrappers that repeat an interrupted one. */
#include "core/mutant.h"
#include "core/volume_errors.h"
#include "core/volume_private.h"
#include "core/volume_stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>

#define LIST_MESSAGE_BYTES                                                                         \
    4096             /* a listing comes in pieces as small as that, whatever is asked for */
#define OPEN_TRIES 8 /* openat2 says EAGAIN when something was renamed on the way */

/* True when a component of the path is "..". Names that passed their grammar have none. */
static bool leads_up(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += strspn(at, "/");
        if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || at[2] == '\0'))
            return true;
    }
    return false;
}

/* Copies the component at `*path` and moves on to the next; false for one that is too long. */
static bool next_component(const char **path, char name[NAME_MAX + 1])
{
    size_t length = strcspn(*path, "/");

    if (length > NAME_MAX)
        return false;
    memcpy(name, *path, length);
    name[length] = '\0';
    *path += length;
    *path += strspn(*path, "/");
    return true;
}

int volume_open_by_component(int dir_fd, const char *path, int flags, mode_t mode)
{
    AUTO_CLOSE int held = -1;
    char name[NAME_MAX + 1];
    int at = dir_fd;

    if (path[0] == '/' || leads_up(path)) {
        errno = EXDEV;
        return -1;
    }
    for (;;) {
        if (!next_component(&path, name)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (path[0] == '\0')
            return openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);

        int below = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0)
            return -1;
        cleanup_close(&held);
        held = below;
        at = below;
    }
}

static int real_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t) (unsigned) (flags | O_CLOEXEC),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -1;

    if (leads_up(path)) {
        errno = EXDEV;
        return -1;
    }
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    /* EPERM: a filter of system calls that does not know this one */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return volume_open_by_component(dir_fd, path, flags, mode);
    return (int) fd;
}

static int real_stat_forced(int fd, const char *path, struct statx *ret)
{
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
                (MUTANT(UNFORCED) ? AT_STATX_SYNC_AS_STAT : AT_STATX_FORCE_SYNC);

    if (path[0] == '\0')
        flags |= AT_EMPTY_PATH;
    return statx(fd, path, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret);
}

static ssize_t real_list(int fd, void *bytes, size_t size)
{
    return getdents64(fd, bytes, size);
}

static int real_rename_new(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return renameat2(from_dir_fd, from, to_dir_fd, to, RENAME_NOREPLACE);
}

static int real_link(int from_dir_fd, const char *from, int to_dir_fd, const char *to)
{
    return linkat(from_dir_fd, from, to_dir_fd, to, 0);
}

static const struct volume_calls real_calls = {
    .open_beneath = real_open_beneath,
    .stat_forced = real_stat_forced,
    .read = pread,
    .write = write,
    .list = real_list,
    .sync = fsync,
    .lock = flock,
    .rename = renameat,
    .rename_new = real_rename_new,
    .link = real_link,
    .unlink = unlinkat,
    .mkdir = mkdirat,
    .close = close,
};

const struct volume_calls *volume_real_calls(void)
{
    return &real_calls;
}

static _Thread_local uint64_t operations_here;

uint64_t volume_operations_here(void)
{
    return operations_here;
}

void volume_count_operations(uint64_t count)
{
    operations_here += count;
}

static void count_path(const char *path)
{
    for (const char *at = path; *at; at += strspn(at, "/")) {
        at += strcspn(at, "/");
        operations_here++;
    }
}

/* While a volume is being opened its kind is not known yet: any may hang. */
static bool may_hang(const struct volume *volume)
{
    return !atomic_load(&volume->root) || !volume_lookups_are_safe(volume);
}

void volume_call_begin(const struct volume *volume, const char *operation, int fd, const char *path)
{
    if (may_hang(volume))
        volume_stuck_begin(operation, fd, path);
}

void volume_call_end(void)
{
    int saved_errno = errno;

    volume_stuck_end();
    errno = saved_errno;
}

/* `fd` and `path` tell others what hangs, should it. */
#define RETRY_INTERRUPTED(result, volume, operation, fd, path, call)                               \
    do {                                                                                           \
        volume_call_begin(volume, operation, fd, path);                                            \
        do {                                                                                       \
            operations_here++;                                                                     \
            (result) = (call);                                                                     \
        } while ((result) < 0 && errno == EINTR);                                                  \
        if ((result) < 0)                                                                          \
            volume_errors_note(operation, errno);                                                  \
        volume_call_end();                                                                         \
    } while (false)

int volume_do_open(const struct volume *volume, int dir_fd, const char *path, int flags,
                   mode_t mode)
{
    int at = dir_fd < 0 ? volume_root_fd(volume) : dir_fd;
    int fd = -1;

    count_path(path);
    RETRY_INTERRUPTED(fd, volume, "open", at, path,
                      volume->calls->open_beneath(at, path, flags | O_CLOEXEC, mode));
    return fd;
}

int volume_do_stat(const struct volume *volume, int fd, const char *path, struct statx *ret)
{
    int result = -1;

    count_path(path);
    RETRY_INTERRUPTED(result, volume, "stat", fd, path, volume->calls->stat_forced(fd, path, ret));
    return result;
}

ssize_t volume_do_read(const struct volume *volume, int fd, void *bytes, size_t size, off_t offset)
{
    ssize_t result = -1;

    volume_count_operations(1); /* the attributes, which tell a client whether its bytes are old */
    RETRY_INTERRUPTED(result, volume, "read", fd, "", volume->calls->read(fd, bytes, size, offset));
    return result;
}

ssize_t volume_do_write(const struct volume *volume, int fd, const void *bytes, size_t size)
{
    ssize_t result = -1;

    RETRY_INTERRUPTED(result, volume, "write", fd, "", volume->calls->write(fd, bytes, size));
    return result;
}

ssize_t volume_do_list(const struct volume *volume, int fd, void *bytes, size_t size)
{
    ssize_t result = -1;

    RETRY_INTERRUPTED(result, volume, "list", fd, "", volume->calls->list(fd, bytes, size));
    if (result > 0)
        volume_count_operations((unsigned) ((size_t) result / LIST_MESSAGE_BYTES));
    return result;
}

int volume_do_sync(const struct volume *volume, int fd)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "sync", fd, "", volume->calls->sync(fd));
    return result;
}

int volume_do_lock(const struct volume *volume, int fd, int operation)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "lock", fd, "", volume->calls->lock(fd, operation));
    return result;
}

int volume_do_rename(const struct volume *volume, int from_fd, const char *from, int to_fd,
                     const char *to)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "rename", to_fd, to,
                      volume->calls->rename(from_fd, from, to_fd, to));
    return result;
}

int volume_do_rename_new(const struct volume *volume, int from_fd, const char *from, int to_fd,
                         const char *to)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "rename", to_fd, to,
                      volume->calls->rename_new(from_fd, from, to_fd, to));
    return result;
}

int volume_do_link(const struct volume *volume, int from_fd, const char *from, int to_fd,
                   const char *to)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "link", to_fd, to,
                      volume->calls->link(from_fd, from, to_fd, to));
    return result;
}

int volume_do_unlink(const struct volume *volume, int dir_fd, const char *name, int flags)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "unlink", dir_fd, name,
                      volume->calls->unlink(dir_fd, name, flags));
    return result;
}

int volume_do_mkdir(const struct volume *volume, int dir_fd, const char *name, mode_t mode)
{
    int result = -1;

    RETRY_INTERRUPTED(result, volume, "mkdir", dir_fd, name,
                      volume->calls->mkdir(dir_fd, name, mode));
    return result;
}

/* Linux has let go of the descriptor even where it says EINTR. */
int volume_do_close(const struct volume *volume, int fd)
{
    volume_call_begin(volume, "close", fd, "");
    int result = volume->calls->close(fd);

    volume_call_end();
    return result < 0 && errno == EINTR ? 0 : result;
}
