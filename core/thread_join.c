#include "core/thread_join.h"

#include "core/clock.h"

bool thread_join_by(pthread_t thread, uint64_t deadline_ns)
{
    uint64_t now_ns = clock_monotonic_ns();

    if (deadline_ns == CLOCK_NEVER)
        return pthread_join(thread, NULL) == 0;
    struct timespec until = clock_real_after(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}
