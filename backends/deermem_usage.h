/* backends/deermem_usage.h - how facts are used: search hits on their way to the volume.
 *
 * Only where the capacity policy weighs use (hybrid-v1, or its shadow). Searches leave their hits
 * in memory; a thread writes them to the agents' side data every few seconds, under the user's
 * lock. What cannot be written is dropped and told: no search and no write ever waits for it.
 */
#ifndef MEMSYNC_BACKENDS_DEERMEM_USAGE_H
#define MEMSYNC_BACKENDS_DEERMEM_USAGE_H

#include "core/searcher.h"
#include "core/writer.h"

struct deermem_usage; /* opaque; thread-safe */

/* Starts the thread. `writer` must outlive it. */
MUST_CHECK enum status deermem_usage_start(struct writer *writer, double half_life_days,
                                           struct deermem_usage **ret, struct error *error);

/* Writes what is left, and joins the thread. NULL is fine. False: it hangs and has not ended by the
 * deadline (CLOCK_NEVER: none); nothing was released. */
MUST_CHECK bool deermem_usage_stop(struct deermem_usage **usage, uint64_t deadline_ns);

/* Notes the hits of a search. Cheap. */
void deermem_usage_note(struct deermem_usage *usage, const struct scope *scopes,
                        const struct search_result *found);

#endif
