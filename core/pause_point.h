/* core/pause_point.h - the one list of named places where tests can stop, fail or kill the program.
 *
 * In release builds pause_here() is nothing. Test and chaos builds (-DMEMSYNC_PAUSE_POINTS) can arm
 * a point: the next thread that comes by waits until the test releases it, gets a failure instead,
 * or the process is killed on the spot. A misspelt name does not compile.
 */
#ifndef MEMSYNC_CORE_PAUSE_POINT_H
#define MEMSYNC_CORE_PAUSE_POINT_H

#include <stdbool.h>
#include <stdint.h>

#define PAUSE_POINTS(X)                                                                            \
    X(COMPARE_BEFORE_OPEN)     /* a search is about to read the live signature */                  \
    X(COMPARE_AFTER_READ)      /* it has it */                                                     \
    X(REFRESH_AFTER_PLAN)      /* generation, synced signature and seen entries were read */       \
    X(SNAPSHOT_BEFORE_CAPTURE) /* the bucket was listed, the manifest is not yet read */           \
    X(SNAPSHOT_AFTER_CAPTURE)  /* the signature was captured, no fact read yet */                  \
    X(SNAPSHOT_AFTER_READ)     /* the facts were read, the signature not checked again */          \
    X(REFRESH_BEFORE_INSTALL)  /* validated, not yet in the install queue */                       \
    X(INSTALL_BEFORE_COMMIT)   /* rows are in the transaction, which is still open */              \
    X(REFRESH_AFTER_INSTALL)   /* the transaction was committed */                                 \
    X(SEARCH_BEFORE_QUERY)     /* the compare is done, the index not yet read */                   \
    X(SEARCH_AFTER_JOIN)       /* it will wait for a refresh that somebody else does */            \
    X(RECOVER_AFTER_LOCK)      /* a dead writer's journal is about to be rolled back */            \
    X(RECOVER_AFTER_FACT)      /* after each fact that was restored or removed */                  \
    X(RECOVER_BEFORE_MANIFEST) /* the facts are back, the manifest is not */                       \
    X(RECOVER_AFTER_MANIFEST)  /* the manifest is back, the journal still there */                 \
    X(RECOVER_BEFORE_REMOVAL)  /* the backups are out of the way, and still there */               \
    X(RECOVER_BEFORE_JOURNAL)  /* the backups are removed, the journal is not */                   \
    X(COMMIT_AFTER_LOCK)       /* the user's lock is held, nothing was looked at */                \
    X(COMMIT_AFTER_BACKUP)     /* the backups are durable, there is no journal */                  \
    X(COMMIT_AFTER_JOURNAL)    /* the journal says prepared */                                     \
    X(COMMIT_AFTER_FACT)       /* after each fact that was written or removed */                   \
    X(COMMIT_BEFORE_CHECK)     /* the new manifest lies ready under another name */                \
    X(COMMIT_BEFORE_MANIFEST)  /* checked, about to be renamed */                                  \
    X(COMMIT_AFTER_MANIFEST)   /* readers see the change, the journal says prepared */             \
    X(COMMIT_BEFORE_COMMITTED) /* checked again, about to say committed */                         \
    X(COMMIT_AFTER_COMMITTED)  /* the change stands, its traces are there */                       \
    X(COMMIT_AFTER_CLEANUP)    /* they are removed, the lock is held */                            \
    X(REPLACE_BEFORE_RENAME)   /* a file's new bytes lie ready beside it */                        \
    X(WRITE_AFTER_UNLOCK)      /* peers may commit; the index has not heard of this one */         \
    X(WRITE_BEFORE_INSTALL)    /* the turn in the install queue has come */

#define PAUSE_POINT_ENUM(name) PAUSE_##name,
enum pause_point { PAUSE_POINTS(PAUSE_POINT_ENUM) PAUSE_POINT_COUNT };

/* The name without prefix, e.g. "SNAPSHOT_AFTER_READ". */
const char *pause_point_name(enum pause_point point);
bool pause_point_from_name(const char *name, enum pause_point *ret);

#ifdef MEMSYNC_PAUSE_POINTS

/* Called by the code under test. Counts the visit; waits, or kills, when the point is armed so. */
void pause_here(enum pause_point point);

/* The next thread that reaches `point` stops there (one thread; later ones pass). */
void pause_arm(enum pause_point point);

/* Lets `skip` threads pass and stops the one after them. */
void pause_arm_after(enum pause_point point, unsigned skip);

/* Waits until a thread stands at `point`; false after `timeout_ms`. */
bool pause_wait_reached(enum pause_point point, unsigned timeout_ms);

/* Lets the thread that stands at `point` go on, and disarms it. */
void pause_release(enum pause_point point);

/* The process sends itself SIGKILL when a thread reaches `point` for the `nth` time (1 = the next).
 */
void pause_kill_at(enum pause_point point, unsigned nth);

/* How often `point` was reached since the last pause_reset(). */
unsigned pause_visits(enum pause_point point);

/* Disarms and releases everything, actors too, and sets the visit counters to 0. */
void pause_reset(void);

/* ---- actors: threads that a test leads by number ----
 *
 * A thread that has taken a number is stopped at the points that were named for that number, and at
 * no others; several may stand at the same point. What is armed above without a number does not
 * hold it. Its stops:
 *
 *   AWAY    -> RUNNING  pause_actor_enter()  the thread
 *   RUNNING -> HELD     pause_here()         the thread, at a point of its set, which is used up
 * then HELD    -> RUNNING  pause_actor_go()     the test RUNNING -> ENDED    pause_actor_leave()
 * the thread
 */
#define PAUSE_ACTORS_MAX 64
#define PAUSE_SET(point) (UINT64_C(1) << PAUSE_##point)
#define PAUSE_SET_NONE UINT64_C(0)
#define PAUSE_SET_ALL UINT64_MAX

enum pause_actor_state {
    PAUSE_ACTOR_AWAY,
    PAUSE_ACTOR_RUNNING,
    PAUSE_ACTOR_HELD,
    PAUSE_ACTOR_ENDED
};

/* The calling thread is actor `actor` (1 to PAUSE_ACTORS_MAX - 1) from here on. */
void pause_actor_enter(unsigned actor);

/* The calling thread is nobody again; whoever waits for the actor learns that it has ended. */
void pause_actor_leave(void);

/* The actor goes on, if it is held, and stops when it next arrives at any point of the set `stops`.
 * May be called before the actor has entered. */
void pause_actor_go(unsigned actor, uint64_t stops);

/* Waits until the actor is held or has ended, at most `timeout_ms`; its state then. `ret_point` is
 * set when it is held. */
enum pause_actor_state pause_actor_wait(unsigned actor, unsigned timeout_ms,
                                        enum pause_point *ret_point);

/* Nothing is known of the actor any more: stops, failures and visits. It must not be under way. */
void pause_actor_forget(unsigned actor);

/* How often this actor has reached `point` since the last pause_reset(). */
unsigned pause_actor_visits(unsigned actor, enum pause_point point);

/* The actor's `nth` pause_fails() at `point` (1 = the next) says yes, once. */
void pause_actor_fail_at(unsigned actor, enum pause_point point, unsigned nth);

/* Called by the code under test where a step can fail: true when a test wants this one to. */
bool pause_fails(enum pause_point point);

/* Called at every arrival of any thread, before anything else, with no lock held; NULL: nobody. */
typedef void (*pause_visitor)(enum pause_point point);
void pause_set_visitor(pause_visitor visitor);

/* Obeys the environment variable MEMSYNC_PAUSE, for tests that start the real program:
 * "kill:NAME:2" as pause_kill_at(); "orders:PATH": whoever reaches a point looks for that file
 * first, obeys the line in it and removes it. Orders are "kill:NAME:2", counted from that visit on,
 * and "trace:PATH": from then on each visit adds a line with the point's name to that file. */
void pause_configure_from_environment(void);

#else

#define pause_here(point) ((void) 0)
#define pause_fails(point) false
#define pause_configure_from_environment() ((void) 0)

#endif

#endif
