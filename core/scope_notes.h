/* core/scope_notes.h - what this process remembers of scopes beside the index: when a compare found
 * them in step, and whether looking at them fails.
 *
 * Nothing here is needed for correctness; it dies with the process. Bounded: beyond SCOPE_NOTES_MAX
 * scopes the notes are dropped and begun anew. Thread-safe.
 */
#ifndef MEMSYNC_CORE_SCOPE_NOTES_H
#define MEMSYNC_CORE_SCOPE_NOTES_H

#include "core/scope.h"
#include "core/signature.h"

#define SCOPE_NOTES_MAX 1000000

struct scope_notes;

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status scope_notes_create(struct scope_notes **ret);
void scope_notes_destroy(struct scope_notes **notes);

/* A compare that began at `looked_ns` found the scope in step. */
void scope_notes_in_step(struct scope_notes *notes, const struct scope *scope, uint64_t looked_ns);

/* When that was last; 0: never in this process. */
uint64_t scope_notes_last_in_step(struct scope_notes *notes, const struct scope *scope);

/* How looking at the scope went, at `now_ns` of the monotonic clock; `sys_errno` is the error's.
 * True when that is another status than the last time, i.e. when it should be logged. STATUS_BUSY
 * without a system call behind it (somebody writes) counts only when it has been all that was told
 * for ten seconds. A scope that nobody has noted is STATUS_OK. */
bool scope_notes_outcome(struct scope_notes *notes, const struct scope *scope, enum status status,
                         int sys_errno, uint64_t now_ns);

/* How looking at it went the last time; STATUS_OK when nobody has noted it. */
enum status scope_notes_last_outcome(struct scope_notes *notes, const struct scope *scope);

/* A validated snapshot found no facts of the scope while the user's manifest was this one. Such a
 * scope gets no row in the index: anybody may ask for agents that never were. */
void scope_notes_empty(struct scope_notes *notes, const struct scope *scope,
                       const struct manifest_mark *mark);

/* True when that was the last thing noted, and the manifest is the same still. */
bool scope_notes_is_empty(struct scope_notes *notes, const struct scope *scope,
                          const struct manifest_mark *mark);

/* Whether the user's manifest is so large that a look at it takes its time. */
void scope_notes_set_slow(struct scope_notes *notes, const struct scope *scope, bool slow);
bool scope_notes_is_slow(struct scope_notes *notes, const struct scope *scope);

/* What is done with the side data of a scope, each with a failure of its own. */
enum side_data_step {
    SIDE_DATA_READ = 1,
    SIDE_DATA_FORGET = 2,
    SIDE_DATA_AUDIT = 4,
};

/* How it went. True when it fails and did not the last time, i.e. when it should be logged. */
bool scope_notes_side_data(struct scope_notes *notes, const struct scope *scope,
                           enum side_data_step step, bool fails);

/* How many scopes cannot be looked at now. */
uint64_t scope_notes_failing(struct scope_notes *notes);

#endif
