/* core/look_guard.h - looks at a volume that can hang: a user whose files do not answer keeps two
 * threads at most.
 *
 * A call on a network volume may never return. Whoever is in it is lost until it does; everybody
 * else who wants to look at the same user waits a little for those who are at it, and is then told
 * that the user's files do not answer. Thread-safe; one mutex, no I/O.
 */
#ifndef MEMSYNC_CORE_LOOK_GUARD_H
#define MEMSYNC_CORE_LOOK_GUARD_H

#include "core/scope.h"

struct look_guard;

#define LOOKS_MAX 512                      /* at once, of all users */
#define LOOKS_OF_A_USER_MAX 2              /* at once, of one */
#define LOOK_HANGS_NS UINT64_C(1000000000) /* a look that takes longer counts as hanging */

/* `ret` is the caller's. Only STATUS_NO_MEMORY can happen. */
MUST_CHECK enum status look_guard_create(struct look_guard **ret);

/* No look may be under way. */
void look_guard_destroy(struct look_guard **guard);

/* Before a look at the scope's user. STATUS_OK: `ret_seat` goes to look_guard_leave() afterwards.
 * STATUS_UNAVAILABLE: the user's files do not answer; at most LOOK_HANGS_NS after the call. */
MUST_CHECK enum status look_guard_enter(struct look_guard *guard, const struct scope *scope,
                                        unsigned *ret_seat, struct error *error);
void look_guard_leave(struct look_guard *guard, unsigned seat);

/* How many looks hang now, and since when the oldest of them does (nanoseconds; 0: none). */
unsigned look_guard_hanging(struct look_guard *guard, uint64_t *ret_oldest_ns);

#endif
