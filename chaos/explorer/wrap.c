#include "chaos/explorer/wrap.h"

#include "chaos/explorer/sched.h"
#include "core/clock.h"
#include "tests/support/files.h"

#include <errno.h>

/* How long an actor polls a lock that is held: longer than a reader's patience. */
#define LOCK_POLL_NS (400 * NS_PER_MS)

int __real_pthread_cond_wait(pthread_cond_t *told, pthread_mutex_t *lock);
int __real_pthread_cond_timedwait(pthread_cond_t *told, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __real_pthread_cond_broadcast(pthread_cond_t *told);
int __real_pthread_cond_signal(pthread_cond_t *told);
int __real_nanosleep(const struct timespec *time, struct timespec *ret_left);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *ret_left);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_pthread_cond_wait(pthread_cond_t *told, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *told, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *told);
int __wrap_pthread_cond_signal(pthread_cond_t *told);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *ret_left);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

static struct {
    bool stand;
    struct timespec monotonic, wall;
} clocks;

/* ---- clocks ---- */

static uint64_t to_ns(const struct timespec *time)
{
    return (uint64_t) time->tv_sec * NS_PER_SECOND + (uint64_t) time->tv_nsec;
}

static void add(struct timespec *time, uint64_t ns)
{
    uint64_t sum = to_ns(time) + ns;

    time->tv_sec = (time_t) (sum / NS_PER_SECOND);
    time->tv_nsec = (long) (sum % NS_PER_SECOND);
}

void wrap_stop_clocks(void)
{
    (void) __real_clock_gettime(CLOCK_MONOTONIC, &clocks.monotonic);
    (void) __real_clock_gettime(CLOCK_REALTIME, &clocks.wall);
    clocks.stand = true;
}

void wrap_advance_clocks(uint64_t ns)
{
    add(&clocks.monotonic, ns);
    add(&clocks.wall, ns);
}

void wrap_start_clocks(void)
{
    clocks.stand = false;
}

void wrap_real_clock(clockid_t clock, struct timespec *ret)
{
    (void) __real_clock_gettime(clock, ret);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!clocks.stand || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
        return __real_clock_gettime(clock, ret);
    *ret = clock == CLOCK_MONOTONIC ? clocks.monotonic : clocks.wall;
    return 0;
}

/* ---- waiting to be told ---- */

static int wait_as_actor(pthread_cond_t *told, pthread_mutex_t *lock, uint64_t until_ns)
{
    (void) pthread_mutex_unlock(lock);
    bool in_time = sched_wait(told, until_ns, "waits to be told");
    (void) pthread_mutex_lock(lock);
    return in_time ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *told, pthread_mutex_t *lock)
{
    if (sched_self())
        return wait_as_actor(told, lock, CLOCK_NEVER);
    if (clocks.stand)
        test_die("nobody is left to tell the main thread");
    return __real_pthread_cond_wait(told, lock);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *told, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    if (sched_self())
        return wait_as_actor(told, lock, to_ns(until));
    if (!clocks.stand)
        return __real_pthread_cond_timedwait(told, lock, until);
    if (to_ns(until) > to_ns(&clocks.monotonic))
        wrap_advance_clocks(to_ns(until) - to_ns(&clocks.monotonic));
    return ETIMEDOUT;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *told)
{
    sched_tell(told);
    return __real_pthread_cond_broadcast(told);
}

/* Nobody here relies on only one being woken. */
int __wrap_pthread_cond_signal(pthread_cond_t *told)
{
    return __wrap_pthread_cond_broadcast(told);
}

/* ---- sleeping ---- */

/* An actor that has just found a lock held waits for the lock, whatever it sleeps for. */
static void sleep_as_actor(struct sched_actor *actor, uint64_t ns)
{
    const void *lock = actor->busy_lock;

    actor->busy_lock = NULL;
    if (lock)
        (void) sched_wait(lock, clock_monotonic_ns() + LOCK_POLL_NS, "waits for the lock");
    else
        sched_sleep(ns);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    if (!clocks.stand)
        return __real_nanosleep(time, ret_left);
    if (sched_self())
        sleep_as_actor(sched_self(), to_ns(time));
    else
        wrap_advance_clocks(to_ns(time));
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *ret_left)
{
    if (!clocks.stand)
        return __real_clock_nanosleep(clock, flags, time, ret_left);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t ns = to_ns(time);
    if (flags & TIMER_ABSTIME)
        ns = ns > now_ns ? ns - now_ns : 0;
    if (sched_self())
        sleep_as_actor(sched_self(), ns);
    else
        wrap_advance_clocks(ns);
    return 0;
}
