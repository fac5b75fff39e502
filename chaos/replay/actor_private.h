/* chaos/replay/actor_private.h - what the kinds of actors share.
 */
#ifndef MEMSYNC_CHAOS_ACTOR_PRIVATE_H
#define MEMSYNC_CHAOS_ACTOR_PRIVATE_H

#include "chaos/replay/actor.h"

struct actor_thread {
    struct actor *actor;
    unsigned number; /* among the pause points' actors */
    pthread_t thread;
    bool started;
    bool ended;                         /* and joined */
    unsigned visits[PAUSE_POINT_COUNT]; /* when it was led last */
    enum status status;                 /* how it went; read after the end */
    struct error error;
};

struct actor {
    struct temp_store *store;
    struct actor_thread threads[STEP_SCOPES_MAX];
    size_t thread_count;
    struct actor_thread *first; /* the one that was led alone */
    void (*run)(struct actor_thread *thread);
    struct scope scopes[STEP_SCOPES_MAX];
    /* an own write */
    struct writer *writer;
    const struct step *step;
    unsigned reader;
    enum refresh_kind kind; /* a refresh */
    struct asking *asking;  /* a search */
};

struct actor *actor_create(struct temp_store *store, size_t threads, unsigned first_number,
                           void (*run)(struct actor_thread *thread));

#endif
