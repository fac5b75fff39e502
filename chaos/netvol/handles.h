/* chaos/netvol/handles.h - what is open on a node: files and directories. Thread-safe.
 */
#ifndef MEMSYNC_CHAOS_HANDLES_H
#define MEMSYNC_CHAOS_HANDLES_H

#include "chaos/netvol/node.h"

struct handle {
    int fd; /* of the backing file, opened as the caller wanted it */
    struct inode *inode;
    bool is_file;
    struct listing
        *listing; /* of a directory: what is being read; the kernel reads one at a time */
    int lock;     /* within the node: LOCK_UN, LOCK_SH or LOCK_EX; guarded by the table's lock */
    struct handle *next; /* these as well */
    struct handle *previous;
};

/* Takes over the descriptor. NULL: no memory. */
struct handle *handle_open(struct node *node, struct inode *inode, int fd, bool is_file);
void handle_close(struct node *node, struct handle *handle);

/* Closes what nobody can use any more. */
void handles_close_all(struct node *node);

struct handle *handle_of(const struct fuse_file_info *info);

#endif
