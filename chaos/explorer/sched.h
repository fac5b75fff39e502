/* chaos/explorer/sched.h - threads of which exactly one runs; who goes on is decided between steps.
 *
 * An actor is a thread that goes from stop to stop: a pause point of the real code, a stop of its
 * own (sched_stop), or a place where it has to wait. The waiting is seen where it happens: the
 * program is linked so that the condition variables, sleeps and clocks of everything below it come
 * here first (wrap.c), and a busy flock is told by calls.c. So nothing is guessed from the time
 * that an actor takes, and no wait lasts: an actor that would wait is blocked until somebody tells
 * what it waits for, or until its time is over, which is a choice like any other. The clocks stand
 * still but for a microsecond a step and for waits whose time was chosen to be over.
 *
 * One schedule at a time; everything here is the main thread's unless said otherwise.
 */
#ifndef MEMSYNC_CHAOS_SCHED_H
#define MEMSYNC_CHAOS_SCHED_H

#include "core/pause_point.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#define SCHED_ACTORS_MAX 8
#define SCHED_OPTIONS_MAX (4 * SCHED_ACTORS_MAX)
#define SCHED_STEPS_MAX 2000

enum actor_state {
    ACTOR_HELD, /* at a stop: it can go on */
    ACTOR_BLOCKED,
    ACTOR_ENDED,
};

struct sched_actor {
    /* Set by whoever adds it. */
    const char *name;
    void (*body)(struct sched_actor *actor);
    void *context;
    unsigned process;     /* the agent that it belongs to; actors of one process die together */
    unsigned touches;     /* the agent whose index and memory its steps may touch; 0: none */
    bool is_mortal;       /* it may die alone, at any of its stops */
    bool is_server;       /* it works for others: all is over when they are */
    bool waits_for_death; /* it begins when a process has died */

    /* The scheduler's. */
    unsigned number;
    pthread_t thread;
    sem_t go;
    enum actor_state state;
    const char *at;        /* the last stop */
    unsigned steps;        /* taken so far */
    const void *waits_for; /* while it is blocked */
    uint64_t until_ns;     /* when the wait is over; CLOCK_NEVER: never */
    bool told;             /* what it waits for has moved */
    bool expired;          /* the time was chosen to be over */
    bool expired_last;     /* the wait before this one ended so, at the same place */
    const void *last_wait;
    bool dying;     /* a mortal one shall not go on */
    bool is_zombie; /* its process is dead */
    const void *busy_lock;
};

enum choice_kind {
    CHOICE_RUN,
    CHOICE_EXPIRE, /* its wait has lasted too long */
    CHOICE_DIE,    /* a peer */
    CHOICE_KILL,   /* an agent, with all its threads */
};

struct choice {
    enum choice_kind kind;
    unsigned actor; /* for CHOICE_KILL: the process */
};

struct sched_option {
    struct choice choice;
    unsigned cost; /* 1: somebody who could go on is left standing, or a wait ends early; 2:
                      somebody dies who does not go on now */
};

/* Forgets everybody. */
void sched_reset(void);

/* Adds an actor, before sched_begin(). */
void sched_add(struct sched_actor *actor);

/* `mortal_process` (0: none) may die once. Stops the clocks. */
void sched_begin(unsigned mortal_process);

/* What can be done next, the actor that ran last first. 0: everybody has ended, or (`ret_stuck`)
 * nobody can go on. */
unsigned sched_options(struct sched_option ret[SCHED_OPTIONS_MAX], const char **ret_stuck);

/* Does it and returns when the actor has come to its next stop. CHOICE_KILL only marks the dead. */
void sched_perform(struct choice choice);

/* Lets everybody come to an end, without choices; what they ask of a volume fails from here on. */
void sched_drain(void);

/* The clocks go again. After sched_drain(). */
void sched_end(void);

/* Who took the last step; NULL before the first. */
struct sched_actor *sched_current(void);
struct sched_actor *sched_actor(unsigned number);
unsigned sched_actor_count(void);
unsigned sched_step(void);

/* Stops at pause points since sched_reset(), by point. */
const unsigned *sched_points_met(void);

/* ---- for actors ---- */

/* The calling thread's; NULL for the main thread. */
struct sched_actor *sched_self(void);

/* A stop. False: the actor dies here and has to return. */
bool sched_stop(const char *label);

/* Waits until sched_tell() with the same key, at most until `until_ns`; false when the time is
 * over. */
bool sched_wait(const void *key, uint64_t until_ns, const char *label);
void sched_tell(const void *key);

/* Lets the others go on; it is over when one of them has, or when nobody can. */
void sched_sleep(uint64_t ns);

/* True once everybody only runs to the end. */
bool sched_is_draining(void);

#endif
