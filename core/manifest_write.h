/* core/manifest_write.h - the next memory.json of a bucket.
 *
 * The peers' layout: version, revision, lastUpdated, user, history, then whatever else was there.
 * Unknown keys stay, at the top (where a peer's next commit drops them) and in the sections; each
 * key is written once; `facts` of an earlier layout goes. Pure: no I/O.
 *
 * `summaries` is NULL or an object whose members `user` and `history` are objects (or null, or
 * missing): each member of theirs replaces the one of that name, all others stay. Other members are
 * left aside.
 */
#ifndef MEMSYNC_CORE_MANIFEST_WRITE_H
#define MEMSYNC_CORE_MANIFEST_WRITE_H

#include "core/manifest.h"

/* Renders the manifest that follows `base` (NULL: there is none) and appends it to `ret`.
 * `revision` is the new one, `wall_ns` becomes lastUpdated. STATUS_INVALID names the member of
 * `summaries` that is no object or holds half of a surrogate pair, which the peers could not write
 * again, and comes for what no reader takes (nested deeper than JSON_TEXT_DEPTH_MAX);
 * STATUS_UNSUPPORTED for a base of MANIFEST_LAYOUT_NEWER; STATUS_TOO_LARGE beyond
 * MANIFEST_BYTES_MAX. On failure `ret` is as it was. */
MUST_CHECK enum status manifest_write(const struct manifest *base, const json_t *summaries,
                                      int64_t revision, uint64_t wall_ns, struct text *ret,
                                      struct error *error);

/* Would merging `summaries` give something else than merging `others`? Either may be NULL. True
 * also for what manifest_write() refuses, so that it comes to that, and when memory ran out. */
bool manifest_summaries_differ(const struct manifest *base, const json_t *others,
                               const json_t *summaries);

/* Would merging `summaries` change anything? */
bool manifest_summaries_change(const struct manifest *base, const json_t *summaries);

/* `summaries` that empty every section of `user` and `history` that has a summary: it and updatedAt
 * become "", all else in it stays. New reference; NULL without memory. */
json_t *manifest_blank_summaries(const struct manifest *base);

/* True for the sections of "user" and "history" that every manifest has, and that all programs read
 * as objects. */
bool manifest_section_is_known(const char *part, const char *name);

#endif
