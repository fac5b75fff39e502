/* core/search_tally.h - what searches have come to, counted: how many, how long, and why an answer
 * could not be called fresh.
 *
 * A zeroed struct search_tally is empty and valid. Thread-safe: relaxed additions, no lock.
 */
#ifndef MEMSYNC_CORE_SEARCH_TALLY_H
#define MEMSYNC_CORE_SEARCH_TALLY_H

#include "core/histogram.h"
#include "core/reading.h"

enum stale_reason {
    STALE_NOT_COMPARED, /* as the search wished: `local`, or `bounded` and lately in step */
    STALE_CHANGING,     /* it changed faster than it could be followed, or the time was up */
    STALE_BUSY,         /* somebody writes */
    STALE_TIMEOUT,      /* the deadline passed before the volume had answered */
    STALE_SUSPENDED,    /* the volume is gone, or is another one than before */
    STALE_UNAVAILABLE,  /* the volume did not answer, or the scope is still being read */
    STALE_DENIED,
    STALE_CORRUPT, /* what lies there cannot be understood */
    STALE_OTHER,
};
#define STALE_REASON_COUNT (STALE_OTHER + 1)

/* "not_compared", "changing", "busy", "timeout", "suspended", "unavailable", "denied", "corrupt",
 * "other" */
const char *stale_reason_name(enum stale_reason reason);

/* Why a scope that is stale or unverified is so. `suspended`: see struct store. */
enum stale_reason stale_reason_of(const struct scope_report *report, bool suspended);

#define SEARCH_STATE_COUNT (SCOPE_UNVERIFIED + 1)

struct search_tally {
    _Atomic uint64_t by_state[SEARCH_STATE_COUNT]; /* that of the scope which is worth least */
    _Atomic uint64_t failed;
    _Atomic uint64_t by_reason[STALE_REASON_COUNT]; /* scopes */
    struct histogram duration;                      /* of all of them */
};

/* A search has been answered, from these scopes. */
void search_tally_answered(struct search_tally *tally, const struct scope_report *reports,
                           size_t count, bool suspended, uint64_t took_ns);

/* A search has ended in an error. */
void search_tally_failed(struct search_tally *tally, uint64_t took_ns);

#endif
