/* core/thread_join.h - waiting for the end of a thread that may never come. */
#ifndef MEMSYNC_CORE_THREAD_JOIN_H
#define MEMSYNC_CORE_THREAD_JOIN_H

#include "core/compiler.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Joins it; false when it has not ended by the deadline (monotonic nanoseconds, CLOCK_NEVER: none).
 */
MUST_CHECK bool thread_join_by(pthread_t thread, uint64_t deadline_ns);

#endif
