#include "chaos/netvol/call.h"
#include "chaos/netvol/handles.h"
#include "chaos/netvol/ops.h"
#include "chaos/netvol/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>

void ops_getattr(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_getattr, .number = number};

    (void) info; /* the same file */
    if (call_begin(&call))
        call_answer_attributes(&call);
}

static struct timespec time_to_set(const struct node *node, struct timespec time, int which,
                                   int set, int set_now)
{
    if (which & set_now)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return which & set ? view_backing_time(node, time) : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(const struct node *node, const struct inode *inode, const struct stat *wanted,
                     int which)
{
    const struct timespec times[2] = {
        time_to_set(node, wanted->st_atim, which, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
        time_to_set(node, wanted->st_mtim, which, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
    };

    return utimensat(inode->fd, "", times, AT_EMPTY_PATH);
}

static int set_owner(const struct inode *inode, const struct stat *wanted, int which)
{
    uid_t user = which & FUSE_SET_ATTR_UID ? wanted->st_uid : (uid_t) -1;
    gid_t group = which & FUSE_SET_ATTR_GID ? wanted->st_gid : (gid_t) -1;

    return fchownat(inode->fd, "", user, group, AT_EMPTY_PATH);
}

/* An errno, or 0. */
static int set_attributes(const struct call *call, const struct stat *wanted, int which,
                          const struct fuse_file_info *info)
{
    const int times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
                      FUSE_SET_ATTR_MTIME_NOW;
    char path[INODE_PATH_SIZE];
    int result = 0;

    inode_path(call->inode, path);
    if (which & FUSE_SET_ATTR_MODE)
        result = chmod(path, wanted->st_mode & 07777);
    if (result == 0 && which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        result = set_owner(call->inode, wanted, which);
    if (result == 0 && which & FUSE_SET_ATTR_SIZE)
        result = info ? ftruncate(handle_of(info)->fd, wanted->st_size)
                      : truncate(path, wanted->st_size);
    if (result == 0 && which & times)
        result = set_times(call->node, call->inode, wanted, which);
    return result < 0 ? errno : 0;
}

void ops_setattr(fuse_req_t request, fuse_ino_t number, struct stat *wanted, int which,
                 struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_setattr, .number = number};

    if (!call_begin(&call))
        return;
    int error = set_attributes(&call, wanted, which, info);
    view_changed(call.node, call.inode);
    if (error)
        call_answer(&call, error);
    else
        call_answer_attributes(&call);
}

void ops_readlink(fuse_req_t request, fuse_ino_t number)
{
    struct call call = {.request = request, .operation = OPERATION_readlink, .number = number};
    char target[PATH_MAX + 1];

    if (!call_begin(&call))
        return;
    ssize_t length = readlinkat(call.inode->fd, "", target, PATH_MAX);
    if (length < 0) {
        call_answer(&call, errno);
        return;
    }
    target[length] = '\0';
    call_answer_text(&call, target);
}

void ops_access(fuse_req_t request, fuse_ino_t number, int mask)
{
    struct call call = {.request = request, .operation = OPERATION_access, .number = number};
    char path[INODE_PATH_SIZE];

    if (!call_begin(&call))
        return;
    inode_path(call.inode, path);
    call_answer(&call, faccessat(AT_FDCWD, path, mask, AT_EACCESS) < 0 ? errno : 0);
}

void ops_statfs(fuse_req_t request, fuse_ino_t number)
{
    struct call call = {.request = request, .operation = OPERATION_statfs, .number = number};
    struct statvfs info;

    if (!call_begin(&call))
        return;
    if (fstatvfs(call.inode->fd, &info) < 0)
        call_answer(&call, errno);
    else
        call_answer_statfs(&call, &info);
}
