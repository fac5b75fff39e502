#include "chaos/netvol/silly.h"

#include "chaos/netvol/view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct second_name {
    int dir_fd; /* -1: there is none */
    char name[SILLY_NAME_SIZE];
};

/* Forgets an inode's second name and returns it. */
static struct second_name take_name_locked(struct inode *inode)
{
    struct second_name name = {.dir_fd = TAKE_FD(inode->silly_dir_fd)};

    memcpy(name.name, inode->silly_name, sizeof name.name);
    return name;
}

static void remove_name(struct second_name *name)
{
    if (name->dir_fd < 0)
        return;
    /* Somebody else may have cleaned up. */
    (void) unlinkat(name->dir_fd, name->name, 0);
    (void) close(name->dir_fd);
}

/* 0 when the inode is to be kept and has its name now, ENOENT when it need not be kept. */
static int claim_name(struct node *node, struct inode *inode, const struct inode *dir,
                      const char *name, char ret[SILLY_NAME_SIZE])
{
    int error = ENOENT;

    (void) pthread_mutex_lock(&node->inodes.lock);
    if (inode->opens > 0 && inode->silly_dir_fd >= 0 && strcmp(inode->silly_name, name) == 0) {
        error = EBUSY;
    } else if (inode->opens > 0 && inode->silly_dir_fd < 0) {
        (void) snprintf(inode->silly_name, SILLY_NAME_SIZE, ".nfs%08" PRIx32 "%08" PRIx32,
                        (uint32_t) inode->number,
                        (uint32_t) atomic_fetch_add(&node->silly_names, 1) | (node->number + 1)
                                                                                 << 24);
        inode->silly_dir_fd = fcntl(dir->fd, F_DUPFD_CLOEXEC, 0);
        error = inode->silly_dir_fd < 0 ? errno : 0;
        memcpy(ret, inode->silly_name, SILLY_NAME_SIZE);
    }
    (void) pthread_mutex_unlock(&node->inodes.lock);
    return error;
}

/* By the inode: the name may stand for another file by now. ECANCELED when the last close came
 * before there was a name to remove. */
static int link_second_name(struct node *node, const struct inode *inode, const struct inode *dir,
                            const char *name)
{
    char path[INODE_PATH_SIZE];

    inode_path(inode, path);
    if (linkat(AT_FDCWD, path, dir->fd, name, AT_SYMLINK_FOLLOW) < 0)
        return errno;
    (void) pthread_mutex_lock(&node->inodes.lock);
    bool is_wanted = inode->silly_dir_fd >= 0 && strcmp(inode->silly_name, name) == 0;
    (void) pthread_mutex_unlock(&node->inodes.lock);
    if (is_wanted)
        return 0;
    (void) unlinkat(dir->fd, name, 0);
    return ECANCELED;
}

int silly_keep(struct node *node, struct inode *dir, const char *name, struct inode **ret)
{
    struct inode *inode = NULL;
    char second[SILLY_NAME_SIZE];

    *ret = NULL;
    if (knobs_get(&node->knobs, KNOB_SILLY_RENAME) <= 0 ||
        inodes_look_up(&node->inodes, dir, name, &inode) != 0)
        return 0;
    int error = claim_name(node, inode, dir, name, second);
    if (error) {
        node_forget(node, inode, 1);
    } else {
        error = link_second_name(node, inode, dir, second);
        if (error)
            silly_settle(node, inode, error == ECANCELED);
        else
            *ret = inode;
    }
    /* Nobody has it open, or another node was faster and it is gone already. */
    return error == ENOENT || error == ECANCELED ? 0 : error;
}

void silly_settle(struct node *node, struct inode *inode, bool removed)
{
    struct second_name name = {.dir_fd = -1};

    if (!inode)
        return;
    (void) pthread_mutex_lock(&node->inodes.lock);
    /* The last close may have come between. */
    if (!removed || inode->opens == 0)
        name = take_name_locked(inode);
    (void) pthread_mutex_unlock(&node->inodes.lock);
    remove_name(&name);
    node_forget(node, inode, 1);
}

void silly_note_open(struct node *node, struct inode *inode)
{
    (void) pthread_mutex_lock(&node->inodes.lock);
    inode->opens++;
    (void) pthread_mutex_unlock(&node->inodes.lock);
}

void silly_note_close(struct node *node, struct inode *inode)
{
    struct second_name name = {.dir_fd = -1};

    (void) pthread_mutex_lock(&node->inodes.lock);
    if (--inode->opens == 0)
        name = take_name_locked(inode);
    (void) pthread_mutex_unlock(&node->inodes.lock);
    remove_name(&name);
}
