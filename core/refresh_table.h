/* core/refresh_table.h - which scopes want a refresh, who does it, who waits for it.
 *
 * Shared by all threads; every call locks for itself, none does I/O. A slot only schedules; whether
 * a scope is fresh is decided by the signature stored beside its rows.
 *
 *   IDLE    -> WANTED   refresh_request()  any thread: a compare, a watch event, a poll
 *   WANTED  -> RUNNING  refresh_take()     a refresher
 *   WANTED  -> RUNNING  refresh_claim()    the same, of a run that was asked for
 *   both    -> RUNNING  refresh_begin()    a search that does the work itself, or a writer that
 *                                          holds what a refresher would wait for
 *   RUNNING -> AGAIN    refresh_request()  any thread: its change may be newer than what was read
 *   RUNNING -> IDLE     refresh_done()     the thread of the run
 *   AGAIN   -> WANTED   refresh_done()     the thread of the run
 *
 * A slot has at most one refresher. No request is lost: each ends in WANTED or AGAIN. Requests and
 * runs share one sequence of numbers, so a run with a number above a request's has begun after it.
 * A failed run may set a time before which background requests of the scope are not served
 * (back-off); urgent ones are.
 */
#ifndef MEMSYNC_CORE_REFRESH_TABLE_H
#define MEMSYNC_CORE_REFRESH_TABLE_H

#include "core/racy.h"
#include "core/refresh_cause.h"
#include "core/scope.h"

struct refresh_table;

enum refresh_urgency {
    REFRESH_BACKGROUND, /* a watcher noticed something, or a first build */
    REFRESH_URGENT,     /* somebody waits for it */
};

/* What the next run shall do beyond a compare. */
enum refresh_wish {
    REFRESH_WISH_NONE = 0,
    REFRESH_WISH_FULL = 1,   /* re-read every file */
    REFRESH_WISH_SETTLE = 2, /* look again at stamps that could not be trusted yet */
    REFRESH_WISH_RELIST = 4, /* list every directory again, whatever its stamp says */
};

/* How a run ended. */
struct refresh_result {
    enum status status;
    uint64_t generation;  /* of the rows afterwards; 0: the scope has no row */
    bool installed;       /* rows, seen entries or the mark were written */
    bool manifest_absent; /* the snapshot found no manifest, but facts or data in an earlier layout:
                             no signature can prove them */
    bool refused; /* some files could not be read for want of a right, which may come back */
    uint64_t files_read;
    uint64_t facts, broken;
    uint64_t took_ns;
    struct error error; /* at the end: it is by far the largest, and kept only where there is one */
};

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status refresh_table_create(struct refresh_table **ret);
void refresh_table_destroy(struct refresh_table **table);

/* Asks for a run that begins after this call; `ret_run` is what refresh_wait() takes. Where one is
 * wanted already, its cause stays, unless this makes it urgent. */
MUST_CHECK enum status refresh_request(struct refresh_table *table, const struct scope *scope,
                                       enum refresh_urgency urgency, enum refresh_cause cause,
                                       unsigned wishes, uint64_t *ret_run);

/* Joins, for a search: the number of the run under way, or of a new one that is asked for. The
 * caller must compare again afterwards, since a run under way may have looked before the change
 * that the caller wants to see. */
MUST_CHECK enum status refresh_join(struct refresh_table *table, const struct scope *scope,
                                    uint64_t *ret_run);

/* Since how long the run under way of a scope goes on, in nanoseconds; 0: none does. */
uint64_t refresh_running_age(struct refresh_table *table, const struct scope *scope);

/* Asks for a background run not before `due_ns`, or when the one comes that was asked for before;
 * with REFRESH_WISH_RELIST for another one at `due_ns` then. Runs that are for that alone come one
 * scope at a time, and never in the way of one that somebody else asks for. */
MUST_CHECK enum status refresh_request_later(struct refresh_table *table, const struct scope *scope,
                                             unsigned wishes, uint64_t due_ns);

/* One run in the hands of a thread. */
struct refresh_run {
    struct scope scope;
    enum refresh_cause cause;
    unsigned wishes;
    uint64_t number;
    struct racy *racy; /* the scope's; the run's owner alone uses it until refresh_done() */
    unsigned failures; /* first runs and retries of this scope that failed in a row before this
                          one; meeting a commit under way begins anew with 1 */
    unsigned refusals; /* the same of those that were refused some files */
    struct refresh_slot *slot;
};

/* Takes the next wanted run, urgent ones first; waits for one. `urgent_only`: leaves the background
 * to others, so that long builds never keep a search waiting. False: the table is being stopped. */
bool refresh_take(struct refresh_table *table, bool urgent_only, struct refresh_run *ret);

/* Takes the wanted run of one scope, if it is still to be taken; never waits. */
bool refresh_claim(struct refresh_table *table, const struct scope *scope, struct refresh_run *ret);

/* Begins a run of the scope at once, so that no refresher can come in between, unless one is under
 * way: then `ret_begun` is false and `ret_run` the number of that one. The cause is a search's,
 * unless the run was wanted before. */
MUST_CHECK enum status refresh_begin(struct refresh_table *table, const struct scope *scope,
                                     struct refresh_run *ret, bool *ret_begun, uint64_t *ret_run);

/* Asks the run under way of the scope, if there is one, to end rather than wait for the user's
 * lock, which the caller holds. Holds for that run alone. */
void refresh_ask_to_yield(struct refresh_table *table, const struct scope *scope);

/* Whether somebody has asked for that. */
bool refresh_must_yield(struct refresh_table *table, const struct refresh_run *run);

/* The run has ended. `retry_ns` not 0: try again then, after a run that failed; or look again then,
 * after one that was refused files. */
void refresh_done(struct refresh_table *table, struct refresh_run *run,
                  const struct refresh_result *result, uint64_t retry_ns);

/* Waits until a run with this number or a later one has ended. False: the deadline passed or the
 * table was stopped. `ret` is zeroed (STATUS_OK) when the run ended so long ago that nothing is
 * remembered of it. */
bool refresh_wait(struct refresh_table *table, const struct scope *scope, uint64_t number,
                  uint64_t deadline_ns, struct refresh_result *ret);

/* Wakes everybody; refresh_take() and refresh_wait() return false from now on. */
void refresh_table_stop(struct refresh_table *table);

struct refresh_table_counts {
    uint64_t slots; /* with something to do or to wait for */
    uint64_t wanted_urgent, wanted_background, delayed, running;
    uint64_t next_due_ns;       /* when the first of the delayed ones is due; 0: there is none */
    uint64_t oldest_running_ns; /* how long the oldest run is under way; 0: none */
};
void refresh_table_counts(struct refresh_table *table, struct refresh_table_counts *ret);

/* Calls `sink` for each run under way, with its age; for `status`. The table is locked meanwhile:
 * no I/O in it. */
typedef void (*refresh_running_sink)(void *context, const struct scope *scope, uint64_t age_ns);
void refresh_table_running(struct refresh_table *table, refresh_running_sink sink, void *context);

#endif
