/* core/fact_normalise.h - a fact as a caller gives it becomes the document that is stored.
 *
 * The rules are the peers' (docs/volume-format.md, "How this program writes"); what they only find
 * out when they read is refused here. Pure, but for the random bits of a made-up id.
 */
#ifndef MEMSYNC_CORE_FACT_NORMALISE_H
#define MEMSYNC_CORE_FACT_NORMALISE_H

#include "core/scope.h"

/* Gives the complete document of `input`, in the order in which reading the file will give it:
 * `id`, the other members as they came, defaults (dates: `wall_ns`), title, content, scope. Without
 * an id, or with an empty one, it gets one made up. `scope`, `user_id` and `agent_name` in the
 * input do not count: `scope` says where it goes. STATUS_INVALID: the message names the member. The
 * input is left alone; the caller owns the result, which shares nothing with it. */
MUST_CHECK enum status fact_normalise(const json_t *input, const struct scope *scope,
                                      uint64_t wall_ns, json_t **ret, struct error *error);

/* True when two documents are equal apart from `revision` and `updatedAt`: writing the one over the
 * other would change nothing. */
bool fact_same_material(const json_t *a, const json_t *b);

#endif
