/* core/index_install.h - the only writer of rows. One thread (the install thread) calls it.
 *
 * The rule that carries the program: rows, seen entries, the synced mark, the manifest and the
 * generation of a scope change in ONE transaction. There is no state in which rows are replaced and
 * the signature is not, or the other way round.
 */
#ifndef MEMSYNC_CORE_INDEX_INSTALL_H
#define MEMSYNC_CORE_INDEX_INSTALL_H

#include "core/index.h"
#include "core/seen_entry.h"

struct index_row {
    const char *path; /* relative to the facts directory */
    const struct fact *fact;
};

/* One refresh's result. Pointers stay the caller's. */
struct index_change {
    const struct scope *scope;
    uint64_t expected_generation; /* compare-and-set; 0: the scope must not exist yet */
    bool replace_all;             /* drop every row and seen entry first */
    const struct index_row *put;  /* a row at a path replaces the one there */
    size_t put_count;
    const char *const *removed; /* paths whose row and seen entry go */
    size_t removed_count;
    const struct seen_entry *seen; /* inserted or replaced by path */
    size_t seen_count;
    struct synced_mark synced; /* known must be true */
    const char *manifest;      /* the bytes that `synced` is of; NULL: the bucket has none */
    size_t manifest_size;
    bool unmigrated; /* the bucket has layout-1 data */
};

enum install_outcome {
    INSTALL_DONE,
    INSTALL_LOST, /* the generation has moved: plan again */
};

/* Installs a refresh. On INSTALL_DONE `ret_generation` is the new generation (bumped only when rows
 * or seen entries changed). A scope that had no row at all gets one, also when it has no facts. */
MUST_CHECK enum status index_install_refresh(struct index *index, const struct index_change *change,
                                             enum install_outcome *ret, uint64_t *ret_generation,
                                             struct error *error);

/* Own writes: applies a delta only where it provably fits. */
struct index_own_write {
    const struct scope *scope; /* the mutated one; without rows when only summaries change */
    struct manifest_mark pre;  /* under the user's lock, before the commit */
    struct manifest_mark post; /* under the same lock, after it */
    const char *manifest;      /* the bytes that `post` is of; NULL: the bucket has none */
    size_t manifest_size;
    const struct index_row *put;
    size_t put_count;
    const char *const *removed;
    size_t removed_count;
    bool facts_changed; /* false: only summaries */
    bool was_empty;     /* the scope is known to have had no facts: then a scope without a row is in
                           step with `pre` */
};

enum own_write_outcome {
    OWN_WRITE_PROMOTED,        /* synced was pre: delta applied, synced is post */
    OWN_WRITE_ALREADY_CURRENT, /* synced was post: a refresh was faster */
    OWN_WRITE_FORGOTTEN,       /* anything else: no row touched, synced is unknown */
};

/* One transaction; the user's other scopes move from pre to post, with its manifest, or stay. Delta
 * rows get a seen entry without a stamp: the next refresh reads their files again, and removes them
 * when they are gone. What is forgotten keeps the manifest that its rows were built from. */
MUST_CHECK enum status index_install_own_write(struct index *index,
                                               const struct index_own_write *write,
                                               enum own_write_outcome *ret, struct error *error);

/* Drops the synced mark of a scope (no row changes, the generation and the manifest stay). */
MUST_CHECK enum status index_forget(struct index *index, const struct scope *scope,
                                    struct error *error);

/* The same for every scope of a bucket, after its files changed in a way that no revision proves
 * (a migration moves some after its commit). The generations move as well: a refresh that is under
 * way has perhaps read what was there before, and must not install it. */
MUST_CHECK enum status index_forget_bucket(struct index *index, const struct scope *scope,
                                           struct error *error);

/* Removes a scope with all its rows, e.g. when its user's directory is gone. Compare-and-set like a
 * refresh. */
MUST_CHECK enum status index_remove_scope(struct index *index, const struct scope *scope,
                                          uint64_t expected_generation, enum install_outcome *ret,
                                          struct error *error);

#endif
