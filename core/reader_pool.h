/* core/reader_pool.h - threads that wait for the volume: on a network volume latency is the cost,
 * not CPU.
 *
 * One pool per volume; any number of threads may hand it work at once. The caller's own thread
 * works along, so a pool without threads is a plain loop, and a caller is never stuck behind
 * another's hanging call.
 */
#ifndef MEMSYNC_CORE_READER_POOL_H
#define MEMSYNC_CORE_READER_POOL_H

#include "core/status.h"

#include <stddef.h>

struct reader_pool;

#define READER_POOL_SPARES 32

enum reader_pool_mode {
    READER_POOL_EAGER,   /* calls may hang or cross a network: all threads are at it at once */
    READER_POOL_MEASURE, /* calls are mostly quick: threads join in when they turn out not to be */
};

/* `threads` 0 to 256. */
MUST_CHECK enum status reader_pool_create(unsigned threads, enum reader_pool_mode mode,
                                          struct reader_pool **ret);
/* How many calls can be under way at once for one caller: the threads and its own. */
unsigned reader_pool_size(const struct reader_pool *pool);
/* Waits for the calls that are under way. */
void reader_pool_destroy(struct reader_pool **pool);

/* Puts others in the place of threads that hang in a call to the volume, which leave when it
 * returns; READER_POOL_SPARES of them at most. Call it about once a second, from one thread. */
void reader_pool_oversee(struct reader_pool *pool);

/* Calls work(context, i) for each i below `count`, in any order and on any thread, and returns when
 * all are done. The first status that is not STATUS_OK is returned; indices not yet begun are
 * skipped then. */
typedef enum status (*reader_pool_work)(void *context, size_t index);
MUST_CHECK enum status reader_pool_run(struct reader_pool *pool, size_t count,
                                       reader_pool_work work, void *context);

#endif
