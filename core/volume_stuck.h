/* core/volume_stuck.h - which calls to a volume are under way, where, and for how long.
 *
 * A call to a network volume may never return. Each thread notes the call that it is in, so that
 * others can tell what hangs, and whether a thread can still be counted on. Volumes whose look-ups
 * are safe are local: their calls are not noted. Thread-safe; nothing here calls the volume.
 */
#ifndef MEMSYNC_CORE_VOLUME_STUCK_H
#define MEMSYNC_CORE_VOLUME_STUCK_H

#include "core/compiler.h"

#include <stdint.h>

#define VOLUME_STUCK_NS UINT64_C(1000000000) /* a call that takes longer is said to hang */
#define VOLUME_STUCK_PATH_SIZE 256

/* Instead of an operation: the thread waits for one that is in a call. It counts, and is not
 * listed. */
#define VOLUME_STUCK_FOR_OTHERS NULL

/* Around a call of the calling thread, beneath an open directory (`dir_fd`, with `path`) or on an
 * open file (`path` ""). `operation` is a literal. Beyond 1024 threads some are not noted. */
void volume_stuck_begin(const char *operation, int dir_fd, const char *path);
void volume_stuck_end(void);

struct volume_stuck_call {
    const char *operation;
    char path[VOLUME_STUCK_PATH_SIZE]; /* absolute where that can be told; cut at its beginning */
    uint64_t age_ns;
};

/* The calls that hang, the oldest first, `max` of them at most; returns how many there are in all.
 */
unsigned volume_stuck_list(struct volume_stuck_call *ret, unsigned max);

/* How many there are, and since when the oldest one is under way (0: there is none). */
unsigned volume_stuck_count(uint64_t *ret_oldest_ns);

/* What a thread leaves behind so that others can look after it; NULL: none was free. Constant for
 * the thread's life. */
struct volume_stuck_seat;
struct volume_stuck_seat *volume_stuck_seat_here(void);

/* How long the call is under way that the seat's thread is in; 0: it is in none. The thread must be
 * alive. */
uint64_t volume_stuck_age(struct volume_stuck_seat *seat);

#endif
