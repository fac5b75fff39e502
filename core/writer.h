/* core/writer.h - one write: lock, recover, change, commit, and the index by proof.
 *
 * Everything that changes a user's memory comes through here. Writes of one agent that arrive while
 * a commit is under way are committed together by the thread that gets the lock next (a group): one
 * transaction, one new revision, each caller with its own answer. A single writer never waits for
 * others to come.
 *
 * Lock order: user lock (volume) -> install queue. The user's lock is given up before anyone waits
 * for the index; the turn in the install queue is taken before the user's seat is free again
 * (core/volume_lock.h), so own writes are installed in the order of their commits.
 */
#ifndef MEMSYNC_CORE_WRITER_H
#define MEMSYNC_CORE_WRITER_H

#include "core/change_set.h"
#include "core/draft.h"
#include "core/store.h"

struct writer; /* opaque; one per store, thread-safe */

#define WRITE_ATTEMPTS_MAX 3

struct writer_options {
    uint64_t lock_timeout_ms; /* for the user's lock; the request's deadline counts too */
};

/* `store` must outlive it. STATUS_NO_MEMORY. */
MUST_CHECK enum status writer_create(struct store *store, const struct writer_options *options,
                                     struct writer **ret);
void writer_destroy(struct writer **writer);

/* Decides what is to change, under the user's lock and perhaps on another writer's thread. It may
 * be called again after a conflict, from a fresh state. `draft` shows the scope as it is with the
 * group's earlier changes; the set is filled for it (core/change_set.h). */
typedef enum status (*write_build)(void *context, struct draft *draft, struct change_set *set,
                                   struct error *error);

struct write_request {
    const struct scope *scope;
    bool has_agent;   /* false: summaries only, no facts */
    bool needs_facts; /* the build looks at all facts of the scope: the index must be in step */
    bool retries;     /* a manifest conflict is tried again from a fresh state, WRITE_ATTEMPTS_MAX
                         in all; else it is reported */
    write_build build;
    void *context;
    uint64_t deadline_ns;
    unsigned thread; /* which of the store's readers is the caller's */
};

struct write_result {
    int64_t revision; /* of the manifest, now */
    bool changed;     /* false: nothing was to be done */
    unsigned attempts;
    char last_updated[CLOCK_TEXT_SIZE + 32]; /* the manifest's, "" when it has none */
    json_t *upserted;                        /* an array of documents that were written; owned */
    json_t *deleted;                         /* an array of ids that were removed; owned */
    bool index_behind;                       /* the index will follow by itself */
};
void write_result_destroy(struct write_result *result);
#define AUTO_WRITE_RESULT CLEANUP(write_result_destroy)

/* Returns when the change is durable and the index has heard of it. Any error: nothing of this
 * request is on the volume (STATUS_IO with "unconfirmed" in the message is the exception: the
 * change is there, its durability could not be confirmed). The error's members tell reason,
 * revisions and attempts. */
MUST_CHECK enum status writer_run(struct writer *writer, const struct write_request *request,
                                  struct write_result *ret, struct error *error);

#endif
