/* core/build_progress.h - how far a build of the whole index is.
 *
 * A pass looks at every user once: at the start, and after the index was lost. Scopes that it finds
 * in step are done; the others are asked for, and done when a refresh of them has ended, whoever
 * ran it. So it tells what is built, not what was looked at. A scope that cannot be read counts as
 * failed, since nobody knows when that will end, and as done once it was read after all.
 *
 * Counts and logs; nothing follows from it. Thread-safe; every call locks for itself (a leaf).
 */
#ifndef MEMSYNC_CORE_BUILD_PROGRESS_H
#define MEMSYNC_CORE_BUILD_PROGRESS_H

#include "core/scope.h"

#include <stdint.h>

struct build_progress;

/* STATUS_NO_MEMORY. */
MUST_CHECK enum status build_progress_create(struct build_progress **ret);
void build_progress_destroy(struct build_progress **progress);

/* A pass begins, and will list the users; what is left of an earlier one is forgotten. */
void build_progress_begin(struct build_progress *progress);

/* There are so many to look at. */
void build_progress_listed(struct build_progress *progress, uint64_t users);

/* One of the users was looked at, and everything was asked for that has to be. */
void build_progress_looked(struct build_progress *progress);

/* All of them were. */
void build_progress_all_looked(struct build_progress *progress);

/* The pass found a scope in step with the volume. */
void build_progress_in_step(struct build_progress *progress, uint64_t facts);

/* The pass asks for a refresh of a scope; said before it does. Without memory the scope is not
 * counted. */
void build_progress_asked(struct build_progress *progress, const struct scope *scope);

/* A refresh of a scope has ended, whether the pass asked for it or not. */
void build_progress_refreshed(struct build_progress *progress, const struct scope *scope,
                              enum status status, uint64_t facts);

/* Logs where the build stands if that is due; for times when nothing else happens. */
void build_progress_tick(struct build_progress *progress);

enum build_phase {
    BUILD_WAITING,  /* no pass has begun */
    BUILD_LOOKING,  /* not all users were looked at yet */
    BUILD_BUILDING, /* refreshes are still to end */
    BUILD_DONE,
};

/* "waiting", "looking", "building" or "done". */
const char *build_phase_name(enum build_phase phase);

struct build_figures {
    enum build_phase phase;
    unsigned percent; /* of the scopes, done or failed; 100 only with BUILD_DONE. Never goes back
                         in a pass, though users may turn out to have more scopes than thought. */
    uint64_t users_total, users_looked;
    uint64_t scopes_total; /* while users are looked at, each of those left counts as one */
    uint64_t scopes_done, scopes_failed;
    uint64_t facts;        /* of the scopes that are done */
    uint64_t built_scopes; /* those that were not found in step */
    uint64_t built_facts;
    uint64_t elapsed_ns;
    double facts_per_second; /* built lately; after the end, over all of it */
    bool has_remaining;      /* false: nothing was built lately, so nobody can tell */
    uint64_t remaining_ns;
};
void build_progress_figures(struct build_progress *progress, struct build_figures *ret);

#endif
