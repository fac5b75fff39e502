/* chaos/netvol/node.h - a node: one mount, with all that it knows and how it misbehaves.
 *
 * A node has a FUSE session of its own, so to the kernel it is another file system: nothing that it
 * caches and no event of inotify passes from one to the next. Operations run on the session's
 * threads, many at once; the rest is called by the main thread.
 */
#ifndef MEMSYNC_CHAOS_NODE_H
#define MEMSYNC_CHAOS_NODE_H

#include "chaos/netvol/inodes.h"
#include "chaos/netvol/knobs.h"

#define NODES_MAX 16

struct node {
    /* Set once. */
    uint32_t number;
    const char *mountpoint;
    struct fuse_session *session;
    pthread_t thread;
    int ended_fd; /* an eventfd, written to when the session has ended */

    struct knobs knobs;
    _Atomic uint64_t counts[OPERATION_COUNT];
    _Atomic int gone;           /* 0, or the errno that everything fails with */
    _Atomic uint64_t epoch;     /* how often the root was exchanged */
    struct inode *_Atomic root; /* stays known as long as the node does */
    _Atomic bool stopping;
    _Atomic bool ended;
    _Atomic uint64_t silly_names;
    struct inode_table inodes;
    struct handle *handles; /* what is open; guarded by the table's lock */
    unsigned handle_count;
};

/* Opens the backing directory; takes no mount yet. An errno, or 0. */
MUST_CHECK int node_init(struct node *node, const char *backing);

enum node_mount { NODE_MOUNTED, NODE_NOT_PERMITTED, NODE_FAILED };

/* Takes the mount; the reason of a failure goes to stderr. */
MUST_CHECK enum node_mount node_mount(struct node *node, const char *program);

/* Starts the threads that serve it. An errno, or 0. */
MUST_CHECK int node_start(struct node *node);

/* Waits for the threads, takes the mount away and frees everything; fine at any state after
 * node_init(). What hangs by a rule must have been let go. */
void node_close(struct node *node);

/* Another directory becomes the root; all handles of the old one are stale. An errno, or 0. */
MUST_CHECK int node_swap(struct node *node, const char *backing);

/* Sleeps, but not while the node ends. */
void node_sleep(const struct node *node, uint64_t ns);

/* Is this a file that no longer exists, or one from before the root was exchanged? */
bool node_is_stale(const struct node *node, const struct inode *inode);

/* The inode's path below the root ("." for the root itself), and `name` in it unless it is NULL. */
void node_path(const struct node *node, const struct inode *inode, const char *name,
               struct text *ret);

/* Between the kernel's numbers and ours. */
struct inode *node_inode(struct node *node, fuse_ino_t number);
void node_forget(struct node *node, struct inode *inode, uint64_t lookups);

#endif
