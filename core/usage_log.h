/* core/usage_log.h - search hits, kept until somebody has time to write them to the volume.
 *
 * A search must not wait for a user's lock, so it only leaves its hits here. Memory is bounded:
 * when there is too much, the oldest hits go. Thread-safe; the mutex is a leaf, and nothing is
 * copied, allocated or freed under it.
 */
#ifndef MEMSYNC_CORE_USAGE_LOG_H
#define MEMSYNC_CORE_USAGE_LOG_H

#include "core/scope.h"
#include "core/side_data.h"

struct usage_log; /* opaque */

/* Keeps about `bytes_max` bytes. STATUS_NO_MEMORY. */
MUST_CHECK enum status usage_log_create(size_t bytes_max, struct usage_log **ret);
void usage_log_destroy(struct usage_log **log);

/* Notes that a search of a scope found these facts. Everything is copied. What there is no room or
 * no memory for is dropped. */
void usage_log_add(struct usage_log *log, const struct scope *scope, const char *const *fact_ids,
                   size_t count, uint64_t at_ns);

/* What was noted of one scope, in the order in which it was; valid during the call. */
typedef void (*usage_sink)(void *context, const struct scope *scope, const struct usage_hit *hits,
                           size_t count);

/* Takes everything out and calls `sink` for each scope, a user's scopes one after the other, with
 * no mutex held. Without memory for that all of it is dropped. */
void usage_log_drain(struct usage_log *log, usage_sink sink, void *context);

/* Hits that were dropped since the log was made. */
uint64_t usage_log_dropped(struct usage_log *log);

#endif
