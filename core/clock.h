/* core/clock.h - monotonic and wall time from one source that tests can replace.
 *
 * Thread-safe. Deadlines are absolute monotonic nanoseconds; CLOCK_NEVER is "no deadline".
 */
#ifndef MEMSYNC_CORE_CLOCK_H
#define MEMSYNC_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER UINT64_MAX
#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

/* Nanoseconds that only ever grow; unrelated to the time of day. */
uint64_t clock_monotonic_ns(void);

/* Nanoseconds since 1970 in UTC, by this node's clock. */
uint64_t clock_wall_ns(void);

/* The deadline that lies `ms` milliseconds ahead, saturating at CLOCK_NEVER. */
uint64_t clock_deadline_ms(uint64_t ms);

/* Milliseconds until `deadline_ns`, rounded up, 0 when it has passed, INT32_MAX at most. */
int clock_remaining_ms(uint64_t deadline_ns);

/* The real monotonic time `ns` from now, whatever tests have done to the clock: for waiting. */
struct timespec clock_real_after(uint64_t ns);

/* Moves both clocks ahead of the real ones, for tests of waiting times. */
void clock_advance_for_test(uint64_t ns);

/* Writes `wall_ns` as ISO 8601 in UTC with six digits of fraction and Z, e.g.
 * 2026-03-01T08:00:00.750000Z, into `text`. */
#define CLOCK_TEXT_SIZE 32
void clock_format(uint64_t wall_ns, char text[CLOCK_TEXT_SIZE]);

#endif
