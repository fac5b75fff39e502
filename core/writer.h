/* core/writer.h - one write: lock, recover, change, commit, and the index by proof.
 *
 * Everything that changes a user's memory comes through here. Writes of one agent that arrive while
 * a commit is under way are committed together by the thread that gets the lock next (a group): one
 * transaction, one new revision, each caller with its own answer. A group waits up to a quarter of
 * the last commit's time (5 ms at most) for those whom that one answered to come again; who is
 * alone waits for nobody, but once if it was not alone before. A change that expects a manifest
 * revision which an earlier one of the group moves is left to the next group, where it is refused
 * or rebased as if they had come one by one.
 *
 * A memory of an earlier layout is migrated before the first write (core/migration.h). That it
 * cannot be is the write's error.
 *
 * Lock order: user lock (volume) -> install queue. The user's lock is given up before anyone waits
 * for the index; the place in the install queue is taken before other threads of this process may
 * have the lock (core/volume_lock.h), so own writes are installed in the order of their commits.
 */
#ifndef MEMSYNC_CORE_WRITER_H
#define MEMSYNC_CORE_WRITER_H

#include "core/clock.h"
#include "core/migration.h"
#include "core/write_source.h"

struct writer; /* opaque; one per store, thread-safe */

#define WRITE_ATTEMPTS_MAX 3
#define WRITE_GROUP_MAX 64

struct writer_options {
    uint64_t lock_timeout_ms; /* for the user's lock; the request's deadline counts too */
    uint64_t gather_max_ms;   /* how long a group waits for others at most; 0: 5 */
};

/* `store` must outlive it. STATUS_NO_MEMORY. */
MUST_CHECK enum status writer_create(struct store *store, const struct writer_options *options,
                                     struct writer **ret);
/* No call may be under way. */
void writer_destroy(struct writer **writer);

/* Decides what is to change, under the user's lock and perhaps on another writer's thread. It may
 * be called again after a conflict, from a fresh state. `draft` shows the memory as it is with the
 * group's earlier changes; `set` is empty and is to be filled. */
typedef enum status (*write_build)(void *context, struct draft *draft, struct change_set *set,
                                   struct error *error);

/* Called after the request was granted, while the user's lock is still held, perhaps on another
 * writer's thread: for what follows a commit and cannot fail it. Left out where the caller has
 * given up meanwhile. */
typedef void (*write_after)(void *context, struct write_session *session);

struct write_request {
    const struct scope *scope;
    bool has_agent;              /* false: summaries only, no facts */
    enum write_source_need need; /* of the agent's facts, what the build looks at */
    bool retries; /* when somebody else overtakes the commit it is tried again from a fresh
                     state, WRITE_ATTEMPTS_MAX times in all; else that is reported */
    write_build build;
    write_after after; /* may be NULL */
    void *context;
    uint64_t deadline_ns;
    unsigned thread; /* which of the store's readers is the caller's */
};

struct write_result {
    int64_t revision;  /* of the manifest, now */
    bool changed;      /* false: nothing was to be done */
    bool index_behind; /* the index has not got it yet, and follows by itself */
    unsigned attempts;
    char last_updated[WRITE_LAST_UPDATED_SIZE]; /* the manifest's; "" when it has none */
    json_t *upserted;                           /* an array of documents that were written; owned */
    json_t *deleted;                            /* an array of ids that were removed; owned */
};
void write_result_destroy(struct write_result *result);
#define AUTO_WRITE_RESULT CLEANUP(write_result_destroy)

/* Returns when the change is durable and the index has heard of it. Any error: nothing of this
 * request is on the volume (but see volume_commit() for "unconfirmed"). The error's members tell
 * `reason`, revisions and `attempts`; 0 of these: the memory was not opened, and nothing is on the
 * volume for certain.
 *
 * Where calls to the volume may hang, a call that does keeps one thread, that of the leader: those
 * who wait for it leave by their deadline, or once it is clear that it hangs. STATUS_BUSY: nothing
 * was begun; STATUS_TIMEOUT, "unconfirmed": the commit under way may have this request in it, and
 * neither `build` nor `after` is called any more. */
MUST_CHECK enum status writer_run(struct writer *writer, const struct write_request *request,
                                  struct write_result *ret, struct error *error);

/* What such a request (with an agent) would come to, were it the next: `ret` is what writer_run()
 * would tell, but for `revision` and `last_updated`, which are the memory's as it is. Nothing is
 * written, and nothing is migrated (core/write_trial.h): `ret_unmigrated` tells that the write
 * itself would have to do that first. */
MUST_CHECK enum status writer_try(struct writer *writer, const struct write_request *request,
                                  struct write_result *ret, bool *ret_unmigrated,
                                  struct error *error);

/* What takes several commits under one hold of the lock, or changes no fact. It migrates nothing by
 * itself: what commits calls migration_run() first. `work` gets a session that has begun;
 * whatever it answers, what it has committed stands. The error's member `attempts` is there, and 0,
 * where the session did not begin. `ret_behind` as for write_session_end(). */
typedef enum status (*write_work)(void *context, struct write_session *session,
                                  struct error *error);
MUST_CHECK enum status writer_run_alone(struct writer *writer, const struct scope *scope,
                                        uint64_t deadline_ns, unsigned thread, write_work work,
                                        void *context, bool *ret_behind, struct error *error);

/* Migrates without writing anything else. Its error is that of migration_run() or of the session.
 */
MUST_CHECK enum status writer_migrate(struct writer *writer,
                                      const struct migration_request *request, uint64_t deadline_ns,
                                      unsigned thread, struct migration_result *ret,
                                      struct error *error);

#endif
