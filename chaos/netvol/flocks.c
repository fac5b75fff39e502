#include "chaos/netvol/flocks.h"

#include "core/clock.h"

#include <errno.h>
#include <sys/file.h>

#define ASK_AGAIN_NS (2 * NS_PER_MS)

static void drop_locked(struct handle *handle)
{
    if (handle->lock == LOCK_SH)
        handle->inode->lock_readers--;
    else if (handle->lock == LOCK_EX)
        handle->inode->lock_writer = NULL;
    handle->lock = LOCK_UN;
}

/* As the kernel does it: the old lock is given up before the new one is asked for. */
static int try_node_locked(struct handle *handle, int wanted)
{
    struct inode *inode = handle->inode;

    drop_locked(handle);
    if (wanted == LOCK_UN)
        return 0;
    if (inode->lock_writer || (wanted == LOCK_EX && inode->lock_readers > 0))
        return EWOULDBLOCK;
    if (wanted == LOCK_EX)
        inode->lock_writer = handle;
    else
        inode->lock_readers++;
    handle->lock = wanted;
    return 0;
}

static int try_node(struct node *node, struct handle *handle, int wanted)
{
    (void) pthread_mutex_lock(&node->inodes.lock);
    int error = handle->lock == wanted ? 0 : try_node_locked(handle, wanted);
    (void) pthread_mutex_unlock(&node->inodes.lock);
    return error;
}

static int try_lock(struct node *node, struct handle *handle, int wanted)
{
    switch ((enum flock_mode) knobs_get(&node->knobs, KNOB_FLOCK)) {
    case FLOCK_ACROSS:
        return flock(handle->fd, wanted | LOCK_NB) < 0 ? errno : 0;
    case FLOCK_NODE:
        return try_node(node, handle, wanted);
    case FLOCK_NONE:
        break;
    }
    return 0;
}

int flocks_set(const struct call *call, struct handle *handle, int wanted)
{
    struct node *node = call->node;
    bool waits = !(wanted & LOCK_NB);

    wanted &= ~LOCK_NB;
    if (wanted == LOCK_UN) {
        /* Whatever the mode was when it was locked. */
        flocks_drop(node, handle);
        return flock(handle->fd, LOCK_UN) < 0 ? errno : 0;
    }
    int error = try_lock(node, handle, wanted);
    while (error == EWOULDBLOCK && waits) {
        if (fuse_req_interrupted(call->request) || atomic_load(&node->stopping))
            return EINTR;
        node_sleep(node, ASK_AGAIN_NS);
        error = atomic_load(&node->gone);
        if (!error)
            error = try_lock(node, handle, wanted);
    }
    return error;
}

void flocks_drop(struct node *node, struct handle *handle)
{
    (void) pthread_mutex_lock(&node->inodes.lock);
    drop_locked(handle);
    (void) pthread_mutex_unlock(&node->inodes.lock);
}
