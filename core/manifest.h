/* core/manifest.h - memory.json: revision, summaries, and which layout it announces.
 *
 * Pure: no I/O. Unknown keys stay in the tree.
 */
#ifndef MEMSYNC_CORE_MANIFEST_H
#define MEMSYNC_CORE_MANIFEST_H

#include "core/json_text.h"
#include "core/signature.h"

#define MANIFEST_VERSION "2.0" /* what we write */
#define MANIFEST_BYTES_MAX (16u << 20)

enum manifest_layout {
    MANIFEST_LAYOUT_2, /* version "2.0", and no `facts` list or mapping inside */
    MANIFEST_LAYOUT_1, /* an earlier one (facts inside, as list or mapping, or only an old version):
                          the peers migrate it when they read it, we show it and leave it alone */
    MANIFEST_LAYOUT_NEWER, /* a major version above 2: read, never rewritten */
};

struct manifest {
    json_t *root; /* an object */
    int64_t revision;
    enum manifest_layout layout;
    uint64_t file_time_ns; /* the mtime of its file, where the reader has noted it; else 0 */
};

/* Parses a manifest. STATUS_CORRUPT for what is no JSON object and for a revision that is no number
 * within int64 by the peers' rule, int(value or 0): true is 1, "7" and " 8 " and "1_0" are numbers,
 * null, "", [] and {} are 0, 3.9 is 3, while other text, [1], NaN and infinities are refused.
 * STATUS_TOO_LARGE beyond MANIFEST_BYTES_MAX. The error's path is left alone. */
MUST_CHECK enum status manifest_parse(const char *bytes, size_t size, struct manifest *ret,
                                      struct error *error);

/* Whether a document names a version that is newer than what this program knows. */
bool manifest_is_newer(const json_t *root);

/* Finds just the revision, without building a tree, in a manifest of the usual shape; falls back on
 * manifest_parse(). Same result, same errors. */
MUST_CHECK enum status manifest_scan_revision(const char *bytes, size_t size, int64_t *ret,
                                              struct error *error);

/* The document of a user that has no manifest: version "1.0", revision 0, empty known summaries,
 * lastUpdated = `wall_ns`. Its layout is MANIFEST_LAYOUT_2: there is nothing to migrate. */
MUST_CHECK enum status manifest_create_empty(uint64_t wall_ns, struct manifest *ret);

/* The peers' document without facts: all keys of the manifest in their order (a `facts` member
 * left out), the revision as it stands there, or 0 as the last key. New reference; NULL without
 * memory. */
json_t *manifest_document(const struct manifest *manifest);

void manifest_destroy(struct manifest *manifest);
#define AUTO_MANIFEST CLEANUP(manifest_destroy)

#endif
