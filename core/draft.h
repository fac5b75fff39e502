/* core/draft.h - an agent's memory as it will be after the changes of one commit.
 *
 * A draft starts from what lies on the volume, which it asks for piece by piece, and takes one
 * change set after the other: each wholly or not at all, each against what the earlier ones have
 * left. What a commit has to write is what differs in the end. Pure: what it needs comes from its
 * source. One thread at a time.
 */
#ifndef MEMSYNC_CORE_DRAFT_H
#define MEMSYNC_CORE_DRAFT_H

#include "core/change_set.h"
#include "core/manifest.h"

struct draft; /* opaque */

typedef enum status (*draft_fact_sink)(void *context, json_t *fact);

/* Where a draft learns what is there; both may fail with anything but STATUS_NOT_FOUND, except
 * `find`. */
struct draft_source {
    void *context;
    /* The stored fact: `ret` a new reference, `ret_path` (of SCOPE_PATH_MAX bytes) its place
     * relative to the bucket. STATUS_NOT_FOUND: there is none. STATUS_CORRUPT: a file lies there
     * that cannot be understood, and must stay. */
    enum status (*find)(void *context, const char *id, json_t **ret, char *ret_path,
                        struct error *error);
    /* Every stored fact, in the order of the ids. */
    enum status (*list)(void *context, draft_fact_sink sink, void *sink_context,
                        struct error *error);
    /* Stored facts whose content has this key (core/content_key.h), perhaps others too. */
    enum status (*find_content)(void *context, uint64_t key, draft_fact_sink sink,
                                void *sink_context, struct error *error);
    /* How many stored facts there are. */
    uint64_t (*count)(void *context);
    /* The notes on how the facts are used (core/side_data.h): an object, perhaps empty; new
     * reference, NULL without memory. */
    json_t *(*usage)(void *context);
};

struct draft_options {
    const struct scope *scope;
    bool has_agent;                  /* false: only summaries can be changed */
    const struct manifest *manifest; /* NULL: there is none */
    uint64_t wall_ns;
    struct draft_source source;
};

/* What the options point to must outlive it. STATUS_NO_MEMORY. */
MUST_CHECK enum status draft_create(const struct draft_options *options, struct draft **ret);
void draft_destroy(struct draft **draft);

static inline void cleanup_draft(struct draft **draft)
{
    draft_destroy(draft);
}
#define AUTO_DRAFT CLEANUP(cleanup_draft)

/* ---- looking ---- */

/* As the options had them. */
const struct scope *draft_scope(const struct draft *draft);

/* The time that all of this commit's changes carry. */
uint64_t draft_wall_ns(const struct draft *draft);

/* The manifest that it starts from, NULL when there is none, and its revision (0 then). */
const struct manifest *draft_manifest(const struct draft *draft);
int64_t draft_revision(const struct draft *draft);

/* A fact as it is by now; `ret` borrowed, valid until the next change. STATUS_NOT_FOUND;
 * STATUS_INVALID: no id of a fact, or the draft has no agent. */
MUST_CHECK enum status draft_find(struct draft *draft, const char *id, json_t **ret,
                                  struct error *error);

/* Every fact as it is by now: an array in the order of the ids; new reference. */
MUST_CHECK enum status draft_list(struct draft *draft, json_t **ret, struct error *error);

/* How many facts there are by now. */
uint64_t draft_count(const struct draft *draft);

/* The id of a fact with the same content, but for case and outer blanks; "" when there is none.
 * `ret_id` holds FACT_ID_MAX + 1 bytes. */
MUST_CHECK enum status draft_find_content(struct draft *draft, const char *content, size_t size,
                                          char *ret_id, struct error *error);

/* How the facts are used, for the capacity policy: an object by id; new reference. */
json_t *draft_usage(struct draft *draft);

/* ---- changing ---- */

struct draft_outcome {
    bool changed;
    json_t *upserted; /* an array of documents that differ from what was there; owned */
    json_t *deleted;  /* an array of ids that were there; owned */
};
void draft_outcome_destroy(struct draft_outcome *outcome);
#define AUTO_OUTCOME CLEANUP(draft_outcome_destroy)

/* Takes a change set, or refuses all of it: STATUS_CONFLICT with the members `reason`, `fact_id`,
 * `expected`, `current`; STATUS_INVALID; the source's errors. `ret_rebased` (may be NULL): its
 * manifest revision was an older one, and it did not matter. */
MUST_CHECK enum status draft_apply(struct draft *draft, const struct change_set *set,
                                   struct draft_outcome *ret, bool *ret_rebased,
                                   struct error *error);

/* Makes the next revision another one although no fact and no summary may change: the manifest
 * itself is to be written anew. */
void draft_touch(struct draft *draft);

/* The answer to a change that expects another manifest revision than the current one. */
enum status draft_manifest_conflict(int64_t expected, int64_t current, struct error *error);

/* True once a set has changed something: the next revision will be another one. */
bool draft_has_changed(const struct draft *draft);

/* ---- the result ---- */

struct draft_change {
    const char *id;
    const char *path; /* relative to the bucket */
    bool existed;
    const json_t *fact; /* NULL: it goes */
};

/* What differs from the beginning, sorted by id; the array is the caller's, the rest the draft's.
 */
MUST_CHECK enum status draft_changes(const struct draft *draft, struct draft_change **ret,
                                     size_t *ret_count);

/* Calls `sink` for each fact that was looked at and stays as it was, in the order of the ids:
 * `stored` is NULL for one that is not there, and `path` then where it would be. */
typedef void (*draft_kept_sink)(void *context, const char *id, const char *path,
                                const json_t *stored);
void draft_each_kept(const struct draft *draft, draft_kept_sink sink, void *context);

/* The summaries that were named, to be merged into the manifest; NULL when there are none.
 * Borrowed.
 */
const json_t *draft_summaries(const struct draft *draft);

#endif
