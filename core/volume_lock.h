/* core/volume_lock.h - a user's lock: .memory.lock in the bucket, taken with flock.
 *
 * One descriptor per lock; in front of it an in-process mutex per bucket (flock knows descriptors,
 * not threads). The call never blocks in the kernel: it polls with LOCK_NB every 50 ms against the
 * deadline. After locking, the inode of the held file is compared with that of the name (somebody
 * may have replaced it): different, try again. The file is never removed.
 *
 * Lock order, outermost first: user lock -> refresh table -> install queue -> log. No mutex is held
 * when a user lock is taken.
 */
#ifndef MEMSYNC_CORE_VOLUME_LOCK_H
#define MEMSYNC_CORE_VOLUME_LOCK_H

#include "core/scope.h"
#include "core/volume.h"

struct volume_lock_table; /* the in-process mutexes; one per volume */
struct volume_lock;       /* one held lock */

/* A holder that is in one call to the volume for longer is not waited for: the call may never
 * return, and whoever waits keeps a thread. (No call of a volume that works takes as long.) */
#define VOLUME_LOCK_PATIENCE_NS UINT64_C(2000000000)

/* Locks must be released before it is destroyed. STATUS_NO_MEMORY. */
MUST_CHECK enum status volume_lock_table_create(struct volume_lock_table **ret);
void volume_lock_table_destroy(struct volume_lock_table **table);

enum volume_lock_mode { VOLUME_LOCK_SHARED, VOLUME_LOCK_EXCLUSIVE };

/* Takes the lock of a bucket (the scope's user), creating the empty lock file when `may_create`.
 * STATUS_BUSY: held by somebody until the deadline passed (deadline 0: one try), or by a thread of
 * this process that hangs in a call to the volume. STATUS_NOT_FOUND:
 * no lock file and not allowed to create one, or no bucket. STATUS_UNSUPPORTED: the volume refuses
 * locks (ENOLCK and the like); the message names the errno, the path the file. STATUS_DENIED: the
 * file cannot be opened or created. Within the process one thread at a time holds a bucket's lock,
 * in shared mode too. `volume` must outlive the lock. */
MUST_CHECK enum status volume_lock_acquire(struct volume_lock_table *table,
                                           const struct volume *volume, const struct scope *scope,
                                           enum volume_lock_mode mode, bool may_create,
                                           uint64_t deadline_ns, struct volume_lock **ret,
                                           struct error *error);
void volume_lock_release(struct volume_lock **lock);

/* The same in two steps, for whoever has something to do at the volume before there is a file to
 * lock: the first keeps this process's other threads out and calls nothing that may hang, so that
 * of all who want the bucket one at most is in a call. STATUS_TIMEOUT: another thread had it until
 * the deadline. STATUS_BUSY: that thread hangs in a call. The second is as volume_lock_acquire(),
 * and a failure leaves the first one's hold as it is. */
MUST_CHECK enum status volume_lock_reserve(struct volume_lock_table *table,
                                           const struct volume *volume, const struct scope *scope,
                                           uint64_t deadline_ns, struct volume_lock **ret,
                                           struct error *error);
MUST_CHECK enum status volume_lock_take_file(struct volume_lock *lock, enum volume_lock_mode mode,
                                             bool may_create, uint64_t deadline_ns,
                                             struct error *error);

/* Gives up the lock on the volume, so that other processes may take it, while this process's own
 * threads still wait: for what must happen in the order of the commits. volume_lock_release() lets
 * them in. */
void volume_lock_release_file(struct volume_lock *lock);

#endif
