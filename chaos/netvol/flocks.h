/* chaos/netvol/flocks.h - flock() on an open file, in the mode that the node is set to.
 *
 * Across nodes it is a lock of the backing file, taken by the descriptor that each open file has
 * there; within a node it is kept here. Whoever waits asks again and again, and heeds interrupts.
 */
#ifndef MEMSYNC_CHAOS_FLOCKS_H
#define MEMSYNC_CHAOS_FLOCKS_H

#include "chaos/netvol/call.h"
#include "chaos/netvol/handles.h"

/* LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB or without. An errno, or 0. */
MUST_CHECK int flocks_set(const struct call *call, struct handle *handle, int wanted);

/* Gives up what it holds within the node. */
void flocks_drop(struct node *node, struct handle *handle);

#endif
