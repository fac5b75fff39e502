#include "core/search_tally.h"

const char *stale_reason_name(enum stale_reason reason)
{
    static const char *const names[STALE_REASON_COUNT] = {
        [STALE_NOT_COMPARED] = "not_compared",
        [STALE_CHANGING] = "changing",
        [STALE_BUSY] = "busy",
        [STALE_TIMEOUT] = "timeout",
        [STALE_SUSPENDED] = "suspended",
        [STALE_UNAVAILABLE] = "unavailable",
        [STALE_DENIED] = "denied",
        [STALE_CORRUPT] = "corrupt",
        [STALE_OTHER] = "other",
    };

    return names[reason];
}

enum stale_reason stale_reason_of(const struct scope_report *report, bool suspended)
{
    switch (report->problem) {
    case STATUS_OK:
        return report->looked ? STALE_CHANGING : STALE_NOT_COMPARED;
    case STATUS_BUSY:
        return STALE_BUSY;
    case STATUS_TIMEOUT:
        return STALE_TIMEOUT;
    case STATUS_UNAVAILABLE:
        return suspended ? STALE_SUSPENDED : STALE_UNAVAILABLE;
    case STATUS_DENIED:
        return STALE_DENIED;
    case STATUS_CORRUPT:
        return STALE_CORRUPT;
    default:
        return STALE_OTHER;
    }
}

static void add_one(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

void search_tally_answered(struct search_tally *tally, const struct scope_report *reports,
                           size_t count, bool suspended, uint64_t took_ns)
{
    enum scope_state worst = SCOPE_FRESH;

    for (size_t i = 0; i < count; i++) {
        enum scope_state state = reports[i].state;
        if (state > worst)
            worst = state;
        if (state == SCOPE_STALE || state == SCOPE_UNVERIFIED)
            add_one(&tally->by_reason[stale_reason_of(&reports[i], suspended)]);
    }
    add_one(&tally->by_state[worst]);
    histogram_observe(&tally->duration, took_ns);
}

void search_tally_failed(struct search_tally *tally, uint64_t took_ns)
{
    add_one(&tally->failed);
    histogram_observe(&tally->duration, took_ns);
}
