/* chaos/netvol/silly.h - files that are removed while they are open keep a name until the last
 * close.
 *
 * As an NFS client does it: `.nfs` and 16 hexadecimal digits, in the same directory. Thread-safe.
 */
#ifndef MEMSYNC_CHAOS_SILLY_H
#define MEMSYNC_CHAOS_SILLY_H

#include "chaos/netvol/node.h"

/* Before a name is removed or replaced. If it stands for a file that is open on this node, the file
 * gets its second name, and `ret` is it, counted once more; else NULL. EBUSY: it is that second
 * name. An errno, or 0. */
MUST_CHECK int silly_keep(struct node *node, struct inode *dir, const char *name,
                          struct inode **ret);

/* Behind it, `inode` may be NULL: takes the second name away when the removal has failed. */
void silly_settle(struct node *node, struct inode *inode, bool removed);

/* A file is opened, and closed: the last close removes the second name. */
void silly_note_open(struct node *node, struct inode *inode);
void silly_note_close(struct node *node, struct inode *inode);

#endif
