#include "chaos/netvol/call.h"
#include "chaos/netvol/ops.h"
#include "chaos/netvol/silly.h"
#include "chaos/netvol/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

void ops_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct call call = {.request = request,
                        .operation = OPERATION_lookup,
                        .number = parent,
                        .name = name};
    struct inode *inode = NULL;

    if (!call_begin(&call))
        return;
    if (view_is_absent(call.node, call.inode, name)) {
        call_answer_absent(&call);
        return;
    }
    int error = inodes_look_up(&call.node->inodes, call.inode, name, &inode);
    if (error == ENOENT) {
        view_note_absent(call.node, call.inode, name);
        call_answer_absent(&call);
    } else if (error) {
        call_answer(&call, error);
    } else {
        call_answer_entry(&call, inode);
    }
}

/* ---- new names ---- */

/* Answers a call that has made `name`: it belongs to whoever asked for it. */
static void answer_made(struct call *call, struct inode *dir, const char *name, int result)
{
    const struct fuse_ctx *caller = fuse_req_ctx(call->request);
    struct inode *inode = NULL;
    int error = result < 0 ? errno : 0;

    if (!error && !call->to_inode && caller->uid != geteuid() &&
        fchownat(dir->fd, name, caller->uid, caller->gid, AT_SYMLINK_NOFOLLOW) < 0)
        error = errno;
    if (!error)
        error = inodes_look_up(&call->node->inodes, dir, name, &inode);
    view_changed_entry(call->node, dir, name);
    if (error)
        call_answer(call, error);
    else
        call_answer_entry(call, inode);
}

void ops_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct call call = {.request = request,
                        .operation = OPERATION_mkdir,
                        .number = parent,
                        .name = name};

    if (call_begin(&call))
        answer_made(&call, call.inode, name, mkdirat(call.inode->fd, name, mode));
}

void ops_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name)
{
    struct call call = {.request = request,
                        .operation = OPERATION_symlink,
                        .number = parent,
                        .name = name};

    if (call_begin(&call))
        answer_made(&call, call.inode, name, symlinkat(target, call.inode->fd, name));
}

void ops_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent, const char *name)
{
    struct call call = {.request = request,
                        .operation = OPERATION_link,
                        .number = number,
                        .to_number = parent,
                        .to_name = name};
    char path[INODE_PATH_SIZE];

    if (!call_begin(&call))
        return;
    inode_path(call.inode, path);
    int result = linkat(AT_FDCWD, path, call.to_inode->fd, name, AT_SYMLINK_FOLLOW);
    view_changed(call.node, call.inode);
    answer_made(&call, call.to_inode, name, result);
}

/* ---- names that go ---- */

void ops_unlink(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct call call = {.request = request,
                        .operation = OPERATION_unlink,
                        .number = parent,
                        .name = name};
    struct inode *kept = NULL;

    if (!call_begin(&call))
        return;
    int error = silly_keep(call.node, call.inode, name, &kept);
    if (!error && unlinkat(call.inode->fd, name, 0) < 0)
        error = errno;
    silly_settle(call.node, kept, !error);
    view_changed_entry(call.node, call.inode, name);
    call_answer(&call, error);
}

void ops_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct call call = {.request = request,
                        .operation = OPERATION_rmdir,
                        .number = parent,
                        .name = name};

    if (!call_begin(&call))
        return;
    int error = unlinkat(call.inode->fd, name, AT_REMOVEDIR) < 0 ? errno : 0;
    view_changed_entry(call.node, call.inode, name);
    call_answer(&call, error);
}

/* Others see the target go, and come back only later. */
static int leave_gap(struct call *call)
{
    struct stat info;
    uint64_t gap_ns = knobs_ns(&call->node->knobs, KNOB_RENAME_GAP_MS);

    if (gap_ns == 0)
        return 0;
    if (fstatat(call->inode->fd, call->name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    if (fstatat(call->to_inode->fd, call->to_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
        if (unlinkat(call->to_inode->fd, call->to_name, 0) < 0)
            return errno;
        node_sleep(call->node, gap_ns);
    }
    return 0;
}

/* With flags (to exchange, or not to replace) nothing is removed. */
static int replace(struct call *call)
{
    struct inode *kept = NULL;
    int error = silly_keep(call->node, call->to_inode, call->to_name, &kept);

    if (!error)
        error = leave_gap(call);
    if (!error && renameat(call->inode->fd, call->name, call->to_inode->fd, call->to_name) < 0)
        error = errno;
    silly_settle(call->node, kept, !error);
    return error;
}

void ops_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t to_parent,
                const char *to_name, unsigned flags)
{
    struct call call = {.request = request,
                        .operation = OPERATION_rename,
                        .number = parent,
                        .name = name,
                        .to_number = to_parent,
                        .to_name = to_name};
    int error = 0;

    if (!call_begin(&call))
        return;
    if (flags == 0)
        error = replace(&call);
    else if (renameat2(call.inode->fd, name, call.to_inode->fd, to_name, flags) < 0)
        error = errno;
    view_changed_entry(call.node, call.inode, name);
    view_changed_entry(call.node, call.to_inode, to_name);
    call_answer(&call, error);
}
