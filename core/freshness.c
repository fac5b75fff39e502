#include "core/freshness.h"

#include "core/compiler.h"
#include "core/mutant.h"

#include <string.h>

static const char *const mode_names[] = {
    [FRESHNESS_STRICT] = "strict",
    [FRESHNESS_BOUNDED] = "bounded",
    [FRESHNESS_LOCAL] = "local",
};

static const char *const state_names[] = {
    [SCOPE_FRESH] = "fresh",
    [SCOPE_REFRESHED] = "refreshed",
    [SCOPE_STALE] = "stale",
    [SCOPE_UNVERIFIED] = "unverified",
};

bool freshness_mode_from_name(const char *name, enum freshness_mode *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
        if (strcmp(name, mode_names[i]) == 0) {
            *ret = (enum freshness_mode) i;
            return true;
        }
    }
    return false;
}

const char *freshness_mode_name(enum freshness_mode mode)
{
    return mode_names[mode];
}

const char *scope_state_name(enum scope_state state)
{
    return state_names[state];
}

bool freshness_in_step(const struct synced_mark *synced, uint64_t facts,
                       const struct live_state *live, bool inodes_stable)
{
    if (live->mark.signature.absent)
        return live->bare && facts == 0;
    if (MUTANT(STAT_ONLY))
        return synced->known && synced->mark.signature.mtime_ns == live->mark.signature.mtime_ns &&
               synced->mark.signature.size == live->mark.signature.size;
    if (!synced->known || !signature_equal(&synced->mark.signature, &live->mark.signature))
        return false;
    if (!inodes_stable)
        return true;
    return synced->mark.inode == live->mark.inode && synced->mark.ctime_ns == live->mark.ctime_ns;
}
