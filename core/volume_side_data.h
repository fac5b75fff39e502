/* core/volume_side_data.h - the side data of an agent on the volume: agents/<agent>/.metadata/.
 *
 * `bucket_fd` is the user's open directory and `agent` the name of a directory below its agents/.
 * The caller holds the user's lock exclusively for all that writes. What is not there is learnt
 * from listings where look-ups are not safe. Files are replaced atomically and durably.
 *
 * None of it is canonical: the caller logs a failure and goes on. Paths in errors are relative to
 * the bucket. A file that is malformed or beyond SIDE_DATA_BYTES_MAX counts as empty:
 * `ret_malformed` becomes true then and is left alone else. Each may also fail with what the
 * volume's calls fail with, and STATUS_NO_MEMORY.
 */
#ifndef MEMSYNC_CORE_VOLUME_SIDE_DATA_H
#define MEMSYNC_CORE_VOLUME_SIDE_DATA_H

#include "core/side_data.h"
#include "core/volume.h"

/* Reads fact-usage.json; an empty object when there is none. The caller owns `ret`. */
MUST_CHECK enum status volume_usage_read(const struct volume *volume, int bucket_fd,
                                         const char *agent, json_t **ret, bool *ret_malformed,
                                         struct error *error);

/* Counts search hits, oldest first. Those whose fact has no file in its shard are left out; when
 * none is left nothing is written. */
MUST_CHECK enum status volume_usage_add(const struct volume *volume, int bucket_fd,
                                        const char *agent, const struct usage_hit *hits,
                                        size_t count, double half_life_days, bool *ret_malformed,
                                        struct error *error);

/* Appends an entry to eviction-audit.json and drops the oldest beyond `entries_max`, or beyond
 * SIDE_DATA_BYTES_MAX; with 0 nothing is written. The reference stays the caller's. */
MUST_CHECK enum status volume_audit_add(const struct volume *volume, int bucket_fd,
                                        const char *agent, json_t *entry, size_t entries_max,
                                        bool *ret_malformed, struct error *error);

/* Drops what is told of deleted facts; files that became empty go, and then the directory when
 * nothing else is in it. A malformed file is left as it is. */
MUST_CHECK enum status volume_side_data_forget(const struct volume *volume, int bucket_fd,
                                               const char *agent, const char *const *fact_ids,
                                               size_t count, bool *ret_malformed,
                                               struct error *error);

/* Removes the directory and the files in it. `ret_left`: it holds something else and stays. */
MUST_CHECK enum status volume_side_data_clear(const struct volume *volume, int bucket_fd,
                                              const char *agent, bool *ret_left,
                                              struct error *error);

#endif
