/* tests/support/wrapped/allocations.h - memory that somebody may refuse.
 *
 * For programs that are linked so (ALLOCATION_WRAPS in the Makefile): calls of our own objects come
 * here, those of SQLite and jansson as well. What other libraries take for themselves is not asked
 * about. Thread-safe.
 */
#ifndef MEMSYNC_TESTS_WRAPPED_ALLOCATIONS_H
#define MEMSYNC_TESTS_WRAPPED_ALLOCATIONS_H

#include <stdbool.h>

/* Asked before each allocation, by whoever makes it; true: there is no memory. */
typedef bool (*allocation_judge)(const char *what);

/* Before the first use of SQLite or jansson, and while no other thread runs. */
void allocations_ask(allocation_judge refuses);

#endif
