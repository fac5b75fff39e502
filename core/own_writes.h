/* core/own_writes.h - which users this process is writing at the moment.
 *
 * Between a commit's manifest and its delta in the index the two are out of step for some
 * milliseconds. A refresh that starts then would read the scope for nothing: it waits a little for
 * the write to end, and compares again. Only a saving: nothing relies on it. Users are known by a
 * hash, and a clash costs a short wait. Thread-safe; its mutex is a leaf.
 */
#ifndef MEMSYNC_CORE_OWN_WRITES_H
#define MEMSYNC_CORE_OWN_WRITES_H

#include "core/scope.h"

struct own_writes;

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status own_writes_create(struct own_writes **ret);
void own_writes_destroy(struct own_writes **writes);

/* Around a session that writes the scope's user. */
void own_writes_enter(struct own_writes *writes, const struct scope *scope);
void own_writes_leave(struct own_writes *writes, const struct scope *scope);

/* Waits until a write of the user that is under way has ended, `wait_ms` at most. False: there is
 * none. */
bool own_writes_wait(struct own_writes *writes, const struct scope *scope, unsigned wait_ms);

#endif
