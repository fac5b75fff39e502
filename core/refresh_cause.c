#include "core/refresh_cause.h"

const char *refresh_cause_name(enum refresh_cause cause)
{
    static const char *const names[REFRESH_CAUSE_COUNT] = {
        [REFRESH_CAUSE_SEARCH] = "search", [REFRESH_CAUSE_INOTIFY] = "inotify",
        [REFRESH_CAUSE_POLL] = "poll",     [REFRESH_CAUSE_PASS] = "pass",
        [REFRESH_CAUSE_WRITE] = "write",   [REFRESH_CAUSE_REQUEST] = "request",
        [REFRESH_CAUSE_SETTLE] = "settle", [REFRESH_CAUSE_RETRY] = "retry",
    };

    return names[cause];
}

const char *refresh_outcome_name(enum refresh_outcome outcome)
{
    static const char *const names[REFRESH_OUTCOME_COUNT] = {
        [REFRESH_INSTALLED] = "installed",
        [REFRESH_IN_STEP] = "in_step",
        [REFRESH_YIELDED] = "yielded",
        [REFRESH_FAILED] = "failed",
    };

    return names[outcome];
}
