/* core/reading.h - looking at the index with a promise: what each scope's rows are worth, settled
 * before anything is read from them.
 *
 * A reading compares the scopes that a request asks for with the volume, has those refreshed that
 * are out of step, and opens one snapshot of the index in which every scope's rows and synced mark
 * belong together. `fresh` and `refreshed` are said only of scopes whose synced mark, read in that
 * snapshot, equals the live one that this reading saw.
 */
#ifndef MEMSYNC_CORE_READING_H
#define MEMSYNC_CORE_READING_H

#include "core/store.h"

#define READING_SCOPES_MAX 64
#define READING_ATTEMPTS_MAX 4 /* refreshes that one reading waits for, under a steady writer */

struct reading_request {
    const struct scope *scopes;
    size_t count; /* 1 to READING_SCOPES_MAX */
    enum freshness_mode mode;
    uint64_t max_staleness_ns; /* bounded: how long ago the scope may have been found in step */
    uint64_t deadline_ns;
    bool may_block;  /* false: STATUS_WOULD_BLOCK instead of waiting or of looking at a volume that
                        can hang */
    unsigned thread; /* which of the store's readers is the caller's */
};

struct scope_report {
    enum scope_state state;
    bool in_index; /* `row` is set */
    struct index_scope row;
    bool looked; /* `live` is set */
    struct live_state live;
    bool has_age; /* stale: when the scope was last found in step is known */
    uint64_t age_ns;
    enum status problem; /* STATUS_OK, or why it is stale or unverified */
    struct error error;
};

struct reading {
    struct store *store;
    enum freshness_mode mode;     /* what was asked for */
    struct index_reader *reader;  /* between index_begin() and index_end() */
    struct scope_report *reports; /* one a scope, in the request's order */
    size_t count;
};

/* On STATUS_OK the snapshot is open until reading_end(). A scope that was never built and cannot be
 * is an error when it is the only one asked for: STATUS_CORRUPT (its manifest) or
 * STATUS_UNAVAILABLE. */
MUST_CHECK enum status reading_begin(struct store *store, const struct reading_request *request,
                                     struct reading *ret, struct error *error);
void reading_end(struct reading *reading);

#define AUTO_READING CLEANUP(reading_end)

#endif
