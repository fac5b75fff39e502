/* core/volume_recover.h - finish what a dead writer left: roll a prepared journal back, clean a
 * committed one.
 *
 * The rule (docs/volume-format.md, "Recovery"): `committed` is only cleaned up. `prepared` with a
 * free lock belongs to a dead writer; whoever gets the lock restores the backed-up facts, removes
 * the facts that were new, restores the manifest (or removes it, when there was none before), in
 * this order, so that a reader that sees the manifest's new signature sees the restored facts, then
 * removes the backups and, last, the journal. Where locks are not known to reach every node, the
 * same journal (operation id, inode, ctime) must first have been seen unchanged for the grace time.
 * A journal that cannot be trusted, or whose backups are lost, is left alone with everything around
 * it.
 */
#ifndef MEMSYNC_CORE_VOLUME_RECOVER_H
#define MEMSYNC_CORE_VOLUME_RECOVER_H

#include "core/journal.h"
#include "core/volume_lock.h"

/* Remembers when which journal was first seen. One per volume, thread-safe. */
struct volume_recovery;

struct volume_recovery_options {
    bool locks_reach_all_nodes; /* volume.locks: trusted, or auto where the file system's do */
    uint64_t grace_ns;          /* how long a journal must stand unchanged where they do not */
    const char *manifest_name;
    bool read_only; /* change nothing: a dead writer's prepared journal is RECOVER_IMPOSSIBLE */
};

/* The options are copied. STATUS_INVALID: not a manifest's name; STATUS_NO_MEMORY. */
MUST_CHECK enum status volume_recovery_create(const struct volume_recovery_options *options,
                                              struct volume_recovery **ret);
void volume_recovery_destroy(struct volume_recovery **recovery);

enum recover_outcome {
    RECOVER_NOTHING, /* no journal, or only a committed one (cleaned up if the lock was free, and
                        tells something; else that is left to the next writer) */
    RECOVER_TRACES_LEFT, /* only to who holds the lock: a committed one cannot be cleaned up,
                            `error` says why; the change stands, but no other can be begun */
    RECOVER_ROLLED_BACK, /* a dead writer's change was taken back */
    RECOVER_LIVE_WRITER, /* the lock is held: a commit is under way */
    RECOVER_WAITING,     /* locks may not reach its owner: the grace time has not passed yet */
    RECOVER_IMPOSSIBLE,  /* untrusted journal, lost backups, read-only volume, no right, no locks:
                            `error` says which; nothing was changed, unless a right was lost half
                            way: then the journal still stands and the next try goes on */
};

/* Looks at the bucket's journal, which the caller knows from a listing to be there, and deals with
 * it. Waits for a live writer's lock until `deadline_ns`. The status is not OK only for faults of
 * the volume that say nothing about the journal (I/O error); every verdict comes as an outcome.
 * `error` may be NULL. */
MUST_CHECK enum status volume_recover(struct volume_recovery *recovery,
                                      struct volume_lock_table *locks, const struct volume *volume,
                                      const struct scope *scope, uint64_t deadline_ns,
                                      enum recover_outcome *ret, struct error *error);

/* The same by a caller that holds the user's lock exclusively: a writer, before anything else.
 * Never RECOVER_LIVE_WRITER. */
MUST_CHECK enum status volume_recover_locked(struct volume_recovery *recovery,
                                             const struct volume *volume, const struct scope *scope,
                                             enum recover_outcome *ret, struct error *error);

#endif
