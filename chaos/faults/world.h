/* chaos/faults/world.h - a scratch volume with its peer, an index, and the agent's backend on them.
 *
 * The backend is the agent's own table, made and ended as the agent does it. In the place of its
 * keeper, whose watcher would come round whenever it likes, one thread does what searches wait for
 * (the linker sends keeper_start() and its like here, see the Makefile), so that a run goes the
 * same way each time.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_WORLD_H
#define MEMSYNC_CHAOS_FAULTS_WORLD_H

#include "backends/deermem.h"
#include "chaos/faults/truth.h"

#define WORLD_STATES_MAX 24
#define WORLD_CANDIDATES_MAX 4

/* A whole state that the memory of a scope had. */
struct world_state {
    const char *scope;
    struct truth truth;
};

struct world {
    struct temp_volume *volume;
    char index_directory[PATH_MAX];
    struct backend *backend;   /* NULL: the agent does not run */
    const char *const *scopes; /* that the scenario is about; the first is written */
    bool is_fault_expected;    /* a call may fail */
    bool must_be_fresh;        /* and none may tell of it */
    unsigned errors;           /* calls that failed */
    struct world_state states[WORLD_STATES_MAX];
    size_t state_count;
    /* What the first scope may hold in the end, by its contents; one after a write that succeeded.
     */
    char candidates[WORLD_CANDIDATES_MAX][TRUTH_TEXT_MAX];
    size_t candidate_count;
    char problem[2048]; /* the first thing that was wrong; "" for none */
};

void world_create(struct world *ret, const char *const *scopes);
void world_destroy(struct world *world);

/* Says what is wrong, unless something was before. */
void world_fails(struct world *world, const char *format, ...) PRINTF(2, 3);

/* ---- the agent; with faults ---- */

enum status world_open(struct world *world);
void world_close(struct world *world);
/* What the agent's watcher does each second: is this our volume, is this our index? */
void world_watch(struct world *world);
/* Waits until no refresh is under way: one that began while calls failed may end after that, and
 * whoever joined it would be told of a failure that is over. */
void world_rest(struct world *world);

/* The runs that were asked for in the background, and the second looks whose time comes. */
void world_settle(struct world *world);

struct world_answer {
    enum status status;
    struct error error;
    json_t *result; /* owned; NULL unless the status is OK */
};
struct world_answer world_call(struct world *world, backend_method method, const char *scope,
                               const char *params);
void world_answer_destroy(struct world_answer *answer);
#define AUTO_ANSWER CLEANUP(world_answer_destroy)

/* ---- what is remembered; without faults ---- */

/* Remembers the states of all scopes, as they are now, as whole ones. */
void world_remember(struct world *world);
bool world_remembers(const struct world *world, const char *scope, int64_t revision,
                     const char *facts);

#endif
