/* core/write_session.h - a user's memory under the exclusive lock: what lies there, one commit or
 * several, and in the end the index.
 *
 * For writer.c and what it is made of. A session belongs to one thread. Between
 * write_session_begin() and write_session_end() the user's lock is held: everybody else's writes
 * wait.
 */
#ifndef MEMSYNC_CORE_WRITE_SESSION_H
#define MEMSYNC_CORE_WRITE_SESSION_H

#include "core/draft.h"
#include "core/store.h"

/* What one commit has to tell the index. */
struct pending_install {
    struct scope scope;
    bool facts_changed;
    bool was_empty;
    struct manifest_mark pre, post;
    struct text manifest;
    struct fact **facts; /* `rows` point into them and into `paths` */
    struct index_row *rows;
    size_t row_count;
    char **removed;
    size_t removed_count;
    char **paths;
    size_t path_count;
    bool behind; /* the index has not got it */
    struct pending_install *next;
};

struct write_session {
    struct store *store;
    struct index_reader *reader;
    struct scope scope; /* the user; the agent is that of whoever began */
    uint64_t deadline_ns;
    uint64_t wall_ns;
    struct volume_lock *lock;
    bool is_writing; /* the lock is held, and not only kept from others of this process */
    struct volume_root_id root; /* of the volume, as the session found it */
    int bucket_fd;   /* -1, and no lock: the user has no directory, and the session only looks */
    bool has_agents; /* the bucket has a directory of agents; as of the last load */
    bool has_manifest;
    struct file_image image;   /* the manifest's bytes; empty without one */
    struct manifest manifest;  /* the same, understood */
    struct manifest_mark mark; /* absent without one */
    struct pending_install *pending, **pending_end;
};

struct write_session_options {
    struct store *store;
    const struct scope *scope;
    unsigned thread;
    uint64_t lock_timeout_ms;
    uint64_t deadline_ns;
    bool only_looks; /* nothing will be committed, so the directory of a new user is not made */
};

/* Takes the lock, deals with a dead writer's journal, reads the manifest. STATUS_TIMEOUT: somebody
 * holds the lock, or a commit may still be under way; STATUS_BUSY: who holds it is a thread of this
 * process that hangs in a call to the volume; STATUS_CORRUPT: manifest or journal cannot be
 * understood; STATUS_CONFLICT with the member `reason` "newer_layout"; STATUS_DENIED: the volume
 * may not be written; STATUS_UNAVAILABLE: it is not there. Whatever the status, the caller ends the
 * session. */
MUST_CHECK enum status write_session_begin(const struct write_session_options *options,
                                           struct write_session *ret, struct error *error);

/* Reads the manifest (again). */
MUST_CHECK enum status write_session_load(struct write_session *session, struct error *error);

/* Makes what a draft of this session changed durable, as one commit with the next revision; nothing
 * happens when it changed nothing. `was_empty`: the agent is known to have had no facts. Before
 * another draft of this session the manifest has to be loaded again. A manifest of an earlier
 * layout is refused with STATUS_CONFLICT, since its facts would be lost. Errors as volume_commit().
 */
MUST_CHECK enum status write_session_commit(struct write_session *session,
                                            const struct draft *draft, bool was_empty,
                                            struct error *error);

/* Whether a failure with the side data of a scope is to be told: once for each scope and step until
 * it has gone well again. `ret_path` (SCOPE_PATH_MAX bytes) is then the path in the error, or the
 * directory of the side data, relative to the volume. */
bool write_session_tells_side_data(const struct write_session *session, const struct scope *scope,
                                   enum side_data_step step, bool fails, const struct error *error,
                                   char *ret_path);

/* The loaded manifest's `lastUpdated`, "" when it has none; cut to fit. */
#define WRITE_LAST_UPDATED_SIZE 64
void write_session_last_updated(const struct write_session *session,
                                char ret[WRITE_LAST_UPDATED_SIZE]);

/* The same for a migration: the earlier layout is what it replaces, and the index is not told of
 * it. Whoever calls it sees to the index (core/migration.h). */
MUST_CHECK enum status write_session_commit_migration(struct write_session *session,
                                                      const struct draft *draft,
                                                      struct error *error);

/* Gives up the lock, lets the index have what was committed, and frees everything. `ret_behind`
 * (may be NULL) is set true when the index lacks something of it: a refresh is under way then. */
void write_session_end(struct write_session *session, bool *ret_behind);

#endif
