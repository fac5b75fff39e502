/* chaos/replay/actor.h - a refresh or an own write in a thread of its own, led from pause point to
 * pause point.
 *
 * A refresh is of one scope, or of several at once (a full rebuild: one run a scope, side by side).
 * In the daemon the refresh table lets one run of a scope go at a time; here every refresh has a
 * table of its own, so that two can meet and what stands behind the table is tried as well.
 *
 * Only the thread that plays the schedule calls these functions. A thread that neither arrives nor
 * ends within ACTOR_PATIENCE_MS has come to a standstill; the program says so and aborts.
 */
#ifndef MEMSYNC_CHAOS_ACTOR_H
#define MEMSYNC_CHAOS_ACTOR_H

#include "chaos/replay/schedule.h"
#include "core/pause_point.h"
#include "tests/support/temp_store.h"

#define ACTOR_PATIENCE_MS 30000

struct actor; /* opaque */

enum actor_where {
    ACTOR_HELD,  /* all its threads stand at a point or have ended, and at least one stands */
    ACTOR_ENDED, /* all have */
};

enum refresh_kind {
    REFRESH_COMPLETE,    /* every file is read again */
    REFRESH_INCREMENTAL, /* what has changed, if anything */
    REFRESH_IN_TABLE,    /* complete, and a run of the node's own table, which searches may join */
};

/* A refresh of these scopes; it begins with the first actor_lead(). Its threads take the numbers
 * from `first_number` on, one a scope. */
struct actor *actor_refresh(struct temp_store *store, const struct step_scope *scopes, size_t count,
                            unsigned first_number, enum refresh_kind kind);

struct writer;

/* An own write; it uses the store's reader `thread`. */
struct actor *actor_write(struct temp_store *store, struct writer *writer, const struct step *step,
                          unsigned number, unsigned thread);

/* Lets every thread of it go on to the next point of `stops`; does not wait. */
void actor_lead(struct actor *actor, uint64_t stops);
/* The same for its first thread that has not ended; the others are left where they are. False: all
 * have ended. */
bool actor_lead_first(struct actor *actor, uint64_t stops);
void actor_lead_others(struct actor *actor, uint64_t stops);

/* Waits until all its threads stand or have ended. */
enum actor_where actor_await(struct actor *actor);
/* Waits for the one that was led first. */
enum actor_where actor_await_first(struct actor *actor);

/* Waits until one of its threads stands, or all have ended. */
enum actor_where actor_await_any(struct actor *actor);

/* True when one of its threads stands now; does not wait. */
bool actor_stands(struct actor *actor);

/* True while no thread of it has come to `point` since the last actor_lead(). */
bool actor_has_not_reached(const struct actor *actor, enum pause_point point);

/* A search. */
struct asking;
struct actor *actor_search(struct temp_store *store, struct asking *asking, unsigned number);

/* What an own write's thread does: the step's changes, through the writer, with a reader of the
 * store's. Any thread. */
MUST_CHECK enum status write_step(struct writer *writer, const struct step *step, unsigned reader,
                                  struct error *error);

/* How many of its threads have not ended by now; does not wait. */
unsigned actor_alive(struct actor *actor);

/* The index will refuse the actor's `nth` transaction (1 = the next), as with a full disk. Of a
 * refresh: of its first thread. */
void actor_refuse(struct actor *actor, unsigned nth);

/* After its end: how it went, e.g. "ok" or "io". */
const char *actor_outcome(const struct actor *actor);

/* Lets it run to its end, joins it and forgets it. */
void actor_destroy(struct actor **actor);

#endif
