#include "core/thread_join.h"

#include "core/clock.h"

#include <time.h>

/* The wait is by the clock that may be set, so it is made of short steps; the deadline is by the
 * other one. (The thread sanitizer does not know pthread_clockjoin_np().) */
#define STEP_NS (20 * NS_PER_MS)

static bool join_within_step(pthread_t thread)
{
    struct timespec until;

    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long) STEP_NS;
    until.tv_sec += until.tv_nsec / (long) NS_PER_SECOND;
    until.tv_nsec %= (long) NS_PER_SECOND;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

bool thread_join_by(pthread_t thread, uint64_t deadline_ns)
{
    if (deadline_ns == CLOCK_NEVER)
        return pthread_join(thread, NULL) == 0;
    do {
        if (join_within_step(thread))
            return true;
    } while (clock_monotonic_ns() < deadline_ns);
    return false;
}
