#include "chaos/netvol/call.h"
#include "chaos/netvol/flocks.h"
#include "chaos/netvol/ops.h"
#include "chaos/netvol/view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>

/* ---- open and close ---- */

/* Flags for a descriptor of ours: what was asked for, without what concerns names and pages. */
static int backing_flags(int flags)
{
    return (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL | O_DIRECT)) | O_CLOEXEC;
}

/* Takes over the descriptor. NULL: no memory. */
static struct handle *open_file(struct node *node, struct inode *inode, int fd,
                                struct fuse_file_info *info)
{
    struct handle *handle = handle_open(node, inode, fd, true);

    info->fh = (uint64_t) (uintptr_t) handle;
    /* Without a cache the kernel does not believe the attributes where a file ends, either. */
    info->direct_io = knobs_get(&node->knobs, KNOB_DATA_CACHE_S) <= 0;
    /* Who has nothing to send hears of no error when it closes. */
    info->noflush = (info->flags & O_ACCMODE) == O_RDONLY;
    info->keep_cache =
        !info->direct_io && view_may_keep(node, KNOB_DATA_CACHE_S, &inode->data_cached_ns);
    return handle;
}

void ops_open(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_open, .number = number};
    char path[INODE_PATH_SIZE];

    if (!call_begin(&call))
        return;
    inode_path(call.inode, path);
    int fd = open(path, backing_flags(info->flags));
    if (fd < 0) {
        call_answer(&call, errno);
        return;
    }
    if (info->flags & O_TRUNC)
        view_changed(call.node, call.inode);
    struct handle *handle = open_file(call.node, call.inode, fd, info);
    if (!handle)
        call_answer(&call, ENOMEM);
    else if (!call_answer_open(&call, info))
        handle_close(call.node, handle);
}

/* Opens the file that may have to be made. An errno, or 0 with an inode that is counted. */
static int make_file(const struct call *call, int flags, mode_t mode, int *ret_fd,
                     struct inode **ret)
{
    const struct fuse_ctx *caller = fuse_req_ctx(call->request);
    char path[INODE_PATH_SIZE];
    struct stat info;

    bool is_new = fstatat(call->inode->fd, call->name, &info, AT_SYMLINK_NOFOLLOW) < 0;
    AUTO_CLOSE int fd =
        openat(call->inode->fd, call->name,
               backing_flags(flags) | (flags & O_EXCL) | O_CREAT | O_NOFOLLOW, mode);
    if (fd < 0)
        return errno;
    if (is_new && caller->uid != geteuid() && fchown(fd, caller->uid, caller->gid) < 0)
        return errno;
    /* By the descriptor: the name may stand for another file already. */
    (void) snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int path_fd = open(path, O_PATH | O_CLOEXEC);
    if (path_fd < 0)
        return errno;
    int error = inodes_take(&call->node->inodes, path_fd, call->inode->epoch, ret);
    if (!error)
        *ret_fd = TAKE_FD(fd);
    return error;
}

void ops_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *info)
{
    struct call call = {.request = request,
                        .operation = OPERATION_create,
                        .number = parent,
                        .name = name};
    struct inode *inode = NULL;
    int fd = -1;

    if (!call_begin(&call))
        return;
    int error = make_file(&call, info->flags, mode, &fd, &inode);
    view_changed_entry(call.node, call.inode, name);
    if (error) {
        call_answer(&call, error);
        return;
    }
    view_changed(call.node, inode);
    struct handle *handle = open_file(call.node, inode, fd, info);
    if (!handle) {
        node_forget(call.node, inode, 1);
        call_answer(&call, ENOMEM);
    } else if (!call_answer_create(&call, inode, info)) {
        handle_close(call.node, handle);
        node_forget(call.node, inode, 1);
    }
}

void ops_release(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_release, .number = number};
    int error = call_begin_close(&call);

    /* Before the answer: after it the kernel may forget the inode. */
    handle_close(call.node, handle_of(info));
    call_answer(&call, error);
}

/* ---- reading and writing ---- */

void ops_read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset,
              struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_read, .number = number};
    AUTO_FREE char *bytes = NULL;

    if (!call_begin(&call))
        return;
    if (size > call.bytes_max)
        size = call.bytes_max;
    bytes = malloc(size + 1);
    ssize_t got = bytes ? pread(handle_of(info)->fd, bytes, size, offset) : -1;
    int error = got < 0 ? errno : 0;
    call_note(&call, ", \"offset\": %" PRIi64 ", \"size\": %zd", (int64_t) offset, got);
    if (error)
        call_answer(&call, error);
    else
        call_answer_bytes(&call, bytes, (size_t) got);
}

void ops_write(fuse_req_t request, fuse_ino_t number, const char *bytes, size_t size, off_t offset,
               struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_write, .number = number};

    if (!call_begin(&call))
        return;
    if (size > call.bytes_max)
        size = call.bytes_max;
    ssize_t written = pwrite(handle_of(info)->fd, bytes, size, offset);
    int error = written < 0 ? errno : 0;
    view_changed(call.node, call.inode);
    call_note(&call, ", \"offset\": %" PRIi64 ", \"size\": %zd", (int64_t) offset, written);
    if (error)
        call_answer(&call, error);
    else
        call_answer_written(&call, (size_t) written);
}

/* A close: here a client would send what it still has. */
void ops_flush(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_flush, .number = number};

    (void) info;
    if (call_begin(&call))
        call_answer(&call, 0);
}

void ops_fsync(fuse_req_t request, fuse_ino_t number, int data_only, struct fuse_file_info *info)
{
    struct call call = {.request = request, .operation = OPERATION_fsync, .number = number};
    int fd = handle_of(info)->fd;

    if (call_begin(&call))
        call_answer(&call, (data_only ? fdatasync(fd) : fsync(fd)) < 0 ? errno : 0);
}

void ops_flock(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info, int wanted)
{
    struct call call = {.request = request, .operation = OPERATION_flock, .number = number};

    call_note(&call, ", \"lock\": \"%s\"",
              wanted & LOCK_UN   ? "UN"
              : wanted & LOCK_EX ? "EX"
                                 : "SH");
    if (call_begin(&call))
        call_answer(&call, flocks_set(&call, handle_of(info), wanted));
}
