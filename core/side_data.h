/* core/side_data.h - the peers' notes on an agent's facts: how much they are used, and what was
 * evicted.
 *
 * Neither is canonical: what is malformed counts as empty, and nothing may fail for want of it.
 * Entries and members that this program does not know are kept. Pure; one owner.
 */
#ifndef MEMSYNC_CORE_SIDE_DATA_H
#define MEMSYNC_CORE_SIDE_DATA_H

#include "core/capacity.h"
#include "core/text.h"

#define SIDE_DATA_BYTES_MAX (16u << 20) /* of either file */
#define AUDIT_ENTRIES_DEFAULT 200u
#define AUDIT_ENTRIES_MAX 10000u

/* ---- fact-usage.json: an object from fact id to {accessHeat, accessCount, lastAccessedAt} ---- */

/* Reads the file's bytes. What is no such object gives an empty one, and `ret_malformed`. Only
 * STATUS_NO_MEMORY is a failure. The caller owns `ret`. */
MUST_CHECK enum status usage_parse(const char *bytes, size_t size, json_t **ret,
                                   bool *ret_malformed);

struct usage_hit {
    const char *fact_id;
    uint64_t at_ns; /* the wall clock */
};

/* Counts a search hit: the heat that is left by now, and 1. Heat without a sound time is forgotten.
 * A time that is later than the hit stays. STATUS_NO_MEMORY. */
MUST_CHECK enum status usage_count_hit(json_t *usage, const struct usage_hit *hit,
                                       double half_life_days);

/* Drops the entries of these facts; true when there were any. */
bool usage_forget(json_t *usage, const char *const *fact_ids, size_t count);

/* ---- eviction-audit.json: a list of evictions, newest last; it never tells a content ---- */

/* As usage_parse(). */
MUST_CHECK enum status audit_parse(const char *bytes, size_t size, json_t **ret,
                                   bool *ret_malformed);

/* What a choice evicted. All pointers are the caller's. */
struct eviction {
    uint64_t at_ns;
    const struct capacity_policy *policy;
    const struct capacity_fact *facts;
    const struct capacity_choice *choice; /* by the policy's rule */
    const struct capacity_choice *shadow; /* of the same facts by hybrid-v1, or NULL */
};

/* An entry of the list; NULL: out of memory. */
json_t *audit_entry_create(const struct eviction *eviction);

/* Appends an entry (the reference stays the caller's) and drops the oldest beyond `entries_max`.
 * With 0 the list stays as it is. STATUS_NO_MEMORY. */
MUST_CHECK enum status audit_append(json_t *audit, json_t *entry, size_t entries_max);

/* Drops what is told of these facts, and entries that told of nothing else; `ret_changed` tells
 * whether there was anything. STATUS_NO_MEMORY: part of it may be left. */
MUST_CHECK enum status audit_forget(json_t *audit, const char *const *fact_ids, size_t count,
                                    bool *ret_changed);

/* ---- both ---- */

/* Renders either as the peers do. STATUS_TOO_LARGE above SIDE_DATA_BYTES_MAX, STATUS_NO_MEMORY. */
MUST_CHECK enum status side_data_render(const json_t *value, struct text *ret);

/* True when nothing is left in it, so that the file can go. */
bool side_data_is_empty(const json_t *value);

#endif
