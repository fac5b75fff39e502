/* chaos/netvol/view.h - what a node believes of the volume, and tells the kernel.
 *
 * A client may keep what it once heard, and answer with it although it was asked for news: for so
 * long as the lags of the knobs table say. Of its own changes it always knows. Thread-safe.
 */
#ifndef MEMSYNC_CHAOS_VIEW_H
#define MEMSYNC_CHAOS_VIEW_H

#include "chaos/netvol/listing.h"
#include "chaos/netvol/node.h"

/* Attributes as this node tells them, with its server's clock. An errno, or 0. */
MUST_CHECK int view_attributes(struct node *node, struct inode *inode, struct stat *ret);

/* A file time from the kernel, by the clock of the volume behind. */
struct timespec view_backing_time(const struct node *node, struct timespec time);

/* A directory's names as this node tells them; the caller is an owner. An errno, or 0. */
MUST_CHECK int view_listing(struct node *node, struct inode *dir, struct listing **ret);

/* Does the node hold by that the name does not exist? And it was looked for in vain. */
bool view_is_absent(struct node *node, struct inode *dir, const char *name);
void view_note_absent(struct node *node, struct inode *dir, const char *name);

/* This node has changed a file, or a directory's entry. */
void view_changed(struct node *node, struct inode *inode);
void view_changed_entry(struct node *node, struct inode *dir, const char *name);

/* May the kernel go on with what it has? `since_ns` is the inode's field, and begins anew if not.
 */
bool view_may_keep(struct node *node, enum knob knob, uint64_t *since_ns);

#endif
