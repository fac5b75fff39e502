/* chaos/explorer/world.h - one small volume, the agents that work on it, and what is known about
 * both: every version that the volume has had, with its facts.
 *
 * The judge looks at the files after each step that changed some. A version begins when another
 * manifest lies there; its facts are those that lie there at that moment, since every writer puts
 * the manifest last. What anybody claims is held against that.
 */
#ifndef MEMSYNC_CHAOS_WORLD_H
#define MEMSYNC_CHAOS_WORLD_H

#include "chaos/explorer/memory.h"
#include "core/searcher.h"
#include "core/writer.h"

#define WORLD_AGENTS_MAX 3
#define WORLD_USERS 3
#define WORLD_SCOPES 4
#define WORLD_SCOPES_BUILT 2 /* in step from the start */
#define WORLD_SCOPES_USED 3  /* the last one's rows are only there to be kept out of answers */
#define WORLD_VERSIONS_MAX 32
#define WORLD_SPANS_MAX 128
#define WORLD_OPS_MAX 8
#define WORLD_READERS 8

/* Who is there from the start: u/a (f1, f2), u/b (g1), v/a (h1). n/a is nobody's yet. */
extern const char *const world_users[WORLD_USERS];   /* "u", "v", "n" */
extern const char *const world_scopes[WORLD_SCOPES]; /* "u/a", "u/b", "n/a", "v/a" */

struct world_agent {
    unsigned process; /* from 1 */
    char index_directory[PATH_MAX];
    struct store *store;
    struct writer *writer;
    struct index_reader *checker;
    bool is_dead;
    uint64_t seen_generation[WORLD_SCOPES];
    uint64_t seen_digest[WORLD_SCOPES];
};

/* What somebody set out to change, in one commit. */
struct world_op {
    const char *user, *agent;
    const struct temp_change *changes; /* TEMP_SUMMARY: facts stay as they are */
    size_t count;
    bool is_own;      /* by an agent's writer: several may share a commit */
    unsigned process; /* whose; every peer has a number of its own */
    unsigned version; /* that it has made, + 1; 0: none yet */
    bool acknowledged, refused;
    bool is_behind;   /* it was told that the index follows later */
    int64_t revision; /* as it was told */
};

struct world_version {
    int64_t revision; /* 0: there is no manifest */
    uint64_t digest;
    struct memory memory;
    unsigned parent; /* the version before it, + 1; 0: it was there from the start */
    bool is_committed;
};

struct world_span {
    unsigned version;
    unsigned from, to; /* steps; `to` of the last one is now */
};

struct world_user {
    struct world_version versions[WORLD_VERSIONS_MAX];
    unsigned version_count;
    struct world_span spans[WORLD_SPANS_MAX];
    unsigned span_count;
    uint64_t manifest_inode;
};

struct world_options {
    unsigned agents; /* that are open from the start */
    bool locks_work;
    enum store_locks locks; /* what the agents are told of them */
};

struct world {
    char directory[PATH_MAX];
    struct temp_volume *volume;
    struct world_options options;
    struct world_agent agents[WORLD_AGENTS_MAX];
    unsigned agent_count;
    struct world_op ops[WORLD_OPS_MAX];
    unsigned op_count;
    struct world_user users[WORLD_USERS];
    unsigned reasons_to_refresh; /* at the most; forgotten own writes are others */
    struct text failure;         /* what was found wrong first; empty: nothing */
};

/* Makes what every world begins with, once for the program, below `directory`. */
void world_prepare(const char *directory);
void world_forget(void);

void world_open(const struct world_options *options, struct world *ret);
void world_close(struct world *world);

/* Another agent on the same index as one that has died: its files as they are now. */
struct world_agent *world_reopen(struct world *world, const struct world_agent *dead);

/* The op of somebody who is about to begin. */
struct world_op *world_add_op(struct world *world, const struct world_op *op);

/* Says what is wrong; only the first time counts. */
void world_fail(struct world *world, const char *format, ...) PRINTF(2, 3);
bool world_has_failed(const struct world *world);

/* ---- the judge ---- */

/* After every step: files against versions, rows against versions. */
void world_check_step(struct world *world);

/* What a search has answered. `since` is the step in which it began. */
void world_check_search(struct world *world, const char *user, const char *agent,
                        const struct search_result *result, unsigned since, int64_t *last_revision);

/* When everybody has ended: one refresh of what is out of step, and then all is equal. */
void world_check_end(struct world *world);

/* The user's version that is live now. */
const struct world_version *world_live(const struct world *world, const char *user);

#endif
