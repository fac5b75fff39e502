/* chaos/explorer/wrap.h - the calls that wait, and the clocks, as the linker hands them to us.
 *
 * The program is linked with --wrap for pthread_cond_wait(), pthread_cond_timedwait(),
 * pthread_cond_broadcast(), pthread_cond_signal(), nanosleep(), clock_nanosleep() and
 * clock_gettime(), so that every use of them in this tree comes here; what libraries do themselves
 * is left alone. An actor that waits becomes blocked (sched.h); anybody else's wait is over at once
 * while the clocks stand.
 */
#ifndef MEMSYNC_CHAOS_WRAP_H
#define MEMSYNC_CHAOS_WRAP_H

#include <stdint.h>
#include <time.h>

/* From here on the clocks show one time, until they are advanced or go again. */
void wrap_stop_clocks(void);
void wrap_advance_clocks(uint64_t ns);
void wrap_start_clocks(void);

void wrap_real_clock(clockid_t clock, struct timespec *ret);

#endif
