/* core/legacy_fact.h - one fact of a version 1 list as a document of today. Pure. */
#ifndef MEMSYNC_CORE_LEGACY_FACT_H
#define MEMSYNC_CORE_LEGACY_FACT_H

#include "core/status.h"

/* Whose fact it becomes. */
struct legacy_owner {
    const char *user; /* the raw id; NULL without a user */
    const char *agent;
    const char *date; /* stands in for dates that the fact lacks */
};

/* Converts one entry of a list of facts. STATUS_CORRUPT with a constant text in `ret_problem` for
 * one that the peers would not take over. `made_up` is an object that the caller keeps for one
 * list: it counts equal facts without ids, so that each gets an id of its own. New reference. */
MUST_CHECK enum status legacy_fact_convert(const json_t *fact, const struct legacy_owner *owner,
                                           json_t *made_up, json_t **ret, const char **ret_problem);

/* {"userId": ..., "agentName": ...}; NULL without memory. */
json_t *legacy_fact_scope(const struct legacy_owner *owner);

#endif
