#include "core/errands.h"

#include "core/clock.h"
#include "core/condition.h"
#include "core/thread_kind.h"
#include "core/volume.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

/* A thread without an errand leaves after that long, but for a few. */
#define IDLE_NS (10 * NS_PER_SECOND)
#define IDLE_KEPT 2
/* A wait is made of steps, so that a clock which a test moves is heeded. */
#define STEP_NS (100 * NS_PER_MS)

struct errands {
    pthread_mutex_t lock;
    pthread_cond_t wanted;  /* an errand can be begun, or it is over */
    pthread_cond_t moved;   /* one was done, or a thread has left */
    struct errand *waiting; /* in the order in which they came */
    struct errand *running;
    unsigned threads;
    unsigned idle;
    unsigned ending; /* errands that are being destroyed */
    bool stopping;
};

static _Thread_local bool is_on_one;

bool errands_is_on_one(void)
{
    return is_on_one;
}

enum status errands_create(struct errands **ret)
{
    struct errands *errands = calloc(1, sizeof *errands);

    if (!errands)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&errands->lock, NULL);
    condition_init(&errands->wanted);
    condition_init(&errands->moved);
    *ret = errands;
    return STATUS_OK;
}

static void wait_step_locked(struct errands *errands, uint64_t deadline_ns)
{
    uint64_t left_ns = deadline_ns - clock_monotonic_ns();
    struct timespec until = clock_real_after(left_ns < STEP_NS ? left_ns : STEP_NS);

    (void) pthread_cond_timedwait(&errands->moved, &errands->lock, &until);
}

static bool is_past(uint64_t deadline_ns)
{
    return clock_monotonic_ns() >= deadline_ns;
}

static bool is_busy_locked(const struct errands *errands)
{
    return errands->waiting || errands->running || errands->ending > 0;
}

bool errands_settle(struct errands *errands, uint64_t deadline_ns)
{
    pthread_mutex_lock(&errands->lock);
    while (is_busy_locked(errands) && !is_past(deadline_ns))
        wait_step_locked(errands, deadline_ns);
    bool settled = !is_busy_locked(errands);
    pthread_mutex_unlock(&errands->lock);
    return settled;
}

void errands_destroy(struct errands **errands_address)
{
    struct errands *errands = TAKE_PTR(*errands_address);

    if (!errands)
        return;
    pthread_mutex_lock(&errands->lock);
    errands->stopping = true;
    pthread_cond_broadcast(&errands->wanted);
    while (errands->threads > 0)
        pthread_cond_wait(&errands->moved, &errands->lock);
    pthread_mutex_unlock(&errands->lock);
    pthread_cond_destroy(&errands->moved);
    pthread_cond_destroy(&errands->wanted);
    pthread_mutex_destroy(&errands->lock);
    free(errands);
}

/* ---- lists ---- */

/* All agents of a user share a directory, and what hangs there. */
static bool is_same_user(const struct errand *a, const struct errand *b)
{
    return a->scope.has_user == b->scope.has_user && strcmp(a->scope.bucket, b->scope.bucket) == 0;
}

static void append(struct errand **list, struct errand *errand)
{
    while (*list)
        list = &(*list)->next;
    errand->next = NULL;
    *list = errand;
}

static void take_out(struct errand **list, const struct errand *errand)
{
    while (*list != errand)
        list = &(*list)->next;
    *list = errand->next;
}

static struct errand *running_of_user_locked(const struct errands *errands,
                                             const struct errand *errand)
{
    struct errand *running = errands->running;

    while (running && !is_same_user(running, errand))
        running = running->next;
    return running;
}

static struct errand *next_to_begin_locked(const struct errands *errands)
{
    struct errand *errand = errands->waiting;

    while (errand && running_of_user_locked(errands, errand))
        errand = errand->next;
    return errand;
}

static struct errand *find_equal_locked(const struct errands *errands, const struct errand *wanted)
{
    struct errand *errand = errands->waiting;

    while (errand && (errand->run != wanted->run || !scope_equal(&errand->scope, &wanted->scope)))
        errand = errand->next;
    return errand;
}

/* ---- threads ---- */

/* The lock is let go for the end of the last one, which may close what it has opened. */
static void drop_reference_locked(struct errands *errands, struct errand *errand)
{
    if (--errand->references > 0)
        return;
    errands->ending++;
    pthread_mutex_unlock(&errands->lock);
    errand->destroy(errand);
    pthread_mutex_lock(&errands->lock);
    errands->ending--;
    pthread_cond_broadcast(&errands->moved);
}

/* The lock is held at the call and at the return. */
static void run_locked(struct errands *errands, struct errand *errand)
{
    take_out(&errands->waiting, errand);
    append(&errands->running, errand);
    errand->state = ERRAND_RUNNING;
    errand->begun_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&errands->lock);

    uint64_t operations = volume_operations_here();
    errand->run(errand);
    operations = volume_operations_here() - operations;

    pthread_mutex_lock(&errands->lock);
    take_out(&errands->running, errand);
    errand->operations = operations;
    errand->state = ERRAND_DONE;
    pthread_cond_broadcast(&errands->moved);
    drop_reference_locked(errands, errand);
}

/* False when the thread should leave. */
static bool wait_for_errand_locked(struct errands *errands)
{
    struct timespec until = clock_real_after(IDLE_NS);

    errands->idle++;
    int result = pthread_cond_timedwait(&errands->wanted, &errands->lock, &until);
    errands->idle--;
    return result == 0 || errands->idle < IDLE_KEPT;
}

static void *thread_main(void *context)
{
    struct errands *errands = context;

    is_on_one = true;
    thread_kind_set(THREAD_PROMPT);
    pthread_mutex_lock(&errands->lock);
    for (;;) {
        struct errand *errand = next_to_begin_locked(errands);
        if (errand)
            run_locked(errands, errand);
        else if (errands->stopping || !wait_for_errand_locked(errands))
            break;
    }
    errands->threads--;
    pthread_cond_broadcast(&errands->moved);
    pthread_mutex_unlock(&errands->lock);
    return NULL;
}

/* A thread that was woken and is not awake yet counts as idle, and what it will come for waits. */
static unsigned waiting_to_begin_locked(const struct errands *errands)
{
    unsigned count = 0;

    for (const struct errand *errand = errands->waiting; errand; errand = errand->next)
        count += running_of_user_locked(errands, errand) == NULL;
    return count;
}

/* True when there is a thread that will come for what waits. */
static bool have_thread_locked(struct errands *errands)
{
    pthread_attr_t detached;
    pthread_t thread;

    if (errands->idle >= waiting_to_begin_locked(errands)) {
        pthread_cond_signal(&errands->wanted);
        return true;
    }
    if (errands->threads < ERRAND_THREADS_MAX && pthread_attr_init(&detached) == 0) {
        (void) pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        errands->threads += pthread_create(&thread, &detached, thread_main, errands) == 0;
        (void) pthread_attr_destroy(&detached);
    }
    return errands->threads > 0;
}

/* ---- sending ---- */

static enum status error_hangs(uint64_t since_ns, struct error *error)
{
    return error_set(error, STATUS_UNAVAILABLE, NULL,
                     "the volume does not answer: a look at this user's files is under way since "
                     "%" PRIu64 " ms",
                     (clock_monotonic_ns() - since_ns) / NS_PER_MS);
}

/* True when a thread will come for it, sooner or later. */
static enum status put_locked(struct errands *errands, struct errand *errand, struct error *error)
{
    const struct errand *ahead = running_of_user_locked(errands, errand);

    if (ahead && clock_monotonic_ns() - ahead->begun_ns >= ERRAND_PATIENCE_NS)
        return error_hangs(ahead->begun_ns, error);
    append(&errands->waiting, errand);
    if (ahead || have_thread_locked(errands))
        return STATUS_OK;
    take_out(&errands->waiting, errand);
    return error_set(error, STATUS_UNAVAILABLE, NULL, "no thread can be started to look");
}

struct errand *errands_send(struct errands *errands, struct errand *errand, struct error *error)
{
    struct errand *sent = NULL;

    pthread_mutex_lock(&errands->lock);
    struct errand *equal = find_equal_locked(errands, errand);
    if (equal) {
        equal->references++;
        sent = equal;
    } else if (put_locked(errands, errand, error) == STATUS_OK) {
        errand->references = 2; /* the sender's, and that of whoever runs it */
        sent = errand;
    }
    pthread_mutex_unlock(&errands->lock);
    if (sent != errand)
        errand->destroy(errand);
    return sent;
}

static enum status error_not_back_locked(const struct errands *errands, const struct errand *errand,
                                         struct error *error)
{
    const struct errand *ahead = running_of_user_locked(errands, errand);

    if (ahead)
        return error_hangs(ahead->begun_ns, error);
    return error_set(error, STATUS_UNAVAILABLE, NULL,
                     "the volume does not answer: %d looks are under way and none returns",
                     ERRAND_THREADS_MAX);
}

enum status errands_wait(struct errands *errands, struct errand *errand, uint64_t deadline_ns,
                         struct error *error)
{
    uint64_t patience_ns = clock_monotonic_ns() + ERRAND_PATIENCE_NS;
    uint64_t until_ns = deadline_ns < patience_ns ? deadline_ns : patience_ns;
    enum status status = STATUS_OK;

    pthread_mutex_lock(&errands->lock);
    while (errand->state != ERRAND_DONE && !is_past(until_ns))
        wait_step_locked(errands, until_ns);
    if (errand->state == ERRAND_DONE)
        volume_count_operations(errand->operations);
    else if (until_ns < patience_ns)
        status = error_set(error, STATUS_TIMEOUT, NULL, "no time was left to look at the volume");
    else
        status = error_not_back_locked(errands, errand, error);
    pthread_mutex_unlock(&errands->lock);
    return status;
}

void errands_release(struct errands *errands, struct errand *errand)
{
    pthread_mutex_lock(&errands->lock);
    /* Nobody else waits for it: then nobody needs to go. */
    if (errand->state == ERRAND_WAITING && errand->references == 2) {
        take_out(&errands->waiting, errand);
        errand->references--;
    }
    drop_reference_locked(errands, errand);
    pthread_mutex_unlock(&errands->lock);
}
