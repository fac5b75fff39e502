/* core/condition.h - condition variables whose timed waits go by the monotonic clock. */
#ifndef MEMSYNC_CORE_CONDITION_H
#define MEMSYNC_CORE_CONDITION_H

#include <pthread.h>

/* Makes one; pthread_cond_timedwait() on it takes a time as clock_real_after() gives it, so nobody
 * waits longer or shorter because the time of day was set. Cannot fail with glibc. Ended with
 * pthread_cond_destroy(). */
void condition_init(pthread_cond_t *condition);

#endif
