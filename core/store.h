/* core/store.h - one volume with one index: what backends and tests hold.
 *
 * The store ties the parts together and has no thread of its own (core/keeper.h has). All members
 * are shared by all threads; each part locks for itself. Locks, outermost first:
 *
 *   1. user lock       flock on the volume; taken with no mutex held
 *   2. refresh table   every scope's slot
 *   3. install queue   a turn at writing the index
 *   4. leaves          scope notes, bucket table, build progress, reader pool, log
 *
 * Under the mutexes of 2-4 nobody touches a file, SQLite or a socket, so no holder can stall.
 */
#ifndef MEMSYNC_CORE_STORE_H
#define MEMSYNC_CORE_STORE_H

#include "core/build_progress.h"
#include "core/errands.h"
#include "core/histogram.h"
#include "core/index_search.h"
#include "core/install_queue.h"
#include "core/own_writes.h"
#include "core/refresh_table.h"
#include "core/scope_notes.h"
#include "core/volume_snapshot.h"

#include <limits.h>
#include <stdatomic.h>

enum store_locks {
    STORE_LOCKS_AUTO, /* they reach every node on local and cluster file systems, not on others */
    STORE_LOCKS_TRUSTED, /* they do, whatever the file system */
    STORE_LOCKS_LOCAL,   /* they do not */
};

/* Told of what happens to a scope: "refreshed", "removed", "forgotten", "corrupt", "recovered".
 * `members` is JSON text of further members, without braces. Called from any thread, with no lock
 * held. */
typedef void (*store_event_sink)(void *context, const struct scope *scope, const char *event,
                                 const char *members);

#define STORE_SUSPENDED_TEXT                                                                       \
    "the volume is gone or is another one than before; it is waited for ('memsync refresh "        \
    "--accept-volume' takes what lies there now)"

/* For `pool_threads`: as many as suit the volume. */
#define STORE_READERS_BY_VOLUME UINT_MAX

struct store_options {
    const char *volume_path;
    const struct volume_calls *calls; /* NULL: the real ones */
    enum volume_kind *force_kind;     /* NULL: by file system */
    uint64_t volume_cache_ms;         /* see volume_options.cache_ns */
    bool read_only;                   /* write nothing to the volume: no recovery, no marker */
    enum store_locks locks;
    uint64_t recovery_grace_ms;
    const char *manifest_name;
    const char *index_directory;
    uint64_t index_mmap_bytes;
    uint64_t index_wal_bytes_max;
    unsigned pool_threads;    /* readers of many files; 0: none */
    unsigned request_threads; /* callers of reading_begin() are numbered below this */
    store_event_sink event_sink;
    void *event_context;
};

struct store_counters {
    _Atomic uint64_t searches, compares, compare_errors;
    _Atomic uint64_t fresh, refreshed, stale, unverified;
    _Atomic uint64_t refreshes, refreshes_failed, refreshes_lost, settles;
    _Atomic uint64_t files_read, index_rebuilds;
    _Atomic uint64_t promoted, already_current, forgotten, installs_failed; /* own writes */
    _Atomic uint64_t refreshes_by[REFRESH_CAUSE_COUNT][REFRESH_OUTCOME_COUNT];
    struct histogram compare_duration, refresh_duration, commit_duration;
    _Atomic uint64_t writes, writes_unchanged, writes_failed, write_conflicts, commits;
};

struct store {
    struct volume *volume;
    struct bucket_table *buckets;
    struct volume_lock_table *locks;
    struct volume_recovery *recovery;
    struct reader_pool *pool;
    struct snapshot_source source;
    struct index *index;
    struct install_queue *installs;
    struct refresh_table *refreshes;
    struct scope_notes *notes;
    struct own_writes *own_writes;
    struct build_progress *progress;
    struct errands *errands;       /* used where a look may hang */
    struct index_reader **readers; /* one a request thread */
    unsigned reader_count;
    bool read_only;
    bool locks_reach_all_nodes;
    bool index_was_rebuilt;     /* at the start */
    atomic_bool suspended;      /* the volume at the path is not the one the index was built from */
    atomic_bool rebuild_wanted; /* the index was lost: everything should be built again */
    _Atomic unsigned accepts;   /* how often another volume was taken as ours */
    struct store_counters counters;
    store_event_sink event_sink;
    void *event_context;
};

/* Opens volume and index. Where the index belongs to another volume than the one at the path, it is
 * kept and the store starts suspended: everything is answered unverified until the volume returns
 * or store_accept_volume() is called. */
MUST_CHECK enum status store_open(const struct store_options *options, struct store **ret,
                                  struct error *error);

/* No call may be under way, no keeper running. */
void store_close(struct store **store);

/* The live signature of a scope (the compare of every search). STATUS_UNAVAILABLE while suspended,
 * and where the volume can hang and does not answer within ERRAND_PATIENCE_NS; STATUS_TIMEOUT when
 * the deadline is earlier (CLOCK_NEVER: none). Failures are counted and logged once per scope and
 * change. */
MUST_CHECK enum status store_compare(struct store *store, const struct scope *scope,
                                     uint64_t deadline_ns, struct live_state *ret,
                                     struct error *error);

/* True when a scope without a row in the index is known to have no facts in the state `live`. */
bool store_knows_empty(struct store *store, const struct scope *scope,
                       const struct live_state *live);

/* Opens the volume's path anew and compares identities; suspends (then STATUS_UNAVAILABLE) or
 * resumes. Removals are believed only right after this said yes. */
MUST_CHECK enum status store_check_volume(struct store *store, struct error *error);

/* Takes the volume that lies at the path now, whatever it is. */
MUST_CHECK enum status store_accept_volume(struct store *store, struct error *error);

/* Whether what was returned tells of the index, and not of somebody's memory: then the index is to
 * be healed, and what was tried may be tried again. Damage of the index names no file of the
 * volume. It may be mended by now: who opens the file while somebody else begins it anew may see
 * neither the old one nor the new one. */
bool store_has_lost_index(const struct store *store, enum status status, const struct error *error);

/* After an index function answered STATUS_CORRUPT: sets the file aside and starts an empty one,
 * unless somebody else was faster. Scopes are then built again, on demand at once and all others in
 * the background. */
MUST_CHECK enum status store_heal_index(struct store *store, struct error *error);

/* Tells the event sink, if there is one. `format` gives the members as JSON text without braces;
 * when they are longer than 511 bytes they are left out. Any thread, with no lock held. */
void store_publish(struct store *store, const struct scope *scope, const char *event,
                   const char *format, ...) PRINTF(4, 5);

#endif
