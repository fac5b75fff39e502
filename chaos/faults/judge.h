/* chaos/faults/judge.h - requests whose answers are looked at: is this right, or a proper error?
 *
 * What is wrong goes to the world's `problem`. Scenarios ask through these, with faults about.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_JUDGE_H
#define MEMSYNC_CHAOS_FAULTS_JUDGE_H

#include "chaos/faults/world.h"

#define SEARCH_ALL "{\"query\": \"note\", \"top_k\": 1000}"

/* A request that reads. An answer that says `fresh` or `refreshed` has just the facts that lie on
 * the volume, at its revision; any other those of one whole state that was. False: an error. */
bool judge_read(struct world *world, backend_method method, const char *scope, const char *params);

/* A request that writes to the world's first scope, whose contents are `after` then. When it is
 * answered they are on the volume. After an error they may be there as well where the error says
 * so; else nothing of it is. False: an error. */
bool judge_write(struct world *world, backend_method method, const char *params, const char *after);

/* The contents of the first scope, once nothing fails any more, are what they may be. */
void judge_contents(struct world *world);

/* What lies there now is what the first scope holds, unless a commit is half done. */
void judge_begin(struct world *world);

#endif
