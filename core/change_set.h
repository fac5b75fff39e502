/* core/change_set.h - what a caller asks to change of one agent's memory: facts to write, facts to
 * remove, summaries, and what must still be true for that.
 *
 * Pure. A set is checked when it is built; whether it fits the memory as it is decides
 * core/draft.h.
 */
#ifndef MEMSYNC_CORE_CHANGE_SET_H
#define MEMSYNC_CORE_CHANGE_SET_H

#include "core/scope.h"

#define CHANGE_SET_FACTS_MAX 100000

enum change_expectation {
    CHANGE_EXPECTS_ANYTHING, /* replaces what is there, or is new */
    CHANGE_EXPECTS_ABSENT,
    CHANGE_EXPECTS_REVISION,
};

struct change_upsert {
    json_t *fact;   /* a complete document (core/fact_normalise.h); owned */
    const char *id; /* points into it */
    bool
        has_own_revision; /* the caller's document had a `revision`, which must be the stored one */
    int64_t own_revision;
    enum change_expectation expects;
    int64_t revision; /* with CHANGE_EXPECTS_REVISION */
};

struct change_delete {
    char *id;
    bool has_revision;
    int64_t revision; /* the stored fact's */
};

struct change_set {
    struct change_upsert *upserts;
    size_t upsert_count, upsert_capacity;
    struct change_delete *deletes;
    size_t delete_count, delete_capacity;
    json_t *summaries; /* NULL, or {"user": {...}, "history": {...}}, each optional; owned */
    bool has_manifest_revision;
    int64_t manifest_revision;
    bool may_rebase; /* a stale manifest revision does not matter where the facts' own suffice */
};

void change_set_destroy(struct change_set *set);
#define AUTO_CHANGE_SET CLEANUP(change_set_destroy)

/* Adds a fact. `fact` is as a caller gives it; it is normalised for `scope` (STATUS_INVALID names
 * the field). The expectation is the document's own revision, or that the fact is new where it has
 * none; callers change the returned upsert as they know better. `ret` may be NULL; valid until the
 * next call. */
MUST_CHECK enum status change_set_add_upsert(struct change_set *set, const struct scope *scope,
                                             const json_t *fact, uint64_t wall_ns,
                                             struct change_upsert **ret, struct error *error);

/* Adds a fact that is complete already (borrowed), as it is, and that must not be there yet.
 * STATUS_INVALID when it has no id that a fact can have. */
MUST_CHECK enum status change_set_add_complete(struct change_set *set, json_t *fact,
                                               struct error *error);

/* Adds a removal; the id is copied. STATUS_INVALID: no id that a fact can have. */
MUST_CHECK enum status change_set_add_delete(struct change_set *set, const char *id,
                                             struct change_delete **ret, struct error *error);

/* Takes `summaries` (borrowed): an object whose members `user` and `history` are objects of
 * sections; other members are ignored. STATUS_INVALID. */
MUST_CHECK enum status change_set_set_summaries(struct change_set *set, const json_t *summaries,
                                                struct error *error);

/* Each id at most once, in upserts and deletes together; at most CHANGE_SET_FACTS_MAX facts. */
MUST_CHECK enum status change_set_check(const struct change_set *set, struct error *error);

/* True when only facts change, and every removal names the fact's revision: then a newer manifest
 * revision alone is no reason to refuse. */
bool change_set_can_rebase(const struct change_set *set);

#endif
