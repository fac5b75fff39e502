/* core/fact_walk.h - one look at the directories and files below a scope's facts directory, as a
 * refresh plan asks for it.
 *
 * The volume's calls run on the reader pool; the plan itself is only touched by the caller's
 * thread.
 */
#ifndef MEMSYNC_CORE_FACT_WALK_H
#define MEMSYNC_CORE_FACT_WALK_H

#include "core/reader_pool.h"
#include "core/refresh_plan.h"
#include "core/volume.h"

#include <stdatomic.h>

struct fact_walk {
    const struct volume *volume;
    struct reader_pool *pool;
    const struct scope *scope;
    int facts_fd;
    uint64_t give_up_ns; /* STATUS_STALE after it, e.g. so that a lock is not held for long */
    _Atomic uint64_t *files_read; /* may be NULL */
};

/* Checks, lists and reads. STATUS_STALE: something that was listed is not there any more, start
 * over. Any other failure: nothing may be concluded from this walk. A file that cannot be
 * understood or opened (permission, size) is no failure: the plan notes it as broken. */
MUST_CHECK enum status fact_walk_run(const struct fact_walk *walk, struct refresh_plan *plan,
                                     struct error *error);

/* True, in `ret`, when at least one fact file lies below. Directories deeper than the shards count
 * as one. */
MUST_CHECK enum status fact_walk_any(const struct volume *volume, int facts_fd, bool *ret,
                                     struct error *error);

/* True for names of fact files: "*.md" that does not begin with a dot. `ret_id` holds
 * SCOPE_NAME_MAX + 1 bytes; may be NULL. */
bool fact_walk_is_fact_name(const char *name, char *ret_id);

/* A file of this kind of failure is kept out and told; others end the walk. */
bool fact_walk_is_fault_of_the_file(enum status status);

#endif
