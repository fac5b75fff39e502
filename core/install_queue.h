/* core/install_queue.h - the order in which transactions reach the index: one at a time, first
 * come, first served.
 *
 * The thread whose turn it is does its own transaction; nobody hands work to another thread (that
 * hop cost more than most transactions). A place in the queue is taken with install_queue_enter()
 * and must be given back with install_queue_leave(); in between nobody waits for anything but the
 * local disk, least of all for a user's lock.
 *
 * Lock order: user lock -> install queue -> log.
 */
#ifndef MEMSYNC_CORE_INSTALL_QUEUE_H
#define MEMSYNC_CORE_INSTALL_QUEUE_H

#include "core/status.h"

#include <stdint.h>

struct install_queue;

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status install_queue_create(struct install_queue **ret);
void install_queue_destroy(struct install_queue **queue);

/* Takes a place; never blocks. Own writes take theirs before they release the user's lock, so that
 * they are installed in the order of their commits. */
uint64_t install_queue_enter(struct install_queue *queue);

/* Waits until it is this place's turn. */
void install_queue_wait(struct install_queue *queue, uint64_t place);

/* The turn is over. */
void install_queue_leave(struct install_queue *queue, uint64_t place);

/* Takes the turn at once if nobody is there or waits; for maintenance in idle moments. */
bool install_queue_try(struct install_queue *queue, uint64_t *ret_place);

/* Places taken and not given back: the one whose turn it is, and those that wait. */
unsigned install_queue_length(struct install_queue *queue);

#endif
