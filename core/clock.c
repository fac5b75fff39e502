#include "core/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* How far tests have moved the clocks ahead. */
static _Atomic uint64_t advanced_ns;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now = {0};

    /* Cannot fail for these two clocks. */
    (void) clock_gettime(clock, &now);
    return (uint64_t) now.tv_sec * NS_PER_SECOND + (uint64_t) now.tv_nsec +
           atomic_load_explicit(&advanced_ns, memory_order_relaxed);
}

uint64_t clock_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t clock_deadline_ms(uint64_t ms)
{
    uint64_t now = clock_monotonic_ns();

    return ms > (CLOCK_NEVER - 1 - now) / NS_PER_MS ? CLOCK_NEVER : now + ms * NS_PER_MS;
}

int clock_remaining_ms(uint64_t deadline_ns)
{
    uint64_t now = clock_monotonic_ns();

    if (deadline_ns == CLOCK_NEVER)
        return INT32_MAX;
    if (deadline_ns <= now)
        return 0;
    uint64_t ms = (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int) ms;
}

struct timespec clock_real_after(uint64_t ns)
{
    struct timespec until = {0};

    (void) clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t) (ns / NS_PER_SECOND);
    until.tv_nsec += (long) (ns % NS_PER_SECOND);
    if (until.tv_nsec >= (long) NS_PER_SECOND) {
        until.tv_sec++;
        until.tv_nsec -= (long) NS_PER_SECOND;
    }
    return until;
}

void clock_advance_for_test(uint64_t ns)
{
    atomic_fetch_add(&advanced_ns, ns);
}

void clock_format(uint64_t wall_ns, char text[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t) (wall_ns / NS_PER_SECOND);
    unsigned microseconds = (unsigned) (wall_ns % NS_PER_SECOND / NS_PER_US);
    struct tm utc = {0};
    char day[24];

    (void) gmtime_r(&seconds, &utc);
    if (strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
        day[0] = '\0';
    (void) snprintf(text, CLOCK_TEXT_SIZE, "%.19s.%06uZ", day, microseconds % 1000000);
}
