/* tests/support/temp_calls.h - a volume's table of calls with faults to order.
 *
 * Rules name what they hit by the end of its path ("/memory.json", "/facts/ab"), since that is how
 * a test thinks of it; the path is what the kernel says of the descriptor. Thread-safe; one set of
 * rules for the process.
 */
#ifndef MEMSYNC_TESTS_TEMP_CALLS_H
#define MEMSYNC_TESTS_TEMP_CALLS_H

#include "core/volume.h"

/* The table; without rules it does what the real one does. */
const struct volume_calls *temp_calls(void);

enum temp_call { TEMP_CALL_OPEN, TEMP_CALL_STAT, TEMP_CALL_READ, TEMP_CALL_LIST, TEMP_CALL_LOCK };

/* From the `skip`th matching call on (0: the first) the call fails with `sys_errno`, `times` times
 * (0: for ever). `path_end` must stay valid. */
void temp_calls_fail(enum temp_call call, const char *path_end, int sys_errno, unsigned skip,
                     unsigned times);

/* Everything whose path ends so is told to have been changed at `time_ns` and to have an inode made
 * from its path: a volume whose clock stands still and whose inodes come back. */
void temp_calls_freeze(const char *path_end, uint64_t time_ns);

/* Counts the calls that match, from now on; one counter. */
void temp_calls_count(enum temp_call call, const char *path_end);
unsigned temp_calls_counted(void);

/* Forgets faults and frozen times; the counter stays. */
void temp_calls_reset(void);

#endif
