/* core/errands.h - work at a volume that may hang, done by threads that can be spared.
 *
 * A call to a network volume may never return, and nothing takes a thread out of it. So whoever
 * must not get lost (a thread that serves requests, or one that watches over all users) sends
 * somebody else, and goes on without an answer when that takes too long. What was begun ends when
 * the volume lets it, and is forgotten then.
 *
 * One errand of a user is under way at a time: a user whose files do not answer costs one thread.
 * Of all users together at most ERRAND_THREADS_MAX are under way. Thread-safe; one mutex, a leaf.
 */
#ifndef MEMSYNC_CORE_ERRANDS_H
#define MEMSYNC_CORE_ERRANDS_H

#include "core/scope.h"

#define ERRAND_THREADS_MAX 64
#define ERRAND_PATIENCE_NS UINT64_C(1000000000) /* one that takes longer is said to hang */

struct errands;

/* The first member of whatever an errand needs and brings back; on the heap. Zeroed but for these
 * three, which are constant once it was sent. */
struct errand {
    void (*run)(struct errand *errand);     /* on a thread of the errands */
    void (*destroy)(struct errand *errand); /* frees it */
    struct scope scope;                     /* whose files it is about */

    /* errands.c's own, by its mutex. */
    struct errand *next;
    uint64_t begun_ns;
    uint64_t operations;
    unsigned references;
    enum { ERRAND_WAITING, ERRAND_RUNNING, ERRAND_DONE } state;
};

/* STATUS_NO_MEMORY. Threads are started when they are needed. */
MUST_CHECK enum status errands_create(struct errands **ret);

/* Waits until none is under way (nobody should send any meanwhile). False: some were not back by
 * the deadline, and what they use must stay. */
MUST_CHECK bool errands_settle(struct errands *errands, uint64_t deadline_ns);

/* None may be under way. */
void errands_destroy(struct errands **errands);

/* Sends the errand, which is taken in any case. Returns one that is equal (the same `run`, scope)
 * and not begun yet, if there is one, else this; errands_release() gives it back. NULL: none can
 * go, and `error` says why: STATUS_UNAVAILABLE where the user's files do not answer, or too many
 * others'. */
struct errand *errands_send(struct errands *errands, struct errand *errand, struct error *error);

/* Waits until it is done: then its members can be read, and what it cost is counted as operations
 * of this thread. STATUS_UNAVAILABLE: not within ERRAND_PATIENCE_NS; STATUS_TIMEOUT: not by the
 * deadline, which was earlier. */
MUST_CHECK enum status errands_wait(struct errands *errands, struct errand *errand,
                                    uint64_t deadline_ns, struct error *error);

/* Gives up on it, done or not. */
void errands_release(struct errands *errands, struct errand *errand);

/* True on a thread that is on an errand: it need send nobody. */
bool errands_is_on_one(void);

#endif
